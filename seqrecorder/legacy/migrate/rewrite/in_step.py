"""Sources whose records are read in step, one of each for every part of a batch: their datasets are zipped."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING

from seqrecorder.legacy.migrate.analyze.data_flow import depending, hanging_surely, ignoring, reads, walk, writes
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

_BY_HALVES = frozenset(
    (*("zeros_like", "ones_like", "shape", "shape_n", "size", "rank"), *("cond", "case", "while_loop", "smart_cond"))
)
"""Functions of TensorFlow that may do without a part of what they are given."""
_BATCH = ast.Name("what is batched", ast.Store())


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
    first = [{*each.names, *(reads(each.argument) if each.argument else ())} for each in origin.zipped or (origin,)]
    for tensors, each in itertools.product(map(element, stages.batches), first):
        if origin.zipped:
            others = depending(between, {name for other in first if other is not each for name in other})[1]
            taken = _BATCH.id in _surely([*between, ast.Assign([_BATCH], tensors)], each, others, names)
        else:
            taken = bool(reads(tensors) & hanging_surely(between, each, ignoring(names.bindings.tree)))
        if not taken:
            said = "what is batched may be of no record, and would not end with them"
            raise Unclear("no-record", said, stages.batches[0].statement)


def _surely(block: Sequence[ast.stmt], of_source: set[str], others: set[str], names: Names) -> set[str]:
    """Return the names that hang on a source's record, and for which it is taken, whatever else is: see `_taken`."""
    found = set(of_source)
    functions = {f.name for f in walk(names.bindings.tree) if isinstance(f, ast.FunctionDef)}
    functions -= ignoring(names.bindings.tree)
    for statement in block:
        value = getattr(statement, "value", None)
        match statement:
            case ast.Assign([ast.Name(name)]) | ast.AnnAssign(ast.Name(name)):
                pairs = [(name, value)]
            case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)) if len(targets) == len(values):
                pairs = [(name, v) for target, v in zip(targets, values, strict=True) for name in writes(target)]
            case ast.Assign([ast.Tuple() as target], ast.Call()):
                pairs = [(name, value) for name in writes(target)]
            case ast.Expr(ast.Call(ast.Attribute(attr="set_shape"))):
                continue
            case _:
                pairs = [(name, None) for name in writes(statement)]
        sure = {name for name, v in pairs if v is not None and _taken(v, others, functions, names) & found}
        found = (found - {name for name, _ in pairs}) | sure
    return found


def _taken(node: ast.expr, others: set[str], functions: set[str], names: Names) -> set[str]:
    """Return the names whose tensors are computed for what an expression gives; of others' records it may not tell."""
    match node:
        case ast.Name(name):
            return {name}
        case ast.Tuple() | ast.List() | ast.Dict() | ast.BinOp() | ast.UnaryOp() | ast.Compare():
            parts: list[ast.expr] = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
        case ast.Call(func):
            called = names.called(node) or ""
            own = ast.unparse(func).removeprefix("self.") in functions and not reads(node) & others
            plain = called.startswith("tf.") and not called.startswith(("tf.contrib.", "tf.nest."))
            if not own and (not plain or called.rpartition(".")[2] in _BY_HALVES):
                return set()
            parts = [*node.args, *(k.value for k in node.keywords if k.arg not in ("name", "dtype"))]
        case _:
            return set()
    return {name for part in parts for name in _taken(part, others, functions, names)}
