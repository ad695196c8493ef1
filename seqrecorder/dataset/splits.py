"""From a record's key to its split, and the search for keys that come twice.

A split depends on the seed and the key alone, so adding data never moves a record from one split to another.
"""

from __future__ import annotations

import functools
import hashlib
import math
import struct
from bisect import bisect_right
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.errors import OptionError
from seqrecorder.storage.names import check_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

_HASHES = 1 << 64
_SUM_TOLERANCE = 1e-9


def key_hash(key: object, seed: int = 0) -> int:
    """Return a 64-bit hash that is the same in every process, on every platform and in every release.

    It is the BLAKE2b digest of 8 bytes, read as little-endian, of the seed and an encoding of the key that
    starts with a tag of its type: `1`, `"1"`, `1.0`, `True` and `b"1"` are five keys.
    `key_hashes` is faster for many.

    >>> key_hash("utterance-7")
    220409978694772613
    >>> key_hash(7) == key_hash("7")
    False

    Args:
        key: a str, bytes, bool, int of any size, float, None, numpy scalar of these (treated as its Python
            equivalent), datetime64 or timedelta64 (the unit counts), or a tuple of these. `-0.0` is the key
            `0.0`, as it is for Python, and all NaNs are one key.
        seed: any int; another seed gives an unrelated hash.

    Returns:
        The hash, from 0 to 2**64 - 1.

    Raises:
        OptionError: the key is of another type.
    """
    return int(key_hashes([key], seed)[0])


def key_hashes(keys: Iterable[object], seed: int = 0) -> NDArray[np.uint64]:
    """Return the `key_hash` of each key.

    >>> key_hashes(["utterance-7", 7]).tolist() == [key_hash("utterance-7"), key_hash(7)]
    True

    Args:
        keys: as for `key_hash`.
        seed: as for `key_hash`.

    Returns:
        The hashes, uint64.

    Raises:
        OptionError: a key is of another type.
    """
    seeded, digests = _seeded(seed), []
    for key in keys:
        # The two common types are spelled out: a call for each would cost as much as the hash.
        if type(key) is str:
            data = b"s" + key.encode("utf-8", "surrogatepass")
        elif type(key) is int:
            data = b"i%x" % key
        else:
            data = _encoded(key)
        state = seeded()
        state.update(data)
        digests.append(state.digest())
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64, copy=False)


@functools.lru_cache(maxsize=64)
def _seeded(seed: int) -> Callable[[], hashlib.blake2b]:
    # Hexadecimal, for ints of any size: Python limits the conversion of long ints to decimal.
    return hashlib.blake2b(b"%x:" % seed, digest_size=8).copy


def _encoded(key: object) -> bytes:
    """Encode a key so that no two keys have one encoding; the first byte is the type."""
    if isinstance(key, (np.datetime64, np.timedelta64)):
        unit, count = np.datetime_data(key.dtype)
        tag = b"M" if isinstance(key, np.datetime64) else b"m"
        return b"%s%d%s:%x" % (tag, count, unit.encode(), int(key.astype(np.int64)))
    if isinstance(key, np.generic):
        key = key.item()
    # `float.__float__` and its like give the plain value of a subclass, whatever that overrides.
    if key is None:
        data = b"n"
    elif isinstance(key, bool):
        data = b"b1" if key else b"b0"
    elif isinstance(key, str):
        data = b"s" + str.encode(key, "utf-8", "surrogatepass")
    elif isinstance(key, int):
        data = b"i%x" % int.__int__(key)
    elif isinstance(key, bytes):
        data = b"y" + key
    elif isinstance(key, float):
        data = b"f" + _encoded_float(float.__float__(key))
    elif isinstance(key, tuple):
        data = b"t" + b"".join(b"%x:%s" % (len(item), item) for item in map(_encoded, key))
    else:
        raise OptionError(
            f"key {key!r}: expected str, bytes, bool, int, float, datetime64, timedelta64, None or a tuple"
            f" of these, got {type(key).__name__}; give split_by a function that returns one of these"
        )
    return data


def _encoded_float(value: float) -> bytes:
    if math.isnan(value):
        return b"nan"  # the sign and payload of a NaN differ between platforms
    return struct.pack(">d", value + 0.0)  # adding 0.0 turns -0.0 into 0.0


def _shares(shares: object) -> Mapping[str, float]:
    if not isinstance(shares, Mapping) or not shares:
        raise OptionError(
            f"splits: expected a mapping of names to shares such as {{'train': 0.9, 'eval': 0.1}}, got {shares!r}"
        )
    check_names(shares, "split")
    return {name: _share(name, share) for name, share in shares.items()}


def _share(name: str, share: Any) -> float:
    try:
        value = math.nan if isinstance(share, (bool, str)) else float(share)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise OptionError(f"split {name!r}: expected a share from 0 to 1, got {share!r}")
    return value


@attrs.frozen(hash=False)
class Ratios:
    """What share of the keys each split gets.

    The split of a key depends on the names and shares, not on the order in which they are given.

    >>> ratios = Ratios({"train": 0.8, "eval": 0.1, "test": 0.1})
    >>> ratios.assign(key_hash("utterance-7", seed=0))
    'eval'

    Attributes:
        shares: name to share, in the order given. The shares are finite, not negative, and add up to 1 within
            1e-9; a split with share 0 gets nothing.
    """

    shares: Mapping[str, float] = attrs.field(converter=_shares)
    _names: tuple[str, ...] = attrs.field(init=False, repr=False, eq=False)
    _limits: tuple[int, ...] = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        _check_sum(self.shares)
        names = sorted(name for name, share in self.shares.items() if share > 0)
        exact = [Fraction(self.shares[name]) for name in names]
        # One limit between each two splits, so that the last takes what rounding leaves.
        limits = (int(sum(exact[: i + 1]) * _HASHES / sum(exact)) for i in range(len(exact) - 1))
        object.__setattr__(self, "_names", tuple(names))
        object.__setattr__(self, "_limits", tuple(limits))

    def assign(self, hash64: int) -> str:
        """Return the name of the split for a key's hash.

        >>> Ratios({"train": 0.5, "eval": 0.5}).assign(0)
        'eval'

        Args:
            hash64: what `key_hash` gave, from 0 to 2**64 - 1.

        Returns:
            The name of a split whose share is not 0.

        Raises:
            OptionError: the number is not a 64-bit hash.
        """
        if not 0 <= hash64 < _HASHES:
            raise OptionError(f"hash {hash64!r}: expected an int from 0 to 2**64 - 1; use key_hash")
        return self._names[bisect_right(self._limits, hash64)]

    def assign_all(self, hashes: NDArray[np.uint64]) -> list[str]:
        """Return the name of the split of each hash, uint64.

        >>> Ratios({"train": 0.5, "eval": 0.5}).assign_all(np.array([0, 2**63], np.uint64))
        ['eval', 'train']
        """
        numbers = np.searchsorted(np.array(self._limits, np.uint64), hashes, side="right")
        return list(map(self._names.__getitem__, numbers.tolist()))


def _check_sum(shares: Mapping[str, float]) -> None:
    try:
        total = math.fsum(shares.values())
    except OverflowError:
        total = math.inf
    if abs(total - 1) <= _SUM_TOLERANCE:
        return
    advice = "give at least one split a share"
    if total > 0:
        largest = max(shares.values())  # dividing by it first keeps huge and tiny sums in range
        scale = math.fsum(share / largest for share in shares.values())
        advice = f"use { ({name: share / largest / scale for name, share in shares.items()})!r}"
    raise OptionError(f"splits: expected shares that add up to 1, got {dict(shares)!r}, which make {total!r}; {advice}")


class KeyRegistry:
    """Finds keys that come twice in a stream, in 12 bytes a key (16 from position 2**32 on).

    It keeps hashes and positions in sorted runs of numpy arrays, each more than twice as long as the next,
    and merges the runs that would break this rule (a log-structured merge). Small blocks cost
    more for each key; while the two largest runs merge, the memory is double.

    Only hashes are compared: among n distinct keys, two share a 64-bit hash with a probability of about
    n**2 / 2**65, which is 3e-8 for 10**6 keys, 3e-6 for 10**7 and 3e-4 for 10**8.

    >>> registry = KeyRegistry()
    >>> registry.add(np.array([7, 8, 7], np.uint64), 0)
    array([-1, -1,  0])
    >>> registry.add(np.array([9, 8], np.uint64), 3)
    array([-1,  1])
    >>> len(registry)
    3
    """

    def __init__(self) -> None:
        self._runs: list[tuple[NDArray[np.uint64], NDArray[Any]]] = []

    def __len__(self) -> int:
        """Return the number of distinct keys."""
        return sum(len(hashes) for hashes, _ in self._runs)

    @property
    def hashes(self) -> NDArray[np.uint64]:
        """The hashes of all keys, uint64, ascending."""
        return np.sort(np.concatenate([np.empty(0, np.uint64), *(hashes for hashes, _ in self._runs)]), kind="stable")

    def add(self, hashes: NDArray[np.uint64], first_position: int | NDArray[np.int64]) -> NDArray[np.int64]:
        """Register a block of keys, and say for each whether and where it came before.

        Args:
            hashes: uint64 of shape (n,), a hash of each key; n of about 1,000 is best.
            first_position: the position of the block's first key, when the others follow one by one; or the
                positions of all, int64 of shape (n,). None is negative.

        Returns:
            int64 of shape (n,): -1 for a key that is new, else the position that was registered with its
            first occurrence, be it in this block or before. Later occurrences are not registered.
        """
        positions = first_position
        if not isinstance(positions, np.ndarray):
            positions = positions + np.arange(len(hashes), dtype=np.int64)
        earlier = np.full(len(hashes), -1, np.int64)
        if not len(hashes):
            return earlier
        order = np.argsort(hashes, kind="stable")
        ordered = hashes[order]
        is_first = np.ones(len(order), np.bool_)
        np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
        firsts = order[is_first]
        distinct = ordered[is_first]
        known = self._lookup(distinct)
        is_new = known < 0
        if len(firsts) < len(order) or not is_new.all():
            # What a later occurrence is told: the known position, else that of the block's first.
            told = np.where(is_new, positions[firsts], known)
            earlier[order] = told[np.cumsum(is_first) - 1]
            earlier[firsts] = known
        self._append(distinct[is_new], positions[firsts[is_new]])
        return earlier

    def _lookup(self, distinct: NDArray[np.uint64]) -> NDArray[np.int64]:
        known = np.full(len(distinct), -1, np.int64)
        for hashes, positions in self._runs:
            at = np.searchsorted(hashes, distinct)
            np.minimum(at, len(hashes) - 1, out=at)
            found = np.flatnonzero(hashes[at] == distinct)
            if len(found):
                known[found] = positions[at[found]]
        return known

    def _append(self, hashes: NDArray[np.uint64], positions: NDArray[np.int64]) -> None:
        if not len(hashes):
            return
        narrow = positions.astype(np.uint32) if int(positions.max()) < 1 << 32 else positions
        runs = self._runs
        runs.append((hashes, narrow))
        while len(runs) > 1 and len(runs[-2][0]) <= 2 * len(runs[-1][0]):
            # In lists, so that `_merge` holds the only references and can free the arrays early.
            runs.append(_merge([*runs.pop()], [*runs.pop()]))


def _merge(one: list[NDArray[Any]], other: list[NDArray[Any]]) -> tuple[NDArray[np.uint64], NDArray[Any]]:
    """Merge two sorted runs, given as lists that it empties: hashes first, then positions."""
    few, many = sorted((one, other), key=lambda run: len(run[0]))
    length = len(few[0]) + len(many[0])
    places = np.searchsorted(many[0], few[0])
    places += np.arange(len(places))
    rest = np.ones(length, np.bool_)
    rest[places] = False
    merged: list[NDArray[Any]] = []
    for _ in range(2):
        # Each input is dropped as soon as its column is merged: this is where memory peaks.
        source, into = few.pop(0), many.pop(0)
        column = np.empty(length, np.result_type(source, into))
        column[places] = source
        column[rest] = into
        merged.append(column)
    return merged[0], merged[1]
