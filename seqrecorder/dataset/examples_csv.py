"""Lines of the `examples.csv` of a split, and their copies after records were removed from the shards.

A line begins with the shard, the index of the record in it, and its steps (see `seqrecorder.writing.splits`). The
columns of the user follow, and are copied unchanged.
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


_END = "\r\n"  # up to Python 3.12, `csv` quotes only those line breaks that are in its own line end


def csv_line(values: Iterable[Any]) -> str:
    r"""Format a line without its end; None becomes an empty text.

    >>> csv_line(["a", 1, None, "b,c", "two\nlines"])
    'a,1,,"b,c","two\nlines"'

    Args:
        values: texts, or objects that `str` converts.

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
_LONGEST = 64 << 20  # characters of a line: a stray quote would join the rest of the file to one line
_DIGITS = 18  # numbers of more digits may exceed int64


def copy_listing(source: Path, target: Path, kept: Mapping[int, NDArray[np.int64] | None]) -> str:
    r"""Copy the lines of the remaining records with their new indices; return a message on problems, or "".

    >>> import tempfile, numpy as np
    >>> from pathlib import Path
    >>> directory = Path(tempfile.mkdtemp())
    >>> _ = (directory / "old").write_text("shard,index,steps,key\n0,0,5,a\n1,0,2,b\n0,1,7,c\n0,2,1,d\n")
    >>> copy_listing(directory / "old", directory / "new", {0: np.array([1, 2]), 1: np.array([0])})
    ''
    >>> (directory / "new").read_text()
    'shard,index,steps,key\n1,0,2,b\n0,0,7,c\n0,1,1,d\n'

    Args:
        source: the CSV; it is only read.
        target: the file to write.
        kept: for the number of each shard, the indices of its remaining records, ascending; None if they are unknown:
            then its lines are left out.

    Raises:
        ShardWriteError: the disk is full, or failed.
    """
    known = {shard: left for shard, left in kept.items() if left is not None}
    missing = sum(left.size for left in known.values())
    problem = f"the lines of {len(kept) - len(known)} shards are left out" if len(known) < len(kept) else ""
    with writing("write", target), target.open("w", encoding="utf-8", errors=_SURROGATES, newline="") as out:
        try:
            for line in _lines(source):
                changed = _renumber(line, known)
                out.write(changed)
                missing -= changed != "" and not line.startswith(_HEAD)
        except ValueError as error:
            problem = str(error)
    return problem or (f"it lacks the lines of {missing} records that are there" if missing else "")


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a CSV; one with quoted line breaks takes several lines of the file.

    Raises:
        ValueError: the file is no `examples.csv`, or damaged.
    """
    pieces: list[str] = []
    size = is_open = 0
    try:
        with path.open(encoding="utf-8", errors=_SURROGATES, newline="") as file:
            if file.read(len(_HEAD)) != _HEAD:
                raise ValueError(f"its first line does not begin with {_HEAD}")
            file.seek(0)
            while piece := file.readline(_LONGEST):
                pieces.append(piece)
                size += len(piece)
                is_open ^= piece.count('"') % 2
                if not is_open and piece.endswith("\n"):
                    yield "".join(pieces)
                    pieces, size = [], 0
                if size >= _LONGEST:
                    break
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    if pieces:
        raise ValueError("its last line does not end")


def _renumber(line: str, kept: Mapping[int, NDArray[np.int64]]) -> str:
    """Set the new index in the line of a record; return an empty text if the record was removed."""
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
