"""CRC-32C in numpy, for rows and for spans of any length: that of its definition."""

import numpy as np
import pytest
import tfrecord_files

from seqrecorder.storage import crc32c

AROUND_THE_WIDTHS = [0, 1, 4, 31, 32, 33, 63, 64, 65, 836, 1023, 1024, 1025, 1281, 4095, 4096, 4097, 5000, 0, 3]
SHORT = [*range(70), 96, 97, 0]
LONG = [5000, 70_001, 0, 3000, 1]


OTHERS = [] if crc32c._other is None else [crc32c._other]  # of the package that may be installed


@pytest.mark.parametrize("lengths", [AROUND_THE_WIDTHS, SHORT, LONG], ids=["around the widths", "short", "long"])
@pytest.mark.parametrize("piece", [900, 4000, 1 << 20])
def test_spans_have_the_crc_of_the_definition(monkeypatch, piece, lengths):
    """Spans of every length around the widths, in one piece or in several, have the CRC of a frame."""
    random = np.random.default_rng(piece)
    lengths = np.array(lengths)
    data = np.frombuffer(tfrecord_files.framed(map(random.bytes, lengths.tolist())), np.uint8)
    starts = np.cumsum(lengths + 16) - lengths - 4
    stored = [int.from_bytes(data[end : end + 4].tobytes(), "little") for end in starts + lengths]
    for other in (None, tfrecord_files.crc32c, *OTHERS):
        monkeypatch.setattr(crc32c, "_other", other)
        assert crc32c.masked_crc32c_of_spans(data, starts, lengths).tolist() == stored
    registers, is_long = np.empty(lengths.size, np.uint32), lengths >= crc32c._LONG
    short = np.flatnonzero(~is_long)
    registers[short] = crc32c._of_short(data, starts[short], lengths[short], piece)
    for group in crc32c._groups(np.flatnonzero(is_long), lengths, piece):
        assert group.size == 1 or lengths[group].min() * group.size <= piece
        registers[group] = crc32c._of_long(data, starts[group], lengths[group], piece)
    assert crc32c._masked(registers).tolist() == stored
    monkeypatch.setattr(crc32c, "_other", None)
    whole = data.tobytes()
    spans = zip(starts.tolist(), (starts + lengths).tolist(), strict=True)
    assert [crc32c.masked_crc32c_of_one(np.frombuffer(whole[i:j], np.uint8)) for i, j in spans] == stored
    some = np.random.default_rng(0).permutation(np.repeat(np.arange(lengths.size), 2))  # in any order, and twice
    assert crc32c.masked_crc32c_of_spans(data, starts[some], lengths[some]).tolist() == np.array(stored)[some].tolist()
    headers = np.stack([data[start - 12 : start] for start in starts])
    assert crc32c.masked_crc32c(headers[:, :8]).tolist() == headers[:, 8:].copy().view("<u4").ravel().tolist()


@pytest.mark.parametrize("fold", crc32c._FOLDS)
def test_a_byte_moves_to_other_places(fold):
    """The polynomials by which long spans are folded are multiples of the CRC's."""
    registers = [0x80000000]  # of the bit that is 1, reflected
    for _ in range(fold[-1]):
        last = registers[-1]
        registers.append((last >> 1) ^ (0x82F63B78 if last & 1 else 0))
    total = registers[fold[-1]]
    for places in fold:
        total ^= registers[fold[-1] - places]
    assert total == 0


def test_no_spans():
    """No span has no CRC."""
    nothing = np.empty(0, np.int64)
    assert crc32c.masked_crc32c_of_spans(np.empty(0, np.uint8), nothing, nothing).size == 0
