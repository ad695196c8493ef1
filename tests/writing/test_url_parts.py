"""Parts of a dataset at a URL."""

import logging
import os
import signal

import pytest
from places import Disk
from written_records import Item, items

import seqrecorder as sr
from seqrecorder.storage.files import REQUEST_POINTS, on_fault_point
from seqrecorder.storage.places import Place

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
    assert sr.commit(url).to_json() == far.to_json()
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
    with pytest.raises(sr.DatasetExistsError):
        sr.commit(url)
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
