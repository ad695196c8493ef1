"""Frames that are asked together: damaged are those that their own CRCs say."""

import numpy as np
import pytest
import tfrecord_files
from hypothesis import given, settings
from hypothesis import strategies as st

from seqrecorder.storage import crc32c
from seqrecorder.storage import crc32c as damaged_frames

LENGTHS = [0, 1, 2, 3, 4, 5, 0, 40, 0, 0, 1500, 12, 5000, 3, 600, 600]
COMPILED = [(None, None)] if crc32c._other is None else [(None, None), (crc32c._other, crc32c._extend)]


def frames(lengths, seed=0):
    """Return frames of random records of some lengths, and where the content of each is."""
    random = np.random.default_rng(seed)
    data = np.frombuffer(tfrecord_files.framed(map(random.bytes, lengths)), np.uint8).copy()
    stops = np.cumsum(np.array(lengths, np.int64) + 16) - 4
    return data, stops - lengths, stops


@pytest.fixture(params=COMPILED, ids=lambda pair: "numpy" if pair[0] is None else "compiled", autouse=True)
def _implementation(request, monkeypatch):
    monkeypatch.setattr(crc32c, "_other", request.param[0])
    monkeypatch.setattr(crc32c, "_extend", request.param[1])


@pytest.mark.parametrize("together", [1, 900, 1 << 20])
def test_whole_frames_are_not_damaged(together):
    """Frames of every length around the widths of a CRC are whole, asked in one group or several."""
    assert not damaged_frames.damaged_frames(*frames(LENGTHS), together=together).any()


def test_many_frames_are_whole():
    """So are so many that their register is folded at every scale."""
    random = np.random.default_rng(1)
    lengths = random.integers(0, 200, 20_000)
    data, starts, stops = frames([*np.minimum(lengths, 3).tolist(), 80_000])
    assert not damaged_frames.damaged_frames(data, starts, stops).any()
    data[starts[7_000] - 2] ^= 8
    assert np.flatnonzero(damaged_frames.damaged_frames(data, starts, stops)).tolist() == [7_000]


def test_each_bit_counts():
    """A change of any one byte, be it of a length, a CRC or a content, is a damaged frame, and that one alone."""
    lengths = LENGTHS[:10]
    data, starts, stops = frames(lengths)
    owners = np.repeat(np.arange(len(lengths)), np.array(lengths) + 16)
    for place in range(data.size):
        data[place] ^= 1 << place % 8
        assert np.flatnonzero(damaged_frames.damaged_frames(data, starts, stops)).tolist() == [owners[place]]
        data[place] ^= 1 << place % 8


def test_contents_that_are_exchanged():
    """Two contents of one length, each before the CRC of the other, are both damaged: what differs does not cancel."""
    data, starts, stops = frames([100, 100, 100])
    first, third = data[starts[0] : stops[0]].copy(), data[starts[2] : stops[2]].copy()
    data[starts[0] : stops[0]], data[starts[2] : stops[2]] = third, first
    assert damaged_frames.damaged_frames(data, starts, stops).tolist() == [True, False, True]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 1200), min_size=1, max_size=12), st.lists(st.integers(0, 1 << 20), max_size=6))
def test_together_as_one_by_one(lengths, places):
    """Whatever bytes are changed, the frames asked together are those that are found one by one."""
    data, starts, stops = frames(lengths)
    for place in places:
        data[place % data.size] ^= 1 + place % 255
    expected = damaged_frames.damaged_one_by_one(data, starts, stops)
    assert damaged_frames.damaged_frames(data, starts, stops).tolist() == expected.tolist()


def test_no_frames():
    """Of no frame none is damaged."""
    nothing = np.empty(0, np.int64)
    assert not damaged_frames.damaged_frames(np.empty(0, np.uint8), nothing, nothing).size
