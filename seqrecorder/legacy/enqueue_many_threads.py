"""Several operations that fill one queue, as with `batch_join`, or threads that each run their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.errors import LiftError
from seqrecorder.legacy.graph import READS, describe, handles_of, is_pull, source_of
from seqrecorder.legacy.subgraph import run_section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seqrecorder.legacy.graph import Feed
    from seqrecorder.legacy.initial_values import State
    from seqrecorder.legacy.subgraph import Section


def sources(section: Section) -> set[str]:
    """Return the names of the sources that a section takes from; of readers, also the queues that they read."""
    return {source_of(handle).name for pull in section.pulls if is_pull(pull) for handle in handles_of(pull)}


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


def are_apart(sections: Sequence[Section]) -> bool:
    """Whether each of some sections reads with readers and takes from queues of its own, be the files the same."""
    own = [{source_of(pull.inputs[0]).name for pull in section.pulls if is_pull(pull)} for section in sections]
    limits = [op.name for section in sections for op in section.limits]
    return len(set(limits)) == len(limits) and len(set().union(*own)) == sum(map(len, own))


def have_one_pull_each(sections: Sequence[Section]) -> bool:
    """Whether each of some sections takes from one source, by operations of one type."""
    return len({tuple(pull.type for pull in section.pulls) for section in sections}) == len(sections[0].pulls) == 1


def common_pulls(sections: Sequence[Section], feeds: Sequence[Feed], queue: Any) -> list[Any]:
    """Return the one pull of each section, all of one kind and of one queue, or raise `LiftError`.

    They are of one reader, or each of a reader of its own, and the readers are alike.
    """
    pulls = [pull for section in sections for pull in section.pulls]
    reading = [pull.type in READS for pull in pulls]
    readers = {source_of(pull.inputs[0]).name: source_of(pull.inputs[0]) for pull in pulls if pull.type in READS}
    kinds = {(pull.type, source_of(pull.inputs[reads]).name) for pull, reads in zip(pulls, reading, strict=True)}
    puts = {(feed.many, feed.keep and feed.keep[1], len(feed.components)) for feed in feeds}
    alike = len(kinds) == len(puts) == 1 and len({_attributes(reader) for reader in readers.values()}) < 2  # noqa: PLR2004
    apart = len(pulls) == len(sections) and len(readers) in {0, 1, len(pulls)}
    if not alike or not apart or any(section.limits for section in sections):
        raise LiftError(
            "operations that fill the queue share a source, and do not all do the same: "
            + ", ".join(map(describe, pulls)),
            advice="let one operation, run by as many threads, fill the queue; or read each source once, and only its "
            "producer limit the epochs",
            op=queue.name,
        )
    return pulls


def take_alike(sections: Sequence[Section], feeds: Sequence[Feed]) -> bool:
    """Whether each section takes from the same several sources, by the same operations, for the same kind of feed."""
    taken = {frozenset(pull.name for pull in section.pulls) for section in sections}
    puts = {(feed.many, feed.keep and feed.keep[1], len(feed.components)) for feed in feeds}
    limited = any(section.limits for section in sections)
    return len(taken) == len(puts) == 1 and len(sections[0].pulls) > 1 and not limited


def run_branch(sections: Sequence[Section], branch: Any, pulled: Sequence[Any], state: State) -> list[Any]:
    """Run the section that a number names on what its pulls gave, and return its targets.

    Args:
        sections: which take from their sources by the same pulls, or by one each.
        branch: the number.
        pulled: what the pulls of the first section gave, or those in their place.
        state: of the graph.
    """
    import tensorflow as tf

    given = {pull.name: row for pull, row in zip(sections[0].pulls, pulled, strict=True)}

    def runs(section: Section) -> Any:
        rows = [given.get(pull.name, pulled[0]) for pull in section.pulls]
        return lambda: tuple(run_section(section, [[tf.identity(x) for x in row] for row in rows], state))

    found = tf.switch_case(tf.cast(branch, tf.int32), [runs(section) for section in sections])
    return list(found)


def _attributes(op: Any) -> tuple[Any, ...]:
    attributes = op.node_def.attr
    names = sorted(set(attributes) - {"_class", "shared_name", "container"})
    return tuple((name, attributes[name].SerializeToString(deterministic=True)) for name in names)
