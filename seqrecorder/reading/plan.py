"""`plan`, which computes figures about an epoch of batches from the lengths of records alone."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any, overload

import attrs
import numpy as np

from seqrecorder.codec.parse import Parser
from seqrecorder.dataset.checked_shards import resolve
from seqrecorder.errors import OptionError
from seqrecorder.reading.batching.groups import Groups
from seqrecorder.reading.batching.pack import Pack
from seqrecorder.reading.batching.ragged import Ragged
from seqrecorder.reading.batching.step_slices import lists_to_cut
from seqrecorder.reading.batching.strategy import WINDOW, Feed, Strategy
from seqrecorder.reading.batching.unroll import Unroll
from seqrecorder.reading.batching.window import Window
from seqrecorder.reading.order_and_seeds import StreamOptions
from seqrecorder.schema.display import bars, html_table, join, text_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypedDict

    from typing_extensions import Unpack

    from seqrecorder.reading.batching.bucket import Bucket
    from seqrecorder.reading.batching.crop import Crop
    from seqrecorder.reading.batching.pad import Pad
    from seqrecorder.reading.batching.token_budget import TokenBudget

    class PlanKeywords(TypedDict, total=False):
        """Types of the keyword arguments of `plan`."""

        schema: object
        shuffle: int
        seed: int | None
        shard: tuple[int, int] | None

    Batching = Pad | Bucket | TokenBudget | Ragged | Crop | Window | Unroll | Pack | Groups


@attrs.frozen
class Plan:
    """Figures about one epoch of the batches that a strategy makes.

    Attributes:
        strategy: the planned strategy.
        batches: number of batches.
        rows: number of rows in all batches; a row is a record, window, segment or packed row.
        steps: number of real steps in all batches.
        padded_steps: number of steps in all batches, padding included.
        most_steps: number of steps in the largest batch, padding included.
        shapes: mapping from shape `(rows, steps)` to the number of batches of that shape, largest shape first. `steps`
            is None for ragged batches.
        left_out: mapping from reason, such as no steps or too many steps, to the number of records left out for that
            reason.
    """

    strategy: Batching
    batches: int
    rows: int
    steps: int
    padded_steps: int
    most_steps: int
    shapes: dict[tuple[int, int | None], int] = attrs.field(repr=False)
    left_out: dict[str, int] = attrs.field(factory=dict, repr=False)

    @property
    def efficiency(self) -> float:
        """Proportion of real steps among all steps, padding included.

        It is 1.0 for an epoch without steps.
        """
        return self.steps / self.padded_steps if self.padded_steps else 1.0

    @property
    def steps_per_batch(self) -> float:
        """Mean number of steps per batch, padding included."""
        return self.padded_steps / self.batches if self.batches else 0.0

    def __str__(self) -> str:
        return str(PlanTable((self,)))

    def _repr_html_(self) -> str:
        return PlanTable((self,))._repr_html_()


_HEADS = ("strategy", "batches", "shapes", "rows", "steps a batch", "at most", "real steps", "left out")


@attrs.frozen(repr=False)
class PlanTable:
    """Table that compares the plans of several strategies; print it or iterate over the plans.

    Attributes:
        plans: one plan per strategy, in the order of the arguments.
    """

    plans: tuple[Plan, ...]

    def __iter__(self) -> Iterator[Plan]:
        return iter(self.plans)

    def __len__(self) -> int:
        return len(self.plans)

    def __getitem__(self, position: int) -> Plan:
        return self.plans[position]

    def lines(self) -> list[tuple[str, ...]]:
        """Format the table as rows of strings, with the headings first.

        Columns that are empty for all plans are left out.
        """
        lines = [_HEADS, *map(_line, self.plans)]
        shown = [any(line[column] for line in lines[1:]) for column in range(len(_HEADS))]
        return [tuple(itertools.compress(line, shown)) for line in lines]

    def __repr__(self) -> str:
        plans = [f"{plan.strategy}: {plan.efficiency:.1%} real steps" for plan in self.plans]
        return f"<PlanTable: {join(plans)}>"

    def _repr_html_(self) -> str:
        heads, *lines = self.lines()
        padding = {"padding": [1 - plan.efficiency for plan in self.plans]}
        drawn = bars("the share of the steps that are padding", [str(plan.strategy) for plan in self.plans], padding)
        return html_table("plans of an epoch", heads, lines) + drawn

    def __str__(self) -> str:
        return text_table(self.lines(), right=True)


def _line(plan: Plan) -> tuple[str, ...]:
    return (
        str(plan.strategy),
        f"{plan.batches:,}",
        f"{len(plan.shapes):,}",
        f"{plan.rows:,}",
        f"{plan.steps_per_batch:,.0f}",
        f"{plan.most_steps:,}",
        f"{plan.efficiency:.1%}" if plan.padded_steps else "",
        f"{sum(plan.left_out.values()):,}" if plan.left_out else "",
    )


@overload
def plan(path: Any, strategy: Batching, /, **options: Unpack[PlanKeywords]) -> Plan: ...


@overload
def plan(
    path: Any, first: Batching, second: Batching, /, *strategies: Batching, **options: Unpack[PlanKeywords]
) -> PlanTable: ...


@overload
def plan(path: Any, split: str | None, strategy: Batching, /, **options: Unpack[PlanKeywords]) -> Plan: ...


@overload
def plan(
    path: Any,
    split: str | None,
    first: Batching,
    second: Batching,
    /,
    *strategies: Batching,
    **options: Unpack[PlanKeywords],
) -> PlanTable: ...


def plan(
    path: Any,
    split: Any,
    /,
    *strategies: Batching,
    schema: object = None,
    shuffle: int = 0,
    seed: int | None = None,
    shard: tuple[int, int] | None = None,
) -> Plan | PlanTable:
    """Plan an epoch of one strategy, or compare several in a table, without reading the records.

    The plan runs the code of `read` on the stored lengths, so it is exact for the first epoch with the same `shuffle`,
    `seed` and `shard`. Only three things must be parsed: shards without stored lengths, the field of `Groups(by=...)`,
    and the times of `Window(time=...)`. `Window` and `Unroll` are planned for the first feature list that is neither
    sparse nor ragged and for the lists aligned with it, and `Pack` for all lists that are neither sparse nor ragged. To
    plan for other lists, pass a class with only those lists as `schema`.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> corpus = tempfile.mkdtemp()
    >>> _ = sr.write([Sentence(range(n)) for n in (1, 9, 2, 8, 1, 9)], corpus)
    >>> print(sr.plan(corpus, "train", sr.Pad(2), sr.Bucket(2, buckets=2), sr.Pack(10, 2)))
    strategy                batches  shapes  rows  steps a batch  at most  real steps
    Pad(2)                        3       2     6             17       18       57.7%
    Bucket(2, buckets=2)          4       4     6              8       18       93.8%
    Pack(10, batch_size=2)        2       2     3             15       20      100.0%
    >>> sr.plan(corpus, "train", sr.Pad(2)).batches
    3

    Args:
        path: dataset, selection or bare shards; see `read`.
        split: name of the split; leave it out for a selection, bare shards or the only split: `plan(train, Pad(2))`.
        strategies: strategies to plan; pass `Pad(64)` for `batch=64` of `read`.
        schema: record class to read as; required for bare shards.
        shuffle: size of the shuffle window, in records; 0 keeps the written order.
        seed: seed of the order.
        shard: `(index, count)` of this reader among several that together read each record once.

    Returns:
        A `Plan` for one strategy, a `PlanTable` for several.

    Raises:
        OptionError: there is no strategy, or one does not fit the data.
        DatasetNotFoundError: there is no such dataset, split or file.
    """
    if split is not None and not isinstance(split, str):
        split, strategies = None, (split, *strategies)  # the split is left out
    if not strategies:
        raise OptionError("plan: name the strategies to compare, such as seqrecorder.Bucket(64)")
    for strategy in strategies:
        if not isinstance(strategy, Strategy):
            raise OptionError(f"plan: expected strategies, one after the other, such as Bucket(64), got {strategy!r}")
    import tensorflow as tf

    lengths_only = not any(isinstance(strategy, Groups) or getattr(strategy, "time", None) for strategy in strategies)
    origin = resolve(path, split, schema=schema, lengths_only=lengths_only)
    origin.fetch(lengths_only=lengths_only)
    origin = attrs.evolve(origin, schema=origin.schema.in_one_rate())
    origin, deal = origin.take_shard(shard)
    known = {group: origin.lengths(group) for group in origin.schema.groups}
    options = StreamOptions(WINDOW, shuffle, seed, 1, deal=deal, known=known)
    feed = Feed(origin, Parser(origin.schema, origin.layout), lambda values: values, options)
    feeds = [_feed_of(strategy, feed) for strategy in strategies]
    shapes = tf.autograph.experimental.do_not_convert(lambda strategy, feed: strategy.shapes(feed))
    plans = [_summary(strategy, shapes(strategy, own), own) for strategy, own in zip(strategies, feeds, strict=True)]
    return plans[0] if len(plans) == 1 else PlanTable(tuple(plans))


def _feed_of(strategy: Batching, feed: Feed) -> Feed:
    """Limit a feed to the feature lists that its strategy can cut.

    The feed of a strategy that does not cut records keeps all its fields.
    """
    names = lists_to_cut(feed.origin.schema, several=isinstance(strategy, Pack))
    if not names or not isinstance(strategy, (Pack, Unroll, Window)):
        return attrs.evolve(feed, left_out={})
    return attrs.evolve(feed, parser=Parser(feed.origin.schema.select(names), feed.origin.layout), left_out={})


def _summary(strategy: Batching, shapes: Any, feed: Feed) -> Plan:
    tables = list(shapes.rebatch(1024).as_numpy_iterator())  # to take 1,024 batches at a time is twice as fast
    table = np.concatenate(tables) if tables else np.empty((0, 3), np.int64)
    rows, padded, real = table.T.tolist()
    ragged = isinstance(strategy, Ragged)
    counts = Counter((n, None if ragged or not n else steps // n) for n, steps in zip(rows, padded, strict=True))
    largest_first = sorted(counts.items(), key=lambda item: (-item[0][0] * (item[0][1] or 0), item[0][0]))
    totals = len(rows), sum(rows), sum(real), sum(padded), max(padded, default=0)
    return Plan(strategy, *totals, dict(largest_first), feed.left_out)
