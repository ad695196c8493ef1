"""Data input of `tf.contrib.slim`: parallel readers, dataset providers, decoders and prefetch queues.

They build TensorFlow 1 queues and readers, which run in sessions and can be lifted like any other.
"""

from __future__ import annotations

import abc
import sys
import types
from typing import TYPE_CHECKING, Any

from seqrecorder.legacy.contrib.components import by_name
from seqrecorder.legacy.contrib.layers import one_hot_encoding

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def get_data_files(data_sources: Any) -> list[str]:
    """List the files that match a pattern or a list of patterns.

    Raises:
        ValueError: no file matches.
    """
    import tensorflow as tf

    patterns = data_sources if isinstance(data_sources, (list, tuple)) else [data_sources]
    files = [path for pattern in patterns for path in sorted(tf.io.gfile.glob(pattern))]
    if not files:
        raise ValueError(f"No data files found in {data_sources}")
    return files


_SIGNATURE = "num_epochs num_readers reader_kwargs shuffle dtypes capacity min_after_dequeue seed scope"


def parallel_read(data_sources: Any, reader_class: Any, *more: Any, **named: Any) -> list[Any]:
    """Return the next record of files read in parallel, as `slim.parallel_reader.parallel_read` did.

    Args:
        data_sources: file patterns.
        reader_class: a function that returns a reader, such as `tf.TFRecordReader`.
        *more: `num_epochs`: the number of epochs, None repeats forever; `num_readers` (4 by default) and
            `reader_kwargs`, arguments of `reader_class`; `shuffle` (true): whether to shuffle the files, and the
            records in the common queue; `dtypes` of key and value; `capacity` (256) and `min_after_dequeue` (128) of
            the common queue; `seed` of the file order; `scope` of the names of operations.
        **named: the same arguments, by keyword.

    Returns:
        `[key, value]`.

    Raises:
        TypeError: an argument is unknown, or passed twice.
        ValueError: there are no files, or no readers.
    """
    import tensorflow as tf

    options = by_name(_SIGNATURE, more, named)
    count, shuffle, seed = options.get("num_readers", 4), options.get("shuffle", True), options.get("seed")
    if count < 1:
        raise ValueError(f"num_readers: expected 1 or more, got {count}")
    files, train = get_data_files(data_sources), tf.compat.v1.train
    dtypes = list(options.get("dtypes") or [tf.string, tf.string])
    kinds = {"dtypes": dtypes, "shapes": [[], []], "name": "common_queue"}
    with tf.name_scope(options.get("scope") or "parallel_read"):
        epochs = options.get("num_epochs")
        queue = train.string_input_producer(files, num_epochs=epochs, shuffle=shuffle, seed=seed, name="filenames")
        capacity, least = options.get("capacity", 256), options.get("min_after_dequeue", 128)
        common: Any
        if shuffle:
            common = tf.queue.RandomShuffleQueue(capacity, least, seed=seed, **kinds)
        else:
            common = tf.queue.FIFOQueue(capacity, **kinds)
        readers = [reader_class(**(options.get("reader_kwargs") or {})) for _ in range(count)]
        filling = [common.enqueue(reader.read(queue)) for reader in readers]
        train.add_queue_runner(train.QueueRunner(common, filling))
        return list(common.dequeue())


def _prefetch_queue(
    tensors: Any,
    capacity: int = 8,
    num_threads: int = 1,
    dynamic_pad: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Create a queue of tensors and its runner, as `slim.prefetch_queue.prefetch_queue` did.

    Args:
        tensors: a list or dict of tensors.
        capacity: the capacity of the queue.
        num_threads: the number of threads that fill the queue.
        dynamic_pad: whether the queue can pad tensors when it batches them.
        shared_name: the shared name of the queue.
        name: the name scope of the operations.
    """
    import tensorflow as tf

    names = sorted(tensors) if isinstance(tensors, dict) else None
    values = [tensors[key] for key in names] if names is not None else list(tensors)
    with tf.name_scope(name or "prefetch_queue"):
        kind = tf.queue.PaddingFIFOQueue if dynamic_pad else tf.queue.FIFOQueue
        shapes = [value.shape for value in values]
        known = dynamic_pad or all(shape.is_fully_defined() for shape in shapes)
        options = {"shapes": shapes} if known else {}
        queue = kind(capacity, [value.dtype for value in values], names=names, shared_name=shared_name, **options)
        content = tensors if names is not None else values
        runner = tf.compat.v1.train.QueueRunner(queue, [queue.enqueue(content)] * num_threads)
        tf.compat.v1.train.add_queue_runner(runner)
        return queue


class DataDecoder(abc.ABC):
    """Base class of decoders from a record to named tensors, as in `slim.data_decoder`."""

    @abc.abstractmethod
    def decode(self, data: Any, items: Sequence[str], /) -> list[Any]:
        """Decode a record and return the tensors of `items`, in order.

        Args:
            data: the record, a string scalar.
            items: names from `list_items`.
        """

    @abc.abstractmethod
    def list_items(self) -> list[str]:
        """List the names of the tensors that the decoder can return."""


class ItemHandler(abc.ABC):
    """Base class of handlers that compute one tensor from parsed features, as in `slim.tfexample_decoder`.

    Attributes:
        keys: a list of the names of the features.

    Args:
        keys: the name of a feature, or a list of names.
    """

    def __init__(self, keys: str | Sequence[str]) -> None:
        self.keys = [keys] if isinstance(keys, str) else list(keys)

    @abc.abstractmethod
    def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> Any:
        """Compute the tensor of this handler.

        `keys_to_tensors` maps the names of features to their parsed values.
        """


class ItemHandlerCallback(ItemHandler):
    """Handler that calls a function, as in `slim.tfexample_decoder`.

    Args:
        keys: the names of the features.
        func: a function that computes a tensor from a dict of the parsed features.
    """

    def __init__(self, keys: str | Sequence[str], func: Callable[[Mapping[str, Any]], Any]) -> None:
        super().__init__(keys)
        self._func = func

    def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> Any:
        """Return the result of the function."""
        return self._func(keys_to_tensors)


class Tensor(ItemHandler):
    """Handler that returns a feature as a dense tensor, optionally reshaped, as in `slim.tfexample_decoder`.

    Args:
        tensor_key: the name of the feature.
        shape_keys: the name of the feature with its shape, or a list of names, one for each dimension.
        shape: the shape, if it is constant.
        default_value: the value of elements that a sparse feature lacks.

    Raises:
        ValueError: both `shape_keys` and `shape` are set.
    """

    def __init__(
        self, tensor_key: str, shape_keys: str | Sequence[str] | None = None, shape: Any = None, default_value: Any = 0
    ) -> None:
        if shape_keys and shape is not None:
            raise ValueError("Cannot specify both shape_keys and shape parameters.")
        self._shape_keys = [shape_keys] if isinstance(shape_keys, str) else list(shape_keys or [])
        self._tensor_key, self._shape, self._default_value = tensor_key, shape, default_value
        super().__init__([tensor_key, *self._shape_keys])

    def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> Any:
        """Return the feature as a dense tensor, reshaped if a shape is set."""
        import tensorflow as tf

        tensor, shape = keys_to_tensors[self._tensor_key], self._shape
        if self._shape_keys:
            shape = tf.reshape(tf.stack([_dense(keys_to_tensors[key]) for key in self._shape_keys]), [-1])
        if shape is not None:
            sparse = isinstance(tensor, tf.SparseTensor)
            tensor = tf.sparse.reshape(tensor, shape) if sparse else tf.reshape(tensor, shape)
        return _dense(tensor, self._default_value)


class Image(ItemHandler):
    """Handler that decodes an image, as in `slim.tfexample_decoder`.

    Args:
        image_key: the name of the feature with the encoded image, by default `image/encoded`.
        format_key: the name of the feature with the format, by default `image/format`: `raw` or `RAW` for raw pixels;
            other formats are detected from the image.
        shape: `(height, width, channels)`, if it is constant.
        channels: the number of channels.
        dtype: the dtype of the image; pixels are cast to it, not scaled.
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
        """Decode the image."""
        import tensorflow as tf

        encoded, kind = (keys_to_tensors[key] for key in self.keys)
        image = tf.cond(
            tf.reduce_any(tf.equal(kind, ["raw", "RAW"])),
            lambda: tf.io.decode_raw(encoded, self._dtype),
            lambda: tf.cast(tf.io.decode_image(encoded, channels=self._channels), self._dtype),
        )
        image.set_shape([None, None, self._channels])
        return image if self._shape is None else tf.reshape(image, self._shape)


class BoundingBox(ItemHandler):
    """Handler that stacks four features into boxes `(n, 4)`, as in `slim.tfexample_decoder`.

    Args:
        keys: the feature names of the sides, by default `ymin`, `xmin`, `ymax` and `xmax`.
        prefix: the prefix of the feature names.

    Raises:
        ValueError: `keys` does not have four names.
    """

    def __init__(self, keys: Sequence[str] | None = None, prefix: str = "") -> None:
        sides = ["ymin", "xmin", "ymax", "xmax"] if keys is None else list(keys)
        if len(sides) != 4:  # noqa: PLR2004 - the sides of a box
            raise ValueError(f"BoundingBox expects 4 keys but got {len(sides)}")
        super().__init__([(prefix or "") + side for side in sides])

    def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> Any:
        """Stack the sides into boxes, in the order of `keys`."""
        import tensorflow as tf

        sides = [keys_to_tensors[key] for key in self.keys]
        return tf.stack([side.values if isinstance(side, tf.SparseTensor) else side for side in sides], axis=-1)


class TFExampleDecoder(DataDecoder):
    """Decoder from a `tf.train.Example` to named tensors, as in `slim.tfexample_decoder`.

    Args:
        keys_to_features: the specs of the features, for `tf.io.parse_single_example`.
        items_to_handlers: mapping from tensor names to the `ItemHandler` that computes each tensor.
    """

    def __init__(self, keys_to_features: Mapping[str, Any], items_to_handlers: Mapping[str, ItemHandler]) -> None:
        self._keys_to_features, self._items_to_handlers = keys_to_features, items_to_handlers

    def list_items(self) -> list[str]:
        """List the names of the tensors."""
        return list(self._items_to_handlers)

    def decode(self, serialized_example: Any, items: Sequence[str] | None = None) -> list[Any]:
        """Decode an Example and return the tensors of `items`, in order.

        Args:
            serialized_example: the Example, a string scalar.
            items: names from `list_items`; None for all.
        """
        import tensorflow as tf

        features = {key: _with_constant(feature) for key, feature in self._keys_to_features.items()}
        example = tf.io.parse_single_example(serialized_example, features)
        handlers = [self._items_to_handlers[item] for item in items or self._items_to_handlers]
        return [handler.tensors_to_item({key: example[key] for key in handler.keys}) for handler in handlers]


def _with_constant(feature: Any) -> Any:
    """Replace the default value of a feature by a constant, if it is a tensor.

    The tensor may belong to another graph. It is only kept if its value is unknown.
    """
    import tensorflow as tf

    default = getattr(feature, "default_value", None)
    value = tf.get_static_value(default) if tf.is_tensor(default) else None
    return feature if value is None else feature._replace(default_value=value)


def _dense(tensor: Any, default_value: Any = None) -> Any:
    import tensorflow as tf

    return tf.sparse.to_dense(tensor, default_value) if isinstance(tensor, tf.SparseTensor) else tensor


class DataProvider:
    """Named tensors of the next example, as in `slim.data_provider`.

    Args:
        items_to_tensors: mapping from names to tensors.
        num_samples: the number of examples; None if unknown.
    """

    def __init__(self, items_to_tensors: Mapping[str, Any], num_samples: Any) -> None:
        self._items_to_tensors, self._num_samples = dict(items_to_tensors), num_samples

    def get(self, items: Sequence[str]) -> list[Any]:
        """Return the tensors of `items`.

        Raises:
            ValueError: a name is unknown.
        """
        unknown = [item for item in items if item not in self._items_to_tensors]
        if unknown:
            raise ValueError(f"Items {unknown} are not among {self.list_items()}")
        return [self._items_to_tensors[item] for item in items]

    def list_items(self) -> list[str]:
        """List the names of the tensors."""
        return list(self._items_to_tensors)

    def num_samples(self) -> Any:
        """Return the number of examples, or None if it is unknown."""
        return self._num_samples


class Dataset:
    """Description of a dataset for a provider, as in `slim.dataset`.

    Args:
        data_sources: file patterns.
        reader: a function that returns a reader, such as `tf.TFRecordReader`.
        decoder: an object with `list_items()` and `decode(serialized, items)`.
        num_samples: the number of examples; None if unknown.
        items_to_descriptions: descriptions of the items.
        **kwargs: other attributes of the object.
    """

    def __init__(
        self, data_sources: Any, reader: Any, decoder: Any, num_samples: Any, items_to_descriptions: Any, **kwargs: Any
    ) -> None:
        self.data_sources, self.reader, self.decoder = data_sources, reader, decoder
        self.num_samples, self.items_to_descriptions = num_samples, items_to_descriptions
        self.__dict__.update(kwargs)


_PROVIDER_SIGNATURE = (
    "num_readers reader_kwargs shuffle num_epochs common_queue_capacity common_queue_min record_key seed scope"
)


class DatasetDataProvider(DataProvider):
    """Decoded items of the next record of a dataset, as in `slim.dataset_data_provider`.

    Args:
        dataset: a `Dataset`.
        *more: `num_readers` (1 by default), `reader_kwargs`, `shuffle`, `num_epochs`, `common_queue_capacity`,
            `common_queue_min`, `seed` and `scope`, which are passed to `parallel_read`; `record_key`: the name of the
            item with the key of the record.
        **named: the same arguments, by keyword.

    Raises:
        ValueError: the decoder has an item named `record_key`.
    """

    def __init__(self, dataset: Any, *more: Any, **named: Any) -> None:
        options = {"num_readers": 1, **by_name(_PROVIDER_SIGNATURE, more, named)}
        record_key = options.pop("record_key", "record_key")
        for old, new in (("common_queue_capacity", "capacity"), ("common_queue_min", "min_after_dequeue")):
            if old in options:
                options[new] = options.pop(old)
        key, data = parallel_read(dataset.data_sources, dataset.reader, **options)
        items = [*dataset.decoder.list_items()]
        if record_key in items:
            raise ValueError(f"record_key: expected a name that no item of the dataset has, got {record_key!r}")
        tensors = dict(zip(items, dataset.decoder.decode(data, items), strict=True))
        super().__init__({**tensors, record_key: key}, dataset.num_samples)


__all__ = ["one_hot_encoding"]

# Submodules of slim in TensorFlow 1, whose functions and classes are all in this module.
data_decoder = data_provider = dataset = dataset_data_provider = sys.modules[__name__]
parallel_reader = tfexample_decoder = sys.modules[__name__]
prefetch_queue = types.SimpleNamespace(prefetch_queue=_prefetch_queue)
