"""What is read: datasets and bare shards, found and checked before anything is parsed."""

import itertools
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from combinations import all_at_night

import seqrecorder as sr


@sr.record
class Tagged:
    name: str = sr.context(str)
    length: int = sr.context("int64")
    tokens: np.ndarray = sr.feature_list("int64")
    labels: np.ndarray = sr.feature_list("int64")
    marks: np.ndarray = sr.feature_list("float32", shape=(2,))


RECORDS = [Tagged(f"r{n}", n, np.arange(n), np.arange(n) * 2, np.ones((n, 2), "float32") * n) for n in (3, 1, 0, 5, 2)]
LONG = [record for record in RECORDS if record.length != 1]


def feature(values: np.ndarray) -> tf.train.Feature:
    if values.dtype == np.float32:
        return tf.train.Feature(float_list=tf.train.FloatList(value=values.ravel()))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values.ravel()))


def by_hand(record: Tagged, layout: str) -> bytes:
    """A record as others write it, with protos."""
    name = tf.train.Feature(bytes_list=tf.train.BytesList(value=[record.name.encode()]))
    context = {"name": name, "length": feature(np.asarray(record.length))}
    lists = {"tokens": record.tokens, "labels": record.labels, "marks": record.marks}
    if layout == "example":
        flat = {name: feature(values) for name, values in lists.items()}
        return tf.train.Example(features=tf.train.Features(feature={**context, **flat})).SerializeToString()
    message = tf.train.SequenceExample(context=tf.train.Features(feature=context))
    for name, values in lists.items():
        steps = [values] if layout == "packed" else [np.asarray(step) for step in values]
        message.feature_lists.feature_list[name].feature.extend(feature(step) for step in steps)
    return message.SerializeToString()


def write_by_hand(path: Path, layout: str, compression: str = "", records: list[Tagged] = RECORDS) -> Path:
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for record in records:
            writer.write(by_hand(record, layout))
    return path


@pytest.mark.parametrize(
    ("layout", "compression"),
    all_at_night(
        itertools.product(["steps", "packed", "example"], ["", "GZIP"]),
        [("steps", ""), ("packed", "GZIP"), ("example", "")],
    ),
)
def test_foreign_shards_are_read_by_class(tmp_path: Path, layout: str, compression: str) -> None:
    """Shards that others wrote are read by class alone, in the three layouts, compressed or not."""
    path = write_by_hand(tmp_path / "foreign.tfrecord", layout, compression)
    assert list(sr.read_records(path, schema=Tagged)) == RECORDS
    assert list(sr.read_records(path, schema=Tagged, layout=layout, compression=compression or None)) == RECORDS
    for batch in (sr.Pad(2), sr.Bucket(2, boundaries=[2, 4]), sr.Bucket(2)):
        seen = {}
        for values in sr.read(path, schema=Tagged, batch=batch):
            for row, name in enumerate(values["name"].numpy()):
                length = int(values["sequence_length"][row])
                seen[name.decode()] = values["tokens"][row, :length].numpy().tolist()
                assert values["marks"].shape[2] == 2
        assert seen == {record.name: record.tokens.tolist() for record in RECORDS}
    singles = list(sr.read(path, schema=Tagged))
    assert [single["labels"].numpy().tolist() for single in singles] == [r.labels.tolist() for r in RECORDS]
    assert int(sr.read(path, schema=Tagged).cardinality()) == len(RECORDS)


def test_globs_and_lists_of_shards(tmp_path: Path) -> None:
    """Bare shards may be a path, a glob in sorted order, or a list in its own order, under odd names too."""
    odd = tmp_path / "a[1]*?"
    odd.mkdir()
    one = write_by_hand(odd / "1.tfrecord", "steps", records=RECORDS[:2])
    two = write_by_hand(odd / "2.tfrecord", "steps", records=RECORDS[2:])
    plain = tmp_path / "plain"
    shutil.copytree(odd, plain)
    assert list(sr.read_records(str(plain / "*.tfrecord"), schema=Tagged)) == RECORDS
    assert list(sr.read_records([two, one], schema=Tagged)) == RECORDS[2:] + RECORDS[:2]
    assert list(sr.read_records(str(one), schema=Tagged)) == RECORDS[:2]
    shares = [len(list(sr.read([one, two], schema=Tagged, shard=(i, 3)))) for i in range(3)]
    assert sorted(shares) == [1, 2, 2]


def test_dataset_directories_with_odd_names(tmp_path: Path) -> None:
    """A dataset in a directory whose name looks like a glob is read like any other."""
    path = tmp_path / "a[1]*?"
    sr.write(RECORDS, path)
    assert list(sr.read_records(path, schema=Tagged)) == RECORDS
    assert len(list(sr.read(path, batch=sr.Bucket(2)))) > 0


def test_wrong_message_type_is_said(tmp_path: Path) -> None:
    """A message of another kind than was asked for is an error that names what there is, never silent emptiness."""
    flat = write_by_hand(tmp_path / "flat.tfrecord", "example")
    with pytest.raises(sr.SchemaMismatchError, match=r"no feature lists \(a flat tf.train.Example\?\)"):
        sr.read(flat, schema=Tagged, layout="steps")
    stepped = write_by_hand(tmp_path / "steps.tfrecord", "steps")
    with pytest.raises(sr.SchemaMismatchError, match="it is there as a feature list"):
        sr.read(stepped, schema=Tagged, layout="example")
    with tf.io.TFRecordWriter(str(tmp_path / "text.tfrecord")) as writer:
        writer.write(b"\xff\xff this is no message")
    with pytest.raises(sr.SchemaMismatchError, match="neither a SequenceExample nor an Example"):
        sr.read(tmp_path / "text.tfrecord", schema=Tagged)


def test_missing_fields_are_said(tmp_path: Path) -> None:
    """A feature that is not there is named, with what there is and a near name."""

    @sr.record
    class Misnamed:
        token: np.ndarray = sr.feature_list("int64")

    path = write_by_hand(tmp_path / "steps.tfrecord", "steps")
    with pytest.raises(sr.SchemaMismatchError, match="did you mean 'tokens'") as error:
        sr.read(path, schema=Misnamed)
    assert "labels, marks, tokens" in str(error.value)

    @sr.record
    class Renamed:
        token: np.ndarray = sr.feature_list("int64", name="tokens")

    assert next(sr.read_records(path, schema=Renamed)).token.tolist() == [0, 1, 2]


def test_wrong_compression_is_said(tmp_path: Path) -> None:
    """Another compression than was asked for, or two kinds together, is an error that says what to do."""
    plain = write_by_hand(tmp_path / "plain.tfrecord", "steps")
    zipped = write_by_hand(tmp_path / "zipped.tfrecord", "steps", "GZIP")
    with pytest.raises(sr.ShardReadError, match="expected compression 'GZIP', as asked for"):
        sr.read(plain, schema=Tagged, compression="GZIP")
    with pytest.raises(sr.ShardReadError, match="read the two kinds apart"):
        sr.read([plain, zipped], schema=Tagged)
    with pytest.raises(sr.OptionError, match="expected None or 'GZIP'"):
        sr.read(plain, schema=Tagged, compression="LZMA")


def test_zlib_is_named(tmp_path: Path) -> None:
    """A shard in ZLIB, as old programs wrote them, is no damaged one: the error says what reads it."""
    path = write_by_hand(tmp_path / "old.tfrecord", "steps", "ZLIB")
    with pytest.raises(sr.ShardReadError, match=r"old\.tfrecord: expected a plain file or.*TFRecordDataset"):
        sr.read(path, schema=Tagged)


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_cut_shards_are_refused(tmp_path: Path, compression: str) -> None:
    """A bare shard that ends inside a record is refused before anything is read, and so is what is no shard."""
    path = write_by_hand(tmp_path / "cut.tfrecord", "steps", compression)
    data = path.read_bytes()
    for size in (len(data) - 1, len(data) // 2, 13):
        path.write_bytes(data[:size])
        with pytest.raises(sr.ShardReadError, match=r"cut\.tfrecord"):
            sr.read(path, schema=Tagged)
    (tmp_path / "text.txt").write_text("these are not records, but a text long enough to be one")
    with pytest.raises(sr.ShardReadError, match="no TFRecord header"):
        sr.read(tmp_path / "text.txt", schema=Tagged)


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    sr.write(RECORDS, tmp_path / "dataset", shards=2)
    return tmp_path / "dataset"


def test_damaged_datasets_are_refused(dataset: Path) -> None:
    """A shard that is missing or of another size is named before anything is read, with the command to run next."""
    shard = dataset / "train" / "train-00001-of-00002.tfrecord"
    data = shard.read_bytes()
    shard.write_bytes(data[:-1])
    with pytest.raises(sr.ShardReadError, match="seqrecorder verify") as error:
        sr.read(dataset)
    assert error.value.path == str(shard)
    shard.unlink()
    with pytest.raises(sr.ShardReadError, match="is missing"):
        list(sr.read_records(dataset))
    shard.write_bytes(data[:20] + bytes([data[20] ^ 1]) + data[21:])
    sr.read(dataset)  # the size is right, and payloads are checked while reading
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"00001-of-00002.*record\] \[0\] \[at byte\] \[0\] \[is damaged"
    ):
        list(sr.read(dataset))
    with pytest.raises(sr.ShardReadError, match="train-00001-of-00002"):
        list(sr.read_records(dataset))
    shard.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    with pytest.raises(sr.ShardReadError, match="no TFRecord header"):
        sr.read(dataset, check="full")


def test_counts_are_asserted_while_reading(dataset: Path) -> None:
    """A shard that holds fewer records than the manifest says fails at its end, even where nothing was checked."""
    shard = dataset / "train" / "train-00000-of-00002.tfrecord"
    first = int.from_bytes(shard.read_bytes()[:8], "little") + 16
    shard.write_bytes(shard.read_bytes()[:first])
    with pytest.raises(tf.errors.InvalidArgumentError, match="train-00000-of-00002"):
        list(sr.read(dataset, check="none"))
    with pytest.raises(sr.ShardReadError, match="expected 3 records, got 1"):
        list(sr.read_records(dataset, check="none"))


def test_what_is_not_there(tmp_path: Path, dataset: Path) -> None:
    """A dataset, split or file that is not there is said, with what there is."""
    with pytest.raises(sr.DatasetNotFoundError, match="there is no dataset at"):
        sr.read(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError):
        sr.info(tmp_path / "nowhere")
    with pytest.raises(sr.DatasetNotFoundError, match=r"a directory without manifest\.json"):
        sr.read(tmp_path)
    with pytest.raises(sr.DatasetNotFoundError, match="did you mean 'train'"):
        sr.read(dataset, "trian")
    with pytest.raises(sr.DatasetNotFoundError, match=r"no file .*\*.tfrecord \(as a glob\)"):
        sr.read(str(tmp_path / "*.tfrecord"), schema=Tagged)
    with pytest.raises(sr.DatasetNotFoundError, match="there is no file"):
        sr.read([tmp_path / "x.tfrecord"], schema=Tagged)
    with pytest.raises(sr.OptionError, match="empty list"):
        sr.read([], schema=Tagged)


def test_splits_and_schemas_that_must_be_said(tmp_path: Path) -> None:
    """Several splits need a name, bare shards a class and no split."""
    sr.write({"train": RECORDS, "eval": RECORDS[:1]}, tmp_path / "two")
    with pytest.raises(sr.OptionError, match="name one of train, eval"):
        sr.read(tmp_path / "two")
    shard = next((tmp_path / "two" / "train").glob("*.tfrecord"))
    with pytest.raises(sr.OptionError, match="pass schema="):
        sr.read(shard)
    with pytest.raises(sr.OptionError, match="bare shards have no splits"):
        sr.read(shard, "train", schema=Tagged)


def test_ragged_steps_need_their_layout_said(tmp_path: Path) -> None:
    """Layouts that cannot hold the bounds of ragged steps are refused for classes that have them."""

    @sr.record
    class Ragged:
        tokens: list = sr.feature_list("int64", shape=(None,))

    path = write_by_hand(tmp_path / "packed.tfrecord", "packed", records=LONG)
    with pytest.raises(sr.OptionError, match="bounds of ragged"):
        sr.read(path, schema=Ragged, layout="packed")
    flat = write_by_hand(tmp_path / "flat.tfrecord", "example", records=LONG)
    with pytest.raises(sr.OptionError, match="bounds of ragged"):
        sr.read(flat, schema=Ragged)


def flip_a_bit(file: Path, _other: Path) -> None:
    data = bytearray(file.read_bytes())
    data[0] ^= 1
    file.write_bytes(data)


def flip_the_last_bit(file: Path, _other: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-1] ^= 0x80
    file.write_bytes(data)


def truncate(file: Path, _other: Path) -> None:
    file.write_bytes(file.read_bytes()[:-8])


def empty(file: Path, _other: Path) -> None:
    file.write_bytes(b"")


def lengthen(file: Path, _other: Path) -> None:
    file.write_bytes(file.read_bytes() + bytes(8))


def swap_rows(file: Path, _other: Path) -> None:
    rows = np.fromfile(file, "<i8")
    assert rows[0] != rows[1]
    rows[[0, 1]] = rows[[1, 0]]
    rows.tofile(file)


def take_another_shards(file: Path, other: Path) -> None:
    shutil.copy(other, file)


def remove(file: Path, _other: Path) -> None:
    file.unlink()


def make_a_directory(file: Path, _other: Path) -> None:
    file.unlink()
    file.mkdir()


CHANGES = [
    flip_a_bit,
    flip_the_last_bit,
    truncate,
    empty,
    lengthen,
    swap_rows,
    take_another_shards,
    remove,
    make_a_directory,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("check", ["manifest", "full"])
def test_changed_lengths_are_found_before_the_first_record(tmp_path: Path, change: Any, check: Any) -> None:
    """A file of lengths that is not the one written is named by every reader, whether or not it needs lengths."""
    path = tmp_path / "dataset"
    sr.write([*RECORDS, RECORDS[0]], path, shards=2)
    file, other = sorted(path.rglob("*.lengths"))
    next(sr.read_records(path, check=check))
    change(file, other)
    readers = {
        "single": lambda: sr.read(path, check=check),
        "limited": lambda: sr.read(path, check=check, min_length=1, max_length=2),
        "bucketed": lambda: sr.read(path, check=check, batch=sr.Bucket(2)),
        "objects": lambda: sr.read_records(path, check=check),
        "one of two": lambda: sr.read_records(path, check=check, shard=(0, 2)),
        "planned": lambda: sr.plan(path, "train", sr.Pad(2)),
    }
    for name, read in readers.items():
        with pytest.raises(sr.ShardReadError, match=r"00000-of-00002\.lengths.*seqrecorder verify"):
            pytest.fail(f"{name}: {read()}")
    manifest = sr.info(path)
    with pytest.raises(sr.ShardReadError):
        manifest.lengths("train", manifest.splits["train"].shards[0])
    assert len(list(sr.read_records(path, shard=(1, 2), check=check))) == 3  # the other shard is as it was
    assert len(list(sr.read_records(path, check="none"))) == 6


def test_lengths_that_were_worked_out_anew_are_believed(tmp_path: Path) -> None:
    """Where damage is skipped, changed lengths are those of the records again."""
    path = tmp_path / "dataset"
    sr.write(RECORDS, path)
    [file] = path.rglob("*.lengths")
    swap_rows(file, file)
    kept = sr.read(path, on_corrupt="skip", min_length=3)
    assert [int(one["length"]) for one in kept] == [record.length for record in RECORDS if record.length >= 3]
