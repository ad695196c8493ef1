"""Lifted pipelines in the training loops of TensorFlow 1."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf
from queue_runs import assert_equal_elements, plain, queue_run, v1
from tensorflow.python import tf2

import seqrecorder as sr
from seqrecorder import legacy


def batches():
    number = v1.train.range_input_producer(10, num_epochs=1, shuffle=False).dequeue()
    tensors = {"number": number, "text": tf.strings.as_string(number), "sparse": tf.sparse.from_dense([number, 0])}
    return v1.train.batch(tensors, 3, allow_smaller_final_batch=True)


def test_the_old_loop_keeps_working():
    """Session, Coordinator, queue runners and `except OutOfRangeError` work as ever on a lifted pipeline."""
    with tf.Graph().as_default():
        batch = legacy.get_next(legacy.lift(batches))
        loss = tf.reduce_sum(batch["number"])
        losses = []
        with v1.Session() as session:
            session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
            coordinator = tf.train.Coordinator()
            threads = v1.train.start_queue_runners(coord=coordinator)
            try:
                while not coordinator.should_stop():
                    losses.append(session.run(loss))
            except tf.errors.OutOfRangeError:
                pass
            finally:
                coordinator.request_stop()
            coordinator.join(threads)
    assert losses == [3, 12, 21, 9]


def test_one_line_changes():
    """`lift` may stand where the input function stood, inside the graph."""

    def input_fn():
        return legacy.get_next(legacy.lift(batches))["number"]

    assert [batch.tolist() for batch in queue_run(input_fn)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]


def test_elements_are_those_of_the_dataset():
    """Structure, dtypes and static shapes are those of the dataset, composite tensors included."""
    lifted = legacy.trace(batches)
    outputs = [plain(element) for element in queue_run(lambda: legacy.get_next(lifted))]
    expected = [plain(element) for element in lifted.dataset]
    assert len(outputs) == len(expected) == 4
    for ours, theirs in zip(outputs, expected, strict=True):
        assert_equal_elements(ours, theirs)
    with tf.Graph().as_default():
        batch = legacy.get_next(lifted.dataset)
        assert batch["number"].shape.as_list() == [None]


def test_tensors_of_a_graph_are_lifted_where_they_stand():
    """Tensors give what their queues gave, and no thread fills those of a batch that is lifted."""
    with tf.Graph().as_default():
        tensors = batches()
        runners = v1.get_collection(v1.GraphKeys.QUEUE_RUNNERS)
        first, again = (legacy.get_next(legacy.lift(tensors)) for _ in range(2))
        left = v1.get_collection(v1.GraphKeys.QUEUE_RUNNERS)
        assert [runner.queue.name for runner in runners] == ["input_producer", "batch/fifo_queue"]
        assert left == []
        with v1.Session() as session:
            session.run(v1.local_variables_initializer())
            v1.train.start_queue_runners(session)
            outputs = [plain(session.run(first)) for _ in range(4)]
            assert plain(session.run(again))["number"].tolist() == [0, 1, 2]
    for ours, theirs in zip(outputs, map(plain, legacy.lift(batches)), strict=True):
        assert_equal_elements(ours, theirs)


@contextlib.contextmanager
def running(session):
    """Run the queue runners of a graph."""
    coordinator = tf.train.Coordinator()
    threads = v1.train.start_queue_runners(session, coordinator)
    yield
    coordinator.request_stop()
    coordinator.join(threads)


def by_hand(kind, fill):
    """A queue of one's own with a runner that fills it from Python or from another queue of one's own."""
    numbers = iter(range(40))
    if fill == "python":
        number = v1.py_func(lambda: np.int64(next(numbers)), [], tf.int64)
        number.set_shape([])
    else:
        number = tf.cast(v1.train.range_input_producer(40, num_epochs=1, shuffle=False).dequeue(), tf.int64)
    if fill == "queue":
        between = tf.queue.FIFOQueue(3, [tf.int64], shapes=[[]])
        v1.train.add_queue_runner(v1.train.QueueRunner(between, [between.enqueue(number)]))
        number = between.dequeue()
    queue = {
        "random": v1.RandomShuffleQueue(10, 0, [tf.int64], shapes=[[]]),
        "first": tf.queue.FIFOQueue(9, tf.int64, []),
    }[kind]
    v1.train.add_queue_runner(v1.train.QueueRunner(queue, [queue.enqueue([number])] * 2))
    return queue


@pytest.mark.parametrize("fill", ["python", "producer", "queue"])
@pytest.mark.parametrize("kind", ["random", "first"])
@pytest.mark.parametrize("starting", ["all", "each"])
def test_runners_of_lifted_queues_eat_nothing(kind, fill, starting):
    """All that a queue by hand holds comes, though the script starts its runners; those before it rest, too."""
    outputs = []
    with tf.Graph().as_default(), v1.Session() as session:
        queue = by_hand(kind, fill)
        runners = v1.get_collection(v1.GraphKeys.QUEUE_RUNNERS)
        number = legacy.get_next(legacy.lift(queue.dequeue()))
        assert v1.get_collection(v1.GraphKeys.QUEUE_RUNNERS) == []
        session.run(v1.local_variables_initializer())
        if starting == "each":
            assert [thread for runner in runners for thread in runner.create_threads(session, start=True)] == []
        else:
            v1.train.start_queue_runners(session)
        with contextlib.suppress(tf.errors.OutOfRangeError):
            while True:
                outputs.append(int(session.run(number)))
    assert sorted(outputs) == [*range(40)]


def test_python_that_fills_a_queue_for_two_is_not_lifted_for_one():
    """Threads would go on taking from the function what the dataset misses; files are read once more for each."""
    for fill in ("python", "producer"):
        with tf.Graph().as_default():
            queue = by_hand("first", fill)
            other, mine = queue.dequeue(), queue.dequeue()
            if fill == "python":
                with pytest.raises(sr.LiftError, match="a Python function fills the queue, and 'fifo_queue_Dequeue'"):
                    legacy.lift(mine)
            else:
                lifted = legacy.get_next(legacy.lift(mine))
                with v1.Session() as session:
                    session.run(v1.local_variables_initializer())
                    with running(session):
                        assert session.run(other) in range(2)
                        assert session.run(lifted) in range(2)


def test_queues_whose_threads_run_are_not_lifted():
    """What they have put into the queue is in no dataset."""
    with tf.Graph().as_default(), v1.Session() as session:
        queue = by_hand("first", "producer")
        session.run(v1.local_variables_initializer())
        with running(session), pytest.raises(sr.LiftError, match=r"its threads have started.*lift before tf\.train\."):
            legacy.lift(queue.dequeue())


@pytest.mark.parametrize("taken", ["read", "dequeued", "parts"])
def test_tensors_that_divide_a_queue_are_lifted_together(taken):
    """Each of several lifts would give all that a queue holds, of which each took a part."""
    with tf.Graph().as_default():
        queue = v1.train.string_input_producer(["a", "b"], shuffle=False, num_epochs=1)
        read = v1.IdentityReader().read(queue)
        take = {
            "read": lambda _: v1.IdentityReader().read(queue)[1],
            "dequeued": lambda _: queue.dequeue(),
            "parts": lambda number: read[number],
        }[taken]
        legacy.get_next(legacy.lift(take(0)))
        legacy.get_next(legacy.lift(v1.train.range_input_producer(3, shuffle=False, num_epochs=1).dequeue()))
        second = take(1)
        with pytest.raises(sr.errors.LiftError, match=r"lifted before: each lift yields all.*together") as raised:
            legacy.lift(second)
        assert __file__ in str(raised.value)


def test_tensors_are_lifted_in_their_graph_only():
    """Outside of it they are of none that could be asked; and its seed is already in them."""
    with tf.Graph().as_default():
        tensors = batches()
        with pytest.raises(sr.errors.OptionError, match="graph_seed: the tensors are in a graph"):
            legacy.lift(tensors, graph_seed=3)
    with pytest.raises(sr.errors.LiftError, match="expected a function, got dict"):
        legacy.lift(tensors)


def test_it_is_lifted_again():
    """A function that contains a lifted pipeline is lifted as one, with all stages."""

    def input_fn():
        batch = legacy.get_next(legacy.trace(batches))
        return v1.train.batch([batch["number"] + 1], 4, enqueue_many=True)

    lifted = legacy.trace(input_fn)
    np.testing.assert_array_equal(np.concatenate(list(lifted.dataset.as_numpy_iterator())), np.arange(8) + 1)
    assert "a producer of 10 elements" in lifted.stages[0].original
    assert lifted.exact


def test_other_orders_are_drawn_after_old_scripts_turned_tensorflow_2_off():
    """Without a seed each run has orders of its own, and nothing warns of what only TensorFlow 2 can do."""
    tf2.disable()
    try:
        dataset = legacy.lift(lambda: v1.train.range_input_producer(50, num_epochs=1).dequeue())
        first, second = (tuple(dataset.as_numpy_iterator()) for _ in range(2))
        assert not tf2.enabled()
    finally:
        tf2.enable()
    assert first != second
    assert sorted(first) == sorted(second) == list(range(50))


def test_errors_reach_the_session():
    """What goes wrong while reading is an error of the step, with its cause."""

    def missing():
        return v1.WholeFileReader().read(v1.train.string_input_producer(["/no/such/file"], num_epochs=1)).value

    dataset = legacy.lift(missing)
    with pytest.raises(tf.errors.UnknownError, match="NotFoundError.*/no/such/file"):
        queue_run(lambda: legacy.get_next(dataset))


def test_without_a_graph():
    """Where nothing is a graph, a loop over the dataset does the same; that is what the error says."""
    with pytest.raises(sr.LiftError, match="eager execution is on, so there is no graph; .*iterate over the dataset"):
        legacy.get_next(tf.data.Dataset.range(3))
