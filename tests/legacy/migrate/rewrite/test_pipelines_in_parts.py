"""Queues that callers give to what batches, and lists of examples joined in arms."""

import pytest
from old_scripts import READ, script

from seqrecorder.legacy.migrate.rewrite.script import rewrite
from seqrecorder.legacy.migrate.verify.verify import tried

PARTS = """\
import tensorflow as tf


def given(files):
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    return batched(queue, 2)


def given_by_name(files):
    queue = tf.train.string_input_producer([*files], shuffle=False, num_epochs=1)
    sizes, values = batched(size=3, queue=queue, small=True)
    return sizes, values


def given_twice(files, epochs=2):
    files = [*files]
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    files.append(files[0])
    first = batched(queue, 2)
    queue = tf.train.string_input_producer(files, num_epochs=epochs, shuffle=False)
    return first, batched(queue, 2)


def batched(queue, size, small=False):
    _, value = tf.TFRecordReader().read(queue)
    length = tf.strings.length(value)
    if small:
        small_lengths, small_values = tf.train.batch([length, value], size, allow_smaller_final_batch=True)
        return small_lengths, small_values
    else:
        lengths, values = tf.train.batch([length, value], size)
        return lengths, values


def one(files):
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    _, value = tf.TFRecordReader().read(queue)
    return tf.train.limit_epochs([value, tf.strings.length(value)])


def joined(files, small):
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    examples = [record(queue) for _ in range(1)]
    if small:
        batch = tf.train.batch_join(examples, 2, allow_smaller_final_batch=True)
    else:
        batch = tf.train.batch_join(examples, batch_size=3)
    return batch


def alone(files):
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    return tf.train.batch(listed(queue), 2)


def listed(queue):
    _, value = tf.TFRecordReader().read(queue)
    return [tf.strings.length(value)]


def record(queue):
    _, value = tf.TFRecordReader().read(queue)
    return value, tf.strings.length(value)
"""


@pytest.mark.usefixtures("warm_trials")
def test_pipelines_in_parts_are_rewritten(tmp_path):
    """A queue is made where it is batched, and both arms join one list."""
    done = rewrite(PARTS)
    callers = ("given", "given_by_name", "given_twice", "one", "joined", "alone")
    assert (done.status, done.functions) == ("converted", callers)
    assert (
        "    queue = tf.data.Dataset.from_tensor_slices([*files]).repeat(1)\n    sizes, values = batched(" in done.text
    )
    said = "batched takes the dataset of the files' names for its parameter 'queue': callers in other files have to"
    assert f"{said} follow" in done.notes
    trials = tried(PARTS, done.text, callers, "graph", tmp_path)
    assert {trial.function: trial.outcome for trial in trials} == dict.fromkeys(callers, "equal")


GIVEN = (
    "import tensorflow as tf\n\n\ndef batched(queue, size=3):\n    _, record = tf.TFRecordReader().read(queue)\n"
    "    return tf.train.batch([record], size)\n\n\ndef given(files, flag):\n"
)
MADE = "    queue = tf.train.string_input_producer(files, num_epochs=1)\n"


@pytest.mark.parametrize(
    "body",
    [
        MADE + "    return batched(queue), batched(queue)\n",
        MADE + "    for size in files:\n        batch = batched(queue, size)\n    return batch\n",
        MADE + "    batch = batched(queue)\n    return batch, queue.size()\n",
        MADE + "    batch = batched(queue)\n    return batch\n\n\nother = batched\n",
        MADE + "    if flag:\n        queue = other\n    batch = batched(queue)\n    return batch\n",
        "    queue = tf.train.range_input_producer(3)\n    return batched(queue)\n",
        MADE + "    batch = batched(*[queue])\n    return batch\n",
        "    queue = flag\n    batch = batched(queue)\n    return batch\n",
    ],
)
def test_a_queue_stays_a_parameter_where_it_may_be_another_or_shared(body):
    """Nor does a function take a dataset in its place where not all callers give it a queue of files of its own."""
    assert rewrite(GIVEN + body).status == "flagged"


@pytest.mark.parametrize(
    "body",
    [
        "    for part in files:\nPIPE        x = tf.train.batch([record], 3)\n",
        "    while files.pop():\nPIPE        x = tf.train.batch([record], 3)\n",
    ],
)
def test_a_pipeline_in_a_loop_stays(body):
    """Each round would make one of its own."""
    done = rewrite(script(body.replace("PIPE", READ.replace("    ", "        ")) + "    return x\n"))
    assert (done.status, [finding.code for finding in done.findings]) == ("flagged", ["in-a-loop"])


def test_a_list_of_examples_that_something_else_uses_stays():
    """It is of records, which are no more where the batch is made of a dataset."""
    more = "    l = [[record] for _ in range(3)]\n    print(l)\n    return tf.train.batch_join(l, 3)\n"
    assert [finding.code for finding in rewrite(script(READ + more)).findings] == ["batch-join"]
