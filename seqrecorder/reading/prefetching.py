"""Prefetching of batches, which are made in one or several threads while the consumer works."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from seqrecorder.reading.tfdata_ops import Traced
from seqrecorder.storage.processes_and_signals import cores

if TYPE_CHECKING:
    from collections.abc import Callable

    from seqrecorder.codec.parse import Parser
    from seqrecorder.dataset.checked_shards import Origin


# A batch below both limits takes about as long to hand to another thread as to make.
_SMALL_BATCH = 1 << 14  # bytes of the stored records
_SMALL_TENSORS = 1 << 18  # bytes of the padded tensors
_AHEAD_BYTES = 1 << 27  # stored bytes of the batches that are being made or wait for the consumer
_WAITING = 64  # number of small batches to prefetch; handing one over takes about as long as making it
_SLOW = ("png", "jpeg", "tensor")


def map_batches(
    origin: Origin, parser: Parser, batches: Any, make: Callable[..., Any], batch_size: int, *, width: int = 0
) -> Any:
    """Map a function over batches, in order, with prefetching.

    Small batches are made by one thread, which prefetches many of them, because handing a batch to another thread takes
    as long as making it. Larger batches are made in parallel, four per core, so that no core waits for work. Fewer are
    made at a time if their stored records would take more than 128 MiB together, but always at least two.

    A batch is small if both its stored records and its padded tensors are small. It is treated as large if its size is
    unknown (compressed or bare shards), if decoding is slow (images), or if tensors are ragged or sparse.

    Args:
        origin: shards of the records.
        parser: parser of the requested fields.
        batches: `tf.data.Dataset` of batches.
        make: function that converts a batch to an element; tuples are unpacked.
        batch_size: records or rows per batch.
        width: minimum padded length, in steps; by default, batches are as long as their longest record.
    """
    stored, longest = batch_size * origin.mean_bytes, max(origin.longest or 1, width)
    traced = Traced.of(make, batches.element_spec)
    slow = parser.images or any(field.storage in _SLOW for field in parser.schema.fields)
    known = origin.compression is None and origin.longest is not None and not slow
    tensors = _bytes_of(traced.spec, batch_size if batch_size > 1 else longest, longest)
    if known and stored <= _SMALL_BATCH and tensors <= _SMALL_TENSORS:
        return traced.mapped(batches).prefetch(_WAITING)
    return traced.mapped(batches, parallel=max(2, min(4 * cores(), _AHEAD_BYTES // max(1, stored))))


def _bytes_of(spec: Any, rows: int, longest: int) -> float:
    """Compute an upper bound on the bytes of an element.

    The bytes of texts themselves are not counted. The bound is infinite if tensors are ragged or sparse.

    Args:
        spec: structure, shapes and dtypes of the element.
        rows: size to assume for a first dimension that is not static.
        longest: size to assume for any other dimension that is not static.
    """
    import tensorflow as tf

    parts = tf.nest.flatten(spec)
    if not all(isinstance(part, tf.TensorSpec) for part in parts):
        return math.inf
    shapes = ((part.dtype.size, part.shape.as_list()) for part in parts)
    known = ((size, [*(rows if n is None else n for n in shape[:1]), *shape[1:]]) for size, shape in shapes)
    return float(sum(size * math.prod(longest if n is None else n for n in shape) for size, shape in known))
