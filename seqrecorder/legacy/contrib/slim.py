"""`tf.contrib.slim`'s reading of data: parallel readers, dataset providers, decoders and prefetch queues.

They are queues and readers of TensorFlow 1, as they were, so that they run in sessions and are lifted like any others.
"""

from __future__ import annotations

import abc
import types
from typing import TYPE_CHECKING, Any

from seqrecorder.legacy.contrib.components import by_name
from seqrecorder.legacy.contrib.layers import one_hot_encoding

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def get_data_files(data_sources: Any) -> list[str]:
    """Return the files that patterns, alone or in a list, match.

    Raises:
        ValueError: there are none.
    """
    import tensorflow as tf

    patterns = data_sources if isinstance(data_sources, (list, tuple)) else [data_sources]
    files = [path for pattern in patterns for path in sorted(tf.io.gfile.glob(pattern))]
    if not files:
        raise ValueError(f"No data files found in {data_sources}")
    return files


_SIGNATURE = "num_epochs num_readers reader_kwargs shuffle dtypes capacity min_after_dequeue seed scope"


def parallel_read(data_sources: Any, reader_class: Any, *more: Any, **named: Any) -> list[Any]:
    """Return `slim.parallel_reader.parallel_read`: the next record of files that several readers read.

    Args:
        data_sources: patterns of files.
        reader_class: makes a reader, such as `tf.TFRecordReader`.
        *more: `num_epochs`: how often all files are read, None is for ever; `num_readers` (4 by default) and
            `reader_kwargs`, arguments of `reader_class`; `shuffle` (true): whether files, and records in the common
            queue, are shuffled; `dtypes` of key and value; `capacity` (256) of the common queue, and
            `min_after_dequeue` (128), how many records it keeps for a choice; `seed` of the files' order; `scope` of
            the operations' names.
        **named: the same, by name.

    Returns:
        `[key, value]`.

    Raises:
        TypeError: there is no such argument.
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
    """Return `slim.prefetch_queue.prefetch_queue`: a queue of tensors, whose `dequeue` has their structure.

    Args:
        tensors: a list or dict of tensors.
        capacity: of the queue.
        num_threads: that fill it.
        dynamic_pad: whether the queue can pad.
        shared_name: of the queue.
        name: of the operations.
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
    """`slim.data_decoder.DataDecoder`: what turns a record into named tensors."""

    @abc.abstractmethod
    def decode(self, data: Any, items: Sequence[str], /) -> list[Any]:
        """Return the tensors of some names, in their order.

        Args:
            data: a string scalar, the record.
            items: names, of those of `list_items`.
        """

    @abc.abstractmethod
    def list_items(self) -> list[str]:
        """Return the names of the tensors that it can give."""


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
        """Call the function."""
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


class DataProvider:
    """`slim.data_provider.DataProvider`: named tensors of the next example.

    Args:
        items_to_tensors: the tensors by their names.
        num_samples: how many examples there are, or None.
    """

    def __init__(self, items_to_tensors: Mapping[str, Any], num_samples: Any) -> None:
        self._items_to_tensors, self._num_samples = dict(items_to_tensors), num_samples

    def get(self, items: Sequence[str]) -> list[Any]:
        """Return the tensors of some names.

        Raises:
            ValueError: there is no such name.
        """
        unknown = [item for item in items if item not in self._items_to_tensors]
        if unknown:
            raise ValueError(f"Items {unknown} are not among {self.list_items()}")
        return [self._items_to_tensors[item] for item in items]

    def list_items(self) -> list[str]:
        """Return the names."""
        return list(self._items_to_tensors)

    def num_samples(self) -> Any:
        """Return how many examples there are, or None."""
        return self._num_samples


class Dataset:
    """`slim.dataset.Dataset`: what a provider needs to know; other arguments become attributes.

    Args:
        data_sources: patterns of files.
        reader: makes a reader.
        decoder: has `list_items()` and `decode(serialized, items)`.
        num_samples: how many there are, or None.
        items_to_descriptions: what the items are.
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
    """`slim.dataset_data_provider.DatasetDataProvider`: the decoded items of a dataset's next record.

    Args:
        dataset: a `Dataset`.
        *more: `num_readers` (1 by default), `reader_kwargs`, `shuffle` and `num_epochs` (see `parallel_read`),
            `common_queue_capacity` (its `capacity`), `common_queue_min` (its `min_after_dequeue`), `record_key` (the
            name under which the record's key is given), `seed` and `scope`.
        **named: the same, by name.

    Raises:
        ValueError: an item has the name of the key.
    """

    def __init__(self, dataset: Any, *more: Any, **named: Any) -> None:
        options = {"num_readers": 1, **by_name(_PROVIDER_SIGNATURE, more, named)}
        record_key = options.pop("record_key", "record_key")
        for old, new in (("common_queue_capacity", "capacity"), ("common_queue_min", "min_after_dequeue")):
            if old in options:
                options[new] = options.pop(old)
        key, data = parallel_read(dataset.data_sources, dataset.reader, **options)
        super().__init__(_items(dataset.decoder, key, data, record_key), dataset.num_samples)


def _items(decoder: Any, key: Any, data: Any, record_key: str) -> dict[str, Any]:
    """Return a record's tensors by their names, with its key.

    Raises:
        ValueError: an item has the name of the key.
    """
    items = [*decoder.list_items()]
    if record_key in items:
        raise ValueError(f"The item name used for `record_key` cannot also be used for a dataset item: {record_key}")
    return {**dict(zip(items, decoder.decode(data, items), strict=True)), record_key: key}


__all__ = ["one_hot_encoding"]

# The modules of TensorFlow 1 in which these stood.
data_decoder = types.SimpleNamespace(DataDecoder=DataDecoder)
data_provider = types.SimpleNamespace(DataProvider=DataProvider)
dataset = types.SimpleNamespace(Dataset=Dataset)
dataset_data_provider = types.SimpleNamespace(DatasetDataProvider=DatasetDataProvider)
parallel_reader = types.SimpleNamespace(get_data_files=get_data_files, parallel_read=parallel_read)
prefetch_queue = types.SimpleNamespace(prefetch_queue=_prefetch_queue)
tfexample_decoder = types.SimpleNamespace(
    BoundingBox=BoundingBox,
    Image=Image,
    ItemHandler=ItemHandler,
    ItemHandlerCallback=ItemHandlerCallback,
    SparseTensor=SparseTensor,
    TFExampleDecoder=TFExampleDecoder,
    Tensor=Tensor,
)
