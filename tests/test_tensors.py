"""Serialized tensors: the bytes that TensorFlow itself gives."""

import numpy as np
import pytest
import tensorflow as tf

from seqrecorder.tensors import tensor_header


@pytest.mark.parametrize("name", ["int8", "int64", "uint16", "uint32", "uint64", "float16", "float64", "complex64"])
@pytest.mark.parametrize("shape", [(3,), (0,), (1,), (2, 3), (0, 4), (200, 2)])
def test_serialized_tensors_are_those_of_tensorflow(name: str, shape: tuple[int, ...]) -> None:
    """Header and buffer are what tf.io.serialize_tensor gives, byte for byte."""
    values = np.arange(np.prod(shape)).reshape(shape).astype(name)
    ours = tensor_header(name, shape, values.nbytes) + values.tobytes()
    assert ours == tf.io.serialize_tensor(values).numpy()
