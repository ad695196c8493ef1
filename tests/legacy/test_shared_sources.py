"""Sources from which several operations take are refused: a dataset cannot run one of them alone."""

import pytest
import tensorflow as tf
from queue_runs import v1

from seqrecorder import legacy
from seqrecorder.errors import LiftError


def numbers():
    return v1.train.range_input_producer(24, num_epochs=1, shuffle=False).dequeue()


def two_batches(files):
    number = tf.gather(files, numbers() % 2)
    return v1.train.batch([number], 2), v1.train.batch([number], 3, allow_smaller_final_batch=True)


def two_ways(files):
    queue = v1.train.range_input_producer(24, num_epochs=1, shuffle=False)
    return tf.gather(files, queue.dequeue() % 2), queue.dequeue_many(1)


def two_reads(files):
    queue, reader = v1.train.string_input_producer(files, num_epochs=1), v1.TextLineReader()
    return reader.read(queue).value, reader.read(queue).value


def two_joins(files):
    queue = v1.train.string_input_producer(files, num_epochs=1)
    records = [[v1.TextLineReader().read(queue).value] for _ in range(2)]
    return v1.train.batch_join(records, 2), v1.train.batch_join(records, 2)


def in_one_tensor(files):
    number = tf.gather(files, numbers() % 2)
    return tf.concat([[number], v1.train.batch([number], 2)], 0)


def beside_its_batch(files):
    """A record that is dequeued, and the batch of it."""
    one = v1.train.string_input_producer(files, num_epochs=2).dequeue()
    return one, v1.train.batch([one], 2)


def beside_a_batch_of_its_reader(files):
    """A read of the reader that a batch reads by another operation."""
    queue, reader = v1.train.string_input_producer(files, num_epochs=1), v1.TextLineReader()
    return reader.read(queue).key, v1.train.batch([reader.read(queue).value], 2)


def beside_a_batch_of_its_files(files):
    """Readers of their own that share the files."""
    queue = v1.train.string_input_producer(files, num_epochs=1)
    return v1.TextLineReader().read(queue).value, v1.train.shuffle_batch(
        [v1.TextLineReader().read(queue).value], 2, 9, 1
    )


def beside_what_it_is_kept_for(files):
    """The record decides what goes into the batch, and is not in it."""
    one = v1.train.string_input_producer(files, num_epochs=1).dequeue()
    return one, v1.train.maybe_batch([tf.constant(1)], tf.equal(one, files[0]), 1)


def batch_beside_a_batch_of_it(files):
    """A batch, and batches of its rows."""
    batch = v1.train.batch([v1.train.string_input_producer(files, num_epochs=1).dequeue()], 2)
    return {"rows": v1.train.batch([batch], 1, enqueue_many=True), "batch": batch}


@pytest.mark.parametrize(
    "make",
    [
        two_batches,
        two_ways,
        two_reads,
        two_joins,
        in_one_tensor,
        beside_its_batch,
        beside_a_batch_of_its_reader,
        beside_a_batch_of_its_files,
        beside_what_it_is_kept_for,
        batch_beside_a_batch_of_it,
    ],
)
def test_two_operations_on_one_source_are_refused(make):
    """A session that runs one of them alone loses nothing; a dataset would run both at each step."""
    with pytest.raises(LiftError, match="several operations take from") as raised:
        legacy.lift(lambda: make(["a", "b"]))
    assert "return a batch without its records" in raised.value.advice
    assert __file__ in str(raised.value)
