"""`Window`: sliding windows over the steps of each record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import attrs
import numpy as np

from seqrecorder.codec.graph_ops import index_range, joined, rows_at
from seqrecorder.codec.parse import SEQUENCE_LENGTH, length_name
from seqrecorder.errors import OptionError
from seqrecorder.reading.batching.step_slices import check_names, cut_batches, group_of_steps, only_needed
from seqrecorder.reading.elements import Carried, Shift
from seqrecorder.reading.strategy import (
    AHEAD_BYTES,
    Batches,
    batch_count,
    log_once,
    not_negative,
    one_of,
    positive,
)
from seqrecorder.reading.stream import draw_below, permutation
from seqrecorder.reading.tfdata_ops import beside, flat_mapped, mapped, one_element, rebatched, scanned, undealt
from seqrecorder.schema.display import number_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from numpy.typing import NDArray

    from seqrecorder.reading.batching.step_slices import Parsed
    from seqrecorder.reading.strategy import Feed
    from seqrecorder.schema.schema import Schema

if TYPE_CHECKING:
    Plan = Callable[[Any, "Turn"], tuple[Any, Any]]


@attrs.frozen
class Turn:
    """What a plan knows of a window beside its lengths, as scalar tensors.

    Attributes:
        index: int64: how many windows of the epoch came before.
        last: bool: whether the epoch has ended. Then there is no window: all rows are leftovers.
        number: int64: stands for the order of the epoch.
    """

    index: Any
    last: Any
    number: Any


def in_turns(windows: Any, number: Any = None) -> Any:
    """Return the windows of one epoch as `plan_batches` takes them: each says that it is not the last, an end is.

    >>> import tensorflow as tf
    >>> windows = tf.data.Dataset.from_tensor_slices((["a", "b"], tf.constant([1, 2], tf.int64))).batch(2)
    >>> [bool(last) for _, _, last, _ in in_turns(windows)]
    [False, True]

    Args:
        windows: a finite `tf.data.Dataset` of `(serialized: tf.string [w], lengths: tf.int64 [w])`, in
            stream order; `w` may differ from window to window, and may be 0.
        number: stands for the order of the epoch: int64 scalar; None where nothing is drawn.

    Returns:
        A `tf.data.Dataset` of `(serialized, lengths, last: bool, number: int64)`.
    """
    import tensorflow as tf

    none = tf.zeros([], tf.int64)
    nothing = tf.zeros([0], tf.string), tf.zeros([0], tf.int64)
    if number is None:
        return mapped(windows, lambda *window: (*window, False, none)).concatenate(at_end((*nothing, True, none)))
    # Within the function of an epoch nothing is dealt to others (see `at_end`), which spares two functions.
    flat = (*windows.element_spec, tf.TensorSpec([], tf.bool), tf.TensorSpec([], tf.int64))
    number = tf.convert_to_tensor(number, tf.int64)
    turns = beside(windows, one_element((tf.zeros([], tf.bool), number)).repeat(), flat)
    return turns.concatenate(one_element((*nothing, tf.ones([], tf.bool), number)))


@attrs.frozen(eq=False)
class PlannedBatch:
    """An element of a `tf.data.Dataset`: which records form a batch, and where they are.

    Attributes:
        sources: a variant scalar: a list of two string vectors, a whole window and what was left over before it.
        rows: int64, `(b,)`: the rows of the batch in the first; or in the second, counted down from -1.
        lengths: int64, `(b,)`.
    """

    sources: Any
    rows: Any
    lengths: Any

    def serialized(self) -> Any:
        """Return the records, string `(b,)`."""
        return _taken(self.sources, self.rows)


def plan_batches(
    turns: Any,
    plan: Plan,
    key: Hashable,
    *,
    batch_size: int | None = None,
    permute: bool = False,
    ahead: bool = True,
) -> Any:
    """Return the batches into which `plan` divides the rows of each window and of the leftovers before it.

    Nothing but the leftovers and the number of windows seen is carried on, so memory is bounded by two windows (the
    next is planned ahead) and the leftovers, and an iterator can be saved with `tf.train.Checkpoint(iterator=...)`
    before any batch.

    All epochs are one stream. Made inside the function of a `flat_map` over epochs, the functions of this stage would
    be instantiated again for each epoch.

    Args:
        turns: a `tf.data.Dataset` of epochs of windows, as `in_turns` gives them.
        plan: a traceable function of the lengths (leftovers first) and the turn. It returns the rows in the
            order in which they leave, and the sizes of the batches (0 for none). Rows in no batch are left
            over for the next window, in that order; after the last they are dropped.
        key: all that the plan is made of: equal plans are traced once in a process.
        batch_size: the one size of all batches, when that is certain: it becomes their static shape.
        permute: whether the rows of each window are put in an order drawn from the number of the epoch first.
        ahead: whether the next window is planned while batches of this one are parsed.

    Returns:
        A `tf.data.Dataset` of `PlannedBatch`.
    """
    import tensorflow as tf

    def step(carried: Any, turn: Any) -> Any:
        (held, held_lengths, index), (serialized, lengths, last, number) = carried, turn
        first, zero = tf.size(held, tf.int64), tf.constant(0, tf.int64)
        lengths_ = joined(held_lengths, lengths)
        drawn_rows = None
        if permute:
            arrived = index_range(first + tf.size(lengths, tf.int64), first)
            drawn_rows = joined(index_range(first), permutation(number, index, arrived))
            lengths_ = rows_at(lengths_, drawn_rows)
        rows, sizes = plan(lengths_, Turn(index, last, number))
        sizes = tf.cast(sizes, tf.int64)
        leaving = tf.raw_ops.Sum(input=sizes, axis=0)
        lengths_ = rows_at(lengths_, rows)
        order = tf.cast(rows, tf.int64) if drawn_rows is None else rows_at(drawn_rows, rows)
        order = tf.raw_ops.SelectV2(condition=order < first, t=tf.bitwise.invert(order), e=order - first)
        # Rows are kept for the next window, but after the last they are dropped.
        rest = tf.size(order, tf.int64) - leaving
        kept = tf.raw_ops.SelectV2(condition=last, t=zero, e=rest)
        parts = tf.raw_ops.Pack(values=[leaving, kept, rest - kept])
        planned_lengths, left_lengths, _ = _split(lengths_, parts, 3)
        planned, later, _ = _split(order, parts, 3)
        sources = _listed(serialized, held)
        following = tf.raw_ops.SelectV2(condition=last, t=zero, e=index + 1)
        return (_taken(sources, later), left_lengths, following), (sources, planned, planned_lengths, sizes)

    def cut(sources: Any, rows: Any, lengths: Any, sizes: Any) -> Any:
        # `rebatched` needs no function for each batch, and slices without copying.
        parts = one_element((rows, lengths))
        if batch_size is not None:
            batches = rebatched(parts, batch_size, drop_remainder=True)
        else:
            # The sizes may be none; the rows end with the last of them.
            some = tf.dynamic_partition(sizes, tf.cast(sizes > 0, tf.int32), 2)[1]
            batches = rebatched(parts, joined(some, tf.constant([1], tf.int64)))
        spec = PlannedBatch(tf.TensorSpec([], tf.variant), *batches.element_spec)
        return beside(one_element(sources).repeat(), batches, spec)

    state = (tf.constant([], tf.string), tf.constant([], tf.int64), tf.constant(0, tf.int64))
    planned = scanned(turns, state, step, key=("plan", key, permute))
    return flat_mapped(planned.prefetch(1) if ahead else planned, cut, key=("cut", batch_size))


def _split(vector: Any, sizes: Any, parts: int) -> Any:
    """Return parts of a vector, of given sizes."""
    import tensorflow as tf

    return tf.raw_ops.SplitV(value=vector, size_splits=sizes, axis=0, num_split=parts)


def _taken(sources: Any, rows: Any) -> Any:
    """Return rows of a window and of what was left over (see `PlannedBatch`)."""
    import tensorflow as tf

    def source(index: Any) -> Any:
        return tf.raw_ops.TensorListGetItem(
            input_handle=sources, index=index, element_shape=tf.constant([-1]), element_dtype=tf.string
        )

    # All are taken from one vector first, and those left over are written into it then: the others are copied once.
    none = tf.raw_ops.Max(input=rows, axis=0) < 0
    left = tf.bitwise.invert(rows)
    taken = rows_at(source(tf.cast(none, tf.int32)), tf.raw_ops.SelectV2(condition=none, t=left, e=tf.maximum(rows, 0)))
    others = tf.where(rows < 0)
    updates = rows_at(source(tf.constant(1)), tf.gather_nd(left, others))
    return tf.raw_ops.TensorScatterUpdate(tensor=taken, indices=others, updates=updates)


def _listed(*vectors: Any) -> Any:
    """Return a list of string vectors, as a variant scalar."""
    import tensorflow as tf

    listed = tf.raw_ops.EmptyTensorList(element_shape=[-1], max_num_elements=len(vectors), element_dtype=tf.string)
    for vector in vectors:
        listed = tf.raw_ops.TensorListPushBack(input_handle=listed, tensor=vector)
    return listed


def at_end(element: Any) -> Any:
    """Return a `tf.data.Dataset` of one element, to follow a stream and to say that it has ended.

    Under tf.data's service each source is dealt among the workers, so that an element of its own would reach one of
    them alone, and the others would keep back what they hold. Random numbers are a source that is not dealt.
    """
    return mapped(undealt().take(1), lambda _: element)


def sort_rows(lengths: Any, multiple: int, *, keep_rest: Any) -> tuple[Any, Any]:
    """Return the rows with the oldest sorted by length, and how many those are.

    Args:
        lengths: int64, `(n,)`, in the order of arrival.
        multiple: the largest multiple of it is sorted, and the newest rows stay behind where they are.
        keep_rest: bool scalar: sort all rows.

    Returns:
        `(rows: int64 [n], sorted: int64 scalar)`. Rows of one length stay in the order of arrival.
    """
    import tensorflow as tf

    n = tf.size(lengths, tf.int64)
    planned = tf.where(keep_rest, n, n // multiple * multiple)
    rows = tf.cast(tf.argsort(lengths[:planned], stable=True), tf.int64)
    return tf.concat([rows, tf.range(planned, n)], 0), planned


def drawn(starts: Any, sizes: Any, turn: Turn) -> tuple[Any, Any]:
    """Return the batches, given by their starts and their sizes, in the order drawn for this window.

    Args:
        starts: int64, `(m,)`.
        sizes: int64, `(m,)`.
        turn: which window it is.
    """
    import tensorflow as tf

    # The algorithm is named so that the order is the same on every device.
    key = tf.stack([turn.number, turn.index])
    order = tf.argsort(tf.random.stateless_uniform(tf.shape(sizes), key, alg="philox"), stable=True)
    return tf.gather(starts, order), tf.gather(sizes, order)


def order_of(keys: Any) -> tuple[Any, Any]:
    """Return the rows in ascending order of int32 keys, those of one key in the order of arrival; and their keys."""
    import tensorflow as tf

    negative, rows = tf.raw_ops.TopKV2(input=-keys, k=tf.size(keys))
    return rows, -negative


def rows_of(starts: Any, sizes: Any) -> Any:
    """Return the concatenation of `range(start, start + size)`, int64."""
    import tensorflow as tf

    return tf.ragged.range(starts, starts + sizes).flat_values


# Consecutive records --------------------------------------------------------------------------------------------------


@attrs.frozen
class Consecutive:
    """Batches of consecutive records.

    Attributes:
        batch_size: records to a batch.
        drop_remainder: whether the last batch is dropped where it is smaller.
        drop_empty: whether records without steps in the first alignment group are left out.
    """

    batch_size: int
    drop_remainder: bool
    drop_empty: bool

    def batches(self, feed: Feed, group: str | None = None) -> Any:
        """Return batches whose elements `parts_of` takes apart.

        Where records are shuffled, the rows of a window stay where they are until their batch is parsed: to permute
        them at once would copy every record in turn.

        Args:
            feed: the records.
            group: an alignment group whose lengths are wanted.
        """
        size = self.batch_size
        drop = self._drops(feed)
        group = feed.group() if drop else group
        options: dict[str, Any] = {"multiple": size, "group": group, "drop_empty": drop}
        if feed.options.shuffle <= 1:
            return feed.stream(
                lambda windows, _: rebatched(windows, size, drop_remainder=self.drop_remainder), **options
            )

        def in_order(windows: Any, number: Any) -> Any:
            windows = windows if group else mapped(windows, _without_lengths)
            return in_turns(windows, number)

        def plan(lengths: Any, turn: Turn) -> tuple[Any, Any]:
            import tensorflow as tf

            n = tf.size(lengths, tf.int64)
            rows, whole = index_range(n), n // size * size
            planned = whole if self.drop_remainder else tf.where(turn.last, n, whole)
            starts = tf.range(0, planned, size, tf.int64)
            return rows, tf.minimum(planned - starts, size)

        turns = feed.turns(in_order, permute=False, **options)
        key = ("consecutive", size, self.drop_remainder)
        static = size if self.drop_remainder else None
        # To read a second window of the largest would keep the first batch waiting; batches are parsed ahead anyway.
        return plan_batches(turns, plan, key, batch_size=static, permute=True, ahead=feed.permuted_bytes <= AHEAD_BYTES)

    def count(self, feed: Feed) -> int:
        """Return how many batches an epoch has, -1 where that is not known."""
        records = feed.kept(group=feed.group(), drop_empty=True) if self._drops(feed) else feed.records
        return batch_count(records, self.batch_size, drop_remainder=self.drop_remainder)

    def serialized(self, feed: Feed) -> Any:
        """Return a `tf.data.Dataset` of the serialized records of each batch."""
        return self.batches(feed).map(lambda *batch: parts_of(*batch)[0])

    def _drops(self, feed: Feed) -> bool:
        return self.drop_empty and bool(feed.origin.schema.groups)


def _without_lengths(serialized: Any) -> tuple[Any, Any]:
    """Return a window whose lengths nobody asks for."""
    import tensorflow as tf

    return serialized, tf.zeros_like(serialized, tf.int64)


def parts_of(batch: Any, *lengths: Any) -> tuple[Any, ...]:
    """Return the serialized records of an element of `Consecutive.batches`, and their lengths where these came."""
    return (batch.serialized(), batch.lengths) if isinstance(batch, PlannedBatch) else (batch, *lengths)


_RECORDS = 256  # fewer than other strategies hold, since each of them may give thousands of windows


@attrs.frozen
class Window:
    """Batches of windows of `length` steps, over all feature lists at once and never across records.

    A window begins every `shift` steps and holds every `stride`-th step from there on, as by `tf.data.Dataset.window`,
    which calls the length `size`. The windows of a record follow each other; where records are shuffled, the windows
    of up to 256 records (or 16 MiB of them) are permuted too.

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

    Feature lists are `(B, length, ...)`, padded with zeros (empty text); context fields are repeated for each window.
    Batches carry, beside the fields, `sequence_length`, the true steps of each window, and `window_index`, its number
    in its record: int64 `(B,)`. With a `horizon`, which continues the window by as many steps, `<field>_horizon` holds
    them for each feature list, `(B, horizon, ...)`, and `horizon_length` how many of them are true.

    Windows at fixed distances see fixed phases only: with `shift=7`, of daily data, each begins on the same day of the
    week. With `jitter` they see all, others in every epoch. The `seed` of `read` decides what is drawn, whether records
    are shuffled or not.

    The records held together are parsed once; each batch is a gather from them. Beside those records, a checkpoint
    holds 24 bytes for each of their windows.

    Attributes:
        length: steps of a row, which is a window.
        shift: distance of the windows; None is `length`, so that they do not overlap.
        stride: distance of the steps inside of a window; the distance of windows is `shift`.
        batch_size: windows to a batch; Keras' own default.
        horizon: steps after each window that come with it, to forecast.
        gap: steps that are left out between the last of a window and the first of its horizon, for forecasts that are
            needed so long before; `stride` apart, as all of them are.
        jitter: how many steps a window may start earlier or later than it would. Every distance is equally likely, as
            far as the record reaches: no window begins before it, or loses a step by it.
        max_windows: how many windows of a record come in an epoch, drawn at random where it has more, so that long
            records do not outweigh short ones; None is all.
        tail: where a record ends: `"keep"` gives every window that has a step, as `tf.data.Dataset.window` does;
            `"pad"` stops after the first window that reaches the last step; `"drop"` leaves out windows that are not
            full, or whose horizon is not. Whichever it is, with a horizon there is no window without a step of that.
        drop_remainder: whether the last batch of an epoch is dropped where it is smaller.
        length_name: name under which batches carry the true steps of each window.
        mask_name: name under which batches carry a mask, bool `(B, length)`, true for real steps; None for no mask.
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
    drop_remainder: bool = attrs.field(default=False, kw_only=True)
    length_name: str = attrs.field(default=SEQUENCE_LENGTH, kw_only=True)
    mask_name: str | None = attrs.field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.gap and not self.horizon:
            raise OptionError("gap: steps between a window and its horizon; give horizon too")

    @property
    def distance(self) -> int:
        """Steps from the start of a window to that of the next."""
        return self.length if self.shift is None else self.shift

    def carried(self, schema: Schema) -> Carried:
        """Return what batches carry beside the fields of a schema and their lengths."""
        lists = [field.name for field in schema.fields if field.is_list] if self.horizon else []
        after = {f"{name}_horizon": name for name in lists}
        more = {"horizon_length": None} if lists else {}
        return Carried({**after, **more, "window_index": None}, dict.fromkeys(after, "horizon_length"))

    @property
    def _draws(self) -> bool:
        return self.jitter > 0 or self.max_windows is not None

    def room(self, lengths: Any) -> Any:
        """Return the last step of a record at which a window can start that is full, as is its horizon."""
        return lengths - ((self.length + self.gap + self.horizon - 1) * self.stride + 1)

    def counts(self, lengths: Any, xp: Any) -> Any:
        """Return how many windows records of these lengths have, before some are drawn.

        Args:
            lengths: int64, an array or a tensor.
            xp: numpy or TensorFlow, whichever the lengths are of.
        """
        shift = self.distance
        starts = -(-lengths // shift)
        if self.horizon:  # a window has something to forecast
            starts = xp.maximum(-(-(lengths - (self.length + self.gap) * self.stride) // shift), 0)
        room = self.room(lengths)
        if self.tail == "keep":
            return starts
        if self.tail == "drop":
            return xp.maximum(room // shift + 1, 0)
        return xp.minimum(starts, xp.maximum(-(-room // shift), 0) + 1)

    def read(self, feed: Feed) -> Batches:
        """Return batches of windows.

        Raises:
            OptionError: a field cannot be cut, or has the name of something that batches carry.
        """
        group = group_of_steps(self, feed.parser.schema)
        check_names(self, feed.parser.schema, self.carried(feed.parser.schema).names)
        if self.stride > 1 and any(isinstance(derivation, Shift) for derivation in feed.parser.derivations):
            raise OptionError(
                f"Window: with stride={self.stride} the next step of a record is not that of a window; leave steps out "
                f"of the records instead: steps=slice(None, None, {self.stride})"
            )

        def windows(stream: Any, number: Any) -> Any:
            return cut_batches(
                feed,
                self._plans(feed, stream, number),
                self.batch_size,
                self.length + self.horizon,
                lambda *part: self._assemble(group, *part),
                whole=self.drop_remainder,
            )

        lengths = feed.lengths(group, parse=False)
        without = 0 if lengths is None else int((self.counts(lengths, np) == 0).sum())
        if without:
            log_once(f"{feed.origin.where}: {number_of(without, 'record')} left out: too short for {self!r}")
        streamed = feed.stream(windows, group=group, draw=self._draws)
        return Batches(streamed, -1 if lengths is None else self._batches(lengths))

    def shapes(self, feed: Feed) -> Any:
        """Return a `tf.data.Dataset` of the shapes of batches (see `Strategy`)."""
        import tensorflow as tf

        def shape(_: Any, lengths: Any, rows: Any, places: Any) -> Any:
            number = tf.range(tf.size(rows, tf.int64)) // self.batch_size
            inside = places[:, 1:] + tf.range(self.length, dtype=tf.int64) * self.stride
            real = tf.math.count_nonzero(inside < tf.gather(lengths, rows)[:, tf.newaxis], 1)
            # One row, its steps and its real steps, summed up by batch.
            lines = tf.stack([tf.ones_like(real), tf.fill(tf.shape(real), tf.constant(self.length, tf.int64)), real], 1)
            return tf.math.segment_sum(lines, number)

        group = group_of_steps(self, feed.parser.schema)
        plans = feed.stream(lambda stream, number: self._plans(feed, stream, number), group=group, draw=self._draws)
        return plans.map(shape)

    def _plans(self, feed: Feed, stream: Any, number: Any) -> Any:
        return plan_windows(
            rebatched(stream, feed.origin.window(_RECORDS)),
            lambda lengths, index: self._place(lengths, number, index),
            self.batch_size,
            seed=number if feed.options.shuffle else None,
            drop_remainder=self.drop_remainder,
        )

    def _place(self, lengths: Any, number: Any, index: Any) -> tuple[Any, Any]:
        """Return the record of each window, int64 `(m,)`, and its number in it and first step, int64 `(m, 2)`."""
        import tensorflow as tf

        many = self.counts(lengths, tf)
        rows = tf.repeat(tf.range(tf.size(many, tf.int64)), many)
        indices = rows_of(tf.zeros_like(many), many)
        if self.max_windows is not None:
            # Those of a record that come first in a random order of all.
            figures = draw_below(tf.fill(tf.shape(rows), tf.constant(1 << 40, tf.int64)), number, index)
            order = tf.argsort(figures)
            order = tf.gather(order, tf.argsort(tf.gather(rows, order), stable=True))
            drawn = tf.sort(tf.boolean_mask(order, indices < self.max_windows))
            rows, indices = tf.gather(rows, drawn), tf.gather(indices, drawn)
        starts = indices * self.distance
        if self.jitter:
            room = tf.gather(self.room(lengths), rows)
            first = tf.maximum(starts - self.jitter, 0)
            last = tf.maximum(tf.minimum(starts + self.jitter, room), starts)
            starts = first + draw_below(last - first + 1, number, index, purpose=1)
        return rows, tf.stack([indices, starts], 1)

    def _batches(self, lengths: NDArray[np.int64]) -> int:
        counts = self.counts(lengths, np)
        total = int((counts if self.max_windows is None else np.minimum(counts, self.max_windows)).sum())
        return total // self.batch_size if self.drop_remainder else -(-total // self.batch_size)

    def _assemble(self, group: str, records: Parsed, rows: Any, places: Any) -> dict[str, Any]:
        import tensorflow as tf

        start = places[:, 1:]
        steps = tf.range(self.length + self.gap + self.horizon, dtype=tf.int64) * self.stride
        inside, after = start + steps[: self.length], start + steps[self.length + self.gap :]
        total = tf.gather(records.lengths, rows)[:, tf.newaxis]
        values = records.fields(rows, inside)
        if self.horizon:
            values |= {f"{name}_horizon": steps.gather(rows, after) for name, steps in records.lists.items()}
            values["horizon_length"] = tf.math.count_nonzero(after < total, 1)
        values["window_index"] = places[:, 0]
        values[length_name(group)] = tf.math.count_nonzero(inside < total, 1)
        return values


def plan_windows(windows: Any, place: Any, batch_size: int, *, seed: Any, drop_remainder: bool) -> Any:
    """Return plans (see `cut_batches`) of whole batches; the rest waits for the records that come next.

    Args:
        windows: a finite `tf.data.Dataset` of `(serialized: string [w], lengths: int64 [w])`.
        place: from the lengths of a window of records, and how many windows came before, to the record of each stretch,
            int64 `(m,)`, and two numbers that say which it is, int64 `(m, 2)`.
        batch_size: rows of a batch.
        seed: int64 scalar: stretches of the records held together leave in an order drawn from it. None: in turn.
        drop_remainder: leave out the last batch where it is smaller.
    """
    import tensorflow as tf

    def step(carried: Any, window: Any) -> Any:
        (old, old_lengths, rows, places, number), (serialized, lengths, last) = carried, window
        new_rows, new_places = place(lengths, number)
        new_rows += tf.size(old, tf.int64)
        if seed is not None:
            key = tf.stack([seed, number])
            order = tf.random.experimental.stateless_shuffle(tf.range(tf.size(new_rows)), key, alg="philox")
            new_rows, new_places = tf.gather(new_rows, order), tf.gather(new_places, order)
        serialized, lengths = tf.concat([old, serialized], 0), tf.concat([old_lengths, lengths], 0)
        rows, places = tf.concat([rows, new_rows], 0), tf.concat([places, new_places], 0)
        size = tf.size(rows, tf.int64)
        now = tf.where(last, size, size // batch_size * batch_size)
        kept = only_needed(serialized, lengths, rows[now:])
        return (*kept, places[now:], number + 1), (*only_needed(serialized, lengths, rows[:now]), places[:now])

    nothing, none = tf.zeros([0], tf.string), tf.zeros([0], tf.int64)
    stream = mapped(windows, lambda serialized, lengths: (serialized, lengths, False))
    if not drop_remainder:
        stream = stream.concatenate(at_end((nothing, none, True)))
    return scanned(stream, (nothing, none, none, tf.zeros([0, 2], tf.int64), tf.zeros([], tf.int64)), step)
