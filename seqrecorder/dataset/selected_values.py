"""The values of a selection: its records as objects, as columns, and how long they are."""

from __future__ import annotations

import abc
import functools
import itertools
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from seqrecorder.dataset.conditions import require_fields
from seqrecorder.errors import OptionError
from seqrecorder.storage.threads import ahead

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray
    from typing_extensions import Self

    from seqrecorder.codec.columns import Column
    from seqrecorder.dataset.record_store import RecordStore
    from seqrecorder.schema.schema import Schema
    from seqrecorder.wire.byte_rows import Messages

T = TypeVar("T")
_SIZE = 8192


class SelectedValues(abc.ABC):
    """Records of a dataset by their positions, in some order, and their values once these are asked for.

    Args:
        store: the records of the dataset.
        positions: of the records that are selected, a range where they are one.
    """

    def __init__(self, store: RecordStore, positions: range | NDArray[np.int64]) -> None:
        self._store = store
        self._positions = _as_range(positions)

    @abc.abstractmethod
    def at(self, places: NDArray[np.int64]) -> Self:
        """Return the records at some places."""

    # What it is --------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._positions)

    @property
    def schema(self) -> Schema:
        """The schema of the records."""
        return self._store.schema

    @property
    def positions(self) -> NDArray[np.int64]:
        """The positions in the dataset, int64 `(n,)`: they count through the splits in the manifest's order."""
        return self._array(0, len(self))

    @property
    def store(self) -> RecordStore:
        """The records of the dataset."""
        return self._store

    def __iter__(self) -> Iterator[Any]:
        return self.records()

    def records(self, fields: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield the records as objects, as iterating over the selection does.

        Args:
            fields: names of the fields to decode; records are then of a class with those fields alone. None is all.

        Raises:
            SchemaError: there is no field of a name.
            ShardReadError: while iterating: a record that is selected is damaged.
            RecordError: while iterating: one cannot be decoded.
        """
        decoder = self._store.decoder(fields)
        return itertools.chain.from_iterable(self._decoded(functools.partial(self._store.records, decoder)))

    def _decoded(self, decode: Callable[[NDArray[np.int64], Messages], T], size: int = _SIZE) -> Iterator[T]:
        """Yield what is made of the records, many at a time, in the order of the selection; threads do it ahead."""
        store = self._store.forward()
        parts = ((positions, store.messages(positions)) for positions in self.windows(size))
        for part, made in ahead(lambda part: decode(*part), parts, size=lambda part: part[1].nbytes):
            yield made.result()
            del part, made

    def columns(self, fields: Sequence[str] | None = None, size: int = _SIZE) -> Iterator[dict[str, Column]]:
        """Yield the records as columns, many at a time, in the order of the selection.

        >>> import tempfile, numpy as np, seqrecorder as sr
        >>> @sr.record
        ... class Sentence:
        ...     ids: np.ndarray = sr.feature_list("int64")
        >>> corpus = tempfile.mkdtemp()
        >>> _ = sr.write([Sentence([1, 2, 3]), Sentence([4])], corpus)
        >>> for columns in sr.open(corpus)["train"].columns(["ids"]):
        ...     print(columns["ids"].values, columns["ids"].steps)
        [1 2 3 4] [3 1]

        Args:
            fields: names of the fields that are parsed; None is all.
            size: how many records at most; of large ones they are fewer, about 4 MiB.

        Raises:
            OptionError: `size` is no positive int.
            SchemaError: there is no field of a name.
            ShardReadError: while iterating: a record that is selected is damaged.
            RecordError: while iterating: one cannot be decoded.
        """
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise OptionError(f"size: expected an int of 1 or more, got {size!r}")
        return self._decoded(functools.partial(self._store.decode, self._store.decoder(fields)), size)

    def joined_columns(self, fields: Sequence[str] | None = None) -> Iterator[dict[str, Column]]:
        """Yield what `columns` does; texts that no record may lack are rows of bytes, and no objects."""
        return self._decoded(functools.partial(self._store.decode, self._store.decoder(fields, joined=True)))

    def values_of(self, fields: Sequence[str]) -> list[list[Any]]:
        """Return the values of context fields without a shape, a list for each field.

        Raises:
            OptionError: a field is of another kind.
            SchemaError: there is no field of a name.
        """
        require_fields(self.schema, fields)
        out: list[list[Any]] = [[] for _ in fields]
        for columns in self.columns(fields):
            for values, name in zip(out, fields, strict=True):
                values.extend(scalars(columns[name]))
        return out

    def lengths(self, group: str | None = None) -> NDArray[np.int64]:
        """Return how many steps each record has, int64 `(n,)`, from the lengths files: nothing is parsed.

        Args:
            group: the alignment group; None is the first one.

        Raises:
            OptionError: there is no such group.
        """
        groups = self._store.manifest.schema.groups
        if not groups or group not in (None, *groups):
            raise OptionError(f"group: expected one of {', '.join(groups) or '(none: no feature list)'}, got {group!r}")
        return self._store.lengths(self.positions, groups[0] if group is None else group)

    def _array(self, start: int, stop: int) -> NDArray[np.int64]:
        part = self._positions[start:stop]
        return np.arange(part.start, part.stop, part.step) if isinstance(part, range) else part

    def windows(self, size: int = _SIZE) -> Iterator[NDArray[np.int64]]:
        """Yield the positions, as many at a time as are held at once."""
        window = self._store.window(size)
        for start in range(0, len(self), window):
            yield self._array(start, start + window)


def scalars(column: Column) -> list[Any]:
    """Return the values of a context field without a shape, None where a record has none."""
    values: list[Any] = column.values.tolist() if column.values.dtype == object else list(column.values)
    if column.present is None:
        return values
    rest = iter(values)
    return [next(rest) if here else None for here in column.present.tolist()]


def ascends(positions: NDArray[np.int64]) -> bool:
    """Return whether each position is greater than the one before."""
    return bool((np.diff(positions) > 0).all())


def _as_range(positions: range | NDArray[np.int64]) -> range | NDArray[np.int64]:
    """Return positions as a range if they are one after the other; an array that nobody can change else."""
    if isinstance(positions, range):
        return positions
    if positions.size and int(positions[-1]) - int(positions[0]) == positions.size - 1 and ascends(positions):
        return range(int(positions[0]), int(positions[-1]) + 1)
    own: NDArray[np.int64] = positions
    if own.flags.writeable or own.base is not None:
        own = own.copy()
        own.flags.writeable = False
    return own
