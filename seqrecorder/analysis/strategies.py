"""The strategies of batching that are worth a comparison on some data, and what they cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.reading.batching.bucket import Bucket
from seqrecorder.reading.batching.pack import Pack
from seqrecorder.reading.batching.pad import Pad
from seqrecorder.reading.batching.token_budget import TokenBudget
from seqrecorder.reading.plan import plan

if TYPE_CHECKING:
    from seqrecorder.dataset.selection import Selection
    from seqrecorder.reading.plan import PlanTable


def compare(selection: Selection, batch_size: int = 64, *, shuffle: int = 0, seed: int | None = None) -> PlanTable:
    """Return what `Pad`, `Bucket`, `TokenBudget` and `Pack` give for some records, in batches of about one size.

    Args:
        selection: the records.
        batch_size: records to a batch; budgets are what batches of so many average records hold.
        shuffle: as for `read`.
        seed: as for `read`.

    Raises:
        ShardReadError: lengths cannot be read.
    """
    lengths = selection.lengths() if selection.schema.groups else np.zeros(1, np.int64)
    longest = max(1, int(lengths.max(initial=0)))
    budget = max(longest, -(-int(lengths.sum()) * batch_size // max(1, lengths.size)))
    others: list[Any] = [TokenBudget(budget)]
    lists = [field for field in selection.schema.fields if field.is_list]
    if not any(field.is_ragged or field.sparse is not None for field in lists):  # steps that cannot be cut
        others.append(Pack(longest, max(1, budget // longest)))
    buckets = Bucket(batch_size), Bucket(batch_size, boundaries="sorted")
    return plan(selection, Pad(batch_size), *buckets, *others, shuffle=shuffle, seed=seed)
