"""The package `tfrecord`, measured in a process of its own: its protos and TensorFlow's cannot be in one.

It reads TFRecord files without TensorFlow, record by record, and has a shuffling buffer; buckets and padding are ours.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.cli.bench.content import LENGTH, content
from seqrecorder.cli.bench.workloads import make

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from seqrecorder.cli.bench.workloads import Workload

_KINDS = {"i": "int", "f": "float", "O": "byte", "u": "byte", "U": "byte"}


def measure_tfrecord(
    name: str, path: Path, batch_size: int, *, quick: bool
) -> tuple[tuple[float, float], tuple[int, int]] | str:
    """Read a file of a workload once for its content and once against the clock, where TensorFlow is not imported.

    Args:
        name: of the workload.
        path: of the TFRecord file that holds it.
        batch_size: records to a batch.
        quick: whether it holds a tenth of the workload.

    Returns:
        Seconds of the clock and of the processor, and what was delivered as `content` has it; or why it cannot be done.
    """
    try:
        import tfrecord.reader  # noqa: F401 - asked for before the data are made
    except ImportError as error:
        return f"not installed ({error})"
    workload = make(name, quick=quick)
    delivered = content(_batches(workload, path, batch_size), workload)
    began, processor = time.perf_counter(), time.process_time()
    for _ in _batches(workload, path, batch_size):
        pass
    return (time.perf_counter() - began, time.process_time() - processor), delivered


def _batches(workload: Workload, path: Path, batch_size: int) -> Iterator[dict[str, Any]]:
    from tfrecord.iterator_utils import shuffle_iterator
    from tfrecord.reader import tfrecord_loader

    contexts = {name: _KINDS[np.asarray(values).dtype.kind] for name, values in workload.contexts.items()}
    lists = {name: _KINDS[flat.dtype.kind] for name, flat in workload.flat.items()}
    first = next(iter(lists))
    buckets: dict[int, list[Any]] = {}
    records = tfrecord_loader(str(path), None, contexts, sequence_description=lists)
    for values, steps in shuffle_iterator(records, workload.shuffle):
        length = len(steps[first])
        number = int(np.searchsorted(np.array(workload.boundaries), length, side="right"))
        bucket = buckets.setdefault(number, [])
        bucket.append((values, steps, length))
        if len(bucket) == batch_size:
            yield _padded(workload, buckets.pop(number))
    for bucket in buckets.values():
        yield _padded(workload, bucket)


def _padded(workload: Workload, rows: list[Any]) -> dict[str, Any]:
    lengths = np.array([length for _, _, length in rows])
    real = np.arange(int(lengths.max())) < lengths[:, None]
    batch: dict[str, Any] = {}
    for name in workload.contexts:
        values = [np.asarray(values[name]).reshape(-1) for values, _, _ in rows]
        texts = isinstance(workload.contexts[name], list)
        batch[name] = np.array([value.tobytes() if texts else value[0] for value in values], object if texts else None)
    for name, flat in workload.flat.items():
        padded = np.zeros((*real.shape, *flat.shape[1:]), flat.dtype)
        if flat.dtype == np.uint8:
            steps = [np.frombuffer(b"".join(bytes(s) for s in row[name]), np.uint8) for _, row, _ in rows]
        elif flat.dtype == object:
            steps = [np.array([bytes(s) for s in row[name]], object) for _, row, _ in rows]
        else:
            steps = [np.asarray(row[name], flat.dtype) for _, row, _ in rows]
        padded[real] = np.concatenate([step.reshape(-1, *flat.shape[1:]) for step in steps])
        batch[name] = padded
    batch[LENGTH] = lengths
    return batch
