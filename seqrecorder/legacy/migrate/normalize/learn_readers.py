"""`tf.contrib.learn`'s functions that read batches of examples, written out as the queues that they made."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from seqrecorder.legacy.migrate.analyze.data_flow import binds, own_nodes, reads, scopes, walk
from seqrecorder.legacy.migrate.analyze.names import Names
from seqrecorder.legacy.migrate.source import Edit, Source

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMMON = "randomize_input num_epochs queue_capacity"
_SIGNATURES = {
    "read_batch_features": (
        f"file_pattern batch_size features reader {_COMMON} feature_queue_capacity reader_num_threads "
        "num_enqueue_threads parse_fn name read_batch_size"
    ),
    "read_batch_record_features": f"file_pattern batch_size features {_COMMON} reader_num_threads name",
}
_PLAIN = frozenset(
    (
        *("file_pattern", "batch_size", "features", "reader", "randomize_input", "num_epochs", "queue_capacity"),
        *("feature_queue_capacity", "num_enqueue_threads", "name"),
    )
)
"""Arguments under which the batches are those of a queue that one reader fills."""
_CAPACITY = "10000"


def without_contrib_learn(text: str) -> str:
    """Return a script that makes the queues of `read_batch_features` and `read_batch_record_features` itself."""
    if "read_batch_" not in text:
        return text
    source = Source(text)
    names = Names(source.tree)
    edits = []
    for scope in scopes(source.tree):
        for node in own_nodes(scope):
            if isinstance(node, (ast.Assign, ast.Return)) and isinstance(node.value, ast.Call) and source.alone(node):
                lines = list(_written_out(source, names, node, node.value))
                indent = source.indent(node)
                new = tuple(indent + line for line in lines)
                edits += [Edit(node.lineno, node.end_lineno or node.lineno, new)] if lines else []
    return source.edited(edits)


def _written_out(source: Source, names: Names, statement: ast.Assign | ast.Return, call: ast.Call) -> Iterator[str]:
    """Yield the statements that do what a call does; none where that is not clear."""
    name = (names.called(call) or "").replace("tf.contrib.learn.io.", "tf.contrib.learn.")
    signature = _SIGNATURES.get(name.removeprefix("tf.contrib.learn."), "").split()
    given = dict(zip(signature, call.args, strict=False)) | {k.arg: k.value for k in call.keywords if k.arg}
    hidden = any(isinstance(item, ast.Starred) for item in call.args) or any(k.arg is None for k in call.keywords)
    reader = given.get("reader")
    if not signature or hidden or not {"file_pattern", "batch_size", "features"} <= set(given) <= _PLAIN:
        return
    if reader is not None and names.resolve(reader) != "tf.TFRecordReader":
        return
    used = {node.id for node in walk(source.tree) if isinstance(node, ast.Name)}
    files, queue, record, records = (next(n for n in (word, f"{word}_of_files") if n not in used) for word in _WORDS)
    said = {option: source.segment(value) for option, value in given.items()}
    tf, unit = names.module, source.unit(source.indent(statement))
    shuffle = said.get("randomize_input", "True")
    epochs = said.get("num_epochs")
    yield f"{files} = sorted({tf}.gfile.Glob({said['file_pattern']}))"
    yield f"{queue} = {tf}.train.string_input_producer({files}, num_epochs={epochs}, shuffle={shuffle})"
    yield f"_, {record} = {tf}.TFRecordReader().read({queue})"
    size, capacity = said["batch_size"], said.get("queue_capacity", _CAPACITY)
    small = "allow_smaller_final_batch=True"
    shuffled = f"{records} = {tf}.train.shuffle_batch([{record}], {size}, {capacity}, 0, {small})"
    in_order = f"{records} = {tf}.train.batch([{record}], {size}, {small})"
    if shuffle in ("True", "False"):
        yield shuffled if shuffle == "True" else in_order
    else:
        yield from (f"if {shuffle}:", unit + shuffled, "else:", unit + in_order)
    if isinstance(statement, ast.Return):
        yield f"return {tf}.parse_example({records}, {said['features']})"
        return
    spec = said["features"]
    if binds(statement) & reads(given["features"]):
        name_of_spec = next(name for name in ("spec", "feature_spec") if name not in used)
        yield f"{name_of_spec} = {spec}"
        spec = name_of_spec
    yield f"{source.segment(statement.targets[0])} = {tf}.parse_example({records}, {spec})"


_WORDS = ("files", "queue", "record", "records")
