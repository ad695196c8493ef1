"""The lines of a tf.data pipeline, stage by stage."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from seqrecorder.legacy.migrate.analyze.data_flow import arguments_of, parts_of
from seqrecorder.legacy.migrate.analyze.names import QUEUES
from seqrecorder.legacy.migrate.unclear import Unclear

if TYPE_CHECKING:
    from collections.abc import Callable

    from seqrecorder.legacy.migrate.analyze.names import Arguments
    from seqrecorder.legacy.migrate.analyze.stages import Batch, Producer, Read

    Text = Callable[[ast.AST], str]

GRAPH_SEED = 87654321
"""What TensorFlow 1 seeds a graph with where only an operation has a seed."""

_OF_QUEUES_ALONE = {
    **dict.fromkeys(("shared_name", "cancel_op"), ("shared-queue", "the queue is shared with other programs")),
    **dict.fromkeys(("hop_bytes", "encoding"), ("reader-options", "FixedLengthRecordDataset has none")),
    "bucket_capacities": ("bucket-options", "the buckets of a dataset have none"),
    "names": ("queue-names", "the queue has names for what is in it"),
}
"""Options that no dataset has, each with the reason."""
_COMPRESSIONS = {"GZIP": ', "GZIP"', "ZLIB": ', "ZLIB"', "NONE": ""}


def producer_lines(producer: Producer, name: str, tf: str, text: Text, listed: Callable[[ast.expr], bool]) -> list[str]:
    """Return the lines that make the dataset of what a producer put into its queue."""
    given = producer.arguments
    if producer.kind in ("queue", "source"):
        return [f"{name} = {text(given.call)}"]
    if producer.kind == "given":
        return [f"{name} = {text(given.call.args[0])}"]
    _check_options(given)
    elements, size = _elements(producer, tf, text, listed)
    epochs, seed = given["num_epochs"], given["seed"]
    repeat = f".repeat({'' if epochs is None else text(epochs)})"
    shuffle = given.constant("shuffle", default=True)
    shuffle = bool(shuffle) if isinstance(shuffle, int) else shuffle
    if size == "1" and isinstance(shuffle, bool):
        shuffle = False  # one element has one order
    condition = text(shuffle) if isinstance(shuffle, ast.AST) else repr(shuffle)
    if seed is not None and shuffle is not False:
        # Slices were taken by their numbers, which were shuffled.
        slices = elements if producer.kind == "tf.train.slice_input_producer" else None
        taken = f"{tf}.range({size})" if slices else elements
        gathered = [f"{tf}.gather({text(item)}, at)" for item in getattr(given["tensor_list"], "elts", ())]
        always = isinstance(producer.target, ast.Name)
        way = f"lambda elements: {tf}.raw_ops.RandomShuffle(value=elements, seed={GRAPH_SEED}, seed2={text(seed)})"
        order = ["# The order that this seed has always given.", f"{name} = {name}.map(", f"    {way}", ")"]
        order = order if shuffle is True else [f"if {condition}:", *(f"    {line}" for line in order)]
        return [
            f"{name} = {tf}.data.Dataset.from_tensors({taken}){repeat}",
            *order,
            f"{name} = {name}.unbatch()",
            *([f"{name} = {name}.map(lambda at: {_grouped(gathered, always=always)})"] if slices else []),
        ]
    made = f"{name} = {tf}.data.Dataset.from_tensor_slices({elements})"
    if shuffle is True:
        return [made, f"{name} = {name}.shuffle({size}){repeat}  # a new order each epoch"]
    if shuffle is False:
        return [f"{made}{repeat}"]
    return [
        made,
        f"if {condition}:",
        f"    {name} = {name}.shuffle({size})  # a new order each epoch",
        f"{name} = {name}{repeat}",
    ]


_OF_ITEMS = {
    **{name: name for name in ("num_readers", "reader_kwargs", "shuffle", "num_epochs", "record_key", "seed")},
    "common_queue_capacity": "buffer_size",
}
"""Options of TF-Slim's providers, and what they are called of the function that gives the items of its datasets."""


def item_lines(producer: Producer, name: str, package: str, text: Text) -> list[str]:
    """Return the line that makes the dataset of what a provider of TF-Slim gives for each record."""
    given, items = producer.arguments, needed(producer.arguments, "items")
    if isinstance(producer.target, (ast.Tuple, ast.List)) and len(producer.target.elts) == 1:
        if not isinstance(items, (ast.List, ast.Tuple)) or len(items.elts) != 1:
            raise Unclear("targets", "one tensor is taken of items that are not written out", producer.statement)
        [items] = items.elts
    wanted = [old for old in _OF_ITEMS if old in given.given]  # a None, too: not to shuffle is no default
    if given.constant("shuffle", default=True) is False:
        wanted = [old for old in wanted if old not in ("seed", "common_queue_capacity")]
    options = [f"{_OF_ITEMS[old]}={text(given.given[old])}" for old in wanted]
    said = ", ".join([text(needed(given, "dataset")), text(items), *options])
    return [f"{name} = {package}.legacy.contrib.slim.read_items({said})"]


def _grouped(parts: list[str], *, always: bool = False) -> str:
    """Return the text of a tuple; of one part alone that part, unless it is one always."""
    return parts[0] if len(parts) == 1 and not always else f"({', '.join(parts)}{',' * (len(parts) == 1)})"


def _elements(producer: Producer, tf: str, text: Text, listed: Callable[[ast.expr], bool]) -> tuple[str, str]:
    """Return the expressions of what is produced, and of how many elements that is."""
    given = producer.arguments
    first = given[next(iter(_INPUTS & set(given.given)), "")]
    if first is None or isinstance(first, ast.Starred):
        raise Unclear("arguments", "the producer has no input that could be told", producer.statement)
    what = text(first)
    items = first.elts if isinstance(first, (ast.List, ast.Tuple)) else []
    items = [] if any(isinstance(item, ast.Starred) for item in items) else items
    if producer.kind == "tf.train.range_input_producer":
        return f"{tf}.range({what})", f"{tf}.cast({what}, {tf}.int64)"
    if producer.kind == "tf.train.slice_input_producer":
        if isinstance(first, ast.Name) and len(parts_of(producer.target)) > 1 and given["seed"] is None:
            return f"tuple({what})", f"{tf}.shape({what}[0], out_type={tf}.int64)[0]"
        if not items:
            said = "how many tensors slice_input_producer is given cannot be told"
            raise Unclear("slices", said, producer.statement)
        slices = _grouped([text(item) for item in items], always=isinstance(producer.target, ast.Name))
        return slices, f"{tf}.shape({text(items[0])}, out_type={tf}.int64)[0]"
    if items:
        return what, str(len(items))
    return what, f"len({what})" if listed(first) else f"{tf}.size({what}, out_type={tf}.int64)"


_INPUTS = {"string_tensor", "input_tensor", "limit", "tensor_list"}


def _check_options(given: Arguments) -> None:
    """Raise `Unclear` where a call has an option that no dataset has."""
    for option, (code, reason) in _OF_QUEUES_ALONE.items():
        if given[option] is not None:
            raise Unclear(code, f"{option}: {reason}", given.call)


def _switch(given: Arguments, name: str, code: str) -> bool:
    """Return whether a call asks for something."""
    value = given.constant(name, default=False)
    if not isinstance(value, int):
        raise Unclear(code, f"{name} is neither True nor False in the text", given.call)
    return bool(value)


def read_lines(read: Read, name: str, function: str, tf: str, text: Text, *, readers: str | None = None) -> list[str]:
    """Return the lines that make records of files.

    Args:
        read: how they are read.
        name: of the dataset.
        function: a name for what gives records with their keys.
        tf: name of TensorFlow.
        text: writes expressions.
        readers: how many read at a time.
    """
    kind, given = read.reader.kind, read.reader.arguments
    if kind == "tf.IdentityReader":
        return [f"{name} = {name}.map(lambda item: (item, item))"] if read.key else []
    if kind == "tf.WholeFileReader":
        mapped = f"lambda file: (file, {tf}.io.read_file(file))" if read.key else f"{tf}.io.read_file"
        return [f"{name} = {name}.map({mapped})"]
    make, plain = _records(read, given, tf, text)
    if read.key:
        inside = _keyed(read, make, given, tf, text)
        inside[-1] += "" if read.up_to is None else f".batch({text(read.up_to)})"
        lines = ["", f"def {function}(file):", *(f"    {line}" for line in inside), ""]
        return [*lines, f"{name} = {name}.{_spread(function, readers, tf)}"]
    if kind == "tf.TextLineReader" and (header := given["skip_header_lines"]) is not None:
        make, plain = f"{make}.skip({text(header)})", False
    if read.up_to is not None:
        make, plain = f"{make}.batch({text(read.up_to)})", False
    return [f"{name} = {name}.{_spread(make.partition('(')[0] if plain else f'lambda file: {make}', readers, tf)}"]


def _spread(function: str, readers: str | None, tf: str) -> str:
    """Return the call that makes records of files: one after another, or as many at a time as there were readers."""
    if readers in (None, "1"):
        return f"flat_map({function})"
    return f"interleave({function}, cycle_length={readers}, num_parallel_calls={tf}.data.AUTOTUNE)"


def needed(given: Arguments, name: str) -> ast.expr:
    """Return an argument of a call, or raise `Unclear`."""
    if (value := given[name]) is None:
        raise Unclear("arguments", f"{ast.unparse(given.call.func)} lacks {name}", given.call)
    return value


def _records(read: Read, given: Arguments, tf: str, text: Text) -> tuple[str, bool]:
    """Return the dataset of one file's records, and whether the file's name is all that it takes."""
    kind = read.reader.kind
    if kind == "tf.TextLineReader":
        return f"{tf}.data.TextLineDataset(file)", True
    if kind == "tf.TFRecordReader":
        compression = _compression(given["options"])
        return f"{tf}.data.TFRecordDataset(file{compression})", not compression
    _check_options(given)
    sizes = [text(needed(given, "record_bytes"))]
    sizes += [f"{option}={text(value)}" for option in ("header_bytes", "footer_bytes") if (value := given[option])]
    return f"{tf}.data.FixedLengthRecordDataset(file, {', '.join(sizes)})", False


def _compression(options: ast.expr | None) -> str:
    """Return the argument for the compression of `TFRecordOptions(TFRecordCompressionType.GZIP)`."""
    if options is None:
        return ""
    match arguments_of(options) if isinstance(options, ast.Call) else []:
        case [ast.Attribute(attr=name) | ast.Constant(str(name))] if name in _COMPRESSIONS:
            return _COMPRESSIONS[name]
    raise Unclear("reader-options", "the options of the reader are not written out where it is made", options)


def _keyed(read: Read, make: str, given: Arguments, tf: str, text: Text) -> list[str]:
    """Return the lines of a function from a file to keys and records, the keys as the reader made them."""
    key = f'{tf}.strings.join([file, ":", {tf}.strings.as_string(at)])'
    if read.reader.kind == "tf.TFRecordReader":
        return [
            "# The key is the offset of the record, whose frame takes 16 bytes.",
            "def keyed(at, data):",
            f"    end = at + 16 + {tf}.cast({tf}.strings.length(data), {tf}.int64)",
            f"    return end, ({key}, data)",
            "",
            f"return {make}.scan({tf}.constant(0, {tf}.int64), keyed)",
        ]
    numbered = f"{make}.enumerate()"
    if read.reader.kind == "tf.TextLineReader":
        header = given["skip_header_lines"]
        numbered = f"{make}.enumerate(1)" + ("" if header is None else f".skip({text(header)})")
    return [f"numbered = {numbered}", f"return numbered.map(lambda at, data: ({key}, data))"]


def batch_lines(batch: Batch, name: str, tf: str, text: Text) -> list[str]:
    """Return the lines that shuffle and batch."""
    given = batch.arguments
    _check_options(given)
    lines = [f"{name} = {name}.unbatch()"] if _switch(given, "enqueue_many", "enqueue-many") else []
    size = needed(given, "batch_size")
    if batch.kind == "tf.contrib.training.bucket_by_sequence_length":
        return [*lines, *_bucket_lines(batch, name, tf, text)]
    if batch.kind in ("tf.train.shuffle_batch", "tf.RandomShuffleQueue"):
        seed = given["seed"]
        buffer = text(needed(given, "capacity")) + ("" if seed is None else f", seed={text(seed)}")
        lines.append(f"{name} = {name}.shuffle({buffer})")
    by_hand = batch.kind in QUEUES  # the shapes of such a queue are those of the tensors, or say where to pad
    dynamic = batch.kind == "tf.PaddingFIFOQueue" or _switch(given, "dynamic_pad", "padding")
    options = f"{text(size)}, drop_remainder={_drop(given, text)}"
    if (shapes := given["shapes"]) is not None and not by_hand:
        lines.append(_shaped(batch, shapes, name, tf, text))
    return [*lines, f"{name} = {name}.{'padded_batch' if dynamic else 'batch'}({options})"]


def _shaped(batch: Batch, shapes: ast.expr, name: str, tf: str, text: Text) -> str:
    """Return the line that gives tensors the shapes that a batch names, of which each record was checked too."""
    tensors = batch.arguments["tensors"]
    items = tensors.elts if isinstance(tensors, (ast.List, ast.Tuple)) else []
    given = shapes.elts if isinstance(shapes, (ast.List, ast.Tuple)) else []
    if not items or len(items) != len(given) or any(isinstance(item, ast.Starred) for item in (*items, *given)):
        raise Unclear("padding", f"shapes={text(shapes)}: which tensors have which cannot be told", batch.statement)
    names = [item.id if isinstance(item, ast.Name) else f"tensor{number}" for number, item in enumerate(items)]
    names = [f"{name}{number}" * (name in names[:number]) or name for number, name in enumerate(names)]
    used = {node.id for shape in given for node in ast.walk(shape) if isinstance(node, ast.Name)} | {tf}
    names = [name + "_" * (name in used) for name in names]
    made = [f"{tf}.ensure_shape({one}, {text(shape)})" for one, shape in zip(names, given, strict=True)]
    return f"{name} = {name}.map(lambda {', '.join(names)}: {_grouped(made)})"


def _drop(given: Arguments, text: Text) -> str:
    smaller = given.constant("allow_smaller_final_batch", default=False)
    if isinstance(smaller, ast.AST):
        value = text(smaller)
        return f"not {value}" if value.isidentifier() else f"not ({value})"
    return str(not smaller)


def _bucket_lines(batch: Batch, name: str, tf: str, text: Text) -> list[str]:
    given = batch.arguments
    boundaries, size, tensors = needed(given, "bucket_boundaries"), needed(given, "batch_size"), given["tensors"]
    alone = isinstance(tensors, ast.Dict) and len(tensors.keys) == 1  # whose batch was in a list, for no reason
    several = isinstance(size, (ast.List, ast.ListComp))
    if alone or several or given["shapes"] is not None or not _switch(given, "dynamic_pad", "padding"):
        said = "a dataset's buckets are padded, of one batch_size, have no shapes, and give no list for a lone key"
        raise Unclear("bucket-options", said, batch.statement)
    lines, limits = [], text(boundaries)
    if not isinstance(boundaries, ast.Name):
        limits = f"{name}_boundaries"
        lines.append(f"{limits} = {text(boundaries)}")
    return [
        *lines,
        f"{name} = {name}.bucket_by_sequence_length(",
        f"    lambda length, tensors: {tf}.cast(length, {tf}.int32),",
        f"    {limits},",
        f"    [{text(size)}] * (len({limits}) + 1),",
        f"    drop_remainder={_drop(given, text)},",
        ")",
    ]


def has_sizes(shapes: ast.expr | None) -> bool:
    """Whether some of the shapes of a queue have a size that is not None."""
    lists = [node for node in ast.walk(shapes) if isinstance(node, (ast.List, ast.Tuple))] if shapes is not None else []
    sizes = [item for node in lists for item in node.elts if not isinstance(item, (ast.List, ast.Tuple))]
    return any(not (isinstance(size, ast.Constant) and size.value is None) for size in sizes)
