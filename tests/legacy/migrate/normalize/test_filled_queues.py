"""Queues that are filled by hand and stay: the reason says why."""

import pytest
from old_scripts import READ, script

from seqrecorder.legacy.migrate.rewrite.script import rewrite

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
        ("is not simply assigned", MADE + PUT + RUN + "    return q.dequeue_many(3) + 1\n"),
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
