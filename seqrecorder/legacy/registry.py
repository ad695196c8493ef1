"""Operations of a graph that stand for a `tf.data.Dataset`."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from seqrecorder.legacy.explanation import Lifted

_DATASETS: weakref.WeakKeyDictionary[Any, dict[str, Lifted]] = weakref.WeakKeyDictionary()


def datasets_of(graph: Any) -> Mapping[str, Lifted]:
    """Return what the operations of a graph stand for, by their names."""
    return _DATASETS.get(graph, {})


def register(op: Any, lifted: Lifted) -> None:
    """Let an operation, whose outputs are the flat tensors of an element, stand for a dataset."""
    _DATASETS.setdefault(op.graph, {})[op.name] = lifted
