"""Lines of many lengths, some of them empty: what batches by length are made of."""

from pathlib import Path

import numpy as np

import seqrecorder as sr

LENGTHS = np.clip(np.random.default_rng(7).lognormal(2.5, 0.9, 600).astype(int), 0, 90)


@sr.record
class Line:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int64")


def written(path: Path) -> Path:
    """Write the lines, and return where."""
    sr.write((Line(f"k{i}", np.arange(n) + 1) for i, n in enumerate(LENGTHS)), path, shards=2)
    return path


def keys(batches: list) -> list[bytes]:
    """Return the keys of all records of batches, ascending."""
    return sorted(np.concatenate([batch["key"].numpy() for batch in batches]))
