"""Only what is the dataset's is removed when it is overwritten."""

import os
import shutil
from pathlib import Path

import pytest
from written_records import items

import seqrecorder as sr
from seqrecorder.storage.publish import exchange_now

SHARD = "train-00000-of-00002.tfrecord"

# Path inside the dataset to contents; text that begins with "->" makes a symbolic link, and a name that ends with "/"
# an empty directory.
OF_THE_USER = {
    "notes": {"NOTES.md": "x"},
    "notes without extension": {"README": "x"},
    "hidden file": {".gitattributes": "x"},
    "hidden directory": {".git/HEAD": "x", ".git/objects/aa/bb": "x"},
    "checkpoint": {"checkpoints/model.index": "x", "checkpoints/model.data-00000-of-00001": "x"},
    "deep": {"runs/2020/a/b/c/events.out": "x"},
    "empty directory": {"checkpoints/": ""},
    "empty hidden directory": {".cache/": ""},
    "in a split": {"train/labels.txt": "x"},
    "hidden in a split": {"train/.labels": "x"},
    "directory in a split": {"train/labels/a.txt": "x"},
    "empty directory in a split": {"train/labels/": ""},
    "in several splits": {"train/a": "x", "eval/b": "x"},
    "in a split that goes": {"test/labels.txt": "x"},
    "in the assets": {"assets/mine.txt": "x"},
    "directory in the assets": {"assets/mine/a.txt": "x"},
    "generation of assets, almost": {"assets/g1/a": "x"},
    "link to a file": {"link": "->manifest.json"},
    "link to a directory": {"link": "->train"},
    "link to elsewhere": {"link": "->/"},
    "dangling link": {"link": "->nowhere"},
    "link in a split": {"train/link": "->../manifest.json"},
    "manifest of other case": {"Manifest.json": "x"},
    "copy of the manifest": {"manifest.json.bak": "{}"},
    "manifest in a split": {"train/manifest.json": "{}"},
    "replacing, almost": {".manifest.json.replacing-mine": "x"},
    "replacing something else": {".notes.replacing-tabs": "x"},
    "note, almost": {".manifest.json.files-mine": "x"},
    "incomplete, almost": {".d.incomplete-mine": "x"},
    "incomplete of another": {".e.incomplete-0123456789abcdef/a": "x"},
    "index of shards": {f"train/{SHARD}.index": "x"},
    "compressed shard": {f"train/{SHARD}.gz": "x"},
    "copy of a shard": {f"train/{SHARD} (copy)": "x", f"train/copy of {SHARD}": "x"},
    "shard of other case": {"train/Train-00000-of-00002.tfrecord": "x"},
    "shard of another split": {"train/valid-00000-of-00001.tfrecord": "x", "train/valid-00000-of-00001.lengths": "x"},
    "short numbers": {"train/train-0-of-2.tfrecord": "x"},
    "short generation": {"train/train-g1-00000-of-00002.tfrecord": "x"},
    "shard outside of a split": {SHARD: "x"},
    "shards of another program": {"valid/valid-00000-of-00001.tfrecord": "x"},
    "split of another dataset": {"valid/valid-00000-of-00001.tfrecord": "x", "valid/valid-00000-of-00001.lengths": "x"},
    "later split of another dataset": {"valid/valid-g0001-00000-of-00001.tfrecord": "x"},
    "another dataset": {"other/manifest.json": "{}", "other/train/train-00000-of-00001.tfrecord": "x"},
    "examples, almost": {"train/examples-1.csv": "x", "train/examples.tsv": "x", "examples.csv": "x"},
    "examples of the user": {"train/examples.csv": "my,columns\n"},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("made") / "d"
    splits = {name: items(4, start) for start, name in ((0, "train"), (4, "eval"), (8, "test"))}
    sr.write(splits, path, shards=2, assets={"v": "old"})
    return path


def put(directory, files):
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("->"):
            path.symlink_to(text[2:])
        elif name.endswith("/"):
            path.mkdir()
        else:
            path.write_text(text)


def is_there(path, text):
    if text.startswith("->"):
        return path.is_symlink() and str(path.readlink()) == text[2:]
    return path.is_dir() if not text else path.read_text() == text


@pytest.mark.parametrize("files", OF_THE_USER.values(), ids=OF_THE_USER.keys())
def test_the_users_files_stay(tmp_path, made, files):
    """An overwrite leaves every file of the user where it was, and of the old dataset nothing."""
    place = tmp_path / "d"
    shutil.copytree(made, place)
    put(place, files)
    sr.write(items(3, 90), place, overwrite=True, assets={"w": "new"})
    assert all(is_there(place / name, text) for name, text in files.items())
    assert [record.key for record in sr.read_records(place)] == ["k90", "k91", "k92"]
    kept = {Path(name) for name in files} | {parent for name in files for parent in Path(name).parents}
    found = {path.relative_to(place) for path in place.rglob("*")} - kept
    ours = {"manifest.json", "train", "train/train-g0001-00000-of-00001.tfrecord"}
    ours |= {"train/train-g0001-00000-of-00001.lengths", "assets", "assets/g0001", "assets/g0001/w"}
    assert {path.as_posix() for path in found} - ours == set()
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


@pytest.mark.parametrize("text", ['{"name": "my web app"}', "[]", "{}", '{"format": "zarr"}', "", "{", "\udcff"])
def test_what_is_no_dataset_stays(tmp_path, text):
    """A directory with a manifest of another program, or a broken one and no shards of ours, is refused."""
    place = tmp_path / "d"
    put(place, {"index.html": "precious", "train/train-00000-of-00001.tfrecord": "x"})
    (place / "manifest.json").write_bytes(os.fsencode(text))
    before = {path: path.read_bytes() for path in place.rglob("*.*")}
    with pytest.raises(sr.DatasetExistsError, match="not of seqrecorder"):
        sr.write(items(3), place, overwrite=True)
    assert {path: path.read_bytes() for path in place.rglob("*.*")} == before


@pytest.mark.parametrize(
    "text", ["", "{", '{"format": "seqrecorder"}', '{"format": "seqrecorder", "format_version": 9}']
)
def test_what_is_damaged_stays(tmp_path, made, text):
    """A dataset with a damaged manifest is refused, since nothing says which files are its own."""
    place = tmp_path / "d"
    shutil.copytree(made, place)
    (place / "manifest.json").write_text(text)
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    with pytest.raises(sr.DatasetExistsError, match="damaged or not of seqrecorder.*remove the directory"):
        sr.write(items(3), place, overwrite=True)
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("append", [False, True])
@pytest.mark.parametrize("taken", ["file", "link", "shard"])
def test_a_name_that_is_taken(tmp_path, made, append, taken):
    """Nothing of the user's is written over: a name that is taken is refused, and all stays as it was."""
    place = tmp_path / "d"
    shutil.copytree(made, place)
    if taken == "shard":
        put(place, {"new/new-g0001-00000-of-00001.tfrecord": "mine"})
    else:
        put(place, {"new": "mine" if taken == "file" else "->train"})
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    with pytest.raises(sr.DatasetExistsError, match="new"):
        sr.write({"new": items(3, 90)}, place, append=append, overwrite=not append)
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_what_comes_at_the_last_moment(tmp_path, made, monkeypatch):
    """A file that comes between the last look and the exchange of directories stays as well."""
    place = tmp_path / "d"
    shutil.copytree(made, place)
    exchange = exchange_now

    def exchange_late(one, other):
        (place / "late").write_text("mine")
        monkeypatch.setattr("seqrecorder.storage.publish.exchange_now", exchange)
        return exchange(one, other)

    monkeypatch.setattr("seqrecorder.storage.publish.exchange_now", exchange_late)
    sr.write(items(3), place, overwrite=True)
    assert (place / "late").read_text() == "mine"
    assert sr.info(place).records == 3
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


@pytest.mark.parametrize("killed", ["before", "after"])
def test_notes_of_a_killed_overwrite(tmp_path, made, killed):
    """What a killed overwrite left of splits that no manifest names goes by its notes; the user's files stay."""
    place = tmp_path / "d"
    shutil.copytree(made, place)
    put(place, {"NOTES": "x", "test/mine.txt": "x"})
    old = (place / "manifest.json").read_bytes()
    files = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    sr.write({"late": items(3)}, place, overwrite=True)
    new = (place / "manifest.json").read_bytes()
    for path, data in files.items():  # as they were when it was killed
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    (place / "manifest.json").write_bytes(new if killed == "after" else old)
    for number, text in enumerate([old, new]):
        (place / f".manifest.json.files-{number:016x}").write_bytes(text)
    (place / ".manifest.json.files-ffffffffffffffff").write_bytes(b"{")
    sr.write({"train": items(1, 50)}, place, append=killed == "before", overwrite=killed == "after")
    report = [str(problem) for problem in sr.verify(place).problems]
    assert report == ["test/mine.txt: a file that the manifest does not know"] if killed == "before" else not report
    assert (place / "test" / "mine.txt").read_text() == "x"
    assert not list(place.glob(".*"))
    assert (place / "late").exists() is False


@pytest.mark.parametrize(
    "write_again",
    [sr.compact, sr.rewrite, lambda path: sr.write(items(2), path, overwrite=True)],
    ids=["compact", "rewrite", "overwrite"],
)
def test_replaced_assets_go_when_a_dataset_is_written_again(tmp_path, write_again):
    """An append leaves a replaced asset to readers of the old manifest; what writes the whole dataset removes it."""
    path = tmp_path / "corpus"
    sr.write(items(3), path, assets={"words": "first"})
    (path / "assets" / "mine").write_text("mine")
    older = sr.info(path)
    for start, word in ((3, "second"), (4, "third")):
        sr.write(items(1, start), path, append=True, assets={"words": word})
    assert older.assets["words"].read_text() == "first"
    write_again(path)
    left = {file.read_text() for file in (path / "assets").rglob("*") if file.is_file()}
    assert left == {"mine"} | {file.read_text() for file in sr.info(path).assets.values()}
    assert not left & {"first", "second"}
