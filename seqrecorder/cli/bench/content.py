"""What batches hold, as one number: so that candidates are compared by content, not by count alone.

A record's number mixes the bits of its values with their positions; the sum over the records does not depend on their
order, which shuffling changes. It is computed outside of the clock.
"""

from __future__ import annotations

import functools
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from seqrecorder.cli.bench.workloads import Workload

LENGTH = "sequence_length"
"""Name under which batches carry the lengths of their records."""

_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: Knuth's multiplicative hash
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # those of splitmix64


def content(batches: Iterable[Mapping[str, Any]], workload: Workload) -> tuple[int, int]:
    """Return how many records batches hold, and the number that stands for their content.

    >>> from seqrecorder.cli.bench.workloads import make
    >>> workload = make("W4", quick=True)
    >>> content([whole(workload)], workload)[0]
    20000

    Args:
        batches: arrays by field; feature lists of shape `(B, T, ...)`, padded with anything; and `LENGTH`.
        workload: says which fields there are.
    """
    records, total = 0, 0
    for batch in batches:
        lengths = np.asarray(batch[LENGTH], np.int64)
        rows = np.zeros(lengths.size, np.uint64)
        for number, name in enumerate([*workload.contexts, *workload.flat]):
            rows += _row_sums(np.asarray(batch[name]), lengths if name in workload.flat else None, number)
        records += lengths.size
        total += int(_mix(rows).sum(dtype=np.uint64))
    return records, total % (1 << 64)


def whole(workload: Workload) -> dict[str, Any]:
    """Return all records of a workload as one padded batch, made the obvious way."""
    contexts = {name: np.asarray(values) for name, values in workload.contexts.items()}
    lists = {name: pad(flat, workload.lengths) for name, flat in workload.flat.items()}
    return {**contexts, **lists, LENGTH: workload.lengths}


def pad(flat: NDArray[Any], lengths: NDArray[np.int64]) -> NDArray[Any]:
    """Return the values of all steps as one row a record, with zeros after its last step."""
    longest = int(lengths.max())
    padded = np.zeros((lengths.size, longest, *flat.shape[1:]), flat.dtype)
    padded[np.arange(longest) < lengths[:, None]] = flat
    return padded


def _row_sums(values: NDArray[Any], lengths: NDArray[np.int64] | None, number: int) -> NDArray[np.uint64]:
    bits = _bits(values).reshape(values.shape[0], -1)
    positions = np.arange(bits.shape[1], dtype=np.uint64) + np.uint64(1 + 1_000_003 * number)
    mixed = _mix(bits + positions * _ODD)
    if lengths is not None:
        inner = bits.shape[1] // max(1, values.shape[1])
        mixed = np.where(np.arange(bits.shape[1]) < (lengths * inner)[:, None], mixed, np.uint64(0))
    sums: NDArray[np.uint64] = mixed.sum(1, dtype=np.uint64)
    return sums


def _bits(values: NDArray[Any]) -> NDArray[np.uint64]:
    if values.dtype.kind in "OSU":
        flat = [_text_bits(value) for value in values.ravel().tolist()]
        return np.array(flat, np.uint64).reshape(values.shape)
    width = values.dtype.itemsize
    return np.ascontiguousarray(values).view(f"u{width}").astype(np.uint64)


@functools.lru_cache(1 << 16)
def _text_bits(value: Any) -> int:
    return zlib.crc32(value.encode() if isinstance(value, str) else bytes(value or b""))


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    mixed: NDArray[np.uint64] = values ^ (values >> np.uint64(31))
    return mixed
