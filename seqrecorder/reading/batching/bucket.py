"""`Bucket`: batches of records of about the same length."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import attrs
import numpy as np

from seqrecorder.codec.graph_ops import checked
from seqrecorder.codec.padding import to_longest
from seqrecorder.codec.parser import length_name
from seqrecorder.errors import OptionError
from seqrecorder.reading.batching.bucket_boundaries import check_boundaries, optimal_boundaries, quantile_boundaries
from seqrecorder.reading.batching.bucket_plan import BucketPlan, Budget
from seqrecorder.reading.batching.bucket_warm_up import largest_batch
from seqrecorder.reading.batching.option_checks import check_batch_size, check_choice, check_count
from seqrecorder.reading.batching.padded import PaddedBatches
from seqrecorder.reading.strategy import Batches, shape_of
from seqrecorder.reading.tfdata_ops import mapped

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seqrecorder.codec.padding import Padding
    from seqrecorder.reading.elements import Carried
    from seqrecorder.reading.strategy import Feed
    from seqrecorder.schema.schema import Schema

_LOG = logging.getLogger("seqrecorder")

COMPUTED = ("auto", "quantile", "sorted")
TOO_LONG = ("error", "drop", "truncate")


def _batch_sizes(size: Any) -> int | tuple[int, ...] | None:
    if isinstance(size, Sequence) and not isinstance(size, str):
        return tuple(map(check_batch_size, size))
    return None if size is None else check_batch_size(size)


def _boundaries(value: Any) -> str | tuple[int, ...]:
    expected = "boundaries: expected 'auto', 'quantile', 'sorted' or ascending"
    if isinstance(value, str):
        if value not in COMPUTED:
            raise OptionError(f"{expected} lengths, got {value!r}")
        return value
    given = tuple(value)
    if any(isinstance(b, bool) or not isinstance(b, (int, np.integer)) for b in given):
        raise OptionError(f"{expected} ints, got {value!r}")
    ints = tuple(int(b) for b in given)
    check_boundaries(ints)
    return ints


@attrs.frozen
class Bucket(PaddedBatches):
    """Batches of records of about the same length, padded to the longest of each batch.

    >>> import seqrecorder as sr
    >>> sr.Bucket(64, boundaries=[10, 20, 40]).boundaries
    (10, 20, 40)

    With `boundaries`, the batches are those of `tf.data.Dataset.bucket_by_sequence_length`, in its order: bucket i
    holds `boundaries[i-1] <= length < boundaries[i]`, a batch leaves when it is full, and the incomplete ones follow at
    the end of the epoch. They are planned from the lengths, in vectors; but records of 32 KiB or more on average are
    collected one by one. As records come shuffled, so do the buckets: shapes do not come in runs.

    On log-normal lengths (mean 43, up to 400; batches of 64) 20 % of the steps in shuffled batches are real, 80 % with
    the eight buckets of `"auto"`, and 91 % with `"sorted"`, which has the most distinct shapes; on a few batches'
    worth of records it may pad more than `"auto"`. `seqrecorder.plan` tells these figures for a dataset of yours.

    Attributes:
        batch_size: records to a batch; or one size for each of the `len(boundaries) + 1` buckets.
        max_steps: instead of `batch_size`: the most steps of a batch, padding included; it is never exceeded.
            Windows of records are sorted by length then; `boundaries` has a say with `pad_to_bucket_boundary` only.
        boundaries: ascending lengths; `"auto"`: those that give the least padded steps for this data, computed from its
            lengths by exact dynamic programming; `"quantile"`: those that give buckets of equal size; or `"sorted"`:
            windows of 64 batches sorted by length, whose batches come in random order where the records are shuffled,
            and shortest first where not.
        buckets: how many buckets `"auto"` and `"quantile"` may use.
        pad_to_bucket_boundary: whether batches are padded to their bucket's largest length, `boundaries[i] - 1`, for
            few distinct shapes: a model is traced anew for each. The last bucket's is the largest length of the data.
        batch_size_multiple: with `max_steps`: what the number of records in a batch is a multiple of, but for the last.
        max_batch_size: with `max_steps`: the most records of a batch.
        too_long: with `max_steps`: what a record is that does not fit a batch: an `"error"`, raised before anything is
            read; left out (`"drop"`); or cut at its end (`"truncate"`). `seqrecorder.plan` counts them.
        drop_remainder: whether incomplete batches at the end of an epoch are dropped.
        length_field: name of the feature list whose length counts; None is the first alignment group.
        warm_up: `"largest"` gives, before anything else and in addition, a batch of the largest shape, all of whose
            sample weights are 0: what does not fit into memory fails at the first step, and not in an hour. It goes
            with `targets`.
        padding_values: as for `Pad`, like all that follows.
        padding_side: see `Pad`.
        pad_to_multiple_of: see `Pad`; `max_steps` counts what it adds.
        empty: see `Pad`.
        length_name: see `Pad`.
        mask_name: see `Pad`.
    """

    batch_size: int | tuple[int, ...] | None = attrs.field(default=None, converter=_batch_sizes)
    max_steps: int | None = attrs.field(default=None, kw_only=True)
    boundaries: str | tuple[int, ...] = attrs.field(default="auto", converter=_boundaries, kw_only=True)
    buckets: int = attrs.field(default=8, kw_only=True)
    pad_to_bucket_boundary: bool = attrs.field(default=False, kw_only=True)
    batch_size_multiple: int = attrs.field(default=1, kw_only=True)
    max_batch_size: int | None = attrs.field(default=None, kw_only=True)
    too_long: Literal["error", "drop", "truncate"] = attrs.field(default="error", kw_only=True)
    drop_remainder: bool = attrs.field(default=False, kw_only=True)
    length_field: str | None = attrs.field(default=None, kw_only=True)
    warm_up: Literal["largest"] | None = attrs.field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if (self.batch_size is None) == (self.max_steps is None):
            raise OptionError(
                f"give batch_size or max_steps, one of them (got {self.batch_size!r} and {self.max_steps!r})"
            )
        for name in ("max_steps", "buckets", "batch_size_multiple", "max_batch_size"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        self._check_padding()
        if self.max_steps is None:
            self._check_sizes()
        else:
            self._check_budget()

    def _check_padding(self) -> None:
        check_choice("too_long", self.too_long, TOO_LONG)
        if self.warm_up not in (None, "largest"):
            raise OptionError(f"warm_up: expected 'largest' or None, got {self.warm_up!r}")
        if self.pad_to_bucket_boundary and self.boundaries == "sorted":
            raise OptionError("pad_to_bucket_boundary: sorted windows have no buckets; use pad_to_multiple_of")
        if self.pad_to_bucket_boundary and self.pad_to_multiple_of != 1:
            raise OptionError("give pad_to_bucket_boundary or pad_to_multiple_of, one of them")

    def _check_budget(self) -> None:
        if not isinstance(self.boundaries, str) and not self.pad_to_bucket_boundary:
            raise OptionError(
                "max_steps sorts by length and has no buckets: leave `boundaries` out, or pass "
                "pad_to_bucket_boundary=True to pad to them"
            )
        if self._most() < 1:
            raise OptionError(
                f"max_steps: expected at least batch_size_multiple={self.batch_size_multiple} rows of "
                f"pad_to_multiple_of={self.pad_to_multiple_of} steps, got {self.max_steps}"
            )
        if self.max_batch_size is not None and self.max_batch_size < self.batch_size_multiple:
            raise OptionError(
                f"max_batch_size: expected at least batch_size_multiple={self.batch_size_multiple}, "
                f"got {self.max_batch_size}"
            )

    def _check_sizes(self) -> None:
        for name, default in (("batch_size_multiple", 1), ("max_batch_size", None), ("too_long", "error")):
            if getattr(self, name) != default:
                raise OptionError(f"{name}: goes with max_steps, not with batch_size")
        if isinstance(self.batch_size, int) or self.batch_size is None:
            return
        if isinstance(self.boundaries, str):
            raise OptionError(f"batch_size: one size for each bucket needs given boundaries, not {self.boundaries!r}")
        if len(self.batch_size) != len(self.boundaries) + 1:
            raise OptionError(
                f"batch_size: expected {len(self.boundaries) + 1} sizes, one for each bucket, "
                f"got {len(self.batch_size)}"
            )

    def _most(self) -> int:
        """Return the most steps of a record that fits `max_steps`."""
        rows = (self.max_steps or 0) // self.batch_size_multiple
        return rows // self.pad_to_multiple_of * self.pad_to_multiple_of

    @property
    def needs_lengths(self) -> bool:
        """Whether the lengths of all records must be known before anything is read."""
        return self.boundaries in ("auto", "quantile") or self.max_steps is not None or self.warm_up is not None

    def carried(self, schema: Schema) -> Carried:
        """Return what batches carry beside the fields of a schema and their lengths."""
        return attrs.evolve(super().carried(schema), weighted=self.warm_up is not None)

    def read(self, feed: Feed) -> Batches:
        """Return batches of about the same length.

        Raises:
            OptionError: options do not fit the fields, or records do not fit `max_steps`.
        """
        import tensorflow as tf

        group = feed.group(self.length_field)
        plan, feed, lengths = self.resolve(feed, group)
        padding = self._padding(feed, group, plan)
        name = length_name(group)

        def parse(serialized: Any, planned: Any) -> dict[str, Any]:
            values = feed.parser.parse_batch(serialized, padding)
            # Without a field of the group among those that are parsed, the planned lengths are all there is.
            have = values.get(name, planned)
            message = f"the lengths files disagree with {feed.origin.record}"
            values[name] = checked(have, have == planned, message)
            return values

        planned = self._planned(feed, plan, group)
        rows = self._rows(plan, lengths)
        width = max([*plan.boundaries, self.pad_to_multiple_of])
        batches = feed.made(planned, lambda b: feed.shape(parse(b.serialized(), b.lengths)), rows, width=width)
        count = -1 if lengths is None else plan.batches(lengths)
        if self.warm_up is None or lengths is None or not lengths.size:
            return Batches(batches, count)
        rows, width = plan.largest(lengths)
        widths = {g: int(padding.width(g, tf.constant([width], tf.int64))) for g in feed.parser.schema.groups}
        return Batches(largest_batch(feed, parse, rows, widths).concatenate(batches), count, before=1)

    def _rows(self, plan: BucketPlan, lengths: NDArray[np.int64] | None) -> int:
        """Return how many records a batch has, or about how many fit `max_steps`."""
        if self.max_steps is None or lengths is None or not lengths.size:
            return max(plan.sizes)
        return int(self.max_steps / max(1, lengths.mean()))

    def shapes(self, feed: Feed) -> Any:
        """Return a `tf.data.Dataset` of the shapes of batches (see `Strategy`)."""
        group = feed.group(self.length_field)
        plan, feed, _ = self.resolve(feed, group)
        width = self._padding(feed, group, plan).width
        planned = self._planned(feed, plan, group)
        return mapped(planned, lambda batch: shape_of(batch.lengths, width(group, batch.lengths)))

    def _planned(self, feed: Feed, plan: BucketPlan, group: str) -> Any:
        """Return a `tf.data.Dataset` of `PlannedBatch`, or of `CollectedBatch`."""
        drop = self.empty == "drop"
        if plan.in_buckets and feed.travel_singly:
            return feed.stream(lambda records, _: plan.collect(records), group=group, drop_empty=drop, singly=True)
        turns = feed.stream(
            plan.turns,
            window=plan.window,
            multiple=plan.least_window,
            group=group,
            drop_empty=drop,
            permute=not plan.in_buckets,
        )
        return plan.apply(turns, shuffled=bool(feed.options.shuffle), permute=feed.permutes_windows)

    def _padding(self, feed: Feed, group: str, plan: BucketPlan) -> Padding:
        widths = plan.widths
        fixed = {group: widths[0]} if len(widths) == 1 else {}
        return self.padding(feed, group, lambda g, n: plan.width(n) if g == group else to_longest(g, n), fixed)

    def resolve(self, feed: Feed, group: str) -> tuple[BucketPlan, Feed, NDArray[np.int64] | None]:
        """Return what will be done with the records of a feed, the feed of those that fit, and their lengths.

        Raises:
            OptionError: records do not fit `max_steps`.
        """
        budget = None
        if self.max_steps is not None:
            size = self.batch_size_multiple, self.max_batch_size
            budget = Budget(self.max_steps, *size, self._most(), self.too_long == "drop")
            feed = self._fit(feed, group, budget)
        lengths = feed.lengths(group, parse=self.needs_lengths, drop_empty=self.empty == "drop")
        if budget is not None and lengths is not None:
            lengths = lengths[lengths <= budget.longest]
        boundaries: tuple[int, ...] = () if isinstance(self.boundaries, str) else self.boundaries
        wanted = budget is None or self.pad_to_bucket_boundary
        if wanted and self.boundaries in ("auto", "quantile") and lengths is not None and lengths.size:
            values, counts = np.unique(lengths, return_counts=True)
            compute = optimal_boundaries if self.boundaries == "auto" else quantile_boundaries
            boundaries = tuple(compute(values, counts, self.buckets))
        sizes = self.batch_size or 1
        plan = BucketPlan(
            boundaries,
            sizes if isinstance(sizes, tuple) else (sizes,) * (len(boundaries) + 1),
            drop_remainder=self.drop_remainder,
            pad_to_bucket_boundary=self.pad_to_bucket_boundary,
            pad_to_multiple_of=self.pad_to_multiple_of,
            by_length=budget is None and self.boundaries == "sorted",
            budget=budget,
            last=None if lengths is None or not lengths.size else int(lengths.max()),
        )
        return plan, feed, lengths

    def _fit(self, feed: Feed, group: str, budget: Budget) -> Feed:
        """Return the feed of records that fit a budget or will be left out; and tell how many do not fit."""
        lengths = feed.lengths(group, parse=True)
        over = np.empty(0, np.int64) if lengths is None else lengths[lengths > budget.longest]
        if not over.size:
            return feed
        if self.too_long == "error":
            raise OptionError(
                f"max_steps={self.max_steps}: {over.size} records are longer than {budget.longest} steps, the longest "
                f"has {over.max()}; raise max_steps, or pass too_long='drop' to leave them out or 'truncate' to cut "
                "them"
            )
        done = "left out" if budget.drop else "cut"
        message = "%s: %d records are longer than %d steps and %s"
        _LOG.warning(message, feed.origin.where, over.size, budget.longest, done)
        return feed if budget.drop else feed.crop(group, slice(budget.longest))
