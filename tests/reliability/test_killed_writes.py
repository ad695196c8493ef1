# ruff: noqa: PT017 - what is left after the error is the point here
"""Whatever ends a write, at its destination is a whole dataset or nothing."""

import errno
import re
import signal
import subprocess
import sys
import time

import pytest
from faults import FailAt, names, record_calls

import seqrecorder as sr
from seqrecorder.storage.files import on_fault_point

SLOW_WRITER = """
import signal, sys, time
import seqrecorder as sr

signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background inherit that it is ignored

@sr.record
class Word:
    ids: list = sr.feature_list("int64")

def source():
    for number in range(100_000):
        if number == 500:
            print("writing", flush=True)
        if number >= 500:
            time.sleep(0.01)
        yield Word([number])

sr.write(source(), sys.argv[1], shards=2, csv=True)
"""


@sr.record
class Word:
    ids: list = sr.feature_list("int64")


WORDS = [Word([number]) for number in range(5)]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killed_write(tmp_path, number):
    """A write that is killed publishes nothing, and what it could not clean up the next write does."""
    destination = tmp_path / "c"
    with subprocess.Popen([sys.executable, "-c", SLOW_WRITER, str(destination)], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"writing\n"
        time.sleep(0.1)
        assert [name.startswith(".c.incomplete-") for name in names(tmp_path)] == [True]
        process.send_signal(number)
        assert process.wait(30) == (-number if number == signal.SIGKILL else 128 + number)
    assert not destination.exists()
    assert len(names(tmp_path)) == (1 if number == signal.SIGKILL else 0)
    sr.write(WORDS, destination)
    assert names(tmp_path) == ["c"]
    assert sr.verify(destination).ok


@pytest.mark.parametrize("options", [{}, {"shuffle": True, "splits": {"train": 0.5, "eval": 0.5}}])
def test_disk_full_anywhere(tmp_path, options, figure):
    """A full disk at any fault point is a ShardWriteError, with nothing at the destination and no trace beside it."""
    options = {**options, "csv": True, "assets": {"a": "x"}, "metadata": 1}
    for name in ("recorded", "tried"):  # making parents would be fault points of the first write only
        (tmp_path / name).mkdir()
    calls = record_calls(lambda: sr.write(WORDS, tmp_path / "recorded" / "c", **options))
    assert len(calls) > 20
    destination = tmp_path / "tried" / "c"
    failed = 0
    for number, call in enumerate(calls, 1):
        try:
            with on_fault_point(FailAt(number, OSError(errno.ENOSPC, "No space left on device"))):
                sr.write(WORDS, destination, **options)
        except sr.ShardWriteError as error:
            failed += 1
            assert error.errno == errno.ENOSPC, call
            assert str(destination.parent) in str(error), call
            if call[1].endswith(".part"):
                assert re.match(r"cannot write, after \d+ records and [\d,]+ bytes, .*\d{5}\.part", str(error)), call
            assert names(destination.parent) == [], call
        else:
            assert "remove" in call[0]  # the dataset was complete, and there was only something to clean up
            break
    assert failed > 20
    figure(3, "operations on files that met a full disk", failed, "an error, nothing published")


FORKING_WRITER = """
import errno, hashlib, os, shutil, signal, sys
from pathlib import Path
import seqrecorder as sr  # without TensorFlow, whose memory each child would copy
from seqrecorder.storage import publish as swap_directories
from seqrecorder.storage.files import on_fault_point

@sr.record
class Word:
    ids: list = sr.feature_list("int64")

os.fsync = os.fstat  # nothing here cuts the power
root = Path(sys.argv[1])
old, new = [Word([1]), Word([2, 3])], [Word([4]), Word([5, 6]), Word([])]
options = changes = None
exchange_now = swap_directories.exchange_now

def write(destination, victim):
    points = []
    def hook(name, path):
        points.append(f"{name} {Path(path).suffix}")
        if len(points) == victim:
            os.kill(os.getpid(), signal.SIGKILL)
    with on_fault_point(hook):
        sr.write(new, destination, **changes, **options)
    if not victim:
        (root / "points").write_text("\\n".join(points))

def forked(destination, victim):
    child = os.fork()
    if not child:
        code = 1
        try:
            write(destination, victim)
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def generation(destination):
    try:
        manifest = sr.info(destination)
    except sr.DatasetNotFoundError:
        assert not destination.exists(), sorted(destination.iterdir())
        return -1
    for name, split in manifest.splits.items():
        for shard in split.shards:
            data = manifest.shard_path(name, shard).read_bytes()
            assert hashlib.sha256(data).hexdigest() == shard.sha256
            assert len(manifest.lengths(name, shard)) == shard.records
    assert manifest.assets["a"].read_text() == "x"
    return manifest.generation

def prepared(directory):
    directory.mkdir(parents=True)
    if changes:
        shutil.copytree(root / mode / "old", directory / "c")
    return directory / "c"

sr.write(new, root / "warm")  # what is imported and set up by now, no child does again
tried = set()
for mode in ("shuffled", "append", "overwrite", "overwrite in place"):
    options = {"csv": True, "assets": {"a": "x"}, "shards": 2}
    if mode == "shuffled":
        options |= {"shuffle": True, "splits": {"train": 0.5, "eval": 0.5}}
    changes = {"append": {"append": True}}.get(mode, {"overwrite": True} if "overwrite" in mode else {})
    swap_directories.exchange_now = (lambda one, other: errno.EINVAL) if mode == "overwrite in place" else exchange_now
    if changes:
        sr.write(old, root / mode / "old", **options)
    assert forked(prepared(root / mode / "whole"), 0) == 0
    points = (root / "points").read_text().splitlines()
    places = {point: number for number, point in reversed(list(enumerate(points, 1)))}
    if mode != "shuffled":  # what is there after one step is there before the next
        places = {point: number for point, number in places.items() if point.startswith("before_")}
    victims = sorted(places.values()) if sys.argv[2] == "named" else range(1, len(points) + 1)
    if sys.argv[2] == "named":
        if mode == "overwrite in place":
            victims = [number for number in victims if points[number - 1] not in tried]
        else:
            victims = victims[mode == "append" :: 2]
        tried.update(points[number - 1] for number in victims)
    for victim in victims:
        destination = prepared(root / mode / str(victim))
        before = generation(destination)
        code = forked(destination, victim)
        assert code == -signal.SIGKILL, (mode, victim, code)
        after = generation(destination)
        assert after in (before, before + 1), (mode, victim, before, after)
        if after == before or changes:
            write(destination, 0)
            assert generation(destination) == after + 1
        left = [path.name for path in destination.parent.iterdir()]
        assert left == ["c"], (mode, victim, left)
        known = {shard.name for split in sr.info(destination).splits.values() for shard in split.shards}
        found = {path.name for path in destination.rglob("*.tfrecord")}
        assert found == known, (mode, victim, found - known)
        shutil.rmtree(destination.parent)
    print(len(points), len(victims), flush=True)
"""


@pytest.mark.parametrize("points", ["named", pytest.param("all", marks=pytest.mark.nightly)])
def test_killed_at_fault_points(tmp_path, points, figure):
    """Killed at any fault point, the old dataset, the new one or nothing is there, whole; the next write cleans up.

    The ordinary run takes the first of each name and kind of file, in turn by ways that share them; the long one all.
    """
    command = [sys.executable, "-c", FORKING_WRITER, str(tmp_path), points]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert len(found) == 4
    assert all(count > 30 for count, _ in found)
    figure(
        1, "SIGKILL at fault points of writes and overwrites", sum(tried for _, tried in found), "complete or absent"
    )


RANDOM_KILLS = """
import hashlib, os, random, shutil, signal, sys, time
from pathlib import Path
import numpy as np
import seqrecorder as sr  # without TensorFlow, whose memory each child would copy

os.fsync = os.fstat  # nothing here cuts the power

@sr.record
class Word:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int64")

def words(generation):
    return [Word(f"{generation}-{n}", np.full(n % 9, generation)) for n in range(100)]

parent, trials, chance = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
options = {"csv": True, "shards": 2, "overwrite": True}
destination = parent / "c"

def forked(generation):
    child = os.fork()
    if not child:
        try:
            sr.write(words(generation), destination, **options)
        finally:
            os._exit(0)
    return child

def check(generations):
    manifest = sr.info(destination)
    for name, split in manifest.splits.items():
        for shard in split.shards:
            data = manifest.shard_path(name, shard).read_bytes()
            assert hashlib.sha256(data).hexdigest() == shard.sha256
    assert manifest.generation in generations, (manifest.generation, generations)
    return manifest.generation

sr.write(words(0), destination, **options)  # what is imported and set up by now, no child does again
took = []
for _ in range(5):
    start = time.perf_counter()
    os.waitpid(forked(0), 0)
    took.append(time.perf_counter() - start)
generation, killed = check([5]), 0
while killed < trials:
    child = forked(killed)
    time.sleep(chance.uniform(0, min(took)))
    os.kill(child, signal.SIGKILL)
    killed += os.waitpid(child, 0)[1] == signal.SIGKILL
    generation = check([generation, generation + 1])
os.waitpid(forked(0), 0)
assert [path.name for path in parent.iterdir()] == ["c"], list(parent.iterdir())
"""


@pytest.mark.parametrize("moments", [50, pytest.param(2000, marks=pytest.mark.nightly)])
def test_killed_at_random(tmp_path, moments, seed, figure):
    """Killed at any moment, an overwrite leaves the old dataset or the new one, whole, and no rubbish for long."""
    command = [sys.executable, "-c", RANDOM_KILLS, str(tmp_path), str(moments), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    figure(1, "SIGKILL at random moments of an overwrite", moments, "complete or absent")


LIMITED = """
import resource, signal, sys
from pathlib import Path
import numpy as np
import seqrecorder as sr

@sr.record
class Word:
    ids: np.ndarray = sr.feature_list("int64")

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for number, limit in enumerate((1 << 12, 1 << 16, 1 << 20)):
    for compression in (None, "GZIP"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        random = np.random.default_rng(0)
        try:
            words = (Word(random.integers(0, 1 << 60, 9999)) for _ in range(20))
            sr.write(words, sys.argv[1] + "/c", compression=compression)
        except sr.ShardWriteError as error:
            assert "bytes" in str(error) and "train" in str(error), error
            assert list(Path(sys.argv[1]).iterdir()) == []
        else:
            raise AssertionError(limit)
"""


def test_limits_of_file_sizes(tmp_path, warm_python, figure):
    """A file that may not grow is a ShardWriteError that names shard and bytes, with nothing left."""
    done = warm_python.run([sys.executable, "-c", LIMITED, str(tmp_path)], text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    figure(3, "writes over a limit of file sizes", 6, "an error, nothing published")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_write_cleans_up_soon(tmp_path, number, figure):
    """An interrupted write ends by itself, and all that it wrote is gone."""
    destination = tmp_path / "c"
    command = [sys.executable, "-c", SLOW_WRITER, str(destination)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout.readline() == b"writing\n"
        process.send_signal(number)
        try:
            process.wait(30)
        finally:
            process.kill()  # one that does not end must not hold up the tests
    assert names(tmp_path) == []
    figure(4, f"{number.name} in the middle of a write", 1, "nothing left over")
