"""`Groups`: batches with K records for each of P different values of a field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.codec.graph_ops import to_longest
from seqrecorder.codec.parse import Parser
from seqrecorder.errors import OptionError
from seqrecorder.reading.batching.strategy import Batches, PaddedBatches, positive, shape_of
from seqrecorder.reading.oversampling import require_one_value
from seqrecorder.reading.tfdata_ops import mapped, rebatched, scanned

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seqrecorder.reading.batching.strategy import Feed


@attrs.frozen(kw_only=True)
class Groups(PaddedBatches):
    """Batches of `each` records for each of `groups` values of a field, padded to the longest record.

    Use it for losses that compare records of the same class and of different classes, such as triplet or contrastive
    losses.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Word:
    ...     speaker: str = sr.context(str)
    ...     x: np.ndarray = sr.feature_list("int64")
    >>> corpus = tempfile.mkdtemp()
    >>> _ = sr.write([Word(speaker, [n]) for n, speaker in enumerate("abcabcaabb")], corpus)
    >>> for batch in sr.read(corpus, batch=sr.Groups(by="speaker", groups=2, each=2), seed=0):
    ...     print(batch["speaker"].numpy().tolist(), batch["x"].numpy().ravel().tolist())
    [b'a', b'a', b'c', b'c'] [0, 3, 2, 5]
    [b'b', b'b', b'a', b'a'] [4, 9, 6, 7]

    The field is read once before the first batch, to count the records of each value (about a microsecond per record).
    The number of batches is therefore known: it is the largest number that is possible without repeating a record in an
    epoch. A value with fewer than `each` records is left out. If the number of its records is not a multiple of `each`,
    the remainder is left out, and so are records if too few other values are left to fill a batch with them. A warning
    and `seqrecorder.plan` report how many records are left out.
    If a value has more records than fit, the records to use are spread over the epoch; with shuffling, they differ in
    each epoch.

    The values of a batch are drawn at random with the `seed` of `read`, even if records are not shuffled. Records wait
    in memory until their batch is full. If the dataset is sorted by the field, shuffle it when writing or reading.

    Attributes:
        by: name of a context field with one int, bool or string per record.
        groups: number of different values in a batch.
        each: number of records of each value.
        padding_values: mapping from field to padding value; see `Pad`.
        padding_side: side of the padding; see `Pad`.
        pad_to_multiple_of: padded lengths are rounded up to a multiple of this number; see `Pad`.
        empty: treatment of records without steps; see `Pad`.
        length_name: name of the tensor with the true lengths, int64 `(B,)`.
        mask_name: name of the mask of real steps; see `Pad`.
        seed_name: name of the tensor with a random seed per record; see `Pad`.
    """

    by: str
    groups: int = attrs.field(validator=positive)
    each: int = attrs.field(validator=positive)

    @property
    def _size(self) -> int:
        return self.groups * self.each

    def read(self, feed: Feed) -> Batches:
        """Read batches of records, grouped by value.

        Raises:
            OptionError: options do not fit the fields.
        """
        padding = self.padding(feed, to_longest, {})
        planned, count = self._planned(feed)

        def parse(serialized: Any, _: Any) -> Any:
            return feed.shape(feed.parser.parse_batch(serialized, padding))

        return Batches(feed.map_batches(planned, parse, self._size), count)

    def shapes(self, feed: Feed) -> Any:
        """Compute the shapes of batches (see `Strategy`)."""
        width = self.padding(feed, to_longest, {}).width
        return self._planned(feed)[0].map(lambda _, lengths: shape_of(lengths, width(feed.group(), lengths)))

    def _planned(self, feed: Feed) -> tuple[Any, int]:
        """Plan the batches, and count them.

        The result is a `tf.data.Dataset` of their records and lengths, and the number of batches.
        """
        feed = feed.leave_out_empty() if self.empty == "drop" else feed
        values = _Values.of(feed, self.by)
        count, places = share_places(values.counts // self.each, self.groups)
        few = int(values.counts[values.counts < self.each].sum())
        feed.count_left_out(few, f"values of {self.by!r} with fewer than {self.each} records")
        rest = int(values.counts.sum()) - few - count * self._size
        feed.count_left_out(rest, f"no place beside {self.groups - 1} other values of {self.by!r}")
        group = feed.origin.schema.groups[0] if feed.origin.schema.groups else None

        def plan(windows: Any, number: Any) -> Any:
            return rebatched(self._deal(windows, number, values, count, places), self._size, drop_remainder=True)

        return feed.stream(plan, group=group, draw=True), count

    def _deal(self, windows: Any, number: Any, values: _Values, count: int, places: NDArray[np.int64]) -> Any:
        """Put the records in the order of their batches, with their lengths.

        Args:
            windows: `tf.data.Dataset` of serialized records, string `[w]`, with or without their lengths.
            number: random number that determines the order of the epoch.
            values: values of the field.
            count: number of batches of the epoch.
            places: int64, `(values,)`: number of batches that contain each value.
        """
        import tensorflow as tf

        kinds = len(places)
        wanted, records = tf.constant(places * self.each, tf.int64), tf.constant(values.counts, tf.int64)

        def step(state: Any, window: Any) -> Any:
            (waiting, waiting_kinds, waiting_lengths, seen, left, done), (serialized, lengths) = state, window
            kind = values.kinds(serialized)
            # The batches of a value need a certain number of its records; keep as many, spread evenly over the epoch.
            nth = tf.gather(seen, kind) + _rank(kind)
            share, of = tf.gather(wanted, kind), tf.gather(records, kind)
            keep = (nth + 1) * share // of > nth * share // of
            seen += tf.math.bincount(tf.cast(kind, tf.int32), minlength=kinds, maxlength=kinds, dtype=tf.int64)
            waiting = tf.concat([waiting, tf.boolean_mask(serialized, keep)], 0)
            kind = tf.concat([waiting_kinds, tf.boolean_mask(kind, keep)], 0)
            lengths = tf.concat([waiting_lengths, tf.boolean_mask(lengths, keep)], 0)
            counts = tf.math.bincount(tf.cast(kind, tf.int32), minlength=kinds, maxlength=kinds, dtype=tf.int64)
            chosen, left, done = self._choose(counts // self.each, left, done, number, count)
            order = tf.argsort(kind, stable=True)
            first = tf.gather(tf.cumsum(counts, exclusive=True), chosen) + _rank(chosen) * self.each
            rows = tf.gather(order, tf.reshape(first[:, tf.newaxis] + tf.range(self.each, dtype=tf.int64), [-1]))
            stays = tf.tensor_scatter_nd_update(
                tf.ones_like(kind, tf.bool), rows[:, tf.newaxis], tf.zeros_like(rows, tf.bool)
            )
            later = [tf.boolean_mask(part, stays) for part in (waiting, kind, lengths)]
            return (*later, seen, left, done), (tf.gather(waiting, rows), tf.gather(lengths, rows))

        nothing, none = tf.zeros([0], tf.string), tf.zeros([0], tf.int64)
        start = nothing, none, none, tf.zeros([kinds], tf.int64), tf.constant(places, tf.int64), tf.zeros([], tf.int64)
        windows = mapped(windows, lambda rows, *lengths: (rows, *(lengths or [tf.zeros_like(rows, tf.int64)])))
        return scanned(windows, start, step) if count else windows.take(0)

    def _choose(self, ready: Any, left: Any, done: Any, number: Any, count: int) -> tuple[Any, Any, Any]:
        """Choose values for the batches that can be filled now.

        The result is the chosen values, and the updated `left` and `done`.

        The values with the most batches left go first; ties are broken at random. If all remaining batches need a
        certain value, and too few of its records are waiting, no further batch is chosen for now. Otherwise, some
        batches could not be filled in the end.

        Args:
            ready: int64, `(values,)`: number of batches for which enough records of each value are waiting.
            left: int64, `(values,)`: number of batches that still need each value.
            done: int64 scalar: number of batches chosen so far.
            number: random number that determines the order of the epoch.
            count: number of batches of the epoch.
        """
        import tensorflow as tf

        def go(ready: Any, left: Any, done: Any, _: Any) -> Any:
            needed = tf.reduce_any(tf.equal(left, count - done) & tf.equal(ready, 0))
            return (done < count) & (tf.math.count_nonzero(ready) >= self.groups) & ~needed

        def take(ready: Any, left: Any, done: Any, chosen: Any) -> Any:
            seed = tf.stack([number, -1 - done])
            drawn = tf.random.stateless_uniform(tf.shape(left), seed, dtype=tf.float64, alg="philox")
            key = tf.where(ready > 0, tf.cast(left, tf.float64) + drawn, -1.0)
            best = tf.cast(tf.math.top_k(key, self.groups).indices, tf.int64)
            one = tf.scatter_nd(best[:, tf.newaxis], tf.ones_like(best), left.shape)
            return ready - one, left - one, done + 1, tf.concat([chosen, best], 0)

        none = tf.zeros([0], tf.int64)
        shapes = left.shape, left.shape, done.shape, tf.TensorShape([None])
        start = tf.ensure_shape(ready, left.shape), left, done, none
        _, left, done, chosen = tf.while_loop(go, take, start, shape_invariants=shapes, parallel_iterations=1)
        return chosen, left, done


def _rank(kinds: Any) -> Any:
    """Count, for each element, the earlier elements of the same kind.

    The result is int64 `(n,)`.
    """
    import tensorflow as tf

    order = tf.argsort(kinds, stable=True)
    ordered = tf.gather(kinds, order)
    rank = tf.range(tf.size(kinds, tf.int64)) - tf.searchsorted(ordered, ordered, out_type=tf.int64)
    return tf.scatter_nd(order[:, tf.newaxis], rank, tf.shape(kinds))


def share_places(most: NDArray[np.int64], groups: int) -> tuple[int, NDArray[np.int64]]:
    """Compute the largest possible number of batches.

    The result is this number, and for each value the number of batches that contain it.

    >>> share_places(np.array([9, 2, 1]), groups=2)
    (3, array([3, 2, 1]))

    Args:
        most: int64, `(values,)`: number of batches that each value has enough records for.
        groups: number of different values in a batch.
    """
    low, high = 0, int(most.sum()) // groups
    while low < high:  # binary search; a value is in a batch at most once
        middle = (low + high + 1) // 2
        low, high = (middle, high) if int(np.minimum(most, middle).sum()) >= middle * groups else (low, middle - 1)
    places = np.minimum(most, low)
    over = int(places.sum()) - low * groups  # fewer than `groups`; otherwise one more batch would be possible
    places[np.argsort(-places, kind="stable")[:over]] -= 1
    return low, places


@attrs.frozen(eq=False)
class _Values:
    """Distinct values of a field.

    Attributes:
        parser: parser of the field.
        table: int64, `(values,)`, ascending: the values, or the hashes of strings.
        counts: int64, `(values,)`: number of records of each value.
        known: int64: index of the value of each record, in the order of the files. Plans need it, because their streams
            contain positions instead of records; None for reading.
    """

    parser: Parser
    table: NDArray[np.int64]
    counts: NDArray[np.int64]
    known: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, feed: Feed, name: str) -> _Values:
        """Read the field of all records and count its values."""
        import tensorflow as tf

        field = feed.origin.schema[name]
        kind = field.element.numpy.kind
        is_class = kind in "biu" or field.element.is_text
        problem = None if is_class else f"holds {field.element.name}; give one of ints, bools or text"
        require_one_value("by", field, problem)
        if not tf.executing_eagerly():
            raise OptionError("Groups: reads a field first, which needs eager execution: read outside of tf.Graph()")
        if feed.options.oversampling is not None:
            raise OptionError("oversample: Groups counts the records of each value; leave one of them out")
        parser = Parser(feed.origin.schema.select([name]), feed.origin.layout, where=feed.origin.record)
        options = attrs.evolve(feed.options, shuffle=0, epochs=1, number=False, seeds=False, known=None)
        values = cls(parser, np.empty(0, np.int64), np.empty(0, np.int64))
        windows = attrs.evolve(feed, options=options).stream(lambda windows, _: mapped(windows, values.hashes))
        nothing = np.empty(0, np.int64)
        table, kinds, counts = np.unique(
            np.concatenate([nothing, *windows.as_numpy_iterator()]), return_inverse=True, return_counts=True
        )
        if feed.options.known is None:
            return cls(parser, table, counts)
        options = attrs.evolve(feed.options, shuffle=0)
        places = attrs.evolve(feed, options=options).stream(lambda windows, _: windows).as_numpy_iterator()
        places = np.concatenate([nothing, *(part[0].astype(np.int64) for part in places)])
        known = np.zeros(int(places.max(initial=-1)) + 1, np.int64)
        known[places] = kinds
        return cls(parser, table, counts, known)

    def hashes(self, serialized: Any) -> Any:
        """Parse the field and convert it to int64 `(w,)`.

        Numbers keep their values, and strings are hashed.
        """
        import tensorflow as tf

        [column] = self.parser.parse_columns(serialized)[0].values()
        if column.values.dtype == tf.string:
            return tf.strings.to_hash_bucket_fast(column.values, (1 << 63) - 1)
        return tf.cast(column.values, tf.int64)

    def kinds(self, serialized: Any) -> Any:
        """Look up the value of each record in `table`.

        The result is the index of each value, int64 `(w,)`.
        """
        import tensorflow as tf

        if self.known is not None:
            return tf.gather(tf.constant(self.known, tf.int64), tf.strings.to_number(serialized, tf.int64))
        return tf.searchsorted(tf.constant(self.table, tf.int64), self.hashes(serialized), out_type=tf.int64)
