"""Readers never see half of an overwrite: all of the old records, all of the new ones, or an error."""

import operator
import shutil
import threading

import numpy as np
import pytest
import tensorflow as tf
from written_records import items

import seqrecorder as sr


@sr.record
class Word:
    generation: int = sr.context("int64")
    ids: np.ndarray = sr.feature_list("int64")


def words(generation, count=40):
    return [Word(generation, np.full(n % 5, generation)) for n in range(count)]


def generations(element):
    return np.atleast_1d(element["generation"].numpy()).tolist()


@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("shards", [4, 3])
def test_open_readers_do_not_mix(tmp_path, monkeypatch, exchange, shards):
    """A reader that is open across an overwrite gives records of the old dataset alone, and then an error."""
    if not exchange:
        monkeypatch.setattr("seqrecorder.storage.publish.exchange_now", lambda *_: 22)
    path = tmp_path / "c"
    sr.write(words(0, 400), path, shard_bytes=8000)  # more than is read ahead
    dataset = sr.read(path, batch=sr.Pad(2))
    early, iterators = sr.read_records(path), [iter(dataset), iter(dataset)]
    next(iterators[0])
    sr.write(words(1), path, shards=shards, overwrite=True)
    for iterator in iterators:
        seen = []
        with pytest.raises(tf.errors.NotFoundError, match=r"train-0000.-of-0000.\.tfrecord"):
            seen += [generation for batch in iterator for generation in generations(batch)]
        assert set(seen) <= {0}
    with pytest.raises(sr.ShardReadError, match=r"train-0000.-of-0000.\.tfrecord"):
        list(early)
    assert {record.generation for record in sr.read_records(path)} == {1}


def test_files_that_take_turns_stay_open(tmp_path):
    """A reader of files that got records in turn has opened all of them, and so reads on across an overwrite."""
    sr.write(words(0, 400), tmp_path / "c", shards=4)
    dataset = sr.read(tmp_path / "c", batch=sr.Pad(2))
    iterator = iter(dataset)
    first = generations(next(iterator))
    sr.write(words(1), tmp_path / "c", shards=4, overwrite=True)
    assert first + [generation for batch in iterator for generation in generations(batch)] == [0] * 400
    with pytest.raises(tf.errors.NotFoundError, match=r"train-0000.-of-00004\.tfrecord"):
        next(iter(dataset))


def test_readers_beside_a_writer(tmp_path, figure):
    """Of datasets that are read while others replace them, each reading gives one generation whole, or an error."""
    path, done = tmp_path / "c", threading.Event()
    sr.write(words(0), path, shards=4)
    whole, refused, wrong = [], [], []

    def read():
        while not done.is_set():
            try:
                seen = [record.generation for record in sr.read_records(path, schema=Word)]
            except (sr.ShardReadError, sr.DatasetNotFoundError) as error:
                refused.append(error)
                continue
            (whole if len(seen) == 40 and len(set(seen)) == 1 else wrong).append(seen[0])

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for generation in range(1, 500):
            sr.write(words(generation), path, shards=4, overwrite=True)
            if generation >= 20 and len(set(whole)) > 3:  # on a busy machine readers may come late
                break
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert not wrong
    assert len(set(whole)) > 3
    figure(21, "readings beside overwrites", len(whole) + len(refused), "of one generation")


READERS = {
    "read": (lambda path: sr.read(path, batch=sr.Pad(2)), list),
    "read a selection": (lambda path: sr.read(sr.open(path).all()[::3]), list),
    "read_records": (sr.read_records, list),
    "open": (lambda path: sr.open(path).all(), list),
    "one record": (lambda path: sr.open(path).all(), operator.itemgetter(7)),
    "columns": (lambda path: sr.open(path).all(), lambda some: list(some.columns())),
    "lengths": (lambda path: sr.open(path).all(), lambda some: some.lengths()),
}
"""How each reader begins, and goes on."""


@pytest.mark.parametrize("change", ["overwrite", "rewrite", "compact", "remove", "replace"])
@pytest.mark.parametrize("reader", READERS)
def test_replaced_datasets_are_said_so(tmp_path, reader, change):
    """A dataset that is replaced or removed while it is read is no damaged one: every reader says what happened."""
    path = tmp_path / "corpus"
    sr.write(items(60), path, shards=5)
    begin, go_on = READERS[reader]
    begun = begin(path)
    if change == "rewrite":
        sr.rewrite(path, drop=sr.open(path).all()[:3])
    if change == "compact":  # to the same files, of other names
        sr.compact(path, shards=5)
    if change in ("remove", "replace"):
        shutil.rmtree(path)
    if change in ("overwrite", "replace"):
        sr.write(items(50, 100), path, shards=3, overwrite=True)
    text = ""
    try:
        go_on(begun)
    except (sr.ShardReadError, tf.errors.NotFoundError) as error:
        text = str(error)
    assert "salvage" not in text
    assert not text or "was replaced" in text
    assert text or reader.startswith("read")  # what is open already may be read to its end


def test_damage_is_still_damage(tmp_path):
    """An append leaves what was opened where it is: what is missing then is damaged, not replaced."""
    path = tmp_path / "corpus"
    sr.write(items(60), path, shards=5)
    some, records = sr.open(path).all(), sr.read_records(path)
    sr.write(items(3, 100), path, append=True)
    sorted((path / "train").glob("*.tfrecord"))[2].unlink()
    for reading in (lambda: list(some), lambda: list(records), lambda: sr.read(path)):
        with pytest.raises(sr.ShardReadError) as caught:
            reading()
        assert "replaced" not in str(caught.value)
