"""Local files: safe names and paths, writing and syncing, digests, lengths of records, and compressed text.

Every operation that changes a file goes through fault points, so that tests can make it fail.
"""

from __future__ import annotations

import bz2
import contextlib
import errno
import functools
import glob
import gzip
import hashlib
import io
import json
import lzma
import mmap
import os
import re
import secrets
import shutil
import stat
import sys
import threading
import time
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, TypeVar, cast

import attrs
import numpy as np

from seqrecorder.errors import (
    DatasetError,
    DatasetNotFoundError,
    ManifestError,
    OptionError,
    ShardReadError,
    ShardWriteError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray


MANIFEST = "manifest.json"
"""File name of the manifest of a dataset, which is written after all other files."""

KEY_INDEX = f".{MANIFEST}.keys"
"""Name of the file with the hashes of all keys, which speeds up appends and can be rebuilt."""

STATISTICS = f".{MANIFEST}.statistics"
"""Name of the file with the stored statistics of a dataset, which can be rebuilt."""

BESIDE_MANIFEST = frozenset((KEY_INDEX, STATISTICS))
"""Names of the files that depend on the manifest."""

ASSETS = "assets"
"""Name of the directory of the user's own files."""

EXAMPLES_CSV = "examples.csv"
"""Name of the CSV file that lists the records of a split, which is written only on request."""

_RECORDS = ".tfrecord"
_LENGTHS = ".lengths"

_NAME_BYTES = 100  # leaves room for "-g0001-00000-of-00008.tfrecord" within the usual limit of 255
_COMPONENT_BYTES = 255  # limit of common file systems

# Characters that look like a slash, a backslash or a dot. U+30CE and U+4E3F do, too, but they are ordinary letters
# of Japanese and Chinese.
_LOOK_ALIKES = frozenset(
    "\u2044\u2215\u29f8\u2571\u27cb\uff0f\u1735"  # slash
    "\u2216\u29f5\u29f9\u2572\u27cd\ufe68\uff3c"  # backslash
    "\u2024\u2025\u2026\ufe52\uff0e"  # dots
    "\u0337\u0338"  # combining slashes
)
_PLAIN = re.compile("[A-Za-z0-9_.-]*")  # such names need no check of each character
_WINDOWS_CHARACTERS = frozenset('<>:"|?*')
# Windows opens a device under these names, whatever the extension, and treats superscript digits as digits.
_WINDOWS_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", "conin$", "conout$"]
    + [f"{port}{digit}" for port in ("com", "lpt") for digit in "0123456789¹²³"]
)
_ORDINARY = re.compile(r"[a-z0-9_]{1,100}-[a-z0-9_-]{1,100}\.tfrecord")  # safe, and fast to match for a million names
_SHARD_TAIL = re.compile(r"(?:-g([0-9]{4,}))?-[0-9]{5,}-of-[0-9]{5,}\.(?:tfrecord|lengths)")
_CSV_TAIL = re.compile(r"(?:-g([0-9]{4,}))?\.csv")
_INVISIBLE = {"Cc": "control", "Cf": "invisible", "Cs": "surrogate", "Zl": "control", "Zp": "control"}


def check_name(name: str, what: str) -> str:
    """Check that a name is safe for a file or directory on every common file system.

    >>> check_name("fold_0", "split")
    'fold_0'
    >>> try:
    ...     check_name("a/b", "split")
    ... except OptionError as error:
    ...     print(str(error).partition(";")[0])
    split 'a/b': expected a plain file name, got one that has a '/'

    Args:
        name: name from the user, or from a user's file.
        what: kind of object, for messages; for `"split"`, names that a dataset reserves are also refused.

    Returns:
        The name, unchanged.

    Raises:
        OptionError: the name is not a plain file name.
    """
    if not isinstance(name, str):
        raise OptionError(f"{what} {name!r}: expected a name as str, got {type(name).__name__}; write str(...) of it")
    # The name of a shard is longer than that of its split.
    problem = next(_problems(name, _COMPONENT_BYTES if what == "shard" else _NAME_BYTES), None)
    if problem is None and name != name.strip():
        problem = "one that begins or ends with white space"
    if problem is None and what == "split" and name.casefold() in (ASSETS, MANIFEST):
        problem = f"the name of a dataset's own {name.casefold()}"
    if problem is not None:
        raise OptionError(
            f"{what} {name!r}: expected a plain file name, got {problem}; use letters, digits, '_', '-' and inner '.'"
        )
    return name


def check_names(names: Iterable[str], what: str) -> tuple[str, ...]:
    """Check that names are safe for files, and that no two of them differ only by case.

    macOS and Windows ignore the case of file names.

    >>> check_names(["train", "eval"], "split")
    ('train', 'eval')

    Args:
        names: the names, in any order.
        what: kind of object, as in `check_name`.

    Returns:
        The names, unchanged.

    Raises:
        OptionError: a name is not a plain file name, or two differ only by case.
    """
    listed = tuple(names)
    ordinary = what == "shard" and all(isinstance(name, str) and _ORDINARY.fullmatch(name) for name in listed)
    if ordinary and len({*listed}) == len(listed):
        return listed  # fast: a dataset may have a million shards
    seen: dict[str, str] = {}
    for name in listed:
        folded = check_name(name, what).casefold()
        if folded in seen:
            raise OptionError(
                f"{what} {name!r}: expected names that differ by more than case,"
                f" got {seen[folded]!r} as well; rename one"
            )
        seen[folded] = name
    return tuple(seen.values())


def shard_name(split: str, index: int, count: int | None, generation: int = 0) -> str:
    """Build the file name of a shard.

    >>> shard_name("train", 0, 8)
    'train-00000-of-00008.tfrecord'
    >>> shard_name("train", 0, 2, generation=1)
    'train-g0001-00000-of-00002.tfrecord'

    Args:
        split: name of the split.
        index: index of the shard, from 0.
        count: number of shards of the split in this generation; None at a URL, where it is not yet known.
        generation: number of earlier appends and overwrites in place; 0 for the first write.

    Returns:
        The name, without a directory.

    Raises:
        OptionError: the name of the split is unsafe, or a number is out of range.
    """
    check_name(split, "split")
    if not 0 <= index < (index + 1 if count is None else count) or generation < 0:
        raise OptionError(
            f"shard of split {split!r}: expected 0 <= index < count and generation >= 0,"
            f" got index={index}, count={count}, generation={generation}"
        )
    infix = f"-g{generation:04d}" if generation else ""
    return f"{split}{infix}-{index:05d}{'' if count is None else f'-of-{count:05d}'}{_RECORDS}"


def examples_name(generation: int = 0) -> str:
    """Build the file name of the CSV that lists the records.

    >>> examples_name(), examples_name(1)
    ('examples.csv', 'examples-g0001.csv')

    Args:
        generation: number of earlier appends and overwrites in place, as in `shard_name`.
    """
    return f"examples-g{generation:04d}.csv" if generation else EXAMPLES_CSV


def generation_of(split: str, file_name: str) -> int | None:
    """Parse the generation from the name of a file in the directory of a split.

    The result is None if it is not the name of a shard, a lengths file or a list of the records.

    >>> generation_of("train", "train-g0001-00000-of-00002.lengths")
    1
    >>> generation_of("train", "examples.csv"), generation_of("train", "notes.txt")
    (0, None)

    Args:
        split: name of the split.
        file_name: file name without directories.
    """
    for stem, pattern in ((split, _SHARD_TAIL), ("examples", _CSV_TAIL)):
        match = pattern.fullmatch(file_name, len(stem)) if file_name.startswith(stem) else None
        if match is not None:
            return int(match[1] or 0)
    return None


def lengths_name(shard_name: str) -> str:
    """Build the file name of the lengths of a shard.

    >>> lengths_name("train-00000-of-00008.tfrecord")
    'train-00000-of-00008.lengths'

    Args:
        shard_name: name from the function `shard_name`, with or without a directory.

    Returns:
        The name with the suffix of lengths files.

    Raises:
        OptionError: the name is not a shard name.
    """
    stem = shard_name.removesuffix(_RECORDS)
    if stem == shard_name or not stem:
        raise OptionError(f"shard {shard_name!r}: expected a name that ends with {_RECORDS!r}")
    return stem + _LENGTHS


def inside(root: Path, relative: str) -> Path:
    """Join a relative path to a root, and check that the result lies inside the root.

    >>> from pathlib import Path
    >>> inside(Path("corpus"), "train/train-00000-of-00001.tfrecord").as_posix()
    'corpus/train/train-00000-of-00001.tfrecord'

    Args:
        root: directory of the dataset; its own path is not checked.
        relative: relative path with forward slashes, as in a manifest.

    Returns:
        The joined path. It need not exist; its symbolic links do not lead out of the root.

    Raises:
        ManifestError: the path leads out of the root, or is not in plain form.
    """
    problem = _escape(root, relative)
    if problem is not None:
        raise ManifestError(
            f"dataset {str(root)!r}: expected a path inside the dataset, got {relative!r}, {problem};"
            f" do not trust its {MANIFEST}, and write the dataset again",
            path=root,
        )
    return root / relative


def is_special(path: Path) -> bool:
    """Check whether a path is a pipe, a device or similar, which might block forever when opened.

    >>> import os
    >>> from pathlib import Path
    >>> is_special(Path(os.devnull)), is_special(Path("no such file"))
    (True, False)
    """
    try:
        mode = path.stat().st_mode  # a single call, since the file may vanish between two
    except (OSError, ValueError):
        return False  # opening it will raise an error with the reason
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _escape(root: Path, relative: object) -> str | None:
    if not isinstance(relative, str):
        return f"a {type(relative).__name__}"
    for component in relative.split("/"):
        problem = next(_problems(component, _COMPONENT_BYTES), None)
        if problem is not None:
            return f"where {component!r} is {problem}"
    try:
        if not (root / relative).resolve().is_relative_to(root.resolve()):
            return "which a symbolic link leads out of it"
        if is_special(root / relative):
            return "which is a pipe or a device"
    except (OSError, RuntimeError):  # a loop of symbolic links: RuntimeError up to Python 3.12
        return "which cannot be resolved"
    return None


def _problems(name: str, limit: int) -> Iterator[str]:
    """Yield the reasons why a name is not a plain component of a path.

    Each reason completes an error message after the word "got". Callers use only the first one.
    """
    if not name:
        yield "an empty one"
    if not _PLAIN.fullmatch(name):
        yield from filter(None, map(_bad_character, name))
    if name.startswith("."):
        yield "one that begins with '.'"
    if name.endswith((".", " ")):
        yield "one that ends with '.' or a space"
    if len(name.encode()) > limit:
        yield f"one of {len(name.encode())} bytes, where {limit} is the limit"
    # File systems normalize Unicode differently, so two spellings of a name could be one file or two.
    if not unicodedata.is_normalized("NFC", name):
        yield "one that is not in Unicode's composed form (NFC)"
    # Windows drops spaces before the extension: "con .txt" is a device too.
    if name.partition(".")[0].rstrip(" ").casefold() in _WINDOWS_DEVICES:
        yield "one that Windows reserves for a device"


def _bad_character(character: str) -> str | None:
    if character in "/\\":
        return f"one that has a {character!r}"
    if character in _WINDOWS_CHARACTERS:
        return f"one that has a {character!r}, which Windows refuses"
    if character in _LOOK_ALIKES:
        return f"one that has a look-alike of a slash or dot, U+{ord(character):04X}"
    kind = _INVISIBLE.get(unicodedata.category(character))
    return None if kind is None else f"one that has the {kind} character U+{ord(character):04X}"


_URL = re.compile("([A-Za-z][A-Za-z0-9+.-]+)://")
_URL_OF_PLACE = re.compile("(?!file:)[A-Za-z][A-Za-z0-9+.-]+://.")
_URL_OF_PATH = re.compile("([A-Za-z][A-Za-z0-9+.-]+):/")  # pathlib collapses double slashes

DIRECTORY = "SEQRECORDER_CACHE"
"""Environment variable with the directory of the cache for datasets at URLs."""
ORIGIN = ".origin"
"""Name of the file with the URL in each directory of the cache."""


def local_path(path: Any) -> Path:
    """Make a path absolute, and expand `~`.

    A relative path is resolved immediately, so a later change of the working directory has no effect. Symbolic links
    are not resolved.

    >>> local_path("/data/corpus").as_posix()
    '/data/corpus'
    >>> local_path("gs://bucket/a.csv")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    seqrecorder.errors.OptionError: 'gs://bucket/a.csv': expected a local path, got a gs URL; copy it here (...

    Args:
        path: path, as text or a path object.

    Raises:
        OptionError: the argument is a URL, is not a path, or is not valid UTF-8, which TensorFlow requires.
    """
    text = _checked(path)
    home = os.path.expanduser(text)  # noqa: PTH111 - pathlib raises if there is no home
    if text.startswith("~") and home == text:
        raise OptionError(f"{text!r}: expected a path, got the home directory of an unknown user; write ./{text}")
    return _working_directory(home) / home


def is_same_directory(one: Path, other: Path) -> bool:
    """Check whether two paths name the same directory, which need not exist."""
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        return one.samefile(other)
    except OSError:
        return False


def is_url(path: object) -> bool:
    """Check whether a path is the URL of a remote dataset.

    >>> is_url("s3://bucket/corpus"), is_url("/data/corpus"), is_url("file:///data/corpus")
    (True, False, False)
    """
    return isinstance(path, str) and _URL_OF_PLACE.match(path) is not None


def cache_directory() -> Path:
    """Return the directory of the cache: `SEQRECORDER_CACHE`, or a subdirectory of the user's cache directory."""
    configured = os.environ.get(DIRECTORY)
    return local_path(configured or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "seqrecorder")


def origin_of(directory: Path) -> str | None:
    """Look up the URL of a dataset whose directory is in the cache.

    The result is None for any other directory, so that a file inside a dataset cannot redirect a reader to another URL.
    """
    if directory.parent.parent != cache_directory():
        return None
    try:
        return (directory / ORIGIN).read_text(encoding="utf-8")
    except OSError:
        return None


def natural_order(path: Any) -> list[tuple[bool, int, str]]:
    """Build a sort key that compares numbers by value, so that `part-2` sorts before `part-10`.

    >>> sorted(["b1", "a10", "a2"], key=natural_order)
    ['a2', 'a10', 'b1']
    """
    pieces = re.split(r"([0-9]+)", str(path))
    return [(bool(i % 2), int(part) if i % 2 else 0, part) for i, part in enumerate(pieces)]


def files_named(path: Any, order: Callable[[Path], Any] | None = None) -> list[Path]:
    """List the files that match a path, a glob, or a list of paths and globs.

    Args:
        path: path, glob, or list of paths and globs.
        order: sort key for the files of a glob; None sorts by name.

    Raises:
        DatasetNotFoundError: a path or glob matches no file.
        OptionError: a path is a directory, or the list is empty.
    """
    items = list(path) if isinstance(path, Sequence) and not isinstance(path, str) else [path]
    if not items:
        raise OptionError("expected paths of files, got an empty list")
    paths: list[Path] = []
    for item in items:
        one = local_path(item)
        if one.is_file():
            paths.append(one)
            continue
        if one.is_dir():
            raise OptionError(f"{one} is a directory: in a list, name the shards themselves (or a glob)")
        names = glob.glob(local_pattern(item), recursive=True)
        matches = [path for path in sorted(map(Path, names), key=order) if path.is_file()]
        if not matches:
            kind = " (as a glob)" if glob.has_magic(str(item)) else ""
            raise DatasetNotFoundError(f"there is no file {item}{kind}", path=item)
        paths += matches
    return paths


def local_pattern(path: Any) -> str:
    """Make a glob pattern absolute for `glob.glob`, as `local_path` does for a path.

    >>> local_pattern("/data/a*.tfrecord")
    '/data/a*.tfrecord'

    Raises:
        OptionError: the pattern is a URL, is not a path, or is not valid UTF-8.
    """
    text = _checked(path)
    if text.startswith("~"):
        head, _, rest = text.partition("/")
        return os.path.join(glob.escape(str(local_path(head))), rest)  # noqa: PTH118 - a pattern is not a path
    return os.path.join(glob.escape(str(_working_directory(text))), text)  # noqa: PTH118 - as above


def _working_directory(path: str) -> Path:
    """Return the directory that relative paths start from."""
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        if os.path.isabs(path):  # noqa: PTH117 - it is text
            return Path(os.sep)
        text = f"{path!r}: expected an absolute path, since the working directory was removed; got a relative one"
        raise OptionError(text) from error


def _checked(path: Any) -> str:
    try:
        text = os.fsdecode(path)
    except TypeError:
        is_data = not isinstance(path, (int, float, type(None)))
        hint = "; records and tables are first written: seqrecorder.write(records, 'corpus')" if is_data else ""
        raise OptionError(f"expected a path, got {path!r:.200}{hint}") from None
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
        raise OptionError(f"{text!r}: expected a path in UTF-8, as TensorFlow opens no other; rename it") from None
    return text


_OPERATIONS = ("mkdir", "lock", "open", "write", "flush", "fsync", "rename", "link", "exchange", "remove")
FAULT_POINTS = tuple(f"{when}_{what}" for what in _OPERATIONS for when in ("before", "after"))
"""Names of the fault points at which a test can make a file operation fail, or kill the process."""

REQUEST_POINTS = tuple(f"{when}_{what}" for what in ("list", "get", "put", "delete") for when in ("before", "after"))
"""Names of the fault points of requests to object stores; a failed request may have taken effect."""
_hook: Callable[[str, str], object] | None = None


def fault_point(name: str, path: str | os.PathLike[str]) -> None:
    """Call the action that a test has set with `on_fault_point`, if any.

    >>> fault_point("before_write", "corpus/train/train-00000-of-00001.tfrecord")

    Args:
        name: one of `FAULT_POINTS` or `REQUEST_POINTS`.
        path: file or directory that is about to change or has just changed.
    """
    if _hook is not None:
        if name not in (*FAULT_POINTS, *REQUEST_POINTS):
            raise LookupError(f"fault point {name!r}: expected one of {FAULT_POINTS}")
        _hook(name, os.fspath(path))


@contextlib.contextmanager
def on_fault_point(action: Callable[[str, str], object]) -> Iterator[None]:
    """Call `action(name, path)` at every fault point inside the block, for tests.

    >>> with on_fault_point(print):
    ...     fault_point("before_write", "x")
    before_write x

    Args:
        action: callback; its errors are raised by the file operation.
    """
    global _hook  # noqa: PLW0603 - one hook for all file operations
    previous, _hook = _hook, action
    try:
        yield
    finally:
        _hook = previous


@contextlib.contextmanager
def faults_around(operation: str, path: str | os.PathLike[str]) -> Iterator[None]:
    """Pass one fault point before and one after the operation in the block.

    >>> with on_fault_point(print), faults_around("flush", "x"):
    ...     pass
    before_flush x
    after_flush x

    Args:
        operation: name of the operation, without the prefixes "before_" and "after_" of `FAULT_POINTS` and
            `REQUEST_POINTS`.
        path: file or directory.
    """
    fault_point(f"before_{operation}", path)
    yield
    fault_point(f"after_{operation}", path)


def take_after(new: Path, old: Path, deputy: str) -> bool:
    """Copy modes and owners from an old directory to a new one, recursively.

    Each file or directory takes those of its counterpart, which has the same relative path in the old directory.
    Without a counterpart, a directory takes those of the old root, and a file takes those of the file `deputy`.

    >>> import tempfile
    >>> from pathlib import Path
    >>> parent = Path(tempfile.mkdtemp())
    >>> for name in ("old", "made"):
    ...     (parent / name).mkdir()
    >>> (parent / "old").chmod(0o700)
    >>> take_after(parent / "made", parent / "old", "manifest.json")
    True
    >>> oct((parent / "made").stat().st_mode)[-3:]
    '700'

    Args:
        new: new directory.
        old: old directory.
        deputy: name of a file in the old directory that is the model for files without a counterpart. If it does not
            exist, these files stay unchanged.

    Returns:
        True if all owners are the same now; changing an owner requires privileges.
    """
    same = True
    # Bottom up, since a directory may become unreadable to us once its mode is set.
    for directory, _, names in os.walk(new, topdown=False):
        inner = os.path.relpath(directory, new)
        for name in names:
            same &= _take(os.path.join(directory, name), [old / inner / name, old / deputy])  # noqa: PTH118 - of os.walk
        same &= _take(directory, [old / inner, old])
    return same


def _take(target: str | int, models: list[Path], directory: int | None = None) -> bool:
    """Copy the mode and the owner of a model to a path or an open file.

    The model is the first of `models` that exists. Nothing is copied if none exists, or if it is of a different type,
    such as a directory. The result is False only if the owners differ afterwards.
    """
    for model in models:
        with contextlib.suppress(OSError):
            wanted = os.stat(model, dir_fd=directory, follow_symlinks=False)
            break
    else:
        return True
    now = os.fstat(target) if isinstance(target, int) else os.lstat(target)
    if stat.S_IFMT(wanted.st_mode) != stat.S_IFMT(now.st_mode):
        return True
    same = (wanted.st_uid, wanted.st_gid) == (now.st_uid, now.st_gid)
    if not same:
        with contextlib.suppress(OSError, AttributeError):  # Windows has no numeric owners
            os.chown(target, wanted.st_uid, wanted.st_gid, follow_symlinks=isinstance(target, int))
            same = True
    if stat.S_IMODE(wanted.st_mode) != stat.S_IMODE(now.st_mode):  # after chown, which clears bits
        os.chmod(target, stat.S_IMODE(wanted.st_mode))  # noqa: PTH101 - as above
    return same


_BLOCK = 1 << 16  # bytes lost around an unreadable one; smaller blocks would slow down the search for records

_open: Any = open  # replaceable, so that tests can make it fail


class PlacedFile:
    """File for concurrent reads at any offset.

    It is closed when the last reference to it is gone.

    Args:
        path: path of the file.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()  # for Windows, which has no `pread`
        self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))

    def read_at(self, start: int, count: int) -> bytes:
        """Read bytes at an offset, or fewer at the end of the file.

        Raises:
            OSError: the bytes cannot be read.
        """
        data = self._read(count, start)
        while data and len(data) < count:  # one call reads at most 2 GiB
            more = self._read(count - len(data), start + len(data))
            if not more:
                break
            data += more
        return data

    def map(self, start: int, count: int) -> memoryview:
        """Map bytes of the file into memory.

        They are read from the file on access. Changes to them stay private.

        Raises:
            OSError: the bytes cannot be mapped.
            ValueError: the file is too short.
        """
        before = start % mmap.ALLOCATIONGRANULARITY
        mapped = mmap.mmap(self._descriptor, before + count, access=mmap.ACCESS_COPY, offset=start - before)
        return memoryview(mapped)[before:]

    def _read(self, count: int, start: int) -> bytes:
        if hasattr(os, "pread"):
            return os.pread(self._descriptor, count, start)
        with self._lock:
            os.lseek(self._descriptor, start, os.SEEK_SET)
            return os.read(self._descriptor, count)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        # `close` is a default argument, since globals may be gone when the interpreter exits.
        descriptor: int | None = getattr(self, "_descriptor", None)
        if descriptor is not None:
            close(descriptor)


def open_source(path: str | os.PathLike[str], *, buffering: int = -1) -> io.BufferedReader:
    """Open a file for reading.

    Args:
        path: path of the file.
        buffering: size of the buffer in bytes, as in `open`; 0 for none, -1 for the default.

    Raises:
        OSError: the file is missing, or cannot be opened.
    """
    source: io.BufferedReader = _open(path, "rb", buffering=buffering)
    return source


def reason_at(path: str | os.PathLike[str], error: OSError) -> str:
    """Format the message of a system error, with the range of the first unreadable bytes, if any.

    >>> reason_at(os.devnull, OSError(5, "Input/output error"))
    'Input/output error'
    """
    reason = error.strerror or str(error)
    try:
        with ReadAround(path) as file:
            while not file.unreadable and file.read(_BLOCK):
                pass
            ranges = file.unreadable
            return f"{reason} in bytes {ranges[0][0]} to {ranges[0][1]}" if ranges else reason
    except OSError:
        return reason


class ReadAround(io.RawIOBase):
    """File that replaces unreadable bytes with zeros.

    >>> with ReadAround(os.devnull) as file:
    ...     file.read(), file.unreadable
    (b'', [])

    Args:
        path: path of the file.

    Attributes:
        size: size in bytes.
        unreadable: ranges of the unreadable bytes, widened to blocks of 64 KiB, in the order in which they were read.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = open_source(path, buffering=0)
        self._offset = 0
        self.size = os.fstat(self._file.fileno()).st_size
        self.unreadable: list[tuple[int, int]] = []
        self._bad: set[int] = set()

    def readinto(self, buffer: Any) -> int:
        """Read up to the end of a block; unreadable bytes become zeros."""
        start = self._offset
        block = start // _BLOCK * _BLOCK
        stop = min(self.size, block + _BLOCK)
        view = memoryview(buffer).cast("B")[: max(0, stop - start)]
        if block not in self._bad:  # a failing disk retries for seconds
            try:
                self._file.seek(start)
                count: int = self._file.readinto(view)
            except OSError:
                self._note(block, stop)
            else:
                self._offset += count
                return count
        view[:] = bytes(len(view))
        self._offset += len(view)
        return len(view)

    def _note(self, block: int, stop: int) -> None:
        self._bad.add(block)
        first = block
        if self.unreadable and self.unreadable[-1][1] == block:
            first, _ = self.unreadable.pop()
        self.unreadable.append((first, stop))

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to an offset."""
        base = (0, self._offset, self.size)[whence]
        self._offset = max(0, base + offset)
        return self._offset

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True: any offset can be read."""
        return True

    def close(self) -> None:
        """Close the file."""
        if hasattr(self, "_file"):  # it is missing if `open` failed, and `__del__` calls `close`, too
            self._file.close()
        super().close()


F = TypeVar("F", bound="Callable[..., Any]")

# File timestamps advance in ticks of 4 ms or more, and a file may change twice in a tick. A second is long enough.
_SETTLED_NS = 1_000_000_000


@attrs.frozen
class FileState:
    """State of a file at one time, by which later changes are detected.

    Results that were computed from the file are valid as long as the state is unchanged. A program can restore the size
    and modification time of a file, but not its change time.

    Attributes:
        path: path of the file.
        status: size, modification and change times in nanoseconds, inode and device.
        is_settled: True if the last change is old enough that another change would get a different timestamp.
    """

    path: Path
    status: tuple[int, ...]
    is_settled: bool = attrs.field(eq=False)

    @classmethod
    def of(cls, path: Path) -> FileState:
        """Read the state of a file.

        Raises:
            ShardReadError: the file is missing, its status cannot be read, or it is not a regular file.
        """
        try:
            status = path.stat()
        except OSError as error:
            raise ShardReadError(f"{path}: cannot be read: {error.strerror}", path=path) from None
        if not stat.S_ISREG(status.st_mode):
            what = "directory" if stat.S_ISDIR(status.st_mode) else "pipe or a device"
            raise ShardReadError(f"{path}: expected a file, got a {what}", path=path)
        # On Windows, `st_ctime` is the creation time.
        changed = status.st_mtime_ns if sys.platform == "win32" else status.st_ctime_ns
        compared = (status.st_size, status.st_mtime_ns, changed, status.st_ino, status.st_dev)
        return cls(path, compared, time.time_ns() - changed > _SETTLED_NS)


def remember(most: int) -> Callable[[F], F]:
    """Build a decorator that caches the results of a function of a path.

    A result is reused while the file is unchanged. If the file was modified moments ago, the result is not cached.

    >>> import os, pathlib
    >>> @remember(most=16)
    ... def count_bytes(path):
    ...     return len(path.read_bytes())
    >>> count_bytes(pathlib.Path(os.__file__)) > 1000
    True

    Args:
        most: maximum number of cached results.
    """

    def decorate(function: F) -> F:
        @functools.lru_cache(maxsize=most)
        def kept(state: FileState, *args: Any) -> Any:
            return function(state.path, *args)

        @functools.wraps(function)
        def ask(path: Path, *args: Any) -> Any:
            state = FileState.of(path)
            return kept(state, *args) if state.is_settled else function(path, *args)

        return cast("F", ask)

    return decorate


fcntl: Any  # missing on Windows; Any, since their contents differ between systems
resource: Any
try:
    import fcntl
    import resource
except ImportError:
    fcntl = resource = None

_BINARY = getattr(os, "O_BINARY", 0)  # Windows


def most_open(most: int) -> int:
    """Cap the requested number of open files at one eighth of the process limit."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if resource is not None else -1
    return most if limit < 0 else max(1, min(most, limit // 8))


REPLACING = ".replacing-"
"""Infix in the name of a file that is about to replace another one; 16 hex digits follow."""

UNSUPPORTED = frozenset([errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP])
"""Errors of calls that the system or file system does not support."""

# EPERM is also raised for a file of another user (`fs.protected_hardlinks` on Linux), EMLINK for too many links.
_NOT_LINKABLE = frozenset([errno.EPERM, errno.EACCES, errno.EXDEV, errno.EMLINK, *UNSUPPORTED])


def error_at(
    kind: type[DatasetError], doing: str, path: str | os.PathLike[str], error: OSError, advice: str = ""
) -> DatasetError:
    """Build a seqrecorder error with the message and errno of an OSError.

    >>> error = error_at(ShardWriteError, "write shard", "x", OSError(errno.EIO, "Input/output error"))
    >>> str(error), error.errno == errno.EIO
    ("cannot write shard 'x': Input/output error", True)

    Args:
        kind: class of the new error.
        doing: failed operation, worded to follow "cannot".
        path: file or directory.
        error: error from the system.
        advice: next step for the user.

    Returns:
        The error, to be raised from `error`.
    """
    reason = error.strerror or str(error) or type(error).__name__
    ours = kind(f"cannot {doing} {os.fspath(path)!r}: {reason}{advice and '; '}{advice}", path=path)
    ours.errno = error.errno
    ours.strerror = reason
    return ours


@contextlib.contextmanager
def writing(doing: str, path: str | os.PathLike[str]) -> Iterator[None]:
    """Convert an OSError in the block to a ShardWriteError that names the file.

    >>> with writing("write shard", "train-00000-of-00001.tfrecord"):
    ...     pass

    Args:
        doing: operation, worded to follow "cannot".
        path: file or directory.

    Raises:
        ShardWriteError: the block raised an OSError.
    """
    try:
        yield
    except DatasetError:
        raise
    except OSError as error:
        raise error_at(ShardWriteError, doing, path, error, advice_on(error.errno)) from error


def advice_on(number: int | None) -> str:
    """Return advice on a failed operation for the end of a message, or an empty string if there is none.

    >>> advice_on(errno.ENOSPC)
    'free some space or write elsewhere'

    Args:
        number: errno of the failure.
    """
    if number in (errno.ENOSPC, errno.EDQUOT):
        return "free some space or write elsewhere"
    if number in (errno.EMFILE, errno.ENFILE):
        limit = f"{resource.getrlimit(resource.RLIMIT_NOFILE)[0]} " if resource is not None else ""
        return (
            f"the limit is {limit}open files per process (`ulimit -n`), or one of the whole system: raise it, close "
            "others, or use fewer `shards` and workers"
        )
    return ""


# Durability


def sync_file(path: str | os.PathLike[str]) -> None:
    """Wait until a file's bytes are on the disk.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     sync_file(file.name)

    Args:
        path: path of the file.

    Raises:
        ShardWriteError: the file cannot be opened or synced.
    """
    with writing("sync", path), _syncable(path) as descriptor:
        _fsync(descriptor, path)


@contextlib.contextmanager
def _syncable(path: str | os.PathLike[str]) -> Iterator[int]:
    # Windows only syncs files that are open for writing.
    descriptor = os.open(path, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def sync_directory(path: str | os.PathLike[str], *, descriptor: int | None = None) -> None:
    """Sync the entries of a directory, and wait until they are on the disk.

    Nothing happens on Windows, or if the file system cannot sync directories.

    >>> sync_directory(".")

    Args:
        path: path of the directory.
        descriptor: descriptor of the directory, which may have been moved; None opens `path`.

    Raises:
        ShardWriteError: the directory cannot be opened or synced.
    """
    if sys.platform == "win32":
        return  # Windows has no such call
    with writing("sync directory", path):
        opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY) if descriptor is None else descriptor
        try:
            _fsync(opened, path)
        except OSError as error:
            # Some network and user-space file systems cannot sync a directory, and order renames themselves.
            if error.errno not in UNSUPPORTED:
                raise
        finally:
            if descriptor is None:
                os.close(opened)


def _fsync(descriptor: int, path: str | os.PathLike[str]) -> None:
    with faults_around("fsync", path):
        # On macOS, fsync leaves the bytes in the cache of the disk.
        full = getattr(fcntl, "F_FULLFSYNC", None)
        if full is None:
            os.fsync(descriptor)
        else:
            fcntl.fcntl(descriptor, full)


def sync_tree(root: str | os.PathLike[str]) -> None:
    """Sync all files and directories of a tree, and wait until they are on the disk.

    The files are synced first, then the directories, bottom up.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     sync_tree(directory)

    Args:
        root: root of the tree; symbolic links in it are not followed.

    Raises:
        ShardWriteError: an entry cannot be listed, opened or synced.
    """

    def fail(error: OSError) -> None:
        raise error

    directories: list[str] = []
    with writing("sync directory", root):
        for directory, _, names in os.walk(root, topdown=False, onerror=fail):
            for name in sorted(names):
                file = os.path.join(directory, name)  # noqa: PTH118 - as os.walk gives it
                if not os.path.islink(file):  # noqa: PTH114 - the same
                    sync_file(file)
            directories.append(directory)
        for directory in directories:
            sync_directory(directory)


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file in an unpublished directory, without waiting until it is on the disk.

    The file is synced when the directory is published.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     write_file(Path(directory, "manifest.json"), b"{}")
    ...     Path(directory, "manifest.json").read_bytes()
    b'{}'

    Args:
        path: path of the file.
        data: contents of the file.

    Raises:
        ShardWriteError: the file could not be written.
    """
    path = Path(path)
    with writing(f"write {len(data):,} bytes to", path):
        fault_point("before_open", path)
        with path.open("wb") as file:
            fault_point("after_open", path)
            with faults_around("write", path):
                file.write(data)
            with faults_around("flush", path):
                file.flush()


def link_file(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Give a second path to a file that never changes, by a hard link.

    If links are not possible, the file is copied.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     write_file(Path(directory, "one"), b"{}")
    ...     link_file(Path(directory, "one"), Path(directory, "other"))
    ...     Path(directory, "other").read_bytes()
    b'{}'

    Args:
        source: path of the file.
        target: second path, which must not exist.

    Raises:
        ShardWriteError: the file can be neither linked nor copied.
    """
    with writing("take over", target), faults_around("link", target):
        try:
            os.link(source, target)
        except OSError as error:
            if error.errno not in _NOT_LINKABLE:
                raise
            shutil.copyfile(source, target)


def replace_file(
    path: str | os.PathLike[str], data: bytes, *, descriptor: int | None = None, like: str | None = None
) -> None:
    """Replace or create a file atomically: readers see either the old bytes or the new ones, even after a crash.

    The new file keeps the mode of the old one, and its owner where permitted. For a published dataset, call this inside
    `exclusive`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     replace_file(Path(directory, "manifest.json"), b"{}")
    ...     Path(directory, "manifest.json").read_bytes()
    b'{}'

    Args:
        path: path of the file.
        data: new contents.
        descriptor: descriptor of the file's directory, which may have been moved; None finds it by `path`.
        like: name of a file in the same directory that is the model for mode and owner if there is no old file.

    Raises:
        ShardWriteError: the file could not be written; the old file is kept.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}{REPLACING}{secrets.token_hex(8)}")
    source, target = (temporary, path) if descriptor is None else (Path(temporary.name), Path(path.name))
    with writing(f"write {len(data):,} bytes to", path):
        try:
            fault_point("before_open", temporary)
            opened = os.open(source, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o666, dir_fd=descriptor)
            with os.fdopen(opened, "wb") as file:
                fault_point("after_open", temporary)
                with contextlib.suppress(OSError, TypeError):  # where permitted, and not on Windows
                    _take(file.fileno(), [target, *([target.with_name(like)] if like else [])], descriptor)
                with faults_around("write", temporary):
                    file.write(data)
                with faults_around("flush", temporary):
                    file.flush()
                _fsync(file.fileno(), temporary)
            with faults_around("rename", path):
                os.replace(source, target, src_dir_fd=descriptor, dst_dir_fd=descriptor)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(source, dir_fd=descriptor)
            raise
        sync_directory(path.parent, descriptor=descriptor)


@contextlib.contextmanager
def replaced_file(path: Any) -> Iterator[Path]:
    """Yield a temporary path, to which the block writes the new contents of `path`.

    The file replaces `path` when the block ends without an error.

    Args:
        path: path of the file to create or replace.

    Raises:
        ShardWriteError: the disk is full or has failed; the old file is kept.
    """
    file = local_path(path)
    # The suffix stays, since it selects the compression.
    part = file.with_name(f".{os.getpid()}-{threading.get_ident()}.{file.name}")
    with writing("write", file):
        try:
            yield part
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)


_PIECE = 1 << 20  # bytes read at a time: larger buffers gain nothing, since hashing is the bottleneck


def sealed(document: dict[str, Any]) -> dict[str, Any]:
    """Append the SHA-256 of a JSON document as its last item.

    Neither whitespace in a file nor the order of items affects the digest.

    >>> sealed({"a": 1})["sha256"][:8]
    'f9d86028'
    """
    text = json.dumps(document, sort_keys=True)
    return {**document, "sha256": hashlib.sha256(text.encode()).hexdigest()}


def unsealed(document: Any) -> dict[str, Any]:
    """Check the seal of a document, and return the document without the seal.

    Raises:
        ValueError: the document is not sealed, or has changed.
    """
    if isinstance(document, dict) and "sha256" in document:
        contents = {name: value for name, value in document.items() if name != "sha256"}
        if document == sealed(contents):
            return contents
    raise ValueError("its contents do not match its sha256: it was changed, or truncated")


class FileDigest:
    """SHA-256 of a file, computed while the file is still growing.

    Threads hash the file in passes. Each pass reads the bytes that were appended since the last one. They are read back
    from the file, so the digest covers what other readers see. Each pass also syncs the file to disk. The system
    reports a failed sync only once, so the error is stored for the writer.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory, "shard")
    ...     digest = FileDigest(path)
    ...     with path.open("wb") as file:
    ...         for count in range(1, 10):
    ...             _ = file.write(bytes(1 << 20))
    ...             digest.follow(count << 20)
    ...     digest.finish()[:8]
    'd2ee4703'

    Args:
        path: path of the file.
        step: number of bytes between two passes; each pass starts a thread.
    """

    def __init__(self, path: str | os.PathLike[str], *, step: int = 8 << 20) -> None:
        self._path, self._step = Path(path), step
        self._state = hashlib.sha256()
        self._read = self._followed = 0
        self._thread: threading.Thread | None = None
        self._failure: OSError | None = None

    def follow(self, written: int) -> None:
        """Start the next pass if it is due.

        A pass hashes the bytes that were written since the last pass. It is due if there are at least `step` of them,
        and if the last pass has ended.

        Args:
            written: approximate number of bytes written so far.

        Raises:
            ShardWriteError: earlier bytes did not reach the disk.
        """
        self._check()
        if written - self._followed < self._step or (self._thread is not None and self._thread.is_alive()):
            return
        self._followed = written
        thread = threading.Thread(target=self._pass, name="seqrecorder-digest", daemon=True)
        with contextlib.suppress(RuntimeError):  # no thread can start at exit, so `finish` hashes the rest
            thread.start()
            self._thread = thread

    def _pass(self) -> None:
        with contextlib.suppress(OSError):  # `finish` raises it again
            self._read_on()
        try:
            with _syncable(self._path) as descriptor:
                os.fsync(descriptor)
        except FileNotFoundError:  # `finish` raises it, too
            return
        except OSError as error:
            self._failure = error

    def _read_on(self) -> None:
        piece = memoryview(mmap.mmap(-1, _PIECE))  # not from the arena of this thread, which would keep it
        with open_source(self._path, buffering=0) as file:
            file.seek(self._read)
            while size := file.readinto(piece):
                self._state.update(piece[:size])
                self._read += size

    def _check(self) -> None:
        if self._failure is not None:
            with writing("sync", self._path):
                raise self._failure

    def finish(self) -> str:
        """Hash the rest of the file, which must be complete, and return the digest.

        The digest has 64 hexadecimal digits.

        Raises:
            ShardReadError: the file is missing or cannot be read.
            ShardWriteError: earlier bytes did not reach the disk.
        """
        self.wait()
        self._check()
        try:
            self._read_on()
        except OSError as error:
            error.strerror = reason_at(self._path, error)
            raise error_at(ShardReadError, "read", self._path, error, "restore it from a copy") from error
        return self._state.hexdigest()

    def wait(self) -> None:
        """Wait until the thread has stopped reading the file."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None


def sha256(path: str | os.PathLike[str]) -> str:
    """Compute the SHA-256 of a file.

    The file is read in pieces, so it may be larger than the memory.

    >>> import os
    >>> sha256(os.devnull)[:8]
    'e3b0c442'

    Args:
        path: path of the file.

    Returns:
        64 hexadecimal digits.

    Raises:
        ShardReadError: the file is missing or cannot be read.
    """
    return FileDigest(path).finish()


def has_digest(path: Path, digest: str) -> bool:
    """Check whether a file exists, can be read and has this SHA-256."""
    try:
        FileState.of(path)  # raises an error for pipes, which would block
        return sha256(path) == digest
    except ShardReadError:
        return False


_LENGTH_BYTES = 8  # size of a length
_NOT_AS_WRITTEN = "its SHA-256 is not the manifest's, so the lengths are not those that were written"


def read_lengths(path: Path, groups: int, records: int, digest: str | None = None) -> NDArray[np.int64]:
    """Read the lengths file of a shard as an int64 array of shape `(records, groups)`.

    Args:
        path: path of the lengths file.
        groups: number of columns.
        records: number of rows.
        digest: expected SHA-256, in hexadecimal; None to skip the check.

    Raises:
        ShardReadError: the file is missing, has a different size, or has changed since it was written.
    """
    expected = records * groups * _LENGTH_BYTES
    try:
        size, data = path.stat().st_size, None
        if size == expected:  # refuses pipes, which would block
            with open_source(path, buffering=0) as file:
                data = bytearray(file.read())
    except OSError as error:
        raise _lengths_error(path, f"the lengths of a shard cannot be read: {reason_at(path, error)}") from error
    if data is None or len(data) != expected:
        raise _lengths_error(path, f"expected {records} rows of {groups} lengths, got {size} bytes")
    if digest is not None and hashlib.sha256(data).hexdigest() != digest:
        raise _lengths_error(path, _NOT_AS_WRITTEN)
    return np.frombuffer(data, "<i8").reshape(records, groups)


def check_lengths(path: Path, digest: str) -> None:
    """Raise `ShardReadError` unless a lengths file has this SHA-256.

    The digest of the file is cached until the file changes.
    """
    try:
        actual = _digest(path)
    except ShardReadError as error:
        raise _lengths_error(path, f"the lengths of a shard: {error.message}") from error
    if actual != digest:
        raise _lengths_error(path, _NOT_AS_WRITTEN)


_digest = remember(most=1 << 16)(sha256)


def _lengths_error(path: Path, message: str) -> ShardReadError:
    dataset = path.parent.parent
    return ShardReadError(
        f"{path}: {message}; `seqrecorder verify {dataset}` says what else is damaged, `seqrecorder salvage` works the "
        "lengths out anew",
        path=path,
    )


_OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


def open_text(path: Path) -> IO[str]:
    """Create a text file in UTF-8, with the compression that its suffix selects."""
    return io.TextIOWrapper(open_packed(path, "wb"), encoding="utf-8", newline="\n", write_through=False)


def open_packed(path: Path, mode: str) -> Any:
    """Open a file, with the compression that its suffix selects.

    The mode is `rb` or `wb`, as for `open`.
    """
    ending = path.suffix.lower()
    if ending == ".zst":
        try:
            import pyarrow as pa
        except ImportError:
            raise OptionError(f"{path}: .zst needs pyarrow: pip install pyarrow") from None
        stream = (pa.input_stream if mode == "rb" else pa.output_stream)(str(path), compression="zstd")
        return io.BufferedReader(stream) if mode == "rb" else io.BufferedWriter(stream)
    return _OPENERS[ending](path, mode) if ending in _OPENERS else path.open(mode)


Compression = Literal["GZIP"] | None


def check_compression(compression: str | None) -> Compression:
    """Normalize a compression to None or `GZIP`; raise `OptionError` if it is neither."""
    if compression in (None, "", "NONE"):
        return None
    if isinstance(compression, str) and compression.upper() == "GZIP":
        return "GZIP"
    raise OptionError(f"compression: expected None or 'GZIP', got {compression!r}")
