"""Source code of a record class, drafted from its schema for pasting into a program."""

from __future__ import annotations

import keyword
import math
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.schema.exact_values import SparseVector
from seqrecorder.schema.field import DEFAULT_GROUP, Field

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from seqrecorder.schema.schema import Schema

_ANNOTATIONS = {"bool": "bool", "str": "str", "bytes": "bytes"}
RESERVED = frozenset({"self", "sr", "np", *_ANNOTATIONS, "int", "float", "complex", "list"})
"""Names used by the drafted source code, which no attribute may have."""
_FLAGS = ("optional", "dense", "key", "chunk", "deferred")


def draft(schema: Schema, *, comments: Mapping[str, str] | None = None, notes: Iterable[str] = ()) -> str:
    """Draft the source code of a class with the fields of a schema.

    >>> import seqrecorder as sr
    >>> text = '{"name": "A", "fields": [{"name": "x", "kind": "feature_list", "dtype": "int64", "shape": []}]}'
    >>> print(draft(sr.Schema.from_json(text)))
    @sr.record
    class A:
        x: np.ndarray = sr.feature_list("int64")

    The code needs `import numpy as np` and `import seqrecorder as sr` above it.

    Args:
        schema: schema whose field names are valid in source code (see `identifier`).
        comments: mapping of field name to the comment at the end of its line.
        notes: comment lines below the last field.
    """
    comments = comments or {}
    defaults = [field.default is not attrs.NOTHING for field in schema.fields]
    in_order = defaults == sorted(defaults)  # attrs refuses a mandatory field after one with a default
    lines = ["@sr.record" if in_order else "@sr.record(kw_only=True)", f"class {schema.name}:"]
    for field in schema.fields:
        comment = f"  # {comments[field.name]}" if field.name in comments else ""
        lines.append(f"    {field.name}: {_annotation(field)} = {_declaration(field)}{comment}")
    return "\n".join([*lines, *(f"    # {note}" for note in notes)])


def identifier(feature: str, taken: Iterable[str]) -> str:
    """Convert a feature name to an attribute name that is neither taken nor reserved.

    >>> identifier("image/encoded", []), identifier("class", []), identifier("a-b", ["a_b"])
    ('image_encoded', 'field_class', 'a_b_')
    """
    name = "".join(c if c.isascii() and c.isalnum() else "_" for c in feature)
    if not name.isidentifier() or keyword.iskeyword(name) or name in RESERVED or name.startswith("_"):
        name = f"field_{name.strip('_')}"
    taken = set(taken)
    while name in taken:
        name += "_"
    return name


def _annotation(field: Field) -> str:
    kind = field.element.numpy.kind
    if field.sparse is not None and not field.dense:
        name = "list" if field.is_list else "sr.SparseVector"
    elif field.is_list:
        name = "list" if field.is_ragged else "np.ndarray"
    elif field.shape or field.sparse is not None:
        name = "np.ndarray"
    elif field.element.is_time:
        name = "np.datetime64" if kind == "M" else "np.timedelta64"
    else:
        name = (
            _ANNOTATIONS.get(field.element.name) or {"c": "complex"}.get(kind) or ("int" if kind in "iu" else "float")
        )
    return f"{name} | None" if field.optional or field.default is None else name


def _declaration(field: Field) -> str:
    arguments = [f'"{field.element.name}"']
    if field.shape:
        arguments.append(f"shape={field.shape!r}")
    if field.storage != "auto":
        arguments.append(f'storage="{field.storage}"')
    if field.sparse is not None:
        arguments.append(f"sparse={field.sparse}")
    arguments += [f"{flag}=True" for flag in _FLAGS if getattr(field, flag)]
    if field.default is not attrs.NOTHING:
        arguments.append(f"default={_value(field.default)}")
    if field.is_list and field.align != DEFAULT_GROUP:
        arguments.append("align=None" if field.align is None else f'align="{field.align}"')
    if field.per_step is not None:
        arguments.append(f"per_step={field.per_step}")
    if field.feature != field.name:
        arguments.append(f"name={field.feature!a}")
    if field.renamed_from:
        arguments.append(f"renamed_from={field.renamed_from!r}")
    return f"sr.{field.kind}({', '.join(arguments)})"


def _value(value: Any) -> str:
    """Write a default value as a Python expression."""
    if value is None or isinstance(value, (str, bytes)):
        return ascii(value)
    if isinstance(value, SparseVector):
        return f"sr.SparseVector({value.indices.tolist()}, {_value(value.values)}, {value.size})"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    array = np.asarray(value)
    if array.dtype.kind in "Obiu":
        text = ascii(array.tolist())
        return text if array.ndim == 0 else f'np.array({text}, "{array.dtype.name}")'
    if array.dtype.name == "bfloat16":
        return _floats(array.astype(np.float32).tolist())
    if array.dtype.kind == "f" and array.ndim == 0 and np.isfinite(array):
        return repr(float(array))
    # Write the bits, since decimal text loses NaN payloads, and not every time unit has a constructor.
    width = f"u{min(array.itemsize, 8)}"
    bits = array.reshape(-1).view(width).tolist()
    return f'np.array({bits}, "{width}").view("{array.dtype.name}").reshape({array.shape})' + "[()]" * (array.ndim == 0)


def _floats(value: Any) -> str:
    """Write nested lists of floats as a Python expression.

    This is used for bfloat16, which numpy lacks. NaN payloads are lost.
    """
    if isinstance(value, list):
        return f"[{', '.join(map(_floats, value))}]"
    return repr(value) if math.isfinite(value) else f'float("{value}")'
