"""The parts of messages: found all at once as one after the other."""

import numpy as np
import pytest

from seqrecorder.wire.byte_rows import ROOM, Spans, varint
from seqrecorder.wire.read import WireError, feature_values, find_entries


def message(random: np.random.Generator, largest: int, low: int, high: int) -> bytes:
    """Return some hundred parts whose bytes are from a range, in which the tag of a part may be."""
    out = b""
    for size in random.integers(0, largest, 300).tolist():
        out += b"\x0a" + varint(size) + random.integers(low, high, size, np.uint8).tobytes()
    return out


def one_by_one(data: bytes) -> list[bytes] | None:
    """Return the parts that a walk over them gives, by the reader of single messages."""
    feature = b"\x0a" + varint(len(data)) + data
    try:
        return feature_values(feature, 0, len(feature), "bytes")[0]
    except WireError:
        return None


@pytest.mark.parametrize(("largest", "low", "high"), [(3, 10, 11), (20, 0, 256), (200, 9, 12), (1500, 0, 256)])
def test_parts_of_long_messages_are_those_found_one_by_one(random, largest, low, high):
    """Whatever bytes are in the parts, and where a byte was changed or the end cut off: the same parts, or broken."""
    messages = [b""]
    for trial in range(20):
        data = bytearray(message(random, largest, low, high))
        if trial % 3 == 1:
            data[random.integers(len(data))] ^= 1 << random.integers(8)
        if trial % 3 == 2:
            del data[-random.integers(1, 4) :]
        messages.append(bytes(data))
    expected = list(map(one_by_one, messages))
    assert 5 < expected.count(None) < 20
    for some in ([0, *range(1, 21)], *([number] for number in range(21))):
        octets = np.frombuffer(b"xx".join([b"", *(messages[i] for i in some), bytes(ROOM)]), np.uint8)
        stops = np.cumsum([len(messages[i]) + 2 for i in some])
        found, counts, broken = find_entries(Spans(octets, stops - [len(messages[i]) for i in some], stops))
        assert broken.tolist() == [expected[i] is None for i in some]
        assert counts.tolist() == [len(expected[i] or ()) for i in some]
        inside = [octets[i:j].tobytes() for i, j in zip(found.starts.tolist(), found.stops.tolist(), strict=True)]
        assert inside == [part for i in some for part in expected[i] or ()]


@pytest.mark.parametrize(
    ("feature", "kind", "message"),
    [
        (b"\x12\x00", "int64", "of kind int64, got float; declare float32$"),
        (b"\x12\x00", "bytes", "of kind bytes, got float; declare float32$"),
        (b"\x0a\x00", "int64", "of kind int64, got bytes$"),
        (b"\x22\x00", "int64", "of kind int64, got unknown$"),
    ],
)
def test_a_feature_of_another_kind_is_named(feature: bytes, kind: str, message: str) -> None:
    """The error says which kind came, and for floats what to declare."""
    with pytest.raises(WireError, match=message):
        feature_values(feature, 0, len(feature), kind)
