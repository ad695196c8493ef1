"""Conversion between columns and tables or arrays of pyarrow, polars, pandas and DuckDB, over the Arrow C interface.

Libraries export their data with `__arrow_c_stream__` and `__arrow_c_array__`
(https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html), and pyarrow imports it without a copy.
A list column becomes a feature list or ragged values, held as flat values and the lengths of the rows.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.codec.columns import Column, is_hub_dataset, nested, objects
from seqrecorder.errors import OptionError, SourceError
from seqrecorder.schema.dtypes import element_type
from seqrecorder.schema.exact_values import Mismatch, cast_values, check_zone, describe, zone_of
from seqrecorder.schema.field import Field
from seqrecorder.schema.half_floats import widen
from seqrecorder.wire.byte_rows import Blob, bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from seqrecorder.schema.dtypes import ElementType
    from seqrecorder.schema.schema import Schema


def columns_of_table(data: Any) -> dict[str, Any]:
    """Split a table into a mapping of column name to column.

    Args:
        data: a table, a data frame, a record batch, or a stream of these.

    Raises:
        OptionError: `data` is an array, or pyarrow is not installed.
    """
    pa = pyarrow()
    try:
        table = pa.table(data)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise OptionError(f"columns: expected a table, or a mapping of field to column, got {error}") from error
    columns = dict(zip(table.column_names, _checked(data, table).columns, strict=True))
    # pandas adds a column of row numbers if rows were dropped.
    return {name: column for name, column in columns.items() if not name.startswith("__index_level_")}


def column_of_array(field: Field, data: Any, *, cast: bool = False) -> Column:
    """Convert an array with one row per record to a column.

    Args:
        field: declaration of the field.
        data: array, chunked or not. A feature list takes lists, or lists of lists if its steps are ragged. Each known
            dimension of the shape is one more level of lists, all of the declared length. A null record becomes None. A
            null float or time inside a record, or in a scalar field that cannot be None, becomes NaN or NaT.
        cast: whether to convert numbers to the declared type with `cast_values`.

    Raises:
        OptionError: the nesting or the time zone does not match the field, or pyarrow is not installed.
        Mismatch: a record contains a null other than those described above, or a value that cannot be cast; the index
            in the exception begins with the position of the record.
    """
    array = _import_array(field, data)
    if pyarrow().types.is_null(array.type):  # a null array has no value type
        array = _nulls(field, len(array))
    present = None
    has_own = field.element.has_nan or field.element.is_time
    if array.null_count and not (field.is_scalar and has_own and not field.optional):
        present = array.is_valid().to_numpy(zero_copy_only=False)
        array = array.drop_null()
    lengths: list[NDArray[np.int64]] = []  # outermost lists first
    try:
        for _ in range(int(field.is_list) + int(field.is_ragged)):
            counts, array = _flatten_lists(field, array)
            lengths.append(counts)
        if field.is_image and (images := _images(field, array)) is not None:
            return nested(field, images, lengths, present)
        for size in field.rest:
            counts, array = _flatten_lists(field, array)
            lengths.append(counts)
            if (counts != size).any():
                text = f"expected lists of {size} values, of shape {field.rest}, got one of"
                raise OptionError(f"columns: field {field.name!r}: {text} {int(counts[counts != size][0])}")
        values = _flat(field, array)
        values = (cast_values(values, field.element) if cast else values).reshape(-1, *field.rest)
    except Mismatch as mismatch:
        raise Mismatch(mismatch.expected, mismatch.got, outward(mismatch.index, lengths[::-1], present)) from None
    return nested(field, values, lengths, present)


def _images(field: Field, array: Any) -> NDArray[Any] | None:
    """Convert an Arrow array of images that are encoded, or that can be of any size.

    Returns:
        An array of objects, one per image, or None if the array contains the pixels of images of one size.
    """
    types = pyarrow().types
    if not (field.any_size or types.is_binary(array.type) or types.is_large_binary(array.type)):
        return None
    return objects(field.exact_images(array.to_pylist()))


def column_of_sparse(field: Field, indices: Any, values: Any, *, cast: bool = False) -> Column:
    """Convert an array of index lists and an array of value lists to the column of a sparse field.

    Args:
        field: declaration of the sparse field. For a feature list, both are arrays of lists of lists.
        indices: lists of ascending indices, each at least 0 and less than the declared size.
        values: lists of values, of the same lengths as `indices`.
        cast: whether to convert numbers to the declared type with `cast_values`.

    Raises:
        OptionError: the nesting does not match the field, the lists differ in length, or pyarrow is not installed.
        Mismatch: an index is out of range, repeated or out of order.
    """
    parts = (("indices", element_type("int64"), indices), ("values", field.element, values))
    where, what = (
        column_of_array(Field(field.name, name, field.kind, element, (None,), optional=True), array, cast=cast)
        for name, element, array in parts
    )
    for name in ("present", "steps", "counts"):
        left, right = getattr(where, name), getattr(what, name)
        if (left is None) is not (right is None) or not np.array_equal(left, right):
            raise OptionError(f"columns: field {field.name!r}: expected as many indices as values in each list")
    flat = np.asarray(where.values)
    starts = np.zeros(flat.size, bool)
    starts[(bounds(where.counts)[:-1])[np.asarray(where.counts) > 0]] = True
    fits = (flat >= 0) & (flat < (field.sparse or 0)) & (starts | (np.diff(flat, prepend=-1) > 0))
    if not fits.all():
        first = int(np.argmin(fits))
        lengths = [sizes for sizes in (where.counts, where.steps) if sizes is not None]
        expected = f"indices in [0, {field.sparse}), ascending"
        raise Mismatch(expected, str(flat[first]), outward((first,), lengths, where.present))
    return Column(what.values, where.steps, where.counts, flat.astype(np.int64), where.present)


def _nulls(field: Field, size: int) -> Any:
    """Create an array of `size` nulls with the nesting of the field."""
    pa = pyarrow()
    kind = pa.null()
    for _ in range(int(field.is_list) + len(field.shape)):
        kind = pa.list_(kind)
    return pa.nulls(size, kind)


def outward(
    index: tuple[int, ...], lengths: Iterable[NDArray[np.int64]], present: NDArray[np.bool_] | None
) -> tuple[int, ...]:
    """Convert the index of a flat value to the position of its record and the index inside the record.

    >>> outward((4,), [np.array([2, 1, 2]), np.array([1, 2])], None)
    (1, 1, 1)

    Args:
        index: index into the flat values, followed by the index inside the value.
        lengths: lengths of the rows at each level, innermost first.
        present: mask of the records that have a value; None if all have one.
    """
    first, *inside = index
    for sizes in lengths:
        starts = bounds(sizes)
        row = int(np.searchsorted(starts, first, side="right")) - 1
        inside.insert(0, first - int(starts[row]))
        first = row
    return (first if present is None else int(np.flatnonzero(present)[first]), *inside)


def flat_array(field: Field, data: Any) -> NDArray[Any]:
    """Convert an Arrow array without nested lists to numpy.

    It contains the values of a field or the lengths of its rows.

    Raises:
        OptionError: the array is nested, its time zone does not match the field, or pyarrow is not installed.
        Mismatch: a value is null, unless the field has floats (null becomes NaN) or times (null becomes NaT).
    """
    return _flat(field, _import_array(field, data))


def pyarrow() -> Any:
    """Import pyarrow.

    Raises:
        OptionError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
    except ImportError:
        advice = "pip install pyarrow; records, dictionaries and numpy arrays are written without it"
        raise OptionError(f"tables, and files of them, need pyarrow: {advice}") from None
    return pa


def compute() -> Any:
    """Import `pyarrow.compute`, for which type stubs are incomplete."""
    from pyarrow import compute as functions

    return functions


def one_array(column: Any) -> Any:
    """Combine the chunks of a column into one array; a single chunk is not copied."""
    pa = pyarrow()
    if not isinstance(column, pa.ChunkedArray):
        return column
    if not column.num_chunks and pa.types.is_dictionary(column.type):  # pyarrow 18 cannot combine zero chunks
        return pa.array([], column.type.value_type)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _import_array(field: Field, data: Any) -> Any:
    """Import data as one pyarrow array of lists, numbers or text, and check its time zone."""
    pa = pyarrow()
    try:
        is_stream = hasattr(type(data), "__arrow_c_stream__")
        array = one_array(pa.chunked_array(data) if is_stream else pa.Array.from_pandas(data))
        _check_zones(field.name, array, data)
        array = without_views(_decode_categories(array))
        if field.element.is_time:
            check_zone(array, field.element)
            if field.element.zone is not None and zone_of(array.type) is None and len(array) > array.null_count:
                calls = "pandas.to_datetime(frame[name]).dt.tz_localize(...), or in lists .map(lambda ts: "
                calls += "pandas.to_datetime(ts).tz_localize(...).tolist())"
                got = f"{array.type}: times without a zone; set it first ({calls})"
                raise Mismatch(f"{field.element.name} (with a time zone)", got)
    except (pa.ArrowException, Mismatch, TypeError, ValueError, OverflowError) as error:
        raise OptionError(f"columns: field {field.name!r}: {error}") from error
    return array


def _checked(data: Any, table: Any) -> Any:
    """Check the time zones of a pandas data frame, and return its table.

    Raises `SourceError` if only some times of a column of objects have a zone. Other data are not checked.
    """
    if type(data).__module__.startswith("pandas"):
        for array, (name, column) in zip(table.columns, data.items(), strict=False):  # an index comes last
            _check_zones(str(name), array, column)
    return table


def _check_zones(name: str, array: Any, cells: Any) -> None:
    """Raise `SourceError` if only some times of an object column have a zone, because Arrow reads the rest as UTC."""
    zones = set[bool]()
    if "timestamp" in str(array.type) and getattr(cells, "dtype", None) == np.dtype(object):
        for row, cell in enumerate(cells):
            zones |= _zones_in(cell)
            if len(zones) > 1:
                where = f"column {name!r}, row {row}: expected a zone in all times or in none, got {describe(cell)}"
                call = f"frame[{name!r}].map(lambda ts: pandas.to_datetime(ts, utc=True).tolist())"  # in lists
                call = f"pandas.to_datetime(frame[{name!r}], utc=True)" if hasattr(cell, "tzinfo") else call
                raise SourceError(f"{where}, unlike times before; {call} takes those without one as UTC")


def _zones_in(cell: Any) -> set[bool]:
    """Find whether the times in a cell have a zone.

    Returns:
        A set that contains True if any time has a zone, and False if any time has none.
    """
    if isinstance(cell, (list, tuple, np.ndarray)):
        return set[bool]().union(*map(_zones_in, cell))
    is_time = isinstance(cell, (dt.datetime, np.datetime64)) and cell == cell  # noqa: PLR0124 - not NaT
    return {getattr(cell, "tzinfo", None) is not None} if is_time else set()


def _decode_categories(array: Any) -> Any:
    """Replace categories with their values, and an extension array of nested type with its storage array."""
    pa = pyarrow()
    if isinstance(array, pa.ExtensionArray) and pa.types.is_nested(array.type.storage_type):
        return array.storage
    if not pa.types.is_dictionary(array.type):
        return array
    return without_views(array.dictionary).take(array.indices)


def without_views(array: Any) -> Any:
    """Convert view types, which polars uses, to types that all pyarrow functions accept."""
    pa = pyarrow()
    if pa.types.is_dictionary(array.type):
        values = without_views(array.dictionary)
        return pa.DictionaryArray.from_arrays(array.indices, values) if values is not array.dictionary else array
    plain = _without_view(array.type)
    return array if plain is array.type else array.cast(plain)


def _without_view(kind: Any) -> Any:
    """Replace view types inside a type; return the same object if there are none."""
    pa = pyarrow()
    types = pa.types
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return pa.large_string() if types.is_string_view(kind) else pa.large_binary()
    views = types.is_list_view(kind) or types.is_large_list_view(kind)
    if not (views or types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
        return kind
    value = kind.value_type
    inner = _without_view(value)
    if inner is value and not views:
        return kind
    return pa.list_(inner, kind.list_size) if types.is_fixed_size_list(kind) else pa.large_list(inner)


def _flatten_lists(field: Field, array: Any) -> tuple[NDArray[np.int64], Any]:
    """Flatten an array of lists by one level.

    Returns:
        The length of each list, and the flat array.

    Raises:
        Mismatch: a list is null.
    """
    types = pyarrow().types
    kind = array.type
    if types.is_null(kind) and not len(array):  # the source library saw only empty lists
        return np.empty(0, np.int64), array
    if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
        one = f"one list for each {'record' if field.is_list or field.is_ragged else 'row'}"
        text = f"expected an array of lists, {one}, got {kind}; split texts, or give flat values and lengths"
        raise OptionError(f"columns: field {field.name!r}: {text}")
    if array.null_count:
        raise Mismatch("a list", "None; pass [] for an empty one", (_first_null(array),))
    if types.is_fixed_size_list(kind):
        return np.full(len(array), kind.list_size, np.int64), array.flatten()
    return array.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64), array.flatten()


def _flat(field: Field, array: Any) -> NDArray[Any]:
    pa = pyarrow()
    try:
        array = without_views(_decode_categories(array))
        if pa.types.is_nested(array.type):
            raise OptionError(f"columns: field {field.name!r}: expected numbers or text here, got {array.type}")
        nulls = array.null_count > 0
        if nulls and field.element.is_time:
            if pa.types.is_null(array.type):
                return np.full(len(array), "NaT", field.element.numpy)
            nulls = not pa.types.is_temporal(array.type)  # numpy has NaT for null times
        types = pa.types
        floats = types.is_floating(array.type) or types.is_integer(array.type) or types.is_null(array.type)
        if nulls and not (field.element.has_nan and floats):
            advice = "fill it first; only a whole value can be None, only floats have NaN, and only times NaT"
            raise Mismatch(f"{field.element.name} ({advice})", "a null", (_first_null(array),))
        if nulls and not pa.types.is_floating(array.type):
            array = array.cast(pa.float64())  # raises for integers that it would round
        # numpy has NaN for null floats.
        values: NDArray[Any] = _shared(array) if field.element.is_text else array.to_numpy(zero_copy_only=False)
        if field.element.name == "bfloat16" and values.dtype == np.float32 and not values.view("<u2")[::2].any():
            values = values.view("<u2")[1::2].copy().view(field.element.numpy)  # keeps the bits of every NaN
    except (pa.ArrowException, TypeError, ValueError) as error:
        if isinstance(error, OptionError):
            raise
        raise OptionError(f"columns: field {field.name!r}: {error}") from error
    return values


def _shared(array: Any) -> NDArray[Any]:
    """Convert strings to objects; equal strings share one object."""
    coded = array.dictionary_encode()
    objects: NDArray[Any] = coded.dictionary.to_numpy(zero_copy_only=False)[coded.indices.to_numpy()]
    return objects


def _first_null(array: Any) -> int:
    return int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))


BATCH_ROWS = 1 << 16  # maximum rows of a batch
_BATCH_BYTES = 16 << 20  # maximum bytes of a batch, unless a single row is larger
_HUB_ROWS = 8192  # rows per batch of a Hugging Face dataset
_IN_MEMORY = ("pandas", "polars", "pyarrow")  # libraries whose tables, if they have a length, are in memory


@attrs.frozen
class Table:
    """Table whose rows are read as pyarrow record batches.

    Attributes:
        name: label of the table, for messages.
        names: names of the columns.
        again: whether the rows can be read more than once.
        open: function that opens a stream of batches of the named columns.
        is_sorted: whether the rows are already in the required order.
        left_out: messages about the rows that could not be read and are skipped.
    """

    name: str
    names: tuple[str, ...]
    again: bool
    open: Callable[[Sequence[str]], Iterator[Any]]
    is_sorted: bool = False
    left_out: list[str] = attrs.field(factory=list, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        odd = next((name for name in self.names if "\0" in name), None)
        if odd is not None:
            raise SourceError(f"{self.name}: column {odd!r}: Arrow finds no column with NUL in its name: rename it")

    def batches(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield the rows of the named columns, in batches of bounded size.

        Raises:
            SourceError: the source library failed, or the rows of a stream were already read.
        """
        pa = pyarrow()
        try:
            for batch in self.open(names):
                plain = [without_views(column) for column in batch.columns]
                yield from cut_batch(pa.record_batch(plain, names=batch.schema.names))
        except (pa.ArrowException, KeyError, TypeError, ValueError, OverflowError, OSError) as error:
            if isinstance(error, (SourceError, OptionError)):
                raise
            cells = "; cells with arrays of several dimensions are taken as records: table.to_dict('records')"
            text = ": ".join(map(str, error.args[::-1])) if isinstance(error, pa.ArrowException) else str(error)
            raise SourceError(f"{self.name}: {text}{cells if '1-dim' in text else ''}") from error


def table_of(data: Any) -> Table:
    """Wrap an in-memory table or a stream as a `Table`.

    Args:
        data: table that `is_table` accepts.

    Raises:
        OptionError: the data is not a table, or pyarrow is not installed.
        SourceError: the source library failed.
    """
    pa = pyarrow()
    name = type(data).__name__
    if is_hub_dataset(data):
        return _hub_dataset(data)
    if type(data).__module__.partition(".")[0] in _IN_MEMORY and hasattr(data, "__len__"):
        names = getattr(data, "column_names", None) or getattr(data, "columns", None)
        if isinstance(data, pa.RecordBatch):
            names = data.schema.names
        if names is None:
            raise OptionError(f"expected a table, got {name}: an array has no columns")
        texts = tuple(str(column) for column in names)
        is_pandas = type(data).__module__.startswith("pandas")

        def read(wanted: Sequence[str]) -> Iterator[Any]:
            frame = data
            if is_pandas:  # select first: pandas converts every column
                frame = data[[column for column in names if str(column) in set(wanted)]].reset_index(drop=True)
            return iter(_arrow_table(frame).select(list(wanted)).to_batches())

        return Table(name, texts, again=True, open=read)
    try:
        reader = pa.RecordBatchReader.from_stream(data)
    except (pa.ArrowException, TypeError, ValueError, AttributeError) as error:
        raise OptionError(f"expected a table, got {name}: {error}") from error
    return Table(name, tuple(reader.schema.names), again=False, open=once(name, reader))


def _arrow_table(data: Any) -> Any:
    """Convert a table to pyarrow, including pandas object columns of ints beyond int64."""
    pa = pyarrow()
    try:
        table = pa.table(data)
    except OverflowError:
        table = pa.table({str(name): _large_integers(str(name), data[name]) for name in data.columns})
    return _checked(data, table)


def _large_integers(name: str, column: Any) -> Any:
    pa = pyarrow()
    try:
        return pa.Array.from_pandas(column)
    except OverflowError:
        try:
            return pa.array(column, pa.uint64(), from_pandas=True)
        except (OverflowError, pa.ArrowException) as error:
            raise SourceError(f"column {name!r}: expected integers of at most 64 bits, got others: {error}") from error


def once(name: str, reader: Any) -> Callable[[Sequence[str]], Iterator[Any]]:
    """Build the function that reads columns of a stream of batches.

    A stream can be read only once, so a second call of the function raises an error.
    """
    left = [reader]

    def read(wanted: Sequence[str]) -> Iterator[Any]:
        if not left:
            raise SourceError(f"{name}: a stream gives its rows once, and they were taken: make another one")
        return (batch.select(list(wanted)) for batch in left.pop())

    return read


def cut_batch(batch: Any) -> Iterator[Any]:
    """Cut a record batch into slices of bounded size."""
    each = max(1, batch.nbytes // max(1, batch.num_rows))
    rows = max(1, min(BATCH_ROWS, _BATCH_BYTES // each))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _hub_dataset(data: Any) -> Table:
    names = data.column_names
    if not isinstance(names, list):
        raise OptionError(f"expected a dataset with known columns, got {type(data).__name__} with {names!r}")

    def read(wanted: Sequence[str]) -> Iterator[Any]:
        # The inner tables of a dataset ignore selection and shuffling; these batches apply them.
        for table in data.select_columns(list(wanted)).with_format("arrow").iter(_HUB_ROWS):
            yield from table.to_batches()

    return Table(type(data).__name__, tuple(names), again=True, open=read)


_UNITS = ("s", "ms", "us", "ns")


def arrow_schema(schema: Schema) -> Any:
    """Convert a schema to a pyarrow schema.

    A sparse field becomes two columns, `<field>/indices` and `<field>/values`.

    Raises:
        OptionError: Arrow has no type for the values of a field.
    """
    pa = pyarrow()
    columns = []
    for field in schema.fields:
        name = field.name
        if field.sparse is not None:
            columns.append((f"{name}/indices", _nested(field, pa.int64())))
            name += "/values"
        columns.append((name, _nested(field, arrow_type(field.element, field.name))))
    return pa.schema(columns)


def arrow_batch(schema: Schema, columns: Mapping[str, Column]) -> Any:
    """Convert columns to a pyarrow record batch without loss.

    >>> import numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> ids = sr.Column(np.array([1, 2, 3]), steps=np.array([2, 1]))
    >>> arrow_batch(sr.Schema.of(Sentence), {"ids": ids}).to_pydict()
    {'ids': [[1, 2], [3]]}

    Args:
        schema: schema of the records.
        columns: mapping of field name to column.

    Raises:
        OptionError: Arrow has no type for the values of a field.
    """
    kinds = arrow_schema(schema)
    arrays = []
    for field in schema.fields:
        column = columns[field.name]
        if field.sparse is not None:
            indices = pyarrow().array(np.asarray(column.indices, np.int64))
            arrays.append(_whole(column, _rows(field, column, indices)))
        arrays.append(_whole(column, _rows(field, column, _leaf(field, column.values))))
    arrays = [part.cast(kind) if part.type != kind else part for part, kind in zip(arrays, kinds.types, strict=True)]
    return pyarrow().record_batch(arrays, schema=kinds)


def arrow_type(element: ElementType, name: str) -> Any:
    """Map an element type to a pyarrow type; bfloat16 becomes float32, because Arrow lacks it.

    Args:
        element: element type of the field.
        name: name of the field, for messages.

    Raises:
        OptionError: Arrow has no type for the element type.
    """
    pa = pyarrow()
    if element.name == "bfloat16":
        return pa.float32()
    if element.is_text:
        return pa.large_string() if element.name == "str" else pa.large_binary()
    if element.is_time:
        unit = np.datetime_data(element.numpy)[0]
        if element.name == "datetime64[D]":
            return pa.date32()
        if unit in _UNITS:
            return pa.timestamp(unit, element.zone) if element.numpy.kind == "M" else pa.duration(unit)
    elif element.numpy.kind != "c":
        return pa.from_numpy_dtype(element.numpy)
    declare = "real and imaginary parts as two fields" if element.numpy.kind == "c" else "a unit of D, s, ms, us or ns"
    advice = f"leave the field out (fields=), or declare {declare}"
    raise OptionError(f"field {name!r}: Arrow has no type for {element.name}; {advice}")


def _leaf(field: Field, values: Any) -> Any:
    """Convert flat values to an Arrow array.

    NaN stays NaN, and NaT becomes null.
    """
    pa, element = pyarrow(), field.element
    kind = arrow_type(element, field.name)
    if isinstance(values, Blob):
        buffers = [None, pa.py_buffer(bounds(values.lengths)), pa.py_buffer(values.data)]
        return pa.Array.from_buffers(kind, len(values), buffers)
    flat = np.concatenate([np.empty(0, element.numpy), *map(np.ravel, values)]) if field.any_size else values
    flat = np.ascontiguousarray(flat).reshape(-1)
    if element.is_text:
        return pa.array(flat.tolist(), kind)
    if element.name == "bfloat16":
        return pa.array(widen(flat))
    if element.name == "bool":
        return pa.array(flat)
    valid = None
    if element.is_time and (missing := np.isnat(flat)).any():
        if field.optional and field.is_scalar:
            text = "Arrow has one null for NaT and for None, which the field may both be; leave it out (fields=)"
            raise OptionError(f"field {field.name!r}: {text}")
        valid = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    if element.name == "datetime64[D]":
        days = flat.view(np.int64)
        flat = days.astype(np.int32)
        if (days != flat)[~np.isnat(np.ascontiguousarray(days).view(element.numpy))].any():
            raise OptionError(f"field {field.name!r}: Arrow's days reach {2**31 - 1} from 1970, and one is further")
    # Convert the bits, to keep those of every NaN.
    return pa.Array.from_buffers(kind, flat.size, [valid, pa.py_buffer(flat)])


def _rows(field: Field, column: Column, array: Any) -> Any:
    """Nest flat values into one row per record, building the innermost lists first."""
    pa = pyarrow()
    for size in reversed(_fixed(field)):
        array = pa.FixedSizeListArray.from_arrays(array, size)
    heights = widths = None
    if field.any_size:
        sizes = np.array([image.shape[:2] for image in column.values], np.int64).reshape(-1, 2)
        heights, widths = sizes[:, 0], np.repeat(sizes[:, 1], sizes[:, 0])
    for lengths in (widths, heights, column.counts, column.steps):
        if lengths is not None:
            array = pa.LargeListArray.from_arrays(pa.array(bounds(np.asarray(lengths, np.int64))), array)
    return array


def _whole(column: Column, array: Any) -> Any:
    """Insert a null for each record without a value."""
    if column.present is None:
        return array
    present = np.asarray(column.present)
    return array.take(pyarrow().array(np.where(present, np.cumsum(present) - 1, 0), mask=~present))


def _fixed(field: Field) -> tuple[int | None, ...]:
    """Return the dimensions of fixed size.

    For images of any size, this is only the number of channels.
    """
    return field.shape[2:] if field.any_size else field.rest


def _nested(field: Field, leaf: Any) -> Any:
    pa = pyarrow()
    for size in reversed(_fixed(field)):
        leaf = pa.list_(leaf, size)
    for _ in range(int(field.is_list) + int(field.is_ragged or field.sparse is not None) + 2 * int(field.any_size)):
        leaf = pa.large_list(leaf)
    return leaf
