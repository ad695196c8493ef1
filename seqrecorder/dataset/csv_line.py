"""Lines of CSV files (RFC 4180), which Python's `csv` reads back as the same texts."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_END = "\r\n"  # up to Python 3.12, `csv` puts quotes around those characters only that end its lines


def csv_line(values: Iterable[Any]) -> str:
    r"""Return a line, without an end; None is an empty text.

    >>> csv_line(["a", 1, None, "b,c", "two\nlines"])
    'a,1,,"b,c","two\nlines"'

    Args:
        values: texts, or what `str` makes a text of.

    Raises:
        ValueError: a text holds a NUL, which Python 3.10 neither writes nor reads.
    """
    text = io.StringIO()
    try:
        csv.writer(text, lineterminator=_END).writerow(values)
    except csv.Error as error:
        raise ValueError(f"it cannot stand in a CSV: {error} (Python 3.11 and later write NULs)") from error
    return text.getvalue().removesuffix(_END)
