"""The operations between two sources, cut out of a TensorFlow 1 graph and run inside a `tf.data` function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.errors import LiftError
from seqrecorder.legacy.graph import SparseSlot, is_pull, through_identities
from seqrecorder.legacy.refusals import LOOKUPS, TABLES, VARIABLES, check

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from seqrecorder.legacy.initial_values import State

_COUNTERS = ("CountUpTo", "ResourceCountUpTo")
_TAKE = "TakeManySparseFromTensorsMap"
_HARMLESS = (*LOOKUPS, "Assert", "NoOp")
"""Operations that count as stateful but give the same however often they ran."""


@attrs.frozen(eq=False)
class Section:
    """What computes some tensors from what pulls give.

    Attributes:
        targets: what is computed: tensors, and `SparseSlot`s, each of which becomes a string vector.
        inner: operations that are run, by name.
        cut: tensors at which the section ends that come from no pull, by name, with the operation that gives them.
        pulls: operations that take from sources, in the order of the graph.
        takes: operations that turn what stands for sparse tensors back into them.
        limits: how often it can run by each `tf.train.limit_epochs`, as operations that count.
    """

    targets: Sequence[Any]
    inner: dict[str, Any] = attrs.field(factory=dict)
    cut: dict[str, Any] = attrs.field(factory=dict)
    pulls: list[Any] = attrs.field(factory=list)
    takes: list[Any] = attrs.field(factory=list)
    limits: list[Any] = attrs.field(factory=list)

    @property
    def stateful(self) -> tuple[Any, ...]:
        """Operations whose result depends on how often they ran, such as random ones."""
        return tuple(op for op in self.inner.values() if op.op_def.is_stateful and op.type not in _HARMLESS)


def cut_section(
    targets: Sequence[Any],
    after: Iterable[Any] = (),
    datasets: Container[str] = (),
    feed: Container[str] = (),
) -> Section:
    """Walk back from tensors to the pulls that they depend on.

    Args:
        targets: tensors and `SparseSlot`s of one graph.
        after: operations that run with them, for their effect.
        datasets: names of operations that stand for a dataset, which are pulls as well.
        feed: names of placeholders that have a value.

    Raises:
        LiftError: something is reached that cannot be translated.
    """
    section = Section(targets)
    waiting, seen = [*after, *(tensor.op for target in targets for tensor in parts_of(target))], set[str]()
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
            waiting.append(_slot_of_take(op).op)
        elif _is_held(op, feed):
            section.cut[op.name] = op
        else:
            check(op)
            section.inner[op.name] = op
            waiting += [tensor.op for tensor in op.inputs]
        waiting += op.control_inputs
    for op in section.limits:
        users = [user for user in op.outputs[0].consumers() if user.name in section.inner]
        if users:
            raise LiftError(
                f"the count itself is used, by {users[0].name!r}",
                advice="count what comes out (tf.data.Dataset.enumerate) after lifting",
                op=op.name,
            )
    if len(section.pulls) > 1:
        order = {op: number for number, op in enumerate(section.pulls[0].graph.get_operations())}
        section.pulls.sort(key=order.__getitem__)
    return section


def _is_held(op: Any, feed: Container[str]) -> bool:
    """Whether the state of a graph has what an operation gives."""
    fed = op.type == "Placeholder" and op.name in feed
    read = op.type == "ReadVariableOp" and through_identities(op.inputs[0]).op.type == "VarHandleOp"
    return fed or read or op.type in VARIABLES or op.type in TABLES


def parts_of(target: Any) -> tuple[Any, ...]:
    """Return the tensors of a target."""
    return target.parts if isinstance(target, SparseSlot) else (target,)


def _slot_of_take(op: Any) -> Any:
    """Return the pulled tensor of what stands for sparse tensors."""
    tensor = through_identities(op.inputs[0])
    if tensor.op.type == "Squeeze":
        tensor = through_identities(tensor.op.inputs[0])
    return tensor


def run_section(
    section: Section,
    pulled: Sequence[Sequence[Any]],
    state: State,
    known: Mapping[str, Any] | None = None,
) -> list[Any]:
    """Run a section in the graph that is being built, and return its targets.

    Args:
        section: what to run.
        pulled: for each of its pulls, the tensors that it gave; the first ones may be left out, if nothing uses them.
        state: variables, tables and placeholders.
        known: other tensors that have a value, by name.
    """
    import tensorflow as tf

    given: dict[str, Any] = dict(known or {})
    for op, tensors in zip(section.pulls, pulled, strict=True):
        for old, new in zip(op.outputs[len(op.outputs) - len(tensors) :], tensors, strict=True):
            if old.dtype == new.dtype:  # else it stands for sparse tensors, and only takes use it
                new.set_shape(old.shape)
            given[old.name] = new
    for op in section.takes:
        indices, values, shape = op.outputs
        whole = tf.io.deserialize_many_sparse(given[_slot_of_take(op).name], values.dtype)
        for old, new in zip((indices, values, shape), (whole.indices, whole.values, whole.dense_shape), strict=True):
            new.set_shape(old.shape)
            given[old.name] = new
    for op in section.cut.values():
        given[op.outputs[0].name] = state.value(op)
    wanted = [tensor for target in section.targets for tensor in parts_of(target) if tensor.name not in given]
    given |= _imported(section, wanted, given)
    return [_stored(target, given) for target in section.targets]


def _stored(target: Any, given: Mapping[str, Any]) -> Any:
    import tensorflow as tf

    if not isinstance(target, SparseSlot):
        return given[target.name]
    sparse = tf.SparseTensor(*(given[part.name] for part in target.parts))
    return tf.io.serialize_many_sparse(sparse) if target.many else tf.io.serialize_sparse(sparse)


def _imported(section: Section, wanted: Sequence[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a section's operations into the graph that is being built; return the wanted tensors, by name."""
    import tensorflow as tf

    if not section.inner:
        return {}
    graph = next(iter(section.inner.values())).graph
    definition = tf.compat.v1.GraphDef(versions=graph.graph_def_versions)
    used = set()
    calls = False
    for op in section.inner.values():
        node = op.node_def
        calls |= any(attribute.WhichOneof("value") in {"func", "list"} for attribute in node.attr.values())
        copy = definition.node.add()
        copy.CopyFrom(node)
        copy.device = ""
        copy.attr.pop("_class", None)
        del copy.input[:]
        for name in node.input:
            if name.startswith("^"):
                if name[1:] in section.inner:
                    copy.input.append(name)
            else:
                copy.input.append(name)
                used.add(name if ":" in name else name + ":0")
    if calls:
        definition.library.CopyFrom(graph.as_graph_def().library)
    mapping = {name: tensor for name, tensor in given.items() if name in used}
    here = tf.compat.v1.get_default_graph()
    _keep_python_alive(graph, here)
    # What has a state, an `Assert` too, would else wait for the one before it, which may be in a branch not taken.
    within = {op: op._get_control_flow_context() for op in section.inner.values()}  # noqa: SLF001 - no public way
    inside = [op for op, context in within.items() if context is not None]
    found = tf.graph_util.import_graph_def(
        definition, input_map=mapping, return_elements=[part.name for part in (*wanted, *inside)], name="lifted"
    )
    for old, new in zip(inside, found[len(wanted) :], strict=True):
        new._set_control_flow_context(within[old])  # noqa: SLF001 - no public way
    for old, new in zip(wanted, found, strict=False):
        new.set_shape(old.shape)
    return {old.name: new for old, new in zip(wanted, found, strict=False)}


def _keep_python_alive(old: Any, new: Any) -> None:
    """Let the functions of `tf.py_func` live as long as the graph that calls them now."""
    functions = getattr(old, "_py_funcs_used_in_graph", None)
    if functions:
        new._py_funcs_used_in_graph = [*getattr(new, "_py_funcs_used_in_graph", []), *functions]  # noqa: SLF001
