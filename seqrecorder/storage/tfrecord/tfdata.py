"""TFRecord files as `tf.data.Dataset`s of serialized records, a file each."""

from __future__ import annotations

from typing import Any

_BUFFER_BYTES = 1 << 18


def tf_records(path: Any, compression: str | None, span: tuple[Any, Any] | None = None) -> Any:
    """Return a `tf.data.Dataset` of the records of one TFRecord file, or of a span of a plain one on.

    >>> import tempfile, tensorflow as tf
    >>> path = f"{tempfile.mkdtemp()}/two.tfrecord"
    >>> with tf.io.TFRecordWriter(path) as writer:
    ...     writer.write(b"one")
    ...     writer.write(b"two")
    >>> list(tf_records(path, None).as_numpy_iterator())
    [b'one', b'two']

    Args:
        path: of the file: a string, or a string scalar.
        compression: None, `GZIP` or `ZLIB`.
        span: the bytes, int64 scalars, at which the first record begins and the last one that is wanted ends; others
            come behind it.
    """
    import tensorflow as tf

    if span is not None:
        records = tf.raw_ops.TFRecordDatasetV2(
            filenames=tf.reshape(path, [1]),  # of each offset one
            compression_type="",
            buffer_size=tf.clip_by_value(span[1] - span[0], 1, _BUFFER_BYTES),
            byte_offsets=span[0][tf.newaxis],
        )
        return tf.data.experimental.from_variant(records, tf.TensorSpec([], tf.string))
    records = tf.raw_ops.TFRecordDataset(
        filenames=path,
        compression_type=compression or "",
        buffer_size=_BUFFER_BYTES,
    )
    return tf.data.experimental.from_variant(records, tf.TensorSpec([], tf.string))


def checked_path(path: Any) -> Any:
    """Return the path of a file; where there is none, one that says so, which TensorFlow's error will name.

    >>> checked_path("/no/file").numpy().decode()
    '/no/file is gone: if its dataset was replaced, read that again'

    Args:
        path: a string, or a string scalar.
    """
    import tensorflow as tf

    # Of a path without wildcards, TensorFlow asks only whether it is there.
    found = tf.io.matching_files(tf.strings.regex_replace(path, r"([\\*?\[])", r"\\\1"))
    return tf.where(
        tf.size(found) > 0, path, tf.strings.join([path, " is gone: if its dataset was replaced, read that again"])
    )


def opened(path: Any) -> Any:
    """Return a `tf.data.Dataset` of no text, which opens a file and fails, naming it, where that cannot be done.

    >>> import os
    >>> list(opened(os.devnull))
    []

    Args:
        path: of the file: a string, or a string scalar.
    """
    import tensorflow as tf

    byte = tf.raw_ops.FixedLengthRecordDatasetV2(
        filenames=checked_path(path),
        header_bytes=tf.constant(0, tf.int64),
        record_bytes=tf.constant(1, tf.int64),
        footer_bytes=tf.constant(0, tf.int64),
        buffer_size=tf.constant(1, tf.int64),
        compression_type="",
    )
    return tf.data.experimental.from_variant(byte, tf.TensorSpec([], tf.string)).take(1).skip(1)
