"""What is measured, of whom: each candidate brings those operations and readings that it has.

An operation is prepared outside of the clock and then run once; what it returns is the number of records that went
through. A reading is a stream of epochs without an end, of which the first batch and the steady state are timed.
"""

from __future__ import annotations

import functools
import itertools
import shutil
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.reading.batching.bucket import Bucket
from seqrecorder.reading.batching.pad import Pad
from seqrecorder.reading.read import read
from seqrecorder.reading.read_records import read_records
from seqrecorder.schema.schema import Schema
from seqrecorder.writing.writer import Writer, write

from . import handwritten
from .content import LENGTH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from .workloads import Workload

OURS = "seqrecorder"
PACKED = "seqrecorder, packed"
COLUMNS = "seqrecorder, columns"
HANDWRITTEN = "hand-written"
EXPERT = "hand-written, batches of strings"
RAW = "raw floor"

# Both encoders drop what they have encoded, as a script does that sends it on: ours in lists of so much.
_ENCODED_BYTES = 16 << 20


@attrs.frozen(eq=False)
class Operation:
    """One operation of one candidate.

    Attributes:
        measure: `encode` or `write`.
        candidate: whose it is.
        prepare: does what is not measured, and returns what is: a function that returns a number of records.
        files: where the operation leaves files: the directory, whose size is told.
        records: through how many records it goes; None for all.
    """

    measure: str
    candidate: str
    prepare: Callable[[], Callable[[], int]]
    files: Path | None = None
    records: int | None = None


@attrs.frozen(eq=False)
class Reading:
    """One way to read, epoch after epoch.

    Attributes:
        candidate: whose it is.
        open: takes a seed and a number of epochs (None: without an end), and returns what is delivered.
        measure: `read` or `read_records`.
        count: number of records in what is delivered at once; None where that is one record.
        compared: whether the content of the batches is compared with what was written.
    """

    candidate: str
    open: Callable[[int, int | None], Iterable[Any]]
    measure: str = "read"
    count: Callable[[Any], int] | None = lambda batch: len(batch[LENGTH])
    compared: bool = True


def writing(workload: Workload, candidate: str, run: Callable[[Path], object], directory: Path) -> Operation:
    """Return an operation that writes all records into a directory, which is empty before each run."""

    def prepare() -> Callable[[], int]:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()

        def go() -> int:
            run(directory)
            return len(workload.records)

        return go

    return Operation("write", candidate, prepare, files=directory)


def seeds_of(first: int, epochs: int | None) -> Iterable[int]:
    """Return a seed for each epoch, for candidates that plan each epoch themselves."""
    return itertools.count(first) if epochs is None else range(first, first + epochs)


def own(workload: Workload, directory: Path) -> list[Operation | Reading]:
    """Return the operations of this library."""
    operations: list[Operation | Reading] = [
        Operation("encode", OURS, lambda: _encode(workload)),
        *_own_files(OURS, workload, workload.record_class, directory / "own"),
        writing(workload, COLUMNS, lambda path: _write_columns(workload, path), directory / "columns"),
        _own_records(workload, directory / "own"),
    ]
    if workload.packed is not None:
        operations += _own_files(PACKED, workload, workload.packed, directory / "packed")
    return operations


def _write_columns(workload: Workload, path: Path) -> None:
    lists = {name: (flat, workload.lengths) for name, flat in workload.flat.items()}
    with Writer(path, workload.record_class) as writer:
        writer.write_batch({**workload.contexts, **lists, **workload.others})


def _encode(workload: Workload) -> Callable[[], int]:
    schema, records = Schema.of(workload.record_class), workload.records
    at_once = 1 + _ENCODED_BYTES * len(records) // workload.raw_bytes

    def encode() -> int:
        return sum(len(schema.encode_batch(records[i : i + at_once])) for i in range(0, len(records), at_once))

    return encode


def _own_files(candidate: str, workload: Workload, schema: object, directory: Path) -> list[Operation | Reading]:
    return [
        writing(workload, candidate, lambda path: write(workload.records, path, schema=schema), directory),
        Reading(candidate, _batches(functools.partial(dataset, workload, directory))),
    ]


def dataset(workload: Workload, directory: Path, seed: int, epochs: int | None) -> Any:
    """Return shuffled, padded batches of this library's files, in buckets where lengths differ."""
    boundaries = workload.boundaries
    batch = Bucket(handwritten.BATCH, boundaries=boundaries) if boundaries else Pad(handwritten.BATCH)
    return read(directory, "train", batch=batch, shuffle=workload.shuffle, seed=seed, epochs=epochs)


def _own_records(workload: Workload, directory: Path) -> Reading:
    def open_(_: int, epochs: int | None) -> Iterable[Any]:
        passes: Iterator[Any] = (read_records(directory, schema=workload.record_class) for _ in seeds_of(0, epochs))
        return itertools.chain.from_iterable(passes)

    return Reading(OURS, open_, measure="read_records", count=None, compared=False)


def by_hand(workload: Workload, directory: Path) -> list[Operation | Reading]:
    """Return the operations of hand-written TensorFlow."""
    files = directory / "by_hand"

    def open_records(_: int, epochs: int | None) -> Iterable[Any]:
        return itertools.chain.from_iterable(handwritten.records(workload, files) for _ in seeds_of(0, epochs))

    return [
        Operation("encode", HANDWRITTEN, lambda: lambda: handwritten.encode(workload)),
        writing(workload, HANDWRITTEN, lambda path: handwritten.write(workload, path), files),
        Reading(HANDWRITTEN, _batches(functools.partial(handwritten.dataset, workload, files))),
        Reading(EXPERT, _batches(functools.partial(handwritten.expert_dataset, workload, files))),
        Reading(RAW, _batches(lambda _, epochs: handwritten.raw_dataset(files, epochs)), count=len, compared=False),
        Reading(HANDWRITTEN, open_records, measure="read_records", count=None, compared=False),
    ]


def _batches(dataset: Callable[[int, int | None], Any]) -> Callable[[int, int | None], Iterable[Any]]:
    """Return how the batches of a `tf.data.Dataset`, of a seed and a number of epochs, are opened as arrays."""
    return lambda seed, epochs: iter(dataset(seed, epochs).as_numpy_iterator())
