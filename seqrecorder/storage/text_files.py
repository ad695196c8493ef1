"""Text files: lines, UTF-8, compression by suffix, the standard input."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import sys
import zlib
from typing import IO, TYPE_CHECKING, Any

from seqrecorder.errors import (
    DatasetNotFoundError,
    OptionError,
    SourceError,
)
from seqrecorder.storage.files import local_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


STDIN = "-"


UNPACKING_ERRORS = (EOFError, zlib.error, lzma.LZMAError, OSError)
"""Errors of a file that is not compressed as its name says, or cannot be read."""


def lines_of(path: Any) -> Iterator[tuple[int, str]]:
    r"""Yield the lines of a UTF-8 text with their numbers, from 1 on, without line ends.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "a.txt"
    >>> _ = file.write_text("one\ntwo\n")
    >>> list(lines_of(file))
    [(1, 'one'), (2, 'two')]

    Args:
        path: of the file, decompressed if it ends in `.gz`, `.bz2`, `.xz` or `.zst`; `-` is the standard input.

    Raises:
        DatasetNotFoundError: there is no such file.
        SourceError: it is not compressed as its name says; the message names the line. Invalid UTF-8 is left to
            `check_utf8`, so that the other lines can be read.
    """
    number = 0
    with opened_text(path) as text:
        try:
            for line in text:
                number += 1
                yield number, line.rstrip("\n")
        except UNPACKING_ERRORS as error:
            raise SourceError(f"{name_of(path)}, after line {number}: {error}") from error


def check_utf8(text: str, encoding: str = "UTF-8") -> None:
    """Raise `SourceError` for a text with bytes that are invalid in its encoding."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            octets = text[error.start : error.end].encode("utf-8", "surrogateescape")
            raise SourceError(f"expected {encoding}, got the bytes {octets!r} at character {error.start}") from None


@contextlib.contextmanager
def opened_text(path: Any, encoding: str = "utf-8-sig", newline: str | None = None) -> Iterator[IO[str]]:
    """Open a text for reading; see `lines_of` and `check_utf8`, and `open` for `encoding` and `newline`.

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
            binary = stack.enter_context(_open_packed(file, "rb"))
        text = io.TextIOWrapper(binary, encoding=encoding, errors="surrogateescape", newline=newline)
        stack.callback(text.detach)  # else the wrapper closes the standard input
        yield text


def name_of(path: Any) -> str:
    """Return the label of a file, for messages."""
    return "the standard input" if path == STDIN else str(local_path(path))


def open_text(path: Path) -> IO[str]:
    """Create a text file in UTF-8, compressed as its suffix says."""
    return io.TextIOWrapper(_open_packed(path, "wb"), encoding="utf-8", newline="\n", write_through=False)


def _open_packed(path: Path, mode: str) -> Any:
    ending = path.suffix.lower()
    if ending == ".zst":
        try:
            import pyarrow as pa
        except ImportError:
            raise OptionError(f"{path}: .zst needs pyarrow: pip install pyarrow") from None
        stream = (pa.input_stream if mode == "rb" else pa.output_stream)(str(path), compression="zstd")
        return io.BufferedReader(stream) if mode == "rb" else io.BufferedWriter(stream)
    return _OPENERS[ending](path, mode) if ending in _OPENERS else path.open(mode)
