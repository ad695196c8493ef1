"""Which of TensorFlow's names an expression means, and what the arguments of its calls are called.

The old names are those of TensorFlow 1: `tf.train.batch` stands for `tensorflow.train.batch`,
`tensorflow.compat.v1.train.batch` and every alias of them.
"""

from __future__ import annotations

import ast
import collections
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator

PRODUCERS = {
    "tf.train.string_input_producer": "string_tensor num_epochs shuffle seed capacity shared_name name cancel_op",
    "tf.train.input_producer": (
        "input_tensor element_shape num_epochs shuffle seed capacity shared_name summary_name name cancel_op"
    ),
    "tf.train.range_input_producer": "limit num_epochs shuffle seed capacity shared_name name",
    "tf.train.slice_input_producer": "tensor_list num_epochs shuffle seed capacity shared_name name",
}
OF_QUEUES = frozenset({"tf.train.string_input_producer", "tf.train.input_producer"})
"""Producers whose queues readers take files from."""
READERS = {
    "tf.TFRecordReader": "name options",
    "tf.TextLineReader": "skip_header_lines name",
    "tf.FixedLengthRecordReader": "record_bytes header_bytes footer_bytes hop_bytes name encoding",
    "tf.WholeFileReader": "name",
    "tf.IdentityReader": "name",
}
_BATCH = "enqueue_many shapes dynamic_pad allow_smaller_final_batch shared_name name"
_SHUFFLED = "enqueue_many shapes allow_smaller_final_batch shared_name name"
BATCHERS = {
    "tf.train.batch": f"tensors batch_size num_threads capacity {_BATCH}",
    "tf.train.shuffle_batch": f"tensors batch_size capacity min_after_dequeue num_threads seed {_SHUFFLED}",
    "tf.train.batch_join": f"tensors_list batch_size capacity {_BATCH}",
    "tf.train.shuffle_batch_join": f"tensors_list batch_size capacity min_after_dequeue seed {_SHUFFLED}",
    "tf.train.maybe_batch": f"tensors keep_input batch_size num_threads capacity {_BATCH}",
    "tf.train.maybe_batch_join": f"tensors_list keep_input batch_size capacity {_BATCH}",
    "tf.train.maybe_shuffle_batch": (
        f"tensors batch_size capacity min_after_dequeue keep_input num_threads seed {_SHUFFLED}"
    ),
    "tf.train.maybe_shuffle_batch_join": (
        f"tensors_list batch_size capacity min_after_dequeue keep_input seed {_SHUFFLED}"
    ),
    "tf.contrib.training.bucket_by_sequence_length": (
        "input_length tensors batch_size bucket_boundaries num_threads capacity bucket_capacities shapes dynamic_pad "
        "allow_smaller_final_batch keep_input shared_name name"
    ),
}
QUEUES = {
    "tf.FIFOQueue": "capacity dtypes shapes names shared_name name",
    "tf.PaddingFIFOQueue": "capacity dtypes shapes names shared_name name",
    "tf.RandomShuffleQueue": "capacity min_after_dequeue dtypes shapes names seed shared_name name",
}
RUNNERS = {
    "tf.train.QueueRunner": "queue enqueue_ops",
    "tf.train.add_queue_runner": "qr collection",
}
UNCONVERTED = {
    "tf.train.limit_epochs": "it counts epochs in a local variable",
    "tf.PriorityQueue": "no transformation of a tf.data.Dataset orders by priority",
    "tf.contrib.training.batch_sequences_with_states": "it keeps states between segments: see seqrecorder.Unroll",
    "tf.contrib.training.bucket": "the caller says which bucket each example goes to",
    "tf.contrib.slim.parallel_reader.parallel_read": "its readers are made inside TF-Slim",
    "tf.contrib.slim.dataset_data_provider.DatasetDataProvider": "its readers are made inside TF-Slim",
    "tf.contrib.slim.prefetch_queue.prefetch_queue": "its queue is made inside TF-Slim",
    "tf.contrib.learn.read_batch_features": "its queues are made inside tf.contrib.learn",
    "tf.contrib.learn.read_batch_record_features": "its queues are made inside tf.contrib.learn",
    "tf.contrib.learn.io.read_batch_features": "its queues are made inside tf.contrib.learn",
    "tf.contrib.learn.io.read_batch_record_features": "its queues are made inside tf.contrib.learn",
}
SIGNATURES = {
    name: tuple(signature.split())
    for table in (PRODUCERS, READERS, BATCHERS, QUEUES, RUNNERS)
    for name, signature in table.items()
}
PIPELINE = frozenset(SIGNATURES) | frozenset(UNCONVERTED)
"""Every name that makes an input pipeline of queues."""

_OTHER_PLACES = {
    "tf.train.queue_runner.": "tf.train.",
    "tf.train.input.": "tf.train.",
    "tf.queue.": "tf.",
    "tf.contrib.slim.parallel_reader.parallel_reader.": "tf.contrib.slim.parallel_reader.",
    "tf.contrib.training.python.training.bucket_ops.": "tf.contrib.training.",
}


class Names:
    """The names of one module.

    Args:
        tree: the module.

    Attributes:
        module: how the module calls TensorFlow, such as `tf`; None where it does not import it by a name.
        imports: the statements that import it so.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.module: str | None = None
        self.imports: list[ast.Import | ast.ImportFrom] = []
        self._known: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self._import(node)
            elif isinstance(node, ast.ImportFrom):
                self._import_from(node)
        self._take_aliases(tree)

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name in ("tensorflow", "tensorflow.compat.v1") and (alias.asname or alias.name == "tensorflow"):
                self._known[alias.asname or alias.name] = "tf"
                self.module = self.module or alias.asname or alias.name
                self.imports.append(node)

    def _import_from(self, node: ast.ImportFrom) -> None:
        inside = {"tensorflow": "tf", "tensorflow.compat": "tf.compat", "tensorflow.compat.v1": "tf"}
        place = inside.get(node.module or "")
        if place is None and (node.module or "").startswith("tensorflow.contrib"):
            place = (node.module or "").replace("tensorflow", "tf", 1)
        if place is None or node.level:
            return
        for alias in node.names:
            found = _canonical(f"{place}.{alias.name}")
            self._known[alias.asname or alias.name] = found
            if found == "tf":
                self.module = self.module or alias.asname or alias.name
                self.imports.append(node)

    def _take_aliases(self, tree: ast.Module) -> None:
        """Take in names that are assigned once, to one of TensorFlow's, and are nothing else anywhere."""
        assigned = collections.Counter(
            node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        )
        assigned.update(node.arg for node in ast.walk(tree) if isinstance(node, ast.arg))
        assigned.update(node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef)))
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                found = self.resolve(node.value)
                if found and assigned[name] == 1:
                    self._known[name] = found

    def resolve(self, node: ast.AST) -> str | None:
        """Return the old name of what an expression means, None where it is not TensorFlow's.

        >>> tree = ast.parse("import tensorflow.compat.v1 as tf; slim = tf.contrib.slim; slim.queues; tf.train.batch")
        >>> names = Names(tree)
        >>> names.resolve(tree.body[2].value), names.resolve(tree.body[3].value)
        ('tf.contrib.slim.queues', 'tf.train.batch')
        """
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self._known:
            return None
        return _canonical(".".join([self._known[node.id], *reversed(parts)]))

    def called(self, node: ast.AST | None) -> str | None:
        """Return the old name of what a call calls, None for all else."""
        return self.resolve(node.func) if isinstance(node, ast.Call) else None

    def mentions(self, tree: ast.AST, wanted: frozenset[str]) -> Iterator[tuple[str, ast.AST]]:
        """Yield every expression that means one of some old names."""
        for node in ast.walk(tree):
            if isinstance(node, (ast.Attribute, ast.Name)) and isinstance(node.ctx, ast.Load):
                name = self.resolve(node)
                if name in wanted:
                    yield name, node


def _canonical(name: str) -> str:
    if name == "tf.compat.v1" or name.startswith("tf.compat.v1."):
        name = "tf" + name[len("tf.compat.v1") :]
    for place, canonical in _OTHER_PLACES.items():
        if name.startswith(place):
            return canonical + name[len(place) :]
    return name


@attrs.frozen
class Arguments:
    """The arguments of one call, by name.

    Attributes:
        call: the call.
        given: the arguments that are given.
    """

    call: ast.Call
    given: dict[str, ast.expr]

    def __getitem__(self, name: str) -> ast.expr | None:
        """Return an argument, None where it is not given or is given as None."""
        value = self.given.get(name)
        return None if isinstance(value, ast.Constant) and value.value is None else value

    def constant(self, name: str, default: object) -> object:
        """Return the constant that an argument is, `default` where it is not given; the node where it is another."""
        value = self.given.get(name)
        if value is None:
            return default
        return value.value if isinstance(value, ast.Constant) else value


def arguments(call: ast.Call, name: str) -> Arguments | None:
    """Return the arguments of a call of an old name; None where `*` or `**` hide them."""
    signature = SIGNATURES[name]
    given: dict[str, ast.expr] = {}
    if len(call.args) > len(signature):
        return None
    for parameter, value in zip(signature, call.args, strict=False):
        if isinstance(value, ast.Starred):
            return None
        given[parameter] = value
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg not in signature:
            return None
        given[keyword.arg] = keyword.value
    return Arguments(call, given)
