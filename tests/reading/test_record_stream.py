"""The order of shuffled streams: windows that are permuted, and large records that are drawn one by one."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from combinations import all_at_night

import seqrecorder as sr
from seqrecorder.reading import order_and_seeds as record_stream

LENGTHS = [3, 1, 7, 2, 9, 4, 1, 8, 5, 6] * 6


@sr.record
class Clip:
    """A class whose records are as large as their frame."""

    key: int = sr.context("int64")
    steps: Any = sr.feature_list("int64")
    frame: bytes = sr.context(bytes, default=b"")


def write_clips(path, shards, frame=b""):
    sr.write((Clip(number, np.arange(n), frame) for number, n in enumerate(LENGTHS)), path, shards=shards)
    return path


FRAME = bytes(record_stream.LARGE)
KINDS = {"one shard": (1,), "three shards": (3,), "one of large": (1, FRAME), "three of large": (3, FRAME)}


@pytest.fixture(
    scope="module",
    params=[pytest.param(kind, marks=pytest.mark.nightly) if kind == "one of large" else kind for kind in KINDS],
)
def clips(request, tmp_path_factory):
    return write_clips(tmp_path_factory.mktemp("streams") / "clips", *KINDS[request.param])


STRATEGIES = {
    "single": None,
    "pad": sr.Pad(4),
    "bucket": sr.Bucket(4, boundaries=[4, 7]),
    "sorted": sr.Bucket(4, boundaries="sorted"),
}


def keys(dataset):
    return [np.ravel(batch["key"]).tolist() for batch in dataset.as_numpy_iterator()]


def of_kinds(name, values, ordinary):
    """Parametrize a test of clips by their kind and something else; what is not ordinary is left to the long run."""
    pairs = all_at_night(itertools.product(KINDS, values), ordinary)
    return pytest.mark.parametrize(("clips", name), pairs, indirect=["clips"], scope="module", ids=str)


@of_kinds(
    "name",
    STRATEGIES,
    [
        *(("one shard", "bucket"), ("three shards", "single"), ("three shards", "sorted")),
        ("three of large", "bucket"),
    ],
)
def test_each_epoch_has_every_record_once_in_an_order_of_the_seed(clips, name):
    """Two epochs of different order, the same for the same seed whatever TensorFlow's own, and another for another."""

    def read(seed):
        return [
            k for batch in keys(sr.read(clips, batch=STRATEGIES[name], shuffle=20, seed=seed, epochs=2)) for k in batch
        ]

    once = read(5)
    first, second = once[: len(LENGTHS)], once[len(LENGTHS) :]
    assert Counter(first) == Counter(second) == Counter(range(len(LENGTHS)))
    assert first != second
    assert first != sorted(first)
    tf.random.set_seed(1)
    assert read(5) == once
    tf.random.set_seed(None)
    assert read(6) != once


PLANNED = [{}, {"shuffle": 20, "seed": 5}, {"shuffle": 20, "seed": 5, "shard": (1, 2)}]


@of_kinds("options", PLANNED, zip(["one shard", "three shards", "three of large"], PLANNED, strict=True))
@pytest.mark.parametrize("name", [pytest.param("pad", marks=pytest.mark.nightly), "bucket"])
def test_plans_are_exact(clips, name, options):
    """What `plan` tells is what `read` gives, in the order that is drawn."""
    strategy = STRATEGIES[name]
    dataset = sr.read(clips, batch=strategy, **options)
    shapes = Counter(batch["steps"].shape for batch in dataset.as_numpy_iterator())
    assert sr.plan(clips, None, strategy, **options).shapes == shapes


@of_kinds("name", ["pad", "bucket"], [("one shard", "pad"), ("three shards", "bucket"), ("three of large", "bucket")])
def test_a_checkpoint_goes_on_with_the_order(clips, name, tmp_path):
    """In the midst of both epochs, where windows are held and rows left over."""
    dataset, same = (sr.read(clips, batch=STRATEGIES[name], shuffle=20, seed=5, epochs=2) for _ in range(2))
    iterator = iter(dataset)
    saved = {}
    whole: list[list[int]] = []
    for batch in iterator:
        if len(whole) in (1, 9, 25):
            saved[len(whole)] = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / f"at-{len(whole)}"))
        whole.append(batch["key"].numpy().tolist())
    for position, path in saved.items():
        anew = iter(same)
        tf.train.Checkpoint(iterator=anew).restore(path)
        assert [batch["key"].numpy().tolist() for batch in anew] == whole[position + 1 :]


@pytest.mark.parametrize(
    "strategy",
    [
        STRATEGIES["pad"],
        pytest.param(STRATEGIES["bucket"], marks=pytest.mark.nightly),
        STRATEGIES["sorted"],
        sr.Bucket((2, 3, 5), boundaries=[4, 7], drop_remainder=True),
        pytest.param(sr.Bucket(4, boundaries=[4, 7], drop_remainder=True), marks=pytest.mark.nightly),
        pytest.param(sr.Bucket(4, boundaries=[]), marks=pytest.mark.nightly),
        sr.TokenBudget(30),
    ],
    ids=str,
)
def test_large_records_come_in_the_batches_of_small_ones(tmp_path, strategy):
    """In the order of the files, the size of the records changes neither batches nor static shapes."""
    small, large = (
        sr.read(write_clips(tmp_path / str(len(frame)), 3, frame), batch=strategy, fields=("key", "steps"), epochs=2)
        for frame in (b"", FRAME)
    )
    assert keys(small) == keys(large)
    assert small.element_spec == large.element_spec
    assert small.cardinality() == large.cardinality()


def test_readers_share_the_records(clips):
    """Two readers of one seed have every record between them."""
    parts = [keys(sr.read(clips, batch=sr.Pad(4), shuffle=20, seed=5, shard=(index, 2))) for index in range(2)]
    assert Counter(k for part in parts for batch in part for k in batch) == Counter(range(len(LENGTHS)))


@pytest.mark.parametrize("name", ["pad", "bucket"])
def test_a_shard_that_ends_early_is_an_error(clips, name):
    """The records are counted where they are shuffled."""
    dataset = sr.read(clips, batch=STRATEGIES[name], shuffle=20, seed=5)
    shard = next(path for path in sorted(clips.rglob("*.tfrecord")))
    data = shard.read_bytes()
    try:
        shard.write_bytes(data[: len(data) - 5])
        with pytest.raises(tf.errors.InvalidArgumentError, match="is damaged, missing or one too many"):
            keys(dataset)
    finally:
        shard.write_bytes(data)


@pytest.mark.parametrize("name", ["single", "pad"])
def test_windows_are_bounded_in_bytes(name, tmp_path):
    """Of records that are too large for a window of `shuffle` of them, fewer are permuted at a time."""
    size, records = 100_000, 6000  # bytes of a record as the manifest tells them, 600 MB in all
    sr.write((Clip(number, []) for number in range(records)), tmp_path / "d")
    [shard] = (tmp_path / "d").rglob("*.tfrecord")
    manifest = tmp_path / "d" / "manifest.json"
    manifest.write_text(manifest.read_text().replace(f'"bytes": {shard.stat().st_size}', f'"bytes": {size * records}'))
    dataset = sr.read(tmp_path / "d", batch=STRATEGIES[name], shuffle=5000, seed=5, fields=["key"], check="none")
    order = [k for batch in keys(dataset) for k in batch]
    window = record_stream._SHUFFLED_BYTES // size
    windows = [sorted(order[at : at + window]) for at in range(0, records, window)]
    assert len(windows) == 3
    assert [k for window in windows for k in window] == list(range(records))
    assert order != sorted(order)


@pytest.mark.parametrize("name", ["single", "pad", "bucket"])
def test_an_error_takes_its_shard_from_the_window(name, tmp_path):
    """All records of healthy shards are there for who goes on after an error, but for those beside it in a window."""
    sr.write((Clip(number, np.arange(9)) for number in range(300)), tmp_path / "d", shards=3)
    dataset = sr.read(tmp_path / "d", batch=STRATEGIES[name], shuffle=20, seed=5)
    shard = sorted(tmp_path.rglob("*.tfrecord"))[1]
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 0xFF
    shard.write_bytes(data)
    iterator, found, errors = iter(dataset), 0, 0
    while True:
        try:
            found += np.size(next(iterator)["key"])
        except StopIteration:
            break
        except tf.errors.InvalidArgumentError:
            errors += 1
    assert errors == 1
    assert 250 - 20 < found <= 250
