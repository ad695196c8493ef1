"""Pipelines written in few expressions, and batches by hand and of shapes, give what their queues gave."""

import pytest
from script_runs import MOST, run_eagerly, run_in_graph

from seqrecorder.legacy.migrate.normalize.nested import stages_by_themselves
from seqrecorder.legacy.migrate.rewrite.script import rewrite
from seqrecorder.legacy.migrate.verify.equality import compare

HEAD = """\
from functools import partial

import numpy as np, tensorflow as tf

COUNTED = []


def counted(x, by):
    COUNTED.append(np.random.rand())
    return np.float32(x + by)


def read(queue):
    _, line = tf.TextLineReader().read(queue)
    return tf.string_to_number(line)


def read_later(queue):
    _, line = tf.TextLineReader(skip_header_lines=1).read(queue)
    return tf.string_to_number(line) * 2.0


def one_of(files):
    line = tf.TextLineReader().read(tf.train.string_input_producer(files, num_epochs=1, shuffle=False))[1]
    x = tf.string_to_number(line)
    return x, x + 1.0

"""
FUNCTIONS = {
    "inside": """
def inside(files):
    return tf.abs(tf.train.batch([tf.string_to_number(tf.TextLineReader().read(
        tf.train.string_input_producer(files, num_epochs=1, shuffle=False)).value)], 2))
""",
    "by_name": """
def by_name(files):
    queue = tf.train.string_input_producer(files, num_epochs=2, shuffle=False)
    x = read(queue=queue)
    return tf.train.batch([x], 3)
""",
    "of_function": """
def of_function(files):
    a, b = tf.train.batch(one_of(files), 2)
    return a, b
""",
    "element": """
def element(files):
    return tf.train.batch([tf.square(tf.train.range_input_producer(5, 2, False).dequeue())], 2)
""",
    "slices": """
def slices(files):
    a, b = tf.train.slice_input_producer([tf.range(7.0), tf.range(7) * 2], num_epochs=3, seed=3)
    return tf.train.batch([a, b], 2)
""",
    "numbers": """
def numbers(files):
    a = tf.train.range_input_producer(7, 3, seed=5).dequeue()
    return tf.train.batch([a], 2)
""",
    "maybe_numbers": """
def maybe_numbers(files, flag=len(COUNTED)):
    a = tf.train.range_input_producer(7, shuffle=not flag, seed=5).dequeue()
    b = tf.train.range_input_producer(9, shuffle=flag, seed=5).dequeue()
    return tf.train.batch([a, b], 2)
""",
    "one_line": """
def one_line(files):
    queue = tf.train.string_input_producer(files, num_epochs=2, shuffle=False); x = read(queue); y = (
        x * 2); a = ';'; a += 'b; c'  # not; these
    b = 1; c = b
    return tf.train.batch([y + c, a + "#;"], 3);
""",
    "by_chance": """
def drawn(files):
    x, _ = one_of(files)
    shift = tf.random_uniform([], seed=3)
    if files:
        shift = shift + 1.0
    return x + shift

def by_chance(files):
    rates = []
    rates.append(tf.random_uniform([1], seed=5))
    scale = rates[0]
    scale.set_shape([1])
    x = drawn(files)
    half = scale / 2.0
    x, half = tf.train.batch([x * scale, half], 2)
    again = tf.random_uniform([2, 1], seed=6)
    again = again * 2.0
    return x + again, half
""",
    "shapes": """
def shapes(files):
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    x = tf.expand_dims(read(queue), 0)
    return tf.train.batch([x, x], 2, shapes=[(1,), [None]], dynamic_pad=True)
""",
    "many": """
def many(files):
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    x = read(queue)
    filled = tf.FIFOQueue(9, [tf.float32, tf.float32], [[], [2]])
    filling = filled.enqueue_many([tf.stack([x, x * 2.0]), tf.zeros([2, 2])])
    tf.train.add_queue_runner(tf.train.QueueRunner(filled, [filling]))
    return filled.dequeue_many(3)
""",
    "several": """
def several(files):
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    key, line = tf.TextLineReader(skip_header_lines=1).read_up_to(queue, 2)
    return tf.train.batch([key, line], 3, enqueue_many=True)
""",
    "in_python": """
def in_python(files):
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    x = read(queue)
    x = tf.py_func(partial(counted, by=2), [x], tf.float32)
    x.set_shape([])
    return tf.train.batch([x], 2)
""",
    "chosen": """
def chosen(files, header=True):
    if header:
        reading = read_later
    else:
        reading = read
    x = reading(tf.train.string_input_producer(files, num_epochs=1, shuffle=False))
    return tf.train.batch([x], 2)
""",
    "arms": """
def arms(files, fast=True):
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    x = read(queue)
    examples = []
    if fast:
        for _ in range(1):
            y = x * 2.0
            examples.append([y, x])
    else:
        examples.append([x, x])
    return tf.train.batch_join(examples, 2)
""",
    "repeated": """
def repeated(files):
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    x = read(queue)
    return tf.train.batch_join([(x, x)] * 2, 2)
""",
}


@pytest.mark.parametrize("target", ["graph", "eager"])
def test_what_is_written_in_one_expression_gives_what_it_gave(target, tmp_path):
    """Producers, reads and batches inside of others, and queues of several elements, become equal datasets."""
    files = [str(tmp_path / name) for name in "ab"]
    for number in range(2):
        (tmp_path / "ab"[number]).write_text("".join(f"{10 * number + line}\n" for line in range(4 + number)))
    old = HEAD + "\n".join(FUNCTIONS.values())
    new = rewrite(old, target)
    assert (new.status, new.findings) == ("converted", ())
    for name in FUNCTIONS:
        expected, shuffled, structure = run_in_graph(old, name, files, old=True)
        if target == "graph":
            found, _, became = run_in_graph(new.text, name, files, old=False)
            assert became == structure
        else:
            found, _ = run_eagerly(new.text, name, files)
        assert len(expected) > 1
        compare(expected, found, ordered=not shuffled, records=10**9, most=MOST)
    assert "    b = 1; c = b\n" in new.text  # of no pipeline


@pytest.mark.parametrize(
    "place",
    [
        "    if files:\n        r = tf.random_uniform([])\n    if files:\n",
        "    self.r = tf.random_uniform([])\n    if 1:\n",
    ],
)
def test_what_would_be_drawn_once_for_all_records_stays(place):
    """Tensors of chance that cannot become a part of what is done to each record keep the script as it is."""
    body = "        queue = tf.train.string_input_producer(files)\n        x = read(queue) * RATE\n"
    body += "        return tf.train.batch([x], 2)\n"
    rate = "self.r" if "self" in place else "r"
    done = rewrite(f"{HEAD}def batches(self, files):\n{place}{body.replace('RATE', rate)}")
    assert (done.status, [finding.code for finding in done.findings]) == ("flagged", ["order"])


def test_shapes_are_checked_as_the_queue_checked_them(tmp_path):
    """A tensor of another shape than the batch names is an error, as it was: it is not padded."""
    body = "def batches(files):\n    _, x = tf.TextLineReader().read(tf.train.string_input_producer(files, 1))\n"
    body += "    y = tf.decode_raw(x, tf.uint8)\n    return tf.train.batch([y], 2, shapes=[[2]], dynamic_pad=True)\n"
    (tmp_path / "a").write_text("ab\nabc\n")
    new = rewrite("import tensorflow as tf\n\n\n" + body, "eager").text
    assert "dataset.map(lambda y: tf.ensure_shape(y, [2]))" in new
    with pytest.raises(Exception, match="shape"):
        run_eagerly(new, "batches", [str(tmp_path / "a")])


@pytest.mark.parametrize(
    "statement",
    [
        "f = lambda files: tf.train.string_input_producer(files)",
        "q = [tf.train.string_input_producer(f) for f in files]",
        "q = tf.train.string_input_producer(files) if files else None",
        "x = decode(files.pop(), tf.train.string_input_producer(files))",
        "q = tf.train.string_input_producer(files)",
    ],
)
def test_what_is_carried_out_later_or_not_always_stays(statement):
    """Only what its statement always carries out, once, stands before it then."""
    text = f"import tensorflow as tf\n\n{statement}\n"
    assert stages_by_themselves(text) == text
