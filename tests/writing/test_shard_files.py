"""Writing one shard and reading it: order, lengths, and what happens when the disk fails."""

# ruff: noqa: PT017 - what is left after the error is the point

import errno
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import tensorflow as tf
from faults import FailAt

import seqrecorder as sr
from seqrecorder.storage import shard_writer
from seqrecorder.storage.files import on_fault_point, read_lengths
from seqrecorder.storage.shard_reader import RecordReader, peek
from seqrecorder.storage.shard_writer import OpenShards, ShardWriter


def write(
    directory: Path,
    data: list[bytes],
    compression: str | None = None,
    parts: int = 3,
    open_shards: OpenShards | None = None,
) -> tuple[Path, np.ndarray]:
    path = directory / "x.tfrecord"
    shard = ShardWriter(path, directory / "x.lengths", compression, open_shards)
    try:
        for start in range(0, len(data), parts):
            part = data[start : start + parts]
            shard.write(part, np.array([[len(item), start] for item in part]))
        return path, shard.close(2)
    finally:
        shard.abandon()


@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_round_trip(tmp_path: Path, compression: str | None) -> None:
    """Records come back in order, to us and to plain TensorFlow; lengths come back from their file."""
    data = [bytes([i % 20]) * (i % 20) for i in range(shard_writer._ROWS_WAITING + 3020)]
    path, table = write(tmp_path, data, compression, 3000)
    assert [item for part in RecordReader(path, compression, 7) for item in part] == data
    [items] = tf.data.TFRecordDataset(str(path), compression).batch(len(data))
    assert items.numpy().tolist() == data
    assert peek(path, compression, 2) == data[:2]
    assert table.tolist() == [[i % 20, i // 3000 * 3000] for i in range(len(data))]
    assert (read_lengths(tmp_path / "x.lengths", 2, len(data)) == table).all()
    assert (tmp_path / "x.lengths").read_bytes() == table.astype("<i8").tobytes()


def test_empty_shard(tmp_path: Path) -> None:
    """A shard without records has a lengths file of no bytes."""
    path, table = write(tmp_path, [])
    assert (table.shape, (tmp_path / "x.lengths").stat().st_size, peek(path, None, 1)) == ((0, 2), 0, [])


class FullBuffers(OpenShards):
    """Other shards have buffered as much as may wait."""

    def wait(self, shard: ShardWriter, records: int, size: int) -> None:
        super().wait(shard, records, size + shard_writer._MOST_WAITING)


@pytest.mark.parametrize("stays_open", [False, True])
def test_every_failure_names_the_shard(tmp_path: Path, stays_open: bool) -> None:
    """An error at the 1st, 2nd, ... operation is a ShardWriteError with the file, the records and the bytes so far."""
    open_shards = FullBuffers()
    while not stays_open and open_shards.take_place():
        pass  # as if other shards were open
    messages = []
    for number in range(1, 100):
        (tmp_path / str(number)).mkdir()
        hook = FailAt(number, OSError(errno.ENOSPC, "No space left on device"))
        try:
            with on_fault_point(hook):
                write(tmp_path / str(number), [b"abc"] * 6, open_shards=open_shards)
        except sr.ShardWriteError as error:
            assert error.errno == errno.ENOSPC
            assert Path(str(error.path)).parent == tmp_path / str(number)
            messages.append(str(error))
        if hook.seen < number:
            break
    assert len(messages) == number - 1 > 8
    assert "cannot write, after 0 records and 0 bytes, " in messages[0]
    assert "No space left on device" in messages[0]
    assert "after 3 records and 9 bytes" in " ".join(messages)
    assert "free some space" in messages[0]


@pytest.mark.parametrize("records", [1, 2048])
def test_a_disk_that_fills_while_short_records_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: int
) -> None:
    """The call fails, and the shard is still abandoned without an error."""
    shard = ShardWriter(tmp_path / "x.tfrecord", tmp_path / "x.lengths", None)
    data, lengths = [b"abc"] * records, np.zeros((records, 1), np.int64)
    shard.write(data, lengths)
    monkeypatch.setattr(shard_writer, "framed", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(sr.ShardWriteError, match=r"x.tfrecord': No space left") as caught:
        shard.write(data, lengths)
    assert caught.value.errno == errno.ENOSPC
    shard.abandon()


def test_short_records_of_any_number_are_read_in_their_order(tmp_path: Path) -> None:
    """Few or many at a time, all come back."""
    shard = ShardWriter(tmp_path / "x.tfrecord", tmp_path / "x.lengths", None)
    written = []
    for records in (1, 2048, 2, 6144, 2048, 1):
        data = [b"%d" % (len(written) + i) for i in range(records)]
        shard.write(data, np.arange(len(written), len(written) + records)[:, None])
        written += data
    table = shard.close()
    assert [item for data in RecordReader(tmp_path / "x.tfrecord", None) for item in data] == written
    assert table[:, 0].tolist() == list(range(len(written)))


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    """A missing directory is an error of ours, with the system's number."""
    with pytest.raises(sr.ShardWriteError, match=r"absent/x\.tfrecord.*No such file") as caught:
        ShardWriter(tmp_path / "absent" / "x.tfrecord", tmp_path / "x.lengths", None)
    assert caught.value.errno == errno.ENOENT


def test_lengths_that_do_not_fit(tmp_path: Path) -> None:
    """A lengths file that is missing, or of another size, is an error that names it."""
    write(tmp_path, [b"a", b"b"])
    with pytest.raises(sr.ShardReadError, match=r"x\.lengths: expected 3 rows of 2 lengths, got 32 bytes"):
        read_lengths(tmp_path / "x.lengths", 2, 3)
    with pytest.raises(sr.ShardReadError, match=r"y\.lengths"):
        read_lengths(tmp_path / "y.lengths", 2, 3)


def test_damaged_shard(tmp_path: Path) -> None:
    """A damaged record is an error that names the file and what was read before."""
    path, _ = write(tmp_path, [b"abc"] * 5)
    raw = bytearray(path.read_bytes())
    raw[-6] ^= 1
    path.write_bytes(raw)
    with pytest.raises(sr.ShardReadError, match=r"x\.tfrecord: damaged after 4 or more records"):
        list(RecordReader(path, None, 2))


@pytest.mark.parametrize("sizes", [[10, 5000, 10], [5000, 10], [10, 10], [5000, 5000]])
def test_shards_of_short_and_large_records_are_read(tmp_path, sizes):
    """Whichever records come first, and whatever follows, TensorFlow reads what was written."""
    path = tmp_path / "x.tfrecord"
    shard = ShardWriter(path, tmp_path / "x.lengths", None)
    written = []
    for number, size in enumerate(sizes):
        data = [bytes([number + i]) * (size + i) for i in range(3)]
        shard.write(data, np.zeros((3, 1), np.int64))
        written += data
    shard.close()
    assert [item for data in RecordReader(path, None) for item in data] == written
