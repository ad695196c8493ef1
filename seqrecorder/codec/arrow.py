"""Columns of other libraries, through the Arrow C interface: tables and arrays of pyarrow, polars, pandas, DuckDB.

What a library gives out is what `__arrow_c_stream__` and `__arrow_c_array__` return
(https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html); pyarrow takes it in without a copy. A
list column holds a feature list, or ragged values: flat values with the lengths of its rows, as columns are here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.codec.columns import Column
from seqrecorder.errors import OptionError
from seqrecorder.schema.casting import cast_values
from seqrecorder.schema.dtypes import element_type
from seqrecorder.schema.field import Field
from seqrecorder.schema.mismatch import Mismatch
from seqrecorder.schema.times import ADVICE, NO_ZONE, zone_of
from seqrecorder.wire.byte_rows import Blob, bounds
from seqrecorder.wire.feature_bytes import features_of_texts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


def columns_of_table(given: Any) -> dict[str, Any]:
    """Return the columns of a table by name.

    Args:
        given: a table, a data frame, a record batch, or a stream of such.

    Raises:
        OptionError: it is an array; pyarrow is not installed.
    """
    pa = pyarrow()
    try:
        table = pa.table(given)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise OptionError(f"columns: expected a table, or a mapping of field to column, got {error}") from error
    columns = dict(zip(table.column_names, table.columns, strict=True))
    # What pandas puts beside the columns where rows were left out: their numbers.
    return {name: column for name, column in columns.items() if not name.startswith("__index_level_")}


def column_of_array(field: Field, given: Any, *, cast: bool = False) -> Column:
    """Return a column of an array whose rows are records.

    Args:
        field: of the column. A feature list takes a list array, one with ragged steps a list of lists; the known
            dimensions of its shape are lists too, of which all are equally long. A null stands for None, and for NaN
            among floats that cannot be None.
        given: an array, chunked or not.
        cast: whether numbers become the declared type as `cast_values` says.

    Raises:
        OptionError: the array is not nested like that, or of times with a zone; pyarrow is not installed.
        Mismatch: there is a null inside of a record; the index begins with the position of the record.
    """
    array = _imported(field, given)
    if pyarrow().types.is_null(array.type):  # of what kind its values would be is not said
        array = _nulls(field, len(array))
    present = None
    is_scalar = not field.is_list and not field.shape
    if array.null_count and not (is_scalar and field.element.has_nan and not field.optional):
        present = array.is_valid().to_numpy(zero_copy_only=False)
        array = array.drop_null()
    lengths: list[NDArray[np.int64]] = []  # from the records inwards
    try:
        for _ in range(int(field.is_list) + int(field.is_ragged)):
            counts, array = _unnested(field, array)
            lengths.append(counts)
        for size in field.rest:
            counts, array = _unnested(field, array)
            lengths.append(counts)
            if (counts != size).any():
                raise OptionError(
                    f"columns: field {field.name!r}: expected lists of {size} values, of shape {field.rest}, got one "
                    f"of {int(counts[counts != size][0])}"
                )
        values, features = _flat_texts(field, array) if field.element.is_text else (_flat(field, array), None)
        values = (cast_values(values, field.element) if cast else values).reshape(-1, *field.rest)
    except Mismatch as mismatch:
        raise Mismatch(mismatch.expected, mismatch.got, outward(mismatch.index, lengths[::-1], present)) from None
    return Column(
        values,
        steps=lengths[0] if field.is_list else None,
        counts=lengths[int(field.is_list)] if field.is_ragged else None,
        present=present,
        features=features,
    )


def column_of_sparse(field: Field, indices: Any, values: Any, *, cast: bool = False) -> Column:
    """Return the column of a sparse field of two arrays of lists: the indices of what is stored, and the values.

    Args:
        field: of the column, which is sparse. A feature list takes lists of lists.
        indices: ascending in each list, from 0 to below the declared size.
        values: as many as indices in each list.
        cast: see `column_of_array`.

    Raises:
        OptionError: see `column_of_array`; or the lengths of the lists differ.
        Mismatch: an index is out of range, doubled or out of order.
    """
    pair = [
        column_of_array(Field(field.name, part, field.kind, element, (None,), optional=True), array, cast=cast)
        for part, element, array in (("indices", element_type("int64"), indices), ("values", field.element, values))
    ]
    where, what = pair
    for name in ("present", "steps", "counts"):
        left, right = getattr(where, name), getattr(what, name)
        if (left is None) is not (right is None) or not np.array_equal(left, right):
            raise OptionError(f"columns: field {field.name!r}: expected as many indices as values in each list")
    found = np.asarray(where.values)
    starts = np.zeros(found.size, bool)
    starts[(bounds(where.counts)[:-1])[np.asarray(where.counts) > 0]] = True
    fits = (found >= 0) & (found < (field.sparse or 0)) & (starts | (np.diff(found, prepend=-1) > 0))
    if not fits.all():
        first = int(np.argmin(fits))
        lengths = [part for part in (where.counts, where.steps) if part is not None]
        expected = f"indices in [0, {field.sparse}), ascending"
        raise Mismatch(expected, str(found[first]), outward((first,), lengths, where.present))
    return Column(what.values, where.steps, where.counts, found.astype(np.int64), where.present)


def _nulls(field: Field, size: int) -> Any:
    """Return so many nulls of lists as deep as a field's."""
    pa = pyarrow()
    kind = pa.null()
    for _ in range(int(field.is_list) + len(field.shape)):
        kind = pa.list_(kind)
    return pa.nulls(size, kind)


def outward(
    index: tuple[int, ...], lengths: Iterable[NDArray[np.int64]], present: NDArray[np.bool_] | None
) -> tuple[int, ...]:
    """Return where a value of a column is: the position of its record, and the index inside of that.

    >>> outward((4,), [np.array([2, 1, 2]), np.array([1, 2])], None)
    (1, 1, 1)

    Args:
        index: in the flat values, and inside of such a value.
        lengths: of the rows, from the values outwards.
        present: which records have a value; None means all.
    """
    first, *inside = index
    for part in lengths:
        starts = bounds(part)
        row = int(np.searchsorted(starts, first, side="right")) - 1
        inside.insert(0, first - int(starts[row]))
        first = row
    return (first if present is None else int(np.flatnonzero(present)[first]), *inside)


def flat_array(field: Field, given: Any) -> NDArray[Any]:
    """Return an array without nesting: values, or lengths.

    Raises:
        OptionError: the array is nested, or of times with a zone; pyarrow is not installed.
        Mismatch: there is a null, which stands for nothing here; in values of floats for NaN.
    """
    return _flat(field, _imported(field, given))


def pyarrow() -> Any:
    """Return the module pyarrow.

    Raises:
        OptionError: it is not installed.
    """
    try:
        import pyarrow as pa
    except ImportError:
        raise OptionError(
            "tables, and files of them, need pyarrow: pip install pyarrow; records, dictionaries and "
            "numpy arrays are written without it"
        ) from None
    return pa


def compute() -> Any:
    """Return pyarrow's module of functions, of which type checkers know few."""
    from pyarrow import compute as functions

    return functions


def one_array(column: Any) -> Any:
    """Return a column of chunks as one array, which is no copy where there is one chunk."""
    pa = pyarrow()
    if not isinstance(column, pa.ChunkedArray):
        return column
    if not column.num_chunks and pa.types.is_dictionary(column.type):  # which pyarrow 18 has no empty arrays of
        return pa.array([], column.type.value_type)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _imported(field: Field, given: Any) -> Any:
    """Return one array of pyarrow's, of a type that has lists, numbers or text in it."""
    pa = pyarrow()
    try:
        if hasattr(type(given), "__arrow_c_stream__"):
            array = one_array(pa.chunked_array(given))
        elif hasattr(type(given), "__arrow_c_array__"):
            array = pa.array(given)
        else:
            array = pa.Array.from_pandas(given)
            array = one_array(array)
        array = without_views(_decoded(array))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise OptionError(f"columns: field {field.name!r}: {error}") from error
    zone = zone_of(array.type) if field.element.is_time else None
    if zone is None and field.element.zone is not None and len(array) > array.null_count:
        raise OptionError(
            f"columns: field {field.name!r}: expected {field.element.name} (with a time zone), got {array.type}: "
            f"{NO_ZONE}"
        )
    if zone is not None and field.element.zone is None:
        raise OptionError(
            f"columns: field {field.name!r}: expected {field.element.name} (without a time zone), got times of the "
            f"zone {zone!r}; {ADVICE}"
        )
    return array


def _decoded(array: Any) -> Any:
    """Return an array of categories as the values that they stand for, and one of a type of its own as it is stored."""
    pa = pyarrow()
    if isinstance(array, pa.ExtensionArray) and pa.types.is_nested(array.type.storage_type):
        return array.storage
    if not pa.types.is_dictionary(array.type):
        return array
    return without_views(array.dictionary).take(array.indices)


def without_views(array: Any) -> Any:
    """Return an array in the forms that all functions of Arrow know, unlike the newer ones of polars."""
    pa = pyarrow()
    if pa.types.is_dictionary(array.type):
        values = without_views(array.dictionary)
        return pa.DictionaryArray.from_arrays(array.indices, values) if values is not array.dictionary else array
    plain = _without_view(array.type)
    return array if plain is array.type else array.cast(plain)


def _without_view(kind: Any) -> Any:
    """Return a type without views, which is the same object where there is none in it."""
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


def _unnested(field: Field, array: Any) -> tuple[NDArray[np.int64], Any]:
    """Return the length of each list of an array of lists, and what is in them.

    Raises:
        Mismatch: there is a null instead of a list.
    """
    types = pyarrow().types
    kind = array.type
    if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
        raise OptionError(
            f"columns: field {field.name!r}: expected an array of lists, one list for each "
            f"{'record' if field.is_list or field.is_ragged else 'row'}, got {kind}; or give flat values and lengths"
        )
    if array.null_count:
        raise Mismatch("a list, as an empty one is too", "a null", (_first_null(array),))
    if types.is_fixed_size_list(kind):
        return np.full(len(array), kind.list_size, np.int64), array.flatten()
    return array.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64), array.flatten()


def _flat(field: Field, array: Any) -> NDArray[Any]:
    pa = pyarrow()
    try:
        array = without_views(_decoded(array))
        if pa.types.is_nested(array.type):
            raise OptionError(
                f"columns: field {field.name!r}: expected numbers or text at this depth, got {array.type}"
            )
        nulls = array.null_count > 0
        if nulls and not (field.element.has_nan and _may_be_floats(array.type)):
            advice = "fill it first; only a whole value can be None, and only floats have NaN"
            raise Mismatch(f"{field.element.name} ({advice})", "a null", (_first_null(array),))
        if nulls and not pa.types.is_floating(array.type):
            array = array.cast(pa.float64())  # which refuses integers that it would round
        # numpy has NaN for the nulls of floats.
        values: NDArray[Any] = array.to_numpy(zero_copy_only=False)
        if field.element.name == "bfloat16" and values.dtype == np.float32 and not values.view("<u2")[::2].any():
            values = values.view("<u2")[1::2].copy().view(field.element.numpy)  # with the bits of every NaN
    except (pa.ArrowException, TypeError, ValueError) as error:
        if isinstance(error, OptionError):
            raise
        raise OptionError(f"columns: field {field.name!r}: {error}") from error
    return values


def _flat_texts(field: Field, array: Any) -> tuple[NDArray[Any], Blob | None]:
    """Return texts as objects, one for all that are equal, and short ones as they are encoded too."""
    types = pyarrow().types
    plain, is_text = _decoded(array), field.element.name == "str"
    is_wide = (types.is_large_string if is_text else types.is_large_binary)(plain.type)
    fits = is_wide or (types.is_string if is_text else types.is_binary)(plain.type)
    if not fits or plain.null_count or not len(plain):
        return _flat(field, array), None
    coded = plain.dictionary_encode()
    try:
        texts = coded.dictionary.to_numpy(zero_copy_only=False)[coded.indices.to_numpy()]
    except (pyarrow().ArrowException, UnicodeDecodeError) as error:  # it is no UTF-8
        raise OptionError(f"columns: field {field.name!r}: {error}") from error
    if not field.is_single:
        return texts, None
    _, edges, data = plain.buffers()
    edges = np.frombuffer(edges, np.int64 if is_wide else np.int32)[plain.offset : plain.offset + len(plain) + 1]
    octets = np.frombuffer(b"" if data is None else data, np.uint8)[edges[0] : edges[-1]]
    return texts, features_of_texts(Blob(octets, np.diff(edges).astype(np.int64)), wrapped=field.is_list)


def _may_be_floats(kind: Any) -> bool:
    types = pyarrow().types
    return bool(types.is_floating(kind) or types.is_integer(kind) or types.is_null(kind))


def _first_null(array: Any) -> int:
    return int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
