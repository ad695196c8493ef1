"""Conversion of an input function: trace it, print it as a module, and prove that both yield the same batches."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import inspect
import itertools
import keyword
import random
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.errors import LiftError, OptionError, SchemaMismatchError
from seqrecorder.legacy.convert.module import join
from seqrecorder.legacy.convert.parsing import read_parse
from seqrecorder.legacy.convert.pipeline import Facts, Pipeline, is_swapped
from seqrecorder.legacy.convert.prove import (
    RUNS,
    Comparison,
    by_records,
    cut_files,
    dataset_run,
    explain,
    fixed_order,
    fixed_random_numbers,
    in_order,
    session_run,
)
from seqrecorder.legacy.convert.text import NotPrintableError, fold, plain
from seqrecorder.legacy.convert.trace import trace_function
from seqrecorder.legacy.graph import through_identities
from seqrecorder.legacy.lifted import datasets_of
from seqrecorder.legacy.lifting import trace as lift_trace
from seqrecorder.legacy.readers import reading
from seqrecorder.legacy.subgraph import State
from seqrecorder.legacy.tf1_behaviour import eagerly
from seqrecorder.schema import source_code
from seqrecorder.sources.foreign import convert as foreign

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping

    from seqrecorder.legacy.convert.trace import Trace
    from seqrecorder.legacy.lifted import Lifted
    from seqrecorder.schema.schema import Schema

_BATCHES = 100
_WAY_OUT = "write the reader yourself, and check it with seqrecorder.legacy.compare"


@attrs.frozen(eq=False, repr=False)
class Conversion:
    """TensorFlow 1 input function, converted to a TensorFlow 2 reader.

    Attributes:
        source: the source text of the module, which defines `inputs`; empty if it would have to import a lifted
            function that no module defines under a name.
        files: mapping from suffixes to contents of data files next to the module, which store large constants: the
            suffix `.npz` stands for `reader.npz` next to `reader.py`.
        report: a summary: whether the function was printed, or why not, and the result of the proof.
        dataset: the dataset that `inputs()` returns.
        schema: the schema of the parsed records; None if no records are parsed.
        printed: whether the module uses tf.data directly; otherwise it lifts the old function.
    """

    source: str
    files: dict[str, bytes]
    report: str
    dataset: Any
    schema: Schema | None
    printed: bool
    _facts: Facts = attrs.field(alias="_facts")

    def __repr__(self) -> str:
        return f"<Conversion: {self.report.splitlines()[0]}>"

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the module and its data files into one directory.

        Args:
            path: the path of the new Python file.

        Raises:
            OptionError: one of the files exists already, or the module would have to import a function that is not
                defined under a name.
        """
        if not self.source:
            raise OptionError("the module imports the lifted function: define it in a file of its own, with a name")
        target = Path(path)
        for file in (target, *map(target.with_suffix, self.files)):
            if file.exists():
                raise OptionError(f"{file} exists; give another name, or remove it")
        _write(self.source, self.files, target)

    def together(self, *others: Conversion) -> Conversion:
        """Merge the modules of several calls into one.

        Values that differ, such as the files or the batch size, become parameters. If the code differs, each call gets
        a separate function. The report shows each call.

        Args:
            *others: conversions of other calls.

        Raises:
            OptionError: a conversion is lifted, or its module has data files.
        """
        conversions = [self, *others]
        if any(conversion.files or not conversion.printed for conversion in conversions):
            raise OptionError("only printed modules without data files can be merged")
        source, calls = join([conversion.source for conversion in conversions])
        with _import_module(source, {}) as module:
            for conversion, call in zip(conversions, calls, strict=True):
                if eval(call, vars(module)).element_spec != conversion.dataset.element_spec:  # noqa: S307 - this package printed it
                    raise AssertionError(call)
        reports = [f"{call}\n{conversion.report}" for conversion, call in zip(conversions, calls, strict=True)]
        return attrs.evolve(self, source=source, report="\n\n".join(reports))

    def write_data(self, directory: str | os.PathLike[str], **options: Any) -> str:
        """Write the records that the function parses as a dataset.

        The dataset contains every record of the files once, in the same order. The result is a script that reads it in
        the same batches as the function.

        Args:
            directory: the directory of the new dataset.
            **options: options of `sr.convert`, such as `splits`, `split_by` and `seed`.

        Raises:
            LiftError: the function parses no records.
        """
        if self.schema is None:
            text = "the function parses no Example and no SequenceExample, so there is no record class"
            if self._facts.several:
                text = "the function reads several lists of files, so there is no single record class"
            advice = "write its output: sr.write takes dictionaries, sr.from_csv the rows of a CSV file"
            raise LiftError(text, advice=advice)
        with _copy_records(self._facts) as path:
            raw, shapes = _find_raw(self._facts)
            foreign.convert(path, directory, name="Record", raw=raw, shapes=shapes, **options)
        return _read_script(self._facts, self.schema, str(directory), next(iter(options.get("splits") or ["train"])))


def convert(function: Callable[..., Any], *args: Any, graph_seed: int | None = None, **kwargs: Any) -> Conversion:
    r"""Convert a TensorFlow 1 input function to a TensorFlow 2 module.

    The function is called, and its graph printed as a `tf.data` pipeline. The module is then compared with the
    function, which runs in a session with its own queue runners: on a hundred batches of the original files, and on all
    batches of copies truncated to their first records. A function that cannot be printed is lifted, and the report says
    why.

    >>> import pathlib, tempfile, tensorflow as tf, seqrecorder as sr
    >>> path = str(pathlib.Path(tempfile.mkdtemp(), "numbers.csv"))
    >>> _ = pathlib.Path(path).write_text("1,2\n3,4\n5,6\n")
    >>> def inputs(files, batch_size):
    ...     queue = tf.compat.v1.train.string_input_producer(files, num_epochs=2, shuffle=False)
    ...     _, line = tf.compat.v1.TextLineReader().read(queue)
    ...     x, y = tf.io.decode_csv(line, [[0], [0]])
    ...     return tf.compat.v1.train.batch([x, y], batch_size)
    >>> conversion = sr.legacy.convert(inputs, [path], 2)
    >>> print(conversion.source[conversion.source.index("def parse") :])
    def parse(line):
        x, y = tf.io.decode_csv(line, [[0], [0]])
        return x, y
    <BLANKLINE>
    <BLANKLINE>
    def inputs(files=FILES, batch_size=2, num_epochs=2):
        dataset = tf.data.Dataset.from_tensor_slices(files)
        dataset = dataset.repeat(num_epochs)
        dataset = tf.data.TextLineDataset(dataset)
        dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
        dataset = dataset.batch(batch_size, drop_remainder=True)
        return dataset.prefetch(tf.data.AUTOTUNE)
    <BLANKLINE>

    Args:
        function: the input function, which returns tensors from queues.
        *args: the positional arguments of the function.
        graph_seed: the argument of a `tf.set_random_seed` call before the function, if any.
        **kwargs: the keyword arguments of the function.

    Returns:
        A `Conversion` with the module, the report and the dataset.

    Raises:
        LiftError: the function cannot be lifted, or the batches of the printed module differ.
    """
    shown = ", ".join([*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())])
    name, module = getattr(function, "__qualname__", "inputs"), getattr(function, "__module__", "script")
    call = functools.partial(function, *args, **kwargs)
    return convert_call(call, module, f"{name}({shown})", graph_seed=graph_seed)


def convert_call(call: Callable[[], Any], module: str, text: str, *, graph_seed: int | None = None) -> Conversion:
    """Convert an input function that takes no arguments, as `convert` does.

    Args:
        call: the function, with its arguments bound.
        module: the name of the module that defines the called function.
        text: the call as source text.
        graph_seed: the graph seed to set before the call; None to set none.
    """
    call = _make_repeatable(call, graph_seed)
    trace = trace_function(call)
    lifted = lift_trace(call, graph_seed=graph_seed)
    for careful in (False, True):
        pipeline, problem = _print_graph(trace, careful=careful)
        facts = pipeline.facts
        if problem:
            break
        source, files = pipeline.module.source(_title(text)), pipeline.module.files()
        proofs = _prove(call, lifted, facts, (source, files))
        if all(proof.equal for _, proof in proofs) and not all(proof.sampled for _, proof in proofs):
            schema = _infer_schema(facts)
            source = pipeline.module.source(_title(text) + _describe_schema(schema))
            lines = [f"printed: {len(source.splitlines())} lines", *(f"{what}: {proof}" for what, proof in proofs)]
            report = _build_report(lines, lifted, trace, facts)
            with _import_module(source, files) as reader:
                return Conversion(source, files, report, reader.inputs(), schema, printed=True, _facts=facts)
        problem = "; ".join(f"{what}: {p.difference or p}" for what, p in proofs if not p.equal or p.sampled)
    else:
        raise LiftError(f"the printed module gives other batches ({problem})", advice=_WAY_OUT)

    def lift() -> Any:
        return lift_trace(call, graph_seed=graph_seed).dataset

    with fixed_random_numbers() if any(stage.random_values for stage in lifted.stages) else contextlib.nullcontext():
        proof = _compare(call, lift, facts, ordered=_is_ordered(lifted), proved=False)
    if not proof.equal:
        raise LiftError(f"the lifted dataset gives other batches ({proof.difference})", advice=_WAY_OUT)
    lines = [f"lifted, because it cannot be printed: {problem}", f"on the data: {proof}"]
    report = _build_report(lines, lifted, trace, facts)
    source = _lifted_source(module, text, graph_seed)
    return Conversion(source, {}, report, lifted.dataset, _infer_schema(facts), printed=False, _facts=facts)


def _make_repeatable(call: Callable[[], Any], graph_seed: int | None) -> Callable[[], Any]:
    """Wrap a function so that each call starts with the same random states of Python and NumPy."""
    import tensorflow as tf

    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - old scripts use the global state

    def called() -> Any:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        if graph_seed is not None:
            tf.compat.v1.set_random_seed(graph_seed)
        return call()

    return called


def _describe_schema(schema: Schema | None) -> str:
    """Print the record class for the docstring of the module.

    The module itself does not use this class.
    """
    if schema is None:
        return ""
    lines = [f"    {line}" for line in source_code.draft(schema).splitlines()]
    return "\n".join(["", "", "In a dataset of seqrecorder, as `--data` writes it, the records are", "", *lines, ""])


def _title(text: str) -> str:
    name = text.partition("(")[0].rpartition(".")[2]
    return f"Batches of {name if name.isidentifier() else 'an old input function'}, by tf.data."


def _print_graph(trace: Trace, *, careful: bool) -> tuple[Pipeline, str]:
    """Print a graph as a pipeline.

    If the graph cannot be printed, the second result says why. Otherwise, it is an empty string.
    """
    with contextlib.closing(State(trace.graph, {})) as state, eagerly():
        pipeline = Pipeline(trace, state, careful=careful)
        try:
            pipeline.print()
        except (NotPrintableError, LiftError) as error:
            return pipeline, str(error)
        return pipeline, ""


def _build_report(lines: list[str], lifted: Lifted, trace: Trace, facts: Facts) -> str:
    lines += [f"with --data: {difference}" for difference in facts.differences() if facts.parses]
    if datasets_of(trace.graph):
        lines.append("functions of tf.contrib were replaced by those of seqrecorder.legacy.contrib")
    return "\n".join([*lines, "", str(lifted)])


def _lifted_source(module: str, text: str, graph_seed: int | None) -> str:
    seed = "" if graph_seed is None else f", graph_seed={graph_seed}"
    called = text.partition("(")[0]
    if module == "__main__" or not called.replace(".", "").isidentifier():
        return ""
    by_name = all(part.isidentifier() and not keyword.iskeyword(part) for part in module.split("."))
    lines = [
        f'"""{_title(text).replace("by tf.data", "by its queues in tf.data")}"""',
        "",
        *([] if by_name else ["import importlib", ""]),
        "import seqrecorder as sr",
        "",
        "with sr.legacy.compat():",
        f"    import {module} as old" if by_name else f'    old = importlib.import_module("{module}")',
        "",
        "",
        "def inputs():",
        *fold(f"return sr.legacy.lift(lambda: old.{text}{seed})", 4),
        "",
    ]
    return "\n".join(lines)


# Running the module ---------------------------------------------------------------------------------------


def _write(source: str, files: dict[str, bytes], path: Path) -> None:
    path.write_text(source, encoding="utf-8")
    for suffix, content in files.items():
        path.with_suffix(suffix).write_bytes(content)


@contextlib.contextmanager
def _import_module(source: str, files: dict[str, bytes]) -> Iterator[Any]:
    """Import a printed module from a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="seqrecorder-") as directory:
        path = Path(directory, "printed_reader.py")
        _write(source, files, path)
        # A module with a name of this package imports the installed TensorFlow, even inside `compat`.
        name = "seqrecorder.printed_reader"
        try:
            with eagerly():
                yield import_file(name, path)
        finally:
            sys.modules.pop(name, None)


def import_file(name: str, path: Path) -> Any:
    """Import a file under a module name.

    The module stays in `sys.modules`, because AutoGraph looks it up there.
    """
    spec: Any = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _prove(
    call: Any, lifted: Lifted, facts: Facts, printed: tuple[str, dict[str, bytes]]
) -> list[tuple[str, Comparison]]:
    """Compare the printed module with the function.

    They are compared on the original files and on truncated copies. Pipelines with threads or shuffles are compared
    twice: as they are, and with one thread and no shuffle.
    """
    proofs = list[tuple[str, Comparison]]()
    drawn = any(stage.random_values is not None for stage in lifted.stages)
    ordered = _is_ordered(lifted)
    ways = [(ordered, False)] if ordered else [(True, True), (False, False)]
    for in_turn, is_still in ways:
        fixed = ["random numbers"] * drawn + ["shuffles and threads"] * is_still
        suffix = f", {' and '.join(fixed)} fixed" if fixed else ""
        with contextlib.ExitStack() as stack:
            if drawn:
                stack.enter_context(fixed_random_numbers())
            if is_still:
                stack.enter_context(fixed_order())
            module = stack.enter_context(_import_module(*printed))
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="seqrecorder-")))
            proofs.append((f"on the data{suffix}", _compare(call, module.inputs, facts, ordered=in_turn)))
            takes_files = "files" in inspect.signature(module.inputs).parameters
            if not facts.files or facts.reader is None or not takes_files or datasets_of(facts.reader.graph):
                continue
            with _refuse_unreadable(facts):
                cut = cut_files(facts.files, facts.reader, facts.batch or 1, directory)
            paths = dict(zip(facts.files, cut, strict=True))
            paths |= {facts.pattern: str(directory / "*")} if facts.pattern is not None else {}
            new = functools.partial(module.inputs, files=cut)
            proofs.append((f"on its first records{suffix}", _compare(call, new, facts, ordered=in_turn, paths=paths)))
    return proofs


def _is_ordered(lifted: Lifted) -> bool:
    return all(stage.random_order is None for stage in lifted.stages) and not lifted.notes


def _compare(
    call: Any,
    new: Callable[[], Any],
    facts: Facts,
    *,
    ordered: bool,
    paths: Mapping[str, str] | None = None,
    proved: bool = True,
) -> Comparison:
    """Run the old input function in a session, and compare its output with a dataset's.

    If `ordered` is true, both run once, and their batches are compared in order. Otherwise, both run several times, and
    the records of all runs together are compared. `proved` says that both were equal in a fixed order (see
    `by_records`).
    """
    runs = [
        (session_run(trace_function(call), _BATCHES, paths), dataset_run(new(), _BATCHES))
        for _ in range(1 if ordered else RUNS)
    ]
    olds, news = [old for old, _ in runs], [new for _, new in runs]
    if not olds[0].batches and not news[0].batches and paths is None:
        text = f"the function gives no batch{olds[0].why}, so nothing can be compared"
        raise LiftError(text, advice=_advise(olds[0].why, facts, "check its arguments and the files that it reads"))
    dropped = facts.recipe.dropped if facts.recipe else None
    result = (
        in_order(*runs[0]) if ordered else by_records(olds, news, mixed=facts.mixed, proved=proved, dropped=dropped)
    )
    if not result.equal and all(run.why for run in (*olds, *news)):
        raise LiftError(f"the data cannot be read{news[0].why}", advice=_advise(news[0].why, facts))
    return result


def _advise(why: str, facts: Facts, otherwise: str = "mend the file or record, or leave it out") -> str:
    """Choose the advice for an error that the data caused, and name the first file of damaged records."""
    if "DataLossError" not in why:
        return otherwise
    damaged = "FILE"
    with eagerly():
        for file in reversed(facts.files) if facts.reader is not None else ():
            # No record passes the filter, so a file of any size is read to its end.
            records = reading(facts.reader, keyed=False)(file).filter(lambda *_: False)
            damaged = file if dataset_run(records, 1).why else damaged
    options = "tf.python_io.TFRecordOptions(tf.python_io.TFRecordCompressionType.GZIP)"
    packed = f"a GZIP file needs tf.TFRecordReader(options={options}); " * ("Is this even a" in why)
    return f"{packed}`seqrecorder verify {damaged}` lists the damage, `seqrecorder salvage` copies the intact records"


@contextlib.contextmanager
def _refuse_unreadable(facts: Facts) -> Iterator[None]:
    """Convert errors caused by the files that the block reads to `LiftError`."""
    import tensorflow as tf

    try:
        yield
    except (tf.errors.OpError, SchemaMismatchError) as error:
        why = re.sub(r"\S*/records\.tfrecord: ", "", explain(error))  # the path of the copied records
        raise LiftError(f"the data cannot be read{why}", advice=_advise(why, facts)) from error


# Data -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _copy_records(facts: Facts, most: int = -1) -> Iterator[str]:
    """Copy the serialized records of all files to one temporary TFRecord file.

    The context manager yields the path of this file. At most `most` records are copied, or all if `most` is -1.
    """
    import tensorflow as tf

    with tempfile.TemporaryDirectory(prefix="seqrecorder-") as directory, _refuse_unreadable(facts):
        path = str(Path(directory, "records.tfrecord"))
        with eagerly(), tf.io.TFRecordWriter(path) as writer:
            read = reading(facts.reader, keyed=True)
            records = tf.data.Dataset.from_tensor_slices(facts.files).flat_map(read).take(most)
            for _, record in records.as_numpy_iterator():
                writer.write(record)
        yield path


def _find_raw(facts: Facts) -> tuple[dict[str, str], dict[str, tuple[int, ...]]]:
    """Collect the dtypes and shapes of the features that `decode_raw` decodes.

    Big-endian features are left out. A shape is included only if it is fully known.
    """
    raw, shapes = dict[str, str](), dict[str, tuple[int, ...]]()
    outputs = itertools.chain.from_iterable(read_parse(op).outputs for op in facts.parses)
    features = {tensor.name: name for tensor, name, part, _ in outputs if part is None}
    for op in facts.reader.graph.get_operations():
        name = features.get(through_identities(op.inputs[0]).name) if op.type == "DecodeRaw" else None
        if name is not None and not is_swapped(op):
            raw[name] = op.get_attr("out_type").name
            if op.outputs[0].shape.is_fully_defined():
                shapes[name] = tuple(op.outputs[0].shape.as_list())
    return raw, shapes


def _infer_schema(facts: Facts) -> Schema | None:
    """Infer the schema of the parsed records from the first 1,000 of them.

    The result is None if the function parses no records, or reads several lists of files.
    """
    if not facts.parses or not facts.files or facts.reader is None or facts.several:
        return None
    from seqrecorder.sources.foreign import infer

    with _copy_records(facts, 1000) as path:
        raw, shapes = _find_raw(facts)
        return infer.infer(path, raw=raw, shapes=shapes).schema


_AS_STORED = "features come as stored: put what the function computed from them, and its defaults, into dataset.map()"


def _read_script(facts: Facts, schema: Schema, directory: str, split: str) -> str:
    """Print a script that reads the data in the same batches as the function."""
    rest = "" if facts.rest else ", drop_remainder=True"
    read = {name for op in facts.parses for _, name, _, _ in read_parse(op).outputs}
    names = [field.name for field in schema.fields if field.feature in read]
    options = [f"fields={plain(np.array(names))}"] if 0 < len(names) < len(schema.fields) else []
    batch = [f"batch=sr.Pad({facts.batch}{rest})"] if facts.batch else []
    if (old := facts.recipe) is not None:
        sizes = old.sizes if len(set(old.sizes)) > 1 else facts.batch
        batch = [f"batch=sr.Bucket({sizes}, boundaries={list(old.boundaries)}{rest})"]
        if old.steps:
            rest = ', tail="drain"' if old.smaller else ', tail="drop"'
            batch = [f"batch=sr.Unroll({facts.batch}, {old.steps}{rest})"]
    options += batch + [f"shuffle={size}" for size in [max(facts.shuffles, default=0)] if size]
    options += [f"epochs={facts.limit}"] if facts.limit != 1 else []
    text = f"dataset = sr.read({', '.join([plain(directory), plain(split), f'schema={schema.name}', *options])})"
    record = source_code.draft(schema).splitlines()
    differences = [f"# {difference}" for difference in (_AS_STORED, *facts.differences())]
    imports = ["import numpy as np"] if any("np." in line for line in record) else []
    return "\n".join([*imports, "import seqrecorder as sr", "", "", *record, "", "", *differences, *fold(text), ""])
