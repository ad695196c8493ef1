"""`verify`: everything that is wrong is found."""

import contextlib
import errno
import io
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import seqrecorder as sr
from seqrecorder.storage import files as bad_sectors


@sr.record
class Line:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int64")


RECORDS = [Line(f"k{n}", np.arange(n % 7)) for n in range(40)]


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checks") / "lines"
    sr.write(RECORDS, path, shards=2, csv=True, assets={"words.txt": "a\nb"})
    return path


@pytest.fixture
def lines(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "lines"))


def test_a_good_dataset_is_good(lines: Path) -> None:
    """A dataset as it was written has no problems, in both levels, and the report counts what there is."""
    for level in ("quick", "full"):
        report = sr.verify(lines, level=level)
        assert report
        assert (report.records, report.shards, report.problems) == (40, 2, ())
        assert report.bytes == sum(path.stat().st_size for path in lines.rglob("*.tfrecord"))


def shard_of(lines: Path) -> Path:
    return lines / "train" / "train-00000-of-00002.tfrecord"


def cut(lines: Path) -> None:
    shard_of(lines).write_bytes(shard_of(lines).read_bytes()[:-3])


def flip(lines: Path) -> None:
    data = bytearray(shard_of(lines).read_bytes())
    data[-6] ^= 0x80
    shard_of(lines).write_bytes(data)


def append(lines: Path) -> None:
    with shard_of(lines).open("ab") as file:
        file.write(shard_of(lines).read_bytes()[:30])


def remove(lines: Path) -> None:
    shard_of(lines).unlink()


def swap(lines: Path) -> None:
    other = lines / "train" / "train-00001-of-00002.tfrecord"
    mine, theirs = shard_of(lines).read_bytes(), other.read_bytes()
    shard_of(lines).write_bytes(theirs)
    other.write_bytes(mine)


def add_foreign(lines: Path) -> None:
    shutil.copy(shard_of(lines), lines / "train" / "train-00002-of-00002.tfrecord")


def change_lengths(lines: Path) -> None:
    path = shard_of(lines).with_suffix(".lengths")
    table = np.fromfile(path, "<i8")
    table[3] += 1
    table.tofile(path)


def remove_lengths(lines: Path) -> None:
    shard_of(lines).with_suffix(".lengths").unlink()


def change_asset(lines: Path) -> None:
    (lines / "assets" / "words.txt").write_text("a\nc")


def remove_asset(lines: Path) -> None:
    (lines / "assets" / "words.txt").unlink()


def cut_manifest(lines: Path) -> None:
    path = lines / "manifest.json"
    path.write_text(path.read_text()[:-30])


QUICK = [cut, append, remove, add_foreign, change_lengths, remove_lengths, change_asset, remove_asset, cut_manifest]


PLACES = {
    cut: r"after 19 records, at byte \d+, it ends inside a record",
    append: r"after 20 records, at byte \d+, it ends inside a record",
    flip: r"damaged after .*\(record 19\)",
    change_lengths: r"record 3 at byte \d\d\d: its length is not what the lengths file says",
}
"""What is said of damage beside that a digest differs."""


@pytest.mark.parametrize("damage", [*QUICK, flip, swap], ids=lambda damage: damage.__name__)
def test_damage_is_found(lines: Path, damage: Callable[[Path], None]) -> None:
    """Every damage is found, quickly if it shows without reading; no line repeats the path or the advice to verify."""
    damage(lines)
    report = sr.verify(lines)
    assert not report
    lines_shown = "\n".join(map(str, report.problems))
    assert re.search(PLACES.get(damage, "."), lines_shown)
    assert not re.search(f"{lines}/train|seqrecorder verify", lines_shown)
    if damage in QUICK:
        assert not sr.verify(lines, level="quick")


def test_counts_of_the_manifest_are_compared(lines: Path) -> None:
    """A shard that is as it was written, of which the manifest says another number of records, is refused and found."""
    path = lines / "manifest.json"
    path.write_text(path.read_text().replace('"records": 20', '"records": 21', 1))
    assert "expected 21 records, got 20" in "\n".join(map(str, sr.verify(lines).problems))
    for read in (sr.read, sr.read_records):
        with pytest.raises(sr.ShardReadError, match="expected 21 records, got 20"):
            read(lines, check="full")


def test_consistent_forgery_is_found_by_parsing(lines: Path) -> None:
    """Records that do not fit the schema are found even where sizes, digests and counts were forged to match."""
    path = shard_of(lines)
    count = sum(1 for _ in tf.data.TFRecordDataset(str(path)))
    with tf.io.TFRecordWriter(str(path)) as writer:
        for _ in range(count):
            writer.write(tf.train.Example().SerializeToString())
    manifest_path = lines / "manifest.json"
    manifest = json.loads(manifest_path.read_text())
    from seqrecorder.storage.files import sha256

    manifest["splits"]["train"]["shards"][0].update(bytes=path.stat().st_size, sha256=sha256(path))
    manifest_path.write_text(json.dumps(manifest))
    problem = sr.verify(lines).problems[-1]
    assert "record 0" in problem.message
    assert "the message is empty" in problem.message


def test_bare_shards_are_verified_against_a_class(lines: Path) -> None:
    """Bare shards are verified frame by frame and record by record, with the class that says what is in them."""
    shards = sorted((lines / "train").glob("*.tfrecord"))
    assert sr.verify(shards, schema=Line).records == 40
    assert sr.verify(str(lines / "train" / "*.tfrecord"), schema=Line)
    cut(lines)
    report = sr.verify(shards, schema=Line)
    assert not report
    assert "train-00000-of-00002.tfrecord" in str(report.problems[0])
    flip(lines)


def test_bare_shards_without_a_class_are_walked(lines: Path) -> None:
    """A bare shard without a class is checked frame by frame, with the CRC of every record."""
    shard = shard_of(lines)
    report = sr.verify(shard)
    assert report
    assert report.records == sum(1 for _ in tf.data.TFRecordDataset(str(shard)))
    flip(lines)
    assert sr.verify(shard, level="quick")
    assert not sr.verify(shard)
    cut(lines)
    assert not sr.verify(shard, level="quick")


def test_arguments_of_verify(lines: Path, tmp_path: Path) -> None:
    """An unknown level and a place where nothing is are errors, not reports."""
    with pytest.raises(sr.OptionError, match="'quick' or 'full'"):
        sr.verify(lines, level="slow")
    with pytest.raises(sr.DatasetNotFoundError):
        sr.verify(tmp_path / "nowhere")


def edit_manifest(lines: Path) -> None:
    path = lines / "manifest.json"
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))


def foreign_directory(lines: Path) -> None:
    shutil.copytree(lines / "train", lines / "other")


def foreign_file(lines: Path) -> None:
    shutil.copy(shard_of(lines), lines / "train.tfrecord")


def double(lines: Path) -> None:
    data = shard_of(lines).read_bytes()
    shard_of(lines).write_bytes(data + data)


@pytest.mark.parametrize("damage", [edit_manifest, foreign_directory, foreign_file, double], ids=lambda d: d.__name__)
def test_strangers_are_found(lines: Path, damage: Callable[[Path], None]) -> None:
    """A changed manifest, shards that belong to no split, and doubled contents are found quickly too."""
    damage(lines)
    assert not sr.verify(lines, level="quick")
    assert not sr.verify(lines)


def test_a_class_that_disagrees_is_found(lines: Path) -> None:
    """A dataset is verified against a class too, which names each field that disagrees."""

    @sr.record
    class Other:
        key: int = sr.context("int64", key=True)
        ids: np.ndarray = sr.feature_list("int64")

    assert sr.verify(lines, schema=Line)
    [problem] = sr.verify(lines, schema=Other, level="quick").problems
    assert "cannot be read as Other: key: dtype str" in problem.message


def test_every_change_of_the_manifest_is_found(lines: Path) -> None:
    """No byte of the manifest can change without being found, or refused when it is read."""
    path = lines / "manifest.json"
    data = path.read_bytes()
    for place in range(0, len(data), 3):
        for mask in (0x01, 0x80, 0xFF):
            path.write_bytes(data[:place] + bytes([data[place] ^ mask]) + data[place + 1 :])
            assert not sr.verify(lines, level="quick"), (place, mask)


class FailOn:
    """Calls of the system on files of a directory fail: the one of some number, or all on one file."""

    def __init__(self, root: Path, number: int, code: int, file: Path | None = None) -> None:
        self.root, self.number, self.code, self.file, self.seen = str(root), number, code, file, 0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith(self.root):
                self.seen += 1
                chosen = self.seen == self.number if self.file is None else Path(path) == self.file
                if chosen:
                    raise OSError(self.code, os.strerror(self.code), os.fspath(path))
            return function(path, *args, **kwargs)

        return call

    @contextlib.contextmanager
    def patched(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        with monkeypatch.context() as patch:
            patch.setattr(io, "open", self.around(io.open))
            patch.setattr(bad_sectors, "_open", self.around(bad_sectors._open))  # the `open` of its import
            patch.setattr(os, "listdir", self.around(os.listdir))
            patch.setattr(os, "scandir", self.around(os.scandir))
            patch.setattr(os, "open", self.around(os.open))
            if self.file is None:  # to look at a file is another right than to open it
                patch.setattr(os, "stat", self.around(os.stat))
            yield


@pytest.mark.parametrize("level", ["quick", "full"])
@pytest.mark.parametrize("code", [errno.EACCES, errno.ENOENT, errno.EIO], ids=errno.errorcode.get)
def test_whatever_fails_is_reported(pristine: Path, monkeypatch: pytest.MonkeyPatch, level: Any, code: int) -> None:
    """Where the 1st, 2nd, ... call of the system on a dataset fails, `verify` reports, unless there is no dataset."""
    found = 0
    for number in range(1, 1000):
        failing = FailOn(pristine, number, code)
        with failing.patched(monkeypatch):
            try:
                report = sr.verify(pristine, level=level)
            except sr.DatasetNotFoundError:
                assert code == errno.ENOENT
                continue
        found += not report
        if failing.seen < number:
            break
    assert report.ok
    assert found > 5


@pytest.mark.parametrize("name", ["train", ".", "train/train-00000-of-00002.tfrecord", "assets/words.txt", "private"])
def test_what_may_not_be_entered_or_read_is_named(lines: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A directory that may not be listed, or a file that may not be opened, is a problem beside all others."""
    (lines / "private").mkdir()
    (lines / "eval").mkdir()
    shutil.copy(shard_of(lines), lines / "eval" / "other.tfrecord")
    (lines / "train" / "train-00001-of-00002.lengths").unlink()
    with FailOn(lines, 0, errno.EACCES, lines / name).patched(monkeypatch):
        problems = [str(problem) for problem in sr.verify(lines).problems]
    assert any("Permission denied" in problem and name in problem for problem in problems)
    assert any("00001-of-00002.lengths" in problem for problem in problems)
    assert name == "." or any("eval/other.tfrecord: a shard of no split" in problem for problem in problems)


def test_a_dataset_that_vanishes_meanwhile_is_reported(lines: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that go while they are looked at are problems."""
    from seqrecorder.dataset import verify

    def look(_manifest: Any) -> Any:
        shutil.rmtree(lines, ignore_errors=True)
        return iter(())

    monkeypatch.setattr(verify, "_check_assets", look)
    report = sr.verify(lines)
    assert "was replaced or removed" in report.problems[0].message


def test_damaged_asset_of_an_append(tmp_path):
    """The damage of an asset is told under the path of its file, which for an append is another than of a write."""

    @sr.record
    class Count:
        number: int = sr.context("int64")

    sr.write([Count(1)], tmp_path / "c")
    sr.write([Count(2)], tmp_path / "c", append=True, assets={"vocabulary.txt": "a b"})
    asset = sr.info(tmp_path / "c").assets["vocabulary.txt"]
    asset.write_text("b a")
    (problem,) = sr.verify(tmp_path / "c").problems
    assert tmp_path / "c" / problem.path == asset
