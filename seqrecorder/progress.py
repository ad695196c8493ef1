"""A progress bar, when there is someone to see it."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

from seqrecorder.errors import OptionError


class Progress:
    """Counts records on stderr through tqdm.

    Args:
        show: True forces the bar, False silences it; None shows it when tqdm is installed and stderr is a terminal.
        label: what is counted.

    Raises:
        OptionError: `show` is none of the three, or True without tqdm.
    """

    def __init__(self, show: bool | None, label: str) -> None:  # noqa: FBT001 - see `sr.write`
        if show not in (True, False, None):
            raise OptionError(f"progress: expected True, False or None, got {show!r}")
        installed = importlib.util.find_spec("tqdm") is not None
        if show and not installed:
            raise OptionError("progress=True needs tqdm: pip install 'seqrecorder[progress]'")
        self._bar: Any = None
        # A program without a console has no stderr at all.
        seen = sys.stderr is not None and sys.stderr.isatty()
        if installed and (seen if show is None else show):
            from tqdm import tqdm

            self._bar = tqdm(desc=label, unit=" records", file=sys.stderr)

    def expect(self, count: int) -> None:
        """Learn that some more records will come."""
        if self._bar is not None:
            self._bar.total = (self._bar.total or 0) + count
            self._bar.refresh()

    def reach(self, count: int) -> None:
        """Learn how many records are through by now."""
        if self._bar is not None:
            self._bar.update(count - self._bar.n)

    def close(self) -> None:
        """Leave the bar as it stands."""
        if self._bar is not None:
            self._bar.close()
