"""Old and new input functions, run on made-up records in a process of their own."""

import classic
import numpy as np
import pytest
import tensorflow as tf

from seqrecorder.legacy.migrate.rewrite.lift_script import lift_script
from seqrecorder.legacy.migrate.rewrite.script import rewrite
from seqrecorder.legacy.migrate.verify.equality import compare
from seqrecorder.legacy.migrate.verify.sessions import is_shuffled
from seqrecorder.legacy.migrate.verify.verify import tried

SCRIPT = (
    classic.BATCHED
    + classic.TOGETHER
    + classic.ONE_AT_A_TIME
    + """

def needs_what_nobody_has(files):
    with open("/nowhere/names.txt") as lines:
        files = [line.strip() for line in lines]
    queue = tf.train.string_input_producer(files)
    reader = tf.TFRecordReader()
    _, record = reader.read(queue)
    return tf.train.batch([record], 2)


def draws(files):
    queue = tf.train.string_input_producer(files, shuffle=False)
    reader = tf.TFRecordReader()
    _, record = reader.read(queue)
    noise = tf.random_uniform([3])
    return tf.train.batch([noise], 2)


def of_one_kind(files, options):
    queue = tf.train.string_input_producer(files, shuffle=False)
    reader = tf.TFRecordReader()
    _, record = reader.read(queue)
    if options.kinds == ["upper"]:
        record = tf.strings.upper(record)
    return tf.train.batch([record], 2)


def fails(files):
    queue = tf.train.string_input_producer(files, shuffle=False)
    reader = tf.TFRecordReader()
    _, record = reader.read(queue)
    number = tf.string_to_number(tf.string_join([record, "x"]))
    return tf.train.batch([number], 2)
"""
)


ONE = """\
    queue = tf.train.string_input_producer(files, shuffle=False)
    _, record = tf.TFRecordReader().read(queue)
    batch = tf.train.batch([record], 2)
"""

# Of which the order is left to chance: always, and where a switch is on.
SHUFFLED = {"image_batches", "shuffled_and_joined", "kept_and_shuffled", "through_two_queues"}
SWITCHED = {"branches", "in_branches", "queue_in_branches", "in_parts"}


def check_switched(trials):
    """Check that functions with switches were tried with each."""
    for name in SWITCHED & set(trials):
        first, _, second = trials[name].reason.partition("=True: ")
        assert first.count("batches equal") == 2
        assert "with the same records" in second


@pytest.mark.usefixtures("warm_trials")
def test_graph_functions_give_the_same_batches(tmp_path):
    """Every kind of pipeline gives the same batches as its queues did, in the same order where that was theirs."""
    found = rewrite(SCRIPT, "graph")
    trials = {trial.function: trial for trial in tried(SCRIPT, found.text, found.functions, "graph", tmp_path)}
    assert found.status == "converted"
    equal = {name for name, trial in trials.items() if trial.outcome == "equal"}
    assert equal == {*classic.FUNCTIONS, *classic.OF_TOGETHER, "windows", "single_records", "draws"}
    assert trials["draws"].reason.endswith("with random numbers held still")
    for name in equal - SHUFFLED - SWITCHED:
        assert "batches equal" in trials[name].reason
        assert "chance" not in trials[name].reason
    check_switched(trials)
    said = "4 batches with the same records, in an order that was left to chance"
    assert trials["image_batches"].reason == f"{said}; with num_epochs=None: 104 batches of the same records"
    line = SCRIPT[: SCRIPT.index("        record = tf.strings.upper(record)\n")].count("\n") + 1
    assert trials["of_one_kind"].outcome == "partly"
    assert trials["of_one_kind"].reason.endswith(f"batches equal; not tried: line {line}")
    why = {name: trial.reason for name, trial in trials.items() if trial.outcome == "unverified"}
    assert why.pop("fails").startswith("the old function fails: ")
    assert why.pop("needs_what_nobody_has").startswith("the old function cannot be called: FileNotFoundError")
    assert not why
    assert "with shuffle=True: 8 batches with the same records" in trials["branches"].reason


@pytest.mark.usefixtures("warm_trials")
@pytest.mark.parametrize("every", [2, pytest.param(1, marks=pytest.mark.nightly)])
def test_eager_functions_give_the_same_batches(tmp_path, every):
    """The datasets that functions return instead hold what the queues gave."""
    without_branches = classic.BATCHED[: classic.BATCHED.index("def branches")]
    old = without_branches + classic.WITHOUT_FILES + classic.TOGETHER
    found = rewrite(old, "eager")
    assert {*found.functions} == {*classic.FUNCTIONS, *classic.OF_TOGETHER} - {"branches"}
    some = [name for number, name in enumerate(found.functions) if name in SWITCHED or number % every == 0]
    trials = {trial.function: trial for trial in tried(old, found.text, some, "eager", tmp_path)}
    assert [trial for trial in trials.values() if trial.outcome != "equal"] == []
    assert [*trials] == some
    check_switched(trials)


@pytest.mark.usefixtures("warm_trials")
@pytest.mark.parametrize("shuffled", [False, True])
def test_record_classes_give_the_same_batches(tmp_path, shuffled):
    """What is read or parsed with the class is what the queues gave, in the same order where that was theirs."""
    old = (classic.HEAD + classic.SEQUENCES).replace("shuffle=False", f"shuffle={shuffled}")
    found = rewrite(old, "eager", records=True)
    assert ("sr.read(filenames, schema=Record, epochs=num_epochs)" in found.text) != shuffled
    assert ("dataset.map(sr.Schema.of(Record).parse)" in found.text) == shuffled
    [trial] = tried(old, found.text, found.functions, "eager", tmp_path)
    assert trial.outcome == "equal"
    assert shuffled or trial.reason == "4 batches equal; 8 batches equal"


@pytest.mark.usefixtures("warm_trials")
def test_a_wrong_text_is_found_out(tmp_path):
    """Whatever is lost, added, moved or padded otherwise is said to differ."""
    old = classic.BATCHED
    new = rewrite(old).text
    sabotage = {
        "with_keys": ("end = at + 16", "end = at + 15"),
        "small_last_batch": ("batch(batch_size, drop_remainder=False)", "batch(batch_size, drop_remainder=True)"),
        "whole_files": (".repeat(3)", ".repeat(2)"),
        "seeded": ("seed2=7", "seed2=8"),
        "image_batches": ("- 0.5", "- 0.25"),
        "slices": ("return number, name", "return number + 1, name"),
        "fixed_records": ("return record, label", "return record, undefined"),
    }
    for was, becomes in sabotage.values():
        assert was in new
        new = new.replace(was, becomes)
    trials = tried(old, new, [*sabotage, "padded_batches"], "graph", tmp_path)
    assert {trial.function: trial.outcome for trial in trials} == {
        **dict.fromkeys(sabotage, "differs"),
        "padded_batches": "equal",
    }
    assert next(t.reason for t in trials if t.function == "fixed_records").startswith(
        "the new function fails: NameError"
    )


@pytest.mark.usefixtures("warm_trials")
@pytest.mark.parametrize("target", [pytest.param("graph", marks=pytest.mark.nightly), "eager"])
def test_dictionaries_that_become_lists_differ(tmp_path, target):
    """The same tensors put together in another way are not what the function gave."""
    parts = [
        function.replace("def f", f"def {name}") for name, function in {
            "named": "def f(files):\n" + ONE + "    return {'x': batch, 'y': batch}\n",
            "alike": "def f(files):\n" + ONE + "    return {'x': batch, 'y': batch}\n",
            "listed": "def f(files):\n" + ONE + "    return [batch, (batch, batch)]\n",
        }.items()
    ]  # fmt: skip
    old = "import tensorflow as tf\n\n\n" + "\n\n".join(parts)
    done = rewrite(old, target)
    assert done.status == "converted"
    start = done.text.index("def named")
    end = done.text.index("def alike")
    changed = done.text[start:end].replace("{'x': batch, 'y': batch}", "[batch, batch]")
    trials = tried(old, done.text[:start] + changed + done.text[end:], done.functions, target, tmp_path)
    assert [trial.outcome for trial in trials] == ["differs", "equal", "equal"]
    assert trials[0].reason.startswith("batches like {x: ., y: .} became batches like ")


def test_what_ends_or_lasts_is_unverified(tmp_path):
    """A trial that does not come back is no proof of anything."""
    old = "import tensorflow as tf\nimport os\n\n\ndef f():\n    os._exit(3)\n"
    [ended] = tried(old, old, ["f"], "graph", tmp_path)
    assert ended.outcome == "unverified"
    assert ended.reason.startswith("the trial ended with code 3")
    [late] = tried(old, old, ["f"], "graph", tmp_path, seconds=0.01)
    assert (late.outcome, late.reason) == ("unverified", "not done within 0.01 s")


def test_comparing_batches():
    """Order counts where it was fixed; the records, without their padding, where it was left to chance."""

    def compared(old, new, ordered, records=1, axis=0):
        return compare(old, new, ordered=ordered, records=records, most=24, axis=axis)

    one = [[np.array([1, 2])], [np.array([3, 4])]]
    other = [[np.array([3, 1])], [np.array([2, 4])]]
    assert compared(one, one, ordered=True) == "2 batches equal"
    with pytest.raises(AssertionError, match="another order"):
        compared(one, other, ordered=True)
    assert "left to chance" in compared(one, other, ordered=False)
    with pytest.raises(AssertionError, match="other records"):
        compared(one, [[np.array([5, 6])], [np.array([7, 4])]], ordered=False)
    with pytest.raises(AssertionError, match="2 batches became 1"):
        compared(one, one[:1], ordered=False)
    with pytest.raises(AssertionError, match=r"batches of \[2\] became batches of \[1\]"):
        compared(one, [one[0], [np.array([3])]], ordered=False)
    records = [[np.array([1, 2])], [np.array([3])], [np.array([4])]]  # each with a size of its own
    assert "left to chance" in compared(records, [records[1], records[2], records[0]], ordered=False)
    assert compared([[np.array([[1, 0], [2, 2]])]], [[np.array([[2, 2, 0], [1, 0, 0]])]], ordered=False)
    with pytest.raises(AssertionError, match="other records"):
        compared([[np.array([1, 1, 2, 2])]], [[np.array([1, 3, 3, 3])]], ordered=False, records=2)
    floats = [[np.array([1.0], "f4")]]
    with pytest.raises(AssertionError, match="other values"):
        compared(floats, [[np.array([1.0], "f8")]], ordered=True)
    with pytest.raises(AssertionError, match="other records"):
        compared([*floats, [np.array([2.0], "f4")]], [[np.array([2.0], "f8")], [np.array([1.0], "f8")]], ordered=False)
    steps = [[np.arange(12).reshape(3, 4)], [np.arange(12, 24).reshape(3, 4)]]  # of which each column is a record
    mixed = np.concatenate([part for [part] in steps], 1)[:, [7, 0, 2, 4, 6, 1, 3, 5]]
    assert "left to chance" in compared(steps, [[mixed[:, :4]], [mixed[:, 4:]]], ordered=False, records=8, axis=1)
    with pytest.raises(AssertionError, match="other records"):
        compared(steps, [[mixed[::-1, :4]], [mixed[:, 4:]]], ordered=False, records=8, axis=1)
    near = [[np.array([np.nan, 1.0])], [np.array([2.0, 0.1])]]
    assert compared(near, [[near[1][0] + 1e-9], [near[0][0] + 1e-9]], ordered=False)


LIFTED = """\
import os
import tensorflow as tf
from networks import build

tf.app.flags.DEFINE_string("train_file", "data/train.tfrecords", "")
FLAGS = tf.app.flags.FLAGS


def read_pixels(filename_queue):
    reader = tf.TFRecordReader()
    _, record = reader.read(filename_queue)
    features = tf.parse_single_example(record, {
        "height": tf.FixedLenFeature([], tf.int64), "width": tf.FixedLenFeature([], tf.int64),
        "pixels": tf.FixedLenFeature([], tf.string)})
    shape = tf.stack([features["height"], features["width"], 3])
    return tf.reshape(tf.decode_raw(features["pixels"], tf.uint8), shape)


def pictures(data_dir, list_file, batch_size, augment_fn):
    names = [line.split(" ") for line in open(list_file)]
    names, labels = [os.path.join(data_dir, name) for name, _ in names], [int(label) for _, label in names]
    queue = tf.train.slice_input_producer([names, labels], num_epochs=2, shuffle=False)
    picture = tf.image.decode_jpeg(tf.read_file(queue[0]), 3)
    picture = augment_fn(tf.reshape(picture, [32, 32, 3]))
    queue = tf.FIFOQueue(30, [tf.uint8, tf.int32], [[32, 32, 3], []])
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue([picture, 1])] * 2))
    return queue.dequeue_many(batch_size)


def main(_):
    queue = tf.train.string_input_producer([FLAGS.train_file], num_epochs=2)
    _, record = tf.TFRecordReader().read(queue)
    with tf.device("/gpu:0"):
        batch = tf.train.batch([record], 2)
    rest = tf.train.string_input_producer([FLAGS.train_file], num_epochs=1)
    _, record = tf.TFRecordReader().read(rest)
    other = tf.train.shuffle_batch([record], 2, 20, 5)
    loss = tf.contrib.losses.nothing(build(batch, other))
    with tf.Session() as session:
        session.run(loss)
"""


@pytest.mark.usefixtures("warm_trials")
def test_lifted_functions_are_tried(tmp_path):
    """Lifted functions are tried as far as their tensors: what a model does then is not run, and files are theirs."""
    found = lift_script(LIFTED)
    trials = {trial.function: trial for trial in tried(LIFTED, found.text, found.functions, "graph", tmp_path)}
    assert {name: trial.outcome for name, trial in trials.items()} == dict.fromkeys(found.functions, "equal")
    assert set(trials) == {"read_pixels", "pictures", "main"}
    assert trials["main"].reason.startswith("6 batches equal, then 3 batches with the same records")


KEPT = """\
import argparse
import tensorflow as tf
from networks import network

parser = argparse.ArgumentParser()
parser.add_argument("--image_size", type=int, default=5)
parser.add_argument("--upper", action="store_true")
FLAGS = parser.parse_args()


def train(_):
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    queue = tf.train.string_input_producer(["../data/train.tfrecords"], num_epochs=2, shuffle=False)
    _, record = tf.TFRecordReader().read(queue)
    if FLAGS.upper:
        record = tf.strings.upper(record)
    if FLAGS.image_size < 4:
        print("too small")
        raise ValueError
    batch = tf.train.batch([record], 2)
    loss = network(batch) + tf.contrib.losses.nothing()
    while True:
        session.run(loss)


if __name__ == "__main__":
    files = tf.train.string_input_producer(["other.tfrecords"], num_epochs=2, shuffle=False)
    _, text = tf.TFRecordReader().read(files)
    texts = tf.train.batch([text], 3)
    with tf.Session() as session:
        print(session.run(texts))
"""


@pytest.mark.usefixtures("warm_trials")
def test_batches_that_are_kept_are_compared(tmp_path):
    """A function that trains is run as far as its batches; what a script does when it is run is tried, as its flags."""
    found = rewrite(KEPT, "graph")
    assert found.status == "converted"
    trials = {trial.function: trial for trial in tried(KEPT, found.text, found.functions, "graph", tmp_path)}
    assert {name: trial.outcome for name, trial in trials.items()} == {"train": "equal", "<module>": "equal"}
    assert trials["train"].reason == "7 batches equal; with .upper=True: 7 batches equal; with stand-ins for network"
    wrong = found.text.replace("tf.strings.upper", "tf.strings.lower")
    [trial] = tried(KEPT, wrong, ["train"], "graph", tmp_path)
    assert (trial.outcome, trial.reason) == ("differs", "the batches hold other values, or in another order")


STEPS = """\
import tensorflow as tf
from networks import network


def labelled(files):
    queue = tf.train.string_input_producer(files, num_epochs=2, shuffle=False)
    _, record = tf.TFRecordReader().read(queue)
    return tf.train.batch([record], 2)


def train(files):
    x = tf.placeholder(tf.float32, [None, 3])
    step = tf.train.AdamOptimizer().minimize(tf.reduce_mean(x))
    queue = tf.train.string_input_producer(files, num_epochs=2, shuffle=False)
    _, record = tf.TFRecordReader().read(queue)
    if not files:
        record = tf.strings.upper(record)
    records = tf.train.batch([record], 2)
    sizes = tf.strings.length(records)
    with tf.Session() as session:
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess=session, coord=coordinator)
        for _ in range(10):
            records, batch_sizes = session.run([records, sizes])
            session.run(step, {x: network(records)})
        coordinator.request_stop()
        coordinator.join(threads)


with tf.Graph().as_default():
    files = tf.train.string_input_producer(["other.tfrecords"], num_epochs=2, shuffle=False)
    _, text = tf.TFRecordReader().read(files)
    texts = tf.train.batch([text], 3)
    loss = network(texts)
    with tf.Session() as session:
        print(texts.eval())
"""


@pytest.mark.usefixtures("warm_trials")
def test_functions_are_run_until_a_session_asks_for_their_batches(tmp_path):
    """A model before the pipeline may fail, and what a session does behind it does not count."""
    found = rewrite(STEPS, "graph")
    assert found.status == "converted"
    trials = {trial.function: trial for trial in tried(STEPS, found.text, found.functions, "graph", tmp_path)}
    outcomes = {name: trial.outcome for name, trial in trials.items()}
    assert outcomes == {"labelled": "equal", "train": "partly", "<module>": "equal"}
    step = "step = tf.train.AdamOptimizer().minimize(tf.reduce_mean(x))"
    line = STEPS[: STEPS.index("        record = tf.strings.upper")].count("\n") + 1
    said = f"with stand-ins for network; without {step}, which fails; not tried: line {line}"
    assert trials["train"].reason == f"7 batches equal; 12 batches equal; {said}"
    wrong = found.text.replace("batch(2", "batch(1")
    assert wrong != found.text
    [trial] = tried(STEPS, wrong, ["train"], "graph", tmp_path)
    assert trial.outcome == "differs"


OF_PROJECT = """\
import random
import numpy as np
import tensorflow as tf


def tensors(reader, data_pattern, batch_size):
    files = tf.gfile.Glob(data_pattern)
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    return tf.train.batch_join([reader.prepare_reader(queue)], batch_size, enqueue_many=True)


numbers = np.random.randn(20, 3)
random.shuffle([1, 2, 3])
queue = tf.FIFOQueue(100, [tf.float64], [[3]])
tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue_many([numbers])]))
row = queue.dequeue()
with tf.Session() as session:
    session.run(row)
"""


@pytest.mark.usefixtures("warm_trials")
def test_what_other_modules_make_is_stood_in_for(tmp_path):
    """Readers of a project's other modules are stood in for; tensors of the module itself count."""
    found = lift_script(OF_PROJECT)
    assert found.status == "converted"
    trials = {trial.function: trial for trial in tried(OF_PROJECT, found.text, found.functions, "graph", tmp_path)}
    assert {name: trial.outcome for name, trial in trials.items()} == dict.fromkeys(found.functions, "equal")
    assert len(trials) == 2


UNSAID = """\
import os
import numpy as np
import tensorflow as tf
import project_reading
import project_networks


def labelled_pictures(image, label, image_W, image_H, batch_size):
    image, label = tf.cast(image, tf.string), tf.cast(label, tf.int32)
    queue = tf.train.slice_input_producer([image, label], num_epochs=1, shuffle=False)
    picture = tf.image.decode_jpeg(tf.read_file(queue[0]), channels=3)
    picture = tf.image.resize_image_with_crop_or_pad(picture, image_H, image_W)
    return tf.train.batch([picture, queue[1]], batch_size)


def large_batches(files):
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    _, record = tf.TFRecordReader().read(queue)
    return tf.train.batch([record], batch_size=128)


def of_a_length(files):
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    _, record = tf.TFRecordReader().read(queue)
    parsed = tf.parse_single_example(record, {"pixels": tf.FixedLenFeature([], tf.string)})
    pixels = tf.cast(tf.decode_raw(parsed["pixels"], tf.uint8), tf.float32)
    return tf.train.batch([tf.reshape(pixels, [784])], 3)


def at_home():
    queue = tf.train.string_input_producer(["/home/nobody/data/" + "train.tfrecords"], num_epochs=1)
    _, record = tf.TFRecordReader().read(queue)
    return tf.train.batch([record], 2)


def decoded_elsewhere(files):
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    _, record = tf.TFRecordReader().read(queue)
    image, label, name = project_reading.decode(record)
    return tf.train.batch([image, label, name], 2)


def with_threads(files, num_threads=None):
    num_threads = num_threads or 2
    if num_threads % 4:
        raise ValueError("a multiple of 4")
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    _, record = tf.TFRecordReader().read(queue)
    return tf.train.batch([record], 2, num_threads=num_threads)


def cropped(files):
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    _, record = tf.TFRecordReader().read(queue)
    parsed = tf.parse_single_example(record, {"image": tf.FixedLenFeature([], tf.string)})
    picture = tf.image.decode_jpeg(parsed["image"], channels=3)
    boxes = tf.constant([[[0.1, 0.1, 0.9, 0.9]]])
    begin, size, _ = tf.image.sample_distorted_bounding_box(tf.shape(picture), boxes)
    picture = tf.image.resize_images(tf.slice(picture, begin, size), [8, 8])
    picture.set_shape([8, 8, 3])
    return tf.train.batch([picture], 2)


def of_an_image_with_sides(files):
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    _, record = tf.TFRecordReader().read(queue)
    parsed = tf.parse_single_example(record, {
        "height": tf.FixedLenFeature([], tf.int64), "width": tf.FixedLenFeature([], tf.int64),
        "pixels": tf.FixedLenFeature([], tf.string)})
    shape = tf.stack([parsed["height"], parsed["width"], 3])
    image = tf.reshape(tf.decode_raw(parsed["pixels"], tf.uint8), shape)
    return tf.train.batch([image], 3, shapes=[[5, 4, 3]])


def large_pieces_of_a_directory(data_dir):
    files = [os.path.join(data_dir, name) for name in os.listdir(data_dir)]
    files = [name for name in files if os.path.isfile(name)]
    queue = tf.train.string_input_producer(files, num_epochs=2, shuffle=False)
    _, picture = tf.WholeFileReader().read(queue)
    return tf.train.batch([tf.image.crop_to_bounding_box(tf.image.decode_jpeg(picture, 3), 90, 9, 80, 70)], 2)


def other_work_in_each_thread(files):
    queue = tf.train.string_input_producer(files, num_epochs=2)
    _, record = tf.TFRecordReader().read(queue)
    arms = [[tf.string_join([record, str(thread)])] for thread in range(2)]
    return tf.train.batch_join(arms, 2)


class Inputs(project_networks.Base):
    def __init__(self, data_dir=None, batch_size=None):
        self.file, self.batch_size = data_dir + "train.tfrecords", batch_size

    def batches(self):
        queue = tf.train.string_input_producer([self.file], num_epochs=1)
        _, record = tf.TFRecordReader().read(queue)
        return tf.train.batch([record], self.batch_size)


rows = np.arange(60.0).reshape(20, 3)
queue = tf.FIFOQueue(100, [tf.float64], [[3]])
runner = tf.train.QueueRunner(queue, [queue.enqueue_many([rows])])
row = queue.dequeue()
with tf.Session() as session:
    threads = runner.create_threads(session, coord=tf.train.Coordinator(), start=True)
    session.run(row)
"""


@pytest.mark.usefixtures("warm_trials")
def test_what_a_script_does_with_its_inputs_says_what_they_are(tmp_path):
    """Files, pictures, lengths, sizes and numbers of threads are taken from what a script does, or fails, with them."""
    found = lift_script(UNSAID)
    trials = {trial.function: trial for trial in tried(UNSAID, found.text, found.functions, "graph", tmp_path)}
    outcomes = {name: trial.outcome for name, trial in trials.items()}
    assert trials["other_work_in_each_thread"].reason == "what its batches hold is left to chance"
    assert outcomes == dict.fromkeys(found.functions, "equal") | {"other_work_in_each_thread": "unverified"}
    assert len(trials) == 12
    assert trials["cropped"].reason.endswith("with random numbers held still")
    wrong = found.text.replace("[784]", "[784]) + tf.ones([784]")
    assert wrong != found.text
    [trial] = tried(UNSAID, wrong, ["of_a_length"], "graph", tmp_path)
    assert trial.outcome == "differs"


@pytest.mark.parametrize(("files", "shuffled"), [(["a"], False), (["a", "b"], True), (None, True)])
def test_chance_orders_files_whose_number_is_not_known(files, shuffled):
    """One file has one order; of what a pattern finds, a graph does not know how many there are."""
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        v1.train.string_input_producer(v1.placeholder_with_default(["a"], None) if files is None else files)
    assert is_shuffled(graph) is shuffled
