"""Sources whose records are read in step, one of each for every part of a batch: their datasets are zipped."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from seqrecorder.legacy.migrate.analyze.data_flow import hanging_surely, ignoring, reads, writes
from seqrecorder.legacy.migrate.analyze.pipeline_functions import endless
from seqrecorder.legacy.migrate.analyze.reaching import reaching
from seqrecorder.legacy.migrate.normalize.script import SHUFFLED
from seqrecorder.legacy.migrate.rewrite.record_statements import Origin, element
from seqrecorder.legacy.migrate.unclear import Unclear

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from seqrecorder.legacy.migrate.analyze.names import Names
    from seqrecorder.legacy.migrate.analyze.pipeline_functions import Part
    from seqrecorder.legacy.migrate.analyze.stages import Stages


def in_step(
    stages: Stages, found: Sequence[Origin], block: Sequence[ast.stmt], parts: Mapping[str, Part], *, handed: bool
) -> Origin:
    """Return where the tensors of a record come from that has parts of several sources; of one it is that.

    Args:
        stages: of the scope.
        found: where those of each source come from.
        block: what they stand in.
        parts: functions of the script that do a part of a pipeline.
        handed: whether the records are handed on to be batched elsewhere, if sources do not end.

    Raises:
        Unclear: not each source is read once for each part of a batch, or names mean other things in between.
    """
    if len(found) == 1:
        return found[0]
    producers, names = stages.producers, [name for origin in found for name in origin.names]
    flow = reaching(stages.scope)
    chains = [flow.hanging(producer.statement) for producer in producers]
    hangs = any(other.statement in chain[1:] for chain in chains for other in producers)
    reading = [read.statement for read in stages.reads]
    hangs = hangs or any(sum(read in chain for chain in chains) > 1 for read in reading)
    joined = any(batch.loop or batch.readers for batch in stages.batches)
    marked = any(isinstance(node, ast.Name) and node.id == SHUFFLED for node in stages.nodes())
    starred = any(origin.starred for origin in found)
    handed = handed and endless(stages, parts) and all(o.statement in block and o.call is None for o in found)
    if not (stages.batches or handed) or hangs or joined or marked or starred or len(set(names)) != len(names):
        said = "several producers in one function, whose records do not all go into every batch"
        raise Unclear("several-sources", said, producers[1].statement)
    places = [block.index(origin.statement) for origin in found if origin.statement in block]
    for origin in found:
        before = block[min(places) : block.index(origin.statement)] if origin.statement in block else ()
        for statement in before:
            if again := (reads(statement) | writes(statement)) & {*origin.names}:
                said = f"{', '.join(sorted(again))}: of a record, and of something else before"
                raise Unclear("rebinds", said, statement)
    call = next((origin.call for origin in found if origin.call is not None), None)
    first = block[min(places)] if places else None
    return Origin((*names,), first, None, call, zipped=(*found,))


def zip_lines(origin: Origin, datasets: Sequence[str], name: str, tf: str) -> list[str]:
    """Return the lines that make one dataset of those of several sources, with all parts side by side."""
    if not origin.zipped:
        return []
    parts = [f"{'*' * (len(each.names) > 1)}parts[{number}]" for number, each in enumerate(origin.zipped)]
    flat = [f"{name} = {name}.map(lambda *parts: ({', '.join(parts)}))"] * any("*" in part for part in parts)
    return [f"{name} = {tf}.data.Dataset.zip(({', '.join(datasets)}))", *flat]


def check_ends(
    stages: Stages, origin: Origin, between: Sequence[ast.stmt], names: Names, parts: Mapping[str, Part]
) -> None:
    """Raise where what is batched is, or may be, of no record of a source: such batches did not end with it."""
    if endless(stages, parts):
        return
    first = {*origin.names, *(reads(origin.argument) if origin.argument else ())}
    sure = hanging_surely(between, first, ignoring(names.bindings.tree))
    if origin.zipped or not all(reads(element(batch)) & sure for batch in stages.batches):
        said = "what is batched may be of no record, and would not end with them"
        raise Unclear("no-record", said, stages.batches[0].statement)
