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

from seqrecorder.schema.schema import Schema

from . import access
from .candidates import Operation, Reading, seeds_of, writing
from .content import LENGTH, pad
from .handwritten import BATCH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from .workloads import Workload

    Columns = dict[str, Any]


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


def planned(workload: Workload, seed: int) -> Iterator[NDArray[np.int64]]:
    """Yield the record numbers of shuffled, bucketed batches, the batches in random order."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(workload.lengths.size)
    bucket = np.searchsorted(np.array(workload.boundaries), workload.lengths[order], side="right")
    batches = []
    for number in range(len(workload.boundaries) + 1):
        members = order[bucket == number]
        batches += [members[start : start + BATCH] for start in range(0, members.size, BATCH)]
    for index in rng.permutation(len(batches)).tolist():
        yield batches[index]


def from_columns(workload: Workload, columns: Columns, seed: int) -> Iterator[Columns]:
    """Yield planned batches from flat values, padded."""
    starts = np.cumsum(workload.lengths) - workload.lengths
    for rows in planned(workload, seed):
        lengths = workload.lengths[rows]
        source = np.repeat(starts[rows] - (np.cumsum(lengths) - lengths), lengths) + np.arange(int(lengths.sum()))
        contexts = {name: columns[name][rows] for name in workload.contexts}
        lists = {name: pad(columns[name][source], lengths) for name in workload.flat}
        yield {**contexts, **lists, LENGTH: lengths}


def gathered(workload: Workload) -> Columns:
    """Return the columns of the records: writing begins with the same records for everybody."""
    contexts = {name: np.array([getattr(record, name) for record in workload.records]) for name in workload.contexts}
    lists = {name: np.concatenate([getattr(record, name) for record in workload.records]) for name in workload.flat}
    return {**contexts, **lists}


def _columnar(
    name: str, needs: tuple[str, ...], put: Callable[[Workload, Path], object], get: Callable[[Workload, Path], Columns]
) -> Peer:
    """Return a peer that keeps columns in one file: a function that writes it, and one that reads it."""

    def operations(workload: Workload, directory: Path) -> list[Operation | Reading]:
        files = directory / name

        def open_(seed: int, epochs: int | None) -> Iterator[Columns]:
            columns = get(workload, files / "data")
            for epoch in seeds_of(seed, epochs):
                yield from from_columns(workload, columns, epoch)

        return [writing(workload, name, lambda path: put(workload, path / "data"), files), Reading(name, open_)]

    return Peer(name, needs, operations)


# numpy ---------------------------------------------------------------------------------------------------------------


def _save_npz(workload: Workload, path: Path) -> None:
    columns: Columns = {name: _as_bytes(values) for name, values in gathered(workload).items()}
    with path.open("wb") as file:
        np.savez(file, **columns)


def _load_npz(_: Workload, path: Path) -> Columns:
    with np.load(path) as data:
        return dict(data)


# Arrow ---------------------------------------------------------------------------------------------------------------


def _table(workload: Workload) -> Any:
    import pyarrow as pa

    columns = gathered(workload)
    offsets = pa.array(np.concatenate([[0], np.cumsum(workload.lengths)]))
    arrays = {name: pa.array(columns[name]) for name in workload.contexts}
    for name in workload.flat:
        flat = columns[name]
        values = pa.array(flat.reshape(-1), pa.string() if flat.dtype == object else None)
        if flat.ndim > 1:
            values = pa.FixedSizeListArray.from_arrays(values, flat.shape[1])
        arrays[name] = pa.LargeListArray.from_arrays(offsets, values)
    return pa.table(arrays)


def _columns_of(table: Any, workload: Workload) -> Columns:
    columns: Columns = {name: table.column(name).to_numpy() for name in workload.contexts}
    for name, flat in workload.flat.items():
        values = table.column(name).combine_chunks().flatten()
        if flat.ndim > 1:
            values = values.flatten()
        columns[name] = values.to_numpy(zero_copy_only=False).reshape(-1, *flat.shape[1:])
    return columns


def _save_arrow(workload: Workload, path: Path) -> None:
    import pyarrow as pa

    table = _table(workload)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def _load_arrow(workload: Workload, path: Path) -> Columns:
    import pyarrow as pa

    return _columns_of(pa.ipc.open_file(pa.memory_map(str(path))).read_all(), workload)


def _save_parquet(workload: Workload, path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(_table(workload), path)


def _load_parquet(workload: Workload, path: Path) -> Columns:
    import pyarrow.parquet as pq

    return _columns_of(pq.read_table(path), workload)


# Hugging Face datasets -----------------------------------------------------------------------------------------------


def _hugging_face(workload: Workload, directory: Path) -> list[Operation | Reading]:
    import datasets

    datasets.disable_progress_bars()
    files = directory / "hugging_face"

    def write(path: Path) -> None:
        datasets.Dataset(_table(workload)).save_to_disk(str(path))

    def open_(seed: int, epochs: int | None) -> Iterator[Columns]:
        dataset = datasets.load_from_disk(str(files)).with_format("numpy")
        for rows in itertools.chain.from_iterable(planned(workload, epoch) for epoch in seeds_of(seed, epochs)):
            taken, lengths = dataset[rows], workload.lengths[rows]
            contexts = {name: np.asarray(taken[name]) for name in workload.contexts}
            flat = {name: np.concatenate(list(map(np.asarray, taken[name]))) for name in workload.flat}
            lists = {
                name: pad(values.astype(workload.flat[name].dtype, copy=False), lengths)  # of bytes it makes int64
                for name, values in flat.items()
            }
            yield {**contexts, **lists, LENGTH: lengths}

    return [
        writing(workload, "Hugging Face datasets", write, files),
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


# h5py ----------------------------------------------------------------------------------------------------------------


class _Flat:
    """A dataset for the values of all steps, of which slices are read, and columns of contexts."""

    def __init__(self, workload: Workload, files: Path) -> None:
        import h5py

        file: Any = h5py.File(files / "data.h5", "r")
        self.lists = {name: file[name] for name in workload.flat}
        self.contexts = {name: file[name][:] for name in workload.contexts}
        self.ends = np.concatenate([[0], np.cumsum(workload.lengths)]).tolist()

    def steps(self, name: str, place: int) -> NDArray[Any]:
        values: NDArray[Any] = self.lists[name][self.ends[place] : self.ends[place + 1]]
        return values

    def at(self, place: int) -> Any:
        record = {name: self.steps(name, place) for name in self.lists}
        return record | {name: values[place] for name, values in self.contexts.items()}

    def several(self, places: NDArray[np.int64]) -> Sequence[Any]:
        return [self.at(place) for place in places.tolist()]


def _as_bytes(values: Any) -> NDArray[Any]:
    """Return an array, of texts as UTF-8."""
    array = np.asarray(values)
    return np.char.encode(array.astype(str), "utf-8") if array.dtype.kind in "OU" else array


def _h5py(workload: Workload, directory: Path) -> list[Operation | Reading]:
    import h5py

    files = directory / "h5"

    def write(path: Path) -> None:
        with h5py.File(path / "data.h5", "w") as file:
            for name, values in {**workload.contexts, **workload.flat}.items():
                file[name] = _as_bytes(values)

    def open_(seed: int, epochs: int | None) -> Iterator[Columns]:
        opened = _Flat(workload, files)
        for rows in itertools.chain.from_iterable(planned(workload, epoch) for epoch in seeds_of(seed, epochs)):
            lengths, places = workload.lengths[rows], rows.tolist()
            contexts = {name: values[rows] for name, values in opened.contexts.items()}
            flat = {name: np.concatenate([opened.steps(name, place) for place in places]) for name in opened.lists}
            yield {**contexts, **{name: pad(values, lengths) for name, values in flat.items()}, LENGTH: lengths}

    found: list[Operation | Reading] = [writing(workload, "h5py", write, files), Reading("h5py", open_)]
    # Of texts it gives bytes, which are not what was written.
    if not any(np.asarray(values).dtype == object for values in workload.flat.values()):
        found += access.operations(workload, "h5py", lambda: _Flat(workload, files))
    return found


# grain ---------------------------------------------------------------------------------------------------------------


class _Grain:
    def __init__(self, workload: Workload, files: Path) -> None:
        import grain.python as grain

        self.source = grain.ArrayRecordDataSource(str(files / "data.array_record"))
        self.decode = Schema.of(workload.record_class).decode
        self.at = grain.MapDataset.source(self.source).map(self.decode).__getitem__

    def several(self, places: NDArray[np.int64]) -> Sequence[Any]:
        return [self.decode(data) for data in self.source.__getitems__(places.tolist())]


def _array_records(workload: Workload, directory: Path) -> list[Operation | Reading]:
    """Return the operations of grain: our messages in a file of ArrayRecord, decoded by us."""
    import grain.python as grain
    from array_record.python.array_record_module import ArrayRecordWriter

    name, files = "grain over ArrayRecord", directory / "array_record"

    def write(path: Path) -> None:
        schema = Schema.of(workload.record_class)
        writer = ArrayRecordWriter(str(path / "data.array_record"), "group_size:1")
        for start in range(0, len(workload.records), 1000):
            for data in schema.encode_batch(workload.records[start : start + 1000]):
                writer.write(data)
        writer.close()

    def open_(seed: int, epochs: int | None) -> Iterator[Columns]:
        opened = _Grain(workload, files)

        def batch(rows: NDArray[np.int64]) -> Columns:
            records, lengths = opened.several(rows), workload.lengths[rows]
            contexts = {name: np.array([getattr(record, name) for record in records]) for name in workload.contexts}
            flat = {name: np.concatenate([getattr(record, name) for record in records]) for name in workload.flat}
            return {**contexts, **{name: pad(values, lengths) for name, values in flat.items()}, LENGTH: lengths}

        for epoch in seeds_of(seed, epochs):
            yield from grain.MapDataset.source(list(planned(workload, epoch))).map(batch).to_iter_dataset()

    return [
        writing(workload, name, write, files),
        Reading(name, open_),
        *access.operations(workload, name, lambda: _Grain(workload, files)),
    ]


PEERS = (
    _columnar("npz", (), _save_npz, _load_npz),
    _columnar("Arrow IPC", ("pyarrow",), _save_arrow, _load_arrow),
    _columnar("Parquet", ("pyarrow.parquet",), _save_parquet, _load_parquet),
    Peer("Hugging Face datasets", ("datasets",), _hugging_face),
    Peer("h5py", ("h5py",), _h5py),
    Peer("grain over ArrayRecord", ("grain.python", "array_record.python.array_record_module"), _array_records),
)
