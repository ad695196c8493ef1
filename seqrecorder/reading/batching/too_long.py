"""What becomes of records that are longer than a strategy has room for: one option, `too_long`, one set of words."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from seqrecorder.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seqrecorder.reading.record_length import RecordLength
    from seqrecorder.reading.strategy import Feed

_LOG = logging.getLogger("seqrecorder")

_WORDS = {
    "drop": "to leave them out",
    "cut_end": "to leave out their last steps",
    "cut_start": "to leave out their first steps",
    "split": "to cut them into several",
}


def fit_lengths(
    feed: Feed, group: RecordLength, most: int, too_long: str, *, option: str, words: Sequence[str], parse: bool
) -> Feed:
    """Return a feed whose records have at most so many steps; of those that are longer their number is logged.

    Args:
        feed: the records.
        group: the alignment group whose lengths count, or several.
        most: steps.
        too_long: `error`, `drop`, `cut_end` or `cut_start`.
        option: what says how many steps there may be, and its value: `length=100`.
        words: of the strategy's `too_long`.
        parse: whether every record is parsed where no file of lengths tells its length; else it is left unchecked.

    Raises:
        OptionError: records are longer, and that is an error.
    """
    lengths = feed.length_counts(group, parse=parse)
    longer = None if lengths is None else lengths.longer(most)
    over = 0 if longer is None else longer.records
    if too_long == "error":
        if longer is not None and over:
            name = option.partition("=")[0]
            others = [f"too_long={word!r} {_WORDS[word]}" for word in words if word in _WORDS]
            raise OptionError(
                f"{option}: {over} records are longer than {most} steps, the longest has {longer.longest}; "
                f"raise {name}, or pass {' or '.join(others)}"
            )
        return feed
    if over:
        done = "left out" if too_long == "drop" else "cut"
        _LOG.warning("%s: %d records are longer than %d steps and %s", feed.origin.where, over, most, done)
    if too_long == "drop":
        return feed.leave_out_longer(group, most)
    return feed.crop(group, slice(most) if too_long == "cut_end" else slice(-most, None))
