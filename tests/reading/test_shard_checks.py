"""Looking at shards before TensorFlow opens them: what is found, and that it costs nothing twice."""

import os
import time

import numpy as np
import pytest

import seqrecorder as sr
from seqrecorder.storage import files as file_state
from seqrecorder.storage import tfrecord as preflight
from seqrecorder.storage.tfrecord import frame_starts


@sr.record
class Line:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int64")


@pytest.fixture
def walked(monkeypatch):
    """The files whose frames were followed, in order."""
    names = []

    def follow(path):
        names.append(path.name)
        return frame_starts(path)

    monkeypatch.setattr(preflight, "frame_starts", follow)
    return names


@pytest.fixture
def settled(monkeypatch):
    """The clock is two seconds ahead of the files, so that they count as settled."""
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + 2_000_000_000)


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("modified", [0, 2**61], ids=["long ago", "in the future"])
def test_files_are_followed_once(tmp_path, walked, modified):
    """Frames are followed once for each state of a file; and only those of the files that a reader takes."""
    path = tmp_path / "lines"
    sr.write([Line(f"k{n}", [n]) for n in range(8)], path, shards=4)
    for shard in path.rglob("*.tfrecord"):
        os.utime(shard, ns=(modified, modified))
    sr.read(path, shard=(1, 2))
    assert [name[6:11] for name in walked] == ["00001", "00003"]
    for _ in range(2):
        assert len(list(sr.read_records(path))) == 8
        sr.read(path)
    assert sorted(name[6:11] for name in walked) == ["00000", "00001", "00002", "00003"]
    os.utime(shard, ns=(1, 1))
    sr.read(path, check="none")
    assert len(walked) == 4
    sr.read(path)
    assert walked[4:] == [shard.name]


def test_a_file_that_changed_just_now_is_followed_again(tmp_path):
    """A file that changes twice within a tick of the file system's clock, to the same size, is not taken for itself."""
    path = tmp_path / "lines"
    sr.write([Line("k", [1])], path)
    [shard] = path.rglob("*.tfrecord")
    now = shard.stat().st_mtime_ns
    sr.read(path)
    data = bytearray(shard.read_bytes())
    data[6] ^= 1
    shard.write_bytes(data)
    os.utime(shard, ns=(now, now))
    with pytest.raises(sr.ShardReadError, match="CRC differs"):
        sr.read(path)


def forge(shard):
    """Change a length in a shard, and set its size and times back."""
    before = shard.stat()
    data = bytearray(shard.read_bytes())
    data[6] ^= 1
    time.sleep(0.02)  # clocks of files tick
    shard.write_bytes(data)
    os.utime(shard, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = shard.stat()
    assert (after.st_size, after.st_mtime_ns, after.st_ino) == (before.st_size, before.st_mtime_ns, before.st_ino)


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("check", ["manifest", "full"])
@pytest.mark.parametrize("bare", [False, True])
def test_a_time_that_was_set_back_deceives_no_check(tmp_path, check, bare):
    """A file that was changed in place, with its size and its time as they were, is looked at again."""
    path = tmp_path / "lines"
    sr.write([Line("k", [1])], path)
    [shard] = path.rglob("*.tfrecord")
    options = {"schema": Line, "check": check} if bare else {"check": check}
    sr.read(shard if bare else path, **options)
    forge(shard)
    with pytest.raises(sr.ShardReadError, match="CRC differs"):
        sr.read(shard if bare else path, **options)


@pytest.mark.parametrize("bare", [False, True])
def test_a_full_check_believes_nothing(tmp_path, monkeypatch, bare):
    """Even a file whose state is in every respect what it was is read again from its first byte to its last."""
    path = tmp_path / "lines"
    sr.write([Line("k", [1])], path)
    [shard] = path.rglob("*.tfrecord")
    states = {}
    of = file_state.FileState.of
    monkeypatch.setattr(file_state.FileState, "of", lambda file: states.setdefault(file, of(file)))
    options = {"schema": Line, "check": "full"} if bare else {"check": "full"}
    sr.read(shard if bare else path, **options)
    data = bytearray(shard.read_bytes())
    data[-6] ^= 1
    shard.write_bytes(data)
    with pytest.raises(sr.ShardReadError, match="damaged after"):
        sr.read(shard if bare else path, **options)


def test_forged_in_place_names_everything(tmp_path):
    """A length that was forged in place is named with shard, record, byte and the commands to run, by both readers."""
    path = tmp_path / "lines"
    sr.write([Line(f"k{n}", [n]) for n in range(4)], path)
    [shard] = path.rglob("*.tfrecord")
    data = bytearray(shard.read_bytes())
    second = 16 + int.from_bytes(data[:8], "little")
    data[second + 6] ^= 1
    shard.write_bytes(data)
    for read in (sr.read, lambda path: list(sr.read_records(path))):
        with pytest.raises(sr.ShardReadError) as error:
            read(path)
        words = (f"{shard}: after 1 records, at byte {second}", f"`seqrecorder verify {path}`", "seqrecorder salvage")
        assert all(word in str(error.value) for word in words)
    assert len(list(sr.read_records(path, on_corrupt="skip"))) == 4  # the header alone is damaged


def test_gzip_is_left_to_its_own_checks(tmp_path, walked):
    """Of GZIP shards no frames are followed: there TensorFlow takes no memory for what does not come."""
    sr.write([Line("k", [1])], tmp_path / "lines", compression="GZIP")
    assert len(list(sr.read(tmp_path / "lines"))) == 1
    assert walked == []
