"""Options that seldom meet: lifted, against their own queue runs."""

import zlib
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from queue_runs import assert_lifts_exactly, assert_lifts_in_another_order, v1

from seqrecorder import legacy


def numbers(limit=10, epochs=1):
    return v1.train.range_input_producer(limit, num_epochs=epochs, shuffle=False).dequeue()


def files(paths, epochs=1, **options):
    return v1.train.string_input_producer(paths, num_epochs=epochs, shuffle=False, **options)


def small_capacities():
    """Queues that hold less than a batch give whole batches all the same."""
    batch = v1.train.batch([numbers(11)], 4, capacity=2, allow_smaller_final_batch=True)
    return v1.train.batch([batch], 3, enqueue_many=True, capacity=1)


def rows_of_any_number():
    """What is enqueued many at a time may be nothing, and batches go across."""
    number = numbers(9)
    rows = tf.range(number % 4) + 10 * number
    return v1.train.batch([rows, tf.strings.as_string(rows)], 5, enqueue_many=True, allow_smaller_final_batch=True)


def padded_rows_of_any_number():
    number = numbers(9)
    rows = tf.ones([number % 3, number], tf.int64)
    return v1.train.batch({"rows": rows}, 4, enqueue_many=True, dynamic_pad=True, allow_smaller_final_batch=True)


def nothing_is_kept_for_long():
    number = numbers(20)
    keep = tf.stack([number > 15, number < 3])
    return v1.train.maybe_batch([tf.stack([number, -number])], keep, 3, enqueue_many=True, num_threads=1)


def shapes_that_are_claimed():
    number = numbers(8)
    [vector] = v1.py_func(lambda n: [np.full(2, n, np.int32)], [number], [tf.int32])
    return v1.train.batch([vector, number], 3, shapes=[[2], []])


def sparse_of_any_shape():
    """Sparse rows of different sizes, of two dimensions, and without any value."""
    number = numbers(7)
    values = tf.range(number % 3)
    places = tf.cast(tf.stack([values, 2 * values], 1), tf.int64)
    shape = tf.cast(tf.stack([number + 1, 9 - number]), tf.int64)
    return v1.train.batch([number, tf.SparseTensor(places, values, shape)], 3, allow_smaller_final_batch=True)


def sparse_rows_through_two_queues():
    sparse = tf.sparse.from_dense(tf.reshape(tf.range(6), [3, 2]) * numbers(4))
    first = v1.train.batch([sparse], 4, enqueue_many=True)
    return v1.train.batch({"again": first}, 2, allow_smaller_final_batch=True)


def sparse_that_is_kept():
    """Sparse tensors, some of which are dropped, singly and many at a time."""
    number = numbers(20)
    some = tf.sparse.from_dense(tf.one_hot(number % 3, 3) * tf.cast(number, tf.float32))
    single = v1.train.maybe_batch({"number": number, "sparse": some}, number % 3 > 0, 3)
    other = numbers(20)
    many = tf.sparse.from_dense(tf.stack([[other, 0], [0, other]]))
    return single, v1.train.maybe_batch([many], other % 4 > 0, 3, enqueue_many=True)


def parts_of_a_tuple():
    named = v1.train.batch({"b": numbers(6), "a": numbers(5) * 2}, 2)
    return named["a"] + named["b"], named["b"]


def a_limit_in_the_middle():
    return v1.train.batch([v1.train.limit_epochs(v1.train.batch([numbers(20)], 2), 4)], 3, enqueue_many=True)


def a_seeded_table():
    rows = np.arange(30, dtype=np.float64).reshape(5, 3, 2)
    return v1.train.input_producer(rows, num_epochs=3, shuffle=True, seed=11, element_shape=[3, 2]).dequeue_up_to(4)


def slices_of_several_dtypes():
    arrays = [np.arange(6), np.linspace(0, 1, 6), np.array(list("abcdef")), np.eye(6) > 0]
    return v1.train.batch(
        v1.train.slice_input_producer(arrays, num_epochs=2, seed=3), 5, allow_smaller_final_batch=True
    )


def names_of_queues():
    """Shared and other names change nothing."""
    number = v1.train.range_input_producer(7, 1, shuffle=False, shared_name="numbers", name="here").dequeue()
    return v1.train.batch([number], 2, shared_name="batches", name="there")


def a_queue_with_names():
    queue = tf.queue.FIFOQueue(4, [tf.int32, tf.string], shapes=[[], []], names=["number", "text"])
    number = numbers(6)
    op = queue.enqueue({"number": number, "text": tf.strings.as_string(number)})
    v1.train.add_queue_runner(v1.train.QueueRunner(queue, [op]))
    return queue.dequeue_up_to(4)


def scalars_of_a_padding_queue():
    queue = tf.queue.PaddingFIFOQueue(9, [tf.string, tf.float64], shapes=[[None, None], [2, None]])
    number = numbers(7)
    grid = tf.fill([number % 3, number % 2 + 1], "x")
    v1.train.add_queue_runner(v1.train.QueueRunner(queue, [queue.enqueue([grid, tf.ones([2, number], tf.float64)])]))
    return queue.dequeue_many(3)


EXACT = [
    small_capacities,
    rows_of_any_number,
    padded_rows_of_any_number,
    nothing_is_kept_for_long,
    shapes_that_are_claimed,
    sparse_of_any_shape,
    sparse_rows_through_two_queues,
    sparse_that_is_kept,
    parts_of_a_tuple,
    a_limit_in_the_middle,
    a_seeded_table,
    slices_of_several_dtypes,
    names_of_queues,
    a_queue_with_names,
    scalars_of_a_padding_queue,
]


@pytest.mark.parametrize("input_fn", EXACT)
def test_exact(input_fn):
    """Elements, structure, dtypes and order are those of the queue run."""
    assert_lifts_exactly(input_fn)


def test_epochs_over_empty_files(tmp_path):
    """Empty files, alone and among others, are passed over in each epoch."""
    for name, lines in (("a", ""), ("b", "1\n2\n"), ("c", ""), ("d", "3")):
        (tmp_path / name).write_text(lines)
    paths = [str(tmp_path / name) for name in "abcd"]
    _, outputs = assert_lifts_exactly(lambda: v1.train.batch(list(v1.TextLineReader().read(files(paths, 3))), 2))
    assert len(outputs) == 4
    none = v1.train.string_input_producer
    _, outputs = assert_lifts_exactly(lambda: v1.WholeFileReader().read(none([paths[0]], num_epochs=2)))
    assert [value for _, value in outputs] == [b"", b""]
    _, outputs = assert_lifts_exactly(lambda: v1.TFRecordReader().read(none([paths[0]], num_epochs=2)))
    assert outputs == []


@pytest.mark.parametrize("count", [pytest.param(2, marks=pytest.mark.nightly), 5, 100])
def test_several_at_a_time_of_each_reader(tmp_path, count):
    """`read_up_to` of compressed records, of overlapping records and of lines: keys, values and sizes."""
    for name in "ab":
        data = bytes(range(23)) if name == "a" else bytes(9)
        (tmp_path / name).write_bytes(zlib.compress(data))
        (tmp_path / (name + ".txt")).write_text("x\n\ny\nz\n" * 3)
    gzip = tf.io.TFRecordOptions("GZIP")
    with tf.io.TFRecordWriter(str(tmp_path / "records"), gzip) as writer:
        for size in range(7):
            writer.write(bytes(size))
    slices = {"record_bytes": 4, "header_bytes": 2, "footer_bytes": 1, "hop_bytes": 3, "encoding": "ZLIB"}
    readers = {
        ("a", "b"): lambda: v1.FixedLengthRecordReader(**slices),
        ("a.txt", "b.txt"): lambda: v1.TextLineReader(skip_header_lines=2),
        ("records", "records"): lambda: v1.TFRecordReader(options=gzip),
    }
    for names, reader in readers.items():
        paths = [str(tmp_path / name) for name in names]
        assert_lifts_exactly(lambda paths=paths, reader=reader: reader().read_up_to(files(paths, 2), count))


def test_joins_of_joins(records):
    """Batches of one join are rows of the next, with readers of several kinds underneath."""

    def input_fn():
        kinds = [(v1.TFRecordReader, v1.TFRecordReader), (v1.WholeFileReader, v1.WholeFileReader)]
        joined = []
        for kind in kinds:
            queue = files(records, 2)
            options = {"capacity": 30, "min_after_dequeue": 5, "allow_smaller_final_batch": True}
            joined.append(v1.train.shuffle_batch_join([tuple(r().read(queue)) for r in kind], 3, seed=1, **options))
        return v1.train.shuffle_batch_join(
            joined, 4, capacity=20, min_after_dequeue=3, enqueue_many=True, allow_smaller_final_batch=True
        )

    lifted, _ = assert_lifts_in_another_order(input_fn)
    assert str(lifted).count("shuffle(") == 3


@pytest.mark.parametrize("shuffle", [False, True])
def test_joins_that_keep_some(records, shuffle):
    """`maybe_*_join` keeps a vector's choice of the rows of each reader."""

    def input_fn():
        queue = files(records, 2)
        rows = []
        for _ in range(2):
            keys, values = v1.TFRecordReader().read_up_to(queue, 3)
            rows.append((keys, tf.strings.to_number(values, tf.int64)))
        options = {"enqueue_many": True, "allow_smaller_final_batch": True}
        if shuffle:
            return v1.train.maybe_shuffle_batch_join(rows, 4, 30, 5, True, **options)
        return v1.train.maybe_batch_join(rows, True, 4, **options)

    assert_lifts_in_another_order(input_fn)


def test_operations_of_their_own_fill_a_queue():
    """A QueueRunner whose threads enqueue one and many, from sources of their own."""

    def input_fn():
        queue = tf.queue.FIFOQueue(40, [tf.int32], shapes=[[]])
        many = v1.train.batch([numbers(8) + 100], 4)
        v1.train.add_queue_runner(v1.train.QueueRunner(queue, [queue.enqueue(numbers(5)), queue.enqueue_many(many)]))
        return queue.dequeue_up_to(3)

    assert_lifts_in_another_order(input_fn)


def test_random_queues_up_to_the_end():
    """A random queue gives its rest, however it is emptied, with several threads and many rows at a time."""

    def input_fn():
        queue = tf.queue.RandomShuffleQueue(12, 4, [tf.int32], shapes=[[2]])
        rows = numbers(9) + tf.reshape(tf.range(6), [3, 2])
        v1.train.add_queue_runner(v1.train.QueueRunner(queue, [queue.enqueue_many([rows])] * 3))
        return queue.dequeue_up_to(5)

    _, outputs = assert_lifts_in_another_order(input_fn)
    assert [len(batch) for batch in outputs] == [5] * 5 + [2]


def test_matched_files_in_a_seeded_order(tmp_path):
    """Files that a pattern matches are shuffled as by name, epoch by epoch."""
    for name in "dbca":
        (tmp_path / f"{name}.bin").write_bytes(name.encode())

    def input_fn():
        names = v1.train.match_filenames_once([str(tmp_path / "[ab].bin"), str(tmp_path / "[cd].bin")])
        return v1.WholeFileReader().read(v1.train.string_input_producer(names, num_epochs=3, seed=5)).value

    _, outputs = assert_lifts_exactly(input_fn)
    assert len({bytes(x.item()) for x in outputs}) == 4


def test_parsing_of_every_kind(tmp_path):
    """Records parsed one by one and in batches; fixed, variable, sparse and ragged features, context and steps."""
    path = str(tmp_path / "records")
    with tf.io.TFRecordWriter(path) as writer:
        for number in range(9):
            example = tf.train.SequenceExample()
            example.context.feature["id"].bytes_list.value.append(b"%d" % number)
            example.context.feature["tags"].int64_list.value.extend(range(number % 3))
            for step in range(number % 4):
                example.feature_lists.feature_list["frames"].feature.add().float_list.value.extend([step, number])
                example.feature_lists.feature_list["words"].feature.add().bytes_list.value.extend([b"w"] * step)
            writer.write(example.SerializeToString())
    context = {"id": tf.io.FixedLenFeature([], tf.string), "tags": tf.io.VarLenFeature(tf.int64)}
    steps = {
        "frames": tf.io.FixedLenSequenceFeature([2], tf.float32, allow_missing=True),
        "words": tf.io.VarLenFeature(tf.string),
    }

    def one_by_one():
        serialized = v1.TFRecordReader().read(files([path])).value
        features, lists = tf.io.parse_single_sequence_example(serialized, context, steps)
        dense = {"id": features["id"], "frames": lists["frames"]}
        return v1.train.batch({**dense, "tags": features["tags"], "words": lists["words"]}, 4, dynamic_pad=True)

    def in_batches():
        serialized = v1.train.batch([v1.TFRecordReader().read(files([path])).value], 4, allow_smaller_final_batch=True)
        features, lists, lengths = tf.io.parse_sequence_example(serialized, context, steps)
        return features, lists["frames"], lists["words"], lengths["frames"]

    assert_lifts_exactly(one_by_one)
    assert_lifts_exactly(in_batches)


def test_bytes_and_images_between_queues(tmp_path):
    """decode_raw, decode_csv, image decoding and resizing stand where they stood."""
    Path(tmp_path / "image.png").write_bytes(tf.io.encode_png(tf.zeros([3, 3, 3], tf.uint8) + 7).numpy())

    def input_fn():
        content = v1.WholeFileReader().read(files([str(tmp_path / "image.png")], 5)).value
        pixels = tf.io.decode_png(content, channels=3)
        pixels.set_shape([3, 3, 3])
        small = tf.image.resize(pixels, [2, 2])
        raw = tf.io.decode_raw(tf.strings.substr(content, 0, 4), tf.uint8)
        raw.set_shape([4])
        fields = tf.io.decode_csv(tf.constant("7,,x"), [[0], [2.5], [""]])
        return v1.train.batch([small, raw, *fields], 2)

    assert_lifts_exactly(input_fn)


def test_refused_by_both():
    """What the old functions refused while the graph was built is refused by them."""
    for input_fn, message in (
        (lambda: v1.train.batch([tf.range(numbers())], 2), "All shapes must be fully defined"),
        (lambda: v1.train.shuffle_batch([numbers()], 2, 5, 5), "min_after_dequeue|capacity"),
        (lambda: v1.train.range_input_producer(3, num_epochs=0), "num_epochs"),
    ):
        with pytest.raises(ValueError, match=message):
            legacy.lift(input_fn)
