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
from seqrecorder.schema.mismatch import Mismatch
from seqrecorder.schema.times import ADVICE, zone_of
from seqrecorder.wire.byte_rows import bounds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from seqrecorder.schema.field import Field


def is_arrow(given: object) -> bool:
    """Whether an object is given out through the Arrow C interface.

    >>> is_arrow([1, 2])
    False
    """
    return hasattr(type(given), "__arrow_c_stream__") or hasattr(type(given), "__arrow_c_array__")


def columns_of_table(given: Any) -> dict[str, Any]:
    """Return the columns of a table by name.

    Args:
        given: a table, a data frame, a record batch, or a stream of such.

    Raises:
        OptionError: it is an array; pyarrow is not installed.
    """
    pa = _pyarrow()
    try:
        table = pa.table(given)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise OptionError(f"columns: expected a table, or a mapping of field to column, got {error}") from error
    columns = dict(zip(table.column_names, table.columns, strict=True))
    # What pandas puts beside the columns where rows were left out: their numbers.
    return {name: column for name, column in columns.items() if not name.startswith("__index_level_")}


def column_of_array(field: Field, given: Any) -> Column:
    """Return a column of an array whose rows are records.

    Args:
        field: of the column. A feature list takes a list array, one with ragged steps a list of lists; the known
            dimensions of its shape are lists too, of which all are equally long. A null stands for None, and for NaN
            among floats that cannot be None.
        given: an array, chunked or not.

    Raises:
        OptionError: the array is not nested like that, or of times with a zone; pyarrow is not installed.
        Mismatch: there is a null inside of a record; the index begins with the position of the record.
    """
    array = _imported(field, given)
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
        values = _flat(field, array).reshape(-1, *field.rest)
    except Mismatch as mismatch:
        raise Mismatch(mismatch.expected, mismatch.got, outward(mismatch.index, lengths[::-1], present)) from None
    return Column(
        values,
        steps=lengths[0] if field.is_list else None,
        counts=lengths[int(field.is_list)] if field.is_ragged else None,
        present=present,
    )


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


def _pyarrow() -> Any:
    try:
        import pyarrow as pa
    except ImportError:
        raise OptionError(
            "columns that come through the Arrow C interface need pyarrow: pip install 'seqrecorder[arrow]', or give "
            "numpy arrays"
        ) from None
    return pa


def _imported(field: Field, given: Any) -> Any:
    """Return one array of pyarrow's, of a type that has lists, numbers or text in it."""
    pa = _pyarrow()
    try:
        if hasattr(type(given), "__arrow_c_stream__"):
            array = pa.chunked_array(given).combine_chunks()
        else:
            array = pa.array(given)
        array = _decoded(array)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise OptionError(f"columns: field {field.name!r}: {error}") from error
    zone = zone_of(array.type) if field.element.is_time else None
    if zone is not None:
        raise OptionError(
            f"columns: field {field.name!r}: expected {field.element.name} (without a time zone), got times of the "
            f"zone {zone!r}; {ADVICE}"
        )
    return array


def _decoded(array: Any) -> Any:
    """Return an array of categories as the values that they stand for, and one of a type of its own as it is stored."""
    pa = _pyarrow()
    if isinstance(array, pa.ExtensionArray) and pa.types.is_nested(array.type.storage_type):
        return array.storage
    if not pa.types.is_dictionary(array.type):
        return array
    return _without_views(array.dictionary).take(array.indices)


def _without_views(array: Any) -> Any:
    """Return texts in the form that all functions of Arrow know, unlike the newer one of polars."""
    pa = _pyarrow()
    if pa.types.is_string_view(array.type):
        return array.cast(pa.large_string())
    return array.cast(pa.large_binary()) if pa.types.is_binary_view(array.type) else array


def _unnested(field: Field, array: Any) -> tuple[NDArray[np.int64], Any]:
    """Return the length of each list of an array of lists, and what is in them.

    Raises:
        Mismatch: there is a null instead of a list.
    """
    types = _pyarrow().types
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
    pa = _pyarrow()
    try:
        array = _without_views(_decoded(array))
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
    except (pa.ArrowException, TypeError, ValueError) as error:
        if isinstance(error, OptionError):
            raise
        raise OptionError(f"columns: field {field.name!r}: {error}") from error
    return values


def _may_be_floats(kind: Any) -> bool:
    types = _pyarrow().types
    return bool(types.is_floating(kind) or types.is_integer(kind) or types.is_null(kind))


def _first_null(array: Any) -> int:
    return int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
