"""`slim.dataset_data_provider`: the decoded items of the next record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.errors import LiftError
from seqrecorder.legacy.contrib.old_signatures import by_name
from seqrecorder.legacy.contrib.slim.data_provider import DataProvider
from seqrecorder.legacy.contrib.slim.parallel_reader import get_data_files, parallel_read
from seqrecorder.legacy.contrib.slim.tfexample_decoder import TFExampleDecoder
from seqrecorder.legacy.graph import back_from
from seqrecorder.legacy.reader_ops import reading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SIGNATURE = "num_readers reader_kwargs shuffle num_epochs common_queue_capacity common_queue_min record_key seed scope"


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
        options = {"num_readers": 1, **by_name(_SIGNATURE, more, named)}
        record_key = options.pop("record_key", "record_key")
        for old, new in (("common_queue_capacity", "capacity"), ("common_queue_min", "min_after_dequeue")):
            if old in options:
                options[new] = options.pop(old)
        key, data = parallel_read(dataset.data_sources, dataset.reader, **options)
        super().__init__(_items(dataset.decoder, key, data, record_key), dataset.num_samples)


def read_items(
    dataset: Any,
    items: str | Sequence[str],
    *,
    num_readers: int = 1,
    reader_kwargs: Mapping[str, Any] | None = None,
    shuffle: bool = True,
    num_epochs: int | None = None,
    buffer_size: int = 256,
    record_key: str = "record_key",
    seed: int | None = None,
) -> Any:
    """Return a `tf.data.Dataset` of what `DatasetDataProvider(dataset, ...).get(items)` gave for each record.

    As it was there, files and records are shuffled by default, and read for ever. With `shuffle=False` and one reader
    the order is that of the files.

    >>> import pathlib, tempfile
    >>> import tensorflow as tf
    >>> from seqrecorder.legacy.contrib import slim
    >>> path = str(pathlib.Path(tempfile.mkdtemp(), "words.tfrecord"))
    >>> feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[7]))
    >>> with tf.io.TFRecordWriter(path) as writer:
    ...     example = tf.train.Example(features=tf.train.Features(feature={"word": feature}))
    ...     writer.write(example.SerializeToString())
    >>> items = {"label": slim.tfexample_decoder.Tensor("word")}
    >>> decoder = slim.tfexample_decoder.TFExampleDecoder({"word": tf.io.FixedLenFeature([], tf.int64)}, items)
    >>> dataset = slim.dataset.Dataset(path, tf.compat.v1.TFRecordReader, decoder, 1, {})
    >>> [int(label) for label in read_items(dataset, "label", shuffle=False, num_epochs=2)]
    [7, 7]

    Args:
        dataset: a `Dataset`, or what has its attributes `data_sources`, `reader` and `decoder`.
        items: names of the decoder's items, of which elements are tuples; or one name, for tensors by themselves.
        num_readers: how many files are read at a time.
        reader_kwargs: arguments of the dataset's reader.
        shuffle: whether each epoch has an order of files of its own, and records are shuffled, too.
        num_epochs: how often all files are read; None is for ever.
        buffer_size: from how many records the next is chosen: what was `common_queue_capacity`.
        record_key: the name under which the key of the record is given, as its reader made it.
        seed: of both orders; they are others than those of the queues, which threads left to chance.

    Raises:
        LiftError: in a graph, the decoder takes what is drawn or kept outside of `decode`, once for all records.
        ValueError: there are no files, no such item, or less than one epoch; or an item has the name of the key.
    """
    import tensorflow as tf

    wanted = [items] if isinstance(items, str) else list(items)
    if num_epochs is not None and num_epochs < 1:
        raise ValueError(f"num_epochs: expected 1 or more, or None, got {num_epochs}")
    paths = get_data_files(dataset.data_sources)
    with tf.Graph().as_default():
        reader = dataset.reader(**(reader_kwargs or {})).reader_ref.op
    read, _ = reading(reader, keyed=True)

    def decode(key: Any, data: Any) -> Any:
        given = DataProvider(_items(dataset.decoder, key, data, record_key, wanted), None).get(wanted)
        return given[0] if isinstance(items, str) else tuple(given)

    if not tf.executing_eagerly():
        text = tf.TensorSpec([], tf.string)
        outside = tf.function(decode, autograph=False).get_concrete_function(text, text).captured_inputs
        if kept := [op for op in back_from(tensor.op for tensor in outside) if op.op_def.is_stateful]:
            said = f"decode takes {kept[0].name!r}, which it would draw, or look at, once for all records"
            raise LiftError(said, advice="let decode make it, or take it behind the items")
    files = tf.data.Dataset.from_tensor_slices(paths)
    if shuffle:
        files = files.shuffle(len(paths), seed)
    parallel = None if num_readers == 1 and not shuffle else tf.data.AUTOTUNE  # decoders may draw numbers, in order
    records = files.repeat(num_epochs).interleave(read, cycle_length=num_readers, num_parallel_calls=parallel)
    if shuffle:
        records = records.shuffle(buffer_size, seed)
    return records.map(tf.autograph.experimental.do_not_convert(decode), num_parallel_calls=parallel)


def _items(decoder: Any, key: Any, data: Any, record_key: str, wanted: Sequence[str] = ()) -> dict[str, Any]:
    """Return a record's tensors by their names, with its key; of some that are wanted, if the decoder gives them alone.

    Raises:
        ValueError: an item has the name of the key.
    """
    items = [*decoder.list_items()]
    if record_key in items:
        raise ValueError(f"The item name used for `record_key` cannot also be used for a dataset item: {record_key}")
    if type(decoder).decode is TFExampleDecoder.decode and {*wanted} <= {*items, record_key}:
        items = [item for item in items if item in wanted] or items
    return {**dict(zip(items, decoder.decode(data, items), strict=True)), record_key: key}
