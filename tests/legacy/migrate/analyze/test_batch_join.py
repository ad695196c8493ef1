"""Lists of examples for `batch_join`, one for each reader."""

import numpy as np
import pytest
from old_scripts import READ, script
from script_runs import run_eagerly, run_in_graph

from seqrecorder.legacy.migrate.rewrite.script import rewrite

FILES = "    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)\n"
LINES = FILES + "    _, line = tf.TextLineReader().read(queue)\n    x = tf.string_to_number(line)\n"
LOOP = """\
    examples = []
    for thread in range(3):
        kind = thread % 2
        if kind == 0:
            y = x + 100.0
        else:
            y = x + 200.0
        examples.append([y, x, y + thread])
    y, x, z = tf.train.batch_join(examples, 2)
    return y, x, z
"""


@pytest.mark.parametrize("target", ["graph", "eager"])
def test_examples_that_differ_by_their_readers_are_made_by_turns(target, tmp_path):
    """Each record goes to one of the readers' examples, all of which come."""
    (tmp_path / "a").write_text("".join(f"{number}\n" for number in range(6)))
    new = rewrite(script(LINES + LOOP), target)
    assert (new.status, new.findings) == ("converted", ())
    assert [note for note in new.notes if "parse: records go by turns to the readers" in note]
    if target == "eager":
        found, _ = run_eagerly(new.text, "batches", [str(tmp_path / "a")])
    else:
        found, _, _ = run_in_graph(new.text, "batches", [str(tmp_path / "a")], old=False)
    kinds, records, numbers = (np.concatenate(part) for part in zip(*found, strict=True))
    np.testing.assert_array_equal(records, range(6))
    np.testing.assert_array_equal(kinds - records, [100, 200, 100] * 2)
    np.testing.assert_array_equal(numbers - kinds, [0, 1, 2] * 2)


def test_a_comprehension_may_have_the_number_too():
    """The same of `[[decode(x, i)] for i in range(n)]`."""
    body = LINES + "    return tf.train.batch_join([[x + i, x] for i in range(size() - 1)], 2)\n"
    new = rewrite(script(body)).text
    assert "    def parse(i, line):\n        x = tf.string_to_number(line)\n        return x + i, x\n" in new
    assert "[lambda thread=thread: parse(thread, record) for thread in range((size() - 1))]" in new
    assert "tf.cast(number % (size() - 1), tf.int32)" in new
    assert "dataset = dataset.enumerate().map(" in new


WORK = """\
    if files:
        examples = [[x * 2, x] for _ in range(4)]
    else:
        examples = []
        for _ in range(2):
            y = x * 3
            examples.append([y, x])
    return tf.train.batch_join(examples, 2)
"""


def test_arms_that_both_make_the_list_make_an_example_each():
    """What the arms do to an example is done under the condition; where they do the same, it goes."""
    new = rewrite(script(LINES + WORK)).text
    assert (
        "        if files:\n            example = [x * 2, x]\n        else:\n            y = x * 3\n"
        "            example = [y, x]\n        return tuple(example)\n" in new
    )
    alike = "    if files:\n        many = [[x, x] for _ in range(4)]\n    else:\n        many = [[x, x]]\n"
    done = rewrite(script(LINES + alike + "    return tf.train.batch_join(many, 2)\n"))
    assert (done.status, "if files" in done.text) == ("converted", False)


@pytest.mark.parametrize(
    ("said", "body"),
    [
        ("the examples are written out", "    return tf.train.batch_join([[record], [record]], 2)\n"),
        ("is no range(n): for x in files", "    return tf.train.batch_join([[record] for x in files], 2)\n"),
        ("which examples are joined", "    return tf.train.batch_join([[record] for _ in range(2)] + [], 2)\n"),
        ("more than one number", "    return tf.train.batch_join([[a + record] for a, b in range(2)], 2)\n"),
        ("no plain one", LOOP.replace("    y, x", "    print(thread)\n    y, x").replace("x +", "record +")),
        ("not made in one place", WORK.replace("x * 2", "record").replace("if files:", "if files.pop():")),
        ("not made in one place", WORK.replace("_ in range(4)", "i in range(4)").replace("x * 2", "record * i")),
    ],
)
def test_lists_that_may_be_something_else_are_left(said, body):
    """Where the examples may differ otherwise, or the loop does more, nothing is changed, and the reason says so."""
    done = rewrite(script(READ + body))
    assert done.status == "flagged"
    assert said in done.findings[0].reason


def test_readers_that_differ_by_their_numbers_are_left():
    """A number of lines to skip that hangs on the reader is of no dataset."""
    body = (
        FILES + "    examples = []\n    for i in range(2):\n        reader = tf.TextLineReader(skip_header_lines=i)\n"
    )
    body += "        _, x = reader.read(queue)\n        examples.append([x, x])\n"
    done = rewrite(script(body + "    return tf.train.batch_join(examples, 2)\n"))
    assert "the readers themselves differ" in done.findings[0].reason
