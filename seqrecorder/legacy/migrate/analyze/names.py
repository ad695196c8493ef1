"""Which of TensorFlow's names an expression means, and what the arguments of its calls are called.

The old names are those of TensorFlow 1: `tf.train.batch` stands for `tensorflow.train.batch`,
`tensorflow.compat.v1.train.batch` and every alias of them.
"""

from __future__ import annotations

import ast
import functools
import re
from typing import TYPE_CHECKING

import attrs

from seqrecorder.legacy.migrate.analyze.bindings import Bindings
from seqrecorder.legacy.migrate.analyze.data_flow import only, walk

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
PROVIDER = "tf.contrib.slim.dataset_data_provider.DatasetDataProvider"
PROVIDERS = {
    PROVIDER: (
        "dataset num_readers reader_kwargs shuffle num_epochs common_queue_capacity common_queue_min record_key seed "
        "scope"
    )
}
DATASET = "tf.contrib.slim.dataset.Dataset"
"""What tells a provider where its records are, and what reads and decodes them; it makes no queue itself."""
UNCONVERTED = {
    "tf.train.limit_epochs": "it counts epochs in a local variable",
    "tf.PriorityQueue": "no transformation of a tf.data.Dataset orders by priority",
    "tf.contrib.training.batch_sequences_with_states": "it keeps states between segments: see seqrecorder.Unroll",
    "tf.contrib.training.bucket": "the caller says which bucket each example goes to",
    "tf.contrib.slim.parallel_reader.parallel_read": "its readers are made inside TF-Slim",
    "tf.contrib.slim.prefetch_queue.prefetch_queue": "its queue is made inside TF-Slim",
    "tf.contrib.learn.read_batch_features": "its queues are made inside tf.contrib.learn",
    "tf.contrib.learn.read_batch_record_features": "its queues are made inside tf.contrib.learn",
    "tf.contrib.learn.io.read_batch_features": "its queues are made inside tf.contrib.learn",
    "tf.contrib.learn.io.read_batch_record_features": "its queues are made inside tf.contrib.learn",
}
SIGNATURES = {
    name: tuple(signature.split())
    for table in (PRODUCERS, PROVIDERS, READERS, BATCHERS, QUEUES, RUNNERS)
    for name, signature in table.items()
}
PIPELINE = frozenset(SIGNATURES) | frozenset(UNCONVERTED)
"""Every name that makes an input pipeline of queues."""

_COMMON = frozenset({"batch", "bucket"})
_WORDS = frozenset(name.rpartition(".")[2] for name in PIPELINE) - _COMMON
_MODULES = frozenset({"train", "training", "bucket_ops"})
_V1 = "tensorflow.compat.v1"
_OTHER_PLACES = {
    "tf.python.training.": "tf.train.",
    "tf.python.ops.data_flow_ops.": "tf.",
    "tf.python.ops.io_ops.": "tf.",
    "tf.train.training.": "tf.train.",
    "tf.train.queue_runner.": "tf.train.",
    "tf.train.input.": "tf.train.",
    "tf.queue.": "tf.",
    "tf.contrib.slim.python.slim.data.": "tf.contrib.slim.",
    "tf.contrib.slim.parallel_reader.parallel_reader.": "tf.contrib.slim.parallel_reader.",
    "tf.contrib.training.python.training.bucket_ops.": "tf.contrib.training.",
}


def may_have_queues(text: str) -> bool:
    """Whether a text may be that of a script with a pipeline of queues: whether it has words for them.

    >>> may_have_queues("import tensorflow as tf; x = tf.train.batch([y], 3)"), may_have_queues("import tensorflow")
    (True, False)
    """
    words = {*re.findall(r"\w+", text)}
    return bool(words & {"tensorflow", "tf"} and (words & _WORDS or (words & _COMMON and words & _MODULES)))


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
        self.bindings, imports, self._assigned = _of_module(tree)
        self._imported: dict[int, str] = {}
        self._starred: dict[str, str] = {}
        self._known: dict[tuple[int, str], str | None] = {}
        for node in imports:
            if isinstance(node, ast.Import):
                self._import(node)
            else:
                self._import_from(node)

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name.partition(".")[0] == "tensorflow":
                whole = _canonical(alias.name.replace("tensorflow", "tf", 1)) if alias.asname else "tf"
                self._take(node, alias, whole, named=alias.name in ("tensorflow", alias.asname and _V1))

    def _import_from(self, node: ast.ImportFrom) -> None:
        package, _, rest = (node.module or "").partition(".")
        if package != "tensorflow" or node.level:
            return
        place = _canonical(f"tf{'.' * bool(rest)}{rest}.")[:-1]
        for alias in node.names:
            self._take(node, alias, _canonical(f"{place}.{alias.name}"), named=True)
            if alias.name == "*":
                self._starred |= {
                    name.rpartition(".")[2]: name for name in PIPELINE if name.rpartition(".")[0] == place
                }

    def _take(self, node: ast.Import | ast.ImportFrom, alias: ast.alias, found: str, *, named: bool) -> None:
        self._imported[id(alias)] = found
        if found == "tf" and named:
            self.module = self.module or alias.asname or alias.name
            self.imports.append(node)

    @property
    def first(self) -> bool:
        """Whether what the module calls TensorFlow is TensorFlow 1, as far as that is left."""
        return any(alias.name in (_V1, "v1") for node in self.imports for alias in node.names)

    def module_in(self, scope: ast.AST) -> str | None:
        """Return how a scope calls TensorFlow, None where it has no name for it."""
        called = [alias.asname or alias.name for node in self.imports for alias in node.names]
        for name in called:
            found = self.bindings.seen_from(scope, name)
            if found is not None and self._meaning(found, name) == "tf":
                return name
        return None

    def _meaning(self, scope: ast.AST, name: str) -> str | None:
        """Return the old name that a variable of a scope is another one for; None where it is, or may be, no such."""
        place = id(scope), name
        if place not in self._known:
            self._known[place] = None  # until it is known: some are made of themselves
            bound = self.bindings.of(scope, name)
            found = {self._imported.get(id(node)) for node in bound}
            if len(bound) == 1 and id(bound[0]) in self._assigned:
                found = {self.resolve(self._assigned[id(bound[0])])}
            self._known[place] = found.pop() if len(found) == 1 else None
        return self._known[place]

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
        if not isinstance(node, ast.Name):
            return None
        scope = self.bindings.scope_of(node)
        first = self._meaning(scope, node.id) if scope is not None else self._starred.get(node.id)
        return None if first is None else _canonical(".".join([first, *reversed(parts)]))

    def rooted(self, node: ast.AST) -> bool:
        """Whether an expression is written as an attribute of TensorFlow itself, `tf.train.batch` say."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and self.resolve(node) == "tf"

    def called(self, node: ast.AST | None) -> str | None:
        """Return the old name of what a call calls, None for all else."""
        return self.resolve(node.func) if isinstance(node, ast.Call) else None

    def mentions(self, tree: ast.AST, wanted: frozenset[str]) -> Iterator[tuple[str, ast.AST]]:
        """Yield every expression that means one of some old names."""
        for node in walk(tree):
            if isinstance(node, (ast.Attribute, ast.Name)) and isinstance(node.ctx, ast.Load):
                name = self.resolve(node)
                if name in wanted:
                    yield name, node


@functools.lru_cache(maxsize=16)
def _of_module(tree: ast.Module) -> tuple[Bindings, list[ast.Import | ast.ImportFrom], dict[int, ast.expr]]:
    """Return the variables of a module whose tree stays as it is, its imports, and what is assigned to names' ids."""
    imports = [node for node in walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    assigned = [node for node in only(ast.Assign, walk(tree)) if len(node.targets) == 1]
    return Bindings(tree), imports, {id(node.targets[0]): node.value for node in assigned}


def _canonical(name: str) -> str:
    if name == "tf.compat.v1" or name.startswith("tf.compat.v1."):
        name = "tf" + name[len("tf.compat.v1") :]
    for place, canonical in _OTHER_PLACES.items():
        if name.startswith(place):
            name = canonical + name[len(place) :]
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
