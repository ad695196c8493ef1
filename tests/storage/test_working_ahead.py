"""Work that is done ahead: in order, errors in their turn, and nothing left behind."""

import threading
import weakref

import pytest

from seqrecorder.storage.processes_and_signals import ahead


@pytest.mark.parametrize("threads", [0, 1, 2, 5])
def test_results_come_in_the_order_of_their_items(threads):
    """Though the first work takes longest, results stand beside their items."""
    later = threading.Event()

    def work(item):
        if item == 0 and threads > 1:
            assert later.wait(10)
        elif item == 1:
            later.set()
        return item * item

    assert [(item, done.result()) for item, done in ahead(work, range(20), threads)] == [(i, i * i) for i in range(20)]


def test_few_items_are_taken_ahead():
    """While one is handed over, as many have been taken as there are threads, and not more."""
    taken = []
    results = ahead(str, (taken.append(item) or item for item in range(100)), threads=2)
    for number, _ in zip(range(5), results, strict=False):
        assert taken == list(range(number + 3))
    results.close()
    assert len(taken) == 7


def test_large_items_are_not_taken_ahead():
    """Of items that have bytes, as many are held as may be; one that is large alone waits for those before it."""
    taken, worked = [], []
    sizes = [1, 1, 20 << 20, 20 << 20, 20 << 20, 20 << 20, 40 << 20, 40 << 20, 1]
    results = ahead(worked.append, (taken.append(i) or i for i in range(9)), threads=8, size=sizes.__getitem__)
    held = []
    for item, done in results:
        held.append((item, len(taken) - 1 - item))
        assert done.exception() is None
        assert item < 6 or max(worked) == item
    assert held == [(0, 5), (1, 4), (2, 3), (3, 3), (4, 2), (5, 1), (6, 0), (7, 0), (8, 0)]


def test_nothing_is_taken_ahead_without_threads():
    """Each item is taken when it is asked for, when nobody holds the one before; an error comes out of its result."""
    held = []

    class Item:
        def __init__(self):
            assert not [reference for reference in held if reference() is not None]
            held.append(weakref.ref(self))

    def work(_item):
        if len(held) == 3:
            raise OSError("the disk is gone")

    results = ahead(work, (Item() for _ in range(3)), threads=0)
    for number in range(3):
        item, done = next(results)
        assert len(held) == number + 1
        assert str(done.exception()) == ("the disk is gone" if number == 2 else "None")
        del item, done


def test_an_error_of_the_items_comes_behind_those_before_it():
    """What was taken before the error is handed over first; then the error is raised, as it was."""

    def items():
        yield from range(4)
        raise OSError("the disk is gone")

    seen = []
    with pytest.raises(OSError, match="the disk is gone"):
        seen.extend(done.result() for _, done in ahead(str, items(), threads=3))
    assert seen == ["0", "1", "2", "3"]


def test_an_error_of_the_work_belongs_to_its_item():
    """The result of one raises; those of the others are there."""
    results = list(ahead(lambda item: 1 // item, [1, 0, 1], threads=2))
    assert (results[0][1].result(), results[2][1].result()) == (1, 1)
    with pytest.raises(ZeroDivisionError):
        results[1][1].result()


def test_nothing_is_left_when_an_iterator_is_left():
    """Threads end, and what has not begun never begins."""
    began, go, others = [], threading.Event(), set(threading.enumerate())

    def work(item):
        began.append(item)
        return item if item == 0 else go.wait(10)

    results = ahead(work, range(100), threads=1)
    _, first = next(results)
    assert first.result() == 0
    go.set()
    results.close()
    assert len(began) < 10  # a thread may take one more before it learns of the end
    assert set(threading.enumerate()) <= others


def test_no_items_give_nothing():
    """An empty iterator ends at once."""
    assert list(ahead(str, [], threads=2)) == []
