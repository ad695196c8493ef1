"""What the decoders make of records that others have changed: the same, or nothing."""

import itertools
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

import seqrecorder as sr
from seqrecorder.codec.columns import group_lengths
from seqrecorder.codec.decode import ColumnDecoder
from seqrecorder.codec.flat_values import Broken
from seqrecorder.codec.parse import Parser
from seqrecorder.wire.byte_rows import Messages


@sr.record
class Line:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int64")
    x: np.ndarray = sr.feature_list("float32", shape=(2,), name="x" * 128)


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
    rest = {number: one for number, one in tried.items() if number not in graph}
    for one in rest.values():
        with pytest.raises(sr.RecordError):
            print(schema.decode(one))  # noqa: T201 - pytest shows it when a test fails
    return Counter(accepted=len(graph), refused=len(rest))


def graph_columns(schema, layout, data):
    """Return the columns of each record that a graph does not refuse, by its number: what `ColumnDecoder` gives."""
    parser = Parser(schema, layout)

    def parse(one, number):
        columns, _ = parser.parse_columns(one[tf.newaxis])
        parts = {(field.name, part): getattr(columns[field.name], part) for field in schema.fields for part in PARTS}
        return number, {"/".join(names): part for names, part in parts.items() if part is not None}

    numbered = tf.data.Dataset.from_tensor_slices((list(data), list(range(len(data)))))
    parsed = numbered.map(tf.autograph.experimental.do_not_convert(parse), num_parallel_calls=2).ignore_errors()
    return {
        int(number): {
            field.name: sr.Column(**{part: found.get(f"{field.name}/{part}") for part in PARTS})
            for field in schema.fields
        }
        for number, found in parsed.as_numpy_iterator()
    }


PARTS = ("values", "steps", "counts", "indices", "present")


def bits_of(field, column):
    """Return the parts of a column in a form that compares to the bit."""
    parts = [
        None if getattr(column, part) is None else np.asarray(getattr(column, part)).tolist() for part in PARTS[1:]
    ]
    parts[-1] = None if parts[-1] is None or all(parts[-1]) else parts[-1]
    values = np.asarray(column.values)
    if field.element.is_text:
        return [*parts, values.shape, [x if isinstance(x, bytes) else x.encode() for x in values.ravel().tolist()]]
    return [*parts, values.shape, values.tobytes()]


def checked_sizes(schema, decoder, data):
    """Return the lengths of a record, of which only what is wrong is looked for; or that."""
    try:
        return group_lengths(schema, decoder.decode(Messages.of([data])), 1).tolist()
    except Broken as error:
        return error.message


def compare_columns(schema, layout, data):
    """Assert that numpy decodes each of these records to the columns that a graph gives, or both refuse it.

    Returns:
        How many were accepted and refused.
    """
    graph, decoder = graph_columns(schema, layout, data), ColumnDecoder(schema, layout)
    checking = ColumnDecoder(schema, layout, joined=True)
    found = Counter()
    for number, one in enumerate(data):
        columns, problem = None, ""
        try:
            columns = decoder.decode(Messages.of([one]))
        except Broken as error:
            problem = error.message
        assert checked_sizes(schema, checking, one) == (problem or group_lengths(schema, columns, 1).tolist()), one
        if columns is None:
            assert number not in graph or "UTF-8" in problem, (one, problem)
            found["refused"] += 1
        else:
            assert number in graph, one
            for field in schema.fields:
                assert bits_of(field, columns[field.name]) == bits_of(field, graph[number][field.name]), (one, field)
            found["accepted"] += 1
    return found
