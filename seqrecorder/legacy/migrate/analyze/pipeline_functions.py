"""Functions that do one part of a pipeline: make its queue, read from it, make records, or batch what they are given.

Such a function hands datasets on where it handed on queues or tensors of single records, and the functions that call it
follow. All calls of it have to be ones that can.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Literal

import attrs

from seqrecorder.legacy.migrate.analyze.data_flow import (
    LOOPS,
    called_as,
    given_to,
    hanging_after,
    only,
    own_nodes,
    reads,
    walk,
    writes,
)
from seqrecorder.legacy.migrate.analyze.names import OF_QUEUES, PRODUCERS, Arguments
from seqrecorder.legacy.migrate.analyze.stages import Batch, Producer, check_only, mentions_of
from seqrecorder.legacy.migrate.analyze.structure import of_returns
from seqrecorder.legacy.migrate.unclear import Unclear

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from seqrecorder.legacy.migrate.analyze.names import Names
    from seqrecorder.legacy.migrate.analyze.stages import Stages
    from seqrecorder.legacy.migrate.analyze.structure import Structure
    from seqrecorder.legacy.migrate.source import Edit, Source

Role = Literal["queue", "given", "source", "batch"]


@attrs.define(eq=False)
class Part:
    """A function that does a part of a pipeline, and is called by functions that do the rest.

    Attributes:
        role: `queue`: it returns a queue; `given`: it is given one, and returns batches; `source`: it returns the
            tensors of a record; `batch`: it batches tensors.
        called: how it is called, such as `make_queue` or `self.make_queue`.
        stages: what it has of the pipeline.
        function: its definition.
        structure: of what it returns; None where that cannot be told.
        tensors: the parameters that are of a record, of a function that batches.
        calls: ids of the names by which it is called.
        queue: the parameter that is a queue, if there is one.
    """

    role: Role
    called: str
    stages: Stages
    function: ast.FunctionDef
    structure: Structure | None
    tensors: tuple[str, ...] = ()
    calls: set[int] = attrs.field(factory=set)
    queue: str = ""

    @property
    def note(self) -> str:
        """What callers in other files have to know."""
        what = {
            "queue": "the dataset of the files' names, where it returned their queue",
            "source": "the dataset of records, where it returned the tensors of one",
        }
        said = [f"returns {what[self.role]}"] if self.role in what else []
        said += ["takes the dataset for the tensors of a record"] * (self.role == "batch")
        said += [f"takes the dataset of the files' names for its parameter {self.queue!r}"] * bool(self.queue)
        return f"{self.function.name} {', and '.join(said)}: callers in other files have to follow"


def endless(stages: Stages, parts: Mapping[str, Part]) -> bool:
    """Whether none of the producers of a scope ends, those in functions that it calls among them."""
    waiting = [*stages.producers]
    for producer in waiting:
        part = parts.get(ast.unparse(producer.arguments.call.func))
        if part is not None and producer.kind in ("queue", "source"):
            waiting += [each for each in part.stages.producers if each not in waiting]
        elif producer.kind not in PRODUCERS or producer.arguments["num_epochs"] is not None:
            return False
    return True


def find_parts(
    found: Sequence[Stages], tree: ast.Module, names: Names, shared: Shared | None = None
) -> dict[str, Part]:
    """Return the functions that do a part of a pipeline, by how they are called, and add their calls to their callers.

    Raises:
        Unclear: one is used otherwise too.
    """
    shared = shared or Shared()
    parts = {called: attrs.evolve(part, calls=set()) for called, part in shared.parts.items()}
    for role in ("queue", "given", "source", "batch"):  # what makes a queue is known before what reads from it
        for stages in found:
            called = called_as(stages.scope, tree)
            if called is not None and isinstance(stages.scope, ast.FunctionDef) and _role(stages) == role:
                queue = next((ast.unparse(p.target) for p in stages.producers if p.kind == "given"), "")
                part = Part(role, called, stages, stages.scope, of_returns(stages.scope, names), queue=queue)
                part.calls |= {0} if called in shared.wanted else set()
                parts[called] = part
        if role == "queue":
            _take(found, parts, ("queue",))
    _hand(found, parts)
    _add_relays(found, parts, tree, names)
    _take(found, parts, ("source", "batch"))
    waiting = [part for part in parts.values() if part.calls]
    for part in waiting:  # what one that is called hands on, others may make
        _take([part.stages] if part.role == "source" else [], parts, ("source",), alone=True)
        waiting += [each for each in parts.values() if each.calls and each not in waiting]
    _take(found, {called: part for called, part in parts.items() if part.calls}, ("source",), alone=True)
    used = {called: part for called, part in parts.items() if part.calls}
    for part in used.values():
        check_only(part.function, tree)
    return used


def _add_relays(found: Sequence[Stages], parts: dict[str, Part], tree: ast.Module, names: Names) -> None:
    """Add the functions that hand on records of functions that make those, and do nothing else of a pipeline."""
    free = [s for s in found if not (s.producers or s.readers or s.reads or s.batches or s.handed)]
    while True:
        before = len(parts)
        for stages in free:
            called, calls = called_as(stages.scope, tree), only(ast.Call, own_nodes(stages.scope))
            taken = {part.role for call in calls if (part := parts.get(ast.unparse(call.func))) is not None}
            if called is not None and called not in parts and taken == {"source"}:
                function = stages.scope
                if isinstance(function, ast.FunctionDef):
                    parts[called] = Part("source", called, stages, function, of_returns(function, names))
        if len(parts) == before:
            return


@attrs.frozen
class Shared:
    """What a script has in common with others that are migrated with it.

    Attributes:
        wanted: functions of its own that others call, which follow where they change.
        parts: functions of others that it calls, by how it does.
        lost: why others that it calls, or functions of its own that others call, are not rewritten together with it.
        files: the others whose functions it calls.
    """

    wanted: frozenset[str] = frozenset()
    parts: Mapping[str, Part] = attrs.field(factory=dict)
    lost: Mapping[str, str] = attrs.field(factory=dict)
    files: frozenset[Path] = frozenset()


def _hand(found: Sequence[Stages], parts: Mapping[str, Part]) -> None:
    """Let producers whose queues are given to functions that read from them make datasets that those are given."""
    for stages in found:
        calls = [call for call in only(ast.Call, own_nodes(stages.scope)) if ast.unparse(call.func) in parts]
        for producer in list(stages.producers):
            uses = stages.uses([producer.statement], ast.unparse(producer.target))
            for call in calls:
                part = parts[ast.unparse(call.func)]
                if part.queue and part.stages is not stages and _given(part, call).get(part.queue) in uses:
                    _check_handed(stages, producer, uses, call)
                    stages.producers.remove(producer)
                    stages.handed.append(producer)
                    part.calls |= {id(call.func)} if part.role == "given" else set()  # a source's is taken later


def _check_handed(stages: Stages, producer: Producer, uses: Sequence[ast.Name], call: ast.Call) -> None:
    """Raise `Unclear` where a queue that a function is given is not its own, or not one from which files are read."""
    often = [n for n in own_nodes(stages.scope) if isinstance(n, LOOPS) and call in walk(n)]
    if len(uses) != 1 or stages.others_of(uses[0], [producer.statement]):
        raise Unclear("queue-used", "the queue is given to a function, and used for more than that", call)
    if any(producer.statement not in walk(node) for node in often):
        raise Unclear("queue-used", "the queue is given to a function several times", call)
    if producer.kind not in {*OF_QUEUES, "queue", "given"} or producer.dequeued:
        raise Unclear("queue-given", f"{ast.unparse(call.func)} is given no queue of files", call)


def _role(stages: Stages) -> Role | None:
    if any(producer.kind == "given" for producer in stages.producers) and stages.batches:
        return "given"
    if len(stages.producers) == 1 and not (stages.batches or stages.reads or stages.readers):
        [producer] = stages.producers
        if producer.kind in OF_QUEUES and not producer.dequeued and _is_returned(stages, producer):
            return "queue"
    if len(stages.producers) == 1 and not stages.batches:
        return "source"
    return "batch" if stages.batches and not stages.producers and not stages.reads else None


def _is_returned(stages: Stages, producer: Producer) -> bool:
    if isinstance(producer.statement, ast.Return):
        return True
    uses = stages.uses([producer.statement], ast.unparse(producer.target))
    returns = [node.value for node in only(ast.Return, own_nodes(stages.scope))]
    return len(uses) == 1 and returns == [uses[0]]


# Calls ----------------------------------------------------------------------------------------------------------------


def _take(found: Sequence[Stages], parts: Mapping[str, Part], roles: Sequence[Role], *, alone: bool = False) -> None:
    """Add to the stages of scopes what functions do that they call; `alone`: also records that are not batched."""
    for role in roles:
        for stages in found:
            for call in only(ast.Call, own_nodes(stages.scope)):
                part = parts.get(ast.unparse(call.func))
                if part is not None and part.role == role:
                    _take_call(stages, call, part, parts, alone=alone)


def _take_call(stages: Stages, call: ast.Call, part: Part, parts: Mapping[str, Part], *, alone: bool) -> None:
    statement = next(
        (s for s in own_nodes(stages.scope) if isinstance(s, (ast.Assign, ast.Return)) and s.value is call), None
    )
    if statement is None or part.stages is stages or id(call.func) in part.calls:
        return
    if part.role == "batch":
        _take_batch(stages, statement, call, part)
    elif isinstance(statement, ast.Assign) and (alone or part.role == "queue" or _is_batched(stages, statement, parts)):
        stages.producers.append(Producer(statement, part.role, Arguments(call, {}), statement.targets[0]))
        part.calls.add(id(call.func))


def _is_batched(stages: Stages, statement: ast.Assign, parts: Mapping[str, Part]) -> bool:
    """Whether what a statement sets is put into a batch of the scope."""
    hanging = hanging_after(stages.scope.body, writes(statement))
    functions = {called for called, part in parts.items() if part.role == "batch"}
    batching = [call for call in only(ast.Call, stages.nodes()) if ast.unparse(call.func) in functions]
    batched = [tensors for batch in stages.batches if (tensors := batch.arguments["tensors"]) is not None]
    return any(reads(node) & hanging for node in (*batching, *batched))


def _take_batch(stages: Stages, statement: ast.Assign | ast.Return, call: ast.Call, part: Part) -> None:
    """Add the call of a function that batches: its tensors are the arguments that hang on a record."""
    made = {name for producer in stages.producers for name in writes(producer.statement)}
    made |= {name for read in stages.reads for name in writes(read.statement)}
    if not made:
        return
    hanging = hanging_after(stages.scope.body, made)
    given = _given(part, call)
    tensors = tuple(name for name, value in given.items() if reads(value) & hanging)
    if not tensors or (part.tensors and part.tensors != tensors):
        raise Unclear("part-used", f"which arguments of {part.called} are of a record differs, or none is", call)
    part.tensors = tensors
    part.calls.add(id(call.func))
    elements = [given[name] for name in tensors]
    element = elements[0] if len(elements) == 1 else ast.copy_location(ast.Tuple(elements, ast.Load()), call)
    stages.batches.append(Batch(statement, "function", Arguments(call, {"tensors": element})))


def _given(part: Part, call: ast.Call) -> dict[str, ast.expr]:
    """Return the arguments of a call by the names of the parameters, in their order."""
    given = given_to(part.function, call, method=part.called.startswith("self."))
    if given is None:
        raise Unclear("arguments", f"the arguments of {part.called} cannot be told apart", call)
    return {p.arg: given[p.arg] for p in part.function.args.args if p.arg in given}


def check_calls(part: Part, names: Names) -> None:
    """Raise `Unclear` where a part is used otherwise than by the pipelines that are rewritten."""
    mentions, tree = mentions_of(part.function, part.called, names), names.bindings.tree
    if part.function not in walk(tree):  # it is imported
        name, nodes = part.called.partition(".")[0], walk(tree)
        mentions = (n for n in nodes if isinstance(n, (ast.Name, ast.Attribute)) and ast.unparse(n) == part.called)
        binding = [n for n in nodes if (bound := names.bindings.bound_by(n)) is not None and bound[1] == name]
        if len(binding) > 1:
            raise Unclear("part-used", f"{name} may be something else than what is imported", binding[-1])
    if other := next((node for node in mentions if id(node) not in part.calls), None):
        said = f"{part.function.name} is also used where no pipeline goes on from what it does"
        raise Unclear("part-used", said, other)


# What is written ------------------------------------------------------------------------------------------------------


def call_lines(batch: Batch, dataset: str, text: Callable[[ast.AST], str]) -> str:
    """Return the call of a function that batches, with the dataset in place of the first tensor; the others go."""
    call, tensors = batch.arguments.call, batch.arguments.given["tensors"]
    inside = [*call.args, *(keyword.value for keyword in call.keywords)]
    gone = [tensors] if tensors in inside else list(getattr(tensors, "elts", ()))
    first = min(gone, key=lambda node: (node.lineno, node.col_offset))
    said = [dataset if item is first else text(item) for item in call.args if item is first or item not in gone]
    for keyword in call.keywords:
        if keyword.value is first:
            said.append(f"dataset={dataset}")
        elif keyword.value not in gone:
            said.append(f"{keyword.arg}={text(keyword.value)}")
    return f"{text(call.func)}({', '.join(said)})"


def signature(source: Source, part: Part, dataset: str) -> Edit:
    """Return the edit by which a function that batches takes a dataset instead of the tensors of a record.

    Raises:
        Unclear: its parameters are not written as parameters usually are.
    """
    instead = {name: dataset * (name == part.tensors[0]) for name in part.tensors}
    edit = source.header(part.function, instead)
    if edit is None:
        said = "the function has parameters of several kinds, with comments, or that end on a line of their own"
        raise Unclear("signature", said, part.function)
    return edit
