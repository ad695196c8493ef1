"""`compare`: two readers, batch by batch, and the first difference in words."""

import numpy as np
import pytest
import tensorflow as tf

from seqrecorder import legacy
from seqrecorder.errors import LiftError
from seqrecorder.legacy.convert import prove

v1 = tf.compat.v1


def numbers(count=7, epochs=2, shuffle=False, batch=3, threads=1, **options):
    def input_fn():
        number = v1.train.range_input_producer(count, num_epochs=epochs, shuffle=shuffle).dequeue()
        return v1.train.batch([number, tf.cast(number, tf.float32) / 7.0], batch, num_threads=threads, **options)

    return input_fn


def new(count=7, epochs=2, batch=3, *, drop=True, change=lambda number: number):
    dataset = tf.data.Dataset.range(count).map(lambda n: tf.cast(n, tf.int32)).repeat(epochs)
    dataset = dataset.map(lambda n: (change(n), tf.cast(n, tf.float32) / 7.0))
    return dataset.batch(batch, drop_remainder=drop)


def test_equal_readers():
    """Functions and datasets, in order, to the end."""
    comparison = legacy.compare(numbers(), new)
    assert comparison.equal
    assert comparison.ordered
    assert str(comparison) == "4 batches equal, in the same order, bit for bit, to the end"
    assert legacy.compare(numbers(epochs=None), new(epochs=None), batches=9).batches == 9
    assert legacy.compare(new(), new()).equal


def test_functions_that_only_run_eagerly():
    """A new reader may look at values while it is built."""
    count = tf.constant(7)
    assert legacy.compare(numbers(), lambda: new(int((count + 0).numpy()))).equal


def test_another_order():
    """Records that come in another order are the same records."""
    comparison = legacy.compare(numbers(shuffle=True, allow_smaller_final_batch=True), lambda: new(drop=False))
    assert comparison.equal
    assert not comparison.ordered
    assert "the same records in random order" in str(comparison)


def test_single_strings():
    """Strings that are no batches are compared to the last byte, in their order and in another."""

    def input_fn():
        return v1.train.string_input_producer([b"a", b"b\0", b"c\0"], num_epochs=1, shuffle=False).dequeue()

    assert legacy.compare(input_fn, tf.data.Dataset.from_tensor_slices([b"a", b"b\0", b"c\0"])).ordered
    comparison = legacy.compare(input_fn, tf.data.Dataset.from_tensor_slices([b"b\0", b"a", b"c\0"]))
    assert comparison.equal
    assert not comparison.ordered
    assert not legacy.compare(input_fn, tf.data.Dataset.from_tensor_slices([b"a", b"b", b"c\0"])).equal


def test_independent_pipelines():
    """Pipelines of one graph are shuffled apart; a row of one is no record together with a row of another."""

    def pipeline(first):
        queue = tf.compat.v1.train.input_producer(tf.range(first, first + 10), num_epochs=1, shuffle=False)
        return tf.compat.v1.train.shuffle_batch([queue.dequeue()], 5, 20, 5, allow_smaller_final_batch=True)

    def both():
        return pipeline(0), pipeline(100)

    assert legacy.compare(both, lambda: legacy.lift(both)).equal
    assert legacy.convert(both).printed
    for first, second in ((0, 101), (100, 0)):
        assert not legacy.compare(both, lambda: (pipeline(first), pipeline(second))).equal  # noqa: B023 - called here


def test_what_was_left_over_each_time():
    """Of readers that are proved equal in order, either may have dropped the same record in each of a few runs."""
    one, other = ([prove.Run([[np.array(rows)]], ended=True)] * 3 for rows in ([0, 1, 2, 3], [0, 1, 2, 4]))
    assert prove.by_records(one, other, proved=True).equal
    assert prove.by_records(one, other).difference == "a record is new: [4]"
    many = [prove.Run([[np.array([0, 5, 6, 7])], [np.array([8, 9, 10, 11])]], ended=True)] * 3
    assert not prove.by_records(one, many, proved=True).equal


def test_what_each_bucket_left_over():
    """Each bucket drops a remainder of its own; two runs may drop as many records as all buckets together."""
    rows = np.arange(40).reshape(10, 4)
    one, other = (
        [prove.Run([[row] for row in part], ended=True)] * 3 for part in (rows[:8], rows[[0, 1, 2, 3, 4, 5, 8]])
    )
    assert prove.by_records(one, other, dropped=8).difference.startswith("a record is new: [3")
    assert prove.by_records(one, other, proved=True, dropped=8).equal
    assert "comes less often" in prove.by_records(one, other, proved=True, dropped=7).difference
    assert "comes less often" in prove.by_records(one, other, proved=True).difference
    sizes = [prove.Run([[np.arange(size)] for size in (2, 3)], ended=True)] * 2
    fewer = [prove.Run([[np.arange(size)] for size in (3,)], ended=True)] * 2
    assert prove.by_records(sizes, fewer, proved=True, dropped=3).equal
    assert not prove.by_records(sizes, fewer, proved=True).equal


def test_rows_of_sparse_tensors():
    """A batch of a sparse tensor has a record in each row, also an empty one; its size is not the number of values."""

    def batches(rows, dense):
        values = tf.ragged.constant(rows, dtype=tf.int64)
        dataset = tf.data.Dataset.from_tensor_slices((dense, values.to_sparse()))
        return dataset.batch(2).repeat(4)

    rows = [[7, 0], [], [0], [5, 6, 7], [], [8]]
    old, turned = batches(rows, [*range(6)]), batches(rows[::-1], [*range(6)][::-1])
    comparison = legacy.compare(old, turned)
    assert comparison.equal
    assert not comparison.ordered
    assert not legacy.compare(old, batches([[7, 0], [], [], [5, 6, 7], [0], [8]], [*range(6)])).equal
    assert legacy.compare(old.map(lambda _, row: row), turned.map(lambda number, row: row)).equal


def test_sparse_batches_in_random_order():
    """Sparse batches of another order have other numbers of values, and the same records."""

    def input_fn():
        number = v1.train.range_input_producer(8, num_epochs=8, seed=3).dequeue()
        row = tf.sparse.from_dense(tf.range(tf.cast(number, tf.int64) % 5) + 1)
        return v1.train.batch([row], 4)

    order = tf.constant([3, 1, 0, 2, 7, 6, 5, 4], tf.int64)
    rows = tf.data.Dataset.from_tensor_slices(order).repeat(8).map(lambda n: tf.sparse.from_dense(tf.range(n % 5) + 1))
    comparison = legacy.compare(input_fn, rows.batch(4, drop_remainder=True))
    assert comparison.equal
    assert "the same records in random order" in str(comparison)


def test_padding_of_both_axes():
    """Neighbours in a batch change a record's padding, not the record; another shape of the same values is another."""

    def planes(widths, values=5):
        rows = tf.data.Dataset.from_tensor_slices([(2, w, values) for w in widths]).repeat(40)
        return rows.map(lambda r: tf.fill(r[:2], r[2])).padded_batch(2)

    assert legacy.compare(planes([1, 2, 3, 4]), planes([1, 4, 3, 2])).equal
    assert not legacy.compare(planes([1, 2, 3, 4]), planes([1, 3, 2, 3])).equal


@pytest.mark.parametrize(
    ("reader", "difference"),
    [
        (lambda: new(change=lambda n: tf.cast(n, tf.int64)), "batch 0, tensor 0: int32 became int64"),
        (lambda: new(change=lambda n: n + tf.cast(tf.equal(n, 4), tf.int32)), "batch 1, tensor 0: 4 became 5 at [1]"),
        (lambda: new(batch=4), "batch 0, tensor 0: shape (3,) became (4,)"),
        (lambda: new(drop=False), "the old reader ends after 4 batches; the new one goes on"),
        (lambda: new(epochs=1), "the new reader ends after 2 batches; the old one goes on"),
        (lambda: new().map(lambda n, _: n), "batch 0: 2 tensors became 1"),
        (
            lambda: new(change=lambda n: n // tf.cast(tf.not_equal(n, 3), tf.int32)),
            "the new reader ends after 1 batches: InvalidArgumentError",
        ),
    ],
)
def test_the_first_difference(reader, difference):
    """It says where, what was expected and what came."""
    comparison = legacy.compare(numbers(), reader)
    assert not comparison.equal
    assert difference in comparison.difference
    assert str(comparison).startswith("different: ")


def test_what_is_not_a_number_is_equal_to_itself():
    """NaN stands for itself, and not for another value."""
    values = np.array([1.0, np.nan], np.float32)

    def input_fn():
        return v1.train.input_producer(values, num_epochs=1, shuffle=False).dequeue()

    assert legacy.compare(input_fn, tf.data.Dataset.from_tensor_slices(values)).equal
    assert not legacy.compare(input_fn, tf.data.Dataset.from_tensor_slices(np.float32([1.0, 2.0]))).equal


def test_readers_that_give_nothing(tmp_path):
    """Two readers of a missing file are not equal: neither gives anything."""

    def input_fn():
        queue = v1.train.string_input_producer([str(tmp_path / "none")], num_epochs=1)
        return v1.TextLineReader().read(queue).value

    with pytest.raises(LiftError, match="neither reader gives a batch: NotFoundError"):
        legacy.compare(input_fn, lambda: tf.data.TextLineDataset([str(tmp_path / "none")]))


def numbers_of(path, batch=2, *, rest=False):
    """Batches of the numbers in the lines of a file."""

    def input_fn():
        line = v1.TextLineReader().read(v1.train.string_input_producer([str(path)], num_epochs=1))[1]
        return v1.train.batch([v1.string_to_number(line, tf.int32)], batch, allow_smaller_final_batch=rest)

    return input_fn


def test_an_error_in_the_data_is_no_end(tmp_path):
    """Readers that both fail at a line are equal up to it; the comparison quotes the error."""
    path = tmp_path / "lines"
    path.write_text("1\n2\n3\n4\nabc\n6\n")
    comparison = legacy.compare(numbers_of(path), legacy.lift(numbers_of(path)))
    assert comparison.equal
    assert not comparison.ended
    assert str(comparison) == (
        "2 batches equal, in the same order, bit for bit; then both end with an error: InvalidArgumentError: "
        "StringToNumberOp could not correctly convert string: abc; the files hold something that cannot be read"
    )
    assert str(legacy.convert(numbers_of(path)).report).splitlines()[1] == f"on the data: {comparison}"
    path.write_text("1\n2\n3\nabc\n5\n")
    comparison = legacy.compare(numbers_of(path, rest=True), legacy.lift(numbers_of(path, rest=True)))
    assert "could not correctly convert string: abc; the old one ends later, with an error" in str(comparison)
    with pytest.raises(LiftError, match="the data cannot be read: Inv.*: abc; mend the file or record, or leave it ou"):
        legacy.convert(numbers_of(path, rest=True))


def test_an_error_beyond_the_compared_batches(tmp_path):
    """A thread that reads ahead may fail behind the last batch that is compared."""
    path = tmp_path / "lines"
    path.write_text("1\n2\n3\n4\nabc\n")
    assert legacy.compare(numbers_of(path), legacy.lift(numbers_of(path)), batches=1).equal
    both = prove.Run([[np.arange(2)]], ended=True, why=": OpError: x"), prove.Run([[np.arange(2)]], ended=True)
    text = "different: the old reader ends after 1 batches: OpError: x; the new one has no error"
    assert str(prove.in_order(*both)) == text


def test_no_batch_is_no_proof():
    """Readers without a batch have nothing to compare, as files that were cut short may leave them."""
    nothing = prove.Run([], ended=True)
    assert str(prove.in_order(nothing, nothing)) == "no batch to compare"
    assert str(prove.by_records([nothing], [nothing])) == "no batch to compare"


def test_large_batches_are_few():
    """What two runs hold of large batches fits into memory."""
    dataset = tf.data.Dataset.from_tensors(tf.zeros([8_000_000], tf.uint8)).repeat()
    comparison = legacy.compare(dataset, dataset)
    assert comparison.equal
    assert 2 < comparison.batches < 100
