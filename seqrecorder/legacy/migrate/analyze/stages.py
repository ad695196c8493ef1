"""The stages of a queue pipeline that are written in one scope: producer, reader, read, batches."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import attrs

from seqrecorder.legacy.migrate.analyze.data_flow import own_nodes, walk
from seqrecorder.legacy.migrate.analyze.names import PROVIDER, Arguments, arguments
from seqrecorder.legacy.migrate.analyze.reaching import reaching
from seqrecorder.legacy.migrate.unclear import Unclear

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from seqrecorder.legacy.migrate.analyze.data_flow import Scope
    from seqrecorder.legacy.migrate.analyze.names import Names

GIVEN = "__seqrecorder_given__"
"""What is called, in a script in plainer words, with a queue that callers give, which is a dataset then."""


@attrs.frozen(eq=False)
class Producer:
    """`queue = tf.train.string_input_producer(...)`, or the tensors of `slice_input_producer`.

    Attributes:
        statement: the assignment; the return of a function that only makes the queue.
        kind: old name of the function; `queue` or `source` where a function of the script makes the queue, or the
            tensors of a record; `given` where callers give it.
        arguments: of the call.
        target: what is assigned to.
        dequeued: whether the queue's elements are taken in the same statement.
    """

    statement: ast.Assign | ast.Return
    kind: str
    arguments: Arguments
    target: ast.expr
    dequeued: bool = False


@attrs.frozen(eq=False)
class Reader:
    """`reader = tf.TFRecordReader()`.

    Attributes:
        statement: the assignment; None where the reader is made where it reads.
        kind: old name of the class.
        arguments: of the call.
    """

    statement: ast.Assign | None
    kind: str
    arguments: Arguments


@attrs.frozen(eq=False)
class Read:
    """`key, value = reader.read(queue)`.

    Attributes:
        statement: the assignment.
        reader: what reads.
        queue: the expression of the queue.
        key: name of the key, None where it is thrown away.
        value: name of the value.
        up_to: how many records at a time, None for one.
        key_target: what the key is assigned to, where that is not a name.
        choices: the readers of which branches choose one; none where there is no choice.
    """

    statement: ast.Assign
    reader: Reader
    queue: ast.expr
    key: str | None
    value: str
    up_to: ast.expr | None = None
    key_target: ast.expr | None = None
    choices: tuple[Reader, ...] = ()


@attrs.frozen(eq=False)
class Batch:
    """`x = tf.train.batch(...)` or `return tf.train.batch(...)`.

    Attributes:
        statement: the assignment or return.
        kind: old name of the function, or of the class of a queue that was filled by hand; `function` where one of the
            script batches.
        arguments: of the call; for a queue its own, and what was put in and taken out.
        extras: the statements that made, filled and ran such a queue, or a list of examples.
        readers: how many make such a list, None for one.
        loop: in which they do; None where there is none.
    """

    statement: ast.Assign | ast.Return
    kind: str
    arguments: Arguments
    extras: tuple[ast.stmt, ...] = ()
    readers: ast.expr | None = None
    loop: ast.For | None = None


@attrs.define(eq=False)
class Stages:
    """What one scope has of a pipeline, or one branch of a condition in it.

    Attributes:
        scope: a function or the module.
        producers: where elements come from.
        readers: by the text that they are assigned to.
        reads: of records.
        batches: of records.
        accounted: ids of the expressions that belong to these.
        others: the statements of pipelines beside this one.
        beside: whether there are others, whose statements may stand between those of this pipeline.
        handed: producers whose queues functions of the script are given, which read from them.
        described: whether it describes a dataset of TF-Slim, for providers.
    """

    scope: Scope
    producers: list[Producer] = attrs.field(factory=list)
    readers: dict[str, list[Reader]] = attrs.field(factory=dict)
    reads: list[Read] = attrs.field(factory=list)
    batches: list[Batch] = attrs.field(factory=list)
    accounted: set[int] = attrs.field(factory=set)
    others: tuple[list[ast.stmt], ...] = ()
    beside: bool = False
    handed: list[Producer] = attrs.field(factory=list)
    described: bool = False

    @property
    def uses_parts(self) -> bool:
        """Whether functions of the script do a part of the pipeline."""
        kinds = {producer.kind for producer in self.producers} | {batch.kind for batch in self.batches}
        return bool(kinds & {"queue", "source", "function"})

    @property
    def of_slim(self) -> bool:
        """Whether it has a part of TF-Slim's that this package has."""
        return self.described or any(producer.kind == PROVIDER for producer in self.producers)

    def apart(self) -> set[int]:
        """Return the ids of what stands in the other branches."""
        return {id(inner) for branch in self.others for statement in branch for inner in walk(statement)}

    def own(self, block: list[ast.stmt]) -> list[ast.stmt]:
        """Return the statements of a block that are not of a pipeline beside this one."""
        return [s for s in block if id(s) not in self.apart()] if self.beside else block

    def check_apart(self, statements: Iterable[ast.stmt]) -> None:
        """Raise `Unclear` where some statements have parts that are of a pipeline beside this one."""
        inside = {id(node) for statement in statements for node in walk(statement)}
        if self.beside and self.apart() & inside:
            said = "several pipelines in one function, which share a condition or a loop"
            raise Unclear("several-sources", said, self.producers[0].statement)

    def nodes(self) -> list[ast.AST]:
        """Return what stands in the scope, without the other branches."""
        apart = self.apart()
        return [node for node in own_nodes(self.scope) if id(node) not in apart]

    def uses(self, statements: Iterable[ast.AST], name: str) -> list[ast.Name]:
        """Return where it may be read what some statements bind to a name, but in the other branches."""
        apart = self.apart()
        return [node for node in reaching(self.scope).uses(statements, name) if id(node) not in apart]

    def others_of(self, use: ast.Name, statements: Iterable[ast.AST]) -> bool:
        """Whether a name may have its value from something else than some statements."""
        apart = self.apart()
        return any(id(node) not in apart for node in reaching(self.scope).of(use) - {*statements})

    def branches(self) -> list[Stages]:
        """Return the pipelines of branches that have one each, or of a scope that has several side by side.

        Where they cannot be told apart, it is the one of the scope.
        """
        if len(self.producers) < 2:  # noqa: PLR2004 - to be told apart
            return [self]
        chains = [reaching(self.scope).hanging(producer.statement) for producer in self.producers]
        taking = [*(read.statement for read in self.reads), *(batch.statement for batch in self.batches)]
        if any(sum(statement in chain for chain in chains) != 1 for statement in taking):
            return [self]
        parts: list[Stages] = [
            attrs.evolve(
                self,
                producers=[producer],
                reads=[read for read in self.reads if read.statement in chain],
                batches=[batch for batch in self.batches if batch.statement in chain],
                others=tuple([s for s in other if s not in chain] for other in chains if other is not chain),
                beside=True,
            )
            for producer, chain in zip(self.producers, chains, strict=True)
        ]
        return parts if all(part.batches for part in parts) or not self.batches else [self]

    def account(self, node: ast.AST) -> None:
        """Note that an expression belongs to a stage."""
        self.accounted |= {id(inner) for inner in walk(node)}


def bound(call: ast.Call, kind: str) -> Arguments:
    """Return the arguments of a call of an old name.

    Raises:
        Unclear: `*` or `**` hide them.
    """
    found = arguments(call, kind)
    if found is None:
        raise Unclear("arguments", f"the arguments of {kind} cannot be told apart", call)
    return found


def mentions_of(function: ast.FunctionDef, called: str, names: Names) -> Iterator[ast.expr]:
    """Yield the expressions that mean a function of the module, or the method that is called `self.method`."""
    tree = names.bindings.tree
    for node in walk(tree):
        if called.startswith("self."):
            if isinstance(node, ast.Attribute) and node.attr == function.name:
                yield node
        elif isinstance(node, ast.Name) and node.id == function.name and names.bindings.scope_of(node) is tree:
            yield node


def check_only(function: ast.FunctionDef, tree: ast.Module) -> None:
    """Raise `Unclear` where a script has another function of the same name, so that a call may mean either.

    A function and a method are told apart by how they are called.
    """
    methods = [node for kind in walk(tree) if isinstance(kind, ast.ClassDef) for node in kind.body]
    same = [
        node for node in walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == function.name
        and (node in methods) == (function in methods)
    ]  # fmt: skip
    if len(same) > 1:
        said = f"{function.name} is defined more than once: which is called is not clear"
        raise Unclear("defined-twice", said, function)
