"""Records by their positions and by their keys, and a tenth of them, of whatever has random access.

What is opened and indexed stays open, and is not timed; every candidate gives arrays. Records of W3 are few: all ways
take at least eight of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from seqrecorder.dataset.selection import open as open_corpus

from .candidates import OURS, Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from .workloads import Workload

_TENTH, _LEAST = 10, 8


class Access(Protocol):
    """Records that are open; each is a mapping of field to value, or an object with attributes."""

    def at(self, place: int, /) -> Any:
        """Return the record at a position."""
        ...

    def several(self, places: NDArray[np.int64]) -> Sequence[Any]:
        """Return the records at some positions, which ascend."""
        ...


def drawn(workload: Workload) -> NDArray[np.int64]:
    """Return the positions of a tenth of the records, in random order."""
    count = len(workload.records)
    return np.random.default_rng(0).permutation(count)[: min(count, max(_LEAST, count // _TENTH))]


def operations(workload: Workload, candidate: str, opened: Callable[[], Access]) -> list[Operation]:
    """Return what is timed of a candidate: single records by position, and a tenth of all in their order."""
    places = drawn(workload)

    def singles() -> Callable[[], int]:
        source = opened()
        check(workload, source.at(int(places[0])), int(places[0]))
        numbers = places.tolist()
        return lambda: sum(source.at(place) is not None for place in numbers)

    def tenth() -> Callable[[], int]:
        source, ascending = opened(), np.sort(places)
        check(workload, source.several(ascending)[0], int(ascending[0]))
        return lambda: len(source.several(ascending))

    return [
        Operation("by_position", candidate, singles, records=places.size),
        Operation("tenth", candidate, tenth, records=places.size),
    ]


def check(workload: Workload, record: Any, place: int) -> None:
    """Raise `AssertionError` unless a record has the values that were written."""
    for name in workload.flat:
        got = record[name] if isinstance(record, dict) else getattr(record, name)
        expected = getattr(workload.records[place], name)
        if not np.array_equal(np.asarray(got).reshape(np.shape(expected)), expected):
            raise AssertionError(f"{workload.name}: field {name!r} of record {place} is not what was written")


class _Own:
    def __init__(self, workload: Workload, directory: Path) -> None:
        self.selection = open_corpus(directory, schema=workload.record_class)["train"]
        self.at: Callable[[int], Any] = self.selection.__getitem__

    def several(self, places: NDArray[np.int64]) -> Sequence[Any]:
        return list(self.selection[places])


def own(workload: Workload, directory: Path) -> list[Operation]:
    """Return what is timed of this library, whose dataset is there."""
    found = operations(workload, OURS, lambda: _Own(workload, directory))
    if "key" in workload.contexts:
        keys = [workload.contexts["key"][place] for place in drawn(workload).tolist()]

        def by_key() -> Callable[[], int]:
            selection = _Own(workload, directory).selection
            check(workload, selection[keys[0]], int(drawn(workload)[0]))
            return lambda: sum(selection[key] is not None for key in keys)

        found.append(Operation("by_key", OURS, by_key, records=len(keys)))
    return found
