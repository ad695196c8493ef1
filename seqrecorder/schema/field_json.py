"""Fields as JSON: what the manifest holds of each, and the way back.

Options that are as they are by default are left out, so that a description stays readable and its fingerprint does not
change when a later version adds an option.
"""

from __future__ import annotations

import keyword
import unicodedata
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.errors import SchemaError
from seqrecorder.schema.conversion import require_utf8
from seqrecorder.schema.dtypes import canonical_type
from seqrecorder.schema.field import Field
from seqrecorder.schema.sparse_vector import SparseVector

if TYPE_CHECKING:
    from collections.abc import Sequence


def brief(field: Field) -> str:
    """Return what a field is, in a few words."""
    shape = f", shape {field.shape}" if field.shape else ""
    return f"{field.kind} {field.element.name}{shape}"


# Options that a field's JSON holds only where they are not the default.
_PLAIN_OPTIONS = ("storage", "optional", "sparse", "dense", "align", "key", "chunk", "deferred")


def field_to_dict(field: Field) -> dict[str, Any]:
    """Return a field as plain dictionaries and lists, without the options that are as they are by default."""
    data: dict[str, Any] = {
        "name": field.name,
        "kind": field.kind,
        "dtype": field.element.name,
        "shape": list(field.shape),
    }
    if field.feature != field.name:
        data["feature"] = field.feature
    plain = attrs.fields_dict(Field)
    for option in _PLAIN_OPTIONS:
        if getattr(field, option) != plain[option].default:
            data[option] = getattr(field, option)
    if field.default is not attrs.NOTHING:
        data["default"] = _default_to_json(field.default, field)
    return data


def field_from_dict(data: dict[str, Any]) -> Field:
    """Rebuild a field from `field_to_dict`.

    Raises:
        SchemaError: the data are not a field.
        LookupError, TypeError, ValueError, AttributeError, OverflowError, Mismatch: the same, of values deep inside.
    """
    known = {"name", "kind", "dtype", "shape", "feature", "default", *_PLAIN_OPTIONS}
    unknown = set(data) - known
    if unknown:
        raise SchemaError(f"field {data.get('name')!r} has unknown options {sorted(unknown)}")
    name, kind = data["name"], data["kind"]
    if not isinstance(name, str) or not name.isidentifier() or kind not in ("context", "feature_list"):
        raise SchemaError(f"expected an identifier and a kind, got {name!r} and {kind!r}")
    options = {option: data[option] for option in _PLAIN_OPTIONS if option in data}
    for option in ("optional", "dense", "key", "chunk", "deferred"):
        if not isinstance(options.get(option, False), bool):
            raise SchemaError(f"field {name!r}: {option} is true or false, got {options[option]!r}")
    feature = data.get("feature", name)
    if not isinstance(data["shape"], list):
        raise SchemaError(f"field {name!r}: shape is a list, got {data['shape']!r}")
    field = Field(name, feature, kind, canonical_type(data["dtype"]), tuple(data["shape"]), **options)
    if "default" not in data:
        return field
    default = _default_from_json(data["default"], field)
    if default is not None:
        default = field.exact(default)
        if field.element.name == "str":
            require_utf8(default)
    return attrs.evolve(field, default=default)


def _default_to_json(value: Any, field: Field) -> Any:
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, SparseVector):
        return {"indices": value.indices.tolist(), "values": _default_to_json(value.values, field)}
    if isinstance(value, list):
        return {"steps": [_default_to_json(step, field) for step in value]}
    array = np.asarray(value, field.element.numpy)
    if field.element.name == "bytes":
        items: list[Any] = [item.hex() for item in array.ravel().tolist()]
    elif array.dtype == object or array.dtype.kind in "biu":
        items = array.ravel().tolist()
    else:  # floats and times by their bytes: JSON has neither NaN payloads nor units
        items = [item.tobytes().hex() for item in array.ravel()]
    return items[0] if array.ndim == 0 and isinstance(items[0], int) else {"shape": list(array.shape), "items": items}


def _default_from_json(data: Any, field: Field) -> Any:
    if data is None:
        return None
    if isinstance(data, (str, bool, int)):
        return field.exact(data)
    if "steps" in data:
        return [_default_from_json(step, field) for step in data["steps"]]
    if "indices" in data:
        values = _default_from_json(data["values"], field)
        return SparseVector(data["indices"], values, field.sparse or 0)
    items, element = data["items"], field.element
    if element.name == "bytes":
        items = [bytes.fromhex(item) for item in items]
    elif not element.is_text and element.numpy.kind not in "biu":
        items = [np.frombuffer(bytes.fromhex(item), element.numpy)[0] for item in items]
    array = np.empty(len(items), element.numpy)
    array[:] = items
    if not all(isinstance(size, int) and size >= 0 for size in data["shape"]):
        raise SchemaError(f"field {field.name!r}: default of shape {data['shape']!r}")
    array = array.reshape(data["shape"])
    return array[()] if array.ndim == 0 else array


def check_arguments(fields: Sequence[Field]) -> None:
    """Raise `SchemaError` for stored names of which no class with such arguments can be made."""
    arguments = [field.name.lstrip("_") for field in fields]
    for field, argument in zip(fields, arguments, strict=True):
        if unicodedata.normalize("NFKC", field.name) != field.name:  # Python takes two such names for one
            raise SchemaError(f"{field.name!r} cannot be the name of a field: Python reads it in another form")
        if not argument.isidentifier() or keyword.iskeyword(field.name) or argument == "self" or "__" in field.name[:2]:
            raise SchemaError(f"{field.name!r} cannot be the name of a field")
    if len(set(arguments)) < len(arguments):
        raise SchemaError(f"two fields have one name as arguments: {', '.join(arguments)}")
