"""Code generation: the queues, readers and producers of a graph become `tf.data` transformations."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.legacy.convert.body import Body
from seqrecorder.legacy.convert.module import Function, Module
from seqrecorder.legacy.convert.parsing import PARSERS, flat_shapes, read_parse
from seqrecorder.legacy.convert.text import NotPrintableError, plain, unique
from seqrecorder.legacy.convert.trace import identifier, line_of
from seqrecorder.legacy.graph import (
    CONDITIONALS,
    DEFAULT_SEED,
    DEQUEUES,
    ENQUEUES,
    READS,
    Runners,
    SparseSlot,
    back_from,
    consumers,
    describe,
    seeds,
    source_of,
    sources_of,
    through_identities,
)
from seqrecorder.legacy.lifted import datasets_of
from seqrecorder.legacy.readers import call_of, options_of
from seqrecorder.legacy.subgraph import are_apart, constants, cut_section, slot_of_take, tensors_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seqrecorder.legacy.convert.trace import Trace
    from seqrecorder.legacy.graph import Feed
    from seqrecorder.legacy.lifted import Recipe
    from seqrecorder.legacy.subgraph import Section, State


@attrs.define(eq=False)
class Facts:
    """Facts about a pipeline, collected while its graph is walked.

    Attributes:
        files: the input paths, in order; empty if no files are read.
        pattern: the glob pattern passed to `tf.train.match_filenames_once`, if any.
        reader: the operation that reads the files.
        several: whether other operations read other files.
        limit: the number of epochs; None if unlimited or unknown.
        batch: the batch size; None if there are no batches.
        rest: whether a smaller last batch is kept.
        recipe: the parameters of the buckets or segments; None if there are none.
        parses: the operations that parse records.
        shuffles: the buffer sizes of shuffle queues.
        mixes: whether the order of the files is shuffled.
        unlike: messages on how batches differ from those of `sr.read`, with advice.
        mixed: whether the values of a record may depend on its batch or on the thread that reads it.
    """

    files: list[str] = attrs.field(factory=list)
    pattern: str | None = None
    reader: Any = None
    several: bool = False
    limit: int | None = None
    batch: int | None = None
    rest: bool = True
    recipe: Recipe | None = None
    parses: list[Any] = attrs.field(factory=list)
    shuffles: list[int] = attrs.field(factory=list)
    mixes: bool = False
    unlike: list[str] = attrs.field(factory=list)
    mixed: bool = False

    def differences(self) -> list[str]:
        """List differences between the batches of the function and those of `sr.read`.

        `sr.read` reads a dataset of the records that the function parses.
        """
        operations = self.reader.graph.get_operations() if self.parses and self.reader is not None else ()
        shapes = {name: shape for op in self.parses for name, shape in flat_shapes(op).items()}
        flat = [f"{name!r} comes without its shape {n}: reshape it in dataset.map()" for name, n in shapes.items()]
        swapped = [_SWAPPED] * any(map(is_swapped, operations))
        return [*self.unlike, *swapped, *flat, *[_FILES] * (self.mixes and not self.shuffles)]


_SWAPPED = "decode_raw(little_endian=False): such features stay bytes; decode them in dataset.map()"
_FILES = "the function shuffles its files; sr.read keeps their order: add shuffle=, a number of records"
_LEFT_OUT = "the function leaves out records (keep_input); sr.read reads all: use sr.open(...)[...].where(...)"
_PIECES = "enqueue_many divides what is read; sr.read gives whole records: leave out batch=, and unbatch()"
_NO_LENGTH = "the function selects a bucket by a value of its own; sr.Bucket, by a list's length: compare them"
_ON_LENGTHS = ("Identity", "Cast", "StridedSlice", "Reshape", "ExpandDims", "Shape", "Size", "SparseToDense")
"""Operations that may lie between a parsed list and its length."""
_UNEQUAL = ("seed", "seed2", "shared_name", "container", "_class")
"""Attributes of operations that change nothing, or only random numbers."""


class Pipeline:
    """Printer that walks over a graph, from the returned tensors back to the files.

    Args:
        trace: the trace of the function.
        state: the state of its graph.
        careful: whether to read files with `seqrecorder.legacy`, which splits lines and records as TensorFlow 1 did.

    Attributes:
        module: the printed module.
        facts: the facts collected on the walk.
    """

    def __init__(self, trace: Trace, state: State, *, careful: bool = False) -> None:
        self.module = Module(trace, state)
        self.facts = Facts()
        self._trace, self._state, self._careful = trace, state, careful
        self._runners = Runners(trace.graph)
        self._datasets = datasets_of(trace.graph)
        self._tail: Function | None = None
        self._taken: set[str] = set()
        self._returned: set[str] = {tensor.name for tensor in trace.returned.tensors}

    def print(self) -> None:
        """Print the pipeline of all returned tensors."""
        returned = self._trace.returned
        section = self._cut(returned.tensors)
        arguments = self._take([section], "dataset", final=True)
        if not self._push_up(section, arguments):
            self._finish(section, arguments)

    def _cut(self, targets: Sequence[Any], after: Sequence[Any] = ()) -> Section:
        section = cut_section(targets, after, self._datasets, self._state.feed)
        self.facts.parses += [op for op in section.inner.values() if op.type in PARSERS]
        return section

    # Returned structure -----------------------------------------------------------------------------------

    def _push_up(self, section: Section, arguments: dict[str, str]) -> bool:
        """Make the last function return the structure that the input function returned.

        If there is no suitable function, a `map` is added. The result is False, and nothing is changed, if the outputs
        need more operations.
        """
        returned = self._trace.returned
        names = list(arguments)
        taken = {op.outputs[1].name: slot_of_take(op).name for op in section.takes}
        leaves = [getattr(leaf, "values", leaf) for leaf in returned.leaves]
        tensors = [through_identities(leaf).name if hasattr(leaf, "op") else "" for leaf in leaves]
        tensors = [taken.get(name, name) for name in tensors]
        computed = any(op.type != "Identity" for op in section.inner.values())
        if computed or not set(tensors) <= set(names) or any(x in self.module.packed for x in tensors):
            return False
        order = [names.index(name) for name in tensors]
        whole = order == [*range(len(names))]
        tail = self._tail
        flat = isinstance(returned.structure, tuple) and len(returned.structure) == len(order) > 1
        single = len(order) == 1 and not isinstance(returned.structure, (tuple, dict))
        if whole and (flat or single):
            return True
        if tail is None or sum(f"({tail.name}" in line for line in self.module.lines) > 1:
            names = unique(list(arguments.values()))
            text = self._structure([names[i] for i in order])
            packed = text if text[:1] in "({[" or ", " not in text else f"({text})"
            self.module.add(f"dataset = dataset.map(lambda {', '.join(names)}: {packed})")
            return True
        tail.returned = self._structure([tail.results[i] for i in order])
        self.module.redefine(tail)
        return True

    def _finish(self, section: Section, arguments: dict[str, str]) -> None:
        self.facts.mixed |= self.facts.batch is not None
        returned = self._trace.returned
        body = Body(self.module, section, arguments)
        body.results()
        if any(hasattr(leaf, "row_splits") for leaf in returned.leaves):
            raise NotPrintableError("a ragged tensor is returned")
        texts = list(map(body.show, returned.leaves))
        base = "parse" if any(pull.type in READS for pull in section.pulls) else "finish"
        shapes = [getattr(leaf, "shape", None) for leaf in returned.leaves]
        self._map(self.module.function(base, body, texts, "dataset", shapes, pack=self._structure), "dataset")

    def _structure(self, texts: Sequence[str]) -> str:
        rest = iter(texts)

        def text(value: Any, *, outside: bool = False) -> str:
            if isinstance(value, dict):
                leaves = {key: text(value[key]) for key in sorted(value)}
                return "{" + ", ".join(f"{plain(key)}: {leaves[key]}" for key in value) + "}"
            if isinstance(value, tuple):
                inside = ", ".join(map(text, value)) + "," * (len(value) == 1)
                return inside if outside and len(value) > 1 else f"({inside})"
            return next(rest)

        return text(self._trace.returned.structure, outside=True)

    def _function(
        self, section: Section, arguments: dict[str, str], shapes: Sequence[Any], variable: str
    ) -> Function | None:
        """Print a section as a function that maps the elements of a dataset."""
        reads = any(pull.type in READS for pull in section.pulls)
        base = "parse" if reads or any(op.type in PARSERS for op in section.inner.values()) else "prepare"
        body = Body(self.module, section, arguments)
        return self.module.function(base, body, body.results(), variable, shapes)

    def _map(self, function: Function | None, variable: str) -> None:
        if function is None:
            return
        parallel = "" if function.random else ", num_parallel_calls=tf.data.AUTOTUNE"
        self.module.add(f"{variable} = {variable}.map({function.name}{parallel})")
        self._tail = function

    # Sources of a section ---------------------------------------------------------------------------------

    def _take(self, sections: Sequence[Section], variable: str, *, final: bool = False) -> dict[str, str]:
        """Print the sources of a section.

        The result maps its input tensors to their names in the printed code, in the order of the elements.

        Args:
            sections: the sections of the threads that fill one queue; the first is printed.
            variable: the name of the dataset variable.
            final: whether the section returns the final batch, after the last queue.
        """
        pulls = sections[0].pulls
        for pull in pulls:
            names = [source.name for source in sources_of(pull)]
            if not self._taken.isdisjoint(names):
                raise NotPrintableError(f"{describe(pull)}: several operations take from its source")
            self._taken.update(names)
        if len(pulls) == 1:
            arguments = self._pull(pulls[0], sections, variable, final=final)
        else:
            arguments = self._zip(pulls, sections[0], variable)
        limit = self._state.limit(sections[0])
        if limit is not None:
            self.module.add(f"{variable} = {variable}.take({limit})")
        return arguments

    def _zip(self, pulls: Sequence[Any], section: Section, variable: str) -> dict[str, str]:
        sources = []
        for number, pull in enumerate(pulls):
            name = variable if not number else f"{variable}_{number + 1}"
            sources.append((name, self._pull(pull, [section], name, final=False)))
        self.module.add(f"{variable} = tf.data.Dataset.zip(({', '.join(name for name, _ in sources)}))")
        if any(len(arguments) > 1 for _, arguments in sources):
            names = [f"part_{number + 1}" for number in range(len(sources))]
            inside = [n if len(a) == 1 else f"*{n}" for n, (_, a) in zip(names, sources, strict=True)]
            self.module.add(f"{variable} = {variable}.map(lambda {', '.join(names)}: ({', '.join(inside)}))")
        self._tail = None
        tensors = [tensor for _, arguments in sources for tensor in arguments]
        names = unique([name for _, arguments in sources for name in arguments.values()])
        return dict(zip(tensors, names, strict=True))

    def _pull(self, pull: Any, sections: Sequence[Section], variable: str, *, final: bool) -> dict[str, str]:
        if pull.name in self._datasets:
            return self._recipe(pull, variable)
        if pull.type in READS:
            return self._read([pull, *(section.pulls[0] for section in sections[1:])], variable)
        queue = source_of(pull.inputs[0])
        if queue.type == "PriorityQueueV2":
            raise NotPrintableError(f"{describe(queue)}: the order of priorities")
        components = self._contents(queue, variable)
        outputs = [pull.outputs[number] for number in components]
        if queue.type == "RandomShuffleQueueV2":
            size = max(int(queue.get_attr("capacity")), int(queue.get_attr("min_after_dequeue")), 1)
            seed = queue.get_attr("seed2")
            self.module.add(f"{variable} = {variable}.shuffle({size}" + (f", seed={seed})" if seed else ")"))
            self.facts.shuffles.append(size)
        if pull.type != "QueueDequeueV2":
            self._batch(pull, queue, variable, final=final)
        names = line_of(pull).targets
        if len(names) != len(outputs) or len(set(names)) < len(names):
            names = tuple(components.values())
        rows = zip(pull.outputs, self._runners.feeds(queue)[0].components, strict=True)
        self.module.packed |= {x.name for x, row in rows if isinstance(row, SparseSlot) and _pads(queue)}
        return dict(zip((x.name for x in outputs), unique(names), strict=True))

    def _live(self, queue: Any) -> list[bool]:
        """Check for each component of a queue whether it is used.

        The result is a list with one entry per component. If no component is used, all of them count as used.
        """
        count = len(self._runners.feeds(queue)[0].components)
        pulls = [op for op in consumers(queue) if op.type in DEQUEUES]
        live = [any(self._is_used(pull.outputs[i]) for pull in pulls) for i in range(count)]
        return live if any(live) else [True] * count

    def _is_used(self, tensor: Any) -> bool:
        """Check whether a tensor is used.

        It is used if the function returns it, or if an operation computes with it. It may pass through further queues
        first.
        """
        return tensor.name in self._returned or any(self._uses(op, tensor) for op in tensor.consumers())

    def _uses(self, op: Any, tensor: Any) -> bool:
        """Check whether an operation computes with a tensor, or passes it on to an operation that does."""
        if op.type == "Identity":
            return self._is_used(op.outputs[0])
        if op.type not in ENQUEUES:
            return True
        queue, position = source_of(op.inputs[0]), next(i for i, x in enumerate(op.inputs[1:]) if x is tensor)
        return queue.name not in self._runners.filled or self._live(queue)[position]

    def _batch(self, pull: Any, queue: Any, variable: str, *, final: bool) -> None:
        count = self.number(pull.inputs[1])
        drop = pull.type == "QueueDequeueManyV2"
        size = self._batch_size(count, rest=not drop) if final else str(count)
        self.module.add(f"{variable} = {variable}.{'padded_' * _pads(queue)}batch({size}, drop_remainder={drop})")

    def _batch_size(self, count: int, *, rest: bool) -> str:
        """Print the size of the final batch.

        The size becomes a parameter of `inputs`. It remains a constant if a later operation contains the same number,
        unless this number is 1.
        """
        import tensorflow as tf

        section = cut_section(self._trace.returned.tensors, (), self._datasets, self._state.feed)
        values = [tf.get_static_value(op.outputs[0]) for op in section.inner.values() if op.type == "Const"]
        numbers = [value for value in values if value is not None and value.dtype.kind in "iu" and value.ndim < 2]  # noqa: PLR2004 - numbers and shapes
        self.facts.batch, self.facts.rest = count, rest
        if count > 1 and any(count in value for value in numbers):
            return str(count)
        return self.module.parameter("batch_size", str(count))

    def number(self, tensor: Any) -> int:
        """Evaluate an integer tensor that does not depend on a queue."""
        return int(constants([tensor], self._state, self._datasets)[0])

    # Queues -----------------------------------------------------------------------------------------------

    def _contents(self, queue: Any, variable: str) -> dict[int, str]:
        """Print the pipeline that fills a queue.

        The result maps the position of each component in the queue to a name. Components that the pipeline does not
        yield are left out.
        """
        feeds = self._runners.feeds(queue)
        feed = feeds[0]
        pulled = bool(self._cut(feed.components, feed.after).pulls)
        live = [number for number, alive in enumerate(self._live(queue)) if alive or not pulled]
        rows = [[each.components[number] for number in live] for each in feeds]
        sections = [self._cut([*f.selects, *row], f.after) for f, row in zip(feeds, rows, strict=True)]
        names = {number: _name_of(feed.components[number]) for number in live}
        kinds = [_structure(section) for section in sections]
        if not pulled:
            if len(feeds) > 1:
                raise NotPrintableError(f"{len(feeds)} operations fill {describe(queue)}")
            self._producer(queue, variable)
            return names
        if len(feeds) > 1 and are_apart(sections):
            raise NotPrintableError(f"{describe(queue)}: threads take from different sources")
        arguments = self._take(sections, variable)
        declared = list(queue.get_attr("shapes")) or [None] * len(feed.components)
        shapes = [_declared(feed.components[number], declared[number], feed) for number in live]
        shapes = [None] * len(feed.selects) + shapes
        sparse = {row for row in itertools.chain(*rows) if isinstance(row, SparseSlot)}
        self.module.serialized |= sparse if _pads(queue) else set()
        if len(set(kinds)) > 1:
            if len({sources_of(section.pulls[0])[0] for section in sections}) > 1:
                raise NotPrintableError(f"{len(sections)} different operations fill {describe(queue)}")
            self._deal([*zip(kinds, sections, strict=True)], arguments, shapes, variable)
        else:
            self._map(self._function(sections[0], arguments, shapes, variable), variable)
        if feed.keep is not None:
            self._keep(variable, "keep" if feed.keep[1] else "~keep", "*row" if len(live) > 1 else "row")
        if feed.many:
            if sections[0].pulls[0].type in ("ReaderReadV2", "QueueDequeueV2"):
                self.facts.unlike.append(_PIECES)
            self.module.add(f"{variable} = {variable}.unbatch()")
        return names

    def _keep(self, variable: str, condition: str, row: str) -> None:
        """Print a filter of records.

        The condition depends on the first component of each record, which a `map` then removes.
        """
        self.module.add(f"{variable} = {variable}.filter(lambda keep, *_: {condition})")
        self.module.add(f"{variable} = {variable}.map(lambda keep, {row}: row)")
        self._tail = None
        self.facts.unlike.append(_LEFT_OUT)

    def _deal(
        self, branches: Sequence[tuple[Any, Section]], arguments: dict[str, str], shapes: Sequence[Any], variable: str
    ) -> None:
        """Print a `map` that applies several functions to the records in turn.

        It replaces threads that process the records of one source in different ways.
        """
        functions: dict[Any, Function | None] = {}
        for kind, section in branches:
            taken = section.pulls[0].outputs[-len(arguments) :]
            mine = dict(zip((tensor.name for tensor in taken), arguments.values(), strict=True))
            functions.setdefault(kind, self._function(section, mine, shapes, variable))
        record = "*record" if len(arguments) > 1 else "record"
        calls = [f"lambda: {f.name if (f := functions[kind]) else 'tf.identity'}({record})" for kind, _ in branches]
        period = next(n for n in range(1, len(calls) + 1) if calls[:n] * (len(calls) // n) == calls)
        chosen = f"tf.switch_case(tf.cast(number % {period}, tf.int32), [{', '.join(calls[:period])}])"
        self.module.add(f"{variable} = {variable}.enumerate().map(lambda number, record: {chosen})")
        self.facts.mixed, self._tail = True, None

    def _producer(self, queue: Any, variable: str) -> None:
        """Print a producer, which fills a queue with constants."""
        [feed] = self._runners.feeds(queue)
        section = self._cut(feed.components, feed.after)
        limit = self.facts.limit = self._state.limit(section)
        shuffle = next(iter(section.shuffles), None)
        if any(isinstance(component, SparseSlot) for component in feed.components):
            raise NotPrintableError(f"{describe(queue)}: it holds constant sparse tensors")
        tensors = [shuffle.inputs[0]] if shuffle is not None else list(feed.components)
        queued = [through_identities(component).op for component in feed.components]
        if section.stateful and (len(section.stateful) > 1 or queued != [shuffle]):
            raise NotPrintableError(f"{describe(queue)}: it holds random values, or shuffled ones that were changed")
        values = constants(tensors, self._state, self._datasets)
        values = values if feed.many else [value[np.newaxis] for value in values]
        count = len(values[0])
        epochs = None if limit is None else str(limit)
        if epochs is not None and "num_epochs" not in self.module.parameters:
            epochs = self.module.parameter("num_epochs", epochs)
        seed = (0, 0) if shuffle is None else seeds(shuffle) or (0, 0)
        source = self._slices(tensors, values)
        self.facts.mixes |= source == "files" and shuffle is not None and count > 1
        if shuffle is not None and any(seed) and count > 1:
            graph_seed = "" if seed[0] == DEFAULT_SEED else f", graph_seed={seed[0]}"
            repeats = "" if epochs is None else f"num_epochs={epochs}, "
            self.module.add(f"{variable} = sr.legacy.producer({source}, {repeats}seed={seed[1]}{graph_seed})")
        else:
            self.module.add(f"{variable} = tf.data.Dataset.from_tensor_slices({source})")
            if shuffle is not None and (count > 1 or (source == "files" and not any(seed))):
                size = "len(files)" if source == "files" else str(count)
                self.module.add(f"{variable} = {variable}.shuffle({size})")
            if epochs != "1":
                self.module.add(f"{variable} = {variable}.repeat({epochs or ''})")

    def _slices(self, tensors: Sequence[Any], values: Sequence[Any]) -> str:
        """Print the argument of `from_tensor_slices` for the values of a producer."""
        texts = []
        for tensor, value in zip(tensors, values, strict=True):
            if value.dtype == object and value.ndim == 1 and "files" not in self.module.parameters:
                paths = [path.decode() for path in value.tolist()]
                pattern = self._pattern(tensor)
                text = f"sorted(tf.io.gfile.glob({plain(pattern)}))" if pattern is not None else plain(value)
                name = self.module.define("FILES", text)
                self.facts.files, self.facts.pattern = paths, pattern
                texts.append(self.module.parameter("files", name))
            elif value.dtype.kind == "i" and value.ndim == 1 and np.array_equal(value, np.arange(len(value))):
                kind = "" if value.dtype == np.int32 else f", dtype=tf.{value.dtype.name}"
                texts.append(f"tf.range({len(value)}{kind})")
            else:
                texts.append(self.module.constant(line_of(tensor.op).targets, value))
        return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"

    def _pattern(self, tensor: Any) -> str | None:
        """Find the glob pattern of `tf.train.match_filenames_once` behind a tensor, or return None if there is none."""
        import tensorflow as tf

        for op in back_from([tensor.op]):
            for user in op.graph.get_operations() if "matching_filenames" in op.name else ():
                known = tf.get_static_value(user.inputs[0]) if user.type == "MatchingFiles" else None
                if known is not None and np.size(known) == 1:
                    return str(np.ravel(known)[0].decode())
        return None

    # Readers ----------------------------------------------------------------------------------------------

    def _read(self, pulls: Sequence[Any], variable: str) -> dict[str, str]:
        pull = pulls[0]
        readers = {source_of(each.inputs[0]) for each in pulls}
        reader, queue = source_of(pull.inputs[0]), source_of(pull.inputs[1])
        reads = [op for each in readers for op in consumers(each) if op.type in READS]
        keyed = any(self._is_used(op.outputs[0]) for op in reads)
        self._contents(queue, variable)
        self.facts.several |= self.facts.reader is not None
        self.facts.reader = self.facts.reader if self.facts.several else reader
        count = self.number(pull.inputs[2]) if pull.type == "ReaderReadUpToV2" else None
        self._reading(reader, variable, keyed=keyed, count=count, readers=len(readers))
        self._tail = None
        names = line_of(pull).targets
        names = names if len(names) == 2 else ("", "")  # noqa: PLR2004 - a key and a value
        key, value = unique([names[0] or "key", names[1] or "record"])
        return {pull.outputs[0].name: key, pull.outputs[1].name: value} if keyed else {pull.outputs[1].name: value}

    def _reading(self, reader: Any, variable: str, *, keyed: bool, count: int | None, readers: int) -> None:
        """Print the dataset that reads each file."""
        kind, options = reader.type.removesuffix("ReaderV2"), options_of(reader)
        if kind in ("Identity", "WholeFile"):
            value = "path" if kind == "Identity" else "tf.io.read_file(path)"
            self.module.add(f"{variable} = {variable}.map(lambda path: {f'(path, {value})' if keyed else value})")
            if count is not None:
                self.module.add(f"{variable} = {variable}.batch(1)")
            return
        exact = not self._careful
        if kind == "TFRecord":
            new = ", ".join(["tf.data.TFRecordDataset({}", *map(plain, options.values())]) + ")"
            exact = True
        elif kind == "TextLine":
            new = "tf.data.TextLineDataset({})" + "".join(f".skip({lines})" for lines in options.values())
        else:
            size, *ends = (options.get(f"{name}_bytes", 0) for name in ("record", "header", "footer"))
            new = f"tf.data.FixedLengthRecordDataset({', '.join(map(str, ['{}', size, *(ends if any(ends) else [])]))})"
            exact &= "encoding" not in options and options.get("hop_bytes", size) == size
        text = new if exact and not keyed else f"sr.legacy.{call_of(reader, '{}')}"
        text += "" if exact or keyed else ".map(lambda key, record: record)"
        text += "" if count is None else f".batch({count})"
        inside = "lambda path: " + text.format("path")
        if readers > 1:
            self.module.add(f"{variable} = {variable}.interleave({inside}, cycle_length={readers})")
        elif count is not None or ".skip(" in text:
            self.module.add(f"{variable} = {variable}.flat_map({inside})")
        else:
            self.module.add(f"{variable} = {text.format(variable)}")

    # Functions of contrib ---------------------------------------------------------------------------------

    def _recipe(self, pull: Any, variable: str) -> dict[str, str]:
        """Print the tf.data replacement of a `tf.contrib` batching function."""
        recipe = self._datasets[pull.name].recipe
        if recipe is None:
            raise NotPrintableError(f"{pull.name!r} is a dataset of another graph")
        section = self._cut([*recipe.keep, *recipe.targets])
        arguments = self._take([section], variable)
        self.facts.batch, self.facts.rest, self.facts.recipe = recipe.sizes[0], recipe.smaller, recipe
        if recipe.steps:
            raise NotPrintableError(f"{pull.name!r}: segments of sequences, whose states are saved between batches")
        if not recipe.by_length or not _is_length(recipe.targets[0]):
            self.facts.unlike.append(_NO_LENGTH)
        shapes = [None] * len(recipe.keep) + [target.shape for target in recipe.targets]
        self._map(self._function(section, arguments, shapes, variable), variable)
        if recipe.keep:
            self._keep(variable, "keep", "*row")
        vector = "[0]" if recipe.targets[0].shape.rank == 1 else ""
        sizes = plain(np.array(recipe.sizes))
        if len(set(recipe.sizes)) == 1:
            sizes = f"[{self._batch_size(recipe.sizes[0], rest=recipe.smaller)}] * {len(recipe.sizes)}"
        boundaries = self.module.define("BOUNDARIES", plain(np.array(recipe.boundaries)))
        self.module.add(
            f"{variable} = {variable}.bucket_by_sequence_length(lambda length, *_: length{vector}, {boundaries}, "
            f"{sizes}, drop_remainder={not recipe.smaller})"
        )
        self._tail = None
        names = [_name_of(target) for target in recipe.targets]
        tensors = pull.outputs[1:]
        if not recipe.by_length:
            self.module.add(f"{variable} = {variable}.map(lambda bucket, *row: (tf.cast(bucket[0], tf.int32), *row))")
            tensors, names = pull.outputs, ["bucket", *names[1:]]
        elif pull.outputs[0].consumers():
            raise NotPrintableError(f"{pull.name!r}: the bucket number is used")
        if len(tensors) != len(names):
            raise NotPrintableError(f"{pull.name!r}: sparse tensors in buckets")
        return dict(zip((x.name for x in tensors), unique(names), strict=True))


def is_swapped(op: Any) -> bool:
    """Check whether an operation decodes big-endian numbers of several bytes."""
    return op.type == "DecodeRaw" and not op.get_attr("little_endian") and op.get_attr("out_type").size > 1


def _is_length(tensor: Any) -> bool:
    """Check whether a tensor contains the number of values of a parsed feature."""
    kinds = set[str]()
    while tensor.op.type in _ON_LENGTHS:
        kinds.add(tensor.op.type)
        tensor = tensor.op.inputs[0]
    return tensor.op.type in PARSERS and not kinds.isdisjoint(("Shape", "Size"))


def _name_of(tensor: Any) -> str:
    """Return the name of a tensor in the script, or an empty string if it has none."""
    origin = through_identities(tensor.components[1] if isinstance(tensor, SparseSlot) else tensor)
    if origin.op.type in PARSERS:
        names = {part.name: name for part, name, _, _ in read_parse(origin.op).outputs}
        return identifier(names[origin.name])
    targets = line_of(origin.op).targets
    if len(targets) == 1:
        return targets[0]
    return targets[origin.value_index] if origin.value_index < len(targets) == len(origin.op.outputs) else ""


def _declared(tensor: Any, shape: Any, feed: Feed) -> Any:
    """Merge the static shape of a component with the shape that the queue declares for it."""
    import tensorflow as tf

    if isinstance(tensor, SparseSlot):
        return None
    known, declared = tensor.shape, tf.TensorShape(shape)
    return known if feed.many or not known.is_compatible_with(declared) else known.merge_with(declared)


def _structure(section: Section) -> tuple[Any, ...]:
    """Compute a fingerprint of a section.

    Sections that differ only in names and seeds have the same fingerprint.
    """
    from tensorflow.python.ops.cond_v2 import get_func_graphs  # the graphs of branches have no public name

    numbers: dict[Any, int] = {}
    known = {x.name: (p, x.value_index) for p, pull in enumerate(section.pulls) for x in pull.outputs}
    for op in section.inner.values():
        attributes = [op.node_def.attr[a.name].SerializeToString() for a in op.op_def.attr if a.name not in _UNEQUAL]
        branches = [_operations(graph) for graph in get_func_graphs(op)] if op.type in CONDITIONALS else []
        inputs = [known.get(x.name, x.name) for x in op.inputs]
        number = numbers.setdefault(repr((op.type, attributes * (not branches), branches, inputs)), len(numbers))
        known |= {x.name: (-1 - number, x.value_index) for x in op.outputs}
    targets = [known.get(x.name, x.name) for target in section.targets for x in tensors_of(target)]
    return tuple(pull.type for pull in section.pulls), tuple(numbers), tuple(targets)


def _operations(graph: Any) -> list[tuple[str, str]]:
    """List the operations of a branch as pairs of type and value.

    The value is that of a constant as text, and an empty string for other operations.
    """
    return [(op.type, str(op.get_attr("value")) if op.type == "Const" else "") for op in graph.get_operations()]


def _pads(queue: Any) -> bool:
    return bool(queue.type == "PaddingFIFOQueueV2")
