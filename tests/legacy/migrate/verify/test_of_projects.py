"""Scripts of projects, tried: their other modules, what their functions take, and the files that they name."""

import ast

import pytest

from seqrecorder.legacy.migrate.rewrite.script import rewrite
from seqrecorder.legacy.migrate.verify.conditions import Conditions
from seqrecorder.legacy.migrate.verify.verify import tried

HEAD = """\
import tensorflow as tf
import project.maps as maps

"""

READ = """\
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    _, record = tf.TFRecordReader().read(queue)
"""

SCRIPT = f"""{HEAD}
def weighted(files):
{READ}
    parsed = tf.parse_single_example(record, {{"x": tf.FixedLenFeature([4], tf.float32)}})
    return tf.train.batch([parsed["x"] * tf.constant(maps.weights(4), tf.float32)], 2)


def many_numbers(files, p, q, r, s, t):
{READ}
    p = tf.strings.as_string(tf.fill([p], 1))
    q = tf.strings.as_string(tf.fill([q], 1))
    r = tf.strings.as_string(tf.fill([r], 1))
    s = tf.strings.as_string(tf.fill([s], 1))
    t = tf.strings.as_string(tf.fill([t], 1))
    return tf.train.batch([tf.string_join([record, p[0], q[0], r[0], s[0], t[0]])], 2)


def of_a_shape(files, shape):
{READ}
    parsed = tf.parse_single_example(record, {{"x": tf.VarLenFeature(tf.float32)}})
    return tf.train.batch([tf.reshape(tf.sparse_tensor_to_dense(parsed["x"]), shape)], 2)


def of_many_names(files):
    names = []
    for _ in range(200000):
        names.extend(files)
    queue = tf.train.string_input_producer(names, shuffle=False)
    _, record = tf.TFRecordReader().read(queue)
    return tf.train.batch([record], 2)


def no_epochs(files, num_epochs):
    if num_epochs <= 0:
        num_epochs = None
    queue = tf.train.string_input_producer(files, num_epochs=num_epochs, shuffle=False)
    _, record = tf.TFRecordReader().read(queue)
    return tf.train.batch([record], 2)


def pictures_of_somebody():
    queue = tf.train.slice_input_producer([["picture-1.jpg", "picture-2.jpg"]], num_epochs=1, shuffle=False)
    picture = tf.image.decode_jpeg(tf.read_file(tf.string_join(["/nowhere/of/data/", queue[0]])), channels=3)
    picture.set_shape([28, 28, 3])
    return tf.train.batch([picture], 2)


def in_buckets(files):
    queue = tf.train.string_input_producer(files, num_epochs=1)
    _, record = tf.TFRecordReader().read(queue)
    length = tf.size(tf.string_split([record], "").values)
    length, [first, second] = tf.contrib.training.bucket_by_sequence_length(
        length, [record, tf.string_join([record, "x"])], batch_size=2, bucket_boundaries=[9], dynamic_pad=True,
        allow_smaller_final_batch=True)
    return length, first, second


def shown(files):
{READ}
    batch = tf.train.batch([record], 2)
    print(tf.contrib.learn.run_n({{"batch": batch}}, n=1))
"""

GUESSED = f"""import os
import tensorflow as tf


def boxes(files, most, config=None):
{READ}
    features = {{side: tf.VarLenFeature(tf.float32) for side in "xy"}}
    parsed = tf.parse_single_example(record, dict(features, count=tf.FixedLenFeature([], tf.int64)))
    sides = tf.stack([tf.sparse_tensor_to_dense(parsed[side]) for side in "xy"])
    padded = tf.pad(sides, [[0, 0], [0, config.max_boxes + most - tf.to_int32(parsed["count"])]])
    return tf.train.batch([tf.reshape(padded, [2, config.max_boxes + most])], 2)


def of_several_sizes(files, kind):
    if kind not in ["a", "b"]:
        raise ValueError("kind is a or b")
{READ}
    parsed = tf.parse_single_example(record, {{name: tf.FixedLenFeature([], tf.string) for name in "pqr"}})
    image, label, polygons = [tf.decode_raw(parsed[name], tf.uint8) for name in "pqr"]
    image = tf.reshape(tf.cast(image, tf.float32), [6, 6, 3])
    label = tf.reshape(tf.to_int32(label), [6, 6, 1])
    polygons = tf.reshape(polygons, [-1, 9])
    return tf.train.batch([image, label, polygons], 2, dynamic_pad=True)


def with_labels(images, labels):
    images, labels = tf.convert_to_tensor(images, tf.string), tf.convert_to_tensor(labels, tf.string)
    image, label = tf.train.slice_input_producer([images, labels], num_epochs=1, shuffle=False)
    image = tf.reshape(tf.image.decode_png(tf.read_file(image)), [12, 10, 3])
    label = tf.reshape(tf.image.decode_png(tf.read_file(label)), [12, 10, 1])
    return tf.train.batch([image, label], 2)


def from_anywhere(ids, target_shape=None):
    flags = tf.app.flags.FLAGS
    if flags.place_of_files == "None":
        raise ValueError("no place")
    queue = tf.train.string_input_producer(ids, num_epochs=1, shuffle=False)
    _, record = tf.TFRecordReader().read(queue)
    parsed = tf.parse_single_example(record, {{"x": tf.FixedLenFeature([], tf.string)}})
    image = tf.image.central_crop(tf.image.decode_jpeg(parsed["x"], channels=3), flags.crop_fraction)
    return tf.train.batch([tf.image.resize_images(image, target_shape)], 2)


def of_a_tree():
    names = [os.path.join(place, name) for place, _, files in os.walk("../resources") for name in files]
    queue = tf.train.string_input_producer(names, num_epochs=1, shuffle=False)
    _, record = tf.TFRecordReader().read(queue)
    return tf.train.batch([record], 2)
"""

OF_A_CLASS = f"""{HEAD}
class Inputs:
    def __init__(self, record_files, feature_shape):
        if len(feature_shape) != 2:
            raise ValueError("two sides")
        self.files = [str(file) for file in record_files]

    @property
    def batch(self):
        files = self.files
    {READ.replace("    queue", "    queue").replace(chr(10), chr(10) + "    ")}
        return tf.train.batch([record], 2)


tf.app.flags.DEFINE_integer("size_of_batches", "4", "as a text")


class Faces:
    def __init__(self, data_dir, batch_size):
        faces = maps.lost(data_dir)
        queue = tf.train.string_input_producer(faces.train_names, shuffle=False)
        _, record = tf.TFRecordReader().read(queue)
        self.batch = tf.train.batch([record, tf.ones([tf.app.flags.FLAGS.size_of_batches])], batch_size)
"""

ALONE = f"""{HEAD}
def of_a_pattern():
    files = tf.train.match_filenames_once("/nowhere/of/data-*")
{READ}
    return tf.train.batch([record], 2)


def cropped(files, crop=False, resize_height=None):
{READ}
    numbers = tf.string_to_number(tf.string_split([record], "").values, tf.int32) if crop is None else tf.zeros([9])
    if crop:
        assert isinstance(resize_height, int)
        numbers = numbers[:resize_height]
    return tf.train.batch([numbers, record], 2)


def empty(files):
{READ}
    return tf.train.batch([tf.strings.unicode_decode(tf.strings.substr(record, 0, 0), "UTF-8")], 2, dynamic_pad=True)


def _in_batches(record, size, shuffle):
    if shuffle:
        return tf.train.shuffle_batch([record], size, 20, 10)
    else:
        return tf.train.batch([record], size)


def of_constants(files):
{READ}
    return _in_batches(record, 3, shuffle=False)


def by_steps(files):
    queue = tf.train.string_input_producer(files, shuffle=True)
    _, record = tf.TFRecordReader().read(queue)
    steps = tf.stack([tf.strings.to_hash_bucket_fast(tf.string_join([record, step]), 97) for step in "abc"])
    return tf.transpose(tf.train.shuffle_batch([steps], 2, 20, 10))


def trained(data_dir):
    names, others = maps.lost(data_dir)
    queue = tf.train.string_input_producer(names, shuffle=False)
    _, record = tf.TFRecordReader().read(queue)
    batch = tf.train.batch([record], 3)
    with tf.Session() as session:
        tf.summary.FileWriter("logs", session.graph)
        print(session.run(batch))
"""

MAPS = """\
import library_that_nobody_has.of_maps as of_maps
import numpy as np

def weights(size):
    return np.full([size], 0.5)

def drawn(size):
    return of_maps.draw(size)
"""


@pytest.mark.usefixtures("warm_trials")
def test_functions_of_projects_are_tried(tmp_path):
    """Other modules are found above the script, and without theirs; numbers, shapes, names and pictures are made up."""
    place = tmp_path / "project" / "inputs"
    place.mkdir(parents=True)
    (place.parent / "__init__.py").write_text("")
    (place.parent / "maps.py").write_text(MAPS)
    found = rewrite(SCRIPT, "graph")
    trials = {trial.function: trial for trial in tried(SCRIPT, found.text, found.functions, "graph", place)}
    assert {name: trial.outcome for name, trial in trials.items()} == dict.fromkeys(found.functions, "equal")
    assert len(trials) == 8
    assert "with stand-ins for library_that_nobody_has" in trials["weighted"].reason
    assert "with num_epochs=0: 24 batches equal" in trials["no_epochs"].reason
    wrong = found.text.replace("maps.weights(4)", "maps.weights(4) * 2")
    assert wrong != found.text
    [trial] = tried(SCRIPT, wrong, ["weighted"], "graph", place)
    assert trial.outcome == "differs"


@pytest.mark.usefixtures("warm_trials")
def test_what_functions_are_given_is_guessed_from_what_they_do(tmp_path):
    """Boxes have four sides of one number, labels one channel, and what is refused is not tried."""
    found = rewrite(GUESSED, "graph")
    trials = tried(GUESSED, found.text, found.functions, "graph", tmp_path)
    assert [(each.function, each.outcome) for each in trials if each.outcome != "equal"] == []
    assert len(trials) == 5


@pytest.mark.usefixtures("warm_trials")
@pytest.mark.parametrize("old", [OF_A_CLASS, ALONE])
def test_all_that_a_function_can_do_is_tried(tmp_path, old):
    """Patterns are of any place, crops have sizes, what modules lost is what it is used as; nothing is unequal."""
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "maps.py").write_text(MAPS)
    found = rewrite(old, "graph")
    trials = tried(old, found.text, found.functions, "graph", tmp_path)
    unequal = [each for each in trials if each.outcome != "equal"]
    assert [(each.outcome, each.reason) for each in unequal if each.function != "empty"] == []
    assert [each.reason for each in unequal] == ["the old function gives no batch"] * (old == ALONE)
    said = {each.function: each.reason for each in trials}
    assert len(said) == (2 if old == OF_A_CLASS else 6)
    if old == ALONE:
        assert "with resize_height=8, crop=True: 6 batches equal" in said["cropped"]
        [trial] = tried(old, found.text.replace('"abc"', '"cba"'), ["by_steps"], "graph", tmp_path)
        assert trial.outcome == "differs"


def test_the_problem_that_came_last_is_told(tmp_path):
    """Where no arguments do, the reason is that of those with which the function came furthest."""
    old = f"""{HEAD}
def never(files, size):
{READ}
    tf.reshape(tf.zeros([size]), [2, 4])
    raise RuntimeError("as nobody comes here")
    return tf.train.batch([record], 2)
"""
    [trial] = tried(old, old.replace("2)", "3)"), ["never"], "graph", tmp_path)
    assert trial.outcome == "unverified"
    assert trial.reason.endswith("RuntimeError: as nobody comes here")


@pytest.mark.parametrize(
    ("test", "others"),
    [("n > 3", [4]), ("n == 2", [1]), ("n != 0", [0]), ("n < 2", [1]), ("n >= 0", []), ("-1 < n", [])],
)
def test_numbers_that_conditions_look_at(test, others):
    """A number is tried on the other side of a constant that it is compared with, and never below 0."""
    conditions = Conditions.of(ast.parse(f"if {test}: pass"))
    assert list(conditions.positions({"n": 2})) == [{"n": other} for other in others]
