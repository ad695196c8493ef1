"""Functions as operations of datasets take them, and graphs made where there is none."""

import logging

import tensorflow as tf

from seqrecorder.reading.tfdata_ops import bucketed
from seqrecorder.reading.tracing import growing, in_graph, tensor_of, trace

NUMBER = tf.TensorSpec([], tf.int64)


def test_a_traced_function_tells_its_output_and_what_it_captures():
    """A tuple is taken apart, what comes out keeps its structure, and a tensor from outside is an argument more."""
    outside = tf.constant([1, 2], tf.int64)
    traced = trace(lambda a, b: {"sum": a + b, "more": outside + a}, (NUMBER, NUMBER))
    assert traced.spec == {"sum": NUMBER, "more": tf.TensorSpec([2], tf.int64)}
    [captured] = traced.captured
    assert captured is outside


def test_calls_of_functions_are_noticed():
    """A conditional calls its branches, an addition nothing."""
    assert not trace(lambda a: a + 1, NUMBER).calls
    assert trace(lambda a: tf.cond(a > 0, lambda: a, lambda: -a), NUMBER).calls


def test_tensors_in_a_graph_that_is_run_at_once_or_is_being_made():
    """In eager code and inside a function, what was computed before included."""
    outside = tf.constant(2)
    assert in_graph(lambda: outside * 3).numpy() == 6

    @tf.function(autograph=False)
    def function(number):
        return in_graph(lambda: number * 3)

    assert function(outside).numpy() == 6


def test_many_pipelines_are_made_without_a_warning(caplog):
    """TensorFlow warns of functions that are traced again and again; here each is another one."""
    with caplog.at_level(logging.WARNING):
        for size in range(1, 20):
            list(bucketed(tf.data.Dataset.range(3), lambda number: number % 2, [size, size]))
    assert not caplog.records


def test_states_that_may_grow():
    """What has no rows before the first element may get any number; other shapes are kept."""
    shapes = [growing(tf.zeros(shape)).shape.as_list() for shape in ([0, 3], [2, 3], [])]
    assert shapes == [[None, 3], [2, 3], []]


def test_composite_tensors_stay_as_they_are():
    """Ragged and sparse tensors are not made dense; numbers become tensors."""
    ragged, sparse = tf.ragged.constant([[1], []]), tf.sparse.from_dense([0, 1])
    assert tensor_of(ragged) is ragged
    assert tensor_of(sparse) is sparse
    assert tensor_of(1).dtype == tf.int32
