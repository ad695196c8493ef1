"""Names of files and directories inside a dataset.

Names come from arguments, CSV files and manifests that others wrote, so none is trusted: a name is one plain
component that every common file system stores as it is, and a path never leaves the dataset's directory.
"""

from __future__ import annotations

import glob
import os
import re
import stat
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqrecorder.errors import DatasetNotFoundError, ManifestError, OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


MANIFEST = "manifest.json"
"""What a dataset contains; written last."""

KEY_INDEX = f".{MANIFEST}.keys"
"""The hashes of all keys, beside the manifest of a dataset that was appended to; it can be made again."""

STATISTICS = f".{MANIFEST}.statistics"
"""What is known of the values of the records; it can be made again."""

BESIDE_MANIFEST = frozenset((KEY_INDEX, STATISTICS))
"""What belongs to a manifest and is nothing without it."""

ASSETS = "assets"
"""The directory of the user's own files."""

EXAMPLES_CSV = "examples.csv"
"""What went where, one file for each split, when asked for."""

_RECORDS = ".tfrecord"
_LENGTHS = ".lengths"

_NAME_BYTES = 100  # leaves room for "-g0001-00000-of-00008.tfrecord" within the usual limit of 255
_COMPONENT_BYTES = 255

# Characters that are drawn as a slash, a backslash or a dot. U+30CE and U+4E3F look alike as well, but are
# ordinary letters of Japanese and Chinese words.
_LOOK_ALIKES = frozenset(
    "\u2044\u2215\u29f8\u2571\u27cb\uff0f\u1735"  # slash
    "\u2216\u29f5\u29f9\u2572\u27cd\ufe68\uff3c"  # backslash
    "\u2024\u2025\u2026\ufe52\uff0e"  # dots
    "\u0337\u0338"  # combining slashes
)
_PLAIN = re.compile("[A-Za-z0-9_.-]*")  # what no character is looked up of
_WINDOWS_CHARACTERS = frozenset('<>:"|?*')
# Windows opens a device under these names, whatever the extension; it takes superscript digits for digits.
_WINDOWS_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", "conin$", "conout$"]
    + [f"{port}{digit}" for port in ("com", "lpt") for digit in "0123456789¹²³"]
)
_SHARD_TAIL = re.compile(r"(?:-g([0-9]{4,}))?-[0-9]{5,}-of-[0-9]{5,}\.(?:tfrecord|lengths)")
_CSV_TAIL = re.compile(r"(?:-g([0-9]{4,}))?\.csv")
_INVISIBLE = {"Cc": "control", "Cf": "invisible", "Cs": "surrogate", "Zl": "control", "Zp": "control"}


def check_name(name: str, what: str) -> str:
    """Return `name` if it is safe as the name of one file or directory on every common file system.

    >>> check_name("fold_0", "split")
    'fold_0'
    >>> try:
    ...     check_name("a/b", "split")
    ... except OptionError as error:
    ...     print(str(error).partition(";")[0])
    split 'a/b': expected a plain file name, got one that has a '/'

    Args:
        name: what the user, or a file of the user, called it.
        what: what is named; `"split"` also refuses the names that a dataset needs for itself.

    Returns:
        The name, unchanged.

    Raises:
        OptionError: the name is no plain file name.
    """
    if not isinstance(name, str):
        raise OptionError(f"{what} {name!r}: expected a name as str, got {type(name).__name__}; write str(...) of it")
    # The name of a shard is longer than that of its split.
    problem = _problem(name, _COMPONENT_BYTES if what == "shard" else _NAME_BYTES)
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
    """Check each name, and that no two are one file where case does not count (macOS, Windows).

    >>> check_names(["train", "eval"], "split")
    ('train', 'eval')

    Args:
        names: the names, in any order.
        what: what is named, as in `check_name`.

    Returns:
        The names, unchanged.

    Raises:
        OptionError: a name is no plain file name, or two are alike.
    """
    given = tuple(names)
    if what == "shard" and _are_plain(given):
        return given
    seen: dict[str, str] = {}
    for name in given:
        folded = check_name(name, what).casefold()
        if folded in seen:
            raise OptionError(
                f"{what} {name!r}: expected names that differ by more than case,"
                f" got {seen[folded]!r} as well; rename one"
            )
        seen[folded] = name
    return tuple(seen.values())


def _are_plain(names: Sequence[str]) -> bool:
    """Return whether names are certain to be plain ones that differ; of shards there are many, looked at together."""
    if set(map(type, names)) - {str} or max(map(len, names), default=0) > _COMPONENT_BYTES:
        return False
    together = "/".join([*names, ""])
    folded = together.casefold()
    starts = {start.casefold() for start in {name[:3] for name in names}}
    return (
        together.isascii()
        and not folded.encode().translate(None, b"abcdefghijklmnopqrstuvwxyz0123456789_.-/")
        and not starts.intersection(device[:3] for device in _WINDOWS_DEVICES)
        and not any(start.startswith(".") for start in starts)
        and "./" not in folded
        and "" not in starts
        and together.count("/") == len(names)
        and len({*names} if folded == together else {*folded.split("/")} - {""}) == len(names)
    )


def shard_name(split: str, index: int, count: int | None, generation: int = 0) -> str:
    """Return the file name of one shard.

    >>> shard_name("train", 0, 8)
    'train-00000-of-00008.tfrecord'
    >>> shard_name("train", 0, 2, generation=1)
    'train-g0001-00000-of-00002.tfrecord'

    Args:
        split: name of the split.
        index: number of the shard, from 0.
        count: how many shards its generation of the split has; None at a URL, where that is not known yet.
        generation: 0 for what was written first, then one more for each append or overwrite in place.

    Returns:
        The name, without its directory.

    Raises:
        OptionError: the split's name is not safe, or a number is out of range.
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
    """Return the file name of the CSV of what went where.

    >>> examples_name(), examples_name(1)
    ('examples.csv', 'examples-g0001.csv')

    Args:
        generation: as for `shard_name`.
    """
    return f"examples-g{generation:04d}.csv" if generation else EXAMPLES_CSV


def generation_of(split: str, file_name: str) -> int | None:
    """Return the generation of a file in a split's directory, or None for a name that no dataset gives.

    >>> generation_of("train", "train-g0001-00000-of-00002.lengths")
    1
    >>> generation_of("train", "examples.csv"), generation_of("train", "notes.txt")
    (0, None)

    Args:
        split: name of the split.
        file_name: without directories.
    """
    for stem, pattern in ((split, _SHARD_TAIL), ("examples", _CSV_TAIL)):
        match = pattern.fullmatch(file_name, len(stem)) if file_name.startswith(stem) else None
        if match is not None:
            return int(match[1] or 0)
    return None


def shard_index(shard_name: str) -> int:
    """Return which of the shards of its generation a shard is.

    >>> shard_index("train-g0001-00003-of-00008.tfrecord")
    3

    Args:
        shard_name: what the function `shard_name` gave.
    """
    return int(shard_name.rpartition("-of-")[0].rpartition("-")[2])


def lengths_name(shard_name: str) -> str:
    """Return the file name of the lengths beside a shard.

    >>> lengths_name("train-00000-of-00008.tfrecord")
    'train-00000-of-00008.lengths'

    Args:
        shard_name: what the function `shard_name` gave, with or without directories before it.

    Returns:
        The same stem with the ending of the lengths.

    Raises:
        OptionError: it is not the name of a shard.
    """
    stem = shard_name.removesuffix(_RECORDS)
    if stem == shard_name or not stem:
        raise OptionError(f"shard {shard_name!r}: expected a name that ends with {_RECORDS!r}")
    return stem + _LENGTHS


def inside(root: Path, relative: str) -> Path:
    """Return `root / relative`, which is certain to lie inside root.

    >>> from pathlib import Path
    >>> inside(Path("corpus"), "train/train-00000-of-00001.tfrecord").as_posix()
    'corpus/train/train-00000-of-00001.tfrecord'

    Args:
        root: the dataset's directory; its own name and parents are the caller's and are not checked.
        relative: a path with forward slashes, as manifests have it.

    Returns:
        The joined path. It need not exist; symbolic links in it that exist stay inside root.

    Raises:
        ManifestError: the path would leave root, or is not spelled plainly.
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
    """Return whether a path is neither a file nor a directory, so that opening it could wait for ever.

    >>> import os
    >>> from pathlib import Path
    >>> is_special(Path(os.devnull)), is_special(Path("no such file"))
    (True, False)
    """
    try:
        mode = path.stat().st_mode  # asked once: a file may vanish between two questions
    except (OSError, ValueError):
        return False  # whoever opens it is told why
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _escape(root: Path, relative: object) -> str | None:
    if not isinstance(relative, str):
        return f"a {type(relative).__name__}"
    for component in relative.split("/"):
        problem = _problem(component, _COMPONENT_BYTES)
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


def _problem(name: str, limit: int) -> str | None:
    """Say what keeps a name from being one plain component, in words that follow "got"."""
    return next(_problems(name, limit), None)


def _problems(name: str, limit: int) -> Iterator[str]:
    # Only the first is ever asked for: what follows may rely on it.
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
    # File systems differ in the form that they keep, so two spellings of one name could be one file or two.
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
