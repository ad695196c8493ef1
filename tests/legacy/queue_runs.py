"""The oracle: what an input function gives when its queue runners run, in graph mode."""

import numpy as np
import tensorflow as tf

from seqrecorder.legacy import trace
from seqrecorder.legacy.tf1_behaviour import first_behaviour, quiet

v1 = tf.compat.v1


def queue_run(input_fn, most=None, graph_seed=None, feed=None):
    """Run an input function's queues to their end, or for a number of steps; return a list of what it gave."""
    elements = []
    with tf.Graph().as_default(), quiet(), first_behaviour():
        if graph_seed is not None:
            v1.set_random_seed(graph_seed)
        fetched = input_fn()
        with v1.Session() as session:
            for variable in [*v1.global_variables(), *v1.local_variables()]:
                session.run(variable.initializer)
            session.run(v1.tables_initializer())
            coordinator = tf.train.Coordinator()
            threads = v1.train.start_queue_runners(session, coordinator)
            try:
                while most is None or len(elements) < most:
                    elements.append(session.run(fetched, feed))
            except tf.errors.OutOfRangeError:
                pass
            coordinator.request_stop()
            coordinator.join(threads, stop_grace_period_secs=10)
    return elements


def plain(element):
    """Return an element as nested tuples and dicts of numpy arrays, with sparse tensors dense and in parts."""
    if isinstance(element, (tf.SparseTensor, v1.SparseTensorValue)):
        return tuple(np.asarray(part) for part in (element.indices, element.values, element.dense_shape))
    if isinstance(element, dict):
        return {key: plain(value) for key, value in element.items()}
    if isinstance(element, (list, tuple)):
        return tuple(plain(value) for value in element)
    array = np.asarray(element)
    return array.astype(object) if array.dtype.kind == "S" else array


def assert_equal_elements(outputs, expected):
    """The same structure, dtypes, shapes and values."""
    tf.nest.assert_same_structure(outputs, expected)
    for ours, theirs in zip(tf.nest.flatten(outputs), tf.nest.flatten(expected), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


def assert_lifts_exactly(input_fn, most=None, **options):
    """The lifted dataset gives what the queue run gives, element by element, and says that it does. Returns both."""
    lifted = trace(input_fn, **options)
    outputs = [plain(element) for element in (lifted.dataset if most is None else lifted.dataset.take(most))]
    expected = [plain(element) for element in queue_run(input_fn, most, options.get("graph_seed"))]
    assert len(outputs) == len(expected)
    for ours, theirs in zip(outputs, expected, strict=True):
        assert_equal_elements(ours, theirs)
    assert lifted.exact, lifted
    return lifted, outputs


def rows(elements):
    """Return the rows of batches as a sorted list of their bytes: what came, whatever the order."""
    return sorted(
        tuple(part[i].tobytes() if part.dtype != object else repr(part[i]) for part in tf.nest.flatten(element))
        for element in elements
        for i in range(len(tf.nest.flatten(element)[0]))
    )


def assert_lifts_in_another_order(input_fn, **options):
    """The lifted dataset gives the same rows in batches of the same sizes, and says that their order was not fixed."""
    lifted = trace(input_fn, **options)
    outputs = [plain(element) for element in lifted.dataset]
    expected = [plain(element) for element in queue_run(input_fn, graph_seed=options.get("graph_seed"))]
    assert [len(tf.nest.flatten(e)[0]) for e in outputs] == [len(tf.nest.flatten(e)[0]) for e in expected]
    assert rows(outputs) == rows(expected)
    assert outputs
    assert not lifted.exact, lifted
    return lifted, outputs


def rest_after(dataset, position, directory):
    """What a saved iterator gives after so many elements, once it is restored; and the one that was saved."""
    iterator = iter(dataset)
    for _ in range(position):
        next(iterator)
    saved = tf.train.Checkpoint(iterator=iterator).save(str(directory / f"at{position}"))
    again = iter(dataset)
    tf.train.Checkpoint(iterator=again).restore(saved)
    return [plain(element) for element in again], iterator
