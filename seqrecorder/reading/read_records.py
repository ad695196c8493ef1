"""Datasets back to Python objects: the records of a split, in the order in which they were written."""

from __future__ import annotations

import heapq
import itertools
import operator
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import attrs
import numpy as np

from seqrecorder.codec.decoder import RecordDecoder
from seqrecorder.dataset.resolve import resolve
from seqrecorder.dataset.selection import Selection
from seqrecorder.dataset.shard_set import check_shard
from seqrecorder.dataset.written_order import in_written_order
from seqrecorder.errors import OptionError, RecordError, ShardReadError
from seqrecorder.schema.schema import chosen_fields
from seqrecorder.storage.read_ahead import ahead, threads_for
from seqrecorder.storage.shard import RecordReader
from seqrecorder.storage.tfrecord.check import advice
from seqrecorder.storage.tfrecord.format import FOOTER, HEADER, walk_frames
from seqrecorder.wire.many_messages import Messages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import TypedDict

    from numpy.typing import NDArray
    from typing_extensions import Unpack

    from seqrecorder.dataset.shard_set import Check, OnCorrupt, Origin, ShardFile

    class ReadKeywords(TypedDict, total=False):
        """What `read_records` takes by name beside `schema` and `fields`, with the types that it declares."""

        shard: tuple[int, int] | None
        compression: str | None
        layout: Literal["auto", "steps", "packed", "example"]
        check: Check
        on_corrupt: OnCorrupt


_WINDOW = 8192  # records
_BLOCK = 4 << 20  # bytes that are read at a time
_BLOCKS = 64 << 20  # of all files together, among which records were dealt
_LEAST_BLOCK = 1 << 12

T = TypeVar("T")


@overload
def read_records(
    path: Any,
    split: str | None = None,
    *,
    schema: type[T],
    fields: None = None,
    **options: Unpack[ReadKeywords],
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
    """Yield the records of a split as objects, in the order in which they were written.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> corpus = tempfile.mkdtemp()
    >>> _ = sr.write([Sentence([1, 2, 3]), Sentence([4])], corpus)
    >>> [record.ids.tolist() for record in sr.read_records(corpus)]
    [[1, 2, 3], [4]]

    The arrays of some thousand records share one buffer: copy what you keep of a few.

    Args:
        path: as for `read`, like all that follows.
        split: see `read`.
        schema: see `read`.
        fields: names of the fields to decode; records are then of a class with those fields alone.
        shard: see `read`.
        compression: see `read`.
        layout: see `read`.
        check: see `read`.
        on_corrupt: see `read`.

    Returns:
        An iterator over records of `schema`, or of a class rebuilt from the manifest where none is given.

    Raises:
        DatasetNotFoundError: see `read`; raised at once, like the errors on files and options.
        OptionError: `on_corrupt="skip"`, and the order of the records that are left is not certain.
        RecordError: while iterating: a record cannot be decoded.
        ShardReadError: while iterating: a shard is damaged.
    """
    if isinstance(path, Selection) and not path.is_whole:
        if (split, compression, layout, check, on_corrupt) != (None, None, "auto", "manifest", "error"):
            options: Any = {"compression": compression, "layout": layout, "check": check, "on_corrupt": on_corrupt}
            resolve(path, split, schema=schema, lengths_only=True, **options)  # which looks at them
        some = path if schema is None else path.reading(schema)
        if shard is not None:
            index, count = check_shard(shard)
            some = some[index::count]
        return some.records(fields)
    origin = resolve(
        path, split, schema=schema, compression=compression, layout=layout, check=check, on_corrupt=on_corrupt
    )
    _require_order(origin)
    origin, deal = origin.take_shard(shard)
    origin.check_lengths()
    codec = RecordDecoder(chosen_fields(origin.schema, fields), origin.layout)
    return _records(origin, codec, deal)


def _require_order(origin: Origin) -> None:
    """Raise `OptionError` where records are left of damaged shards whose order is not certain."""
    for file in origin.files:
        if not file.is_ordered or (file.step > 1 and not file.is_numbered):
            raise OptionError(
                f"on_corrupt='skip': {file.path.name} is damaged in such a way that the order in which its records "
                "were written is not certain; `read` gives them in some order, and `seqrecorder salvage` saves them"
            )


def _records(origin: Origin, codec: RecordDecoder, deal: slice | None) -> Iterator[Any]:
    """Yield the records that a codec builds.

    Args:
        origin: where they are.
        codec: of their schema.
        deal: which of the records are this reader's, where it does not have all (see `Origin.take_shard`).

    Raises:
        RecordError: one cannot be decoded.
        ShardReadError: a shard is damaged.
    """

    def decode(part: _Part) -> list[list[Any]]:
        return codec.decode_values(part.window)

    # Parsing takes most of the time, on one core, without the GIL.
    for part, values in ahead(decode, _parts(origin, deal), threads_for(origin.mean_bytes)):
        try:
            yield from codec.build(values.result())
        except RecordError as error:
            bad = error.position or 0
            raise RecordError(
                _with_place(origin, part.files, part.window[bad], error.message),
                position=int(part.positions[bad]),
                key=error.key,
                problems=error.problems,
            ) from error
        del part, values


@attrs.frozen(eq=False)
class _Part:
    """Some serialized records, their positions in the split, and files that hold them."""

    window: Messages
    positions: range | NDArray[np.int64]
    files: Sequence[ShardFile]


def _parts(origin: Origin, deal: slice | None) -> Iterator[_Part]:
    """Yield what is ours of each window."""
    position = 0
    ours = None if deal is None or deal.stop is None else _in_written_order(origin.files, deal)
    for files in in_written_order(origin.files):
        for window in _windows(origin, files):
            positions = range(position, position + len(window))
            position = positions.stop
            if deal is None:
                yield _Part(window, positions, files)
            elif ours is None:
                some = slice((deal.start - positions.start) % deal.step, None, deal.step)
                yield _Part(window.some(some), positions[some], files)
            else:
                places = np.flatnonzero(ours[positions.start : positions.stop])
                if places.size:
                    yield _Part(window.some(places), places + positions.start, files)
            del window


def _in_written_order(files: Sequence[ShardFile], ours: slice) -> NDArray[np.bool_]:
    """Return which records of files, as they were written one behind the other, are some of those file behind file.

    Args:
        files: of which some are read.
        ours: a slice of their records, in the order of the files.
    """
    chosen = np.zeros(sum(file.records for file in files), bool)
    chosen[ours] = True
    parts, start = [], 0
    for group in in_written_order(files):
        size = sum(file.records for file in group)
        here, start = chosen[start : start + size], start + size
        if len(group) > 1:
            numbers = [np.arange(file.records) if file.kept is None else file.kept for file in group]
            places = [file.start + file.step * number for file, number in zip(group, numbers, strict=True)]
            here = here[np.argsort(np.concatenate(places), kind="stable")]
        parts.append(here)
    return np.concatenate([np.empty(0, bool), *parts])


def _with_place(origin: Origin, files: Sequence[ShardFile], data: bytes, message: str) -> str:
    """Return a message about a record with its shard, number and byte: the first that holds the same bytes."""
    for file in files:
        number = byte = 0
        for window in RecordReader(file.path, origin.compression):
            for item in window:
                if item == data:
                    hint = file.path if origin.manifest is None else origin.manifest.path
                    return f"{file.path}, record {number} at byte {byte}: {message}; {advice(hint)}"
                number, byte = number + 1, byte + HEADER + len(item) + FOOTER
    return f"{origin.where}: {message}"  # the file has changed meanwhile


def _windows(origin: Origin, files: Sequence[ShardFile]) -> Iterator[Messages]:
    """Yield the serialized records of files in their written order."""
    if len(files) == 1:
        yield from _counted(files[0], origin, RecordReader(files[0].path, origin.compression, block=_BLOCK).blocks())
        return
    window = origin.window(_WINDOW)
    each, block = max(1, window // len(files)), min(_BLOCK, max(_LEAST_BLOCK, _BLOCKS // len(files)))
    readers = [_counted(f, origin, RecordReader(f.path, origin.compression, each, block).windows()) for f in files]
    if any(file.kept is not None for file in files):
        yield from _merged(files, readers, window)
    else:
        yield from _in_turn(readers)


def _in_turn(readers: Sequence[Iterator[Messages]]) -> Iterator[Messages]:
    """Yield the records of files, one of each in turn."""
    while parts := [part for part in (next(reader, None) for reader in readers) if part is not None]:
        files = np.repeat(np.arange(len(parts)), list(map(len, parts)))
        numbers = np.concatenate([np.arange(len(part)) for part in parts])
        yield Messages.together(parts).some(np.lexsort((files, numbers)))


def _merged(files: Sequence[ShardFile], readers: Sequence[Iterator[Messages]], window: int) -> Iterator[Messages]:
    """Yield the records of files, of which some lack records, by their positions in the written order."""

    def placed(file: ShardFile, reader: Iterator[Messages]) -> Iterator[tuple[int, bytes]]:
        stored: Iterable[int] = itertools.count() if file.kept is None else file.kept.tolist()
        rows = itertools.chain.from_iterable(part.rows() for part in reader)
        for number, data in zip(stored, rows, strict=False):
            yield file.start + file.step * number, data

    merged = heapq.merge(*map(placed, files, readers), key=operator.itemgetter(0))
    while data := [item for _, item in itertools.islice(merged, window)]:
        yield Messages.of(data)


def _counted(file: ShardFile, origin: Origin, windows: Iterator[Messages]) -> Iterator[Messages]:
    """Yield the windows of a file, once it was looked at, and raise at the end unless its records are all there."""
    origin.check_frames(file)
    done = 0
    for data in windows:
        done += len(data)
        yield data
        del data  # while the next ones are read, none are held, here as below: they may be large
    if file.records not in (-1, done):
        byte = int(walk_frames(file.path, origin.compression).lengths[: file.records].sum()) + (HEADER + FOOTER) * min(
            done, file.records
        )
        raise ShardReadError(
            f"{file.path}: expected {file.records} records, got {done}, which differ from byte {byte} on; "
            + advice(file.path if origin.manifest is None else origin.manifest.path),
            path=file.path,
        )
