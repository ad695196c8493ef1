"""Serialized tensors: the bytes that TensorFlow itself gives."""

import itertools
from typing import Any

import attrs
import numpy as np
import pytest
import tensorflow as tf
from combinations import all_at_night

import seqrecorder as sr
from seqrecorder.codec import encode as encode_values
from seqrecorder.codec.elements import tensor_buffers
from seqrecorder.codec.encode import tensor_header
from seqrecorder.codec.images import decode_images


@pytest.mark.parametrize("name", ["int8", "int64", "uint16", "uint32", "uint64", "float16", "float64", "complex64"])
@pytest.mark.parametrize("shape", [(3,), (0,), (1,), (2, 3), (0, 4), (200, 2)])
def test_serialized_tensors_are_those_of_tensorflow(name: str, shape: tuple[int, ...]) -> None:
    """Header and buffer are what tf.io.serialize_tensor gives, byte for byte."""
    values = np.arange(np.prod(shape)).reshape(shape).astype(name)
    ours = tensor_header(name, shape, values.nbytes) + values.tobytes()
    assert ours == tf.io.serialize_tensor(values).numpy()


def field_of(**options):
    return sr.Schema.of(attrs.make_class("Row", {"x": sr.context(**options)}))["x"]


@pytest.mark.parametrize(
    ("name", "rest"),
    all_at_night(
        itertools.product(["bool", "int16", "bfloat16", "complex64", "datetime64[s]"], [(), (3,), (200, 3)]),
        [("bool", ()), ("int16", (3,)), ("bfloat16", (200, 3)), ("complex64", (3,)), ("datetime64[s]", ())],
    ),
)
def test_buffers_are_found_in_tensors_of_tensorflow(name: str, rest: tuple[int, ...]) -> None:
    """The buffers of what tf.io.serialize_tensor gives are found, whatever the leading size is."""
    field = field_of(dtype=name, shape=(None, *rest), storage="tensor")
    dtype = tf.as_dtype(field.element.graph)
    tensors = [tf.zeros((size, *rest), dtype) for size in (0, 1, 2, 42, 127, 128, 129, 300, 16_384)]
    encoded = tf.stack([tf.io.serialize_tensor(tensor) for tensor in tensors])
    found = tf.function(lambda data: tensor_buffers(data, field))(encoded).numpy().tolist()
    assert found == [bytes(dtype.size * int(tf.size(tensor))) for tensor in tensors]


FORGED = {
    "another dtype": tf.io.serialize_tensor(tf.zeros([2], tf.float64)).numpy(),
    "another shape": tf.io.serialize_tensor(tf.zeros([3], tf.float32)).numpy(),
    "another rank": tf.io.serialize_tensor(tf.zeros([2, 1], tf.float32)).numpy(),
    "cut": tf.io.serialize_tensor(tf.zeros([2], tf.float32)).numpy()[:-1],
    "longer": tf.io.serialize_tensor(tf.zeros([2], tf.float32)).numpy() + b"\0",
    "one value for many": bytes.fromhex("0801120812060880808080042a040000803f"),
    "a size of 2**35 bytes": bytes.fromhex("08011208120608ffffffff7f22fcffffff7f00000000"),
    "nothing": b"",
    "bytes": b"\xff" * 40,
}


@pytest.mark.parametrize("shape", [(2,), (None, 2)])
@pytest.mark.parametrize("what", FORGED)
def test_other_tensors_are_refused(what: str, shape: tuple[int | None, ...]) -> None:
    """What is no tensor of the field's dtype and shape is refused by an error that names the field."""
    field = field_of(dtype="float32", shape=shape, storage="tensor")
    with pytest.raises(tf.errors.InvalidArgumentError, match="field .*x.*: tensors of float32"):
        tensor_buffers(tf.constant([FORGED[what]]), field)


@pytest.mark.parametrize("storage", ["png", "jpeg"])
def test_images_are_decoded_as_either_kind(storage: str) -> None:
    """PNG and JPEG may stand in fields of either storage, and come as TensorFlow decodes them."""
    image = tf.cast(tf.reshape(tf.range(4 * 5 * 3), [4, 5, 3]), tf.uint8)
    encoded = [tf.io.encode_png(image).numpy(), tf.io.encode_jpeg(image).numpy()]
    found = decode_images(tf.constant(encoded), field_of(dtype="uint8", shape=(4, 5, 3), storage=storage))
    assert found.numpy().tolist() == [tf.io.decode_image(data).numpy().tolist() for data in encoded]


@pytest.mark.parametrize("encode", [tf.io.encode_png, tf.io.encode_jpeg])
@pytest.mark.parametrize("size", [(5, 4), (4, 6), (300, 5)])
def test_images_of_another_size_are_refused(encode: Any, size: tuple[int, int]) -> None:
    """An image of another height or width is refused by what its header says, in an error that names the field."""
    field = field_of(dtype="uint8", shape=(4, 5, 1), storage="png")
    with pytest.raises(tf.errors.InvalidArgumentError, match="field .*x.*: images of 4 x 5 pixels"):
        decode_images(tf.constant([encode(tf.zeros([*size, 1], tf.uint8)).numpy()]), field)


@pytest.mark.parametrize("data", [b"", b"GIF89a", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"])
def test_what_is_no_image_is_refused(data: bytes) -> None:
    """Bytes that are no image, or only begin like one, are refused."""
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode_images(tf.constant([data]), field_of(dtype="uint8", shape=(4, 5, 1), storage="png"))


@pytest.mark.parametrize("size", [(3, 5), (600, 400)], ids=["all at once", "some at a time"])
def test_many_images_are_encoded_as_each_alone(random, size):
    """Of small images all are encoded at once, of larger ones four mebibytes: each has the bytes that it has alone."""
    images = random.integers(0, 256, (7, *size, 3), np.uint8)
    alone = [encode_values.encode_images(image[None], "png")[0] for image in images]
    assert encode_values.encode_images(images, "png") == alone
    assert encode_values.encode_images(images[:0], "png") == []
