"""Records of a shard by number: sought, checked, and read around what is not asked for."""

from pathlib import Path

import numpy as np
import pytest
from faults import on_read

import seqrecorder as sr
from seqrecorder.storage import shard_reader
from seqrecorder.storage.crc32c import FOOTER, HEADER, frames, is_framed
from seqrecorder.storage.shard_reader import SoughtShard
from seqrecorder.storage.tfrecord import frame_starts

SIZES = [0, 1, 40, 4095, 4096, 4097, 0, 300_000, 7, 20_000, 5]
"""Of which some lie behind what is small enough to be read, not skipped, and others behind what is skipped."""


@pytest.fixture
def shard(tmp_path: Path) -> tuple[SoughtShard, list[bytes]]:
    random = np.random.default_rng(0)
    data = [random.bytes(size) for size in SIZES]
    path = tmp_path / "train" / "a.tfrecord"
    path.parent.mkdir()
    path.write_bytes(frames(data).tobytes())
    return SoughtShard(path, len(data), path.stat().st_size, tmp_path), data


def test_any_rows_are_read(shard: tuple[SoughtShard, list[bytes]]) -> None:
    """Rows come as they were written, alone and in runs, however these are cut."""
    access, data = shard
    assert [access.read_one(row) for row in range(len(data))] == data
    for rows in ([], [3], [0, 1, 2, 9], [1, 1, 5, 7, 7], [0, 2, 4, 6, 8, 10], list(range(11))):
        assert access.messages(np.array(rows, np.int64)).rows() == [data[row] for row in rows]


def test_long_runs_are_read_in_parts(tmp_path: Path) -> None:
    """Of more than 16 MiB some are read at a time; a longer record is read alone."""
    random = np.random.default_rng(0)
    data = [random.bytes(size) for size in (3, 9 << 20, 5, 9 << 20, 17 << 20, 7)]
    path = tmp_path / "train" / "a.tfrecord"
    path.parent.mkdir()
    path.write_bytes(frames(data).tobytes())
    access = SoughtShard(path, len(data), path.stat().st_size, tmp_path)
    for rows in ([0, 1, 2, 3, 4, 5], [0, 3, 5], [1, 3], [4]):
        assert access.messages(np.array(rows, np.int64)).rows() == [data[row] for row in rows]


def test_only_what_is_asked_for_is_read(shard: tuple[SoughtShard, list[bytes]]) -> None:
    """A large record that is not asked for is not read."""
    access, _ = shard
    assert access.starts.size == len(SIZES) + 1
    seen: list[int] = []
    with on_read(lambda _path, start, stop: seen.append(stop - start)):
        access.messages(np.array([6, 8]))
    assert sum(seen) == 7 + 2 * (HEADER + FOOTER)


@pytest.mark.parametrize("place", ["length", "length's CRC", "data", "CRC"])
def test_damage_of_any_part_is_named(shard: tuple[SoughtShard, list[bytes]], place: str) -> None:
    """A changed byte of a record or its frame is an error that names the record and its byte."""
    access, _ = shard
    for row in (2, 5):
        begin, end = access.starts[row : row + 2].tolist()
        whole = bytearray(access.path.read_bytes())
        byte = {"length": begin + 7, "length's CRC": begin + 9, "data": begin + HEADER, "CRC": end - 1}[place]
        sound = bytes(whole)
        whole[byte] ^= 0x80
        access.path.write_bytes(whole)
        for read in (lambda row=row: access.read_one(row), lambda row=row: access.messages(np.array([1, row]))):
            with pytest.raises(sr.ShardReadError, match=f"record {row} at byte {begin} is damaged"):
                read()
        if place == "length":
            again = SoughtShard(access.path, access.records, access.size, access.dataset)
            with pytest.raises(sr.ShardReadError, match="seqrecorder verify"):
                again.read_one(0)
        access.path.write_bytes(sound)


def test_a_shard_that_shrinks_or_has_other_records(shard: tuple[SoughtShard, list[bytes]]) -> None:
    """Fewer bytes or records than the manifest says are errors that say so; so is a disk that fails."""
    access, _ = shard
    with pytest.raises(sr.ShardReadError, match="expected 12 records, got 11"):
        SoughtShard(access.path, 12, access.size, access.dataset).read_one(0)
    with pytest.raises(sr.ShardReadError, match="expected 1 bytes"):
        SoughtShard(access.path, 11, 1, access.dataset)
    assert access.starts.size

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with on_read(fail), pytest.raises(sr.ShardReadError, match="cannot be read"):
        access.read_one(3)
    access.path.write_bytes(access.path.read_bytes()[:-1])
    with pytest.raises(sr.ShardReadError, match=r"expected \d+ bytes, got \d+; `seqrecorder verify"):
        access.read_one(10)


def test_frames_are_told_from_other_bytes() -> None:
    """Bytes that are too few, or none of a frame, are none."""
    assert not is_framed(b"")
    assert not is_framed(bytes(HEADER + FOOTER))


def test_starts_of_frames(tmp_path: Path) -> None:
    """A walk gives where each frame begins and the last one ends, and nothing where it leads out of the file."""
    path = tmp_path / "a"
    path.write_bytes(b"")
    assert frame_starts(path).tolist() == [0]
    path.write_bytes(bytes(11))
    assert frame_starts(path) is None
    path.write_bytes(b"\xff" * 40)
    assert frame_starts(path) is None


def test_a_shard_that_goes_while_it_is_opened(
    shard: tuple[SoughtShard, list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at its size and its opening a writer may remove it: that is an error of ours, too."""
    path = shard[0].path
    monkeypatch.setattr(shard_reader, "check_size", lambda path, *_: path.unlink())
    with pytest.raises(sr.ShardReadError, match="cannot be read: No such file"):
        SoughtShard(path, len(SIZES), 1, path.parent)
