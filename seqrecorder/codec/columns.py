"""Columns, which hold the values of one field over many records, and their conversion from and to records.

A column consists of flat values and row lengths. When records are gathered into columns, values that already have the
declared type and shape are checked with vector operations, and all other values one at a time, so that error messages
can be precise. Columns are encoded to bytes in `encode`.
"""

from __future__ import annotations

import functools
import os
import sys
from collections import deque
from collections.abc import Mapping
from itertools import chain, repeat
from operator import attrgetter, countOf
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.errors import FieldProblem, OptionError, RecordError, SchemaError, did_you_mean
from seqrecorder.schema.declarations import METADATA_KEY
from seqrecorder.schema.exact_values import Mismatch, SparseVector, advice, describe
from seqrecorder.schema.field import Field, is_normaliser
from seqrecorder.schema.schema import Schema
from seqrecorder.wire.write import text_features

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from seqrecorder.wire.byte_rows import Blob

    Builder = Callable[[Sequence[Sequence[Any]]], list[Any]]


@attrs.frozen(eq=False, repr=False)
class Column:
    """Values of one field over N records, as numpy arrays or, in a graph, as tensors.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Visit:
    ...     ages: np.ndarray | None = sr.feature_list("int32", optional=True)
    >>> ages = sr.Column(np.array([31, 32, 40]), steps=np.array([2, 1]), present=np.array([True, False, True]))
    >>> with sr.Writer(tempfile.mkdtemp(), Visit) as writer:
    ...     writer.write_batch({"ages": ages})
    >>> [record.ages for record in sr.read_records(writer.manifest.path)]
    [array([31, 32], dtype=int32), None, array([40], dtype=int32)]

    Attributes:
        values: flat values of all records, of the declared dtype and shape `(S, *known dimensions)`; text is an object
            array or a string tensor.
        steps: number of steps of each present record, for feature lists.
        counts: number of values of each record (context) or step (feature_list), for ragged and sparse fields.
        indices: index of each value, for sparse fields.
        present: mask of the records that have a value, bool `(N,)`; None if all have one. `values`, `steps` and
            `counts` cover only these records.
        features: internal: short texts in encoded form, a by-product of checking them.
    """

    values: Any
    steps: Any = None
    counts: Any = None
    indices: Any = None
    present: Any = None
    features: Blob | None = None

    def __repr__(self) -> str:
        arrays = {a.name: getattr(self, a.name) for a in attrs.fields(Column) if getattr(self, a.name) is not None}
        shown = (
            f"{name}={getattr(array, 'dtype', type(array).__name__)} {tuple(getattr(array, 'shape', ()))}"
            for name, array in arrays.items()
        )
        return f"Column({', '.join(shown)})"

    @property
    def records(self) -> int:
        """Number of records, including records without a value."""
        return len(next(array for array in (self.present, self.steps, self.counts, self.values) if array is not None))

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of steps or values in each record.

        Feature lists count their steps. Ragged and sparse context fields count their values. The number is 0 for a
        record without a value.
        """
        sizes: NDArray[np.int64] = np.asarray(self.counts if self.steps is None else self.steps, np.int64)
        if self.present is None:
            return sizes
        spread = np.zeros(self.present.shape, np.int64)
        spread[self.present] = sizes
        return spread


def gather(schema: Schema, records: Sequence[Any]) -> dict[str, Column]:
    """Gather records into one column per field.

    Args:
        schema: schema of the records.
        records: records of the schema's class.

    Raises:
        RecordError: a value does not fit its field; the `problems` of the error list all bad fields of the first bad
            record.
    """
    _check_types(schema, records)
    problems: dict[int, list[FieldProblem]] = {}
    columns: dict[str, Column] = {}
    for field in schema.fields:
        column = _gather_field(field, list(map(attrgetter(field.name), records)), problems)
        if column is not None:
            columns[field.name] = column
    check_alignment(schema, columns, len(records), problems)
    if problems:
        position = min(problems)
        if len(columns) < len(schema.fields):
            gather(schema, records[:position])  # a failed column hid the lengths of earlier records: compare them now
        key = getattr(records[position], schema.key_field.name, None) if schema.key_field else None
        raise RecordError(f"{schema.name} cannot be encoded", position=position, key=key, problems=problems[position])
    return columns


def _check_types(schema: Schema, records: Sequence[Any]) -> None:
    if countOf(map(type, records), schema.record_class) == len(records):
        return
    for kind in set(map(type, records)) - {schema.record_class}:
        if attrs.has(kind) and Schema.of(kind).fields == schema.fields:
            continue
        position, wrong = next((i, record) for i, record in enumerate(records) if type(record) is kind)
        got = f"{kind.__name__}{advice(wrong, schema.name)}"
        raise RecordError(f"expected a record of class {schema.name}, got {got}", position=position)


def _gather_field(field: Field, values: list[Any], problems: dict[int, list[FieldProblem]]) -> Column | None:
    present, values = split_present(field, values)
    column = collect(field, values)
    if column is None:
        where = np.arange(len(values)) if present is None else np.flatnonzero(present)
        exact = []
        for position, value in zip(where.tolist(), values, strict=True):
            try:
                exact.append(field.checked(value))
            except Mismatch as mismatch:
                problem = FieldProblem(field.name, mismatch.index, mismatch.expected, mismatch.got)
                problems.setdefault(position, []).append(problem)
            except (TypeError, ValueError, OverflowError) as error:  # numpy cannot convert a value
                problem = FieldProblem(field.name, (), field.element.name, f"{type(value).__name__} ({error})")
                problems.setdefault(position, []).append(problem)
        if len(exact) < len(values):
            return None
        column = collect(field, exact)
        if column is None:  # pragma: no cover - only a bug gets here: exact values can be collected
            raise AssertionError(f"field {field.name!r}: values were normalised and still not accepted")
    return column if present is None else attrs.evolve(column, present=present)


def split_present(field: Field, values: list[Any]) -> tuple[NDArray[np.bool_] | None, list[Any]]:
    """Separate missing values from the others.

    Returns:
        The mask of the records with a value, or None if all have one, and the list of values that are not missing.
    """
    present = np.fromiter((value is not None for value in values), bool, len(values)) if field.optional else None
    if present is None or present.all():
        return None, values
    return present, [value for value in values if value is not None]


# From values to columns; these functions return None if a value is not in exact form ----------------------------------


def collect(field: Field, values: list[Any]) -> Column | None:
    """Build a column from values; return None if a value lacks the declared type or shape (see `Field.exact`).

    Args:
        field: declaration of the field.
        values: values of the records that have one.
    """
    column = _collect_unchecked(field, values)
    return column if column is None or not field.element.is_text else with_texts(field, column)


def _collect_unchecked(field: Field, values: list[Any]) -> Column | None:
    """Build a column from values, without checking texts."""
    if field.is_image and (field.any_size or any(type(value) is not np.ndarray for value in values)):
        return _images(field, values)
    if field.is_list and (field.is_ragged or field.sparse is not None):
        if set(map(type, values)) - {list}:
            return None
        column = _rows(field, list(chain.from_iterable(values)))
        return None if column is None else attrs.evolve(column, steps=_lengths(values))
    return _scalars(field, values) if field.is_scalar else _rows(field, values)


def _scalars(field: Field, values: list[Any]) -> Column | None:
    element = field.element
    if element.is_text:
        return Column(objects(values))
    kinds = set(map(type, values))
    if element.is_time or kinds - {bool if element.name == "bool" else element.numpy.type}:
        if not element.is_time or {getattr(value, "dtype", None) for value in values} - {element.numpy}:
            return None
        return Column(np.array(values, element.numpy))
    return Column(np.fromiter(values, element.numpy, len(values)))


def _rows(field: Field, values: list[Any]) -> Column | None:
    """Build a column from arrays or sparse vectors, one for each record or step."""
    if field.sparse is not None:
        return _sparse(field, values)
    leading = int(field.is_list or field.is_ragged)
    flat = _flatten(field, values, leading=leading)
    if flat is None:
        return None
    if not leading:
        return Column(flat)
    return Column(flat, counts=_lengths(values)) if field.is_ragged else Column(flat, steps=_lengths(values))


def _lengths(values: list[Any]) -> NDArray[np.int64]:
    return np.fromiter(map(len, values), np.int64, len(values))


def _images(field: Field, values: list[Any]) -> Column | None:
    """Build a column that contains one object per image.

    Such columns are for images that can differ in size, and for images of which some are encoded.
    """
    try:
        exact = [field.exact(value) for value in values]
    except (Mismatch, TypeError, ValueError, OverflowError):
        return None
    if not field.is_list:
        return Column(objects(exact))
    return Column(objects(list(chain.from_iterable(exact))), steps=_lengths(exact))


def _sparse(field: Field, values: list[Any]) -> Column | None:
    if set(map(type, values)) - {SparseVector} or {vector.size for vector in values} - {field.sparse}:
        return None
    flat = _flatten(field, [vector.values for vector in values], leading=1)
    if flat is None:
        return None
    indices = np.concatenate([vector.indices for vector in values]) if values else np.empty(0, np.int64)
    return Column(flat, counts=_lengths([vector.indices for vector in values]), indices=indices)


def _flatten(field: Field, values: list[Any], *, leading: int) -> NDArray[Any] | None:
    """Concatenate arrays of shape `(n, *rest)` or `(*rest)`.

    Returns:
        An array of shape `(n, *rest)`, or None if one of the arrays has a different shape or dtype.
    """
    rest = field.rest
    if not values:
        return np.empty((0, *rest), field.element.numpy)
    if countOf(map(type, values), np.ndarray) < len(values):
        return None
    if len(values) == 1 and values[0].dtype == field.element.numpy and values[0].ndim == leading + len(rest):
        alone: NDArray[Any] = values[0] if leading else values[0][np.newaxis]  # not copied: it may fill the memory
        return np.ascontiguousarray(alone) if alone.shape[1:] == rest else None
    try:
        # `casting="no"` raises for arrays of another dtype, and concatenation for other ranks.
        flat = (np.concatenate if leading else np.stack)(values, dtype=field.element.numpy, casting="no")
    except (TypeError, ValueError):
        return None
    return flat if flat.shape[1:] == rest else None


def with_texts(field: Field, column: Column) -> Column | None:
    """Check the texts of a column, and add their encoded features if possible (see `text_features`).

    Returns:
        The column, or None if a value has the wrong type or cannot be encoded as UTF-8.
    """
    kind = str if field.element.name == "str" else bytes
    values = column.values.ravel().tolist()
    try:
        features = text_features(values, kind, wrapped=field.is_list) if field.is_single else None
        # Joining raises for anything but str, but accepts other buffers for bytes.
        if features is None or kind is bytes or not field.is_list:
            if countOf(map(type, values), kind) < len(values):
                return None
            if features is None and kind is str:
                "".join(set(values)).encode()  # tokens repeat: check each distinct one once
    except (TypeError, UnicodeEncodeError):  # not text, or not UTF-8
        return None
    return attrs.evolve(column, features=features)


def nested(
    field: Field, values: Any, lengths: Sequence[NDArray[np.int64]], present: NDArray[np.bool_] | None = None
) -> Column:
    """Build a column from flat values and the lengths of the lists that contain them.

    `lengths` has one array for each level of nesting, and begins with the outermost lists.
    """
    steps = lengths[0] if field.is_list else None
    counts = lengths[int(field.is_list)] if field.is_ragged else None
    return Column(values, steps, counts, present=present)


def objects(values: Sequence[Any]) -> NDArray[Any]:
    """Create a one-dimensional object array with one entry per value.

    `numpy.array` would turn values that are sequences of equal length into further dimensions.
    """
    return np.fromiter(values, object, len(values))


def check_alignment(
    schema: Schema, columns: dict[str, Column], size: int, problems: dict[int, list[FieldProblem]]
) -> None:
    """Add a problem for each field of a record whose length disagrees with its alignment group or its rate."""
    for group in [group for group in schema.groups if group not in schema.rates]:
        groups = [group, *(other for other, (followed, _) in schema.rates.items() if followed == group)]
        members = [f for one in groups for f in schema.members(one) if f.name in columns]
        if len(members) < 2 or not size:  # noqa: PLR2004 - a single field cannot disagree
            continue
        lengths = np.stack([columns[field.name].sizes for field in members])
        present = np.ones(lengths.shape, bool)
        for row, field in enumerate(members):
            if columns[field.name].present is not None:
                present[row] = columns[field.name].present
        leader = present.argmax(0)  # the first field with a value sets the length
        rates = np.array([schema.rates[f.group][1] if f.group != group else 1 for f in members])
        expected = lengths[leader, np.arange(size)] * rates[:, None] // rates[leader]
        for row, position in np.argwhere(present & (lengths != expected)).tolist():
            first, each = members[leader[position]], members[row].per_step
            beside = (
                "has (align=None frees a field)"
                if first.group == members[row].group
                else f"has, times {each} (cut or pad it)"
            )
            want = f"{expected[row, position]} steps, as {first.name!r} {beside}"
            problem = FieldProblem(members[row].name, (), want, f"{lengths[row, position]} steps")
            problems.setdefault(position, []).append(problem)


def group_lengths(schema: Schema, columns: dict[str, Column], size: int) -> NDArray[np.int64]:
    """Compute the length of each record in each alignment group.

    Returns:
        Lengths, int64 `(size, max(1, groups))`.
    """
    table = np.zeros((size, max(1, len(schema.groups))), np.int64)
    for position, group in enumerate(schema.groups):
        for field in schema.members(group):
            np.maximum(table[:, position], columns[field.name].sizes, out=table[:, position])
    return table


# From columns to the values of single records ------------------------------------------------------------------------


def scatter(field: Field, column: Column) -> list[Any]:
    """Split a column into one value per record; arrays are views into the column.

    Records without a value get None.
    """
    values = _split_values(field, column)
    if column.present is None:
        return values
    rest = iter(values)
    return [next(rest) if here else None for here in column.present.tolist()]


def _split_values(field: Field, column: Column) -> list[Any]:
    values = column.values
    if field.sparse is not None:
        pairs = zip(split(column.indices, column.counts), split(values, column.counts), strict=True)
        values = [SparseVector(indices, own, field.sparse) for indices, own in pairs]
    elif field.is_ragged:
        values = split(values, column.counts)
    elif field.any_size or field.encoded:
        values = list(values)
    elif not (field.is_list or field.shape) and (field.element.is_text or field.element.name == "bool"):
        values = values.tolist()
    return split(values, column.steps) if field.is_list else list(values)


def split(values: Any, lengths: NDArray[np.int64]) -> list[Any]:
    """Cut values into pieces of the given lengths.

    The pieces of an array are views, and the pieces of a list are copies.
    """
    ends = np.cumsum(lengths).tolist()
    return [values[start:end] for start, end in zip([0, *ends], ends, strict=False)]


_without_threads = False


def check_threads_of_tensorflow(what: str) -> None:
    """Raise an error if this process was forked after TensorFlow was used.

    The process would wait forever for the threads of TensorFlow, which only its parent has.

    Args:
        what: the action that would wait, for the message.

    Raises:
        OptionError: TensorFlow was used before the fork.
    """
    if _without_threads:
        raise OptionError(
            f"{what}: this process (pid {os.getpid()}) was forked after its parent had used TensorFlow, whose threads "
            "a fork does not take along, so that it would hang; start processes by 'spawn' or 'forkserver' "
            "(multiprocessing.get_context), or fork before TensorFlow is used"
        )


def _begin_child() -> None:
    global _without_threads  # noqa: PLW0603 - process-wide state
    # Public functions cannot check this without starting TensorFlow.
    context = getattr(sys.modules.get("tensorflow.python.eager.context"), "_context", None)
    _without_threads |= bool(getattr(context, "_initialized", False))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_child)


_LARGEST = 31 << 20  # bytes: slightly less than 32 MiB, the largest block to which glibc adjusts its threshold


@functools.cache
def keep_freed_memory() -> None:
    """Let the C library keep freed memory for later allocations instead of returning it to the system.

    Encoding and parsing allocate and free arrays of megabytes. glibc maps a block of that size when it is allocated and
    unmaps it when it is freed, and the system zeroes every page again, which can take longer than the encoding itself.
    When such a block is freed, glibc raises the threshold for mapping to its size (`mallopt(3)`, M_MMAP_THRESHOLD), so
    it is enough to free one block that was never written to. From then on, the process keeps freed memory of at most
    twice that size. Other C libraries are not affected.
    """
    np.empty(_LARGEST, np.uint8)


def builder(schema: Schema) -> Builder:
    """Build the function that creates records from one sequence of exact values per field (see `Field.exact`).

    >>> import numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Point:
    ...     name: str = sr.context(str)
    ...     rank: int = sr.context("int8", default=0)
    >>> builder(sr.Schema.of(Point))([["a", "b"], [1, 2]])
    [Point(name='a', rank=1), Point(name='b', rank=2)]

    Raises:
        SchemaError: an attribute of the class is not stored and has no default.
    """
    arguments = _arguments(schema)
    if only_stores(schema.record_class, len(schema.fields)):
        return _storing(schema)
    build = schema.record_class
    return lambda values: [build(**dict(zip(arguments, row, strict=True))) for row in zip(*values, strict=True)]


def records_of(schema: Schema, columns: Mapping[str, Column]) -> list[Any]:
    """Create records from columns."""
    return builder(schema)([scatter(field, columns[field.name]) for field in schema.fields])


def maker_from_mapping(schema: Schema) -> Callable[[Any, int], Any]:
    """Build the function that creates a record from a dictionary of its values and its position.

    >>> import seqrecorder as sr
    >>> @sr.record
    ... class Point:
    ...     name: str = sr.context(str)
    ...     rank: int | None = sr.context("int8", optional=True)
    >>> maker_from_mapping(sr.Schema.of(Point))({"name": "a"}, 0)
    Point(name='a', rank=None)

    Fields that are optional or have a default can be left out. The function raises `RecordError` for an unknown key, a
    missing key, and a value that is not a dictionary.
    """
    record_class = schema.record_class
    alias = {a.name: a.alias or a.name for a in attrs.fields(record_class) if a.init}
    renamed = {name: other for name, other in alias.items() if name != other}
    empty = {field.name: None for field in schema.fields if field.optional and field.default is attrs.NOTHING}
    key = schema.key_field.name if schema.key_field is not None else None

    def make(row: Any, position: int) -> Any:
        if not isinstance(row, Mapping):
            raise RecordError(f"expected a dictionary, as the records before, got {describe(row)}", position=position)
        values = {**empty, **row} if empty else row
        if renamed:
            values = {renamed.get(name, name): value for name, value in values.items()}
        try:
            return record_class(**values)
        except TypeError:
            problems = _bad_keys(schema, row, alias)
            if not problems:
                raise
            row_key = row.get(key) if key else None
            message = f"this dictionary is no {schema.name}"
            raise RecordError(message, position=position, key=row_key, problems=problems) from None

    return make


def _bad_keys(schema: Schema, row: Mapping[Any, Any], names: Mapping[str, str]) -> list[FieldProblem]:
    problems = [
        FieldProblem(
            str(name),
            (),
            f"a field of {schema.name}{did_you_mean(name, names)}",
            "another key (of JSON lines, extra='ignore' leaves it out)",
        )
        for name in row
        if name not in names
    ]
    return problems + [
        FieldProblem(field.name, (), "a value (only what has a default or is optional may be missing)", "nothing")
        for field in schema.fields
        if field.name not in row and field.default is attrs.NOTHING and not field.optional
    ]


def _arguments(schema: Schema) -> list[str]:
    """List the constructor arguments of the fields."""
    attributes = attrs.fields(schema.record_class)
    for attribute in attributes:
        if METADATA_KEY not in attribute.metadata and attribute.init and attribute.default is attrs.NOTHING:
            text = "no record can be decoded: give it a default, or declare it with seqrecorder.context or feature_list"
            raise SchemaError(f"{schema.name}.{attribute.name} is kept off disk and has no default, so that {text}")
    aliases = {attribute.name: attribute.alias for attribute in attributes}
    return [aliases[field.name] or field.name for field in schema.fields]


def only_stores(record_class: Any, fields: int) -> bool:
    """Check whether creating a record only normalizes and stores its fields, without running user code."""
    attributes = attrs.fields(record_class)
    if not fields or len(attributes) != fields:
        return False
    plain = all(a.init and a.validator is None and is_normaliser(a.converter) for a in attributes)
    created = type(record_class).__call__ is type.__call__ and record_class.__new__ is object.__new__
    hooked = any(hasattr(record_class, name) for name in ("__attrs_pre_init__", "__attrs_post_init__"))
    set_plainly = record_class.__setattr__ is object.__setattr__ or _is_of_attrs(record_class.__setattr__)
    return plain and created and not hooked and set_plainly and _is_of_attrs(record_class.__init__)


_FROZEN = attrs.frozen(type("Frozen", (), {})).__setattr__  # attrs shares it between all frozen classes


def _is_of_attrs(method: Any) -> bool:
    """Check whether attrs generated a method.

    A generated method is recognized by its docstring. Wrappers of methods are excluded, because they copy the
    docstring.
    """
    is_generated = (getattr(method, "__doc__", None) or "").startswith("Method generated by attrs for class ")
    return method is _FROZEN or (is_generated and not hasattr(method, "__wrapped__"))


def _storing(schema: Schema) -> Builder:
    record_class = schema.record_class
    names = [field.name for field in schema.fields]
    descriptors = [getattr(record_class, name, None) for name in names]
    slots = [slot.__set__ if isinstance(slot, MemberDescriptorType) else None for slot in descriptors]

    def build(values: Sequence[Sequence[Any]]) -> list[Any]:
        if len(values[0]) == 1:
            record: Any = object.__new__(record_class)
            for name, put, (value,) in zip(names, slots, values, strict=True):
                put(record, value) if put else object.__setattr__(record, name, value)
            return [record]
        records: list[Any] = list(map(object.__new__, repeat(record_class, len(values[0]))))
        for name, put, column in zip(names, slots, values, strict=True):
            deque(
                map(put, records, column) if put else map(object.__setattr__, records, repeat(name), column), maxlen=0
            )
        return records

    return build


def is_arrow(data: object) -> bool:
    """Check whether an object has the Arrow C interface.

    >>> is_arrow([1, 2])
    False
    """
    kind = type(data)
    return hasattr(kind, "__arrow_c_stream__") or hasattr(kind, "__arrow_c_array__") or _is_series_of_lists(data)


def _is_series_of_lists(data: Any) -> bool:
    """Check whether an object is a pandas series of lists.

    The first value that is not None decides. Before pandas 3, such a series lacks the Arrow C interface.
    """
    kind = type(data)
    if kind.__name__ != "Series" or not kind.__module__.startswith("pandas.") or data.dtype != object:
        return False
    return isinstance(next((item for item in data if item is not None), None), list | tuple | np.ndarray)


def is_table(data: object) -> bool:
    """Check whether an object is a table with the Arrow C interface, or a Hugging Face dataset.

    >>> is_table([1, 2])
    False
    """
    return is_arrow(data) or is_hub_dataset(data)


def is_hub_dataset(data: object) -> bool:
    """Check whether an object is a Hugging Face dataset."""
    return type(data).__module__.partition(".")[0] == "datasets" and hasattr(data, "with_format")
