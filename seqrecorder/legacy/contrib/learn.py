"""`tf.contrib.learn`'s reading of files: batches of parsed examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.legacy.contrib.slim.parallel_reader import get_data_files
from seqrecorder.legacy.contrib.slim.prefetch_queue import prefetch_queue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class ModeKeys:
    """`tf.contrib.learn.ModeKeys`: what a model is built for."""

    TRAIN = "train"
    EVAL = "eval"
    INFER = "infer"


def run_n(
    output_dict: Mapping[str, Any],
    feed_dict: Mapping[Any, Any] | None = None,
    restore_checkpoint_path: str | None = None,
    n: int = 1,
) -> list[dict[str, Any]]:
    """Return `tf.contrib.learn.run_n`: what some tensors give in n steps, with queue runners started for them.

    Args:
        output_dict: tensors by names.
        feed_dict: see `tf.Session.run`.
        restore_checkpoint_path: where variables come from; None initialises them.
        n: how many steps; the list is shorter where the queues end before.

    Returns:
        A dict of arrays for each step.
    """
    import tensorflow as tf

    v1 = tf.compat.v1
    found: list[dict[str, Any]] = []
    with v1.Session() as session:
        if restore_checkpoint_path is None:
            session.run(v1.global_variables_initializer())
        else:
            v1.train.Saver().restore(session, restore_checkpoint_path)
        session.run([v1.local_variables_initializer(), v1.tables_initializer()])
        coordinator = tf.train.Coordinator()
        threads = v1.train.start_queue_runners(session, coordinator)
        with coordinator.stop_on_exception():
            while len(found) < n:
                found.append(session.run(dict(output_dict), feed_dict))
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=10)
    return found


def read_batch_features(
    file_pattern: Any,
    batch_size: int,
    features: Mapping[str, Any],
    reader: Callable[[], Any],
    randomize_input: bool = True,
    num_epochs: int | None = None,
    queue_capacity: int = 10_000,
    feature_queue_capacity: int = 100,
    reader_num_threads: int = 1,
    num_enqueue_threads: int = 2,
    parse_fn: Callable[[Any], Any] | None = None,
    name: str | None = None,
    read_batch_size: int | None = None,
) -> dict[str, Any]:
    """Return `tf.contrib.learn.read_batch_features`: batches of parsed `tf.train.Example`s, shuffled or in order.

    The last batch may have fewer where `num_epochs` is given. A random queue keeps as many records for a choice as
    three batches leave of its capacity.

    Args:
        file_pattern: a pattern of files, or a list of patterns.
        batch_size: records to a batch.
        features: what `tf.io.parse_example` is given.
        reader: makes a reader.
        randomize_input: whether files and records are shuffled; else files come in the order of their names.
        num_epochs: how often all files are read; None is for ever.
        queue_capacity: of the queue of records.
        feature_queue_capacity: of the queue of batches.
        reader_num_threads: readers that fill the first. With more than one, the order of records is left to chance.
        num_enqueue_threads: that fill the second. With more than one, the order of batches is left to chance.
        parse_fn: what is done with the records that are read at a time; it returns those to parse.
        name: of the operations.
        read_batch_size: records that are read at a time; by default those of a batch.

    Returns:
        Tensors, dense or sparse, by the names of `features`.

    Raises:
        ValueError: there are no files, or a number makes no sense.
    """
    import tensorflow as tf

    count = batch_size if read_batch_size is None else read_batch_size
    if not 1 <= batch_size < queue_capacity or reader_num_threads < 1 or count < 1:
        raise ValueError(
            "expected a batch_size of 1 or more, a larger queue_capacity, and reader_num_threads and read_batch_size "
            f"of 1 or more, got {batch_size}, {queue_capacity}, {reader_num_threads} and {count}"
        )
    train = tf.compat.v1.train
    with tf.name_scope(name or "read_batch_features"):
        files = sorted(get_data_files(file_pattern))
        queue = train.string_input_producer(files, num_epochs, randomize_input, name="file_name_queue")
        readers = [reader() for _ in range(reader_num_threads)]
        read = [each.read_up_to(queue, count) if count > 1 else each.read(queue) for each in readers]
        records = [[value if parse_fn is None else parse_fn(value)] for _, value in read]
        options = {
            "capacity": queue_capacity,
            "enqueue_many": count > 1,
            "allow_smaller_final_batch": num_epochs is not None,
        }
        if randomize_input:
            least = max(queue_capacity - 3 * batch_size, batch_size)
            batched = train.shuffle_batch_join(records, batch_size, min_after_dequeue=least, **options)
        else:
            batched = train.batch_join(records, batch_size, **options)
        parsed = tf.io.parse_example(batched, features)
        parts = tf.nest.flatten(parsed, expand_composites=True)
        taken = tf.nest.flatten(prefetch_queue(parts, feature_queue_capacity, num_enqueue_threads).dequeue())
    for part, new in zip(parts, taken, strict=True):
        new.set_shape(part.shape)
    return dict(tf.nest.pack_sequence_as(parsed, taken, expand_composites=True))


def read_batch_record_features(
    file_pattern: Any, batch_size: int, features: Mapping[str, Any], *more: Any, **named: Any
) -> dict[str, Any]:
    """Return `tf.contrib.learn.read_batch_record_features`: `read_batch_features` of TFRecord files.

    Two threads fill its last queue, so that the order of batches is left to chance even where `randomize_input` is
    false. It takes `randomize_input`, `num_epochs`, `queue_capacity`, `reader_num_threads` and `name`.
    """
    import tensorflow as tf

    options = dict(zip(("randomize_input", "num_epochs", "queue_capacity", "reader_num_threads"), more, strict=False))
    reader = tf.compat.v1.TFRecordReader
    return read_batch_features(file_pattern, batch_size, features, reader, **{**options, **named})
