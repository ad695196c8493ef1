"""`tf.train.batch` and its like: lifted, against their own queue runs."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from combinations import all_at_night
from queue_runs import assert_lifts_exactly, assert_lifts_in_another_order, v1

import seqrecorder as sr
from seqrecorder import legacy


def example(paths, reader=None, **options):
    """Read one record: its key, its number, and as many steps as its payload has digits."""
    options = {"num_epochs": 2, "seed": 7, **options}
    queue = v1.train.string_input_producer(paths, **options)
    key, value = (reader or v1.TFRecordReader()).read(queue)
    length = tf.strings.length(value)
    return {"key": key, "number": tf.strings.to_number(value, tf.int64), "steps": tf.range(length) + 1}


KINDS = {
    "dict": lambda e: {"key": e["key"], "number": e["number"]},
    "list": lambda e: [e["number"], e["key"]],
    "tuple": lambda e: (e["key"], e["number"]),
    "single": lambda e: [e["number"]],
    "one key": lambda e: {"number": e["number"]},
}


@pytest.mark.parametrize(
    ("kind", "smaller"),
    all_at_night(
        itertools.product(KINDS, [False, True]),
        [("dict", True), ("list", False), ("tuple", True), ("single", False), ("one key", True)],
    ),
)
def test_batch_keeps_structure_and_remainder(records, kind, smaller):
    """A list of one is a bare tensor; the remainder is dropped once, after all epochs, unless it is asked for."""
    _, outputs = assert_lifts_exactly(
        lambda: v1.train.batch(KINDS[kind](example(records)), 5, allow_smaller_final_batch=smaller)
    )
    assert len(outputs) == 36 // 5 + smaller


@pytest.mark.parametrize("smaller", [False, True])
def test_static_shapes_are_those_of_the_queues(records, smaller):
    """The batch dimension is known only where all batches are full."""
    dataset = legacy.lift(
        lambda: v1.train.batch([example(records)["number"][tf.newaxis]], 4, allow_smaller_final_batch=smaller)
    )
    assert dataset.element_spec == tf.TensorSpec([None if smaller else 4, 1], tf.int64)


@pytest.mark.parametrize("many", [False, True])
def test_dynamic_pad(records, many):
    """Unknown dimensions are padded to the longest of the batch, with zeros, empty text and False."""

    def input_fn():
        e = example(records)
        texts = tf.fill(tf.shape(e["steps"]), e["key"])
        tensors = [e["steps"], texts, e["steps"] > 1, tf.cast(e["steps"], tf.float32)[:, None] * [[1.0, 2.0]]]
        if many:
            tensors = [tf.stack([x, x]) for x in tensors]
        return v1.train.batch(tensors, 4, dynamic_pad=True, enqueue_many=many, allow_smaller_final_batch=True)

    _, outputs = assert_lifts_exactly(input_fn)
    assert {batch[0].shape[1] for batch in outputs} >= {2, 3, 4}


def test_enqueue_many(records):
    """Rows that are enqueued together are batched one by one, across the ends of files and epochs."""

    def input_fn():
        queue = v1.train.string_input_producer(records, num_epochs=2, shuffle=False)
        keys, values = v1.TFRecordReader().read_up_to(queue, 3)
        return v1.train.batch((keys, tf.strings.length(values)), 5, enqueue_many=True)

    assert_lifts_exactly(input_fn)


@pytest.mark.parametrize(
    ("many", "pad"), all_at_night(itertools.product([False, True], repeat=2), [(False, True), (True, True)])
)
def test_sparse_components(records, pad, many):
    """Sparse tensors pass through queues, alone and beside padded ones, and come out as one sparse tensor a batch."""

    def input_fn():
        e = example(records)
        sparse = tf.sparse.from_dense(tf.stack([e["steps"], 1 - e["steps"]]) if many else e["steps"] - 1)
        dense = tf.stack([e["number"], -e["number"]]) if many else e["number"]
        tensors = {"sparse": sparse, "dense": dense}
        if pad:
            tensors["steps"] = tf.stack([e["steps"]] * 2) if many else e["steps"]
        return v1.train.batch(tensors, 3, enqueue_many=many, dynamic_pad=pad, allow_smaller_final_batch=True)

    lifted, _ = assert_lifts_exactly(input_fn)
    assert isinstance(lifted.dataset.element_spec["sparse"], tf.SparseTensorSpec)


@pytest.mark.parametrize("many", ["one", "all", "each"])
def test_keep_input(records, many):
    """`maybe_batch` keeps what it is told to: an example, several at once, or some of several."""

    def input_fn():
        e = example(records)
        keep = e["number"] % 100 > 0
        if many == "one":
            return v1.train.maybe_batch({"k": e["key"], "s": e["steps"]}, keep, 4, dynamic_pad=True)
        rows = [tf.stack([e["key"], e["key"]]), tf.stack([e["number"], e["number"] + 1])]
        keep = keep if many == "all" else tf.stack([keep, e["number"] < 30])
        return v1.train.maybe_batch(rows, keep, 4, enqueue_many=True, allow_smaller_final_batch=True)

    assert_lifts_exactly(input_fn)


def test_keep_input_that_is_constant(records):
    """A `keep_input` of Python's True is none at all."""
    assert_lifts_exactly(lambda: v1.train.maybe_batch([example(records)["key"]], True, 4))


def test_threads_leave_the_order_open(records):
    """With several threads the examples are the same, and the pipeline says that their order was left to chance."""
    assert_lifts_in_another_order(
        lambda: v1.train.batch(KINDS["dict"](example(records)), 5, num_threads=3, allow_smaller_final_batch=True)
    )


def test_threads_that_take_from_two_sources_are_refused(records):
    """Which record of one source met which of the other was left to chance."""

    def input_fn():
        first, fives = example(records), v1.train.input_producer(tf.fill([6], 5), shuffle=False)
        second = tf.cast(fives.dequeue(), tf.int64)
        examples = [(first["key"], first["number"] * second), (first["key"], second * first["number"])]
        return v1.train.batch_join(examples, 4, allow_smaller_final_batch=True)

    with pytest.raises(sr.LiftError, match="that fill the queue share a source, but differ"):
        legacy.lift(input_fn)


def test_readers_of_two_kinds_are_refused(records):
    """Whether a file was read as a whole, or as its name, was left to chance."""

    def input_fn():
        queue = v1.train.string_input_producer(records, num_epochs=1, shuffle=False)
        read = [reader.read(queue) for reader in (v1.IdentityReader(), v1.WholeFileReader())]
        return v1.train.batch_join([list(each) for each in read], 1)

    with pytest.raises(sr.LiftError, match="that fill the queue share a source, but differ"):
        legacy.lift(input_fn)


@pytest.mark.parametrize("join", [False, True])
@pytest.mark.parametrize("maybe", [False, True])
def test_shuffle_batch(records, join, maybe):
    """Shuffled batches hold all epochs' examples, whether one or several readers fill the queue."""

    def input_fn():
        options = {"capacity": 12, "min_after_dequeue": 6, "allow_smaller_final_batch": True, "seed": 3}
        examples = several(records, 3 if join else 1)
        if maybe:
            options["keep_input"] = examples[0][1] > 20
        name = "maybe_" * maybe + "shuffle_batch" + "_join" * join
        return getattr(v1.train, name)(examples if join else examples[0], 4, **options)

    if join and maybe:
        with pytest.raises(sr.LiftError, match="that fill the queue share a source, but differ"):
            legacy.lift(input_fn)
    else:
        assert_lifts_in_another_order(input_fn)


def several(paths, count, transform=lambda pair, i: pair):
    """Several readers that share a queue of files, as input of the functions that join."""
    queue = v1.train.string_input_producer(paths, num_epochs=2, shuffle=False)
    pairs = [v1.TFRecordReader().read(queue) for _ in range(count)]
    return [transform((key, tf.strings.to_number(value, tf.int64)), i) for i, (key, value) in enumerate(pairs)]


@pytest.mark.parametrize("kind", ["plain", "pad", "many", "sparse", "maybe"])
def test_batch_join(records, kind):
    """Several readers that share a queue of files take whole files in turn; the examples are the same."""

    def transform(pair, _):
        key, number = pair
        steps = tf.range(number % 7)
        return {
            "pad": (key, steps),
            "many": (tf.stack([key, key]), tf.stack([number, -number])),
            "sparse": (key, tf.sparse.from_dense(tf.stack([number, 0]))),
        }.get(kind, pair)

    def input_fn():
        options = {"allow_smaller_final_batch": True, "dynamic_pad": kind == "pad", "enqueue_many": kind == "many"}
        pairs = several(records, 3, transform)
        if kind == "maybe":
            return v1.train.maybe_batch_join(pairs, True, 4, **options)
        return v1.train.batch_join(pairs, 4, **options)

    if kind in ("pad", "sparse"):  # rows have no fixed bytes of their own
        lifted = legacy.trace(input_fn)
        assert sum(len(batch[0]) for batch in lifted.dataset) == 36
        assert not lifted.exact
    else:
        assert_lifts_in_another_order(input_fn)


def test_branches_that_differ(records):
    """Where several threads each do something else, elements are dealt to them in turn."""

    def input_fn():
        queue = v1.train.string_input_producer(records, num_epochs=1, shuffle=False)
        key, value = v1.TFRecordReader().read(queue)
        serialized = v1.train.batch([key, tf.strings.to_number(value)], 1)
        shared = tf.queue.FIFOQueue(10, [tf.string, tf.float32], shapes=[[1], [1]])
        v1.train.add_queue_runner(v1.train.QueueRunner(shared, [shared.enqueue(serialized)]))
        branches = []
        for i in range(3):
            key, number = shared.dequeue()
            branches.append((key, number * 0 + i))
        return v1.train.batch_join(branches, 6, enqueue_many=True)

    lifted = legacy.trace(input_fn)
    numbers = np.concatenate([batch[1].numpy() for batch in lifted.dataset])
    np.testing.assert_array_equal(numbers, np.arange(18) % 3)
    assert not lifted.exact


def test_one_reader_in_several_branches(records):
    """One reader whose records several operations enqueue is read once."""

    def input_fn():
        queue = v1.train.string_input_producer(records, num_epochs=2, shuffle=False)
        reader = v1.TFRecordReader()
        return v1.train.batch_join([tuple(reader.read(queue)) for _ in range(2)], 5, allow_smaller_final_batch=True)

    assert_lifts_in_another_order(input_fn)


@pytest.mark.parametrize("reader", [v1.TFRecordReader, pytest.param(v1.TextLineReader, marks=pytest.mark.nightly)])
def test_keys_that_some_branches_use(records, texts, reader):
    """Keys are there wherever one of several branches uses them, whether readers are shared or not."""
    paths = records if reader is v1.TFRecordReader else texts

    def input_fn(shared):
        queue = v1.train.string_input_producer(paths, num_epochs=1, shuffle=False)
        readers = [reader()] * 2 if shared else [reader(), reader()]
        (_, value), (key, other) = (each.read(queue) for each in readers)
        return v1.train.batch_join([(value, value), (key, other)], 1)

    for shared in (False, True):
        lifted = legacy.lift(lambda shared=shared: input_fn(shared))
        outputs = [(first.item(), second.item()) for first, second in lifted.as_numpy_iterator()]
        keys = [first.rpartition(b":")[0].decode() for first, second in outputs if first != second]
        assert keys
        assert set(keys) <= set(paths)
        both = legacy.text_lines(paths) if reader is v1.TextLineReader else legacy.tf_records(paths)
        assert sorted(second for _, second in outputs) == sorted(value for _, value in both.as_numpy_iterator())


def test_a_key_alone(records):
    """A key may be returned as it is read, with or without its value."""

    def input_fn(*parts):
        queue = v1.train.string_input_producer(records, num_epochs=1, seed=1)
        pair = v1.TFRecordReader().read(queue)
        return tuple(pair[part] for part in parts)

    for parts in ((0,), (1,), (1, 0)):
        assert_lifts_exactly(lambda parts=parts: input_fn(*parts))


def test_epochs_are_mixed_by_shuffling(records):
    """Shuffling comes after repeating, so a buffer larger than an epoch mixes epochs."""

    def input_fn():
        e = example(records, num_epochs=20, shuffle=False)
        return v1.train.shuffle_batch([e["number"]], 18, capacity=400, min_after_dequeue=300)

    batches = list(legacy.lift(input_fn))
    assert len(batches) == 20
    assert any(len(set(batch.numpy().tolist())) < 18 for batch in batches)


@pytest.mark.parametrize(("buffer", "first"), [("capacity", 30), ("min_after_dequeue", 10), (1, 1)])
def test_shuffle_buffer(buffer, first):
    """The first element is one of those that the random queue holds, however many it is said to hold."""

    def input_fn():
        number = v1.train.range_input_producer(100, shuffle=False).dequeue()
        return v1.train.shuffle_batch([number], 1, capacity=30, min_after_dequeue=10, seed=1)

    dataset = legacy.lift(input_fn, shuffle_buffer=buffer)
    numbers = [int(x[0]) for x in dataset.take(40)]
    assert all(number < position + first for position, number in enumerate(numbers))
    assert [int(x[0]) for x in dataset.take(40)] == numbers, "a seeded queue has an order of its own"


def test_slices_and_ranges():
    """Slices of several arrays stay aligned, and ranges are shuffled epoch by epoch, by the seed."""
    words, numbers = np.array(list("abcdefg")), np.arange(14).reshape(7, 2)

    def slices():
        word, row = v1.train.slice_input_producer([words, numbers], num_epochs=3, seed=5)
        return v1.train.batch({"word": word, "row": row}, 4, allow_smaller_final_batch=True)

    _, outputs = assert_lifts_exactly(slices)
    assert {(b["word"][i], *b["row"][i]) for b in outputs for i in range(len(b["word"]))} == {
        (word.encode(), *row) for word, row in zip(words, numbers.tolist(), strict=True)
    }

    def ranges():
        return v1.train.batch([v1.train.range_input_producer(7, num_epochs=2, shuffle=False).dequeue()], 4)

    _, outputs = assert_lifts_exactly(ranges)
    assert [batch.tolist() for batch in outputs] == [[0, 1, 2, 3], [4, 5, 6, 0], [1, 2, 3, 4]]


def test_input_producer_and_limit_epochs():
    """Rows of any tensor are produced, and an epoch limit on a tensor counts how often it is evaluated."""
    table = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert_lifts_exactly(lambda: v1.train.input_producer(table, num_epochs=2, seed=4).dequeue_many(4))

    def limited():
        number = v1.train.range_input_producer(5, shuffle=False).dequeue()
        return v1.train.limit_epochs(number, 7), v1.train.limit_epochs(number + 1, 9)

    assert_lifts_exactly(limited)


def test_endless_pipeline(records):
    """Without a number of epochs there is no end."""
    assert_lifts_exactly(lambda: v1.train.batch(example(records, num_epochs=None), 5, dynamic_pad=True), most=30)
