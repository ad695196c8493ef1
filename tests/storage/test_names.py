import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqrecorder.errors import ManifestError, OptionError
from seqrecorder.storage.files import check_name, check_names, inside, is_special, lengths_name, shard_name

NOT_COMPONENTS = [
    "",
    ".",
    "..",
    "...",
    ".hidden",
    "a\\b",
    "..\\x",
    "C:",
    "C:x",
    "a\0",
    "a\nb",
    "a\tb",
    "a\x1b[31m",
    "a\x7f",
    "a\x85b",
    "a\u2028b",
    "a\u202eb",
    "a\u200bb",
    "a\ufeff",
    "a\ud800",
    "a\u2044b",
    "a\u2215b",
    "a\u29f8b",
    "a\u2571b",
    "a\uff0fb",
    "a\u2216b",
    "a\uff3cb",
    "a\ufe68b",
    "\u2024\u2024",
    "\u2025",
    "\uff0e\uff0e",
    "a\u0338",
    "con",
    "CON",
    "Nul",
    "nul.txt",
    "con .txt",
    "com1",
    "COM¹",
    "lpt9.csv",
    "aux",
    "conin$",
    "a.",
    "a ",
    "a?",
    "a*",
    "a|b",
    'a"b',
    "a<b",
    "e\u0301",
    "x" * 256,
    "é" * 128,
]
NOT_NAMES = [*NOT_COMPONENTS, "a/b", "/", "/etc", "../x", " a", "\u00a0a", "a\u3000", "x" * 101, "é" * 51]
NOT_PATHS = [
    *NOT_COMPONENTS,
    "/",
    "/etc/passwd",
    "//host/share",
    "../x",
    "train/../../x",
    "train/..",
    "train/",
    "train//x",
    "./train",
    "train/./x",
    "train/\0",
    "C:/x",
    "train\\..\\..\\x",
]


@pytest.mark.parametrize("name", NOT_NAMES)
def test_unsafe_names(name, figure):
    """A name that could leave its directory, or that some file system changes, is refused by name."""
    with pytest.raises(OptionError, match=re.escape(f"asset {name!r}: expected a plain file name, got ")):
        check_name(name, "asset")
    figure(23, "hostile names and paths", 1, "refused")


@pytest.mark.parametrize(
    "name",
    [
        "train",
        "fold_0",
        "a.b-c",
        "été",
        "テスト",
        "ノート",
        "a b",
        "a[1]",
        "x" * 100,
        "é" * 50,
        "console",
        "com10",
        "~",
    ],
)
def test_safe_names(name):
    """A plain name in any language is given back unchanged."""
    assert check_name(name, "split") == name


def test_names_of_the_dataset():
    """A split may not take a name that the dataset needs for itself, in any case; an asset may."""
    for name in ("assets", "Assets", "manifest.json", "MANIFEST.json"):
        with pytest.raises(OptionError, match="own"):
            check_name(name, "split")
        assert check_name(name, "asset") == name


@pytest.mark.parametrize("name", [None, 1, b"train", ("train",)])
def test_names_of_other_types(name):
    """A name that is not a str is refused with its type."""
    with pytest.raises(OptionError, match=type(name).__name__):
        check_name(name, "split")


def test_names_alike():
    """Two names that are one file where case does not count are refused, and both are named."""
    assert check_names(["train", "eval"], "split") == ("train", "eval")
    for names in (["train", "eval", "Train"], ["train", "train"]):
        with pytest.raises(OptionError, match=f"{names[-1]}.*'train'"):
            check_names(names, "split")


def test_shard_names():
    """Shards sort by name as by index, and say their generation unless it is the first."""
    assert shard_name("train", 0, 8) == "train-00000-of-00008.tfrecord"
    assert shard_name("train", 0, 2, 1) == "train-g0001-00000-of-00002.tfrecord"
    assert shard_name("train", 123_456, 200_000) == "train-123456-of-200000.tfrecord"
    assert shard_name("train", 7, None, 1) == "train-g0001-00007.tfrecord"


@pytest.mark.parametrize(
    "arguments", [("../x", 0, 1), ("train", 1, 1), ("train", -1, 1), ("train", 0, 0), ("train", 0, 1, -1)]
)
def test_shard_names_out_of_range(arguments):
    """A shard that cannot exist has no name."""
    with pytest.raises(OptionError):
        shard_name(*arguments)


def test_lengths_names():
    """The lengths of a shard lie beside it under the same stem, and nothing else has lengths."""
    assert lengths_name("train-g0001-00000-of-00002.tfrecord") == "train-g0001-00000-of-00002.lengths"
    for name in ("manifest.json", ".tfrecord", ""):
        with pytest.raises(OptionError, match="tfrecord"):
            lengths_name(name)


@pytest.mark.parametrize("relative", [*NOT_PATHS, None, 3, b"train"])
def test_paths_that_leave(tmp_path, relative, figure):
    """A manifest's path that leaves the dataset, or only looks like it, is an error of the manifest."""
    with pytest.raises(ManifestError, match="inside the dataset") as caught:
        inside(tmp_path, relative)
    assert caught.value.path == str(tmp_path)
    figure(23, "hostile names and paths", 1, "refused")


def test_paths_inside(tmp_path):
    """A plain path is joined, in a directory of any name and whether or not the file exists."""
    root = tmp_path / "a[1]*?"
    longest = shard_name("x" * 100, 0, 1)
    for relative in ("manifest.json", "train/train-00000-of-00001.tfrecord", "assets/a b.txt", longest):
        assert inside(root, relative) == root / relative


def test_symbolic_links(tmp_path):
    """A symbolic link may lead elsewhere inside the dataset or to the dataset, but not out of it."""
    root = tmp_path / "real"
    (root / "train").mkdir(parents=True)
    (tmp_path / "secret").write_text("")
    (root / "file").symlink_to(tmp_path / "secret")
    (root / "directory").symlink_to("..")
    (root / "loop").symlink_to("loop")
    (tmp_path / "really").mkdir()
    (root / "sibling").symlink_to("../really")
    (root / "fine").symlink_to("train")
    (tmp_path / "alias").symlink_to(root)
    for relative in ("file", "directory/secret", "directory/real/../secret", "directory", "sibling/x"):
        with pytest.raises(ManifestError):
            inside(root, relative)
    assert inside(root, "fine/x") == root / "fine/x"
    assert inside(tmp_path / "alias", "train/x") == tmp_path / "alias/train/x"
    with pytest.raises(ManifestError):
        inside(root, "loop/../../secret")


@given(st.text(max_size=30))
def test_any_name(name):
    """Whatever passes is one component below its directory; whatever does not is an OptionError."""
    from pathlib import Path

    try:
        check_name(name, "split")
    except OptionError:
        return
    path = Path("/root") / name
    assert path.parent == Path("/root")
    assert path.name == name
    assert not name.startswith(".")


def test_pipes_and_devices(tmp_path):
    """What is neither a file nor a directory is refused, since opening it could wait for ever."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("")
    assert [is_special(tmp_path / name) for name in ("pipe", "file", ".", "nothing")] == [True, False, False, False]
    with pytest.raises(ManifestError, match="which is a pipe or a device"):
        inside(tmp_path, "pipe")


def test_a_file_that_vanishes_is_not_special(tmp_path, monkeypatch):
    """A file that an overwrite removes while it is looked at is missing, not a pipe."""
    monkeypatch.setattr("pathlib.Path.exists", lambda *_: True)
    assert not is_special(tmp_path / "gone")
    assert inside(tmp_path, "gone") == tmp_path / "gone"
