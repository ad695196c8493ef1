"""`tf.contrib.learn`'s reading of files: batches of records, and of parsed examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.legacy.contrib.slim.parallel_reader import get_data_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_KEY = "__key__"
"""The name of keys beside what a `parse_fn` returns in a dict."""


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
    batch_size: Any,
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

    The last batch may have fewer where `num_epochs` is given. A random queue keeps as many records for a choice as
    three batches leave of its capacity.

    Args:
        file_pattern: a pattern of files, or a list of patterns.
        batch_size: records to a batch; a number or an int32 scalar.
        reader: makes a reader.
        randomize_input: whether files and records are shuffled; else files come in the order of their names.
        num_epochs: how often all files are read; None is for ever.
        queue_capacity: of the queue of records.
        num_threads: readers that fill it. With more than one, the order of records is left to chance.
        read_batch_size: records that are read at a time.
        parse_fn: what is done with each record, or with so many; it returns a tensor or a dict of tensors.
        name: of the operations.
        seed: of the orders.

    Returns:
        `(keys, examples)`.

    Raises:
        ValueError: there are no files, or a number makes no sense.
    """
    import tensorflow as tf

    fixed = not tf.is_tensor(batch_size)
    if (fixed and not 1 <= batch_size < queue_capacity) or num_threads < 1 or read_batch_size < 1:
        raise ValueError(
            "expected a batch_size of 1 or more, a larger queue_capacity, and num_threads and read_batch_size of 1 or "
            f"more, got {batch_size}, {queue_capacity}, {num_threads} and {read_batch_size}"
        )
    train = tf.compat.v1.train
    with tf.name_scope(name or "read_batch_examples"):
        files = sorted(get_data_files(file_pattern))
        queue = train.string_input_producer(files, num_epochs, randomize_input, seed, name="file_name_queue")
        examples = [_read(reader(), queue, read_batch_size, parse_fn) for _ in range(num_threads)]
        options = {
            "capacity": queue_capacity,
            "enqueue_many": read_batch_size > 1,
            "allow_smaller_final_batch": num_epochs is not None,
        }
        if randomize_input:
            least = max(queue_capacity - 3 * batch_size, batch_size) if fixed else int(queue_capacity * 0.4)
            batched = train.shuffle_batch_join(examples, batch_size, min_after_dequeue=least, seed=seed, **options)
        else:
            batched = train.batch_join(examples, batch_size, **options)
    if isinstance(batched, dict):
        return batched.pop(_KEY), batched
    return tuple(batched)


def _read(reader: Any, queue: Any, count: int, parse_fn: Callable[[Any], Any] | None) -> Any:
    """Return keys and records, or what a function makes of these, in one tuple or dict."""
    key, value = reader.read_up_to(queue, count) if count > 1 else reader.read(queue)
    parsed = value if parse_fn is None else parse_fn(value)
    return {**parsed, _KEY: key} if isinstance(parsed, dict) else (key, parsed)


def read_batch_examples(*arguments: Any, **named: Any) -> Any:
    """Return `tf.contrib.learn.read_batch_examples`: what `read_keyed_batch_examples` returns, without the keys.

    Takes and raises what that does.
    """
    _, examples = read_keyed_batch_examples(*arguments, **named)
    return examples


def queue_parsed_features(
    parsed_features: Mapping[str, Any],
    keys: Any = None,
    feature_queue_capacity: int = 100,
    num_enqueue_threads: int = 2,
    name: str | None = None,
) -> tuple[Any, dict[str, Any]]:
    """Return `tf.contrib.learn.queue_parsed_features`: parsed features, dense or sparse, through a queue of batches.

    Args:
        parsed_features: tensors by name.
        keys: None, or the keys of the same examples.
        feature_queue_capacity: of the queue.
        num_enqueue_threads: that fill it. With more than one, as by default, the order of batches is left to chance.
        name: of the operations.

    Returns:
        `(keys, features)` as they were given.
    """
    import tensorflow as tf

    names = sorted(parsed_features)
    given = [parsed_features[feature] for feature in names] + ([] if keys is None else [keys])
    parts = tf.nest.flatten(given, expand_composites=True)
    with tf.name_scope(name or "queue_parsed_features"):
        queue = tf.queue.FIFOQueue(feature_queue_capacity, [part.dtype for part in parts])
        runner = tf.compat.v1.train.QueueRunner(
            queue,
            [queue.enqueue(parts) for _ in range(num_enqueue_threads)],
            queue_closed_exception_types=(tf.errors.OutOfRangeError, tf.errors.CancelledError),
        )
        tf.compat.v1.train.add_queue_runner(runner)
        taken = tf.nest.flatten(queue.dequeue())
    for part, new in zip(parts, taken, strict=True):
        new.set_shape(part.shape)
    found = tf.nest.pack_sequence_as(given, taken, expand_composites=True)
    return None if keys is None else found.pop(), dict(zip(names, found, strict=True))


_AFTER_READER = (
    *("randomize_input", "num_epochs", "queue_capacity", "reader_num_threads", "feature_queue_capacity"),
    *("num_enqueue_threads", "parse_fn", "name", "read_batch_size"),
)
"""What follows the reader in `read_keyed_batch_features`."""
_IN_ANOTHER_ORDER = (
    *("randomize_input", "num_epochs", "queue_capacity", "feature_queue_capacity", "reader_num_threads"),
    *("num_enqueue_threads", "parse_fn", "name", "read_batch_size"),
)
"""What follows it in `read_batch_features`."""


def read_keyed_batch_features(
    file_pattern: Any, batch_size: Any, features: Mapping[str, Any], reader: Callable[[], Any], *more: Any, **named: Any
) -> tuple[Any, dict[str, Any]]:
    """Return `tf.contrib.learn.read_keyed_batch_features`: keys and batches of parsed `tf.train.Example`s.

    Args:
        file_pattern: see `read_keyed_batch_examples`, as for the arguments that are not explained here.
        batch_size: see there.
        features: what `tf.io.parse_example` is given.
        reader: see there.
        *more: `randomize_input`, `num_epochs`, `queue_capacity`, `reader_num_threads` (its `num_threads`),
            `feature_queue_capacity` and `num_enqueue_threads` (see `queue_parsed_features`; for a fixed order, 1 is
            needed), `parse_fn`, `name` and `read_batch_size` (by default that of the batch).
        **named: the same, by name.

    Returns:
        `(keys, features)`, the latter a dict.

    Raises:
        ValueError: there are no files, or a number makes no sense.
    """
    import tensorflow as tf

    options = {**dict(zip(_AFTER_READER, more, strict=False)), **named}
    queue = options.pop("feature_queue_capacity", 100), options.pop("num_enqueue_threads", 2)
    options["num_threads"] = options.pop("reader_num_threads", 1)
    if options.get("read_batch_size") is None:
        options["read_batch_size"] = batch_size
    keys, examples = read_keyed_batch_examples(file_pattern, batch_size, reader, **options)
    return queue_parsed_features(tf.io.parse_example(examples, features), keys, *queue)


def read_batch_features(
    file_pattern: Any, batch_size: Any, features: Mapping[str, Any], reader: Callable[[], Any], *more: Any, **named: Any
) -> Any:
    """Return `tf.contrib.learn.read_batch_features`: the features of `read_keyed_batch_features`, without the keys.

    Takes and raises what that does, but for the places of `feature_queue_capacity` and `reader_num_threads`.
    """
    options = {**dict(zip(_IN_ANOTHER_ORDER, more, strict=False)), **named}
    return read_keyed_batch_features(file_pattern, batch_size, features, reader, **options)[1]


def read_batch_record_features(
    file_pattern: Any, batch_size: Any, features: Mapping[str, Any], *more: Any, **named: Any
) -> Any:
    """Return `tf.contrib.learn.read_batch_record_features`: `read_batch_features` of TFRecord files.

    Two threads fill its last queue, so that the order of batches is left to chance even where `randomize_input` is
    false. It takes `randomize_input`, `num_epochs`, `queue_capacity`, `reader_num_threads` and `name`.
    """
    import tensorflow as tf

    options = {**dict(zip((*_AFTER_READER[:4], "name"), more, strict=False)), **named}
    reader = tf.compat.v1.TFRecordReader
    return read_keyed_batch_features(file_pattern, batch_size, features, reader, **options)[1]
