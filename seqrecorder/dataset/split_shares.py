"""Assignment of records to splits in given proportions, by a hash of the key or by groups and strata.

A split by hash depends only on the seed and the key, so adding data never moves a record to another split. This module
also finds the proportions that could not be met. Splits by time are in `splits_in_time`, and parts and folds of
selections are in `folds_and_subsets`.
"""

from __future__ import annotations

import functools
import hashlib
import math
import struct
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.errors import OptionError
from seqrecorder.schema.display import cut, html_table, text_table
from seqrecorder.storage.files import check_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray


_HASHES = 1 << 64
_SUM_TOLERANCE = 1e-9


def key_hash(key: object, seed: int = 0) -> int:
    """Hash a key to 64 bits, with the same result in every process, on every platform and in every release.

    The hash is the 8-byte BLAKE2b digest of the seed and the encoded key, read as little-endian. The encoding starts
    with a tag for the type, so `1`, `"1"`, `1.0`, `True` and `b"1"` are five distinct keys. For many keys, `key_hashes`
    is faster.

    >>> key_hash("utterance-7")
    220409978694772613
    >>> key_hash(7) == key_hash("7")
    False

    Args:
        key: a str, bytes, bool, int of any size, float, None, NumPy scalar of these types (the same as its Python
            equivalent), datetime64 or timedelta64 (the unit matters), or a tuple of these. `-0.0` and `0.0` are the
            same key, as in Python, and so are all NaNs.
        seed: any int; each seed gives an unrelated hash.

    Returns:
        The hash, from 0 to 2**64 - 1.

    Raises:
        OptionError: the key has an unsupported type.
    """
    return int(key_hashes([key], seed)[0])


def key_hashes(keys: Iterable[object], seed: int = 0) -> NDArray[np.uint64]:
    """Hash many keys, each as `key_hash` does.

    >>> key_hashes(["utterance-7", 7]).tolist() == [key_hash("utterance-7"), key_hash(7)]
    True

    Args:
        keys: keys, of the same types as for `key_hash`.
        seed: any int; each seed gives an unrelated hash.

    Returns:
        The hashes, uint64 `(n,)`.

    Raises:
        OptionError: a key has an unsupported type.
    """
    seeded, digests = _seeded(seed), []
    for key in keys:
        # The common types are inlined, because a function call would take as long as the hash.
        if type(key) is str:
            data = b"s" + key.encode("utf-8", "surrogatepass")
        elif type(key) is int or type(key) is np.int64:
            data = b"i%x" % int(key)
        else:
            data = _encoded(key)
        state = seeded()
        state.update(data)
        digests.append(state.digest())
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64, copy=False)


@functools.lru_cache(maxsize=64)
def _seeded(seed: int) -> Callable[[], hashlib.blake2b]:
    # Hexadecimal, because Python limits the conversion of long ints to decimal.
    return hashlib.blake2b(b"%x:" % seed, digest_size=8).copy


def _encoded(key: object) -> bytes:
    """Encode a key uniquely, starting with a tag byte for its type."""
    if isinstance(key, (np.datetime64, np.timedelta64)):
        unit, count = np.datetime_data(key.dtype)
        tag = b"M" if isinstance(key, np.datetime64) else b"m"
        return b"%s%d%s:%x" % (tag, count, unit.encode(), int(key.astype(np.int64)))
    if isinstance(key, np.generic):
        key = key.item()
    # `float.__float__` and similar methods return the plain value even if a subclass overrides them.
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
            f" of these, got {type(key).__name__}; pass a function that returns one of these"
        )
    return data


def _encoded_float(value: float) -> bytes:
    if math.isnan(value):
        return b"nan"  # the sign and payload of a NaN differ between platforms
    return struct.pack(">d", value + 0.0)  # adding 0.0 turns -0.0 into 0.0


def _shares(shares: object) -> Mapping[str, float]:
    if not isinstance(shares, Mapping) or not shares:
        raise OptionError(f"splits: expected shares by name, such as {{'train': 0.9, 'eval': 0.1}}, got {shares!r}")
    check_names(shares, "split")
    return {name: _share(name, share) for name, share in shares.items()}


def _share(name: str, share: Any) -> float:
    try:
        value = math.nan if isinstance(share, (bool, str)) else float(share)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise OptionError(f"split {name!r}: expected a share from 0 to 1, or times with time=, got {share!r}")
    return value


@attrs.frozen(hash=False)
class Ratios:
    """Rule that divides keys among splits in given proportions, according to their hashes.

    The split of a key depends on the names and proportions of the splits, but not on their order.

    >>> ratios = Ratios({"train": 0.8, "eval": 0.1, "test": 0.1})
    >>> ratios.assign_all(key_hashes(["utterance-7"], seed=0))
    ['eval']

    Attributes:
        shares: mapping from split name to proportion, in the caller's order. The proportions are finite, not negative,
            and add up to 1 within 1e-9; a split with proportion 0 gets no keys.
    """

    shares: Mapping[str, float] = attrs.field(converter=_shares)
    _names: tuple[str, ...] = attrs.field(init=False, repr=False, eq=False)
    _limits: tuple[int, ...] = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        _check_sum(self.shares)
        names = sorted(name for name, share in self.shares.items() if share > 0)
        exact = [Fraction(self.shares[name]) for name in names]
        # Limits exist only between splits, so the last split absorbs the rounding errors.
        limits = (int(sum(exact[: i + 1]) * _HASHES / sum(exact)) for i in range(len(exact) - 1))
        object.__setattr__(self, "_names", tuple(names))
        object.__setattr__(self, "_limits", tuple(limits))

    def assign_all(self, hashes: NDArray[np.uint64]) -> list[str]:
        """Map uint64 hashes to the names of their splits.

        >>> Ratios({"train": 0.5, "eval": 0.5}).assign_all(np.array([0, 2**63], np.uint64))
        ['eval', 'train']
        """
        numbers = np.searchsorted(np.array(self._limits, np.uint64), hashes, side="right")
        return list(map(self._names.__getitem__, numbers.tolist()))


def _check_sum(shares: Mapping[str, float]) -> None:
    total = sum(shares.values())  # the sum may be infinite if the shares are huge
    if abs(total - 1) <= _SUM_TOLERANCE:
        return
    advice = "give at least one split a share"
    if total > 0:
        largest = max(shares.values())  # dividing by it first keeps huge and tiny sums in range
        scale = sum(share / largest for share in shares.values())
        advice = f"use { ({name: share / largest / scale for name, share in shares.items()})!r}"
    raise OptionError(f"splits: expected shares that add up to 1, got {dict(shares)!r}, which make {total!r}; {advice}")


# A split misses its proportion by a wide margin if it is off by more than both a quarter of the proportion and three
# standard deviations of a random draw. The latter prevents false alarms for small datasets.
_FAR = 1 / 4
_DEVIATIONS = 3
_POINTS, _FEW = 0.05, 5  # likewise for a split of a stratum: a fraction and a number of its records


@attrs.frozen
class Balanced:
    """Rule that deals whole groups to splits and gets close to the proportions even if groups are few or large.

    >>> import tempfile, seqrecorder as sr
    >>> @sr.record
    ... class Verse:
    ...     book: str = sr.context(str)
    >>> verses = [Verse(f"book {number}") for number in range(10) for _ in range(5)]
    >>> shares = {"train": 0.8, "eval": 0.2}
    >>> manifest = sr.write(verses, tempfile.mkdtemp(), splits=shares, split_by=sr.Balanced("book"))
    >>> {name: split.records for name, split in manifest.splits.items()}
    {'train': 40, 'eval': 10}

    When the first record of a group is assigned, the whole group goes to the split with the largest deficit: the number
    of records that it lacks, plus a random number below one. The manifest stores the split of each group, in 16
    characters, so an append continues the assignment. Unlike splits by hash, these splits depend on the order of the
    records. They come closest to the proportions if the records of a group are consecutive.

    Attributes:
        by: name of a field, or a function that returns the group of a record.
    """

    by: Any


def missed_shares(shares: Mapping[str, float], counts: Mapping[str, int]) -> dict[str, tuple[float, float]]:
    """Find the splits that miss their requested proportion by a wide margin.

    The margin is wide if it exceeds both a quarter of the requested proportion and three standard deviations of a
    random draw.

    >>> missed_shares({"train": 0.8, "eval": 0.2}, {"train": 970, "eval": 30})
    {'eval': (0.2, 0.03)}

    Returns:
        Mapping from the name of each split found to its requested and its actual proportion.
    """
    total = sum(counts.get(name, 0) for name in shares)
    missed = {}
    for name, share in shares.items():
        off = abs(counts.get(name, 0) - share * total)
        if off > _FAR * share * total and off > _DEVIATIONS * math.sqrt(total * share * (1 - share)):
            missed[name] = share, counts.get(name, 0) / total
    return missed


def missed_strata(shares: Mapping[str, float], strata: Iterable[Stratum]) -> list[tuple[float, str, str, int, float]]:
    """Find the splits that miss their proportion of a stratum by more than both 5 percentage points and 5 records.

    This happens only with groups, because they stay whole.

    Returns:
        One tuple for each split found, the largest deviation first: the deviation (a fraction of the stratum's
        records), the name of the stratum, the name of the split, the number of records in the stratum, and the actual
        proportion of the split.
    """
    missed = []
    for stratum in strata:
        total = sum(stratum.counts)
        for (name, share), count in zip(shares.items(), stratum.counts, strict=True):
            off = abs(count - share * total)
            if off > max(_FEW, _POINTS * total):
                missed.append((off / total, stratum.name, name, total, count / total))
    return sorted(missed, reverse=True)


_WIDTH = 40


@attrs.frozen(repr=False)
class Shares:
    """Requested and actual proportions of parts, overall and in each stratum.

    `print` shows them as a table.

    Attributes:
        wanted: mapping from part to its requested proportion.
        got: mapping from part to its actual proportion of all records.
        strata: mapping from stratum to the actual proportions of the parts in it; empty without strata.
        left_out: number of records in no part, for example because they straddle two parts.
    """

    wanted: Mapping[str, float]
    got: Mapping[str, float]
    strata: Mapping[Any, Mapping[str, float]] = attrs.field(factory=dict)
    left_out: int = 0

    @property
    def missed(self) -> float:
        """Largest deviation of a part from its requested proportion, overall or in a stratum."""
        parts = [self.got, *self.strata.values()]
        return max((abs(part[name] - share) for part in parts for name, share in self.wanted.items()), default=0.0)

    def _rows(self) -> list[tuple[str, ...]]:
        rows = [("wanted", self.wanted), ("all", self.got)]
        rows += [(cut(str(stratum), _WIDTH), part) for stratum, part in self.strata.items()]
        return [(head, *(f"{part[name]:.3f}" for name in self.wanted)) for head, part in rows]

    def __repr__(self) -> str:
        text = ", ".join(f"{cut(name, _WIDTH)} {self.got[name]:.3f} of {self.wanted[name]:.3f}" for name in self.wanted)
        return f"<Shares: {text}; missed by at most {self.missed:.3f}>"

    def __str__(self) -> str:
        return text_table([("share", *self.wanted), *self._rows()], right=True)

    def _repr_html_(self) -> str:
        return html_table(repr(self)[1:-1], ("share", *self.wanted), self._rows())


def shares_of(names: Mapping[str, float], counts: Sequence[int]) -> dict[str, float]:
    """Compute the actual proportion of each part from the number of its records."""
    total = max(1, sum(counts))
    return {name: count / total for name, count in zip(names, counts, strict=True)}


_WINDOW = 1 << 15
"""Number of records to rank at a time, so that their ranks stay in the processor's cache."""

GAMMA = 0x9E3779B97F4A7C15
"""Increment of the state of SplitMix64."""


def ranked(splits: Mapping[str, range], positions: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """Compute a random rank for each record.

    The rank depends only on the seed, the name of the split, and the position of the record in the split.

    Returns:
        Ranks, uint64 `(n,)`.
    """
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise OptionError(f"seed: expected an int, got {seed!r}")
    out = np.zeros(positions.size, np.uint64)
    for name, split in splits.items():
        drawn = int.from_bytes(hashlib.sha256(f"{int(seed)} {name}".encode()).digest()[:8], "little")
        salt = np.uint64((drawn - split.start) % (1 << 64))
        if positions.size and split.start <= positions.min() and positions.max() < split.stop:  # the usual case
            return mixed(positions.astype(np.uint64) + salt)
        here = (positions >= split.start) & (positions < split.stop)
        out[here] = mixed(positions[here].astype(np.uint64) + salt)
    return out


def lowest_ranked(splits: Mapping[str, range], positions: range | NDArray[np.int64], seed: int, count: int) -> Any:
    """Find the `count` records with the lowest ranks.

    To save memory, only records with ranks below a limit are kept and compared. Because ranks are uniformly
    distributed, the limit can be set so that little more than `count` records are kept. `count` must be less than the
    number of positions.

    Returns:
        Indices of these records, ascending, int64 `(count,)`.
    """
    share = (count + 8 * count**0.5 + 64) / len(positions)
    while True:
        limit = np.uint64(min(share, 1) * (2**64 - 2**12))  # the largest float below 2**64
        places, ranks = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
        for start in range(0, len(positions), _WINDOW):
            part = positions[start : start + _WINDOW]
            part_positions = np.arange(part[0], part[-1] + part.step, part.step) if isinstance(part, range) else part
            own = ranked(splits, part_positions, seed)
            low = np.flatnonzero(own <= limit) if share < 1 else np.arange(own.size)
            places.append(start + low)
            ranks.append(own[low])
        candidates, drawn = np.concatenate(places), np.concatenate(ranks)
        if candidates.size > count:
            return np.sort(candidates[np.argpartition(drawn, count)[:count]])
        share *= 2


def mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Compute the output of SplitMix64 (https://prng.di.unimi.it/splitmix64.c) for each number."""
    return finalized(numbers * np.uint64(GAMMA))


def finalized(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Apply the output function of SplitMix64 to states, in place."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        numbers ^= numbers >> np.uint64(shift)
        numbers *= np.uint64(factor)
    return numbers


_SHOWN = 40  # maximum characters of a stratum's name
_OF_ALL = 0.25  # weight of a split's overall deficit, relative to its deficit in the stratum


@attrs.define
class Stratum:
    """Group of records that share a value of an attribute, and their number in each split.

    Attributes:
        name: the value as a string, truncated if it is long.
        counts: number of records, or of their sources, in each split.
    """

    name: str
    counts: list[int]


class StratifiedDealer:
    """Rule that deals each record to the split with the largest deficit in its stratum (plus a random number below 1).

    A split deviates from its proportion by at most a few records, overall and in each stratum. The result depends on
    the order of the records. Memory grows with the number of strata and groups.

    >>> dealer = StratifiedDealer({"train": 0.75, "eval": 0.25}, seed=0)
    >>> names = dealer.assign(["a"] * 40 + ["b"] * 8, np.arange(48))
    >>> names.count("eval"), names[40:].count("eval")
    (12, 2)

    Args:
        shares: mapping from split name to proportion.
        seed: seed of the random numbers.
        strata: mapping from the hash of a value to its stratum, from earlier assignments.
        groups: mapping from split to the hashes of its groups, from earlier assignments.
    """

    def __init__(
        self,
        shares: Mapping[str, float],
        seed: int,
        strata: Mapping[int, Stratum] | None = None,
        groups: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        self._names = list(shares)
        self._shares = list(shares.values())
        self._salt = int(key_hashes(["strata"], seed)[0])
        self.strata = {value: Stratum(known.name, list(known.counts)) for value, known in (strata or {}).items()}
        dealt = [stratum.counts for stratum in self.strata.values()]
        self._totals = [sum(counts) for counts in zip(*dealt, strict=True)] or [0] * len(self._names)
        places = {name: index for index, name in enumerate(self._names)}
        self._place_of = {group: places[name] for name, members in (groups or {}).items() for group in members}

    def assign(
        self, values: Sequence[Any], positions: NDArray[np.int64], groups: Sequence[int] | None = None
    ) -> list[str]:
        """Assign each record to a split.

        Args:
            values: for each record, the value that determines its stratum.
            positions: position of each record, from which its random numbers are derived.
            groups: hash of each record's group, which stays in the split of its first record; None without groups.

        Returns:
            The name of the split of each record.

        Raises:
            OptionError: `key_hash` does not support the type of a value.
        """
        chance = self._chance(positions)
        names = []
        for number, (value, code) in enumerate(zip(values, key_hashes(values).tolist(), strict=True)):
            stratum = self.strata.get(code)
            if stratum is None:
                stratum = self.strata[code] = Stratum(cut(str(value), _SHOWN), [0] * len(self._names))
            index = None if groups is None else self._place_of.get(groups[number])
            if index is None:
                index = self._choose(stratum.counts, chance[number])
                if groups is not None:
                    self._place_of[groups[number]] = index
            stratum.counts[index] += 1
            self._totals[index] += 1
            names.append(self._names[index])
        return names

    def _choose(self, counts: Sequence[int], chance: Sequence[float]) -> int:
        size, total = sum(counts) + 1, sum(self._totals) + 1
        # Without random numbers, every fifth record (for example) would go to eval, and data may have the same period.
        lacks = [
            share * size - count + _OF_ALL * (share * total - of_all) + drawn if share > 0 else -math.inf
            for share, count, of_all, drawn in zip(self._shares, counts, self._totals, chance, strict=True)
        ]
        return lacks.index(max(lacks))

    def _chance(self, positions: NDArray[np.int64]) -> list[list[float]]:
        """Draw a random number in [0, 1) for each record and split."""
        count = len(self._names)
        numbers = positions.astype(np.uint64)[:, None] * np.uint64(count) + np.arange(count, dtype=np.uint64)
        drawn: list[list[float]] = (mixed(numbers + np.uint64(self._salt)) / 2.0**64).tolist()
        return drawn

    @property
    def groups(self) -> dict[str, tuple[int, ...]]:
        """Mapping from the name of each split to the hashes of its groups.

        The hashes are in ascending order.
        """
        members: dict[str, list[int]] = {name: [] for name in self._names}
        for group, split in self._place_of.items():
            members[self._names[split]].append(group)
        return {name: tuple(sorted(groups)) for name, groups in members.items()}
