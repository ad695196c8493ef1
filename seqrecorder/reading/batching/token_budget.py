"""`TokenBudget`, batches that contain at most a given number of steps, padding included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import attrs
import numpy as np

from seqrecorder.codec.graph_ops import checked
from seqrecorder.errors import OptionError
from seqrecorder.reading.batching.bucket import (
    PLANNED_RECORDS,
    BatchesByLength,
    LengthPlan,
    Turn,
    drawn,
    plan_batches,
    rows_of,
)
from seqrecorder.reading.batching.strategy import fit_lengths, one_of, positive
from seqrecorder.reading.order_and_seeds import shuffle_window

if TYPE_CHECKING:
    from seqrecorder.reading.batching.strategy import Feed
    from seqrecorder.reading.order_and_seeds import LengthCounts, RecordLength


@attrs.frozen(kw_only=True)
class TokenBudgetPlan(LengthPlan):
    """Plan of a `TokenBudget` for records of known lengths.

    Attributes:
        options: the strategy.
    """

    in_buckets: ClassVar[bool] = False

    options: TokenBudget

    def apply(self, turns: Any, *, shuffle: int) -> Any:
        """Divide the records into batches.

        The result is a `tf.data.Dataset` of `PlannedBatch`.
        """
        return budget_batches(turns, self.options, at_random=shuffle > 0)

    def largest(self, lengths: LengthCounts) -> tuple[int, int]:
        """Find the largest possible batch.

        The result is its number of rows, and the length of its longest record.
        """
        distinct, options = np.maximum(lengths.values, 1), self.options
        widths = -(-distinct // options.pad_to_multiple_of) * options.pad_to_multiple_of
        rows = np.minimum(options.max_steps // widths, options.max_batch_size or options.max_steps)
        rows = rows // options.batch_size_multiple * options.batch_size_multiple
        steps = rows * widths
        largest = int(np.flatnonzero(steps == steps.max())[-1])  # on a tie, the one with the longest record
        return int(rows[largest]), int(distinct[largest])


def budget_batches(turns: Any, options: TokenBudget, *, at_random: bool = False) -> Any:
    """Batch rows of similar length so that the number of rows times the longest length is at most `max_steps`.

    Each window is sorted by length and cut greedily, starting with the shortest row: each batch takes all rows that
    fit. The last batch of a window may be small, so windows should be large enough for dozens of batches. If the number
    of rows is not a multiple of `batch_size_multiple`, the few newest rows wait for the next window.

    >>> import tensorflow as tf
    >>> from seqrecorder.reading.batching.bucket import in_turns
    >>> lengths = tf.constant([4, 1, 3, 2], tf.int64)
    >>> records = tf.data.Dataset.from_tensor_slices((["dddd", "a", "ccc", "bb"], lengths))
    >>> for batch in budget_batches(in_turns(records.batch(4)), TokenBudget(4)):
    ...     print(batch.serialized().numpy().tolist(), batch.lengths.numpy().tolist())
    [b'a', b'bb'] [1, 2]
    [b'ccc'] [3]
    [b'dddd'] [4]

    Args:
        turns: `tf.data.Dataset` of the windows of all epochs, from `in_turns`. Records longer than
            `max_steps // batch_size_multiple` must be left out or split beforehand.
        options: the strategy. A record of length 0 counts as one step. The rows of the very last batch need not be a
            multiple of `batch_size_multiple`.
        at_random: whether to emit the batches of a window in random order, so that batches of similar length do not
            follow one another. If False, the batches of the shortest rows come first.

    Returns:
        A `tf.data.Dataset` of `PlannedBatch`, ascending by length inside a batch. Its iterator can be saved with
        `tf.train.Checkpoint(iterator=...)` before any batch. A length above the limit raises
        `tf.errors.InvalidArgumentError` while iterating.
    """
    import tensorflow as tf

    max_steps, multiple, width = options.max_steps, options.batch_size_multiple, options.pad_to_multiple_of
    longest = max_steps // multiple

    def counted(lengths: Any) -> Any:
        return -(-tf.maximum(lengths, 1) // width) * width

    def plan(lengths: Any, turn: Turn) -> Any:
        # Without this check the search for a cut would not end: a longer record fits no batch.
        message = (
            f"expected lengths of at most {longest} steps (max_steps={max_steps} // batch_size_multiple={multiple}); "
            "leave longer records out, split them or raise it; got"
        )
        lengths = checked(lengths, lengths <= longest, message, tf.reduce_max(tf.concat([lengths, [0]], 0)))
        n = tf.size(lengths, tf.int64)
        whole = n // multiple * multiple
        planned = whole if options.drop_remainder else tf.where(turn.last, n, whole)
        # The newest rows keep their order and wait for the next window.
        oldest = tf.cast(tf.argsort(lengths[:planned], stable=True), tf.int64)
        rows = tf.concat([oldest, tf.range(planned, n)], 0)

        # All counts here are units of `multiple` rows, each as long as its last row. A batch that ends with unit `i`
        # has at most `most[i]` units, so it starts at unit `i + 1 - most[i]` or later. `most` never increases, so these
        # starts are ascending, and a binary search finds the longest batch from each start.
        ends = tf.minimum(tf.range(multiple, planned + multiple, multiple, tf.int64), planned)
        most = max_steps // (counted(tf.gather(lengths, tf.gather(rows, ends - 1))) * multiple)
        if options.max_batch_size is not None:
            most = tf.minimum(most, options.max_batch_size // multiple)
        units = tf.size(ends, tf.int64)
        earliest = tf.range(1, units + 1, dtype=tf.int64) - most
        following = tf.searchsorted(earliest, tf.range(units), side="right", out_type=tf.int64)

        bounds = tf.minimum(_chain(tf.concat([following, [units]], 0)) * multiple, planned)
        starts, sizes = bounds[:-1], bounds[1:] - bounds[:-1]
        if at_random:
            starts, sizes = drawn(starts, sizes, turn)
        return tf.concat([tf.gather(rows, rows_of(starts, sizes)), rows[planned:]], 0), sizes

    key = ("budget", max_steps, width, multiple, options.max_batch_size, options.drop_remainder, at_random)
    return plan_batches(turns, plan, key)


def _chain(following: Any) -> Any:
    """Return 0, following[0], following[following[0]] and so on, up to the last index.

    Each round doubles the chain and the length of the jumps, so n elements take about log2(n) rounds.
    """
    import tensorflow as tf

    end = tf.size(following, tf.int64) - 1
    chain, _ = tf.while_loop(
        lambda chain, _: chain[-1] < end,
        lambda chain, jump: (tf.concat([chain, tf.gather(jump, chain)], 0), tf.gather(jump, jump)),
        (tf.zeros([1], tf.int64), following),
        shape_invariants=(tf.TensorShape([None]), tf.TensorShape([None])),
    )
    return tf.concat([tf.boolean_mask(chain, chain < end), [end]], 0)


TOO_LONG = ("error", "drop", "cut_end")


@attrs.frozen
class TokenBudget(BatchesByLength):
    """Batches of at most `max_steps` steps, padding included: many short records, or few long ones.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> corpus = tempfile.mkdtemp()
    >>> _ = sr.write([Sentence([1, 2, 3, 4]), Sentence([5]), Sentence([6, 7, 8]), Sentence([9, 10])], corpus)
    >>> for batch in sr.read(corpus, batch=sr.TokenBudget(6)):
    ...     print(batch["ids"].numpy().tolist())
    [[5, 0], [9, 10]]
    [[6, 7, 8]]
    [[1, 2, 3, 4]]

    Memory and time per batch are about constant, whatever the lengths. Windows of 2,048 records (or 256 MiB) are sorted
    by length and cut into batches. The batches come in random order if the records are shuffled, otherwise shortest
    first. The number of batches depends on the order of the records, so the cardinality is unknown.

    Attributes:
        max_steps: maximum number of steps in a batch, that is, the number of records times their padded length.
        max_batch_size: maximum number of records in a batch; None for no limit.
        batch_size_multiple: number that divides the number of records in every batch except the last.
        too_long: treatment of records that exceed the budget by themselves: `"error"` (before anything is read),
            `"drop"` (leave them out) or `"cut_end"` (cut off their last steps). A warning reports the number of such
            records.
        drop_remainder: whether to drop the last batch of an epoch if it is smaller than `batch_size_multiple`.
        length_field: name of the feature list that determines the length, or several names; see `Bucket`. With several,
            the number of records times the padded length is at most `max_steps` for each list, like fairseq's
            `max_tokens` of source and target.
        length_of: length of a record with several lists; see `Bucket`. With `"sum"`, the number of records times the
            largest sum is at most `max_steps`, which fits models that concatenate the lists. Lists that are padded
            separately may exceed this limit, because the longest source and the longest target may be in different
            records.
        warm_up: `"largest"` adds a first batch of the largest shape; see `Bucket`.
        padding_values: mapping from field to padding value; see `Pad`.
        padding_side: side of the padding; see `Pad`.
        pad_to_multiple_of: padded lengths are rounded up to a multiple of this number; `max_steps` includes the added
            steps.
        empty: treatment of records without steps; see `Pad`.
        length_name: name of the tensor with the true lengths, int64 `(B,)`.
        mask_name: name of the mask of real steps; see `Pad`.
        seed_name: name of the tensor with a random seed per record; see `Pad`.
    """

    max_steps: int = attrs.field(validator=positive)
    max_batch_size: int | None = attrs.field(default=None, validator=positive, kw_only=True)
    batch_size_multiple: int = attrs.field(default=1, validator=positive, kw_only=True)
    too_long: Literal["error", "drop", "cut_end"] = attrs.field(
        default="error", validator=one_of(*TOO_LONG), kw_only=True
    )

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.length_of == "sum":
            self._check_sum()
        if self._longest < 1:
            raise OptionError(
                f"max_steps: expected at least batch_size_multiple={self.batch_size_multiple} rows of "
                f"pad_to_multiple_of={self.pad_to_multiple_of} steps, got {self.max_steps}"
            )
        if self.max_batch_size is not None and self.max_batch_size < self.batch_size_multiple:
            raise OptionError(
                f"max_batch_size: expected at least batch_size_multiple={self.batch_size_multiple}, "
                f"got {self.max_batch_size}"
            )

    def _check_sum(self) -> None:
        if self.too_long == "cut_end":
            raise OptionError("too_long='cut_end': a sum does not tell which feature list to cut; use 'drop'")
        if self.pad_to_multiple_of != 1:
            raise OptionError("length_of='sum': goes without pad_to_multiple_of, which is for single lists")

    @property
    def _longest(self) -> int:
        """Length of the longest record that fits into a batch."""
        rows = self.max_steps // self.batch_size_multiple
        return rows // self.pad_to_multiple_of * self.pad_to_multiple_of

    def resolve(self, feed: Feed, group: RecordLength) -> tuple[TokenBudgetPlan, Feed, LengthCounts | None]:
        """Plan the batches of a feed.

        The result is the plan, the feed after `too_long` is applied, and the lengths of its records.

        Raises:
            OptionError: records do not fit `max_steps`.
        """
        feed = feed.leave_out_empty() if self.empty == "drop" else feed
        option = f"max_steps={self.max_steps}"
        feed = fit_lengths(feed, group, self._longest, self.too_long, option=option, words=TOO_LONG, parse=True)
        lengths = feed.length_counts(group, parse=True)
        plan = TokenBudgetPlan(
            options=self,
            rows=int(self.max_steps / max(1, lengths.mean)) if lengths is not None and lengths.records else 1,
            sorted_window=shuffle_window(feed.origin, PLANNED_RECORDS),
        )
        return plan, feed, lengths
