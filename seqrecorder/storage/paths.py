"""Places of datasets and files: a path as somebody gives it becomes one that means the same for ever."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqrecorder.errors import DatasetNotFoundError, OptionError

if TYPE_CHECKING:
    from collections.abc import Callable

_URL = re.compile("([A-Za-z][A-Za-z0-9+.-]+)://")
_URL_OF_PLACE = re.compile("(?!file:)[A-Za-z][A-Za-z0-9+.-]+://.")
_URL_OF_PATH = re.compile("([A-Za-z][A-Za-z0-9+.-]+):/")  # pathlib makes one slash of two

DIRECTORY = "SEQRECORDER_CACHE"
"""The variable of the environment that says where the cache of datasets at URLs is."""
ORIGIN = ".origin"
"""The file in a directory of the cache that says of which URL it is."""


def local_path(path: Any) -> Path:
    """Return the absolute path of what was given, with `~` for the home directory.

    A relative path is resolved at once, so that it names the same when the program changes its directory. Symbolic
    links stay.

    >>> local_path("/data/corpus").as_posix()
    '/data/corpus'
    >>> local_path("gs://bucket/a.csv")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    seqrecorder.errors.OptionError: 'gs://bucket/a.csv': expected a local path, got a gs URL; copy it here (...

    Args:
        path: a path, as text or a path object.

    Raises:
        OptionError: it is a URL, no path at all, or one that cannot be given to TensorFlow, which takes UTF-8.
    """
    text = _checked(path)
    home = os.path.expanduser(text)  # noqa: PTH111 - whose method raises where there is no home
    if text.startswith("~") and home == text:
        raise OptionError(f"{text!r}: expected a path, got the home directory of an unknown user; write ./{text}")
    return _working_directory(home) / home


def is_same_directory(one: Path, other: Path) -> bool:
    """Whether two paths name one directory, which need not be there."""
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        return one.samefile(other)
    except OSError:
        return False


def is_url(path: object) -> bool:
    """Whether a path is the URL of a place.

    >>> is_url("s3://bucket/corpus"), is_url("/data/corpus"), is_url("file:///data/corpus")
    (True, False, False)
    """
    return isinstance(path, str) and _URL_OF_PLACE.match(path) is not None


def cache_directory() -> Path:
    """Return where the cache is: what `SEQRECORDER_CACHE` says, else in the user's own directory of caches."""
    given = os.environ.get(DIRECTORY)
    return local_path(given or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "seqrecorder")


def origin_of(directory: Path) -> str | None:
    """Return the URL of a dataset whose directory is in the cache; None for every other directory.

    Only the cache is asked, so that no file which came with a dataset makes anybody fetch from elsewhere.
    """
    if directory.parent.parent != cache_directory():
        return None
    try:
        return (directory / ORIGIN).read_text(encoding="utf-8")
    except OSError:
        return None


def natural_order(path: Any) -> list[tuple[bool, int, str]]:
    """Return what sorts paths as people count: `part-2` comes before `part-10`.

    >>> sorted(["b1", "a10", "a2"], key=natural_order)
    ['a2', 'a10', 'b1']
    """
    parts = re.split(r"([0-9]+)", str(path))
    return [(bool(i % 2), int(part) if i % 2 else 0, part) for i, part in enumerate(parts)]


def files_named(path: Any, order: Callable[[Path], Any] | None = None) -> list[Path]:
    """Return the files that a path, a glob or a list of both names.

    Args:
        path: see above.
        order: what the files of a glob are sorted by; None is their names.

    Raises:
        DatasetNotFoundError: one of them names no file.
        OptionError: there is a directory among them, or nothing at all.
    """
    given = list(path) if isinstance(path, Sequence) and not isinstance(path, str) else [path]
    if not given:
        raise OptionError("expected paths of files, got an empty list")
    paths: list[Path] = []
    for item in given:
        one = local_path(item)
        if one.is_file():
            paths.append(one)
            continue
        if one.is_dir():
            raise OptionError(f"{one} is a directory: in a list, name the shards themselves (or a glob)")
        names = glob.glob(local_pattern(item), recursive=True)
        found = [path for path in sorted(map(Path, names), key=order) if path.is_file()]
        if not found:
            raise DatasetNotFoundError(
                f"there is no file {item}" + (" (as a glob)" if glob.has_magic(str(item)) else ""), path=item
            )
        paths += found
    return paths


def local_pattern(path: Any) -> str:
    """Return what to give to `glob.glob` for a path that may be a pattern: as `local_path`, the pattern kept.

    >>> local_pattern("/data/a*.tfrecord")
    '/data/a*.tfrecord'

    Raises:
        OptionError: as for `place`.
    """
    text = _checked(path)
    if text.startswith("~"):
        head, _, rest = text.partition("/")
        return os.path.join(glob.escape(str(local_path(head))), rest)  # noqa: PTH118 - a pattern is no path
    return os.path.join(glob.escape(str(_working_directory(text))), text)  # noqa: PTH118 - as above


def _working_directory(path: str) -> Path:
    """Return where a path begins that is not absolute."""
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        if os.path.isabs(path):  # noqa: PTH117 - it is text
            return Path(os.sep)
        raise OptionError(
            f"{path!r}: the working directory is gone, so that a relative path leads nowhere; give an absolute one"
        ) from error


def _checked(path: Any) -> str:
    try:
        text = os.fsdecode(path)
    except TypeError:
        raise OptionError(f"expected a path, got {path!r}") from None
    url = (_URL if isinstance(path, (str, bytes)) else _URL_OF_PATH).match(text)
    if url:
        raise OptionError(
            f"{text!r}: expected a local path, got a {url[1]} URL; copy it here (`seqrecorder pull`), or mount it"
        )
    if not text:
        raise OptionError("expected a path, got an empty one; write '.' for the working directory")
    if "\0" in text:
        raise OptionError(f"{text!r}: expected a path, got one with a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise OptionError(
            f"{text!r}: expected a path in UTF-8, which is all that TensorFlow opens; rename it"
        ) from None
    return text
