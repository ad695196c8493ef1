"""The base of batching strategies: their common options, and the stream, lengths and parser that they work on."""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import attrs
import numpy as np

from seqrecorder.codec.graph_ops import Padding, check_values, checked
from seqrecorder.codec.parse import SEQUENCE_LENGTH
from seqrecorder.errors import OptionError
from seqrecorder.reading.order import LengthCounts, Limits, StreamOptions, groups_of, record_length, stream
from seqrecorder.reading.tfdata_ops import Traced
from seqrecorder.schema.display import number_of
from seqrecorder.schema.field import DEFAULT_GROUP
from seqrecorder.storage.processes import cores

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from seqrecorder.codec.graph_ops import Stretch
    from seqrecorder.codec.parse import Parser
    from seqrecorder.dataset.shard_set import Origin
    from seqrecorder.reading.order import RecordLength
    from seqrecorder.schema.schema import Schema


# Bytes of the records of a batch as they are stored, and of its tensors.
_SMALL_BATCH = 1 << 14
_SMALL_TENSORS = 1 << 18
_SMALL_WINDOW = 1 << 25  # of records, as they are stored
AHEAD_BYTES = 1 << 27
"""Records, as they are stored, of which batches are made at a time, or wait for the consumer."""

_WAITING = 64
_SLOW = ("png", "jpeg", "tensor")

WINDOW = 1024
"""Records that travel together where a strategy does not care."""


@attrs.frozen
class Feed:
    """The records of an origin, for one strategy.

    Attributes:
        origin: the shards.
        parser: of the fields that are wanted.
        shape: from the dictionary of tensors that a strategy makes to an element; its last step.
        options: order, epochs and dealing of the stream.
        left_out: by reason, the number of records of an epoch that give nothing, as far as lengths tell; filled while a
            strategy reads or plans.
    """

    origin: Origin
    parser: Parser
    shape: Callable[[dict[str, Any]], Any]
    options: StreamOptions
    left_out: dict[str, int] = attrs.field(factory=dict, eq=False)

    @property
    def records(self) -> int:
        """Number of records of an epoch, -1 where they were not counted."""
        if self.options.measured():
            masks = self._masks(self.options)
            return -1 if masks is None else int(masks.sum())
        records, deal = self.origin.records, self.options.deal
        return records if deal is None or records < 0 else len(range(records)[deal])

    @property
    def permuted_bytes(self) -> int:
        """Bytes of the records, as they are stored, that are asked to be permuted at a time."""
        return self.options.shuffle * self.origin.mean_bytes

    def _stored_lengths(self, group: str, *, parse: bool) -> NDArray[np.int64] | None:
        """Return the stored lengths of the records dealt to this reader, None where it takes parsing to know."""
        groups = () if self.origin.manifest is None else self.origin.manifest.schema.groups
        if self.options.known is not None:
            lengths = np.asarray(self.options.known[group])
        elif parse or (group in groups and all(file.lengths_name for file in self.origin.files)):
            lengths = self.origin.lengths(group)
        else:
            return None
        return lengths if self.options.deal is None else lengths[self.options.deal]

    def _masks(self, options: StreamOptions, *, parse: bool = False) -> NDArray[np.bool_] | None:
        """Mark the records of this reader that are kept; None where only parsing would tell."""
        lengths = {}
        for group in options.measured():
            stored = self._stored_lengths(group, parse=parse)
            if stored is None:
                return None
            lengths[group] = stored
        return np.broadcast_to(options.kept(lengths, np), next(iter(lengths.values())).shape)

    def map_batches(self, batches: Any, make: Callable[..., Any], batch_size: int, *, width: int = 0) -> Any:
        """Map a function over batches, in their order, ahead of the consumer.

        Small batches are made by one thread, without handing anything to others, and many wait for the consumer: to
        hand one over takes as long as to make it. Of larger ones four for each core are made at a time, or wait for the
        consumer, so that a core that is done finds another; of large ones as many as hold 128 MiB of records, two at
        least.

        Batches are small where both the records, as they are stored, and the padded tensors are. They are taken for
        larger where that cannot be told, as of compressed and of bare shards, where something is decoded that takes
        long, and where tensors are ragged or sparse.

        Args:
            batches: a `tf.data.Dataset`.
            make: from a batch (a tuple taken apart) to an element.
            batch_size: records of a batch, or rows.
            width: the most steps to which records are padded that are all shorter.
        """
        origin, stored = self.origin, batch_size * self.origin.mean_bytes
        traced, longest = Traced.of(make, batches.element_spec), max(origin.longest or 1, width)
        slow = self.parser.images or any(field.storage in _SLOW for field in self.parser.schema.fields)
        known = origin.compression is None and origin.longest is not None and not slow
        tensors = _bytes_of(traced.spec, batch_size if batch_size > 1 else longest, longest)
        if known and stored <= _SMALL_BATCH and tensors <= _SMALL_TENSORS:
            return traced.mapped(batches).prefetch(_WAITING)
        return traced.mapped(batches, parallel=max(2, min(4 * cores(), AHEAD_BYTES // max(1, stored))))

    def group(self) -> str:
        """Return the first alignment group.

        Raises:
            OptionError: there is no feature list.
        """
        return groups_of(record_length(self.origin.schema, None))[0]

    def lengths(self, group: RecordLength, *, parse: bool) -> NDArray[np.int64] | None:
        """Return the length of every record of an epoch, in the order of the files.

        Args:
            group: the alignment group, or several.
            parse: whether every record is parsed to know, where no file of lengths says; else None is returned.
        """
        options = attrs.evolve(self.options, group=group)
        keep, stored = self._masks(options, parse=parse), {}
        for name in groups_of(group):
            lengths = self._stored_lengths(name, parse=parse)
            if lengths is None or keep is None:
                return None
            stored[name] = lengths if keep.all() else lengths[keep]
        cropped: NDArray[np.int64] = options.cropped(group, stored, np)
        return cropped

    def spans(self, group: RecordLength) -> NDArray[np.int64] | None:
        """Return the spans of the records whose lengths `lengths` gives, int64 `(n, 2)`; None where there are none."""
        spans, keep = self.options.spans, self._masks(attrs.evolve(self.options, group=group))
        if spans is None or keep is None:
            return None
        dealt: NDArray[np.int64] = (spans if self.options.deal is None else spans[self.options.deal])[keep]
        return dealt

    def length_counts(self, group: RecordLength, *, parse: bool) -> LengthCounts | None:
        """Return how many records of an epoch have each length; takes what `lengths` does.

        The manifest says so, where all of the lengths of all records count.
        """
        options, bins = self.options, self.origin.bins
        first = self.origin.manifest.schema.groups[0] if bins and self.origin.manifest else ""
        plain = not set(options.limits) - {_not_empty(first)} and options.deal is None and options.known is None
        if bins and plain and group == first and not options.crops.get(first):
            return LengthCounts(*np.array(bins, np.int64).reshape(-1, 2).T).longer(0 if options.limits else -1)
        lengths = self.lengths(group, parse=parse)
        return None if lengths is None else LengthCounts.of(lengths)

    def crop(self, group: RecordLength, steps: slice | Stretch) -> Feed:
        """Return a feed of which the sequences of a group, or of several, are cropped further."""
        crops = dict(self.options.crops)
        for name in groups_of(group):
            crops[name] = (*crops.get(name, ()), steps)
        return attrs.evolve(self, parser=self.parser.cropped(crops), options=attrs.evolve(self.options, crops=crops))

    def leave_out_empty(self) -> Feed:
        """Return a feed without the records that have no step in a group that is read, after cropping."""
        return self.limit(*map(_not_empty, self.parser.schema.groups or self.origin.schema.groups[:1]))

    def limit(self, *limits: Limits) -> Feed:
        """Return a feed without the records that some limits do not admit."""
        return attrs.evolve(self, options=attrs.evolve(self.options, limits=(*self.options.limits, *limits)))

    def stream(
        self,
        transform: Callable[[Any, Any], Any],
        *,
        window: int = WINDOW,
        multiple: int = 1,
        group: RecordLength | None = None,
        permute: bool = True,
        draw: bool = False,
    ) -> Any:
        """Return a `tf.data.Dataset` of `transform` applied to each epoch's windows (see `record_stream`).

        Args:
            transform: from the windows of an epoch, and the number that stands for its order, to a dataset.
            window: records to a window, at most: of large records fewer come.
            multiple: of this number, which a window has at least.
            group: the alignment group whose lengths come with the records, or several; None for none.
            permute: as for `seqrecorder.reading.order.stream`.
            draw: as for `seqrecorder.reading.order.stream`.
        """
        size = max(1, self.origin.window(window) // multiple) * multiple
        options = attrs.evolve(self.options, window=size, group=group)
        self._count_left_out(options)
        return stream(self.origin, options, transform, permute=permute, draw=draw)

    def _count_left_out(self, options: StreamOptions) -> None:
        """Log how many records of an epoch are left out for their lengths.

        Raises:
            OptionError: all are.
        """
        reasons = [(attrs.evolve(options, limits=(limit,)), str(limit)) for limit in options.limits]
        for chosen, reason in reasons:
            keep = self._masks(chosen)
            # `fit_lengths` logs these.
            is_logged = any(limit.after_cropping and limit.most is not None for limit in chosen.limits)
            if keep is not None and not keep.all() and not is_logged:
                self.count_left_out(int(keep.size - keep.sum()), reason)
        keep = self._masks(options) if reasons else None
        if keep is not None and keep.size and not keep.any():
            raise nothing_comes(self, ", ".join(reason for _, reason in reasons))

    def count_empty(self, group: RecordLength) -> None:
        """Log how many records without steps a strategy leaves out that cuts records.

        Raises:
            OptionError: all are.
        """
        lengths = self.length_counts(group, parse=False)
        empty = 0 if lengths is None else lengths.records - lengths.longer(0).records
        self.count_left_out(empty, "no steps")
        is_plan = self.options.known is not None  # which may be of nothing
        if empty and lengths is not None and empty == lengths.records and not is_plan:
            raise nothing_comes(self, "no steps")

    def count_left_out(self, count: int, reason: str) -> None:
        """Note how many records are left out, if any, and log it once."""
        if count:
            self.left_out[reason] = count
            log_once(f"{self.origin.where}: {number_of(count, 'record')} left out: {reason}")

    def turns(self, transform: Callable[[Any, Any], Any], **options: Any) -> Any:
        """Return the windows of all epochs for a plan, where they are small one ahead; takes what `stream` does.

        What is planned ahead may be the end of an epoch, which is a turn too. Then the next epoch is begun here.
        """
        turns = self.stream(transform, **options)
        size = max(self.permuted_bytes, WINDOW * self.origin.mean_bytes)
        return turns.prefetch(1) if size <= _SMALL_WINDOW else turns


def _not_empty(group: str) -> Limits:
    return Limits(group, least=1, after_cropping=True)


_LOG = logging.getLogger("seqrecorder")
_LOGGED: set[str] = set()


def log_once(message: str) -> None:
    """Log a warning, once in a process."""
    if message not in _LOGGED:
        _LOGGED.add(message)
        _LOG.warning("%s", message)


def nothing_comes(feed: Feed, reason: str) -> OptionError:
    """Return the error that an epoch would be empty though there are records."""
    return OptionError(
        f"{feed.origin.where}: expected an epoch of a batch or more, got an empty one: its records are all left out "
        f"({reason}); loosen the limits, or the options of the strategy"
    )


def _bytes_of(spec: Any, rows: int, longest: int) -> float:
    """Return how many bytes the tensors of an element take at most, of text only its places; of ragged ones infinity.

    Args:
        spec: their structure, shapes and dtypes.
        rows: what a first dimension is that is not static.
        longest: what any other is.
    """
    import tensorflow as tf

    parts = tf.nest.flatten(spec)
    if not all(isinstance(part, tf.TensorSpec) for part in parts):
        return math.inf
    shapes = ((part.dtype.size, part.shape.as_list()) for part in parts)
    known = ((size, [*(rows if n is None else n for n in shape[:1]), *shape[1:]]) for size, shape in shapes)
    return float(sum(size * math.prod(longest if n is None else n for n in shape) for size, shape in known))


@attrs.frozen
class Batches:
    """The batches of a strategy, and their number.

    Attributes:
        dataset: a `tf.data.Dataset` of shaped elements.
        count: how many of them an epoch has, -1 where that is not known.
        before: how many come before the first epoch, and are not counted.
    """

    dataset: Any
    count: int
    before: int = 0


def shape_of(lengths: Any, width: Any) -> Any:
    """Return the line of `Strategy.shapes` for a batch of records of some lengths, padded to a width."""
    import tensorflow as tf

    rows = tf.size(lengths, tf.int64)
    return tf.stack([rows, rows * tf.cast(width, tf.int64), tf.reduce_sum(lengths)])[tf.newaxis]


def batch_count(records: int, size: int, *, drop_remainder: bool) -> int:
    """Return how many batches of some size records make, -1 where their number is not known."""
    if records < 0:
        return -1
    return records // size if drop_remainder else -(-records // size)


@attrs.frozen
class Carried:
    """Names that the elements of a strategy carry beside fields and lengths.

    Attributes:
        names: of what is derived, each with its source field, or None.
        lengths: by name, the name of the lengths that say how many entries of its second dimension are real; for what
            has a second dimension and is no feature list.
        context: the name of such lengths for context fields, where a row has several of each.
        places: where a row has several of each: by the name of the lengths of steps, the name of what says, for each of
            these steps, of which it is, from 1 on.
        vacant: whether a row may hold no record, and its length is 0 then.
        left: the alignment groups whose padding comes first.
        padded: whether there is padding that a loss must not count.
        weighted: whether there are sample weights even where no target has padding.
    """

    names: Mapping[str, str | None] = attrs.field(factory=dict)
    lengths: Mapping[str, str] = attrs.field(factory=dict)
    context: str | None = None
    places: Mapping[str, str] = attrs.field(factory=dict)
    vacant: bool = False
    left: frozenset[str] = frozenset()
    padded: bool = True
    weighted: bool = False


@attrs.frozen(kw_only=True)
class Strategy(ABC):
    """A way of making elements: the classes of `seqrecorder.reading.batching`.

    Attributes:
        length_name: name under which elements carry the lengths of the first alignment group.
        mask_name: name under which elements carry a mask, or None.
        seed_name: name under which elements carry the seeds of records, or None.
    """

    length_name: str = SEQUENCE_LENGTH
    mask_name: str | None = None
    seed_name: str | None = None

    @abstractmethod
    def carried(self, schema: Schema) -> Carried | None:
        """Describe what batches carry beside fields and lengths; None for single records."""

    @abstractmethod
    def read(self, feed: Feed) -> Batches:
        """Return a `tf.data.Dataset` of shaped elements, and how many there are."""

    @abstractmethod
    def shapes(self, feed: Feed) -> Any:
        """Return the shapes of what `read` gives, worked out from lengths.

        Returns:
            A `tf.data.Dataset` of int64 `(n, 3)`, an element that `read` gives to a line: its rows, its steps with and
            without padding, counted for the alignment group whose lengths decide.
        """

    def __str__(self) -> str:
        """Show those options that are not as they are by default."""
        options = []
        for field in sorted(
            attrs.fields(type(self)), key=lambda field: (field.default is not attrs.NOTHING, field.inherited)
        ):
            value = getattr(self, field.name)
            default = field.default.factory() if isinstance(field.default, attrs.Factory) else field.default  # type: ignore[arg-type]  # a class to attrs, a function to its stubs
            if default is attrs.NOTHING or value != default:
                named = default is not attrs.NOTHING or field.kw_only
                options.append(f"{field.name}={value!r}" if named else f"{value!r}")
        return f"{type(self).__name__}({', '.join(options)})"


Side = Literal["right", "left"]
EMPTY = ("keep", "drop", "error")
"""Treatment of records without steps: the option `empty`."""


def _of(group: RecordLength) -> str:
    return "" if group == DEFAULT_GROUP or not isinstance(group, str) else f" of {group!r}"


def not_empty(lengths: Any, feed: Feed, group: RecordLength) -> Any:
    """Return lengths of records in a graph, where `empty="error"` lets none be 0."""
    message = f"{feed.origin.where}: a record without steps{_of(group)} (empty='keep' and 'drop' allow them), lengths"
    return checked(lengths, lengths > 0, message, lengths)


def check_count(name: str, value: Any, least: int = 1) -> int:
    """Return an option that counts something, or raise `OptionError`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise OptionError(f"{name}: expected an int of {least} or more, got {value!r}")
    return value


# Validators of attributes: attrs calls them with the strategy, the attribute and the value.


def positive(_: Any, attribute: Any, value: Any) -> None:
    """Raise `OptionError` unless an option is an int of 1 or more, or None where that is its default."""
    if value is not None or attribute.default is not None:
        check_count(attribute.name, value)


def not_negative(_: Any, attribute: Any, value: Any) -> None:
    """Raise `OptionError` unless an option is an int of 0 or more."""
    check_count(attribute.name, value, 0)


def one_of(*words: str) -> Any:
    """Return a validator that raises `OptionError` unless an option is one of some words."""

    def check(_: Any, attribute: Any, value: Any) -> None:
        if value not in words:
            raise OptionError(f"{attribute.name}: expected one of {', '.join(words)}, got {value!r}")

    return check


def _check_sides(_: Any, attribute: Any, value: Side | Mapping[str, Side]) -> None:
    for side in value.values() if isinstance(value, Mapping) else [value]:
        one_of("right", "left")(None, attribute, side)


def _check_mapping(_: Any, attribute: Any, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise OptionError(f"{attribute.name}: expected a mapping of fields to values, got {value!r}")


@attrs.frozen(kw_only=True)
class PaddedBatches(Strategy):
    """How the steps of batches are filled up; the attributes are described in `Pad`."""

    padding_values: Mapping[str, Any] = attrs.field(factory=dict, validator=_check_mapping)
    padding_side: Side | Mapping[str, Side] = attrs.field(default="right", validator=_check_sides)
    pad_to_multiple_of: int = attrs.field(default=1, validator=positive)
    empty: Literal["keep", "drop", "error"] = attrs.field(default="keep", validator=one_of(*EMPTY))

    def carried(self, schema: Schema) -> Carried:
        """Describe what batches carry beside fields and lengths."""
        return Carried(left=self._left(schema))

    def _left(self, schema: Schema) -> frozenset[str]:
        if not isinstance(self.padding_side, Mapping):
            return frozenset(schema.groups if self.padding_side == "left" else ())
        sides = by_group("padding_side", self.padding_side, schema)
        return frozenset(group for group, side in sides.items() if side == "left")

    def padding(self, feed: Feed, width: Callable[[str, Any], Any], fixed: Mapping[str, int]) -> Padding:
        """Return how batches of a feed are padded.

        Args:
            feed: the records.
            width: from a group and the lengths of a batch to the steps of its sequences, before they are rounded up.
            fixed: by group, what `width` gives for every batch, where that is known.

        Raises:
            OptionError: a value does not fit its field, or a field cannot be padded so.
        """
        schema, multiple = feed.parser.schema, self.pad_to_multiple_of
        exact = check_values(feed.origin.schema, self.padding_values)
        alike = [(name, each.source) for each in feed.parser.derivations for name in each.padded_alike]
        for name, source in alike:
            if source in exact:
                exact[name] = exact[source]
        for name in exact:
            if name in feed.parser.images:
                raise OptionError(f"padding_values: {name!r}: images of any size, or resized, are padded with zeros")
        left = self._left(schema)
        for field in schema.fields:
            if field.is_list and field.group in left and field.sparse is not None and not field.dense:
                raise OptionError(
                    f"padding_side: field {field.name!r} is sparse and has no padding; declare dense=True"
                )

        def steps(name: str, lengths: Any) -> Any:
            if self.empty == "error":
                lengths = not_empty(lengths, feed, name)
            most = width(name, lengths)
            return most if multiple == 1 else (most + multiple - 1) // multiple * multiple

        static = {name: -(-most // multiple) * multiple for name, most in fixed.items()}
        return Padding(exact, steps, left, ragged=True, static=static)


def by_group(option: str, by_field: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """Return an option that is given by field, by alignment group.

    Raises:
        OptionError: a field is no feature list, or the fields of one group, whose lengths are one, disagree.
        SchemaError: there is no field of a name.
    """
    chosen: dict[str, Any] = {}
    for name, value in by_field.items():
        field = schema[name]
        if not field.is_list:
            raise OptionError(f"{option}: {name!r} is a context field and has no steps")
        if chosen.setdefault(field.group, value) != value:
            raise OptionError(
                f"{option}: {name!r} and another field of its alignment group have one length, and get "
                f"{value!r} and {chosen[field.group]!r}; give one, or free the field by align=None"
            )
    return chosen


# Records that are too long --------------------------------------------------------------------------------------------

_WORDS = {
    "drop": "to leave them out",
    "cut_end": "to leave out their last steps",
    "cut_start": "to leave out their first steps",
    "split": "to cut them into several",
}


def fit_lengths(
    feed: Feed, group: RecordLength, most: int, too_long: str, *, option: str, words: Sequence[str], parse: bool
) -> Feed:
    """Return a feed whose records have at most so many steps; the number of longer ones is logged once.

    Args:
        feed: the records.
        group: the alignment group whose lengths count, or several.
        most: steps.
        too_long: `error`, `drop`, `cut_end` or `cut_start`.
        option: what says how many steps there may be, and its value: `length=100`.
        words: of the strategy's `too_long`.
        parse: whether every record is parsed where no file of lengths tells its length; else it is left unchecked.

    Raises:
        OptionError: records are longer, and that is an error.
    """
    lengths = feed.length_counts(group, parse=parse)
    longer = None if lengths is None else lengths.longer(most)
    over = 0 if longer is None else longer.records
    if too_long == "error":
        if longer is not None and over:
            name = option.partition("=")[0]
            others = [f"too_long={word!r} {_WORDS[word]}" for word in words if word in _WORDS]
            raise OptionError(
                f"{option}: {over} records are longer than {most} steps{_of(group)}, the longest has {longer.longest}; "
                f"raise {name}, or pass {' or '.join(others)}"
            )
        return feed
    if too_long == "drop":
        feed.count_left_out(over, f"more than {most} steps{_of(group)}")
        return feed.limit(Limits(group, most=most, after_cropping=True))
    if over:
        be = "is" if over == 1 else "are"
        log_once(f"{feed.origin.where}: {number_of(over, 'record')} {be} longer than {most} steps{_of(group)} and cut")
    return feed.crop(group, slice(most) if too_long == "cut_end" else slice(-most, None))


@attrs.frozen
class Single(Strategy):
    """Single records, each parsed on its own: the common options are not used."""

    def carried(self, schema: Schema) -> Carried | None:  # noqa: ARG002 - as every strategy has it
        """Return None: single records carry their fields alone."""
        return None

    def read(self, feed: Feed) -> Batches:
        """Return single records."""
        singles = feed.stream(lambda windows, _: windows.unbatch())
        parsed = feed.map_batches(singles, lambda serialized: feed.shape(feed.parser.parse(serialized)), 1)
        return Batches(parsed, feed.records)

    def shapes(self, feed: Feed) -> Any:
        """Return a `tf.data.Dataset` of the shapes of single records (see `Strategy`)."""
        import tensorflow as tf

        group = feed.group()
        windows = feed.stream(lambda windows, _: windows, group=group)
        return windows.map(lambda _, lengths: tf.stack([tf.ones_like(lengths), lengths, lengths], 1))
