"""What the readers of TensorFlow 1 gave, as `tf.data.Dataset`s of `(key, value)`, for new code.

    files = legacy.producer(["a.csv", "b.csv"], num_epochs=2, seed=7)
    lines = legacy.text_lines(files, skip_header_lines=1)

Keys are those of the old readers, byte for byte. Each function takes the files as a path, a sequence of paths, or a
`tf.data.Dataset` of string scalars, and reads them one after the other.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from seqrecorder.errors import OptionError
from seqrecorder.legacy.fixed_length import key_of, slices_of
from seqrecorder.legacy.line_reader import lines_of
from seqrecorder.legacy.random_order import numbered, shuffled

if TYPE_CHECKING:
    from collections.abc import Sequence

    Files = Any  # str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | tf.data.Dataset

FRAME = 16
"""Bytes that frame a TFRecord: its length, and the checksums of the length and of the payload."""


def producer(
    values: Any,
    *,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    graph_seed: int = 87654321,
) -> Any:
    """Return what the queue of `tf.train.string_input_producer` or `input_producer` held, in the same order.

    >>> [v.decode() for v in producer(["a", "b", "c"], num_epochs=2, seed=7).as_numpy_iterator()]
    ['a', 'c', 'b', 'b', 'c', 'a']

    Args:
        values: a tensor `(n, ...)`, or what makes one; `n` at least 1.
        num_epochs: how often all values come; None is for ever.
        shuffle: whether each epoch has an order of its own. As in TensorFlow 1 it is the default.
        seed: of the order. With the same seed it is the order of the old queue, bit for bit; None draws one.
        graph_seed: what `tf.set_random_seed` was given in the old program, by default what TensorFlow took where it was
            not called.

    Returns:
        A `tf.data.Dataset` of the slices of `values`.

    Raises:
        OptionError: there are no values, or a `num_epochs` below 1.
    """
    import tensorflow as tf

    values = tf.convert_to_tensor(values)
    if not values.shape.rank or not values.shape[0]:
        raise OptionError(f"values: expected a vector of at least one, got shape {values.shape}")
    if num_epochs is not None and num_epochs < 1:
        raise OptionError(f"num_epochs: expected 1 or more, or None, got {num_epochs!r}")
    if not shuffle:
        return tf.data.Dataset.from_tensor_slices(values).repeat(num_epochs)
    epochs = tf.data.Dataset.range(num_epochs) if num_epochs else tf.data.Dataset.counter()
    seeds = (0, 0) if seed is None else (graph_seed, seed)
    return numbered(epochs, seeds).map(lambda epoch, drawn: shuffled(values, epoch, drawn)).unbatch()


def text_lines(files: Files, *, skip_header_lines: int = 0) -> Any:
    r"""Return the lines of text files as `tf.TextLineReader` gave them.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.csv")
    >>> _ = path.write_bytes(b"x,y\r\n1,2\n")
    >>> [(key.decode()[-7:], value) for key, value in text_lines(path, skip_header_lines=1).as_numpy_iterator()]
    [('a.csv:2', b'1,2')]

    Args:
        files: see the module.
        skip_header_lines: lines left out at the start of each file; a shorter file has none.

    Returns:
        A `tf.data.Dataset` of `(key, value)`, string scalars. The key is `path:LINE`, where lines are counted from 1
        with the header; the value lacks its line end, and is empty for an empty line.
    """
    _at_least("skip_header_lines", skip_header_lines, 0)
    return as_paths(files).flat_map(lambda path: lines_of(path, skip_header_lines))


def tf_records(files: Files, *, compression: str = "") -> Any:
    """Return the records of TFRecord files as `tf.TFRecordReader` gave them.

    Args:
        files: see the module.
        compression: `""`, `"GZIP"` or `"ZLIB"`.

    Returns:
        A `tf.data.Dataset` of `(key, value)`, string scalars. The key is `path:OFFSET`, the position of the record's
        frame in the uncompressed file.
    """
    _one_of("compression", compression, ("", "GZIP", "ZLIB"))
    return as_paths(files).flat_map(lambda path: records_of(path, compression))


def records_of(path: Any, compression: str, *, keyed: bool = True) -> Any:
    """Return `tf_records` of one file, given as a tensor; without keys, which take time, on request."""
    import tensorflow as tf

    if not keyed:
        return tf.data.TFRecordDataset(path, compression)

    def with_key(offset: Any, record: Any) -> Any:
        following = offset + FRAME + tf.cast(tf.strings.length(record), tf.int64)
        return following, (key_of(path, offset), record)

    return tf.data.TFRecordDataset(path, compression).scan(tf.constant(0, tf.int64), with_key)


def fixed_length_records(
    files: Files,
    record_bytes: int,
    *,
    header_bytes: int = 0,
    footer_bytes: int = 0,
    hop_bytes: int = 0,
    encoding: str = "",
) -> Any:
    """Return records of one length as `tf.FixedLengthRecordReader` gave them.

    `tf.data.FixedLengthRecordDataset` knows no hop, and fails where a file ends inside a record; the old reader left
    such a tail out without a word. So does this. But where a file was shorter than its header, the old reader took that
    for the end of all files; here the next file follows. Large files are read as they are needed, but a file in
    ZLIB, or whose records overlap or leave gaps (`hop_bytes`), is held in memory, and may have up to 2 GiB, unpacked.

    Args:
        files: see the module.
        record_bytes: bytes of a record.
        header_bytes: bytes before the first record of a file.
        footer_bytes: bytes at the end of a file that belong to no record.
        hop_bytes: bytes from the start of a record to that of the next; 0 stands for `record_bytes`.
        encoding: `""` or `"ZLIB"`.

    Returns:
        A `tf.data.Dataset` of `(key, value)`, string scalars. The key is `path:NUMBER`, counted from 0.
    """
    _at_least("record_bytes", record_bytes, 1)
    sizes = {"header_bytes": header_bytes, "footer_bytes": footer_bytes, "hop_bytes": hop_bytes}
    for name, value in sizes.items():
        _at_least(name, value, 0)
    _one_of("encoding", encoding, ("", "ZLIB"))
    return as_paths(files).flat_map(lambda path: slices_of(path, record_bytes, **sizes, encoding=encoding))


def whole_files(files: Files) -> Any:
    """Return files as `tf.WholeFileReader` gave them.

    Args:
        files: see the module.

    Returns:
        A `tf.data.Dataset` of `(key, value)`, string scalars: the path and the contents.
    """
    import tensorflow as tf

    return as_paths(files).map(lambda path: (path, tf.io.read_file(path)))


def as_paths(files: Files) -> Any:
    """Return a `tf.data.Dataset` of paths, string scalars.

    Raises:
        OptionError: there are no paths, or a dataset of something else was given.
    """
    import tensorflow as tf

    if isinstance(files, tf.data.Dataset):
        if files.element_spec != tf.TensorSpec([], tf.string):
            raise OptionError(f"files: expected a tf.data.Dataset of string scalars, got {files.element_spec}")
        return files
    paths: Sequence[Any] = [files] if isinstance(files, (str, bytes, os.PathLike)) else list(files)
    if not paths:
        raise OptionError("files: expected at least one path, got none")
    return tf.data.Dataset.from_tensor_slices(tf.constant([os.fspath(path) for path in paths], tf.string))


def _at_least(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise OptionError(f"{name}: expected an int of {least} or more, got {value!r}")


def _one_of(name: str, value: Any, choices: Sequence[str]) -> None:
    if value not in choices:
        raise OptionError(f"{name}: expected one of {', '.join(map(repr, choices))}, got {value!r}")
