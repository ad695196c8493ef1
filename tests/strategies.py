"""One list of element types, each with values that it holds and values that it refuses, for all tests of values."""

import datetime as dt
import itertools
from collections.abc import Iterator
from typing import Any

import attrs
import ml_dtypes
import numpy as np

import seqrecorder as sr


@attrs.frozen
class Case:
    """One element type.

    Attributes:
        valid: five or more values, those among them that a careless way would change.
        invalid: values that are not exactly of the type.
    """

    valid: np.ndarray
    invalid: tuple[Any, ...]


def bits(*patterns: int, unsigned: str, dtype: Any) -> np.ndarray:
    return np.array(patterns, unsigned).view(dtype)


def texts(*items: Any) -> np.ndarray:
    array = np.empty(len(items), object)
    array[:] = items
    return array


def integer_case(name: str) -> Case:
    info = np.iinfo(name)
    outside = (int(info.min) - 1, int(info.max) + 1)
    return Case(
        np.array([info.min, info.max, 0, 1, info.max // 3], name),
        (*outside, 1.0, 1.5, float("nan"), True, "1", b"1", None, 1j, np.float32(2), np.bool_(True)),
    )


# The first values of each are a signalling and a quiet NaN with payloads, both zeros, denormals, both infinities.
FLOAT16 = (0x7C01, 0xFE03, 0x0000, 0x8000, 0x0001, 0x83FF, 0x7C00, 0xFC00, 0x7BFF, 0x3C01)
BFLOAT16 = (0x7F81, 0xFFC3, 0x0000, 0x8000, 0x0001, 0x807F, 0x7F80, 0xFF80, 0x7F7F, 0x3F81)
FLOAT32 = (0x7F800001, 0xFFC01234, 0, 1 << 31, 1, 0x807FFFFF, 0x7F800000, 0xFF800000, 0x7F7FFFFF, 0x3F800001)
FLOAT64 = (
    0x7FF0000000000001,
    0xFFF8000000001234,
    0,
    1 << 63,
    1,
    0x800FFFFFFFFFFFFF,
    0x7FF0000000000000,
    0xFFF0000000000000,
    0x7FEFFFFFFFFFFFFF,
    0x3FF0000000000001,
)
NOT_FLOATS = (True, "1.0", b"1", 1j, None, np.bool_(False), np.datetime64(1, "s"))

CASES: dict[str, Case] = {
    "bool": Case(np.array([True, False, True, True, False]), (1, 0, 1.0, "True", b"1", None, np.int8(1))),
    **{
        f"{sign}int{width}": integer_case(f"{sign}int{width}")
        for sign, width in itertools.product(("", "u"), (8, 16, 32, 64))
    },
    "float16": Case(
        bits(*FLOAT16, unsigned="u2", dtype=np.float16), (*NOT_FLOATS, 65520.0, 2049, np.float32(1e-9), 10**400)
    ),
    "bfloat16": Case(
        bits(*BFLOAT16, unsigned="u2", dtype=ml_dtypes.bfloat16), (*NOT_FLOATS, 1e39, 257, np.float32(0.1))
    ),
    "float32": Case(
        bits(*FLOAT32, unsigned="u4", dtype=np.float32), (*NOT_FLOATS, 1e39, 2**24 + 1, np.array(0.1), 10**400)
    ),
    "float64": Case(bits(*FLOAT64, unsigned="u8", dtype=np.float64), (*NOT_FLOATS, 2**53 + 1, 10**400)),
    "complex64": Case(
        bits(*FLOAT32, *FLOAT32[::-1], unsigned="u4", dtype=np.complex64),
        (True, "1j", b"1", None, 1e39, 1e39j, 2**24 + 1, np.array(0.1j)),
    ),
    "complex128": Case(
        bits(*FLOAT64, *FLOAT64[::-1], unsigned="u8", dtype=np.complex128), (True, "1j", b"1", None, 2**53 + 1)
    ),
    "datetime64[ns]": Case(
        np.array(["NaT", "1677-09-22", "2262-04-11", "1970-01-01", "2024-02-29T12:00:00.000000001"], "datetime64[ns]"),
        (0, 1.0, "2024-02-29", None, np.timedelta64(1, "ns"), np.datetime64("9999-01-01"), dt.timedelta(1)),
    ),
    "datetime64[D]": Case(
        np.array(["NaT", "0001-01-01", "9999-12-31", "1970-01-01", "2024-02-29"], "datetime64[D]"),
        (0, "2024-02-29", None, np.datetime64("2024-02-29T12", "h"), dt.datetime(2024, 2, 29, 1)),  # noqa: DTZ001
    ),
    "timedelta64[us]": Case(
        np.array([-(2**62), 2**62, 0, 1, "NaT"], "timedelta64[us]"),
        (0, 1.5, "1", None, np.datetime64(1, "us"), np.timedelta64(1, "ns"), dt.date(2024, 2, 29)),
    ),
    "str": Case(
        texts("", "a\0b", "\U0001f600\U0010ffff", "\u00e9\u4e2d\ufffd", "x" * 200), (b"a", 1, None, "\ud800", ["a"])
    ),
    "bytes": Case(texts(b"", b"\0\xff", b"a" * 300, b"\n", bytes(range(256))), ("a", 1, None, [b"a"])),
}

NUMBERS = [name for name in CASES if name not in ("str", "bytes")]


def declarations(dtype: str) -> Iterator[tuple[str, Any]]:
    """Yield a name and a declaration for every kind, shape, storage and presence that an element type may have."""
    storages = ("auto", "raw", "packed", "buffer", "tensor") if dtype in NUMBERS else ("auto", "packed")
    shapes: dict[str, tuple[int | None, ...]] = {"scalar": (), "fixed": (2, 3), "ragged": (None, 2)}
    for storage, (form, shape), optional in itertools.product(storages, shapes.items(), (False, True)):
        options: dict[str, Any] = {"storage": storage, "shape": shape, "optional": optional, "kw_only": True}
        name = f"{storage}_{form}{'_optional' if optional else ''}"
        if storage not in ("packed", "buffer"):
            yield f"context_{name}", sr.context(dtype, **options)
        if storage not in ("packed", "buffer") or form != "ragged":
            yield f"list_{name}", sr.feature_list(dtype, **options)


def class_of(dtype: str) -> type:
    """Return a record class with every declaration of an element type."""
    fields = {"key": sr.context(str, key=True), **dict(declarations(dtype))}
    return attrs.make_class("Matrix", fields)


def some_fields(schema: sr.Schema, dtype: str, turn: int, parts: int = 8, every: int = 1) -> sr.Schema:
    """Return the schema of a part of the fields of a class, another one each turn and for the next element type.

    The parts of few element types together have every kind, storage, form and presence. Tracing costs by the field.
    Of a part one field in `every` is taken.
    """

    def place(field: Any) -> int:
        storage = ("auto", "raw", "buffer", "packed", "tensor").index(field.storage)
        return storage + len(field.shape) - field.is_ragged + field.is_list + 2 * field.optional

    turn += list(CASES).index(dtype)
    names = [field.name for field in schema.fields[1:] if (place(field) + turn) % parts == 0]
    names = names[turn // parts % every :: every] or names
    assert names
    return schema.select([schema.fields[0].name, *names])


def value_of(field: Any, values: np.ndarray, steps: int, random: np.random.Generator) -> Any:
    """Return a value of a field, made of the given elements."""

    def take(*shape: int) -> np.ndarray:
        return values[random.integers(0, len(values), shape)]

    if field.is_list and field.is_ragged:
        return [take(int(random.integers(0, 4)), *field.rest) for _ in range(steps)]
    if field.is_list:
        return take(steps, *field.rest)
    if field.is_ragged:
        return take(int(random.integers(0, 4)), *field.rest)
    return take(*field.rest) if field.shape else values[random.integers(0, len(values))]


def records_of(
    record_class: type, values: np.ndarray, lengths: list[int], random: np.random.Generator, absent: float = 0.3
) -> list[Any]:
    """Return a record for each length; optional fields are None with the probability `absent`."""
    schema = sr.Schema.of(record_class)
    records = []
    for number, steps in enumerate(lengths):
        row: dict[str, Any] = {"key": f"k{number}"}
        for field in schema.fields[1:]:
            none = field.optional and random.random() < absent
            row[field.name] = None if none else value_of(field, values, steps, random)
        records.append(record_class(**row))
    return records


def as_tensor_holds(value: Any, field: Any) -> np.ndarray:
    """Return a value as a tensor holds it: text as bytes, times as int64."""
    if field.element.name == "str":
        array = np.asarray(value, object)
        encoded = np.empty(array.shape, object)
        encoded.reshape(-1)[:] = [text.encode() for text in array.ravel()]
        return encoded
    if field.element.is_text:
        return np.asarray(value, object)
    array = np.asarray(value, field.element.numpy)
    return field.element.to_graph(array)


def from_tensor(tensor: Any) -> np.ndarray:
    """Return a tensor in numpy, strings as an object array."""
    array = np.asarray(tensor.numpy())
    return array.astype(object) if array.dtype.kind in "OS" else array
