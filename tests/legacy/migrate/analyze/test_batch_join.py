"""Lists of examples for `batch_join`, one for each reader."""

import pytest
from old_scripts import READ, script

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
        ("number of their reader", "    return tf.train.maybe_batch_join([[a + record] for a in range(2)], keep, 2)\n"),
        ("number of their reader", LOOP.replace("x +", "record +")),
        ("no plain one", LOOP.replace("    y, x", "    print(thread)\n    y, x").replace("x +", "record +")),
        ("not made in one place", WORK.replace("x * 2", "record").replace("if files:", "if files.pop():")),
        ("not made in one place", WORK.replace("_ in range(4)", "i in range(4)").replace("x * 2", "record * i")),
    ],
)  # fmt: skip
def test_lists_that_may_be_something_else_are_left(said, body):
    """Where the examples may differ otherwise, or the loop does more, nothing is changed, and the reason says so."""
    read = READ if "_, x = " not in body else FILES
    done = rewrite(script(read + body, parameters="files, keep"))
    assert done.status == "flagged"
    assert said in done.findings[0].reason
