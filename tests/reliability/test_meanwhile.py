"""Whatever somebody else finishes while a dataset is edited, or parts of it are committed, stays.

What an edit opened is what it compares under the lock before it publishes, in a directory and at a URL.
"""

import contextlib
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from combinations import all_at_night
from places import s3_server
from soak import Note, note

import seqrecorder as sr
from seqrecorder.dataset.append_and_overwrite import named
from seqrecorder.storage.files import on_fault_point
from seqrecorder.writing.part import UrlParts

SOAK = Path(__file__).with_name("soak.py")


class Meanwhile:
    """Runs something in a thread at the n-th file operation or request of another one, counted from 1."""

    def __init__(self, action, at):
        self.action, self.left, self.thread, self.outcome = action, at, None, None
        self.owner = threading.get_ident()

    def __call__(self, *_):
        if threading.get_ident() != self.owner:
            return
        self.left -= 1
        if self.left == 0:
            self.thread = threading.Thread(target=self._run)
            self.thread.start()
            self.thread.join(0.1)  # it may have to wait for a lock that the other one holds

    def _run(self):
        try:
            self.action()
        except sr.SeqrecorderError as error:
            self.outcome = error
        else:
            self.outcome = "done"


def commit_own(path):
    """Replace a dataset by parts that hold its own records."""
    sr.write_part(sr.open(path).all(), path, 0, overwrite=True)
    sr.commit(path, overwrite=True)


EDITS = {
    "rewrite": sr.rewrite,
    "rewrite as": lambda path: sr.rewrite(path, keep=sr.open(path).all(), schema=Note),
    "compact": sr.compact,
    "write": lambda path: sr.write(sr.open(path).all(), path, overwrite=True),
    "write splits": lambda path: sr.write({"train": sr.open(path)["train"]}, path, overwrite=True),
    "merge": lambda path: sr.merge([sr.open(path).all()], path, overwrite=True),
    "commit": commit_own,
}


def keys(path):
    found = [record.key for record in sr.read_records(path)]
    assert len(set(found)) == len(found)
    return set(found)


def at_a_time(edit, meanwhile, place, step):
    """Run an edit with something else before each of its operations in turn; yield what became of both."""
    at = 1
    while True:
        path = place(at)
        other = Meanwhile(lambda path=path: meanwhile(path), at)
        try:
            with on_fault_point(other):
                edit(path)
            outcome = "done"
        except sr.SeqrecorderError as error:
            outcome = error
        if other.thread is None:
            break
        other.thread.join()
        yield path, outcome, other.outcome
        at += step
    assert at > 6  # else it came too late


@pytest.fixture(params=[7, pytest.param(1, marks=pytest.mark.nightly)], ids=["every seventh", "every one"])
def step(request):
    """How many operations lie between two that are tried."""
    return request.param


@pytest.mark.parametrize(
    ("edit", "where"),
    all_at_night(
        itertools.product(EDITS, ["directory", "URL"]),
        [
            *(("rewrite", "URL"), ("rewrite as", "directory"), ("compact", "directory"), ("write", "URL")),
            *(("write splits", "directory"), ("merge", "URL"), ("commit", "directory"), ("commit", "URL")),
        ],
    ),
)
def test_appends_meanwhile(edit, where, step, tmp_path, request):
    """An append that is finished before any operation of an edit is in the dataset, or the edit is refused."""
    first = f"memory://{request.node.name}".replace(" ", "-") if where == "URL" else str(tmp_path)

    def place(number):
        sr.write([note("a-1"), note("b-2")], f"{first}/{number}")
        return f"{first}/{number}"

    def append(path):
        sr.write([note("c-3")], path, append=True)

    ends = set()
    for path, outcome, other in at_a_time(EDITS[edit], append, place, step):
        assert other == "done" or isinstance(other, sr.DatasetError)
        assert keys(path) == {"a-1", "b-2"} | ({"c-3"} if other == "done" else set()), (outcome, other)
        ends.add((outcome == "done", other == "done"))
        if outcome != "done":
            assert "was changed" in str(outcome)
        if where == "directory":
            assert sr.verify(path).ok
    assert (False, True) in ends


def test_an_old_selection_replaces_nothing(tmp_path):
    """A selection replaces its dataset only as that was when it was opened; under another path, too."""
    path, link = tmp_path / "data", tmp_path / "link"
    sr.write([note("a-1")], path)
    link.symlink_to(path)
    old = sr.open(path).all()
    sr.write([note("b-2")], path, append=True)
    for edit in (
        lambda: sr.write(old, path, overwrite=True),
        lambda: sr.write({"train": old}, link, overwrite=True),
        lambda: sr.merge([old, sr.open(path).all()], link, overwrite=True, on_duplicate="first"),
    ):
        with pytest.raises(sr.DatasetError, match="was changed since its records were selected"):
            edit()
    assert keys(path) == {"a-1", "b-2"}
    sr.write(old, tmp_path / "other")
    sr.write(sr.open(link).all()[:1], path, overwrite=True)
    assert keys(path) == {"a-1"}


def test_an_old_selection_says_that_its_dataset_was_replaced(tmp_path):
    """Every reader of a selection says after a rewrite that the dataset was replaced, and that nothing is damaged."""
    sr.write([note(f"a-{number}") for number in range(4)], tmp_path / "data")
    old = sr.open(tmp_path / "data").all()
    sr.rewrite(tmp_path / "data", drop=sr.open(tmp_path / "data").all()[:1])
    for selection in (old, old[1:]):
        for use in (sr.read, sr.stats, lambda records: list(sr.read_records(records))):
            with pytest.raises(sr.ShardReadError, match="was replaced or removed .* nothing is damaged: open it again"):
                use(selection)


@pytest.mark.parametrize("where", ["directory", "URL"])
def test_parts_meanwhile(where, step, tmp_path, request):
    """A part that is completed before any operation of `commit` is committed, or waits, or its writer has an error."""
    first = f"memory://{request.node.name}" if where == "URL" else str(tmp_path)

    def place(number):
        path = f"{first}/{number}"
        sr.write([note("a-1")], path)
        for part in range(2):
            sr.write_part([note(f"b-{part}")], path, part, append=True)
        return path

    late = 0
    for path, outcome, other in at_a_time(
        lambda path: sr.commit(path, append=True),
        lambda path: sr.write_part([note("late-3")], path, 3, append=True),
        place,
        step,
    ):
        assert outcome == "done"
        assert other == "done" or isinstance(other, sr.DatasetError)
        if other == "done" and "late-3" not in keys(path):
            late += 1
            assert sr.commit(path, append=True).records == 4
        assert keys(path) == {"a-1", "b-0", "b-1"} | ({"late-3"} if other == "done" else set())
    assert late


def test_two_commits_at_a_url(request):
    """Of two commits at once, neither takes away a part that only the other one has seen."""
    url = f"memory://{request.node.name}/data"
    sr.write_part([note("a-1")], url, 0)
    one = UrlParts.of(url)
    sr.write_part([note("b-2")], url, 1)
    one.remove([True], sr.info(one.attempts[0][0]))
    assert [sr.info(path).metadata["part"] for path, _ in UrlParts.of(url).attempts] == [1]


def readings(where):
    """Yield the records of a dataset, which may be replaced meanwhile, but is never damaged."""
    try:
        yield from sr.read_records(where, schema=Note)
    except sr.DatasetError as error:
        if "salvage" in str(error):
            raise AssertionError("a replaced dataset was taken for a damaged one") from error
        raise


def soak(where, directory, processes, appends, edits):
    """Let several processes change a dataset; return how many changes returned, and how many were refused."""
    sr.write([], where, schema=Note)
    logs = [directory / f"log{number}" for number in range(processes)]
    path = os.pathsep.join([str(Path(sr.__file__).parents[1]), str(SOAK.parent)])
    running = [
        subprocess.Popen(
            [sys.executable, str(SOAK), where, str(number), str(appends), str(edits), str(log)],
            env={**os.environ, "PYTHONPATH": path},
            stderr=subprocess.PIPE,
            text=True,
        )
        for number, log in enumerate(logs)
    ]
    try:
        while any(process.poll() is None for process in running) and not any(process.poll() for process in running):
            time.sleep(0.3)  # a server has the time of this process, too
            with contextlib.suppress(sr.DatasetError):
                assert all(record == note(record.key) for record in readings(where))
    finally:
        for process in running:
            process.kill()
    ends = [(process.communicate()[1][-3000:], process.returncode) for process in running]
    failed = [text for text, code in ends if code > 0]
    assert not any(code for _, code in ends), failed
    changes = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    expected = {key for change in changes for key in change.get("append", ())}
    dropped = {key for change in changes for key in change.get("drop", ())}
    assert keys(where) == expected - dropped
    assert sr.verify(where).ok
    return sum(not change["edit"] for change in changes), sum(change["refused"] for change in changes)


@pytest.mark.parametrize("appends", [9, pytest.param(1_700, marks=pytest.mark.nightly)], ids=["few", "all"])
def test_soak_in_a_directory(tmp_path, figure, appends):
    """Three processes append, edit and commit, and nothing that returned is lost, nor anything else left behind."""
    where = tmp_path / "data"
    count, refused = soak(str(where), tmp_path, 3, appends, appends // 4)
    assert count == 3 * appends
    assert refused
    left = {path.relative_to(where).as_posix() for path in where.rglob("*") if path.is_file()}
    assert left - named(sr.info(where)) <= {"manifest.json", ".keys"}
    figure(27, "appends of three processes that edit a dataset", count, "all there")
    figure(27, "edits of three processes that append to it", 3 * (appends // 4), "all there")


@pytest.mark.nightly
@pytest.mark.parametrize(("rounds", "appends"), [(1, 4), (10, 170)], ids=["few", "all"])
def test_soak_on_s3(tmp_path, figure, rounds, appends):
    """The same on a server of S3, in rounds: lists of what thousands of writes leave there take long."""
    count, edits = 0, 3 * rounds * (appends // 4)
    with s3_server() as bucket:
        for number in range(rounds):
            count += soak(f"{bucket}/data{number}", tmp_path, 3, appends, appends // 4)[0]
            sr.clean(f"{bucket}/data{number}", older_than=0)
            assert sr.verify(f"{bucket}/data{number}").ok
    assert count == 3 * rounds * appends
    figure(27, "appends of three processes on a server of S3 that edit a dataset", count, "all there")
    figure(27, "edits of three processes on a server of S3 that append to it", edits, "all there")
