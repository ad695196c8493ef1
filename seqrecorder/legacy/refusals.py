"""Operations that cannot be taken out of a TensorFlow 1 graph: the reason, and the way out."""

from __future__ import annotations

from typing import Any

from seqrecorder.errors import LiftError
from seqrecorder.legacy.graph import CONDITIONALS, DEQUEUES, QUEUES, READERS, describe, through_identities

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
        "give the value that it always has, lift(..., feed={name: value}), or let tf.data.Dataset.from_generator feed",
    ),
    "IteratorGetNext": _ITERATOR,
    "IteratorV2": _ITERATOR,
    "OneShotIterator": _ITERATOR,
    "QueueSizeV2": ("the size of a queue is used", "there is no queue any more: leave it out"),
    "Stage": _STAGING,
    "Unstage": _STAGING,
}
_READS_STATE = (
    *LOOKUPS,
    *CONDITIONALS,
    "ResourceGather",
    "ResourceGatherNd",
    "VarIsInitializedOp",
    "While",
    "StatelessWhile",
    "Identity",
    "RefIdentity",
)
_WRITES_REFERENCES = ("Assign", "AssignAdd", "AssignSub", "Scatter")


def check(op: Any) -> None:
    """Raise `LiftError` for an operation that cannot be taken out of its graph."""
    if op.type in _REFUSED:
        reason, advice = _REFUSED[op.type]
        raise LiftError(reason, advice=advice, op=op.name)
    if op.type in QUEUES or op.type in READERS:
        users = sorted(user.name for user in op.outputs[0].consumers() if user.type not in DEQUEUES)
        raise LiftError(
            f"{describe(op)} is used in a way that has no counterpart, by one of {users}",
            advice="keep queue and reader operations out of tf.cond and tf.while_loop, and leave their counters out",
            op=op.name,
        )
    if op.type in _READS_STATE:
        return
    if any(_is_state(tensor) for tensor in op.outputs):
        raise LiftError(
            f"an operation of type {op.type} keeps a state that cannot be translated",
            advice="leave it out of the input function",
            op=op.name,
        )
    for tensor in op.inputs:
        if _is_state(tensor) and not (tensor.dtype._is_ref_dtype and not op.type.startswith(_WRITES_REFERENCES)):  # noqa: SLF001
            raise LiftError(
                f"{op.type} changes {through_identities(tensor).op.name!r} while the pipeline runs",
                advice="leave it out of the input function: datasets do not change variables",
                op=op.name,
            )


def _is_state(tensor: Any) -> bool:
    return tensor.dtype.name in ("resource", "variant") or tensor.dtype._is_ref_dtype  # noqa: SLF001 - no public name
