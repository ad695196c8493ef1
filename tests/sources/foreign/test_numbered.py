"""A feature a step: `frames/0001`, `frames/0002`, ... of foreign files are one feature list."""

import numpy as np
import pytest
import tensorflow as tf
from combinations import all_at_night

import seqrecorder as sr


def feature(values):
    if isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def png(record, step):
    return tf.io.encode_png(np.full((2 + record, 3 + step, 1), 10 * record + step, "uint8")).numpy()


STEPS = (12, 3, 1)  # so that one number has more digits than others


def context_of(record):
    """Return the context of a record, in an order that is not that of the numbers."""
    context = {"label": [record], "frames/first": [b"no frame"], "frames/01/size": [7], "other": [1.5]}
    for step in reversed(range(STEPS[record])):
        name = f"{step + 1:04d}" if record else f"{step + 1}"
        context[f"frames/{name}"] = [png(record, step)]
        context[f"pose.{name}.xy"] = [step / 2, record / 2]
        context[f"class_{name}"] = [-step]
    return {name: feature(values) for name, values in context.items()}


def as_example(record):
    return tf.train.Example(features=tf.train.Features(feature=context_of(record)))


def as_sequence_example(record):
    lists = {"time": tf.train.FeatureList(feature=[feature([step]) for step in range(STEPS[record])])}
    return tf.train.SequenceExample(
        context=tf.train.Features(feature=context_of(record)), feature_lists=tf.train.FeatureLists(feature_list=lists)
    )


@sr.record
class Clip:
    label: int = sr.context("int32")
    frames: list = sr.feature_list("uint8", shape=(None, None, 1), storage="png", name="frames/*")
    pose: np.ndarray = sr.feature_list("float32", shape=(2,), name="pose.*.xy")
    classes: np.ndarray = sr.feature_list("int16", name="class_*")


@sr.record(kw_only=True)
class Timed(Clip):
    time: np.ndarray = sr.feature_list("int64")
    gone: np.ndarray | None = sr.feature_list("int64", name="gone/*", optional=True, default=None)


def check(record, number):
    steps = STEPS[number]
    assert record.label == number
    assert [frame.tolist() for frame in record.frames] == [
        tf.io.decode_png(png(number, step)).numpy().tolist() for step in range(steps)
    ]
    np.testing.assert_array_equal(record.pose, [(step / 2, number / 2) for step in range(steps)])
    np.testing.assert_array_equal(record.classes, -np.arange(steps))
    if isinstance(record, Timed):
        assert (record.time.tolist(), record.gone) == (list(range(steps)), None)


KINDS = {"example": (as_example, Clip), "steps": (as_sequence_example, Timed)}


@pytest.fixture(params=KINDS)
def foreign(request, tmp_path):
    """Give a file of one kind of message, and the class that reads it."""
    make, record_class = KINDS[request.param]
    path = tmp_path / "foreign.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as file:
        for record in range(len(STEPS)):
            file.write(make(record).SerializeToString())
    return path, record_class


def test_objects_hold_the_features_in_the_order_of_their_numbers(foreign):
    """`read_records` gives one list; a number of more digits comes last, and other names are no steps."""
    path, record_class = foreign
    for number, record in enumerate(sr.read_records(path, schema=record_class)):
        check(record, number)
    assert sr.verify(path, schema=record_class).ok
    assert sr.salvage(path, path.with_suffix(".saved"), schema=record_class).records == len(STEPS)


READS = [(kind, batch, None) for kind in KINDS for batch in (None, sr.Pad(3), sr.TokenBudget(36))]
BY_DAY = [("example", None, None), ("steps", sr.TokenBudget(36), ("label", "frames", "pose"))]


@pytest.mark.parametrize(
    ("foreign", "batch", "fields"), all_at_night([*READS, BY_DAY[1]], BY_DAY), indirect=["foreign"]
)
def test_graphs_hold_the_same(foreign, batch, fields):
    """Single records and batches have the same lists, and the images of each step."""
    path, record_class = foreign
    for element in sr.read(path, schema=record_class, batch=batch, fields=fields):
        rows = [element] if batch is None else [{k: v[row] for k, v in element.items()} for row in range(3)]
        for row in rows:
            number, steps = int(row["label"]), STEPS[int(row["label"])]
            if fields is None:
                np.testing.assert_array_equal(row["classes"][:steps], -np.arange(steps))
            np.testing.assert_array_equal(row["pose"][:steps, 0], np.arange(steps) / 2)
            assert row["frames_size"].numpy()[:steps].tolist() == [[2 + number, 3 + step] for step in range(steps)]
            assert row["frames"].numpy()[:steps, 0, 0, 0].tolist() == [10 * number + step for step in range(steps)]


def test_datasets_have_an_ordinary_list(foreign, tmp_path):
    """What is written has the steps under the field's name, where any program finds them; the class reads both."""
    path, record_class = foreign
    sr.write(sr.read_records(path, schema=record_class), tmp_path / "data", workers=2)
    manifest = sr.info(tmp_path / "data")
    assert [field.feature for field in manifest.schema.fields][:4] == ["label", "frames", "pose", "classes"]
    for number, record in enumerate(sr.read_records(tmp_path / "data", schema=record_class)):
        check(record, number)
    [batch] = sr.read(tmp_path / "data", schema=record_class, batch=3)
    assert batch["frames"].shape == (3, 12, 4, 14, 1)
    sr.write(sr.read_records(path, schema=record_class), tmp_path / "data", append=True)
    assert sr.info(tmp_path / "data").records == 6
    sr.merge([tmp_path / "data"], tmp_path / "both", schema=record_class)
    assert sr.info(tmp_path / "both").schema == manifest.schema


def test_what_is_missing_or_broken_is_named(foreign):
    """A record without any such feature lacks the list; one whose features are of another kind is refused."""
    path, record_class = foreign
    make, _ = next(kind for kind in KINDS.values() if kind[1] is record_class)
    whole, without, wrong = make(0), make(1), make(2)
    for message, prefix in ((without, "class_"), (wrong, "")):
        features = (message.context if hasattr(message, "context") else message.features).feature
        for name in [name for name in features if prefix and name.startswith(prefix)]:
            del features[name]
        if not prefix:
            features["class_0001"].CopyFrom(feature([1.5]))
    for bad, message in ((without, r"class_\*"), (wrong, "classes|class_")):
        with tf.io.TFRecordWriter(str(path)) as file:
            for one in (whole, bad):
                file.write(one.SerializeToString())
        with pytest.raises(sr.RecordError, match=message):
            list(sr.read_records(path, schema=record_class))
        with pytest.raises((sr.RecordError, tf.errors.InvalidArgumentError)):
            list(sr.read(path, schema=record_class, batch=2))
