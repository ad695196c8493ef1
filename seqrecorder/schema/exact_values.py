"""Exact conversion of Python and numpy values to the declared type of a field.

A conversion either keeps every value or raises `Mismatch` with the index, the expected and the actual value.
One exception: Python floats are rounded to a declared float16, bfloat16, float32 or complex64, since Python has no
narrower float. Numpy arrays have a dtype, so they must fit exactly.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from seqrecorder.schema.dtypes import ElementType


class Mismatch(Exception):  # noqa: N818 - becomes a FieldProblem of a RecordError
    """A value that its field cannot store exactly."""

    def __init__(self, expected: str, got: str, index: tuple[int, ...] = ()) -> None:
        super().__init__(f"expected {expected}, got {got}")
        self.expected, self.got, self.index = expected, got, index

    def inside(self, *outer: int) -> Mismatch:
        """Prepend outer indices to the index of the mismatch."""
        return Mismatch(self.expected, self.got, (*outer, *self.index))


class VectorError(Mismatch, ValueError):
    """Indices and values that do not form a sparse vector.

    This is also a `ValueError`, which code that builds a `SparseVector` can catch.
    """


def describe(value: object) -> str:
    """Describe a value by its type and the beginning of its repr."""
    try:
        text = repr(value)
    except RecursionError:
        text = "that is nested too deeply to be shown"
    limit = 60
    return f"{type(value).__name__} {text if len(text) <= limit else text[:limit] + '...'}"


def advice(value: object, record_class: str = "Record") -> str:
    """Return advice, for the end of an error message, on how to write a value that is not a record."""
    if isinstance(value, Mapping):
        return f"; make a record of each: {record_class}(**row), or give all to seqrecorder.write with schema="
    if isinstance(value, (list, tuple)):
        return f"; make a record of each: {record_class}(*row)"
    is_column = isinstance(value, (str, bytes, int, float)) or hasattr(value, "dtype")
    if is_column or hasattr(type(value), "__arrow_c_stream__"):
        return "; pass a table to seqrecorder.write, and columns to Writer.write_batch"
    return ""


def check_kept(before: NDArray[Any], after: NDArray[Any], element: ElementType) -> None:
    """Raise `Mismatch` for the first value that a conversion to `element` and back has changed."""
    kept = (before == after) | ((before != before) & (after != after))  # noqa: PLR0124 - finds NaN and NaT
    if not np.all(kept):
        index = tuple(int(i) for i in np.argwhere(~np.asarray(kept))[0])
        give = f"give {element.name} (`.astype`; of tables `cast=True`)"
        advice = f"; {'round first (pandas: `.dt.floor`)' if element.is_time else give}, or declare {before.dtype}"
        got = f"{before[index]!r} of dtype {before.dtype}{advice}"
        raise Mismatch(f"values that {element.name} holds exactly", got, index)


def same_bits(left: object, right: object) -> bool:
    """Check whether two values of a field agree in dtype, shape and every bit (so that a NaN equals itself).

    >>> same_bits(np.array([0.0]), np.array([-0.0])), same_bits(np.array([np.nan]), np.array([np.nan]))
    (False, True)
    """
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(same_bits, left, right))
    if not isinstance(left, (np.ndarray, np.generic)):
        return type(left) is type(right) and bool(left == right)
    if not isinstance(right, (np.ndarray, np.generic)) or left.dtype != right.dtype or left.shape != right.shape:
        return False
    return bool(left.tolist() == right.tolist()) if left.dtype == object else left.tobytes() == right.tobytes()


_TRUTH = (0, 1)


def cast_values(values: NDArray[Any], element: ElementType) -> NDArray[Any]:
    """Cast numbers to the declared dtype, as `cast=True` allows.

    Other values are returned unchanged.

    >>> from seqrecorder.schema.dtypes import element_type
    >>> cast_values(np.array([1.0, -2.0]), element_type("int16"))
    array([ 1, -2], dtype=int16)

    Floats are rounded to narrower floats, whole floats become integers, and 0 and 1 become bools and vice versa.

    Args:
        values: one-dimensional array.
        element: the declared type.

    Raises:
        Mismatch: a value is out of range, or is a fraction and the type is an integer.
    """
    source, target = values.dtype, element.numpy
    to_float = element.has_nan and target.kind != "c"
    if source == target or source.kind not in "fiub" or not (to_float or target.kind in "iub"):
        return values
    with np.errstate(over="ignore", invalid="ignore"):
        result: NDArray[Any] = values.astype(target)
        if source.kind == "f" and to_float:
            fits = np.isfinite(result.astype(np.float64)) | ~np.isfinite(values)
            expected = f"{element.name} (finite)"
        elif source.kind == "f" and target.kind in "iu":
            limits = np.iinfo(target)
            # As a float, the upper limit may round up to a number out of range.
            fits = (values == np.trunc(values)) & (values >= float(limits.min)) & (values < float(limits.max) + 1)
            expected = f"whole numbers in [{limits.min}, {limits.max}] for {element.name}"
        elif target.kind == "b":
            fits = np.isin(values, _TRUTH)
            expected = "0 or 1 for bool"
        else:
            return result if source.kind == "b" else values  # integers are checked later
    if not fits.all():
        first = int(np.argmin(fits))
        raise Mismatch(expected, repr(values[first].item()), (first,))
    return result


ADVICE = (
    "convert to UTC, if that is intended, and drop the zone (pandas: .dt.tz_convert(None)), or declare "
    "'datetime64[unit, UTC]'"
)
NO_ZONE = "times without a zone; set their zone first (pandas: .dt.tz_localize(...))"
_DIMENSIONS = 32  # the limit of numpy 1; numpy 2 allows 64
_YEAR = re.compile(r"\s*[+-]?\d+")
_OFFSET = re.compile(r"(.*\d)(?:Z|([+-])(\d\d):?(\d\d))")


def zone_of(kind: Any) -> str | None:
    """Return the time zone of a type from another library.

    For a list or dictionary type, this is the zone of its items. The result is None if there is no zone.

    Args:
        kind: a pyarrow type, a polars or pandas dtype, or any other object.
    """
    while kind is not None:
        zone = getattr(kind, "tz", None) or getattr(kind, "time_zone", None)
        if zone is not None:
            return str(zone)
        inner = getattr(kind, "value_type", None)  # list and dictionary types of pyarrow
        kind = getattr(kind, "inner", None) if inner is None else inner
    return None


def check_zone(array: Any, element: ElementType) -> None:
    """Raise `Mismatch` if an array from another library has a time zone, and the type declares none.

    Otherwise, numpy would convert the times to UTC.
    """
    if element.zone is not None:
        return
    for kind in (getattr(array, "dtype", None), getattr(array, "type", None)):
        zone = zone_of(kind)
        if zone is not None:
            raise Mismatch(f"{element.name} (without a time zone)", f"times of the zone {zone!r}; {ADVICE}")


def times_of_objects(values: Any, element: ElementType) -> NDArray[Any]:
    """Convert dates, datetimes or timedeltas, all of one class, to an array.

    Args:
        values: objects of the standard library, or of their pandas subclasses, which have nanosecond precision.
        element: a datetime64 or timedelta64 type.

    Raises:
        Mismatch: a value has a time zone and the type has none (or vice versa), or a value is finer than the unit.
    """
    if element.zone is not None:
        values = [_in_utc(value, position, element) for position, value in enumerate(values)]
    zoned = next((i for i, v in enumerate(values) if getattr(v, "tzinfo", None) is not None), None)
    if zoned is not None:
        expected = f"{element.name} (without a time zone)"
        raise Mismatch(expected, f"{describe(values[zoned])}; {ADVICE}", (zoned,))
    to_numpy = "to_datetime64" if element.numpy.kind == "M" else "to_timedelta64"
    if hasattr(type(values[0]), to_numpy):  # for pandas objects: numpy would drop their nanoseconds
        return _from_mixed([getattr(value, to_numpy)() for value in values], element)
    is_date = isinstance(values[0], dt.date) and not isinstance(values[0], dt.datetime)
    prefix = "datetime64" if element.numpy.kind == "M" else "timedelta64"
    return cast_times(np.array(values, f"{prefix}[{'D' if is_date else 'us'}]"), element)


def _in_utc(value: Any, position: int, element: ElementType) -> Any:
    """Convert a datetime to UTC and drop the zone."""
    if getattr(value, "tzinfo", None) is None:
        raise Mismatch(f"{element.name} (with a time zone)", f"{describe(value)}: {NO_ZONE}", (position,))
    if hasattr(value, "tz_convert"):  # for pandas objects: keeps the nanoseconds
        return value.tz_convert(None)
    return value.astimezone(dt.timezone.utc).replace(tzinfo=None)


def time_of_text(text: str, element: ElementType, *, zone_required: bool = True) -> Any:
    """Parse a time in ISO 8601 format.

    If the type has a time zone and `zone_required` is False, text without a zone is read as UTC.

    >>> from seqrecorder.schema.dtypes import element_type
    >>> time_of_text("2024-01-01T01:00:00+01:00", element_type("datetime64[s, UTC]"))
    np.datetime64('2024-01-01T00:00:00')

    Raises:
        Mismatch: the text has a zone and the type has none, or the text lacks a required zone.
        ValueError: the text is not a time, or the time is out of range.
    """
    match = _OFFSET.fullmatch(text) if "T" in text or ":" in text or text.endswith("Z") else None
    if element.zone is None:
        if match is not None:
            raise Mismatch(f"{element.name} (without a time zone)", f"{text!r}; {ADVICE}")
        return _time(text)
    if match is None and not zone_required:
        return _time(text)
    if match is None:
        raise Mismatch(f"{element.name} (with a time zone)", f"{text!r}: {NO_ZONE}")
    plain, sign, hours, minutes = match.groups()
    offset = 0 if sign is None else int(f"{sign}1") * (60 * int(hours) + int(minutes))
    return _time(plain) - np.timedelta64(offset, "m") if offset else _time(plain)


def _time(text: str) -> Any:
    time = np.datetime64(text, "s") if text[:1] in "nN" else np.datetime64(text)  # numpy 2.5 requires a unit for NaT
    year = _YEAR.match(text)  # numpy wraps out-of-range times around, and accepts "today"
    if not np.isnat(time) and (year is None or np.datetime64(int(year[0]) - 1970, "Y") != time.astype("M8[Y]")):
        raise ValueError(f"{text!r} is not a time, or out of the range of its unit")
    return time


def cast_times(array: NDArray[Any], element: ElementType) -> NDArray[Any]:
    """Convert numpy times to the declared unit.

    Raises:
        Mismatch: a time is finer than the unit or out of its range, or the units have no fixed ratio.
    """
    if not np.can_cast(array.dtype, element.numpy, "same_kind"):  # a year or month has no fixed number of days
        raise Mismatch(element.name, f"dtype {array.dtype}")
    try:
        converted = array.astype(element.numpy)
        back = converted.astype(array.dtype)
    except OverflowError:  # since numpy 2.5; earlier releases wrap around
        converted = back = array.copy()
        back.flat[np.abs(array.astype("int64")).argmax()] = "NaT"
    check_kept(array, back, element)
    return converted


def _as_indices(values: Any) -> NDArray[np.int64]:
    return np.asarray(values, np.int64).reshape(-1)


@attrs.frozen(repr=False)
class SparseVector:
    """A sparse vector, such as a bag of words.

    >>> bag = SparseVector([2, 5], np.array([1.0, 3.0], "float32"), size=8)
    >>> bag.to_dense()
    array([0., 0., 1., 0., 0., 3., 0., 0.], dtype=float32)

    Attributes:
        indices: ascending indices (int64), each in `[0, size)`.
        values: values at the indices, an array of the same length.
        size: length of the dense vector.
    """

    indices: NDArray[np.int64] = attrs.field(converter=_as_indices, eq=attrs.cmp_using(eq=same_bits))
    # asanyarray keeps a mask, which `exact_sparse` checks.
    values: NDArray[Any] = attrs.field(converter=np.asanyarray, eq=attrs.cmp_using(eq=same_bits))
    size: int

    def __attrs_post_init__(self) -> None:
        if self.indices.shape != self.values.shape:
            raise VectorError("as many indices as values", f"{self.indices.size} indices and {self.values.size} values")
        if not self.indices.size:
            return
        if self.indices.min() < 0 or self.indices.max() >= self.size:
            bad = int(np.flatnonzero((self.indices < 0) | (self.indices >= self.size))[0])
            raise VectorError(f"an index in [0, {self.size})", str(self.indices[bad]), (bad,))
        if (np.diff(self.indices) <= 0).any():
            order = np.argsort(self.indices, kind="stable")
            if (np.diff(self.indices[order]) == 0).any():
                raise VectorError("distinct indices", f"{self.indices.tolist()}")
            object.__setattr__(self, "indices", self.indices[order])
            object.__setattr__(self, "values", self.values[order])

    def __iter__(self) -> Iterator[NDArray[Any]]:
        """Unpack as `indices, values`."""
        return iter((self.indices, self.values))

    __hash__ = None  # type: ignore[assignment]  # it holds arrays

    def __repr__(self) -> str:
        return f"SparseVector(indices={self.indices.tolist()}, values={self.values.tolist()}, size={self.size})"

    def to_dense(self) -> NDArray[Any]:
        """Convert to a dense vector.

        Elements without a stored value become zero, or empty text.
        """
        if self.values.dtype == object:
            empty = "" if self.values.size and isinstance(self.values[0], str) else b""
            dense = np.full(self.size, empty, object)
        else:
            dense = np.zeros(self.size, self.values.dtype)
        dense[self.indices] = self.values
        return dense


_PLAIN = {bool, int, float, complex, str, bytes}
_TIME_TYPES = (dt.date, dt.timedelta, np.datetime64, np.timedelta64)  # datetime is a date


def exact_scalar(value: object, element: ElementType) -> Any:
    """Convert a value to a scalar of the declared type: str, bytes, bool or a numpy scalar.

    Raises:
        Mismatch: the value is not a scalar, or does not fit exactly.
    """
    kind = type(value)
    if (kind is str and element.name == "str") or (kind is bytes and element.name == "bytes"):
        return value
    array = exact_array(value, element)
    if array.ndim:
        raise Mismatch(f"a scalar {element.name}", f"shape {array.shape}")
    scalar = array[()]
    return bool(scalar) if element.name == "bool" else scalar


def exact_array(value: object, element: ElementType) -> NDArray[Any]:
    """Convert a value to an array of the declared type, without a copy if it already is one.

    Args:
        value: array, eager tensor, scalar, or regularly nested lists of scalars or arrays.
        element: the declared type.

    Raises:
        Mismatch: a value does not fit exactly (see the module's docstring).
    """
    if type(value) is np.ndarray:
        return value if value.dtype == element.numpy and value.dtype != object else _cast(value, element)
    if isinstance(value, np.ma.MaskedArray):
        return _unmasked(value, element)
    if isinstance(value, (np.ndarray, np.generic)) and not isinstance(value, float):
        return exact_array(np.asarray(value), element)
    if isinstance(value, (list, tuple, range)):
        return _from_nested(value, element)
    if hasattr(value, "__array__") and not isinstance(value, (*_TIME_TYPES, float)):
        if element.is_time:
            check_zone(value, element)
        return exact_array(np.asarray(value), element)
    try:
        return _from_scalars([value], element, {type(value)}).reshape(())
    except Mismatch as problem:
        raise Mismatch(problem.expected, problem.got) from None  # omit the index of a scalar


def _unmasked(value: np.ma.MaskedArray[Any, Any], element: ElementType) -> NDArray[Any]:
    """Convert a masked array to an array with NaN at the masked positions.

    Raises:
        Mismatch: a value is masked and the element type has no NaN.
    """
    if not np.ma.is_masked(value):
        return exact_array(np.asarray(value.data), element)
    mask = np.ma.getmaskarray(value)
    if not element.has_nan:
        expected = f"{element.name} without a mask (`array.filled(...)` gives one; only floats have NaN)"
        raise Mismatch(expected, "a masked value", tuple(int(i) for i in np.argwhere(mask)[0]))
    exact = exact_array(np.where(mask, np.zeros((), value.dtype), value.data), element)
    return np.where(mask, np.array(np.nan, element.numpy), exact)


def _from_nested(value: list[Any] | tuple[Any, ...] | range, element: ElementType, depth: int = 1) -> NDArray[Any]:
    if depth > _DIMENSIONS:
        raise Mismatch(f"at most {_DIMENSIONS} dimensions", "more")
    if not value:
        return np.empty((0,), element.numpy)
    kinds = set(map(type, value))
    if not kinds - _PLAIN:
        return _from_scalars(value, element, kinds)
    nested = [isinstance(item, (list, tuple, range, np.ndarray)) or _is_tensor(item) for item in value]
    if not any(nested):
        return _from_scalars(value, element, kinds)
    rows: list[NDArray[Any]] = []
    for position, (item, is_nested) in enumerate(zip(value, nested, strict=True)):
        try:
            if not is_nested:
                raise Mismatch("a sequence, like its neighbours", describe(item))
            is_list = isinstance(item, (list, tuple, range))
            rows.append(_from_nested(item, element, depth + 1) if is_list else exact_array(item, element))
        except Mismatch as problem:
            raise problem.inside(position) from None
        if rows[-1].shape != rows[0].shape:
            raise Mismatch(f"shape {rows[0].shape}, as item 0 has", f"shape {rows[-1].shape}", (position,))
    if rows[0].ndim >= _DIMENSIONS:
        raise Mismatch(f"at most {_DIMENSIONS} dimensions", "more")
    return np.stack(rows)


def _is_tensor(item: object) -> bool:
    return getattr(item, "shape", ()) != () and hasattr(item, "__array__")


def _from_scalars(values: Any, element: ElementType, kinds: set[type]) -> NDArray[Any]:
    if kinds == {float, int} and element.has_nan:
        return _floats(values, element)
    kind = next(iter(kinds))
    if len(kinds) > 1 or issubclass(kind, np.generic):
        return _from_mixed(values, element)
    family = element.name if element.is_text else "f" if element.wire == "float" else element.numpy.kind
    accepts, convert = _PYTHON_SCALARS[family]
    # bool is a subclass of int, but a bool in an int field is a mistake.
    if not issubclass(kind, accepts) or (kind is bool and element.name != "bool"):
        raise Mismatch(element.name, describe(values[0]), (0,))
    converted: NDArray[Any] = convert(values, element)
    return converted


def _from_mixed(values: Any, element: ElementType) -> NDArray[Any]:
    result = np.empty(len(values), element.numpy)
    for position, value in enumerate(values):
        try:
            # numpy's float64, str_ and bytes_ are subclasses of Python's types and count as those.
            if isinstance(value, np.generic) and not isinstance(value, (float, str, bytes)):
                result[position] = _cast(np.asarray(value), element)[()]
            else:
                plain = value.item() if isinstance(value, np.generic) else value
                result[position] = _from_scalars([plain], element, {type(plain)})[0]
        except Mismatch as problem:
            raise Mismatch(problem.expected, problem.got, (position,)) from None
    return result


def _text(values: Any, element: ElementType) -> NDArray[Any]:
    # Not str(): subclasses may override __str__, as enum members do.
    plain: Any = str.__str__ if element.name == "str" else bytes
    return np.fromiter(map(plain, values), object, len(values))


_JPEG_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # SOF markers, whose segments begin with the image size
_JPEG_ALONE = {0x01, *range(0xD0, 0xD8)}  # markers without a segment
_JPEG_PIXELS = 0xDA
_PNG_CHANNELS = {0: (1,), 2: (3,), 3: (3, 4), 4: (2,), 6: (4,)}  # by color type; 3 is a palette
_BYTE = 8


def image_header(data: bytes) -> tuple[str, int, int, tuple[int, ...], int] | None:
    """Read the format, height, width, possible channel counts and bit depth from the header of an image.

    Images with a palette have two possible channel counts. The result is None if the bytes have no PNG or JPEG header.

    >>> image_header(bytes.fromhex("89504e470d0a1a0a0000000d494844520000000300000002080200000000000000"))
    ('png', 2, 3, (3,), 8)
    """
    if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR" and data[25:26] and data[25] in _PNG_CHANNELS:
        width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
        return "png", height, width, _PNG_CHANNELS[data[25]], data[24]
    at = 2 if data.startswith(b"\xff\xd8\xff") else len(data)
    while at + 9 < len(data) and data[at] == 0xFF:  # noqa: PLR2004 - the first byte of a marker
        marker = data[at + 1]
        if marker in _JPEG_SIZES:
            height, width = (int.from_bytes(data[at + n : at + n + 2], "big") for n in (5, 7))
            return "jpeg", height, width, (data[at + 9],), data[at + 4]
        if marker == _JPEG_PIXELS:
            break
        alone = marker in _JPEG_ALONE
        at += 1 if marker == 0xFF else 2 if alone else 2 + int.from_bytes(data[at + 2 : at + 4], "big")  # noqa: PLR2004
    return None


def plain_image(value: Any) -> Any:
    """Convert encoded images to bytes objects.

    One encoded image becomes a bytes object, and an array of encoded images becomes a list of them. Any other value,
    such as an array of pixels, is returned unchanged.
    """
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    array = np.asarray(value) if hasattr(value, "__array__") else None
    return value if array is None or array.dtype.kind not in "OS" else array.tolist()


def holds_encoded(value: object) -> bool:
    """Check whether a value is an encoded image, or a list that contains one."""
    return isinstance(value, bytes) or (isinstance(value, list) and any(isinstance(item, bytes) for item in value))


_END_OF_IMAGE = {"png": b"IEND", "jpeg": b"\xff\xd9"}


def exact_image(value: object, element: ElementType, shape: tuple[int | None, ...], storage: str) -> Any:
    """Check an image: return encoded bytes unchanged, and pixels as an array of the declared type.

    Args:
        value: encoded bytes, or an array of pixels.
        element: the declared type.
        shape: height, width and channels; height and width may be None.
        storage: `png` or `jpeg`.

    Raises:
        Mismatch: the header does not match the declaration, or the pixels do not fit.
    """
    names = ", ".join("any" if size is None else str(size) for size in shape)
    bits = _BYTE * element.itemsize
    if isinstance(value, bytes):
        header = image_header(value)
        wanted = f"a {storage.upper()} of shape ({names}) and {bits} bits"
        if header is None:
            raise Mismatch(wanted, describe(value))
        kind, height, width, channels, depth = header
        sizes = all(have and want in (None, have) for have, want in zip((height, width), shape, strict=False))
        if kind != storage or not sizes or shape[2] not in channels or not (depth == bits or depth < bits == _BYTE):
            raise Mismatch(wanted, f"a {kind.upper()} of shape {(height, width, channels[0])} and {depth} bits")
        if value.rfind(_END_OF_IMAGE[kind]) < 0:  # TensorFlow does not decode truncated images
            raise Mismatch(wanted, f"a truncated image: {len(value)} bytes without an end marker")
        return value
    array = exact_array(value, element)
    if (
        array.ndim != len(shape)
        or not array.size
        or any(n not in (None, m) for n, m in zip(shape, array.shape, strict=True))
    ):
        raise Mismatch(f"shape ({names})", f"shape {array.shape}")
    return array


def _integers(values: Any, element: ElementType) -> NDArray[Any]:
    limits = np.iinfo(element.numpy)
    if min(values) < limits.min or max(values) > limits.max:
        bad = next(i for i, v in enumerate(values) if not limits.min <= v <= limits.max)
        expected = f"{element.name} in [{limits.min}, {limits.max}]"
        raise Mismatch(expected, str(values[bad]), (bad,))
    return np.array(values, element.numpy)


# Largest n for which a type holds every integer in [-n, n]; 2**53 for the types not listed.
_EXACT_INTEGERS = {"bfloat16": 2**8, "float16": 2**11, "float32": 2**24, "complex64": 2**24}


def _floats(values: Any, element: ElementType) -> NDArray[Any]:
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            wide = np.array(values, "complex128" if element.numpy.kind == "c" else "float64")
        except OverflowError:
            raise Mismatch(element.name, f"an int beyond any float ({max(values, key=abs)})") from None
        result = wide.astype(element.numpy)
        overflow = np.isfinite(wide) & ~np.isfinite(result)
        if overflow.any():
            bad = int(np.argmax(overflow))
            raise Mismatch(f"{element.name} (finite)", repr(values[bad]), (bad,))
    for position in np.flatnonzero(np.abs(wide) >= _EXACT_INTEGERS.get(element.name, 2**53)).tolist():
        value = values[position]
        if isinstance(value, int) and int(np.real(result[position])) != value:
            raise Mismatch(f"an int that {element.name} holds exactly", str(value), (position,))
    return result


_PYTHON_SCALARS: dict[str, tuple[tuple[type, ...], Any]] = {
    "b": ((bool,), lambda values, _: np.array(values, bool)),
    "i": ((int,), _integers),
    "u": ((int,), _integers),
    "f": ((float, int), _floats),
    "c": ((complex, float, int), _floats),
    "M": ((dt.date, np.datetime64), times_of_objects),
    "m": ((dt.timedelta, np.timedelta64), times_of_objects),
    "str": ((str,), _text),
    "bytes": ((bytes, bytearray, memoryview), _text),
}


def _cast(array: NDArray[Any], element: ElementType) -> NDArray[Any]:
    target, source = element.numpy, array.dtype
    if not array.size and source == np.float64:  # an empty list, which numpy makes float64
        return np.empty(array.shape, target)
    if source.kind == "O":
        return _cast_objects(array, element)
    if element.is_text:
        if source.kind not in ("T", "U" if element.name == "str" else "S"):
            raise Mismatch(element.name, f"dtype {source}")
        return array.astype(object)
    if source == target:  # equal dtypes may still differ in byte order
        return array.astype(target)
    kinds = (_family_of(source), _family_of(target))
    if kinds[0] == "i" and kinds[1] == "i":
        return _cast_integers(array, element)
    if element.is_time:
        return cast_times(array, element)
    if kinds not in (("f", "f"), ("i", "f"), ("f", "c"), ("i", "c"), ("c", "c")):
        give = f"give {element.name} (`.astype`; of tables `cast=True`), or declare {source}"
        raise Mismatch(element.name, f"dtype {source}; {give}")
    with np.errstate(over="ignore", invalid="ignore"):
        result = array.astype(target)
        if kinds[0] == "i":
            # Convert back and compare as integers, since a comparison as floats would round both sides.
            limit = float(2**63) if source.kind == "i" else float(2**64)
            real = np.real(result).astype(np.float64)
            safe = (real >= -limit) & (real < limit)
            back = np.where(safe, np.real(result), 0).astype(source)
            check_kept(array, np.where(safe, back, ~array), element)
        else:
            check_kept(array, result.astype(source), element)
    return result


def _cast_objects(array: NDArray[Any], element: ElementType) -> NDArray[Any]:
    items = array.ravel().tolist()
    try:
        exact = _from_nested(items, element)
        if exact.ndim > 1:
            raise Mismatch(element.name, describe(items[0]), (0,))
        return exact.reshape(array.shape)
    except Mismatch as problem:
        first = np.unravel_index(problem.index[0], array.shape) if problem.index else ()
        raise Mismatch(problem.expected, problem.got, (*map(int, first), *problem.index[1:])) from None


def _family_of(dtype: np.dtype[Any]) -> str:
    if dtype.kind in "iu":
        return "i"
    return "f" if dtype.name == "bfloat16" else dtype.kind


def _cast_integers(array: NDArray[Any], element: ElementType) -> NDArray[Any]:
    if array.size:
        limits = np.iinfo(element.numpy)
        # As Python ints: numpy compares int64 with uint64 as float64.
        if int(array.min()) < limits.min or int(array.max()) > limits.max:
            low, high = max(limits.min, np.iinfo(array.dtype).min), min(limits.max, np.iinfo(array.dtype).max)
            bad = np.argwhere((array < low) | (array > high))[0]
            index = tuple(int(i) for i in bad)
            expected = f"{element.name} in [{limits.min}, {limits.max}]"
            raise Mismatch(expected, str(array[index]), index)
    return array.astype(element.numpy)


def exact_sparse(value: object, element: ElementType, size: int) -> SparseVector:
    """Convert a value to a `SparseVector` of `size` elements of the declared type.

    Args:
        value: `SparseVector`, mapping of index to value, pair of indices and values, or dense array. From a
            dense array, elements whose bits are all zero (unlike those of -0.0) and empty texts are left out.
        element: the declared type of the values.
        size: the declared size.

    Raises:
        Mismatch: an index is out of range or repeated, or a value does not fit.
    """
    indices: Any
    values: Any
    if isinstance(value, SparseVector):
        if value.size != size:
            raise Mismatch(f"a sparse vector of size {size}", f"one of size {value.size}")
        indices, values = value.indices, value.values
    elif isinstance(value, Mapping):
        indices, values = _indices(list(value)), list(value.values())
    elif isinstance(value, np.ndarray):
        if value.shape != (size,):
            raise Mismatch(f"a dense vector of shape ({size},)", f"shape {value.shape}")
        dense = exact_array(value, element)
        indices = _flat_stored(dense)
        values = dense[indices]
    elif isinstance(value, (list, tuple)) and len(value) == 2:  # noqa: PLR2004 - a pair
        indices, values = _indices(value[0]), value[1]
    else:
        raise Mismatch("a SparseVector, a dict, a pair (indices, values) or a dense array", describe(value))
    return SparseVector(indices, exact_array(values, element).reshape(-1), size)


def _flat_stored(dense: NDArray[Any]) -> NDArray[np.int64]:
    """Find the indices of the elements of a dense vector that its sparse form stores.

    These are the texts that are not empty, and the numbers with any bit set, which include -0.0.
    """
    if dense.dtype == object:
        return np.flatnonzero(dense.astype(bool))
    octets = np.ascontiguousarray(dense).view(np.uint8).reshape(dense.size, -1)
    return np.flatnonzero(octets.any(1))


def _indices(value: Any) -> NDArray[np.int64]:
    array = np.asarray(value)
    if array.ndim != 1 or np.ma.is_masked(value):
        raise Mismatch("a list of indices in the pair (indices, values)", describe(value))
    if array.size and array.dtype.kind not in "iu":
        raise Mismatch("integer indices", f"dtype {array.dtype}")
    return array.astype(np.int64)
