"""Small graph functions that turn the output of TensorFlow's parser into declared values and padded batches.

All checks use `checked`, so that they run in every kind of graph and eagerly. The parser itself is in `parse`.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import attrs
import numpy as np

from seqrecorder.errors import OptionError
from seqrecorder.schema.dtypes import element_type
from seqrecorder.schema.exact_values import Mismatch, exact_scalar
from seqrecorder.schema.field import Field
from seqrecorder.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from seqrecorder.codec.columns import Column


_record = contextvars.ContextVar("record", default="")


@contextlib.contextmanager
def records_called(name: str) -> Iterator[None]:
    """Prefix all messages of `checked` inside the block with a label for the records."""
    token = _record.set(name)
    try:
        yield
    finally:
        _record.reset(token)


def checked(value: Any, ok: Any, *message: Any) -> Any:
    """Return `value`, a tensor or a structure of tensors, after asserting that all of `ok` are true.

    The returned value depends on the assertion, because a graph may prune an assertion on which nothing depends.
    """
    import tensorflow as tf

    if _record.get():
        message = (f"{_record.get()}:", *message)
    ok = tf.convert_to_tensor(ok)
    if ok.shape.rank != 0:
        ok = tf.reduce_all(ok) if ok.shape.rank is None else tf.raw_ops.All(input=ok, axis=list(range(ok.shape.rank)))
    # Use the raw op: `tf.debugging.Assert` adds a conditional, which takes longer to trace than everything else.
    check = tf.raw_ops.Assert(condition=ok, data=list(message))
    with tf.control_dependencies([] if check is None else [check]):
        return tf.nest.map_structure(tf.identity, value)


def expect(value: Any, ok: Any, field: Field, what: str, *got: Any) -> Any:
    """Check a stored value of a field with `checked`.

    The error names the field and its feature.
    """
    return checked(value, ok, f"field {field.name!r}: {what} are expected in {field.feature!r}, got", *got)


def wire_type(field: Field) -> Any:
    """Return the TensorFlow dtype of the list in which a field is stored."""
    import tensorflow as tf

    if field.in_items:
        return tf.string
    return {"int64": tf.int64, "float": tf.float32, "bytes": tf.string}[field.element.wire]


def wire_filler(field: Field) -> Any:
    """Return the wire value for records that lack the field, in the shape of the field."""
    element = field.element
    value = field.default if field.has_default else element.zero()
    filler: NDArray[Any] = np.array(np.broadcast_to(np.asarray(value, element.numpy), field.rest))
    return filler if element.is_text else element.to_wire(filler).reshape(field.rest)


def constant(field: Field, values: Any) -> Any:
    """Convert values of a field to a tensor."""
    import tensorflow as tf

    array = np.asarray(values, field.element.numpy)
    items = array.tolist() if field.element.is_text else field.element.to_graph(array)
    return tf.constant(items, field.element.graph, array.shape)


def spread_rows(values: Any, present: Any, filler: Any) -> Any:
    """Spread values to one row per record.

    Each record that is present gets the next row of `values`, and each other record gets `filler`.
    """
    import tensorflow as tf

    have = tf.cast(present, tf.int64)
    filler = tf.broadcast_to(filler, tf.shape(values)[1:])
    return tf.gather(tf.concat([filler[tf.newaxis], values], 0), tf.cumsum(have) * have)


# Vectors: one op each, because the functions of `tf` use several or take longer to trace than to run -----------------


def rows_at(values: Any, indices: Any) -> Any:
    """Gather the rows of values at the given indices."""
    import tensorflow as tf

    return tf.raw_ops.Gather(params=values, indices=indices)


def index_range(stop: Any, start: Any = None) -> Any:
    """Create a range of indices in the dtype of `stop`.

    The range begins at `start` (default: 0) and ends before the scalar tensor `stop`.
    """
    import tensorflow as tf

    start = tf.constant(0, stop.dtype) if start is None else start
    return tf.raw_ops.Range(start=start, limit=stop, delta=tf.constant(1, stop.dtype))


def count_up_to(ascending: Any, values: Any, *, less: bool = False) -> Any:
    """Count the entries of an ascending vector that are less than or equal to each value.

    With `less`, entries that are equal to the value are not counted. The counts are int32.
    """
    import tensorflow as tf

    row = tf.raw_ops.ExpandDims(input=ascending, axis=0)
    values = row if values is ascending else tf.raw_ops.ExpandDims(input=values, axis=0)
    search = tf.raw_ops.LowerBound if less else tf.raw_ops.UpperBound
    return tf.raw_ops.Squeeze(input=search(sorted_inputs=row, values=values), axis=[0])


def differences(ends: Any) -> Any:
    """Subtract each entry of a vector from the next entry."""
    import tensorflow as tf

    first, second, last = (tf.constant([index]) for index in (0, 1, -1))
    later = tf.raw_ops.StridedSlice(input=ends, begin=second, end=last, strides=second, end_mask=1)
    return later - tf.raw_ops.StridedSlice(input=ends, begin=first, end=last, strides=second)


def joined(*vectors: Any) -> Any:
    """Concatenate vectors."""
    import tensorflow as tf

    return tf.raw_ops.ConcatV2(values=vectors, axis=0)


# Elements ---------------------------------------------------------------------------------------------------------


def to_declared(values: Any, field: Field) -> Any:
    """Convert wire values to the declared dtype, keeping every bit of stored values."""
    import tensorflow as tf

    name = field.element.name
    if field.element.is_text or field.element.is_time or name in ("int64", "float32"):
        return values
    if name == "uint64":
        return tf.bitcast(values, tf.uint64)
    expected = f"values of {name}"
    if name in ("float16", "bfloat16"):
        narrowed = narrow(values, name)
        infinite = tf.math.is_inf(tf.cast(narrowed, tf.float32)) & tf.math.is_finite(values)
        return expect(narrowed, ~infinite, field, expected, values)
    if name == "bool":
        return expect(tf.not_equal(values, 0), tf.equal(values, 0) | tf.equal(values, 1), field, expected, values)
    info = np.iinfo(field.element.numpy)
    inside = (values >= int(info.min)) & (values <= int(info.max))
    return expect(tf.cast(values, tf.as_dtype(name)), inside, field, expected, values)


def narrow(values: Any, name: str) -> Any:
    """Narrow float32 values to bfloat16 or float16, as the inverse of `widen`.

    NaNs are converted by bit operations, because a cast may change them. Values that `widen` did not produce are
    rounded to the nearest, ties to even.
    """
    import tensorflow as tf

    shift = tf.bitwise.right_shift
    bits = tf.bitcast(values, tf.uint32)
    nan = (bits & 0x7FFFFFFF) > 0x7F800000  # noqa: PLR2004 - bits of infinity
    if name == "bfloat16":
        rounded = shift(tf.where(nan, bits, bits + 0x7FFF + (shift(bits, 16) & 1)), 16)
        lost = nan & tf.equal(rounded & 0x7F, 0)  # a NaN with a payload only in the low bits would become an infinity
        return tf.bitcast(tf.cast(tf.where(lost, rounded | 0x40, rounded), tf.uint16), tf.bfloat16)
    payload = shift(bits, 13) & 0x3FF
    payload = tf.where(tf.equal(payload, 0), tf.constant(0x200, tf.uint32), payload)
    exact = (shift(bits, 16) & 0x8000) | 0x7C00 | payload
    plain = tf.cast(tf.bitcast(tf.cast(values, tf.float16), tf.uint16), tf.uint32)
    return tf.bitcast(tf.cast(tf.where(nan, exact, plain), tf.uint16), tf.float16)


def decode_buffers(buffers: Any, field: Field, *, fixed: bool) -> tuple[Any, Any]:
    """Decode little-endian buffers to flat values, and count the arrays of the known dimensions in each buffer.

    Args:
        buffers: buffers, string `(n,)`.
        field: declaration of the values.
        fixed: whether each buffer contains exactly one array of the known dimensions; the counts are then None.
    """
    import tensorflow as tf

    sizes = tf.strings.length(buffers, unit="BYTE")
    width = field.element.itemsize * field.count
    wanted = "" if fixed else "a multiple of "
    # In eager mode, do not join a large buffer: that would keep three copies of it in memory.
    is_apart = tf.executing_eagerly() and (fixed or buffers.shape[0] == 1)
    joined = buffers if is_apart else tf.strings.reduce_join(buffers)
    fits = tf.equal(sizes if fixed else sizes % width, width if fixed else 0)
    joined = expect(joined, fits, field, f"buffers of {wanted}{width} bytes", sizes)
    values = _from_buffer(joined, field)
    return tf.reshape(values, [-1]) if is_apart else values, None if fixed else tf.cast(sizes // width, tf.int64)


def whole_buffers(buffers: Any, field: Field) -> tuple[Any, Any]:
    """Check that buffers contain whole arrays of the known dimensions.

    Returns:
        The buffers, and the number of arrays in each.
    """
    import tensorflow as tf

    width = field.element.itemsize * field.count
    sizes = tf.cast(tf.strings.length(buffers, unit="BYTE"), tf.int64)
    fits = tf.equal(sizes % width, 0)
    return expect(buffers, fits, field, f"buffers of a multiple of {width} bytes", sizes), sizes // width


def _from_buffer(joined: Any, field: Field) -> Any:
    import tensorflow as tf

    name = field.element.graph
    if name == "bool":  # decode_raw would copy any byte into a bool unchecked
        values = tf.io.decode_raw(joined, tf.uint8)
        return expect(values > 0, values <= 1, field, "bytes 0 and 1", values)
    target = tf.as_dtype(name)
    signed = {"uint32": tf.int32, "uint64": tf.int64, "bfloat16": tf.uint16}.get(name)
    if signed is not None:  # decode_raw does not support these dtypes
        return tf.bitcast(tf.io.decode_raw(joined, signed), target)
    return tf.io.decode_raw(joined, target)


# Rows -------------------------------------------------------------------------------------------------------------


def with_shape(values: Any, field: Field) -> Any:
    """Reshape flat values to `(S, *known dimensions)`."""
    import tensorflow as tf

    return tf.reshape(values, [-1, *field.rest])


def sums_of_rows(sizes: Any, splits: Any) -> Any:
    """Sum `sizes` within each row of a ragged tensor, whose row splits are `splits`."""
    import tensorflow as tf

    ends = tf.concat([[0], tf.cumsum(tf.cast(sizes, tf.int64))], 0)
    return differences(rows_at(ends, splits))


def check_items(values: Any, field: Field, items: Any, expected: int, *, or_none: Any = None) -> Any:
    """Check that each feature has the expected number of items, and return `values`.

    Where the mask `or_none` is true, a feature without items is valid as well.
    """
    import tensorflow as tf

    ok = tf.equal(items, expected)
    ok = ok if or_none is None else ok | (tf.equal(items, 0) & or_none)
    return expect(values, ok, field, f"{expected} values per feature", items)


def whole_rows(values: Any, field: Field, items: Any) -> tuple[Any, Any]:
    """Check that each row contains a whole number of arrays of the known shape.

    Returns:
        The values, and the number of arrays in each row.
    """
    import tensorflow as tf

    if field.count == 1:
        return values, items
    fits = tf.equal(items % field.count, 0)
    return expect(values, fits, field, f"multiples of {field.count} values", items), items // field.count


def longest_of(lengths: Any) -> Any:
    """Return the largest length, or 1 if all lengths are 0.

    Layers such as Masking and LSTM fail for a batch without steps.
    """
    import tensorflow as tf

    return tf.maximum(tf.raw_ops.Max(input=lengths, axis=0), 1)


def pad_steps(value: Any, missing: Any) -> Any:
    """Pad dimension 1 by `missing` steps."""
    import tensorflow as tf

    second = np.zeros([value.shape.rank, 2], np.int64)
    second[1, 1] = 1
    padded = tf.raw_ops.Pad(input=value, paddings=second * missing)
    padded.set_shape([None, None, *value.shape[2:]])
    return padded


def ascending(field: Field, indices: Any, values: Any, counts: Any) -> tuple[Any, Any]:
    """Sort the indices and values of sparse vectors by index, and check the indices.

    Args:
        field: sparse field; indices must be within its size, and distinct in each vector.
        indices: concatenated indices of all vectors, int64 `(n,)`.
        values: value at each index, `(n,)`.
        counts: number of indices of each vector, int64.
    """
    import tensorflow as tf

    size = field.sparse or 0
    inside = (indices >= 0) & (indices < size)
    indices = checked(indices, inside, f"field {field.name!r}: indices in [0, {size}) are expected, got", indices)
    rows = tf.shape(counts, tf.int64)[0]
    vector = tf.repeat(tf.range(rows), counts)
    coordinates = tf.stack([vector, indices], 1)
    shape = tf.stack([rows, tf.constant(size, tf.int64)])
    index_range = tf.sparse.SparseTensor(coordinates, tf.range(tf.size(indices)), shape)
    order = tf.sparse.reorder(index_range).values
    indices = tf.gather(indices, order)
    distinct = (indices[1:] > indices[:-1]) | (vector[1:] > vector[:-1])
    indices = checked(indices, distinct, f"field {field.name!r}: distinct indices are expected, got", indices)
    return indices, tf.gather(values, order)


def sparse_to_dense(sparse: Any, field: Field) -> Any:
    """Convert a sparse batch to a dense one; fill missing entries with zeros or empty strings."""
    import tensorflow as tf

    default = "" if field.element.is_text else None
    dense = tf.sparse.to_dense(sparse, default)
    return tf.ensure_shape(dense, [None, None, field.sparse] if field.is_list else [None, field.sparse])


def first_of_sparse(value: Any, shape: list[Any]) -> Any:
    """Return the first row of a sparse batch, cut to `shape`."""
    import tensorflow as tf

    return tf.SparseTensor(value.indices[:, 1:], value.values, tf.stack([tf.cast(n, tf.int64) for n in shape]))


@attrs.frozen(eq=False)
class Stretch:
    """Window of steps, at a separate offset in each sequence.

    Attributes:
        starts: first step to keep of each sequence, int64 `(n,)`.
        length: number of steps to keep; a sequence that ends earlier keeps all steps from `starts` on.
    """

    starts: Any
    length: int
    step: ClassVar[None] = None


@attrs.frozen
class Margins:
    """Margins of a crop: the step before the kept steps and the step after them, at the same stride.

    A margin that would lie outside of the sequence is left out.
    """


MARGINS = Margins()

Crop = tuple[slice | Stretch | Margins, ...]
"""Slices of the steps of a sequence, applied in order; `MARGINS` must be last."""


def check_steps(steps: Any) -> Crop:
    """Check a slice of steps, and convert it to a crop.

    >>> check_steps(slice(0, 100, 2))
    (slice(0, 100, 2),)

    Raises:
        OptionError: `steps` is not a slice of ints, or has a negative stride.
    """
    limits = (steps.start, steps.stop, steps.step) if isinstance(steps, slice) else ("",)
    if not all(limit is None or (isinstance(limit, int) and not isinstance(limit, bool)) for limit in limits):
        raise OptionError(f"steps: expected a slice of ints, such as slice(0, 100, 2), got {steps!r}")
    if steps.step is not None and steps.step < 1:
        raise OptionError(f"steps: expected a slice that goes forwards, got {steps!r}")
    return (slice(*(limit if limit is None else max(-_FAR, min(limit, _FAR)) for limit in limits)),)


_FAR = 1 << 62  # no sequence is longer, and sums with it fit int64


def _bounds(lengths: Any, part: slice | Stretch, xp: Any) -> tuple[Any, Any]:
    """Compute the first kept step of each sequence, and the number of kept steps."""
    if isinstance(part, Stretch):
        start = xp.minimum(part.starts, lengths)
        return start, xp.minimum(lengths - start, part.length)

    def position(index: int) -> Any:
        return xp.maximum(lengths + index, 0) if index < 0 else xp.minimum(lengths, index)

    start = position(part.start or 0)
    stop = lengths if part.stop is None else position(part.stop)
    step = part.step or 1
    return start, xp.maximum(stop - start + step - 1, 0) // step


def cropped_lengths(lengths: Any, crop: Crop, xp: Any) -> Any:
    """Compute the lengths of sequences after cropping.

    >>> import numpy as np
    >>> cropped_lengths(np.array([0, 3, 9]), (slice(1, None, 2), slice(3)), np).tolist()
    [0, 1, 3]

    Args:
        lengths: lengths of the sequences, int64 array or tensor.
        crop: steps to keep.
        xp: module of `lengths`, numpy or TensorFlow.
    """
    for part in crop:
        if not isinstance(part, Margins):
            lengths = _bounds(lengths, part, xp)[1]
    return lengths


def kept_of(length: int, crop: Crop) -> slice:
    """Convert a crop to one slice of a sequence of `length` steps.

    The crop must not contain random windows.

    >>> kept_of(9, (slice(2, 8, 3), MARGINS))
    slice(2, 11, 3)
    """
    kept = range(length)
    for part in crop:
        if isinstance(part, slice):
            kept = kept[part]
        elif isinstance(part, Margins) and kept:
            more = range(kept[0] - kept.step, kept[-1] + 2 * kept.step, kept.step)
            kept = more[int(more[0] < 0) : len(more) - int(more[-1] >= length)]
    return slice(kept.start, kept.stop, kept.step)


def cropped_positions(lengths: Any, crop: Crop) -> tuple[Any, Any]:
    """Compute the number of kept steps of each sequence, and their positions among all steps.

    Args:
        lengths: lengths of the sequences, int64 tensor `(n,)`.
        crop: steps to keep, including `MARGINS`.

    Returns:
        `(kept: int64 [n], positions: int64 [sum of kept])`; positions are counted in the concatenated sequences.
    """
    import tensorflow as tf

    kept, first, step = cropped_stretches(lengths, crop)
    first += tf.cumsum(lengths, exclusive=True)
    return kept, tf.ragged.range(first, first + kept * step, step).flat_values


def cropped_stretches(lengths: Any, crop: Crop) -> tuple[Any, Any, int]:
    """Compute which steps of each sequence a crop keeps, including its margins.

    Args:
        lengths: lengths of the sequences, int64 tensor `(n,)`.
        crop: steps to keep.

    Returns:
        The number of kept steps, the first kept step, and the stride.
    """
    start, kept, step, (before, after) = _window_of(lengths, crop)
    return kept + before + after, start - before * step, step


def without_margins(values: Any, lengths: Any, crop: Crop, present: Any) -> tuple[Any, Any]:
    """Remove the margins from the values of cropped sequences.

    Args:
        values: concatenated values of the steps at `cropped_positions`.
        lengths: lengths of the sequences before cropping, int64 tensor `(n,)`.
        crop: steps to keep, including the `MARGINS`.
        present: mask of the records that have a sequence, bool `(n,)`; None if all have one.

    Returns:
        The number of kept steps of each sequence, and the values of these steps.
    """
    import tensorflow as tf

    _, kept, _, (before, after) = _window_of(lengths, crop)
    if present is not None:
        kept, before, after = (tf.boolean_mask(sizes, present) for sizes in (kept, before, after))
    first = tf.cumsum(before + kept + after, exclusive=True) + before
    return kept, tf.gather(values, tf.ragged.range(first, first + kept).flat_values)


def _window_of(lengths: Any, crop: Crop) -> tuple[Any, Any, int, tuple[Any, Any]]:
    """Compute which steps of each sequence a crop keeps.

    Returns:
        The first kept step, the number of kept steps, their stride, and the sizes of the margins before and after them.
    """
    import tensorflow as tf

    start, kept, step = tf.zeros_like(lengths), lengths, 1
    for part in crop:
        if not isinstance(part, Margins):
            first, kept = _bounds(kept, part, tf)
            start += first * step
            step *= part.step or 1
    if MARGINS not in crop:
        return start, kept, step, (tf.zeros_like(lengths), tf.zeros_like(lengths))
    before, after = (kept > 0) & (start >= step), (kept > 0) & (start + kept * step < lengths)
    return start, kept, step, (tf.cast(before, tf.int64), tf.cast(after, tf.int64))


INDEX, SEED = "seqrecorder/index", "seqrecorder/seed"
"""Names of the features that store the numbers assigned to records while they are read."""

NUMBERS = (INDEX, SEED)

_DIGITS = 19
"""Digits of the largest int64: a fixed width makes the message around the number a constant."""

NOTHING = -1
"""Number for a batch row that has no record."""


def numbered(serialized: Any, numbers: Any, feature: str) -> Any:
    """Append a number to each serialized record.

    Args:
        serialized: serialized `tf.train.SequenceExample`s or `tf.train.Example`s, string `(n,)`.
        numbers: non-negative numbers, int64 `(n,)`.
        feature: name of the feature for the number.
    """
    import tensorflow as tf

    digits = tf.strings.as_string(numbers, width=_DIGITS, fill="0")
    return tf.strings.join([serialized, tf.fill(tf.shape(serialized), _header(feature)), digits])


@functools.cache
def _header(feature: str) -> bytes:
    """Build the beginning of a message that stores a number.

    The digits of the number are appended to it.
    """
    import tensorflow as tf

    message = tf.train.SequenceExample()
    message.context.feature[feature].bytes_list.value.append(b"0" * _DIGITS)
    serialized: bytes = message.SerializeToString()
    return serialized[:-_DIGITS]


def with_numbers(schema: Schema, names: Mapping[str, str | None]) -> Schema:
    """Add fields to a schema for numbers that messages contain as digits.

    The element type of these fields is bytes. `names` maps the feature of each number to the name of its field, or to
    None to add no field.
    """
    kind = element_type("bytes")
    numbers = [Field(name, feature, "context", kind, ()) for feature, name in names.items() if name is not None]
    return Schema(schema.name, (*schema.fields, *numbers)) if numbers else schema


def to_numbers(digits: Any) -> Any:
    """Convert parsed digits to int64 numbers.

    The number of a row without a record is -1.
    """
    import tensorflow as tf

    return tf.strings.to_number(tf.where(digits == "", str(NOTHING), digits), tf.int64)


SEED_BITS = 31
"""Bits of each of the two numbers of a seed; they must fit into int32 for the backends of Keras."""


def to_seeds(digits: Any) -> Any:
    """Convert parsed digits to seeds.

    A seed consists of two numbers, which are 0 for a row without a record.

    Returns:
        Seeds, int32 `(..., 2)`.
    """
    import tensorflow as tf

    number = tf.maximum(to_numbers(digits), 0)
    return tf.cast(tf.stack([number // (1 << SEED_BITS), number % (1 << SEED_BITS)], -1), tf.int32)


@attrs.frozen
class Derivation(ABC):
    """Interface of derivations, which replace the values of a field, compute additional fields from it, or both.

    Attributes:
        source: name of the source field, which can be stored or derived.
    """

    source: str

    beside: ClassVar[str | None] = None
    """Name of the stored context field on which the values of a record depend; None if there is none."""

    looks_around: ClassVar[bool] = False
    """True if the value at a step depends on neighbouring steps."""

    @abstractmethod
    def fields(self, field: Field) -> tuple[Field, ...]:
        """List the fields that take the place of a source field.

        The first is the source field, which the derivation can change. The added fields follow.

        Raises:
            OptionError: the derivation does not support this kind of field.
        """

    @abstractmethod
    def columns(self, field: Field, column: Column) -> tuple[Column, ...]:
        """Compute the columns of the fields that the method `fields` lists.

        Args:
            field: declaration of the source field.
            column: column of tensors, cropped and with defaults filled in.
        """

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Names of the added fields."""

    @property
    def padded_alike(self) -> tuple[str, ...]:
        """Names of the added fields that are padded with the same value as the source.

        By default, this is only the first added field.
        """
        return self.names[:1]


def derived_schema(schema: Schema, derivations: Sequence[Derivation]) -> Schema:
    """Apply derivations to a schema, in order.

    Raises:
        SchemaError: a source field does not exist.
        OptionError: a derivation does not support the kind of its source field.
    """
    fields = list(schema.fields)
    for derivation in derivations:
        field = Schema(schema.name, tuple(fields))[derivation.source]
        at = fields.index(field)
        fields[at : at + 1] = derivation.fields(field)
    return attrs.evolve(schema, fields=tuple(fields)) if derivations else schema


def derive_columns(schema: Schema, columns: dict[str, Column], derivations: Sequence[Derivation]) -> None:
    """Add the columns of derived fields to the columns of stored fields.

    Args:
        schema: schema of the stored fields.
        columns: mapping of field name to column; it contains at least the source fields.
        derivations: derivations to apply, in order.
    """
    known = {field.name: field for field in schema.fields}
    for each in derivations:
        derivation = each.of_groups(columns) if isinstance(each, FieldMap) and each.beside is not None else each
        field = known[derivation.source]
        fields = derivation.fields(field)
        known |= {new.name: new for new in fields}
        columns.update(zip((new.name for new in fields), derivation.columns(field, columns[field.name]), strict=True))


def sources_of(derivations: Sequence[Derivation]) -> dict[str, str]:
    """Map each derived field to its stored source."""
    sources: dict[str, str] = {}
    for derivation in derivations:
        sources |= dict.fromkeys(derivation.names, sources.get(derivation.source, derivation.source))
    return sources


def derivations_of(schema: Schema, derivations: Sequence[Derivation]) -> list[Derivation]:
    """Select the derivations that can be computed from the fields of a schema, in order.

    If the source of a derivation is itself a derived field, the schema need not contain it, but must contain the stored
    field from which it is computed.
    """
    sources, stored = sources_of(derivations), {field.name for field in schema.fields}
    return [each for each in derivations if sources.get(each.source, each.source) in stored]


# Mapped values --------------------------------------------------------------------------------------------------------


@attrs.frozen
class FieldMap(Derivation):
    """Elementwise map of the values of a field; the mapped values are padded with zeros.

    Attributes:
        target: declaration of the mapped values.
        tensor: graph function that maps a tensor of values `(n, *known dimensions)` to a tensor of the same shape.
        stored: name of an additional field with the stored values; None to add no field.
        beside: name of the context field with the group of a record; None if there are no groups.
        code: function that converts values of `beside` to group numbers; `tensor` then takes the group number of each
            value as its second argument.
    """

    target: Field
    tensor: Callable[..., Any] = attrs.field(eq=False)
    stored: str | None = None
    beside: str | None = None  # type: ignore[misc]  # set for each map
    code: Callable[[Any], Any] = attrs.field(default=lambda keys: keys, eq=False)

    def of_groups(self, columns: Mapping[str, Column]) -> FieldMap:
        """Return a copy of this map that uses the groups of the records in `columns`.

        The copy takes no group numbers, and can only map the values of these records.
        """
        import tensorflow as tf

        groups, column = self.code(columns[str(self.beside)].values), columns[self.source]
        groups = groups if column.present is None else tf.boolean_mask(groups, column.present)
        for sizes in (column.steps, column.counts):
            groups = groups if sizes is None else tf.repeat(groups, sizes)
        return attrs.evolve(self, tensor=lambda values: self.tensor(values, groups), beside=None)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the added fields."""
        return () if self.stored is None else (self.stored,)

    def fields(self, field: Field) -> tuple[Field, ...]:
        """List the fields that take the place of the source field.

        The first contains the mapped values. If `stored` is set, a field with the stored values follows.
        """
        copy = as_numbers(field, field.element.name)
        mapped = attrs.evolve(self.target, shape=field.shape, align=field.align, per_step=field.per_step)
        return (mapped, *(attrs.evolve(copy, name=name, feature=name) for name in self.names))

    def columns(self, field: Field, column: Column) -> tuple[Column, ...]:  # noqa: ARG002 - part of the interface
        """Map the values of a column.

        Returns:
            The column of mapped values and, if `stored` is set, the column of stored values.
        """
        return (attrs.evolve(column, values=self.tensor(column.values)), *(column for _ in self.names))


class MapsField(Protocol):
    """Interface of objects that map the values of a field: vocabularies and statistics."""

    def field_map(self, field: Field) -> FieldMap:
        """Build the map for the values of a field.

        Raises:
            OptionError: the mapping does not support this kind of field.
        """
        ...


def as_numbers(field: Field, dtype: str) -> Field:
    """Change the element type of a field to a number type."""
    return attrs.evolve(
        field,
        element=element_type(dtype),
        storage="auto" if field.per_step is None else "packed",
        default=attrs.NOTHING,
        key=False,
        chunk=False,
        deferred=False,
    )


def to_longest(_: str, lengths: Any) -> Any:
    """Choose the padded length: the longest length of the batch, but at least 1."""
    return longest_of(lengths)


@attrs.frozen(eq=False)
class Padding:
    """Options of padding.

    Attributes:
        values: mapping of field to padding value; other fields are padded with zeros or empty text.
        width: function that computes the padded length from an alignment group and the lengths in a batch.
        left: alignment groups to pad on the left.
        ragged: whether to pad ragged values, too; each dimension is padded to the longest of the batch.
        static: mapping of alignment group to padded length, for groups in which it is the same in all batches.
    """

    values: Mapping[str, Any] = attrs.field(factory=dict)
    width: Callable[[str, Any], Any] = to_longest
    left: frozenset[str] = frozenset()
    ragged: bool = False
    static: Mapping[str, int] = attrs.field(factory=dict)

    def filler(self, field: Field) -> Any:
        """Return the padding value of a field as a scalar tensor."""
        return constant(field, self.values.get(field.name, field.element.zero()))

    def fill(self, field: Field, value: Any, lengths: Any) -> Any:
        """Write the padding value of a field after the real steps of a tensor.

        The shape of the tensor is `(B, T, ...)`, and `lengths` contains the number of real steps of each row. A field
        without a padding value is unchanged.
        """
        import tensorflow as tf

        if field.name not in self.values:
            return value
        real = tf.sequence_mask(lengths, tf.shape(value)[1])
        real = tf.reshape(real, tf.concat([tf.shape(real), [1] * (value.shape.rank - 2)], 0))
        return tf.where(real, value, self.filler(field))

    def shift(self, field: Field, value: Any, lengths: Any) -> Any:
        """Move the padding of a field to the left if its group is padded on the left."""
        import tensorflow as tf

        if field.group not in self.left:
            return value
        width = tf.shape(value, tf.int64)[1]
        at = tf.math.floormod(tf.range(width) + lengths[:, tf.newaxis], width)
        return tf.ensure_shape(tf.gather(value, at, batch_dims=1), value.shape)


def of_all_rows(column: Column, sizes: Any) -> Any:
    """Expand the sizes of the records that have a value to the sizes of all records.

    The size of a record without a value is 0.
    """
    import tensorflow as tf

    if column.present is None:
        return sizes
    return tf.scatter_nd(tf.where(column.present), sizes, tf.shape(column.present, tf.int64))


def padded(field: Field, column: Column, rows: Any, longest: Any, padding: Padding) -> Any:
    """Pad a flat field into a batch tensor.

    Args:
        field: declaration of the field.
        column: flat column of the field.
        rows: number of records in the batch, int64 scalar.
        longest: number of steps to pad sequences to, int64 scalar; unused for context fields.
        padding: padding options.
    """
    import tensorflow as tf

    if field.sparse is not None:
        sparse = _sparse_tensor(field, column, rows, longest)
        return sparse_to_dense(sparse, field) if field.dense else sparse
    if not field.is_list and not field.is_ragged:
        return _fill(field, column)
    values, inner = column.values, []
    if field.is_ragged and field.is_list:
        values = tf.RaggedTensor.from_row_lengths(values, column.counts, validate=False)
        # At least 1, because layers fail on an empty dimension.
        inner = [longest_of(column.counts)]
    sizes = of_all_rows(column, column.steps if field.is_list else column.counts)
    ragged = tf.RaggedTensor.from_row_lengths(values, sizes, validate=False)
    if field.is_ragged and not padding.ragged:
        return ragged
    width = longest if field.is_list else longest_of(sizes)
    # Stack to a tensor, because lengths are tensors in a graph; -1 is the batch size.
    shape = tf.stack([tf.cast(n, tf.int64) for n in [-1, width, *inner, *field.rest]])
    dense = ragged.to_tensor(shape=shape, default_value=padding.filler(field))
    return tf.ensure_shape(dense, [None, None, *([None] if inner else []), *field.rest])


def _fill(field: Field, column: Column) -> Any:
    """Replace None with zeros or empty text in a context field of known shape."""
    import tensorflow as tf

    values = column.values
    if column.present is not None:
        values = spread_rows(values, column.present, tf.zeros([], values.dtype))
    return tf.ensure_shape(values, [None, *field.rest])


def _sparse_tensor(field: Field, column: Column, rows: Any, longest: Any) -> Any:
    import tensorflow as tf

    if field.is_list:
        steps = of_all_rows(column, column.steps)
        record = tf.repeat(tf.range(rows), steps)
        step = tf.range(tf.shape(record, tf.int64)[0]) - tf.gather(tf.cumsum(steps, exclusive=True), record)
        positions = [tf.repeat(record, column.counts), tf.repeat(step, column.counts), column.indices]
        shape = [rows, longest, field.sparse]
    else:
        positions = [tf.repeat(tf.range(rows), of_all_rows(column, column.counts)), column.indices]
        shape = [rows, field.sparse]
    return tf.SparseTensor(tf.stack(positions, 1), column.values, tf.stack([tf.cast(n, tf.int64) for n in shape]))


def check_values(schema: Schema, values: Mapping[str, Any], read: Schema) -> dict[str, Any]:
    """Convert padding values to the dtypes in which their fields are read.

    For example, a field that a vocabulary maps is read in the dtype of the ids.

    Raises:
        OptionError: a value does not fit its field, or the field is not padded.
        SchemaError: a field does not exist.
    """
    exact = {}
    for name, value in values.items():
        field = next((field for field in read.fields if field.name == name), schema[name])
        if field.sparse is not None or not (field.is_list or field.is_ragged):
            raise OptionError(f"padding_values: field {name!r} is not padded; leave it out")
        try:
            exact[name] = exact_scalar(value, field.element)
        except Mismatch as problem:
            raise OptionError(f"padding_values: field {name!r}: {problem}") from None
    return exact
