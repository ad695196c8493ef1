"""What the decoders make of records that others have changed: the same, or nothing."""

import itertools
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

import seqrecorder as sr
from seqrecorder.codec.decoder import RecordDecoder


@sr.record
class Line:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int64")
    x: np.ndarray = sr.feature_list("float32", shape=(2,))


def line(number, steps):
    return Line(f"k{number}", np.arange(steps) * 1000, np.full((steps, 2), number))


SEEDS = sr.Schema.of(Line).encode_batch([line(number, 1 + number % 3) for number in range(4)])
"""Sound records, to be changed."""


def accepted(parse, data):
    """Return what a graph makes of each record that it does not refuse, by its number; of a mapping of numbers."""
    if not data:
        return {}
    numbered = tf.data.Dataset.from_tensor_slices((list(data), list(data.values())))
    parsed = numbered.map(lambda number, one: (number, parse(one)), num_parallel_calls=2).ignore_errors()
    options = tf.data.Options()
    options.autotune.enabled = False
    found = {}
    for batch in parsed.ragged_batch(len(data)).with_options(options):  # crossing to Python costs by the element
        numbers, *parts = map(rows_of, tf.nest.flatten(batch))
        rows = zip(*parts, strict=True)
        found |= {int(n): tf.nest.pack_sequence_as(batch[1], row) for n, row in zip(numbers, rows, strict=True)}
    return found


def rows_of(batch):
    """Return the rows of a batch as arrays."""
    if not isinstance(batch, tf.RaggedTensor):
        return batch.numpy()
    splits, values = batch.row_splits.numpy(), batch.values.numpy()
    return [values[start:stop] for start, stop in itertools.pairwise(splits)]


def is_whole(tensors):
    """Whether Python takes what a graph does: not text that is no UTF-8."""
    return tensors["key"].decode(errors="replace").encode() == tensors["key"]


def compare(data):
    """Assert that Python and graphs decode every one of these records to the same values, or both refuse it.

    Returns:
        How many were accepted and refused.
    """
    schema = sr.Schema.of(Line)
    tried = dict(enumerate(data))
    graph = accepted(schema.parse, tried)
    whole = [number for number in graph if is_whole(graph[number])]
    for number, record in zip(whole, schema.decode_batch([tried[number] for number in whole]), strict=True):
        assert graph[number]["key"] == record.key.encode(), tried[number]
        for name in ("ids", "x"):
            value = getattr(record, name)
            assert graph[number][name].shape == value.shape, tried[number]
            assert graph[number][name].tobytes() == value.tobytes(), tried[number]
    # What Python decodes is the columns of a parse of its own, which refuses what the parse of a batch refuses.
    parser = RecordDecoder(schema).parser
    rest = {number: one for number, one in tried.items() if number not in graph}
    columns = accepted(lambda one: parser.parse_columns(one[tf.newaxis])[1]["default"], rest)
    assert not columns, [rest[number] for number in columns]
    for number in list(rest)[::1000]:  # which takes a hundred times as long as in a graph
        with pytest.raises(sr.RecordError):
            schema.decode(tried[number])
    return Counter(accepted=len(graph), refused=len(rest))
