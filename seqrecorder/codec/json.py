"""Exact conversion of columns to lines of JSON, with an error for values that JSON cannot represent."""

from __future__ import annotations

import json
import operator
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.codec.columns import scatter
from seqrecorder.errors import OptionError
from seqrecorder.schema.exact_values import SparseVector

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from seqrecorder.codec.columns import Column
    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema


def check_json(schema: Schema) -> None:
    """Raise `OptionError` if JSON cannot represent the values of a field."""
    for field in schema.fields:
        if field.element.name == "bytes" or field.element.numpy.kind in "cm":
            raise OptionError(
                f"field {field.name!r}: JSON holds no {field.element.name}; leave the field out (fields=), or write "
                "Parquet"
            )


def json_lines(schema: Schema, columns: Mapping[str, Column]) -> Iterator[str]:
    """Yield one line per record: a JSON object that maps field names to values.

    >>> import numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     ids: np.ndarray = sr.feature_list("float32")
    >>> ids = sr.Column(np.array([1, np.nan, 3], "float32"), steps=np.array([2, 1]))
    >>> list(json_lines(sr.Schema.of(Sentence), {"ids": ids}))
    ['{"ids": [1.0, null]}', '{"ids": [3.0]}']

    NaN and NaT become null, and times become ISO 8601 strings. A sparse field has two keys, `<field>/indices` and
    `<field>/values`.

    Args:
        schema: schema with fields that `check_json` accepts.
        columns: mapping of field name to column.

    Raises:
        OptionError: a value is infinite.
    """
    names: list[str] = []
    rows: list[list[Any]] = []
    for field in schema.fields:
        column = columns[field.name]
        values = scatter(field, attrs.evolve(column, values=_plain(field, np.asarray(column.values))))
        if field.sparse is None:
            names.append(field.name)
            rows.append(values)
            continue
        for part in ("indices", "values"):
            names.append(f"{field.name}/{part}")
            rows.append([_part(value, part) for value in values])
    to_python = operator.methodcaller("tolist")
    for row in zip(*rows, strict=True):
        line = dict(zip(names, row, strict=True))
        yield json.dumps(line, ensure_ascii=False, allow_nan=False, default=to_python)


def _plain(field: Field, values: NDArray[Any]) -> NDArray[Any]:
    """Convert values to an array whose Python objects JSON can represent."""
    if field.element.numpy.kind == "M":
        zone: Any = "naive" if field.element.zone is None else field.element.zone
        missing, objects = np.isnat(values), np.datetime_as_string(values, timezone=zone).astype(object)
    elif field.element.has_nan:
        wide = values.astype(np.float64)
        if np.isinf(wide).any():
            raise OptionError(f"field {field.name!r}: JSON holds no infinity; write Parquet, or leave the field out")
        missing, objects = np.isnan(wide), wide
    else:
        return values
    if not missing.any():
        return objects
    if field.optional and field.is_scalar:
        nothing = "NaT" if field.element.is_time else "NaN"
        raise OptionError(
            f"field {field.name!r}: JSON has one null for {nothing} and for None, which the field may both be; leave "
            "it out (fields=)"
        )
    objects = objects.astype(object)
    objects[missing] = None
    return objects


def _part(value: Any, name: str) -> Any:
    if isinstance(value, SparseVector):
        return getattr(value, name).tolist()
    return None if value is None else [_part(item, name) for item in value]
