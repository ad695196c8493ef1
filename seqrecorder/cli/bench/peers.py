"""Other libraries that a user could pick; each is measured where it is installed, and named as skipped where not.

All of them deliver the same as we do: every record once, in a new random order, in bucketed batches of 64 that are
padded to the longest of each batch, as numpy arrays. What has random access gets its batches planned in numpy from the
lengths, and padded with one gather for each batch, which is the best way found.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

import importlib
import itertools
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.cli.bench import access
from seqrecorder.cli.bench.candidates import Operation, Reading, seeds_of, writing
from seqrecorder.cli.bench.content import LENGTH
from seqrecorder.cli.bench.handwritten import BATCH
from seqrecorder.cli.bench.handwritten import write as write_by_hand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from seqrecorder.cli.bench.workloads import Workload

    Columns = dict[str, Any]

_WINDOW = 2048


@attrs.frozen
class Peer:
    """A library to compare with.

    Attributes:
        name: under which it is reported.
        needs: modules that it needs.
        operations: of a workload, in a directory.
    """

    name: str
    needs: tuple[str, ...]
    operations: Callable[[Workload, Path], Sequence[Operation | Reading]]

    def missing(self) -> str | None:
        """Return why the peer cannot be measured, or None."""
        for module in self.needs:
            try:
                importlib.import_module(module)
            except ImportError as error:
                return f"not installed ({error})"
        return None


# Batches from columns ------------------------------------------------------------------------------------------------


def planned(workload: Workload, all_lengths: NDArray[np.int64], seed: int) -> Iterator[NDArray[np.int64]]:
    """Yield the record numbers of shuffled, bucketed batches, the batches in random order."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(all_lengths.size)
    bucket = np.searchsorted(np.array(workload.boundaries), all_lengths[order], side="right")
    batches = []
    for number in range(len(workload.boundaries) + 1):
        members = order[bucket == number]
        batches += [members[start : start + BATCH] for start in range(0, members.size, BATCH)]
    for index in rng.permutation(len(batches)).tolist():
        yield batches[index]


def from_columns(
    workload: Workload, columns: Columns, seed: int, all_lengths: NDArray[np.int64] | None = None
) -> Iterator[Columns]:
    """Yield planned batches from flat values, padded."""
    all_lengths = workload.lengths if all_lengths is None else all_lengths
    starts = np.cumsum(all_lengths) - all_lengths
    for rows in planned(workload, all_lengths, seed):
        lengths = all_lengths[rows]
        real = np.arange(int(lengths.max())) < lengths[:, None]
        source = np.repeat(starts[rows] - (np.cumsum(lengths) - lengths), lengths) + np.arange(int(lengths.sum()))
        batch: Columns = {name: columns[name][rows] for name in workload.contexts}
        for name in workload.flat:
            flat = columns[name]
            padded = np.zeros((*real.shape, *flat.shape[1:]), flat.dtype)
            padded[real] = flat[source]
            batch[name] = padded
        batch[LENGTH] = lengths
        yield batch


def gathered(workload: Workload) -> Columns:
    """Return the columns of the records: writing begins with the same records for everybody."""
    columns: Columns = {}
    for name in workload.contexts:
        columns[name] = np.array([getattr(record, name) for record in workload.records])
    for name in workload.flat:
        columns[name] = np.concatenate([getattr(record, name) for record in workload.records])
    first = next(iter(workload.flat))
    columns[LENGTH] = np.array([len(getattr(record, first)) for record in workload.records])
    return columns


# numpy ---------------------------------------------------------------------------------------------------------------


def _npz(workload: Workload, directory: Path) -> list[Operation | Reading]:
    files = directory / "npz"

    def write(path: Path) -> int:
        path.mkdir()
        columns = gathered(workload)
        fixed: Columns = {
            name: np.char.encode(values.astype(str), "utf-8") if values.dtype.kind in "OU" else values
            for name, values in columns.items()
        }
        np.savez(path / "data.npz", **fixed)
        return len(workload.records)

    def open_(seed: int, epochs: int | None) -> Iterator[Columns]:
        with np.load(files / "data.npz") as data:
            columns = {name: data[name] for name in [*workload.contexts, *workload.flat]}
        for epoch in seeds_of(seed, epochs):
            yield from from_columns(workload, columns, epoch)

    return [writing("write", "npz", write, files), Reading("npz", open_)]


# Arrow ---------------------------------------------------------------------------------------------------------------


def _table(workload: Workload) -> Any:
    import pyarrow as pa

    columns = gathered(workload)
    offsets = np.zeros(columns[LENGTH].size + 1, np.int64)
    np.cumsum(columns[LENGTH], out=offsets[1:])
    arrays = {name: pa.array(columns[name]) for name in workload.contexts}
    for name in workload.flat:
        flat = columns[name]
        values = pa.array(flat.reshape(-1), pa.string() if flat.dtype == object else None)
        if flat.ndim > 1:
            values = pa.FixedSizeListArray.from_arrays(values, flat.shape[1])
        arrays[name] = pa.LargeListArray.from_arrays(pa.array(offsets), values)
    return pa.table(arrays)


def _columns_of(table: Any, workload: Workload) -> Columns:
    columns: Columns = {}
    for name in workload.contexts:
        columns[name] = table.column(name).to_numpy()
    for name, flat in workload.flat.items():
        chunked = table.column(name)
        parts = [chunk.flatten() for chunk in chunked.chunks]
        if flat.ndim > 1:
            parts = [part.flatten() for part in parts]
        values = [part.to_numpy(zero_copy_only=False) for part in parts]
        joined = values[0] if len(values) == 1 else np.concatenate(values)
        columns[name] = joined.reshape(-1, *flat.shape[1:])
    return columns


def _arrow(workload: Workload, directory: Path) -> list[Operation | Reading]:
    import pyarrow as pa

    files = directory / "arrow"

    def write(path: Path) -> int:
        path.mkdir()
        table = _table(workload)
        with pa.OSFile(str(path / "data.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        return len(workload.records)

    def open_(seed: int, epochs: int | None) -> Iterator[Columns]:
        with pa.memory_map(str(files / "data.arrow")) as source:
            columns = _columns_of(pa.ipc.open_file(source).read_all(), workload)
            for epoch in seeds_of(seed, epochs):
                yield from from_columns(workload, columns, epoch)

    return [writing("write", "Arrow IPC", write, files), Reading("Arrow IPC", open_)]


def _parquet(workload: Workload, directory: Path) -> list[Operation | Reading]:
    import pyarrow.parquet as pq

    files = directory / "parquet"

    def write(path: Path) -> int:
        path.mkdir()
        pq.write_table(_table(workload), path / "data.parquet")
        return len(workload.records)

    def open_(seed: int, epochs: int | None) -> Iterator[Columns]:
        columns = _columns_of(pq.read_table(files / "data.parquet"), workload)
        for epoch in seeds_of(seed, epochs):
            yield from from_columns(workload, columns, epoch)

    return [writing("write", "Parquet", write, files), Reading("Parquet", open_)]


# Hugging Face datasets -----------------------------------------------------------------------------------------------


def _hugging_face(workload: Workload, directory: Path) -> list[Operation | Reading]:
    import datasets

    datasets.disable_progress_bars()
    files = directory / "hugging_face"

    def write(path: Path) -> int:
        datasets.Dataset(_table(workload)).save_to_disk(str(path))
        return len(workload.records)

    def open_(seed: int, epochs: int | None) -> Iterator[Columns]:
        dataset = datasets.load_from_disk(str(files)).with_format("numpy")
        plans = (planned(workload, workload.lengths, epoch) for epoch in seeds_of(seed, epochs))
        for rows in itertools.chain.from_iterable(plans):
            taken = dataset[rows]
            lengths = workload.lengths[rows]
            real = np.arange(int(lengths.max())) < lengths[:, None]
            batch: Columns = {name: np.asarray(taken[name]) for name in workload.contexts}
            for name, flat in workload.flat.items():
                padded = np.zeros((*real.shape, *flat.shape[1:]), flat.dtype)
                padded[real] = np.concatenate([np.asarray(row) for row in taken[name]])
                batch[name] = padded
            batch[LENGTH] = lengths
            yield batch

    return [
        writing("write", "Hugging Face datasets", write, files),
        Reading("Hugging Face datasets", open_),
        *access.operations(workload, "Hugging Face datasets", lambda: _Rows(files)),
    ]


class _Rows:
    """The rows of a dataset of Hugging Face."""

    def __init__(self, files: Path) -> None:
        import datasets

        self.at: Callable[[Any], Any] = datasets.load_from_disk(str(files)).with_format("numpy").__getitem__

    def several(self, places: NDArray[np.int64]) -> Sequence[Any]:
        taken = self.at(places)
        return [dict(zip(taken, row, strict=True)) for row in zip(*taken.values(), strict=True)]


# tfx_bsl -------------------------------------------------------------------------------------------------------------


def _tfx_bsl(workload: Workload, directory: Path) -> list[Operation | Reading]:
    import tensorflow as tf
    from tfx_bsl.coders.sequence_example_coder import SequenceExamplesToRecordBatchDecoder

    files = directory / "tfx_bsl"

    def open_(seed: int, epochs: int | None) -> Iterator[Columns]:
        decoder = SequenceExamplesToRecordBatchDecoder("sequences")
        records = tf.data.TFRecordDataset(str(files / "data.tfrecord")).shuffle(workload.shuffle, seed=seed)
        # Records of a window are bucketed among themselves: batches at its end are short.
        for number, window in enumerate(records.batch(_WINDOW).repeat(epochs).as_numpy_iterator()):
            decoded = decoder.DecodeBatch(window.tolist())
            columns: Columns = {}
            for name in workload.contexts:
                columns[name] = (
                    decoded.column(decoded.schema.get_field_index(name)).flatten().to_numpy(zero_copy_only=False)
                )
            lists = decoded.column(decoded.schema.get_field_index("sequences"))
            for name, flat in workload.flat.items():
                values = lists.field(name).flatten().flatten().to_numpy(zero_copy_only=False)
                if flat.dtype == np.uint8:
                    values = np.frombuffer(b"".join(values.tolist()), np.uint8)
                columns[name] = values.reshape(-1, *flat.shape[1:])
            lengths = lists.field(next(iter(workload.flat))).value_lengths().to_numpy().astype(np.int64)
            yield from from_columns(workload, columns, seed + number, lengths)

    return [
        writing("prepare", "tfx_bsl", lambda path: write_by_hand(workload, path), files),
        Reading("tfx_bsl", open_),
    ]


PEERS = (
    Peer("npz", (), _npz),
    Peer("Arrow IPC", ("pyarrow",), _arrow),
    Peer("Parquet", ("pyarrow.parquet",), _parquet),
    Peer("Hugging Face datasets", ("datasets",), _hugging_face),
    Peer("h5py", ("h5py",), access.h5py_files),
    Peer("grain over ArrayRecord", ("grain.python", "array_record.python.array_record_module"), access.array_records),
    Peer("tfx_bsl", ("tfx_bsl.coders.sequence_example_coder",), _tfx_bsl),
)
