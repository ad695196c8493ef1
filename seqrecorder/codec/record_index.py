"""Numbers for records: each serialized record is given its position as one more context feature.

Concatenated protobuf messages merge (https://protobuf.dev/programming-guides/encoding/#last-one-wins), so that a
feature is added by joining strings. The number then goes wherever its record goes, through shuffling, batching and
parsing, and no strategy has to know.
"""

from __future__ import annotations

import functools
from typing import Any

from seqrecorder.schema.dtypes import element_type
from seqrecorder.schema.field import Field
from seqrecorder.schema.schema import Schema

_FEATURE = "seqrecorder/index"
_DIGITS = 19
"""Digits of the largest int64: a fixed width makes the message around the number a constant."""

NOTHING = -1
"""The number of a place in a batch that holds no record."""


def numbered(serialized: Any, numbers: Any) -> Any:
    """Return serialized records that hold their numbers.

    Args:
        serialized: string, `(n,)`: `tf.train.SequenceExample` or `tf.train.Example`.
        numbers: int64, `(n,)`, not negative.
    """
    import tensorflow as tf

    digits = tf.strings.as_string(numbers, width=_DIGITS, fill="0")
    return tf.strings.join([serialized, tf.fill(tf.shape(serialized), _header()), digits])


@functools.cache
def _header() -> bytes:
    """Return the message up to the digits, which end it."""
    import tensorflow as tf

    message = tf.train.SequenceExample()
    message.context.feature[_FEATURE].bytes_list.value.append(b"0" * _DIGITS)
    serialized: bytes = message.SerializeToString()
    return serialized[:-_DIGITS]


def with_number(schema: Schema, name: str) -> Schema:
    """Return a schema that has the number too, as text under some name."""
    return Schema(schema.name, (*schema.fields, Field(name, _FEATURE, "context", element_type("bytes"), ())))


def to_numbers(digits: Any) -> Any:
    """Return the numbers that were parsed, int64, and -1 where there is no record."""
    import tensorflow as tf

    return tf.strings.to_number(tf.where(digits == "", str(NOTHING), digits), tf.int64)
