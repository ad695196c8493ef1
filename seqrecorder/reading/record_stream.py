"""Shards to one stream of serialized records, in vectors: the source of every `tf.data` pipeline here.

A `tf.data` element that meets a traced function costs as much as parsing a short record or more. So records travel in
windows (string vectors, beside a vector of their lengths where a batching needs them), and are interleaved, dealt,
shuffled and batched by vector operations.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.codec.cropping import cropped_lengths
from seqrecorder.codec.graph_ops import checked
from seqrecorder.codec.parser import Parser
from seqrecorder.codec.record_index import numbered
from seqrecorder.dataset.file_table import FileTable
from seqrecorder.dataset.shard_info import column
from seqrecorder.reading.epochs import in_epochs, permuted
from seqrecorder.reading.planned_reads import PlannedReads
from seqrecorder.reading.record_length import Limits, count_lengths, groups_of
from seqrecorder.reading.tfdata_ops import flat_mapped, interleaved, mapped, one_element, rebatched, scanned
from seqrecorder.storage.tfrecord.check import advice
from seqrecorder.storage.tfrecord.format import FOOTER, HEADER
from seqrecorder.storage.tfrecord.tfdata import checked_path, opened, tf_records
from seqrecorder.storage.threads import cores

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from seqrecorder.codec.cropping import Crop
    from seqrecorder.dataset.shard_set import Origin
    from seqrecorder.reading.oversampling import Oversampling
    from seqrecorder.reading.record_length import RecordLength

_WRITTEN, _PATHS = ("start", "step"), ("path", "lengths_path")

_INLINED = 1000  # files whose paths and counts stand in the functions themselves
_CYCLE = 16  # files that a shuffled stream mixes at a time

_SHARE_BYTES = 1 << 22
"""Records that are taken from a file at its turn, at most: of each file of a cycle as many are read ahead."""

_SHUFFLED_BYTES = 1 << 28
"""Records that are permuted at a time, at most: two such windows are in memory, since one is planned ahead."""


@attrs.frozen
class StreamOptions:
    """How records stream.

    Attributes:
        window: records to a window.
        shuffle: records that are permuted at a time; 0 keeps the order of the files.
        seed: of the order; None draws one.
        epochs: how often all records come; None is for ever.
        first_epoch: which epoch of the seed comes first.
        group: the alignment group whose lengths come with the records, or several; None for none.
        deal: which of the records, in the order of the files, are this reader's: a stretch, or one in so many.
        crops: by alignment group, the steps of its sequences that are kept, which the lengths count.
        limits: which records are left out for their lengths: those that any of them does not admit.
        drop_empty: whether records without steps in the group are left out.
        number: whether each record holds its position in written order (see `seqrecorder.codec.record_index`).
        oversampling: how often each record comes; None is once.
        known: by alignment group, the lengths of all records in the order of the files: then no file is read, and
            their places in that order stand for the records, so that batches can be planned.
    """

    window: int
    shuffle: int = 0
    seed: int | None = None
    epochs: int | None = 1
    first_epoch: int = 0
    group: RecordLength | None = None
    deal: slice | None = None
    crops: Mapping[str, Crop] = attrs.field(factory=dict)
    limits: tuple[Limits, ...] = ()
    drop_empty: bool = False
    number: bool = False
    oversampling: Oversampling | None = None
    known: Mapping[str, NDArray[np.int64]] | None = None

    def measured(self) -> list[str]:
        """Return the alignment groups whose lengths must be known."""
        counted = [self.group, *(limit.group for limit in self.limits)]
        groups = (group for length in counted if length is not None for group in groups_of(length))
        return list(dict.fromkeys(groups))

    def kept(self, lengths: Mapping[str, Any], xp: Any) -> Any:
        """Return which records are kept, True for all.

        Args:
            lengths: by alignment group, int64 `(n,)`, as the records are stored.
            xp: numpy or TensorFlow, whichever the lengths are of.
        """
        keep: Any = True
        for limit in self.limits:
            count = self.cropped if limit.after_cropping else count_lengths
            keep &= limit.admits(count(limit.group, lengths, xp))
        if self.drop_empty and self.group is not None:
            keep &= self.cropped(self.group, lengths, xp) > 0
        return keep

    def cropped(self, group: RecordLength, lengths: Mapping[str, Any], xp: Any) -> Any:
        """Return the lengths that records count for after cropping (`lengths` and `xp` as for `kept`)."""
        left = {name: cropped_lengths(lengths[name], self.crops.get(name, ()), xp) for name in groups_of(group)}
        return count_lengths(group, left, xp)


def shuffle_window(origin: Origin, records: int) -> int:
    """Return how many records are permuted at a time, of large ones fewer than are asked for."""
    return max(1, min(records, _SHUFFLED_BYTES // max(1, origin.mean_bytes)))


def stream(
    origin: Origin,
    options: StreamOptions,
    transform: Callable[[Any, Any], Any],
    *,
    permute: bool = True,
    draw: bool = False,
) -> Any:
    """Return a `tf.data.Dataset` of `transform` applied to each epoch's windows.

    Args:
        origin: the shards.
        options: how records stream.
        transform: takes the `tf.data.Dataset` of an epoch, whose elements are `(serialized,)` or
            `(serialized, lengths)` with string `[w]` and int64 `[w]`, and the number that stands for the epoch's order
            (None where records are not shuffled, unless something is drawn); and returns another dataset.
        permute: whether the rows of windows come permuted where records are shuffled; else that is still to do.
        draw: whether the transformation draws random numbers, even where records are not shuffled.
    """
    import tensorflow as tf

    files = _Files(origin, options)

    def epoch(number: Any) -> Any:
        windows = files.epoch(number)
        order = number if options.shuffle or draw else None
        return transform(permuted(windows, number) if permute and options.shuffle else windows, order)

    if not origin.files:
        empty = tf.data.Dataset.from_tensors(files.nothing()).take(0)
        return transform(empty, tf.constant(0, tf.int64) if draw else None)
    drawn = bool(options.shuffle) or draw or options.oversampling is not None
    return in_epochs(epoch, drawn=drawn, seed=options.seed, epochs=options.epochs, first_epoch=options.first_epoch)


class _Files:
    """The files of a stream, as tensors."""

    def __init__(self, origin: Origin, options: StreamOptions) -> None:
        self.origin, self.options = origin, options
        self.count = len(origin.files)
        self.runs = PlannedReads.of(origin) if any(column(origin.files, "runs")) else None
        self._columns: dict[str, Any] = {}
        self.stored_groups: tuple[str, ...] = origin.manifest.schema.groups if origin.manifest is not None else ()

    @property
    def is_counted(self) -> bool:
        """Whether it is known how many records the files hold."""
        return self.origin.records >= 0

    def _of(self, file: Any, name: str) -> Any:
        """Return an attribute of one file: a path, or a count."""
        import tensorflow as tf

        files = self.origin.files
        if name in _PATHS and self.count > _INLINED and isinstance(files, FileTable):  # whose names are a tensor
            path = tf.strings.join([f"{files.directory}{os.sep}", self._of(file, "name")])
            return path if name == "path" else tf.strings.regex_replace(path, r"\.tfrecord$", ".lengths")
        if name not in self._columns:
            values = [str(path) for path in column(files, name)] if name in _PATHS else column(files, name)
            kind = tf.int64 if name in (*_WRITTEN, "records") else tf.string
            if self.count == 1:
                return tf.constant(values[0], kind)
            if self.count <= _INLINED:
                return _of_file(tf.constant(values, kind), file)
            with tf.init_scope():  # outside of the graph, where functions capture it: they would be copied with it
                self._columns[name] = tf.constant(values, kind)
        return _of_file(self._columns[name], file)

    def nothing(self) -> tuple[Any, ...]:
        """Return a window without records."""
        import tensorflow as tf

        serialized = tf.zeros([0], tf.string)
        return (serialized,) if self.options.group is None else (serialized, tf.zeros([0], tf.int64))

    def epoch(self, number: Any) -> Any:
        """Return the windows of one epoch.

        Args:
            number: stands for its order: of files in random order where records are shuffled, and of what is drawn.
        """
        if not self.options.shuffle:
            return self._of_all(None, lambda file: self.windows(file, self.options.window, number))
        shuffle = shuffle_window(self.origin, self.options.shuffle)
        if self.count == 1:
            return self.windows(0, shuffle, number)
        cycle = min(_CYCLE, self.count)
        share = min(-(-shuffle // cycle), max(1, _SHARE_BYTES // max(1, self.origin.mean_bytes)))
        return rebatched(self._of_all(number, lambda file: self.windows(file, share, number), cycle=cycle), shuffle)

    def _of_all(self, number: Any, of_one: Callable[[Any], Any], cycle: int = 1) -> Any:
        """Return what is made of each file, in random order or, for the number None, in theirs.

        Args:
            number: stands for the order of the epoch.
            of_one: from the number of a file to a dataset.
            cycle: how many files take turns.
        """
        import tensorflow as tf

        order = tf.range(self.count, dtype=tf.int64)
        # In the order of the files, tf.data's service deals these elements; it deals none within functions.
        if number is not None:
            key = tf.stack([number, tf.constant(0, tf.int64)])
            order = tf.random.experimental.stateless_shuffle(order, key)
        files = tf.data.Dataset.from_tensor_slices(order)
        parallel = min(cycle, cores())
        return flat_mapped(files, of_one) if cycle == 1 else interleaved(files, of_one, cycle=cycle, parallel=parallel)

    def windows(self, file: Any, window: int, number: Any) -> Any:
        """Return the windows of one file, counted, with lengths where they are wanted.

        Args:
            file: its number, of a single file an int.
            window: records to a window.
            number: as for `epoch`.
        """
        import tensorflow as tf

        path, expected = self._of(file, "path"), self._of(file, "records")
        tables = {group: self._table(group, file, expected) for group in self.options.measured()}
        # The end of every file is an element too, so that a file that ended early is noticed.
        ended = one_element(tf.zeros([0], tf.string))
        zero = tf.constant(0, tf.int64)

        def count(state: tuple[Any, Any], serialized: Any) -> Any:
            total = state[0]
            lengths = {group: self._lengths(group, serialized, total, table) for group, table in tables.items()}
            return self._counted(path, expected, state, serialized), self._wanted(
                file, serialized, total, lengths, number
            )

        return scanned(self._records(file, path, expected, window).concatenate(ended), (zero, zero), count)

    def _counted(self, path: Any, expected: Any, state: tuple[Any, Any], serialized: Any) -> tuple[Any, Any]:
        """Return how many records and bytes of a file came, once as many have come as are expected.

        Args:
            path: of the file.
            expected: how many records it has, -1 where that is not known.
            state: how many records and bytes came before.
            serialized: string, `(w,)`, the next records; none at the end of the file.
        """
        import tensorflow as tf

        total, offset = state
        size = tf.size(serialized, tf.int64)
        if not self.is_counted:
            return total + size, offset
        sizes = tf.cast(tf.strings.length(serialized)[: expected - total], tf.int64) + (HEADER + FOOTER)
        done, byte = total + tf.size(sizes, tf.int64), offset + tf.reduce_sum(sizes)
        manifest = self.origin.manifest
        counted = checked(
            done,
            tf.where(size > 0, total + size <= expected, tf.equal(total, expected)),
            *("shard", path, "record", done, "at byte", byte, "is damaged, missing or one too many, of", expected),
            f"that are expected; {advice(manifest.where if manifest else 'SHARD')}",
        )
        return counted, byte

    def _records(self, file: Any, path: Any, expected: Any, window: int) -> Any:
        """Return the records of a file, or their places in the order of the files where only lengths count."""
        import tensorflow as tf

        if self.options.known is not None:
            starts = tf.data.Dataset.range(0, expected, window)
            first = self._offset(file)

            def places(start: Any) -> Any:
                return tf.strings.as_string(first + tf.range(start, tf.minimum(expected, start + window)))

            return mapped(starts, places)
        if self.runs is not None:
            return self.runs.records(file, window)
        records = tf_records(path, self.origin.compression)
        if not self.is_counted:
            return records.batch(window)
        # TensorFlow's own error names no file, so a record that is damaged ends the file, whose count then fails. A
        # file that cannot be opened would be tried for ever, so that is tried before.
        return opened(path).batch(window).concatenate(records.ignore_errors().batch(window))

    def _wanted(self, file: Any, serialized: Any, total: Any, lengths: dict[str, Any], number: Any) -> tuple[Any, ...]:
        """Return the window's records that are this reader's, as often as they come, and their lengths.

        Args:
            file: which file they are of.
            serialized: string, `(w,)`.
            total: how many records of the file came before.
            lengths: by alignment group, int64 `(w,)`.
            number: as for `epoch`.
        """
        import tensorflow as tf

        options = self.options
        parts = [serialized, *lengths.values()]
        if options.number or options.oversampling:
            start, step = (self._of(file, name) for name in _WRITTEN)
            positions = start + step * (total + tf.range(tf.size(serialized, tf.int64)))
            parts[0] = numbered(serialized, positions) if options.number else serialized
            parts += [positions] if options.oversampling else []
        if options.deal is not None:
            ours = self._ours(options.deal, self._offset(file) + total)
            parts = [part[ours] for part in parts]
        keep = options.kept(dict(zip(lengths, parts[1:], strict=False)), tf)
        if keep is not True:
            parts = [tf.boolean_mask(part, keep) for part in parts]
        if options.oversampling:
            copies = options.oversampling.copies(parts[0], parts.pop(), number)
            parts = [tf.repeat(part, copies) for part in parts]
        if options.group is None:
            return (parts[0],)
        return parts[0], options.cropped(options.group, dict(zip(lengths, parts[1:], strict=True)), tf)

    @staticmethod
    def _ours(deal: slice, position: Any) -> slice:
        """Return which records of a window are dealt to us, the first of which has a position among all."""
        import tensorflow as tf

        if deal.stop is None:
            return slice(tf.math.floormod(deal.start - position, deal.step), None, deal.step)
        return slice(tf.maximum(deal.start - position, 0), tf.maximum(deal.stop - position, 0))

    def _lengths(self, group: str, serialized: Any, total: Any, table: Any) -> Any:
        """Return the lengths of a window's records, from the table or, where there is none, from the records."""
        import tensorflow as tf

        if table is None:
            return Parser(self.origin.schema, self.origin.layout, where=self.origin.record).lengths(serialized, group)
        size = tf.raw_ops.Size(input=serialized, out_type=tf.int64)
        begin, end = (tf.raw_ops.Pack(values=[place]) for place in (total, total + size))
        return tf.raw_ops.StridedSlice(input=table, begin=begin, end=end, strides=tf.ones([1], tf.int64))

    def _offset(self, file: Any) -> Any:
        """Return how many records the files before one hold."""
        import tensorflow as tf

        return _of_file(tf.constant(np.cumsum([0, *column(self.origin.files, "records")[:-1]]), tf.int64), file)

    def _table(self, group: str, file: Any, expected: Any) -> Any:
        """Return the lengths of a file's records, from the file of lengths beside it, or None."""
        import tensorflow as tf

        if self.options.known is not None:
            offset = self._offset(file)
            return tf.constant(self.options.known[group], tf.int64)[offset : offset + expected]
        if group not in self.stored_groups:
            return None
        path = self._of(file, "lengths_path")
        data, count = tf.io.read_file(checked_path(path)), len(self.stored_groups)
        size = tf.strings.length(data, name="bytes")
        data = checked(
            data,
            tf.equal(tf.cast(size, tf.int64), expected * (8 * count)),
            *("the lengths", path, "of", expected, "records have", size, "bytes, other than expected;"),
            advice(self.origin.manifest.where if self.origin.manifest else path),
        )
        table = tf.io.decode_raw(data, tf.int64)
        return table if count == 1 else tf.reshape(table, [-1, count])[:, self.stored_groups.index(group)]


def _of_file(values: Any, file: Any) -> Any:
    """Return what is a file's of a vector."""
    import tensorflow as tf

    return tf.raw_ops.Gather(params=values, indices=tf.convert_to_tensor(file))
