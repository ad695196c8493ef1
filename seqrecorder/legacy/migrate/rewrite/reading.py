"""How the names of files in a queue become records."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from seqrecorder.legacy.migrate.analyze.data_flow import walk
from seqrecorder.legacy.migrate.analyze.effects import effects_of
from seqrecorder.legacy.migrate.analyze.names import PROVIDER
from seqrecorder.legacy.migrate.analyze.reaching import reaching
from seqrecorder.legacy.migrate.rewrite.imports import package_in
from seqrecorder.legacy.migrate.rewrite.reader_functions import check_reader
from seqrecorder.legacy.migrate.rewrite.record_statements import Mover, element
from seqrecorder.legacy.migrate.rewrite.text import Text
from seqrecorder.legacy.migrate.rewrite.tfdata_lines import item_lines, producer_lines, read_lines
from seqrecorder.legacy.migrate.source import Edit
from seqrecorder.legacy.migrate.unclear import Unclear

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seqrecorder.legacy.migrate.analyze.names import Names
    from seqrecorder.legacy.migrate.analyze.stages import Batch, Producer, Read, Stages
    from seqrecorder.legacy.migrate.rewrite.record_statements import Origin
    from seqrecorder.legacy.migrate.source import Source


class Reading:
    """Writes what makes records of files, for one scope.

    Args:
        text: writes for the scope.
        stages: of the scope.
        name: of the dataset, where it is not that of the scope.

    Attributes:
        chosen: the edits where one of several ways to read is chosen.
        notes: how records differ from those of the queues.
    """

    def __init__(self, text: Text, stages: Stages, name: str = "") -> None:
        self.text, self.stages, self.name, self.tf = text, stages, name or text.dataset, text.tf
        self.chosen: list[Edit] = []
        self.notes: list[str] = []

    def heads(self, producer: Producer) -> list[str]:
        """Return the lines that make the dataset of what a producer puts into its queue."""
        if any(self.text.names.mentions(producer.statement, frozenset({"tf.train.match_filenames_once"}))):
            raise Unclear("match-filenames", "match_filenames_once makes a local variable", producer.statement)
        if producer.kind == PROVIDER:
            lines = item_lines(producer, self.name, package_in(self.text.source.tree), self.text.of)
        else:
            lines = producer_lines(producer, self.name, self.tf, self.text.of, self._is_list)
        return self.text.units(lines, producer.statement)

    def _is_list(self, files: ast.expr) -> bool:
        """Whether an expression is a Python list, wherever it was made in the scope."""
        if isinstance(files, ast.Name):
            made = [
                getattr(each, "value", None) for each in reaching(self.stages.scope).of(files) if _names_alone(each)
            ]
            return bool(made) and len(made) == len(reaching(self.stages.scope).of(files)) and all(map(_is_listed, made))
        return _is_listed(files)

    def lines(self, origin: Origin, place: ast.stmt) -> list[str]:
        """Return the lines that make records of files, for the place of a statement."""
        if origin.read is None:
            return []
        producer = self.stages.producers[0]
        if origin.read.reader.kind == "tf.FixedLengthRecordReader":
            self.notes.append("a partial record at the end of a file, which the reader dropped, is an error now")
        keyed = self.text.fresh("records_of", "other_records_of")
        joining = [batch.readers for batch in self.stages.batches if batch.readers and _repeats_reader(batch, origin)]
        readers = self.text.of(joining[0]) if joining else None
        lines = read_lines(origin.read, self.name, keyed, self.tf, self.text.of, readers=readers)
        if origin.chosen:
            lines = self._chosen(origin, producer, keyed, readers)
        self._check(origin.read, place, origin.call)
        return self.text.units(lines, producer.statement)

    def _check(self, read: Read, place: ast.stmt, call: ast.Call | None = None) -> None:
        """Raise where a reader is used for more, or what it takes is something else at the place of a statement."""
        if call is None:
            check_reader(read, self.text.source.tree, self.stages)
        effects = effects_of(self.text.names)
        for made in [call] if call is not None else [each.arguments.call for each in read.choices or (read.reader,)]:
            if late := effects.between(self.stages.scope, made, made.lineno, place.end_lineno or 0):
                raise Unclear("order", f"{', '.join(late)}: changed between the queue and what reads from it", made)

    def _chosen(self, origin: Origin, producer: Producer, name: str, readers: str | None) -> list[str]:
        """Return the line that makes records as what was chosen reads, which is told where it is chosen."""
        start, end = f"{self.name} = {self.name}.flat_map(", ")"
        for statement, read in origin.chosen:
            lines = read_lines(read, self.name, name, self.tf, self.text.of, readers=readers)
            late = origin.call is not None and statement.lineno > producer.statement.lineno
            if len(lines) != 1 or not lines[0].startswith(start) or late:
                said = "ways to read are chosen behind the queue, or of whole files, or with keys or several records"
                raise Unclear("queue-given", said, statement)
            choosing = [f"{name} = {lines[0].removeprefix(start).removesuffix(end)}"]
            put = self.after if origin.call is not None else self.text.replaced
            self.chosen.append(put(statement, choosing))
        return [f"{start}{name}{end}"]

    def after(self, statement: ast.stmt, lines: Sequence[str]) -> Edit:
        """Return the edit that writes lines behind a statement."""
        return Edit.behind(statement, *self.text.indented(lines, self.text.source.indent(statement)))


def handed_edits(source: Source, names: Names, stages: Stages) -> list[Edit]:
    """Return the edits by which a scope makes datasets of the files of queues that it gives to functions.

    Raises:
        Unclear: one cannot be made.
    """
    text, edits = Text(source, names, stages.scope), list[Edit]()
    mover = Mover(source, names, stages)
    for producer in stages.handed:
        mover.check_held([*producer.arguments.given.values()])
        text.dataset = ast.unparse(producer.target)
        lines = [] if producer.kind == "given" else Reading(text, stages).heads(producer)
        edits.append(text.replaced(producer.statement, lines))
    return edits


def _names_alone(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and all(isinstance(target, ast.Name) for target in node.targets)


def _is_listed(value: ast.expr | None) -> bool:
    listing = isinstance(value, ast.Call) and ast.unparse(value.func) in ("glob.glob", "os.listdir", "sorted", "list")
    return isinstance(value, (ast.List, ast.ListComp)) or listing


def _repeats_reader(batch: Batch, origin: Origin) -> bool:
    """Whether each example of a list has a reader of its own: one reader reads file after file, however many decode."""
    made: ast.AST | None = origin.call
    if made is None and origin.read is not None:
        made = origin.read.reader.statement or origin.read.statement
    places: list[ast.AST] = [batch.loop] if batch.loop is not None else [element(batch)]
    return made is not None and any(made in walk(place) for place in places)
