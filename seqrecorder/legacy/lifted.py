"""The result of a lift: the dataset, its stages, and the operations of a graph behind it."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.errors import LiftError
from seqrecorder.legacy.graph import made_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet


@attrs.frozen
class Stage:
    """One stage of a pipeline.

    Attributes:
        name: of the operation in the graph.
        found: what stands there, in TensorFlow 1's words.
        done: what takes its place, in those of tf.data.
        unfixed: why its order was not fixed in the original, so that only the same examples can be had, in another
            order; None where it was, and the lifted stage gives the same order.
        drawn: why random values in it were not fixed in the original, so that other ones of the same kind come; None
            where they were, or where there are none.
        place: the file and the line of the script that made it, where one did.
    """

    name: str
    found: str
    done: str
    unfixed: str | None = None
    drawn: str | None = None
    place: str | None = None

    def __str__(self) -> str:
        said = {
            "in ": self.place,
            "-> ": self.done,
            "order not fixed: ": self.unfixed,
            "values not fixed: ": self.drawn,
        }
        return "\n   ".join([self.found, *(word + what for word, what in said.items() if what is not None)])


@attrs.frozen(eq=False)
class Recipe:
    """Buckets of `tf.contrib`, for those who print what stands for them.

    Attributes:
        targets: tensors of one example; the first decides on the bucket.
        keep: a bool scalar that says whether the example is used, if it is no constant.
        boundaries: of the buckets.
        sizes: of their batches.
        smaller: whether smaller batches come at the end.
        by_length: whether the first tensor is a length that is returned, or the number of the bucket.
        steps: of the segments that examples are cut into, where those are batched; 0 for buckets.
    """

    targets: tuple[Any, ...]
    keep: tuple[Any, ...]
    boundaries: tuple[int, ...]
    sizes: tuple[int, ...]
    smaller: bool
    by_length: bool
    steps: int = 0


@attrs.frozen(eq=False)
class Lifted:
    """An input function in the form of a `tf.data.Dataset`.

    Attributes:
        dataset: of elements with the structure that the function returned; lists are tuples.
        stages: of the pipeline, from the source on.
        notes: what took a part of the elements away in the original, and does not any more.
        sources: names of the operations that it empties: queues, readers, and what stands for a dataset.
        pulls: names of the operations that took from them.
        recipe: how a function of `tf.contrib` that it stands for is printed, if it can be.
    """

    dataset: Any
    stages: tuple[Stage, ...]
    notes: tuple[str, ...] = ()
    sources: frozenset[str] = frozenset()
    pulls: frozenset[str] = frozenset()
    recipe: Recipe | None = None

    @property
    def exact(self) -> bool:
        """Check whether the original gave the same order each time; the dataset then gives it, too."""
        return not self.notes and all(stage.unfixed is None and stage.drawn is None for stage in self.stages)

    def __str__(self) -> str:
        lines = [f"{number}. {stage}" for number, stage in enumerate(self.stages, 1)]
        lines += [f"note: {note}" for note in self.notes]
        if self.exact:
            order = "as in the original"
        else:
            order = "not fixed in the original; the examples are the same"
            if any(stage.drawn is not None for stage in self.stages):
                order += ", but for random values in them"
        return "\n".join([*lines, f"order: {order}"])


_DATASETS: weakref.WeakKeyDictionary[Any, dict[str, Lifted]] = weakref.WeakKeyDictionary()
_EMPTIED: weakref.WeakKeyDictionary[Any, dict[str, tuple[str, ...]]] = weakref.WeakKeyDictionary()


def datasets_of(graph: Any) -> Mapping[str, Lifted]:
    """Describe the operations of a graph, by their names."""
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
