"""Cardinality, the number of batches that `read` reports to `tf.data`, so that Keras can show the progress of an epoch.

If the number depends on the lengths of the records, `plan` computes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.errors import OptionError
from seqrecorder.reading.tfdata_ops import Traced, made_once, staged, undealt

if TYPE_CHECKING:
    from seqrecorder.reading.batching.strategy import Batches


def batch_count(records: int, size: int, *, drop_remainder: bool) -> int:
    """Compute the number of batches from the number of records.

    If the number of records is unknown, it is -1, and so is the result.
    """
    if records < 0:
        return -1
    return records // size if drop_remainder else -(-records // size)


_ZEROS = 1 << 12  # zeros per element before unbatching; with so many, the function is called rarely


def _zeros(_: Any) -> Any:
    import tensorflow as tf

    return tf.zeros([_ZEROS], tf.int64)


def counted(dataset: Any, count: int) -> Any:
    """Set the cardinality of a dataset without checking it.

    `assert_cardinality` would fail in the workers of the tf.data service, because the files are sharded among them.
    Instead, this chooses between the dataset and an endless one, and takes `count` elements. It always chooses the
    dataset, but `tf.data` considers the choice infinite, so the result has cardinality `count`.

    >>> import tensorflow as tf
    >>> odd = tf.data.Dataset.range(9).filter(lambda i: i % 2 == 1)
    >>> known = counted(odd, 4)
    >>> int(odd.cardinality()), int(known.cardinality()), int(known.skip(1).cardinality()), len(list(known))
    (-2, 4, 3, 4)

    Args:
        dataset: `tf.data.Dataset` to set the cardinality of.
        count: number of its elements, or -1 (`tf.data.INFINITE_CARDINALITY`).
    """
    import tensorflow as tf

    other = tf.data.Dataset.from_tensors(tf.nest.map_structure(_blank, dataset.element_spec)).repeat()
    scalar = tf.TensorSpec([], tf.int64)
    zeros = made_once("zeros", scalar, lambda: Traced.of(_zeros, scalar, dense=True)).mapped(undealt())
    turns = staged(tf.raw_ops.UnbatchDataset, scalar, input_dataset=zeros)
    taken = tf.data.Dataset.choose_from_datasets([dataset, other], turns, stop_on_empty_dataset=True)
    taken = taken if count == tf.data.INFINITE_CARDINALITY else taken.take(count)
    return tf.data.experimental.from_variant(tf.data.experimental.to_variant(taken), dataset.element_spec)


def _blank(spec: Any) -> Any:
    """Build an element of zeros for a spec, with size 0 in dimensions of unknown size."""
    import tensorflow as tf

    if isinstance(spec, tf.SparseTensorSpec):
        rank = spec.shape.rank
        return tf.SparseTensor(tf.zeros([0, rank], tf.int64), tf.zeros([0], spec.dtype), tf.zeros([rank], tf.int64))
    if isinstance(spec, tf.RaggedTensorSpec):
        values = tf.zeros([0, *(size or 0 for size in spec.shape[spec.ragged_rank + 1 :])], spec.dtype)
        for _ in range(spec.ragged_rank):
            values = tf.RaggedTensor.from_row_splits(values, tf.zeros([1], spec.row_splits_dtype))
        return values
    return tf.zeros([size or 0 for size in spec.shape], spec.dtype)


def with_cardinality(batches: Batches, epochs: int | None, where: str, *, known: bool) -> Any:
    """Set the number of batches of all epochs, if it is known.

    Raises:
        OptionError: the iteration is endless, and its epochs are empty.
    """
    if epochs is None and batches.count == 0:
        raise OptionError(f"epochs=None: {where} has empty epochs, so an endless iteration would never yield a batch")
    if epochs is None:
        return counted(batches.dataset, -1)
    if batches.count < 0 or not known:
        return batches.dataset
    return counted(batches.dataset, batches.before + batches.count * epochs)
