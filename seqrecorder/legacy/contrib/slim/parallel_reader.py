"""`slim.parallel_reader`: several readers that fill one queue of records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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


def parallel_read(
    data_sources: Any,
    reader_class: Any,
    num_epochs: int | None = None,
    num_readers: int = 4,
    reader_kwargs: Mapping[str, Any] | None = None,
    shuffle: bool = True,
    dtypes: Sequence[Any] | None = None,
    capacity: int = 256,
    min_after_dequeue: int = 128,
    seed: int | None = None,
    scope: str | None = None,
) -> list[Any]:
    """Return `slim.parallel_reader.parallel_read`: the next record of files that several readers read.

    Args:
        data_sources: patterns of files.
        reader_class: makes a reader, such as `tf.TFRecordReader`.
        num_epochs: how often all files are read; None is for ever.
        num_readers: how many readers there are.
        reader_kwargs: arguments of `reader_class`.
        shuffle: whether files, and records in the common queue, are shuffled.
        dtypes: of key and value.
        capacity: of the common queue.
        min_after_dequeue: how many records it keeps for a choice.
        seed: of the files' order.
        scope: of the operations' names.

    Returns:
        `[key, value]`.

    Raises:
        ValueError: there are no files, or no readers.
    """
    import tensorflow as tf

    if num_readers < 1:
        raise ValueError(f"num_readers: expected 1 or more, got {num_readers}")
    files = get_data_files(data_sources)
    kinds = {"dtypes": list(dtypes or [tf.string, tf.string]), "shapes": [[], []], "name": "common_queue"}
    with tf.name_scope(scope or "parallel_read"):
        queue = tf.compat.v1.train.string_input_producer(
            files, num_epochs=num_epochs, shuffle=shuffle, seed=seed, name="filenames"
        )
        common: Any
        if shuffle:
            common = tf.queue.RandomShuffleQueue(capacity, min_after_dequeue, seed=seed, **kinds)
        else:
            common = tf.queue.FIFOQueue(capacity, **kinds)
        readers = [reader_class(**(reader_kwargs or {})) for _ in range(num_readers)]
        filling = [common.enqueue(reader.read(queue)) for reader in readers]
        tf.compat.v1.train.add_queue_runner(tf.compat.v1.train.QueueRunner(common, filling))
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
