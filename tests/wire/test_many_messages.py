"""The parts of messages: found all at once as one after the other."""

import numpy as np
import pytest

from seqrecorder.wire import read as module
from seqrecorder.wire.byte_rows import ROOM, Spans, varint


def message(random: np.random.Generator, largest: int, low: int, high: int) -> bytes:
    """Return some hundred parts whose bytes are from a range, in which the tag of a part may be."""
    out = b""
    for size in random.integers(0, largest, 300).tolist():
        out += b"\x0a" + varint(size) + random.integers(low, high, size, np.uint8).tobytes()
    return out


@pytest.mark.parametrize(("largest", "low", "high"), [(3, 10, 11), (20, 0, 256), (200, 9, 12), (1500, 0, 256)])
def test_parts_of_a_long_message_are_those_found_one_by_one(random, largest, low, high):
    """Whatever bytes are in the parts, and where a byte was changed or the end cut off: the same places, or broken."""
    broken = 0
    for trial in range(20):
        data = bytearray(message(random, largest, low, high))
        if trial % 3 == 1:
            data[random.integers(len(data))] ^= 1 << random.integers(8)
        if trial % 3 == 2:
            del data[-random.integers(1, 4) :]
        octets = np.frombuffer(b"xx" + data + bytes(ROOM), np.uint8)
        start, stop = 2, 2 + len(data)
        firsts, lasts, _ = module._walked(octets, start, stop, len(data))
        assert module._chained(octets, start, stop) == (firsts, lasts)
        found, counts, is_broken = module.parts(Spans(octets, np.array([start]), np.array([stop])))
        assert is_broken.tolist() == [firsts is None]
        if firsts is not None:
            assert (found.starts.tolist(), found.stops.tolist(), counts.tolist()) == (firsts, lasts, [len(firsts)])
        broken += firsts is None
    assert 5 < broken < 20
