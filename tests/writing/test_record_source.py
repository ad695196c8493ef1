"""What waits for its encoding: bounded in records and bytes, complete and in order."""

import attrs
import numpy as np
import pytest

import seqrecorder as sr
from seqrecorder.writing.columns import Block
from seqrecorder.writing.intake import RecordStream, Waiting


@sr.record
class Clip:
    key: str = sr.context(str)
    ids: np.ndarray = sr.feature_list("int64")


SCHEMA = sr.Schema.of(Clip)
KILOBYTES_32 = np.zeros(1 << 12, np.int64)


def clips(count: int, ids: object = (1, 2)) -> list[Clip]:
    return [Clip(f"k{number}", ids) for number in range(count)]


def chunks(kept: Waiting, source: object) -> list[list[Clip]]:
    """Return what is taken while a source is added, and at last what is left."""
    stream = RecordStream(source)
    taken = [kept.take()[0] for _ in kept.fill(stream)]
    return [*taken, kept.take()[0]]


@pytest.mark.parametrize("kind", [list, iter])
@pytest.mark.parametrize(
    ("count", "sizes"), [(0, [0]), (6, [6]), (16_384, [16_384, 0]), (33_000, [16_384, 16_384, 232])]
)
def test_chunks_are_bounded_in_number(kind, count, sizes):
    """Of lists and of iterators all records come, in order."""
    records = clips(count)
    found = chunks(Waiting(SCHEMA, hooks=False, workers=1), kind(records))
    assert [len(part) for part in found] == sizes
    assert [record for part in found for record in part] == records


def test_records_one_by_one_are_bounded_in_bytes():
    """A chunk is full with 4 MiB, and keeps the splits that were given."""
    kept = Waiting(SCHEMA, hooks=False, workers=1)
    for number, record in enumerate(clips(128, KILOBYTES_32)):
        assert not kept.is_full
        kept.add(record, f"split {number % 2}")
    assert kept.is_full
    records, given = kept.take()
    assert len(records) == 128
    assert given == ["split 0", "split 1"] * 64
    assert kept.take() == ([], [])
    assert not kept.is_full


@pytest.mark.parametrize("kind", [list, iter])
def test_chunks_are_bounded_in_bytes(kind):
    """No more than a chunk of an iterator's records is alive, and a sixteenth that is taken at once."""
    found = chunks(Waiting(SCHEMA, hooks=False, workers=1), kind(clips(1000, KILOBYTES_32)))
    assert max(map(len, found)) <= 128 + 128 // 16
    assert sum(map(len, found)) == 1000


def test_lists_that_are_added_one_by_one_do_not_wait():
    """Of lists that the caller drops no more than a chunk of bytes is kept, wherever their large records are."""
    kept = Waiting(SCHEMA, hooks=False, workers=1)
    ids = [np.zeros(0 if i % 20 == 0 else 1 << 15, np.int64) for i in range(40)]
    for _ in range(10):
        added = [Clip("", value) for value in ids]
        *taken, rest = chunks(kept, added)
        assert sum(record.ids.nbytes for record in rest) < 4 << 20
        assert [record for part in (*taken, rest) for record in part] == added
    for _ in range(10):
        assert not list(kept.fill(RecordStream(clips(40)))), "small ones wait"
    assert len(kept.take()[0]) == 400
    assert [len(part) for part in chunks(kept, clips(1025))] == [1025, 0], "so many are encoded at once"


def test_chunks_with_hooks_adapt_to_what_comes_back():
    """One source goes to a worker first; then as many as the bytes of what they became allow, at most 256."""
    kept = Waiting(SCHEMA, hooks=True, workers=2)
    kept.add(clips(1)[0], None)
    assert kept.is_full
    kept.take()
    empty = {field.name: [] for field in attrs.fields(Block)}
    small = Block(**{**empty, "data": [b"x"] * 3, "sources": np.zeros(3, np.int64)})
    for most in (2, 4, 8, 16, 32, 64, 128, 256, 256):
        kept.adapt(small)
        for record in clips(most - 1):
            kept.add(record, None)
            assert not kept.is_full or most == 1
        kept.add(clips(1)[0], None)
        assert kept.is_full
        kept.take()
    kept.adapt(Block(**{**empty, "data": [bytes(1 << 21)], "sources": np.zeros(1, np.int64)}))
    kept.add(clips(1)[0], None)
    assert not kept.is_full
    kept.add(clips(1)[0], None)
    assert kept.is_full
    assert len(chunks(Waiting(SCHEMA, hooks=True, workers=1), clips(600))) == 3
