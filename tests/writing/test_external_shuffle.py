import contextlib
import errno
import random
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqrecorder.errors import ShardReadError, ShardWriteError
from seqrecorder.storage.files import on_fault_point
from seqrecorder.writing.shuffle import SortedSpill, shuffle_tags

MASK = 2**64 - 1


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def slow_order(count, seed):
    start = mix(seed & MASK)
    return sorted(range(count), key=lambda i: (mix((start + (i + 1) * 0x9E3779B97F4A7C15) & MASK), i))


def spilled(directory, items, seed=0, **options):
    spill = SortedSpill(directory / "spill", **options)
    for number, item in enumerate(items):
        spill.add(int(shuffle_tags(seed, number, 1)[0]), item)
    return spill


def shuffled(directory, items, seed=0, **options):
    return list(spilled(directory, items, seed, **options).drain())


def numbered(count, size=0):
    return [(b"%d" % i, bytes(size)) for i in range(count)]


def files_in(directory):
    return [path for path in directory.rglob("*") if path.is_file()]


items = st.lists(st.lists(st.binary(max_size=40), max_size=4).map(tuple), max_size=60)


@given(
    items=items,
    seed=st.integers(-(2**70), 2**70),
    memory=st.sampled_from([1, 150, 400, 1000, 1 << 20]),
)
@settings(deadline=None, max_examples=150)
def test_order(tmp_path_factory, items, seed, memory):
    """The order is that of the tags alone, however little memory there is."""
    directory = tmp_path_factory.mktemp("spill")
    got = shuffled(directory, items, seed, memory_bytes=memory)
    assert got == [items[i] for i in slow_order(len(items), seed)]
    assert list(directory.iterdir()) == []


@given(
    tags=st.lists(st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**63]), max_size=40),
    memory=st.sampled_from([1, 300, 1 << 20]),
)
@settings(deadline=None, max_examples=30)
def test_sorted_by_tags(tmp_path_factory, tags, memory):
    """Items come by their tags, and those of one tag, however many, in the order in which they were added."""
    spill = SortedSpill(tmp_path_factory.mktemp("spill") / "spill", memory_bytes=memory)
    for number, tag in enumerate(tags):
        spill.add(tag, (b"%d" % number,))
    expected = sorted(range(len(tags)), key=lambda number: (tags[number], number))
    assert [int(item[0]) for item in spill.drain()] == expected


def test_recursion(tmp_path):
    """Files that are too large for the memory are split, several times over."""
    levels = set()
    with on_fault_point(lambda _name, path: levels.add(len(Path(path).relative_to(tmp_path).parts))):
        got = shuffled(tmp_path, numbered(800), seed=3, memory_bytes=350)
    assert got == [numbered(800)[i] for i in slow_order(800, 3)]
    assert levels >= {2, 3, 4}
    assert list(tmp_path.iterdir()) == []


def test_golden(tmp_path):
    """The order of a seed never changes."""
    assert [int(item[0]) for item in shuffled(tmp_path, numbered(10), seed=0)] == [
        2,
        4,
        6,
        8,
        5,
        1,
        7,
        0,
        9,
        3,
    ]
    assert [int(item[0]) for item in shuffled(tmp_path, numbered(10), seed=1)] == [
        7,
        4,
        8,
        1,
        2,
        6,
        5,
        0,
        9,
        3,
    ]


def test_uniform(tmp_path):
    """Over many seeds every item comes to every place equally often (chi-square, 81 degrees of freedom)."""
    count, rounds = 10, 3000
    seen = np.zeros((count, count))
    for seed in range(rounds):
        for place, item in enumerate(shuffled(tmp_path, numbered(count), seed=seed)):
            seen[place, int(item[0])] += 1
    expected = rounds / count
    assert ((seen - expected) ** 2 / expected).sum() < 81 + 5 * (2 * 81) ** 0.5


def test_nothing_on_disk_while_it_fits(tmp_path):
    """A small stream never touches the disk, and an empty one is drained as well."""
    with on_fault_point(lambda name, path: pytest.fail(f"{name} {path}")):
        assert len(shuffled(tmp_path, numbered(1000))) == 1000
        assert shuffled(tmp_path, []) == []


def test_large_item(tmp_path):
    """One item larger than the memory passes through, among small ones and alone."""
    stream = [(b"x" * 100_000,), *numbered(100), (b"", b"y" * 100_000, b"")]
    got = shuffled(tmp_path, stream, seed=5, memory_bytes=1000)
    assert got == [stream[i] for i in slow_order(len(stream), 5)]
    assert shuffled(tmp_path, stream[:1], seed=5, memory_bytes=1) == stream[:1]


def test_memory(tmp_path):
    """The peak stays near the bound, for 10 times as many bytes, while adding and while draining."""
    bound = 1 << 20
    rng = random.Random(0)
    spill = SortedSpill(tmp_path / "spill", memory_bytes=bound)
    tracemalloc.start()
    total = 0
    for tag in shuffle_tags(0, 0, 10_000).tolist():
        item = (rng.randbytes(rng.randrange(2000)), b"lengths.")
        total += len(item[0])
        spill.add(tag, item)
    adding = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    drained = sum(len(item[0]) for item in spill.drain())
    draining = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert drained == total > 9 * bound
    assert adding < 1.3 * bound + (1 << 20)
    assert draining < 1.3 * bound + (1 << 20)


def test_files_go_while_draining(tmp_path):
    """The disk empties while draining, also when the consumer stops early."""
    spill = spilled(tmp_path, numbered(2000, 100), memory_bytes=10_000)
    full = sum(path.stat().st_size for path in files_in(tmp_path))
    drain = spill.drain()
    for _ in range(1500):
        next(drain)
    assert sum(path.stat().st_size for path in files_in(tmp_path)) < full / 2
    drain.close()
    assert list(tmp_path.iterdir()) == []


def test_closing(tmp_path):
    """What is not drained goes with its files, once and for all."""
    spill = spilled(tmp_path, numbered(100), memory_bytes=500)
    assert files_in(tmp_path)
    spill.close()
    assert list(tmp_path.iterdir()) == []
    spill.close()


def test_failures(tmp_path):
    """A failure at the 1st, 2nd, ... file operation is a ShardWriteError or harmless, and no file is left."""
    stream = numbered(60)
    expected = [stream[i] for i in slow_order(60, 0)]
    for number in range(1, 5000, 7):
        seen = 0

        def hook(_name, _path, number=number):
            nonlocal seen
            seen += 1
            if seen == number:
                raise OSError(errno.ENOSPC, "No space left on device")

        try:
            with on_fault_point(hook):
                spill = SortedSpill(tmp_path / "spill", memory_bytes=4000)
                with contextlib.closing(spill):
                    for tag, item in zip(shuffle_tags(0, 0, 60).tolist(), stream, strict=True):
                        spill.add(tag, item)
                    got = list(spill.drain())
        except OSError as error:
            caught = error
        else:
            caught = None
            assert got == expected
        assert caught is None or (type(caught) is ShardWriteError and caught.errno == errno.ENOSPC)
        assert list(tmp_path.iterdir()) == []
        if seen < number:
            break
    assert seen < number


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_damaged_files(tmp_path, damage):
    """A file that somebody cut or removed meanwhile is an error that names it."""
    spill = spilled(tmp_path, numbered(100), memory_bytes=500)
    victim = max(files_in(tmp_path))
    if damage == "cut":
        victim.write_bytes(victim.read_bytes()[:-1])
    else:
        victim.unlink()
    with pytest.raises(ShardReadError, match=victim.name):
        list(spill.drain())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.perf
def test_cost(tmp_path):
    """An item of 1,000 bytes through the disk takes less than 100 microseconds on any machine."""
    start, count = time.perf_counter(), 200_000
    payload = bytes(1000)
    spill = SortedSpill(tmp_path / "spill", memory_bytes=16 << 20)
    for tag in shuffle_tags(0, 0, count).tolist():
        spill.add(tag, (payload,))
    assert sum(1 for _ in spill.drain()) == count
    assert time.perf_counter() - start < count * 100e-6
