"""Shares of several readers: equal to one record, disjoint, complete, and of whole files where these allow."""

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from combinations import all_at_night
from hypothesis import given
from hypothesis import strategies as st

import seqrecorder as sr
from seqrecorder.dataset.checked_shards import share_of


@sr.record
class Numbered:
    number: int = sr.context("int64", key=True)
    steps: Any = sr.feature_list("int64")


@given(st.lists(st.integers(0, 40), max_size=12), st.integers(1, 9))
def test_shares_are_equal_to_one_record(sizes: list[int], readers: int) -> None:
    """Whatever the files hold, every record is one reader's, and shares differ by one at most."""
    numbered = [[(file, row) for row in range(size)] for file, size in enumerate(sizes)]
    seen: Counter[tuple[int, int]] = Counter()
    shares = []
    for index in range(readers):
        files, ours = share_of(sizes, index, readers)
        records = [record for file in numbered[files] for record in file]
        records = records if ours is None else records[ours]
        shares.append(len(records))
        seen.update(records)
    assert seen == Counter(record for file in numbered for record in file)
    assert max(shares) - min(shares) <= 1


def test_readers_share_few_files() -> None:
    """As many files as there are readers, less one, are read by more than one of them."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(50, 150, 40).tolist()
    read = Counter(file for index in range(8) for file in range(40)[share_of(sizes, index, 8)[0]])
    assert sum(count > 1 for count in read.values()) <= 7


@pytest.mark.parametrize(
    ("dealt", "count"),  # records are dealt to five files, or written file after file; readers are fewer, or more
    all_at_night(itertools.product([True, False], [4, 7]), [(True, 7), (False, 4)]),
)
def test_both_readers_give_each_record_once(tmp_path: Path, dealt: bool, count: int) -> None:
    """`read` and `read_records` of files that make no equal shares, the latter in written order; lengths count ours."""
    records = [Numbered(n, range(n % 6)) for n in range(53)]
    options = {"shards": 5} if dealt else {"shard_bytes": 700}
    sr.write(records, tmp_path / "corpus", **options)
    seen: list[int] = []
    for index in range(count):
        own = [record.number for record in sr.read_records(tmp_path / "corpus", shard=(index, count))]
        dataset = sr.read(tmp_path / "corpus", batch=sr.Pad(4), shard=(index, count), fields=["number"])
        read = [number for batch in dataset for number in batch["number"].numpy().tolist()]
        assert own == sorted(read)
        assert 53 // count <= len(own) <= 53 // count + 1
        assert int(dataset.cardinality()) == -(-len(own) // 4)
        limited = sr.read(tmp_path / "corpus", batch=sr.Pad(1), shard=(index, count), min_length=4)
        assert int(limited.cardinality()) == len(list(limited)) == sum(number % 6 >= 4 for number in own)
        seen += own
    assert sorted(seen) == list(range(53))
