"""Stages made of raw operations against the methods of `tf.data` that they stand for."""

import gc

import attrs
import numpy as np
import pytest
import tensorflow as tf

from seqrecorder.reading.tfdata_ops import (
    bucketed,
    filtered,
    flat_mapped,
    mapped,
    mapped_in_groups,
    random_numbers,
    rebatched,
    scanned,
    shuffled,
    unbatched,
)
from seqrecorder.storage.tfrecord.tfdata import opened, tf_records


def elements(dataset):
    return [[np.asarray(part).tolist() for part in tf.nest.flatten(element)] for element in dataset.as_numpy_iterator()]


@pytest.mark.parametrize(("sizes", "drop_remainder"), [(3, False), (3, True), ([1, 4, 2], False), ([1, 4, 2], True)])
def test_rebatched_gives_what_rebatch_gives(sizes, drop_remainder):
    """The same elements, for one size and for sizes in turn, from windows of any size; one size is static."""
    windows = tf.data.Dataset.range(11).map(lambda i: (tf.fill([i % 4], i), tf.strings.as_string(tf.fill([i % 4], i))))
    mine, theirs = (
        rebatched(windows, sizes, drop_remainder=drop_remainder),
        windows.rebatch(sizes, drop_remainder=drop_remainder),
    )
    assert elements(mine) == elements(theirs)
    assert mine.element_spec[0].shape.as_list() == [3 if sizes == 3 and drop_remainder else None]


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


def test_unbatched_gives_what_unbatch_gives():
    """The rows of batches of any size, none included."""
    windows = tf.data.Dataset.range(5).map(lambda i: (tf.fill([i % 3], i), {"text": tf.fill([i % 3, 2], "a")}))
    assert elements(unbatched(windows)) == elements(windows.unbatch())
    assert unbatched(windows).element_spec == windows.unbatch().element_spec


def test_shuffled_is_decided_by_its_number_alone():
    """Every element once, no further ahead than the buffer; the same for a number, and another for another."""
    records = tf.data.Dataset.range(50)

    def order(number, global_seed):
        tf.random.set_seed(global_seed)
        return [i for (i,) in elements(shuffled(records, 10, tf.constant(number, tf.int64)))]

    assert sorted(order(0, 1)) == list(range(50))
    assert all(value < place + 10 for place, value in enumerate(order(0, 1)))
    assert order(0, 1) == order(0, 2) == order(0, 1)
    assert order(0, 1) != order(1, 1)


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
    "ragged": lambda number, texts: {"ragged": tf.RaggedTensor.from_row_lengths(texts, [number, 0]), "n": number},
    "sparse": lambda number, texts: (tf.sparse.from_dense([number, 0]), texts),
}


@pytest.mark.parametrize("parallel", [None, 2])
@pytest.mark.parametrize("function", MAPS.values(), ids=MAPS)
def test_mapped_gives_what_map_gives(function, parallel):
    """The same elements of the same structure, of dense and of composite tensors, one or two at a time."""
    mine = mapped(pairs(), function, parallel=parallel)
    theirs = pairs().map(function, num_parallel_calls=parallel)
    assert mine.element_spec == theirs.element_spec
    assert mine.cardinality() == theirs.cardinality() == 6
    for one, other in zip(mine, theirs, strict=True):
        tf.nest.assert_same_structure(one, other)
        for a, b in zip(tf.nest.flatten(one, True), tf.nest.flatten(other, True), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("size", [1, 2, 4, 100])
@pytest.mark.parametrize("function", MAPS.values(), ids=MAPS)
def test_mapped_in_groups_gives_what_map_gives(function, size):
    """The same elements of the same structure and static shapes, whatever the groups."""
    mine, theirs = mapped_in_groups(pairs(), function, size, fits=lambda _: True, parallel=2), pairs().map(function)
    assert mine.element_spec == theirs.element_spec
    for one, other in zip(mine, theirs, strict=True):
        tf.nest.assert_same_structure(one, other)
        for a, b in zip(tf.nest.flatten(one, True), tf.nest.flatten(other, True), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a.numpy(), b.numpy())


def grouped_numbers(count, bad=None):
    """Return numbers of different shapes in groups of 3, of which one fails."""

    def make(number):
        ok = tf.raw_ops.Assert(condition=number != (-1 if bad is None else bad), data=["number", number, "is bad"])
        with tf.control_dependencies([ok]):
            return tf.fill([number % 3], number)

    return mapped_in_groups(tf.data.Dataset.range(count), make, 3, fits=lambda _: True, parallel=2)


def test_groups_resume_from_a_checkpoint_at_every_element(tmp_path):
    """What waits for the consumer in groups is saved with the iterator."""
    whole = [element.tolist() for element in grouped_numbers(20).as_numpy_iterator()]
    assert len(whole) == 20
    iterator = iter(grouped_numbers(20))
    for position in range(21):
        path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / str(position)))
        another = iter(grouped_numbers(20))
        tf.train.Checkpoint(iterator=another).read(path)
        assert [element.numpy().tolist() for element in another] == whole[position:]
        next(iterator, None)


@pytest.mark.parametrize("bad", [0, 1, 2, 3, 19])
def test_an_error_takes_the_place_of_its_group(bad):
    """An error reaches the consumer where its group would; what comes before and behind the group still comes."""
    iterator, first = iter(grouped_numbers(20, bad)), bad // 3 * 3
    assert [len(next(iterator)) for _ in range(first)] == [number % 3 for number in range(first)]
    with pytest.raises(tf.errors.InvalidArgumentError, match="is bad"):
        next(iterator)
    assert [len(element) for element in iterator] == [number % 3 for number in range(first + 3, 20)]


def test_an_error_behind_the_end_of_a_part_is_not_taken_for_the_end(tmp_path):
    """A file that is not there, after a part that has ended, is an error; `window` would take it for the end."""
    parts = opened(__file__).concatenate(tf_records(str(tmp_path / "absent"), None))
    with pytest.raises(tf.errors.NotFoundError, match="absent"):
        elements(mapped_in_groups(parts, lambda text: text, 4, fits=lambda _: True, parallel=2))


def test_filtered_gives_what_filter_gives():
    """The same elements, and a captured tensor is seen."""
    least = tf.constant(2, tf.int64)
    mine = filtered(pairs(), lambda number, _: number >= least)
    assert elements(mine) == elements(pairs().filter(lambda number, _: number >= least))
    assert mine.element_spec == pairs().element_spec


@pytest.mark.parametrize("drop_remainder", [False, True])
@pytest.mark.parametrize("sizes", [[2, 3, 1], [4, 4, 4]], ids=str)
def test_bucketed_gives_what_group_by_window_gives(sizes, drop_remainder):
    """The same batches in the same order, of several parts; a captured tensor is seen; one size of all is static."""
    shift = tf.constant(1, tf.int64)
    numbers = tf.data.Dataset.range(29).map(lambda i: {"number": i, "text": tf.strings.as_string(i), "pair": [i, i]})

    def bucket(element):
        return (element["number"] * element["number"] + shift) % 3

    mine = bucketed(numbers, bucket, sizes, drop_remainder=drop_remainder)
    theirs = numbers.group_by_window(
        bucket,
        lambda key, window: window.batch(tf.gather(tf.constant(sizes, tf.int64), key), drop_remainder),
        window_size_func=lambda key: tf.gather(tf.constant(sizes, tf.int64), key),
    )
    assert elements(mine) == elements(theirs)
    static = 4 if drop_remainder and sizes == [4, 4, 4] else None
    assert [spec.shape.as_list() for spec in tf.nest.flatten(mine.element_spec)] == [[static], [static, 2], [static]]
    inside = tf.data.Dataset.range(2).flat_map(
        lambda _: bucketed(numbers, bucket, sizes, drop_remainder=drop_remainder)
    )
    assert elements(inside) == 2 * elements(theirs)


def test_an_error_reaches_the_consumer_from_among_buckets(tmp_path):
    """What comes before it comes, and the error is that of the file that is not there."""
    path = str(tmp_path / "shard")
    with tf.io.TFRecordWriter(path) as writer:
        for data in (b"a", b"b", b"c"):
            writer.write(data)
    parts = tf_records(path, None).concatenate(opened(str(tmp_path / "absent")))
    iterator = iter(bucketed(parts, lambda _: tf.constant(0, tf.int64), [2]))
    assert next(iterator).numpy().tolist() == [b"a", b"b"]
    with pytest.raises(tf.errors.NotFoundError, match="absent"):
        next(iterator)


@pytest.mark.parametrize(("cycle", "parallel"), [(1, None), (2, None), (16, None), (2, 1), (2, 2), (16, 3)])
def test_flat_mapped_gives_what_flat_map_and_interleave_give(cycle, parallel):
    """The same elements in the same order, datasets of functions of functions included, in one thread or several."""

    def nested(number, texts):
        rows = tf.data.Dataset.from_tensor_slices(texts)
        return mapped(rows, lambda text: (text, number))

    def plain(number, texts):
        return tf.data.Dataset.from_tensor_slices(texts).map(lambda text: (text, number))

    theirs = pairs().flat_map(plain) if cycle == 1 else pairs().interleave(plain, cycle, 1)
    mine = flat_mapped(pairs(), nested, cycle=cycle, parallel=parallel)
    assert elements(mine) == elements(theirs)
    assert mine.element_spec == theirs.element_spec


def grow(state, element):
    (held, seen), (number, texts) = state, element
    return (tf.concat([held, texts], 0), seen + number), {"held": held, "seen": seen}


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
    texts = flat_mapped(scans, lambda element: tf.data.Dataset.from_tensor_slices(element["held"]))
    return mapped(filtered(texts, lambda text: text != "3"), lambda text: text + "!", parallel=2)


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


def test_an_error_in_a_stage_is_that_of_the_operation():
    """What fails in a function of a function fails in the consumer, with its message."""

    def fail(number, texts):
        ok = tf.raw_ops.Assert(condition=number < 3, data=["number", number, "is too large"])
        with tf.control_dependencies([ok]):
            return tf.data.Dataset.from_tensors(tf.identity(texts))

    with pytest.raises(tf.errors.InvalidArgumentError, match="is too large"):
        elements(flat_mapped(pairs(), fail))


def test_functions_that_call_functions_are_not_kept_waiting():
    """Conditionals and loops in calls at a time, as many as there are threads and more."""

    def function(number, texts):
        total = tf.while_loop(lambda i, _: i < number, lambda i, sum_: (i + 1, sum_ + i), (number * 0, number * 0))[1]
        return tf.cond(total > 5, lambda: tf.size(texts, tf.int64) + total, lambda: total)

    for parallel in (None, 2, 16):
        mine = mapped(pairs().repeat(50), function, parallel=parallel)
        assert elements(mine) == elements(pairs().repeat(50).map(function))
