"""Crops: the same steps as Python's own slices, for many sequences at once."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import seqrecorder as sr
from seqrecorder.codec.cropping import check_steps, cropped_lengths, cropped_positions

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


@pytest.mark.parametrize(
    "steps", [5, (0, 5), slice(0.5), slice("a"), slice(True), slice(5, 0, -1), slice(None, None, 0)]
)
def test_what_is_no_crop_is_refused(steps: object) -> None:
    """What is no slice of ints, or goes backwards, is refused with what came."""
    with pytest.raises(sr.OptionError, match=r"steps: expected a slice .*, got"):
        check_steps(steps)
