"""The shards that reading a selection reads: those of whole splits where they are; of others, runs of them or a copy.

Where records lie one behind the other, or are large, they are read in place: a run of neighbours after the other, in
the order of the selection. To seek each record of a few hundred bytes takes longer than to copy it, and GZIP cannot be
sought. So the frames of such records are copied into a temporary file, once their CRCs were checked. A large selection
is cut into several such files, for readers and shuffling to have parts of it.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import threading
from typing import TYPE_CHECKING

import attrs
import numpy as np

from seqrecorder.dataset.resolve import resolve_dataset
from seqrecorder.dataset.shard_set import Origin, Runs, ShardFile
from seqrecorder.errors import OptionError
from seqrecorder.schema.schema import Schema
from seqrecorder.storage.files import faults_around, writing
from seqrecorder.storage.tfrecord import framed
from seqrecorder.storage.threads import scratch

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from seqrecorder.dataset.record_store import RecordStore
    from seqrecorder.dataset.shard_set import Check, OnCorrupt

_WINDOW = 8192
_LEAST_RUN = 1 << 16
"""Bytes of a run on average, from which to open a file at it costs little beside reading it."""

_FILE_BYTES = 1 << 26
_MOST_FILES = 16


def resolve_selection(
    store: RecordStore,
    positions: range | NDArray[np.int64],
    *,
    schema: object,
    check: Check,
    on_corrupt: OnCorrupt,
    lengths_only: bool,
) -> Origin:
    """Return what is to be read of a selection.

    Args:
        store: the records of the dataset.
        positions: of those that are selected.
        schema: class or schema to read as; None for the selection's own.
        check: see `seqrecorder.dataset.resolve.resolve`.
        on_corrupt: likewise; damage is only left out of whole splits.
        lengths_only: whether only lengths are asked for, so that no record is copied.

    Raises:
        ShardReadError: a shard is missing, or a record that is selected is damaged.
        ShardWriteError: the place of temporary files is full.
        SchemaMismatchError: the data cannot be read as the schema.
        OptionError: damage is to be left out of a part of a split.
    """
    manifest, wanted = store.manifest, store.schema
    if schema is not None:
        wanted = Schema.of(schema)
        wanted.require_readable(manifest.schema, str(manifest.path))
        wanted = wanted.reading(manifest.schema)
    where = f"{manifest.where}, a selection of {len(positions)} records"
    names = whole_splits(store, positions)
    if names is None and on_corrupt == "skip":
        raise OptionError(
            "on_corrupt='skip' leaves damage out of whole splits, not out of selected records; salvage the dataset, "
            "and select from what is recovered"
        )
    if names is None or check == "full":
        touched = names if names is not None else touched_splits(store, positions)
        for name in touched if check == "full" else ():
            resolve_dataset(manifest, name, None, "full", "error")
    if names is None:
        files = _selected(store, np.ascontiguousarray(positions, np.int64), lengths_only=lengths_only)
        return Origin(where, wanted, "steps", None, tuple(files), manifest, check)
    if len(names) == 1:
        return attrs.evolve(resolve_dataset(manifest, names[0], None, check, on_corrupt), schema=wanted)
    shards: list[ShardFile] = []
    start = 0
    for name in names:
        part = resolve_dataset(manifest, name, None, check, on_corrupt)
        shards += [attrs.evolve(file, start=file.start + start) for file in part.files]
        start += manifest.splits[name].records
    return Origin(where, wanted, "steps", manifest.compression, tuple(shards), manifest, check)


def whole_splits(store: RecordStore, positions: range | NDArray[np.int64]) -> list[str] | None:
    """Return the splits of which a selection holds all records, in written order, one after the other; else None."""
    by_start = {split.start: (name, split) for name, split in store.splits.items() if split}
    names: list[str] = []
    done = 0
    while done < len(positions):
        name, split = by_start.get(int(positions[done]), ("", range(0)))
        part = positions[done : done + len(split)]
        if not split or (part != split if isinstance(part, range) else not np.array_equal(part, split)):
            return None
        names.append(name)
        done += len(split)
    return names


def touched_splits(store: RecordStore, positions: range | NDArray[np.int64]) -> list[str]:
    """Return the splits of which a selection holds records."""
    edges = np.array([split.stop for split in store.splits.values()])
    places = np.unique(np.searchsorted(edges, np.asarray(positions), side="right"))
    names = list(store.splits)
    return [names[place] for place in places.tolist()]


def _selected(store: RecordStore, positions: NDArray[np.int64], *, lengths_only: bool) -> list[ShardFile]:
    """Return the files of some records, which are read one after the other."""
    files, rows = store.order.find(positions)
    begins = np.flatnonzero((np.diff(files, prepend=-1) != 0) | (np.diff(rows, prepend=-1) != 1))
    expected = store.manifest.bytes // max(1, store.manifest.records) * positions.size
    in_place = store.is_sought and expected >= _LEAST_RUN * begins.size
    cuts = np.linspace(0, positions.size, 1 + min(_MOST_FILES, 1 + expected // _FILE_BYTES)).astype(np.int64)
    groups, out = store.manifest.schema.groups, []
    for start, stop in itertools.pairwise(np.unique(cuts).tolist()):
        part = positions[start:stop]
        directory = _directory(str(store.manifest.path), store.digest, hashlib.sha256(part.tobytes()).hexdigest())
        directory.mkdir(parents=True, exist_ok=True)  # some systems remove temporary files that are old
        path, lengths_path = directory / "selected.tfrecord", directory / "selected.lengths"
        if groups and not lengths_path.exists():
            table = np.stack([store.lengths(part, group) for group in groups], 1)
            _write(lengths_path, [table.astype("<i8").tobytes()])
        if not in_place and not path.exists() and not (lengths_only and store.is_sought):
            _copy(store, part, path)
        edges = np.concatenate([[start], begins[(begins > start) & (begins < stop)], [stop]])
        runs = _runs(store, files[edges[:-1]], rows[edges[:-1]], np.diff(edges))
        size = int(np.diff(runs.table[:, 3:]).sum()) if store.is_sought else path.stat().st_size
        file = ShardFile(path, lengths_path if groups else None, stop - start, size, start)
        out.append(attrs.evolve(file, runs=runs) if in_place else file)
    return out


def _runs(store: RecordStore, files: NDArray[np.int64], rows: NDArray[np.int64], counts: NDArray[np.int64]) -> Runs:
    numbers, places = np.unique(files, return_inverse=True)
    paths = tuple(store.manifest.shard_path(*each) for each in store.shard_infos(numbers.tolist()))
    return Runs(paths, np.stack([places, rows, counts, *store.spans(files, rows, counts).T], 1))


@functools.lru_cache(maxsize=1 << 12)
def _directory(path: str, manifest: str, positions: str) -> Path:
    """Return the directory of a copy: equal selections are copied once in a process."""
    del path, manifest, positions
    return scratch()


def _copy(store: RecordStore, positions: NDArray[np.int64], path: Path) -> None:
    """Copy records into a file, whose CRCs are checked."""
    source, window = store.forward(), store.window(_WINDOW)
    parts = [positions[start : start + window] for start in range(0, positions.size, window)]
    _write(path, (octets for part in parts for octets in framed(source.messages(part).rows())))


def _write(path: Path, parts: Iterable[bytes]) -> None:
    """Write a file that is complete or absent: another thread may copy the same."""
    unfinished = path.with_name(f"{path.name}.{threading.get_ident()}")
    with writing("copy selected records to", path):
        try:
            with unfinished.open("wb") as file:
                for part in parts:
                    with faults_around("write", unfinished):
                        file.write(part)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
