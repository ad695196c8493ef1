"""Numbers by which records are drawn: random ones, of a seed and of where the records are."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_WINDOW = 1 << 15
"""Records whose ranks are worked out at a time: so many stay in a cache of the processor."""

GAMMA = 0x9E3779B97F4A7C15
"""By how much the state of SplitMix64 grows."""


def ranked(splits: Mapping[str, range], positions: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """Return a random number for each record, of the seed, its split and its position in that: uint64 `(n,)`."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise OptionError(f"seed: expected an int, got {seed!r}")
    out = np.zeros(positions.size, np.uint64)
    for name, split in splits.items():
        drawn = int.from_bytes(hashlib.sha256(f"{int(seed)} {name}".encode()).digest()[:8], "little")
        salt = np.uint64((drawn - split.start) % (1 << 64))
        if positions.size and split.start <= positions.min() and positions.max() < split.stop:  # as most often
            return mixed(positions.astype(np.uint64) + salt)
        here = (positions >= split.start) & (positions < split.stop)
        out[here] = mixed(positions[here].astype(np.uint64) + salt)
    return out


def lowest_ranked(splits: Mapping[str, range], positions: range | NDArray[np.int64], seed: int, count: int) -> Any:
    """Return the places of the records of the lowest ranks, ascending: int64 `(count,)`, fewer than `positions` has.

    Ranks are spread evenly, so those of about `count` records lie below a limit, and no others are kept.
    """
    share = (count + 8 * count**0.5 + 64) / len(positions)
    while True:
        limit = np.uint64(min(share, 1) * (2**64 - 2**12))  # the largest float below 2**64, and less
        places, ranks = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
        for start in range(0, len(positions), _WINDOW):
            part = positions[start : start + _WINDOW]
            own = ranked(
                splits, np.arange(part[0], part[-1] + part.step, part.step) if isinstance(part, range) else part, seed
            )
            low = np.flatnonzero(own <= limit) if share < 1 else np.arange(own.size)
            places.append(start + low)
            ranks.append(own[low])
        found, drawn = np.concatenate(places), np.concatenate(ranks)
        if found.size > count:
            return np.sort(found[np.argpartition(drawn, count)[:count]])
        share *= 2


def mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return SplitMix64 (https://prng.di.unimi.it/splitmix64.c) of each number."""
    return finalized(numbers * np.uint64(GAMMA))


def finalized(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return what SplitMix64 makes of each of its states, in their place."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        numbers ^= numbers >> np.uint64(shift)
        numbers *= np.uint64(factor)
    return numbers
