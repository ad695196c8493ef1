"""Lookup tables of `tf.contrib.lookup` whose names or arguments have changed.

Inside `compat`, `tf.contrib.lookup` also has the functions that kept their names, such as `index_table_from_file`.
"""

from __future__ import annotations

from typing import Any


def HashTable(  # noqa: N802 - its old name
    initializer: Any, default_value: Any, shared_name: str | None = None, name: str = "hash_table"
) -> Any:
    """Create an immutable table, as `tf.contrib.lookup.HashTable` did.

    Args:
        initializer: the initializer, such as a `KeyValueTensorInitializer`.
        default_value: the value of missing keys.
        shared_name: ignored.
        name: the name of the operations.
    """
    del shared_name
    import tensorflow as tf

    table = tf.compat.v1.lookup.StaticHashTable(initializer, default_value, name)
    table.init = table.initializer  # the attribute's older name
    return table


def index_table_from_tensor(mapping: Any, *more: Any, **named: Any) -> Any:
    """Create a table from words to their numbers, as `tf.contrib.lookup.index_table_from_tensor` did.

    Args:
        mapping: the words, in the order of their numbers.
        *more: `num_oov_buckets`, `default_value`, `hasher_spec`, `dtype` and `name`.
        **named: the same arguments, by keyword.
    """
    from tensorflow.python.ops import lookup_ops  # the function has no public name

    return lookup_ops.index_table_from_tensor(mapping, *more, **named)


def index_to_string_table_from_tensor(mapping: Any, *more: Any, **named: Any) -> Any:
    """Create a table from numbers to words, as `tf.contrib.lookup.index_to_string_table_from_tensor` did.

    Args:
        mapping: the words, in the order of their numbers.
        *more: `default_value`, the word for unknown numbers, and `name`.
        **named: the same arguments, by keyword.
    """
    from tensorflow.python.ops import lookup_ops  # the function has no public name

    return lookup_ops.index_to_string_table_from_tensor(mapping, *more, **named)
