"""What is a list, what a dictionary and what one tensor, where a mistake would stack tensors that were apart."""

import ast

import pytest
from old_scripts import READ, script

from seqrecorder.legacy.migrate.analyze.names import Names
from seqrecorder.legacy.migrate.analyze.structure import Structures
from seqrecorder.legacy.migrate.rewrite.script import rewrite

HEAD = "import tensorflow as tf\n"
STRUCTURES = {
    "tf.reshape(x, [1])": "one",
    "tf.decode_csv(x, [[0], [0]])": "list",
    "tf.split(x, 2)": "list",
    "tf.unstack(x)": "list",
    "tf.py_func(f, [x], [tf.int64])": None,
    "tf.cond(x, f, g)": None,
    "tf.nn.top_k(x, 2)": None,
    "tf.contrib.training.f(x)": None,
    "tf.train.batch([x], 2)": None,
    "tf.parse_single_example(x, {})": "dict",
    "dict(a=x)": "dict",
    "unknown(x)": None,
    "parameter": None,
    "[x] * 2": "list",
    "[x] + rest": "list",
    "(x,) + rest": None,
    "tf.size(x) * 2": "one",
    "parameter * 2": "one",
    "parameter / other": "one",
    "parameter + other": None,
    "[item for item in x]": "list",
    "(x, x)": "tuple",
}


@pytest.mark.parametrize("expression", STRUCTURES)
def test_structures(expression):
    """Structures are told from the text, by name too; what may be several tensors is not taken for one."""
    tree = ast.parse(f"{HEAD}y = {expression}\nz = y\n")
    structures = Structures(Names(tree), tree, tree.body, {})
    assert structures.of(tree.body[2].value) == STRUCTURES[expression]


def test_lists_stay_lists():
    """A list of columns is batched as a list, as it was, and not stacked to one tensor."""
    body = READ + "    columns = tf.decode_csv(record, [[0.0], [0.0]])\n    return tf.train.batch(columns, 3)\n"
    text = rewrite(script(body)).text
    assert "        return tuple(columns)\n" in text
    assert "    return list(tf.data.make_one_shot_iterator(dataset).get_next())\n" in text
    for returned in ("columns", "split(columns)", "[*columns]"):
        body = READ + f"    columns = tf.train.batch([record, record], 3)\n    out = {returned}\n    return out\n"
        own = "\n\ndef split(x):\n    return [x[0], x[1]]\n"
        text = rewrite(script(body, before=own), "eager").text
        assert "        columns = list(columns)\n" in text
        assert "        return tuple(out)\n" in text
    for returned in ("unknown(x)", "{'x': [x, x]}", "(x, unknown(x))"):
        body = READ + f"    x = tf.train.batch([record], 3)\n    return {returned}\n"
        assert [finding.code for finding in rewrite(script(body), "eager").findings] == ["structure"]
        assert rewrite(script(body)).status == "converted"
    unknown = READ + "    columns = tf.py_func(f, [record], types)\n    return tf.train.batch(columns, 3)\n"
    assert [finding.code for finding in rewrite(script(unknown)).findings] == ["structure"]


LISTS = {
    "columns = [record]": False,
    "columns = [record] * 1": False,
    "columns = [record] * 2": True,
    "columns = [record]\n    if wide:\n        columns = columns + [record]": False,
    "columns = [record]\n    columns.append(record)": False,
    "columns = [record, record]\n    columns.append(record)": True,
    "columns = [record, record]\n    columns.pop()": False,
    "columns = tf.decode_csv(record, [[0]])": False,
    "columns = tf.decode_csv(record, record_defaults=[[0], [0]])": True,
    "columns = [c for c in tf.decode_csv(record, [[0], [0]])]": True,
    "columns = [c for c in tf.decode_csv(record, [[0], [0]]) if wide]": False,
    "columns = tf.unstack(record, 3)": True,
}


@pytest.mark.parametrize("made", LISTS)
def test_a_list_of_one_gave_no_list(made):
    """The batch of a list of one tensor was that tensor: lists that may be so short are left to a person."""
    body = READ + f"    {made}\n    return tf.train.batch(columns, 3)\n"
    done = rewrite(script(body, parameters="files, wide"))
    assert [finding.code for finding in done.findings] == ([] if LISTS[made] else ["structure"])


BOUND = {
    "if jpeg:\n        x = tf.size(record)\n    elif png:\n        x = tf.rank(record)": True,
    "if jpeg:\n        x = tf.size(record)\n    elif png:\n        x = tf.split(record, 2)": False,
    "x = tf.split(record, 2)\n    if jpeg:\n        x = tf.size(record)": False,
    "if jpeg:\n        given = tf.size(record)\n    x = given": False,
}


@pytest.mark.parametrize("statements", BOUND)
def test_a_name_that_an_arm_does_not_bind_is_what_the_others_bind(statements):
    """It is not read behind that arm, unless it had a value before, or is a parameter."""
    body = READ + f"    {statements}\n    return x\n"
    caller = "\n\ndef caller(files):\n    x = batches(files)\n    return tf.train.batch([x], 2)\n"
    found = rewrite(script(body, parameters="files, given=None") + caller)
    assert (found.status == "converted") is BOUND[statements]
