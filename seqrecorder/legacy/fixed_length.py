"""Records of one length, so that no large file is held in memory as a whole.

`tf.data.FixedLengthRecordDataset` reads as it goes, but knows no hop, and fails where records do not fill a file. No
operation says how long a file is; but that dataset tells whether anything stands before a footer of so many bytes, and
asking that a few dozen times gives the length. With it, the footer can be all that belongs to no record.
"""

from __future__ import annotations

from typing import Any

from seqrecorder.legacy.line_reader import small_or_large

_BASE = 32
_DIGITS = 10
"""Lengths have so many digits of that base: up to 2**50 bytes."""


def key_of(path: Any, number: Any) -> Any:
    """Return the key of a record: the path, and what tells its place in the file."""
    import tensorflow as tf

    return tf.strings.join([path, ":", tf.strings.as_string(number)])


def slices_of(
    path: Any, record_bytes: int, *, header_bytes: int, footer_bytes: int, hop_bytes: int, encoding: str
) -> Any:
    """Return `fixed_length_records` of one file, given as a tensor: a dataset of `(key, value)`."""
    import tensorflow as tf

    hop = hop_bytes or record_bytes

    def count_in(size: Any) -> Any:
        room = size - (header_bytes + footer_bytes + record_bytes)
        return tf.where(room < 0, tf.zeros_like(room), room // hop + 1)

    def of_content(content: Any) -> Any:
        def record(number: Any) -> Any:
            return tf.strings.substr(content, header_bytes + number * hop, tf.constant(record_bytes, tf.int64))

        return tf.data.Dataset.range(count_in(_length(content))).map(record)

    def of_size(size: Any) -> Any:
        count = count_in(size)
        footer = tf.maximum(size - header_bytes - count * record_bytes, 0)
        return tf.data.FixedLengthRecordDataset(path, record_bytes, header_bytes, footer).take(count)

    if encoding:
        values = of_content(tf.io.decode_compressed(tf.io.read_file(path), encoding))
    elif hop != record_bytes:
        values = of_content(tf.io.read_file(path))
    else:
        values = small_or_large(path, of_content, lambda: sizes_of(path).flat_map(of_size))
    return values.enumerate().map(lambda number, value: (key_of(path, number), value))


def _length(content: Any) -> Any:
    import tensorflow as tf

    # TensorFlow counts the bytes of a string in an int32, which such a file overflows.
    length = tf.cast(tf.strings.length(content), tf.int64)
    said = "a file is over 2 GiB, unpacked, and is held as a whole: unpack it on disk, and leave hop_bytes out"
    check = tf.debugging.Assert(length >= 0, [said])
    with tf.control_dependencies([] if check is None else [check]):
        return tf.identity(length)


def sizes_of(path: Any) -> Any:
    """Return a dataset of one element, the length of a file, which is not read.

    Args:
        path: string scalar.
    """
    import tensorflow as tf

    def known(size: Any) -> Any:
        return tf.data.Dataset.from_tensors(("", size))

    def at_least(size: Any) -> Any:
        """Return a dataset of a size, if the file is not shorter."""
        beyond = tf.data.FixedLengthRecordDataset(path, 1, footer_bytes=size - 1)
        return tf.data.Dataset.zip((beyond.take(1), tf.data.Dataset.from_tensors(size)))

    sizes = known(tf.constant(0, tf.int64))
    for digit in reversed(range(_DIGITS)):

        def with_digit(_: Any, size: Any, step: int = _BASE**digit) -> Any:
            # From the largest on, so that one dataset is enough: each takes time to build, and in a loop or in a
            # `reduce` an iterator could not be saved.
            tried = tf.data.Dataset.range(_BASE - 1, 0, -1).flat_map(lambda times: at_least(size + times * step))
            return tried.concatenate(known(size)).take(1)

        sizes = sizes.flat_map(with_digit)
    return sizes.map(lambda _, size: size)
