"""Tokens to ids in TensorFlow: as a layer of Keras, and in a graph, by binary search in constants.

A lookup table of TensorFlow is a resource beside the graph: tf.data's service and C++ do not take it along. Hashes of
the tokens, sorted, are constants; the token that is found is compared, so that equal hashes of unknown ones do no harm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.codec.graph_ops import checked
from seqrecorder.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

_KEYS = 2**63 - 1


def lookup(ids: Mapping[Any, int], first: int, buckets: int, where: str) -> Callable[[Any], Any]:
    """Return the function from a tensor of tokens to one of ids, int64.

    Args:
        ids: by token.
        first: the first id of unknown tokens.
        buckets: how many of these ids there are; with none, unknown tokens are an error.
        where: what the error calls the field.
    """
    import tensorflow as tf

    with tf.device("CPU:0"):
        tokens = tf.constant(list(ids), None if isinstance(next(iter(ids)), (str, bytes)) else tf.int64)
        salt = 0
        keys = np.asarray(_keys(tokens, salt))
        while np.unique(keys).size < keys.size:  # two tokens have one hash: another hash
            salt += 1
            keys = np.asarray(_keys(tokens, salt))
        order = np.argsort(keys)
        table, by_key = keys[order], tf.gather(tokens, order)
    numbers = np.fromiter(ids.values(), np.int64, len(ids))[order]

    def to_ids(values: Any) -> Any:
        flat = tf.reshape(values, [-1])
        if not flat.dtype.is_floating and flat.dtype != tf.string:
            flat = tf.cast(flat, tf.int64)
        place = tf.minimum(tf.searchsorted(table, _keys(flat, salt), out_type=tf.int64), len(table) - 1)
        known = tf.gather(by_key, place) == flat
        found = tf.gather(numbers, place)
        if buckets:
            other = first + _bucket(flat, buckets)
            found = tf.where(known, found, other)
        else:
            unknown = tf.boolean_mask(flat, tf.logical_not(known))
            message = f"field {where!r}: unknown tokens, of which the vocabulary has no bucket (oov_buckets=0):"
            found = checked(found, known, message, unknown)
        return tf.ensure_shape(tf.reshape(found, tf.shape(values)), values.shape)

    return to_ids


def keras_layer(tokens: Sequence[Any], padding: Any, unknown: Any, buckets: int, *, invert: bool) -> Any:
    """Return the Keras layer from tokens to ids, or the one from ids to tokens.

    Args:
        tokens: in the order of their ids.
        padding: the token of id 0; None for none.
        unknown: what stands for unknown tokens.
        buckets: how many ids they have.
        invert: whether it goes from ids to tokens.

    Raises:
        OptionError: a token is no text.
    """
    import keras

    options: dict[str, Any] = {"num_oov_indices": buckets, "invert": invert}
    if isinstance(tokens[0], int):
        whole = list(map(int, tokens))
        return keras.layers.IntegerLookup(vocabulary=whole, mask_token=padding, oov_token=unknown, **options)
    try:
        texts = list(map(text_of, tokens))
    except UnicodeDecodeError as error:
        raise OptionError(f"lookup: Keras keeps text, and a token is no UTF-8: {error}") from None
    padding, unknown = text_of(padding), text_of(unknown)
    return keras.layers.StringLookup(vocabulary=texts, mask_token=padding, oov_token=unknown, **options)


def text_of(token: Any) -> Any:
    """Return bytes as text, and any other token as it is."""
    return token.decode() if isinstance(token, bytes) else token


def bucket_of(tokens: Sequence[Any], buckets: int) -> NDArray[np.int64]:
    """Return the bucket of each unknown token, as Keras' lookup layers have it, int64."""
    if buckets == 1:
        return np.zeros(len(tokens), np.int64)
    if not isinstance(tokens[0], (str, bytes)):
        return np.asarray(tokens, np.int64) % buckets
    import tensorflow as tf

    with tf.device("CPU:0"):
        found: NDArray[np.int64] = _bucket(tf.constant(list(tokens)), buckets).numpy()
    return found


def _bucket(values: Any, buckets: int) -> Any:
    import tensorflow as tf

    if buckets == 1:
        return tf.zeros_like(values, tf.int64)
    if values.dtype != tf.string:
        return tf.math.floormod(values, tf.constant(buckets, values.dtype))
    return tf.strings.to_hash_bucket_fast(values, buckets)


def _keys(values: Any, salt: int) -> Any:
    """Return what tokens are sorted by, int64."""
    import tensorflow as tf

    if values.dtype != tf.string:
        return values
    return (
        tf.strings.to_hash_bucket_strong(values, _KEYS, [salt, 1])
        if salt
        else tf.strings.to_hash_bucket_fast(values, _KEYS)
    )
