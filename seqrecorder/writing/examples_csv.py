"""Writer of the `examples.csv` of a split, with the shard, index, number of steps and user columns of each record."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from seqrecorder.errors import OptionError
from seqrecorder.storage.files import faults_around, writing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_BUFFERED = 64 << 10  # characters to buffer per split; the limit is low because there may be many splits
_LOCATION = ("shard", "index", "steps")

SURROGATES = "surrogatepass"
"""Error handler for encoding text, because text fields may contain lone surrogates."""


def csv_line(values: Iterable[Any]) -> str:
    r"""Format values as a CSV line without a line end.

    None becomes an empty cell.

    >>> csv_line(["a", 1, None, "b,c", "two\nlines"])
    'a,1,,"b,c","two\nlines"'

    Args:
        values: strings, or objects that `str` converts.

    Raises:
        ValueError: a string contains NUL, which the `csv` module of Python 3.10 cannot write or read.
    """
    text = io.StringIO()
    try:
        csv.writer(text).writerow(values)  # before Python 3.13, `csv` quotes only its own line end, "\r\n"
    except csv.Error as error:
        raise ValueError(f"it cannot stand in a CSV: {error} (Python 3.11 and later write NULs)") from error
    return text.getvalue().removesuffix("\r\n")


class ExamplesCsv:
    """Writer of an `examples.csv`.

    The file is open only while lines are written, because there may be many splits.

    Args:
        path: path of the file.
        columns: names of the columns after the location columns.

    Raises:
        OptionError: a column has the name of a location column, or its name cannot be stored in a CSV.
        ShardWriteError: the file cannot be created.
    """

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self._path = path
        self._lines: list[str] = []
        self._characters = 0
        clash = [name for name in _LOCATION if name in columns]
        if clash:
            text = f"csv=True: the column {clash[0]!r} is reserved for a record's position, and a field has that name"
            raise OptionError(f"{text} too; define to_csv_row, and give the field another name there")
        try:
            header = csv_line([*_LOCATION, *columns])
        except ValueError as error:
            raise OptionError(f"csv=True: the columns {', '.join(map(repr, columns))}: {error}") from error
        with writing("write", path), faults_around("open", path):
            path.open("w").close()
        self._append([header + "\n"])

    def add(self, shard: int, first: int, steps: Iterable[int], rows: Sequence[str]) -> None:
        """Add the lines of consecutive records of a shard.

        `first` is the index of the first of these records in the shard.
        """
        located = enumerate(zip(steps, rows, strict=True), first)
        self._append(f"{shard},{index},{length},{row}\n" for index, (length, row) in located)

    def _append(self, lines: Iterable[str]) -> None:
        before = len(self._lines)
        self._lines += lines
        self._characters += sum(map(len, self._lines[before:]))
        if self._characters > _BUFFERED:
            self.flush()

    def flush(self) -> None:
        """Write the buffered lines."""
        lines, self._lines, self._characters = self._lines, [], 0
        if lines:
            with writing("write", self._path), faults_around("write", self._path):  # noqa: SIM117
                with self._path.open("a", encoding="utf-8", errors=SURROGATES, newline="") as file:
                    file.writelines(lines)
