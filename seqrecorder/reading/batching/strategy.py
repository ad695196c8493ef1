"""`Strategy`, the base class of batching strategies, and `Feed`, the records that they batch.

The strategies themselves are in `seqrecorder.reading.batching`; the order of records is in `order_and_seeds`.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import attrs
import numpy as np

from seqrecorder.codec.graph_ops import Padding, check_values, checked
from seqrecorder.codec.parse import SEQUENCE_LENGTH
from seqrecorder.errors import OptionError, check_count
from seqrecorder.reading.order_and_seeds import (
    LengthCounts,
    Limits,
    StreamOptions,
    groups_of,
    record_length,
    steps_of,
    stream,
)
from seqrecorder.reading.prefetching import map_batches
from seqrecorder.schema.display import number_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from seqrecorder.codec.graph_ops import Stretch
    from seqrecorder.codec.parse import Parser
    from seqrecorder.dataset.checked_shards import Origin
    from seqrecorder.reading.order_and_seeds import RecordLength
    from seqrecorder.schema.schema import Schema


_SMALL_WINDOW = 1 << 25  # stored bytes; planning a larger window ahead would delay the first batch
WINDOW = 1024
"""Number of records per window of the stream, unless a strategy needs another number."""


@attrs.frozen
class Feed:
    """Source of the records that a strategy batches.

    Attributes:
        origin: shards to read.
        parser: parser of the requested fields.
        shape: function that, as the last stage, converts the dictionary of tensors of a strategy to an element.
        options: order, epochs and sharding of the stream.
        left_out: mapping from reason to the number of records left out per epoch. A strategy adds to it while it reads
            or plans, if the lengths are known.
    """

    origin: Origin
    parser: Parser
    shape: Callable[[dict[str, Any]], Any]
    options: StreamOptions
    left_out: dict[str, int] = attrs.field(factory=dict, eq=False)

    @property
    def records(self) -> int:
        """Number of records in an epoch; -1 if unknown."""
        if self.options.measured():
            masks = self._masks(self.options)
            return -1 if masks is None else int(masks.sum())
        records, deal = self.origin.records, self.options.deal
        return records if deal is None or records < 0 else len(range(records)[deal])

    def _stored_lengths(self, group: str, *, parse: bool) -> NDArray[np.int64] | None:
        """Return the lengths of this reader's records.

        The result is None if they are not stored and `parse` is False.
        """
        groups = () if self.origin.manifest is None else self.origin.manifest.schema.groups
        if self.options.known is not None:
            lengths = np.asarray(self.options.known[group])
        elif parse or (group in groups and all(file.lengths_name for file in self.origin.files)):
            lengths = self.origin.lengths(group)
        else:
            return None
        return lengths if self.options.deal is None else lengths[self.options.deal]

    def _masks(self, options: StreamOptions, *, parse: bool = False) -> NDArray[np.bool_] | None:
        """Compute which of this reader's records are within the limits.

        The result is a mask, or None if lengths are needed that are not stored and `parse` is false.
        """
        lengths = {}
        for group in options.measured():
            stored = self._stored_lengths(group, parse=parse)
            if stored is None:
                return None
            lengths[group] = stored
        return np.broadcast_to(options.kept(lengths, np), next(iter(lengths.values())).shape)

    def map_batches(self, batches: Any, make: Callable[..., Any], batch_size: int, *, width: int = 0) -> Any:
        """Map a function over batches, in order (see `prefetching.map_batches`)."""
        return map_batches(self.origin, self.parser, batches, make, batch_size, width=width)

    def group(self) -> str:
        """Return the name of the first alignment group.

        Raises:
            OptionError: the schema has no feature list.
        """
        return groups_of(record_length(self.origin.schema, None))[0]

    def lengths(self, group: RecordLength, *, parse: bool) -> NDArray[np.int64] | None:
        """Return the length of every record of an epoch, in the order of the files.

        Args:
            group: alignment group, or a combination of several.
            parse: whether to parse every record if the lengths are not stored; if False, None is returned instead.
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
        """Look up the spans of the records.

        The result is int64 `(n, 2)`, in the order of `lengths`. It is None if there are no spans, or if lengths are
        needed that are not stored.
        """
        spans, keep = self.options.spans, self._masks(attrs.evolve(self.options, group=group))
        if spans is None or keep is None:
            return None
        dealt: NDArray[np.int64] = (spans if self.options.deal is None else spans[self.options.deal])[keep]
        return dealt

    def length_counts(self, group: RecordLength, *, parse: bool) -> LengthCounts | None:
        """Count the records of an epoch by length (see `lengths` for the arguments).

        The counts come from the manifest if it covers exactly these records and they are not cropped.
        """
        options, bins = self.options, self.origin.bins
        first = self.origin.manifest.schema.groups[0] if bins and self.origin.manifest else ""
        plain = not set(options.limits) - {_not_empty(first)} and options.deal is None and options.known is None
        if bins and plain and group == first and not options.crops.get(first):
            return LengthCounts(*np.array(bins, np.int64).reshape(-1, 2).T).longer(0 if options.limits else -1)
        lengths = self.lengths(group, parse=parse)
        return None if lengths is None else LengthCounts.of(lengths)

    def crop(self, group: RecordLength, steps: slice | Stretch) -> Feed:
        """Return a feed that crops records once more.

        The crop applies to each group of `group`, in addition to the crops that the feed has already.
        """
        crops = dict(self.options.crops)
        for name in groups_of(group):
            crops[name] = (*crops.get(name, ()), steps)
        return attrs.evolve(self, parser=self.parser.cropped(crops), options=attrs.evolve(self.options, crops=crops))

    def leave_out_empty(self) -> Feed:
        """Return a feed without the records that have no steps in one of the groups to read.

        Steps are counted after cropping.
        """
        return self.limit(*map(_not_empty, self.parser.schema.groups or self.origin.schema.groups[:1]))

    def limit(self, *limits: Limits) -> Feed:
        """Return a feed that leaves out records whose lengths are outside the given limits."""
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
        """Stream windows of records, transform them epoch by epoch, and concatenate the epochs.

        Args:
            transform: function that builds a dataset from the windows of an epoch and its random number.
            window: records per window; fewer if records are large.
            multiple: the size of a window is rounded down to a multiple of this number, but not to 0.
            group: alignment group whose lengths to return with the records, or a combination of several; None for no
                lengths.
            permute: whether to permute the rows of windows if records are shuffled; False leaves that to `transform`.
            draw: whether `transform` needs the random number even if records are not shuffled.
        """
        size = max(1, self.origin.window(window) // multiple) * multiple
        options = attrs.evolve(self.options, window=size, group=group)
        self._count_left_out(options)
        return stream(self.origin, options, transform, permute=permute, draw=draw)

    def _count_left_out(self, options: StreamOptions) -> None:
        """Log how many records of an epoch the limits leave out.

        Raises:
            OptionError: the limits leave out all records.
        """
        reasons = [(attrs.evolve(options, limits=(limit,)), str(limit)) for limit in options.limits]
        for chosen, reason in reasons:
            keep = self._masks(chosen)
            # `fit_lengths` has already logged these.
            is_logged = any(limit.after_cropping and limit.most is not None for limit in chosen.limits)
            if keep is not None and not keep.all() and not is_logged:
                self.count_left_out(int(keep.size - keep.sum()), reason)
        keep = self._masks(options) if reasons else None
        if keep is not None and keep.size and not keep.any():
            raise nothing_comes(self, ", ".join(reason for _, reason in reasons))

    def count_empty(self, group: RecordLength) -> None:
        """Log how many records have no steps.

        Strategies that cut records leave these records out.

        Raises:
            OptionError: no record has a step.
        """
        lengths = self.length_counts(group, parse=False)
        empty = 0 if lengths is None else lengths.records - lengths.longer(0).records
        self.count_left_out(empty, "no steps")
        is_plan = self.options.known is not None  # a plan may be empty
        if empty and lengths is not None and empty == lengths.records and not is_plan:
            raise nothing_comes(self, "no steps")

    def count_left_out(self, count: int, reason: str) -> None:
        """Report that some records are left out.

        Their number is stored in `left_out` under the reason, and logged once.
        """
        if count:
            self.left_out[reason] = count
            log_once(f"{self.origin.where}: {number_of(count, 'record')} left out: {reason}")

    def turns(self, transform: Callable[[Any, Any], Any], **options: Any) -> Any:
        """Stream the windows of all epochs for planning; see `stream` for the arguments.

        Small windows are prefetched. The end of each epoch has an element of its own (see `in_turns`). So the first
        window of the next epoch is read while the end of the epoch is planned.
        """
        turns = self.stream(transform, **options)
        size = max(self.options.shuffle, WINDOW) * self.origin.mean_bytes
        return turns.prefetch(1) if size <= _SMALL_WINDOW else turns


def _not_empty(group: str) -> Limits:
    return Limits(group, least=1, after_cropping=True)


_LOG = logging.getLogger("seqrecorder")
_LOGGED: set[str] = set()


def log_once(message: str) -> None:
    """Log a warning once per process."""
    if message not in _LOGGED:
        _LOGGED.add(message)
        _LOG.warning("%s", message)


def nothing_comes(feed: Feed, reason: str) -> OptionError:
    """Build the error for an epoch without batches, all of whose records are left out."""
    return OptionError(
        f"{feed.origin.where}: expected an epoch of a batch or more, got an empty one: its records are all left out "
        f"({reason}); loosen the limits, or the options of the strategy"
    )


@attrs.frozen
class Batches:
    """Batches that a strategy reads, and their number.

    Attributes:
        dataset: `tf.data.Dataset` of shaped elements.
        count: number of batches in an epoch; -1 if unknown.
        before: number of extra batches before the first epoch (`warm_up`).
    """

    dataset: Any
    count: int
    before: int = 0


def shape_of(lengths: Any, width: Any) -> Any:
    """Compute the line of one batch in `Strategy.shapes`, `(1, 3)`.

    It consists of the number of rows, the number of steps with padding, and the number of real steps.
    """
    import tensorflow as tf

    rows = tf.size(lengths, tf.int64)
    return tf.stack([rows, rows * tf.cast(width, tf.int64), tf.reduce_sum(lengths)])[tf.newaxis]


@attrs.frozen
class Carried:
    """Description of the tensors that a strategy adds to elements.

    The fields and their lengths do not count as added.

    Attributes:
        names: mapping from added tensor to its source field; None for a tensor without one.
        lengths: mapping from added tensor with a padded second dimension to the tensor of its lengths in that
            dimension.
        context: name of the tensor with the number of values in each row of a context field, if a row contains several
            records.
        places: mapping from the lengths tensor of an alignment group to its segment ids (from 1 on), or those of the
            group that it follows, if a row contains several records.
        vacant: whether rows may be empty, with a length of 0.
        left: alignment groups whose padding is on the left.
        padded: whether elements have padding, which a loss must ignore.
        weighted: whether elements have sample weights even if no target has padding.
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
    """Base class of the batching strategies, which are in `seqrecorder.reading.batching`.

    Attributes:
        length_name: name of the tensor with the lengths of the first alignment group.
        mask_name: name of the mask of real steps; None for no mask.
        seed_name: name of the tensor with a random seed per record; None for no seeds.
    """

    length_name: str = SEQUENCE_LENGTH
    mask_name: str | None = None
    seed_name: str | None = None

    @abstractmethod
    def carried(self, schema: Schema) -> Carried | None:
        """Describe the tensors that batches add to fields and lengths.

        The result is None for single records, which add none.
        """

    @abstractmethod
    def read(self, feed: Feed) -> Batches:
        """Read the records of a feed as batches."""

    @abstractmethod
    def shapes(self, feed: Feed) -> Any:
        """Compute the shapes of the batches that `read` returns, from lengths alone.

        Returns:
            A `tf.data.Dataset` of int64 `(n, 3)`, one line per batch: rows, steps with padding, steps without padding.
            Steps are counted in the alignment group whose lengths determine the batches.
        """

    def __str__(self) -> str:
        """Format the strategy with the options that differ from their defaults."""
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
"""Values of the option `empty`, which determines the treatment of records without steps."""


def not_empty(lengths: Any, feed: Feed, group: RecordLength) -> Any:
    """Add a check to the graph that no length is 0.

    This is the option `empty="error"`. The result is the lengths after the check.
    """
    message = f"{feed.origin.where}: a record without {steps_of(group)} (empty='keep' and 'drop' allow them), lengths"
    return checked(lengths, lengths > 0, message, lengths)


# Validators; attrs calls them with the strategy, the attribute and the value.


def positive(_: Any, attribute: Any, value: Any) -> None:
    """Raise `OptionError` unless an option is an int of 1 or more.

    None is also valid if it is the default of the option.
    """
    if value is not None or attribute.default is not None:
        check_count(attribute.name, value)


def not_negative(_: Any, attribute: Any, value: Any) -> None:
    """Raise `OptionError` unless an option is an int of 0 or more."""
    check_count(attribute.name, value, 0)


def one_of(*words: str) -> Any:
    """Build a validator that raises `OptionError` unless an option is one of the given words."""

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
    """Base class of strategies that pad batches; `Pad` describes the attributes."""

    padding_values: Mapping[str, Any] = attrs.field(factory=dict, validator=_check_mapping)
    padding_side: Side | Mapping[str, Side] = attrs.field(default="right", validator=_check_sides)
    pad_to_multiple_of: int = attrs.field(default=1, validator=positive)
    empty: Literal["keep", "drop", "error"] = attrs.field(default="keep", validator=one_of(*EMPTY))

    def carried(self, schema: Schema) -> Carried:
        """Describe the tensors that batches contain in addition to fields and lengths."""
        return Carried(left=self._left(schema))

    def _left(self, schema: Schema) -> frozenset[str]:
        if not isinstance(self.padding_side, Mapping):
            return frozenset(schema.groups if self.padding_side == "left" else ())
        sides = by_group("padding_side", self.padding_side, schema)
        return frozenset(group for group, side in sides.items() if side == "left")

    def padding(self, feed: Feed, width: Callable[[str, Any], Any], fixed: Mapping[str, int]) -> Padding:
        """Build the padding options for the batches of a feed.

        Args:
            feed: records to batch.
            width: function that takes a group and the lengths of a batch, and returns the padded length before rounding
                up.
            fixed: mapping from group to the result of `width`, for groups in which it is the same for every batch.

        Raises:
            OptionError: a padding value does not fit its field, or a field cannot be padded on that side.
        """
        schema, multiple = feed.parser.schema, self.pad_to_multiple_of
        for name in self.padding_values:
            if name in feed.parser.images:
                raise OptionError(f"padding_values: {name!r}: images of any size, or resized, are padded with zeros")
        exact = check_values(feed.origin.schema, self.padding_values, schema)
        alike = [(name, each.source) for each in feed.parser.derivations for name in each.padded_alike]
        for name, source in alike:
            if source in exact:
                exact[name] = exact[source]
        left = self._left(schema)
        for field in schema.fields:
            if field.is_list and field.group in left and field.sparse is not None and not field.dense:
                raise OptionError(f"padding_side: field {field.name!r} is sparse, without padding; declare dense=True")

        def steps(name: str, lengths: Any) -> Any:
            if self.empty == "error":
                lengths = not_empty(lengths, feed, name)
            most = width(name, lengths)
            return most if multiple == 1 else (most + multiple - 1) // multiple * multiple

        static = {name: -(-most // multiple) * multiple for name, most in fixed.items()}
        return Padding(exact, steps, left, ragged=True, static=static)


def by_group(option: str, by_field: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """Convert a mapping from field to value to a mapping from alignment group to value.

    Raises:
        OptionError: a field is not a feature list, or two fields of one group have different values.
        SchemaError: there is no field of that name.
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
    """Return a feed whose records have at most `most` steps.

    If longer records are dropped or cut, their number is logged once.

    Args:
        feed: records to check.
        group: alignment group whose lengths are checked, or a combination of several.
        most: maximum number of steps of a record.
        too_long: `error`, `drop`, `cut_end` or `cut_start`.
        option: option that sets the limit, and its value, for messages, such as `length=100`.
        words: values that the strategy accepts for `too_long`, for messages.
        parse: whether to parse every record if the lengths are not stored; False leaves such records unchecked.

    Raises:
        OptionError: a record is longer than `most`, and `too_long` is `error`.
    """
    lengths = feed.length_counts(group, parse=parse)
    longer = None if lengths is None else lengths.longer(most)
    over = 0 if longer is None else longer.records
    if too_long == "error":
        if longer is not None and over:
            name = option.partition("=")[0]
            others = [f"too_long={word!r} {_WORDS[word]}" for word in words if word in _WORDS]
            raise OptionError(
                f"{option}: {over} records are longer than {most} {steps_of(group)}, the longest has {longer.longest}; "
                f"raise {name}, or pass {' or '.join(others)}"
            )
        return feed
    if too_long == "drop":
        feed.count_left_out(over, f"more than {most} {steps_of(group)}")
        return feed.limit(Limits(group, most=most, after_cropping=True))
    if over:
        be = "is" if over == 1 else "are"
        log_once(f"{feed.origin.where}: {number_of(over, 'record')} {be} longer than {most} {steps_of(group)} and cut")
    return feed.crop(group, slice(most) if too_long == "cut_end" else slice(-most, None))


@attrs.frozen
class Single(Strategy):
    """Strategy that reads single records.

    The common options of strategies have no effect.
    """

    def carried(self, schema: Schema) -> Carried | None:  # noqa: ARG002 - a parameter of all strategies
        """Return None, because single records contain only their fields."""
        return None

    def read(self, feed: Feed) -> Batches:
        """Read single records."""
        singles = feed.stream(lambda windows, _: windows.unbatch())
        parsed = feed.map_batches(singles, lambda serialized: feed.shape(feed.parser.parse(serialized)), 1)
        return Batches(parsed, feed.records)

    def shapes(self, feed: Feed) -> Any:
        """Compute the shapes of single records (see `Strategy`)."""
        import tensorflow as tf

        group = feed.group()
        windows = feed.stream(lambda windows, _: windows, group=group)
        return windows.map(lambda _, lengths: tf.stack([tf.ones_like(lengths), lengths, lengths], 1))
