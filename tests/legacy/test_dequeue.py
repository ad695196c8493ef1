"""Queues made by hand, with queue runners: lifted, against their own queue runs."""

import numpy as np
import pytest
import tensorflow as tf
from queue_runs import assert_lifts_exactly, assert_lifts_in_another_order, queue_run, rest_after, v1

import seqrecorder as sr
from seqrecorder import legacy


def filled(queue, op, threads=1):
    """Add a queue runner, and return the queue."""
    v1.train.add_queue_runner(v1.train.QueueRunner(queue, [op] * threads))
    return queue


def numbers(limit=20, epochs=1):
    return v1.train.range_input_producer(limit, num_epochs=epochs, shuffle=False).dequeue()


TAKES = {
    "dequeue": lambda queue: queue.dequeue(),
    "many": lambda queue: queue.dequeue_many(6),
    "up to": lambda queue: queue.dequeue_up_to(6),
}


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("pad", [False, True])
def test_fifo_queues(take, pad):
    """FIFO queues keep the order; padding queues pad what is taken together."""

    def input_fn():
        number = numbers()
        steps = tf.range(number % 5 if pad else 3)
        kind = tf.queue.PaddingFIFOQueue if pad else tf.queue.FIFOQueue
        queue = kind(30, [tf.int32, tf.int32, tf.bool], shapes=[[], [None if pad else 3], []])
        return TAKES[take](filled(queue, queue.enqueue([number, steps, number > 3])))

    assert_lifts_exactly(input_fn)


@pytest.mark.parametrize("epochs", [pytest.param(1, marks=pytest.mark.nightly), 3])
def test_the_idiom_of_sequence_examples(tmp_path, epochs):
    """A random queue without shapes, `set_shape`, then a padding queue: shuffle_batch does not pad."""
    path = str(tmp_path / "sequences.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for number in range(17):
            example = tf.train.SequenceExample()
            example.context.feature["length"].int64_list.value.append(number % 4 + 1)
            for name in ("tokens", "labels"):
                for step in range(number % 4 + 1):
                    feature = example.feature_lists.feature_list[name].feature.add()
                    feature.int64_list.value.append(10 * number + step)
            writer.write(example.SerializeToString())

    def input_fn(shuffle=True):
        queue = v1.train.string_input_producer([path], num_epochs=epochs)
        _, serialized = v1.TFRecordReader().read(queue)
        step = tf.io.FixedLenSequenceFeature([], tf.int64)
        context, lists = tf.io.parse_single_sequence_example(
            serialized,
            context_features={"length": tf.io.FixedLenFeature([], tf.int64)},
            sequence_features={"tokens": step, "labels": step},
        )
        tensors = [context["length"], lists["tokens"], lists["labels"]]
        types, shapes = [t.dtype for t in tensors], [t.shape for t in tensors]
        if shuffle:
            random = filled(r := tf.queue.RandomShuffleQueue(12, 5, types), r.enqueue(tensors), 2)
            tensors = random.dequeue()
            for tensor, shape in zip(tensors, shapes, strict=True):
                tensor.set_shape(shape)
        padding = tf.queue.PaddingFIFOQueue(20, types, shapes=shapes)
        length, tokens, labels = filled(padding, padding.enqueue(tensors)).dequeue_up_to(4)
        return {"lengths": length, "tokens": tokens, "labels": labels}

    unshuffled, _ = assert_lifts_exactly(lambda: input_fn(shuffle=False))
    shuffled = legacy.trace(input_fn)
    assert not shuffled.exact
    assert shuffled.dataset.element_spec == unshuffled.dataset.element_spec
    batches = list(shuffled.dataset.as_numpy_iterator())
    assert [len(batch["lengths"]) for batch in batches] == [4] * (17 * epochs // 4) + [17 * epochs % 4]
    outputs = sorted(
        tuple(row[:n]) for batch in batches for row, n in zip(batch["tokens"].tolist(), batch["lengths"], strict=True)
    )
    assert outputs == sorted([tuple(10 * i + s for s in range(i % 4 + 1)) for i in range(17)] * epochs)


def test_random_queue_gives_everything_once():
    """What a random queue holds comes once, in some order."""

    def input_fn():
        queue = tf.queue.RandomShuffleQueue(10, 2, [tf.int32, tf.float32], shapes=[[], [2]], seed=3)
        number = numbers()
        return filled(queue, queue.enqueue([number, tf.cast([number, -number], tf.float32)]), 2).dequeue_many(4)

    assert_lifts_in_another_order(input_fn)


@pytest.mark.parametrize("capacity", [1, 4, 50])
def test_priority_queue(capacity):
    """The lowest priority of those that a full queue holds comes first, and the first of equals."""
    priorities = np.random.default_rng(5).integers(0, 6, 20)

    def input_fn():
        priority, number = v1.train.slice_input_producer([priorities, np.arange(20)], num_epochs=1, shuffle=False)
        queue = tf.queue.PriorityQueue(capacity, [tf.int64, tf.string], shapes=[[], []])
        return filled(queue, queue.enqueue([priority, number, tf.strings.as_string(number)])).dequeue()

    queued, waiting, expected = [], list(zip(priorities.tolist(), range(20), strict=True)), []
    while waiting or queued:
        while waiting and len(queued) < capacity:
            queued.append(waiting.pop(0))
        expected.append(min(queued))
        queued.remove(expected[-1])
    outputs = [(int(p), int(n)) for p, n, _ in legacy.lift(input_fn)]
    assert outputs == expected
    assert sorted(outputs) == sorted((int(p), int(n)) for p, n, _ in queue_run(input_fn))


def test_chains_of_queues():
    """Queues may follow one another, single elements and many, with operations between them."""

    def input_fn():
        first = tf.queue.FIFOQueue(5, [tf.int32], shapes=[[]])
        filled(first, first.enqueue(numbers(7, 3) * 2))
        second = tf.queue.FIFOQueue(5, [tf.int32, tf.int32], shapes=[[], [2]])
        four = first.dequeue_many(4)
        filled(second, second.enqueue_many([four, tf.stack([four, four + 1], 1)]))
        return second.dequeue_many(3)

    assert_lifts_exactly(input_fn)


def test_several_outputs_side_by_side():
    """What is returned may come from several sources, one element of each at a time, until the first one ends."""

    def input_fn():
        words = v1.train.string_input_producer(list("abcde"), num_epochs=1, shuffle=False)
        return {"word": words.dequeue(), "batch": v1.train.batch([numbers(20)], 3), "number": numbers(9)}

    lifted, outputs = assert_lifts_exactly(input_fn)
    assert len(outputs) == 5
    assert "in one step" in str(lifted)


def test_parallel_files_stay_aligned(tmp_path):
    """Two readers of files that belong together are read in step, as when one thread reads both."""
    paths = {}
    for name in ("source", "target"):
        paths[name] = [str(tmp_path / f"{name}{i}") for i in range(2)]
        for i, path in enumerate(paths[name]):
            with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 - a str
                file.writelines(f"{name} {i} {line}\n" for line in range(3 + i))

    def input_fn():
        lines = []
        for name in ("source", "target"):
            queue = v1.train.string_input_producer(paths[name], num_epochs=2, shuffle=False)
            lines.append(v1.TextLineReader().read(queue).value)
        return v1.train.batch(lines, 2)

    assert_lifts_exactly(input_fn)


def test_independent_sources_fill_one_queue_in_turn():
    """Sources of their own that fill one queue are taken in turn, each to its end."""

    def input_fn():
        queue = tf.queue.FIFOQueue(50, [tf.int32], shapes=[[]])
        ops = [queue.enqueue(numbers(3)), queue.enqueue(numbers(6) + 100)]
        v1.train.add_queue_runner(v1.train.QueueRunner(queue, ops))
        return queue.dequeue_many(3)

    assert [batch.numpy().tolist() for batch in legacy.lift(input_fn)] == [[0, 100, 1], [101, 2, 102], [103, 104, 105]]
    assert_lifts_in_another_order(input_fn)


def test_shared_names_are_one_queue():
    """Queues of one shared name are one queue."""

    def input_fn():
        number = numbers(6)
        first = tf.queue.FIFOQueue(50, [tf.int32], shapes=[[]], shared_name="examples")
        filled(first, first.enqueue(number))
        return tf.queue.FIFOQueue(50, [tf.int32], shapes=[[]], shared_name="examples").dequeue_many(2)

    assert len(list(legacy.lift(input_fn))) == 3


def test_a_queue_is_returned():
    """For a queue in what is returned stands what it gives next."""
    dataset = legacy.lift(lambda: v1.train.range_input_producer(3, num_epochs=1, shuffle=False))
    assert list(dataset.as_numpy_iterator()) == [0, 1, 2]


def test_grouped_enqueue_and_side_effects(capfd):
    """What runs with an enqueue runs with the lifted one as well."""

    def input_fn():
        number = numbers(3)
        queue = tf.queue.FIFOQueue(5, [tf.int32], shapes=[[]])
        op = tf.group(queue.enqueue(number), v1.print("number", number))
        return filled(queue, op).dequeue()

    assert list(legacy.lift(input_fn).as_numpy_iterator()) == [0, 1, 2]
    assert "number 2" in capfd.readouterr().err


def test_random_operations_follow_their_seeds():
    """Seeded random operations give what they gave in one thread, and start anew in each iteration."""

    def input_fn():
        number = tf.cast(numbers(8, 2), tf.float32)
        noise = v1.random_uniform([2], seed=11) + number
        image = tf.image.random_flip_left_right(tf.reshape(tf.range(12.0), [2, 2, 3]), seed=4)
        return v1.train.batch([noise, image], 3)

    lifted, outputs = assert_lifts_exactly(input_fn)
    again = [batch[0].numpy() for batch in lifted.dataset]
    np.testing.assert_array_equal(again, [batch[0] for batch in outputs])


def test_python_functions_still_run():
    """A `tf.py_func` of the input function is called, also once nothing else refers to it."""

    def input_fn():
        doubled = v1.py_func(lambda x: np.int32(2 * x), [numbers(4)], tf.int32)
        doubled.set_shape([])
        return v1.train.batch([doubled], 2)

    assert_lifts_exactly(input_fn)
    dataset = legacy.lift(input_fn)
    del input_fn
    assert [batch.numpy().tolist() for batch in dataset] == [[0, 2], [4, 6]]


def test_conditionals_and_loops_between_queues():
    """`tf.cond` and `tf.while_loop` are part of what is mapped."""

    def input_fn():
        number = numbers(6)
        flipped = tf.cond(number > 2, lambda: -number, lambda: number)
        _, total = v1.while_loop(lambda i, _: i < number, lambda i, t: (i + 1, t + i), [0, 0])
        return v1.train.batch([flipped, total], 3)

    assert_lifts_exactly(input_fn)


def test_functions_mapped_over_elements():
    """What `tf.map_fn` collects its results in is no state, and is part of what is mapped."""

    def input_fn():
        batch = v1.train.batch([v1.train.range_input_producer(6, num_epochs=1, shuffle=False).dequeue()], 3)
        return tf.map_fn(lambda number: number * 2, batch)

    assert_lifts_exactly(input_fn)


def test_resumes_from_a_checkpoint(tmp_path):
    """An iterator is saved and goes on where it was, in queues and in seeded orders of producers."""

    def input_fn():
        [number] = v1.train.slice_input_producer([np.arange(9)], num_epochs=3, seed=2)
        return v1.train.shuffle_batch([number], 2, capacity=7, min_after_dequeue=3, seed=1)

    dataset = legacy.lift(input_fn)
    everything = [batch.numpy().tolist() for batch in dataset]
    for position in (0, 3, 7, len(everything)):
        rest, _ = rest_after(dataset, position, tmp_path)
        assert [batch.tolist() for batch in rest] == everything[position:]


def test_resumes_inside_an_order_without_a_seed(tmp_path):
    """What was drawn for an order comes with the checkpoint; a new iterator draws anew."""
    dataset = legacy.lift(lambda: v1.train.range_input_producer(20, num_epochs=2))
    rest, iterator = rest_after(dataset, 25, tmp_path)
    assert rest == [number.numpy() for number in iterator]
    assert len(set(map(int, rest))) == len(rest) == 15
    assert [number.numpy() for number in dataset][25:] != rest


def test_shuffle_buffer_that_makes_no_sense():
    """The size of the shuffle buffer is checked before anything is built."""
    for wrong in ("all", 0, True, 2.5):
        with pytest.raises(sr.OptionError, match="shuffle_buffer: expected 'capacity', 'min_after_dequeue' or an int"):
            legacy.lift(lambda: None, shuffle_buffer=wrong)


def test_values_that_were_left_to_chance_are_said():
    """Where threads share random numbers, or the order of examples is open, no run gives the values of another."""

    def input_fn(seed, threads, shuffle=False):
        number = v1.train.range_input_producer(8, num_epochs=1, shuffle=False).dequeue()
        if shuffle:
            number = v1.train.shuffle_batch([number], 1, 8, 4)
        noisy = tf.cast(number, tf.float32) + v1.random_uniform([], seed=seed)
        return v1.train.batch([noisy], 2, num_threads=threads)

    for arguments, message in (
        ((None, 1), "values not fixed: RandomUniform 'random_uniform/RandomUniform' has no seed"),
        ((3, 2), "values not fixed: 2 threads shared the generator of RandomUniform"),
        ((3, 1, True), "values not fixed: the values of RandomUniform"),
    ):
        lifted = legacy.trace(lambda arguments=arguments: input_fn(*arguments))
        assert message in str(lifted)
        assert str(lifted).endswith("the examples are the same, except for random values")
        assert not lifted.exact
    assert "but for random values" not in str(assert_lifts_exactly(lambda: input_fn(3, 1))[0])


def test_queues_without_shapes_are_fed():
    """What a queue without declared shapes is fed with keeps its own shapes."""

    def inputs():
        waiting = tf.queue.FIFOQueue(4, [tf.float32, tf.int32], name="filled")
        rows, number = waiting.dequeue()
        rows.set_shape([None, 2])
        return rows, number

    examples = [(np.full((steps, 2), steps, "float32"), np.int32(steps)) for steps in (3, 5)]
    spec = tf.TensorSpec([None, 2]), tf.TensorSpec([], tf.int32)
    data = tf.data.Dataset.from_generator(lambda: iter(examples), output_signature=spec)
    outputs = list(sr.legacy.lift(inputs, feed={"filled": data}).as_numpy_iterator())
    assert [(rows.tolist(), number) for rows, number in outputs] == [
        (rows.tolist(), number) for rows, number in examples
    ]


@pytest.mark.parametrize("many", [False, True])
def test_queues_without_shapes_are_fed_what_the_graph_puts_in(many):
    """Elements, where the graph puts in those or many at a time: neither batches of them nor parts of one."""

    def inputs():
        waiting = tf.queue.FIFOQueue(4, [tf.float32], name="filled")
        put = waiting.enqueue_many if many else waiting.enqueue
        put([v1.placeholder(tf.float32, [None, 2] if many else [2])])
        return waiting.dequeue()

    rows = tf.data.Dataset.from_tensor_slices(np.arange(8, dtype="float32").reshape(4, 2))
    assert len(list(sr.legacy.lift(inputs, feed={"filled": rows}))) == 4
    message = r"feed: 'filled' takes elements of \(float32 \(2,\)\) one by one, but the dataset has "
    for wrong, has in (
        (rows.batch(2), r"\(float32 \(None, 2\)\): unbatch\(\) it$"),
        (rows.unbatch(), r"\(float32 \(\)\)$"),
    ):
        with pytest.raises(sr.OptionError, match=message + has):
            sr.legacy.lift(inputs, feed={"filled": wrong})
