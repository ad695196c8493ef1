"""Lengths of records: what one counts for, of one alignment group or of several, and how many there are of each."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import attrs
import numpy as np

from seqrecorder.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from seqrecorder.schema.schema import Schema


LengthOf = Literal["longest", "sum"]
LENGTH_OF = ("longest", "sum")


@attrs.frozen
class JointLength:
    """The length of a record whose feature lists have lengths of their own.

    Attributes:
        groups: the alignment groups that count.
        of: whether the longest of them counts, or their sum.
    """

    groups: tuple[str, ...]
    of: LengthOf


RecordLength = str | JointLength
"""An alignment group whose length counts, or several."""


def groups_of(length: RecordLength) -> tuple[str, ...]:
    """Return the alignment groups whose lengths must be known.

    >>> groups_of("steps"), groups_of(JointLength(("source", "target"), "sum"))
    (('steps',), ('source', 'target'))
    """
    return (length,) if isinstance(length, str) else length.groups


def count_lengths(length: RecordLength, lengths: Mapping[str, Any], xp: Any) -> Any:
    """Return the lengths that records count for.

    >>> import numpy as np
    >>> lengths = {"source": np.array([3, 1]), "target": np.array([2, 5])}
    >>> count_lengths(JointLength(("source", "target"), "longest"), lengths, np).tolist()
    [3, 5]

    Args:
        length: which count.
        lengths: by alignment group, int64, arrays or tensors.
        xp: numpy or TensorFlow, whichever the lengths are of.
    """
    parts = [lengths[group] for group in groups_of(length)]
    is_sum = isinstance(length, JointLength) and length.of == "sum"
    return functools.reduce(xp.add if is_sum else xp.maximum, parts)


def record_length(
    schema: Schema, length_field: str | Sequence[str] | None, length_of: LengthOf = "longest"
) -> RecordLength:
    """Return the length that records count for.

    Args:
        schema: the fields.
        length_field: name of a feature list, or several; None is the first alignment group.
        length_of: what counts of several.

    Raises:
        OptionError: there is no such feature list, or none at all.
        SchemaError: there is no field of a name.
    """
    if not schema.groups:
        raise OptionError(f"{schema.name} has no feature list, so no lengths to go by; use Pad")
    if length_field is None:
        return schema.groups[0]
    names = _names(length_field)
    for name in names:
        if not schema[name].is_list:
            raise OptionError(f"length_field: {name!r} is a context field and has no length")
    groups = tuple(schema[name].group for name in names)
    if length_of == "longest":
        groups = tuple(dict.fromkeys(groups))
    return groups[0] if len(groups) == 1 else JointLength(groups, length_of)


def _names(value: Any) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, Sequence) or not names or not all(isinstance(name, str) for name in names):
        raise OptionError(f"length_field: expected the name of a feature list, or several, got {value!r}")
    if len(set(names)) < len(names):
        raise OptionError(f"length_field: expected each name once, got {value!r}")
    return tuple(names)


@attrs.frozen(eq=False)
class LengthCounts:
    """How many records there are of each length.

    Attributes:
        values: int64 `(n,)`: lengths in steps, ascending, each once.
        counts: int64 `(n,)`: records of each, one or more.
    """

    values: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, lengths: NDArray[np.int64]) -> LengthCounts:
        """Return the counts of lengths.

        >>> LengthCounts.of(np.array([5, 3, 5])).counts.tolist()
        [1, 2]
        """
        if lengths.size and lengths.max() <= lengths.size:  # then counting is faster than sorting
            every = np.bincount(lengths)
            return cls(np.flatnonzero(every), every[every > 0])
        return cls(*np.unique(lengths, return_counts=True))

    @property
    def records(self) -> int:
        """Number of all records."""
        return int(self.counts.sum())

    @property
    def longest(self) -> int | None:
        """The most steps of a record; None where there is none."""
        return int(self.values[-1]) if self.values.size else None

    @property
    def mean(self) -> float:
        """Steps of a record on average."""
        return float(self.values @ self.counts) / max(1, self.records)

    def longer(self, least: int) -> LengthCounts:
        """Return those of the records that have more steps."""
        kept = self.values > least
        return LengthCounts(self.values[kept], self.counts[kept])


@attrs.frozen
class Limits:
    """Which lengths records may have.

    Attributes:
        group: the alignment group whose length counts, or several.
        least: the least steps.
        most: the most steps; None for any.
        after_cropping: whether the steps count that are left then.
    """

    group: RecordLength
    least: int = 0
    most: int | None = None
    after_cropping: bool = False

    def admits(self, lengths: Any) -> Any:
        """Return whether records of these lengths are read."""
        return (lengths >= self.least) if self.most is None else (lengths >= self.least) & (lengths <= self.most)
