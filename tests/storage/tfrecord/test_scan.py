"""What is whole in a damaged shard is found, whatever lies between."""

import gzip
import io
import struct
import zlib

import numpy as np
import pytest
from tfrecord_files import frame

import seqrecorder as sr
from seqrecorder.storage.crc32c import frames, masked_crc32c
from seqrecorder.storage.tfrecord import find_records, open_stream, read_batches

RECORDS = [bytes([number]) * (number * 7 % 40) for number in range(12)]


FRAMES = [frame(record) for record in RECORDS]
WHOLE = b"".join(FRAMES)
ENDS = np.cumsum([0, *map(len, FRAMES)]).tolist()


def found(data):
    file = io.BytesIO(data)
    findings = find_records(file, len(data))
    return [
        record for batch in read_batches(file, findings.starts, findings.lengths) for record in batch
    ], findings.losses


def test_a_whole_shard_is_whole():
    """All records are found, and nothing is lost."""
    assert found(WHOLE) == (RECORDS, ())
    assert found(b"") == ([], ())


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_every_byte(mask):
    """One changed byte costs at most its own record; none at all in a header, which is rebuilt."""
    for place in range(len(WHOLE)):
        data = bytearray(WHOLE)
        data[place] ^= mask
        hit = max(number for number, end in enumerate(ENDS) if end <= place)
        records, losses = found(bytes(data))
        if place - ENDS[hit] < 12:
            assert records == RECORDS
            assert losses == ()
        else:
            assert records == RECORDS[:hit] + RECORDS[hit + 1 :]
            [loss] = losses
            assert (loss.start, loss.stop, loss.record, loss.records) == (ENDS[hit], ENDS[hit + 1], hit, 1)


def test_every_truncation():
    """A shard that is cut at any byte loses the record that was cut, and says so unless the cut is between two."""
    for size in range(len(WHOLE)):
        whole = max(number for number, end in enumerate(ENDS) if end <= size)
        records, losses = found(WHOLE[:size])
        assert records == RECORDS[:whole]
        assert bool(losses) == (size not in ENDS)


def test_holes_removed_and_inserted():
    """Bytes that were overwritten, taken out or put in cost only the records that they touch."""
    random = np.random.default_rng(3)
    for number in range(300):
        start = int(random.integers(0, len(WHOLE)))
        stop = int(random.integers(start, min(len(WHOLE), start + 150))) + 1
        noise = random.bytes(stop - start)
        data = WHOLE[:start] + (noise, b"", bytes(stop - start), noise + WHOLE[start:stop])[number % 4] + WHOLE[stop:]
        records, losses = found(data)
        untouched = [r for r, a, b in zip(RECORDS, ENDS, ENDS[1:], strict=False) if b <= start or a >= stop]
        assert [record for record in records if record in untouched] == untouched, (number, start, stop)
        assert all(record in RECORDS for record in records)
        assert len(losses) <= 1


def test_forged_lengths_cost_their_record():
    """A length that its CRC vouches for, of any size, costs the record, takes no memory and hides no other."""
    for power in range(64):  # one of which spans exactly the rest
        forged = (2**power).to_bytes(8, "little")
        [crc] = masked_crc32c(np.frombuffer(forged, np.uint8)[None])
        data = FRAMES[1] + forged + struct.pack("<I", crc) + b"x" + FRAMES[2] + FRAMES[3]
        records, losses = found(data)
        assert records == RECORDS[1:4]
        assert losses


def test_a_header_inside_a_record_is_no_frame():
    """Where a header is lost, the bytes of a header in the record behind it do not pass for the next frame."""
    inner = b"q" * 9 + frame(bytes(30))[:12] + b"q" * 5
    data = FRAMES[1] + b"\xff" * 12 + frame(inner)[12:] + FRAMES[11] + FRAMES[5]
    assert found(data) == ([RECORDS[1], inner, RECORDS[11], RECORDS[5]], ())


def test_search_crosses_blocks():
    """The next header is found wherever it stands in the blocks that are searched, of a mebibyte each."""
    for gap in (20, 90, *range((1 << 20) - 14, (1 << 20) + 4, 3)):
        records, [loss] = found(FRAMES[1] + b"\xaa" * gap + FRAMES[2] + FRAMES[3])
        assert records == RECORDS[1:4]
        assert (loss.start, loss.stop, loss.record) == (ENDS[2] - ENDS[1], ENDS[2] - ENDS[1] + gap, 1)


def test_batches_of_checks():
    """Records are checked in batches of eight mebibytes, and read in batches of bounded size, with the same result."""
    large = [bytes([number]) * (5 << 20) for number in range(2)]
    behind = frames(large).tobytes()
    data = bytearray(behind + WHOLE + behind)
    data[len(behind) + ENDS[5] + 13] ^= 1
    records, losses = found(bytes(data))
    assert records == [*large, *RECORDS[:5], *RECORDS[6:], *large]
    places = f"bytes {len(behind) + ENDS[5]} to {len(behind) + ENDS[6]}"
    assert str(losses[0]) == f"{places} (record 7): the CRC of a record differs"
    file = io.BytesIO(WHOLE)
    findings = find_records(file, len(WHOLE))
    batches = list(read_batches(file, findings.starts, findings.lengths, 50))
    assert [record for batch in batches for record in batch] == RECORDS
    assert len(batches) > 2


def from_gzip(path, data):
    path.write_bytes(data)
    with open_stream(path, "GZIP") as shard:
        findings = find_records(shard.file, shard.size, shard.problem)
        read = read_batches(shard.file, findings.starts, findings.lengths)
        return [record for batch in read for record in batch], findings.losses


def test_gzip(tmp_path):
    """Of a GZIP shard all records are found, also where it has several members or lost its header."""
    path = tmp_path / "shard"
    packed = gzip.compress(WHOLE, 1)
    assert from_gzip(path, packed) == (RECORDS, ())
    assert from_gzip(path, packed + packed) == (RECORDS + RECORDS, ())
    assert from_gzip(path, bytes(10) + packed[10:]) == (RECORDS, ())


def test_truncated_gzip(tmp_path):
    """Of a GZIP shard that is cut, the records before the cut are found, and the loss is said."""
    packed = gzip.compress(WHOLE, 1)
    for size in range(len(packed) - 8):  # only the checksum of the whole comes after
        records, losses = from_gzip(tmp_path / "shard", packed[:size])
        assert records == RECORDS[: len(records)]
        assert losses, size


def test_damaged_gzip(tmp_path):
    """Of a GZIP shard with a changed byte, the records that were unpacked before that byte are found."""
    packed = gzip.compress(WHOLE, 1)
    for position in range(10, len(packed)):
        before = zlib.decompressobj(31).decompress(packed[:position])
        damaged = packed[:position] + bytes([packed[position] ^ 255]) + packed[position + 1 :]
        records, losses = from_gzip(tmp_path / "shard", damaged)
        unpacked = sum(end <= len(before) for end in ENDS[1:])
        assert records[:unpacked] == RECORDS[:unpacked], position
        assert set(records) <= set(RECORDS)
        assert losses, position


def test_gzip_bomb(tmp_path):
    """A GZIP file that unpacks to far more than a shard could is left at a limit."""
    _, losses = from_gzip(tmp_path / "bomb", gzip.compress(bytes(64 << 20), 9))
    assert "taken for a GZIP bomb" in losses[-1].reason
    assert losses[-1].stop < 32 << 20


def test_what_cannot_be_opened(tmp_path):
    """A file that is not there is an error of ours that names it."""
    with pytest.raises(sr.ShardReadError, match="nothing"), open_stream(tmp_path / "nothing", None):
        pass
