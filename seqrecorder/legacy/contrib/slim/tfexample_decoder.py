"""`slim.tfexample_decoder`: named tensors out of a `tf.train.Example`."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any

from seqrecorder.legacy.contrib.slim.data_decoder import DataDecoder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class ItemHandler(abc.ABC):
    """`slim.tfexample_decoder.ItemHandler`: makes one tensor out of parsed features.

    Attributes:
        keys: names of the features that it needs.

    Args:
        keys: a name, or a list of names.
    """

    def __init__(self, keys: str | Sequence[str]) -> None:
        self.keys = [keys] if isinstance(keys, str) else list(keys)

    @abc.abstractmethod
    def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> Any:
        """Return the tensor, from the parsed features by their names."""


class ItemHandlerCallback(ItemHandler):
    """`slim.tfexample_decoder.ItemHandlerCallback`: what a function makes of features.

    Args:
        keys: names of the features.
        func: takes a dict of the parsed features, and returns a tensor.
    """

    def __init__(self, keys: str | Sequence[str], func: Callable[[Mapping[str, Any]], Any]) -> None:
        super().__init__(keys)
        self._func = func

    def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> Any:
        """Return what the function does."""
        return self._func(keys_to_tensors)


class Tensor(ItemHandler):
    """`slim.tfexample_decoder.Tensor`: a feature itself, dense, and reshaped on request.

    Args:
        tensor_key: name of the feature.
        shape_keys: name of the feature that holds its shape, or a list of names, one for each dimension.
        shape: the shape, where it is always the same.
        default_value: what stands where a sparse feature has nothing.

    Raises:
        ValueError: the shape is given in both ways.
    """

    def __init__(
        self,
        tensor_key: str,
        shape_keys: str | Sequence[str] | None = None,
        shape: Any = None,
        default_value: Any = 0,
    ) -> None:
        if shape_keys and shape is not None:
            raise ValueError("Cannot specify both shape_keys and shape parameters.")
        self._shape_keys = [shape_keys] if isinstance(shape_keys, str) else list(shape_keys or [])
        self._tensor_key, self._shape, self._default_value = tensor_key, shape, default_value
        super().__init__([tensor_key, *self._shape_keys])

    def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> Any:
        """Return the feature, dense and in its shape."""
        import tensorflow as tf

        tensor, shape = keys_to_tensors[self._tensor_key], self._shape
        if self._shape_keys:
            shape = tf.reshape(tf.stack([_dense(keys_to_tensors[key]) for key in self._shape_keys]), [-1])
        if shape is not None:
            sparse = isinstance(tensor, tf.SparseTensor)
            tensor = tf.sparse.reshape(tensor, shape) if sparse else tf.reshape(tensor, shape)
        return _dense(tensor, self._default_value)


class Image(ItemHandler):
    """`slim.tfexample_decoder.Image`: an encoded image.

    Args:
        image_key: name of the feature of encoded images, by default `image/encoded`.
        format_key: name of the feature of formats, by default `image/format`: `raw` or `RAW` for the pixels themselves;
            others are told by the image.
        shape: `(height, width, channels)`, where all images have the same.
        channels: of the image.
        dtype: of the image; pixels are cast to it, not scaled.
    """

    def __init__(
        self,
        image_key: str | None = None,
        format_key: str | None = None,
        shape: Any = None,
        channels: int = 3,
        dtype: Any = "uint8",
    ) -> None:
        import tensorflow as tf

        super().__init__([image_key or "image/encoded", format_key or "image/format"])
        self._shape, self._channels, self._dtype = shape, channels, tf.as_dtype(dtype)

    def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> Any:
        """Return the decoded image."""
        import tensorflow as tf

        encoded, kind = (keys_to_tensors[key] for key in self.keys)
        image = tf.cond(
            tf.reduce_any(tf.equal(kind, ["raw", "RAW"])),
            lambda: tf.io.decode_raw(encoded, self._dtype),
            lambda: tf.cast(tf.io.decode_image(encoded, channels=self._channels), self._dtype),
        )
        image.set_shape([None, None, self._channels])
        return image if self._shape is None else tf.reshape(image, self._shape)


class SparseTensor(ItemHandler):
    """`slim.tfexample_decoder.SparseTensor`: values, and where each of them stands in its row.

    Args:
        indices_key: name of the sparse feature of places, by default `indices`.
        values_key: name of the sparse feature of values, by default `values`.
        shape_key: name of the feature of its shape.
        shape: the shape, where it is always the same; where there is none, it is that of the places.
        densify: whether it is made dense.
        default_value: what stands where a dense one has nothing.
    """

    def __init__(
        self,
        indices_key: str | None = None,
        values_key: str | None = None,
        shape_key: str | None = None,
        shape: Any = None,
        densify: bool = False,
        default_value: Any = 0,
    ) -> None:
        super().__init__([indices_key or "indices", values_key or "values", *filter(None, [shape_key])])
        self._shape, self._densify, self._default_value = shape, densify, default_value

    def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> Any:
        """Return the tensor, sparse unless it is to be dense."""
        import tensorflow as tf

        places, values, *shapes = (keys_to_tensors[key] for key in self.keys)
        shape = _dense(shapes[0]) if shapes else self._shape or places.dense_shape
        at = tf.concat([places.indices[:, :-1], tf.cast(places.values, tf.int64)[:, tf.newaxis]], 1)
        tensor = tf.SparseTensor(at, values.values, tf.cast(shape, tf.int64))
        return _dense(tensor, self._default_value) if self._densify else tensor


class BoundingBox(ItemHandler):
    """`slim.tfexample_decoder.BoundingBox`: the boxes of an example, `(n, 4)`, whose sides are features.

    Args:
        keys: names of the sides, by default `ymin`, `xmin`, `ymax` and `xmax`.
        prefix: of the names of the features.

    Raises:
        ValueError: there are not four sides.
    """

    def __init__(self, keys: Sequence[str] | None = None, prefix: str = "") -> None:
        sides = ["ymin", "xmin", "ymax", "xmax"] if keys is None else list(keys)
        if len(sides) != 4:  # noqa: PLR2004 - the sides of a box
            raise ValueError(f"BoundingBox expects 4 keys but got {len(sides)}")
        super().__init__([(prefix or "") + side for side in sides])

    def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> Any:
        """Return the boxes, in the order of the sides."""
        import tensorflow as tf

        sides = [keys_to_tensors[key] for key in self.keys]
        return tf.stack([side.values if isinstance(side, tf.SparseTensor) else side for side in sides], axis=-1)


class TFExampleDecoder(DataDecoder):
    """`slim.tfexample_decoder.TFExampleDecoder`: parses a `tf.train.Example`, and makes named tensors of it.

    Args:
        keys_to_features: what `tf.io.parse_single_example` is given.
        items_to_handlers: an `ItemHandler` for each name.
    """

    def __init__(self, keys_to_features: Mapping[str, Any], items_to_handlers: Mapping[str, ItemHandler]) -> None:
        self._keys_to_features, self._items_to_handlers = keys_to_features, items_to_handlers

    def list_items(self) -> list[str]:
        """Return the names."""
        return list(self._items_to_handlers)

    def decode(self, serialized_example: Any, items: Sequence[str] | None = None) -> list[Any]:
        """Return the tensors of some names, by default of all.

        Args:
            serialized_example: a string scalar.
            items: names.
        """
        import tensorflow as tf

        features = {key: _with_constant(feature) for key, feature in self._keys_to_features.items()}
        example = tf.io.parse_single_example(serialized_example, features)
        handlers = [self._items_to_handlers[item] for item in items or self._items_to_handlers]
        return [handler.tensors_to_item({key: example[key] for key in handler.keys}) for handler in handlers]


def _with_constant(feature: Any) -> Any:
    """Return a feature whose default is a value: a tensor may be of another graph than what it is the default of."""
    import tensorflow as tf

    default = getattr(feature, "default_value", None)
    value = tf.get_static_value(default) if tf.is_tensor(default) else None
    return feature if value is None else feature._replace(default_value=value)


def _dense(tensor: Any, default_value: Any = None) -> Any:
    import tensorflow as tf

    return tf.sparse.to_dense(tensor, default_value) if isinstance(tensor, tf.SparseTensor) else tensor
