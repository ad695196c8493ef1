"""Operations that cannot be taken out of a TensorFlow 1 graph: the reason, and the way out."""

from __future__ import annotations

from typing import Any

from seqrecorder.errors import LiftError
from seqrecorder.legacy.graph import (
    CONDITIONALS,
    ENQUEUES,
    QUEUES,
    READERS,
    describe,
    filled_while_read,
    source_of,
    through_identities,
)

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
    "IteratorGetNext": _ITERATOR,
    "IteratorV2": _ITERATOR,
    "OneShotIterator": _ITERATOR,
    "QueueSizeV2": ("the size of a queue is used", "there is no queue any more: leave it out"),
    "Stage": _STAGING,
    "Unstage": _STAGING,
}
_LOOPS = ("While", "StatelessWhile")
_READS_STATE = (
    *LOOKUPS,
    *CONDITIONALS,
    "ResourceGather",
    "ResourceGatherNd",
    "VarIsInitializedOp",
    *_LOOPS,
    "Identity",
    "RefIdentity",
)
_LISTS = ("TensorList", "EmptyTensorList")
"""What `tf.map_fn` and loops collect tensors in: values, though their dtype is that of a state."""

_WRITES_REFERENCES = ("Assign", "AssignAdd", "AssignSub", "Scatter")


def check(op: Any) -> None:
    """Raise `LiftError` for an operation that cannot be taken out of its graph."""
    if op.type in _REFUSED:
        reason, advice = _REFUSED[op.type]
        raise LiftError(reason, advice=advice, op=op.name)
    if op.type in ENQUEUES:
        raise filled_while_read(source_of(op.inputs[0]))
    _check_handles(op)
    if op.type in _READS_STATE:
        return
    for tensor in op.inputs:
        holder = through_identities(tensor).op
        reference = tensor.dtype._is_ref_dtype  # noqa: SLF001 - no public name
        writes = op.type.startswith(_WRITES_REFERENCES) if reference else tensor.dtype.name == "resource"
        if writes and (holder.type in VARIABLES or holder.type in TABLES):
            raise LiftError(
                f"{op.type} changes {holder.name!r} while the pipeline runs",
                advice="leave it out of the input function: datasets do not change variables",
                op=op.name,
            )
    if op.type.startswith(_LISTS):
        return
    if any(tensor.dtype.name in ("resource", "variant") for tensor in [*op.inputs, *op.outputs]):
        raise LiftError(
            f"an operation of type {op.type} keeps a state that cannot be translated",
            advice="leave it out of the input function",
            op=op.name,
        )


def _check_handles(op: Any) -> None:
    """Raise `LiftError` for an operation that does something else to a queue or a reader than take from it."""
    for tensor in [*op.inputs, *op.outputs]:
        source = through_identities(tensor).op
        if source.type in QUEUES or source.type in READERS:
            if op.type in (*CONDITIONALS, *_LOOPS):
                raise LiftError(
                    f"{describe(source)} is used inside a tf.cond or a loop",
                    advice="take from it before, and choose from or loop over what was taken",
                    op=op.name,
                )
            raise LiftError(
                f"{op.type} asks {describe(source)} for something else than its elements",
                advice="leave it out; to count, use tf.data.Dataset.enumerate on the lifted dataset",
                op=op.name,
            )
