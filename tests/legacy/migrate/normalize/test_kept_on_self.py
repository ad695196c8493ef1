"""Queues, and tensors of records, that objects keep: where each object batches them once, it keeps a dataset."""

import pytest
from script_runs import MOST, run_eagerly, run_in_graph

from seqrecorder.legacy.migrate.rewrite.script import rewrite
from seqrecorder.legacy.migrate.verify.equality import compare

QUEUE = """\
import tensorflow as tf


class Reader(object):
    def __init__(self, files, size=3):
        self.reader = tf.TextLineReader()
        self.size = size
        self.queue = tf.train.string_input_producer(files, num_epochs=2, shuffle=False)

    def feed(self):
        with tf.name_scope("feed"):
            _, line = self.reader.read(self.queue)
            number = tf.string_to_number(line) + self.size
            numbers, lines = tf.train.batch([number, line], self.size)
        return numbers, lines


def batches(files):
    reader = Reader(files)
    return reader.feed()
"""
TENSORS = """\
import tensorflow as tf


def from_disk(queue, scale):
    return tf.strings.join([tf.read_file(queue[0]), "!"]), queue[1] * scale


class ImageReader(object):
    def __init__(self, files, scale):
        self.scale = scale
        self.images = tf.convert_to_tensor(files, dtype=tf.string)
        self.queue = tf.train.slice_input_producer(
            [self.images, tf.range(len(files))], shuffle=False, num_epochs=3
        )
        self.image, self.label = from_disk(self.queue, self.scale)
        self.scale = None

    def dequeue(self, size, whole=False):
        if whole:
            images, labels = tf.train.batch([self.image, self.label], size, allow_smaller_final_batch=True)
        else:
            images, labels = tf.train.batch([self.image, self.label], size)
        return images, labels


def batches(files):
    return ImageReader(files, 4).dequeue(2)
"""
HANDED = """\
import tensorflow as tf


class Trainer:
    def __init__(self, files, others):
        self.train_queue = tf.train.string_input_producer(files, num_epochs=2, shuffle=False)
        self.test_queue = tf.train.string_input_producer(others, num_epochs=3, shuffle=False)

    def next_batch(self, input_queue, size=2):
        _, line = tf.TextLineReader().read(input_queue)
        numbers, lines = tf.train.batch([tf.string_to_number(line), line], size)
        return lines, numbers

    def train(self):
        lines, numbers = self.next_batch(self.train_queue)
        tested, _ = self.next_batch(self.test_queue, 3)
        return lines, numbers, tested


def batches(files):
    trainer = Trainer(files, files[1:])
    return trainer.train()
"""


@pytest.mark.parametrize("target", ["graph", "eager"])
@pytest.mark.parametrize("old", [QUEUE, TENSORS, HANDED])
def test_what_an_object_keeps_gives_what_its_queue_gave(target, old, tmp_path):
    """A queue becomes the dataset of its files, tensors that `__init__` makes the dataset of records, kept by name."""
    files = [str(tmp_path / name) for name in "ab"]
    for number in range(2):
        (tmp_path / "ab"[number]).write_text("".join(f"{10 * number + line}\n" for line in range(4 + number)))
    new = rewrite(old, target)
    assert (new.status, {finding.code for finding in new.findings} - {"consumer"}) == ("converted", set())
    assert "keeps a dataset, of which each call" in new.notes[0]
    expected, shuffled, structure = run_in_graph(old, "batches", files, old=True)
    assert len(expected) > 1
    if target == "graph":
        found, _, became = run_in_graph(new.text, "batches", files, old=False)
        assert became == structure
    elif old == HANDED:
        return  # its caller takes datasets apart
    else:
        text = new.text.replace("images, labels = ", "return ")
        found, _ = run_eagerly(text, "batches", files)
    compare(expected, found, ordered=not shuffled, records=10**9, most=MOST)


DIVIDED = {
    "twice": ("    return reader.feed()", "    return reader.feed(), reader.feed()"),
    "in a loop": ("    return reader.feed()", "    return [reader.feed() for _ in range(2)]"),
    "by another name": ("    return reader.feed()", "    feed = reader.feed\n    return feed(), feed()"),
    "as another object": ("    return reader.feed()", "    other = reader\n    return reader.feed(), other.feed()"),
    "of one object alone": ("class Reader(object):\n", "class Reader(object):\n    __new__ = Kept.of\n"),
    "of what another function keeps": ("def batches", "Reader = kept(Reader)\n\n\ndef batches"),
    "of another kind": ("Reader(object)", "Reader(Kept)"),
    "nowhere": ("    return reader.feed()", "    return reader"),
    "looked at": ("    return reader.feed()", "    return reader.feed(), reader.queue.size()"),
    "by what inherits it": ("def batches", "class Other(Reader):\n    pass\n\n\ndef batches"),
    "by its name": ("    return reader.feed()", "    getattr(reader, 'queue').size()\n    return reader.feed()"),
    "set again": ("    return reader.feed()", "    reader.queue = None\n    return reader.feed()"),
    "in rounds": (
        "            numbers, lines = tf",
        "            for line in [line]:\n                self.queue.size()\n            numbers, lines = tf",
    ),
}


@pytest.mark.parametrize("case", DIVIDED)
def test_what_may_be_taken_twice_stays(case):
    """Who takes twice from one queue divides what it holds, and two datasets would give all of it twice."""
    old, new = DIVIDED[case]
    assert old in QUEUE
    done = rewrite(QUEUE.replace(old, new))
    assert (done.status, {finding.code for finding in done.findings} - {"queue-from-elsewhere"}) == (
        "flagged",
        {"targets"},
    )
