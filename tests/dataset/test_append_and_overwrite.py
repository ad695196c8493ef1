"""Publishing into a dataset that exists."""

import shutil
from pathlib import Path

import pytest
from faults import names, record_calls
from written_records import Item, items

import seqrecorder as sr
from seqrecorder.dataset.append_and_overwrite import Standing, merge_into


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    sr.write(items(5), tmp_path / "d", shards=2, csv=True)
    return tmp_path / "d"


def test_order(corpus: Path) -> None:
    """New files are synced and in place, with their directories, before the manifest takes its name."""
    calls = [(name, Path(path).name) for name, path in record_calls(lambda: sr.write([Item("x")], corpus, append=True))]
    shard = "train-g0001-00000-of-00001.tfrecord"
    steps = [
        ("after_fsync", shard),
        ("after_lock", "d"),
        ("after_rename", shard),
        ("after_fsync", "train"),
        ("after_fsync", "d"),
        ("before_rename", "manifest.json"),
    ]
    # The last of each, since the shard is named and directories are synced in the staging directory before.
    places = [len(calls) - 1 - calls[::-1].index(step) for step in steps[:4]]
    renamed = calls.index(steps[5])
    assert places == sorted(places)
    assert places[-1] < calls.index(steps[4], places[-1]) < renamed
    assert ("after_fsync", "d") in calls[renamed:]


def test_changed_meanwhile(corpus: Path) -> None:
    """Of two appends at once the later is refused, and changes nothing."""
    with pytest.raises(sr.ChangedError, match="was changed while this was written"):  # noqa: PT012, SIM117
        with sr.Writer(corpus, Item, append=True) as writer:
            writer.write(Item("late"))
            sr.write([Item("early")], corpus, append=True)
    manifest = sr.info(corpus)
    assert (manifest.generation, manifest.records) == (1, 6)
    assert sr.verify(corpus).ok
    assert names(corpus.parent) == ["d"]


def test_gone_meanwhile(corpus: Path) -> None:
    """An append to a dataset that somebody removed is an error, and makes none."""
    with pytest.raises(sr.DatasetNotFoundError), sr.Writer(corpus, Item, append=True) as writer:  # noqa: PT012
        writer.write(Item("late"))
        shutil.rmtree(corpus)
    assert names(corpus.parent) == []


def test_came_meanwhile(corpus: Path, tmp_path: Path) -> None:
    """What was thought damaged and is a dataset by now is not merged into."""
    shutil.copytree(corpus, tmp_path / "staging")
    with pytest.raises(sr.ChangedError, match="was changed while"):
        merge_into(corpus, tmp_path / "staging", sr.info(corpus), Standing(b"damaged", None, 1))
    assert sr.verify(corpus).ok


def test_left_over_of_a_killed_append(corpus: Path) -> None:
    """Files that a killed append left are removed by the next one; the user's own are not."""
    train = corpus / "train"
    for name in ("train-g0001-00002-of-00003.tfrecord", "train-g0007-00000-of-00001.lengths", "examples-g0001.csv"):
        (train / name).write_text("left")
    (corpus / "assets" / "g0001").mkdir(parents=True)
    (corpus / "assets" / "g0001" / "v").write_text("left")
    mine = [train / "notes.txt", train / "eval-g0001-00000-of-00001.tfrecord", corpus / "README"]
    for path in mine:
        path.write_text("mine")
    manifest = sr.write([Item("x")], corpus, append=True, assets={"v": "new"})
    assert all(path.read_text() == "mine" for path in mine)
    assert not list(train.glob("*of-00003*")) + list(train.glob("*g0007*")) + list(train.glob("*.csv"))[1:]
    assert manifest.assets["v"].read_text() == "new"
