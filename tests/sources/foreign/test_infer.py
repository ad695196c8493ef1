"""Schemas inferred from TFRecord files that others wrote."""

import pickle

import numpy as np
import pytest
import tensorflow as tf
from foreign_messages import example, feature, sequence_example, written
from hypothesis import given
from hypothesis import strategies as st
from pasting import pasted

import seqrecorder as sr
from seqrecorder.sources.foreign.infer import ABSENT, Tallies, infer, profile


def fields(inference):
    return [line.strip() for line in inference.draft.splitlines()[2:]]


def test_one_feature_a_step(tmp_path):
    """SequenceExamples in the usual layout give context fields, and lists grouped by their lengths."""
    messages = [
        sequence_example(
            {"length": feature(n), "weights": feature(0.5, 1.5), "tags": feature(*[b"a"] * n)},
            tokens=[feature(i) for i in range(n)],
            mfcc=[feature(0.5, 1.5)] * n,
            chars=[feature(b"x")] * (2 * n + 1),
            ragged=[feature(*range(i)) for i in range(n)],
        )
        for n in (3, 1, 4)
    ]
    found = infer(written(tmp_path / "a.tfrecord", messages))
    assert (found.layout, found.message, found.records) == ("steps", "tf.train.SequenceExample", 3)
    assert fields(found) == [
        'length: int = sr.context("int64")',
        'tags: np.ndarray = sr.context("str", shape=(None,))',
        'weights: np.ndarray = sr.context("float32", shape=(2,))',
        'chars: np.ndarray = sr.feature_list("str", align=None)',
        'mfcc: np.ndarray = sr.feature_list("float32", shape=(2,))',
        'ragged: list = sr.feature_list("int64", shape=(None,))',
        'tokens: np.ndarray = sr.feature_list("int64")',
    ]


def test_the_whole_sequence_in_one_feature(tmp_path):
    """Lists whose only step holds the sequence are declared packed, beside lists of steps."""
    messages = [sequence_example({}, ids=[feature(*range(n))], steps=[feature(i) for i in range(n)]) for n in (3, 1, 4)]
    path = written(tmp_path / "a.tfrecord", messages)
    found = infer(path)
    assert fields(found) == [
        'ids: np.ndarray = sr.feature_list("int64", storage="packed")',
        'steps: np.ndarray = sr.feature_list("int64")',
    ]
    assert [r.ids.tolist() for r in sr.read_records(path, schema=found.schema)] == [[0, 1, 2], [0], [0, 1, 2, 3]]


def test_flat_examples(tmp_path):
    """Features of varying length are sequences, and a fixed multiple of a length is a vector a step."""
    messages = [
        example(
            label=feature(n),
            box=feature(0.5, 0.5, 1.0, 1.0),
            ids=feature(*range(n)),
            mfcc=feature(*[0.5] * (13 * n)),
            chars=feature(*[b"c"] * (n + 1)),
        )
        for n in (3, 1, 4)
    ]
    path = written(tmp_path / "a.tfrecord", messages, "GZIP")
    found = infer(path)
    assert found.layout == "example"
    assert fields(found) == [
        'box: np.ndarray = sr.context("float32", shape=(4,))',
        'chars: np.ndarray = sr.feature_list("str", align=None)',
        'ids: np.ndarray = sr.feature_list("int64")',
        'label: int = sr.context("int64")',
        'mfcc: np.ndarray = sr.feature_list("float32", shape=(13,))',
    ]
    assert [r.mfcc.shape for r in sr.read_records(path, schema=found.schema)] == [(3, 13), (1, 13), (4, 13)]


@pytest.mark.parametrize("shape", [(None, 2, 3), (5, 2, 3), None])
def test_bytes_for_decode_raw(tmp_path, shape):
    """The dtype and the shape are said; without a shape the numbers are flat, which a comment tells."""
    image = np.arange(30, dtype="<f8").reshape(5, 2, 3)
    messages = [sequence_example({"image": feature(image.tobytes())}, frames=[feature(bytes(12))] * 2)]
    path = written(tmp_path / "a.tfrecord", messages)
    shapes = {"frames": (3,)} if shape is None else {"frames": (3,), "image": shape}
    found = infer(path, raw={"image": "float64", "frames": "float32"}, shapes=shapes)
    comment = "  # flat; its shape is yours to say" if shape is None else ""
    assert fields(found) == [
        f'image: np.ndarray = sr.context("float64", shape={shape or (None,)}, storage="raw"){comment}',
        'frames: np.ndarray = sr.feature_list("float32", shape=(3,), storage="raw")',
    ]
    [record] = sr.read_records(path, schema=found.schema)
    np.testing.assert_array_equal(record.image, image.ravel() if shape is None else image)
    assert record.frames.shape == (2, 3)


def test_what_some_records_lack_is_optional(tmp_path):
    """A feature that is not in every record may be None; what our own writer notes of that is no field."""

    @sr.record
    class Old:
        ids: np.ndarray = sr.feature_list("int64")
        who: str | None = sr.context(str, optional=True, default=None)

    sr.write([Old([1, 2], "ann"), Old([3])], tmp_path / "old")
    found = infer(str(tmp_path / "old" / "train" / "*.tfrecord"))
    assert fields(found) == [
        'who: str | None = sr.context("str", optional=True, default=None)',
        'ids: np.ndarray = sr.feature_list("int64")',
    ]
    assert "@sr.record(kw_only=True)" in found.draft


@pytest.mark.parametrize("layout", ["steps", "packed", "example"])
def test_absent_features_are_none_in_every_layout(tmp_path, layout):
    """What was inferred as optional is read as None where it lacks, however the sequences lie."""
    full, lacking = {
        "steps": (
            sequence_example({"a": feature(1)}, x=[feature(1), feature(2)], y=[feature(1), feature(2)]),
            sequence_example({}, x=[feature(1)]),
        ),
        "packed": (
            sequence_example({"a": feature(1)}, x=[feature(1, 2)], y=[feature(1, 2)]),
            sequence_example({}, x=[feature(1)]),
        ),
        "example": (example(a=feature(1), x=feature(1, 2), y=feature(1, 2)), example(x=feature(1))),
    }[layout]
    path = written(tmp_path / "a.tfrecord", [full, lacking])
    found = infer(path)
    second = list(sr.read_records(path, schema=found.schema))[1]
    assert (second.a, second.y, second.x.tolist()) == (None, None, [1])


def test_mixed_types_and_doubled_names_are_told(tmp_path):
    """What no field can hold is named with the reason, and the rest is declared."""
    messages = [
        sequence_example({"odd": value, "both": feature(1), "never": tf.train.Feature()}, both=[feature(1)])
        for value in (feature(1), feature(b"a"))
    ]
    found = infer(written(tmp_path / "a.tfrecord", messages))
    assert [field.feature for field in found.schema.fields] == ["never", "both"]
    assert found.comments["never"] == "it never has a value: the dtype is a guess"
    assert set(found.undeclared) == {"odd", "both"}
    assert "take them apart from those of tf.train.SequenceExamples" in found.undeclared["both"]
    assert "# 'odd' cannot be declared: it has values of several types" in fields(found)


def test_the_draft_can_be_pasted(tmp_path):
    """The text of a strange file is Python, whatever its features are called."""
    names = ["a b", "class", "2nd", "é", "x\n    import os", '"""']
    path = written(tmp_path / "a.tfrecord", [example(**{name: feature(b"\xff") for name in names})])
    found = infer(path, name="Strange")
    assert sr.Schema.of(pasted(found.draft)) == found.schema
    assert {field.feature for field in found.schema.fields} == set(names)


def test_records_are_taken_from_every_file(tmp_path):
    """A part of each file is looked at, or all of every file."""
    for number in range(3):
        written(tmp_path / f"{number}.tfrecord", [example(**{f"f{number}_{i}": feature(1)}) for i in range(4)])
    paths = str(tmp_path / "*.tfrecord")
    assert len(infer(paths, records=6).schema.fields) == 6
    assert len(infer(paths, records=None).schema.fields) == infer(paths).records == 12


def test_bad_arguments_are_named(tmp_path):
    """Every mistake names what was given and what there is."""
    path = written(tmp_path / "a.tfrecord", [example(image=feature(bytes(7)), n=feature(7), two=feature(b"a", b"b"))])
    with pytest.raises(sr.OptionError, match=r"no feature 'imgae' \(did you mean 'image'\?\); there is image, n, two"):
        infer(path, raw={"imgae": "uint8"})
    with pytest.raises(sr.OptionError, match="'image' has no dtype: name it under `raw` too"):
        infer(path, shapes={"image": (7,)})
    with pytest.raises(sr.OptionError, match="'image' as str needs no decoding"):
        infer(path, raw={"image": str})
    for shape in ((0,), (1, None), 7, (True, "a"), (2.0,), "shape", ("height", "width")):
        with pytest.raises(sr.OptionError, match="'image': expected sizes, of which the first may be None"):
            infer(path, raw={"image": "uint8"}, shapes={"image": shape})
    with pytest.raises(sr.SchemaMismatchError, match="one bytes value to decode in 'two', got 2 values of str"):
        infer(path, raw={"two": "uint8"})
    with pytest.raises(sr.SchemaMismatchError, match="one bytes value to decode in 'n', got 1 values of int64"):
        infer(path, raw={"n": "uint8"})
    with pytest.raises(sr.OptionError, match="name: expected a class's name, got '1'"):
        infer(path, name="1")
    with pytest.raises(sr.OptionError, match="records: expected an int of 1 or more"):
        infer(path, records=0)


def test_bad_files_are_named(tmp_path):
    """Files that are missing, damaged, empty or of other messages are said to be so."""
    with pytest.raises(sr.DatasetNotFoundError, match="there is no file"):
        infer(tmp_path / "none")
    with pytest.raises(sr.SchemaMismatchError, match="unknown: no record could be read"):
        infer(written(tmp_path / "empty", []))
    with pytest.raises(sr.SchemaMismatchError, match="neither a SequenceExample nor an Example"):
        infer(written(tmp_path / "other", [b"\xff\xff"]))
    path = written(tmp_path / "cut", [example(a=feature(1))] * 3)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(sr.ShardReadError, match="record 2 at byte 60: the file ends inside a record"):
        infer(path)
    with pytest.raises(sr.SchemaError, match="no feature can be declared: 'a': it has values of several types"):
        infer(written(tmp_path / "mixed", [example(a=feature(1)), example(a=feature(b"b"))]))


def test_formats_of_files_are_known(tmp_path):
    """Bytes that begin like a PNG, or like other known files, are said to be such, unless one of them is not."""
    tensors = [
        tf.io.serialize_tensor(tf.ones(shape, kind)).numpy() for shape, kind in (((2, 3), "float32"), ((), "bool"))
    ]
    starts = {
        "tensor": tensors,
        "png": [b"\x89PNG\r\n\x1a\n"] * 2,
        "sound": [b"fLaC"] * 2,
        "mixed": [b"\xff\xd8\xff", b"\xff"],
    }
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as file:
        for number in range(2):
            example = tf.train.SequenceExample()
            for name, values in starts.items():
                example.context.feature[name].bytes_list.value.append(values[number] + b"\x00\xff")
            file.write(example.SerializeToString())
    comments = infer(tmp_path / "a.tfrecord").comments
    assert comments["png"].startswith('PNG images; "uint8", shape=(None, None, channels)')
    assert comments["sound"] == "FLAC files"
    assert 'storage="tensor"' in comments["tensor"]
    assert "decode_raw" not in comments["tensor"]
    assert "decode_raw" in comments["mixed"]


@pytest.mark.parametrize("name", ["np", "class", "a b"])
def test_names_of_classes(tmp_path, name):
    """A class cannot have a name that its own text needs, or that Python does not take."""
    with pytest.raises(sr.OptionError, match="class's name"):
        infer(tmp_path / "a.tfrecord", name=name)


_STEPS = st.one_of(
    st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=1)),
    st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3)),
    st.lists(st.lists(st.floats(width=32), min_size=1, max_size=1)),
    st.lists(st.lists(st.floats(width=32), max_size=3)),
    st.lists(st.lists(st.sampled_from([b"to", b"\n\x05\x1a\x03\n\x01\x07", b"\xff"]), max_size=2)),
)
_LISTS = {int: "int64_list", float: "float_list", bytes: "bytes_list"}


@given(st.lists(_STEPS, min_size=1, max_size=4), st.integers(0, 4))
def test_lists_are_counted_as_by_protobuf(lists, cut):
    """Numbers of steps and values, and types, are those that protobuf finds, in one file or two, in any process."""
    messages = [tf.train.SequenceExample() for _ in lists]
    for message, steps in zip(messages, lists, strict=True):
        for values in steps:
            feature = message.feature_lists.feature_list["x"].feature.add()
            for value in values:
                getattr(feature, _LISTS[type(value)]).value.append(value)
    data = [message.SerializeToString() for message in messages]
    tallies = Tallies().add(data[:cut])
    tallies.join(pickle.loads(pickle.dumps(Tallies().add(data[cut:]))))  # noqa: S301 - our own
    profiled = profile(tallies)
    if not any(lists):
        assert profiled.features == ()
        return
    [x] = profiled.features
    with_steps = [steps for steps in lists if steps]
    kinds = {type(value) for steps in lists for values in steps for value in values}
    texts = all(values.count(b"\xff") == 0 for steps in lists for values in steps)
    dtypes = {int: "int64", float: "float32", bytes: "str" if texts else "bytes"}
    assert x.dtype == (None if not kinds else dtypes[kinds.pop()] if len(kinds) == 1 else "mixed")
    sizes = [len(values) for steps in lists for values in steps]
    assert (x.values.least, x.values.most) == (min(sizes), max(sizes))
    assert (x.steps.least, x.steps.most) == (min(map(len, with_steps)), max(map(len, with_steps)))
    assert profiled.sizes["x"].tolist() == [len(steps) or ABSENT for steps in lists]
    assert profiled.totals["x"].tolist() == [sum(map(len, steps)) if steps else ABSENT for steps in lists]
