"""`tf.contrib.lookup`: lookup tables whose names or arguments have changed.

Inside `compat`, `tf.contrib.lookup` also has the functions that TensorFlow still has under the same names, such as
`index_table_from_file`.
"""

from __future__ import annotations

from typing import Any


def HashTable(  # noqa: N802 - its old name
    initializer: Any, default_value: Any, shared_name: str | None = None, name: str = "hash_table"
) -> Any:
    """Return `tf.contrib.lookup.HashTable`: a table that is filled once.

    Args:
        initializer: the initializer, such as a `KeyValueTensorInitializer`.
        default_value: the value of missing keys.
        shared_name: ignored.
        name: the name of the operations.
    """
    del shared_name
    import tensorflow as tf

    table = tf.compat.v1.lookup.StaticHashTable(initializer, default_value, name)
    table.init = table.initializer  # its older name
    return table


def index_table_from_tensor(mapping: Any, *more: Any, **named: Any) -> Any:
    """Return `tf.contrib.lookup.index_table_from_tensor`: a table from words to their numbers.

    Args:
        mapping: the words, in the order of their numbers.
        *more: `num_oov_buckets`, `default_value`, `hasher_spec`, `dtype` and `name`.
        **named: the same, by name.
    """
    from tensorflow.python.ops import lookup_ops  # it has no public name

    return lookup_ops.index_table_from_tensor(mapping, *more, **named)


def index_to_string_table_from_tensor(mapping: Any, *more: Any, **named: Any) -> Any:
    """Return `tf.contrib.lookup.index_to_string_table_from_tensor`: a table from numbers to words.

    Args:
        mapping: the words, in the order of their numbers.
        *more: `default_value`, the word of other numbers, and `name`.
        **named: the same, by name.
    """
    from tensorflow.python.ops import lookup_ops  # it has no public name

    return lookup_ops.index_to_string_table_from_tensor(mapping, *more, **named)
