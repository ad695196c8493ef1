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


@attrs.frozen
class Margins:
    """One step more before and behind those that are kept, as far apart as these are, where the sequence has it."""


MARGINS = Margins()

Crop = tuple[slice | Stretch | Margins, ...]
"""Parts of the steps of a sequence, applied one after the other; `MARGINS` last, if at all."""


def check_steps(steps: Any) -> Crop:
    """Return the crop of one slice.

    >>> check_steps(slice(0, 100, 2))
    (slice(0, 100, 2),)

    Raises:
        OptionError: it is not a slice of ints, or goes backwards.
    """
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
        if not isinstance(part, Margins):
            lengths = _bounds(lengths, part, xp)[1]
    return lengths


def kept_of(length: int, crop: Crop) -> slice:
    """Return which steps are kept of one sequence, for which nothing is drawn.

    >>> kept_of(9, (slice(2, 8, 3), MARGINS))
    slice(2, 11, 3)
    """
    kept = range(length)
    for part in crop:
        if isinstance(part, slice):
            kept = kept[part]
        elif isinstance(part, Margins) and kept:
            more = range(kept[0] - kept.step, kept[-1] + 2 * kept.step, kept.step)
            kept = more[int(more[0] < 0) : len(more) - int(more[-1] >= length)]
    return slice(kept.start, kept.stop, kept.step)


def cropped_positions(lengths: Any, crop: Crop) -> tuple[Any, Any]:
    """Return how many steps are kept of each of several sequences, and where they are among the steps of all.

    Args:
        lengths: int64 tensor `(n,)`.
        crop: what is kept; `MARGINS` count among it.

    Returns:
        `(kept: int64 [n], positions: int64 [sum of kept])`; positions count through all sequences, one after the other.
    """
    import tensorflow as tf

    kept, first, step = cropped_stretches(lengths, crop)
    first += tf.cumsum(lengths, exclusive=True)
    return kept, tf.ragged.range(first, first + kept * step, step).flat_values


def cropped_stretches(lengths: Any, crop: Crop) -> tuple[Any, Any, int]:
    """Return how many steps are kept of each of several sequences, the first of these, and how far apart they are.

    Args:
        lengths: int64 tensor `(n,)`.
        crop: what is kept.
    """
    start, kept, step, (before, after) = _place(lengths, crop)
    return kept + before + after, start - before * step, step


def without_margins(values: Any, lengths: Any, crop: Crop, present: Any) -> tuple[Any, Any]:
    """Return how many steps are kept of each of several sequences, and those of `values`, which have margins.

    Args:
        values: what was made of the steps at `cropped_positions`, one after the other.
        lengths: int64 tensor `(n,)`, of the sequences before they were cropped.
        crop: what is kept, with `MARGINS`.
        present: bool `(n,)`: which sequences are there at all; None for all.
    """
    import tensorflow as tf

    _, kept, _, (before, after) = _place(lengths, crop)
    if present is not None:
        kept, before, after = (tf.boolean_mask(part, present) for part in (kept, before, after))
    first = tf.cumsum(before + kept + after, exclusive=True) + before
    return kept, tf.gather(values, tf.ragged.range(first, first + kept).flat_values)


def _place(lengths: Any, crop: Crop) -> tuple[Any, Any, int, tuple[Any, Any]]:
    """Return the first step that is kept, how many, how far apart they are, and how many margins there are."""
    import tensorflow as tf

    start, kept, step = tf.zeros_like(lengths), lengths, 1
    for part in crop:
        if not isinstance(part, Margins):
            first, kept = _bounds(kept, part, tf)
            start += first * step
            step *= part.step or 1
    if MARGINS not in crop:
        return start, kept, step, (tf.zeros_like(lengths), tf.zeros_like(lengths))
    before, after = (kept > 0) & (start >= step), (kept > 0) & (start + kept * step < lengths)
    return start, kept, step, (tf.cast(before, tf.int64), tf.cast(after, tf.int64))
