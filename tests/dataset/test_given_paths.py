"""A path as somebody gives it means the same for ever, or is refused before anything is done, by every function."""

from pathlib import Path

import pytest
from written_records import Item, items

import seqrecorder as sr
from seqrecorder.cli import inspect, main
from seqrecorder.sources.foreign.convert import convert
from seqrecorder.sources.foreign.infer import infer

URLS = ["unknown-scheme://bucket/d", "memory://", "file:///d", Path("gs://bucket/d")]
NO_PATHS = [*URLS, "~nobody-of-that-name/d", "a\0b", "", "\udcff", None, 3]

TAKERS = {
    "write": lambda path: sr.write(items(1), path),
    "overwrite": lambda path: sr.write(items(1), path, overwrite=True),
    "append": lambda path: sr.write(items(1), path, append=True),
    "Writer": lambda path: sr.Writer(path, Item),
    "read": lambda path: sr.read(path, schema=Item),
    "read list": lambda path: sr.read([path], schema=Item),
    "read_records": sr.read_records,
    "info": sr.info,
    "verify": sr.verify,
    "verify shards": lambda path: sr.verify(path, schema=Item),
    "plan": lambda path: sr.plan(path, sr.Pad(2)),
    "from_csv": lambda path: sr.from_csv(path, Clip),
    "salvage": lambda path: sr.salvage(path, "elsewhere"),
    "salvage to": lambda path: sr.salvage("corpus", path),
    "convert": lambda path: convert(path, "elsewhere"),
    "convert to": lambda path: convert("corpus/train/*.tfrecord", path, schema=Item),
    "infer": infer,
    "describe": inspect.describe,
    "head": inspect.head,
}


class Clip:
    @classmethod
    def from_csv_row(cls, row):
        return row


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The working directory, with a dataset `corpus` in it, and a home directory of its own."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    sr.write(items(3), "corpus")
    return tmp_path


@pytest.mark.parametrize("taker", TAKERS.values(), ids=TAKERS.keys())
def test_what_is_no_local_path(here, taker):
    """URLs that lead nowhere, and what is no path, are refused by an OptionError, in every function that takes one."""
    for path in NO_PATHS:
        with pytest.raises(sr.OptionError):
            taker(path)
    assert sorted(path.name for path in here.iterdir()) == ["corpus", "home"]


@pytest.mark.parametrize("command", ["info", "head", "verify", "schema"])
def test_urls_on_the_command_line(here, capsys, command):
    """The command line refuses them as well, by one line; `schema` all URLs."""
    assert main.main([command, "unknown-scheme://bucket/d"]) == main.PROBLEM
    said = "expected a local path" if command == "schema" else "cannot be opened"
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert sorted(path.name for path in here.iterdir()) == ["corpus", "home"]


def test_home(here):
    """`~` is the home directory, for reading and writing, in globs too."""
    sr.write(items(3), "~/d")
    assert sorted(path.name for path in here.iterdir()) == ["corpus", "home"]
    assert sr.info("~/d").path == here / "home" / "d"
    assert len(list(sr.read_records("~/d/train/*.tfrecord", schema=Item))) == 3


def test_relative_paths(here, monkeypatch):
    """A relative path is resolved when it is given: what is iterated over later is found from everywhere."""
    (here / "rows.csv").write_text("a\n1\n")
    made = {
        "read": sr.read("corpus"),
        "Pad": sr.read("corpus", batch=sr.Pad(2)),
        "records": sr.read_records("corpus"),
        "shards": sr.read_records("corpus/train/*.tfrecord", schema=Item),
    }
    rows, manifest = sr.from_csv("rows.csv", dict_rows()), sr.info("corpus")
    with sr.Writer("late", Item) as writer:
        monkeypatch.chdir("/")
        writer.write(Item("a"))
    assert {name: len(list(one)) for name, one in made.items()} == {"read": 3, "Pad": 2, "records": 3, "shards": 3}
    assert len(list(rows)) == 1
    assert sr.verify(manifest.path).ok
    assert sr.info(here / "late").records == 1


def dict_rows():
    @sr.record
    class Row:
        a: str = sr.context(str)

        @classmethod
        def from_csv_row(cls, row):
            return cls(row["a"])

    return Row


@pytest.mark.parametrize("name", ["manifest.json", "a[1]*?", "[ab]", "été", " ", "x" * 255, "a\nb", "-r", "gs:", "~"])
def test_any_name_will_do(tmp_path, monkeypatch, name):
    """A dataset has any name that a directory can have: it is written, read, verified and found by globs."""
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / name)
    path = Path(tmp_path, name, name)
    sr.write(items(3), path)
    sr.write(items(3, 3), path, append=True)
    assert len(list(sr.read(path))) == 6
    assert sr.verify(path).ok
    assert inspect.describe(path).records == inspect.describe(path / "manifest.json").records == 6
    path.joinpath("train", sr.info(path).splits["train"].shards[0].name).rename("one.tfrecord")
    assert len(list(sr.read_records("o*.tfrecord", schema=Item))) == 3
