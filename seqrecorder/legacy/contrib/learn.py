"""`tf.contrib.learn`'s reading of files: batches of records, and of parsed examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.legacy.contrib.slim.parallel_reader import get_data_files

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
        try:
            while len(found) < n:
                found.append(session.run(dict(output_dict), feed_dict))
        except tf.errors.OutOfRangeError as error:
            coordinator.request_stop(error)
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=10)
    return found


def read_keyed_batch_examples(
    file_pattern: Any,
    batch_size: int,
    reader: Callable[[], Any],
    randomize_input: bool = True,
    num_epochs: int | None = None,
    queue_capacity: int = 10_000,
    num_threads: int = 1,
    read_batch_size: int = 1,
    parse_fn: Callable[[Any], Any] | None = None,
    name: str | None = None,
    seed: int | None = None,
) -> tuple[Any, Any]:
    """Return `tf.contrib.learn.read_keyed_batch_examples`: keys and records, in batches, shuffled or in order.

    The last batch may have fewer. A random queue keeps as many records for a choice as a quarter of its capacity and
    one batch leave of it.

    Args:
        file_pattern: patterns of files.
        batch_size: records to a batch.
        reader: makes a reader.
        randomize_input: whether files and records are shuffled.
        num_epochs: how often all files are read; None is for ever.
        queue_capacity: of the queue of records.
        num_threads: readers that fill it.
        read_batch_size: records that are read at a time.
        parse_fn: what is done with each record.
        name: of the operations.
        seed: of the orders.

    Returns:
        `(keys, examples)`.

    Raises:
        ValueError: there are no files, or a number makes no sense.
    """
    import tensorflow as tf

    if batch_size < 1 or queue_capacity <= batch_size or num_threads < 1 or read_batch_size < 1:
        raise ValueError(
            "expected a batch_size of 1 or more, a larger queue_capacity, and num_threads and read_batch_size of 1 or "
            f"more, got {batch_size}, {queue_capacity}, {num_threads} and {read_batch_size}"
        )
    train = tf.compat.v1.train
    with tf.name_scope(name or "read_batch_examples"):
        queue = train.string_input_producer(
            get_data_files(file_pattern), num_epochs=num_epochs, shuffle=randomize_input, seed=seed, name="file_names"
        )
        readers = [reader() for _ in range(num_threads)]
        if read_batch_size > 1:
            pairs = [tuple(each.read_up_to(queue, read_batch_size)) for each in readers]
        else:
            pairs = [tuple(each.read(queue)) for each in readers]
        if parse_fn is not None:
            pairs = [(key, parse_fn(value)) for key, value in pairs]
        options = {
            "capacity": queue_capacity,
            "enqueue_many": read_batch_size > 1,
            "allow_smaller_final_batch": True,
        }
        if randomize_input:
            least = max(1, min(queue_capacity - batch_size, queue_capacity * 3 // 4))
            batched = train.shuffle_batch_join(pairs, batch_size, min_after_dequeue=least, seed=seed, **options)
        else:
            batched = train.batch_join(pairs, batch_size, **options)
        return tuple(batched)


def read_batch_examples(
    file_pattern: Any,
    batch_size: int,
    reader: Callable[[], Any],
    randomize_input: bool = True,
    num_epochs: int | None = None,
    queue_capacity: int = 10_000,
    num_threads: int = 1,
    read_batch_size: int = 1,
    parse_fn: Callable[[Any], Any] | None = None,
    name: str | None = None,
    seed: int | None = None,
) -> Any:
    """Return `tf.contrib.learn.read_batch_examples`: the records of `read_keyed_batch_examples`, without the keys."""
    _, examples = read_keyed_batch_examples(
        file_pattern,
        batch_size,
        reader,
        randomize_input,
        num_epochs,
        queue_capacity,
        num_threads,
        read_batch_size,
        parse_fn,
        name,
        seed,
    )
    return examples


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
) -> Any:
    """Return `tf.contrib.learn.read_batch_features`: batches of parsed `tf.train.Example`s, as a dict of tensors.

    Args:
        file_pattern: see `read_keyed_batch_examples`, as for the other arguments.
        batch_size: see there.
        features: what `tf.io.parse_example` is given.
        reader: see there.
        randomize_input: see there.
        num_epochs: see there.
        queue_capacity: see there.
        feature_queue_capacity: not needed any more.
        reader_num_threads: its `num_threads`.
        num_enqueue_threads: not needed any more.
        parse_fn: see there.
        name: see there.
        read_batch_size: see there.

    Raises:
        ValueError: there are no files, or a number makes no sense.
    """
    del feature_queue_capacity, num_enqueue_threads
    import tensorflow as tf

    examples = read_batch_examples(
        file_pattern,
        batch_size,
        reader,
        randomize_input,
        num_epochs,
        queue_capacity,
        reader_num_threads,
        read_batch_size or min(batch_size, 10),
        parse_fn,
        name,
    )
    return tf.io.parse_example(examples, features)


def read_batch_record_features(
    file_pattern: Any,
    batch_size: int,
    features: Mapping[str, Any],
    randomize_input: bool = True,
    num_epochs: int | None = None,
    queue_capacity: int = 10_000,
    reader_num_threads: int = 1,
    name: str | None = "dequeue_record_examples",
) -> Any:
    """Return `tf.contrib.learn.read_batch_record_features`: `read_batch_features` of TFRecord files."""
    import tensorflow as tf

    return read_batch_features(
        file_pattern,
        batch_size,
        features,
        tf.compat.v1.TFRecordReader,
        randomize_input,
        num_epochs,
        queue_capacity,
        reader_num_threads=reader_num_threads,
        name=name,
    )
