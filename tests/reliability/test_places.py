"""At a URL, too, a dataset is complete or absent, whatever fails, and whoever is killed."""

import os
import signal
import threading

import pytest
from places import Disk, gcs_server, s3_server
from written_records import Item, items

import seqrecorder as sr
from seqrecorder.storage.files import REQUEST_POINTS, on_fault_point
from seqrecorder.storage.object_store import Place

OLD, NEW = items(4), items(3, 100)


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """Give a URL whose objects are files, so that they outlive the process."""
    monkeypatch.setattr(Disk, "root", str(tmp_path / "disk"))
    (tmp_path / "disk").mkdir()
    return "disk://store/corpus"


@pytest.fixture(scope="module", params=[s3_server, gcs_server], ids=["S3", "Google's"])
def bucket(request):
    with request.param() as url:
        yield url


class Fail:
    """Does something at the n-th request, counted from 1."""

    def __init__(self, number, action):
        self.number, self.action, self.seen = number, action, 0
        self._guard = threading.Lock()  # requests are made in threads

    def __call__(self, name, _):
        if name in REQUEST_POINTS:
            with self._guard:
                self.seen += 1
                is_it = self.seen == self.number
            if is_it:
                self.action()


def time_out():
    raise TimeoutError("no answer")


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def keys(url):
    """Return the keys of the whole dataset at a URL, of which everything must be right; None where there is none."""
    try:
        corpus = sr.open(url)
    except sr.DatasetNotFoundError:
        return None
    assert sr.verify(url).ok
    return [record.key for record in corpus.all()]


def in_a_fork(action):
    """Run an action in a process of its own, and return whether it came to its end."""
    child = os.fork()
    if not child:
        try:
            action()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


WRITES = {
    "write": (None, lambda url: sr.write(NEW, url, shards=2)),
    "overwrite": (OLD, lambda url: sr.write(NEW, url, shards=2, overwrite=True)),
    "append": (OLD, lambda url: sr.write(NEW, url, shards=2, append=True)),
    "full shards": (
        OLD,
        lambda url: sr.write(NEW, url, shard_bytes=1, overwrite=True),
    ),  # sent while others are written
}


def numbers(write, url, step):
    """Yield which requests of a write to end, with the last one, which is the put of the manifest."""
    keys(url)  # so that what is there is fetched
    count = Fail(0, time_out)
    with on_fault_point(count):
        write(url)
    assert count.seen > 15
    yield from range(count.seen, 0, -step)


def every(several):
    return pytest.mark.parametrize("step", [several, pytest.param(1, marks=pytest.mark.nightly)])


def new_keys(kind):
    return sorted(record.key for record in (OLD + NEW if kind == "append" else NEW))


@every(9)
@pytest.mark.parametrize("kind", WRITES)
def test_requests_that_fail(kind, step, request):
    """With the 1st, 2nd, ... request failing, before or after it was done, there is the old dataset or the new one."""
    before, write = WRITES[kind]
    outcomes = []

    def url(number):
        url = f"memory://{request.node.name}/{number}"
        if before is not None:
            sr.write(before, url)
        return url

    for number in numbers(write, url(0), step):
        place = url(number)
        old = keys(place)
        try:
            with on_fault_point(Fail(number, time_out)):
                write(place)
        except sr.DatasetError:
            assert keys(place) == old
            write(place)
        else:
            outcomes.append(number)
        assert sorted(keys(place)) == new_keys(kind)
    assert outcomes  # at least the lost answer to the last put was understood


@every(9)
@pytest.mark.parametrize("kind", WRITES)
def test_killed_at_requests(kind, step, disk):
    """A writer that is killed at any request leaves the old dataset or the new one, and is run again with success."""
    before, write = WRITES[kind]
    outcomes = []

    def url(number):
        url = f"{disk}-{number}"
        if before is not None:
            sr.write(before, url)
        return url

    for number in numbers(write, url(0), step):
        place = url(number)
        old = keys(place)

        def attempt(place=place, number=number):
            with on_fault_point(Fail(number, kill)):
                write(place)

        assert not in_a_fork(attempt)
        outcomes.append(keys(place) != old)
        if not outcomes[-1]:
            write(place)
        sr.clean(place, older_than=0)
        assert sorted(keys(place)) == new_keys(kind)
    assert outcomes == [True] + [False] * (len(outcomes) - 1)  # the last put is the one that counts


def test_readers_beside_overwriters():
    """Whoever reads while others overwrite has the records of one of the datasets, never of two."""
    url, over = "memory://beside/corpus", threading.Event()
    sets = [items(20), items(15, 100)]
    sr.write(sets[0], url, shards=3)

    def overwrite():
        for number in range(12):
            sr.write(sets[number % 2], url, shards=3, overwrite=True)
        over.set()

    writer = threading.Thread(target=overwrite)
    writer.start()
    rounds = 0
    while not over.is_set() or rounds < 5:
        found = list(sr.read_records(url, schema=Item))
        assert found in sets
        rounds += 1
    writer.join()


def test_eight_writers_race(bucket):
    """Of several that write to one URL at once, through the server's own conditions, one wins and the rest are told."""
    url, results = f"{bucket}/race", []

    def write(number):
        try:
            results.append(sr.write(items(5, 10 * number), url))
        except sr.DatasetExistsError as error:
            results.append(error)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    won = [result for result in results if isinstance(result, sr.Manifest)]
    assert (len(won), len(results)) == (1, 8)
    assert sr.info(url).to_json() == won[0].to_json()
    assert sr.verify(url).ok


def test_the_server_decides(bucket):
    """Where somebody publishes between the last look and the put, the store refuses; so does it after an overwrite."""
    place = Place.of(f"{bucket}/decides")

    def publish(name, _):
        if name == "before_put" and not done:
            done.append(place.files.pipe_file(f"{place.root}/manifest.json", b"theirs"))

    for old in (None, b"old"):
        if old:
            place.files.pipe_file(f"{place.root}/manifest.json", old)
        expected, done = place.version("manifest.json"), []
        with on_fault_point(publish):
            assert not place.put("manifest.json", b"ours", expected=expected)
        assert (len(done), place.read("manifest.json")) == (1, b"theirs")
        place.remove(["manifest.json"])


def test_a_whole_life_over_http(bucket, tmp_path):
    """Written to a server, appended to, read by two readers, pushed, pulled, verified and cleaned."""
    url = f"{bucket}/life"
    sr.write(OLD, url, splits={"train": 0.8, "eval": 0.2}, shards=2, assets={"a.txt": "a"})
    sr.write(NEW, url, append=True)
    found = [list(sr.read_records(url, "train", schema=Item, shard=(index, 2))) for index in range(2)]
    every = [record.key for share in found for record in share]
    every += [record.key for record in sr.read_records(url, "eval")]
    assert sorted(every) == sorted(record.key for record in OLD + NEW)
    back = sr.pull(url, tmp_path / "back")
    again = sr.push(back.path, f"{bucket}/again")
    assert sr.verify(url).ok
    assert sr.verify(again.url).ok
    assert again.to_json() == sr.info(url).to_json()
    sr.write(OLD, url, overwrite=True)
    assert sr.clean(url) == {}
    assert len(sr.clean(url, older_than=0)) == 11
    place = Place.of(url)
    name = next(name for name in place.items() if name.endswith(".tfrecord"))
    place.files.pipe_file(f"{place.root}/{name}", place.files.cat_file(f"{place.root}/{name}")[:-1])
    assert {problem.path for problem in sr.verify(url).problems} == {name}
    with pytest.raises(sr.ShardReadError, match=f"{url}/{name}"):
        list(sr.read_records(url, "train"))
