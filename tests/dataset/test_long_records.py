"""Slices of long records that selections open: the right bytes, of a file that is whole, without reading all of it."""

import errno
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import seqrecorder as sr
from seqrecorder.storage.files import PlacedFile

STEPS = 600_000  # of 32 bytes: records from 8 MiB on are mapped


@sr.record
class Recording:
    """Buffers of numbers of each width, contiguous floats, and what is beside them."""

    key: str = sr.context(str, key=True)
    signal: np.ndarray = sr.feature_list("float32", shape=(4,), storage="buffer")
    counts: np.ndarray = sr.feature_list("int16", storage="buffer")
    time: np.ndarray = sr.feature_list("datetime64[ms]", storage="buffer")
    valid: np.ndarray = sr.feature_list("bool", storage="buffer")
    floats: np.ndarray = sr.feature_list("float32", storage="packed")
    names: np.ndarray = sr.feature_list(str, align="names")
    places: np.ndarray = sr.feature_list("int64", align="names")
    rate: float = sr.context("float32")
    filters: np.ndarray = sr.context("float64", shape=(3, 2))
    second: np.ndarray | None = sr.feature_list("uint8", align="second", storage="buffer", optional=True)
    note: str | None = sr.context(str, optional=True)


def recording(key: str, steps: int, *, second: bool = True) -> Recording:
    rng = np.random.default_rng(steps)
    return Recording(
        key,
        rng.standard_normal((steps, 4), np.float32),
        rng.integers(-500, 500, steps).astype(np.int16),
        np.datetime64("2026-01-01", "ms") + np.arange(steps),
        rng.integers(0, 2, steps).astype(bool),
        rng.standard_normal(steps, np.float32),
        np.array(["Fp1", "Ö"], object),
        np.array([1, -2]),
        250.0,
        rng.standard_normal((3, 2)),
        rng.integers(0, 256, steps).astype(np.uint8) if second else None,
        None if second else "left",
    )


RECORDS = [recording("a", STEPS), recording("b", 5), recording("c", STEPS + 3, second=False)]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    sr.write(RECORDS, tmp_path / "corpus", shards=1)
    return tmp_path / "corpus"


def test_long_records_are_the_records_that_were_written(corpus: Path) -> None:
    """By position, by key and one after the other, all values are those of the record, and slices of them too."""
    records = sr.open(corpus, schema=Recording).all()
    assert [records[0], records["b"], records[-1]] == RECORDS
    assert list(records) == RECORDS
    for piece in (slice(0, 10), slice(STEPS - 7, STEPS), slice(5, 500_000, 1000)):
        for name in ("signal", "counts", "time", "valid", "floats", "second"):
            np.testing.assert_array_equal(getattr(records["a"], name)[piece], getattr(RECORDS[0], name)[piece])


def test_a_slice_of_a_long_record_takes_little_memory(corpus: Path) -> None:
    """A slice takes half of the record's bytes at most: what its CRC is computed in."""

    @sr.record
    class Signal:
        key: str = sr.context(str, key=True)
        signal: np.ndarray = sr.feature_list("float32", shape=(4,), storage="buffer")

    records = sr.open(corpus, schema=Signal).all()
    records["a"]  # what is kept of a shard
    tracemalloc.start()
    got = [float(records["a"].signal[start : start + 1000].sum()) for start in (0, 5000, 300_000)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert got == [float(RECORDS[0].signal[start : start + 1000].sum()) for start in (0, 5000, 300_000)]
    assert peak < 16 * STEPS


def test_arrays_of_long_records_may_be_changed_and_the_file_stays(corpus: Path) -> None:
    """A change of an array is seen in this array alone: neither in the file nor in the record when it is read again."""
    records = sr.open(corpus, schema=Recording).all()
    before = [path.read_bytes() for path in sorted(corpus.rglob("*.tfrecord"))]
    record = records["a"]
    record.signal[100:200] = 7
    record.floats[:] = 0
    assert (record.signal[100:200] == 7).all()
    assert [path.read_bytes() for path in sorted(corpus.rglob("*.tfrecord"))] == before
    np.testing.assert_array_equal(records["a"].signal, RECORDS[0].signal)


def test_damaged_long_records_are_refused_and_others_are_read(corpus: Path) -> None:
    """A byte that changed anywhere in a record is found, although it was read before, and whatever slice is asked."""
    records = sr.open(corpus, schema=Recording).all()
    assert records["a"].counts[0] == RECORDS[0].counts[0]
    [shard] = corpus.rglob("*.tfrecord")
    with shard.open("r+b") as file:
        file.seek(4_000_000)
        byte = file.read(1)
        file.seek(4_000_000)
        file.write(bytes([byte[0] ^ 1]))
    with pytest.raises(sr.ShardReadError, match="record 0 at byte 0 is damaged"):
        records["a"].counts[:10]
    assert records["c"].counts[5] == RECORDS[2].counts[5]


def test_a_shard_that_was_cut_is_an_error_and_no_signal(corpus: Path) -> None:
    """What a map has no memory for is not touched: the size of the file is looked at first."""
    records = sr.open(corpus, schema=Recording).all()
    assert records["c"].counts[5] == RECORDS[2].counts[5]
    [shard] = corpus.rglob("*.tfrecord")
    with shard.open("r+b") as file:
        file.truncate(shard.stat().st_size // 2)
    with pytest.raises(sr.ShardReadError, match="bytes by the manifest"):
        records["c"]


def test_records_of_a_shard_that_is_gone_are_read_from_the_open_file(corpus: Path) -> None:
    """Where others removed a shard since it was opened, its long records come as its short ones do."""
    records = sr.open(corpus, schema=Recording).all()
    assert records["b"].rate == 250.0
    [shard] = corpus.rglob("*.tfrecord")
    shard.unlink()
    assert [records["a"], records["b"]] == RECORDS[:2]


def refuse(*_: object) -> memoryview:
    raise OSError(errno.ENODEV, "No such device")


def test_long_records_are_read_where_files_cannot_be_mapped(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that maps no files gives the same records."""
    monkeypatch.setattr(PlacedFile, "map", refuse)
    assert sr.open(corpus, schema=Recording).all()[0] == RECORDS[0]


def test_long_records_that_the_disk_cannot_read_are_an_error(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that cannot be read are an error that names the file, before any of them is touched in a map."""
    records = sr.open(corpus, schema=Recording).all()
    assert records["b"].rate == 250.0
    read_at = PlacedFile.read_at

    def fail(file: PlacedFile, start: int, count: int) -> bytes:
        if start <= 4_000_000 < start + count:
            raise OSError(errno.EIO, "Input/output error")
        return read_at(file, start, count)

    monkeypatch.setattr(PlacedFile, "read_at", fail)
    with pytest.raises(sr.ShardReadError, match="Input/output error"):
        records["a"]


def test_other_values_of_long_records_may_be_long(tmp_path: Path) -> None:
    """A record whose values are texts, numbers a feature each or ragged steps is read as a short one is."""

    @sr.record
    class Text:
        ids: np.ndarray = sr.feature_list("int64")
        words: np.ndarray = sr.feature_list(str)
        codes: list = sr.feature_list("int32", shape=(None,))

    count = 400_000
    numbers = np.arange(count)
    written = Text(
        numbers, numbers.astype(str).astype(object), [numbers[: n % 3].astype(np.int32) for n in range(count)]
    )
    sr.write([written], tmp_path / "texts")
    got = sr.open(tmp_path / "texts", schema=Text).all()[0]
    assert [got] == [written]
