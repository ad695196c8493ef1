"""What is measured, of whom: each candidate brings those operations that it has.

An operation is prepared outside of the clock (a pipeline is built, a file is opened) and then run to the end of the
data; what it returns is the number of records that went through.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.cli.bench import handwritten
from seqrecorder.cli.bench.content import LENGTH
from seqrecorder.reading.batching.bucket import Bucket
from seqrecorder.reading.batching.pad import Pad
from seqrecorder.reading.read import read, read_records
from seqrecorder.schema.schema import Schema
from seqrecorder.writing.write import write
from seqrecorder.writing.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from seqrecorder.cli.bench.workloads import Workload

OURS = "seqrecorder"
PACKED = "seqrecorder, packed"
COLUMNS = "seqrecorder, columns"
HANDWRITTEN = "hand-written"
RAW = "raw floor"

# Both encoders drop what they have encoded, as a script does that sends it on: ours in lists of so much.
_ENCODED_BYTES = 16 << 20


@attrs.frozen(eq=False)
class Operation:
    """One operation of one candidate.

    Attributes:
        measure: `encode`, `write`, `read` or `read_records`.
        candidate: whose it is.
        prepare: does what is not measured, and returns what is: a function that returns a number of records.
        batches: where there is content to compare: returns all that is delivered, as batches of arrays.
        files: where the operation leaves files: the directory, whose size is told.
    """

    measure: str
    candidate: str
    prepare: Callable[[], Callable[[], int]]
    batches: Callable[[], Iterable[Any]] | None = None
    files: Path | None = None


def writing(measure: str, candidate: str, run: Callable[[Path], int], directory: Path) -> Operation:
    """Return an operation that writes into a directory, which is removed before each run."""

    def prepare() -> Callable[[], int]:
        shutil.rmtree(directory, ignore_errors=True)
        return lambda: run(directory)

    return Operation(measure, candidate, prepare, files=directory)


def reading(candidate: str, open_: Callable[[int], Iterable[Any]]) -> Operation:
    """Return an operation that iterates over batches of arrays; `open_` takes the number of the epoch as a seed.

    What was iterated over is kept until the next run, so that its teardown is not on the clock.
    """
    epoch = iter(range(1 << 30))

    def prepare() -> Callable[[], int]:
        batches = open_(next(epoch))
        return lambda: sum(len(batch[LENGTH]) for batch in batches)

    return Operation("read", candidate, prepare, batches=lambda: open_(0))


def own(workload: Workload, directory: Path) -> list[Operation]:
    """Return the operations of this library."""
    operations = [
        Operation("encode", OURS, lambda: _encode(workload)),
        *_own_files(OURS, workload, workload.record_class, workload.records, directory / "own"),
        writing("write", COLUMNS, lambda path: _write_columns(workload, path), directory / "columns"),
        _own_records(workload, directory / "own"),
    ]
    packed = workload.packed_class
    if packed is not None:
        names = [field.name for field in Schema.of(packed).fields]
        records = [packed(**{name: getattr(record, name) for name in names}) for record in workload.records]
        operations += _own_files(PACKED, workload, packed, records, directory / "packed")
    return operations


def _write_columns(workload: Workload, path: Path) -> int:
    lists = {name: (flat, workload.lengths) for name, flat in workload.flat.items()}
    with Writer(path, workload.record_class) as writer:
        writer.write_batch({**workload.contexts, **lists})
    return writer.manifest.records


def _encode(workload: Workload) -> Callable[[], int]:
    schema, records = Schema.of(workload.record_class), workload.records
    at_once = 1 + _ENCODED_BYTES * len(records) // workload.raw_bytes

    def encode() -> int:
        return sum(len(schema.encode_batch(records[i : i + at_once])) for i in range(0, len(records), at_once))

    return encode


def _own_files(
    candidate: str, workload: Workload, record_class: type, records: Sequence[Any], directory: Path
) -> list[Operation]:
    batch: Any = Bucket(handwritten.BATCH, boundaries=workload.boundaries)
    if not workload.boundaries:
        batch = Pad(handwritten.BATCH)

    def open_(seed: int) -> Iterable[Any]:
        return _AsNumpy(read(directory, "train", batch=batch, shuffle=workload.shuffle, seed=seed))

    return [
        writing("write", candidate, lambda path: write(records, path, schema=record_class).records, directory),
        reading(candidate, open_),
    ]


def _own_records(workload: Workload, directory: Path) -> Operation:
    def prepare() -> Callable[[], int]:
        records: Iterator[Any] = read_records(directory, schema=workload.record_class)
        return lambda: sum(1 for _ in records)

    return Operation("read_records", OURS, prepare)


def by_hand(workload: Workload, directory: Path) -> list[Operation]:
    """Return the operations of hand-written TensorFlow."""
    files = directory / "by_hand"

    def prepare_records() -> Callable[[], int]:
        records = handwritten.records(workload, files)
        return lambda: sum(1 for _ in records)

    def prepare_raw() -> Callable[[], int]:
        dataset = handwritten.raw_dataset(files)
        return lambda: sum(batch.size for batch in dataset.as_numpy_iterator())

    return [
        Operation("encode", HANDWRITTEN, lambda: lambda: handwritten.encode(workload)),
        writing("write", HANDWRITTEN, lambda path: handwritten.write(workload, path), files),
        reading(HANDWRITTEN, lambda seed: _AsNumpy(handwritten.dataset(workload, files, seed))),
        Operation("read", RAW, prepare_raw),
        Operation("read_records", HANDWRITTEN, prepare_records),
    ]


class _AsNumpy:
    """The elements of a `tf.data.Dataset` as arrays; iterating starts the pipeline, which is built already."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __iter__(self) -> Iterator[Any]:
        return iter(self._dataset.as_numpy_iterator())
