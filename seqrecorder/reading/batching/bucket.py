"""`Bucket`: batches of records of about the same length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.errors import OptionError
from seqrecorder.reading.batching.bucket_boundaries import boundaries_for, given_boundaries
from seqrecorder.reading.batching.bucket_plan import BucketPlan, sorted_window
from seqrecorder.reading.batching.by_length import BatchesByLength
from seqrecorder.reading.batching.options import check_count, positive

if TYPE_CHECKING:
    from seqrecorder.reading.record_length import LengthCounts, RecordLength
    from seqrecorder.reading.strategy import Feed


def _batch_sizes(size: Any) -> int | tuple[int, ...]:
    if isinstance(size, Sequence) and not isinstance(size, str):
        return tuple(check_count("batch_size", each) for each in size)
    return check_count("batch_size", size)


def _boundaries(value: Any) -> str | tuple[int, ...]:
    return given_boundaries(value, ("auto", "quantile", "sorted"))


@attrs.frozen
class Bucket(BatchesByLength):
    """Batches of records of about the same length, padded to the longest of each batch.

    >>> import seqrecorder as sr
    >>> sr.Bucket(64, boundaries=[10, 20, 40]).boundaries
    (10, 20, 40)

    With `boundaries`, the batches are those of `tf.data.Dataset.bucket_by_sequence_length`, in its order: bucket i
    holds `boundaries[i-1] <= length < boundaries[i]`, a batch leaves when it is full, and the incomplete ones follow at
    the end of the epoch. They are planned from the lengths, in vectors. As records come shuffled, so do the buckets:
    shapes do not come in runs.

    `"sorted"` pads least and has the most distinct shapes, and no batch of it holds records of two of the buckets.
    `seqrecorder.plan` tells these figures for a dataset of yours. `TokenBudget` has batches of at most so many steps
    instead of so many records.

    Attributes:
        batch_size: records to a batch; or one size for each of the `len(boundaries) + 1` buckets.
        boundaries: ascending lengths; `"auto"`: those that give the least padded steps for this data, computed from its
            lengths by exact dynamic programming; `"quantile"`: those that give buckets of equal size; or `"sorted"`:
            those of `"auto"`, within which windows of `shuffle` records, of 64 batches at least, are sorted by length.
            Their batches come in random order where the records are shuffled, and shortest first where not; the longest
            of each bucket, less than a batch of them, wait for the next window. Of bare shards and other data whose
            lengths are not known beforehand there is one bucket.
        buckets: how many buckets there may be, where they are computed.
        pad_to_bucket_boundary: whether batches are padded to their bucket's largest length, `boundaries[i] - 1`, for
            few distinct shapes: a model is traced anew for each. The last bucket's is the largest length of the data.
        drop_remainder: whether incomplete batches at the end of an epoch are dropped.
        length_field: name of the feature list whose length counts; None is the first alignment group. Or several names,
            of feature lists with lengths of their own (`align=`), such as `("source", "target")`.
        length_of: what counts of several: the `"longest"`, or their `"sum"`. Each is padded to its own longest, or to
            the boundary above that.
        warm_up: `"largest"` gives, before anything else and in addition, a batch of the largest shape, all of whose
            sample weights are 0: what does not fit into memory fails at the first step, and not in an hour. It goes
            with `targets`.
        padding_values: as for `Pad`, like all that follows.
        padding_side: see `Pad`.
        pad_to_multiple_of: see `Pad`.
        empty: see `Pad`.
        length_name: see `Pad`.
        mask_name: see `Pad`.
    """

    batch_size: int | tuple[int, ...] = attrs.field(converter=_batch_sizes)
    boundaries: str | tuple[int, ...] = attrs.field(default="auto", converter=_boundaries, kw_only=True)
    buckets: int = attrs.field(default=8, validator=positive, kw_only=True)
    pad_to_bucket_boundary: bool = attrs.field(default=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.pad_to_bucket_boundary and self.length_of == "sum":
            raise OptionError("pad_to_bucket_boundary: boundaries of sums are no widths; use pad_to_multiple_of")
        if self.pad_to_bucket_boundary and self.boundaries == "sorted":
            raise OptionError("pad_to_bucket_boundary: sorted windows have no buckets; use pad_to_multiple_of")
        if self.pad_to_bucket_boundary and self.pad_to_multiple_of != 1:
            raise OptionError("give pad_to_bucket_boundary or pad_to_multiple_of, one of them")
        if isinstance(self.batch_size, int):
            return
        if isinstance(self.boundaries, str):
            raise OptionError(f"batch_size: one size for each bucket needs given boundaries, not {self.boundaries!r}")
        if len(self.batch_size) != len(self.boundaries) + 1:
            raise OptionError(
                f"batch_size: expected {len(self.boundaries) + 1} sizes, one for each bucket, "
                f"got {len(self.batch_size)}"
            )

    def resolve(self, feed: Feed, group: RecordLength) -> tuple[BucketPlan, Feed, LengthCounts | None]:
        """Return what will be done with the records of a feed, that feed, and their lengths."""
        parse = self.boundaries in ("auto", "quantile") or self.warm_up is not None
        lengths = feed.length_counts(group, parse=parse, drop_empty=self.empty == "drop")
        by_length = self.boundaries == "sorted"
        boundaries = boundaries_for("auto" if by_length else self.boundaries, lengths, self.buckets)
        sizes = self.batch_size
        plan = BucketPlan(
            boundaries=boundaries,
            pad_to_boundary=self.pad_to_bucket_boundary,
            pad_to_multiple_of=self.pad_to_multiple_of,
            drop_remainder=self.drop_remainder,
            last=None if lengths is None else lengths.longest,
            sizes=sizes if isinstance(sizes, tuple) else (sizes,) * (len(boundaries) + 1),
            sorted_window=sorted_window(feed, max(sizes) if isinstance(sizes, tuple) else sizes) if by_length else 0,
        )
        return plan, feed, lengths
