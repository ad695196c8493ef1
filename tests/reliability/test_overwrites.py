"""Readers never see half of an overwrite: all of the old records, all of the new ones, or an error."""

import threading

import numpy as np
import pytest
import tensorflow as tf

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
        monkeypatch.setattr("seqrecorder.storage.swap_directories.exchange_now", lambda *_: 22)
    path = tmp_path / "c"
    sr.write(words(0, 400), path, shards=4)  # more than is read ahead
    dataset = sr.read(path, batch=sr.Pad(2))
    early, iterators = sr.read_records(path), [iter(dataset), iter(dataset)]
    next(iterators[0])
    sr.write(words(1), path, shards=shards, overwrite=True)
    for iterator in iterators:
        seen = []
        with pytest.raises(tf.errors.NotFoundError, match=r"train-0000.-of-00004\.tfrecord"):
            seen += [generation for batch in iterator for generation in generations(batch)]
        assert set(seen) <= {0}
    with pytest.raises(sr.ShardReadError, match=r"train-0000.-of-00004\.tfrecord"):
        list(early)
    assert {record.generation for record in sr.read_records(path)} == {1}


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
    figure(21, "readings beside overwrites", len(whole) + len(refused), "of two generations")
