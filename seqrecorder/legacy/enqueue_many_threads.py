"""Several operations that fill one queue, as with `batch_join`, or threads that each run their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.errors import LiftError
from seqrecorder.legacy.graph import DEQUEUES, READS, describe, source_of
from seqrecorder.legacy.subgraph import run_section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seqrecorder.legacy.initial_values import State
    from seqrecorder.legacy.subgraph import Section


def sources(section: Section) -> set[str]:
    """Return the names of the sources that a section takes from; of readers, also the queues that they read."""
    return {
        source_of(handle).name
        for pull in section.pulls
        if pull.type in DEQUEUES or pull.type in READS
        for handle in pull.inputs[: 2 if pull.type in READS else 1]
    }


def families(sections: Sequence[Section]) -> list[list[int]]:
    """Group sections, by position, so that those that share a source are in one group."""
    groups: list[tuple[set[str], list[int]]] = []
    for position, section in enumerate(sections):
        names, members = sources(section), [position]
        for group in [g for g in groups if g[0] & names]:
            groups.remove(group)
            names, members = names | group[0], group[1] + members
        groups.append((names, members))
    return [members for _, members in groups]


def common_pulls(sections: Sequence[Section], queue: Any) -> list[Any]:
    """Return the one pull of each section, all of one kind and of one queue, or raise `LiftError`."""
    pulls = [section.pulls[0] for section in sections if len(section.pulls) == 1]
    advice = "let one operation, run by as many threads, fill the queue; or read each source once"
    if len(pulls) < len(sections):
        raise LiftError(
            "what fills the queue shares one source among several operations that take from others as well",
            advice=advice,
            op=queue.name,
        )
    kinds = {(pull.type, source_of(pull.inputs[1 if pull.type in READS else 0]).name) for pull in pulls}
    if len(kinds) > 1:
        raise LiftError(
            f"operations that fill the queue take from one source in different ways: {', '.join(map(describe, pulls))}",
            advice=advice,
            op=queue.name,
        )
    readers = {source_of(pull.inputs[0]).name: source_of(pull.inputs[0]) for pull in pulls if pull.type in READS}
    if len(readers) > 1 and len({_attributes(reader) for reader in readers.values()}) > 1:
        raise LiftError("readers of different kinds share one queue of files", advice=advice, op=queue.name)
    if 1 < len(readers) < len(pulls):
        raise LiftError("some readers are shared by several operations, and some are not", advice=advice, op=queue.name)
    return pulls


def run_branch(sections: Sequence[Section], branch: Any, pulled: Any, state: State) -> list[Any]:
    """Run the section that a number names on what one pull gave, and return its targets."""
    import tensorflow as tf

    def runs(section: Section) -> Any:
        return lambda: tuple(run_section(section, [[tf.identity(x) for x in pulled]], state))

    found = tf.switch_case(tf.cast(branch, tf.int32), [runs(section) for section in sections])
    return list(found)


def _attributes(op: Any) -> tuple[Any, ...]:
    attributes = op.node_def.attr
    names = sorted(set(attributes) - {"_class", "shared_name", "container"})
    return tuple((name, attributes[name].SerializeToString(deterministic=True)) for name in names)
