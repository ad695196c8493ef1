"""`tf.contrib.training`, reduced to bucketing, batches of segments, and `HParams`."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from seqrecorder.legacy.contrib.components import Components, by_name
from seqrecorder.legacy.contrib.segments import NextQueuedSequenceBatch, batch_sequences_with_states
from seqrecorder.legacy.lifted import Recipe, Stage
from seqrecorder.legacy.session import replaced

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["HParams", "NextQueuedSequenceBatch", "batch_sequences_with_states", "bucket", "bucket_by_sequence_length"]


class HParams(types.SimpleNamespace):
    """Named values, such as the settings of a script, as in `tf.contrib.training.HParams`."""

    def add_hparam(self, name: str, value: Any) -> None:
        """Set a new value."""
        setattr(self, name, value)

    def values(self) -> dict[str, Any]:
        """Return a dict of all values."""
        return dict(vars(self))


_SIGNATURE = (
    "num_threads capacity bucket_capacities shapes dynamic_pad allow_smaller_final_batch keep_input shared_name name"
)


def bucket(
    tensors: Any, which_bucket: Any, batch_size: int | Sequence[int], num_buckets: int, *more: Any, **named: Any
) -> tuple[Any, Any]:
    """Batch examples with the same bucket number, as `tf.contrib.training.bucket` did.

    Args:
        tensors: a list or dict of the tensors of one example.
        which_bucket: the bucket number of the example, an int32 scalar in `[0, num_buckets)`.
        batch_size: the batch size, or a list with the size for each bucket.
        num_buckets: the number of buckets.
        *more: `num_threads`, `capacity` and `bucket_capacities`, which are ignored; `shapes` of the tensors, if they
            are unknown; `dynamic_pad`: whether to pad unknown dimensions to the longest of the batch;
            `allow_smaller_final_batch`: whether to return the remainder of each bucket at the end; `keep_input`, a bool
            scalar: whether to use the example; `shared_name`, which is ignored; `name`.
        **named: the same arguments, by keyword.

    Returns:
        `(bucket, outputs)`: the number of the bucket, an int32 scalar, and the batched tensors.

    Raises:
        TypeError: an argument is unknown, or passed twice.
        ValueError: the number of sizes differs from `num_buckets`, or shapes are too vague for batching.
        LiftError: the pipeline behind the tensors cannot be translated.
    """
    import tensorflow as tf

    options = by_name(f"{_SIGNATURE} boundaries", more, named)
    components = Components(tensors, options.get("shapes"))
    components.check_shapes(dynamic_pad=options.get("dynamic_pad", False))
    smaller = options.get("allow_smaller_final_batch", False)
    sizes = [batch_size] * num_buckets if isinstance(batch_size, int) else list(batch_size)
    if len(sizes) != num_buckets:
        raise ValueError(f"batch_size: expected {num_buckets} sizes, one for each bucket, got {len(sizes)}")
    which = tf.convert_to_tensor(which_bucket)
    keep = tf.convert_to_tensor(options.get("keep_input", True))

    def checked(which: Any, _: Any, *columns: Any) -> tuple[Any, ...]:
        tf.debugging.Assert((which >= 0) & (which < num_buckets), ["no bucket has the number", which])
        return which, *columns

    def transform(examples: Any) -> Any:
        kept = examples.filter(lambda _, keep, *__: keep).map(checked)
        batches = kept.bucket_by_sequence_length(
            lambda which, *_: tf.cast(which, tf.int32),
            list(range(1, num_buckets)),
            sizes,
            padded_shapes=([], *(target.shape for target in components.targets)),
            drop_remainder=not smaller,
        )
        return batches.map(lambda which, *columns: (tf.cast(which[0], tf.int32), tuple(components.restore(columns))))

    original = f"{num_buckets} buckets of {batch_size} examples"
    random_order = "thread timing decided which bucket was full first"
    stage = Stage(options.get("name") or "bucket", original, "bucket_by_sequence_length", random_order)
    boundaries = options.get("boundaries")
    targets = components.targets if boundaries else [which, *components.targets]
    kept = () if tf.get_static_value(keep) else (keep,)
    limits = tuple(boundaries or range(1, num_buckets))
    recipe = Recipe(tuple(targets), kept, limits, tuple(sizes), smaller, by_length=bool(boundaries))
    number, outputs = replaced([which, keep, *components.targets], transform, stage, recipe)
    for tensor in outputs:
        if not smaller and len(set(sizes)) == 1 and not isinstance(tensor, tf.SparseTensor):
            tensor.set_shape([sizes[0], *tensor.shape[1:]])
    return number, components.structure(outputs)


def bucket_by_sequence_length(
    input_length: Any,
    tensors: Any,
    batch_size: int | Sequence[int],
    bucket_boundaries: list[int],
    *more: Any,
    **named: Any,
) -> tuple[Any, Any]:
    """Batch examples of similar lengths, as `tf.contrib.training.bucket_by_sequence_length` did.

    A length belongs to bucket i if `boundaries[i - 1] <= length < boundaries[i]`. The remainders of the buckets are
    dropped at the end, unless `allow_smaller_final_batch` is true.

    Args:
        input_length: the length of the example, an int32 scalar or a vector of one element.
        tensors: a list or dict of the tensors of one example.
        batch_size: the batch size, or a list of batch sizes, one more than there are boundaries.
        bucket_boundaries: increasing integers.
        *more: the arguments after `num_buckets` in `bucket`, in the same order.
        **named: the same arguments, by keyword.

    Returns:
        `(lengths, outputs)`: int32 `(B,)`, or `(B, 1)` if `input_length` is a vector, and the batched tensors.

    Raises:
        TypeError: the boundaries are not a list of integers, or an argument is unknown.
        ValueError: the boundaries do not increase, the length is not an int32, or `bucket` raises the error.
        LiftError: the pipeline behind the tensors cannot be translated.
    """
    import tensorflow as tf

    listed = isinstance(bucket_boundaries, (list, tuple))
    if not listed or not all(isinstance(boundary, int) for boundary in bucket_boundaries):
        raise TypeError(f"bucket_boundaries must be a list or tuple, and must be integers, got {bucket_boundaries!r}")
    if not bucket_boundaries or list(bucket_boundaries) != sorted(set(bucket_boundaries)):
        raise ValueError(f"bucket_boundaries must not be empty and must increase, got {bucket_boundaries!r}")
    length = tf.convert_to_tensor(input_length)
    if length.dtype != tf.int32:
        raise ValueError(f"input_length: expected int32, got {length.dtype.name}; cast it")
    components = Components(tensors)
    # As in TensorFlow 1, a length may be a vector of one element.
    which = tf.searchsorted(tf.constant(bucket_boundaries), tf.reshape(length, [1]), side="right")[0]
    options = {"name": "bucket_by_sequence_length", **by_name(_SIGNATURE, more, named)}
    if options.get("shapes") is not None:
        options["shapes"] = [length.shape, *options["shapes"]]
    columns = [length, *components.values]
    options["boundaries"] = bucket_boundaries
    _, (lengths, *outputs) = bucket(columns, which, batch_size, len(bucket_boundaries) + 1, **options)
    return lengths, components.structure(outputs)
