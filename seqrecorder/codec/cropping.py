"""Parts of sequences: which steps a slice keeps, worked out from lengths, for all records at once.

A crop is applied to what the parser gives, before buffers and images are decoded: an image that no one looks at is
never decompressed.
"""

from __future__ import annotations

from typing import Any, ClassVar

import attrs

from seqrecorder.errors import OptionError


@attrs.frozen(eq=False)
class Stretch:
    """So many steps, from a place of its own in each sequence.

    Attributes:
        starts: int64, `(n,)`: the first step that is kept of each sequence.
        length: how many are kept, or as many as there are.
    """

    starts: Any
    length: int
    step: ClassVar[None] = None


Crop = tuple[slice | Stretch, ...]
"""Parts of the steps of a sequence, applied one after the other."""


def check_steps(steps: Any) -> Crop:
    """Return the crop of one slice, none for None.

    >>> check_steps(slice(0, 100, 2))
    (slice(0, 100, 2),)

    Raises:
        OptionError: it is not a slice of ints, or goes backwards.
    """
    if steps is None:
        return ()
    parts = (steps.start, steps.stop, steps.step) if isinstance(steps, slice) else ("",)
    if not all(part is None or (isinstance(part, int) and not isinstance(part, bool)) for part in parts):
        raise OptionError(f"steps: expected a slice of ints, such as slice(0, 100, 2), got {steps!r}")
    if steps.step is not None and steps.step < 1:
        raise OptionError(f"steps: expected a slice that goes forwards, got {steps!r}")
    return (steps,)


def _bounds(lengths: Any, part: slice | Stretch, xp: Any) -> tuple[Any, Any]:
    """Return the first step that is kept of sequences of some lengths, and how many."""
    if isinstance(part, Stretch):
        start = xp.minimum(part.starts, lengths)
        return start, xp.minimum(lengths - start, part.length)

    def position(index: int) -> Any:
        return xp.maximum(lengths + index, 0) if index < 0 else xp.minimum(lengths, index)

    start = position(part.start or 0)
    stop = lengths if part.stop is None else position(part.stop)
    step = part.step or 1
    return start, xp.maximum(stop - start + step - 1, 0) // step


def cropped_lengths(lengths: Any, crop: Crop, xp: Any) -> Any:
    """Return how many steps are kept of sequences of some lengths.

    >>> import numpy as np
    >>> cropped_lengths(np.array([0, 3, 9]), (slice(1, None, 2), slice(3)), np).tolist()
    [0, 1, 3]

    Args:
        lengths: int64, an array or a tensor.
        crop: what is kept.
        xp: numpy or TensorFlow, whichever the lengths are of.
    """
    for part in crop:
        lengths = _bounds(lengths, part, xp)[1]
    return lengths


def cropped_positions(lengths: Any, crop: Crop) -> tuple[Any, Any]:
    """Return how many steps are kept of each of several sequences, and where they are among the steps of all.

    Args:
        lengths: int64 tensor `(n,)`.
        crop: what is kept.

    Returns:
        `(kept: int64 [n], positions: int64 [sum of kept])`; positions count through all sequences, one after the other.
    """
    import tensorflow as tf

    first, step = tf.cumsum(lengths, exclusive=True), 1
    for part in crop:
        start, lengths = _bounds(lengths, part, tf)
        first += start * step
        step *= part.step or 1
    positions = tf.ragged.range(first, first + lengths * step, step).flat_values
    return lengths, positions
