"""Table of element types: numpy dtype, TensorFlow dtype and wire kind, with exact conversions between them.

The wire format has three kinds of lists, `int64_list`, `float_list` (float32) and `bytes_list`
(tensorflow/core/example/feature.proto). Each row names the default list of an element type. A type that no list
stores exactly (float64, complex) is stored as one little-endian buffer per step or record.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

import attrs
import numpy as np

from seqrecorder.errors import SchemaError, did_you_mean
from seqrecorder.schema.half_floats import widen

if TYPE_CHECKING:
    from numpy.typing import NDArray

WireKind = Literal["int64", "float", "bytes"]

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_REFUSED = {
    "float128": "numpy's longdouble has no portable layout; declare float64",
    "longdouble": "numpy's longdouble has no portable layout; declare float64",
    "complex256": "numpy's longdouble has no portable layout; declare complex128",
    "object": "objects have no layout; declare str, bytes or a numeric type",
    "float8_e5m2": "float8 is not supported; declare uint8 for the bits",
    "float8_e4m3fn": "float8 is not supported; declare uint8 for the bits",
    "int4": "int4 is not supported; declare int8",
    "uint4": "uint4 is not supported; declare uint8",
}


@attrs.frozen(repr=False)
class ElementType:
    """An element type: one row of the table.

    Attributes:
        name: canonical name, used in the manifest, such as `int32`, `datetime64[ns]` or `str`.
        wire: kind of list that the default storage uses.
        numpy: dtype of decoded arrays, little-endian; `object` for str and bytes.
        graph: name of the dtype of the tensors that `parse` returns.
        buffered: whether the default storage is a little-endian buffer, since no list stores the type exactly.
        zone: `UTC` for times with a zone, which are converted to UTC; None if there is no zone.
    """

    name: str
    wire: WireKind
    numpy: np.dtype[Any]
    graph: str
    buffered: bool = False
    zone: str | None = None

    def __repr__(self) -> str:
        return f"ElementType({self.name!r})"

    @property
    def is_text(self) -> bool:
        """Check whether elements are `str` or `bytes`."""
        return self.name in ("str", "bytes")

    @property
    def is_time(self) -> bool:
        """Check whether elements are datetime64 or timedelta64."""
        return self.numpy.kind in "Mm"

    @property
    def has_nan(self) -> bool:
        """Check whether the type has NaN, as floats and complex numbers do."""
        return self.wire == "float" or self.numpy.kind in "fc"

    @property
    def itemsize(self) -> int:
        """Size of one element in a buffer, in bytes."""
        return self.numpy.itemsize

    def to_wire(self, values: NDArray[Any]) -> NDArray[Any]:
        """Convert values exactly to int64 or float32, for types that are not `buffered`."""
        if self.wire == "float":
            return widen(values)
        if self.name == "uint64" or self.is_time:
            return np.ascontiguousarray(values).view(np.int64)
        return values.astype(np.int64, copy=False)

    def to_graph(self, values: NDArray[Any]) -> NDArray[Any]:
        """Convert an array to the dtype `graph`: times become int64, and other arrays are returned unchanged."""
        return values.view(np.int64) if self.is_time else values

    def zero(self) -> Any:
        """Return the filler for a missing value: 0, False or empty text."""
        if self.is_text:
            return "" if self.name == "str" else b""
        return np.zeros((), self.numpy)[()]


def _row(name: str, wire: WireKind, *, buffered: bool = False) -> ElementType:
    return ElementType(name, wire, np.dtype(name).newbyteorder("<"), name, buffered)


_TABLE: dict[str, ElementType] = {
    "bool": _row("bool", "int64"),
    **{name: _row(name, "int64") for name in INTEGERS},
    "float16": _row("float16", "float"),
    "float32": _row("float32", "float"),
    **{name: _row(name, "bytes", buffered=True) for name in ("float64", "complex64", "complex128")},
    "str": ElementType("str", "bytes", np.dtype(object), "string"),
    "bytes": ElementType("bytes", "bytes", np.dtype(object), "string"),
}
_ALIASES = {
    "float": "float64",  # as in numpy and Python
    "int": "int64",
    "complex": "complex128",
    "half": "float16",
    "single": "float32",
    "double": "float64",
    "string": "bytes",  # tf.string holds bytes
}
_PYTHON = {bool: "bool", int: "int64", float: "float64", complex: "complex128", str: "str", bytes: "bytes"}


def element_type(dtype: object) -> ElementType:
    """Look up the element type of a numpy dtype, a `tf.DType`, a Python type or a name.

    >>> element_type("int32").wire, element_type(float).name, element_type("datetime64[ms]").name
    ('int64', 'float64', 'datetime64[ms]')

    Raises:
        SchemaError: the type cannot be stored; the message says what to declare.
    """
    if isinstance(dtype, ElementType):
        return dtype
    name = _name_of(dtype)
    name = _ALIASES.get(name, name)
    if str(dtype)[:1] == ">" != name[:1]:
        text = f"dtype {str(dtype)!r}: numbers are stored little-endian; declare {name!r}, for arrays of any order, "
        raise SchemaError(f"{text}or bytes for files with big-endian bytes, and decode them by np.frombuffer")
    if name in _TABLE:
        return _TABLE[name]
    if name == "bfloat16":
        import ml_dtypes  # installed with TensorFlow

        return ElementType(name, "float", np.dtype(ml_dtypes.bfloat16), "bfloat16")
    if name.startswith(("datetime64", "timedelta64")):
        return _time_type(name)
    why = "structured dtypes are not supported; declare one field each" if name[:1] == "[" else _REFUSED.get(name)
    if not why:
        why = "expected one of " + ", ".join([*_TABLE, "bfloat16", "datetime64[unit]", "timedelta64[unit]"])
        why += did_you_mean(name, [*_TABLE, *_ALIASES])
    raise SchemaError(f"dtype {name!r} cannot be stored: {why}")


def canonical_type(name: object) -> ElementType:
    """Look up the element type of a canonical name, the only spelling allowed in files.

    Raises:
        SchemaError: the name is not canonical.
    """
    times = isinstance(name, str) and re.fullmatch(r"timedelta64\[[a-zA-Z]+\]|datetime64\[[a-zA-Z]+(, UTC)?\]", name)
    if not isinstance(name, str) or not (name in _TABLE or name == "bfloat16" or times):
        raise SchemaError(f"dtype {name!r} is not the name of an element type")
    return element_type(name)


def _time_type(name: str) -> ElementType:
    plain, comma, zone = name.partition(",")
    if comma:
        if zone.strip() != "UTC]" or not plain.startswith("datetime64["):
            raise SchemaError(f"dtype {name!r} cannot be stored: UTC is the one zone, as in 'datetime64[s, UTC]'")
        known = _time_type(f"{plain}]")
        return ElementType(f"{known.name[:-1]}, UTC]", known.wire, known.numpy, known.graph, zone="UTC")
    try:
        dtype = np.dtype(name).newbyteorder("<")
    except TypeError as error:
        raise SchemaError(f"dtype {name!r} cannot be stored: {error}") from None
    unit, step = np.datetime_data(dtype)
    if unit == "generic":
        raise SchemaError(f"dtype {name!r} has no unit: declare one, such as {name}[ns]")
    if step != 1:
        raise SchemaError(f"dtype {name!r} has a unit of {step}: declare a plain unit, such as {unit}")
    return ElementType(dtype.name, "int64", dtype, "int64")


def _name_of(dtype: object) -> str:
    if isinstance(dtype, str):
        try:
            # numpy resolves spellings such as "<f4" and "i8"; names that it does not know stay as they are.
            known = dtype in _TABLE or dtype in _ALIASES or dtype in ("str", "bytes", "bfloat16")
            return dtype if known else _numpy_name(np.dtype(dtype))
        except (TypeError, ValueError, SyntaxError):  # numpy parses strings such as ",f4" as Python
            return dtype
    if isinstance(dtype, type) and dtype in _PYTHON:
        return _PYTHON[dtype]
    if hasattr(type(dtype), "as_numpy_dtype"):  # a tf.DType, without importing TensorFlow; resources have no numpy type
        return str(getattr(dtype, "name", dtype))
    try:
        if dtype is not None:  # np.dtype(None) is float64
            return _numpy_name(np.dtype(dtype))  # type: ignore[call-overload]  # any object
    except TypeError:
        pass
    raise SchemaError(f"dtype: expected a numpy dtype, a tf.DType, a Python type or a name, got {dtype!r}")


def _numpy_name(dtype: np.dtype[Any]) -> str:
    if dtype.names:
        return str(dtype)
    return {"U": "str", "T": "str", "S": "bytes"}.get(dtype.kind) or str(dtype.name)
