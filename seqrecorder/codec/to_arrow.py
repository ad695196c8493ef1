"""Columns to arrays and tables of pyarrow: the way out, whose way in is `seqrecorder.codec.arrow`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.codec.arrow import pyarrow
from seqrecorder.errors import OptionError
from seqrecorder.schema.dtypes import widen
from seqrecorder.wire.byte_rows import Blob, bounds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from seqrecorder.codec.columns import Column
    from seqrecorder.schema.dtypes import ElementType
    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema

_UNITS = ("s", "ms", "us", "ns")


def arrow_schema(schema: Schema) -> Any:
    """Return the schema of pyarrow of tables with these fields.

    Of a sparse field there are two columns, `<field>/indices` and `<field>/values`.

    Raises:
        OptionError: Arrow has no type that holds the values of a field.
    """
    pa = pyarrow()
    columns = []
    for field in schema.fields:
        leaf = arrow_type(field.element, field.name)
        if field.sparse is not None:
            columns += [
                (f"{field.name}/indices", _nested(field, pa.int64())),
                (f"{field.name}/values", _nested(field, leaf)),
            ]
        else:
            columns.append((field.name, _nested(field, leaf)))
    return pa.schema(columns)


def arrow_batch(schema: Schema, columns: Mapping[str, Column]) -> Any:
    """Return the record batch of pyarrow that holds columns, exactly.

    >>> import numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> ids = sr.Column(np.array([1, 2, 3]), steps=np.array([2, 1]))
    >>> arrow_batch(sr.Schema.of(Sentence), {"ids": ids}).to_pydict()
    {'ids': [[1, 2], [3]]}

    Args:
        schema: what the records are.
        columns: of each field.

    Raises:
        OptionError: Arrow has no type that holds the values of a field.
    """
    kinds = arrow_schema(schema)
    arrays = []
    for field in schema.fields:
        column = columns[field.name]
        if field.sparse is not None:
            indices = pyarrow().array(np.asarray(column.indices, np.int64))
            arrays.append(_whole(column, _rows(field, column, indices)))
        arrays.append(_whole(column, _rows(field, column, _leaf(field, column.values))))
    arrays = [
        array.cast(kind) if array.type != kind else array for array, kind in zip(arrays, kinds.types, strict=True)
    ]
    return pyarrow().record_batch(arrays, schema=kinds)


def arrow_type(element: ElementType, name: str) -> Any:
    """Return the type of pyarrow for an element type; bfloat16, which it lacks, is widened to float32.

    Args:
        element: the element type.
        name: of its field, for messages.

    Raises:
        OptionError: there is none.
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
    raise OptionError(
        f"field {name!r}: Arrow has no type for {element.name}; leave the field out (fields=), or declare "
        + ("real and imaginary parts as two fields" if element.numpy.kind == "c" else "a unit of D, s, ms, us or ns")
    )


def _leaf(field: Field, values: Any) -> Any:
    """Return flat values as an array: NaN stays what it is, NaT is a null."""
    pa, element = pyarrow(), field.element
    kind = arrow_type(element, field.name)
    if isinstance(values, Blob):
        return pa.Array.from_buffers(
            kind, len(values), [None, pa.py_buffer(bounds(values.lengths)), pa.py_buffer(values.data)]
        )
    flat = np.ascontiguousarray(values).reshape(-1)
    if element.is_text:
        return pa.array(flat.tolist(), kind)
    if element.name == "bfloat16":
        return pa.array(widen(flat))
    if element.name == "bool":
        return pa.array(flat)
    valid = None
    if element.is_time and (missing := np.isnat(flat)).any():
        if field.optional and not (field.is_list or field.shape or field.sparse is not None):
            raise OptionError(
                f"field {field.name!r}: Arrow has one null for NaT and for None, which the field may both be; leave it "
                "out (fields=)"
            )
        valid = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    if element.name == "datetime64[D]":
        days = flat.view(np.int64)
        flat = days.astype(np.int32)
        if (days != flat)[~np.isnat(np.ascontiguousarray(days).view(element.numpy))].any():
            raise OptionError(f"field {field.name!r}: Arrow's days reach {2**31 - 1} from 1970, and one is further")
    # By its bits, which keeps those of each NaN.
    return pa.Array.from_buffers(kind, flat.size, [valid, pa.py_buffer(flat)])


def _rows(field: Field, column: Column, array: Any) -> Any:
    """Return the rows of records of flat values, from the inside outwards."""
    pa = pyarrow()
    for size in reversed(field.rest):
        array = pa.FixedSizeListArray.from_arrays(array, size)
    for lengths in (column.counts, column.steps):
        if lengths is not None:
            array = pa.LargeListArray.from_arrays(pa.array(bounds(np.asarray(lengths, np.int64))), array)
    return array


def _whole(column: Column, array: Any) -> Any:
    """Return an array with a null for each record that has no value."""
    if column.present is None:
        return array
    present = np.asarray(column.present)
    places = np.cumsum(present) - 1
    return array.take(pyarrow().array(np.where(present, places, 0), mask=~present))


def _nested(field: Field, leaf: Any) -> Any:
    pa = pyarrow()
    for size in reversed(field.rest):
        leaf = pa.list_(leaf, size)
    for _ in range(int(field.is_list) + int(field.is_ragged or field.sparse is not None)):
        leaf = pa.large_list(leaf)
    return leaf
