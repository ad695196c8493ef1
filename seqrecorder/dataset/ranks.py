"""Numbers by which records are drawn: random ones, of a seed and of where the records are."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from seqrecorder.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


def ranked(splits: Mapping[str, range], positions: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """Return a random number for each record, of the seed, its split and its position in that: uint64 `(n,)`."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise OptionError(f"seed: expected an int, got {seed!r}")
    out = np.zeros(positions.size, np.uint64)
    for name, split in splits.items():
        here = (positions >= split.start) & (positions < split.stop)
        salt = int.from_bytes(hashlib.sha256(f"{int(seed)} {name}".encode()).digest()[:8], "little")
        out[here] = mixed((positions[here] - split.start).astype(np.uint64) + np.uint64(salt))
    return out


def mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return SplitMix64 (https://prng.di.unimi.it/splitmix64.c) of each number."""
    numbers = numbers * np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = numbers ^ (numbers >> np.uint64(31))
    return mixed
