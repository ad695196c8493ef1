"""Stages against the methods of `tf.data` that they stand for."""

import gc

import attrs
import numpy as np
import pytest
import tensorflow as tf

from seqrecorder.codec.graph_ops import checked
from seqrecorder.reading.order_and_seeds import random_numbers
from seqrecorder.reading.tfdata_ops import Traced, interleaved, mapped, scanned
from seqrecorder.storage.tfrecord import opened, tf_records


def elements(dataset):
    return [[np.asarray(part).tolist() for part in tf.nest.flatten(element)] for element in dataset.as_numpy_iterator()]


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_tf_records_gives_what_tf_record_dataset_gives(compression, tmp_path):
    """Plain or compressed, with a path from outside or from a tensor."""
    path = str(tmp_path / "shard")
    with tf.io.TFRecordWriter(path, compression) as writer:
        for data in (b"one", b"", b"three"):
            writer.write(data)
    expected = elements(tf.data.TFRecordDataset(path, compression))
    assert elements(tf_records(path, compression or None)) == expected
    assert elements(tf_records(tf.constant(path), compression or None)) == expected


def test_a_file_that_cannot_be_opened_is_named(tmp_path):
    """Nothing comes of a file that can be opened; of another an error, with its path."""
    (tmp_path / "there").write_bytes(b"ten bytes.")
    assert elements(opened(str(tmp_path / "there"))) == []
    with pytest.raises(tf.errors.NotFoundError, match="absent"):
        elements(opened(str(tmp_path / "absent")))


def test_random_numbers_are_those_of_tensorflow_without_a_seed_of_the_program():
    """Another series each iteration, the same for a seed; `tf.random.set_seed` changes nothing."""

    def series(dataset):
        return list(dataset.take(3).as_numpy_iterator())

    tf.random.set_seed(None)
    theirs = tf.data.Dataset.random(seed=3, rerandomize_each_iteration=True)
    tf.random.set_seed(1)
    mine = random_numbers(3)
    assert [series(mine), series(mine)] == [series(theirs), series(theirs)]
    assert series(random_numbers(3)) != series(mine)
    assert series(random_numbers(3)) == series(random_numbers(3))
    tf.random.set_seed(None)


@attrs.frozen
class Pair:
    first: object
    second: object


def pairs():
    return tf.data.Dataset.range(6).map(lambda i: (i, tf.fill([i], tf.strings.as_string(i))))


OFFSET = 3

MAPS = {
    "a tuple": lambda number, texts: (texts, number + tf.constant(OFFSET, tf.int64), 1.5),
    "one tensor": lambda number, texts: tf.size(texts, tf.int64) * number,
    "a dict": lambda number, texts: {"b": number, "a": {"c": texts}},
    "attrs": lambda number, texts: Pair(number, (texts, texts)),
}


def traced_map(dataset, function):
    return Traced.of(function, dataset.element_spec).mapped(dataset)


@pytest.mark.parametrize("function", MAPS.values(), ids=MAPS)
def test_traced_functions_give_what_map_gives(function):
    """The same elements of the same structure and static shapes; a captured tensor is seen."""
    mine, theirs = traced_map(pairs(), function), pairs().map(function)
    assert mine.element_spec == theirs.element_spec
    assert mine.cardinality() == theirs.cardinality() == 6
    for one, other in zip(mine, theirs, strict=True):
        tf.nest.assert_same_structure(one, other)
        for a, b in zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_composite_tensors_are_told_by_the_spec():
    """Ragged and sparse tensors are not made dense; numbers become tensors."""
    number = tf.TensorSpec([], tf.int64)
    ragged = Traced.of(lambda n: (tf.RaggedTensor.from_row_lengths([1, 2], [n, 2 - n]), 1), number).spec
    assert isinstance(ragged[0], tf.RaggedTensorSpec)
    assert ragged[1] == tf.TensorSpec([], tf.int32)
    assert isinstance(Traced.of(lambda n: tf.sparse.from_dense([n, n]), number).spec, tf.SparseTensorSpec)


@pytest.mark.parametrize("bad", [0, 2, 6])
def test_an_error_takes_the_place_of_its_element(bad):
    """An error reaches the consumer where its element would, however many wait; all others come."""

    def make(number):
        ok = tf.raw_ops.Assert(condition=number != bad, data=["number", number, "is bad"])
        with tf.control_dependencies([ok]):
            return tf.fill([number % 3], number)

    iterator = iter(traced_map(tf.data.Dataset.range(7), make).prefetch(4))
    assert [len(next(iterator)) for _ in range(bad)] == [number % 3 for number in range(bad)]
    with pytest.raises(tf.errors.InvalidArgumentError, match="is bad"):
        next(iterator)
    assert [len(element) for element in iterator] == [number % 3 for number in range(bad + 1, 7)]


def grow(state, element):
    (held, seen), (number, texts) = state, element
    return (tf.concat([held, texts], 0), seen + number), {"held": held, "seen": seen}


def test_states_that_may_grow():
    """What has no rows before the first element may get any number; other shapes are kept."""
    start = tf.zeros([0, 3]), tf.zeros([2, 3])
    shown = scanned(tf.data.Dataset.range(1), start, lambda state, _: (state, state))
    assert [spec.shape.as_list() for spec in shown.element_spec] == [[None, 3], [2, 3]]


def test_scanned_gives_what_scan_gives():
    """The same elements, of a state that grows and of one that keeps its shape, which stays static."""
    start = tf.zeros([0], tf.string), tf.constant([0, 5], tf.int64)
    mine, theirs = scanned(pairs(), start, grow), pairs().scan(start, grow)
    assert elements(mine) == elements(theirs)
    assert mine.element_spec == theirs.element_spec
    assert mine.element_spec["seen"].shape.as_list() == [2]


def chain():
    start = tf.zeros([0], tf.string), tf.constant([0], tf.int64)
    scans = scanned(pairs(), start, grow)
    texts = scans.flat_map(lambda element: tf.data.Dataset.from_tensor_slices(element["held"]))
    return traced_map(texts.filter(lambda number: number != "3"), lambda text: text + "!").prefetch(2)


def test_what_stages_are_made_of_lives_as_long_as_the_dataset():
    """A chain of stages of which nothing but the last is held runs as often as is wished."""
    made = chain()
    gc.collect()
    assert elements(made) == elements(made)
    assert len(elements(made)) == 10 + 6 + 3 + 1 - 3 * 2


def test_stages_resume_from_a_checkpoint(tmp_path):
    """Saved anywhere and restored into another iterator, a chain of stages goes on where it was."""
    whole = elements(chain())
    for position in (0, 3, len(whole)):
        iterator = iter(chain())
        for _ in range(position):
            next(iterator)
        path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "at"))
        another = iter(chain())
        tf.train.Checkpoint(iterator=another).restore(path)
        assert [[element.numpy()] for element in another] == whole[position:]


def test_functions_that_call_functions_are_not_kept_waiting():
    """Conditionals and loops in functions that are run in the thread of the consumer."""

    def function(number, texts):
        total = tf.while_loop(lambda i, _: i < number, lambda i, sum_: (i + 1, sum_ + i), (number * 0, number * 0))[1]
        return tf.cond(total > 5, lambda: tf.size(texts, tf.int64) + total, lambda: total)

    assert elements(traced_map(pairs().repeat(50), function)) == elements(pairs().repeat(50).map(function))


def test_a_function_with_a_key_is_traced_once():
    """For the same key and elements; elements of another dtype, and functions without a key, are traced anew."""
    traced = []

    def add(total, number):
        traced.append(number.dtype)
        return total + 1, number + 1

    def read(numbers, key):
        return elements(scanned(numbers, tf.constant(0), add, key=key))

    numbers = tf.data.Dataset.range(2)
    assert read(numbers, "a test's") == read(numbers, "a test's") == [[1], [2]]
    assert len(traced) == 1
    assert read(tf.data.Dataset.range(2, output_type=tf.int32), "a test's") == [[1], [2]]
    assert read(numbers, None) == read(numbers, None) == [[1], [2]]
    assert traced == [tf.int64, tf.int32, tf.int64, tf.int64]


def test_what_is_dropped_is_checked():
    """What a function asserts of a value is an error where nothing is made of that value, too."""

    def made(number):
        checked(number, number < 2, "expected less than 2, got", number)
        return number + 10

    numbers = mapped(tf.data.Dataset.range(3), made)
    assert next(iter(numbers)) == 10
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected less than 2"):
        list(numbers)


@pytest.mark.parametrize("parallel", [None, 1, 4])
@pytest.mark.parametrize("cycle", [1, 3, 7])
def test_interleaved_gives_what_interleave_gives(cycle, parallel, tmp_path):
    """Datasets take turns element by element, read one after the other or several ahead, from a saved place as well."""
    source = tf.data.Dataset.from_tensor_slices(tf.constant([4, 0, 2, 5, 1], tf.int64))
    ours = interleaved(source, tf.data.Dataset.range, cycle=tf.constant(cycle), parallel=parallel)
    theirs = elements(source.interleave(tf.data.Dataset.range, cycle_length=cycle, block_length=1))
    assert elements(ours) == theirs
    iterator = iter(ours)
    seen = [[int(next(iterator))] for _ in range(5)]
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    saved = checkpoint.write(str(tmp_path / "saved"))
    other = iter(ours)
    tf.train.Checkpoint(iterator=other).read(saved)
    assert seen + [[int(each)] for each in other] == theirs
