"""Sources that several operations empty: each gets its share, nothing comes twice or is lost; or they are refused."""

import itertools

import pytest
import tensorflow as tf
from combinations import all_at_night
from queue_runs import v1

from seqrecorder import legacy
from seqrecorder.errors import LiftError


def numbers(shuffle):
    return v1.train.range_input_producer(24, num_epochs=1, shuffle=shuffle).dequeue()


def two_batches(shuffle):
    number = numbers(shuffle)
    return v1.train.batch([number], 2), v1.train.batch([number], 3, allow_smaller_final_batch=True)


def two_joins(files):
    queue = v1.train.string_input_producer(files, num_epochs=1)
    records = [[v1.TextLineReader().read(queue).value] for _ in range(2)]
    return v1.train.batch_join(records, 2), v1.train.batch_join(records, 2)


def flat(lifted):
    values = [part.numpy().ravel().tolist() for element in lifted.dataset for part in tf.nest.flatten(element)]
    return [value for part in values for value in part]


@pytest.mark.parametrize("shuffle", [False, True])
def test_consumers_of_one_source_take_turns(shuffle):
    """Every element comes once, to one of them, be the order seeded or not; `explain` says who got which."""
    lifted = legacy.trace(lambda: two_batches(shuffle))
    outputs = flat(lifted)
    assert len(outputs) == len(set(outputs))
    assert {*outputs} <= {*range(24)}
    turns = [stage for stage in lifted.stages if "is read by 2 operations" in stage.original]
    assert [stage.translation.partition(",")[0] for stage in turns] == [
        "element 1 of every 2",
        "element 2 of every 2",
    ]
    assert not lifted.exact


@pytest.mark.parametrize("by_chance", [False, True])
def test_what_is_kept_by_chance_has_one_consumer(by_chance):
    """Each of several would find others kept, so that elements came twice, or to none."""

    def two_of_what_is_kept():
        number = numbers(shuffle=False)
        keep = tf.random.uniform([]) < 0.5 if by_chance else number < 12
        kept = v1.train.maybe_batch([number], keep, 1)
        return v1.train.batch([kept], 2, enqueue_many=True), v1.train.batch([kept], 2, enqueue_many=True)

    if by_chance:
        with pytest.raises(
            LiftError, match=r"RandomUniform .* decides at random what is enqueued.*take from the source once"
        ):
            legacy.lift(two_of_what_is_kept)
    else:
        assert sorted(flat(legacy.trace(two_of_what_is_kept))) == [*range(12)]


def test_several_joins_of_the_same_readers(tmp_path):
    """The records of readers that several joins share are dealt among them."""
    files = [tmp_path / name for name in "abc"]
    for path in files:
        path.write_text("".join(f"{path.name}{number}\n" for number in range(4)))
    lifted = legacy.trace(lambda: two_joins([*map(str, files)]))
    assert sorted(flat(lifted)) == sorted(f"{path.name}{number}".encode() for path in files for number in range(4))
    assert sum("is read by" in stage.original for stage in lifted.stages) == 2


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


def two_ways(files):
    queue = v1.train.string_input_producer(files, num_epochs=1)
    return queue.dequeue(), queue.dequeue_many(1)


def two_of_a_random_queue(files):
    queue = v1.RandomShuffleQueue(9, 3, [tf.string], shapes=[[]])
    one = v1.train.string_input_producer(files, num_epochs=1).dequeue()
    v1.train.add_queue_runner(v1.train.QueueRunner(queue, [queue.enqueue(one)]))
    return queue.dequeue(), queue.dequeue()


def two_reads(files):
    queue, reader = v1.train.string_input_producer(files, num_epochs=1), v1.TextLineReader()
    return reader.read(queue).value, reader.read(queue).value


def in_one_tensor(files):
    one = v1.train.string_input_producer(files, num_epochs=1).dequeue()
    return tf.concat([[one], v1.train.batch([one], 2)], 0)


@pytest.mark.parametrize(
    "make",
    [
        two_ways,
        two_of_a_random_queue,
        two_reads,
        in_one_tensor,
        beside_its_batch,
        beside_a_batch_of_its_reader,
        beside_a_batch_of_its_files,
        beside_what_it_is_kept_for,
        batch_beside_a_batch_of_it,
    ],
)
def test_operations_that_a_session_may_run_alone_are_refused(make):
    """A session that runs one of them alone loses nothing; a dataset would run both at each step."""
    with pytest.raises(LiftError, match="several operations take from") as raised:
        legacy.lift(lambda: make(["a", "b"]))
    assert "return a batch without its records" in raised.value.advice
    assert __file__ in str(raised.value)


@pytest.mark.parametrize(
    ("kinds", "arms"),
    all_at_night(itertools.product(["alike", "different"], [1, 2, 3]), [("alike", 1), ("different", 2)]),
)
def test_arms_with_queues_of_their_own(tmp_path, arms, kinds):
    """Arms share their files; each has a reader and a shuffle queue, which gives it other records as well."""
    files = [tmp_path / name for name in "abcdef"]
    for path in files:
        path.write_text("".join(f"{path.name}{number}\n" for number in range(4)))

    def input_fn():
        queue = v1.train.string_input_producer([*map(str, files)], num_epochs=2)
        examples = []
        for arm in range(arms):
            record = v1.TextLineReader(skip_header_lines=arm if kinds == "different" else 0).read(queue).value
            others = v1.RandomShuffleQueue(4, 1, tf.string, shapes=[[]])
            v1.train.add_queue_runner(v1.train.QueueRunner(others, [others.enqueue(record)]))
            examples.append((record, others.dequeue()))
        return v1.train.shuffle_batch_join(examples, 1, 100, 1)

    lifted = legacy.trace(input_fn)
    outputs = flat(lifted)
    assert all(outputs.count(record) <= 2 for record in outputs)  # two epochs
    assert {record[:1] for record in outputs} >= {b"a", b"b"} or arms > 1
    assert 48 - 16 * arms <= len(outputs) <= 48
    assert not lifted.exact
