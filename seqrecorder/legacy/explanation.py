"""What a lifter found: the stages of an input pipeline, and what about them was not fixed in the original."""

from __future__ import annotations

from typing import Any

import attrs


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
class Lifted:
    """An input function in the form of a `tf.data.Dataset`.

    Attributes:
        dataset: of elements with the structure that the function returned; lists are tuples.
        stages: of the pipeline, from the source on.
        notes: what took a part of the elements away in the original, and does not any more.
        sources: names of the operations that it empties: queues, readers, and what stands for a dataset.
        pulls: names of the operations that took from them.
    """

    dataset: Any
    stages: tuple[Stage, ...]
    notes: tuple[str, ...] = ()
    sources: frozenset[str] = frozenset()
    pulls: frozenset[str] = frozenset()

    @property
    def exact(self) -> bool:
        """Whether the original gave the same elements in the same order each time, which the dataset then gives."""
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
