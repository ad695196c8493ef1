"""Hashes of several files come together in order, however little memory there is."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqrecorder.dataset.keys import SortedHashes, merged_hashes
from seqrecorder.errors import ShardReadError

HASHES = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**63 - 1, 2**63, 2**64 - 1])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sets(HASHES, max_size=20), max_size=5), st.sampled_from([8, 24, 64, 1 << 20]))
def test_merged_hashes(given_sets: list[set[int]], memory: int) -> None:
    """Every hash of every file comes, ascending, equal ones together; each file finds its own."""
    with tempfile.TemporaryDirectory() as directory:
        paths = [Path(directory, str(number)) for number in range(len(given_sets))]
        for path, values in zip(paths, given_sets, strict=True):
            np.array(sorted(values), "<u8").tofile(path)
        found = [value for piece in merged_hashes([*map(SortedHashes, paths)], memory) for value in piece.tolist()]
        every = [value for values in given_sets for value in values]
        assert found == sorted(every)
        for path, values in zip(paths, given_sets, strict=True):
            assert [value for value in every if SortedHashes(path).finds(value)] == [v for v in every if v in values]


def test_a_file_that_goes_is_an_error_of_ours(tmp_path: Path) -> None:
    """An index that another writer removes or shortens meanwhile ends in no error of numpy or the system."""
    path = tmp_path / "keys"
    np.arange(9, dtype="<u8").tofile(path)
    short, gone = SortedHashes(path), SortedHashes(path)
    assert short.read_through(4).tolist() == [0, 1, 2, 3, 4]
    path.write_bytes(b"")
    for reading in (lambda: short.read_through(9), lambda: short.finds(3)):
        with pytest.raises(ShardReadError, match="cannot be read: .*try again"):
            reading()
    path.unlink()
    for reading in (lambda: gone.read_through(9), lambda: SortedHashes(path)):
        with pytest.raises(ShardReadError, match="cannot be read: .*try again"):
            reading()
