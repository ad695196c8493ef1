"""The table of element types: names, refusals, and bits that no way changes."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import seqrecorder as sr
from seqrecorder.schema.dtypes import element_type


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (float, "float64"),
        ("float", "float64"),
        (int, "int64"),
        (bool, "bool"),
        (complex, "complex128"),
        (str, "str"),
        (bytes, "bytes"),
        ("<f4", "float32"),
        (np.uint8, "uint8"),
        (np.dtype("U5"), "str"),
        (np.dtype("S5"), "bytes"),
        (ml_dtypes.bfloat16, "bfloat16"),
        ("datetime64[ms]", "datetime64[ms]"),
        (np.dtype("m8[D]"), "timedelta64[D]"),
    ],
)
def test_every_way_to_say_a_dtype(given: Any, name: str) -> None:
    """Numpy dtypes, Python types and names all lead to one canonical name."""
    assert element_type(given).name == name


@pytest.mark.parametrize("given", [">i2", np.dtype(">i2")])
def test_another_byte_order_is_refused(given: Any, tmp_path: Path) -> None:
    """Buffers are little-endian, so a declared order would be ignored; arrays of any order are values of the type."""
    with pytest.raises(sr.SchemaError, match=r"dtype '>i2': numbers are stored little-endian; declare 'int16', for"):
        sr.context(given, storage="raw")
    values = np.array([1, -2], given)

    @sr.record
    class Signal:
        raw: np.ndarray = sr.context("int16", shape=(2,), storage="raw")
        buffer: np.ndarray = sr.feature_list("int16", storage="buffer")
        tensor: np.ndarray = sr.context("int16", shape=(2,), storage="tensor")

    sr.write([Signal(raw=values, buffer=values, tensor=values)], tmp_path / "signals")
    [signal] = sr.read_records(tmp_path / "signals")
    for stored in (signal.raw, signal.buffer, signal.tensor):
        np.testing.assert_array_equal(stored, values)


@pytest.mark.parametrize("given", ["void", object, np.dtype("V8"), None.__class__, [1], ""])
def test_what_cannot_be_stored_is_refused(given: Any) -> None:
    """What no list of the format can hold is refused as a SchemaError."""
    with pytest.raises(sr.SchemaError, match="dtype"):
        element_type(given)
