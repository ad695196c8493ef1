"""An input function run twice, as it was and as it became, on the same made-up records. Runs in a process of its own.

The functions are the user's code, and run as such, in an empty directory.
"""

from __future__ import annotations

import ast
import itertools
import json
import math
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.legacy.migrate.normalize.python2 import as_python3
from seqrecorder.legacy.migrate.verify.call import MOST, Callee
from seqrecorder.legacy.migrate.verify.capture import nearest
from seqrecorder.legacy.migrate.verify.coverage import in_words, lines_left
from seqrecorder.legacy.migrate.verify.definitions import large_sizes, long_loops
from seqrecorder.legacy.migrate.verify.equality import brief, compare
from seqrecorder.legacy.migrate.verify.fixed_random import held_still
from seqrecorder.legacy.migrate.verify.modules import Version, roots
from seqrecorder.legacy.migrate.verify.pictures import write_lists, write_pictures
from seqrecorder.legacy.migrate.verify.records import watched, write_file
from seqrecorder.legacy.migrate.verify.refusals import CannotTryError, ForeignFileError, NoBatchError
from seqrecorder.legacy.migrate.verify.sessions import graph
from seqrecorder.legacy.migrate.verify.stand_ins import StandIn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from seqrecorder.legacy.migrate.verify.records import Asked

_RECORDS = (6, 6)  # in each of two files: with two epochs, and batches of three, nothing is left over
_OFTEN = 20  # times that a record comes on average, where that is left to chance
_ALONE = 7  # in a single file: there something is
_WAYS = 6  # to call a function that fails when it runs
_PATIENCE = 20.0  # seconds of a processor for batches that may be made smaller
_SECONDS = 60.0  # for the positions of a function's switches
_ROUNDS = 20  # of long loops
_LENGTHS = 5  # of records that are tried
_LONGER = 11  # steps that records have at least where fewer are too few


class _NewFailsError(AssertionError):
    """The new function fails, for what it makes of its batches perhaps."""


def main(arguments: list[str]) -> int:
    """Try the functions that a file of JSON names, and write what was found beside it."""
    [place] = arguments
    given = json.loads(Path(place).read_text(encoding="utf-8"))
    sys.argv = ["script.py"]
    found: dict[str, list[str]] = {}
    ran: dict[str, set[int]] = {}
    trees = ast.parse(as_python3(given["old"])), ast.parse(as_python3(given["new"]))
    sys.path += roots(trees[0], Path(given["directory"]))
    for name in given["functions"]:
        with tempfile.TemporaryDirectory() as directory:
            inside = Path(directory, *"abc")  # functions may name files of their own, and `../` before them
            inside.mkdir(parents=True)
            os.chdir(inside)
            os.environ["HOME"] = directory
            try:
                said, ran[name] = compared(given, name, inside)
                found[name] = ["equal", said]
            except CannotTryError as why:
                found[name] = ["unverified", str(why)]
            except AssertionError as difference:
                found[name] = ["differs", str(difference)]
            except Exception as error:  # noqa: BLE001 - of what was made up for the user's code
                found[name] = ["unverified", f"it cannot be tried: {brief(error)}"]
            finally:
                os.chdir(given["directory"])
        _write_down(trees, found, ran, Path(place).with_suffix(".found"))
    return 0


def _write_down(
    trees: tuple[ast.Module, ast.Module], found: dict[str, list[str]], ran: dict[str, set[int]], place: Path
) -> None:
    """Write what was found so far: functions behind it may take too long."""
    found = {**found}
    for name, lines in ran.items():
        left = [
            line for line in lines_left(trees[0], trees[1], lines) if not any(line in others for others in ran.values())
        ]
        if left:
            found[name] = ["partly", f"{found[name][1]}; not tried: {in_words(left)}"]
    place.with_suffix(".part").write_text(json.dumps(found), encoding="utf-8")
    place.with_suffix(".part").replace(place)


def compared(given: Mapping[str, Any], name: str, directory: Path) -> tuple[str, set[int]]:
    """Run a function of two scripts, as `verify.tried` is given them, on the same records.

    Returns:
        In words how they were found to be equal, and which lines of the old script ran for that.

    Raises:
        AssertionError: they are not; the message says how.
        CannotTryError: it cannot be told.
    """
    import tensorflow as tf

    old, new, target, others = (given[key] for key in ("old", "new", "target", "others"))
    if target == "graph":
        tf.compat.v1.disable_v2_behavior()
    tree = ast.parse(as_python3(old))
    literals: dict[Any, Any] = dict.fromkeys(long_loops(tree), _ROUNDS)
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    while True:
        place = Path(given["directory"])
        versions = [Version({} if others else None, tree, place), Version(others or None, tree, place)]
        before = Callee(old, name, "graph", literals, other=new, version=versions[0], old=True)
        after = Callee(new, name, target, literals, other=old, version=versions[1], old=False)
        try:
            if lacking := {*given["needed"]} - versions[1].replaced:
                raise CannotTryError(f"it cannot import {min(lacking)}, which is rewritten together with it")
            before.seconds = math.inf if large_sizes(tree).keys() <= literals.keys() else _PATIENCE
            return _compared(before, after, directory)
        except ForeignFileError as error:
            left = texts - {*literals}
            parts = [text for text in left if text.count("/") > 1 and error.path.startswith(_start(text))]
            if not parts and error.path not in left:
                raise
            part = max([*parts, *({error.path} & left)], key=len)
            open_end = part[len(_start(part)) :]
            literals[part] = str(directory / f"foreign-{len(literals)}") + (open_end or "/" * part.endswith("/"))
        except NoBatchError:
            if not (large := {size: small for size, small in large_sizes(tree).items() if size not in literals}):
                raise
            literals |= large


def _start(text: str) -> str:
    """Return a text as far as nothing is put into it, and it is no pattern."""
    return re.split(r"[%{*?[]", text)[0]


def _compared(before: Callee, after: Callee, directory: Path) -> tuple[str, set[int]]:
    said: list[str] = []
    ran: set[int] = set()
    with held_still() as drawn:
        problem: CannotTryError | None = None
        paths: list[Path] = []
        values: dict[str, Any] = {}
        for files, labels in ((1, False), (2, False), (1, True)):
            if labels and (said or not StandIn.opened):
                break
            paths = [directory / f"records-{number}{before.ending}" for number in range(files)]
            write_pictures(directory)
            write_lists(paths, labels=labels)
            try:
                found, values = _first(before, after, paths, again=bool(said), labels=labels)
            except ForeignFileError:
                raise
            except CannotTryError as why:
                problem = why
                continue  # one file is too few for some
            if not found:
                break
            said.append(found)
            ran |= before.ran
        if not said:
            raise problem or CannotTryError("nothing to try")
        started = time.monotonic()
        left = set(lines_left(before.tree, after.tree, ran))
        for how, others, asked in before.others(values, left):
            covered = how.startswith(".") and not left & set(lines_left(before.tree, after.tree, ran))
            if covered or time.monotonic() > started + _SECONDS:
                break
            found, more = _compared_otherwise(before, after, others, asked, _own_files(asked, paths) or paths)
            ran |= more
            said.append(f"with {how}: {found}")
    said += ["with random numbers held still"] if drawn else []
    said += [f"with stand-ins for {', '.join(before.absent)}"] if before.absent else []
    said += [f"without {', '.join(sorted(before.failed))}, which fails"] if before.failed else []
    return "; ".join(said), ran


def _compared_otherwise(
    before: Callee, after: Callee, values: dict[str, Any], asked: Asked, paths: list[Path]
) -> tuple[str, set[int]]:
    """Return what arguments besides the first give, in words, and the lines that ran and gave what they gave before."""
    try:
        return _compared_once(before, after, values, asked, paths), before.ran
    except CannotTryError as why:
        return f"not tried, {why}", set()


def _first(
    before: Callee, after: Callee, paths: list[Path], *, again: bool, labels: bool
) -> tuple[str, dict[str, Any]]:
    """Return what the first arguments give with which the old function runs, in words, and those.

    Args:
        before: the old function.
        after: the new one.
        paths: of files that it may read.
        again: whether it was tried with other files, so that nothing is said of one that would read the same.
        labels: what the files hold before their format is known (see `pictures.write_lists`).
    """
    first: CannotTryError | None = None
    ways = before.arguments(paths)
    for _ in range(_WAYS):
        try:
            values, asked = next(ways)
            after.like(before)
            own = _own_files(asked, paths)
            if again and (own or not any(isinstance(value, list) for value in values.values())):
                return "", values
            return _compared_once(before, after, values, asked, own or paths), values
        except StopIteration:
            break
        except ForeignFileError:
            raise
        except CannotTryError as why:
            first = first or why
            write_lists(paths, labels=labels)
    raise first or CannotTryError("nothing to try")


def _own_files(asked: Asked, paths: list[Path]) -> list[Path]:
    """Return the files that a function names itself."""
    return [Path(name) for name in asked.files if name not in map(str, paths)]


def _compared_once(before: Callee, after: Callee, values: dict[str, Any], asked: Asked, paths: list[Path]) -> str:
    """Run both functions on the same files, and return in words how they were found to be equal."""
    if before.kept:
        _agree(before, after, values)
    before.at = after.at = 0
    said = [_compared_there(before, after, values, asked, paths)]
    for at in range(1, len(before.groups)):
        before.at = after.at = at  # each on its own: which comes with which is chance
        said.append(_compared_there(before, after, values, asked, paths))
    return ", then ".join(said)


def _agree(before: Callee, after: Callee, values: dict[str, Any]) -> None:
    """Settle which names hold the batches: those that hold what hangs on the records in both."""
    kept, failed = before.kept, before.failed
    try:
        with watched(), graph():
            after.call(values)
    except Exception as error:
        raise _NewFailsError(f"the new function fails: {brief(error)}") from error
    assert after.failed <= failed, f"the new function fails: {min(after.failed - failed)}"  # noqa: S101
    before.common = after.common = nearest({name: items for name, items in after.kept.items() if name in kept})
    if not before.common:
        raise CannotTryError("no name has the records both before and after")


def _compared_there(before: Callee, after: Callee, values: dict[str, Any], asked: Asked, paths: list[Path]) -> str:
    """Run both functions on the same files, and return in words how they were found to be equal."""
    old, shuffled, counts = _of_old(before, values, asked, paths)
    if not any(np.size(part) for batch in old for part in batch):
        raise NoBatchError("the old function gives no batch")
    if before.by_chance:
        raise CannotTryError("what its batches hold is left to chance")
    records, most = sum(count for _, count in zip(paths, itertools.cycle(counts), strict=False)), MOST
    if shuffled and len(old) == MOST:  # endless: so many that each record comes
        most = MOST + _OFTEN * records // max(np.shape(old[0][0])[:1] or (1,))
        old, _ = before.batches(values, most)
    after.groups = before.groups
    try:
        new, _ = after.batches(values, most)
    except Exception as error:
        raise _NewFailsError(f"the new function fails: {brief(error)}") from error
    _compare_structures(before, after)
    try:
        return compare(old, new, ordered=not shuffled, records=records, most=most)
    except AssertionError:
        if not shuffled:
            raise
        return _repeated(before, values, (old, new), records=records, most=most)


def _of_old(
    before: Callee, values: dict[str, Any], asked: Asked, paths: list[Path]
) -> tuple[list[Any], bool, tuple[int, ...]]:
    """Write files that the old function can read; return its batches, whether chance orders them, and the counts."""
    import tensorflow as tf

    counts = _RECORDS if len(paths) > 1 else (_ALONE,)
    least = 1
    old, shuffled = list[Any](), False
    try:
        for left in reversed(range(_LENGTHS)):
            _write(paths, asked, counts, least)
            try:
                old, shuffled = before.batches(values)
            except tf.errors.NotFoundError as error:
                if not left or not _made(str(error), asked):
                    raise
            except tf.errors.InvalidArgumentError as error:  # some functions need longer records, or say how long
                if not (asked.told(str(error)) or least == 1) or not left:
                    raise
                least, asked.large = _LONGER, True
            else:
                break
        if shuffled and len(paths) == 1:  # which records a last batch that is dropped would have had is chance then
            counts = _RECORDS[:1]
            _write(paths, asked, counts, least)
            old, shuffled = before.batches(values)
    except (ForeignFileError, NoBatchError):
        raise
    except Exception as error:
        raise CannotTryError(f"the old function fails: {brief(error)}") from error
    return old, shuffled, counts


def _made(error: str, asked: Asked) -> bool:
    """Let a directory in which an error lacks a picture have all; return whether it did not, and is of the trial."""
    missing = re.search(r"(\S+); No such file", error)
    if missing is None or not asked.whole_files:
        return False
    place, known = Path(missing[1]).parent.resolve(), len(asked.places)
    if not place.is_relative_to(Path.cwd().resolve().parents[2]):
        raise ForeignFileError(missing[1])
    asked.places.add(place)
    return len(asked.places) > known


def _repeated(before: Callee, values: dict[str, Any], found: tuple[list[Any], ...], *, records: int, most: int) -> str:
    """Compare batches on the axis on which the old function has its records; some have steps before those."""
    # Of several runs one may agree by luck, where chance pairs the records of two queues.
    runs = [list[Any]()] if before.divided else [before.batches(values, most)[0] for _ in range(3)]
    for axis in (0, 1):
        try:
            for again in runs:
                compare(found[0], again, ordered=False, records=records, most=most, axis=axis)
        except (AssertionError, IndexError):  # threads do other things, or it gives others again, or has no such axis
            continue
        return compare(*found, ordered=False, records=records, most=most, axis=axis)
    raise CannotTryError("what its batches hold is left to chance")


def _compare_structures(before: Callee, after: Callee) -> None:
    """Raise where the batches are put together in another way; a dataset has tuples for lists."""
    if before.kept:
        return  # what the attributes of an object, or the names of a module, hold besides may differ
    old, new = (said.structure.replace("[", "(").replace("]", ")") for said in (before, after))
    alike = old.count(".") == new.count(".")  # else it returned what is no tensor too
    assert old == new or not alike, f"batches like {before.structure} became batches like {after.structure}"  # noqa: S101


def _write(paths: list[Path], asked: Asked, counts: tuple[int, ...], least: int = 1) -> None:
    if asked.whole_files:
        for place in (Path.cwd(), *asked.places):
            place.mkdir(parents=True, exist_ok=True)
            write_pictures(place, asked.size, asked.gray)
    if not asked.reader and (StandIn.opened or (asked.whole_files and least == 1)):
        paths = [path for path in paths if path.parent != Path.cwd()]  # the others have the names of what is read
    random = np.random.default_rng(len(counts))
    for path, count in zip(paths, itertools.cycle(counts), strict=False):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, asked, count, random, least)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
