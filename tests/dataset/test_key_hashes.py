import datetime as dt
import enum
import hashlib
import math
import random
import subprocess
import sys
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqrecorder.dataset.keys import KeyRegistry
from seqrecorder.dataset.split_shares import Ratios, key_hash, key_hashes
from seqrecorder.errors import OptionError

NAN = float("nan")
GOLDEN = [
    ("", 0, 0xB4273F11A7744123),
    ("utterance-7", 0, 0x030F0DB5350DA785),
    ("utterance-7", 1, 0x2D43034345EFB6F1),
    ("日本", -5, 0xF3B9670C094E75E7),
    (0, 0, 0xA1080D6D591724FD),
    (-1, 0, 0x493DA5738F34629A),
    (2**100, 2**70, 0xF916551E278731B8),
    (1.5, 0, 0xBC7B02A828C4F3A6),
    (NAN, 0, 0xE1468651A20514E6),
    (True, 0, 0x35C0BAB78FA98E96),
    (None, 0, 0x74BED902E9A9CE43),
    (b"\0", 0, 0xB4FF78D8B5EB20A0),
    ((), 0, 0x8BE09686ED2AD8ED),
    (("a", 1, (None,)), 3, 0xE1B9523F4E78C3AE),
    (np.datetime64("2024-02-29", "D"), 0, 0xFF0B1F07994D870C),
    (np.timedelta64(-3, "ms"), 0, 0xDE8C8EFC1F459A96),
]


class Colour(str, enum.Enum):
    RED = "red"


class Deceiver(int):
    def __int__(self):
        return 0

    def __index__(self):
        return 0


@pytest.mark.parametrize(("key", "seed", "expected"), GOLDEN)
def test_golden(key, seed, expected):
    """A key's hash never changes: datasets that were split long ago can be extended."""
    assert key_hash(key, seed) == expected


def test_definition():
    """The hash is what its documentation says, so that another program can compute it."""
    digest = hashlib.blake2b(b"2a:sutterance-7", digest_size=8).digest()
    assert key_hash("utterance-7", 42) == int.from_bytes(digest, "little")
    digest = hashlib.blake2b(b"-1:i-ff", digest_size=8).digest()
    assert key_hash(-255, -1) == int.from_bytes(digest, "little")


@pytest.mark.parametrize("hash_seed", ["0", "1", "random"])
def test_other_processes(hash_seed):
    """Python's own randomised hashing plays no part."""
    keys = "('a', 1, ('b', 2.5), b'c')"
    code = f"from seqrecorder.dataset.split_shares import key_hash\nprint([key_hash(k, 5) for k in {keys}])"
    out = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(p or "." for p in sys.path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert out.strip() == str([key_hash(k, 5) for k in ("a", 1, ("b", 2.5), b"c")])


def test_keys_that_differ():
    """Keys of different types or structure differ, though Python may call them equal or print them alike."""
    day, hours = np.datetime64("2024-01-01", "D"), np.datetime64("2024-01-01", "h")
    keys = [
        1,
        "1",
        1.0,
        True,
        b"1",
        None,
        "None",
        "",
        b"",
        (),
        (1,),
        ((1,),),
        (1, 1),
        (11,),
        ("1",),
        ("1", "1"),
    ]
    keys += [
        ("a", "bc"),
        ("ab", "c"),
        ("a,b",),
        ("a", ""),
        ("", "a"),
        ("a", ()),
        "nan",
        NAN,
        math.inf,
        -math.inf,
    ]
    keys += [
        0,
        False,
        0.0,
        5e-324,
        -1,
        255,
        "ff",
        "iff",
        2**64,
        -(2**64),
        2**4000,
        day,
        hours,
        day.astype(int),
    ]
    keys += [
        np.timedelta64(1, "s"),
        np.timedelta64(1, "ms"),
        np.datetime64(1, "s"),
        np.datetime64("NaT", "s"),
    ]
    keys += [np.array(1, "m8[10s]")[()], "\ud800", "é", "e\u0301"]
    assert len({key_hash(key) for key in keys}) == len(keys)
    assert len({key_hash("a", seed) for seed in range(-500, 500)}) == 1000


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.int8(5), 5),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.float32(0.5), 0.5),
        (np.float16(0.5), np.float64(0.5)),
        (np.bool_(1), True),
        (np.str_("a"), "a"),
        (np.bytes_(b"a"), b"a"),
        (Colour.RED, "red"),
        (Deceiver(7), 7),
        (-0.0, 0.0),
        (NAN, -NAN),
        ((np.int64(1), ("a",)), (1, ("a",))),
    ],
)
def test_keys_that_agree(one, other):
    """A numpy scalar or a subclass is the key that its plain Python value is."""
    assert key_hash(one, 3) == key_hash(other, 3)


@pytest.mark.parametrize(
    "key",
    [[1], {"a": 1}, {1}, 1j, object(), np.arange(2), dt.date(2024, 1, 1), np.longdouble(1), (1, [2])],
)
def test_keys_of_other_types(key):
    """A key whose bytes would not be stable is refused with its type."""
    kind = "list" if isinstance(key, tuple) else type(key).__name__
    with pytest.raises(OptionError, match=f"got {kind}"):
        key_hash(key)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text() | st.binary(), lambda s: st.tuples(s, s)))
def test_any_key(key):
    """Every key has a 64-bit hash, the same each time, and another one inside a tuple."""
    assert 0 <= key_hash(key) < 2**64
    assert key_hash(key) == key_hash(key)
    assert key_hash((key,)) != key_hash(key)


def test_many_keys_at_once():
    """The hashes of many keys of every type, and their splits, are those of each."""
    keys = ["a", 7, "", -1, 2**70, 1.5, None, True, b"x", ("a", 1), np.int8(3), np.str_("b"), "ä", "\ud800"]
    for seed in (0, -5, 2**80):
        hashes = key_hashes(keys, seed)
        assert hashes.dtype == np.uint64
        assert hashes.tolist() == [key_hash(key, seed) for key in keys]
    assert key_hashes([]).tolist() == []
    with pytest.raises(OptionError, match=r"key \[1\]: expected str"):
        key_hashes(["a", [1]])
    ratios = Ratios({"a": 0.25, "b": 0.5, "c": 0.25, "d": 0})
    edges = np.array([0, 2**62 - 1, 2**62, 2**63, 3 * 2**62 - 1, 3 * 2**62, 2**64 - 1], np.uint64)
    assert ratios.assign_all(edges) == ["a", "a", *"bbb", "c", "c"]
    assert Ratios({"all": 1}).assign_all(edges) == ["all"] * 7


@pytest.mark.parametrize(
    "shares",
    [
        {"train": 0.7, "eval": 0.2, "test": 0.1},
        {"train": 0.8, "eval": 0.1, "test": 0.1},
        {"all": 1},
        {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3},
        {f"fold_{i}": 0.1 for i in range(10)},
        {"train": 0.5 + 9e-10, "eval": 0.5},
        {"train": np.float32(0.5), "eval": np.float64(0.5)},
        {"train": 1.0, "none": 0.0},
    ],
)
def test_shares_are_met(shares):
    """Among 100,000 keys each split has its share, within five standard deviations."""
    ratios = Ratios(shares)
    n = 100_000
    counts = Counter(ratios.assign_all(key_hashes(range(n), 1)))
    for name, share in shares.items():
        assert abs(counts[name] - n * share) <= 5 * math.sqrt(n * share * (1 - min(1, share))) + 1e-3


def test_limits():
    """The limits are exact, zero shares get nothing at either end, and the last split takes the rest."""
    ratios = Ratios({"a": 0.0, "b": 0.5, "c": 0.0, "d": 0.5, "e": 0.0})
    assert ratios.assign_all(np.array([0, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)) == ["b", "b", "d", "d"]
    third = Ratios({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3})
    edges = np.array([2**64 // 3 - 1, 2**64 // 3, 2**64 - 1], np.uint64)
    assert third.assign_all(edges) == ["a", "b", "c"]
    assert Ratios({"only": 1.0, "never": 0}).assign_all(edges) == ["only"] * 3


@pytest.mark.parametrize("count", [20_000, pytest.param(1_000_000, marks=pytest.mark.nightly)])
def test_more_data_moves_no_key(count, figure):
    """With 10 % more keys, or the splits named in another order, every key stays where it was."""
    keys = [f"utterance-{i}" for i in range(count)]
    before = Ratios({"train": 0.8, "eval": 0.1, "test": 0.1})
    after = Ratios({"test": 0.1, "train": 0.8, "eval": 0.1})
    assert before == after
    first = dict(zip(keys, before.assign_all(key_hashes(keys, 9)), strict=True))
    keys = [f"new-{i}" for i in range(count // 10)] + keys
    random.Random(0).shuffle(keys)
    second = dict(zip(keys, after.assign_all(key_hashes(keys, 9)), strict=True))
    assert all(second[key] == split for key, split in first.items())
    figure(7, "keys of which a tenth came later", len(keys), "in the same split")


def test_ratios_are_fixed():
    """What was given stays readable in its order, and cannot be changed from outside."""
    shares = {"train": 0.9, "eval": 0.1}
    ratios = Ratios(shares)
    shares["train"] = 0.5
    assert list(ratios.shares.items()) == [("train", 0.9), ("eval", 0.1)]
    assert repr(ratios) == "Ratios(shares={'train': 0.9, 'eval': 0.1})"


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({}, "shares by name"),
        ([("a", 1.0)], "shares by name"),
        ({"a": 0.5, "b": 0.4}, r"make 0\.9; use \{'a': 0\.55"),
        ({"train": 80, "eval": 20}, r"make 100\.0; use \{'train': 0\.8, 'eval': 0\.2\}"),
        ({"a": 1e308, "b": 1e308}, r"make inf; use \{'a': 0\.5, 'b': 0\.5\}"),
        ({"a": 0.0}, "at least one split"),
        ({"a": -0.5, "b": 1.5}, r"'a'.*-0\.5"),
        ({"a": NAN}, "nan"),
        ({"a": math.inf}, "inf"),
        ({"a": "1.0"}, "'1.0'"),
        ({"a": True}, "True"),
        ({"a": None}, "None"),
        ({"../a": 1.0}, "plain file name"),
        ({"assets": 1.0}, "own"),
        ({"Train": 0.5, "train": 0.5}, "differ by more than case"),
        ({1: 1.0}, "int"),
    ],
)
def test_ratios_refused(shares, message):
    """Shares or names that make no sense are refused, with shares that would do."""
    with pytest.raises(OptionError, match=message):
        Ratios(shares)


def test_suggestion_is_accepted():
    """The shares that an error suggests can be pasted."""
    with pytest.raises(OptionError) as caught:
        Ratios({"a": 7, "b": 3.3, "c": 1e-9})
    suggestion = str(caught.value).partition("; use ")[2]
    assert set(Ratios(eval(suggestion)).shares) == {"a", "b", "c"}  # noqa: S307 - our own message


def slow_registry(blocks):
    seen, told, position = {}, [], 0
    for block in blocks:
        for value in block:
            told.append(seen.get(value, -1))
            seen.setdefault(value, position)
            position += 1
    return told, len(seen)


@given(st.lists(st.lists(st.integers(0, 60) | st.just(2**64 - 1), max_size=30), max_size=30))
def test_registry_as_a_dict(blocks):
    """Each key is told the position of its first occurrence, in its own block or before, as a dict would."""
    registry, told, position = KeyRegistry(), [], 0
    for block in blocks:
        told += registry.add(np.array(block, np.uint64), position).tolist()
        position += len(block)
    assert (told, len(registry)) == slow_registry(blocks)


def test_registry_large():
    """After many merges every key is still known, with its own position."""
    rng = np.random.default_rng(0)
    hashes = rng.integers(0, 2**64, 60_000, np.uint64)
    registry = KeyRegistry()
    for at in range(0, len(hashes), 500):
        assert (registry.add(hashes[at : at + 500], at) == -1).all()
    order = rng.permutation(len(hashes))
    assert (registry.add(hashes[order], 10**6) == order).all()
    assert len(registry) == len(hashes)
    assert len(registry._runs) < 20


def test_registry_positions():
    """Positions may leave gaps and pass 32 bits."""
    registry = KeyRegistry()
    far = 2**40
    assert registry.add(np.array([1, 2], np.uint64), np.array([3, 5])).tolist() == [-1, -1]
    assert registry.add(np.array([3, 2, 3], np.uint64), far).tolist() == [-1, 5, far]
    assert registry.add(np.array([3, 1, 2], np.uint64), far + 9).tolist() == [far, 3, 5]


def registry_peak(n):
    rng = np.random.default_rng(1)
    tracemalloc.start()
    registry = KeyRegistry()
    for at in range(0, n, 1000):
        registry.add(rng.integers(0, 2**64, 1000, np.uint64), at)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(registry) == n
    return peak


def test_registry_memory(figure):
    """A key takes less than 32 bytes, even at the moment when the largest runs merge."""
    peak = registry_peak(500_000)
    assert peak < 32 * 500_000
    figure(8, "MiB that 500,000 keys took", peak >> 20, "at most 32 bytes a key")


@pytest.mark.nightly
def test_registry_memory_of_ten_million(figure):
    """10**7 keys stay within 512 MiB."""
    peak = registry_peak(10**7)
    assert peak < 512 << 20
    figure(8, "MiB that 10,000,000 keys took", peak >> 20, "at most 512")
