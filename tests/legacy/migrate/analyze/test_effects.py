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
        ("mutate[0]()", {"STATE", "mutate"}),
        ("x = [bump() for number in ks]", {"STATE", "x"}),
        ("change(number, ks)", {"ks"}),
        ("change(other=ks, one=number)", {"ks"}),
        ("rebound(ks)", set()),
        ("def bump():\n    number.append(1)", {"bump"}),
        ("alias[0] = 3.0", {"alias"}),
        ("holder['ks'] = 3", {"holder"}),
        ("holder['ks'].append(3)", {"holder"}),
        ("dict(ks=ks)['ks'][0] = 3", {"ks"}),
        ("list(holder.values())[0].append(3)", {"holder"}),
        ("random.shuffle(ks)", {"ks", "random"}),
        ("list.append(ks, 1)", {"ks"}),
        ("x = next(ks)", {"ks", "x"}),
        ("setattr(kept, 'k', 3)", {"kept"}),
        ("kept.double()", {"kept"}),
        ("x = kept.counted", {"kept", "x"}),
        ("kept(1.0)", {"kept"}),
        ("x = Kept()", {"x"}),
        ("x = len(ks) + tf.size(ks) + number", {"x"}),
        ("import os as number", {"number"}),
        ("number += 1", {"number"}),
        ("for number in ks:\n    pass", {"number"}),
        ("globals()['number'] = 2", {"everything"}),
    ],
)
def test_what_a_statement_changes(statement, changed):
    """It is what it binds, and what it takes and changes, in functions that it calls too."""
    tree = ast.parse(f"{DEFINITIONS}{statement}\n")
    assert effects_of(Names(tree)).changed(tree.body[-1]) == changed


OBJECTS = """\
import contextlib
import functools
import heapq
import itertools
import operator
import numpy as np

K, C, R, KEPT = [2.0], itertools.count(2), np.random.RandomState(1), []

def same(o, p=None):
    return p or o

def pair(o):
    q = o
    return q, 1

def give():
    return K

def put(n=1.0):
    K[0] = n

def maker():
    def inner():
        K[0] = 5.0
    return inner

def decorated(f):
    def inner(*given):
        put()
        return f(*given)
    return inner

@decorated
def plain(a):
    return a

@contextlib.contextmanager
def context():
    put()
    yield

def items():
    put()
    yield 1

def keep(o):
    KEPT.append(o)

def change_kept():
    KEPT[0][0] = 5.0

def change_second(a, b):
    b[0] = 5.0

def fill(o):
    o[0] = 5.0

def counted(n=[2.0]):
    n[0] += 1.0
    return n[0]

class Held(object):
    k = 2.0
    def __init__(self, held=None):
        self.held = held
    def change(this):
        me = this
        me.k = 5.0
        this.held = this.held or [1]
        this.held[0] = 5.0

class Item(object):
    k = 2.0

k, held, item = [2.0], Held(), Item()
"""


@pytest.mark.parametrize(
    "script",
    [
        *("j = same(k)\nx = k[0]\nj[0] = 5.0", "j = same(1, p=k)\nx = k[0]\nj.fill(5.0)"),
        *("j, _ = pair(k)\nx = k[0]\nj[0] = 5.0", "j = same(same(k))\nx = k[0]\nj[0] = 5.0"),
        *("f = lambda o: o\nj = f(k)\nx = k[0]\nj[0] = 5.0", "x = K[0]\ngive()[0] = 5.0", "x = give()[0]\nput()"),
        *("x = held.k\nheld.change()", "h = Held(k)\nx = k[0]\nh.change()", "x = item.k\nItem.k = 5.0"),
        *("x = K[0]\nplain(1)", "x = K[0]\nwith context():\n    pass"),
        *("x = K[0]\nmaker()()", "g = functools.partial(put, 5.0)\nx = K[0]\ng()", "n = items()\nx = K[0]\nlist(n)"),
        *("a = np.ones(1)\nj = a\nx = a[0]\nj *= 5.0", "a = np.ones(2)\nj = a.reshape(2, 1)\nx = a[0]\nj[0, 0] = 5.0"),
        *("j = np.asarray(k)\nx = k[0]\nj[0] = 5.0", "x = k[0]\nnp.add(k, 4, out=k)", "x = k[0]\nnp.copyto(k, 4)"),
        *("j = k\nx = len(k)\nj *= 2", "x = k[0]\nk.__setitem__(0, 5.0)", "x = k[0]\noperator.setitem(k, 0, 5.0)"),
        *("f = k.append\nx = len(k)\nf(5.0)", "x = k[0]\nlist(map(k.append, [1.0]))", "x = k[0]\nheapq.heappush(k, 1)"),
        *("keep(k)\nx = k[0]\nchange_kept()", "a = 1, k\nx = k[0]\nchange_second(*a)", "x = counted()\ny = counted()"),
        *("d = []\nd.append(k)\nx = k[0]\nd[0][0] = 5.0", "d = {}\nd.update(k=k)\nx = k[0]\nd['k'][0] = 5.0"),
        *("d = [1] + [k]\nx = k[0]\nd[1][0] = 5.0", "for j in (k,):\n    pass\nx = k[0]\nj[0] = 5.0"),
        *("with contextlib.nullcontext(k) as j:\n    pass\nx = k[0]\nj[0] = 5.0", "j = max(k, [1])\nx = k\nj[0] = 5"),
        *("def f(j=k):\n    j[0] = 5.0\nx = k[0]\nf()", "g = (i for i in k)\nx = list(g)\nk[0] = 5.0"),
        *("x = next(C)\ny = next(C)", "x = R.rand()\ny = R.rand()", "x = open('a').read()\nopen('a', 'w').write('2')"),
        "class Sum(Item):\n    def __add__(self, n):\n        put()\ns = Sum()\nx = K[0]\ny = s + 1",
        "class Called(object):\n    k = 1\n    def __call__(self):\n        self.k = 3\nc = Called()\nx = c.k\nc()",
        *("g = functools.partial(change_second, 1, k)\nx = k[0]\ng()", "x = k[0]\nlist(map(fill, [k]))"),
        *("x = vars(held)\nheld.__dict__['k'] = 5.0", "p = setattr\nx = held.k\np(held, 'k', 5.0)"),
    ],
)  # fmt: skip
def test_what_is_changed_is_changed_by_every_name(script):
    """Functions return what they are given, objects hold others; operators, decorators and `with` call functions."""
    tree = ast.parse(OBJECTS + script)
    read = next(s for s in tree.body if isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == "x")
    assert effects_of(Names(tree)).between(tree, read, read.lineno, 1000)


@pytest.mark.parametrize(
    "script",
    [
        *("x = k\nn = int(len(k) * 2)\nprint(n)", "n = 2\nx = n * k[0]\nm = n * 3\nm += 1", "x = k\ny = np.ones(3)"),
        *("i = Item()\nj = Item()\nx = i.k\nj.k = 3", "x = tf.abs(number)\ny = same(2)\ny += 1"),
        "x = np.ones(k)\nput()",
    ],
)  # fmt: skip
def test_what_changes_nothing_that_is_read_may_change_places(script):
    """Numbers and tensors are never changed, and what has nothing in common with what is read may be."""
    tree = ast.parse(f"import tensorflow as tf\nnumber = 1\n{OBJECTS}{script}")
    read = next(s for s in tree.body if isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == "x")
    assert effects_of(Names(tree)).between(tree, read, read.lineno, 1000) == []


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
PRODUCER, _, READING = READ.partition("\n")
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


CHANGED = """\
import collections

class Auto(dict):
    def __missing__(self, key):
        self[key] = float(len(self))
        return self[key]

class Norm(object):
    total = 1
    def __init__(self):
        self.mean = tf.Variable(2.0)
    def __call__(self, x):
        return x - self.mean
    @classmethod
    def more(cls):
        cls.total += 1
        return cls.total

counts, auto, seen = collections.defaultdict(float), Auto(), {"a": 1}
error = ValueError(seen)
"""
FAILING = """\
    try:
        raise error
    except ValueError as e:
        e.args[0]["a"] = 2
"""
BATCH = "tf.train.batch([y], 2)"


@pytest.mark.parametrize(
    ("code", "body"),
    [
        ("order", f"{READ}    y = x * len(counts)\n    n = counts['a']\n    return tf.train.batch([y], n)"),
        ("order", f"{READ}    y = x * len(auto)\n    n = auto['a']\n    return tf.train.batch([y], n)"),
        ("order", f"{READ}    y = x * seen['a']\n{FAILING}    return tf.train.batch([y], 2)"),
        ("order", f"{READ}    n = 2\n    y = tf.cond(x > n, lambda: x * n, lambda: x)\n    n = 3\n    return {BATCH}"),
        ("order", f"{PRODUCER[:-1]}, capacity=seen.pop('a'))\n{READING}    y = x\n    return {BATCH}"),
        ("order", f"{READ}    return tf.train.batch([x], 2, capacity=Norm.more())"),
        ("escapes", f"    kept = []\n{READ}    y = tf.train.batch([kept.append(x) or x], 2)\n    return y, kept"),
        ("escapes", f"    norm = Norm()\n{READ}    return tf.train.batch([norm(x)], 2)"),
    ],
)  # fmt: skip
def test_what_changes_in_ways_of_its_own_is_seen(code, body):
    """By a look-up, as the error that hands an object on, by an argument that goes; what a callable object holds."""
    done = rewrite(f"{DEFINITIONS}{CHANGED}\ndef f(files):\n{body}\n")
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


METHODS = """\
import tensorflow as tf


class Record(object):
    pass


def scaled(t, name="scaled"):
    return t


class Inputs(object):
    def network(self, files, by=scaled):
        return by(self.batches(files), self)

    def read(self, queue):
        _, line = tf.TextLineReader().read(queue)
        record = Record()
        record.value = line
        return record

    def batches(self, files):
        queue = tf.train.string_input_producer(files)
        record = self.read(queue)
        return tf.train.batch([record.value], 2)
"""


@pytest.mark.parametrize(
    ("added", "status"), [("", "converted"), ("\n\nInputs.read = scaled\n", "flagged"),
                          ("\n\nsetattr(Inputs, 'read', scaled)\n", "flagged")],
)  # fmt: skip
def test_a_method_of_self_is_that_method(added, status):
    """What it is given goes to no other function that the object holds, unless an attribute may hide the method."""
    assert rewrite(METHODS + added).status == status
