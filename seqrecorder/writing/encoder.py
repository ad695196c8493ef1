"""The life cycle of a record on its way to disk: load, split, encode, release.

A class may define `load(self, **params)`, which fills deferred fields just before encoding, and
`split(self, **params)`, which yields the chunks of a long record; either may raise `SkipRecord`. Both run here,
in this process or in a worker, on a snapshot, so that what `load` read is released once it is encoded, and that records
may be made in one buffer.
"""

from __future__ import annotations

import collections
import inspect
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import numpy as np

from seqrecorder.codec.encode import PIECE_BYTES, PIECE_RECORDS, RecordEncoder, sizer
from seqrecorder.dataset.examples_csv import csv_line
from seqrecorder.errors import OptionError, RecordError, SkipRecord, did_you_mean
from seqrecorder.writing.record_copies import CannotWait, snapshotter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from seqrecorder.codec.columns import Column
    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema

T = TypeVar("T")

HOOKS = ("from_csv_row", "load", "split")


def _no_splits(sources: Sources) -> NDArray[np.int64]:
    return np.zeros(len(sources.positions), np.int64)


@attrs.frozen(eq=False)
class Sources:
    """Source records, whose hooks have not run.

    Attributes:
        positions: int64, ascending.
        records: as many.
        splits: int64, the number of each one's split; 0 until they have one.
        columns: what they are, where they are given in columns; then the records are what is looked at of them.
        kept: the indices of those that are written, of all in columns; None is all.
    """

    positions: NDArray[np.int64]
    records: Sequence[Any]
    splits: NDArray[np.int64] = attrs.field(default=attrs.Factory(_no_splits, takes_self=True))
    columns: dict[str, Column] | None = None
    kept: Sequence[int] | None = None

    def only(self, kept: Sequence[int]) -> Sources:
        """Return some of them, by their indices."""
        return Sources(self.positions[kept], [self.records[i] for i in kept], self.splits[kept])

    def become(self, origins: Sequence[int], records: Sequence[Any]) -> Sources:
        """Return what hooks made of them: records, and for each the index of its source."""
        indices = np.asarray(origins, np.int64)
        return Sources(self.positions[indices], records, self.splits[indices])

    def after(self, done: int) -> Sources:
        """Return those behind the first `done`."""
        return self.between(done, len(self.records))

    def between(self, start: int, stop: int) -> Sources:
        """Return some that stand together."""
        return Sources(self.positions[start:stop], self.records[start:stop], self.splits[start:stop])


@attrs.frozen(eq=False)
class Block:
    """Encoded records.

    Attributes:
        data: serialized SequenceExamples.
        lengths: int64 (records, groups).
        sources: int64, position of the source that each came from.
        splits: int64, the number of each one's split, which is that of its source.
        columns: columns of the CSV, or None.
        rows: a line for the CSV of each record, or None.
        skipped: positions of sources that a hook left out.
        done: how many of the sources that were given are through; 0 where that is not known, as inside of one.
    """

    data: Sequence[bytes]
    lengths: NDArray[np.int64]
    sources: NDArray[np.int64]
    splits: NDArray[np.int64]
    columns: list[str] | None
    rows: list[str] | None
    skipped: list[int]
    done: int

    def only(self, kept: Sequence[int] | None) -> Block:
        """Return some of the records, by their indices; None is all."""
        if kept is None:
            return self
        return attrs.evolve(
            self,
            data=chosen(self.data, kept),
            lengths=self.lengths[kept],
            sources=self.sources[kept],
            splits=self.splits[kept],
            rows=None if self.rows is None else chosen(self.rows, kept),
        )


def chosen(items: Sequence[T], indices: Sequence[int]) -> list[T]:
    """Return some items by their indices."""
    every = list(items)
    return [every[i] for i in indices]


def check_params(record_class: type, params: Mapping[str, Any], hooks: Sequence[str] = HOOKS) -> None:
    """Raise `OptionError` for a parameter that no hook of the class takes."""
    taken: set[str] = set()
    for name in hooks:
        names = _parameters(record_class, name)
        if names is None:
            return
        taken |= names
    for name in params:
        if name not in taken:
            raise OptionError(
                f"params: no hook of {record_class.__name__} ({', '.join(hooks)}) takes {name!r}"
                f"{did_you_mean(name, taken)}"
            )


def hook_params(record_class: type, name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the parameters that a hook takes."""
    names = _parameters(record_class, name)
    return {key: value for key, value in params.items() if names is None or key in names}


def _parameters(record_class: type, name: str) -> set[str] | None:
    """Return the names of the parameters of a hook, None for any name."""
    hook = getattr(record_class, name, None)
    if not callable(hook):  # there is none, or a field has that name
        return set()
    # The first is the record itself, or the row: nobody's parameter.
    parameters = list(inspect.signature(hook).parameters.values())[1:]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return {parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL}


class LifeCycle:
    """Takes source records to encoded ones, in this process; `PoolEncoder` has others do it.

    Args:
        schema: what is written.
        params: for the hooks.
        rows: whether a line for the CSV is wanted of each record.

    Attributes:
        has_hooks: whether the class has `load` or `split`.
    """

    def __init__(self, schema: Schema, params: Mapping[str, Any], *, rows: bool = False) -> None:
        self._schema, self._rows = schema, rows
        self._encoder = RecordEncoder(schema)
        record_class = schema.record_class
        self._params = {name: hook_params(record_class, name, params) for name in ("load", "split")}
        self._loads, self._splits = (callable(getattr(record_class, name, None)) for name in ("load", "split"))
        self.has_hooks = self._loads or self._splits
        self._size = sizer(schema)
        self._snapshot = snapshotter(schema)
        stored = {field.name: field for field in schema.fields}
        self._columns = [
            attribute.name
            for attribute in attrs.fields(record_class)
            if attribute.name not in stored or _is_scalar(stored[attribute.name])
        ]
        self._has_row = callable(getattr(record_class, "to_csv_row", None))

    def encode(self, sources: Sources) -> Iterator[Block]:
        """Yield blocks of encoded records, in order.

        A source is written with all of its chunks or, where `SkipRecord` comes in the middle, with none.

        Args:
            sources: records whose hooks have not run.

        Raises:
            RecordError: a record cannot be encoded, or a hook failed; the position is that of the source.
        """
        if not self.has_hooks or sources.columns is not None:
            yield self._block(sources, done=len(sources.records))
            return
        origins, records, skipped, size = list[int](), list[Any](), list[int](), 0
        pairs = zip(sources.positions.tolist(), sources.records, strict=True)
        for done, (position, source) in enumerate(pairs, 1):
            chunks = self._chunks(position, source)
            if not chunks:
                skipped.append(position)
            while chunks:
                origins.append(done - 1)
                records.append(chunks.popleft())
                size += self._size(records[-1:])
                if size > PIECE_BYTES or len(records) == PIECE_RECORDS:
                    yield self._block(sources.become(origins, records), skipped, 0 if chunks else done)
                    origins, records, skipped, size = [], [], [], 0
                elif not self._splits:  # others are snapshots already
                    records[-1] = self._taken(records[-1])
        if records or skipped:
            yield self._block(sources.become(origins, records), skipped, len(sources.records))

    def drain(self) -> Iterator[Block]:
        """Yield nothing: all that came is encoded."""
        return iter(())

    def close(self) -> None:
        """Do nothing: nothing is held."""

    def finished(self, sources: Iterable[Any]) -> list[Any]:
        """Return the records that sources become: what would be encoded."""
        return [record for position, source in enumerate(sources) for record in self._chunks(position, source)]

    def _chunks(self, position: int, source: Any) -> collections.deque[Any]:
        """Return the records that a source becomes; none where a hook leaves it out."""
        record = source
        try:
            if self._loads:
                record = self._taken(record)
                loaded = self._call("load", position, record)
                record = record if loaded is None else loaded
            if not self._splits:
                return collections.deque([record])
            chunks = self._call("split", position, record)
            self._check_chunks(position, chunks)
            return collections.deque(map(self._taken, self._guarded(position, chunks)))
        except SkipRecord:
            return collections.deque()

    def _taken(self, record: Any) -> Any:
        """Return a snapshot of a record, before code of the class runs again."""
        try:
            return self._snapshot(record)
        except CannotWait:  # its values do not fit, so that encoding refuses them
            return record

    def _check_chunks(self, position: int, chunks: Any) -> None:
        is_record = isinstance(chunks, self._schema.record_class)
        if is_record or isinstance(chunks, (str, bytes)) or not hasattr(chunks, "__iter__"):
            raise RecordError(
                f"{self._schema.name}.split: expected records (yield them one by one), got {type(chunks).__name__}",
                position=position,
            )

    def _call(self, name: str, position: int, record: Any) -> Any:
        hook = getattr(record, name, None)
        if hook is None:
            raise RecordError(
                f"expected a record of class {self._schema.name}, got {type(record).__name__}",
                position=position,
            )
        try:
            return hook(**self._params[name])
        except SkipRecord:
            raise
        except Exception as error:
            raise self._hook_failed(name, position, error) from error

    def _guarded(self, position: int, chunks: Iterable[Any]) -> Iterator[Any]:
        try:
            yield from chunks
        except SkipRecord:
            raise
        except Exception as error:
            raise self._hook_failed("split", position, error) from error

    def _hook_failed(self, name: str, position: int, error: Exception) -> RecordError:
        return RecordError(
            f"{self._schema.name}.{name} failed: {type(error).__name__}: {error} (raise"
            " seqrecorder.SkipRecord in load or split to leave the record out)",
            position=position,
        )

    def _block(self, sources: Sources, skipped: Sequence[int] = (), done: int = 0) -> Block:
        """Return the block of records whose hooks have run, or of columns, of which none runs."""
        encoder, count, positions = self._encoder, len(sources.records), sources.positions
        try:
            given = sources.columns
            encoded = encoder.encode(sources.records) if given is None else encoder.encode_columns(given, count)
        except RecordError as error:
            if error.position is not None:  # the source is named, and not the place among others
                error.position = int(positions[error.position])
            raise
        columns = rows = None
        if self._rows and count:
            columns, rows = self._lines(sources.records, positions.tolist())
        return Block(*encoded, positions, sources.splits, columns, rows, list(skipped), done).only(sources.kept)

    # Lines of the CSV ---------------------------------------------------------------------------------------

    def _lines(self, records: Sequence[Any], positions: Sequence[int]) -> tuple[list[str], list[str]]:
        """Return the columns, and for each record its `to_csv_row`, or its scalars and plain fields.

        Raises:
            RecordError: `to_csv_row` failed, or records have different columns.
        """
        columns: list[str] = []
        lines = []
        for position, record in zip(positions, records, strict=True):
            row = self._row(position, record)
            columns = columns or list(row)
            check_columns(self._schema.name, columns, list(row), position)
            try:
                lines.append(csv_line(row.values()))
            except ValueError as error:
                raise RecordError(f"its line of the CSV: {error}", position=position) from error
        return columns, lines

    def _row(self, position: int, record: Any) -> Mapping[str, Any]:
        if not self._has_row:
            return {name: getattr(record, name) for name in self._columns}
        try:
            row = record.to_csv_row()
        except Exception as error:
            raise self._hook_failed("to_csv_row", position, error) from error
        if isinstance(row, (list, tuple)) and row:  # without names, columns are numbered
            row = {f"column_{number}": value for number, value in enumerate(row)}
        if not isinstance(row, dict) or not row:
            raise RecordError(
                f"{self._schema.name}.to_csv_row: expected a dict of columns, or a list, got {row!r}",
                position=position,
            )
        return row


def check_columns(name: str, expected: Sequence[str], got: Sequence[str], position: int) -> None:
    """Raise `RecordError` where a record's line of the CSV has other columns than the first one's."""
    if list(got) != list(expected):
        raise RecordError(
            f"{name}.to_csv_row: expected the columns of the first record, {', '.join(expected)}; got {', '.join(got)}",
            position=position,
        )


def _is_scalar(field: Field) -> bool:
    return not (field.is_list or field.shape or field.sparse is not None)
