"""One function's queue pipeline, rewritten as a pipeline of tf.data.

The statements between the read and the batch, as far as they depend on the record, become a function that is mapped
over the records; all others stay where they are.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Literal

from seqrecorder.migrate.flow import block_of, depending, loads, own_nodes, reads, statements
from seqrecorder.migrate.moving import Mover, Origin, element
from seqrecorder.migrate.reader_functions import Helper, calls_of, check_reader
from seqrecorder.migrate.source import Edit, Verbatim
from seqrecorder.migrate.stages import Unclear
from seqrecorder.migrate.structure import Structures
from seqrecorder.migrate.wording import batch_lines, producer_lines, read_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from seqrecorder.migrate.names import Names
    from seqrecorder.migrate.source import Source
    from seqrecorder.migrate.stages import Batch, Producer, Stages
    from seqrecorder.migrate.structure import Structure

Target = Literal["graph", "eager"]


class Rewriter:
    """Rewrites the pipeline of one scope.

    Args:
        source: the script.
        names: its names.
        stages: those of the scope; one producer among them.
        helpers: functions of the module that read.
        structures: what functions of the module return.
        target: whether the function goes on to return tensors (`graph`), or returns the `tf.data.Dataset` (`eager`).
    """

    def __init__(
        self,
        source: Source,
        names: Names,
        stages: Stages,
        *,
        helpers: dict[str, Helper],
        structures: Mapping[str, Structure | None],
        target: Target,
    ) -> None:
        self.structures = structures
        self.source, self.names, self.stages, self.helpers, self.target = source, names, stages, helpers, target
        self.scope = stages.scope
        self.tf = names.module or "tf"
        self.used: set[int] = set()
        self.notes: list[str] = []
        self._taken = {node.id for node in ast.walk(self.scope) if isinstance(node, ast.Name)}
        self._taken |= {node.arg for node in ast.walk(self.scope) if isinstance(node, ast.arg)}
        self._mover = Mover(source, names, stages)
        self.name = self._fresh("dataset", "pipeline")

    def _fresh(self, wanted: str, other: str) -> str:
        wanted = wanted if wanted not in self._taken else other
        while wanted in self._taken:
            wanted += "_"
        self._taken.add(wanted)
        return wanted

    # What is there ------------------------------------------------------------------------------------------------

    def edits(self) -> list[Edit]:
        """Return the edits.

        Raises:
            Unclear: something is not statically clear.
        """
        if len(self.stages.producers) != 1:
            raise Unclear("several-sources", "several producers in one function", self.stages.producers[1].statement)
        [producer] = self.stages.producers
        if any(self.names.mentions(self.scope, frozenset({"tf.train.match_filenames_once"}))):
            raise Unclear("match-filenames", "match_filenames_once makes a local variable", producer.statement)
        block = block_of(self.scope, producer.statement)
        self._check_place(block, producer)
        origin = self._origin(producer, block)
        text = self._text
        unit = self.source.unit(self.source.indent(producer.statement))
        head = [_with_unit(line, unit) for line in producer_lines(producer, self.name, self.tf, text)]
        reading_lines: list[str] = []
        if origin.read is not None:
            if origin.call is None:
                check_reader(origin.read, self.source.tree)
            keyed = self._fresh("records_of", "with_keys")
            lines = read_lines(origin.read, self.name, keyed, self.tf, text)
            reading_lines = [_with_unit(line, unit) for line in lines]
        if origin.read is not None and origin.read.reader.kind == "tf.FixedLengthRecordReader":
            self.notes.append("a partial record at the end of a file, which the reader dropped, is an error now")
        apart = origin.statement is not None and origin.statement is not producer.statement
        edits = []
        if origin.read is not None and origin.read.reader.statement is not None and origin.call is None:
            edits.append(self._replace(origin.read.reader.statement, []))
        if not self.stages.batches:
            reading_lines.append(self._unbatched(origin, producer))
            edits += self._called_with(origin, block)
        if apart and origin.statement is not None:
            edits += [self._replace(producer.statement, head), self._replace(origin.statement, reading_lines)]
        else:
            edits.append(self._replace(producer.statement, [*head, *reading_lines]))
        return edits + (self._batched(origin, block, producer) if self.stages.batches else [])

    def _check_place(self, block: list[ast.stmt], producer: Producer) -> None:
        for node in own_nodes(self.scope):
            if isinstance(node, (ast.For, ast.While, ast.Try)) and block_is_inside(block, node):
                raise Unclear("in-a-loop", "the pipeline is made inside of a loop or a try", producer.statement)

    def _origin(self, producer: Producer, block: list[ast.stmt]) -> Origin:
        """Return where the tensors of a record come from, and check that nothing else uses the queue."""
        target = producer.target
        if producer.kind == "tf.train.slice_input_producer" or producer.dequeued:
            items = target.elts if isinstance(target, ast.Tuple) else [target]
            names = tuple(item.id for item in items if isinstance(item, ast.Name))
            if len(names) != len(items):
                raise Unclear("targets", "the tensors are not simply assigned to names", producer.statement)
            starred = isinstance(target, ast.Name) and not producer.dequeued
            return Origin(names, producer.statement, None, starred=starred)
        if not isinstance(target, ast.Name):
            raise Unclear("targets", "the queue is not simply assigned to a name", producer.statement)
        uses = loads(self.scope, target.id)
        found = [*self._reads_of(target.id), *self._helped(target.id, block), *self._dequeued(target.id, block)]
        if len(uses) != 1 or len(found) != 1:
            what = "nothing in this file reads from the queue" if not found else "the queue is used more than once"
            raise Unclear(
                "queue-used", what + ", or in a way that is not known", uses[0] if uses else producer.statement
            )
        if found[0].statement is not None and found[0].statement not in block:
            raise Unclear("branches", "the read stands under another condition than the producer", found[0].statement)
        return found[0]

    def _reads_of(self, queue: str) -> Iterator[Origin]:
        for read in self.stages.reads:
            if isinstance(read.queue, ast.Name) and read.queue.id == queue:
                names = (read.value,) if read.key is None else (read.key, read.value)
                yield Origin(names, read.statement, read)

    def _helped(self, queue: str, block: list[ast.stmt]) -> Iterator[Origin]:
        for helper, call in calls_of(self.stages, self.helpers):
            argument = helper.argument(call)
            if isinstance(argument, ast.Name) and argument.id == queue:
                inside = [s for s in block if call in ast.walk(s)]
                if not inside or isinstance(inside[0], (ast.For, ast.While, ast.If)) or _repeats(inside[0], call):
                    raise Unclear("several-readers", "the function that reads is called several times", call)
                self.used.add(id(call.func))
                yield Origin((self._fresh(helper.read.value, "record"),), None, helper.read, call, argument)

    def _dequeued(self, queue: str, block: list[ast.stmt]) -> Iterator[Origin]:
        for statement in block:
            value = statement.value if isinstance(statement, ast.Assign) else None
            func = value.func if isinstance(value, ast.Call) else None
            if (
                isinstance(statement, ast.Assign)
                and isinstance(func, ast.Attribute)
                and func.attr == "dequeue"
                and isinstance(func.value, ast.Name)
                and func.value.id == queue
                and isinstance(statement.targets[0], ast.Name)
            ):
                yield Origin((statement.targets[0].id,), statement, None)

    # Without a batch ----------------------------------------------------------------------------------------------

    def _unbatched(self, origin: Origin, producer: Producer) -> str:
        """Return the line that gives one record at a time."""
        if self.target == "eager":
            raise Unclear("no-batch", "one record at a time, which --target=graph can keep", producer.statement)
        made = isinstance(producer.target, ast.Tuple)
        target = self.source.segment(producer.target) if made else ", ".join(origin.names)
        got = f"list({self._next()})" if origin.starred else self._next()
        return f"{target} = {got}"

    def _called_with(self, origin: Origin, block: list[ast.stmt]) -> list[Edit]:
        """Return the edit that hands a record to the function that had the queue."""
        if origin.call is None or origin.argument is None:
            return []
        [statement] = [s for s in block if origin.call in ast.walk(s)]
        changed = self.source.moved(statement, self.source.indent(statement), [(origin.argument, origin.names[0])])
        return [Edit(*self.source.span(statement), tuple(changed))]

    def _next(self) -> str:
        return f"{self.tf}.data.make_one_shot_iterator({self.name}).get_next()"

    # With a batch -------------------------------------------------------------------------------------------------

    def _batched(self, origin: Origin, block: list[ast.stmt], producer: Producer) -> list[Edit]:
        batches = self.stages.batches
        anchor = self._anchor(block, batches)
        start = block.index(origin.statement if origin.statement is not None else producer.statement) + 1
        extras: set[ast.stmt] = {extra for batch in batches for extra in batch.extras}
        between = [s for s in block[start : block.index(anchor)] if s not in extras]
        moved = self._mover.moved(origin, block, between, anchor, producer)
        structures = Structures(self.names, moved, self.structures)
        tensors = {ast.unparse(element(batch)) for batch in batches}
        if len(tensors) != 1:
            raise Unclear("branches", "the branches batch different tensors", batches[1].statement)
        mapping, structure = self._mapping(origin, moved, batches[0], structures)
        edits = [Edit(*self.source.span(statement), ()) for statement in (*moved, *extras)]
        first, _ = self.source.span(anchor)
        edits.append(Edit(first, first - 1, tuple(self._indented(mapping, self.source.indent(anchor)))))
        for batch in batches:
            lines = batch_lines(batch, self.name, self.tf, self._text)
            lines.append(f"{self.name} = {self.name}.prefetch({self.tf}.data.AUTOTUNE)")
            edits += self._delivered(batch, lines, structure, block)
        return edits

    def _anchor(self, block: list[ast.stmt], batches: Sequence[Batch]) -> ast.stmt:
        """Return the statement of the block that all batches stand in."""
        holding = [s for s in block if any(batch.statement in [s, *statements([s])] for batch in batches)]
        if len(holding) > 1:
            raise Unclear("several-batches", "the records are batched twice", batches[1].statement)
        if not holding:
            raise Unclear("branches", "the batches do not stand beside the producer", batches[0].statement)
        anchor = holding[0]
        if len(batches) > 1 and not isinstance(anchor, ast.If):
            raise Unclear("several-batches", "the records are batched twice", batches[1].statement)
        if any(batch.statement not in [anchor, *statements([anchor])] for batch in batches):
            raise Unclear("branches", "the batches stand under different conditions", batches[0].statement)
        if self.target == "eager" and anchor is not batches[0].statement:
            raise Unclear("branches", "the batch stands under a condition", batches[0].statement)
        return anchor

    def _mapping(
        self, origin: Origin, moved: list[ast.stmt], batch: Batch, structures: Structures
    ) -> tuple[list[str], str]:
        """Return the lines that map records to what is batched, and the structure of that."""
        tensors = element(batch)
        bucket = batch.arguments["input_length"] if "input_length" in batch.arguments.given else None
        structure, returned = self._returned(tensors, structures, origin)
        if bucket is not None:
            inner = (
                f"({returned},)" if structure == "one-list" else f"({returned})" if structure != "dict" else returned
            )
            returned, structure = f"{self._text(bucket)}, {inner}", "pair"
        elif structure == "one-list":
            structure = "one"
        parameters = ", ".join(("*" if origin.starred else "") + name for name in origin.names)
        if not moved and returned == ", ".join(origin.names) and not origin.starred and origin.call is None:
            return [], structure
        if not moved and origin.starred and returned in (f"tuple({origin.names[0]})", origin.names[0]):
            return [], structure
        function = self._fresh("prepare" if origin.read is None else "parse", "parse_record")
        unit = self.source.unit(self.source.indent(batch.statement))
        lines = [f"def {function}({parameters}):"]
        body = [self.source.moved(statement, unit, self._substitutions(statement, origin)) for statement in moved]
        if origin.call is not None and not moved:
            returned = self._text(tensors, [(origin.argument, origin.names[0])])  # type: ignore[list-item]
        ending = [f"{unit}return {returned}"]
        if moved and (direct := self._direct(moved[-1], returned, structures)) is not None:
            number, column = direct
            ending = body.pop()
            first = self.source.span(moved[-1])[0]
            ending[number - first] = f"{unit}return {ending[number - first][column + len(unit) :]}"
        lines += [line for part in (*body, ending) for line in part]
        threads = batch.arguments["num_threads"]
        parallel = (
            ""
            if threads is None or batch.arguments.constant("num_threads", 1) == 1
            else f", num_parallel_calls={self._text(threads)}"
        )
        return ["", *lines, "", f"{self.name} = {self.name}.map({function}{parallel})"], structure

    def _direct(self, last: ast.stmt, returned: str, structures: Structures) -> tuple[int, int] | None:
        """Return where the value stands that a function can return as it is, without naming it first."""
        if not isinstance(last, ast.Assign) or len(last.targets) != 1 or last.value.lineno != last.lineno:
            return None
        if not self.source.lines[last.lineno - 1].isascii():  # columns count bytes
            return None
        target = last.targets[0]
        same = ast.unparse(target).strip("()") == returned
        if not same or structures.of(last.value) not in ("dict", "tuple", "one"):
            return None
        if isinstance(target, ast.Tuple) and structures.of(last.value) != "tuple":
            return None
        return last.lineno, last.value.col_offset - last.col_offset

    def _substitutions(self, node: ast.AST, origin: Origin | None = None) -> list[tuple[ast.expr, str]]:
        found: list[tuple[ast.expr, str]] = []
        if (
            origin is not None
            and origin.call is not None
            and origin.argument is not None
            and origin.argument in ast.walk(node)
        ):
            found.append((origin.argument, origin.names[0]))
        return found

    def _returned(self, tensors: ast.expr, structures: Structures, origin: Origin) -> tuple[str, str]:
        """Return the structure of what is batched, and the expression that the mapped function returns."""
        if isinstance(tensors, (ast.List, ast.Tuple)) and not any(isinstance(i, ast.Starred) for i in tensors.elts):
            parts = [self._text(item) for item in tensors.elts]
            if len(parts) == 1:
                return "one-list", parts[0]
            return "list", ", ".join(parts)
        if isinstance(tensors, ast.Name) and tensors.id in origin.names:
            if origin.starred:
                return "list", tensors.id
            return "one", tensors.id
        structure = structures.of(tensors)
        if structure is None:
            raise Unclear(
                "structure", f"whether {ast.unparse(tensors)} is a dictionary or a list cannot be told", tensors
            )
        if structure == "list":
            return "list", f"tuple({self._text(tensors)})"
        return ("list" if structure == "tuple" else structure), self._text(tensors)

    def _delivered(self, batch: Batch, lines: list[str], structure: str, block: list[ast.stmt]) -> list[Edit]:
        """Return the edits that hand the batches on: their tensors, or the dataset."""
        statement = batch.statement
        if self.target == "graph":
            got = self._next()
            target = statement.targets[0] if isinstance(statement, ast.Assign) else None
            if structure == "list" and not isinstance(target, ast.Tuple):
                got = f"list({got})"
            lines.append(f"return {got}" if target is None else f"{self.source.segment(target)} = {got}")
            return [self._replace(statement, lines)]
        if isinstance(statement, ast.Return):
            return [self._replace(statement, [*lines, f"return {self.name}"])]
        return self._finished(statement, lines, structure, block)

    def _finished(self, statement: ast.Assign, lines: list[str], structure: str, block: list[ast.stmt]) -> list[Edit]:
        """Return the edits that make the statements after the batch a second mapped function."""
        after = block[block.index(statement) + 1 :]
        last = after[-1] if after and not self._is_conditional(block) else None
        if not isinstance(last, ast.Return) or last.value is None:
            raise Unclear("returns", "the batch is not what the function returns in the end", statement)
        target, returned, value = statement.targets[0], last, last.value
        items = target.elts if isinstance(target, ast.Tuple) else [target]
        names = [item.id for item in items if isinstance(item, ast.Name)]
        if len(names) != len(items):
            raise Unclear("targets", "the batch is not simply assigned to names", statement)
        if ast.unparse(value) == ast.unparse(target):
            if depending(after[:-1], set(names))[0]:
                raise Unclear("returns", "the batch is used for more than being returned", after[0])
            return [self._replace(statement, lines), self._replace(returned, [f"return {self.name}"])]
        hanging, bound = depending(after, set(names))
        parts = _parts(value)
        if returned not in hanging or any(part is None or not reads(part) & bound for part in parts):
            raise Unclear("returns", "the function returns more than the batch", returned)
        self._mover.check(hanging[:-1], after, set(), set())
        unit, function = self.source.unit(self.source.indent(statement)), self._fresh("finish", "finish_batch")
        star = "*" if structure == "list" and not isinstance(target, ast.Tuple) else ""
        finish = ["", f"def {function}({star}{', '.join(names)}):"]
        edits = [self._replace(statement, lines)]
        for inner in hanging[:-1]:
            finish += self.source.moved(inner, unit, self._substitutions(inner))
            edits.append(Edit(*self.source.span(inner), ()))
        result = (
            ", ".join(self._text(part) for part in parts if part) if isinstance(value, ast.List) else self._text(value)
        )
        finish += [f"{unit}return {result}", "", f"return {self.name}.map({function})"]
        return [*edits, self._replace(returned, finish)]

    def _is_conditional(self, block: list[ast.stmt]) -> bool:
        """Whether a block is a part of a function that may be passed by."""
        passing = [node for node in own_nodes(self.scope) if isinstance(node, (ast.If, ast.For, ast.While, ast.Try))]
        return isinstance(self.scope, ast.Module) or any(block_is_inside(block, node) for node in passing)

    # Text ---------------------------------------------------------------------------------------------------------

    def _text(self, node: ast.AST, more: Sequence[tuple[ast.expr, str]] = ()) -> str:
        """Return an expression's text on one line, with the names of the target."""
        wanted = [*self._substitutions(node), *more]
        text = self.source.segment(node)
        if not wanted:
            return " ".join(text.split("\n")) if "\n" in text else text
        replaced = {id(inner): new for inner, new in wanted}
        return ast.unparse(_Replacing(replaced).visit(_copied(node, replaced)))

    def _replace(self, statement: ast.stmt, lines: Sequence[str]) -> Edit:
        if not self.source.alone(statement):
            raise Unclear("one-line", "several statements stand on one line", statement)
        indent = self.source.indent(statement)
        return Edit(statement.lineno, statement.end_lineno or statement.lineno, tuple(self._indented(lines, indent)))

    def _indented(self, lines: Sequence[str], indent: str) -> list[str]:
        return [line if isinstance(line, Verbatim) else indent + line if line.strip() else "" for line in lines]


def _with_unit(line: str, unit: str) -> str:
    return unit + line.removeprefix("    ") if line.startswith("    ") else line


def _parts(value: ast.expr) -> list[ast.expr | None]:
    if isinstance(value, (ast.Tuple, ast.List)):
        return list(value.elts)
    return list[ast.expr | None](value.values) if isinstance(value, ast.Dict) else [value]


class _Replacing(ast.NodeTransformer):
    def __init__(self, replaced: dict[int, str]) -> None:
        self._replaced = replaced

    def visit(self, node: ast.AST) -> ast.AST:
        if id(node) in self._replaced:
            return ast.parse(self._replaced[id(node)], mode="eval").body
        return self.generic_visit(node)


def _copied(node: ast.AST, replaced: dict[int, str]) -> ast.AST:
    """Return a copy of an expression, whose replaced parts are known by their new ids."""
    memo: dict[int, ast.AST] = {}

    def copy(inner: ast.AST) -> ast.AST:
        made = type(inner)(**{
            name: copy(value) if isinstance(value, ast.AST)
            else [copy(item) if isinstance(item, ast.AST) else item for item in value] if isinstance(value, list)
            else value
            for name, value in ast.iter_fields(inner)
        })  # fmt: skip
        memo[id(inner)] = made
        return made

    made = copy(node)
    for old in [key for key in replaced if key in memo]:
        replaced[id(memo[old])] = replaced[old]
    return made


def _repeats(statement: ast.stmt, call: ast.Call) -> bool:
    kinds = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)
    return any(isinstance(node, kinds) and call in ast.walk(node) for node in ast.walk(statement))


def block_is_inside(block: list[ast.stmt], node: ast.AST) -> bool:
    """Whether a block is a part of a node."""
    return any(inner is block[0] for inner in ast.walk(node) if inner is not node)
