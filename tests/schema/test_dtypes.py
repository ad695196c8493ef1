"""The table of element types: names, refusals, and bits that no way changes."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import seqrecorder as sr
from seqrecorder.codec.graph_ops import narrow
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
        (">i2", "int16"),
        (np.uint8, "uint8"),
        (np.dtype("U5"), "str"),
        (np.dtype("S5"), "bytes"),
        (tf.float16, "float16"),
        (tf.bfloat16, "bfloat16"),
        (tf.string, "bytes"),
        (ml_dtypes.bfloat16, "bfloat16"),
        ("datetime64[ms]", "datetime64[ms]"),
        (np.dtype("m8[D]"), "timedelta64[D]"),
    ],
)
def test_every_way_to_say_a_dtype(given: Any, name: str) -> None:
    """Numpy dtypes, tf.DTypes, Python types and names all lead to one canonical name."""
    assert element_type(given).name == name


@pytest.mark.parametrize("given", [tf.resource, tf.qint8, "void", object, np.dtype("V8"), None.__class__, [1], ""])
def test_what_cannot_be_stored_is_refused(given: Any) -> None:
    """What no list of the format can hold is refused as a SchemaError."""
    with pytest.raises(sr.SchemaError, match="dtype"):
        element_type(given)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_every_pattern_of_16_bits_survives(name: str) -> None:
    """All 65,536 patterns, each NaN among them, are widened by numpy and narrowed to the same bits by a graph."""
    element = element_type(name)
    bits = np.arange(2**16, dtype=np.uint16)
    wire = element.to_wire(bits.view(element.numpy))
    assert wire.dtype == np.float32
    in_graph = tf.function(lambda values: tf.bitcast(narrow(values, name), tf.uint16))
    np.testing.assert_array_equal(in_graph(wire).numpy(), bits)
