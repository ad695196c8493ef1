"""What a reader of a TensorFlow 1 graph does with each file."""

from __future__ import annotations

from typing import Any

from seqrecorder.legacy.fixed_length import slices_of
from seqrecorder.legacy.line_reader import lines_of
from seqrecorder.legacy.readers import records_of


def reading(reader: Any, *, keyed: bool) -> tuple[Any, str]:
    """Return what a reader does: a function from a path to a dataset of `(key, value)`; and its name.

    Where keys are not used and take time, it is a dataset of values.
    """
    import tensorflow as tf

    get = reader.get_attr
    if reader.type == "TextLineReaderV2":
        skip = get("skip_header_lines")
        return (lambda path: lines_of(path, skip, keyed=keyed)), f"lines.skip({skip})"
    if reader.type == "TFRecordReaderV2":
        compression = get("compression_type").decode()
        return (lambda path: records_of(path, compression, keyed=keyed)), f"TFRecordDataset({compression!r})"
    if reader.type == "FixedLengthRecordReaderV2":
        sizes = {name: get(name) for name in ("record_bytes", "header_bytes", "footer_bytes", "hop_bytes")}
        encoding = get("encoding").decode()
        done = f"slices of {sizes['record_bytes']} bytes"
        return (lambda path: slices_of(path, **sizes, encoding=encoding)), done
    single = tf.data.Dataset.from_tensors
    if reader.type == "WholeFileReaderV2":
        return (lambda path: single((path, tf.io.read_file(path)))), "read_file"
    return (lambda path: single((path, path))), "the element itself"
