"""Where the tensors of one record come from, once a producer has made a queue."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import attrs

from seqrecorder.legacy.migrate.analyze.data_flow import LOOPS, only, walk
from seqrecorder.legacy.migrate.analyze.names import PROVIDER
from seqrecorder.legacy.migrate.rewrite.reader_functions import calls_of, reader_of
from seqrecorder.legacy.migrate.rewrite.record_statements import Origin, distinct, simple_names
from seqrecorder.legacy.migrate.unclear import Unclear

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from seqrecorder.legacy.migrate.analyze.pipeline_functions import Part
    from seqrecorder.legacy.migrate.analyze.stages import Producer, Stages
    from seqrecorder.legacy.migrate.analyze.structure import Structure
    from seqrecorder.legacy.migrate.rewrite.reader_functions import Helper
    from seqrecorder.legacy.migrate.rewrite.text import Text

_GIVING = ("source", "tf.train.slice_input_producer", PROVIDER)
"""Producers that give the tensors of a record, and no queue."""


class Origins:
    """Finds what takes from the queue of one scope.

    Args:
        stages: of the scope.
        helpers: functions of the module that read.
        text: writes for the scope.
        parts: functions of the module that do a part of a pipeline.

    Attributes:
        used: the names of helpers that were called, as nodes.
        structures: what those return, by how they were called.
    """

    def __init__(self, stages: Stages, helpers: dict[str, Helper], text: Text, parts: Mapping[str, Part]) -> None:
        self.stages, self.helpers, self.text, self.parts = stages, helpers, text, parts
        self.used: set[int] = set()
        self.structures: dict[str, Structure | None] = {}

    def find(self, producer: Producer, block: list[ast.stmt]) -> Origin:
        """Return where the tensors of a record come from, and check that nothing else uses the queue.

        Raises:
            Unclear: that cannot be told.
        """
        target = producer.target
        same = [each for each in self.stages.producers if ast.unparse(each.target) == ast.unparse(target)]
        if len(same) > 1 and (producer.kind in _GIVING or producer.dequeued):
            raise Unclear("branches", "each arm of a condition makes records, and no queue", producer.statement)
        if producer.kind == "source":
            return self._made(producer)
        if producer.kind in _GIVING or producer.dequeued:
            starred = isinstance(target, ast.Name) and not producer.dequeued
            names = distinct(simple_names(target, producer.statement))
            return Origin(names, producer.statement, None, starred=starred)
        if not isinstance(target, ast.Name):
            raise Unclear("targets", "the queue is not simply assigned to a name", producer.statement)
        made = [each.statement for each in self.stages.producers]
        uses = self.stages.uses(made, target.id)
        if other := next((use for use in uses if self.stages.others_of(use, made)), None):
            raise Unclear("branches", "the queue may be another one where it is used", other)
        found = [*self._reads_of(uses), *self._helped(uses, block), *self._dequeued(uses, block)]
        if len(uses) != 1 or len(found) != 1:
            given = [call for call in only(ast.Call, self.stages.nodes()) if set(uses) & set(call.args)]
            if given and len(uses) == 1 and not found:
                raise Unclear("queue-given", f"the queue is given to {self._taker(given[0])}", given[0])
            how = f"read from {len(uses)} times" if uses else "never read from"
            if len(uses) == 1:
                holding = [s for s in only(ast.stmt, self.stages.nodes()) if uses[0] in walk(s)][-1]
                how = f"used, and not simply read from, in: {ast.unparse(holding).splitlines()[0]}"
            raise Unclear("queue-used", f"the queue is {how}", uses[0] if uses else producer.statement)
        if found[0].statement is not None and found[0].statement not in block:
            raise Unclear("branches", "the read stands under another condition than the producer", found[0].statement)
        return found[0]

    def _taker(self, call: ast.Call) -> str:
        """Return what a queue is given to, and why that does not become a function of a record."""
        called = ast.unparse(call.func)
        functions = [f.name for f in only(ast.FunctionDef, walk(self.text.source.tree))]
        if called.removeprefix("self.") in functions:
            return f"{called}, which does more than to read one record of it, or not always"
        made = [n for n in only(ast.Assign, self.stages.nodes()) if called in map(ast.unparse, n.targets)]
        what = "one of several values that are not alike" if made else "no function of this file"
        if called in self.text.names.bindings.unbound():
            what = "no name of this file"
        return f"{called}, which is {what}"

    def _made(self, producer: Producer) -> Origin:
        """Return the tensors that a function of the script returned, and whose dataset it returns now."""
        target, structure = producer.target, self.parts[ast.unparse(producer.arguments.call.func)].structure
        names = distinct(simple_names(target, producer.statement))
        if structure is None or (structure in ("dict", "one") and len(names) > 1):
            raise Unclear("targets", "the tensors are not simply assigned to names", producer.statement)
        starred = isinstance(target, ast.Name) and structure in ("tuple", "list")
        return Origin(names, producer.statement, None, starred=starred)

    def _reads_of(self, queue: list[ast.Name]) -> Iterator[Origin]:
        for read in self.stages.reads:
            if read.queue in queue:
                if read.key_target is not None:
                    raise Unclear("keys", "the key is kept in an object", read.statement)
                names = (read.value,) if read.key is None else (read.key, read.value)
                chosen = ((s, attrs.evolve(read, reader=each)) for each in read.choices if (s := each.statement))
                yield Origin(names, read.statement, read, chosen=tuple(chosen))

    def _helped(self, queue: list[ast.Name], block: list[ast.stmt]) -> Iterator[Origin]:
        for helper, call, named in calls_of(self.stages, self.helpers):
            argument = helper.argument(call)
            if argument in queue:
                inside = [s for s in block if call in walk(s)]
                joined = any(call in walk(batch.arguments["tensors"] or call) for batch in self.stages.batches)
                if not joined and (not inside or not _once(inside[0], call)):
                    said = "the function that reads is called in a loop, or under a condition"
                    raise Unclear("several-readers", said, call)
                self.used |= {id(node) for node in named}
                several = {ast.unparse(node): self.helpers[ast.unparse(node)] for node in named[1:]}
                for each in several.values():
                    self._take_parts(each, call)
                apart = len({reader_of(each) for each in several.values()}) > 1
                chosen = [s for s in only(ast.Assign, self.stages.nodes()) if apart and s.value in named]
                self.structures[ast.unparse(call.func)] = helper.structure
                names = tuple(
                    self.text.fresh(name, "record" if name == helper.read.value else "key") for name in helper.names
                )
                reads = ((s, self.helpers[ast.unparse(s.value)].read) for s in chosen)
                yield Origin(names, None, helper.read, call, argument, chosen=tuple(reads))

    def _take_parts(self, helper: Helper, call: ast.Call) -> None:
        """Let what the reader takes be written as the caller knows it."""
        given, bindings = helper.given(call), self.text.names.bindings
        for node in [n for part in helper.reader_parts() for n in only(ast.Name, walk(part))]:
            if node.id in helper.known:
                self.text.substitutions.append((node, str(helper.known[node.id])))
                continue
            value = given.get(node.id, node)
            for name in only(ast.Name, walk(value) if value not in walk(call) else ()):
                scope = bindings.scope_of(name)
                same = bindings.seen_from(self.stages.scope, name.id) is scope
                once = scope is None or value is node or len(bindings.of(scope, name.id)) == 1
                if name.id != "self" and not (same and once):
                    said = f"{name.id}: of the function that reads, and, where it is called, of another value"
                    raise Unclear("helper-local", said, call)
            if node.id in given:
                self.text.substitutions.append((node, self.text.of(value)))

    def _dequeued(self, queue: list[ast.Name], block: list[ast.stmt]) -> Iterator[Origin]:
        for statement in block:
            match statement:
                case ast.Assign([ast.Name(name), *_], ast.Call(ast.Attribute(source, "dequeue"))) if source in queue:
                    yield Origin((name,), statement, None)


def _once(statement: ast.stmt, call: ast.Call) -> bool:
    """Whether a call is carried out once for each time that its statement is."""
    holding = (*LOOPS, ast.Lambda, ast.If, ast.IfExp, ast.BoolOp, ast.Try)
    return not any(isinstance(node, holding) and call in walk(node) for node in walk(statement))
