"""PNG and JPEG images to pixels, inside a graph or eagerly.

Where images have sizes of their own, or are resized, a graph carries them encoded until a batch is complete: then only
those that a strategy kept are decoded, and padded to the largest of them.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.codec.columns import separate
from seqrecorder.codec.encode import encode_images
from seqrecorder.codec.graph_ops import checked, spread_rows
from seqrecorder.schema.conversion import Mismatch, exact_image
from seqrecorder.schema.dtypes import element_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from seqrecorder.schema.field import Field

_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
_AT_ONCE = 16  # images that are decoded together: each takes the memory of the largest of them
_GRAY_AND_ALPHA = 2  # channels that TensorFlow takes only as they come, by the name of 0
_PNG_HEAD = 24  # bytes up to the end of the size
_BIG_ENDIAN = [1 << 24, 1 << 16, 1 << 8, 1]


def not_empty(encoded: Any, field: Field) -> Any:
    """Return encoded images of a graph, none of which may be without bytes: what is padded is so."""
    import tensorflow as tf

    message = f"field {field.name!r}: images in PNG or JPEG are expected in {field.feature!r}, got no bytes"
    return checked(encoded, tf.strings.length(encoded) > 0, message)


def decode_images(encoded: Any, field: Field) -> Any:
    """Return images (N, height, width, channels) for a vector of encoded ones, inside a graph or eagerly.

    Both storages take PNG and JPEG: files of the wild mix them under one name.
    """
    return ImageDecoder(field).decode(not_empty(encoded, field))[0]


def decode_each(encoded: Sequence[bytes], field: Field) -> NDArray[Any]:
    """Return images as `Column.values` has them: of any size, or where they stay encoded, an object each."""
    import tensorflow as tf

    def decoded() -> Iterator[Any]:
        left = [image for image, fits in zip(encoded, kept, strict=True) if not fits]
        for start in range(0, len(left), _AT_ONCE):
            some = not_empty(tf.constant(left[start : start + _AT_ONCE]), field)
            for image, size in zip(*(part.numpy() for part in ImageDecoder(field).decode(some)), strict=True):
                yield image[: size[0], : size[1]].copy()

    with tf.device("CPU:0"):
        if not (field.any_size or field.encoded):
            images: NDArray[Any] = decode_images(tf.constant(encoded, tf.string, [len(encoded)]), field).numpy()
            return images
        kept = [field.encoded and _fits(image, field) for image in encoded]
        pixels = decoded()
        return separate([image if fits else next(pixels) for image, fits in zip(encoded, kept, strict=True)])


def _fits(image: bytes, field: Field) -> bool:
    try:
        exact_image(image, field.element, field.shape, field.storage)
    except Mismatch:
        return False
    return True


@attrs.frozen
class ImageDecoder:
    """Decodes the images of a field, those of different sizes to one.

    Attributes:
        field: the field, as it is declared.
        size: height and width to which images are resized, or None.
    """

    field: Field
    size: tuple[int, int] | None = None

    @property
    def stored(self) -> Field:
        """The field whose values are the encoded images."""
        default = self.field.default
        if self.field.has_default:
            listed = default if self.field.is_list else [default]
            encoded = encode_images(separate(list(listed)), "png")  # exact, and either decoder takes it
            default = separate(encoded) if self.field.is_list else encoded[0]
        return attrs.evolve(
            self.field,
            element=element_type("bytes"),
            shape=(),
            storage="auto",
            default=default,
        )

    def decode(self, encoded: Any) -> tuple[Any, Any]:
        """Return images, zeros for empty bytes, and the height and width of each before it was padded.

        Args:
            encoded: string tensor of any shape, or ragged.

        Returns:
            `(*shape, height, width, channels)`, and int64 `(*shape, 2)`.
        """
        import tensorflow as tf

        if isinstance(encoded, tf.RaggedTensor):
            images, sizes = self.decode(encoded.flat_values)
            return encoded.with_flat_values(images), encoded.with_flat_values(sizes)
        decode = _eager_decoder(self) if tf.executing_eagerly() else self.decode_vector
        images, sizes = decode(tf.reshape(encoded, [-1]))
        outer = tf.shape(encoded)
        images = tf.reshape(images, tf.concat([outer, tf.shape(images)[1:]], 0))
        known = self.size or self.field.shape[:2]
        images.set_shape([*encoded.shape, *known, self.field.shape[2]])
        sizes = tf.reshape(sizes, tf.concat([outer, [2]], 0))
        return images, tf.ensure_shape(sizes, [*encoded.shape, 2])

    def decode_vector(self, encoded: Any) -> tuple[Any, Any]:
        """Return the images of a vector, all of one size, and their own sizes, int64 `(n, 2)`."""
        import tensorflow as tf

        shape, dtype, size = self.field.shape, self.field.element.graph, self.size
        kind = tf.TensorSpec([*(size or shape[:2]), shape[2]], dtype)
        if not (size or self.field.any_size):
            encoded, sizes = _sizes(encoded, self.field.name, shape)
            return tf.map_fn(self._read, encoded, fn_output_signature=kind), sizes
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

        # The first stands for no image: without any, TensorFlow could not tell their shape.
        images = tf.map_fn(
            lambda image: tf.cond(tf.equal(image, ""), lambda: tf.zeros(whole, dtype), lambda: fit(image)),
            tf.concat([[""], encoded], 0),
            fn_output_signature=kind,
        )
        at = tf.cumsum(tf.cast(here, tf.int64)) * tf.cast(here, tf.int64)
        return tf.gather(images, at), spread_rows(sizes, here, tf.zeros([], tf.int64))

    def _read(self, image: Any) -> Any:
        """Return the pixels of one image, as large as it is."""
        import tensorflow as tf

        shape = self.field.shape
        channels = 0 if shape[2] == _GRAY_AND_ALPHA else shape[2]
        if self.field.storage == "png":  # either op takes both kinds
            return tf.ensure_shape(tf.io.decode_png(image, channels, self.field.element.graph), shape)
        return tf.ensure_shape(tf.io.decode_jpeg(image, channels), shape)


def _sizes(encoded: Any, name: str, shape: tuple[int | None, ...]) -> tuple[Any, Any]:
    """Return images, once their headers were found to say the size that is expected: a few bytes can claim any.

    Returns:
        The images, and height and width of each, int64 `(n, 2)`.
    """
    import tensorflow as tf

    heads = tf.cast(tf.io.decode_raw(encoded, tf.uint8, fixed_length=_PNG_HEAD), tf.int64)
    is_png = tf.reduce_all(tf.equal(heads[:, : len(_PNG)], list(_PNG)), 1)
    is_jpeg = tf.reduce_all(tf.equal(heads[:, : len(_JPEG)], list(_JPEG)), 1)
    kinds = f"field {name!r}: images in PNG or JPEG are expected, got bytes that begin with"
    encoded = checked(encoded, is_png | is_jpeg, kinds, heads)
    # The size of a PNG stands in its first chunk, IHDR, always.
    width, height = (tf.reduce_sum(heads[:, at : at + 4] * _BIG_ENDIAN, 1) for at in (16, 20))
    of_jpegs = tf.map_fn(
        lambda image: tf.cast(tf.io.extract_jpeg_shape(image)[:2], tf.int64),
        tf.boolean_mask(encoded, is_jpeg),
        fn_output_signature=tf.TensorSpec([2], tf.int64),
    )
    sizes = tf.where(
        is_png[:, tf.newaxis], tf.stack([height, width], 1), spread_rows(of_jpegs, is_jpeg, tf.zeros([], tf.int64))
    )
    known = [[size is not None for size in shape[:2]], [size or 0 for size in shape[:2]]]
    height, width = ("any" if size is None else size for size in shape[:2])
    wanted = f"field {name!r}: images of {height} x {width} pixels (height, width) are expected, got"
    whole: tuple[Any, Any] = checked(
        (encoded, sizes), tf.equal(sizes, known[1]) | ~tf.constant(known[0]), wanted, sizes
    )
    return whole


@functools.cache
def _eager_decoder(decoder: ImageDecoder) -> Callable[[Any], Any]:
    """Return a graph that decodes a vector: an eager `tf.map_fn` is slow for each."""
    import tensorflow as tf

    def decode(encoded: Any) -> Any:
        with tf.device("CPU:0"):
            return decoder.decode_vector(encoded)

    graph: Callable[[Any], Any] = tf.function(
        decode, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False
    )
    return graph


def decode_elements(values: Mapping[str, Any], decoders: Mapping[str, ImageDecoder]) -> dict[str, Any]:
    """Return an element whose images are decoded, with `<name>_size` behind those that were padded."""
    out = {}
    for name, value in values.items():
        out[name] = value
        if name in decoders:
            out[name], sizes = decoders[name].decode(value)
            out |= {f"{name}_size": sizes} if decoders[name].size is None else {}
    return out
