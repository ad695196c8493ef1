"""Shards go to a URL while the next are written."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from written_records import Item, items

import seqrecorder as sr
from seqrecorder.storage.files import on_fault_point
from seqrecorder.storage.object_store import Place

COUNT, SHARD = 600, 100_000


def large(count):
    """Yield records that are many chunks together, so that some are encoded while others come."""
    for number in range(count):
        yield Item(f"k{number}", ids=np.arange(2000) + number)


@pytest.fixture
def url(request):
    return f"memory://early/{request.node.name}/corpus"


def shards_at(url):
    return [name for name in Place.of(url).items() if name.endswith(".tfrecord")]


@pytest.mark.parametrize(
    "shuffle", [pytest.param(False, marks=pytest.mark.nightly), True], ids=["in order", "shuffled"]
)
def test_full_shards_are_sent_while_records_come(url, tmp_path, shuffle):
    """Before the last record there are shards at the URL; what is read is what a directory would have."""
    there = []

    def source():
        yield from large(COUNT)
        there.extend(shards_at(url))

    far = sr.write(source(), url, shard_bytes=SHARD, shuffle=shuffle, seed=1)
    near = sr.write(large(COUNT), tmp_path / "near", shard_bytes=SHARD, shuffle=shuffle, seed=1)
    assert bool(there) == (not shuffle)  # the order on the disk is known when all records are there
    split = far.splits["train"]
    assert len(split.shards) == len(shards_at(url)) > 6
    assert [shard.sha256 for shard in split.shards] == [shard.sha256 for shard in near.splits["train"].shards]
    assert list(sr.read_records(url, schema=Item)) == list(sr.read_records(near.path, schema=Item))
    assert sr.verify(url).ok
    assert sr.clean(url, older_than=0) == {}


def test_few_shards_wait_on_this_disk(url):
    """However slow the place, a bounded number of shards waits, each as large as a shard may be."""
    most = running = 0
    guard = threading.Lock()

    def slow(name, _):
        nonlocal most, running
        if name.endswith("_put"):
            with guard:
                running += 1 if name == "before_put" else -1
                most = max(most, running)
            time.sleep(0.002)

    counts = []

    def source():
        for number, item in enumerate(large(COUNT)):
            yield item
            if number % 10 == 0:
                counts.append(len(list(Path(writer._staging.path).rglob("*.part"))))

    with on_fault_point(slow), sr.Writer(url, Item, shard_bytes=20_000) as writer:
        writer.write_all(source())
    assert len(shards_at(url)) > 40
    assert 1 < most <= 8  # four at first, and eight of the last ones
    assert max(counts) <= 6


def test_a_shard_that_cannot_be_sent_ends_the_writing(url):
    """The error comes soon, while records are written, and nothing is published."""
    written = []

    def fail(name, _):
        if name == "before_put":
            raise TimeoutError("no answer")

    def source():
        for item in large(COUNT):
            written.append(item)
            yield item

    with on_fault_point(fail), pytest.raises(sr.ShardWriteError, match="no answer") as caught:
        sr.write(source(), url, shard_bytes=SHARD)
    assert caught.value.path.startswith(f"{url}/train/train-0000")
    assert len(written) < COUNT
    assert shards_at(url) == []
    assert not [thread for thread in threading.enumerate() if "uploads" in thread.name]


def test_an_append_and_an_overwrite_roll_over_too(url):
    """Generations stand in the names; what was overwritten stays for its readers, until it is cleaned."""
    sr.write(items(500), url, shard_bytes=2000)
    first = set(shards_at(url))
    sr.write(items(500, 1000), url, shard_bytes=2000, append=True)
    assert set(shards_at(url)) > first
    assert sr.info(url).records == 1000
    sr.write(items(500), url, shard_bytes=2000, overwrite=True)
    assert set(shards_at(url)) > first
    sr.clean(url, older_than=0)
    assert len(shards_at(url)) == len(sr.info(url).splits["train"].shards)
    assert sr.verify(url).ok


def test_a_part_is_sent_early_and_comes_back(url, tmp_path):
    """Shards of parts have the names of their attempts; in a directory they are numbered, and can be appended to."""
    for part in range(2):
        sr.write_part(items(300, 300 * part), url, part, shard_bytes=2000)
    sr.commit(url, expected=2)
    back = sr.pull(url, tmp_path / "back")
    names = [shard.name for shard in back.splits["train"].shards]
    assert names == [f"train-{index:05d}-of-{len(names):05d}.tfrecord" for index in range(len(names))]
    assert list(sr.read_records(back.path, schema=Item)) == items(600) == list(sr.read_records(url, schema=Item))
    sr.write(items(3, 600), back.path, append=True)
    assert sr.verify(back.path).ok
    assert sr.info(back.path).records == 603
