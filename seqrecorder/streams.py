"""Shards to one stream of serialized records, in vectors: the source of every `tf.data` pipeline here.

A `tf.data` element that meets a traced function costs 17 to 27 microseconds, which is more than parsing a short record.
So records travel in windows (string vectors, beside a vector of their lengths where a batching needs them), and are
interleaved, dealt, shuffled and batched by vector operations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.parsing import Parser

if TYPE_CHECKING:
    from collections.abc import Callable

    from seqrecorder.origin import Origin

_CYCLE = 16
"""Files that a shuffled stream mixes at a time."""


@attrs.frozen
class StreamOptions:
    """How records stream.

    Attributes:
        window: records to a window.
        shuffle: records that are permuted at a time; 0 keeps the order of the files.
        seed: of the order; None draws one.
        epochs: how often all records come; None is for ever.
        group: the alignment group whose lengths come with the records; None for none.
        deal: `(index, count)`: only every count-th record, from index on.
    """

    window: int
    shuffle: int = 0
    seed: int | None = None
    epochs: int | None = 1
    group: str | None = None
    deal: tuple[int, int] | None = None


def stream(origin: Origin, options: StreamOptions, transform: Callable[[Any, Any], Any]) -> Any:
    """Return a `tf.data.Dataset` of `transform` applied to each epoch's windows.

    Args:
        origin: the shards.
        options: how records stream.
        transform: takes the `tf.data.Dataset` of an epoch, whose elements are `(serialized,)` or
            `(serialized, lengths)` with string `[w]` and int64 `[w]`, and the number that stands for the epoch's order
            (None where records are not shuffled); and returns another dataset.
    """
    import tensorflow as tf

    files = _Files(origin, options)
    if not origin.files:
        empty = tf.data.Dataset.from_tensors(files.nothing()).take(0)
        return transform(empty, None)
    if not options.shuffle:
        return transform(files.epoch(None), None).repeat(options.epochs)
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if options.seed is None else options.seed
    # A new number each epoch and each iteration, the same series for the same seed, saved in checkpoints.
    numbers = tf.data.Dataset.random(seed=seed, rerandomize_each_iteration=True)
    if options.epochs is not None:
        numbers = numbers.take(options.epochs)
    return numbers.flat_map(lambda number: transform(files.epoch(number), number))


class _Files:
    """The files of a stream, as tensors."""

    def __init__(self, origin: Origin, options: StreamOptions) -> None:
        self.origin, self.options = origin, options
        self.count = len(origin.files)
        self.stored_groups = origin.manifest.schema.groups if origin.manifest is not None else ()

    def nothing(self) -> tuple[Any, ...]:
        """Return a window without records."""
        import tensorflow as tf

        serialized = tf.zeros([0], tf.string)
        return (serialized,) if self.options.group is None else (serialized, tf.zeros([0], tf.int64))

    def epoch(self, number: Any) -> Any:
        """Return the windows of one epoch: shuffled by a number, or in the order of the files for None."""
        import tensorflow as tf

        order = tf.range(self.count, dtype=tf.int64)
        if number is None:
            return tf.data.Dataset.from_tensor_slices(order).flat_map(
                lambda file: self.windows(file, self.options.window)
            )
        key = tf.stack([number, tf.constant(0, tf.int64)])
        order = tf.random.experimental.stateless_shuffle(order, key)
        cycle = min(_CYCLE, self.count)
        window = -(-self.options.shuffle // cycle)
        windows = tf.data.Dataset.from_tensor_slices(order).interleave(
            lambda file: self.windows(file, window),
            cycle_length=cycle,
            block_length=1,
            num_parallel_calls=None,
        )
        return windows.rebatch(self.options.shuffle).enumerate().map(lambda i, window: _permute(number, i, window))

    def windows(self, file: Any, window: int) -> Any:
        """Return the windows of one file, counted, with lengths where they are wanted."""
        import tensorflow as tf

        files = self.origin.files
        path = tf.gather(tf.constant([str(f.path) for f in files]), file)
        expected = tf.gather(tf.constant([f.records for f in files], tf.int64), file)
        offset = tf.gather(tf.constant(np.cumsum([0] + [f.records for f in files[:-1]]), tf.int64), file)
        table = self._lengths(file)
        records = tf.data.TFRecordDataset(path, self.origin.compression or "").batch(window)
        # The end of every file is an element too, so that a file that ended early is noticed.
        ended = tf.data.Dataset.from_tensors(tf.zeros([0], tf.string))

        def count(total: Any, serialized: Any) -> Any:
            size = tf.shape(serialized, tf.int64)[0]
            wrong = tf.where(size > 0, total + size > expected, total != expected)
            check = tf.debugging.Assert(
                tf.logical_not(wrong & (expected >= 0)),
                [
                    "shard",
                    path,
                    "holds another number of records than expected:",
                    total + size,
                    "of",
                    expected,
                    "; `seqrecorder verify` says what is damaged",
                ],
            )
            with tf.control_dependencies([check] if check is not None else []):
                return total + size, self._dealt(serialized, total, offset, table)

        return (
            records.concatenate(ended)
            .scan(tf.constant(0, tf.int64), count)
            .filter(lambda serialized, *_: tf.shape(serialized)[0] > 0)
        )

    def _dealt(self, serialized: Any, total: Any, offset: Any, table: Any) -> tuple[Any, ...]:
        """Return the window's records that are this reader's, and their lengths."""
        import tensorflow as tf

        lengths = () if table is None else (table[total : total + tf.shape(serialized, tf.int64)[0]],)
        if self.options.group is not None and table is None:
            lengths = (Parser(self.origin.schema, self.origin.layout).lengths(serialized, self.options.group),)
        if self.options.deal is None:
            return (serialized, *lengths)
        index, count = self.options.deal
        first = tf.math.floormod(index - (offset + total), count)
        return tuple(part[first::count] for part in (serialized, *lengths))

    def _lengths(self, file: Any) -> Any:
        """Return the lengths of a file's records, from the file of lengths beside it."""
        import tensorflow as tf

        if self.options.group not in self.stored_groups:
            return None
        path = tf.gather(tf.constant([str(f.lengths_path) for f in self.origin.files]), file)
        table = tf.reshape(tf.io.decode_raw(tf.io.read_file(path), tf.int64), [-1, len(self.stored_groups)])
        return table[:, self.stored_groups.index(self.options.group)]


def _permute(number: Any, index: Any, window: tuple[Any, ...]) -> tuple[Any, ...]:
    import tensorflow as tf

    key = tf.stack([number, index + 1])
    order = tf.random.experimental.stateless_shuffle(tf.range(tf.shape(window[0])[0]), key)
    return tuple(tf.gather(part, order) for part in window)
