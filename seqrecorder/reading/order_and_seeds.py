"""Stream of serialized records from shards, in windows: the source of all `tf.data` pipelines of this package.

Calling a traced function on a `tf.data` element costs at least as much as parsing a short record. Therefore each
element is a window of records (a string vector, and a vector of lengths if a strategy needs them), and sharding,
shuffling and batching are vector operations. Records are parsed only if their lengths are needed and not stored.
"""

from __future__ import annotations

import functools
import numbers
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import attrs
import numpy as np

from seqrecorder.codec.graph_ops import INDEX, SEED, SEED_BITS, checked, cropped_lengths, index_range, numbered, rows_at
from seqrecorder.codec.parse import Parser
from seqrecorder.dataset.manifest import in_written_order
from seqrecorder.errors import OptionError
from seqrecorder.reading.tfdata_ops import (
    Traced,
    flat_mapped,
    interleaved,
    mapped,
    one_element,
    rebatched,
    scanned,
    staged,
)
from seqrecorder.schema.field import DEFAULT_GROUP
from seqrecorder.storage.crc32c import FOOTER, HEADER
from seqrecorder.storage.processes_and_signals import cores
from seqrecorder.storage.tfrecord import advice, checked_path, opened, tf_records

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from seqrecorder.codec.graph_ops import Crop
    from seqrecorder.dataset.checked_shards import Origin
    from seqrecorder.reading.oversampling import Oversampling
    from seqrecorder.schema.schema import Schema


_ENDLESS = 1 << 40
"""Number of epochs that stands for an endless iteration."""

_AUTO = 3
"""Value of `tf.random.Algorithm.AUTO_SELECT`."""


_PROGRAM_SEED = 87654321
"""Global seed that TensorFlow uses if a program sets none."""


def check_seed(seed: Any) -> int | None:
    """Convert a seed to int64.

    `OptionError` is raised unless the seed is None or an int of at most 64 bits.
    """
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, numbers.Integral) or not -(1 << 63) <= int(seed) < 1 << 64:
        raise OptionError(f"seed: expected an int of 64 bits or None, got {seed!r}")
    return (int(seed) + (1 << 63)) % (1 << 64) - (1 << 63)


def in_epochs(
    epoch: Callable[[Any], Any], *, drawn: bool, seed: int | None, epochs: int | None, first_epoch: int = 0
) -> Any:
    """Concatenate the `tf.data.Dataset`s of all epochs.

    Args:
        epoch: function that builds the dataset of an epoch from a random number (None if nothing is drawn).
        drawn: whether the epochs need random numbers, for shuffling or other draws.
        seed: seed of the random numbers; None for a random seed.
        epochs: number of epochs; None repeats forever.
        first_epoch: number of the first epoch.
    """
    import tensorflow as tf

    if not drawn:
        return epoch(None).repeat(epochs)
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
    # The tf.data service shards the source that counts epochs, so each epoch goes to one worker. It does not shard the
    # source that counts iterations, because all workers need this count.
    each = _ENDLESS if epochs is None else epochs
    indices = tf.data.Dataset.range(first_epoch, first_epoch + each)
    index_range = tf.data.Dataset.zip((indices, iterations_begun()))
    return flat_mapped(index_range, lambda index, begun: epoch(_order_of(seed, index + begun * each)))


def iterations_begun() -> Any:
    """Build a `tf.data.Dataset` that repeats an int64: the number of earlier iterations over the dataset.

    An iterator is counted only when an element is taken from it, because Keras creates and discards iterators without
    taking any.

    >>> begun = iterations_begun().take(2)
    >>> [[int(number) for number in begun] for _ in range(3)]
    [[0, 0], [1, 1], [2, 2]]
    """
    drawn = random_numbers(0)
    drawn = drawn.take(0).concatenate(drawn.take(1))  # `concatenate` delays the start of its argument
    return flat_mapped(drawn, _place_of_seed, key=_place_of_seed)


def _place_of_seed(drawn: Any) -> Any:
    """Build an endless dataset that repeats one number: how many seeds were drawn before `drawn`."""
    import tensorflow as tf

    # A seed generator is the only state that iterators share and that can be saved and sent to other machines. It draws
    # a seed per iteration. The series below starts with the first seed, so the position of a seed in it is the number
    # of the iteration.
    scalar = tf.TensorSpec([], tf.int64)
    other = Traced.of(lambda number: tf.not_equal(number, drawn), scalar)
    count = Traced.of(lambda count, _: count + 1, (scalar, scalar))
    index_range = random_numbers(0).take(1).repeat()
    before = other.applied(tf.raw_ops.TakeWhileDataset, index_range, scalar, name="predicate")
    return one_element(count.reduced(before, tf.constant(0, tf.int64))).repeat()


def _order_of(seed: int, epoch: Any) -> Any:
    """Compute the random number that determines the order of an epoch, int64 scalar."""
    import tensorflow as tf

    # Equals `tf.random.stateless_uniform` with alg="philox", but with a tenth of the operations.
    key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=tf.stack([tf.constant(seed, tf.int64), epoch]))
    scalar = tf.zeros([0], tf.int32)
    return tf.raw_ops.StatelessRandomUniformFullIntV2(shape=scalar, key=key, counter=counter, alg=1, dtype=tf.int64)


def permutation(number: Any, index: Any, rows: Any) -> Any:
    """Permute the rows of a window at random.

    Args:
        number: int64 scalar, random number that determines the order of the epoch.
        index: int64 scalar, index of the window in the epoch.
        rows: indices of the rows.
    """
    import tensorflow as tf

    # Equals `tf.random.experimental.stateless_shuffle`.
    key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=tf.raw_ops.Pack(values=[number, index + 1]))
    return tf.raw_ops.StatelessShuffle(value=rows, key=key, counter=counter, alg=_AUTO)


def permuted(windows: Any, number: Any) -> Any:
    """Permute the rows of each window at random."""
    import tensorflow as tf

    def permute(index: Any, window: tuple[Any, ...]) -> tuple[Any, ...]:
        order = permutation(number, index, index_range(tf.size(window[0])))
        return tuple(rows_at(part, order) for part in window)

    return mapped(windows.enumerate(), permute)


# Random numbers beside the order -------------------------------------------------------------------------------------


def random_numbers(seed: int) -> Any:
    """Build an endless `tf.data.Dataset` of random int64, different in each iteration but reproducible.

    `tf.data.Dataset.random` would depend on the global seed of the program (`tf.random.set_seed`).

    >>> first, second = (list(random_numbers(1).take(2).as_numpy_iterator()) for _ in range(2))
    >>> first == second
    True

    Args:
        seed: seed of the series.
    """
    import tensorflow as tf

    return staged(
        tf.raw_ops.RandomDatasetV2,
        tf.TensorSpec([], tf.int64),
        seed=_PROGRAM_SEED,
        seed2=seed,
        seed_generator=tf.raw_ops.DummySeedGenerator(),
        rerandomize_each_iteration=True,
    )


_PURPOSES = 4  # number of independent draws per window or batch; two are in use


def draw_below(sizes: Any, number: Any, index: Any, purpose: int = 0) -> Any:
    """Draw an int64 uniformly from `[0, size)` for each size.

    >>> import tensorflow as tf
    >>> draw_below(tf.constant([1, 10, 10], tf.int64), 7, 0).numpy().tolist()
    [0, 3, 1]

    Args:
        sizes: int64, `(n,)`, 1 or more.
        number: int64 scalar, random number that determines the order of the epoch.
        index: int64 scalar, index of the window or batch in the epoch.
        purpose: number that makes draws independent if all other arguments are equal.
    """
    import tensorflow as tf

    # Negative indices make these draws independent of `permutation`, whose indices are not negative.
    key = tf.stack([tf.cast(number, tf.int64), -1 - (tf.cast(index, tf.int64) * _PURPOSES + purpose)])
    # With 63 random bits, the bias of the remainder is negligible for the lengths of sequences.
    most = tf.int64.max
    drawn = tf.random.stateless_uniform(tf.shape(sizes), key, minval=0, maxval=most, dtype=tf.int64, alg="philox")
    return drawn % sizes


_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def _bits_of(positions: Any, number: Any) -> Any:
    """Compute 64 random bits from each position and a number, uint64.

    The generator is SplitMix64 (Steele, Lea and Flood, 2014), which can compute the n-th element of a series directly.

    Args:
        positions: int64, `(n,)`.
        number: int64 or uint64, a scalar or `(n,)`: identifies the series.
    """
    import tensorflow as tf

    def constant(value: int) -> Any:
        return tf.constant(value, tf.uint64)

    def folded(value: Any, by: int) -> Any:
        return tf.bitwise.bitwise_xor(value, tf.bitwise.right_shift(value, constant(by)))

    mixed = tf.bitcast(number, tf.uint64) + (tf.bitcast(positions, tf.uint64) + constant(1)) * constant(_STEP)
    return folded(folded(folded(mixed, 30) * constant(_FIRST), 27) * constant(_SECOND), 31)


def seeds_of(positions: Any, copies: Any, number: Any) -> Any:
    """Compute a seed for each copy of each record in an epoch.

    A seed is an int64 with twice `SEED_BITS` random bits.

    Args:
        positions: int64, `(n,)`: position of each record.
        copies: int64, `(n,)`: index of each copy among the copies of its record.
        number: int64 scalar, random number that determines the order of the epoch.
    """
    import tensorflow as tf

    bits = _bits_of(copies, _bits_of(positions, number))
    return tf.bitcast(tf.bitwise.right_shift(bits, tf.constant(64 - 2 * SEED_BITS, tf.uint64)), tf.int64)


def figures_of(positions: Any, number: Any) -> Any:
    """Compute a random float64 in `[0, 1)` for each position in an epoch.

    >>> import tensorflow as tf
    >>> figures_of(tf.constant([0, 1, 2], tf.int64), tf.constant(7, tf.int64)).numpy().round(3).tolist()
    [0.39, 0.017, 0.901]

    Args:
        positions: int64, `(n,)`.
        number: int64 scalar, random number that determines the order of the epoch.
    """
    import tensorflow as tf

    # A float64 has 53 bits of precision.
    bits = tf.bitwise.right_shift(_bits_of(positions, number), tf.constant(11, tf.uint64))
    return tf.cast(bits, tf.float64) * 2.0**-53


LengthOf = Literal["longest", "sum"]
LENGTH_OF = ("longest", "sum")


@attrs.frozen
class JointLength:
    """Length of a record with several alignment groups, combined from their lengths.

    Attributes:
        groups: names of the alignment groups.
        of: way to combine the lengths: the longest, the sum, or all of them in separate columns.
    """

    groups: tuple[str, ...]
    of: LengthOf | Literal["each"]


RecordLength = str | JointLength
"""Name of the alignment group that determines the length, or the combination of several."""


def groups_of(length: RecordLength) -> tuple[str, ...]:
    """Return the names of the alignment groups that determine the length of a record.

    >>> groups_of("steps"), groups_of(JointLength(("source", "target"), "sum"))
    (('steps',), ('source', 'target'))
    """
    return (length,) if isinstance(length, str) else length.groups


def steps_of(length: RecordLength) -> str:
    """Format the unit of a length, such as "steps of 'source'", without the name of the default group."""
    return "steps" if length == DEFAULT_GROUP or not isinstance(length, str) else f"steps of {length!r}"


def count_lengths(length: RecordLength, lengths: Mapping[str, Any], xp: Any) -> Any:
    """Combine the lengths of records.

    >>> import numpy as np
    >>> lengths = {"source": np.array([3, 1]), "target": np.array([2, 5])}
    >>> count_lengths(JointLength(("source", "target"), "longest"), lengths, np).tolist()
    [3, 5]

    Args:
        length: name of an alignment group, or a combination of several groups.
        lengths: mapping from alignment group to the lengths of the records, int64 arrays or tensors.
        xp: module of the lengths, numpy or TensorFlow.
    """
    parts = [lengths[group] for group in groups_of(length)]
    if isinstance(length, JointLength) and length.of == "each":
        return xp.stack(parts, 1)
    is_sum = isinstance(length, JointLength) and length.of == "sum"
    return functools.reduce(xp.add if is_sum else xp.maximum, parts)


def record_length(
    schema: Schema, length_field: str | Sequence[str] | None, length_of: LengthOf = "longest"
) -> RecordLength:
    """Resolve the option `length_field` to alignment groups.

    Args:
        schema: fields of the records.
        length_field: name of a feature list, or several names; None for the first alignment group.
        length_of: way to combine several lengths.

    Raises:
        OptionError: a name does not belong to a feature list, or there is no feature list.
        SchemaError: there is no field of that name.
    """
    if not schema.groups:
        raise OptionError(f"{schema.name} has no feature list, so no lengths; use Pad")
    if length_field is None:
        return schema.groups[0]
    names = names_of_lists("length_field", length_field)
    for name in names:
        if not schema[name].is_list:
            raise OptionError(f"length_field: {name!r} is a context field and has no length")
    groups = tuple(schema[name].group for name in names)
    if length_of == "longest":
        groups = tuple(dict.fromkeys(groups))
    return groups[0] if len(groups) == 1 else JointLength(groups, length_of)


def names_of_lists(option: str, value: Any) -> tuple[str, ...]:
    """Convert an option with one name or several names to a tuple of names.

    Raises:
        OptionError: the option contains no names, or the same name twice.
    """
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, Sequence) or not names or not all(isinstance(name, str) for name in names):
        raise OptionError(f"{option}: expected the name of a feature list, or several, got {value!r}")
    if len(set(names)) < len(names):
        raise OptionError(f"{option}: expected each name once, got {value!r}")
    return tuple(names)


@attrs.frozen(eq=False)
class LengthCounts:
    """Histogram of the lengths of records.

    Attributes:
        values: int64 `(n,)`, distinct lengths in steps, ascending.
        counts: int64 `(n,)`, number of records of each length, 1 or more.
    """

    values: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, lengths: NDArray[np.int64]) -> LengthCounts:
        """Count how often each length occurs.

        >>> LengthCounts.of(np.array([5, 3, 5])).counts.tolist()
        [1, 2]
        """
        if lengths.size and lengths.max() <= lengths.size:  # counting is faster than sorting for small lengths
            every = np.bincount(lengths)
            return cls(np.flatnonzero(every), every[every > 0])
        return cls(*np.unique(lengths, return_counts=True))

    @property
    def records(self) -> int:
        """Total number of records."""
        return int(self.counts.sum())

    @property
    def longest(self) -> int | None:
        """Length of the longest record.

        It is None if there are no records.
        """
        return int(self.values[-1]) if self.values.size else None

    @property
    def mean(self) -> float:
        """Mean length of the records."""
        return float(self.values @ self.counts) / max(1, self.records)

    def longer(self, least: int) -> LengthCounts:
        """Select the lengths greater than `least`, with their counts."""
        kept = self.values > least
        return LengthCounts(self.values[kept], self.counts[kept])


@attrs.frozen
class Limits:
    """Limits on the lengths of records.

    Attributes:
        group: name of the alignment group whose length is limited, or a combination of several groups.
        least: minimum number of steps.
        most: maximum number of steps; None for no limit.
        after_cropping: whether to limit the length after cropping instead of the stored length.
    """

    group: RecordLength
    least: int = 0
    most: int | None = None
    after_cropping: bool = False

    def __str__(self) -> str:
        if (self.least, self.most, self.after_cropping) == (1, None, True):
            return f"no {steps_of(self.group)}"
        below = ["no" if self.least == 1 else f"fewer than {self.least}"] if self.least else []
        counts = [*below, *([] if self.most is None else [f"more than {self.most}"])]
        return " or ".join(f"{count} {steps_of(self.group)}" for count in counts)

    def admits(self, lengths: Any) -> Any:
        """Return the mask of the lengths that are within the limits."""
        return (lengths >= self.least) if self.most is None else (lengths >= self.least) & (lengths <= self.most)


@attrs.frozen(eq=False)
class PlannedReads:
    """Runs of adjacent records to read from shards.

    They are read instead of whole files.

    Attributes:
        paths: paths of all shards.
        table: int64, `(n, 5)`: runs of all files (see `seqrecorder.dataset.checked_shards.Runs`).
        ends: int64, `(files + 1,)`: index in `table` of the first run of each file.
        hint: path of the dataset, for the advice in error messages.
    """

    paths: list[str]
    table: NDArray[np.int64]
    ends: NDArray[np.int64]
    hint: Any

    @classmethod
    def of(cls, origin: Origin) -> PlannedReads:
        """Collect the runs of all files of an origin.

        Each of the files must have runs.
        """
        runs = [file.runs for file in origin.files if file.runs is not None]
        bases = np.cumsum([0, *(len(run.paths) for run in runs)])
        tables = [run.table + np.array([base, 0, 0, 0, 0]) for run, base in zip(runs, bases.tolist(), strict=False)]
        paths = [str(path) for run in runs for path in run.paths]
        ends = np.cumsum([0, *(len(table) for table in tables)])
        return cls(paths, np.concatenate(tables), ends, origin.manifest.path if origin.manifest else "")

    def records(self, file: Any, window: int) -> Any:
        """Read the records of a file in windows.

        The result is a `tf.data.Dataset` of string `(w,)`.

        Args:
            file: index of the file, int64 scalar.
            window: records per window.
        """
        import tensorflow as tf

        first, stop = tf.unstack(tf.gather(tf.constant(self.ends, tf.int64), tf.stack([file, file + 1])))
        runs = tf.data.Dataset.from_tensor_slices(tf.constant(self.table)[first:stop])
        return rebatched(flat_mapped(runs, lambda run: self._run(run, window)), window)

    def _run(self, run: Any, window: int) -> Any:
        """Read the records of a run in windows, and check that none is missing.

        The last window is empty, and is used for the check.
        """
        import tensorflow as tf

        shard, row, count, start, stop = tf.unstack(run)
        path = tf.gather(tf.constant(self.paths), shard)
        # A damaged record ends the run, as in `_records`, and then the check of the count fails.
        records = opened(path).concatenate(tf_records(path, None, (start, stop)).ignore_errors()).take(count)
        ended = tf.data.Dataset.from_tensors(tf.zeros([0], tf.string))

        def counted(state: tuple[Any, Any], serialized: Any) -> tuple[Any, Any]:
            done, byte = state
            size = tf.size(serialized, tf.int64)
            serialized = checked(
                serialized,
                (size > 0) | tf.equal(done, count),
                *("shard", path, "record", row + done, "at byte", byte, "is damaged or missing;"),
                advice(self.hint),
            )
            frames = tf.cast(tf.strings.length(serialized), tf.int64) + (HEADER + FOOTER)
            return (done + size, byte + tf.reduce_sum(frames)), serialized

        return scanned(records.batch(window).concatenate(ended), (tf.zeros_like(count), start), counted)


_WRITTEN, _NAMES = ("start", "step"), ("name", "lengths_name")

_TURN = 4096  # records per turn of all files; with fewer, the calls for each file take longer than reading
_MOST_OPEN = 200  # limit on the files that are open at a time to be read in turn; macOS allows a process 256
_CYCLE = 16  # number of files that a shuffled stream interleaves at a time

_SHARE_BYTES = 1 << 22
"""Limit on the bytes of records taken from a file per turn; each interleaved file reads one turn ahead."""

_SHUFFLED_BYTES = 1 << 28
"""Limit on the bytes of records in a shuffle window; two windows are in memory, since one is planned ahead."""

LARGE = 1 << 17
"""Mean record size in bytes from which records are shuffled and bucketed one by one.

`tf.data` then moves single records, which takes about as long as copying 128 KiB from one window to another.
"""


@attrs.frozen
class StreamOptions:
    """Options of a stream of records.

    Attributes:
        window: records per window.
        shuffle: size of the shuffle window, in records; 0 keeps the written order.
        seed: seed of the order; None for a random seed.
        epochs: number of epochs; None repeats forever.
        first_epoch: number of the first epoch.
        group: alignment group whose lengths to return with the records, or a combination of several; None for no
            lengths.
        deal: slice of the records, in file order, that this reader takes; None for all.
        crops: mapping from alignment group to the crops of its sequences; lengths count the remaining steps.
        limits: limits on lengths; a record that does not meet all of them is left out.
        number: whether to add to each record its position in written order (see `seqrecorder.codec.graph_ops`).
        seeds: whether to add to each record a random seed, which differs in each epoch.
        oversampling: rule for the number of copies of each record; None for one copy.
        spans: two numbers per record in file order, int64 `(n, 2)`. They are appended to the length of the record, so
            the lengths of a window become int64 `(w, 3)`.
        known: mapping from alignment group to the lengths of all records in file order, to plan batches. The stream
            then reads no file, and contains positions in that order instead of records.
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
    number: bool = False
    seeds: bool = False
    oversampling: Oversampling | None = None
    spans: NDArray[np.int64] | None = None
    known: Mapping[str, NDArray[np.int64]] | None = None

    def measured(self) -> list[str]:
        """Return the alignment groups whose lengths the stream needs."""
        counted = [self.group, *(limit.group for limit in self.limits)]
        return list(dict.fromkeys(group for length in counted if length is not None for group in groups_of(length)))

    def kept(self, lengths: Mapping[str, Any], xp: Any) -> Any:
        """Compute which records are within the limits.

        The result is a mask, or True if there are no limits.

        Args:
            lengths: mapping from alignment group to stored lengths, int64 `(n,)`.
            xp: module of the lengths, numpy or TensorFlow.
        """
        keep: Any = True
        for limit in self.limits:
            count = self.cropped if limit.after_cropping else count_lengths
            keep &= limit.admits(count(limit.group, lengths, xp))
        return keep

    def cropped(self, group: RecordLength, lengths: Mapping[str, Any], xp: Any) -> Any:
        """Compute the lengths of records after cropping, combined according to `group`.

        `lengths` and `xp` are the arguments of `kept`.
        """
        left = {name: cropped_lengths(lengths[name], self.crops.get(name, ()), xp) for name in groups_of(group)}
        return count_lengths(group, left, xp)


def shuffle_window(origin: Origin, records: int) -> int:
    """Limit the size of a shuffle window if the records are large.

    The size is a number of records. `records` is the requested size.
    """
    return max(1, min(records, _SHUFFLED_BYTES // max(1, origin.mean_bytes)))


def stream(
    origin: Origin,
    options: StreamOptions,
    transform: Callable[[Any, Any], Any],
    *,
    permute: bool = True,
    draw: bool = False,
) -> Any:
    """Stream windows of records, transform them epoch by epoch, and concatenate the epochs.

    Args:
        origin: shards to read.
        options: options of the stream.
        transform: function that builds a dataset from the windows of an epoch and its random number. The windows are a
            `tf.data.Dataset` of `(serialized: string [w],)` or `(serialized: string [w], lengths: int64 [w])`. The
            number is None if records are not shuffled and `draw` is False.
        permute: whether to permute the rows of windows if records are shuffled; False leaves that to `transform`.
        draw: whether `transform` needs the random number even if records are not shuffled.
    """
    import tensorflow as tf

    files = _Files(origin, options)

    def epoch(number: Any) -> Any:
        windows = files.epoch(number)
        if permute and options.shuffle and origin.mean_bytes < LARGE:
            windows = permuted(windows, number)
        return transform(windows, number if options.shuffle or draw else None)

    if not origin.files:
        empty = tf.data.Dataset.from_tensors(files.nothing()).take(0)
        return transform(empty, tf.constant(0, tf.int64) if draw else None)
    drawn = bool(options.shuffle) or draw or options.oversampling is not None or options.seeds
    return in_epochs(epoch, drawn=drawn, seed=options.seed, epochs=options.epochs, first_epoch=options.first_epoch)


class _Files:
    """Files of a stream, as tensors."""

    def __init__(self, origin: Origin, options: StreamOptions) -> None:
        import tensorflow as tf

        self.origin, self.options = origin, options
        self.count, self.is_counted = len(origin.files), origin.records >= 0
        self.runs = PlannedReads.of(origin) if any(file.runs is not None for file in origin.files) else None
        self._columns: dict[str, Any] = {}
        self._sizes = np.array([len(group) for group in in_written_order(origin.files)])  # files per group
        self._is_dealt = not options.shuffle and 1 < self._sizes.max(initial=0) <= _MOST_OPEN
        self._is_sorted = self._is_dealt and origin.mean_bytes < LARGE
        self._has_positions = self._is_sorted or options.number or options.seeds or options.oversampling is not None
        with tf.init_scope():  # an eager tensor, which functions capture instead of copying it
            self._spans = None if options.spans is None else tf.constant(options.spans, tf.int64)
        self.stored_groups: tuple[str, ...] = origin.manifest.schema.groups if origin.manifest is not None else ()

    def _of(self, file: Any, name: str) -> Any:
        """Look up an attribute of one file, such as its path or number of records."""
        import tensorflow as tf

        if name not in self._columns:
            values = [getattr(each, name) for each in self.origin.files]
            if name in _NAMES:
                values = [f"{each.directory}{os.sep}{getattr(each, name)}" for each in self.origin.files]
            kind = tf.int64 if name in (*_WRITTEN, "records") else tf.string
            if self.count == 1:
                return tf.constant(values[0], kind)
            with tf.init_scope():  # an eager tensor, which functions capture instead of copying it
                self._columns[name] = tf.constant(values, kind)
        return tf.gather(self._columns[name], file)

    def nothing(self) -> tuple[Any, ...]:
        """Build an empty window."""
        import tensorflow as tf

        serialized, group = tf.zeros([0], tf.string), self.options.group
        if group is None:
            return (serialized,)
        if self.options.spans is not None:
            return serialized, tf.zeros([0, 3], tf.int64)
        nothing = tf.zeros([0], tf.int64)
        return serialized, count_lengths(group, dict.fromkeys(groups_of(group), nothing), tf)

    def epoch(self, number: Any) -> Any:
        """Read the windows of one epoch.

        Args:
            number: random number of the epoch, which determines the order of the files and all draws.
        """
        import tensorflow as tf

        if self._is_dealt:
            groups = np.stack([np.cumsum(self._sizes) - self._sizes, self._sizes], 1)
            if len(groups) == 1:  # the tf.data service shards files, as below
                return self._in_turn(groups[0], number)
            groups = tf.data.Dataset.from_tensor_slices(groups)
            return flat_mapped(groups, lambda group: self._in_turn(group, number))
        if not self.options.shuffle:  # the tf.data service shards this source, but none inside a function
            files = tf.data.Dataset.range(self.count)
            return flat_mapped(files, lambda file: self.windows(file, self.options.window, number))
        shuffle = shuffle_window(self.origin, self.options.shuffle)
        if self.count == 1 and self.origin.mean_bytes < LARGE:
            return self.windows(0, shuffle, number)
        cycle = min(_CYCLE, self.count)
        share = min(-(-shuffle // cycle), max(1, _SHARE_BYTES // max(1, self.origin.mean_bytes)))
        order = tf.random.experimental.stateless_shuffle(tf.range(self.count, dtype=tf.int64), tf.stack([number, 0]))
        read = functools.partial(self.windows, window=share, number=number)
        files = tf.data.Dataset.from_tensor_slices(order)
        windows = interleaved(files, read, cycle=cycle, parallel=cores())
        if self.origin.mean_bytes < LARGE:
            return rebatched(windows, shuffle)
        records = windows.unbatch()
        shuffled = staged(
            tf.raw_ops.ShuffleDatasetV3,
            records.element_spec,
            input_dataset=records,
            buffer_size=tf.constant(shuffle, tf.int64),
            seed=number,
            seed2=tf.constant(_PROGRAM_SEED, tf.int64),  # two zeros would stand for a random seed
            seed_generator=tf.raw_ops.DummySeedGenerator(),
            reshuffle_each_iteration=False,
        )
        return shuffled.batch(self.options.window)

    def _in_turn(self, group: Any, number: Any) -> Any:
        """Read the windows of files to which records were written in turn, one record at a time.

        The result has the records in the order in which they were written.

        Args:
            group: int64, `(2,)`: index of the first file, and number of files.
            number: random number of the epoch.
        """
        import tensorflow as tf

        first, count = group[0], group[1]
        each = tf.maximum(tf.cast(self.origin.window(_TURN) // count if self._is_sorted else 0, tf.int64), 1)
        read = functools.partial(self.windows, window=each, number=number)
        ahead = self._sizes.max() * self.origin.mean_bytes <= _CYCLE * _SHARE_BYTES
        files = tf.data.Dataset.range(first, first + count)
        windows = interleaved(files, read, cycle=count, parallel=cores() if ahead else None)
        if not self._is_sorted:  # the files take turns record by record, and records are moved, not copied
            return windows.unbatch().batch(self.options.window)

        def in_order(*parts: Any) -> tuple[Any, ...]:
            order = tf.argsort(parts[-1] if self.options.deal is None else parts[-2])
            return self._wanted([rows_at(part, order) for part in parts], number)

        # All windows but the last of each file have the same size, so each turn of the files is sorted separately.
        return mapped(rebatched(windows, each * count), in_order)

    def windows(self, file: Any, window: Any, number: Any) -> Any:
        """Read the windows of one file.

        The number of records in the file is checked. If the stream has lengths, they are added to the windows.

        Args:
            file: index of the file: a tensor, or an int if there is one file.
            window: records per window.
            number: random number of the epoch.
        """
        import tensorflow as tf

        options = self.options
        path, expected = self._of(file, "name"), self._of(file, "records")
        tables = {group: self._table(group, file, expected) for group in options.measured()}
        # The empty window at the end of a file checks that the file is complete.
        ended = one_element(tf.zeros([0], tf.string))
        zero = tf.constant(0, tf.int64)

        def count(state: tuple[Any, Any], serialized: Any) -> Any:
            total = state[0]
            rows = total + tf.range(tf.size(serialized, tf.int64))
            parts = [serialized, *(self._lengths(group, serialized, total, table) for group, table in tables.items())]
            if self._spans is not None:
                parts.append(rows_at(self._spans, self._offset(file) + rows))
            if self._has_positions:
                start, step = (self._of(file, name) for name in _WRITTEN)
                parts.append(start + step * rows)
            if options.deal is not None:
                parts.append(self._offset(file) + rows)
            counted = self._counted(path, expected, state, serialized)
            return counted, tuple(parts) if self._is_sorted else self._wanted(parts, number)

        return scanned(self._records(file, path, expected, window).concatenate(ended), (zero, zero), count)

    def _counted(self, path: Any, expected: Any, state: tuple[Any, Any], serialized: Any) -> tuple[Any, Any]:
        """Count the records and bytes of a window that was read.

        If the number of records is known, the number so far is checked against it.

        Args:
            path: path of the file.
            expected: number of records of the file, -1 if unknown.
            state: number of records and bytes before the window.
            serialized: string, `(w,)`: records of the window; empty at the end of the file.
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
        """Read the records of a file.

        For a plan, the positions of the records are generated instead (see `StreamOptions.known`).
        """
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
        # TensorFlow's errors do not name the file, so they are ignored: a damaged record ends the file, and then the
        # check of the count fails. The file is opened first, because `ignore_errors` would forever retry a file that
        # cannot be opened.
        return opened(path).batch(window).concatenate(records.ignore_errors().batch(window))

    def _wanted(self, parts: list[Any], number: Any) -> tuple[Any, ...]:
        """Select the records of a window that this reader takes, and return them with their lengths.

        Sharding, limits and oversampling are applied, and positions and seeds are added to the records.

        Args:
            parts: records, string `(w,)`; their lengths in each measured group, int64 `(w,)`; then, if the stream needs
                them, their spans, their positions in written order, and their rows in the files.
            number: random number of the epoch.
        """
        import tensorflow as tf

        options, groups = self.options, self.options.measured()
        keep: Any = True
        if options.deal is not None:
            rows, (first, stop, step) = parts.pop(), options.deal.indices(self.origin.records)
            if step == 1 and not self._is_sorted:  # a slice, which copies nothing
                begin, end = tf.unstack(tf.searchsorted(rows, tf.constant([first, stop], tf.int64)))
                parts = [part[begin:end] for part in parts]
            else:
                keep = (rows >= first) & (rows < stop) & tf.equal((rows - first) % step, 0)
        keep &= options.kept(dict(zip(groups, parts[1:], strict=False)), tf)
        if keep is not True:
            parts = [tf.boolean_mask(part, keep) for part in parts]
        positions = parts.pop() if self._has_positions else tf.zeros([0], tf.int64)
        if options.number:
            parts[0] = numbered(parts[0], positions, INDEX)
        copy = tf.zeros_like(positions)
        if options.oversampling:
            copies = options.oversampling.copies(parts[0], figures_of(positions, number))
            parts = [tf.repeat(part, copies, axis=0) for part in parts]
            positions = tf.repeat(positions, copies)
            copy = tf.range(tf.size(positions, tf.int64)) - tf.repeat(tf.cumsum(copies, exclusive=True), copies)
        if options.seeds:
            parts[0] = numbered(parts[0], seeds_of(positions, copy, number), SEED)
        if options.group is None:
            return (parts[0],)
        counted = options.cropped(options.group, dict(zip(groups, parts[1:], strict=False)), tf)
        return parts[0], counted if options.spans is None else tf.concat([counted[:, tf.newaxis], parts[-1]], 1)

    def _lengths(self, group: str, serialized: Any, total: Any, table: Any) -> Any:
        """Look up the lengths of the records of a window in `table`.

        If `table` is None, the records are parsed.
        """
        import tensorflow as tf

        if table is None:
            return Parser(self.origin.schema, self.origin.layout, where=self.origin.record).lengths(serialized, group)
        return table[total : total + tf.size(serialized, tf.int64)]

    def _offset(self, file: Any) -> Any:
        """Return the number of records in the files before this one."""
        import tensorflow as tf

        counts = [0, *(each.records for each in self.origin.files[:-1])]
        return tf.gather(tf.constant(np.cumsum(counts), tf.int64), file)

    def _table(self, group: str, file: Any, expected: Any) -> Any:
        """Read the stored lengths of the records of a file.

        The result is None if they are not stored.
        """
        import tensorflow as tf

        if self.options.known is not None:
            offset = self._offset(file)
            return tf.constant(self.options.known[group], tf.int64)[offset : offset + expected]
        if group not in self.stored_groups:
            return None
        path = self._of(file, "lengths_name")
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
