"""No batching: single records, which is what `read` gives without `batch`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.feed import PARALLEL
from seqrecorder.parsing import SEQUENCE_LENGTH

if TYPE_CHECKING:
    from seqrecorder.feed import Feed


@attrs.frozen
class Single:
    """Single records, each parsed on its own.

    Attributes:
        length_name: not used: the length of a record is that of its feature lists.
        mask_name: not used.
    """

    length_name: str = SEQUENCE_LENGTH
    mask_name: str | None = None

    def read(self, feed: Feed) -> tuple[Any, int]:
        """Return single records and their number."""
        singles = feed.stream(lambda windows, _: windows.unbatch())
        parsed = singles.map(lambda serialized: feed.shape(feed.parser.parse(serialized)), num_parallel_calls=PARALLEL)
        return parsed, feed.records
