"""Records of one length, so that no large file is held in memory as a whole.

`tf.data.FixedLengthRecordDataset` reads as it goes, but knows no hop, and fails where records do not fill a file. No
operation says how long a file is; but that dataset tells whether anything stands before a footer of so many bytes, and
asking that a few dozen times gives the length. With it, the footer can be all that belongs to no record.
"""

from __future__ import annotations

from typing import Any

import attrs

from seqrecorder.legacy import line_reader

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

    cut = _Cut(record_bytes, header_bytes, footer_bytes, hop_bytes or record_bytes)

    def either(some: Any) -> Any:
        large = tf.strings.length(some) > 0
        content = tf.cond(large, lambda: tf.constant(""), lambda: tf.io.read_file(path))
        size = sizes_of(path).take(tf.cast(large, tf.int64))
        return cut.content(content).concatenate(size.flat_map(lambda size: cut.file(path, size)))

    if encoding:
        values = cut.content(tf.io.decode_compressed(tf.io.read_file(path), encoding))
    else:
        beyond = tf.data.FixedLengthRecordDataset(path, 1, footer_bytes=line_reader.SMALL)
        values = beyond.concatenate(tf.data.Dataset.from_tensors("")).take(1).flat_map(either)
    return values.enumerate().map(lambda number, value: (key_of(path, number), value))


@attrs.frozen
class _Cut:
    """Where the records of a file are."""

    record: int
    header: int
    footer: int
    hop: int

    def content(self, content: Any) -> Any:
        """Return a dataset of the records of a file whose content is given."""
        import tensorflow as tf

        def record(number: Any) -> Any:
            return tf.strings.substr(content, self.header + number * self.hop, tf.constant(self.record, tf.int64))

        return tf.data.Dataset.range(self._count(_length(content))).map(record)

    def file(self, path: Any, size: Any) -> Any:
        """Return a dataset of the records of a file whose size is given, which reads as it goes."""
        import tensorflow as tf

        count = self._count(size)
        if self.hop == self.record:
            return _pieces(path, size, self.record, self.header, count)

        def following(last: Any, more: Any) -> Any:
            record = tf.strings.substr(last + more, self.hop, self.record)
            return record, record

        def records(first: Any) -> Any:
            rest = _pieces(path, size, self.hop, self.header + self.record, count - 1)
            return tf.data.Dataset.from_tensors(first).concatenate(rest.scan(first, following))

        return _pieces(path, size, self.record, self.header, tf.minimum(count, 1)).flat_map(records)

    def _count(self, size: Any) -> Any:
        import tensorflow as tf

        room = size - (self.header + self.footer + self.record)
        return tf.where(room < 0, tf.zeros_like(room), room // self.hop + 1)


def _pieces(path: Any, size: Any, each: int, start: int, count: Any) -> Any:
    """Return a dataset of so many pieces of a file, each of so many bytes."""
    import tensorflow as tf

    footer = tf.maximum(size - start - count * each, 0)
    return tf.data.FixedLengthRecordDataset(path, each, start, footer).take(count)


def _length(content: Any) -> Any:
    import tensorflow as tf

    # TensorFlow counts the bytes of a string in an int32, which such a file overflows.
    length = tf.cast(tf.strings.length(content), tf.int64)
    check = tf.debugging.Assert(length >= 0, ["a file is over 2 GiB when it is unpacked; unpack it on disk"])
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
