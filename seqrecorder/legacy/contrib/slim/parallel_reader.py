"""`slim.parallel_reader`: several readers that fill one queue of records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.legacy.contrib.old_signatures import by_name

if TYPE_CHECKING:
    from collections.abc import Mapping


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


def single_pass_read(
    data_sources: Any, reader_class: Any, reader_kwargs: Mapping[str, Any] | None = None, scope: str | None = None
) -> Any:
    """Return `slim.parallel_reader.single_pass_read`: the next record of files that are read once, in order."""
    import tensorflow as tf

    with tf.name_scope(scope or "single_pass_read"):
        files = get_data_files(data_sources)
        queue = tf.compat.v1.train.string_input_producer(files, num_epochs=1, shuffle=False, capacity=1)
        return reader_class(**(reader_kwargs or {})).read(queue)
