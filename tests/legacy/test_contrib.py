"""What `tf.contrib` had: in sessions and lifted, against what TensorFlow 1.15.5 gave."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from combinations import all_at_night
from queue_runs import assert_lifts_exactly, plain, queue_run, v1

import seqrecorder as sr
from seqrecorder import legacy
from seqrecorder.legacy.contrib import layers, learn, rnn, slim, training

LENGTHS = [5, 3, 7, 2]


def numbers(limit=20, epochs=1):
    return v1.train.range_input_producer(limit, num_epochs=epochs, shuffle=False).dequeue()


def bucketed(smaller=False, sizes=3, **options):
    """An input function of buckets of `(7 n) mod 11` steps."""

    def input_fn():
        number = numbers(**options)
        length = number * 7 % 11
        tensors = {"number": number, "steps": tf.range(length), "sparse": tf.sparse.from_dense([number, 1])}
        return training.bucket_by_sequence_length(
            length, tensors, sizes, [3, 6], dynamic_pad=True, allow_smaller_final_batch=smaller
        )

    return input_fn


@pytest.mark.parametrize(
    ("sizes", "smaller"),
    all_at_night(itertools.product([3, [2, 3, 4]], [False, True]), [(3, False), ([2, 3, 4], True)]),
)
def test_bucket_by_sequence_length_is_that_of_datasets(smaller, sizes):
    """The batches are those of tf.data's function of that name, with lengths beside them, lifted and in a session."""
    each = sizes if isinstance(sizes, list) else [sizes] * 3
    elements = [(n, n * 7 % 11) for n in range(20)]
    reference = tf.data.Dataset.from_tensor_slices(np.array(elements, np.int32)).bucket_by_sequence_length(
        lambda row: row[1], [3, 6], each, drop_remainder=not smaller
    )
    lifted = legacy.trace(bucketed(smaller, sizes))
    outputs = list(lifted.dataset)
    assert len(outputs) == len(list(reference))
    for (lengths, batch), rows in zip(outputs, reference.as_numpy_iterator(), strict=True):
        np.testing.assert_array_equal(batch["number"], rows[:, 0])
        np.testing.assert_array_equal(lengths, rows[:, 1])
        steps = tf.sequence_mask(lengths, dtype=tf.int32) * tf.range(tf.reduce_max(lengths))
        np.testing.assert_array_equal(batch["steps"], steps)
        np.testing.assert_array_equal(tf.sparse.to_dense(batch["sparse"])[:, 0], rows[:, 0])
    assert not lifted.exact
    assert lifted.stages[-1].location.startswith(f"{__file__}, line ")
    in_session = queue_run(bucketed(smaller, sizes))
    assert [plain(lengths).tolist() for lengths, _ in in_session] == [x.numpy().tolist() for x, _ in outputs]


def test_buckets_keep_structure_and_shapes():
    """A list stays a list; a dict of one has its tensor in a list, as it had; full batches have a static size."""
    with tf.Graph().as_default():
        lengths, [steps] = training.bucket_by_sequence_length(numbers(), [numbers()], 4, [5])
        assert (lengths.shape.as_list(), steps.shape.as_list()) == ([4], [4])
        _, of_one = training.bucket_by_sequence_length(
            numbers(), {"x": numbers()}, 4, [5], allow_smaller_final_batch=True
        )
        assert list(of_one) == ["x"]
        assert of_one["x"][0].shape.as_list() == [None]


def test_bucket_and_keep_input():
    """`bucket` gives the number of the bucket; examples that are not kept are in none."""

    def input_fn():
        number = numbers(12)
        return training.bucket([number], number % 3, [1, 2, 3], 3, keep_input=number > 2)

    outputs = [(int(which), rows[0].numpy().tolist()) for which, rows in legacy.lift(input_fn)]
    assert outputs == [(0, [3]), (0, [6]), (1, [4, 7]), (0, [9]), (2, [5, 8, 11])]
    with pytest.raises(tf.errors.InvalidArgumentError, match="no bucket has the number"):
        list(legacy.lift(lambda: training.bucket([numbers()], numbers(), 1, 3)))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"bucket_boundaries": np.array([3])}, TypeError, "must be a list or tuple"),
        ({"bucket_boundaries": [1.5]}, TypeError, "must be integers"),
        ({"bucket_boundaries": []}, ValueError, "must not be empty"),
        ({"bucket_boundaries": [3, 3]}, ValueError, "must increase"),
        ({"batch_size": [1, 2, 3]}, ValueError, "batch_size: expected 2 sizes, one for each bucket, got 3"),
        ({"dynamic_pad": False}, ValueError, "All shapes must be fully defined"),
        ({"tensors": {}}, ValueError, "tensors: expected at least one"),
        ({"shapes": [None]}, ValueError, "Cannot infer Tensor's rank"),
        ({"wide": True}, ValueError, "input_length: expected int32, got int64"),
    ],
)
def test_buckets_refuse_what_contrib_refused(change, error, message):
    """Boundaries, sizes, lengths and shapes are checked when the graph is built, as they were."""
    with tf.Graph().as_default():
        number = numbers()
        steps = tf.range(number)
        if "shapes" in change:
            steps = tf.reshape(steps, v1.placeholder(tf.int32))
            change = {}
        length = tf.cast(number, tf.int64) if change.pop("wide", False) else number
        options = {"tensors": [steps], "batch_size": 2, "bucket_boundaries": [3], "dynamic_pad": True, **change}
        with pytest.raises(error, match=message):
            training.bucket_by_sequence_length(length, **options)


def segments(allow_small_batch=True, batch_size=2, lengths=tuple(LENGTHS), **options):
    """An input function of segments of 3 steps, which counts in its state how many came before."""

    def input_fn():
        position = numbers(len(lengths))
        length = tf.gather(list(lengths), position)
        batch = training.batch_sequences_with_states(
            input_key=tf.strings.as_string(length),
            input_sequences={"x": tf.range(length) + 10 * length, "y": tf.ones([length, 2])},
            input_context={"length": length},
            input_length=length,
            initial_states={"count": tf.zeros([1])},
            num_unroll=3,
            batch_size=batch_size,
            allow_small_batch=allow_small_batch,
            **options,
        )
        fixed = {name: getattr(batch, name) for name in _ROWS}
        return batch, {
            **fixed,
            "x": batch.sequences["x"],
            "y": batch.sequences["y"],
            "context": batch.context["length"],
        }

    return input_fn


_ROWS = ("key", "next_key", "sequence", "sequence_count", "insertion_index", "length", "total_length", "batch_size")


@pytest.mark.parametrize("small", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_segments_have_the_old_order_of_rows(small):
    """Segments come in consecutive batches, rows in the order of the examples: as in TensorFlow 1.15.5."""
    outputs = [plain(batch) for batch in legacy.lift(lambda: segments(small)()[1])]
    keys = [[key.decode() for key in batch["key"]] for batch in outputs]
    assert (
        keys
        == [
            ["00000_of_00002:5", "00000_of_00001:3"],
            ["00001_of_00002:5", "00000_of_00003:7"],
            ["00001_of_00003:7", "00000_of_00001:2"],
            ["00002_of_00003:7"],
        ][: 3 + small]
    )
    assert outputs[1]["next_key"].tolist() == [b"STOP:5", b"00001_of_00003:7"]
    assert outputs[1]["x"].tolist() == [[53, 54, 0], [70, 71, 72]]
    assert outputs[1]["y"].shape == (2, 3, 2)
    for name, values in {
        "sequence": [1, 0],
        "sequence_count": [2, 3],
        "insertion_index": [-(2**63), 2 - 2**63],
        "length": [2, 3],
        "total_length": [5, 7],
        "context": [5, 7],
        "batch_size": 2,
    }.items():
        assert outputs[1][name].tolist() == values


def test_segments_where_tensors_are_compared_as_objects():
    """After `tf.disable_v2_behavior()`, as old scripts have it, tensors are equal only to themselves: segments stay."""
    tf.compat.v1.disable_tensor_equality()
    try:
        [first, second] = [plain(batch) for batch in legacy.lift(lambda: segments(lengths=(5,), batch_size=1)()[1])]
    finally:
        tf.compat.v1.enable_tensor_equality()
    assert (first["next_key"], second["next_key"]) == ([b"00001_of_00002:5"], [b"STOP:5"])


def test_states_go_from_segment_to_segment():
    """In a session, a state starts with its initial value and comes back as it was saved for the same example."""

    def input_fn():
        batch, fixed = segments(make_keys_unique=True)()
        count = batch.state("count")
        with tf.control_dependencies([batch.save_state("count", count + 1)]):
            return tf.identity(count), fixed["sequence"], fixed["key"]

    steps = queue_run(input_fn)
    assert len(steps) == 4
    for count, sequence, _ in steps:
        np.testing.assert_array_equal(count[:, 0], sequence)
    assert steps[0][2][1] == b"00000_of_00001:1:3"


def test_a_state_that_was_not_saved_is_an_error():
    """Without `save_state` in each step there is nothing to go on from, and an unknown name is a KeyError."""

    def input_fn():
        batch, _ = segments()()
        with pytest.raises(KeyError):
            batch.state("other")
        return batch.state("count")

    with pytest.raises(tf.errors.OpError, match="state 'count': nothing was saved for .*; run save_state each step"):
        queue_run(input_fn)


def test_examples_without_steps_are_refused():
    """A sequence of no steps, or of another length than was said, is an error that names the example's key."""
    with pytest.raises(tf.errors.InvalidArgumentError, match="at least 1 is needed"):
        list(legacy.lift(lambda: segments(lengths=[2, 0])()[1]))


def test_contexts_of_segments_have_known_shapes():
    """A context of unknown length, which could as well be of steps, is refused while the graph is built."""
    with (
        tf.Graph().as_default(),
        pytest.raises(ValueError, match=r"'x' to have a known shape, got \(None,\)"),
    ):
        training.batch_sequences_with_states("a", {}, {"x": tf.range(numbers())}, 1, {}, 3, 2)


def test_segments_of_many_examples():
    """All steps of all examples come once, over several windows of planning."""
    lengths = np.random.default_rng(2).integers(1, 12, 300).tolist()
    total = 0
    for batch in legacy.lift(lambda: segments(lengths=lengths, batch_size=7)()[1]):
        order = batch["insertion_index"].numpy()
        assert (np.diff(order) > 0).all()
        total += int(tf.reduce_sum(batch["length"]))
    assert total == sum(lengths)


class Decoder:
    """Gives a record and its size."""

    def list_items(self):
        return ["text", "size"]

    def decode(self, data, items):
        return [{"text": data, "size": tf.strings.length(data)}[item] for item in items]


def test_a_decoder_may_have_defaults_of_another_graph():
    """A default that is a constant tensor is its value, wherever records are decoded: lift has a graph of its own."""
    with tf.Graph().as_default():
        features = {"x": v1.FixedLenFeature([], tf.int64, tf.constant(7, tf.int64))}
        features["y"] = v1.FixedLenFeature([], tf.int64, tf.ones([], tf.int64))
        handlers = {name: slim.tfexample_decoder.Tensor(name) for name in features}
        decoder = slim.tfexample_decoder.TFExampleDecoder(features, handlers)
    with tf.Graph().as_default(), v1.Session() as session:
        x, y = decoder.decode(tf.constant(tf.train.Example().SerializeToString()))
        assert session.run([x, y]) == [7, 1]


@pytest.mark.parametrize(
    ("shuffle", "readers"), all_at_night(itertools.product([False, True], [1, 3]), [(False, 1), (True, 3)])
)
def test_dataset_data_provider(records, readers, shuffle):
    """A provider gives all records of all files, through one or several readers, and a prefetch queue keeps names."""

    def input_fn():
        data = slim.dataset.Dataset(records, v1.TFRecordReader, Decoder(), 18, {}, num_classes=3)
        assert data.num_classes == 3
        provider = slim.dataset_data_provider.DatasetDataProvider(
            data, num_readers=readers, shuffle=shuffle, num_epochs=2, common_queue_capacity=9, common_queue_min=4
        )
        assert provider.list_items() == ["text", "size", "record_key"]
        assert provider.num_samples() == 18
        key, text, size = provider.get(["record_key", "text", "size"])
        batch = dict(zip(("key", "text", "size"), v1.train.batch([key, text, size], 4), strict=True))
        return slim.prefetch_queue.prefetch_queue(batch).dequeue()

    lifted = legacy.trace(input_fn)
    outputs, expected = [
        sorted(key.decode() for batch in batches for key in plain(batch["key"]))
        for batches in (lifted.dataset, queue_run(input_fn))
    ]
    assert outputs == expected
    assert len(set(outputs)) == 18
    assert lifted.exact == (not shuffle and readers == 1)


def test_bounding_boxes():
    """The sides of boxes, sparse or dense, are columns in the order of their names; there are four."""
    box = slim.tfexample_decoder.BoundingBox(prefix="box/")
    assert box.keys == ["box/ymin", "box/xmin", "box/ymax", "box/xmax"]
    sides = [
        tf.sparse.from_dense([at + 1.0, at + 5.0]) if at % 2 else tf.constant([at + 1.0, at + 5.0]) for at in range(4)
    ]
    boxes = box.tensors_to_item(dict(zip(box.keys, sides, strict=True)))
    assert boxes.numpy().tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
    with pytest.raises(ValueError, match="BoundingBox expects 4 keys but got 1"):
        slim.tfexample_decoder.BoundingBox(["ymin"])


def test_slim_reads_in_order(texts):
    """Files that are read in parallel stay aligned."""

    def aligned():
        options = {"num_readers": 1, "shuffle": False, "num_epochs": 1, "reader_class": v1.TextLineReader}
        pairs = [slim.parallel_reader.parallel_read(texts[0], **options) for _ in range(2)]
        return [value for _, value in pairs]

    assert all(a == b for a, b in legacy.lift(aligned).as_numpy_iterator())


def test_slim_refuses(records):
    """Patterns that match nothing, names that are taken or unknown, and no readers at all are refused."""
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="No data files found in /no/such/"):
            slim.parallel_reader.parallel_read("/no/such/*", v1.TFRecordReader)
        with pytest.raises(ValueError, match="num_readers: expected 1 or more, got 0"):
            slim.parallel_reader.parallel_read(records, v1.TFRecordReader, num_readers=0)
        data = slim.dataset.Dataset(records, v1.TFRecordReader, Decoder(), None, {})
        with pytest.raises(ValueError, match="record_key"):
            slim.dataset_data_provider.DatasetDataProvider(data, record_key="size")
        with pytest.raises(ValueError, match=r"Items \['image'\] are not among \['text'\]"):
            slim.data_provider.DataProvider({"text": 1}, 1).get(["image"])


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """Two files of `tf.train.Example`s with a number and a list."""
    paths = [str(tmp_path_factory.mktemp("examples") / name) for name in ("a.tfrecord", "b.tfrecord")]
    for start, path in zip((0, 11), paths, strict=True):
        with tf.io.TFRecordWriter(path) as writer:
            for number in range(start, start + 11):
                example = tf.train.Example()
                example.features.feature["number"].int64_list.value.append(number)
                example.features.feature["list"].int64_list.value.extend(range(number % 3))
                writer.write(example.SerializeToString())
    return paths


FEATURES = {"number": tf.io.FixedLenFeature([], tf.int64), "list": tf.io.VarLenFeature(tf.int64)}


@pytest.mark.parametrize("randomize", [False, True])
def test_learn_reads_features(examples, randomize):
    """Batches of parsed examples, the last one smaller; without shuffling they are the same, in any order.

    Two threads fill the last queue, so that which of two batches came first was open.
    """

    def input_fn():
        return learn.read_batch_record_features(
            examples, 4, FEATURES, randomize_input=randomize, num_epochs=2, queue_capacity=50
        )

    lifted = legacy.trace(input_fn)
    outputs, expected = [
        [plain(batch)["number"].tolist() for batch in batches] for batches in (lifted.dataset, queue_run(input_fn))
    ]
    assert [len(batch) for batch in outputs] == [len(batch) for batch in expected] == [4] * 11
    assert sorted(sum(outputs, [])) == sorted(sum(expected, [])) == sorted([*range(22)] * 2)  # noqa: RUF017 - short
    if not randomize:
        assert sorted(outputs) == sorted(expected)
    assert "order not fixed: 2 threads filled the queue" in str(lifted)
    assert not lifted.exact


def test_learn_reads_features_in_order(examples):
    """With one thread that fills the last queue the order is fixed, and sparse features come along."""

    def input_fn():
        return learn.read_batch_features(
            examples[::-1], 4, FEATURES, v1.TFRecordReader, False, 2, 50, num_enqueue_threads=1, read_batch_size=1
        )

    assert_lifts_exactly(input_fn)
    with tf.Graph().as_default():
        endless = learn.read_batch_features(examples, 4, FEATURES, v1.TFRecordReader)
        assert endless["number"].shape.as_list() == [4], "without an end, all batches are full"


def test_learn_refuses_numbers(examples):
    """A queue of records holds more than a batch."""
    assert learn.ModeKeys.TRAIN == "train"
    with tf.Graph().as_default(), pytest.raises(ValueError, match="a larger queue_capacity"):
        learn.read_batch_features(examples, 5, FEATURES, v1.TFRecordReader, queue_capacity=5)


def test_what_cannot_be_lifted_is_said_at_once():
    """A function of contrib on a pipeline that is fed from Python refuses it while the graph is built."""
    with tf.Graph().as_default(), pytest.raises(sr.LiftError, match="fed from Python"):
        training.bucket_by_sequence_length(v1.placeholder(tf.int32, []), [v1.placeholder(tf.int32, [])], 2, [3])


def test_one_hot_encoding_takes_small_labels():
    """Labels of every integer type are rows of a vector, with the values that are asked for; slim has it too."""
    assert slim.one_hot_encoding is layers.one_hot_encoding
    with tf.Graph().as_default() as graph, v1.Session() as session:
        rows = layers.one_hot_encoding([1, 0], 2, on_value=3.0, outputs_collections="rows")
        assert session.run(rows).tolist() == [[0, 3], [3, 0]]
        assert graph.get_collection("rows") == [rows]


def test_settings_of_scripts():
    """Named values are attributes, and can be listed and added to."""
    settings = training.HParams(batch_size=4)
    settings.add_hparam("steps", 3)
    assert (settings.batch_size, settings.values()) == (4, {"batch_size": 4, "steps": 3})


def test_states_of_models():
    """The state of an LSTM is a pair with names."""
    state = rnn.LSTMStateTuple(c=1, h=2)
    assert tuple(state) == (state.c, state.h) == (1, 2)
