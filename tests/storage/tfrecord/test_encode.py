"""Frames made in numpy: those of the format's definition."""

import numpy as np
import pytest
from tfrecord_files import framed

from seqrecorder.storage.tfrecord.encode import frames


@pytest.mark.parametrize("most", [0, 1, 255, 256, 257, 511, 512, 513, 4096, 4097])
def test_frames_are_those_of_the_format(most):
    """Records of every length up to a bound, empty ones too, get lengths and CRCs as the format has them."""
    random = np.random.default_rng(most)
    data = [random.bytes(int(size)) for size in [0, most, *random.integers(0, most + 1, 30), 0]]
    assert frames(data).tobytes() == framed(data)


def test_no_records_have_no_frames():
    """No record gives no byte."""
    assert frames([]).size == 0
