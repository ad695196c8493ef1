"""What of a graph was lifted: operations that stand for a `tf.data.Dataset`, and sources that were emptied."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from seqrecorder.errors import LiftError
from seqrecorder.legacy.graph import made_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from seqrecorder.legacy.explanation import Lifted

_DATASETS: weakref.WeakKeyDictionary[Any, dict[str, Lifted]] = weakref.WeakKeyDictionary()
_EMPTIED: weakref.WeakKeyDictionary[Any, dict[str, tuple[str, ...]]] = weakref.WeakKeyDictionary()


def datasets_of(graph: Any) -> Mapping[str, Lifted]:
    """Return what the operations of a graph stand for, by their names."""
    return _DATASETS.get(graph, {})


def register(op: Any, lifted: Lifted) -> None:
    """Let an operation, whose outputs are the flat tensors of an element, stand for a dataset."""
    _DATASETS.setdefault(op.graph, {})[op.name] = lifted


def check_apart(graph: Any, sources: AbstractSet[str], tensors: Sequence[Any]) -> None:
    """Check that no other tensors of a graph were lifted that come from the same sources, and keep what these empty.

    Who takes from a queue takes it away from all others; each lift gives all that it holds.

    Raises:
        LiftError: there were such tensors.
    """
    emptied = _EMPTIED.setdefault(graph, {})
    names = tuple(tensor.name for tensor in tensors)
    for source in sorted(sources & emptied.keys()):
        if emptied[source] != names:
            raise LiftError(
                f"{', '.join(emptied[source])} took a part of it, and was lifted already: each lift gives all",
                advice="lift what is taken from it together, as a tuple, or what each takes with a queue of its own",
                op=source,
                place=made_in(graph.get_operation_by_name(source)),
            )
    emptied.update(dict.fromkeys(sources, names))
