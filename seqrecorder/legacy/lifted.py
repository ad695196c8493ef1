"""Result of a lift: the dataset, its stages, and the graph operations that they replace."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.errors import LiftError
from seqrecorder.legacy.graph import location_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet


@attrs.frozen
class Stage:
    """Stage of a pipeline, described in terms of TensorFlow 1 and of tf.data.

    Attributes:
        name: the name of the operation in the graph.
        original: the description in terms of TensorFlow 1.
        translation: the description in terms of tf.data.
        random_order: the reason why the original order was random; the lifted stage yields the same examples in another
            order. None if the order is the same.
        random_values: the reason why random values were not reproducible in the original. None if they are the same, or
            if there are none.
        location: the file and the line of the script that created the operation; None if unknown.
    """

    name: str
    original: str
    translation: str
    random_order: str | None = None
    random_values: str | None = None
    location: str | None = None

    def __str__(self) -> str:
        remarks = {
            "in ": self.location,
            "-> ": self.translation,
            "order not fixed: ": self.random_order,
            "values not fixed: ": self.random_values,
        }
        return "\n   ".join([self.original, *(word + remark for word, remark in remarks.items() if remark is not None)])


@attrs.frozen(eq=False)
class Recipe:
    """Parameters of a `tf.contrib` batching function, which `convert` needs to print equivalent code.

    Attributes:
        targets: the tensors of one example; the first selects the bucket.
        keep: a tuple with the bool scalar that selects examples; empty if all examples are selected.
        boundaries: the boundaries of the buckets.
        sizes: the batch size of each bucket.
        smaller: whether to keep smaller batches at the end.
        by_length: True if the first tensor is a length, which is returned; False if it is the bucket number.
        steps: the number of steps in a segment, if examples are cut into segments; 0 for buckets.
    """

    targets: tuple[Any, ...]
    keep: tuple[Any, ...]
    boundaries: tuple[int, ...]
    sizes: tuple[int, ...]
    smaller: bool
    by_length: bool
    steps: int = 0

    @property
    def dropped(self) -> int:
        """Maximum number of examples that are dropped at the end, summed over all buckets."""
        return 0 if self.smaller else sum(self.sizes) - len(self.sizes)


@attrs.frozen(eq=False)
class Lifted:
    """Input function translated to a `tf.data.Dataset`.

    Attributes:
        dataset: the `tf.data.Dataset`, with the structure that the function returned, in which tuples replace lists.
        stages: the stages of the pipeline, in order from the source.
        notes: messages about operations that consumed elements in the original and no longer do.
        sources: names of the queues, readers and registered dataset operations.
        pulls: names of the operations that consume elements of the sources.
        recipe: the parameters of a `tf.contrib` batching function at the end; None if there is none.
    """

    dataset: Any
    stages: tuple[Stage, ...]
    notes: tuple[str, ...] = ()
    sources: frozenset[str] = frozenset()
    pulls: frozenset[str] = frozenset()
    recipe: Recipe | None = None

    @property
    def exact(self) -> bool:
        """True if every run of the original yielded the same elements in the same order as the dataset."""
        return not self.notes and all(each.random_order is None and each.random_values is None for each in self.stages)

    def __str__(self) -> str:
        lines = [f"{number}. {stage}" for number, stage in enumerate(self.stages, 1)]
        lines += [f"note: {note}" for note in self.notes]
        values = ", except for random values" * any(stage.random_values is not None for stage in self.stages)
        chance = f"not fixed in the original; the examples are the same{values}"
        return "\n".join([*lines, f"order: {'as in the original' if self.exact else chance}"])


_DATASETS: weakref.WeakKeyDictionary[Any, dict[str, Lifted]] = weakref.WeakKeyDictionary()
_EMPTIED: weakref.WeakKeyDictionary[Any, dict[str, tuple[str, ...]]] = weakref.WeakKeyDictionary()


def datasets_of(graph: Any) -> Mapping[str, Lifted]:
    """Return the registered datasets of a graph by operation name."""
    return _DATASETS.get(graph, {})


def register(op: Any, lifted: Lifted) -> None:
    """Register an operation as a source of elements for later lifts.

    The outputs of the operation are the flattened elements of a dataset.
    """
    _DATASETS.setdefault(op.graph, {})[op.name] = lifted


def check_apart(graph: Any, sources: AbstractSet[str], tensors: Sequence[Any]) -> None:
    """Check that no other tensors were lifted from the same sources.

    Operations that take from one queue share its elements, but every lifted dataset yields all of them. The tensors are
    remembered for later checks.

    Raises:
        LiftError: other tensors were lifted from one of the sources before.
    """
    emptied = _EMPTIED.setdefault(graph, {})
    names = tuple(tensor.name for tensor in tensors)
    for source in sorted(sources & emptied.keys()):
        if emptied[source] != names:
            text = f"{', '.join(emptied[source])} was lifted before: each lift yields all elements of the source"
            advice = "lift what one operation takes together, as a tuple; give others a queue of their own"
            raise LiftError(text, advice=advice, op=source, location=location_of(graph.get_operation_by_name(source)))
    emptied.update(dict.fromkeys(sources, names))
