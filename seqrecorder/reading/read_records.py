"""`read_records`, which iterates over the records of a split as Python objects, in written order.

For tf.data pipelines, see `seqrecorder.read`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import attrs
import numpy as np

from seqrecorder.codec.decode import RecordDecoder
from seqrecorder.dataset.checked_shards import check_shard, class_advice, resolve
from seqrecorder.dataset.manifest import explaining_replacement, first_of_groups, in_written_order
from seqrecorder.dataset.selection import Selection, rows_of
from seqrecorder.errors import RecordError, ShardReadError
from seqrecorder.storage.crc32c import FOOTER, HEADER
from seqrecorder.storage.processes_and_signals import ahead
from seqrecorder.storage.shard_reader import ALONE, RecordReader, block_for, whole_records
from seqrecorder.storage.tfrecord import advice, walk_frames
from seqrecorder.wire.byte_rows import Messages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future
    from typing import TypedDict

    from numpy.typing import NDArray
    from typing_extensions import Unpack

    from seqrecorder.dataset.checked_shards import Check, OnCorrupt, Origin, ShardFile

    class ReadKeywords(TypedDict, total=False):
        """Types of the keyword arguments of `read_records`, except `schema` and `fields`."""

        shard: tuple[int, int] | None
        compression: str | None
        layout: Literal["auto", "steps", "packed", "example"]
        check: Check
        on_corrupt: OnCorrupt


_WINDOW = 8192  # number of records to decode at a time, in all interleaved files together
_BLOCKS = 64 << 20  # number of bytes to read ahead, in all interleaved files together
_LEAST_BLOCK = 1 << 12  # minimum number of bytes to read at a time from each of very many files
_LARGE = 1 << 20  # mean record size in bytes from which each record has its own buffer, and its arrays are views of it

T = TypeVar("T")


@overload
def read_records(
    path: Any, split: str | None = None, *, schema: type[T], fields: None = None, **options: Unpack[ReadKeywords]
) -> Iterator[T]: ...
@overload
def read_records(
    path: Any,
    split: str | None = None,
    *,
    schema: object = None,
    fields: Sequence[str] | None = None,
    **options: Unpack[ReadKeywords],
) -> Iterator[Any]: ...


def read_records(
    path: Any,
    split: str | None = None,
    *,
    schema: object = None,
    fields: Sequence[str] | None = None,
    shard: tuple[int, int] | None = None,
    compression: str | None = None,
    layout: Literal["auto", "steps", "packed", "example"] = "auto",
    check: Check = "manifest",
    on_corrupt: OnCorrupt = "error",
) -> Iterator[Any]:
    """Iterate over the records of a split as objects, in written order.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> corpus = tempfile.mkdtemp()
    >>> _ = sr.write([Sentence([1, 2, 3]), Sentence([4])], corpus)
    >>> [record.ids.tolist() for record in sr.read_records(corpus)]
    [[1, 2, 3], [4]]

    The arrays of thousands of records share one buffer, which stays in memory as long as any of the arrays is in use.
    Copy the arrays if you keep only a few records.

    Args:
        path: dataset, selection or bare shards; see `read`.
        split: name of the split; optional for a dataset with one split, and for selections.
        schema: record class to read as; required for bare shards.
        fields: names of the fields to decode; records are then instances of a class with only these fields.
        shard: `(index, count)` of this reader among several that together read each record once.
        compression: compression of bare shards; detected by default.
        layout: layout of bare shards: `steps`, `packed`, `example` or `auto`; see `read`.
        check: checks before the first record: `manifest`, `full` or `none`; see `read`.
        on_corrupt: `error`, or `skip` to log damaged records and leave them out.

    Returns:
        An iterator over instances of `schema` or, without `schema`, of a class rebuilt from the manifest.

    Raises:
        DatasetNotFoundError: there is no such dataset, split or file. Like all errors about files and options, it is
            raised by the call itself, before iterating.
        RecordError: while iterating, a record cannot be decoded.
        ShardReadError: while iterating, a shard is damaged.
    """
    if isinstance(path, Selection) and rows_of(path).whole_splits() is None:
        if (split, compression, layout, check, on_corrupt) != (None, None, "auto", "manifest", "error"):
            options: Any = {"compression": compression, "layout": layout, "check": check, "on_corrupt": on_corrupt}
            resolve(path, split, schema=schema, lengths_only=True, **options)  # checks the options
        selected = path if schema is None else Selection(rows_of(path).read_as(schema))
        if shard is not None:
            index, count = check_shard(shard)
            selected = selected[index::count]
        return selected.records(fields)
    origin = resolve(
        path, split, schema=schema, compression=compression, layout=layout, check=check, on_corrupt=on_corrupt
    )
    origin, deal = origin.take_shard(shard)
    origin.fetch()
    origin.check_lengths()
    return _records(origin, RecordDecoder(origin.schema.select(fields), origin.layout), deal)


def _records(origin: Origin, codec: RecordDecoder, deal: slice | None) -> Iterator[Any]:
    """Decode and yield the records of an origin.

    Args:
        origin: shards to read.
        codec: decoder for their schema.
        deal: slice of the records that this reader takes; None for all (see `Origin.take_shard`).

    Raises:
        RecordError: a record cannot be decoded.
        ShardReadError: a shard is damaged.
    """

    def decode(window: _Window) -> _Decoded:
        records, damaged = window.whole_records()
        places = window.ours
        if places is not None:
            places = places[: np.searchsorted(places, len(records))]
            records = records.take(places)
        try:
            return _Decoded(window, records, codec.decode_values(records), None, damaged)
        except RecordError as error:
            return _Decoded(window, records, [], error, damaged)

    alone = origin.mean_bytes >= _LARGE and codec.gives_views
    windows = _windows_of_reader(origin, deal, alone=alone)
    # Threads pay off for windows, which are mostly decoded by vector operations that release the GIL. A single large
    # record is decoded faster than it is handed to a thread.
    in_threads = ahead(decode, windows, size=lambda window: window.nbytes)
    with explaining_replacement(origin.manifest):
        for done in map(decode, windows) if alone else map(_result, in_threads):
            if done.error is not None:
                bad, places = done.error.position or 0, done.window.ours
                raise RecordError(
                    _with_place(origin, done.window.files, done.records[bad], done.error.message),
                    position=done.window.start + int(bad if places is None else places[bad]),
                    key=done.error.key,
                    problems=done.error.problems,
                ) from done.error
            yield from codec.build(done.values)
            if done.damaged is not None:
                path = done.damaged.path
                RecordReader(path, origin.compression).read_all()  # raises an error with the position
                raise ShardReadError(f"{path}: changes while it is read; {advice(path)}", path=path)
            del done


def _result(pair: tuple[_Window, Future[_Decoded]]) -> _Decoded:
    return pair[1].result()


@attrs.frozen(eq=False)
class _Window:
    """Window of serialized records from one or several files.

    Attributes:
        files: files of the records.
        pieces: for each file, its blocks of records with consecutive frames.
        is_checked: whether the checksums are already verified. Such a window has one file, and its records are in
            order.
        start: position in the split of the window's first record.
        ours: positions in the window of the records that this reader takes, int64 `(n,)`; None for all.
    """

    files: Sequence[ShardFile]
    pieces: Sequence[Sequence[Messages]]
    is_checked: bool = False
    start: int = 0
    ours: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return sum(len(piece) for pieces in self.pieces for piece in pieces)

    @property
    def nbytes(self) -> int:
        return sum(piece.nbytes for pieces in self.pieces for piece in pieces)

    def whole_records(self) -> tuple[Messages, ShardFile | None]:
        """Return the records before the first damaged one, in written order.

        The file with the damaged record is returned, too. It is None if no record is damaged.
        """
        window = Messages.together([piece for pieces in self.pieces for piece in pieces])
        if self.is_checked:
            return window, None
        whole = np.array([_whole(pieces) for pieces in self.pieces])
        sizes = [sum(map(len, pieces)) for pieces in self.pieces]
        files = np.repeat(np.arange(len(sizes)), sizes)
        numbers = np.concatenate([np.arange(size) for size in sizes])
        if len(sizes) > 1:  # the files take turns, record by record
            order = np.lexsort((files, numbers))
            window, files, numbers = window.take(order), files[order], numbers[order]
        damaged = numbers >= whole[files]
        if not damaged.any():
            return window, None
        first = int(damaged.argmax())
        return window.take(slice(first)), self.files[int(files[first])]


def _whole(pieces: Sequence[Messages]) -> int:
    """Count the records before the first damaged one."""
    done = 0
    for piece in pieces:
        whole = whole_records(piece)
        done += whole
        if whole < len(piece):
            break
    return done


@attrs.frozen(eq=False)
class _Decoded:
    """Decoded records of a window.

    Only the records that this reader takes are decoded. There are either values or an error. `damaged` is the file of
    the first damaged record, or None if no record is damaged.
    """

    window: _Window
    records: Messages
    values: Sequence[Sequence[Any]]
    error: RecordError | None
    damaged: ShardFile | None


def _windows_of_reader(origin: Origin, deal: slice | None, *, alone: bool) -> Iterator[_Window]:
    """Yield the windows that contain records for this reader."""
    stop = 0
    dealt = None if deal is None else _in_written_order(origin.files, deal)
    for files in in_written_order(origin.files):
        for window in _windows(origin, files, alone=alone):
            start, stop = stop, stop + len(window)
            ours = None if dealt is None else np.flatnonzero(dealt[start:stop])
            if dealt is None or dealt[start:stop].any():
                yield attrs.evolve(window, start=start, ours=ours)
            del window


def _in_written_order(files: Sequence[ShardFile], ours: slice) -> NDArray[np.bool_]:
    """Compute which records belong to a slice.

    The result is a mask of all records, in the order in which they were written.

    Args:
        files: files that contain the records.
        ours: slice of the records in file order.
    """
    chosen = np.zeros(sum(file.records for file in files), bool)
    chosen[ours] = True
    groups = np.searchsorted(first_of_groups(files), np.arange(len(files)), side="right")
    places = np.concatenate([file.start + file.step * np.arange(file.records) for file in files])
    return chosen[np.lexsort((places, np.repeat(groups, [file.records for file in files])))]


def _with_place(origin: Origin, files: Sequence[ShardFile], data: bytes, message: str) -> str:
    """Add the shard, number and offset of a record to a message about it.

    The record is found by a search for its bytes in the files.
    """
    for file in files:
        number = byte = 0
        for block in RecordReader(file.path, origin.compression).blocks():
            for item in block.rows():
                if item == data:
                    hint = class_advice(file.path) if origin.manifest is None else advice(origin.manifest.where)
                    return f"{file.path}, record {number} at byte {byte}: {message}; {hint}"
                number, byte = number + 1, byte + HEADER + len(item) + FOOTER
    return f"{origin.where}: {message}"  # the file has been changed


def _windows(origin: Origin, files: Sequence[ShardFile], *, alone: bool) -> Iterator[_Window]:
    """Yield the serialized records of files in windows, in written order."""
    if len(files) == 1:
        block = ALONE if alone else block_for(origin.mean_bytes)
        blocks = RecordReader(files[0].path, origin.compression, block=block).blocks(check=alone)
        for pieces in _counted(files[0], origin, map(_alone, blocks)):
            yield _Window(files, [pieces], is_checked=alone)
            del pieces
        return
    window = origin.window(_WINDOW)
    each = max(1, window // len(files))
    block = min(block_for(origin.mean_bytes), max(_LEAST_BLOCK, _BLOCKS // len(files)))
    if alone:
        window, each, block = 1, 1, ALONE
    readers = [RecordReader(file.path, origin.compression, each, block) for file in files]
    readings = [_counted(file, origin, reader.pieces(check=alone)) for file, reader in zip(files, readers, strict=True)]
    while parts := [(file, part) for file, batch in zip(files, readings, strict=True) if (part := next(batch, None))]:
        for first in range(0, len(parts), window):
            batch = parts[first : first + window]
            yield _Window([file for file, _ in batch], [part for _, part in batch], is_checked=alone)
            del batch
        del parts


def _alone(block: Messages) -> list[Messages]:
    return [block]


def _counted(file: ShardFile, origin: Origin, windows: Iterator[Sequence[Messages]]) -> Iterator[Sequence[Messages]]:
    """Check a file and yield its windows.

    If records are missing, an error is raised at the end.

    Raises:
        ShardReadError: the number of records is wrong.
    """
    origin.check_frames(file)
    done = 0
    for data in windows:
        done += sum(map(len, data))
        yield data
        del data  # free each window before the next is read, because they may be large
    if file.records not in (-1, done):
        sizes = walk_frames(file.path, origin.compression).lengths[: file.records] + (HEADER + FOOTER)
        byte = int(sizes[:done].sum())
        raise ShardReadError(
            f"{file.path}: expected {file.records} records, got {done}, which differ from byte {byte} on; "
            + advice(file.path if origin.manifest is None else origin.manifest.where),
            path=file.path,
        )
