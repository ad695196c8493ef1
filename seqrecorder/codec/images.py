"""Decoding of PNG and JPEG images to pixels, inside a graph or eagerly.

Images of any size, and images to resize, stay encoded in a graph until a batch is complete. Only the images of the
batch are then decoded, and padded to the size of the largest.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.codec.columns import objects
from seqrecorder.codec.encode import encode_images
from seqrecorder.codec.graph_ops import checked, spread_rows
from seqrecorder.schema.dtypes import element_type
from seqrecorder.schema.exact_values import Mismatch, exact_image, image_header

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from seqrecorder.schema.field import Field

_MANY = 32  # decode this many images or more in a graph, whose call takes as long as decoding ten small images
_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
_GRAY_AND_ALPHA = 2  # number of channels that TensorFlow decodes only with `channels=0`, as stored
_PNG_HEAD = 24  # bytes up to the end of the image size
_BIG_ENDIAN = [1 << 24, 1 << 16, 1 << 8, 1]


def not_empty(encoded: Any, field: Field) -> Any:
    """Check that encoded images are not empty, because empty bytes stand for padding."""
    import tensorflow as tf

    message = f"field {field.name!r}: images in PNG or JPEG are expected in {field.feature!r}, got no bytes"
    return checked(encoded, tf.strings.length(encoded) > 0, message)


def decode_images(encoded: Any, field: Field) -> Any:
    """Decode a vector of images to (N, height, width, channels), inside a graph or eagerly.

    Fields of either storage accept both PNG and JPEG, because files from other programs mix the two under one name.
    """
    return ImageDecoder(field).decode(not_empty(encoded, field))[0]


def decode_each(encoded: Sequence[bytes], field: Field) -> NDArray[Any]:
    """Decode images eagerly to one array.

    If the images can differ in size or stay encoded, it is an object array with one entry per image.

    Raises:
        tf.errors.InvalidArgumentError: an image is not PNG or JPEG, or has the wrong size.
    """
    import tensorflow as tf

    decoder = ImageDecoder(field)
    with tf.device("CPU:0"):
        if len(encoded) >= _MANY and not (field.any_size or field.encoded):
            return np.asarray(_graph_of(field)(tf.constant(encoded)))
        images = [one if field.encoded and _fits(one, field) else decoder.decode_one(one) for one in encoded]
    if field.any_size or field.encoded:
        return objects(images)
    return np.stack(images) if images else np.empty([0, *(size or 0 for size in field.shape)], field.element.numpy)


@functools.lru_cache(maxsize=64)
def _graph_of(field: Field) -> Any:
    """Build the graph function that decodes a vector of images of one size.

    A graph decodes the images on all cores.
    """
    import tensorflow as tf

    signature = [tf.TensorSpec([None], tf.string)]
    return tf.function(functools.partial(decode_images, field=field), input_signature=signature, autograph=False)


def _fits(image: bytes, field: Field) -> bool:
    try:
        exact_image(image, field.element, field.shape, field.storage)
    except Mismatch:
        return False
    return True


@attrs.frozen
class ImageDecoder:
    """Decoder of the images of a field.

    It pads or resizes all images to one size.

    Attributes:
        field: declaration of the field.
        size: height and width to resize to; None to pad.
    """

    field: Field
    size: tuple[int, int] | None = None

    @property
    def stored(self) -> Field:
        """Declaration of the stored field, whose values are the encoded images."""
        default = self.field.default
        if self.field.has_default:
            listed = default if self.field.is_list else [default]
            encoded = encode_images(objects(listed), "png")  # exact, and either decoder accepts PNG
            default = objects(encoded) if self.field.is_list else encoded[0]
        return attrs.evolve(self.field, element=element_type("bytes"), shape=(), storage="auto", default=default)

    def decode(self, encoded: Any) -> tuple[Any, Any]:
        """Decode images to one size.

        Empty bytes become images of zeros.

        Args:
            encoded: encoded images, a dense or ragged string tensor of any shape.

        Returns:
            The images, `(*shape, height, width, channels)`, and their sizes before padding, int64 `(*shape, 2)`.
        """
        import tensorflow as tf

        if isinstance(encoded, tf.RaggedTensor):
            images, sizes = self.decode(encoded.flat_values)
            return encoded.with_flat_values(images), encoded.with_flat_values(sizes)
        images, sizes = self.decode_vector(tf.reshape(encoded, [-1]))
        outer = tf.shape(encoded)
        images = tf.reshape(images, tf.concat([outer, tf.shape(images)[1:]], 0))
        known = self.size or self.field.shape[:2]
        images.set_shape([*encoded.shape, *known, self.field.shape[2]])
        sizes = tf.reshape(sizes, tf.concat([outer, [2]], 0))
        return images, tf.ensure_shape(sizes, [*encoded.shape, 2])

    def decode_one(self, encoded: bytes) -> NDArray[Any]:
        """Decode one image eagerly with a single op; a graph would take fifty times as long."""
        import tensorflow as tf

        header = image_header(encoded)
        known = [size for size in self.field.shape[:2] if size is not None]
        if header is None:
            kind, got = "images in PNG or JPEG", f"bytes that begin with {list(encoded[:_PNG_HEAD])}"
        elif [size for size, own in zip(header[1:3], self.field.shape, strict=False) if own is not None] != known:
            kind, got = _of_size(self.field.shape), str(list(header[1:3]))
        else:
            pixels: NDArray[Any] = self._decode(tf.constant(encoded)).numpy()  # `_read` checks the shape, but is slower
            if pixels.shape[2] == self.field.shape[2]:
                return pixels
            kind, got = f"images of {self.field.shape[2]} channels", str(pixels.shape[2])
        raise tf.errors.InvalidArgumentError(None, None, f"field {self.field.name!r}: {kind} are expected, got {got}")

    def decode_vector(self, encoded: Any) -> tuple[Any, Any]:
        """Decode a vector of images to one size.

        Returns:
            The images, and their original sizes, int64 `(n, 2)`.
        """
        import tensorflow as tf

        shape, dtype, size = self.field.shape, self.field.element.graph, self.size
        kind = tf.TensorSpec([*(size or shape[:2]), shape[2]], dtype)
        if not (size or self.field.any_size):
            encoded, sizes = _sizes(encoded, self.field.name, shape)
            return _map_images(self._read, encoded, kind), sizes
        here = tf.strings.length(encoded) > 0
        encoded, sizes = _sizes(tf.boolean_mask(encoded, here), self.field.name, shape)
        largest = tf.reduce_max(tf.concat([[[1, 1]], sizes], 0), 0)
        common = tf.cast(tf.stack([known or largest[axis] for axis, known in enumerate(size or shape[:2])]), tf.int64)
        whole = tf.concat([common, [shape[2]]], 0)

        def fit(image: Any) -> Any:
            pixels = self._read(image)
            if size:
                return tf.cast(tf.round(tf.image.resize(pixels, size)), dtype)
            return tf.pad(pixels, tf.stack([tf.zeros_like(whole), whole - tf.shape(pixels, tf.int64)], 1))

        # The first row is for absent images: without any image, TensorFlow could not infer the shape.
        images = _map_images(
            lambda image: tf.cond(tf.equal(image, ""), lambda: tf.zeros(whole, dtype), lambda: fit(image)),
            tf.concat([[""], encoded], 0),
            kind,
        )
        at = tf.cumsum(tf.cast(here, tf.int64)) * tf.cast(here, tf.int64)
        return tf.gather(images, at), spread_rows(sizes, here, tf.zeros([], tf.int64))

    def _read(self, image: Any) -> Any:
        """Decode one image in a graph, at its original size."""
        import tensorflow as tf

        return tf.ensure_shape(self._decode(image), self.field.shape)

    def _decode(self, image: Any) -> Any:
        import tensorflow as tf

        channels = 0 if self.field.shape[2] == _GRAY_AND_ALPHA else self.field.shape[2]
        if self.field.storage == "png":  # either op decodes both formats
            return tf.io.decode_png(image, channels, self.field.element.graph)
        return tf.io.decode_jpeg(image, channels)


def _map_images(function: Callable[[Any], Any], encoded: Any, spec: Any) -> Any:
    """Map a function over a vector of images.

    `tf.map_fn` does the same with a loop, which takes longer to trace than the rest of a pipeline.

    Args:
        function: function that turns a scalar string into a tensor.
        encoded: encoded images, string `(n,)`.
        spec: shape and dtype of each result; dimensions of unknown size must be equal in all results.
    """
    import tensorflow as tf

    traced = tf.function(function, input_signature=[tf.TensorSpec([], tf.string)], autograph=False)
    graph = traced.get_concrete_function()
    return tf.raw_ops.MapDefun(
        arguments=[encoded],
        captured_inputs=graph.captured_inputs,
        output_types=[spec.dtype],
        output_shapes=[spec.shape],
        f=graph,
    )[0]


def _sizes(encoded: Any, name: str, shape: tuple[int | None, ...]) -> tuple[Any, Any]:
    """Check the sizes in the headers of images before decoding, because a few bytes can claim any size.

    Returns:
        The images, and the height and width of each, int64 `(n, 2)`.
    """
    import tensorflow as tf

    heads = tf.cast(tf.io.decode_raw(encoded, tf.uint8, fixed_length=_PNG_HEAD), tf.int64)
    is_png = tf.reduce_all(tf.equal(heads[:, : len(_PNG)], list(_PNG)), 1)
    is_jpeg = tf.reduce_all(tf.equal(heads[:, : len(_JPEG)], list(_JPEG)), 1)
    kinds = f"field {name!r}: images in PNG or JPEG are expected, got bytes that begin with"
    encoded = checked(encoded, is_png | is_jpeg, kinds, heads)
    # The size of a PNG is always in its first chunk, IHDR.
    width, height = (tf.reduce_sum(heads[:, at : at + 4] * _BIG_ENDIAN, 1) for at in (16, 20))
    of_jpegs = _map_images(
        lambda image: tf.cast(tf.io.extract_jpeg_shape(image)[:2], tf.int64),
        tf.boolean_mask(encoded, is_jpeg),
        tf.TensorSpec([2], tf.int64),
    )
    sizes = tf.where(
        is_png[:, tf.newaxis], tf.stack([height, width], 1), spread_rows(of_jpegs, is_jpeg, tf.zeros([], tf.int64))
    )
    known = [[size is not None for size in shape[:2]], [size or 0 for size in shape[:2]]]
    wanted = f"field {name!r}: {_of_size(shape)} are expected, got"
    whole: tuple[Any, Any] = checked(
        (encoded, sizes), tf.equal(sizes, known[1]) | ~tf.constant(known[0]), wanted, sizes
    )
    return whole


def _of_size(shape: tuple[int | None, ...]) -> str:
    height, width = ("any" if size is None else size for size in shape[:2])
    return f"images of {height} x {width} pixels (height, width)"


def decode_elements(values: Mapping[str, Any], decoders: Mapping[str, ImageDecoder]) -> dict[str, Any]:
    """Decode the images of an element, and add `<name>_size` after each padded image."""
    out = {}
    for name, value in values.items():
        out[name] = value
        if name in decoders:
            out[name], sizes = decoders[name].decode(value)
            out |= {f"{name}_size": sizes} if decoders[name].size is None else {}
    return out
