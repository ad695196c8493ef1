"""One function's queue pipeline, rewritten as a pipeline of tf.data.

The statements between the read and the batch, as far as they depend on the record, become a function that is mapped
over the records; all others stay where they are.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import attrs

from seqrecorder.legacy.migrate.analyze.data_flow import (
    block_of,
    covers,
    flattened,
    own_nodes,
    statements,
    walk,
    writes,
)
from seqrecorder.legacy.migrate.analyze.names import QUEUES
from seqrecorder.legacy.migrate.analyze.pipeline_functions import call_lines, signature
from seqrecorder.legacy.migrate.analyze.structure import Structures
from seqrecorder.legacy.migrate.normalize.script import SHUFFLED
from seqrecorder.legacy.migrate.rewrite.in_step import check_ends, in_step, zip_lines
from seqrecorder.legacy.migrate.rewrite.map_function import Mapper
from seqrecorder.legacy.migrate.rewrite.output import HARMLESS, Delivery
from seqrecorder.legacy.migrate.rewrite.reading import Reading
from seqrecorder.legacy.migrate.rewrite.record_origin import Origins
from seqrecorder.legacy.migrate.rewrite.record_statements import Mover, Origin, element
from seqrecorder.legacy.migrate.rewrite.text import Text
from seqrecorder.legacy.migrate.rewrite.tfdata_lines import batch_lines, has_sizes
from seqrecorder.legacy.migrate.source import Edit
from seqrecorder.legacy.migrate.unclear import Unclear

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from seqrecorder.legacy.migrate.analyze.names import Names
    from seqrecorder.legacy.migrate.analyze.pipeline_functions import Part
    from seqrecorder.legacy.migrate.analyze.stages import Batch, Producer, Stages
    from seqrecorder.legacy.migrate.analyze.structure import Structure
    from seqrecorder.legacy.migrate.rewrite.output import Target
    from seqrecorder.legacy.migrate.rewrite.reader_functions import Helper
    from seqrecorder.legacy.migrate.source import Source


class Rewriter:
    """Rewrites the pipeline of one scope.

    Args:
        source: the script.
        names: its names.
        stages: those of the scope; a producer, or several that are read in step, among them.
        helpers: functions of the module that read.
        structures: what functions of the module return.
        target: whether the function goes on to return tensors (`graph`), or returns the `tf.data.Dataset` (`eager`).
        part: what the scope does for others, None where it does all.
        parts: what others do, by how they are called.
        taken: names that other pipelines of the scope take, to which this one's are added.
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
        part: Part | None = None,
        parts: Mapping[str, Part] | None = None,
        taken: set[str] | None = None,
    ) -> None:
        self.part, self.parts = part, parts or {}
        self.structures: Mapping[str, Structure | None] = structures
        self.source, self.names, self.stages, self.helpers, self.target = source, names, stages, helpers, target
        self.scope = stages.scope
        self.text = Text(source, names, stages.scope, taken)
        self.tf = self.text.tf
        if names.module is not None and names.module_in(stages.scope) != self.tf:
            raise Unclear("import", f"{self.tf} is not TensorFlow in this function", stages.scope)
        self.used: set[int] = set()
        self.notes: list[str] = []
        self._mover = Mover(source, names, stages)
        self.name = self.text.fresh("dataset", "pipeline")
        self.text.dataset = self.name
        self._delivery = Delivery(self.text, self._mover, self.name, target)
        self._delivery.structures = structures
        self._gone: list[ast.stmt] = []
        self._reading, self._zip = [Reading(self.text, stages)], list[str]()  # datasets that are zipped

    # What is there ------------------------------------------------------------------------------------------------

    def edits(self) -> list[Edit]:
        """Return the edits.

        Raises:
            Unclear: something is not statically clear.
        """
        self._mover.check_arguments()
        return [*self._of_scope(), *self._marked(), *(edit for reading in self._reading for edit in reading.chosen)]

    def _of_scope(self) -> list[Edit]:
        if self.part is not None and self.part.role == "batch":
            return self._of_tensors(self.part)
        producer = self.stages.producers[0]
        if any(self.names.mentions(self.scope, frozenset({"tf.train.match_filenames_once"}))):
            raise Unclear("match-filenames", "match_filenames_once makes a local variable", producer.statement)
        if self.part is not None and self.part.role == "queue":
            return self._of_queue(producer)
        producers = sorted(self.stages.producers, key=lambda each: each.statement.lineno)
        several = len({ast.unparse(each.target) for each in producers}) == len(producers)
        sources = [[each] for each in producers] if several else [producers]
        places = [self._place(source) for source in sources]
        self._mover.check_held([value for each in self.stages.producers for value in each.arguments.given.values()])
        loops = [batch.loop for batch in self.stages.batches]
        whole = flattened(self._outermost(block_of(self.scope, places[0])), loops, self._is_transparent)
        return self._of_records(sources, places, self.stages.own(whole))

    def _of_records(self, sources: list[list[Producer]], places: list[ast.stmt], block: list[ast.stmt]) -> list[Edit]:
        """Return the edits of a pipeline.

        Args:
            sources: the producer, those that each branch of a condition has, or of several sources that of each.
            places: the statement of each source's producer, or the condition.
            block: what they stand in.
        """
        if other := next((place for place in places[1:] if place not in block), None):
            raise Unclear("branches", "the producers stand under different conditions", other)
        origins = Origins(self.stages, self.helpers, self.text, self.parts)
        found = [origins.find(source[0], block) for source in sources]
        origin = in_step(self.stages, found, block, self.parts, handed=self.part is not None)
        self.used |= origins.used
        known: dict[str, Structure | None] = {**self.structures, **origins.structures}
        self.structures = self._delivery.structures = known
        for each, source in zip(found, sources, strict=True) if origin.zipped else ():
            name = self.text.fresh(f"{each.names[-1]}_{self.name}", f"other_{self.name}")
            self._reading[len(self._zip) :] = [Reading(self.text, attrs.evolve(self.stages, producers=source), name)]
            self._zip.append(name)
        self.text.substitutions += [(each.argument, ", ".join(each.names)) for each in found if each.argument]
        edits, taking = list[Edit](), list[str]()
        if self.stages.batches:
            start = min(block.index(each.statement or place) for each, place in zip(found, places, strict=True)) + 1
            edits += self._batched(origin, block, start)
        else:
            edits += self._unbatched(origin, places[0], taking)
        for each, source, place, reading in zip(found, sources, places, self._reading, strict=True):
            edits += self._source(each, source, place, reading, taking)
        edits += self._hollow()
        self.notes += [*(note for reading in self._reading for note in reading.notes), *self._delivery.notes]
        return edits

    def _source(
        self, origin: Origin, producers: list[Producer], place: ast.stmt, reading: Reading, taking: list[str]
    ) -> list[Edit]:
        """Return the edits of one source: its dataset, and, where no batch follows, what takes a record of it."""
        heads, at, edits = [reading.heads(each) for each in producers], origin.statement, list[Edit]()
        looped = any(batch.loop is not None and at in batch.loop.body for batch in self.stages.batches)
        lines = [*reading.lines(origin, at if at and not looped else place), *taking]
        if not (origin.call or origin.chosen):
            edits += map(self._gone_alone, origin.reader_statements)
        if at is not None and at is not producers[0].statement and not looped:
            edits.append(self.text.replaced(at, lines))
        elif len(heads) > 1:
            edits.append(reading.after(place, lines))
        else:
            heads[0] += lines
            if at is not None and looped:
                edits.append(self._gone_alone(at))
        return edits + [self.text.replaced(p.statement, head) for p, head in zip(producers, heads, strict=True)]

    def _marked(self) -> list[Edit]:
        """Return the edits that shuffle where a script in plainer words has marks."""
        edits: list[Edit] = []
        made = [p.statement.lineno for p in self.stages.producers] + [r.statement.lineno for r in self.stages.reads]
        for node in self.stages.nodes():
            if not isinstance(node, ast.Expr):
                continue
            mark = node.value
            if not isinstance(mark, ast.Call) or ast.unparse(mark.func) != SHUFFLED:
                continue
            inside = any(node in walk(statement) for statement in self._gone)
            late = any(batch.statement.lineno < node.lineno for batch in self.stages.batches)
            if inside or late or node.lineno < max(made, default=0) or not self.stages.batches:
                raise Unclear("explicit-queue", "a queue whose place in the pipeline is not clear", node)
            given = [*map(self.text.of, mark.args), *(f"{k.arg}={self.text.of(k.value)}" for k in mark.keywords)]
            edits.append(self.text.replaced(node, [f"{self.name} = {self.name}.shuffle({', '.join(given)})"]))
        return edits

    def _of_queue(self, producer: Producer) -> list[Edit]:
        """Return the edits of a function that makes a queue: it makes the dataset of what was in the queue."""
        lines = self._reading[0].heads(producer)
        if isinstance(producer.statement, ast.Return):
            return [self.text.replaced(producer.statement, [*lines, f"return {self.name}"])]
        [returned] = [node for node in own_nodes(self.scope) if isinstance(node, ast.Return)]
        return [
            self.text.replaced(producer.statement, lines),
            self.text.replaced(returned, [f"return {self.name}"]),
        ]

    def _of_tensors(self, part: Part) -> list[Edit]:
        """Return the edits of a function that batches what it is given: it is given the dataset."""
        loops = [batch.loop for batch in self.stages.batches]
        block = flattened(part.function.body, loops, self._is_transparent)
        edits = [signature(self.source, part, self.name)]
        edits += self._batched(Origin(part.tensors, None, None), block, 0)
        edits += self._hollow()
        self.notes += self._delivery.notes
        return edits

    def _of_part(self, batch: Batch) -> str:
        """Return the structure of the batches of a function's dataset."""
        structure = self.parts[ast.unparse(batch.arguments.call.func)].structure
        target = batch.statement.targets[0] if isinstance(batch.statement, ast.Assign) else None
        if structure is None and isinstance(target, ast.Name):
            raise Unclear("structure", "what the function that batches returns cannot be told", batch.statement)
        return "list" if structure in ("tuple", "list") or isinstance(target, ast.Tuple) else structure or "one"

    def _place(self, producers: Sequence[Producer]) -> ast.stmt:
        """Return the producer's statement, or the condition whose branches each have one for the same queue."""
        first, *others = producers
        producing = [producer.statement for producer in producers]
        if not others:
            place: ast.stmt = first.statement
        else:
            holding: list[ast.stmt] = [
                node for node in own_nodes(self.scope)
                if isinstance(node, ast.If) and covers(node, producing)
                and all(statement in statements([node]) for statement in producing)
            ]  # fmt: skip
            if len({ast.unparse(p.target) for p in producers}) != 1 or not holding:
                said = "several producers in one function, whose records do not all go into every batch"
                raise Unclear("several-sources", said, others[0].statement)
            if len({p.kind for p in producers}) != 1:
                raise Unclear("several-sources", "the producer is of another kind in each branch", others[0].statement)
            place = holding[0]
        for node in own_nodes(self.scope):
            if isinstance(node, (ast.For, ast.While, ast.Try)) and not {place, *producing}.isdisjoint(walk(node)):
                raise Unclear("in-a-loop", "the pipeline is made inside of a loop or a try", place)
        return place

    def _is_transparent(self, statement: ast.With) -> bool:
        bound = {name for item in statement.items for name in writes(item)}
        used = any(self.stages.uses([statement], name) for name in bound)
        return not used and all(self.names.called(item.context_expr) in HARMLESS for item in statement.items)

    def _outermost(self, block: list[ast.stmt]) -> list[ast.stmt]:
        """Return the block that a block stands in, as long as nothing but names and devices is between them."""
        while True:
            holding = [n for n in own_nodes(self.scope) if isinstance(n, ast.With) and n.body is block]
            if not holding or not self._is_transparent(holding[0]):
                return block
            block = block_of(self.scope, holding[0])

    def _gone_alone(self, statement: ast.stmt) -> Edit:
        """Return the edit by which a statement goes; the comments above it stay, no deeper than a loop that goes."""
        self._gone.append(statement)
        loops = [b.loop for b in self.stages.batches if b.loop is not None and statement in b.loop.body]
        if not loops:
            return self.text.replaced(statement, [])
        first, last = self.source.span(statement)
        comments = [line.strip() for line in self.source.lines[first - 1 : statement.lineno - 1]]
        return Edit(first, last, tuple(self.text.indented(comments, self.source.indent(loops[0]))))

    def _hollow(self) -> list[Edit]:
        """Return the edits by which the headers of loops and `with` go of which nothing is left."""
        edits: list[Edit] = []
        for node in reversed([n for n in own_nodes(self.scope) if isinstance(n, (ast.For, ast.With))]):
            if all(statement in self._gone for statement in node.body):
                self._gone.append(node)
                edits.append(Edit(self.source.span(node)[0], self.source.span(node.body[0])[0] - 1, ()))
        left = [b.loop for b in self.stages.batches if b.loop is not None and b.loop not in self._gone]
        if left:
            raise Unclear("batch-join", "the loop over the readers does more than make examples", left[0])
        return edits

    # Without a batch ----------------------------------------------------------------------------------------------

    def _unbatched(self, origin: Origin, producing: ast.stmt, reading: list[str]) -> list[Edit]:
        """Return the edits that give one record at a time; `reading` becomes longer by the line that takes it."""
        producer = self.stages.producers[0]
        place = origin.statement or producing
        block = block_of(self.scope, place)
        source = self.parts.get(ast.unparse(producer.arguments.call.func)) if producer.kind == "source" else None
        held: dict[str, Structure] = {origin.names[0]: "dict"} if source and source.structure == "dict" else {}
        if self.target == "eager" or self.part is not None:
            edits = self._delivery.finished(
                origin.names,
                place,
                block,
                "prepare" if origin.read is None else "parse",
                starred=origin.starred,
                known=held,
                ending=f".prefetch({self.tf}.data.AUTOTUNE)" if self.target == "eager" else "",
                gone={*origin.statements, *origin.reader_statements, *(p.statement for p in self.stages.producers)},
                alone=self.part is not None,
            )
            last = max(origin.statements, key=lambda statement: statement.lineno, default=producing)
            zipping = zip_lines(origin, self._zip, self.name, self.tf)
            return [*edits, Edit.behind(last, *self.text.indented(zipping, self.source.indent(last)))]
        made = isinstance(producer.target, (ast.List, ast.Tuple)) and len(producer.target.elts) > 1
        target = self.source.segment(producer.target) if made else ", ".join(origin.names)
        got = self._delivery.next()
        reading.append(f"{target} = list({got})" if origin.starred else f"{target} = {got}")
        if origin.call is None:
            return []
        statement = [s for s in statements(block) if origin.call in walk(s)][-1]
        return [self.text.changed(statement)]

    # With a batch -------------------------------------------------------------------------------------------------

    def _batched(self, origin: Origin, block: list[ast.stmt], start: int) -> list[Edit]:
        batches = self.stages.batches
        anchor = self._anchor(block, batches)
        extras: set[ast.stmt] = {extra for batch in batches for extra in batch.extras}
        gone = {*extras, *origin.statements, *origin.reader_statements, *(p.statement for p in self.stages.producers)}
        between = [s for s in block[start : block.index(anchor)] if s not in gone]
        moved = self._mover.moved(origin, block, between, anchor, self.stages.producers)
        given = [value for batch in batches for value in batch.arguments.given.values()]
        self._mover.check_held([*given, *([origin.call] if origin.call is not None else [])])
        self.stages.check_apart([*moved, anchor])
        check_ends(self.stages, origin, between, self.names, self.parts)
        if self.target == "graph" and self._mover.looks_up(moved):
            said = "records are looked up in a table, which a dataset's iterator would need before it is initialised"
            raise Unclear("tables", said, anchor)
        listed: dict[str, Structure] = {origin.names[0]: "list"} if origin.starred else {}
        structures = Structures(self.names, self.scope, moved, self.structures, listed)
        if len({ast.unparse(element(batch)) for batch in batches}) != 1:
            raise Unclear("branches", "the branches batch different tensors", batches[1].statement)
        mapper = Mapper(self.text, self._delivery, self.stages)
        mapping, structure = mapper.mapping(origin, moved, batches[0], structures)
        mapping = [*zip_lines(origin, self._zip, self.name, self.tf), *mapping]
        self._gone += [*moved, *extras]
        edits = [Edit(*self.source.span(statement), ()) for statement in dict.fromkeys((*moved, *extras))]
        first, _ = self.source.span(anchor)
        edits.append(Edit(first, first - 1, tuple(self.text.indented(mapping, self.source.indent(anchor)))))
        padded = [batch for batch in batches if batch.kind == "tf.PaddingFIFOQueue" or batch.arguments["dynamic_pad"]]
        fixed = [batch for batch in padded if batch.kind in QUEUES and has_sizes(batch.arguments["shapes"])]
        if fixed:
            self.notes.append("the sizes that the queue's shapes fix are not checked any more, and may be padded")
        if padded and self._mover.stays_sparse([*moved, *map(element, batches)]):
            raise Unclear("sparse", "sparse tensors (VarLenFeature) are not padded by a dataset", padded[0].statement)
        functions = [batch for batch in batches if batch.kind == "function"]
        if functions and len(functions) != len(batches):
            raise Unclear("branches", "a function of the script batches in one branch only", functions[0].statement)
        if functions:
            calls = [call_lines(batch, self.name, self.text.of) for batch in batches]
            if self.target == "graph" or all(isinstance(batch.statement, ast.Return) for batch in batches):
                return edits + [self._delivery.ended(b, [], call) for b, call in zip(batches, calls, strict=True)]
            structure = self._of_part(batches[0])
            lines, ending = [[f"{self.name} = {call}"] for call in calls], ""
        else:
            lines = [batch_lines(batch, self.name, self.tf, self.text.of) for batch in batches]
            ending = f".prefetch({self.tf}.data.AUTOTUNE)"
        if self.target == "eager":
            block = block_of(self.scope, anchor)
            return edits + self._delivery.datasets(batches, lines, structure, block, ending)
        for batch, made in zip(batches, lines, strict=True):
            edits.append(self._delivery.tensors(batch, [*made, f"{self.name} = {self.name}{ending}"], structure))
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
        if isinstance(anchor, ast.If) and not covers(anchor, [b.statement for b in batches]):
            raise Unclear("branches", "there is a batch under some conditions only", batches[0].statement)
        return anchor
