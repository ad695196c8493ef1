"""The walk over frames: whatever the bytes, it ends soon and says what is wrong and where."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import tfrecord_files
from tfrecord_files import written

import seqrecorder as sr
from seqrecorder.storage.crc32c import FOOTER, HEADER, frames, masked_crc32c
from seqrecorder.storage.files import check_compression
from seqrecorder.storage.tfrecord import detect_compression, frame_starts, walk_frames

RECORDS = [b"", b"a", b"b" * 40]
ENDS = [0, 16, 33, 89]


def header(length: int) -> bytes:
    number = length.to_bytes(8, "little")
    return number + int(masked_crc32c(np.frombuffer(number, np.uint8)[None])[0]).to_bytes(4, "little")


@pytest.fixture(scope="module", params=[None, "GZIP"])
def shard(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, str | None]:
    path = written(tmp_path_factory.mktemp("shard") / "whole", RECORDS, request.param)
    return path.read_bytes(), request.param


def test_a_whole_shard_is_walked(shard: tuple[bytes, str | None], tmp_path: Path) -> None:
    """A whole shard gives its lengths and no problem, and tells its compression."""
    data, compression = shard
    path = tmp_path / "shard"
    path.write_bytes(data)
    walk = walk_frames(path, compression)
    assert (walk.lengths.tolist(), walk.problem, walk.offset) == ([0, 1, 40], "", ENDS[-1])
    assert detect_compression(path) == compression


def test_every_truncation_is_found(shard: tuple[bytes, str | None], tmp_path: Path) -> None:
    """A shard cut at any byte gives the whole records before the cut, and a problem unless it ends between two."""
    data, compression = shard
    path = tmp_path / "shard"
    for size in range(len(data)):
        path.write_bytes(data[:size])
        walk = walk_frames(path, compression)
        assert walk.lengths.tolist() == [0, 1, 40][: walk.lengths.size]
        if compression is None:
            assert bool(walk.problem) == (size not in ENDS), size
            assert walk.offset == max(end for end in ENDS if end <= size)
        else:
            assert walk.problem, size


@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_forged_lengths_are_found(compression: str | None, tmp_path: Path) -> None:
    """A length that its CRC vouches for and that the file does not hold is found, without reading or reserving it."""
    path = tmp_path / "shard"
    good = header(1) + b"a" + bytes(FOOTER)
    for power in range(64):
        data = good + header(2**power) + b"x"
        path.write_bytes(data if compression is None else gzip.compress(data, 1))
        walk = walk_frames(path, compression)
        assert walk.lengths.tolist() == [1]
        assert f"a record of {2**power} bytes" in walk.problem
        assert walk.offset == len(good)


def test_flipped_bits_of_headers_are_found(tmp_path: Path) -> None:
    """Any flipped bit of any header is found at that record."""
    path = tmp_path / "shard"
    frames = b"".join(header(len(r)) + r + bytes(FOOTER) for r in RECORDS)
    for number, start in enumerate(ENDS[:-1]):
        for bit in range(8 * HEADER):
            data = bytearray(frames)
            data[start + bit // 8] ^= 1 << bit % 8
            path.write_bytes(data)
            walk = walk_frames(path, None)
            assert walk.problem == "holds no TFRecord header here (CRC differs)", (number, bit)
            assert walk.offset == start
            assert walk.lengths.size == number


def test_damaged_gzip_is_a_problem(tmp_path: Path) -> None:
    """A flipped bit anywhere in a GZIP shard gives a problem or the same lengths, and never another error."""
    path = tmp_path / "shard"
    whole = gzip.compress(b"".join(header(len(r)) + r + bytes(FOOTER) for r in RECORDS), mtime=0)
    for bit in range(8 * len(whole)):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        walk = walk_frames(path, "GZIP")
        assert walk.problem or walk.lengths.tolist() == [0, 1, 40], bit


def test_the_wrong_compression_is_a_problem(shard: tuple[bytes, str | None], tmp_path: Path) -> None:
    """A shard walked as the other compression has a problem at its start."""
    data, compression = shard
    path = tmp_path / "shard"
    path.write_bytes(data)
    walk = walk_frames(path, None if compression else "GZIP")
    assert walk.problem
    assert walk.lengths.size == 0


def test_empty_and_missing_files(tmp_path: Path) -> None:
    """An empty plain file is a shard of no record, an empty GZIP file is none, and a missing file is an error."""
    path = tmp_path / "shard"
    path.write_bytes(b"")
    assert walk_frames(path, None).problem == ""
    assert "is empty, where even a GZIP" in walk_frames(path, "GZIP").problem
    with pytest.raises(sr.ShardReadError, match="cannot be read"):
        walk_frames(tmp_path / "none", None)


def test_names_of_compressions() -> None:
    """None, an empty name and GZIP in any case are known, and others are refused."""
    assert [check_compression(name) for name in (None, "", "NONE", "gzip", "GZIP")] == [
        None,
        None,
        None,
        "GZIP",
        "GZIP",
    ]
    with pytest.raises(sr.OptionError, match="expected None or 'GZIP', got 'ZLIB'"):
        check_compression("ZLIB")


def framed(*lengths):
    return b"".join(struct.pack("<QI", length, 0) + bytes(length + 4) for length in lengths)


@pytest.mark.parametrize(
    "lengths",
    [(), (0,), (5, 0, 17), (300_000,) * 3, (3 << 20, 1, 2 << 20, 600_000), range(3000), ((1 << 18) - 32, 3, 1 << 18)],
)
def test_lengths_lead_to_the_end(tmp_path, lengths):
    """Frames of every size are followed to the end of the file, and one byte more or less is noticed."""
    file = tmp_path / "shard"
    data = framed(*lengths)
    file.write_bytes(data)
    ends = np.cumsum([0, *(length + HEADER + FOOTER for length in lengths)])
    assert frame_starts(file).tolist() == ends.tolist()
    file.write_bytes(data + b"\0")
    assert frame_starts(file) is None
    if data:
        file.write_bytes(data[:-1])
        assert frame_starts(file) is None


@pytest.mark.parametrize("most", [0, 1, 255, 256, 257, 511, 512, 513, 4096, 4097])
def test_frames_are_those_of_the_format(most):
    """Records of every length up to a bound, empty ones too, get lengths and CRCs as the format has them."""
    random = np.random.default_rng(most)
    data = [random.bytes(int(size)) for size in [0, most, *random.integers(0, most + 1, 30), 0]]
    assert frames(data).tobytes() == tfrecord_files.framed(data)


def test_no_records_have_no_frames():
    """No record gives no byte."""
    assert frames([]).size == 0
