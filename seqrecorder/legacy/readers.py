"""The TensorFlow 1 readers as `tf.data.Dataset`s of `(key, value)`, for new code and for `lift`.

    files = legacy.producer(["a.csv", "b.csv"], num_epochs=2, seed=7)
    lines = legacy.text_lines(files, skip_header_lines=1)

Keys are the same as those of the old readers, byte for byte. Each function takes the files as a path, a sequence of
paths, a string tensor, or a `tf.data.Dataset` of string scalars, and reads them in sequence.
"""

from __future__ import annotations

import functools
import json
import os
from typing import TYPE_CHECKING, Any

from seqrecorder.errors import OptionError, check_count
from seqrecorder.legacy.graph import DEFAULT_SEED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Files = Any


# `tf.random_shuffle` keeps a hidden counter of its runs, so a `tf.data` iterator over it cannot be saved. Its numbers
# come from Philox (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), a counter-based generator, so
# the numbers of any run can be computed directly. Its swaps are applied to all indices in parallel.

_PHILOX = 1
_LANES = 4
"""Number of random numbers that one step of the Philox counter yields."""


def numbered(times: Any, seeds: tuple[int, int]) -> Any:
    """Pair each run number with the seeds of a random operation.

    Elements of the resulting dataset are `(run, seeds)`.

    Args:
        times: a `tf.data.Dataset` of int64 scalars, from 0.
        seeds: the graph and operation seeds; zeros draw new seeds in each iteration.
    """
    import tensorflow as tf

    if seeds != (0, 0):
        return times.map(lambda run: (run, tf.constant(seeds, tf.int64)))
    drawn = tf.data.Dataset.random(rerandomize_each_iteration=True).batch(2).take(1)
    return drawn.flat_map(lambda pair: times.map(lambda run: (run, pair)))


def shuffled(values: Any, run: Any, seeds: Any) -> Any:
    """Shuffle values as `tf.random_shuffle` did in its nth run.

    Args:
        values: a tensor `(n, ...)`, with the same n in each run.
        run: int64 scalar, counted from 0.
        seeds: int64 `(2,)`, the seeds of the graph and of the operation.
    """
    import tensorflow as tf

    count = tf.shape(values, tf.int64)[0]
    steps = tf.maximum(count - 1 + _LANES - 1, 0) // _LANES
    drawn = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=tf.stack([count]),
        key=tf.bitcast(seeds[:1], tf.uint64),
        counter=tf.bitcast(tf.stack([run * steps, seeds[1]]), tf.uint64),
        alg=_PHILOX,
        dtype=tf.uint32,
    )
    here = tf.range(count)
    # Step i of the Fisher-Yates shuffle swaps the values at i and other[i] >= i.
    other = here + tf.cast(drawn, tf.int64) % (count - here)
    return tf.ensure_shape(tf.gather(values, _after_swaps(here, other)), values.shape)


def _after_swaps(here: Any, other: Any) -> Any:
    """Compute the permutation that results from a series of swaps.

    Step i swaps the values at the positions `here[i]` and `other[i]`.
    """
    import tensorflow as tf

    count = tf.size(here, tf.int64)
    nothing = -tf.ones_like(here)
    # Before step i, the value at i comes from the last earlier step j with other[j] == i, which had it at index j, and
    # so on. Pointer jumping follows all of these chains to their start in log2(n) rounds.
    swaps = other > here
    before = tf.math.unsorted_segment_max(tf.where(swaps, here, nothing), other, count)
    start = tf.where(before >= 0, before, here)
    [origin] = tf.while_loop(
        lambda way: tf.reduce_any(tf.not_equal(tf.gather(way, way), way)), lambda way: [tf.gather(way, way)], [start]
    )
    # Step i reads the value that the last earlier step with the same target left at other[i].
    order = tf.argsort(other, stable=True)
    targets = tf.gather(other, order)
    again = tf.concat([tf.zeros([1], tf.bool), tf.equal(targets[1:], targets[:-1])], 0)[:count]
    previous = tf.concat([nothing[:1], tf.cast(order[:-1], tf.int64)], 0)[:count]
    last = tf.scatter_nd(order[:, tf.newaxis], tf.where(again, previous, nothing), tf.shape(here))
    return tf.where(last >= 0, tf.gather(origin, tf.maximum(last, 0)), other)


# `tf.data.TextLineDataset` streams, but drops every carriage return; the reader of TensorFlow 1 dropped only those at
# line ends. `FixedLengthRecordDataset` fails if blocks do not fill a file. So a large file is read byte by byte, which
# takes a few tenths of a microsecond per byte, a fifth of the time that a queue took.

_BLOCK = 1 << 18  # bytes of a large file to split into lines at a time
_SMALL = 1 << 25  # maximum size of a file in bytes to read at once


def lines_of(path: Any, skip_header_lines: int = 0, *, keyed: bool, small: int = _SMALL, block: int = _BLOCK) -> Any:
    r"""Read a text file as a dataset of `(key, line)`, or of lines only, as `tf.TextLineReader` did.

    Lines end with `\n`. One carriage return before the line end, or before the end of the file, is also dropped. The
    text after the last line end is a line, unless it is empty or a lone carriage return.

    Args:
        path: string scalar.
        skip_header_lines: the number of lines to skip at the start.
        keyed: whether to add keys, which is slow.
        small: maximum size of a file in bytes to read at once.
        block: bytes of a larger file to split into lines at a time.
    """
    import tensorflow as tf

    def keyed_lines(lines: Any, number: Any) -> Any:
        """Drop header lines from a block of lines, and add keys if `keyed` is true.

        `number` is the number of lines that precede the block in the file.
        """
        first = tf.minimum(tf.maximum(skip_header_lines - number, 0), tf.size(lines, tf.int64))
        if not keyed:
            return lines[first:]
        numbers = tf.range(number + first, number + tf.size(lines, tf.int64)) + 1
        return tf.strings.join([path, ":", tf.strings.as_string(numbers)]), lines[first:]

    def step(state: Any, element: Any) -> Any:
        (begun, number), (block, last) = state, element
        lines, begun = _split(begun + block, last)
        return (begun, number + tf.size(lines, tf.int64)), keyed_lines(lines, number)

    def read(beyond_small: Any) -> Any:
        large = tf.strings.length(beyond_small) > 0
        content = tf.cond(large, lambda: tf.constant(""), lambda: tf.io.read_file(path))
        lines, _ = _split(content, tf.constant(value=True))
        streamed = _blocks_of(path, block).scan((tf.constant(""), zero), step).unbatch()
        small = tf.data.Dataset.from_tensor_slices(keyed_lines(lines, zero))
        return small.concatenate(streamed.take(tf.where(large, tf.constant(-1, tf.int64), 0)))

    zero = tf.constant(0, tf.int64)
    beyond = tf.data.FixedLengthRecordDataset(path, 1, footer_bytes=small)
    return beyond.concatenate(tf.data.Dataset.from_tensors("")).take(1).flat_map(read)


def _split(text: Any, last: Any) -> tuple[Any, Any]:
    """Split text into complete lines and a remainder.

    If `last` is true, the text ends the file. A remainder then also counts as a line, unless it is empty or a lone
    carriage return.
    """
    import tensorflow as tf

    # `tf.strings.split` of a scalar, without the ragged tensor in between, which takes long to trace.
    lines = tf.raw_ops.StringSplitV2(input=[text], sep="\n").values
    stripped = tf.strings.regex_replace(lines, "\r$", "", replace_global=False)
    unfinished = tf.logical_or(tf.logical_not(last), tf.equal(stripped[-1], ""))
    return stripped[: tf.size(lines) - tf.cast(unfinished, tf.int32)], lines[-1]


def _blocks_of(path: Any, size: int) -> Any:
    """Build a dataset of the blocks of a file.

    Each block has `size` bytes, but the last one may be smaller. Elements are `(block, False)`, followed by the end
    marker `("", True)`.
    """
    import tensorflow as tf

    def join(characters: Any) -> Any:
        return tf.strings.reduce_join(characters), tf.constant(value=False)

    end = tf.data.Dataset.from_tensors((tf.constant(""), tf.constant(value=True)))
    return tf.data.FixedLengthRecordDataset(path, 1).batch(size).map(join).concatenate(end)


def key_of(path: Any, number: Any) -> Any:
    """Build the key of a record from its path and its number or offset."""
    import tensorflow as tf

    return tf.strings.join([path, ":", tf.strings.as_string(number)])


def _length(content: Any) -> Any:
    import tensorflow as tf

    # `tf.strings.length` is an int32, which overflows for files over 2 GiB.
    length = tf.cast(tf.strings.length(content), tf.int64)
    message = "expected at most 2 GiB, uncompressed, got a larger file: use tf.data.FixedLengthRecordDataset"
    check = tf.debugging.Assert(length >= 0, [message])
    with tf.control_dependencies([] if check is None else [check]):
        return tf.identity(length)


FRAME = 16
"""Number of bytes of a TFRecord in addition to its payload: its length and two checksums."""


def producer(
    values: Any,
    *,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    graph_seed: int = DEFAULT_SEED,
) -> Any:
    """Repeat and shuffle values as `tf.train.string_input_producer` and `input_producer` did.

    >>> [v.decode() for v in producer(["a", "b", "c"], num_epochs=2, seed=7).as_numpy_iterator()]
    ['a', 'c', 'b', 'b', 'c', 'a']

    Args:
        values: a tensor `(n, ...)`, or values that convert to one; `n` is at least 1.
        num_epochs: the number of epochs; None repeats forever.
        shuffle: whether to shuffle each epoch, which was also the default in TensorFlow 1.
        seed: the seed of the order. The same seed reproduces the order of the old queue exactly; None draws a random
            one.
        graph_seed: the argument of `tf.set_random_seed` in the old program; by default the value that TensorFlow used
            without that call.

    Returns:
        A `tf.data.Dataset` of the slices of `values`.

    Raises:
        OptionError: `values` is empty, or `num_epochs` is below 1.
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
    # This module has nothing for AutoGraph to convert, and the attempt takes long.
    ordered = tf.autograph.experimental.do_not_convert(numbered(epochs, seeds).map)
    return ordered(lambda epoch, drawn: shuffled(values, epoch, drawn)).unbatch()


def text_lines(files: Files, *, skip_header_lines: int = 0) -> Any:
    r"""Read the lines of text files as `tf.TextLineReader` did.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.csv")
    >>> _ = path.write_bytes(b"x,y\r\n1,2\n")
    >>> [(key.decode()[-7:], value) for key, value in text_lines(path, skip_header_lines=1).as_numpy_iterator()]
    [('a.csv:2', b'1,2')]

    Args:
        files: a path, a sequence of paths, a string tensor, or a `tf.data.Dataset` of string scalars.
        skip_header_lines: the number of lines to skip at the start of each file; a shorter file yields no lines.

    Returns:
        A `tf.data.Dataset` of `(key, value)`, string scalars. The key is `path:LINE`; lines are counted from 1,
        including the header. The value has no line end; an empty line is an empty string.
    """
    import tensorflow as tf

    check_count("skip_header_lines", skip_header_lines, 0)
    read = tf.autograph.experimental.do_not_convert(as_paths(files).flat_map)
    return read(lambda path: lines_of(path, skip_header_lines, keyed=True))


def tf_records(files: Files, *, compression: str = "") -> Any:
    """Read the records of TFRecord files as `tf.TFRecordReader` did.

    Args:
        files: a path, a sequence of paths, a string tensor, or a `tf.data.Dataset` of string scalars.
        compression: `""`, `"GZIP"` or `"ZLIB"`.

    Returns:
        A `tf.data.Dataset` of `(key, value)`, string scalars. The key is `path:OFFSET`, the position of the record's
        frame in the uncompressed file.
    """
    _one_of("compression", compression, ("", "GZIP", "ZLIB"))
    return as_paths(files).flat_map(lambda path: records_of(path, compression, keyed=True))


def records_of(path: Any, compression: str = "", *, keyed: bool) -> Any:
    """Read the records of one TFRecord file, whose path can be a tensor.

    If `keyed` is true, elements are `(key, record)`. Otherwise, they are only records, because keys are slow to build.
    """
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
    """Read records of a fixed length as `tf.FixedLengthRecordReader` did.

    `tf.data.FixedLengthRecordDataset` has no parameter for a hop, and fails if a file ends inside a record. This
    function silently drops an incomplete record, as the old reader did. The old reader also stopped at the first file
    that was shorter than its header; this function goes on to the next file. Each file is read into memory as a whole,
    so it must not exceed 2 GiB uncompressed.

    Args:
        files: a path, a sequence of paths, a string tensor, or a `tf.data.Dataset` of string scalars.
        record_bytes: the length of a record.
        header_bytes: the number of bytes before the first record of a file.
        footer_bytes: the number of bytes to ignore at the end of a file.
        hop_bytes: the distance between the starts of records; 0 means `record_bytes`.
        encoding: `""` or `"ZLIB"`.

    Returns:
        A `tf.data.Dataset` of `(key, value)`, string scalars. The key is `path:NUMBER`; records are counted from 0.
    """
    import tensorflow as tf

    check_count("record_bytes", record_bytes)
    sizes = {"header_bytes": header_bytes, "footer_bytes": footer_bytes, "hop_bytes": hop_bytes}
    for name, value in sizes.items():
        check_count(name, value, 0)
    _one_of("encoding", encoding, ("", "ZLIB"))

    def read(path: Any) -> Any:
        content = tf.io.read_file(path)
        if encoding:
            content = tf.io.decode_compressed(content, encoding)
        room = _length(content) - (header_bytes + footer_bytes + record_bytes)
        count = tf.where(room < 0, tf.zeros_like(room), room // hop + 1)
        return tf.data.Dataset.range(count).map(lambda number: record(path, content, number))

    def record(path: Any, content: Any, number: Any) -> Any:
        start = header_bytes + number * hop
        return key_of(path, number), tf.strings.substr(content, start, tf.constant(record_bytes, tf.int64))

    hop = hop_bytes or record_bytes
    return as_paths(files).flat_map(read)


def whole_files(files: Files) -> Any:
    """Read whole files as `tf.WholeFileReader` did.

    Args:
        files: a path, a sequence of paths, a string tensor, or a `tf.data.Dataset` of string scalars.

    Returns:
        A `tf.data.Dataset` of `(key, value)`, string scalars: the path and the contents.
    """
    import tensorflow as tf

    return as_paths(files).map(lambda path: (path, tf.io.read_file(path)))


def as_paths(files: Files) -> Any:
    """Convert a path, paths, a tensor or a dataset to a `tf.data.Dataset` of string scalars.

    Raises:
        OptionError: there are no paths, or the elements of a dataset are not string scalars.
    """
    import tensorflow as tf

    if isinstance(files, tf.data.Dataset):
        if files.element_spec != tf.TensorSpec([], tf.string):
            raise OptionError(f"files: expected a tf.data.Dataset of string scalars, got {files.element_spec}")
        return files
    if tf.is_tensor(files):
        return tf.data.Dataset.from_tensor_slices(tf.reshape(files, [-1]))
    paths: Sequence[Any] = [files] if isinstance(files, (str, bytes, os.PathLike)) else list(files)
    if not paths:
        raise OptionError("files: expected at least one path, got none")
    return tf.data.Dataset.from_tensor_slices(tf.constant([os.fspath(path) for path in paths], tf.string))


def _one_of(name: str, value: Any, choices: Sequence[str]) -> None:
    if value not in choices:
        raise OptionError(f"{name}: expected one of {', '.join(map(repr, choices))}, got {value!r}")


def identity(files: Files) -> Any:
    """Return each path as both key and value, as `tf.IdentityReader` did."""
    return as_paths(files).map(lambda path: (path, path))


_SIZES = ("record_bytes", "header_bytes", "footer_bytes", "hop_bytes", "encoding")
_READERS: dict[str, tuple[Any, dict[str, str]]] = {
    "TFRecordReaderV2": (tf_records, {"compression": "compression_type"}),
    "TextLineReaderV2": (text_lines, {"skip_header_lines": "skip_header_lines"}),
    "FixedLengthRecordReaderV2": (fixed_length_records, {name: name for name in _SIZES}),
    "WholeFileReaderV2": (whole_files, {}),
    "IdentityReaderV2": (identity, {}),
}
"""Function of each reader type, and a mapping from its options to attributes of the reader operation."""
_OF_ONE_FILE: dict[Any, Callable[..., Any]] = {tf_records: records_of, text_lines: lines_of}
"""Functions that read one file, optionally without keys, which are slow to compute."""


def options_of(reader: Any) -> dict[str, Any]:
    """Return the arguments for the function of this module that replaces a reader.

    Arguments with default values are left out.
    """
    options = {name: reader.get_attr(attribute) for name, attribute in _READERS[reader.type][1].items()}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in options.items() if value}


def call_of(reader: Any, files: str) -> str:
    """Format the call of the function in this module that replaces a reader."""
    printed = {name: json.dumps(value) for name, value in options_of(reader).items()}
    options = [text if name == "record_bytes" else f"{name}={text}" for name, text in printed.items()]
    return f"{_READERS[reader.type][0].__name__}({', '.join([files, *options])})"


def reading(reader: Any, *, keyed: bool) -> Callable[[Any], Any]:
    """Build the function that reads one file as a `tf.data.Dataset` in place of a TensorFlow 1 reader.

    The function takes the path of the file. Elements of the dataset are `(key, value)`. If `keyed` is false, readers
    whose keys are slow to compute yield only values.
    """
    read, options = _READERS[reader.type][0], options_of(reader)
    if read in _OF_ONE_FILE:
        return functools.partial(_OF_ONE_FILE[read], keyed=keyed, **options)
    return functools.partial(read, **options)
