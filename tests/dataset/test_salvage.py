"""`salvage`: every whole record comes to a new place, what was lost is said, and the damaged files stay as they are."""

import errno
import itertools
import json
import os
import shutil
import stat
import tempfile

import numpy as np
import pytest
import tensorflow as tf
from faults import FailAt, bad_bytes, names

import seqrecorder as sr
from seqrecorder.cli.main import main
from seqrecorder.storage.files import on_fault_point
from seqrecorder.storage.tfrecord import UNKNOWN, walk_frames


@sr.record
class Line:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int64")
    marks: np.ndarray = sr.feature_list("float32", align="marks")


RECORDS = [Line(f"k{n}", np.arange(n % 7), np.ones(n % 3, "float32")) for n in range(40)]


@pytest.fixture(scope="module", params=[None, "GZIP"])
def pristine(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("salvage") / "lines"
    splits = {"train": RECORDS[:30], "eval": RECORDS[30:]}
    sr.write(
        splits, path, shards=2, compression=request.param, csv=True, assets={"a.txt": "a", "b.txt": "b"}, metadata=7
    )
    return path


@pytest.fixture
def lines(pristine, tmp_path):
    return shutil.copytree(pristine, tmp_path / "lines")


def shard_of(lines, split="train"):
    return lines / split / f"{split}-00000-of-00002.tfrecord"


def contents(directory):
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in directory.rglob("*") if path.is_file()}


def damage(path, place, mask=0xFF):
    data = bytearray(path.read_bytes())
    data[place] ^= mask
    path.write_bytes(data)


def test_what_has_come_to_the_destination_meanwhile_stays(lines, tmp_path):
    """A file that came to the destination while another was salvaged is not replaced."""
    destination = tmp_path / "saved.tfrecord"

    def come(name, path):
        if (name, path) == ("before_rename", str(destination)):
            destination.write_text("precious")

    with on_fault_point(come), pytest.raises(sr.DatasetExistsError, match="was created meanwhile by another process"):
        sr.salvage(shard_of(lines), destination)
    assert destination.read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lines", "saved.tfrecord"]


def test_a_sound_dataset_is_salvaged_whole(lines, tmp_path):
    """Nothing is lost of a sound dataset: the records, the splits, the metadata and the assets are there again."""
    found = sr.salvage(lines, tmp_path / "new")
    assert found.complete
    assert (found.records, found.lost, found.lost_bytes) == (40, 0, 0)
    new = tmp_path / "new"
    assert sr.verify(new).ok
    assert list(sr.read_records(new, "train", schema=Line)) == RECORDS[:30]
    assert list(sr.read_records(new, "eval", schema=Line)) == RECORDS[30:]
    manifest = sr.info(new)
    assert manifest.metadata == 7
    assert manifest.assets["b.txt"].read_text() == "b"
    old = sr.info(lines)
    assert manifest.splits == old.splits
    assert manifest.splitting == old.splitting
    for split in ("train", "eval"):
        assert (new / split / "examples.csv").read_bytes() == (lines / split / "examples.csv").read_bytes()


def test_a_damaged_dataset(lines, tmp_path):
    """Of a damaged dataset all else is recovered, the loss is numbered, and the damaged files are as they were."""
    damage(shard_of(lines), -6)
    damage(lines / "assets" / "a.txt", 0)
    before = contents(lines)
    for path in before:
        path.chmod(stat.S_IRUSR)
    found = sr.salvage(lines, tmp_path / "new")
    assert contents(lines) == before
    assert not found.complete
    assert found.shards[0].path == "train/train-00000-of-00002.tfrecord"
    assert (found.records, found.lost) == (39, 1) if sr.info(lines).compression is None else found.lost >= 0
    assert [problem.split(":")[0] for problem in found.problems] == ["train/examples.csv", "assets/a.txt"]
    assert sr.verify(tmp_path / "new").ok
    assert set(sr.info(tmp_path / "new").assets) == {"b.txt"}
    if sr.info(lines).compression is None:
        [loss] = found.shards[0].losses
        assert (loss.record, loss.records) == (14, 1)
        assert {r.key for r in sr.read_records(tmp_path / "new", "train", schema=Line)} == {
            record.key for record in RECORDS[:28] + RECORDS[29:30]
        }


def test_swapped_shards_lose_nothing(lines, tmp_path):
    """Shards that have each other's names are found by their digests, and so is one that was renamed."""
    first, second, *_ = sorted((lines / "train").glob("*.tfrecord"))
    first.rename(lines / "third")
    second.rename(first)
    (lines / "third").rename(second)
    result = sr.salvage(lines, tmp_path / "saved")
    assert (result.lost, result.complete) == (0, True)
    first.rename(lines / "train" / "renamed.tfrecord")
    assert sr.salvage(lines, tmp_path / "again").lost == 0
    for name in ("saved", "again"):
        assert sr.verify(tmp_path / name).ok
        assert [record.key for record in sr.read_records(tmp_path / name, "train")] == [r.key for r in RECORDS[:30]]


def test_a_shard_replaced_by_an_intact_one_is_said(lines, tmp_path):
    """A shard with other intact records is copied, but named as a problem, and the listing of its split is left out."""
    others = [Line(f"o{n}", np.arange(n % 5), np.ones(n % 3, "float32")) for n in range(30)]
    sr.write(others, tmp_path / "others", shards=2, compression=sr.info(lines).compression)
    shard_of(lines).write_bytes(next((tmp_path / "others").rglob("*.tfrecord")).read_bytes())
    found = sr.salvage(lines, tmp_path / "new")
    assert (found.records, found.lost, found.complete) == (40, 0, False)
    assert [problem.split(":")[0] for problem in found.problems] == [
        "train/train-00000-of-00002.tfrecord",
        "train/examples.csv",
    ]
    assert "not those that were written" in found.problems[0]
    assert sr.verify(tmp_path / "new").ok
    assert not (tmp_path / "new" / "train" / "examples.csv").exists()


def test_a_record_with_a_broken_image_is_lost(tmp_path):
    """A record whose image cannot be decoded counts as lost, as in `verify`, although its bytes are as written."""

    @sr.record
    class Picture:
        key: str = sr.context(str, key=True)
        image: np.ndarray = sr.context("uint8", shape=(8, 8, 1), storage="png")

    files = [bytearray(tf.io.encode_png(np.full((8, 8, 1), n, "uint8")).numpy()) for n in range(6)]
    files[3][files[3].index(b"IDAT") + 8] ^= 255
    sr.write([Picture(f"k{n}", bytes(file)) for n, file in enumerate(files)], tmp_path / "a")
    assert "record 3 " in str(sr.verify(tmp_path / "a").problems[0])
    found = sr.salvage(tmp_path / "a", tmp_path / "b")
    assert (found.records, found.lost, found.problems) == (5, 1, ())
    assert sr.verify(tmp_path / "b").ok
    assert [record.key for record in sr.read_records(tmp_path / "b")] == ["k0", "k1", "k2", "k4", "k5"]


def test_a_listing_is_left_out_where_records_are_lost(lines, tmp_path):
    """An `examples.csv` numbers records as they were written: that of a split that lost some is left out, and said."""
    shard_of(lines).write_bytes(shard_of(lines).read_bytes()[:-60])
    found = sr.salvage(lines, tmp_path / "new")
    assert found.lost > 0
    [said] = found.problems
    assert said.startswith("train/examples.csv: left out")
    assert not (tmp_path / "new" / "train" / "examples.csv").exists()
    assert (tmp_path / "new/eval/examples.csv").read_bytes() == (lines / "eval/examples.csv").read_bytes()
    assert sr.verify(tmp_path / "new").ok


def test_a_listing_elsewhere_is_not_copied(lines, tmp_path):
    """A link that leads out of the dataset is a problem, and nothing is read there."""
    (tmp_path / "secret").write_text("shard,index,steps,secret\n")
    (lines / "train" / "examples.csv").unlink()
    (lines / "train" / "examples.csv").symlink_to(tmp_path / "secret")
    [said] = sr.salvage(lines, tmp_path / "new").problems
    assert "leads out" in said or "inside the dataset" in said
    assert not (tmp_path / "new" / "train" / "examples.csv").exists()


def test_holes_are_counted_by_the_manifest(lines, tmp_path):
    """A hole over several records, a cut shard and a missing one are counted by what the manifest says."""
    if sr.info(lines).compression is None:
        data = bytearray(shard_of(lines).read_bytes())
        frames = sr.info(lines).splits["train"].shards[0].records
        data[100:400] = bytes(300)
        shard_of(lines).write_bytes(data)
    else:
        frames = 15
        shard_of(lines).write_bytes(shard_of(lines).read_bytes()[:-20])
    shard_of(lines, "eval").unlink()
    found = sr.salvage(lines, tmp_path / "new")
    first, *_ = found.shards
    assert first.records + first.lost == frames
    assert sum(loss.records for loss in first.losses) == first.lost > 0
    missing = next(shard for shard in found.shards if shard.path.startswith("eval/eval-00000"))
    assert (missing.records, missing.lost, missing.losses[0].reason) == (0, 5, "the file is missing")
    assert sr.verify(tmp_path / "new").ok
    kept = [record.key for split in ("train", "eval") for record in sr.read_records(tmp_path / "new", split)]
    assert len(kept) == found.records == 40 - found.lost


@pytest.mark.parametrize("breaking", ["cut", "remove"])
def test_a_lost_manifest(lines, tmp_path, breaking):
    """Without its manifest a dataset is salvaged by its class, and refused without one."""
    path = lines / "manifest.json"
    path.write_text(path.read_text()[:-9])
    if breaking == "remove":
        path.unlink()
    with pytest.raises(sr.ManifestError, match="pass schema="):
        sr.salvage(lines, tmp_path / "new")
    found = sr.salvage(lines, tmp_path / "new", schema=Line)
    assert (found.records, found.lost) == (40, 0)
    assert found.problems == ("manifest.json: rebuilt, since the old one cannot be read",)
    assert sr.verify(tmp_path / "new").ok
    assert sorted(r.key for r in sr.read_records(tmp_path / "new", "eval")) == sorted(r.key for r in RECORDS[30:])


def test_appends_go_on_after_a_lost_manifest(tmp_path):
    """Shards of earlier appends keep their names, so that the next append takes new ones."""
    for n in range(3):
        sr.write([RECORDS[n]], tmp_path / "lines", append=n > 0)
    (tmp_path / "lines" / "manifest.json").unlink()
    sr.salvage(tmp_path / "lines", tmp_path / "new", schema=Line)
    sr.write([RECORDS[3]], tmp_path / "new", append=True)
    assert [record.key for record in sr.read_records(tmp_path / "new", schema=Line)] == ["k0", "k1", "k2", "k3"]


def test_records_of_another_kind_are_lost(tmp_path):
    """A record that cannot be read as the dataset's schema is left out, even though its CRC is right."""
    sr.write(RECORDS[:3], tmp_path / "lines", shards=1)
    [shard] = (tmp_path / "lines" / "train").glob("*.tfrecord")
    data = [bytes(record.numpy()) for record in tf.data.TFRecordDataset(str(shard))]
    with tf.io.TFRecordWriter(str(shard)) as writer:
        for record in (data[0], b"no message", data[2]):
            writer.write(record)
    found = sr.salvage(tmp_path / "lines", tmp_path / "new")
    [loss] = found.shards[0].losses
    assert (loss.record, loss.records) == (1, 1)
    assert "cannot be decoded as Line" in loss.reason
    assert list(sr.read_records(tmp_path / "new", schema=Line)) == [RECORDS[0], RECORDS[2]]


def test_files_of_others(lines, tmp_path):
    """A TFRecord file becomes a file, several become a directory of files, with or without a class."""
    shard = shard_of(lines)
    compression = sr.info(lines).compression or ""
    whole = [bytes(record.numpy()) for record in tf.data.TFRecordDataset(str(shard), compression)]
    found = sr.salvage(shard, tmp_path / "new" / "file")
    assert (found.records, found.lost, found.complete) == (15, 0, True)
    new = tf.data.TFRecordDataset(str(tmp_path / "new" / "file"), compression)
    assert [bytes(record.numpy()) for record in new] == whole
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["file"]
    sr.salvage(str(shard), tmp_path / "new", schema=Line)
    assert len(list(sr.read_records(tmp_path / "new" / shard.name, schema=Line))) == 15
    several = sr.salvage(str(lines / "*" / "*.tfrecord"), tmp_path / "several")
    assert (several.records, len(several.shards)) == (40, 4)
    assert len(list((tmp_path / "several").iterdir())) == 4
    assert sr.salvage(sorted((lines / "eval").glob("*.tfrecord")), tmp_path / "list").records == 10


def test_a_file_without_its_first_bytes(pristine, tmp_path):
    """A GZIP file that does not look like one any more is salvaged where its compression is said."""
    data = bytearray(shard_of(pristine).read_bytes())
    data[:4] = b"\xff" * 4
    (tmp_path / "file").write_bytes(data)
    compression = sr.info(pristine).compression
    found = sr.salvage(tmp_path / "file", tmp_path / "new", compression=compression)
    assert found.records == 15  # a header that is damaged alone is rebuilt


def test_a_file_of_something_else(tmp_path):
    """Of a file that holds no record nothing comes, and an unknown number of records is lost."""
    (tmp_path / "text").write_text("not a TFRecord file, and long enough to be one" * 3)
    found = sr.salvage(tmp_path / "text", tmp_path / "new")
    assert (found.records, found.lost, found.lost_bytes) == (0, UNKNOWN, 138)


def test_what_salvage_refuses(lines, tmp_path):
    """A destination that is taken or inside, and sources that are missing or of one name, are errors."""
    (tmp_path / "taken").write_text("")
    with pytest.raises(sr.DatasetExistsError):
        sr.salvage(shard_of(lines), tmp_path / "taken")
    with pytest.raises(sr.DatasetExistsError):
        sr.salvage(lines, lines)
    with pytest.raises(sr.OptionError, match="inside"):
        sr.salvage(lines, lines / "new")
    with pytest.raises(sr.DatasetNotFoundError, match="no file"):
        sr.salvage(tmp_path / "nothing", tmp_path / "new")
    (tmp_path / "empty").mkdir()
    with pytest.raises(sr.DatasetNotFoundError, match=r"\*\.tfrecord files"):
        sr.salvage(tmp_path / "empty", tmp_path / "new", schema=Line)
    with pytest.raises(sr.OptionError, match="empty list"):
        sr.salvage([], tmp_path / "new")
    shutil.copytree(lines, tmp_path / "copy")
    with pytest.raises(sr.OptionError, match="two files are called"):
        sr.salvage([shard_of(lines), shard_of(tmp_path / "copy")], tmp_path / "new")
    with pytest.raises(sr.OptionError, match="GZIP"):
        sr.salvage(lines, tmp_path / "new", compression="LZMA")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "empty", "lines", "taken"]


def test_the_command(lines, tmp_path, capsys):
    """The command says what was recovered and what was lost, for people and for programs, and fails after a loss."""
    assert main(["salvage", str(lines), str(tmp_path / "whole")]) == 0
    capsys.readouterr()
    shard_of(lines).unlink()
    assert main(["salvage", str(lines), str(tmp_path / "new")]) == 1
    said = capsys.readouterr().out
    assert said.startswith(f"{tmp_path / 'new'}: 25 records recovered, 15 records lost\n")
    assert "the file is missing" in said
    assert main(["salvage", str(lines), str(tmp_path / "other"), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["records"], document["lost"], document["complete"]) == (25, 15, False)
    assert document["shards"][0]["losses"][0]["records"] == 15
    assert main(["salvage", str(lines), str(tmp_path / "new")]) == 1
    assert capsys.readouterr().err.endswith("but it is not empty; choose another\n")


def test_sectors_that_cannot_be_read(lines, tmp_path):
    """Where the disk fails in a shard, all else is salvaged, sound shards too, and the bytes are named."""
    shard = shard_of(lines)
    data = shard.read_bytes()
    with bad_bytes(shard, (0, len(data))):  # a small shard has one block
        found = sr.salvage(lines, tmp_path / "new")
    assert (found.records, found.lost) == (25, 15)
    [loss] = found.shards[0].losses
    assert f"the disk cannot read bytes 0 to {len(data)} of the file" in loss.reason
    assert sr.verify(tmp_path / "new").ok
    with bad_bytes(shard, (0, 1)), bad_bytes(shard, (0, 1)):
        assert sr.salvage(str(lines / "train" / "*.tfrecord"), tmp_path / "bare").records == 15
        assert sr.salvage(shard, tmp_path / "one").records == 0


def test_sectors_in_the_middle(tmp_path):
    """Of a plain shard all records are salvaged that do not touch the bad sector; of a GZIP shard those before it."""
    rows = [Line(f"k{n:03}", np.arange(200), np.ones(0, "float32")) for n in range(100)]
    sr.write(rows, tmp_path / "lines", shards=1)
    [shard] = (tmp_path / "lines").rglob("*.tfrecord")
    ends = np.cumsum(16 + walk_frames(shard, None).lengths)
    with bad_bytes(shard, (70_000, 70_001)):
        found = sr.salvage(tmp_path / "lines", tmp_path / "new")
        [loss] = found.shards[0].losses
        assert loss.reason.endswith("the disk cannot read bytes 65536 to 131072 of the file")
        kept = [record.key for record in sr.read_records(tmp_path / "new")]
        outside = (stop <= 1 << 16 or start >= 1 << 17 for start, stop in itertools.pairwise([0, *ends]))
        assert kept == [row.key for row, is_outside in zip(rows, outside, strict=True) if is_outside]
        assert 20 < len(kept) < 80
        report = sr.verify(tmp_path / "lines")
        assert [str(problem).count("Input/output error in bytes 65536 to 131072") for problem in report.problems] == [1]
        assert not sr.verify(shard)
        assert not sr.verify(shard, schema=Line)
    sr.write(rows, tmp_path / "packed", shards=1, compression="GZIP")
    [shard] = (tmp_path / "packed").rglob("*.tfrecord")
    with bad_bytes(shard, (shard.stat().st_size - 1, shard.stat().st_size)):
        found = sr.salvage(tmp_path / "packed", tmp_path / "unpacked")
        assert "the disk cannot read" in found.shards[0].losses[-1].reason
        assert not sr.verify(tmp_path / "packed")
        assert not sr.verify(shard)


@pytest.mark.parametrize("which", ["dataset", "file"])
def test_a_full_disk_is_named(lines, tmp_path, which):
    """A disk that fills up is an error that names where was written, not what was read, and nothing is left there."""
    source = lines if which == "dataset" else shard_of(lines)
    for number in itertools.count(1):
        failing = FailAt(number, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        with on_fault_point(failing):
            try:
                sr.salvage(source, tmp_path / "new")
            except sr.ShardWriteError as error:
                assert "No space left on device" in str(error)  # noqa: PT017 - until none is left to fail
                assert str(tmp_path / "new") in str(error) or tempfile.gettempdir() in str(error)  # noqa: PT017
                assert str(lines) not in str(error)  # noqa: PT017
            else:
                break
        assert names(tmp_path) == ["lines"]
    assert number > 5


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOTSUP])
def test_file_systems_without_hard_links(lines, tmp_path, monkeypatch, code):
    """A file is salvaged to a file system without hard links, and what stands there is not replaced."""

    def refuse(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", refuse)
    assert sr.salvage(shard_of(lines), tmp_path / "saved").records == 15
    assert (tmp_path / "saved").read_bytes() == shard_of(lines).read_bytes()
    assert names(tmp_path) == ["lines", "saved"]
    come = on_fault_point(lambda name, _: name == "before_rename" and (tmp_path / "other").write_text("precious"))
    with come, pytest.raises(sr.DatasetExistsError, match="was created meanwhile by another process"):
        sr.salvage(shard_of(lines), tmp_path / "other")
    assert (tmp_path / "other").read_text() == "precious"


def test_a_doubled_range_is_salvaged_once(lines, tmp_path):
    """Records that a damaged shard holds twice are salvaged once."""
    if sr.info(lines).compression is not None:
        return  # nothing doubled in a GZIP stream can be unpacked
    data = shard_of(lines).read_bytes()
    shard_of(lines).write_bytes(data[:500] + data[250:])
    found = sr.salvage(lines, tmp_path / "new")
    assert (found.records, found.lost) == (40, 0)
    assert [loss.records for loss in found.shards[0].losses] == [0, 0]
    assert list(sr.read_records(tmp_path / "new", "train", schema=Line)) == RECORDS[:30]
