"""Columns of other libraries, through the Arrow C interface: tables and arrays of pyarrow, polars, pandas, DuckDB.

What a library gives out is what `__arrow_c_stream__` and `__arrow_c_array__` return
(https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html); pyarrow takes it in without a copy. A
list column holds a feature list, or ragged values: flat values with the lengths of its rows, as columns are here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.columns import Column
from seqrecorder.errors import OptionError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seqrecorder.fields import Field


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
    return dict(zip(table.column_names, table.columns, strict=True))


def column_of_array(field: Field, given: Any) -> Column:
    """Return a column of an array whose rows are records.

    Args:
        field: of the column. A feature list takes a list array, one with ragged steps a list of lists; the known
            dimensions of its shape are lists too, of which all are equally long. A null stands for None.
        given: an array, chunked or not.

    Raises:
        OptionError: the array is not nested like that, or has nulls inside of records; pyarrow is not installed.
    """
    array = _imported(field, given)
    present = None
    if array.null_count:
        present = array.is_valid().to_numpy(zero_copy_only=False)
        array = array.drop_null()
    lengths: list[NDArray[np.int64]] = []
    for _ in range(int(field.is_list) + int(field.is_ragged)):
        counts, array = _unnested(field, array)
        lengths.append(counts)
    for size in field.rest:
        counts, array = _unnested(field, array)
        if (counts != size).any():
            raise OptionError(
                f"columns: field {field.name!r}: expected lists of {size} values, of shape {field.rest}, got one of "
                f"{int(counts[counts != size][0])}"
            )
    values = _flat(field, array).reshape(-1, *field.rest)
    return Column(
        values,
        steps=lengths[0] if field.is_list else None,
        counts=lengths[-1] if field.is_ragged else None,
        present=present,
    )


def flat_array(field: Field, given: Any) -> NDArray[Any]:
    """Return an array without nesting: values, or lengths.

    Raises:
        OptionError: the array is nested, or has nulls; pyarrow is not installed.
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
        return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise OptionError(f"columns: field {field.name!r}: {error}") from error


def _unnested(field: Field, array: Any) -> tuple[NDArray[np.int64], Any]:
    """Return the length of each list of an array of lists, and what is in them."""
    types = _pyarrow().types
    kind = array.type
    if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
        raise OptionError(
            f"columns: field {field.name!r}: expected an array of lists, one list for each "
            f"{'record' if field.is_list or field.is_ragged else 'row'}, got {kind}; or give flat values and lengths"
        )
    _no_nulls(field, array)
    if types.is_fixed_size_list(kind):
        return np.full(len(array), kind.list_size, np.int64), array.flatten()
    return array.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64), array.flatten()


def _flat(field: Field, array: Any) -> NDArray[Any]:
    pa = _pyarrow()
    kind = array.type
    if pa.types.is_nested(kind):
        raise OptionError(f"columns: field {field.name!r}: expected numbers or text at this depth, got {kind}")
    _no_nulls(field, array)
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        array = array.cast(pa.large_string() if pa.types.is_string_view(kind) else pa.large_binary())
    values: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values


def _no_nulls(field: Field, array: Any) -> None:
    if array.null_count:
        raise OptionError(
            f"columns: field {field.name!r}: {array.null_count} nulls inside of records, where nothing stands for None;"
            " fill them first"
        )
