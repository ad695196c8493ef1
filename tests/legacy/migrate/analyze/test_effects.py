"""What statements change, and what may not change places with them."""

import ast

import pytest

from seqrecorder.legacy.migrate.analyze.effects import effects_of
from seqrecorder.legacy.migrate.analyze.names import Names
from seqrecorder.legacy.migrate.rewrite.script import rewrite

DEFINITIONS = """\
import random
import tensorflow as tf
STATE = {"k": 1.0}

def bump():
    STATE["k"] += 1.0

def change(one, other):
    other.append(one)

def rebound(one):
    one = 2
    ks = one

def again(n):
    return again(n - 1) if n else bump()

class Kept(object):
    k = 1.0
    def __init__(self):
        self.k = 2.0
    def double(self):
        self.k *= 2.0
    @property
    def counted(self):
        self.k += self.k
        return self.k
    def __call__(self, x):
        self.double()
        return x

kept, ks, number = Kept(), [1.0, 2.0], 3
alias = ks
holder = {"ks": ks}
part = kept.k
later = lambda: number
mutate = [bump]
"""


@pytest.mark.parametrize(
    ("statement", "changed"),
    [
        ("bump()", {"STATE"}),
        ("again(3)", {"STATE"}),
        ("mutate[0]()", {"STATE"}),
        ("x = [bump() for number in ks]", {"STATE", "x"}),
        ("change(number, ks)", {"alias", "holder", "ks"}),
        ("change(other=ks, one=number)", {"alias", "holder", "ks"}),
        ("rebound(ks)", set()),
        ("def bump():\n    number.append(1)", {"bump"}),
        ("alias[0] = 3.0", {"alias", "holder", "ks"}),
        ("holder['ks'] = 3", {"holder"}),
        ("holder['ks'].append(3)", {"alias", "holder", "ks"}),
        ("dict(ks=ks)['ks'][0] = 3", {"alias", "holder", "ks"}),
        ("list(holder.values())[0].append(3)", {"alias", "holder", "ks"}),
        ("random.shuffle(ks)", {"alias", "holder", "ks", "random"}),
        ("list.append(ks, 1)", {"alias", "holder", "ks"}),
        ("x = next(ks)", {"alias", "holder", "ks", "x"}),
        ("setattr(kept, 'k', 3)", {"kept"}),
        ("kept.double()", {"kept", "part"}),
        ("x = kept.counted", {"kept", "part", "x"}),
        ("kept(1.0)", {"kept", "part"}),
        ("x = Kept()", {"x"}),
        ("x = len(ks) + tf.size(ks) + number", {"x"}),
        ("import os as number", {"number"}),
        ("number += 1", {"number"}),
        ("for number in ks:\n    pass", {"number"}),
        ("globals()['number'] = 2", {"everything"}),
    ],
)
def test_what_a_statement_changes(statement, changed):
    """It is what it binds, and every variable whose object it may change, through functions and other names too."""
    tree = ast.parse(f"{DEFINITIONS}{statement}\n")
    assert effects_of(Names(tree)).changed(tree.body[-1]) == changed


def test_what_a_function_reads_is_read_by_its_call():
    """Of lambdas too, but not what its own variables are called."""
    tree = ast.parse(f"{DEFINITIONS}x = later()\nnumber = 7\nrebound(1)\nks = 3\n")
    *_, call, change, other, last = tree.body
    effects = effects_of(Names(tree))
    assert effects.clash(call, change) == ["number"]
    assert effects.clash(other, last) == []


READ = """\
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    _, record = tf.TextLineReader().read(queue)
    x = tf.string_to_number(record)
"""
SLICES = "    w, x = tf.train.slice_input_producer([tf.range(7.0), tf.range(7.0)], num_epochs=1, shuffle=False)\n"
QUEUE = """\
    waiting = tf.FIFOQueue(20, [tf.float32], [[]])
    filling = waiting.enqueue([x * k])
    tf.train.add_queue_runner(tf.train.QueueRunner(waiting, [filling]))
"""
HELPER = "def read(queue, skip=number):\n    _, v = tf.TextLineReader(skip_header_lines={}).read(queue)\n    return v\n"
PRODUCER, *_ = READ.splitlines()
SKIPPING = "    n = 1\n    reader = tf.TextLineReader(skip_header_lines=n)\n"
JOINED = "    parts = []\n    for _ in range(2):\n        x = x + 1.0\n        parts.append([x])\n"
SHARED = """\
    reader = tf.TextLineReader()
    _, x = reader.read(queue)
    _, y = reader.read(q)
    return tf.train.batch([x], 2), tf.train.batch([y], 2)"""


@pytest.mark.parametrize(
    ("code", "body"),
    [
        ("order", f"{READ}    y = x * STATE['k']\n    bump()\n    return tf.train.batch([x, y], 2)"),
        ("order", f"{READ}    y = x * kept.k\n    kept.double()\n    return tf.train.batch([x, y], 2)"),
        ("order", f"{READ}    y = x * ks[0]\n    alias[0] = 3.0\n    return tf.train.batch([x, y], 2)"),
        ("order", f"{READ}    y = x * random.random()\n    n = random.randint(2)\n    return tf.train.batch([y], n)"),
        ("escapes", f"{READ}    y = kept(x)\n    n = int(kept.k)\n    return tf.train.batch([y], n)"),
        ("order", f"{PRODUCER}\n{SKIPPING}    n = 2\n    _, x = reader.read(queue)\n    return tf.train.batch([x], n)"),
        ("explicit-queue", f"{READ}    k = 2.0\n{QUEUE}    k = 3.0\n    return waiting.dequeue_many(2)"),
        ("batch-join", f"{READ}{JOINED}    return tf.train.batch_join(parts, 2)"),
        ("order", f"{PRODUCER}\n    n = 2\n    x = read(queue, n)\n    return tf.train.batch([x], n)"),
        ("helper-local", f"{PRODUCER}\n    x = read(queue)\n    return tf.train.batch([x], 2)"),
        ("reader-used", f"{PRODUCER}\n{PRODUCER.replace('queue', 'q', 1)}\n{SHARED}"),
    ],
)  # fmt: skip
def test_what_records_read_does_not_change_behind_them(code, body):
    """What becomes a function of a record is carried out later, and nothing that it reads may change before."""
    helper = HELPER.format("skip") + "number = 4\n"
    done = rewrite(f"{DEFINITIONS}{helper}\ndef f(files):\n{body}\n")
    assert (done.status, {finding.code for finding in done.findings}) == ("flagged", {code})


@pytest.mark.parametrize(("kept", "codes"), [("", []), ("\n        self.last = v", ["escapes"])])
def test_a_method_may_keep_its_reader(kept, codes):
    """The reader goes, so nothing of it is kept; a record that others may look for does not."""
    read = f"        self.reader = tf.TextLineReader()\n        _, v = self.reader.read(queue){kept}\n        return v"
    method = f"    def read(self, queue):\n{read}"
    body = f"{PRODUCER}\n    x = self.read(queue)\n    return tf.train.batch([x], 2)".replace("\n", "\n    ")
    done = rewrite(f"import tensorflow as tf\n\nclass A:\n{method}\n\n    def f(self, files):\n    {body}\n")
    assert [finding.code for finding in done.findings] == codes


def test_a_function_that_reads_may_have_a_global_that_its_caller_has_not():
    """Its reader is written where it is called, where the name may be another variable's."""
    body = f"    number = 2\n{PRODUCER}\n    x = read(queue)\n    return tf.train.batch([x], number)\n"
    script = f"{DEFINITIONS}{HELPER.format('number')}\ndef f(files):\n{body}"
    assert [finding.code for finding in rewrite(script).findings] == ["helper-local"]
    assert "skip(number)" in rewrite(script.replace("    number = 2\n", "")).text


@pytest.mark.parametrize(
    "rebound",
    ["w = 2.0", "if number:\n        w = 2.0", "for w in ks:\n        pass", "import random as w",
     "def w(t):\n        return t", "with tf.name_scope('a') as w:\n        pass"],
)  # fmt: skip
def test_names_of_a_record_that_are_bound_anew_are_so_in_its_function(rebound):
    """Whatever statement binds them, as long as what is done to the record reads that."""
    body = f"{SLICES}    {rebound}\n    x = tf.multiply(x, tf.identity(w))\n    return tf.train.batch([x], 2)\n"
    done = rewrite(f"{DEFINITIONS}\ndef f(files):\n{body}")
    first = rebound.splitlines()[0]
    assert done.status == "converted"
    assert done.text.index("def prepare(w, x):") < done.text.index(first) < done.text.index("multiply")
