"""The `examples.csv` of a split: its lines, and those that are left of them after the shards have changed.

Lines begin with the shard, the number of the record in it, and its steps (see `seqrecorder.writing.splits`); what
follows is the user's, and stays as it is.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from seqrecorder.storage.files import writing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray


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


_HEAD = "shard,index,steps"
_SURROGATES = "surrogatepass"  # as it was written
_LONGEST = 64 << 20
_DIGITS = 18
"""Of the longest numbers that are looked at: all below 2**63."""


def copy_listing(source: Path, target: Path, kept: Mapping[int, NDArray[np.int64] | None]) -> str:
    r"""Write the lines of the records that are left, with their new numbers, and return what is wrong ("" for nothing).

    >>> import tempfile, numpy as np
    >>> from pathlib import Path
    >>> place = Path(tempfile.mkdtemp())
    >>> _ = (place / "old").write_text("shard,index,steps,key\n0,0,5,a\n1,0,2,b\n0,1,7,c\n0,2,1,d\n")
    >>> copy_listing(place / "old", place / "new", {0: np.array([1, 2]), 1: np.array([0])})
    ''
    >>> (place / "new").read_text()
    'shard,index,steps,key\n1,0,2,b\n0,0,7,c\n0,1,1,d\n'

    Args:
        source: the CSV; it is only read.
        target: the file to write.
        kept: by the number of a shard, which of its records are left, ascending; None where that is unknown: then its
            lines are left out.

    Raises:
        ShardWriteError: the disk is full, or failed.
    """
    known = {shard: left for shard, left in kept.items() if left is not None}
    missing = sum(left.size for left in known.values())
    problem = f"the lines of {len(kept) - len(known)} shards are left out" if len(known) < len(kept) else ""
    with writing("write", target), target.open("w", encoding="utf-8", errors=_SURROGATES, newline="") as out:
        try:
            for line in _lines(source):
                changed = _renumbered(line, known)
                out.write(changed)
                missing -= changed != "" and not line.startswith(_HEAD)
        except ValueError as error:
            problem = str(error)
    return problem or (f"it lacks the lines of {missing} records that are there" if missing else "")


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a CSV, of which quoted ones may be several of the file.

    Raises:
        ValueError: the file is no such CSV.
    """
    parts: list[str] = []
    size = is_open = 0
    try:
        with path.open(encoding="utf-8", errors=_SURROGATES, newline="") as file:
            if file.read(len(_HEAD)) != _HEAD:
                raise ValueError(f"its first line does not begin with {_HEAD}")
            file.seek(0)
            while part := file.readline(_LONGEST):
                parts.append(part)
                size += len(part)
                is_open ^= part.count('"') % 2
                if not is_open and part.endswith("\n"):
                    yield "".join(parts)
                    parts, size = [], 0
                if size >= _LONGEST:
                    break
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    if parts:
        raise ValueError("its last line does not end")


def _renumbered(line: str, kept: Mapping[int, NDArray[np.int64]]) -> str:
    """Return the line of a record with its new number; nothing for one that is not left."""
    shard, index, *rest = line.split(",", 2)
    if line.startswith(_HEAD):
        return line
    if not (rest and shard.isdecimal() and index.isdecimal()) or len(index) > _DIGITS:
        raise ValueError(f"the line {line[:40]!r} does not begin with a shard and a number")
    left = kept.get(int(shard[:_DIGITS]))
    if left is None:
        return ""
    number = int(left.searchsorted(int(index)))
    return f"{shard},{number},{rest[0]}" if number < left.size and left[number] == int(index) else ""
