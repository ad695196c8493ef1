"""Hashes of several files come together in order, however little memory there is."""

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from seqrecorder.dataset.keys import SortedHashes, merged_hashes

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
