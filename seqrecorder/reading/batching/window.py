"""`Window`, sliding windows over the steps of each record."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Literal

import attrs
import numpy as np

from seqrecorder.codec.graph_ops import of_all_rows
from seqrecorder.codec.parse import Parser, length_name
from seqrecorder.dataset.splits_in_time import steps_before, time_field, time_of
from seqrecorder.errors import OptionError
from seqrecorder.reading.batching.bucket import rows_of, with_end
from seqrecorder.reading.batching.step_slices import buffered_apart, cut_batches, groups_of_steps, only_needed
from seqrecorder.reading.batching.strategy import Batches, Carried, Strategy, not_negative, one_of, positive
from seqrecorder.reading.cardinality import batch_count
from seqrecorder.reading.derived_fields import Shift
from seqrecorder.reading.order_and_seeds import draw_below
from seqrecorder.reading.tfdata_ops import rebatched, scanned
from seqrecorder.storage.processes_and_signals import cores

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seqrecorder.reading.batching.step_slices import Parsed
    from seqrecorder.reading.batching.strategy import Feed
    from seqrecorder.schema.schema import Schema


_FAR = 1 << 40  # position of a step beyond the end of every record
_RECORDS = 256  # records per plan; fewer than in other strategies, because a record may give thousands of windows


def _have_ended(times: NDArray[Any], steps: NDArray[np.int64], since: Any) -> NDArray[np.bool_]:
    """Mark the records whose next step would still be before `since`.

    The next step is assumed to follow after the largest gap between the steps of the record. Records with fewer than
    two steps are not marked.
    """
    record, gaps = np.repeat(np.arange(steps.size), steps), np.diff(times)
    inside = record[1:] == record[:-1]
    widest, ended = np.zeros(steps.size, gaps.dtype), steps > 1
    np.maximum.at(widest, record[1:][inside], gaps[inside])
    ended[ended] = times[np.cumsum(steps)[ended] - 1] + widest[ended] < since
    return ended


@attrs.frozen
class Window(Strategy):
    """Batches of sliding windows of `length` steps, cut in the same way from all feature lists, never across records.

    A window starts every `shift` steps and contains every `stride`-th step, as in `tf.data.Dataset.window`, where
    `length` is called `size`. Windows come record by record; if records are shuffled, the windows of up to 256 records
    (or 16 MiB) are mixed at random.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> from seqrecorder.reading.batching.window import Window
    >>> @sr.record
    ... class Series:
    ...     x: np.ndarray = sr.feature_list("int64")
    >>> corpus = tempfile.mkdtemp()
    >>> _ = sr.write([Series([1, 2, 3, 4, 5]), Series([6, 7])], corpus)
    >>> for batch in sr.read(corpus, batch=Window(3, shift=2, tail="pad")):
    ...     print(batch["x"].numpy().tolist(), batch["sequence_length"].numpy().tolist())
    [[1, 2, 3], [3, 4, 5], [6, 7, 0]] [3, 3, 2]
    >>> for batch in sr.read(corpus, batch=Window(2, horizon=1, shift=1, tail="drop")):
    ...     print(batch["x"].numpy().tolist(), batch["x_horizon"].numpy().tolist())
    [[1, 2], [2, 3], [3, 4]] [[3], [4], [5]]

    Feature lists are `(B, length, ...)`, padded with zeros or empty text; context fields are repeated for each window.
    Batches also contain two int64 tensors `(B,)`: `sequence_length`, the number of real steps in each window, and
    `window_index`, the index of the window in its record. A `horizon` adds `<field>_horizon` for each feature list,
    `(B, horizon, ...)`: the steps after the window. `horizon_length` is the number of real steps in it.

    With a fixed `shift`, windows may always start at the same point of a cycle: with `shift=7` and daily data, all
    windows of a record start on the same day of the week. `jitter` varies the starts in each epoch. All draws depend on
    the `seed` of `read`, even if records are not shuffled.

    Records are parsed once in groups of up to 256, and batches are gathered from these. A checkpoint contains the
    serialized records of the current group, and 24 bytes for each of their windows.

    Attributes:
        length: number of steps in a window; each window is one row of the batch.
        shift: number of steps from the start of a window to the start of the next; None for `length`, so that windows
            do not overlap (if `stride` is 1).
        stride: distance between consecutive steps of a window.
        batch_size: windows per batch; default: 32, as in Keras.
        horizon: number of steps to return after each window, as the target of a forecast.
        gap: number of steps between a window and its horizon, for forecasts with a lead time. These steps are also
            `stride` apart.
        jitter: maximum number of steps by which to move each window at random, forwards or backwards. All moves are
            equally likely, but no window is moved beyond the start or the end of its record.
        max_windows: maximum number of windows per record and epoch, drawn at random, so that long records do not
            outweigh short ones; None for all windows.
        tail: treatment of the end of a record. `"keep"` returns every window with at least one step, as
            `tf.data.Dataset.window` does; `"pad"` stops after the first window that reaches the last step; `"drop"`
            leaves out windows that are not full or have no full horizon. Windows without any horizon step are always
            left out, unless `future` is set.
        future: whether to also return windows whose horizon lies partly or wholly in the future, to make forecasts.
            `horizon_length` then counts its known steps. With `shift=1`, there is always a window that ends at the last
            step; otherwise only if `shift` divides the number of steps before that window.
        pad: side of the padding, `"end"` or `"start"`. With `"start"`, windows are full, as with `tail="drop"`. But a
            record that is too short gives one window, padded at the front so that the window, with its horizon, ends
            with the record.
        time: name of the feature list with the time of each step, for `since` and `until`. The times of all records are
            read once before the first batch.
        since: earliest time at which a horizon may start; the window itself may be earlier. The first horizon of a
            record starts at the first step at or after this time that has a full window before it (with `pad="start"`,
            at least one step). `shift` counts from that window. Without a horizon, `since` applies to the first step of
            a window that the previous window lacks; windows without such a step are left out.
        until: time before which a horizon must start. With `future`, a horizon wholly in the future is accepted if no
            step of its record is at or after `until`. But a record counts as ended, and gives no windows, if its next
            step would be before `since` even after the largest gap between its steps.
        drop_remainder: whether to drop the last batch of an epoch if it is smaller.
        length_name: name of the tensor with the number of real steps in each window.
        mask_name: name of the mask of real steps, bool `(B, length)`; None for no mask.
        seed_name: name of the tensor with the random seed of each window's record, int32 `(B, 2)`; see `Pad`.
    """

    length: int = attrs.field(validator=positive)
    shift: int | None = attrs.field(default=None, validator=positive, kw_only=True)
    stride: int = attrs.field(default=1, validator=positive, kw_only=True)
    batch_size: int = attrs.field(default=32, validator=positive, kw_only=True)
    horizon: int = attrs.field(default=0, validator=not_negative, kw_only=True)
    gap: int = attrs.field(default=0, validator=not_negative, kw_only=True)
    jitter: int = attrs.field(default=0, validator=not_negative, kw_only=True)
    max_windows: int | None = attrs.field(default=None, validator=positive, kw_only=True)
    tail: Literal["keep", "pad", "drop"] = attrs.field(
        default="keep", validator=one_of("keep", "pad", "drop"), kw_only=True
    )
    future: bool = attrs.field(default=False, kw_only=True)
    pad: Literal["end", "start"] = attrs.field(default="end", validator=one_of("end", "start"), kw_only=True)
    time: str | None = attrs.field(default=None, kw_only=True)
    since: Any = attrs.field(default=None, kw_only=True)
    until: Any = attrs.field(default=None, kw_only=True)
    drop_remainder: bool = attrs.field(default=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        for name in ("gap", "future"):
            if getattr(self, name) and not self.horizon:
                raise OptionError(f"{name}: is about the horizon after a window; give horizon, too")
        if self.pad == "start" and self.tail == "pad":
            raise OptionError("pad='start': pads at the front, and tail='pad' at the end; leave one of them out")
        if (self.time is None) != (self.since is None and self.until is None):
            raise OptionError("time: goes with since, until or both, which are times of that field")

    @property
    def distance(self) -> int:
        """Number of steps from the start of a window to the start of the next."""
        return self.length if self.shift is None else self.shift

    def carried(self, schema: Schema) -> Carried:
        """Describe the tensors that batches contain in addition to fields and lengths."""
        lists = [field.name for field in schema.fields if field.is_list] if self.horizon else []
        after = {f"{name}_horizon": name for name in lists}
        more = {"horizon_length": None} if lists else {}
        left = frozenset(schema.groups[:1] if self.pad == "start" else ())
        return Carried({**after, **more, "window_index": None}, dict.fromkeys(after, "horizon_length"), left=left)

    @property
    def _draws(self) -> bool:
        return self.jitter > 0 or self.max_windows is not None

    @property
    def _known(self) -> int:
        """Number of steps that must follow a full window."""
        return 0 if self.future else self.gap + self.horizon

    def room(self, lengths: Any) -> Any:
        """Compute the last step at which a window with a full horizon can start.

        The result is negative if no such window fits into the record.
        """
        return lengths - ((self.length + self._known - 1) * self.stride + 1)

    @property
    def _offset(self) -> int:
        """Number of steps from the start of a window to its horizon.

        Without a horizon, the first step that the previous window does not contain takes its place.
        """
        if self.horizon:
            return (self.length + self.gap) * self.stride
        return -(-max((self.length - 1) * self.stride + 1 - self.distance, 0) // self.stride) * self.stride

    def _first(self, lengths: Any, spans: Any, xp: Any) -> Any:
        """Return the start of the first window of each record; see `counts` for the arguments."""
        least = (1 - self.length) * self.stride if self.pad == "start" else 0  # leaves one real step
        if self.since is not None:
            return xp.maximum(spans[:, 0] - self._offset, least)
        return xp.maximum(xp.minimum(self.room(lengths), 0), least)

    def _stop(self, lengths: Any, spans: Any, xp: Any) -> Any:
        """Compute the end of the range of steps at which the windows of each record may start.

        The end is not part of the range; see `counts` for the arguments.
        """
        endless = xp.where(spans[:, 1] < lengths, spans[:, 1], _FAR) if self.future else spans[:, 1]
        return endless - self._offset

    def counts(self, lengths: Any, xp: Any, spans: Any = None) -> Any:
        """Count the windows of each record, before `max_windows` applies.

        Args:
            lengths: int64 `(n,)`, an array or a tensor.
            xp: module of `lengths`, numpy or TensorFlow.
            spans: int64 `(n, 2)`, number of steps before `since` and before `until`; None without `time`.
        """
        shift, first = self.distance, self._first(lengths, spans, xp)
        left = lengths - first
        starts = -(-left // shift)
        if self.horizon and not self.future:  # each window needs a step to forecast
            starts = xp.maximum(-(-(left - self._offset) // shift), 0)
        room = self.room(left)
        if self.tail == "drop" or self.pad == "start":
            starts = xp.maximum(room // shift + 1, 0)
        elif self.tail == "pad":
            starts = xp.minimum(starts, xp.maximum(-(-room // shift), 0) + 1)
        if spans is None:
            return starts
        return xp.minimum(starts, xp.maximum(-(-(self._stop(lengths, spans, xp) - first) // shift), 0))

    def read(self, feed: Feed) -> Batches:
        """Read batches of windows.

        Raises:
            OptionError: a field cannot be cut.
        """
        group, feed = self._prepare(feed)
        if self.stride > 1 and any(isinstance(derivation, Shift) for derivation in feed.parser.derivations):
            raise OptionError(
                f"Window: with stride={self.stride} the next step of a record is not that of a window; leave steps out "
                f"of the records instead: steps=slice(None, None, {self.stride})"
            )

        apart = buffered_apart(feed)

        def windows(stream: Any, number: Any) -> Any:
            plans, width = self._plans(feed, stream, number, alone=bool(apart)), self.length + self.horizon
            assemble = functools.partial(self._assemble, group)
            return cut_batches(feed, plans, self.batch_size, width, assemble, whole=self.drop_remainder, apart=apart)

        counts = self._counts(feed, group)
        streamed = feed.stream(windows, group=group, draw=self._draws)
        if counts is None:
            return Batches(streamed, -1)
        drawn = int((counts if self.max_windows is None else np.minimum(counts, self.max_windows)).sum())
        return Batches(streamed, batch_count(drawn, self.batch_size, drop_remainder=self.drop_remainder))

    def _prepare(self, feed: Feed) -> tuple[str, Feed]:
        """Determine the alignment group to cut, and prepare the feed.

        With `time`, the feed gets the spans of its records.
        """
        group = groups_of_steps(self, feed.parser.schema)[0]
        if self.time is None:
            return group, feed
        return group, attrs.evolve(feed, options=attrs.evolve(feed.options, spans=self._spans(feed, group)))

    def _spans(self, feed: Feed, group: str) -> NDArray[np.int64]:
        """Count the steps of each record before `since`, and those before `until`.

        The result is int64 `(n, 2)`, in the order of the files.
        """
        origin = feed.origin
        if isinstance(self.time, str) and (count := origin.schema[self.time].count) > 1:
            raise OptionError(f"time: expected one time for each step that is cut, got {count} in {self.time!r}")
        field = time_field(origin.schema, self.time, "time")
        if not field.is_list or field.group != group:
            raise OptionError(f"time: expected a feature list aligned with the steps that are cut, got {field!r}")
        rule = origin.manifest.splitting.time if origin.manifest else None
        if self.since is not None and rule and rule["straddling"] == "cut":
            raise OptionError(
                f"since: windows look back over that time, and the series of {origin.where} were cut where its splits "
                "begin (straddling='cut'): read whole series, written without splits, and give since and until instead"
            )
        if origin.records < 0:
            raise OptionError("time: check='none' leaves the positions of records unknown; leave `check` out")
        parser = Parser(origin.schema.select([field.name]), origin.layout, feed.parser.crops, origin.record)

        def times(serialized: Any) -> tuple[Any, Any]:
            column = parser.parse_columns(serialized)[0][field.name]
            return column.values, of_all_rows(column, column.steps)

        edges = [(name, getattr(self, name)) for name in ("since", "until")]
        bounds = [None if value is None else time_of(field, value, name) for name, value in edges]
        parts, done = [np.empty((0, 2), np.int64)], 0
        # Read all records, file after file.
        origin = attrs.evolve(origin, files=[attrs.evolve(file, step=1) for file in origin.files])
        options = attrs.evolve(feed.options, shuffle=0, epochs=1, limits=(), deal=None, oversampling=None, known=None)
        windows = attrs.evolve(feed, origin=origin, options=options).stream(lambda read, _: read.map(times, cores()))
        for values, steps in windows.as_numpy_iterator():
            positions = range(done, done + steps.size)
            own = values.astype(field.element.numpy)
            before = steps_before(own, steps, bounds, field.name, positions)
            if self.future and self.since is not None:
                before[_have_ended(own, steps, bounds[0]), 1] = 0
            parts.append(before)
            done += steps.size
        return np.concatenate(parts)

    def _counts(self, feed: Feed, group: str) -> NDArray[np.int64] | None:
        """Count the windows of each record, or return None if the lengths are not stored.

        The number of records without windows is logged.
        """
        lengths = feed.lengths(group, parse=False)
        if lengths is None:
            return None
        counts: NDArray[np.int64] = self.counts(lengths, np, feed.spans(group))
        empty = lengths == 0
        feed.count_left_out(int((empty & (counts == 0)).sum()), "no steps")
        few = int((~empty & (counts == 0)).sum())
        feed.count_left_out(few, f"{'too short' if self.time is None else 'no window'} for {self}")
        return counts

    def shapes(self, feed: Feed) -> Any:
        """Compute the shapes of batches (see `Strategy`)."""
        import tensorflow as tf

        def shape(_: Any, lengths: Any, rows: Any, places: Any) -> Any:
            number = tf.range(tf.size(rows, tf.int64)) // self.batch_size
            inside = self._inside(places)
            real = tf.math.count_nonzero(inside < tf.gather(lengths, rows)[:, tf.newaxis], 1)
            # One line per row: 1, its steps and its real steps. The sum of the lines of a batch is its shape.
            lines = tf.stack([tf.ones_like(real), tf.fill(tf.shape(real), tf.constant(self.length, tf.int64)), real], 1)
            return tf.math.segment_sum(lines, number)

        group, feed = self._prepare(feed)
        self._counts(feed, group)
        plans = feed.stream(lambda stream, number: self._plans(feed, stream, number), group=group, draw=self._draws)
        return plans.map(shape)

    def _plans(self, feed: Feed, stream: Any, number: Any, *, alone: bool = False) -> Any:
        return plan_windows(
            rebatched(stream, feed.origin.window(_RECORDS)),
            lambda lengths, spans, index: self._locate(lengths, spans, number, index),
            self.batch_size,
            seed=number if feed.options.shuffle else None,
            drop_remainder=self.drop_remainder,
            alone=alone,
        )

    def _locate(self, lengths: Any, spans: Any, number: Any, index: Any) -> tuple[Any, Any]:
        """Locate the windows in their records.

        The first result is the record of each window, int64 `(m,)`. The second is int64 `(m, 2)`: the index of each
        window in its record, and the first step of the window.
        """
        import tensorflow as tf

        many = self.counts(lengths, tf, spans)
        rows = tf.repeat(tf.range(tf.size(many, tf.int64)), many)
        indices = rows_of(tf.zeros_like(many), many)
        if self.max_windows is not None:
            # Put all windows in random order, and keep the first `max_windows` of each record.
            figures = draw_below(tf.fill(tf.shape(rows), tf.constant(1 << 40, tf.int64)), number, index)
            order = tf.argsort(figures)
            order = tf.gather(order, tf.argsort(tf.gather(rows, order), stable=True))
            drawn = tf.sort(tf.boolean_mask(order, indices < self.max_windows))
            rows, indices = tf.gather(rows, drawn), tf.gather(indices, drawn)
        least = tf.gather(self._first(lengths, spans, tf), rows)
        starts = least + indices * self.distance
        if self.jitter:
            room = self.room(lengths)
            rest = max(self._known - self.gap, 1) * self.stride - self.stride + 1  # no horizon moves beyond `until`
            room = tf.gather(room if spans is None else tf.minimum(room, self._stop(lengths, spans, tf) - rest), rows)
            first = tf.maximum(starts - self.jitter, least)
            last = tf.maximum(tf.minimum(starts + self.jitter, room), starts)
            starts = first + draw_below(last - first + 1, number, index, purpose=1)
        return rows, tf.stack([indices, starts], 1)

    def _inside(self, places: Any) -> Any:
        """Compute the positions of the steps of each window, int64 `(m, length)`.

        Steps before the start of the record get the position `_FAR`, which is beyond the end of every record.
        """
        import tensorflow as tf

        inside = places[:, 1:] + tf.range(self.length, dtype=tf.int64) * self.stride
        return inside if self.pad == "end" else tf.where(inside < 0, tf.constant(_FAR, tf.int64), inside)

    def _assemble(self, group: str, records: Parsed, rows: Any, places: Any) -> dict[str, Any]:
        import tensorflow as tf

        first = self.length + self.gap
        inside = self._inside(places)
        after = places[:, 1:] + tf.range(first, first + self.horizon, dtype=tf.int64) * self.stride
        total = tf.gather(records.lengths, rows)[:, tf.newaxis]
        values = records.fields(rows, inside)
        if self.horizon:
            values |= {f"{name}_horizon": steps.gather(rows, after) for name, steps in records.lists.items()}
            values["horizon_length"] = tf.math.count_nonzero(after < total, 1)
        values["window_index"] = places[:, 0]
        values[length_name(group)] = tf.math.count_nonzero(inside < total, 1)
        return values


def plan_windows(
    windows: Any, locate: Any, batch_size: int, *, seed: Any, drop_remainder: bool, alone: bool = False
) -> Any:
    """Plan whole batches of slices (see `cut_batches`).

    The slices that remain wait for the next window of records.

    Args:
        windows: finite `tf.data.Dataset` of `(serialized: string [w], lengths: int64 [w])`; with spans, lengths are
            `[w, 3]`: the length and the two numbers of the span.
        locate: function that takes the lengths, the spans and the index of a window of records. It returns the record
            of each slice, int64 `(m,)`, and two numbers that identify the slice, int64 `(m, 2)`.
        batch_size: rows per batch.
        seed: int64 scalar, seed of the random order of the slices of a window; None to keep their order.
        drop_remainder: whether to drop the last batch if it is smaller.
        alone: whether to plan each window of records independently, so that no record is copied from one to the next;
            the last batch of each may be smaller.
    """
    import tensorflow as tf

    def step(carried: Any, window: Any) -> Any:
        (old, old_lengths, rows, places, number), (serialized, lengths, last) = carried, window
        lengths, spans = (lengths[:, 0], lengths[:, 1:]) if has_spans else (lengths, None)
        new_rows, new_places = locate(lengths, spans, number)
        new_rows += tf.size(old, tf.int64)
        if seed is not None:
            key = tf.stack([seed, number])
            order = tf.random.experimental.stateless_shuffle(tf.range(tf.size(new_rows)), key, alg="philox")
            new_rows, new_places = tf.gather(new_rows, order), tf.gather(new_places, order)
        if alone:
            return (old, old_lengths, rows, places, number + 1), (serialized, lengths, new_rows, new_places)
        serialized, lengths = tf.concat([old, serialized], 0), tf.concat([old_lengths, lengths], 0)
        rows, places = tf.concat([rows, new_rows], 0), tf.concat([places, new_places], 0)
        size = tf.size(rows, tf.int64)
        now = tf.where(last, size, size // batch_size * batch_size)
        kept = only_needed(serialized, lengths, rows[now:])
        return (*kept, places[now:], number + 1), (*only_needed(serialized, lengths, rows[:now]), places[:now])

    nothing, none = tf.zeros([0], tf.string), tf.zeros([0], tf.int64)
    has_spans = tf.nest.flatten(windows.element_spec)[1].shape.rank > 1
    start = nothing, none, none, tf.zeros([0, 2], tf.int64), tf.zeros([], tf.int64)
    return scanned(with_end(windows, end=not drop_remainder), start, step)
