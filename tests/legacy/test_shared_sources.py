"""Sources that several operations empty: each gets its share, nothing comes twice, and nothing is lost."""

import pytest
import tensorflow as tf
from queue_runs import v1

from seqrecorder import legacy
from seqrecorder.errors import LiftError


def numbers(shuffle):
    return v1.train.range_input_producer(24, num_epochs=1, shuffle=shuffle).dequeue()


def two_batches(shuffle):
    number = numbers(shuffle)
    return v1.train.batch([number], 2), v1.train.batch([number], 3, allow_smaller_final_batch=True)


def two_ways(shuffle):
    queue = v1.train.range_input_producer(24, num_epochs=1, shuffle=shuffle)
    return queue.dequeue(), queue.dequeue_many(1)


def two_of_a_random_queue(shuffle):
    queue = v1.RandomShuffleQueue(9, 3, [tf.int32], shapes=[[]])
    v1.train.add_queue_runner(v1.train.QueueRunner(queue, [queue.enqueue(numbers(shuffle))]))
    return queue.dequeue(), v1.train.batch([queue.dequeue()], 1)


def two_joins(files):
    queue = v1.train.string_input_producer(files, num_epochs=1)
    records = [[v1.TextLineReader().read(queue).value] for _ in range(2)]
    return v1.train.batch_join(records, 2), v1.train.batch_join(records, 2)


def flat(lifted):
    parts = [part.numpy().ravel().tolist() for element in lifted.dataset for part in tf.nest.flatten(element)]
    return [value for part in parts for value in part]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("make", [two_batches, two_ways, two_of_a_random_queue])
def test_consumers_of_one_source_take_turns(make, shuffle):
    """Every element comes once, to one of them, be the order seeded or not; `explain` says who got which."""
    lifted = legacy.trace(lambda: make(shuffle))
    found = flat(lifted)
    assert len(found) == len(set(found))
    assert sorted(found) == [*range(24)] if make is not two_batches else {*found} <= {*range(24)}
    turns = [stage for stage in lifted.stages if "is emptied by 2 operations" in stage.found]
    assert [stage.done.partition(" elements")[0] for stage in turns] == ["number 1 of every 2", "number 2 of every 2"]
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
        with pytest.raises(LiftError, match=r"RandomUniform .* decides what is kept of it.*take from the source once"):
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
    assert sum("is emptied by" in stage.found for stage in lifted.stages) == 2
