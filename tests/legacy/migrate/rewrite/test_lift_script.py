"""Scripts whose queues sessions fill, which stay in graphs of TensorFlow 2."""

import sys

import pytest

from seqrecorder.legacy.migrate.rewrite.lift_script import lift_script
from seqrecorder.legacy.migrate.rewrite.script import rewrite

FED = """\
import sys
import threading

import tensorflow as tf


class Feeder:
    def __init__(self, files):
        _, line = tf.TextLineReader().read(tf.train.string_input_producer(files, num_epochs=1, shuffle=False))
        self.ids = tf.placeholder(tf.int32, [None])
        self.queue = tf.PaddingFIFOQueue(3, [tf.int32, tf.string], [[None], []])
        self.enqueue = self.queue.enqueue([self.ids, line])
        self.closing = self.queue.close()

    def run(self, session):
        for length in range(1, 8):
            session.run(self.enqueue, feed_dict={self.ids: list(range(length))})
        session.run(self.closing)


feeder = Feeder(sys.argv[1:])
ids, line = feeder.queue.dequeue()
batch = tf.train.batch([ids, line, tf.shape(ids)[0]], 3, dynamic_pad=True, allow_smaller_final_batch=True)
with tf.Session() as session:
    session.run(tf.local_variables_initializer())
    coordinator = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(session, coordinator)
    threads.append(threading.Thread(target=feeder.run, args=(session,)))
    threads[-1].start()
    try:
        while True:
            print(*(part.tolist() for part in session.run(batch)))
    except tf.errors.OutOfRangeError:
        coordinator.request_stop()
    coordinator.join(threads)
"""
OLD_NAME = "import tensorflow as tf\n"
NEW_NAME = "import tensorflow.compat.v1 as tf\n"
PRINT = "print(*(part.tolist() for part in session.run(batch)))\n"
SWITCH = "tf.disable_v2_behavior()\n"


def test_threads_fill_a_queue_that_stays_as_they_did(tmp_path, warm_python):
    """A thread of Python fills the queue through a session; batches are those that a graph of the old queues gave."""
    done = lift_script(FED)
    assert (done.status, done.functions, done.findings) == ("kept", (), ())
    assert done.text == FED.replace(OLD_NAME, NEW_NAME + SWITCH)
    assert done.notes[0].startswith("sessions fill queues, made in line 11: ")
    (tmp_path / "lines.txt").write_text("a\nb\nc\nd\ne\nf\ng\n")
    old = FED.replace(OLD_NAME, f"{NEW_NAME}graph = tf.Graph().as_default()\ngraph.__enter__()\n")
    said = []
    for text in (old, done.text):
        (tmp_path / "run.py").write_text(text)
        command = [sys.executable, str(tmp_path / "run.py"), str(tmp_path / "lines.txt")]
        ran = warm_python.run(command, capture_output=True, check=True, timeout=120)
        said.append(ran.stdout.decode().splitlines())
    assert said[0] == said[1]
    assert said[1] == [
        "[[0, 0, 0], [0, 1, 0], [0, 1, 2]] [b'a', b'b', b'c'] [1, 2, 3]",
        "[[0, 1, 2, 3, 0, 0], [0, 1, 2, 3, 4, 0], [0, 1, 2, 3, 4, 5]] [b'd', b'e', b'f'] [4, 5, 6]",
        "[[0, 1, 2, 3, 4, 5, 6]] [b'g'] [7]",
    ]


def test_kept_scripts_stay_as_they_are():
    """A second run finds nothing to change; a script with the names of TensorFlow 1 gets the switch that it lacks."""
    kept = lift_script(FED).text
    assert (lift_script(kept).status, lift_script(kept).text) == ("kept", kept)
    assert lift_script(rewrite(kept).text).text == kept
    assert lift_script(FED.replace(OLD_NAME, NEW_NAME)).text == kept
    eager = kept.replace("disable_v2_behavior", "disable_eager_execution")
    assert lift_script(eager).text == eager


def test_kept_scripts_of_python_2_become_python_3():
    """What changes its meaning with that is left to a person."""
    pytest.importorskip("fissix")
    done = lift_script(FED.replace(PRINT, "print session.run(batch), xrange(3)\n"))
    assert (done.status, [finding.code for finding in done.findings]) == ("kept", ["python2"])
    assert "print(session.run(batch), xrange(3))" in done.text


def test_names_of_python_2_in_kept_scripts_are_found():
    """A script that Python 3 reads, but cannot run, is kept with a comment for each of what it lacks there."""
    text = FED.replace("list(range(length))", "list(xrange(length / 1))") + "last = iter(threads).next()\n"
    found = lift_script(text).findings
    assert [finding.line for finding in found] == [20, 20, 40]
    assert [finding.reason.partition(" ")[0] for finding in found] == ["/", "xrange", "next"]
    assert lift_script(FED + "half = len(sys.argv) / 2\n").findings == ()
    assert lift_script(FED + "def next(self):\n    return self.next()\n").findings == ()


REFUSED = {
    "contrib": (FED + "net = tf.contrib.layers.flatten(batch[0])\n", "lacks tf.contrib.layers.flatten"),
    "contrib imported": (f"from tensorflow.contrib import rnn\n{FED}", "lacks tf.contrib.rnn"),
    "private": (f"from tensorflow.python.ops import seq2seq\n{FED}", "lacks tf.python.ops.seq2seq"),
    "older": (FED + "tf.learn.run(3)\n", "lacks tf.learn.run"),
    "module": (FED.replace(OLD_NAME, "import tensorflow as tf; import os\n"), "on a line that other statements share"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_scripts_that_name_what_tensorflow_2_lacks_are_not_kept(case):
    """A script that could not be imported or run is flagged, and which names are in the way is said."""
    text, said = REFUSED[case]
    done = lift_script(text)
    assert (done.status, done.text) == ("flagged", text)
    assert said in done.findings[0].reason


def test_only_what_sessions_fill_is_kept():
    """Queues that nothing of the file fills, and scripts for eager code, are flagged."""
    assert lift_script(FED.replace("self.queue.enqueue(", "fill(self.queue, ")).status == "flagged"
    assert lift_script(FED, "eager").status == "flagged"


def test_private_modules_that_tensorflow_2_has_stay():
    """What a script imports from inside of TensorFlow may be there still."""
    text = f"from tensorflow.python.client import timeline\nfrom tensorflow.python.framework import ops\n{FED}"
    assert lift_script(text).status == "kept"
