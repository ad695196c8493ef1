"""Crops: the same steps as Python's own slices, for many sequences at once."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import seqrecorder as sr
from seqrecorder.codec.graph_ops import (
    MARGINS,
    Stretch,
    check_steps,
    cropped_lengths,
    cropped_positions,
    kept_of,
    without_margins,
)
from seqrecorder.codec.parse import Parser

PARTS = st.builds(slice, *[st.none() | st.integers(-8, 8)] * 2, st.none() | st.integers(1, 4))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(lengths=st.lists(st.integers(0, 9), max_size=6), crop=st.lists(PARTS, max_size=3).map(tuple))
def test_crops_are_slices(lengths: list[int], crop: tuple[slice, ...]) -> None:
    """Lengths and positions are those of lists that are sliced one after the other."""
    rows, first = [], 0
    for length in lengths:
        row = list(range(first, first + length))
        for part in crop:
            row = row[part]
        rows.append(row)
        first += length
    want = list(map(len, rows))
    assert cropped_lengths(np.array(lengths, np.int64), crop, np).tolist() == want
    kept, positions = cropped_positions(tf.constant(lengths, tf.int64), crop)
    assert kept.numpy().tolist() == want
    assert positions.numpy().tolist() == [position for row in rows for position in row]


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 9), max_size=4), st.lists(PARTS, min_size=1, max_size=2).map(tuple))
def test_margins_are_the_steps_beside(lengths: list[int], crop: tuple[slice, ...]) -> None:
    """One before and one behind what is kept, as far away as its steps are from each other; and they come off again."""
    sizes = tf.constant(lengths, tf.int64)
    wide, positions = cropped_positions(sizes, (*crop, MARGINS))
    kept, inner = without_margins(positions, sizes, (*crop, MARGINS), None)
    np.testing.assert_array_equal(kept, cropped_positions(sizes, crop)[0])
    np.testing.assert_array_equal(inner, cropped_positions(sizes, crop)[1])
    starts = np.cumsum([0, *lengths])
    for row, (start, part) in enumerate(zip(starts, np.split(positions, np.cumsum(wide)), strict=True)):
        own = range(lengths[row]) if row < len(lengths) else range(0)
        for piece in crop:
            own = own[piece]
        places = [own[0] - own.step, *own, own[-1] + own.step] if own else []
        expected = [place for place in places if 0 <= place < lengths[row]]
        assert (part - start).tolist() == expected
        if row < len(lengths):
            assert list(range(lengths[row])[kept_of(lengths[row], (*crop, MARGINS))]) == expected


@pytest.mark.parametrize(
    "steps", [5, (0, 5), slice(0.5), slice("a"), slice(True), slice(5, 0, -1), slice(None, None, 0)]
)
def test_what_is_no_crop_is_refused(steps: object) -> None:
    """What is no slice of ints, or goes backwards, is refused with what came."""
    with pytest.raises(sr.OptionError, match=r"steps: expected a slice .*, got"):
        check_steps(steps)


def test_buffers_are_cut_before_they_are_decoded() -> None:
    """Whatever is kept of whole sequences in buffers, one to a record or several, is what is kept of packed ones."""

    @sr.record
    class Both:
        buffer: np.ndarray = sr.feature_list("int16", shape=(2,), storage="buffer")
        packed: np.ndarray = sr.feature_list("int16", shape=(2,), storage="packed")

    schema = sr.Schema.of(Both)
    rows = [np.random.default_rng(steps).integers(-9, 9, (steps, 2)) for steps in (0, 1, 5, 12, 3)]
    data = schema.encode_batch([Both(row, row) for row in rows])
    message = tf.train.SequenceExample.FromString(data[3])
    features = message.feature_lists.feature_list["buffer"].feature
    whole = features.pop().bytes_list.value[0]
    for part in (whole[:8], b"", whole[8:12], whole[12:]):
        features.add().bytes_list.value.append(part)
    data.append(message.SerializeToString())
    stretch = Stretch(np.array([0, 0, 3, 7, 9, 2]), 4)
    crops = [slice(1, 4)], [slice(None, None, 3)], [slice(-4, -1)], [slice(2, None, 2), slice(1, 3)], [stretch]
    for crop in (*crops, [slice(20, 30)], [slice(0)]):
        columns, _ = Parser(schema, crops={"default": tuple(crop)}).parse_columns(tf.constant(data))
        assert columns["buffer"].values.numpy().tolist() == columns["packed"].values.numpy().tolist(), crop
        assert columns["buffer"].steps.numpy().tolist() == columns["packed"].steps.numpy().tolist(), crop
