"""Text files in lines, so that no large file is held in memory as a whole.

`tf.data.TextLineDataset` reads as it goes, but leaves out every carriage return, not only those of line ends, as
TensorFlow 1's reader did. `FixedLengthRecordDataset` fails where blocks do not fill a file, and no operation says how
long it is; so a large file comes byte by byte. That takes a few
tenths of a microsecond a byte, a fifth of what a queue took to give its lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

BLOCK = 1 << 18
"""Bytes of a large file that are split at a time."""

SMALL = 1 << 25
"""Files of no more bytes are read at once."""


def lines_of(path: Any, skip_header_lines: int, *, keyed: bool = True) -> Any:
    r"""Return a dataset of `(key, line)` of a text file, as `tf.TextLineReader` gave them, or of lines.

    Lines end with `\n`; the last carriage return before it, or before the end of the file, belongs to it. What follows
    the last line end is a line only if there is something else.

    Args:
        path: string scalar.
        skip_header_lines: lines left out at the start.
        keyed: whether there are keys, which take time.
    """
    import tensorflow as tf

    def given(lines: Any, number: Any) -> Any:
        """Return lines, the first of which has a number, without those that are left out."""
        first = tf.minimum(tf.maximum(skip_header_lines - number, 0), tf.size(lines, tf.int64))
        if not keyed:
            return lines[first:]
        numbers = tf.range(number + first, number + tf.size(lines, tf.int64)) + 1
        return tf.strings.join([path, ":", tf.strings.as_string(numbers)]), lines[first:]

    def step(state: Any, element: Any) -> Any:
        (begun, number), (block, last) = state, element
        lines, begun = _split(begun + block, last)
        return (begun, number + tf.size(lines, tf.int64)), given(lines, number)

    def of_content(content: Any) -> Any:
        lines, _ = _split(content, tf.constant(value=True))
        return tf.data.Dataset.from_tensor_slices(given(lines, zero))

    zero = tf.constant(0, tf.int64)
    return small_or_large(path, of_content, lambda: _blocks_of(path).scan((tf.constant(""), zero), step).unbatch())


def small_or_large(path: Any, of_content: Callable[[Any], Any], streamed: Callable[[], Any]) -> Any:
    """Return a dataset of what is in a file: a large one, of over `SMALL` bytes, is never held as a whole.

    Args:
        path: string scalar.
        of_content: makes the dataset of the content of a small file; for no content, an empty one.
        streamed: makes the dataset that reads the file as it goes.
    """
    import tensorflow as tf

    def read(some: Any) -> Any:
        large = tf.strings.length(some) > 0
        content = tf.cond(large, lambda: tf.constant(""), lambda: tf.io.read_file(path))
        return of_content(content).concatenate(streamed().take(tf.where(large, tf.constant(-1, tf.int64), 0)))

    beyond = tf.data.FixedLengthRecordDataset(path, 1, footer_bytes=SMALL)
    return beyond.concatenate(tf.data.Dataset.from_tensors("")).take(1).flat_map(read)


def _split(text: Any, last: Any) -> tuple[Any, Any]:
    """Return the lines of a text, and what is begun of one that goes on."""
    import tensorflow as tf

    parts = tf.strings.split(text, "\n")
    stripped = tf.strings.regex_replace(parts, "\r$", "", replace_global=False)
    unfinished = tf.logical_or(tf.logical_not(last), tf.equal(stripped[-1], ""))
    return stripped[: tf.size(parts) - tf.cast(unfinished, tf.int32)], parts[-1]


def _blocks_of(path: Any) -> Any:
    """Return a dataset of `(part, last)` of a file: blocks of one size, the last of which is shorter, and an end."""
    import tensorflow as tf

    def join(characters: Any) -> Any:
        return tf.strings.reduce_join(characters), tf.constant(value=False)

    end = tf.data.Dataset.from_tensors((tf.constant(""), tf.constant(value=True)))
    return tf.data.FixedLengthRecordDataset(path, 1).batch(BLOCK).map(join).concatenate(end)
