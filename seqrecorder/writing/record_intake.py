"""Records on their way into a dataset: one by one, as columns, or selected; encoded and placed in their order."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.codec.columns import records_of, scatter
from seqrecorder.codec.decode import RecordDecoder
from seqrecorder.codec.encode import cut
from seqrecorder.dataset.selection import Selection
from seqrecorder.errors import RecordError
from seqrecorder.writing.column_input import given_columns
from seqrecorder.writing.encoder import Block, Sources
from seqrecorder.writing.record_source import RecordStream, Waiting

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from seqrecorder.codec.columns import Column
    from seqrecorder.dataset.progress import Progress
    from seqrecorder.dataset.record_store import RecordStore
    from seqrecorder.schema.schema import Schema
    from seqrecorder.writing.column_source import ColumnSource
    from seqrecorder.writing.encoder import LifeCycle
    from seqrecorder.writing.options import WriteOptions
    from seqrecorder.writing.placement import Placement
    from seqrecorder.writing.split_assignment import Router
    from seqrecorder.writing.unique_keys import UniqueKeys
    from seqrecorder.writing.worker_pool import PoolEncoder


class RecordIntake:
    """Takes records of every form, has them encoded, and places them in the order in which they came.

    After an error nothing more is taken: records that were held with the bad one are lost, too, so that a caller who
    goes on must not get a dataset.

    Args:
        schema: what the records are.
        options: of the writer.
        life_cycle: of the records.
        encoder: runs the life cycle.
        placement: where encoded records go.
        router: gives records their splits.
        keys: finds records whose key came before.
        progress: is told how many records have come.
        lock: against the end of the interpreter, while records go into files.

    Attributes:
        position: how many records have been taken to be encoded.
    """

    def __init__(
        self,
        schema: Schema,
        options: WriteOptions,
        life_cycle: LifeCycle,
        encoder: LifeCycle | PoolEncoder,
        *,
        placement: Placement,
        router: Router,
        keys: UniqueKeys,
        progress: Progress,
        lock: threading.RLock,
    ) -> None:
        self._schema, self._life_cycle, self._encoder, self._placement = schema, life_cycle, encoder, placement
        self._progress, self._lock = progress, lock
        self._failure: BaseException | None = None
        needs, stored = router.needs, {field.name for field in schema.fields}
        self._lines = options.csv
        # Whether splits or lines of the CSV come from more than the stored fields.
        self._whole = options.csv or router.cuts or needs is None or bool(set(needs) - stored)
        self._router = router
        self._needs = list(dict.fromkeys([*(needs or ()), *keys.needs]))
        self._waiting = Waiting(schema, hooks=life_cycle.has_hooks, workers=options.workers, whole=self._whole)
        self.position = 0

    def add(self, record: Any, split: str | None) -> None:
        """Take a record, with the split that the caller gives it, if any."""
        if self._failure is not None:
            raise self._failure
        self._placement.check_given(split)
        self._waiting.add(record, split)
        if self._waiting.is_full:
            self._flush()

    def add_columns(self, columns: Any, split: str | None) -> None:
        """Take many records, given as columns."""
        self._placement.check_given(split)
        self._go_through([columns], lambda given: self._encode_columns(*self._checked(given), split))

    def add_all(self, stream: RecordStream) -> None:
        """Take all records of a source, one by one, or batch by batch where it gives columns."""
        for name in stream.splits:
            self._placement.check_given(name)
            self._placement.open(name)
        if stream.size is not None:
            self._progress.expect(stream.size)
        try:
            self._fill(stream)
            while stream.turn is not None:
                (split, rows), stream.turn = stream.turn, None
                self._add_source(rows, split)
                self._fill(stream)
        finally:
            self._placement.skipped += stream.skipped
        for split, source in stream.columns:
            if isinstance(source, Selection):
                self._add_selection(source, split)
            else:
                self._add_source(source, split)

    def add_encoded(self, data: Sequence[bytes], lengths: NDArray[np.int64], splits: Sequence[str]) -> None:
        """Take records that are encoded already, with the split of each; their keys somebody else looks at."""

        def place(data: Sequence[bytes]) -> None:
            sources = self._numbered([None] * len(data))
            routed = self._placement.opened().route(sources, splits).splits
            self._place(Block(data, lengths, sources.positions, routed, None, None, [], len(data)))

        self._go_through([data], place)

    def finish(self) -> None:
        """Place all that is still waiting, or raise what has failed."""
        if self._failure is not None:
            raise self._failure
        self._flush()
        self._drain()
        self._progress.reach(self.position)

    # One by one -----------------------------------------------------------------------------------------------------

    def _fill(self, stream: RecordStream) -> None:
        for _ in self._waiting.fill(stream):
            self._flush()

    def _fill_from(self, records: Iterator[Any], split: str | None) -> None:
        self._flush()
        try:
            self._fill(RecordStream(records if split is None else {split: records}))
        except BaseException as error:
            self._failure = error
            raise

    def _flush(self) -> None:
        first, (records, given) = self.position, self._waiting.take()
        self.position += len(records)
        try:
            with self._lock:
                self._encode(Sources(np.arange(first, self.position), records), given)
        except BaseException as error:
            self._failure = error
            raise

    def _encode(self, sources: Sources, given: list[str | None]) -> None:
        placement = self._placement.opened()
        kept = placement.keep(sources)
        if kept is not None:
            sources, given = sources.only(kept), [given[i] for i in kept]
        if self._router.cuts:  # nobody names splits then
            sources = self._router.cut(sources)
            given = [None] * len(sources.records)
        if sources.records:
            for block in self._encoder.encode(placement.route(sources, given)):
                self._place(block)

    def _drain(self) -> None:
        for block in self._encoder.drain():
            self._place(block)

    def _place(self, block: Block) -> None:
        self._progress.reach(max([*block.sources[-1:].tolist(), *block.skipped[-1:]]) + 1)
        self._waiting.adapt(block)
        self._placement.opened().place(block)

    # Many at once ---------------------------------------------------------------------------------------------------

    def _go_through(self, parts: Iterable[Any], encode: Callable[[Any], None]) -> None:
        """Encode parts of a source behind all records that came before."""
        self._flush()
        try:
            with self._lock:
                self._drain()
            for part in parts:
                with self._lock:
                    encode(part)
        except BaseException as error:
            self._failure = error
            raise

    def _add_source(self, source: ColumnSource, split: str | None) -> None:
        """Take the records of a source of columns; one by one, where hooks of the class take them so."""
        if self._life_cycle.has_hooks:
            self._fill_from(iter(source), split)
        else:
            self._go_through(self._columns_of(source), lambda part: self._encode_columns(part[0], part[1], split))
        self._placement.skipped += source.skipped

    def _add_selection(self, selection: Selection, split: str | None) -> None:
        """Take selected records: as they are encoded, where that is how they would be."""
        if self._lines or self._router.cuts or selection.store.manifest.schema.fields != self._schema.fields:
            self._fill_from(iter(selection.reading(self._schema)), split)
            return
        store = selection.store.forward()
        self._go_through(selection.windows(), lambda positions: self._copy(store, positions, split))

    def _checked(self, given: Any) -> tuple[dict[str, Column], int]:
        with self._numbered_errors():
            return given_columns(self._schema, given)

    def _columns_of(self, source: ColumnSource) -> Iterator[tuple[dict[str, Column], int]]:
        with self._numbered_errors():
            yield from source.columns()

    @contextlib.contextmanager
    def _numbered_errors(self) -> Iterator[None]:
        """Number a record that does not fit among all that were given."""
        first = self.position
        try:
            yield
        except RecordError as error:
            error.position = None if error.position is None else error.position + first
            raise

    def _encode_columns(self, columns: dict[str, Column], size: int, split: str | None) -> None:
        for count, part in cut(columns, size):
            sources = self._numbered(self._views(part, count))
            if self._router.cuts:
                self._encode(sources, [split] * count)
                continue
            # Lines of the CSV are made of the records, which are here.
            encoder = self._life_cycle if self._lines else self._encoder
            self._place_kept(attrs.evolve(sources, columns=part), split, encoder.encode)

    def _copy(self, store: RecordStore, positions: NDArray[np.int64], split: str | None) -> None:
        schema, size, messages = self._schema, positions.size, store.messages(positions)
        looked_at = list[Any]([None] * size)
        if self._needs or self._whole:
            decoder = RecordDecoder(schema if self._whole else schema.select(self._needs))
            looked_at = store.records(decoder, positions, messages)
        lengths = np.zeros((size, max(1, len(schema.groups))), np.int64)
        for column, group in enumerate(schema.groups):
            lengths[:, column] = store.lengths(positions, group)
        sources = self._numbered(looked_at)
        block = Block(messages.rows(), lengths, sources.positions, sources.splits, None, None, [], size)
        self._place_kept(sources, split, lambda to: [attrs.evolve(block, splits=to.splits).only(to.kept)])

    def _numbered(self, looked_at: list[Any]) -> Sources:
        first = self.position
        self.position += len(looked_at)
        return Sources(np.arange(first, self.position), looked_at)

    def _place_kept(self, sources: Sources, split: str | None, encode: Callable[[Sources], Iterable[Block]]) -> None:
        """Place what is encoded of sources, but for those whose keys came before."""
        placement = self._placement.opened()
        kept = placement.keep(sources)
        left = sources if kept is None else sources.only(kept)
        if left.records:
            splits = np.zeros(len(sources.records), np.int64)
            splits[... if kept is None else kept] = placement.route(left, [split] * len(left.records)).splits
            for block in encode(attrs.evolve(sources, kept=kept, splits=splits)):
                self._place(block)

    def _views(self, columns: dict[str, Column], size: int) -> list[Any]:
        """Return what of the records decides splits, identifies them, and makes lines of the CSV."""
        if self._whole:
            return records_of(self._schema, columns)
        return views(self._schema, columns, size, self._needs)


def views(schema: Schema, columns: Mapping[str, Column], size: int, names: Sequence[str]) -> list[Any]:
    """Return an object for each record, with the values of some fields; None for each, if there are no fields.

    >>> import numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Point:
    ...     x: int = sr.context("int64")
    >>> [int(view.x) for view in views(sr.Schema.of(Point), {"x": sr.Column(np.array([3, 4]))}, 2, ["x"])]
    [3, 4]

    Args:
        schema: what the records are.
        columns: their columns.
        size: how many they are.
        names: of the fields.
    """
    if not names:
        return [None] * size
    values = [scatter(schema[name], columns[name]) for name in names]
    return list(map(_view_class(tuple(names)), *values))


@functools.lru_cache(maxsize=64)
def _view_class(names: tuple[str, ...]) -> type:
    """Return a class of some attributes, by position; its objects take a fifth of the time of a SimpleNamespace."""
    # Their own names may be no names of arguments.
    attributes = {name: attrs.field(alias=f"value_{i}") for i, name in enumerate(names)}
    return attrs.make_class("View", attributes, slots=True, eq=False)
