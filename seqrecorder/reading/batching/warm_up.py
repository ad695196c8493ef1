"""The warm-up batch of `Bucket` and `TokenBudget`, as large as the largest batch, with sample weights of 0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.codec.parse import length_name
from seqrecorder.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from seqrecorder.reading.batching.strategy import Feed


def largest_batch(feed: Feed, parse: Callable[..., dict[str, Any]], rows: int, widths: Mapping[str, int]) -> Any:
    """Build the warm-up batch.

    It is a `tf.data.Dataset` of one element, which contains zeros or empty text, and sample weights of 0.

    Args:
        feed: records whose batches the warm-up batch imitates.
        parse: function that parses serialized records and their lengths to the tensors of a batch.
        rows: rows of the batch.
        widths: padded length in each alignment group. Ragged steps have one element.

    Raises:
        OptionError: elements have no sample weights.
    """
    import tensorflow as tf

    signature = [tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.int64)]
    traced = tf.function(parse, input_signature=signature, autograph=False).get_concrete_function()
    groups = {field.name: field.group for field in feed.parser.schema.fields if field.is_list}
    lengths = {length_name(group): width for group, width in widths.items()}

    def zeros(name: str, spec: Any) -> Any:
        if name in lengths:
            return tf.fill([rows], tf.constant(lengths[name], tf.int64))
        shape = [rows, *(size or 1 for size in spec.shape[1:])]
        if name in groups:
            shape[1] = widths[groups[name]]
        if isinstance(spec, tf.SparseTensorSpec):
            return tf.SparseTensor(tf.zeros([0, len(shape)], tf.int64), tf.zeros([0], spec.dtype), shape)
        return tf.zeros(shape, spec.dtype)

    def make(_: Any) -> Any:
        values = {name: zeros(name, spec) for name, spec in traced.structured_outputs.items()}
        match feed.shape(values):
            case (inputs, targets, weights):
                return inputs, targets, tf.nest.map_structure(tf.zeros_like, weights)
        raise OptionError("warm_up: goes with inputs and targets, whose sample weights it sets to 0")

    return tf.data.Dataset.range(1).map(make)
