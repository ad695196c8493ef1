"""Sparse vectors: of which only some elements are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.schema.equality import same_bits
from seqrecorder.schema.mismatch import Mismatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


def _as_indices(values: Any) -> NDArray[np.int64]:
    return np.asarray(values, np.int64).reshape(-1)


@attrs.frozen(eq=False, repr=False)
class SparseVector:
    """A vector of which only some elements are stored, such as a bag of words.

    >>> bag = SparseVector([2, 5], np.array([1.0, 3.0], "float32"), size=8)
    >>> bag.to_dense()
    array([0., 0., 1., 0., 0., 3., 0., 0.], dtype=float32)

    Attributes:
        indices: int64, ascending, each in `[0, size)`.
        values: one for each index.
        size: length of the dense vector.
    """

    indices: NDArray[np.int64] = attrs.field(converter=_as_indices)
    values: NDArray[Any] = attrs.field(converter=np.asanyarray)  # a mask is looked at later
    size: int

    def __attrs_post_init__(self) -> None:
        if self.indices.shape != self.values.shape:
            raise Mismatch("as many indices as values", f"{self.indices.size} indices and {self.values.size} values")
        if not self.indices.size:
            return
        if self.indices.min() < 0 or self.indices.max() >= self.size:
            bad = int(np.flatnonzero((self.indices < 0) | (self.indices >= self.size))[0])
            raise Mismatch(f"an index in [0, {self.size})", str(self.indices[bad]), (bad,))
        if (np.diff(self.indices) <= 0).any():
            order = np.argsort(self.indices, kind="stable")
            if (np.diff(self.indices[order]) == 0).any():
                raise Mismatch("distinct indices", f"{self.indices.tolist()}")
            object.__setattr__(self, "indices", self.indices[order])
            object.__setattr__(self, "values", self.values[order])

    def __iter__(self) -> Iterator[NDArray[Any]]:
        """Unpack as `indices, values`."""
        return iter((self.indices, self.values))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SparseVector):
            return NotImplemented
        return (
            self.size == other.size and same_bits(self.indices, other.indices) and same_bits(self.values, other.values)
        )

    __hash__ = None  # type: ignore[assignment]  # it holds arrays

    def __repr__(self) -> str:
        return f"SparseVector(indices={self.indices.tolist()}, values={self.values.tolist()}, size={self.size})"

    def to_dense(self) -> NDArray[Any]:
        """Return the dense vector, zeros (or empty text) elsewhere."""
        if self.values.dtype == object:
            empty = "" if self.values.size and isinstance(self.values[0], str) else b""
            dense = np.full(self.size, empty, object)
        else:
            dense = np.zeros(self.size, self.values.dtype)
        dense[self.indices] = self.values
        return dense
