"""`tf.contrib.lookup`: tables of words and their numbers, as far as their names or arguments are others today.

Inside `compat`, `tf.contrib.lookup` also has the functions that TensorFlow still holds under the same names, such as
`index_table_from_file`.
"""

from __future__ import annotations

from typing import Any


def HashTable(  # noqa: N802 - its old name
    initializer: Any, default_value: Any, shared_name: str | None = None, name: str = "hash_table"
) -> Any:
    """Return `tf.contrib.lookup.HashTable`: a table that is filled once.

    Args:
        initializer: what fills it, such as a `KeyValueTensorInitializer`.
        default_value: what stands for keys that it does not hold.
        shared_name: not needed any more.
        name: of the operations.
    """
    del shared_name
    import tensorflow as tf

    table = tf.compat.v1.lookup.StaticHashTable(initializer, default_value, name)
    table.init = table.initializer  # the older name of the same
    return table


def index_table_from_tensor(mapping: Any, *more: Any, **named: Any) -> Any:
    """Return `tf.contrib.lookup.index_table_from_tensor`: a table from words to their numbers.

    Args:
        mapping: the words, in the order of their numbers.
        *more: `num_oov_buckets`, `default_value`, `hasher_spec`, `dtype` and `name`.
        **named: the same, by name.

    Raises:
        ValueError: there are no words.
    """
    return _operations().index_table_from_tensor(_words(mapping), *more, **named)


def index_to_string_table_from_tensor(mapping: Any, default_value: str = "UNK", name: str | None = None) -> Any:
    """Return `tf.contrib.lookup.index_to_string_table_from_tensor`: a table from numbers to words.

    Args:
        mapping: the words, in the order of their numbers.
        default_value: what stands for other numbers.
        name: of the operations.

    Raises:
        ValueError: there are no words.
    """
    return _operations().index_to_string_table_from_tensor(_words(mapping), default_value, name)


def string_to_index_table_from_file(vocabulary_file: str | None = None, *more: Any, **named: Any) -> Any:
    """Return `tf.contrib.lookup.string_to_index_table_from_file`: a table from words of a file to their lines.

    Args:
        vocabulary_file: a file with a word in each line.
        *more: `num_oov_buckets`, `vocab_size`, `default_value` and `hasher_spec`.
        **named: the same, and `name`, by name.
    """
    return _operations().index_table_from_file(vocabulary_file, *more, **named)


string_to_index_table_from_tensor = index_table_from_tensor
"""The older name of the same."""


def string_to_index(tensor: Any, mapping: Any, default_value: int = -1, name: str | None = None) -> Any:
    """Return `tf.contrib.lookup.string_to_index`: the numbers of words.

    Args:
        tensor: the words.
        mapping: all words, in the order of their numbers.
        default_value: what stands for words that are not among them.
        name: of the operations.

    Raises:
        ValueError: there are no words.
    """
    return index_table_from_tensor(mapping, default_value=default_value, name=name).lookup(tensor)


def index_to_string(tensor: Any, mapping: Any, default_value: str = "UNK", name: str | None = None) -> Any:
    """Return `tf.contrib.lookup.index_to_string`: the words of numbers, int64.

    Args:
        tensor: the numbers.
        mapping: all words, in the order of their numbers.
        default_value: what stands for other numbers.
        name: of the operations.

    Raises:
        ValueError: there are no words.
    """
    return index_to_string_table_from_tensor(mapping, default_value, name).lookup(tensor)


def _words(mapping: Any) -> Any:
    if mapping is None:
        raise ValueError("mapping must be specified.")
    return mapping


def _operations() -> Any:
    from tensorflow.python.ops import lookup_ops  # these have no public name

    return lookup_ops
