"""TFRecord files that others wrote, made datasets, in Python and on the command line."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from foreign_messages import example, feature, sequence_example, written

import seqrecorder as sr
from seqrecorder.cli import main
from seqrecorder.sources.foreign.convert import convert

LENGTHS = (3, 0, 1, 4, 2)


def floats(*values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))  # be there none


def messages(layout):
    """Return records that say the same in each layout, the second of them with nothing in it."""
    return [
        {
            "steps": lambda n: sequence_example(
                {"key": feature(b"k%d" % n)},
                ids=[feature(i - 2) for i in range(n)],
                mfcc=[feature(i / 3, -0.0) for i in range(n)],
            ),
            "packed": lambda n: sequence_example(
                {"key": feature(b"k%d" % n)},
                ids=[feature(*range(-2, n - 2))],
                mfcc=[floats(*[v for i in range(n) for v in (i / 3, -0.0)])],
            ),
            "example": lambda n: example(
                key=feature(b"k%d" % n),
                ids=feature(*range(-2, n - 2)),
                mfcc=floats(*[v for i in range(n) for v in (i / 3, -0.0)]),
            ),
        }[layout](n)
        for n in LENGTHS
    ]


@pytest.mark.parametrize("compression", ["", "GZIP"])
@pytest.mark.parametrize("layout", ["steps", "packed", "example"])
def test_every_layout_is_converted(tmp_path, layout, compression):
    """The dataset holds the values of the files, to the bit and in their order."""
    path = written(tmp_path / "old.tfrecord", messages(layout), compression)
    done = convert(path, tmp_path / "new", key="key")
    records = list(sr.read_records(tmp_path / "new", schema=done.inference.schema))
    assert [record.key for record in records] == [f"k{n}" for n in LENGTHS]
    assert [record.ids.tolist() for record in records] == [list(range(-2, n - 2)) for n in LENGTHS]
    for record, n in zip(records, LENGTHS, strict=True):
        expected = np.array([[i / 3, -0.0] for i in range(n)], "f4").reshape(n, 2)
        assert record.mfcc.tobytes() == expected.tobytes()
    assert sr.verify(tmp_path / "new").ok


def test_raw_images_become_arrays(tmp_path):
    """Bytes whose dtype and shape are said are arrays in the dataset; what does not fit is named."""
    images = [np.arange(4 * rows, dtype="u1").reshape(rows, 4) for rows in (2, 3)]
    path = written(tmp_path / "old.tfrecord", [example(image=feature(image.tobytes())) for image in images])
    convert(path, tmp_path / "new", raw={"image": "uint8"}, shapes={"image": (None, 4)})
    for record, image in zip(sr.read_records(tmp_path / "new"), images, strict=True):
        np.testing.assert_array_equal(record.image, image)
    for raw, shapes in (({"image": "float64"}, {"image": (2,)}), ({"image": "uint8"}, {"image": (None, 8)})):
        with pytest.raises(sr.SeqrecorderError, match=r"record [01].*image|image.*record [01]"):
            convert(path, tmp_path / "other", raw=raw, shapes=shapes)
    assert not (tmp_path / "other").exists()


def test_splits_are_named_or_dealt(tmp_path):
    """Each split has the files that are named for it, or its share of the records."""
    train = written(tmp_path / "train-0", messages("steps"))
    test = written(tmp_path / "test-0", messages("steps")[:2])
    named = convert({"train": [train], "test": str(tmp_path / "test-*")}, tmp_path / "named").manifest
    assert {name: split.records for name, split in named.splits.items()} == {"train": 5, "test": 2}
    dealt = convert([train, test], tmp_path / "dealt", splits={"train": 0.5, "eval": 0.5}, seed=3).manifest
    assert set(dealt.splits) == {"train", "eval"}
    assert dealt.records == 7


def test_a_given_class_is_enough(tmp_path):
    """With a class nothing is inferred, and only its fields are converted."""

    @sr.record
    class Ids:
        ids: np.ndarray = sr.feature_list("int64")

    path = written(tmp_path / "old.tfrecord", messages("example"))
    done = convert(path, tmp_path / "new", schema=Ids)
    assert done.inference is None
    assert [field.name for field in sr.info(tmp_path / "new").schema.fields] == ["ids"]
    with pytest.raises(sr.OptionError, match="only for an inferred schema"):
        convert(path, tmp_path / "again", schema=Ids, raw={"x": "uint8"})


def test_nothing_is_lost_in_silence(tmp_path):
    """A feature that only the last record has is found, and one that cannot be declared must be left out by name."""
    path = written(tmp_path / "late", [example(a=feature(1))] * 1500 + [example(a=feature(1), late=feature(7))])
    convert(path, tmp_path / "new")
    assert [record.late for record in sr.read_records(tmp_path / "new")][-2:] == [None, 7]

    odd = written(tmp_path / "odd", [example(a=feature(1), b=feature(1)), example(a=feature(b"x"), b=feature(2))])
    with pytest.raises(
        sr.SchemaMismatchError, match=r"cannot be declared; leave them out, .*\n  'a': it has values of"
    ):
        convert(odd, tmp_path / "odd_new")
    assert not (tmp_path / "odd_new").exists()
    assert convert(odd, tmp_path / "odd_new", leave_out=["a"]).manifest.records == 2
    with pytest.raises(sr.OptionError, match="leave_out: there is no feature 'c'"):
        convert(odd, tmp_path / "more", leave_out=["a", "c"])
    with pytest.raises(sr.OptionError, match="leave_out: nothing would be left"):
        convert(odd, tmp_path / "more", leave_out=["a", "b"])
    with pytest.raises(sr.OptionError, match="the files of at least one split"):
        convert({}, tmp_path / "more")


def run(capsys, *arguments):
    code = main.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_schema_prints_a_module(capsys, tmp_path):
    """What `schema` prints can be saved as a module, by whose class the files are read."""
    path = written(tmp_path / "old.tfrecord", messages("steps"))
    code, out, _ = run(capsys, "schema", path, "--name", "Speech", "--key", "key")
    assert code == 0
    module = tmp_path / "speech.py"
    module.write_text(
        out + f"\n\nassert [len(r.ids) for r in sr.read_records({str(path)!r}, schema=Speech)] == {list(LENGTHS)}\n"
    )
    subprocess.run([sys.executable, module], check=True)
    code, out, _ = run(capsys, "schema", path, "--records", "all", "--json")
    data = json.loads(out)
    assert (code, data["layout"], data["records"], data["undeclared"]) == (0, "steps", 5, {})


def test_convert_from_the_command_line(capsys, tmp_path):
    """Files and splits are named, shapes given, and the result is told."""
    image = example(image=feature(bytes(12)), label=feature(2))
    path = written(tmp_path / "old.tfrecord", [image] * 10)
    code, out, _ = run(
        capsys, "convert", path, tmp_path / "new", "--raw", "image=uint8", "--shape", "image=2,6",
        "--share", "train=0.5", "--share", "test=0.5", "--shards", 2, "--compression", "GZIP", "--shuffle",
    )  # fmt: skip
    assert (code, out.splitlines()[0][: len(str(tmp_path)) + 16]) == (0, f"{tmp_path / 'new'}: 10 records")
    assert 'image: np.ndarray = sr.context("uint8", shape=(2, 6), storage="raw")' in out
    options = ["--split", f"a={path}", "--raw", "image=uint8", "--shape", "image=?,3", "--overwrite", "--json"]
    code, out, _ = run(capsys, "convert", tmp_path / "new", *options)
    data = json.loads(out)
    assert (code, data["dataset"]["splits"]["a"]["records"]) == (0, 10)
    assert data["dataset"]["schema"]["fields"][0]["shape"] == [None, 3]


def test_usage_errors(capsys, tmp_path):
    """Arguments that make no sense are refused before anything is read."""
    path = written(tmp_path / "old.tfrecord", messages("steps"))
    for arguments in (
        ["schema"],
        ["schema", path, "--raw", "image"],
        ["schema", path, "--shape", "image=height,width"],
        ["schema", path, "--records", "0"],
        ["convert", path, tmp_path / "new", "--share", "train=most"],
        ["convert", path, tmp_path / "new", "--split", "=x"],
    ):
        with pytest.raises(SystemExit) as stop:
            run(capsys, *arguments)
        assert stop.value.code == 2
    assert run(capsys, "convert", tmp_path / "new")[0] == 1
    assert run(capsys, "convert", path, tmp_path / "new", "--split", f"a={path}")[0] == 1
    assert not (tmp_path / "new").exists()
