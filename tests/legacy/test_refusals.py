"""What cannot be lifted says so, names the operation, and shows the way out."""

import pickle
import re
import threading

import numpy as np
import pytest
import tensorflow as tf
from queue_runs import assert_lifts_exactly, v1

import seqrecorder as sr
from seqrecorder import legacy


def numbers():
    return v1.train.range_input_producer(9, num_epochs=1, shuffle=False).dequeue()


def fed_queue():
    queue = tf.queue.FIFOQueue(9, [tf.int32], shapes=[[]], name="fed")
    queue.enqueue(v1.placeholder(tf.int32, []))
    return queue.dequeue()


def fed_by_thread():
    queue = tf.queue.FIFOQueue(9, [tf.int32], shapes=[[]], name="fed")

    class Feeder(v1.train.QueueRunner):
        def _run(self, sess, enqueue_op, coord=None):  # noqa: ARG002 - the original's
            threading.current_thread()

    v1.train.add_queue_runner(Feeder(queue, [queue.enqueue(v1.placeholder(tf.int32, []))]))
    return queue.dequeue()


def fed_by_runner():
    queue = tf.queue.FIFOQueue(9, [tf.int32], shapes=[[]])
    v1.train.add_queue_runner(v1.train.QueueRunner(queue, [queue.enqueue(v1.placeholder(tf.int32, [], name="holder"))]))
    return queue.dequeue()


def filled_in_the_same_step():
    names = v1.train.string_input_producer(["a", "b"], num_epochs=1)
    handed = tf.queue.FIFOQueue(1, [tf.string], shapes=[[]], name="handed")
    with tf.control_dependencies([handed.enqueue(names.dequeue())]):
        return v1.WholeFileReader().read(handed).value


def filled_for_what_is_dequeued():
    handed = tf.queue.FIFOQueue(1, [tf.int32], shapes=[[]], name="handed")
    with tf.control_dependencies([handed.enqueue(numbers())]):
        return handed.dequeue()


def two_at_a_time():
    queue = tf.queue.FIFOQueue(9, [tf.int32], shapes=[[]], name="twice")
    both = tf.group(queue.enqueue(numbers()), queue.enqueue(3))
    v1.train.add_queue_runner(v1.train.QueueRunner(queue, [both]))
    return queue.dequeue()


def chosen_queue():
    queues = [tf.queue.FIFOQueue(9, [tf.int32], shapes=[[]]) for _ in range(2)]
    return tf.queue.QueueBase.from_list(tf.constant(1), queues).dequeue()


def in_a_branch():
    queue = v1.train.range_input_producer(3, shuffle=False)
    return tf.cond(tf.constant(True) & (numbers() > 3), queue.dequeue, lambda: 0)


def in_different_ways():
    reader = v1.TextLineReader()
    queue = v1.train.string_input_producer(["a"], num_epochs=1)
    return reader.read(queue).value, reader.read_up_to(queue, 2)


def of_towers():
    queue = tf.queue.PaddingFIFOQueue(9, [tf.int32], shapes=[[None]])
    v1.train.add_queue_runner(v1.train.QueueRunner(queue, [queue.enqueue([tf.range(numbers())])]))
    return [queue.dequeue() for _ in range(3)]


def counts():
    queue = v1.train.range_input_producer(9, shuffle=False)
    return queue.dequeue() + queue.size()


def reader_counts():
    reader = v1.WholeFileReader()
    queue = v1.train.string_input_producer(["a"])
    return reader.read(queue).key, reader.num_records_produced()


def changes_a_variable():
    seen = v1.get_variable("seen", initializer=0, use_resource=True)
    return numbers() + v1.assign_add(seen, 1)


def changes_a_reference():
    seen = v1.get_variable("seen", initializer=0, use_resource=False)
    return numbers() + v1.assign_add(seen, 1)


def keeps_a_state():
    stack = tf.raw_ops.StackV2(max_size=3, elem_type=tf.int32)
    return tf.raw_ops.StackPushV2(handle=stack, elem=numbers())


def uses_the_count():
    counter = v1.get_variable("count", initializer=0, use_resource=False)
    return numbers() + counter.count_up_to(3)


def of_read_size():
    return tf.queue.QueueBase.dequeue_many(v1.train.range_input_producer(9, shuffle=False), numbers())


def of_no_size():
    return v1.train.range_input_producer(9, shuffle=False).dequeue_many(0)


def from_an_iterator():
    return (
        numbers()
        + v1.data.make_one_shot_iterator(tf.data.Dataset.range(3).map(lambda x: tf.cast(x, tf.int32))).get_next()
    )


REFUSED = {
    fed_queue: ("fed: no QueueRunner fills the queue; 'fed_enqueue' does", "lift(..., feed={'fed': dataset})"),
    fed_by_thread: ("fed: the queue is filled by a Feeder, which runs Python", "enqueue the result of a tf.py_func"),
    fed_by_runner: ("holder: it is a placeholder, fed from Python at each step", "feed={queue: dataset}"),
    filled_in_the_same_step: (
        "handed: each step fills the queue just before it reads it, and no QueueRunner does",
        "leave the queue out",
    ),
    filled_for_what_is_dequeued: ("handed: each step fills the queue just before it reads it", "use tensors directly"),
    two_at_a_time: (
        "twice: a thread runs 'group_deps', which fills the queue 2 times at once",
        "one enqueue operation",
    ),
    chosen_queue: ("an operation of type", "choose the queue in Python"),
    in_a_branch: ("FIFOQueue 'input_producer' is used inside a tf.cond or a loop", "dequeue before the branch"),
    in_different_ways: ("several operations take from TextLineReader", "take from it once"),
    of_towers: ("several operations take from PaddingFIFOQueue", "take from it once"),
    counts: ("the size of a queue is used", "leave it out"),
    reader_counts: (
        "ReaderNumRecordsProducedV2 uses WholeFileReader 'WholeFileReaderV2' for something other",
        "enumerate",
    ),
    changes_a_variable: ("AssignAddVariableOp changes 'seen' while the pipeline runs", "leave it out"),
    changes_a_reference: ("AssignAdd", "leave it out"),
    keeps_a_state: ("an operation of type StackPushV2 has state", "leave it out"),
    uses_the_count: ("the epoch counter is used", "enumerate"),
    of_read_size: (
        "such as a batch size, got a number that is random or read from a queue",
        "batch the lifted dataset",
    ),
    of_no_size: ("expected a batch size of 1 or more, got 0", "at least 1"),
    from_an_iterator: ("it takes from a tf.data iterator", "without lift"),
    lambda: tf.constant(1): ("depend on no queue or reader", "constants need no lift"),
    lambda: tf.data.Dataset.range(3): ("the function returns a tf.data.Dataset", "call the function itself"),
    lambda: (numbers(), object()): (
        "expected a function that returns tensors, got object",
        "return the tensors",
    ),
}


@pytest.mark.parametrize("input_fn", REFUSED, ids=lambda function: function.__name__.strip("<>"))
def test_refused(input_fn):
    """The reason and the way out are named, together and apart."""
    reason, advice = REFUSED[input_fn]
    with pytest.raises(sr.LiftError) as caught:
        legacy.lift(input_fn)
    assert reason in f"{caught.value.op}: {caught.value.reason}"
    assert caught.value.reason in str(caught.value)
    assert advice in caught.value.advice
    assert isinstance(caught.value, ValueError)
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own
    assert (str(again), again.op, again.reason) == (str(caught.value), caught.value.op, caught.value.reason)
    assert (caught.value.location is None) == (caught.value.op is None)


@pytest.mark.parametrize("input_fn", [fed_queue, fed_by_thread, fed_by_runner])
def test_the_way_out_of_queues_fed_from_python(input_fn):
    """Whoever gives a dataset of what Python put into a queue has the rest lifted."""
    name = "fifo_queue" if input_fn is fed_by_runner else "fed"
    lifted = legacy.trace(input_fn, feed={name: tf.data.Dataset.range(3).map(lambda n: tf.cast(n, tf.int32))})
    assert list(lifted.dataset.as_numpy_iterator()) == [0, 1, 2]
    assert f"FIFOQueue {name!r} is filled from Python\n" in str(lifted)
    assert lifted.exact


def test_the_way_out_of_python_in_queue_runners():
    """What a function of a QueueRunner of one's own computed is lifted as a `tf.py_func`."""

    def input_fn():
        queue = tf.queue.FIFOQueue(9, [tf.int32])
        computed = v1.py_func(lambda number: np.full(number, number, np.int32), [numbers()], [tf.int32])
        v1.train.add_queue_runner(v1.train.QueueRunner(queue, [queue.enqueue(computed)]))
        vector = queue.dequeue()
        vector.set_shape([None])
        return v1.train.batch([vector], 3, dynamic_pad=True)

    _, outputs = assert_lifts_exactly(input_fn)
    assert [batch.shape for batch in outputs] == [(3, 2), (3, 5), (3, 8)]


def of_components():
    queue = tf.queue.PriorityQueue(9, [tf.string, tf.int32], shapes=[[], [2]], name="fed")
    return queue.dequeue_many(2)


def test_datasets_for_queues():
    """A dataset for a queue has its components, priority and all; single elements, though Python put many at a time."""
    rows = tf.data.Dataset.from_tensor_slices(
        (np.array([3, 1, 2, 0]), list("abcd"), np.arange(8, dtype=np.int32).reshape(4, 2))
    )
    outputs = list(legacy.lift(of_components, feed={"fed:0": rows}).as_numpy_iterator())
    assert [(p.tolist(), t.tolist(), x.tolist()) for p, t, x in outputs] == [
        ([0, 1], [b"d", b"b"], [[6, 7], [2, 3]]),
        ([2, 3], [b"c", b"a"], [[4, 5], [0, 1]]),
    ]
    message = (
        r"feed: 'fed' takes elements of \(int64 \(\), string \(\), int32 \(2,\)\) one by one, but the dataset has "
    )
    for wrong, has in (
        (rows.batch(2), r"\(int64 \(None,\), string \(None,\), int32 \(None, 2\)\)"),
        (rows.map(lambda p, t, x: (p, x)), r"\(int64 \(\), int32 \(2,\)\)"),
        (rows.map(lambda p, t, x: (t, t, x)), r"\(string \(\), string \(\), int32 \(2,\)\)"),
    ):
        with pytest.raises(sr.OptionError, match=message + has):
            legacy.lift(of_components, feed={"fed": wrong})
    with pytest.raises(sr.OptionError, match="feed: 'fed' is a queue, so give a tf.data.Dataset of what is put into"):
        legacy.lift(of_components, feed={"fed": [1]})
    with tf.Graph().as_default():
        of_a_graph = tf.data.Dataset.from_tensors(1)
    with pytest.raises(sr.OptionError, match="feed: the dataset for 'fed' belongs to a graph.*give a function that"):
        legacy.lift(of_components, feed={"fed": of_a_graph})
    with tf.Graph().as_default(), pytest.raises(sr.OptionError, match=message + r"\(int32 \(\)\)"):
        legacy.lift(of_components, feed={"fed": lambda: tf.data.Dataset.from_tensors(1)})


def test_the_place_in_the_script_is_named():
    """Whoever does not know an operation by its name finds the line that made it."""
    first = counts.__code__.co_firstlineno
    with pytest.raises(
        sr.LiftError, match=rf"input_producer_Size \({re.escape(__file__)}, line {first + 2}\): the size"
    ):
        legacy.lift(counts)


def test_tensors_of_another_graph():
    """A tensor that was made before, outside of the function, is refused."""
    with tf.Graph().as_default():
        other = tf.constant(1)
    for outside in (other, tf.constant(1)):
        with pytest.raises(sr.LiftError, match="does not belong to the function's graph"):
            legacy.lift(lambda outside=outside: (numbers(), outside))


def test_names_of_the_first_tensorflow():
    """Whoever forgot `compat` is told of it, and sees where the name was used."""
    with pytest.raises(
        sr.LiftError, match=r"no attribute 'TFRecordReader'\); import its module inside `with seq"
    ) as caught:
        legacy.lift(lambda: tf.TFRecordReader().read([]))
    assert isinstance(caught.value.__cause__, AttributeError)
    with pytest.raises(AttributeError, match="'list' object has no attribute 'x'"):
        legacy.lift(lambda: [].x)


def test_errors_of_the_function_are_its_own():
    """What the input function raises comes through, and what its queues would have hidden is raised as it happens."""
    with pytest.raises(ValueError, match="requires a non-null input tensor"):
        legacy.lift(lambda: v1.train.string_input_producer([]))

    def missing():
        return v1.TFRecordReader().read(v1.train.string_input_producer(["/no/such/file"], num_epochs=1)).value

    with pytest.raises(tf.errors.NotFoundError, match="/no/such/file"):
        list(legacy.lift(missing))


def test_a_competitor_that_is_not_lifted_is_noted():
    """Where another queue runner took a part of the elements away, all of them come now; that is said in a warning."""

    def input_fn():
        number = numbers()
        v1.train.batch([number * 2], 3)
        return v1.train.batch([number], 3)

    with pytest.warns(UserWarning, match=r"lift: 'batch/fifo_queue_enqueue' took some elements of 'input_producer'"):
        lifted = legacy.trace(input_fn)
    assert "note: " in str(lifted)
    assert not lifted.exact


def test_explanation(records, capsys):
    """`explain=True` prints each stage as it was found, what takes its place, and what about the order was open."""

    def input_fn():
        queue = v1.train.string_input_producer(records, num_epochs=2, seed=7)
        key, value = v1.TFRecordReader().read(queue)
        return v1.train.shuffle_batch([key, value], 4, capacity=20, min_after_dequeue=5)

    first = input_fn.__code__.co_firstlineno
    legacy.lift(input_fn, explain=True)
    assert capsys.readouterr().out.replace(f"in {__file__}, line ", "in line ") == (
        "1. a producer of 4 elements, 2 times, shuffled each time, seeds (87654321, 7)\n"
        f"   in line {first + 1}\n"
        "   -> range(2).map(RandomShuffle).unbatch()\n"
        "2. read of TFRecordReader 'TFRecordReaderV2'\n"
        f"   in line {first + 2}\n"
        "   -> flat_map(tf_records(path))\n"
        "3. RandomShuffleQueue 'shuffle_batch/random_shuffle_queue' is filled\n"
        f"   in line {first + 3}\n"
        "   -> unchanged\n"
        "4. RandomShuffleQueue 'shuffle_batch/random_shuffle_queue'\n"
        f"   in line {first + 3}\n"
        "   -> shuffle(20)\n"
        "   order not fixed: shuffled with a buffer of 20\n"
        "5. dequeue_many(4) of RandomShuffleQueue 'shuffle_batch/random_shuffle_queue'\n"
        f"   in line {first + 3}\n"
        "   -> batch(4, drop_remainder=True)\n"
        "order: not fixed in the original; the examples are the same\n"
    )


def test_variables_from_outside_are_refused():
    """A variable that was made before the graph cannot be part of it: the line that uses it is named."""
    step = tf.Variable(0, trainable=False)

    def input_fn():
        return v1.train.batch([numbers(), tf.identity(step)], 2)

    line = input_fn.__code__.co_firstlineno + 1
    for call in (legacy.lift, legacy.convert):
        with pytest.raises(sr.LiftError, match=rf"test_refusals\.py, line {line} uses a variable.*made outside"):
            call(input_fn)


def test_errors_of_sessions_name_their_cause(tmp_path):
    """A missing file is named by the error of a function that gives no batch."""

    def input_fn():
        queue = v1.train.string_input_producer([str(tmp_path / "nope.csv")], num_epochs=1)
        return v1.train.batch([v1.TextLineReader().read(queue)[1]], 2)

    with pytest.raises(sr.LiftError, match=r"no batch: NotFoundError: .*nope\.csv; No such file"):
        legacy.convert(input_fn)
