"""Text, line by line, from and to files that may be packed, and from the standard input."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import sys
import zlib
from typing import IO, TYPE_CHECKING, Any

from seqrecorder.errors import DatasetNotFoundError, OptionError, SourceError
from seqrecorder.storage.files import writing
from seqrecorder.storage.paths import local_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
STDIN = "-"
UNPACKING_ERRORS = (EOFError, zlib.error, lzma.LZMAError, OSError)
"""What is raised by a file that is not packed as its name says, or fails."""


def lines_of(path: Any) -> Iterator[tuple[int, str]]:
    r"""Yield the lines of a text in UTF-8 with their numbers, from 1 on, without their ends.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "a.txt"
    >>> _ = file.write_text("one\ntwo\n")
    >>> list(lines_of(file))
    [(1, 'one'), (2, 'two')]

    Args:
        path: of the file, packed where it ends in `.gz`, `.bz2`, `.xz` or `.zst`; `-` is the standard input.

    Raises:
        DatasetNotFoundError: there is no such file.
        SourceError: it is no UTF-8, or not packed as its name says; the line is named.
    """
    number = 0
    with opened_text(path) as text:
        try:
            for line in text:
                number += 1
                yield number, line.rstrip("\n")
        except (UnicodeDecodeError, *UNPACKING_ERRORS) as error:
            raise SourceError(f"{name_of(path)}, after line {number}: {error}") from error


@contextlib.contextmanager
def opened_text(path: Any, encoding: str = "utf-8-sig", newline: str | None = None) -> Iterator[IO[str]]:
    """Give a text that is read; see `lines_of`, and `open` for the encoding and ends of lines.

    Raises:
        DatasetNotFoundError: there is no such file.
    """
    with contextlib.ExitStack() as stack:
        if path == STDIN:
            binary: Any = sys.stdin.buffer
        else:
            file = local_path(path)
            if not file.is_file():
                raise DatasetNotFoundError(f"there is no file {str(path)!r}", path=path)
            binary = stack.enter_context(_open(file, "rb"))
        text = io.TextIOWrapper(binary, encoding=encoding, newline=newline)
        stack.callback(text.detach)  # which would close the standard input
        yield text


def name_of(path: Any) -> str:
    """Return what messages call a file."""
    return "the standard input" if path == STDIN else str(local_path(path))


@contextlib.contextmanager
def replaced_file(path: Any) -> Iterator[Path]:
    """Give the path of a file that takes the place of another one when all of it is written.

    Args:
        path: of the file that is made or replaced.

    Raises:
        ShardWriteError: the disk is full, or failed; what was there stays.
    """
    file = local_path(path)
    # The ending stays, which may tell how it is packed.
    part = file.with_name(f".{os.getpid()}.{file.name}")
    with writing("write", file):
        try:
            yield part
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)


def open_text(path: Path) -> IO[str]:
    """Return a new text file in UTF-8, packed as its ending says."""
    return io.TextIOWrapper(_open(path, "wb"), encoding="utf-8", newline="\n", write_through=False)


def _open(path: Path, mode: str) -> Any:
    ending = path.suffix.lower()
    if ending == ".zst":
        try:
            import pyarrow as pa
        except ImportError:
            raise OptionError(f"{path}: .zst needs pyarrow: pip install pyarrow") from None
        stream = (pa.input_stream if mode == "rb" else pa.output_stream)(str(path), compression="zstd")
        return io.BufferedReader(stream) if mode == "rb" else io.BufferedWriter(stream)
    return _OPENERS[ending](path, mode) if ending in _OPENERS else path.open(mode)
