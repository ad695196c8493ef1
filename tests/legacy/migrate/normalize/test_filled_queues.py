"""Queues that are filled by hand: those that go give what they gave, and of those that stay the reason says why."""

import pytest
from old_scripts import READ, script
from script_runs import MOST, run_in_graph

from seqrecorder.legacy.migrate.rewrite.script import rewrite
from seqrecorder.legacy.migrate.verify.equality import compare

MADE = "    q = tf.FIFOQueue(9, [tf.string], [[]])\n"
PUT = "    put = q.enqueue([record])\n"
RUN = "    tf.train.add_queue_runner(tf.train.QueueRunner(q, [put]))\n"
TAKEN = "    return q.dequeue_many(3)\n"


def test_a_queue_that_is_only_filled_and_taken_from_is_rewritten():
    """What the other cases leave or add is what keeps them."""
    assert rewrite(script(READ + MADE + PUT + RUN + TAKEN)).status == "converted"


@pytest.mark.parametrize(
    ("said", "body"),
    [
        ("q is filled by no operations", MADE + "    put = 0\n" + RUN + TAKEN),
        ("q is filled by 2 operations", MADE + PUT + PUT + RUN + TAKEN),
        ("q is taken from by no operations", MADE + PUT + RUN + "    return 0\n"),
        ("q is run by no operations", MADE + PUT + TAKEN),
        ("on line 11", MADE + PUT + RUN + "    tf.summary.scalar('size', q.size())\n" + TAKEN),
        ("is not one argument", MADE + PUT.replace("]", "], 'name'") + RUN + TAKEN),
        ("may be another queue", "    q = files\n    if files:\n    " + MADE + PUT + RUN + TAKEN),
        ("is not simply assigned", MADE + PUT + RUN + "    return [q.dequeue_many(3) for _ in files]\n"),
        ("is given numbers", MADE + "    put = q.enqueue([3])\n" + RUN + TAKEN),
        ("or its runner, is used for more", MADE + PUT + RUN + "    print(put)\n" + TAKEN),
        ("other functions, or objects", "    self.q = tf.FIFOQueue(9, [tf.string])\n" + "    return record\n"),
    ],
)
def test_reasons_say_what_else_is_done_to_a_queue(said, body):
    """Each is found in the text of the script, and nothing of it is changed."""
    done = rewrite(script(READ + body))
    assert done.status == "flagged"
    assert said in next(finding.reason for finding in done.findings if finding.code == "explicit-queue")


FILES = "    files = tf.train.string_input_producer(files, num_epochs=2, shuffle=False)\n"
LINES = """    _, record = tf.TextLineReader().read(
        tf.train.string_input_producer(files, num_epochs=1, shuffle=False))
    x = tf.string_to_number(record)
"""
TENSORS = "    sizes, put = [9], [x, x + 1.0]\n"
OF_TENSORS = "    q = tf.FIFOQueue(sizes[0], [t.dtype for t in put], [t.shape for t in put])\n    op = q.enqueue(put)\n"
KNOWN = "    tf.add_to_collection(tf.GraphKeys.QUEUE_RUNNERS, tf.train.QueueRunner(q, [op]))\n"
BATCHED = "    return tf.train.batch([tf.reshape(y, [])], 2)\n"


@pytest.mark.parametrize(
    "body",
    [
        FILES + "    y = tf.size(tf.string_split([files.dequeue()], ''))\n" + BATCHED,
        FILES + "    return tf.train.batch([tf.string_join([files.dequeue(), '!'])], 2)\n",
        LINES
        + MADE.replace("string", "float32")
        + PUT.replace("record", "x")
        + RUN
        + "    return -q.dequeue_many(2)\n",
        LINES + TENSORS + OF_TENSORS + KNOWN + "    y = q.dequeue()[1] * 2.0\n" + BATCHED,
        LINES + TENSORS + "    q = None\n" + OF_TENSORS + KNOWN + "    y, z = q.dequeue()\n    y += z\n" + BATCHED,
        LINES + TENSORS + OF_TENSORS + "    op = [op] * 1\n"
        "    tf.add_to_collection('queue_runners', tf.train.QueueRunner(q, op))\n    return q.dequeue_up_to(2)\n",
    ],
)
def test_queues_that_go_gave_what_is_given(body, tmp_path):
    """What is taken may stand inside of an expression, and types of a queue may be computed."""
    files = [str(tmp_path / name) for name in "ab"]
    for number in range(2):
        (tmp_path / "ab"[number]).write_text("".join(f"{10 * number + line}\n" for line in range(4 + number)))
    new = rewrite(script(body))
    assert (new.status, new.findings) == ("converted", ())
    assert "q = None" not in new.text
    expected, _, _ = run_in_graph(script(body), "batches", files, old=True)
    found, _, _ = run_in_graph(new.text, "batches", files, old=False)
    assert len(expected) > 1
    compare(expected, found, ordered=True, records=10**9, most=MOST)


RECORD = "def one_of(queue):\n    _, x = tf.TextLineReader().read(queue)\n    return tf.string_to_number(x)\n"
ONE = "    x = one_of(tf.train.string_input_producer(files, num_epochs=1, shuffle=False))\n"
OF_ONE = "    q = tf.FIFOQueue(9, [tf.float32], [[]])\n"
LOOP = (
    OF_ONE
    + """    for _ in files:
        x = x * 2.0
        tf.train.add_queue_runner(tf.train.QueueRunner(q, [q.enqueue([x])]))
    y = q.dequeue()
"""
)
COMPREHENSION = (
    OF_ONE
    + """    n, ops = 0, [q.enqueue([x * n]) for n in (2.0, 3.0)]
    tf.train.add_queue_runner(tf.train.QueueRunner(q, ops))
    y = q.dequeue()
"""
)
JOINED = "def joined(x):\n" + MADE.replace("string", "float32") + PUT.replace("record", "x") + RUN
JOINED += "    y = q.dequeue()\n    return tf.train.batch([y, x], 2)\n"


@pytest.mark.parametrize(
    ("said", "before", "body"),
    [
        ("read from 2 times", "", FILES + "    y = tf.string_join([files.dequeue(), files.dequeue()])\n" + BATCHED),
        ("sizes: put into q, and changed", "", LINES + TENSORS + OF_TENSORS + KNOWN + "    sizes[0] = 2\n"),
        ("put: put into q, and changed", "", LINES + TENSORS + OF_TENSORS + KNOWN + "    put[0] = x * 2.0\n"),
        ("used for more", "", LINES + TENSORS + OF_TENSORS + "    tf.add_to_collection('mine', op)\n" + KNOWN),
        ("filled in a loop", "", LINES + LOOP),
        ("filled in a loop", "", LINES + COMPREHENSION),
        ("records go by it", RECORD, ONE + TENSORS + OF_TENSORS + KNOWN + "    x = x * 2.0\n"),
        ("records go by it", RECORD + JOINED, ONE + "    return joined(x)\n"),
    ],
)
def test_what_is_changed_or_goes_by_a_queue_keeps_it(said, before, body):
    """A queue gives later what was put in before, and something of a record that does not go through is of another."""
    done = rewrite(script(body + "    y, z = q.dequeue()\n    y += x\n" * (KNOWN in body) + BATCHED, before))
    assert done.status == "flagged"
    assert said in done.findings[0].reason
