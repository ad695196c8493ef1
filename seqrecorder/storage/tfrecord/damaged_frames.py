"""Which frames are damaged: many are asked together.

A register that goes over some bytes and then over its own four is zero, and stays zero from frame to frame. So one
register goes over all of them, with each CRC put back into the register that it was made of. It ends as zero unless a
frame is damaged, and only then is each asked by itself. Damage to one frame is found as surely as by its own CRC. That
to several would be missed if 32 bits agreed by chance, as that to one would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from seqrecorder.storage.tfrecord import crc32c
from seqrecorder.storage.tfrecord.format import FOOTER, HEADER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Places = NDArray[np.int64]

_TOGETHER = 1 << 22  # bytes: the more, the fewer operations a byte
_LARGE = 4096  # mean bytes from which on compiled code is faster on each than on a copy of all
_ONES = np.uint32(0xFFFFFFFF)


def damaged_frames(data: NDArray[np.uint8], starts: Places, stops: Places) -> NDArray[np.bool_]:
    """Return which frames are not what the CRCs of their lengths and contents say.

    >>> frame = np.frombuffer(bytes.fromhex("0300000000000000b099490e6162636e57f121"), np.uint8)
    >>> damaged_frames(frame, np.array([12]), np.array([15]))
    array([False])

    Args:
        data: uint8, the frames, one behind the other.
        starts: where the content of each begins.
        stops: where it ends.
    """
    damaged = np.zeros(starts.size, bool)
    first = 0
    while first < starts.size:
        most = int(starts[first]) + _TOGETHER
        last = max(first + 1, int(np.searchsorted(stops, most, side="right")))
        here = starts[first:last], stops[first:last]
        large = _LARGE if crc32c.IS_COMPILED else _TOGETHER
        if int(here[1][-1] - here[0][0]) > large * (last - first) or not _are_whole(data, *here):
            damaged[first:last] = damaged_one_by_one(data, *here)
        first = last
    return damaged


def _are_whole(data: NDArray[np.uint8], starts: Places, stops: Places) -> bool:
    begin = int(starts[0]) - HEADER
    octets = data[begin : int(stops[-1]) + FOOTER].copy()
    words: NDArray[np.uint32] = np.ndarray((octets.size - FOOTER + 1,), "<u4", octets.data, strides=(1,))
    starts, stops = starts - begin, stops - begin
    for crcs in (starts - FOOTER, stops):
        words[crcs] = crc32c.unmasked(words[crcs])
    for begins in (starts - HEADER, starts):  # of what a register goes over, which holds ones before it
        words[begins] ^= _ONES
    return not crc32c.register_over(octets)


def damaged_one_by_one(data: NDArray[np.uint8], starts: Places, stops: Places) -> NDArray[np.bool_]:
    """Return the same of frames that need not be side by side."""

    def stored(places: Places) -> NDArray[np.uint32]:
        return np.ascontiguousarray(data[places[:, None] + np.arange(FOOTER)]).view("<u4").reshape(-1)

    headers = data[starts[:, None] + np.arange(-HEADER, -FOOTER)]
    lengths = crc32c.masked_crc32c(headers) != stored(starts - FOOTER)
    contents = crc32c.masked_crc32c_of_spans(data, starts, stops - starts) != stored(stops)
    damaged: NDArray[np.bool_] = np.logical_or(lengths, contents)
    return damaged
