"""Which statements become the function that is mapped over records, and whether they can."""

from __future__ import annotations

import ast
import functools
import re
from typing import TYPE_CHECKING

import attrs

from seqrecorder.legacy.migrate.analyze.data_flow import (
    CHANGING,
    binds,
    depending,
    only,
    own_nodes,
    parts_of,
    reads,
    simple,
    statements,
    walk,
    writes,
)
from seqrecorder.legacy.migrate.analyze.effects import effects_of
from seqrecorder.legacy.migrate.analyze.hanging import hanging, mentioned
from seqrecorder.legacy.migrate.analyze.names import PROVIDER
from seqrecorder.legacy.migrate.analyze.reaching import reaching
from seqrecorder.legacy.migrate.rewrite.tfdata_lines import needed
from seqrecorder.legacy.migrate.unclear import Unclear
from seqrecorder.legacy.tensorflow0 import RENAMED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from seqrecorder.legacy.migrate.analyze.hanging import Held
    from seqrecorder.legacy.migrate.analyze.names import Names
    from seqrecorder.legacy.migrate.analyze.stages import Batch, Producer, Read, Reader, Stages
    from seqrecorder.legacy.migrate.source import Source

# What a function that is mapped over records may not do, because it would run in a graph of its own.
_OUTSIDE = (
    *("tf.summary", "tf.Variable", "tf.get_variable", "tf.variable_scope", "tf.global_variables", "tf.layers"),
    *("tf.placeholder", "tf.placeholder_with_default", "tf.Session", "tf.add_to_collection", "tf.get_collection"),
    *(f"tf.{old}" for old, new in RENAMED.items() if new.startswith("summary.")),
)


_HELD = (
    *("tf.placeholder", "tf.placeholder_with_default", "tf.sparse_placeholder", "tf.Variable", "tf.get_variable"),
    *("tf.train.get_global_step", "tf.train.get_or_create_global_step", "tf.train.create_global_step"),
    *("tf.contrib.framework.get_global_step", "tf.contrib.framework.get_or_create_global_step"),
)
"""What gives tensors that change while a graph runs, which a dataset cannot hold."""
_TABLES = re.compile(r"tf\.(contrib\.)?lookup\..*")

_SPARSE = {"tf.VarLenFeature", "tf.io.VarLenFeature", "tf.SparseFeature", "tf.io.SparseFeature"}
_DENSE = {
    *("tf.sparse_tensor_to_dense", "tf.sparse.to_dense", "tf.sparse_to_dense", "tf.sparse_to_indicator"),
    *("tf.sparse.to_indicator", "tf.serialize_sparse", "tf.io.serialize_sparse"),
}
_CHANCE = re.compile(r"(?<!set_)random|normal(?!i)|multinomial|categorical|py_func|dropout")


_ASSIGNING = (ast.Assign, ast.AugAssign, ast.AnnAssign)
_BLOCKS = (ast.If, ast.With, ast.For, ast.While, ast.Try)


@attrs.frozen
class Origin:
    """Where the tensors of one record come from.

    Attributes:
        names: of the variables that hold them.
        statement: the assignment that makes them; None where a helper does.
        read: how files become records; None where elements are not files.
        call: the helper's call.
        argument: the queue in it.
        starred: whether the one name is that of all tensors.
        chosen: where one of several helpers is chosen, and how each reads; none where all read alike.
        zipped: where the parts of a record come from, whose sources are read in step; none where it has one source.
    """

    names: tuple[str, ...]
    statement: ast.stmt | None
    read: Read | None
    call: ast.Call | None = None
    argument: ast.expr | None = None
    starred: bool = False
    chosen: tuple[tuple[ast.stmt, Read], ...] = ()
    zipped: tuple[Origin, ...] = ()

    @property
    def statements(self) -> list[ast.stmt]:
        """The assignments that make the tensors."""
        return [made for each in self.zipped or (self,) if (made := each.statement) is not None]

    @property
    def reader_statements(self) -> list[ast.stmt]:
        """The assignments that make the readers."""
        read = [each.read for each in self.zipped or (self,) if each.read is not None]
        return [made for each in read if (made := each.reader.statement) is not None]


def element(batch: Batch) -> ast.expr:
    """Return what is batched."""
    return needed(batch.arguments, "tensors")


def simple_names(target: ast.expr, statement: ast.stmt) -> tuple[str, ...]:
    """Return the names that tensors are assigned to, or raise `Unclear`."""
    names = tuple(item.id for item in only(ast.Name, parts_of(target)))
    if len(names) != len(parts_of(target)):
        raise Unclear("targets", "the tensors are not simply assigned to names", statement)
    return names


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Return names as parameters, of which no two are the same: of names that are bound twice, the last one is meant.

    >>> distinct(["_", "x", "_"])
    ('_0', 'x', '_')
    """
    return tuple(name + str(index) * (name in names[index + 1 :]) for index, name in enumerate(names))


def draws(tree: ast.Module, names: Names) -> bool:
    """Whether a script calls functions of chance, or Python functions, anywhere."""
    called = map(names.called, walk(tree))
    return any(name is not None and _CHANCE.search(name) for name in called)


class Mover:
    """Finds the statements of one scope that depend on a record.

    Args:
        source: the script.
        names: its names.
        stages: those of the scope.
    """

    def __init__(self, source: Source, names: Names, stages: Stages) -> None:
        self.source, self.names, self.stages = source, names, stages
        self.scope = stages.scope
        self._effects = effects_of(names)

    def moved(
        self,
        origin: Origin,
        block: list[ast.stmt],
        between: list[ast.stmt],
        anchor: ast.stmt,
        producers: Sequence[Producer],
    ) -> list[ast.stmt]:
        """Return the statements that become the mapped function."""
        queues = {producer.target.id for producer in producers if isinstance(producer.target, ast.Name)}
        first = queues if origin.call is not None else set[str]()
        hanging, _ = depending(between, {*origin.names, *first})
        moved = set(hanging)
        made = [s for producer in producers for s in block if producer.statement in [s, *statements([s])]]
        gone = [*made, *origin.statements, *origin.reader_statements]
        own = [s for s in block[: block.index(anchor)] if s not in gone]
        bound = {name for s in moved for name in writes(s)} | {*origin.names}
        taking = [block.index(s) for s in origin.statements if s in block]
        early = block[: min(taking)] if taking and origin.call is None else []
        past = {*origin.names} - {name for s in moved for name in writes(s)}
        own = [s for s in own if s not in early or not writes(s) or not writes(s) <= {*origin.names}]  # that is past
        batching = [batch.statement for batch in self.stages.batches]
        while True:
            more: set[ast.stmt] = {
                s for s in own if s not in moved and writes(s) & (bound - past if s in early else bound)
                and ((isinstance(s, _ASSIGNING) and writes(s) - binds(s)) or self._reaches(s, (*moved, *batching)))
            }  # fmt: skip
            more |= {s for s in between if s not in moved and self._is_spec(s, moved)}
            more |= {s for s in own if s not in moved and self.is_drawn_for(s, (*moved, *batching))}
            if not more:
                break
            moved |= more
            bound |= {name for s in more for name in writes(s)}
        ordered = [s for s in block if s in moved]
        for statement in early:
            if statement in moved and (again := (reads(statement) | writes(statement)) & {*origin.names}):
                said = f"{', '.join(sorted(again))}: of a record, and of something else before"
                raise Unclear("rebinds", said, statement)
        ends = [element(batch) for batch in self.stages.batches]
        self.check(ordered, block[: block.index(anchor)], bound, {*origin.names} | first - queues, ends)
        self._check_escapes(ordered, {*origin.names} | {name for s in ordered for name in binds(s)}, origin)
        return ordered

    def _check_escapes(self, moved: list[ast.stmt], names: set[str], origin: Origin) -> None:
        """Raise where what is of single records is also used beside the batch."""
        within = [node for statement in moved for node in walk(statement)]
        made = [*only(ast.stmt, within), *origin.statements]
        kept = [s for batch in self.stages.batches for s in (batch.statement, *batch.extras)]
        known = {id(node) for node in within} | {id(node) for statement in kept for node in walk(statement)}
        escaped = [use for name in names for use in self.stages.uses(made, name) if id(use) not in known]
        if escaped:
            place = min(escaped, key=lambda use: use.lineno)
            said = ", ".join(sorted({use.id for use in escaped if use.lineno == place.lineno}))
            raise Unclear("escapes", f"{said}: of single records, but used beside the batch", place)

    def _reaches(self, statement: ast.stmt, taking: Iterable[ast.AST]) -> bool:
        """Whether some of what is done to a record, or batched, may read what a statement binds."""
        inside = {id(node) for part in taking for node in walk(part)}
        binding = only(ast.stmt, walk(statement))
        return any(id(use) in inside for name in writes(statement) for use in self.stages.uses(binding, name))

    def _check_order(self, moved: list[ast.stmt], block: list[ast.stmt]) -> None:
        """Raise where a statement that stays changes what one before it reads, which is carried out after it then."""
        putting = [extra for batch in self.stages.batches for extra in batch.extras]
        for statement in (*moved, *putting):
            later = block[block.index(statement) + 1 :] if statement in block else []
            for other in later:
                stays = other not in putting and (other not in moved or statement in putting)
                if stays and (changed := self._effects.clash(statement, other)):
                    said = f"{', '.join(changed)}: changed between what is done to a record and the batch"
                    raise Unclear("order", said, other)

    def _draws(self, statement: ast.stmt) -> bool:
        """Whether a statement makes tensors of chance."""
        called = [call.func for call in only(ast.Call, walk(statement))]
        own = {ast.unparse(function).removeprefix("self.") for function in called}
        return bool(own & self._drawing) or any(map(self._is_chance, called))

    @functools.cached_property
    def _drawn(self) -> set[ast.AST]:
        """The simple statements of the scope that make tensors of chance, or something of such."""
        found = [statement for statement in simple(self.scope) if self._draws(statement)]
        for each in found:
            taking = (s for s in simple(self.scope) if s not in found and _kept(each) & _named(s))
            found += dict.fromkeys([*taking, *(s for s in reaching(self.scope).hanging(each) if s not in found)])
        return {*found}

    def is_drawn_for(self, statement: ast.stmt, taking: Sequence[ast.AST]) -> bool:
        """Whether a statement has tensors of chance that some others read: tf.data would draw them once for all."""
        if self._drawn.isdisjoint(walk(statement)):
            return False
        return self._reaches(statement, taking) or any(_kept(statement) & _named(node) for node in taking)

    def _is_chance(self, function: ast.AST) -> bool:
        name = self.names.resolve(function)
        return name is not None and _CHANCE.search(name) is not None

    @functools.cached_property
    def _drawing(self) -> set[str]:
        """The functions of the script, and the classes, that make tensors of chance when called, or call such."""
        called = {f.name: f for f in only(ast.FunctionDef, walk(self.source.tree))}
        kinds = only(ast.ClassDef, walk(self.source.tree))
        called |= {k.name: f for k in kinds for f in only(ast.FunctionDef, k.body) if f.name == "__init__"}
        inside = {name: [n for part in self._effects.reached([f]) for n in walk(part)] for name, f in called.items()}
        return {name for name, nodes in inside.items() if any(self._is_chance(n.func) for n in only(ast.Call, nodes))}

    def check_held(self, used: Sequence[ast.AST]) -> None:
        """Raise where what makes a dataset, or is done to its records, makes or takes what belongs to a graph.

        Args:
            used: the statements, and the expressions; functions of the script that they call are looked at, too.
        """
        held = self._hanging(lambda name: name in _HELD)
        for node in self._effects.reached(used):
            if taken := held and mentioned(self.names, node) & held:
                said = ", ".join(sorted(name.strip(".()") for _, name in taken))
                said = f"{said}: hangs on a placeholder or a variable, which a dataset cannot hold"
                raise Unclear("graph-state", said, node)
            for inner in walk(node):
                old = self.names.resolve(inner) if isinstance(inner, (ast.Attribute, ast.Name)) else None
                if old is not None and any(old == name or old.startswith(f"{name}.") for name in _OUTSIDE):
                    raise Unclear("graph-state", f"{old} cannot be used on single records inside of tf.data", inner)

    def check_arguments(self) -> None:
        """Raise where an argument of the pipeline changes something: it may go, or be written elsewhere."""
        readers = [reader for several in self.stages.readers.values() for reader in several]
        stages: tuple[Producer | Reader | Batch, ...] = (*self.stages.producers, *readers, *self.stages.batches)
        for stage in stages:
            for name, value in stage.arguments.given.items():
                if name != "tensors" and (changed := self._effects.changed(value)):
                    said = f"{', '.join(sorted(changed))}: changed by an argument of the pipeline"
                    raise Unclear("order", said, value)

    def looks_up(self, moved: Sequence[ast.stmt]) -> bool:
        """Whether what is done to a record, in functions of the script too, takes a table that is initialised."""
        tables = self._hanging(lambda name: _TABLES.fullmatch(name) is not None)
        return bool(tables) and any(mentioned(self.names, node) & tables for node in self._effects.reached(moved))

    def stays_sparse(self, moved: Sequence[ast.AST]) -> bool:
        """Whether a record is parsed to sparse tensors, and nothing that is done to it makes them dense."""
        found = [node for part in self._effects.reached(moved) for node in walk(part)]
        named = {self.names.resolve(node) for node in found if isinstance(node, (ast.Attribute, ast.Name))}
        dense = any(isinstance(node, ast.Attribute) and node.attr == "values" for node in found)
        return bool(named & _SPARSE) and not dense and not named & _DENSE

    def _hanging(self, wanted: Callable[[str], bool]) -> set[Held]:
        """Return what hangs on the results of some functions of TensorFlow."""
        calls = only(ast.Call, walk(self.source.tree))
        made = {c for c in calls if (called := self.names.called(c)) is not None and wanted(called)}
        return hanging(self.names, made) if made else set()

    def _is_spec(self, statement: ast.stmt, moved: set[ast.stmt]) -> bool:
        """Whether a statement makes what only the mapped function needs, such as the features to parse."""
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, (ast.Dict, ast.List, ast.Constant)):
            return False
        names = binds(statement)
        inside = {id(node) for s in moved for node in walk(s)} | {id(node) for node in walk(statement)}
        uses = [n for n in only(ast.Name, walk(self.scope)) if n.id in names and id(n) not in inside]
        return bool(names) and not uses and any(names & reads(s) for s in moved)

    def check(
        self, moved: list[ast.stmt], block: list[ast.stmt], bound: set[str], given: set[str], ends: Sequence[ast.expr]
    ) -> None:
        """Raise where statements of a block cannot become a function.

        Args:
            moved: the statements.
            block: what they stand in, as far as the place of the function.
            bound: names that they set, or change.
            given: names of the function's parameters.
            ends: what it returns.
        """
        self._check_order(moved, block)
        for end in ends:
            self._check_kept(end, given | {name for s in moved for name in _made(s)})
        self.check_held(moved)
        parameters = {node.arg for node in only(ast.arg, walk(self.scope))}
        inside = {node for statement in moved for node in walk(statement)}
        plain = [s for s in only(ast.stmt, self.stages.nodes()) if not isinstance(s, _BLOCKS) and s not in inside]
        stages: tuple[Producer | Read | Batch, ...] = (*self.stages.producers, *self.stages.reads, *self.stages.batches)
        apart = {node for stage in stages for node in walk(stage.statement)}
        decoding = [p.statement for p in self.stages.producers if p.kind == PROVIDER]  # with each record, too
        taking = (*moved, *ends, *decoding)
        held = (s for s in walk(self.source.tree) if isinstance(s, ast.Assign) and s not in inside and self._draws(s))
        drawn: list[ast.stmt] = [s for s in held if any(_kept(s) & _named(node) for node in taking)]
        drawn += [s for s in plain if s not in apart and self.is_drawn_for(s, taking)]
        if late := next(iter(drawn), None):
            said = "tensors of chance are made where tf.data would draw them once for all records"
            raise Unclear("order", said, late)
        elsewhere = {name for s in plain for name in binds(s)}
        seen = set(given)
        for statement in moved:
            if not self.source.alone(statement):
                raise Unclear("one-line", "several statements stand on one line", statement)
            for node in own_nodes(ast.Module([statement], [])):
                if isinstance(node, (ast.Return, ast.Yield, ast.Await, ast.Global, ast.Nonlocal)):
                    raise Unclear("flow", "what is done to a record returns or yields", node)
            self._check_kept(statement, given | {name for s in moved for name in _made(s)})
            early = reads(statement) & bound & (parameters | elsewhere) - seen
            if early & {name for s in moved for name in binds(s)}:
                raise Unclear(
                    "rebinds", f"{', '.join(sorted(early))}: of the function, but set anew for a record", statement
                )
            seen |= binds(statement)

    def _check_kept(self, statement: ast.stmt | ast.expr, own: set[str]) -> None:
        """Raise where something of a record is kept outside of the function that the statement becomes a part of."""
        shared = {name for n in own_nodes(self.scope) if isinstance(n, (ast.Global, ast.Nonlocal)) for name in n.names}
        kept = (self._effects.changed(statement) - own) | (writes(statement) & shared)
        if kept:
            said = f"{', '.join(sorted(kept))}: something of single records is kept in it, where others may look for it"
            raise Unclear("escapes", said, statement)


def _kept(statement: ast.stmt) -> set[str]:
    """Return what a statement changes, or sets an attribute of, as it is written."""
    held = only(ast.Attribute, walk(statement))
    changed = {ast.unparse(n.value) for n in held if n.attr in CHANGING}
    return changed | {ast.unparse(n) for n in held if isinstance(n.ctx, ast.Store)}


def _named(node: ast.AST) -> set[str]:
    """Return the variables and the attributes inside, as they are written."""
    return {ast.unparse(n) for n in walk(node) if isinstance(n, (ast.Name, ast.Attribute))}


def _made(statement: ast.stmt) -> set[str]:
    """Return the names that a statement binds anew, those of functions and classes too."""
    defined = {n.name for n in walk(statement) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    return binds(statement) | defined
