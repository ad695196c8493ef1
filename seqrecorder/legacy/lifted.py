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
    """Stage of a pipeline, in the words of TensorFlow 1 and of tf.data.

    Attributes:
        name: the name of the operation in the graph.
        original: description in the words of TensorFlow 1.
        translation: description in the words of tf.data.
        random_order: the reason why the original order was random; the lifted stage gives the same examples in another
            order. None if the order is the same.
        random_values: the reason why random values were not reproducible in the original. None if they are the same, or
            if there are none.
        location: the file and the line of the script that created the operation, if known.
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
    """Recipe by which `convert` prints a bucketing function of `tf.contrib`.

    Attributes:
        targets: the tensors of one example; the first selects the bucket.
        keep: a bool scalar that selects examples, unless it is constant.
        boundaries: the boundaries of the buckets.
        sizes: the batch size of each bucket.
        smaller: whether to keep smaller batches at the end.
        by_length: whether the first tensor is a length that is returned, or the number of the bucket.
        steps: the number of steps of a segment, if examples are cut into segments; 0 for buckets.
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
        """The maximum number of examples that all buckets together drop at the end."""
        return 0 if self.smaller else sum(self.sizes) - len(self.sizes)


@attrs.frozen(eq=False)
class Lifted:
    """An input function in the form of a `tf.data.Dataset`.

    Attributes:
        dataset: the `tf.data.Dataset`, with the structure that the function returned; lists are tuples.
        stages: the stages of the pipeline, from the source on.
        notes: operations that took elements away in the original and no longer do.
        sources: names of the queues, readers and registered dataset operations.
        pulls: names of the operations that take from the sources.
        recipe: the recipe by which `convert` prints a `tf.contrib` function, if there is one.
    """

    dataset: Any
    stages: tuple[Stage, ...]
    notes: tuple[str, ...] = ()
    sources: frozenset[str] = frozenset()
    pulls: frozenset[str] = frozenset()
    recipe: Recipe | None = None

    @property
    def exact(self) -> bool:
        """Check that the original always gave the same elements in the same order, as the dataset does."""
        return not self.notes and all(
            stage.random_order is None and stage.random_values is None for stage in self.stages
        )

    def __str__(self) -> str:
        lines = [f"{number}. {stage}" for number, stage in enumerate(self.stages, 1)]
        lines += [f"note: {note}" for note in self.notes]
        if self.exact:
            order = "as in the original"
        else:
            order = "not fixed in the original; the examples are the same"
            if any(stage.random_values is not None for stage in self.stages):
                order += ", except for random values"
        return "\n".join([*lines, f"order: {order}"])


_DATASETS: weakref.WeakKeyDictionary[Any, dict[str, Lifted]] = weakref.WeakKeyDictionary()
_EMPTIED: weakref.WeakKeyDictionary[Any, dict[str, tuple[str, ...]]] = weakref.WeakKeyDictionary()


def datasets_of(graph: Any) -> Mapping[str, Lifted]:
    """Map the name of each registered operation to its dataset."""
    return _DATASETS.get(graph, {})


def register(op: Any, lifted: Lifted) -> None:
    """Register an operation as a source; its outputs are the flat tensors of an element of the dataset."""
    _DATASETS.setdefault(op.graph, {})[op.name] = lifted


def check_apart(graph: Any, sources: AbstractSet[str], tensors: Sequence[Any]) -> None:
    """Check that no other lifted tensors of a graph share a source, and register these.

    The users of a queue share its elements, but each lifted dataset yields all of them.

    Raises:
        LiftError: other tensors of the same sources were lifted before.
    """
    emptied = _EMPTIED.setdefault(graph, {})
    names = tuple(tensor.name for tensor in tensors)
    for source in sorted(sources & emptied.keys()):
        if emptied[source] != names:
            raise LiftError(
                f"{', '.join(emptied[source])} was lifted before: each lift yields all elements of the source",
                advice="lift what one operation takes together, as a tuple; give others a queue of their own",
                op=source,
                location=location_of(graph.get_operation_by_name(source)),
            )
    emptied.update(dict.fromkeys(sources, names))
