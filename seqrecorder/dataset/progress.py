"""A progress bar, when there is someone to see it."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from typing import TYPE_CHECKING, Any

from seqrecorder.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator


def _is_seen() -> bool:
    """Whether stderr is a terminal, or the output of a notebook's cell."""
    return sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel.")


class Progress:
    """Counts records, or something else, on stderr through tqdm.

    Args:
        show: True forces the bar, False silences it; None shows it when tqdm is installed and stderr is a terminal, or
            the output of a notebook.
        label: what is done.
        unit: what is counted.

    Raises:
        OptionError: `show` is none of the three, or True without tqdm.
    """

    def __init__(self, show: bool | None, label: str, unit: str = "records") -> None:  # noqa: FBT001 - see `sr.write`
        if show not in (True, False, None):
            raise OptionError(f"progress: expected True, False or None, got {show!r}")
        installed = importlib.util.find_spec("tqdm") is not None
        if show and not installed:
            raise OptionError("progress=True needs tqdm: pip install tqdm")
        self._bar: Any = None
        # A program without a console has no stderr at all.
        usable = sys.stderr is not None and not sys.stderr.closed
        if installed and usable and (_is_seen() if show is None else show):
            from tqdm.auto import tqdm  # a widget in notebooks

            with self._drawn():
                self._bar = tqdm(desc=label, unit=f" {unit}", file=sys.stderr)

    def expect(self, count: int) -> None:
        """Learn that some more records will come."""
        with self._drawn() as bar:
            if bar is not None:
                bar.total = (bar.total or 0) + count
                bar.refresh()

    def reach(self, count: int) -> None:
        """Learn how many records are through by now."""
        with self._drawn() as bar:
            if bar is not None:
                bar.update(count - bar.n)

    def advance(self, count: int) -> None:
        """Learn how many more records are through."""
        with self._drawn() as bar:
            if bar is not None:
                bar.update(count)

    def close(self) -> None:
        """Leave the bar as it stands."""
        with self._drawn() as bar:
            if bar is not None:
                bar.close()

    @contextlib.contextmanager
    def _drawn(self) -> Iterator[Any]:
        """Give the bar, and go on without it where nobody reads it any more."""
        try:
            yield self._bar
        except (OSError, ValueError):
            self._bar = None
