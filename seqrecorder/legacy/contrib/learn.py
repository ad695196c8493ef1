"""`tf.contrib.learn`: batches of parsed examples from files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.legacy.contrib.components import by_name
from seqrecorder.legacy.contrib.slim import get_data_files, prefetch_queue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


_SIGNATURE = (
    "randomize_input num_epochs queue_capacity feature_queue_capacity reader_num_threads num_enqueue_threads parse_fn "
    "name read_batch_size"
)


class ModeKeys:
    """Modes of a model, as in `tf.contrib.learn.ModeKeys`."""

    TRAIN = "train"
    EVAL = "eval"
    INFER = "infer"


def run_n(
    output_dict: Mapping[str, Any],
    feed_dict: Mapping[Any, Any] | None = None,
    restore_checkpoint_path: str | None = None,
    n: int = 1,
) -> list[dict[str, Any]]:
    """Start the queue runners and evaluate tensors in n steps, as `tf.contrib.learn.run_n` did.

    Args:
        output_dict: mapping from names to tensors.
        feed_dict: the values of placeholders, as for `tf.Session.run`.
        restore_checkpoint_path: the checkpoint of the variables; None initialises them.
        n: the number of steps; the returned list is shorter if the queues end earlier.

    Returns:
        A list with a dict of arrays for each step.
    """
    import tensorflow as tf

    v1 = tf.compat.v1
    outputs: list[dict[str, Any]] = []
    with v1.Session() as session:
        if restore_checkpoint_path is None:
            session.run(v1.global_variables_initializer())
        else:
            v1.train.Saver().restore(session, restore_checkpoint_path)
        session.run([v1.local_variables_initializer(), v1.tables_initializer()])
        coordinator = tf.train.Coordinator()
        threads = v1.train.start_queue_runners(session, coordinator)
        with coordinator.stop_on_exception():
            while len(outputs) < n:
                outputs.append(session.run(dict(output_dict), feed_dict))
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=10)
    return outputs


def read_batch_features(
    file_pattern: Any, batch_size: int, features: Mapping[str, Any], reader: Callable[[], Any], *more: Any, **named: Any
) -> dict[str, Any]:
    """Read batches of parsed `tf.train.Example`s, as `tf.contrib.learn.read_batch_features` did.

    With `num_epochs`, the last batch may be smaller. The `min_after_dequeue` of a random queue is its capacity minus
    three batches.

    Args:
        file_pattern: a file pattern, or a list of patterns.
        batch_size: the number of records in a batch.
        features: the specs of the features, for `tf.io.parse_example`.
        reader: a function that returns a reader, such as `tf.TFRecordReader`.
        *more: `randomize_input` (true by default): whether to shuffle files and records; if false, files are sorted by
            name; `num_epochs`: the number of epochs, None repeats forever; `queue_capacity` (10,000) of the queue of
            records; `feature_queue_capacity` (100) of the queue of batches; `reader_num_threads` (1) and
            `num_enqueue_threads` (2), which fill these queues: more than one thread makes the order of records, or of
            batches, random; `parse_fn`: a function applied to the records of one read before they are parsed; `name`;
            `read_batch_size`: the number of records in one read, by default `batch_size`.
        **named: the same arguments, by keyword.

    Returns:
        A dict of tensors, dense or sparse, with the keys of `features`.

    Raises:
        TypeError: an argument is unknown, or passed twice.
        ValueError: there are no files, or a number is out of range.
    """
    import tensorflow as tf

    options = by_name(_SIGNATURE, more, named)
    count, threads = options.get("read_batch_size") or batch_size, options.get("reader_num_threads", 1)
    capacity, num_epochs = options.get("queue_capacity", 10_000), options.get("num_epochs")
    if not 1 <= batch_size < capacity or threads < 1:
        raise ValueError(
            "expected a batch_size of 1 or more, a larger queue_capacity, and reader_num_threads of 1 or more, got "
            f"{batch_size}, {capacity} and {threads}"
        )
    train = tf.compat.v1.train
    with tf.name_scope(options.get("name") or "read_batch_features"):
        files = sorted(get_data_files(file_pattern))
        shuffle, parse = options.get("randomize_input", True), options.get("parse_fn") or tf.identity
        queue = train.string_input_producer(files, num_epochs, shuffle, name="file_name_queue")
        readers = [reader() for _ in range(threads)]
        read = [each.read_up_to(queue, count) if count > 1 else each.read(queue) for each in readers]
        records = [[parse(value)] for _, value in read]
        ends = {"enqueue_many": count > 1, "allow_smaller_final_batch": num_epochs is not None}
        if shuffle:
            least = max(capacity - 3 * batch_size, batch_size)
            batched = train.shuffle_batch_join(records, batch_size, capacity, least, **ends)
        else:
            batched = train.batch_join(records, batch_size, capacity, **ends)
        parsed = tf.io.parse_example(batched, features)
        tensors = tf.nest.flatten(parsed, expand_composites=True)
        threads = options.get("num_enqueue_threads", 2)
        taken = tf.nest.flatten(
            prefetch_queue.prefetch_queue(tensors, options.get("feature_queue_capacity", 100), threads).dequeue()
        )
    for tensor, new in zip(tensors, taken, strict=True):
        new.set_shape(tensor.shape)
    return dict(tf.nest.pack_sequence_as(parsed, taken, expand_composites=True))


def read_batch_record_features(
    file_pattern: Any, batch_size: int, features: Mapping[str, Any], *more: Any, **named: Any
) -> dict[str, Any]:
    """Read batches from TFRecord files, as `tf.contrib.learn.read_batch_record_features` did.

    Two threads fill the last queue, so the order of batches is random even if `randomize_input` is false. The options
    `randomize_input`, `num_epochs`, `queue_capacity`, `reader_num_threads` and `name` work as in `read_batch_features`.
    """
    import tensorflow as tf

    options = by_name("randomize_input num_epochs queue_capacity reader_num_threads name", more, named)
    return read_batch_features(file_pattern, batch_size, features, tf.compat.v1.TFRecordReader, **options)
