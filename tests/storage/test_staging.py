# ruff: noqa: PT012, PT017 - what is left after the error is the point of most tests here

import errno
import fcntl
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest
from faults import FailAt, names, record_calls

from seqrecorder.errors import (
    DatasetError,
    DatasetExistsError,
    DatasetNotFoundError,
    OptionError,
    ShardWriteError,
)
from seqrecorder.storage import locks
from seqrecorder.storage import publish as module
from seqrecorder.storage.files import FAULT_POINTS, fault_point, link_file, on_fault_point, replace_file
from seqrecorder.storage.locks import exclusive
from seqrecorder.storage.processes_and_signals import cleanup_when_terminated
from seqrecorder.storage.publish import Staging, exchange_now

# Python 3.12 warns of threads, such as those of TensorFlow in other tests; our children touch files only.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
fork = multiprocessing.get_context("fork")


def fill(directory, text="new"):
    (directory / "train").mkdir()
    (directory / "train" / "train-00000-of-00001.tfrecord").write_text(text)
    (directory / "manifest.json").write_text(text)


def everything(held):
    """Say that all files of what shall be overwritten may go."""
    inner = {name: held.entries(name) for name, kind in held.entries().items() if kind == "directory"}
    return [*held.entries().keys() - inner, *(f"{name}/{file}" for name in inner for file in inner[name])]


def make(destination, text="new", **options):
    with Staging(destination, **options) as staging:
        fill(staging.path, text)
        assert staging.publish(everything) is True


def tree(directory):
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


COMPLETE = ["manifest.json", "train", "train/train-00000-of-00001.tfrecord"]


@pytest.mark.parametrize("name", ["corpus", "a[1]*?", "été", "-x", "x" * 255, ".hidden", "a b\n"])
def test_publish(tmp_path, name):
    """What was staged appears at the destination, whatever its name, and nothing remains beside it."""
    destination = tmp_path / "new" / "parents" / name
    make(destination)
    assert tree(destination) == COMPLETE
    assert names(destination.parent) == [name]
    assert oct(destination.stat().st_mode) == oct(destination.parent.stat().st_mode)


def test_relative_destination(tmp_path, monkeypatch):
    """A relative destination stays where it was meant, though the program changes its directory."""
    monkeypatch.chdir(tmp_path)
    with Staging("corpus/") as staging:
        fill(staging.path)
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir("elsewhere")
        staging.publish()
    assert tree(tmp_path / "corpus") == COMPLETE


def test_nothing_before_publish(tmp_path):
    """Before publishing there is only a hidden directory, beside the destination."""
    with Staging(tmp_path / "corpus") as staging:
        assert staging.path.parent == tmp_path
        assert staging.path.name.startswith(".corpus.incomplete-")
        assert not (tmp_path / "corpus").exists()
    assert names(tmp_path) == []


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, SystemExit])
def test_exceptions(tmp_path, failure):
    """An exception in the block passes through, and the staging directory goes."""
    (tmp_path / "other").write_text("")
    with pytest.raises(failure), Staging(tmp_path / "corpus") as staging:
        fill(staging.path)
        raise failure
    assert names(tmp_path) == ["other"]


def test_destination_in_use(tmp_path):
    """A destination that holds something is refused at once and by name; an empty directory is taken."""
    destination = tmp_path / "corpus"
    destination.mkdir()
    make(destination)
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    for overwrite in (False, True):
        for name in ("file", "dangling", "loop"):
            with pytest.raises(DatasetExistsError, match=name), Staging(tmp_path / name, overwrite=overwrite):
                pytest.fail("entered")
    with pytest.raises(DatasetExistsError, match="overwrite=True") as caught, Staging(destination):
        pytest.fail("entered")
    assert caught.value.errno == errno.EEXIST
    assert caught.value.path == str(destination)
    assert sorted(names(tmp_path)) == ["corpus", "dangling", "file", "loop"]


@pytest.mark.parametrize("kind", ["directory", "file", "dangling"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_destination_taken_meanwhile(tmp_path, kind, overwrite):
    """Whatever comes to the destination while we write stays as it is."""
    destination = tmp_path / "corpus"
    with pytest.raises(DatasetExistsError), Staging(destination, overwrite=overwrite) as staging:
        fill(staging.path)
        if kind == "directory":
            destination.mkdir()
            (destination / "mine").write_text("")
        elif kind == "file":
            destination.write_text("mine")
        else:
            destination.symlink_to("nowhere")
        staging.publish()
    assert names(tmp_path) == ["corpus"]
    assert destination.is_symlink() or not (destination / "manifest.json").exists()


def test_symbolic_link_to_a_directory(tmp_path):
    """A link to a directory stands for it: the dataset comes to be there, and the link stays a link."""
    disk = tmp_path / "disk"
    (disk / "real").mkdir(parents=True)
    link = tmp_path / "corpus"
    link.symlink_to("disk/real")
    make(link)
    make(link, "newer", overwrite=True)
    assert link.is_symlink()
    assert (disk / "real" / "manifest.json").read_text() == "newer"
    assert names(disk) == ["real"]


def test_senseless_destinations(tmp_path, monkeypatch):
    """The working directory, a NUL and a publish outside the block are errors of the caller."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError, match="working directory"), Staging("."):
        pytest.fail("entered")
    with pytest.raises(OptionError, match="NUL"):
        Staging("a\0b")
    with pytest.raises(OptionError, match="with Staging"):
        Staging("corpus").publish()
    with pytest.raises(DatasetExistsError, match=r"no manifest\.json"), Staging("/", overwrite=True):
        pytest.fail("entered")


def test_parent_is_a_file(tmp_path):
    """An impossible parent is an error that keeps the system's reason."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ShardWriteError, match="corpus") as caught, Staging(tmp_path / "file" / "corpus"):
        pytest.fail("entered")
    assert caught.value.errno in (errno.ENOTDIR, errno.EEXIST)


def test_overwrite(tmp_path):
    """An overwrite replaces the whole dataset, and its readers keep the files that they opened."""
    destination = tmp_path / "corpus"
    make(destination, "old")
    (destination / "extra").write_text("")
    with (destination / "manifest.json").open() as reader:
        make(destination, "new", overwrite=True)
        assert reader.read() == "old"
    assert tree(destination) == COMPLETE
    assert (destination / "manifest.json").read_text() == "new"
    assert names(tmp_path) == ["corpus"]


def test_overwrite_is_for_datasets(tmp_path):
    """A directory of other files is never overwritten."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis").write_text("")
    with (
        pytest.raises(DatasetExistsError, match="no dataset"),
        Staging(tmp_path / "home", overwrite=True),
    ):
        pytest.fail("entered")
    make(tmp_path / "absent", overwrite=True)
    assert sorted(tree(tmp_path)) == sorted(["home", "home/thesis", "absent", *(f"absent/{p}" for p in COMPLETE)])


def test_overwrite_without_exchange(tmp_path, monkeypatch):
    """Where directories cannot be exchanged, publish says so and leaves both as they are to the caller."""
    destination = tmp_path / "corpus"
    make(destination, "old")
    monkeypatch.setattr(module, "exchange_now", lambda _one, _other: errno.EINVAL)
    with Staging(destination, overwrite=True) as staging:
        fill(staging.path)
        assert staging.publish(everything) is False
        assert tree(staging.path) == COMPLETE
        assert (destination / "manifest.json").read_text() == "old"
    assert names(tmp_path) == ["corpus"]


def test_overwrite_of_what_came_meanwhile(tmp_path):
    """What has come to a new place meanwhile is overwritten if whoever is asked says what of it may go."""
    destination = tmp_path / "corpus"
    with Staging(destination, overwrite=True) as staging:
        fill(staging.path, "later")
        make(destination, "earlier", overwrite=True)
        assert staging.publish() is False
        assert (destination / "manifest.json").read_text() == "earlier"
        assert staging.publish(everything) is True
    assert (destination / "manifest.json").read_text() == "later"
    assert names(tmp_path) == ["corpus"]


def test_exchange(tmp_path):
    """Two directories change places, or the system's number says why not."""
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    (one / "x").write_text("")
    other.mkdir()
    assert exchange_now(one, other) == 0
    assert names(other) == ["x"]
    assert exchange_now(one, tmp_path / "absent") == errno.ENOENT


def test_an_exchange_that_fails(tmp_path, monkeypatch):
    """An error of the disk is one of ours, and the old dataset stays where it is."""
    make(tmp_path / "corpus", "old")
    monkeypatch.setattr(module, "exchange_now", lambda _one, _other: errno.EIO)
    with pytest.raises(ShardWriteError, match="cannot publish dataset .*corpus': Input/output error") as caught:
        make(tmp_path / "corpus", "new", overwrite=True)
    assert caught.value.errno == errno.EIO
    assert (tmp_path / "corpus" / "manifest.json").read_text() == "old"
    assert names(tmp_path) == ["corpus"]


def test_order_of_syncs(tmp_path):
    """Files are synced before directories, directories before the rename, and the parent after it."""
    destination = tmp_path / "deep" / "corpus"
    calls = record_calls(lambda: make(destination))
    staged = next(path for name, path in calls if name == "before_mkdir" and ".incomplete-" in path)
    told = [
        (name, path.replace(staged, "*").replace(str(tmp_path), "~"))
        for name, path in calls
        if name in ("after_mkdir", "after_fsync", "after_rename")
    ]
    assert told == [
        ("after_mkdir", "~/deep"),
        ("after_fsync", "~"),
        ("after_mkdir", "*"),
        ("after_fsync", "*/train/train-00000-of-00001.tfrecord"),
        ("after_fsync", "*/manifest.json"),
        ("after_fsync", "*/train"),
        ("after_fsync", "*"),
        ("after_rename", "~/deep/corpus"),
        ("after_fsync", "~/deep"),
    ]


def test_fault_points_are_listed(tmp_path):
    """Every fault point in the list is met, in pairs, and no other exists."""

    def all_of_them():
        make(tmp_path / "corpus")
        make(tmp_path / "corpus", overwrite=True)
        with exclusive(tmp_path / "corpus"):
            replace_file(tmp_path / "corpus" / "manifest.json", b"{}")
        link_file(tmp_path / "corpus" / "manifest.json", tmp_path / "link")

    names = [name for name, _ in record_calls(all_of_them)]
    assert set(names) == set(FAULT_POINTS)
    for name in FAULT_POINTS:
        assert names.count(name) == names.count(name.replace("before", "after"))
    with on_fault_point(print), pytest.raises(LookupError, match="before_sleep"):
        fault_point("before_sleep", "x")


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("abandon", [False, True])
def test_failure_at_every_fault_point(tmp_path, failure, abandon):
    """A failure at the 1st, 2nd, ... file operation leaves no destination and no staging directory."""

    def write(destination):
        with Staging(destination) as staging:
            fill(staging.path)
            if not abandon:
                staging.publish()

    expected = ShardWriteError if isinstance(failure, OSError) else KeyboardInterrupt
    for number in range(1, 1000):
        parent = tmp_path / str(number)
        hook = FailAt(number, failure)
        try:
            with on_fault_point(hook):
                write(parent / "corpus")
        except expected as error:
            if isinstance(error, ShardWriteError):
                assert error.errno == errno.ENOSPC
                assert str(tmp_path) in str(error)
            assert not parent.exists() or names(parent) == []
        else:
            assert not parent.exists() or names(parent) == ([] if abandon else ["corpus"])
        if hook.seen < number:
            break
    assert number > (6 if abandon else 12)


@pytest.mark.parametrize("failure", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
def test_failure_during_overwrite(tmp_path, failure):
    """A failure at the 1st, 2nd, ... operation of an overwrite leaves the old or the new dataset, whole."""
    for number in range(1, 1000):
        destination = tmp_path / str(number) / "corpus"
        make(destination, "old")
        hook = FailAt(number, failure)
        try:
            with on_fault_point(hook):
                make(destination, "new", overwrite=True)
        except (ShardWriteError, DatasetError) as error:
            assert error.errno == errno.EIO
            expected = "old"
        except KeyboardInterrupt:
            expected = (destination / "manifest.json").read_text()
        else:
            expected = "new"
        assert tree(destination) == COMPLETE
        assert {p.read_text() for p in destination.rglob("*") if p.is_file()} == {expected}
        assert names(destination.parent) == ["corpus"]
        if hook.seen < number:
            break
    assert number > 12


WRITER = """
import os, signal, sys
from seqrecorder.storage.files import on_fault_point
from seqrecorder.storage.publish import Staging
destination, victim = sys.argv[1], int(sys.argv[2])
seen = 0
def hook(name, path):
    global seen
    seen += 1
    if seen == victim:
        os.kill(os.getpid(), signal.SIGKILL)
with on_fault_point(hook), Staging(destination) as staging:
    (staging.path / "train").mkdir()
    (staging.path / "train" / "train-00000-of-00001.tfrecord").write_text("new")
    (staging.path / "manifest.json").write_text("new")
    if victim == 0:
        print("ready", flush=True)
        sys.stdin.read()
    staging.publish()
"""


def start(destination, victim):
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(destination), str(victim)],
        env={**os.environ, "PYTHONPATH": ":".join(p or "." for p in sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def test_killed_process(tmp_path):
    """A writer killed in the middle leaves no destination, and the next one removes what it left."""
    destination = tmp_path / "corpus"
    with start(destination, 0) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGKILL)
    assert [name.partition("-")[0] for name in names(tmp_path)] == [".corpus.incomplete"]
    make(destination)
    assert names(tmp_path) == ["corpus"]


def kill_in_child(destination, number):
    seen = 0

    def hook(_name, _path):
        nonlocal seen
        seen += 1
        if seen == number:
            os.kill(os.getpid(), signal.SIGKILL)

    with on_fault_point(hook):
        make(destination)
    os._exit(0)


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.nightly)])
def test_killed_at_every_fault_point(tmp_path, step):
    """Killed at any fault point, a dataset is complete or absent, and the next writer cleans up."""
    for number in range(1, 1000, step):
        parent = tmp_path / str(number)
        child = fork.Process(target=kill_in_child, args=(parent / "corpus", number))
        child.start()
        child.join()
        if (parent / "corpus").exists():
            assert tree(parent / "corpus") == COMPLETE
        else:
            make(parent / "corpus")
        assert names(parent) == ["corpus"]
        if child.exitcode == 0:
            break
        assert child.exitcode == -signal.SIGKILL
    assert number > 12


def test_live_writer(tmp_path):
    """The staging directory of a live writer is not removed by another one, in this process or beside it."""
    destination = tmp_path / "corpus"
    with start(destination, 0) as process:
        assert process.stdout.readline() == b"ready\n"
        with Staging(destination) as mine:
            with Staging(destination) as other:
                assert len(names(tmp_path)) == 3
                fill(other.path)
            assert len(names(tmp_path)) == 2
            process.stdin.close()
            assert process.wait() == 0
            with pytest.raises(DatasetExistsError):
                mine.publish()
    assert tree(destination) == COMPLETE
    assert names(tmp_path) == ["corpus"]


def test_left_over_of_others(tmp_path):
    """Only what is certain to be a staging directory of the same destination is removed."""
    left = tmp_path / ".corpus.incomplete-0123456789abcdef"
    left.mkdir()
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("")
    keep = [".corpus.incomplete-notes", ".corpus2.incomplete-0123456789abcdef", "precious"]
    for name in keep[:2]:
        (tmp_path / name).mkdir()
    link = ".corpus.incomplete-ffffffffffffffff"
    (tmp_path / link).symlink_to("precious")
    make(tmp_path / "corpus")
    assert sorted(names(tmp_path)) == sorted([*keep, link, "corpus"])
    assert (tmp_path / "precious" / "file").exists()


def race(directory, number, turns, barrier, results):
    for turn in range(turns):
        barrier.wait()
        try:
            make(directory / str(turn) / "corpus", f"writer {number}")
        except DatasetExistsError:
            results.put((turn, "exists", number))
        except BaseException as error:  # noqa: BLE001 - it is reported
            results.put((turn, repr(error), number))
        else:
            results.put((turn, "won", number))


def test_race(tmp_path, figure):
    """Of eight processes that race for one destination exactly one wins; the others find that it exists."""
    turns = 50
    barrier, results = fork.Barrier(8), fork.Queue()
    writers = [fork.Process(target=race, args=(tmp_path, i, turns, barrier, results)) for i in range(8)]
    for writer in writers:
        writer.start()
    outcome = [results.get(timeout=60) for _ in range(turns * len(writers))]
    for writer in writers:
        writer.join()
    for turn in range(turns):
        assert sorted(result for when, result, _ in outcome if when == turn) == ["exists"] * 7 + ["won"]
        winner = next(number for when, result, number in outcome if (when, result) == (turn, "won"))
        destination = tmp_path / str(turn) / "corpus"
        assert {p.read_text() for p in destination.rglob("*") if p.is_file()} == {f"writer {winner}"}
        assert names(destination.parent) == ["corpus"]
    figure(5, "races of eight processes for one destination", turns, "one winner")


def test_forked_child(tmp_path):
    """A forked child that leaves the block, or outlives it, spoils no work and keeps no lock."""
    destination = tmp_path / "corpus"
    with Staging(destination) as staging:
        fill(staging.path)
        child = os.fork()
        if child == 0:
            staging.__exit__(None, None, None)
            time.sleep(30)
            os._exit(0)
        try:
            time.sleep(0.1)
            staging.publish()
            with exclusive(destination):
                pass
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert tree(destination) == COMPLETE


@pytest.mark.parametrize("reason", ["no fcntl", "no locks"])
def test_without_locks(tmp_path, monkeypatch, reason):
    """Without locks everything works, but what others left stays, since they may live."""
    left = tmp_path / ".corpus.incomplete-0123456789abcdef"
    left.mkdir()
    if reason == "no fcntl":
        monkeypatch.setattr(locks, "fcntl", None)
    else:

        def refuse(*_):
            raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr(fcntl, "flock", refuse)
    make(tmp_path / "corpus")
    with exclusive(tmp_path / "corpus"):
        replace_file(tmp_path / "corpus" / "manifest.json", b"{}")
    make(tmp_path / "corpus", overwrite=True)
    assert sorted(names(tmp_path)) == [left.name, "corpus"]
    with pytest.raises(DatasetNotFoundError), exclusive(tmp_path / "absent"):
        pytest.fail("entered")


TERMINATED = """
import os, signal, sys
from seqrecorder.storage.publish import Staging
from seqrecorder.storage.processes_and_signals import cleanup_when_terminated
with cleanup_when_terminated(), Staging(sys.argv[1]) as staging:
    os.kill(os.getpid(), signal.SIGTERM)
"""


def test_terminated(tmp_path):
    """SIGTERM cleans up and ends the process with the code that shells know; later it kills as ever."""
    code = subprocess.call(
        [sys.executable, "-c", TERMINATED, str(tmp_path / "corpus")],
        env={**os.environ, "PYTHONPATH": ":".join(p or "." for p in sys.path)},
    )
    assert code == 128 + signal.SIGTERM
    assert names(tmp_path) == []
    with cleanup_when_terminated():
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
