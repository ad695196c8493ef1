"""Values of records and of tensors in one form, to be compared to the bit."""

from typing import Any

import numpy as np
import tensorflow as tf


def plain(value: Any) -> Any:
    """Return a value in such a form that equal ones have equal bits: text as bytes, times as int64."""
    if isinstance(value, dict):
        return {int(place): plain(element) for place, element in value.items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    if hasattr(value, "indices"):
        return {int(place): plain(element) for place, element in zip(value.indices, value.values, strict=True)}
    if value is None:
        return None
    array = np.asarray(value, object if isinstance(value, (str, bytes)) else None)
    if array.dtype.kind in "OS":
        texts = [item.encode() if isinstance(item, str) else item for item in array.reshape(-1).tolist()]
        return array.shape, texts
    array = array.view(np.int64) if array.dtype.kind in "mM" else array
    return array.shape, array.dtype.name, array.tobytes()


def without_padding(found: Any, want: Any) -> Any:
    """Return a tensor of one record as large as the value that is wanted; sparse ones as dicts.

    What is cut off must be zeros.
    """
    if isinstance(found, tf.SparseTensor):
        vectors: list[dict[int, Any]] = [{} for _ in want] if isinstance(want, list) else [{}]
        for place, element in zip(found.indices.numpy().tolist(), found.values.numpy(), strict=True):
            vectors[place[-2] if isinstance(want, list) else 0][place[-1]] = element
        return vectors if isinstance(want, list) else vectors[0]
    if isinstance(found, tf.RaggedTensor):
        return [np.asarray(part.numpy()) for part in found]
    array = np.asarray(found.numpy())
    if not isinstance(want, list):
        kept = array[tuple(map(slice, np.shape(want)))]
        assert np.count_nonzero(kept) == np.count_nonzero(array)
        return kept
    parts = [array[i][tuple(map(slice, part.shape))] for i, part in enumerate(want)]
    assert sum(map(np.count_nonzero, parts)) == np.count_nonzero(array)
    return parts
