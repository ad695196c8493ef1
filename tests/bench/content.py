"""What batches hold, as one number: so that candidates are compared by content, not by count alone.

A record's number is a digest of the bytes of its values; the sum over the records does not depend on their order, which
shuffling changes. It is computed outside of the clock.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from .workloads import Workload

LENGTH = "sequence_length"
"""Name under which batches carry the lengths of their records."""


def content(batches: Iterable[Mapping[str, Any]], workload: Workload) -> tuple[int, int]:
    """Return how many records batches hold, and the number that stands for their content.

    Args:
        batches: arrays by field; feature lists of shape `(B, T, ...)`, padded with anything; and `LENGTH`.
        workload: says which fields there are.
    """
    records, total = 0, 0
    for batch in batches:
        lengths = np.asarray(batch[LENGTH]).tolist()
        contexts = [np.asarray(batch[name]) for name in workload.contexts]
        lists = [np.asarray(batch[name]) for name in workload.flat]
        for row, length in enumerate(lengths):
            digest = hashlib.blake2b(digest_size=8)
            for values in [*(column[row] for column in contexts), *(steps[row, :length] for steps in lists)]:
                digest.update(_bytes_of(values))
            total += int.from_bytes(digest.digest(), "little")
        records += len(lengths)
    return records, total


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


def _bytes_of(values: Any) -> bytes:
    array = np.asarray(values)
    if array.dtype.kind not in "OSU":
        return array.tobytes()
    texts = [value.encode() if isinstance(value, str) else bytes(value) for value in array.ravel().tolist()]
    return b"".join(len(text).to_bytes(8, "little") + text for text in texts)
