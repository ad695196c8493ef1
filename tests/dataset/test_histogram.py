"""The lengths of a shard's records: their bins."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from seqrecorder.dataset.manifest import histogram


@given(st.lists(st.integers(0, 1 << 40), max_size=2000).map(lambda values: np.array(values, np.int64)))
def test_histogram(lengths: np.ndarray) -> None:
    """Bins ascend, hold every record, and none is counted into a bin that it is longer than."""
    bins = histogram(lengths)
    edges = [edge for edge, _ in bins]
    assert edges == sorted(set(edges))
    assert sum(count for _, count in bins) == len(lengths)
    for edge in edges:
        assert sum(count for bound, count in bins if bound <= edge) <= int((lengths <= edge).sum())


def test_histogram_is_exact_or_close() -> None:
    """Up to 512 distinct lengths are kept; of more, no bin is wider than a sixteenth of its length."""
    assert histogram(np.repeat(np.arange(512), 2)) == [(i, 2) for i in range(512)]
    lengths = np.arange(100_000)
    edges = np.array([edge for edge, _ in histogram(lengths)])
    assert len(edges) < 512
    assert (np.diff(edges) <= np.maximum(1, edges[1:] / 15)).all()
