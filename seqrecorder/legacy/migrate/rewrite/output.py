"""How batches, or records, are handed on: as tensors that an iterator gives, or as the dataset itself."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Literal

from seqrecorder.legacy.migrate.analyze.data_flow import (
    binds,
    block_of,
    depending,
    only,
    only_indexed,
    own_nodes,
    parts_of,
    reads,
    walk,
    writes,
)
from seqrecorder.legacy.migrate.analyze.structure import Structures
from seqrecorder.legacy.migrate.findings import Finding, comment
from seqrecorder.legacy.migrate.rewrite.record_statements import distinct, draws
from seqrecorder.legacy.migrate.unclear import Unclear

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from seqrecorder.legacy.migrate.analyze.stages import Batch
    from seqrecorder.legacy.migrate.analyze.structure import Structure
    from seqrecorder.legacy.migrate.rewrite.record_statements import Mover
    from seqrecorder.legacy.migrate.rewrite.text import Text
    from seqrecorder.legacy.migrate.source import Edit

Target = Literal["graph", "eager"]
"""Whether functions go on to return tensors, or return a `tf.data.Dataset`."""

HARMLESS = ("tf.name_scope", "tf.device", "tf.variable_scope")
"""What statements may leave when they become a function that is mapped."""


class Delivery:
    """Hands on what a dataset gives.

    Args:
        text: writes for the scope.
        mover: of the scope.
        dataset: name of the variable.
        target: of the script.
    """

    def __init__(self, text: Text, mover: Mover, dataset: str, target: Target) -> None:
        self.text, self.mover, self.dataset, self.target = text, mover, dataset, target
        self.notes: list[str] = []
        self.structures: Mapping[str, Structure | None] = {}  # that functions of the script return

    def parallel(self, *, several: bool) -> str:
        """Return the argument that lets a function be mapped over several records at a time.

        Args:
            several: whether several were read at a time before; if not, what is drawn is drawn in a fixed order.
        """
        if not several and draws(self.text.source.tree, self.text.names):
            return ""
        return f", num_parallel_calls={self.text.tf}.data.AUTOTUNE"

    def next(self) -> str:
        """Return the expression of the tensors of one element."""
        return f"{self.text.tf}.data.make_one_shot_iterator({self.dataset}).get_next()"

    def tensors(self, batch: Batch, lines: Sequence[str], structure: str) -> Edit:
        """Return the edit by which a batch statement gives tensors."""
        alone = not isinstance(batch.statement, ast.Assign) or not isinstance(batch.statement.targets[0], ast.Tuple)
        return self.ended(batch, lines, f"list({self.next()})" if structure == "list" and alone else self.next())

    def ended(self, batch: Batch, lines: Sequence[str], value: str) -> Edit:
        """Return the edit that writes lines in place of a batch statement, and that it gives an expression."""
        statement = batch.statement
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        ending = f"return {value}" if target is None else f"{self.text.source.segment(target)} = {value}"
        return self.text.replaced(statement, [*lines, ending])

    def datasets(
        self,
        batches: Sequence[Batch],
        lines: Sequence[list[str]],
        structure: str,
        block: list[ast.stmt],
        ending: str,
    ) -> list[Edit]:
        """Return the edits by which the function returns the dataset of batches.

        Args:
            batches: under different conditions, if there are several.
            lines: that make each of them.
            structure: of a batch.
            block: what they stand in.
            ending: of the dataset, after all else.
        """
        if all(isinstance(batch.statement, ast.Return) for batch in batches):
            returned = f"return {self.dataset}{ending}"
            return [self.text.replaced(b.statement, [*made, returned]) for b, made in zip(batches, lines, strict=True)]
        statements = only(ast.Assign, (batch.statement for batch in batches))
        targets = {ast.unparse(statement.targets[0]) for statement in statements}
        if len(targets) != 1 or len(statements) != len(batches):
            raise Unclear("branches", "the branches do not give the batch the same names", batches[0].statement)
        target = statements[0].targets[0]
        items = parts_of(target)
        names = [item.id for item in only(ast.Name, items)]
        starred = structure == "list" and not isinstance(target, (ast.Tuple, ast.List))
        place = next(s for s in block if any(statement in walk(s) for statement in statements))
        edits = [self.text.replaced(s, made) for s, made in zip(statements, lines, strict=True)]
        if structure == "pair" or len(names) != len(items):
            return edits + self._paired(target, place, block, ending)
        known: dict[str, Structure] = {names[0]: "dict"} if structure == "dict" else {}
        return edits + self.finished(names, place, block, "finish", starred=starred, known=known, ending=ending)

    def _paired(self, target: ast.expr, place: ast.stmt, block: list[ast.stmt], ending: str) -> list[Edit]:
        """Return the edits for `length, (a, b) = ...`, whose function takes the two parts."""
        parts = target.elts if isinstance(target, ast.Tuple) else []
        if len(parts) != 2:  # noqa: PLR2004 - the length and the tensors
            raise Unclear("targets", "the batch is not simply assigned to names", place)
        names: list[str] = []
        unpacking: list[str] = []
        for part, other in zip(parts, ("length", "tensors"), strict=True):
            if isinstance(part, ast.Name):
                names.append(part.id)
            else:
                names.append(self.text.fresh(other, f"all_{other}"))
                unpacking.append(f"{self.text.source.segment(part)} = {names[-1]}")
        known: dict[str, Structure] = {names[1]: "tuple"}
        return self.finished(
            names, place, block, "finish", unpacking=unpacking, also=binds(target), known=known, ending=ending
        )

    def finished(
        self,
        names: Sequence[str],
        place: ast.stmt,
        block: list[ast.stmt],
        function: str,
        *,
        starred: bool = False,
        unpacking: Sequence[str] = (),
        also: set[str] = frozenset(),  # type: ignore[assignment]
        known: Mapping[str, Structure] | None = None,
        ending: str = "",
        gone: AbstractSet[ast.stmt] = frozenset(),
        alone: bool = False,
    ) -> list[Edit]:
        """Return the edits that make the statements after a place a mapped function, whose dataset is returned.

        Args:
            names: that elements of the dataset have.
            place: after which they stand.
            block: what the place stands in.
            function: name of the function.
            starred: whether the one name is that of all parts of an element.
            unpacking: statements that the function begins with.
            also: further names that those bind.
            known: the structures of names that are no tensors.
            ending: of the dataset, after the function is mapped.
            gone: statements that make datasets now.
            alone: whether the dataset is returned to what takes nothing beside it.
        """
        behind = self._after(block, place)
        after = [statement for statement in behind if statement not in gone]
        returned = after[-1] if after else None
        if not isinstance(returned, ast.Return) or returned.value is None:
            raise Unclear("returns", "what is read is not what the function returns in the end", place)
        first = {*names, *also}
        hanging, bound = depending(after, first)
        while more := [  # which they would hide, or which tf.data would draw once
            s for s in after if s not in hanging and (writes(s) & bound or self.mover.is_drawn_for(s, hanging))
        ]:
            chosen = {*hanging, *more}
            hanging, bound = [s for s in after if s in chosen], bound | {name for s in more for name in writes(s)}
        summaries = [s for s in hanging if self.target == "eager" and self._summarises(s)]
        hanging = [s for s in hanging if s not in summaries]
        value = returned.value
        parts = _parts(value)
        of_batch = [part for part in parts if part is not None and reads(part) & bound]
        left = _left_of(first, after[:-1])
        if not of_batch or returned not in hanging or not all(reads(part) & left for part in of_batch):
            raise Unclear("returns", "what is read is not what the function returns in the end", returned)
        others = [part for part in parts if part not in of_batch]
        if others and (alone or not isinstance(value, (ast.Tuple, ast.List))):
            raise Unclear("returns", "the function returns more than what is read", returned)
        body = hanging[:-1]
        listed = starred and not only_indexed([*body, *([] if isinstance(value, ast.Name) else of_batch)], names[0])
        unpacking = [*unpacking, *([f"{names[0]} = list({names[0]})"] if listed else [])]
        several: Structure = "list" if listed else "tuple"
        given: dict[str, Structure] = {**dict.fromkeys(first, "one"), **({names[0]: several} if starred else {})}
        structures = Structures(self.text.names, self.text.scope, body, self.structures, {**given, **(known or {})})
        result = self._result(value, of_batch, others, structures)
        self.mover.check(body, behind, bound, first, of_batch)
        text = self.text
        if not body and result == ", ".join(names) and not (starred and others):
            line = f"return {', '.join([self.dataset + ending, *self._all(others)])}"
            return [*map(self._told, summaries), text.replaced(returned, [line])]
        unit, name = text.source.unit(text.source.indent(returned)), text.fresh(function, f"{function}_batch")
        lines = ["", f"def {name}({'*' * starred}{', '.join(distinct(names))}):"]
        lines += [f"{unit}{line}" for line in unpacking] + text.moved(body, unit) + [f"{unit}return {result}"]
        if not body and not unpacking and (direct := only_call(result, names)) is not None and not starred:
            lines, name = [], direct
        parallel = self.parallel(several=False) if function != "finish" else ""
        mapped = f"{self.dataset}.map({name}{parallel}){ending}"
        edits = [*text.source.gone(body), *map(self._told, summaries)]
        lines += [""] * bool(lines) + [f"return {', '.join([mapped, *self._all(others)])}"]
        return [*edits, text.replaced(returned, lines)]

    def _result(
        self, value: ast.expr, of_batch: list[ast.expr], others: list[ast.expr | None], structures: Structures
    ) -> str:
        """Return what the mapped function returns: no lists, of which a dataset would make one tensor."""
        if others:
            self.notes.append(f"returned are the dataset and {', '.join(self._all(others))}, in this order")
        if isinstance(value, (ast.Tuple, ast.List)):
            return ", ".join(self._as_tuple(part, structures) for part in of_batch)
        return self._as_tuple(value, structures)

    def _as_tuple(self, value: ast.expr, structures: Structures) -> str:
        """Return an expression as it is, or as a tuple where it is a list."""
        structure = structures.of(value)
        lists = [item for item in _held(value) if structures.of(item) == "list"]
        if structure is None or lists:
            what = ast.unparse(lists[0] if lists else value)
            raise Unclear("structure", f"{what} is, or may be, a list, of which a dataset makes one tensor", value)
        return f"tuple({self.text.of(value)})" if structure == "list" else self.text.of(value)

    def _all(self, parts: Sequence[ast.expr | None]) -> list[str]:
        return [self.text.of(part) for part in parts if part is not None]

    def _summarises(self, statement: ast.stmt) -> bool:
        called = self.text.names.called(statement.value) if isinstance(statement, ast.Expr) else None
        return called is not None and called.startswith("tf.summary.")

    def _told(self, statement: ast.stmt) -> Edit:
        """Return the edit that tells what a statement did, which has no place in a dataset."""
        finding = Finding(
            statement.lineno, "summary", f"write it where the batches are used: {self.text.of(statement)}"
        )
        return self.text.replaced(statement, [comment(finding)])

    def _after(self, block: list[ast.stmt], place: ast.stmt) -> list[ast.stmt]:
        """Return the statements that always follow a place, those after a `with` that it stands in too."""
        scope = self.text.scope
        if isinstance(scope, ast.Module):
            raise Unclear("returns", "what is read is used by the module itself, and not returned", place)
        found = block[block.index(place) + 1 :]
        while block is not scope.body and not (found and isinstance(found[-1], ast.Return)):
            holder = next(
                node for node in own_nodes(scope) if getattr(node, "body", None) is block or _holds(node, block)
            )
            if not isinstance(holder, ast.With) or not all(self._is_harmless(item) for item in holder.items):
                raise Unclear("branches", "the pipeline stands under a condition, or in a loop", place)
            block = block_of(scope, holder)
            found = [*found, *block[block.index(holder) + 1 :]]
        return found

    def _is_harmless(self, item: ast.withitem) -> bool:
        return self.text.names.called(item.context_expr) in HARMLESS


def _holds(node: ast.AST, block: list[ast.stmt]) -> bool:
    return any(getattr(node, name, None) is block for name in ("orelse", "finalbody"))


def _left_of(names: set[str], block: Sequence[ast.stmt]) -> set[str]:
    """Return the names that may hang on some names after statements, of which those go that are bound to others."""
    left = set(names)
    for statement in block:
        if reads(statement) & left:
            left |= writes(statement)
        elif isinstance(statement, ast.Assign):
            left -= binds(statement)
    return left


def _parts(value: ast.expr) -> list[ast.expr | None]:
    if isinstance(value, (ast.Tuple, ast.List)):
        return list(value.elts)
    return list[ast.expr | None](value.values) if isinstance(value, ast.Dict) else [value]


def _held(value: ast.expr) -> Iterator[ast.expr]:
    """Yield what a dictionary or a tuple that is written out holds, at any depth."""
    parts = value.values if isinstance(value, ast.Dict) else value.elts if isinstance(value, ast.Tuple) else []
    for part in parts:
        yield part
        yield from _held(part)


def only_call(result: str, names: Sequence[str]) -> str | None:
    """Return the text of `f` in `f(a, b)` where those are the names; None for all else."""
    call = ast.parse(result, mode="eval").body if "#" not in result and "\n" not in result else None
    if not isinstance(call, ast.Call) or call.keywords or not isinstance(call.func, (ast.Name, ast.Attribute)):
        return None
    same = [ast.unparse(item) for item in call.args] == list(names)
    return ast.unparse(call.func) if same else None
