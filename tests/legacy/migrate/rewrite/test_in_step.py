"""Sources whose records are read in step, for one batch, or side by side, for none."""

import pytest
from old_scripts import script

from seqrecorder.legacy.migrate.rewrite.script import rewrite
from seqrecorder.legacy.migrate.verify.verify import tried

STEPS = """\
import tensorflow as tf


def sides(left_files, right_files):
    reader = tf.WholeFileReader()
    lefts = tf.train.string_input_producer(left_files, shuffle=False)
    _, value = reader.read(lefts)
    left = tf.strings.length(value)
    rights = tf.train.string_input_producer(right_files, seed=3)
    _, text = reader.read(rights)
    right = tf.substr(text, 0, 2)
    return tf.train.batch([left, right], 2, allow_smaller_final_batch=True)


def lines_of(files):
    queue = tf.train.string_input_producer(files, shuffle=False)
    _, line = tf.TextLineReader().read(queue)
    return line


def flow(first_files, second_files, third_files):
    first = lines_of(first_files)
    second = lines_of(second_files)
    queue = tf.train.string_input_producer(third_files, shuffle=False)
    key, record = tf.TextLineReader(skip_header_lines=1).read(queue)
    with tf.name_scope("lengths"):
        least = tf.strings.length(first) + tf.strings.length(record)
        names = tf.strings.join([key, second])
    return tf.train.batch({"least": least, "names": names}, 3)


def read(queue):
    _, line = tf.TextLineReader().read(queue)
    return line, tf.strings.length(line)


def domains(a_files, b_files, size=4):
    queue_a = tf.train.string_input_producer(a_files, shuffle=False)
    queue_b = tf.train.string_input_producer(b_files, shuffle=False)
    a, a_length = read(queue_a)
    b, b_length = read(queue_b)
    a_batch, b_batch = tf.train.shuffle_batch([a, b], batch_size=size, capacity=20, min_after_dequeue=8)
    return a_batch, tf.strings.length(b_batch)


def labelled(files):
    x, y = tf.train.slice_input_producer([tf.range(6), tf.range(6) * 2], shuffle=False)
    queue = tf.train.string_input_producer(files, shuffle=False)
    _, line = tf.TextLineReader().read(queue)
    return tf.train.batch([x + y, line], 4)


def apart(files, other_files):
    queue = tf.train.string_input_producer(files, shuffle=False)
    other = tf.train.string_input_producer(other_files, shuffle=False, num_epochs=1)
    _, value = tf.TextLineReader().read(queue)
    length = tf.strings.length(value)
    _, text = tf.TextLineReader().read(other)
    return length, tf.strings.join([text, text])


class Pairs:
    def __init__(self, size):
        self.size = size

    def of(self, files):
        _, line = tf.TextLineReader().read(tf.train.string_input_producer(files, shuffle=False))
        return tf.strings.join([line, "!"]), tf.strings.length(line)

    def both(self, left_files, right_files):
        left, left_length = self.of(left_files)
        left = tf.strings.join([left, left])
        right, right_length = self.of(right_files)
        return left, right, left_length - right_length

    def batches(self, left_files, right_files):
        left, right, more = self.both(left_files, right_files)
        return tf.train.batch([tf.strings.join([left, right]), more], self.size)


def pairs(left_files, right_files):
    return Pairs(3).batches(left_files, right_files)
"""


@pytest.mark.usefixtures("warm_trials")
def test_sources_that_are_read_in_step_are_zipped(tmp_path):
    """One record of each source goes into every part of a batch."""
    done = rewrite(STEPS)
    made = ("sides", "flow", "domains", "labelled", "apart", "Pairs.batches")
    assert (done.status, done.findings, done.functions) == ("converted", (), made)
    assert done.text.count("Dataset.zip(") == len(made) - 1
    assert "def prepare(left, left_length, right, right_length):" in done.text
    assert "def parse(value, text):" in done.text
    assert "def parse(first, second, key, record):" in done.text
    tested = (*done.functions[:-1], "pairs")
    trials = tried(STEPS, done.text, tested, "graph", tmp_path)
    assert [(trial.function, trial.outcome, trial.reason) for trial in trials if trial.outcome != "equal"] == []


TWO = """    ones = tf.train.string_input_producer(files, num_epochs=%s, shuffle=False)
    twos = tf.train.string_input_producer(files, shuffle=False)
    _, one = tf.TextLineReader().read(ones)
    _, two = tf.TextLineReader().read(twos)
"""


@pytest.mark.parametrize(
    ("code", "body"),
    [
        ("no-record", TWO % 1 + "    return tf.train.batch([two], 3)\n"),
        ("no-record", TWO % 1 + "    return tf.train.batch([one, two], 3)\n"),
        ("escapes", TWO % None + "    files.append(two)\n    return tf.train.batch([one], 3)\n"),
        ("several-sources", TWO % None + "    return tf.train.batch_join([[one, two]] * 2, 3)\n"),
        ("rebinds", (TWO % None).replace("    _, two", "    two = 'a'\n    files.append(two)\n    _, two")
         + "    return tf.train.batch([one, two], 3)\n"),
        ("several-sources", (TWO % None).replace("    _, one = tf.TextLineReader().read(ones)\n", "").replace(
            "    twos = ", "    _, one = tf.TextLineReader().read(ones)\n    twos = "
        ).replace("files, shuffle", "[one], shuffle") + "    return tf.train.batch([one, two], 3)\n"),
        ("queue-used", (TWO % None) + "    _, three = tf.TextLineReader().read(twos)\n"
         "    return tf.train.batch([one, two, three], 3)\n"),
        ("reader-used", (TWO % None).replace("tf.TextLineReader()", "reader").replace("    ones", "    reader = "
         "tf.TextLineReader()\n    ones", 1) + "    return tf.train.batch([one, two], 3)\n"),
        ("several-batches", TWO % None + "    one = tf.train.batch([one, two], 3)\n"
         "    return one, tf.train.batch([two], 3)\n"),
        ("branches", (TWO % None).replace("    twos =", "    if flag:\n        twos =")
         + "    return tf.train.batch([one, two], 3)\n"),
    ],
)  # fmt: skip
def test_what_is_not_surely_read_in_step_stays(code, body):
    """Where a batch may do without one source, or something else has a part, a person has to look."""
    done = rewrite(script(body, parameters="files, flag, pick"))
    assert (done.status, [finding.code for finding in done.findings][:1]) == ("flagged", [code])


RELAYED = """
def made(files, epochs):
    _, line = tf.TextLineReader().read(tf.train.string_input_producer(files, epochs))
    return line


def relayed(files):
    first = made(files, %s)
    second = made(files, None)
    return first, second


def batches(files):
    first, second = relayed(files)
    return tf.train.batch([first], 3)
"""


@pytest.mark.parametrize("target", ["graph", "eager"])
def test_sources_of_another_function_that_may_end_are_not_zipped(target):
    """Who batches may do without one of them, which would end the others; nor goes a number with a dataset."""
    done = rewrite(f"import tensorflow as tf\n{RELAYED % 1}", target)
    assert (done.status, [finding.code for finding in done.findings]) == ("flagged", ["several-sources"])
    beside = (RELAYED % 1).replace("return first, second", "return first, len(files)")
    done = rewrite(f"import tensorflow as tf\n{beside}", target)
    assert (done.status, done.findings[0].code) == ("flagged", "several-sources")
    beside = beside.replace("    second = made(files, None)\n", "")
    done = rewrite(f"import tensorflow as tf\n{beside}", target)
    assert (done.status, [finding.code for finding in done.findings]) == ("flagged", ["returns"])
