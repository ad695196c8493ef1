"""Values in graphs: the bits that numpy gave."""

import numpy as np
import pytest
import tensorflow as tf

from seqrecorder.codec.graph_ops import narrow
from seqrecorder.schema.dtypes import element_type


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_every_pattern_of_16_bits_survives(name: str) -> None:
    """All 65,536 patterns, each NaN among them, are widened by numpy and narrowed to the same bits by a graph."""
    element = element_type(name)
    bits = np.arange(2**16, dtype=np.uint16)
    wire = element.to_wire(bits.view(element.numpy))
    assert wire.dtype == np.float32
    in_graph = tf.function(lambda values: tf.bitcast(narrow(values, name), tf.uint16))
    np.testing.assert_array_equal(in_graph(wire).numpy(), bits)
