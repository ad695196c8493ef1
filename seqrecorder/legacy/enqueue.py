"""What is put into queues: how many elements, how they are chosen, and whether they are the same in every run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.errors import LiftError
from seqrecorder.legacy.graph import back_from, seeds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seqrecorder.legacy.graph import Feed
    from seqrecorder.legacy.subgraph import Section


def rows(feed: Feed) -> int | str:
    """Return how many elements a feed enqueues at a time, as far as the graph knows."""
    if not feed.many:
        return 1
    count = feed.components[0].shape[0] if feed.components[0].shape.rank else None
    return "?" if count is None else int(count)


def unseeded(section: Section) -> str | None:
    """Return why the order of a producer was another each time that the program ran, or None."""
    for op in section.stateful:
        shuffles = op.type == "RandomShuffle" and not (op.inputs[0].shape.rank and op.inputs[0].shape[0] == 1)
        if shuffles and not section.pulls and seeds(op) == (0, 0):
            return f"{op.type} {op.name!r} has no seed"
    return None


def drawn(sections: Sequence[Section], threads: int, *, unordered: bool) -> str | None:
    """Return why random values in elements were others each time that the program ran, or None.

    Args:
        sections: what computes the elements.
        threads: how many threads ran it.
        unordered: whether the order of what it is computed from was not fixed.
    """
    for section in sections:
        for op in section.stateful:
            if seeds(op) is None or (op.type == "RandomShuffle" and not section.pulls):
                continue
            if seeds(op) == (0, 0):
                return f"{op.type} {op.name!r} has no seed"
            if threads > 1:
                return f"{threads} threads shared the numbers of {op.type} {op.name!r}"
            if unordered:
                return f"which example got which number of {op.type} {op.name!r} followed their order"
    return None


def keeps(feed: Feed) -> list[Any]:
    """Return the tensor that says whether what is fed is kept, if there is one."""
    return [] if feed.keep is None else [feed.keep[0]]


def check_kept(queue: Any, feed: Feed, section: Section) -> None:
    """Check that several who take from a queue, each by iterating over all that it gets, find the same in it.

    Raises:
        LiftError: each time others may be kept.
    """
    for op in back_from(keep.op for keep in keeps(feed)):
        if op in section.stateful:
            raise LiftError(
                f"{op.type} {op.name!r} decides what is kept of it, and several take from the same source",
                advice="take from the source once, and use the result in each place",
                op=queue.name,
            )


def steps(feed: Feed) -> list[str]:
    """Return what `put` does, in the words of tf.data."""
    return ["filter"] * (feed.keep is not None) + ["unbatch()"] * feed.many


def put(raw: Any, feed: Feed) -> Any:
    """Return a dataset of elements of a queue from one of what a feed gives."""
    if feed.keep is not None:
        value = feed.keep[1]
        raw = raw.filter(lambda *row: row[-1] if value else ~row[-1]).map(lambda *row: row[:-1])
    return raw.unbatch() if feed.many else raw
