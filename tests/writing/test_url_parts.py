"""Parts of a dataset at a URL."""

import contextlib
import logging
import os
import signal
import threading

import pytest
from places import Disk
from written_records import Item, items

import seqrecorder as sr
from seqrecorder.storage.files import REQUEST_POINTS, on_fault_point
from seqrecorder.storage.object_store import Place


@sr.record
class Line:
    text: str = sr.context(str)


OPTIONS = {"splits": {"train": 0.8, "eval": 0.2}, "seed": 1}


@pytest.fixture
def url(request):
    return f"memory://parts/{request.node.name}/corpus"


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """Give a URL whose objects are files, so that they outlive the process."""
    monkeypatch.setattr(Disk, "root", str(tmp_path / "disk"))
    (tmp_path / "disk").mkdir()
    return "disk://store/corpus"


def write_parts(place, numbers, count=5, **options):
    for number in numbers:
        sr.write_part(items(count, count * number), place, number, **{**OPTIONS, **options})


def everything(place):
    return {name: list(sr.read_records(place, name, schema=Item)) for name in sr.info(place).splits}


def kept(url):
    """Return which objects are at a URL, without the digests in their names."""
    return sorted({name.rpartition("-")[0] if "-of-" in name else name for name in Place.of(url).items()})


def test_parts_at_a_url_are_those_of_a_directory(url, tmp_path, caplog):
    """In any order, also written twice, they make the dataset of a directory; nothing is there before, or left over."""
    write_parts(tmp_path / "near", range(3))
    write_parts(url, [2, 0, 1, 0])
    with pytest.raises(sr.DatasetNotFoundError):
        sr.info(url)
    assert sr.clean(url, older_than=0) == {}  # parts are to be committed
    near = sr.commit(tmp_path / "near", expected=3, metadata={"a": 1})
    with caplog.at_level(logging.WARNING, "seqrecorder"):
        far = sr.commit(url, expected=3, metadata={"a": 1}, assets={"notes": "x"})
    assert not caplog.records
    assert everything(url) == everything(near.path)
    assert (far.splitting, far.skipped, far.metadata) == (near.splitting, near.skipped, near.metadata)
    assert far.assets["notes"].read_text() == "x"
    assert sr.verify(url).ok
    assert not [name for name in kept(url) if name.startswith(".parts") or "keys" in name]
    assert len([name for name in Place.of(url).items() if name.endswith(".tfrecord")]) == len(
        list(near.path.rglob("*.tfrecord"))
    )
    assert sr.commit(url).to_json() == sr.commit(url, expected=3).to_json() == far.to_json()
    with pytest.raises(sr.DatasetNotFoundError, match="all 4 are missing, since the dataset .* committed from 3"):
        sr.commit(url, expected=4)
    with pytest.raises(sr.DatasetExistsError, match=url):
        write_parts(url, [4])


def test_the_attempt_that_was_completed_last_counts(url, caplog):
    """Of attempts with other contents the last one counts, which is said; files of the others go."""
    sr.write_part([Item("a")], url, 0)
    sr.write_part([Item("b")], url, 0)
    with caplog.at_level(logging.WARNING, "seqrecorder"):
        sr.commit(url)
    assert "2 attempts at part 0 have different contents" in caplog.text
    assert [record.key for record in sr.open(url).all()] == ["b"]
    assert sr.clean(url, older_than=0) == {}


def test_what_is_wrong_with_parts(url):
    """Missing ones, doubled keys, other options and lost files are errors, and all parts stay."""
    with pytest.raises(sr.DatasetNotFoundError, match=f"no parts of {url}"):
        sr.commit(url)
    write_parts(url, [0, 2])
    with pytest.raises(sr.DatasetNotFoundError, match="missing: 1"):
        sr.commit(url, expected=3)
    sr.write_part(items(1), url, 1, **OPTIONS)
    with pytest.raises(sr.DuplicateKeyError, match="part 0 and in part 1"):
        sr.commit(url, expected=3)
    sr.write_part(items(1, 50), url, 1, **{**OPTIONS, "seed": 2})
    with pytest.raises(sr.OptionError, match="seed"):
        sr.commit(url, expected=3)
    sr.write_part(items(1, 50), url, 1, **OPTIONS)
    place = Place.of(url)
    shard = next(name for name in place.items() if name.endswith(".tfrecord") and "p00002" in name)
    data = place.read(shard)
    place.files.pipe_file(place.at(shard), data[:-1])
    with pytest.raises(sr.DatasetNotFoundError, match=rf"{shard}.*it has {len(data) - 1}"):
        sr.commit(url, expected=3)
    place.remove([shard])
    with pytest.raises(sr.DatasetNotFoundError, match=f"{shard}.*is missing"):
        sr.commit(url, expected=3)
    place.files.pipe_file(place.at(shard), data)
    assert sr.commit(url, expected=3).records == 11


def test_parts_are_added_and_replace(url):
    """With `append` parts add a generation, whose keys are new; with `overwrite` they take the place of all."""
    sr.write(items(4), url, **OPTIONS)
    sr.write_part(items(1), url, 0, append=True)
    with pytest.raises(sr.DuplicateKeyError, match=url):
        sr.commit(url, append=True)
    assert sr.clean(url, older_than=0, parts=True)
    sr.write_part(items(2, 10), url, 0, append=True)
    for option in ({}, {"overwrite": True}):
        with pytest.raises(sr.OptionError, match="part 0 was written with append=True: pass append=True to commit"):
            sr.commit(url, **option)
    assert (sr.commit(url, append=True).records, sr.info(url).generation) == (6, 1)
    sr.write_part(items(2, 10), url, 0, overwrite=True)
    assert (sr.commit(url, overwrite=True).records, sr.info(url).generation) == (2, 2)
    assert sr.verify(url).ok


def test_late_attempts_do_not_pass_for_committed_ones(url):
    """Where a commit is killed before it has removed all, the next call removes that; what came since is told of."""
    sr.write(items(4), url)
    sr.write_part(items(2, 10), url, 0, append=True)

    def stop(name, path):
        if name == "before_delete":
            raise KeyboardInterrupt(path)

    with on_fault_point(stop), pytest.raises(KeyboardInterrupt):
        sr.commit(url, append=True)
    sr.write_part(items(2, 20), url, 1, append=True)
    with pytest.raises(sr.DatasetError, match="is committed, by a run that was killed"):
        sr.commit(url, append=True)
    assert sr.info(url).records == 6
    assert sr.commit(url, append=True).records == 8
    assert sr.clean(url, older_than=0, parts=True) == {}


@pytest.mark.parametrize("step", [17, pytest.param(1, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("append", [False, True])
def test_a_commit_that_is_killed_is_run_again(disk, append, step):
    """Killed at any request, `commit` has published everything or nothing, and the next call ends it."""
    wanted = 12 if append else 6
    number, ended = 1, False
    while not ended:
        url = f"{disk}-{number}"
        if append:
            sr.write(items(6, 100), url, **OPTIONS)
        write_parts(url, range(3), 2, append=append)
        child = os.fork()
        if not child:
            seen = iter(range(1, number))

            def kill(name, _, seen=seen):
                if name in REQUEST_POINTS and next(seen, None) is None:
                    os.kill(os.getpid(), signal.SIGKILL)

            try:
                with on_fault_point(kill):
                    sr.commit(url, append=append)
            finally:
                os._exit(0)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        try:
            before = sr.info(url).records
        except sr.DatasetNotFoundError:
            before = 0
        assert before in {6 if append else 0, wanted}
        if not ended and (before < wanted or any(name.startswith(".parts") for name in kept(url))):
            sr.commit(url, expected=3 if before < wanted else None, append=append)
        elif append:  # whoever appends cannot tell whether that was done
            with pytest.raises(sr.DatasetNotFoundError, match="a commit that ran before may have taken them"):
                sr.commit(url, append=True)
        assert sr.info(url).records == wanted
        assert sr.verify(url).ok
        assert not [name for name in kept(url) if name.startswith(".parts")]
        number += step
    assert number > 20


def texts(place):
    return sorted(record.text for record in sr.read_records(place, schema=Line))


def stop_before_removal(name, path):
    is_attempt = path.rpartition("/")[0].endswith(".parts") and not path.endswith("/committed")
    if name == "before_delete" or (name == "before_rename" and is_attempt):
        raise KeyboardInterrupt(path)


@pytest.fixture(params=["directory", "URL"])
def place(request, tmp_path, url):
    """Give a dataset of one record without a key, and a part to be added to it."""
    where = url if request.param == "URL" else str(tmp_path / "corpus")
    sr.write([Line("a")], where)
    sr.write_part([Line("b")], where, 0, append=True)
    return where


def test_parts_are_added_once_though_others_append(place):
    """Where a commit is killed behind its publication, and another record comes, the next call adds nothing twice."""
    with on_fault_point(stop_before_removal), pytest.raises(KeyboardInterrupt):
        sr.commit(place, append=True)
    sr.write([Line("c")], place, append=True)
    assert sr.commit(place, append=True).records == 3
    assert texts(place) == ["a", "b", "c"]
    assert sr.verify(place).ok


def test_parts_are_added_once_beside_another_commit(url):
    """Two commits see different parts; both are killed, one behind its publication: no part is added twice."""
    sr.write([Line("a")], url)
    sr.write_part([Line("b")], url, 0, append=True)

    def stop_other(name, path):
        if name == "before_put" and path.endswith("corpus/manifest.json"):
            raise KeyboardInterrupt(path)

    def go_between(name, path):
        stop_before_removal(name, path)
        if name == "after_get" and "/.parts/0-" in path:  # it has listed the parts by now
            with on_fault_point(lambda *_: None):
                sr.write_part([Line("c")], url, 1, append=True)
            with on_fault_point(stop_other), pytest.raises(KeyboardInterrupt):
                sr.commit(url, append=True)

    with on_fault_point(go_between), pytest.raises(KeyboardInterrupt):
        sr.commit(url, append=True)
    assert texts(url) == ["a", "b"]
    with pytest.raises(sr.DatasetError, match="is committed, by a run that was killed"):
        sr.commit(url, append=True)
    assert sr.commit(url, append=True).records == 3
    assert texts(url) == ["a", "b", "c"]


def test_an_attempt_that_another_replaced_is_not_added_by_itself(url):
    """Killed at any request while it removes attempts, a commit leaves none that the next one takes for new."""
    for number in range(8):
        where = f"{url}-{number}"
        sr.write([Line("a")], where)
        for text in ("old", "new"):
            sr.write_part([Line(text)], where, 0, append=True)
        left = iter(range(number))

        def stop(name, path, left=left):
            if name == "before_delete" and next(left, None) is None:
                raise KeyboardInterrupt(path)

        with on_fault_point(stop), contextlib.suppress(KeyboardInterrupt):
            sr.commit(where, append=True)
        with contextlib.suppress(sr.DatasetNotFoundError):  # nothing was left
            sr.commit(where, append=True)
        assert texts(where) == ["a", "new"]


def test_a_commit_ends_beside_those_who_append_all_the_time(place):
    """Whoever appends between each look of `commit` at the dataset and its publication does not keep it from ending."""
    appended, waiting = [], []

    def append():
        with contextlib.suppress(sr.DatasetError):  # it was slower
            sr.write([Line("c")], place, append=True)
            appended.append("c")

    def be_faster(name, path):
        ours = threading.current_thread() is threading.main_thread()
        if place.startswith("memory:") and name == "before_list" and len(appended) < 6:
            with on_fault_point(lambda *_: None):
                append()
        elif name == "before_link" and ours and not appended:
            append()
        elif name == "before_link" and ours and not waiting:
            waits = threading.Event()
            waiting.append((threading.Thread(target=append), waits))
            waiting[0][0].start()
            assert waits.wait(60)
        elif name == "before_lock" and path == place and not ours:
            waiting[0][1].set()  # until `commit` lets it

    with on_fault_point(be_faster):
        assert sr.commit(place, append=True).records > 2
    for thread, _ in waiting:
        thread.join()
    assert appended
    assert texts(place) == ["a", "b", *appended]


@pytest.mark.parametrize("near", [True, False])
def test_finished_parts_are_listed_and_not_made_again(near, url, tmp_path):
    """A job that starts again asks which parts are complete, or skips them: no record of these is drawn."""
    place, drawn = tmp_path / "near" if near else url, []

    def drawing(part, start):
        for item in items(5, start):
            drawn.append(part)
            yield item

    assert sr.parts(place) == []
    for run in range(2):
        for number, part in enumerate([2, "b", "1", "b-2"]):
            manifest = sr.write_part(drawing(part, 5 * number), place, part, skip_finished=True, **OPTIONS)
            assert manifest.records == 5, run
    assert sr.parts(place) == [1, 2, "b", "b-2"]
    assert len(drawn) == 20
    with pytest.raises(sr.SourceError):
        sr.write_part(map(int, ["x"]), place, 3, schema=Item, **OPTIONS)
    assert sr.parts(place) == [1, 2, "b", "b-2"]  # what failed is not complete
    other = sr.write_part([Line("c")], place, 1, schema=Line, skip_finished=True)
    assert other.schema == sr.Schema.of(Line)  # a part of another class is written again
    sr.write_part(drawing(1, 10), place, 1, schema=Item, skip_finished=True, **OPTIONS)
    assert sr.commit(place, expected=4).records == 20
    assert sr.parts(place) == []


def test_skipped_records_are_logged_with_the_url(url, caplog):
    """The log names the destination, not the local directory where the shards are made."""
    sr.write([Item("a"), Item("a"), Item("b")], url, on_duplicate="first")
    assert [record.message for record in caplog.records] == [f"{url}: 1 record skipped"]
