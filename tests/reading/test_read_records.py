"""read_records: blocks are checked and decoded in threads, in order, and what is damaged comes in its place."""

import functools
from pathlib import Path

import numpy as np
import pytest
import tfrecord_files
from combinations import all_at_night

import seqrecorder as sr
from seqrecorder.reading import read_records as module
from seqrecorder.storage.processes_and_signals import ahead


@sr.record
class Number:
    value: int = sr.context("int64", key=True)
    steps: np.ndarray = sr.feature_list("int64")


def numbers(count):
    return [Number(value, np.arange(value % 5)) for value in range(count)]


def shards_of(directory: Path) -> list[Path]:
    return sorted(directory.glob("train/*.tfrecord"))


def damage(path: Path, record: int) -> None:
    """Change the last byte of a record's content."""
    data, end = bytearray(path.read_bytes()), 0
    for _ in range(record + 1):
        end += 16 + int.from_bytes(data[end : end + 8], "little")
    data[end - 5] ^= 1
    path.write_bytes(data)


DEALT = [(1, None), (3, None), (1, (0, 2)), (3, (1, 4))]


@pytest.mark.parametrize(
    ("shards", "shard", "threads"),
    all_at_night(
        [(*dealt, threads) for dealt in DEALT for threads in (0, 1, 3)],
        [*((*dealt, 3) for dealt in DEALT), (3, (1, 4), 0), (3, None, 1)],
    ),
)
def test_records_before_the_damage_come_and_none_behind_it(tmp_path, monkeypatch, threads, shards, shard):
    """However many threads and files there are, records come in order up to the first damaged one, which is named."""
    monkeypatch.setattr(module, "ahead", functools.partial(ahead, threads=threads))
    monkeypatch.setattr(module, "block_for", lambda _: 20_000)
    sr.write(numbers(20_000), tmp_path / "x", shards=shards)
    bad = 9001 - 9001 % shards + shards - 1  # of the last shard, in the second of its windows
    damage(shards_of(tmp_path / "x")[-1], bad // shards)
    found: list[int] = []
    with pytest.raises(sr.ShardReadError, match=rf"{shards_of(tmp_path / 'x')[-1].name}: damaged after \d+ or more"):
        found.extend(record.value for record in sr.read_records(tmp_path / "x", shard=shard))
    index, count = shard or (0, 1)
    in_files = [value for first in range(shards) for value in range(first, 20_000, shards)]
    assert found == sorted(value for value in in_files[index::count] if value < bad)


def test_one_that_cannot_be_decoded_comes_before_the_damage_behind_it(tmp_path):
    """Of a record of another class and damage behind it in one block, the record is what is told."""

    @sr.record
    class Other:
        value: str = sr.context(str)

    schema = sr.Schema.of(Number)
    data = [schema.encode(number) for number in numbers(20)]
    data[7] = sr.Schema.of(Other).encode(Other("x"))
    path = tmp_path / "x.tfrecord"
    path.write_bytes(tfrecord_files.framed(data))
    damage(path, 12)
    with pytest.raises(sr.RecordError, match="record 7 at byte"):
        list(sr.read_records(path, schema=Number, check="none"))


@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_small_blocks_and_many_threads_keep_the_order(tmp_path, monkeypatch, compression):
    """Records that lie across blocks of a few bytes come as they were written."""
    monkeypatch.setattr(module, "block_for", lambda _: 50)
    monkeypatch.setattr(module, "ahead", functools.partial(ahead, threads=3))
    written = numbers(500)
    for shards in (1, 4):
        sr.write(written, tmp_path / str(shards), shards=shards, compression=compression)
        found = [(record.value, record.steps.tolist()) for record in sr.read_records(tmp_path / str(shards))]
        assert found == [(number.value, number.steps.tolist()) for number in written]


@sr.record(kw_only=True)
class Recording:
    key: str = sr.context(str, key=True)
    rate: float = sr.context("float32")
    pause: float | None = sr.context("float64", optional=True, default=None)
    signal: np.ndarray = sr.feature_list("float32", shape=(64,), storage="buffer")


def recordings(count, steps=5000):
    random = np.random.default_rng(0)
    return [
        Recording(
            key="x" * number,
            rate=number / 2,
            pause=None if number % 2 else 0.5,
            signal=random.normal(size=(steps, 64)).astype("f4"),
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("shards", [1, 2])
def test_the_buffer_of_a_large_record_is_not_copied(tmp_path, shards):
    """The last field of a large record is a view of what was read, aligned and writable, whatever stands before it."""
    written = recordings(5)
    sr.write(written, tmp_path / "x", shards=shards)
    found = list(sr.read_records(tmp_path / "x"))
    assert [record.key for record in found] == [record.key for record in written]
    for record, expected in zip(found, written, strict=True):
        assert (record.rate, record.pause) == (expected.rate, expected.pause)
        assert type(record.rate) is type(expected.rate)
        np.testing.assert_array_equal(record.signal, expected.signal)
        assert record.signal.flags.aligned
        assert record.signal.flags.writeable
        root = record.signal
        while isinstance(root, np.ndarray) and root.base is not None:
            root = root.base if not isinstance(root.base, memoryview) else root.base.obj
        assert root.nbytes > record.signal.nbytes  # of the whole frame


@pytest.mark.parametrize("shards", [1, 3, 20])
def test_large_records_of_steps_are_decoded_several_at_a_time(tmp_path, shards):
    """Where no array can be a view of what was read, a record of a megabyte is not read and decoded alone."""

    @sr.record
    class Frames:
        rgb: np.ndarray = sr.feature_list("float32", shape=(1024,))

    frames = [Frames(np.full((270, 1024), value, np.float32)) for value in range(20)]
    sr.write(frames, tmp_path / "x", shards=shards)
    found = list(sr.read_records(tmp_path / "x", schema=Frames))
    assert found == frames
    assert found[0].rgb.base is found[1].rgb.base


def test_large_records_are_decoded_as_many_are(tmp_path):
    """What is read alone is what the decoder of batches gives, fields of all kinds beside the buffers, also of two."""

    @sr.record
    class Mixed:
        flags: np.ndarray = sr.feature_list("bool", storage="buffer")
        audio: np.ndarray = sr.feature_list("int16", storage="buffer")
        name: str = sr.context(str)
        scale: np.ndarray = sr.context("float16", shape=(None,))
        extra: np.ndarray = sr.context("float64", shape=(3,))

    random = np.random.default_rng(1)
    size = 700_000
    written = [
        Mixed(
            random.random(size) < 0.5,
            random.integers(-99, 99, size).astype("i2"),
            "é" * (n * 3000),
            [n / 4] * n,
            [1] * 3,
        )
        for n in range(3)
    ]
    sr.write(written, tmp_path / "x")
    schema = sr.Schema.of(Mixed)
    together = schema.decode_batch([schema.encode(record) for record in written])
    for found, expected in zip(sr.read_records(tmp_path / "x"), together, strict=True):
        for field in schema.fields:
            one, other = getattr(found, field.name), getattr(expected, field.name)
            np.testing.assert_array_equal(one, other, strict=not isinstance(one, str))


def test_a_large_record_that_is_broken_is_told_as_a_small_one(tmp_path):
    """A buffer of a length that no steps have is an error with its place."""
    schema = sr.Schema.of(Recording)
    (record,) = recordings(1)
    data = schema.encode(record)
    import tensorflow as tf

    message = tf.train.SequenceExample.FromString(data)
    feature = message.feature_lists.feature_list["signal"].feature[0].bytes_list
    feature.value[0] = feature.value[0] + b"abc"
    path = tmp_path / "x.tfrecord"
    path.write_bytes(tfrecord_files.frame(message.SerializeToString(deterministic=True)))
    with pytest.raises(sr.RecordError, match="multiple of 256 bytes are expected in 'signal', got 1280003"):
        list(sr.read_records(path, schema=Recording))
