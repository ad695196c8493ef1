"""Variables, lookup tables and placeholders of input functions, and what is returned."""

from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from queue_runs import assert_lifts_exactly, v1

import seqrecorder as sr
from seqrecorder import legacy


def words(epochs=2):
    return v1.train.string_input_producer(["to", "be", "or", "not"], num_epochs=epochs, shuffle=False).dequeue()


def test_lookup_tables(tmp_path):
    """Tables from tensors and from files, static and mutable, hold what their initialisers put in."""
    vocabulary = tmp_path / "words.txt"
    vocabulary.write_text("be\nto\n")

    def input_fn():
        word = words()
        content = tf.lookup.KeyValueTensorInitializer(["to", "or"], [1, 2])
        static = v1.lookup.StaticHashTable(content, -1).lookup(word)
        file = tf.lookup.TextFileInitializer(
            str(vocabulary),
            tf.string,
            tf.lookup.TextFileIndex.WHOLE_LINE,
            tf.int64,
            tf.lookup.TextFileIndex.LINE_NUMBER,
        )
        buckets = v1.lookup.StaticVocabularyTable(file, 3)
        back = v1.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([1, 2], ["one", "two"]), "many")
        return v1.train.batch([static, buckets.lookup(word), back.lookup(static), tf.cast(buckets.size(), tf.int32)], 3)

    assert_lifts_exactly(input_fn)


@pytest.mark.parametrize("resource", [False, True])
def test_variables(tmp_path, resource):
    """Variables have their initial values: constants, random ones with a seed, and lists of matched files."""
    for name in "ba":
        (tmp_path / f"{name}.txt").write_text(f"{name} 1\n{name} 2\n")

    def input_fn():
        paths = v1.train.match_filenames_once(str(tmp_path / "*.txt"))
        queue = v1.train.string_input_producer(paths, num_epochs=2, shuffle=False)
        _, line = v1.TextLineReader().read(queue)
        scale = v1.get_variable("scale", initializer=3.0, use_resource=resource)
        noise = v1.get_variable(
            "noise", [2], initializer=v1.random_uniform_initializer(seed=1), trainable=False, use_resource=resource
        )
        twice = v1.get_variable(
            "twice", initializer=6.0 if resource else scale.initialized_value() * 2, use_resource=resource
        )
        vectors = v1.get_variable("vectors", initializer=np.eye(2, dtype="float32"), use_resource=resource)
        row = tf.nn.embedding_lookup(vectors, tf.strings.length(line) % 2)
        return v1.train.batch([line, scale + noise, twice.read_value(), row], 3)

    _, outputs = assert_lifts_exactly(input_fn, graph_seed=5)
    assert outputs[0][0].tolist() == [b"a 1", b"a 2", b"b 1"]


def test_data_in_variables():
    """Arrays preloaded into variables that are fed at initialisation are given as what is fed."""

    def input_fn():
        holder = v1.placeholder(tf.float32, [4, 2], name="images")
        images = v1.Variable(holder, trainable=False, collections=[])
        [row] = v1.train.slice_input_producer([images], num_epochs=1, shuffle=False)
        return v1.train.batch([row], 2)

    with pytest.raises(sr.LiftError, match=r"it cannot be initialised: .*lift\(\.\.\., feed=\{name: value\}\)"):
        legacy.lift(input_fn)
    data = np.arange(8.0).reshape(4, 2)
    batches = list(legacy.lift(input_fn, feed={"images": data}).as_numpy_iterator())
    np.testing.assert_array_equal(np.concatenate(batches), data)


def test_placeholders_with_a_value():
    """A placeholder has the value that is fed, or its default; sizes of batches may be placeholders as well."""

    def input_fn():
        size = v1.placeholder(tf.int32, [], name="batch_size")
        scale = v1.placeholder_with_default(10, [])
        number = v1.train.range_input_producer(6, num_epochs=1, shuffle=False).dequeue()
        return v1.train.batch([number * scale], size)

    batches = [batch.numpy().tolist() for batch in legacy.lift(input_fn, feed={"batch_size:0": 3})]
    assert batches == [[0, 10, 20], [30, 40, 50]]
    with pytest.raises(sr.LiftError, match=r"batch_size \(.*, line \d+\): it is a placeholder, fed from Python"):
        legacy.lift(input_fn)
    with pytest.raises(
        sr.OptionError, match=r"feed: there is no placeholder or queue 'size', only \['batch_size'\] and \["
    ):
        legacy.lift(input_fn, feed={"size": 3})


def test_structure_of_what_is_returned():
    """Nested structures come back as they were, lists as tuples, constants as tensors, and None as None."""

    class Pair(NamedTuple):
        word: object
        rest: object

    def input_fn():
        word = words(1)
        ragged = tf.strings.split([word, "a b"])
        return Pair(word, [{"n": 7, "none": None}, [tf.sparse.from_dense([[1, 0]]), ragged], "text", np.ones(2)])

    element = next(iter(legacy.lift(input_fn)))
    assert isinstance(element, Pair)
    inner, (sparse, ragged), text, ones = element.rest
    assert (element.word.numpy(), inner["n"].numpy(), inner["none"], text.numpy()) == (b"to", 7, None, b"text")
    assert isinstance(sparse, tf.SparseTensor)
    assert ragged.to_list() == [[b"to"], [b"a", b"b"]]
    assert ones.numpy().tolist() == [1, 1]


def test_wrong_shapes_are_noticed():
    """A shape that was only claimed with `set_shape`, and is not true, is an error where the original went on."""

    def input_fn():
        number = v1.train.range_input_producer(4, num_epochs=1, shuffle=False).dequeue()
        steps = tf.range(number)
        steps.set_shape([2])
        return steps

    with pytest.raises(tf.errors.InvalidArgumentError):
        list(legacy.lift(input_fn))


def test_graph_of_the_caller_is_left_alone():
    """Lifting leaves no trace in the default graph, nor in how conditionals are built."""
    v1.disable_control_flow_v2()
    try:
        before = len(v1.get_default_graph().get_operations())
        legacy.lift(lambda: v1.train.maybe_batch([words()], tf.constant(True), 2))
        assert not v1.control_flow_v2_enabled()
        assert len(v1.get_default_graph().get_operations()) == before
    finally:
        v1.enable_control_flow_v2()
