"""`TokenBudget`: batches of at most so many steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import attrs

from seqrecorder.errors import OptionError
from seqrecorder.reading.batching.by_length import BatchesByLength
from seqrecorder.reading.batching.options import fit_lengths, one_of, positive
from seqrecorder.reading.batching.token_budget_plan import TokenBudgetPlan

if TYPE_CHECKING:
    from seqrecorder.reading.record_length import LengthCounts, RecordLength
    from seqrecorder.reading.strategy import Feed

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

    Memory and time of a step stay about the same, whatever the lengths. Windows of 2,048 records are sorted by length
    and cut; where the records are shuffled the batches of a window come in random order, else shortest first. How many
    batches an epoch has depends on the order of the records, so there is no cardinality.

    Attributes:
        max_steps: the most steps of a batch: its records times the steps to which they are padded.
        max_batch_size: the most records of a batch.
        batch_size_multiple: what the number of records in a batch is a multiple of, but for the last.
        too_long: what happens to records of more steps than there is room for: an `"error"`, raised before anything is
            read; they are left out (`"drop"`); or their last steps are (`"cut_end"`). A warning counts such records.
        drop_remainder: whether the last batch of an epoch is dropped where it is smaller than `batch_size_multiple`.
        length_field: see `Bucket`. Of several the records times the steps to which each is padded are at most
            `max_steps`, as fairseq counts `max_tokens` of source and target.
        length_of: see `Bucket`. For `"sum"` the records times their largest sum are at most `max_steps`: the steps of a
            row that holds one after the other. Padded apart they take more where one record has the longest of one,
            and another that of the other.
        warm_up: see `Bucket`.
        padding_values: as for `Pad`, like all that follows.
        padding_side: see `Pad`.
        pad_to_multiple_of: see `Pad`; `max_steps` counts what it adds.
        empty: see `Pad`.
        length_name: see `Pad`.
        mask_name: see `Pad`.
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
        """The most steps of a record that fits."""
        rows = self.max_steps // self.batch_size_multiple
        return rows // self.pad_to_multiple_of * self.pad_to_multiple_of

    def resolve(self, feed: Feed, group: RecordLength) -> tuple[TokenBudgetPlan, Feed, LengthCounts | None]:
        """Return what will be done with the records of a feed, the feed of those that fit, and their lengths.

        Raises:
            OptionError: records do not fit `max_steps`.
        """
        option = f"max_steps={self.max_steps}"
        feed = fit_lengths(feed, group, self._longest, self.too_long, option=option, words=TOO_LONG, parse=True)
        lengths = feed.length_counts(group, parse=True, drop_empty=self.empty == "drop")
        plan = TokenBudgetPlan(
            pad_to_multiple_of=self.pad_to_multiple_of,
            drop_remainder=self.drop_remainder,
            max_steps=self.max_steps,
            max_batch_size=self.max_batch_size,
            batch_size_multiple=self.batch_size_multiple,
        )
        return plan, feed, lengths
