"""Names are told apart by what binds them, and nothing of TensorFlow's is asked for its value."""

import pytest
from old_scripts import HEAD, READ, script

from seqrecorder.legacy.migrate.project import migrate
from seqrecorder.legacy.migrate.rewrite.script import rewrite
from seqrecorder.legacy.migrate.rewrite.tf2_names import modern_name

BUCKET = "bucket_by_sequence_length(tf.size(record), [record], 2, [5, 10], dynamic_pad=True)"


@pytest.mark.parametrize(
    ("importing", "called"),
    [
        ("import tensorflow.contrib as c", "c.training."),
        ("import tensorflow.contrib.training as training", "training."),
        ("from tensorflow import contrib", "contrib.training."),
        ("from tensorflow.contrib import training as t", "t."),
        ("from tensorflow.contrib.training import *", ""),
        ("from tensorflow.contrib.training.python.training import bucket_ops", "bucket_ops."),
    ],
)
@pytest.mark.parametrize("apart", [False, True])
def test_every_way_to_import_means_the_same(importing, called, apart):
    """A pipeline is rewritten as a whole or not at all, whatever its parts are called."""
    ending = f"    return by_length(record)\n\n\ndef by_length(record):\n    return {called}{BUCKET}\n"
    text = script(READ + (ending if apart else f"    return {called}{BUCKET}\n"), before=f"{importing}\n")
    done = rewrite(text)
    assert done.status in ("converted", "flagged")
    gone = [name not in done.text.replace("dataset.bucket_by", "") for name in ("input_producer", "bucket_by_sequence")]
    assert gone[0] == gone[1] == (done.status == "converted")
    assert done.status == "converted" or "*" in importing


@pytest.mark.parametrize(
    "other",
    [
        "def other(tf):\n    return tf.train.batch\n",
        "def other():\n    tf = 3\n    return tf.TFRecordReader\n",
        "def other(queue, record, reader):\n    queue += record\n    return queue, reader\n",
        "def other():\n    batches = 1\n    return batches\n",
        "other = lambda tf: tf.train.batch(tf)\n",
        "other = [tf.train.batch for tf in ()]\n",
    ],
)
def test_equal_names_of_other_scopes_are_others(other):
    """What another function calls by a name of the pipeline is nothing of the pipeline."""
    text = script(READ + "    return tf.train.batch([record], 3)\n") + "\n\n" + other
    done = rewrite(text)
    assert done.status == "converted"
    assert done.text.endswith(other)


def test_tensorflow_by_another_name_in_another_function():
    """Lines are written with the name that TensorFlow has where they stand."""
    text = (
        "def one(tf):\n    return tf\n\n\ndef batches(files):\n    import tensorflow as flow\n"
        + READ.replace("tf.", "flow.")
        + "    return flow.train.batch([record], 3)\n\n\ndef other():\n    import tensorflow as tf\n    return tf\n"
    )
    done = rewrite(text)
    assert done.status == "converted"
    assert "flow.data.TFRecordDataset" in done.text
    assert " tf.data" not in done.text


@pytest.mark.parametrize("change", ["/= 2.0", "+= 1.0", "*= weights"])
@pytest.mark.parametrize("target", ["graph", "eager"])
def test_augmented_assignments_are_uses(change, target):
    """What is done to a batch in place is done to the batches of the dataset."""
    text = script(
        READ + "    x = tf.decode_raw(record, tf.float32)\n    x = tf.train.batch([x], 2, dynamic_pad=True)\n"
        f"    x {change}\n    return x\n",
        parameters="files, weights",
    )
    done = rewrite(text, target)
    assert done.status == "converted"
    inside = done.text.index(f"x {change}")
    assert (done.text.index("def finish(x):") < inside) if target == "eager" else (done.text.index("get_next") < inside)


def test_variables_set_anew_are_what_they_are_now():
    """A dictionary under the name of a producer's list is batched as one; a list that changes is one again."""
    slices = "    pair = tf.train.slice_input_producer([files, files], num_epochs=1)\n"
    found = rewrite(
        script(slices + "    pair = {'x': pair[0], 'y': pair[1]}\n    return tf.train.batch(pair, batch_size=2)\n")
    )
    assert "return tf.data.make_one_shot_iterator(dataset).get_next()" in found.text
    found = rewrite(script(slices + "    pair.append(pair[0])\n    return tf.train.batch(pair, batch_size=2)\n"))
    assert "        pair = list(pair)\n        pair.append(pair[0])\n        return tuple(pair)\n" in found.text
    found = rewrite(
        script(slices + "    if files:\n        pair = pair[0]\n    return tf.train.batch(pair, batch_size=2)\n")
    )
    assert [finding.code for finding in found.findings] == ["structure"]


def test_what_had_the_name_of_a_record_before_stays_behind():
    """A value from before the read is not set again for each record."""
    body = "    record = 2.0\n" + READ + "    record = tf.size(record)\n    return tf.train.batch([record], 3)\n"
    done = rewrite(script(body.replace("    reader", "    print(record)\n    reader", 1)))
    assert done.status == "converted"
    assert done.text.index("record = 2.0") < done.text.index("dataset")


def test_batches_of_no_record_are_flagged():
    """What hangs on no record was batched for ever, and would end with the records now."""
    body = (
        READ.replace("(files)", "(files, num_epochs=1)") + "    record = 2.0\n    return tf.train.batch([record], 3)\n"
    )
    assert [finding.code for finding in rewrite(script(body)).findings] == ["no-record"]
    own = "\n\ndef same(x):\n    return x\n\n\ndef other(x):\n    x = 1.0\n    return x\n"
    for name in ("same", "other"):
        called = body.replace("record = 2.0", f"record = {name}(record)")
        assert (rewrite(script(called, before=own)).status == "converted") == (name == "same")


@pytest.mark.parametrize(
    ("statements", "kept"),
    [
        ("for record in range(2):\n        size = 1.0", False),
        ("for size in range(2):\n        other = 1.0", True),
        ("for size in range(2):\n        record = tf.identity(record)", True),
        ("for size in range(2):\n        record, other = other, 1.0", False),
        ("for size in range(2):\n        if size:\n            break\n        record = 1.0", False),
    ],
)
def test_loops_may_leave_no_record(statements, kept):
    """A variable of a loop is no record any more, nor what the second round of a loop changes."""
    body = READ.replace("(files)", "(files, num_epochs=1)") + f"    other = tf.size(record)\n    {statements}\n"
    found = rewrite(script(body + "    return tf.train.batch([record], 3)\n"))
    assert (found.status == "converted") == kept, found.text


def test_batches_whose_names_are_bound_anew_are_not_returned():
    """Of two pipelines not the one is returned whose batches had the name before."""
    first = (
        "    n = 1.0\n    x = tf.train.slice_input_producer([files], num_epochs=1)\n    z = tf.train.batch([x[0]], 3)\n"
    )
    second = READ + "    n = tf.train.batch([record, record], 3)\n    z = n[0] + 1\n    z /= 4\n    return z\n"
    assert [finding.code for finding in rewrite(script(first + second), "eager").findings] == ["returns"]
    assert rewrite(script(second), "eager").status == "converted"


READERS = {
    "    examples = [tf.decode_csv(record, [[0]]) for _ in range(2)]\n": READ,
    "    examples = []\n    for _ in range(2):\n        examples.append(tf.decode_csv(record, [[0]]))\n": READ,
    "    examples = []\n    for _ in range(2):\n        _, record = reader.read(queue)\n"
    "        examples.append([record])\n": READ[: READ.index("    _, record")],
}


@pytest.mark.parametrize("examples", READERS)
def test_one_reader_reads_file_after_file(examples):
    """Files are interleaved where there were several readers, not where several decoded what one had read."""
    joining = "    return tf.train.batch_join(examples, 3)\n"
    done = rewrite(script(READERS[examples] + examples + joining))
    assert done.status == "flagged" or "flat_map" in done.text
    several = READ[: READ.index("    reader")] + (
        "    examples = []\n    for _ in range(2):\n        reader = tf.TextLineReader()\n"
        "        _, record = reader.read(queue)\n        examples.append([record])\n"
    )
    assert "interleave" in rewrite(script(several + joining)).text


def test_values_of_tensorflow_are_not_asked_for():
    """Attributes of what TensorFlow's names hold are left to the script: flags read the command line when asked."""
    assert modern_name("tf.app.flags.FLAGS.rows") == "tf.compat.v1.app.flags.FLAGS.rows"
    assert modern_name("tf.float32.nothing_of_that_name") == "tf.float32.nothing_of_that_name"
    assert modern_name("tf.train.nothing_of_that_name") is None


def test_modules_import_or_say_what_does_not():
    """Under the eager target every name of TensorFlow 1 is one of TensorFlow 2, or has a TODO."""
    text = script(
        READ + "    return tf.train.batch([record], 3)\n",
        before="import tensorflow.examples.tutorials.mnist\ntf.app.flags.DEFINE_string('x', '', '')\n"
        "FLAGS = tf.app.flags.FLAGS\nflags = tf.flags\nSIZE = FLAGS.size\n"
        "WIDE = tf.float32.size\nLOST = tf.scalar_summary\n",
    )
    text += "\n\ndef save(session):\n    tf.train.Saver().save(session, FLAGS.x)\n    tf.layers.dense(1)\n"
    done = rewrite(text, "eager")
    for line in ("tf.compat.v1.app.flags.DEFINE_string", "FLAGS = tf.compat.v1.app.flags.FLAGS", "SIZE = FLAGS.size"):
        assert line in done.text
    assert "tf.compat.v1.train.Saver()" in done.text
    assert "WIDE = tf.float32.size\nLOST = tf.compat.v1.summary.scalar" in done.text
    said = [(f.code, f.reason.partition(" ")[0]) for f in done.findings]
    assert said == [
        ("missing", "tf.examples.tutorials.mnist"),
        ("missing", "tf.layers.dense"),
    ]
    assert "does not import under TensorFlow 2 before what its TODOs say is done: 1 lines" in "".join(done.notes)
    assert "the module imports" in "".join(
        rewrite(script(READ + "    return tf.train.batch([record], 3)\n"), "eager").notes
    )
    switched = (
        "from tensorflow.compat import v1 as tf\ntf.disable_v2_behavior()\n" + text[text.index("\n\ndef batches") :]
    )
    assert "tf.disable_v2_behavior keeps" in "".join(f.reason for f in rewrite(switched, "eager").findings)


def test_a_crash_is_one_script_s_own(tmp_path, monkeypatch):
    """A script that cannot be taken apart is refused, and the others of its directory are not."""
    good = script(READ + "    return tf.train.batch([record], 3)\n")
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(good + f"# {name}\n")

    def failing(text, *given, **named):
        if "# a.py" in text:
            raise ZeroDivisionError("by hand")
        return rewrite(text, *given, **named)

    monkeypatch.setattr("seqrecorder.legacy.migrate.project.rewrite", failing)
    first, second = migrate(tmp_path)
    assert (first.outcome, second.outcome) == ("refused", "converted")
    assert "ZeroDivisionError: by hand" in first.findings[0].reason


QUEUE = """
waiting = tf.{kind}(20, {least}[tf.float32])
tf.train.add_queue_runner(tf.train.QueueRunner(waiting, [waiting.enqueue([tf.random_normal([2])])]))
taken = waiting.{verb}
"""


@pytest.mark.parametrize("kind", ["FIFOQueue", "RandomShuffleQueue", "PaddingFIFOQueue"])
@pytest.mark.parametrize("verb", ["dequeue()", "dequeue_many(3)", "dequeue_up_to(3)"])
@pytest.mark.parametrize("beside", [False, True])
def test_queues_without_a_reader_are_reported(kind, verb, beside):
    """Queues that are filled by hand without a reader are said to be there, beside a pipeline too."""
    text = HEAD + QUEUE.format(kind=kind, least="0, " * kind.startswith("Random"), verb=verb)
    if beside:
        text += script(READ + "    return tf.train.batch([record], 3)\n")[len(HEAD) :]
    done = rewrite(text)
    assert done.status == "flagged"
    assert done.findings
