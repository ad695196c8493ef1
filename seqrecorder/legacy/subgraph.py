"""Sections of a TensorFlow 1 graph, and the state of the graph.

A section consists of the operations that compute tensors from the elements of sources, such as those between two
queues. Sections are run inside `tf.data`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.errors import LiftError, first_line
from seqrecorder.legacy.graph import (
    CONDITIONALS,
    ENQUEUES,
    QUEUES,
    READERS,
    SparseSlot,
    back_from,
    consumers,
    describe,
    filled_while_read,
    is_pull,
    source_of,
    sources_of,
    through_identities,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence


VARIABLES = ("VariableV2", "Variable", "VarHandleOp")
TABLES = ("HashTableV2", "MutableHashTableV2")
LOOKUPS = ("LookupTableFindV2", "LookupTableSizeV2")

_ITERATOR = (
    "it takes from a tf.data iterator",
    "this part is tf.data already: let the function build and return the dataset, and call it without lift",
)
_STAGING = "it is a staging area", "leave it out: lift(...).prefetch(1) does the same"
_REFUSED = {
    "Placeholder": (
        "it is a placeholder, fed from Python at each step",
        "give its one value, lift(..., feed={name: value}), or a dataset of what a queue gets: feed={queue: dataset}",
    ),
    **dict.fromkeys(("IteratorGetNext", "IteratorV2", "OneShotIterator"), _ITERATOR),
    **dict.fromkeys(("Stage", "Unstage"), _STAGING),
    "QueueSizeV2": ("the size of a queue is used", "there is no queue any more: leave it out"),
}
_LOOPS = ("While", "StatelessWhile")
_GATHERS = ("ResourceGather", "ResourceGatherNd", "VarIsInitializedOp", "Identity", "RefIdentity")
_READS_STATE = (*LOOKUPS, *CONDITIONALS, *_LOOPS, *_GATHERS)
_LISTS = ("TensorList", "EmptyTensorList")
"""Prefixes of operations on the arrays of `tf.map_fn` and loops: plain values, although their dtype is variant."""

_WRITES_REFERENCES = ("Assign", "AssignAdd", "AssignSub", "Scatter")


def check(op: Any) -> None:
    """Raise `LiftError` if an operation cannot be copied out of its graph."""
    if op.type in _REFUSED:
        reason, advice = _REFUSED[op.type]
        raise LiftError(reason, advice=advice, op=op.name)
    if op.type in ENQUEUES:
        raise filled_while_read(source_of(op.inputs[0]))
    tensors = [*op.inputs, *op.outputs]
    holders = [through_identities(tensor).op for tensor in tensors]
    if sources := [describe(holder) for holder in holders if holder.type in QUEUES or holder.type in READERS]:
        inside = f"{sources[0]} is used inside a tf.cond or a loop"
        other = f"{op.type} uses {sources[0]} for something other than its elements"
        raise LiftError(
            inside if op.type in (*CONDITIONALS, *_LOOPS) else other,
            advice="dequeue before the branch or loop, and use the tensors in it; replace counters by "
            "tf.data.Dataset.enumerate on the lifted dataset",
            op=op.name,
        )
    if op.type in _READS_STATE or op.type.startswith(_LISTS):
        return
    kept = [tensor.dtype.name in ("resource", "variant") for tensor in tensors]
    writes = op.type.startswith(_WRITES_REFERENCES)
    changed = [
        repr(holder.name)
        for holder, tensor, keeps in zip(holders, tensors, kept, strict=True)
        if (keeps or (writes and tensor.dtype._is_ref_dtype))  # noqa: SLF001 - no public name
        and (holder.type in VARIABLES or holder.type in TABLES)
    ]
    if changed or any(kept):
        state = f"an operation of type {op.type} has state that cannot be translated"
        raise LiftError(
            f"{op.type} changes {changed[0]} while the pipeline runs" if changed else state,
            advice="leave it out of the input function: datasets do not change variables",
            op=op.name,
        )


_COUNTERS = ("CountUpTo", "ResourceCountUpTo")
_TAKE = "TakeManySparseFromTensorsMap"
_HARMLESS = (*LOOKUPS, "Assert", "NoOp")
"""Types of operations that are marked as stateful, although their results do not depend on earlier runs."""


@attrs.frozen(eq=False)
class Section:
    """Operations that compute target tensors from the outputs of pulls.

    Attributes:
        targets: the results: tensors, and `SparseSlot`s, each of which becomes a string vector.
        inner: the operations to run, by name, in the order of the graph.
        cut: the variables, tables and placeholders at the border of the section, by name.
        pulls: the dequeue and read operations at the border of the section, in the order of the graph.
        takes: the operations that restore sparse tensors from their serialized form.
        limits: the counters of `tf.train.limit_epochs`, each of which limits the number of runs.
    """

    targets: Sequence[Any]
    inner: dict[str, Any] = attrs.field(factory=dict)
    cut: dict[str, Any] = attrs.field(factory=dict)
    pulls: list[Any] = attrs.field(factory=list)
    takes: list[Any] = attrs.field(factory=list)
    limits: list[Any] = attrs.field(factory=list)

    @property
    def stateful(self) -> tuple[Any, ...]:
        """Operations whose results depend on earlier runs, such as random ones."""
        return tuple(op for op in self.inner.values() if op.op_def.is_stateful and op.type not in _HARMLESS)

    @property
    def shuffles(self) -> list[Any]:
        """Operations that shuffle a tensor."""
        return [op for op in self.inner.values() if op.type == "RandomShuffle"]


def cut_section(
    targets: Sequence[Any], after: Iterable[Any] = (), datasets: Container[str] = (), feed: Container[str] = ()
) -> Section:
    """Collect the operations between target tensors and the pulls that they depend on.

    Args:
        targets: tensors and `SparseSlot`s of one graph.
        after: further operations to run, for their side effects.
        datasets: names of registered dataset operations, which are treated as pulls.
        feed: names of the placeholders for which the user passed a value.

    Raises:
        LiftError: the targets depend on an operation that cannot be translated.
    """
    section = Section(targets)
    waiting, seen = [*after, *(tensor.op for target in targets for tensor in tensors_of(target))], set[str]()
    while waiting:
        op = waiting.pop()
        if op.name in seen:
            continue
        seen.add(op.name)
        if is_pull(op) or op.name in datasets:
            section.pulls.append(op)
        elif op.type in _COUNTERS:
            section.limits.append(op)
        elif op.type == _TAKE:
            section.takes.append(op)
            waiting.append(slot_of_take(op).op)
        elif _is_in_state(op, feed):
            section.cut[op.name] = op
        else:
            check(op)
            section.inner[op.name] = op
            waiting += [tensor.op for tensor in op.inputs]
        waiting += op.control_inputs
    for op in section.limits:
        users = [user for user in op.outputs[0].consumers() if user.name in section.inner]
        if users:
            text = f"the epoch counter is used by {users[0].name!r}"
            advice = "count the elements of the lifted dataset with tf.data.Dataset.enumerate"
            raise LiftError(text, advice=advice, op=op.name)
    operations = [*section.pulls, *section.inner.values()]
    order = {op.name: number for number, op in enumerate(operations[0].graph.get_operations())} if operations else {}
    section.pulls.sort(key=lambda op: order[op.name])
    for name in sorted(section.inner, key=order.__getitem__):
        section.inner[name] = section.inner.pop(name)
    return section


def are_apart(sections: Sequence[Section]) -> bool:
    """Check whether sections take their elements from different sources.

    If a section pulls more than once, or if the pulls of sections differ, they may share a queue that holds file names.
    """
    taken = [{source for pull in section.pulls for source in sources_of(pull)} for section in sections]
    own = [op for section in sections for op in (*(sources_of(pull)[0] for pull in section.pulls), *section.limits)]
    kinds = {tuple(pull.type for pull in section.pulls) for section in sections}
    several = len(kinds) > 1 or len(sections[0].pulls) > 1
    return sum(map(len, taken)) == len(set().union(*taken)) or (several and len(own) == len(set(own)))


def _is_in_state(op: Any, feed: Container[str]) -> bool:
    """Check whether the output of an operation is part of the state of the graph.

    The state consists of variables, tables, and the placeholders that are fed.
    """
    fed = op.type == "Placeholder" and op.name in feed
    read = op.type == "ReadVariableOp" and through_identities(op.inputs[0]).op.type == "VarHandleOp"
    return fed or read or op.type in VARIABLES or op.type in TABLES


def tensors_of(target: Any) -> tuple[Any, ...]:
    """Return the component tensors of a target."""
    return target.components if isinstance(target, SparseSlot) else (target,)


def slot_of_take(op: Any) -> Any:
    """Find the pulled tensor that an operation converts back to sparse tensors.

    The tensor contains the sparse tensors in serialized form. The operation is one of a section's `takes`.
    """
    tensor = through_identities(op.inputs[0])
    if tensor.op.type == "Squeeze":
        tensor = through_identities(tensor.op.inputs[0])
    return tensor


def run_section(
    section: Section, pulled: Sequence[Sequence[Any]], state: State, known: Mapping[str, Any] | None = None
) -> list[Any]:
    """Run a section in the current graph, and return its targets.

    Args:
        section: the section to run.
        pulled: the output tensors of each pull; leading outputs may be missing if they are unused.
        state: variables, tables and placeholders.
        known: tensors that have been computed before, by name.
    """
    import tensorflow as tf

    computed: dict[str, Any] = dict(known or {})
    for op, tensors in zip(section.pulls, pulled, strict=True):
        for old, new in zip(op.outputs[len(op.outputs) - len(tensors) :], tensors, strict=True):
            if old.dtype == new.dtype:  # otherwise the tensor contains serialized sparse tensors
                new.set_shape(old.shape)
            computed[old.name] = new
    for op in section.takes:
        indices, values, shape = op.outputs
        whole = tf.io.deserialize_many_sparse(computed[slot_of_take(op).name], values.dtype)
        for old, new in zip((indices, values, shape), (whole.indices, whole.values, whole.dense_shape), strict=True):
            new.set_shape(old.shape)
            computed[old.name] = new
    for op in section.cut.values():
        computed[op.outputs[0].name] = state.value(op)
    wanted = [tensor for target in section.targets for tensor in tensors_of(target) if tensor.name not in computed]
    computed |= _import_section(section, wanted, computed)
    return [_store(target, computed) for target in section.targets]


def constants(tensors: Sequence[Any], state: State, datasets: Container[str] = ()) -> list[Any]:
    """Evaluate tensors that depend neither on queues nor on random operations.

    Raises:
        LiftError: a tensor depends on a queue or a random operation.
    """
    import tensorflow as tf

    known = [tf.get_static_value(tensor) for tensor in tensors]
    if all(value is not None for value in known):
        return known
    section = cut_section(tensors, (), datasets, state.feed)
    if section.pulls or section.stateful:
        text = "expected a constant, such as a batch size, got a number that is random or read from a queue"
        advice = "take single elements, and batch the lifted dataset"
        raise LiftError(text, advice=advice, op=tensors[0].op.name)
    return [value.numpy() for value in tf.function(lambda: run_section(section, [], state), autograph=False)()]


def _store(target: Any, computed: Mapping[str, Any]) -> Any:
    import tensorflow as tf

    if not isinstance(target, SparseSlot):
        return computed[target.name]
    sparse = tf.SparseTensor(*(computed[component.name] for component in target.components))
    return tf.io.serialize_many_sparse(sparse) if target.many else tf.io.serialize_sparse(sparse)


def _import_section(section: Section, wanted: Sequence[Any], computed: Mapping[str, Any]) -> dict[str, Any]:
    """Copy the operations of a section into the current graph.

    The result maps the name of each wanted tensor to its copy.
    """
    import tensorflow as tf

    if not section.inner:
        return {}
    graph = next(iter(section.inner.values())).graph
    definition = tf.compat.v1.GraphDef(versions=graph.graph_def_versions)
    used = set[str]()
    calls = False
    for op in section.inner.values():
        node = op.node_def
        calls |= any(attribute.WhichOneof("value") in {"func", "list"} for attribute in node.attr.values())
        copy = definition.node.add()
        copy.CopyFrom(node)
        copy.device = ""
        copy.attr.pop("_class", None)
        del copy.input[:]
        copy.input.extend(name for name in node.input if not name.startswith("^") or name[1:] in section.inner)
        used.update(name if ":" in name else f"{name}:0" for name in copy.input)
    if calls:
        definition.library.CopyFrom(graph.as_graph_def().library)
    mapping = {name: tensor for name, tensor in computed.items() if name in used}
    here = tf.compat.v1.get_default_graph()
    if functions := getattr(graph, "_py_funcs_used_in_graph", None):  # keeps Python functions alive for the new graph
        here._py_funcs_used_in_graph = [*getattr(here, "_py_funcs_used_in_graph", []), *functions]  # noqa: SLF001
    # Without its context, a stateful operation such as `Assert` waits for the previous one, which may be in a dead
    # branch.
    within = {op: op._get_control_flow_context() for op in section.inner.values()}  # noqa: SLF001 - no public way
    inside = [op for op, context in within.items() if context is not None]
    imported = tf.graph_util.import_graph_def(
        definition, input_map=mapping, return_elements=[part.name for part in (*wanted, *inside)], name="lifted"
    )
    for old, new in zip(inside, imported[len(wanted) :], strict=True):
        new._set_control_flow_context(within[old])  # noqa: SLF001 - no public way
    for old, new in zip(wanted, imported, strict=False):
        new.set_shape(old.shape)
    return {old.name: new for old, new in zip(wanted, imported, strict=False)}


_FILLING = ("InitializeTable", "LookupTableImport", "LookupTableInsert")
"""Prefixes of the types of operations that fill a table."""


class State:
    """Variables, tables and placeholders of a graph.

    Args:
        graph: a `tf.Graph`.
        feed: mapping from placeholder names to values.
    """

    def __init__(self, graph: Any, feed: Mapping[str, Any]) -> None:
        self.graph, self.feed = graph, dict(feed)
        self._session: Any = None
        self._done: set[str] = set()
        self._values: dict[str, Any] = {}
        self._resources: dict[str, Any] = {}

    def value(self, op: Any) -> Any:
        """Return the tensor that represents an operation of the old graph in the new graph.

        The operation is in `cut`, and the tensor replaces its first output. Placeholders, and variables that are read,
        become constants. Tables, and variables used by a gather, become resources.
        """
        import tensorflow as tf

        if op.type not in (*TABLES, "VarHandleOp"):
            return tf.constant(self.value_of(op), op.outputs[0].dtype.base_dtype)
        if op.name not in self._resources:
            self._resources[op.name] = self._table(op) if op.type in TABLES else self._variable(op)
        resource = self._resources[op.name]
        return tf.identity(resource.resource_handle if op.type in TABLES else resource.handle)

    def limit(self, section: Section) -> int | None:
        """Compute the maximum number of runs of a section, as limited by its epoch counters.

        The result is None if the section has no epoch counters.
        """
        counted = {op: int(self._initial(through_identities(op.inputs[0]).op)) for op in section.limits}
        return min((max(0, int(op.get_attr("limit")) - first) for op, first in counted.items()), default=None)

    def value_of(self, op: Any) -> Any:
        """Return the value of a placeholder or the initial value of a variable."""
        return self.feed[op.name] if op.type == "Placeholder" else self._initial(op)

    def contents(self, op: Any) -> tuple[Any, Any]:
        """Return the keys and the values of a table."""
        import tensorflow as tf

        kinds = op.get_attr("key_dtype"), op.get_attr("value_dtype")
        with self.graph.as_default():
            exported = tf.raw_ops.LookupTableExportV2(table_handle=op.outputs[0], Tkeys=kinds[0], Tvalues=kinds[1])
        keys, values = self._run(exported, op)
        return keys, values

    def close(self) -> None:
        """Release the session in which the initialisers ran."""
        if self._session is not None:
            self._session.close()

    def _initial(self, op: Any) -> Any:
        """Return the initial value of a variable.

        `op` is either the variable or the operation that reads it.
        """
        import tensorflow as tf

        if op.name not in self._values:
            tensor = op.outputs[0]
            if op.type == "VarHandleOp":
                with self.graph.as_default():
                    tensor = tf.raw_ops.ReadVariableOp(resource=tensor, dtype=op.get_attr("dtype"))
            self._values[op.name] = self._run(tensor, op)
        return self._values[op.name]

    def _variable(self, op: Any) -> Any:
        import tensorflow as tf

        value = self._initial(op)
        with tf.init_scope():
            return tf.Variable(value, trainable=False)

    def _table(self, op: Any) -> Any:
        import tensorflow as tf

        kinds = op.get_attr("key_dtype"), op.get_attr("value_dtype")
        keys, values = self.contents(op)
        with tf.init_scope():
            default = tf.zeros([], kinds[1]) if kinds[1] != tf.string else tf.constant("")
            if op.type == "HashTableV2":
                return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values, *kinds), default)
            table = tf.lookup.experimental.MutableHashTable(*kinds, default)
            table.insert(tf.constant(keys, kinds[0]), tf.constant(values, kinds[1]))
            return table

    def _run(self, fetch: Any, op: Any) -> Any:
        """Evaluate `fetch` after a variable or table has been initialised.

        `op` is the variable or table, or an operation that reads it.
        """
        import tensorflow as tf

        if self._session is None:
            self._session = tf.compat.v1.Session(graph=self.graph)
        feed = {self.graph.get_operation_by_name(name).outputs[0]: value for name, value in self.feed.items()}
        try:
            self._initialise(through_identities(op.inputs[0]).op if op.inputs else op, feed)
            return self._session.run(fetch, feed)
        except tf.errors.OpError as error:
            message = error.message.removeprefix("Graph execution error:").strip()
            text = f"it cannot be initialised: {first_line(ValueError(message))}"
            advice = "initialise it in the input function; lift(..., feed={name: value}) gives placeholders values"
            raise LiftError(text, advice=advice, op=op.name) from error

    def _initialise(self, op: Any, feed: Any) -> None:
        """Run the initialisers of a variable or table, unless they have already run.

        A second run would draw new random values. If the initialisers depend on others, these are run first.
        """
        if op.name in self._done:
            return
        self._done.add(op.name)
        steps = [
            user
            for user in consumers(op)
            if user.type.startswith(_FILLING) or (user.type.startswith("Assign") and user.name == f"{op.name}/Assign")
        ]
        for other in [each for each in back_from(steps) if each.type in VARIABLES or each.type in TABLES]:
            self._initialise(other, feed)
        self._session.run(steps, feed)
