"""Functions that keep their queues, and are called through `lift`."""

import pytest
from old_scripts import BATCH, READ, script

from seqrecorder.legacy.migrate.project import migrate
from seqrecorder.legacy.migrate.rewrite.script import lift_script
from seqrecorder.legacy.migrate.verify.verify import tried

UNCLEAR = """\
    for path in [files]:
        queue = tf.train.string_input_producer(path, num_epochs=2, shuffle=False)
        _, record = tf.TFRecordReader().read(queue)
    return {"record": tf.train.batch([record], 3), "size": tf.train.batch([tf.size(record)], 3)}
"""
KINDS = f"""\
import tensorflow as tf


def records(queue):
    _, record = tf.TFRecordReader().read(queue)
    return record


def pair(files, *others, size=3, **options):
    queue = tf.train.string_input_producer(files, num_epochs=3, shuffle=False)
    record = records(queue)
    x, y = tf.train.batch([record, tf.size(record)], size)
    return [x, y]


def make(files):
    def input_fn():
        queue = tf.train.string_input_producer(files, num_epochs=2, shuffle=False)
        return tf.train.batch([records(queue)], 2)

    return input_fn


class Source:
    size = 2

    def batches(self, files):
        queue = tf.train.string_input_producer(files, num_epochs=2, shuffle=False)
        return tf.train.batch([records(queue)], self.size)


def unclear(files):
{UNCLEAR}

def train(files):
    x, y = pair(files, size=2)
    with tf.Session() as session:
        tf.train.start_queue_runners(session)
        return session.run(x)
"""
FUNCTIONS = ("pair", "input_fn", "Source.batches", "unclear")


@pytest.mark.usefixtures("warm_trials")
@pytest.mark.parametrize("target", [pytest.param("graph", marks=pytest.mark.nightly), "eager"])
def test_lifted_functions_give_the_same_batches(tmp_path, target):
    """Functions of all kinds give their callers what their queues gave, as tensors or as a dataset."""
    done = lift_script(KINDS, target)
    assert (done.status, done.functions, done.lifted) == ("converted", FUNCTIONS, True)
    assert done.changed == (FUNCTIONS if target == "eager" else ())
    assert done.notes[0] == "lifted, with its queues as they are: pair, input_fn, Source.batches, unclear"
    assert "    def batches(self, files):\n" in done.text
    trials = tried(KINDS, done.text, done.functions, target, tmp_path)
    assert [trial for trial in trials if trial.outcome != "equal"] == []
    assert len(trials) == len(FUNCTIONS)


def test_other_lines_of_lifted_scripts_stay():
    """All that changes is the import, the name of the function, and a function that takes its old one."""
    old = script(READ + BATCH)
    new = lift_script(old).text.splitlines()
    assert [line for line in old.splitlines() if line not in new] == [
        "import tensorflow as tf",
        "def batches(files):",
    ] or ([line for line in old.splitlines() if line not in new] == ["import tensorflow as tf"])
    assert [line for line in new if line and line not in old.splitlines()] == [
        "import seqrecorder as sr",
        "import tensorflow.compat.v1 as tf",
        "tf.disable_v2_behavior()",
        "def batches_with_queues(files):",
        "    dataset = sr.legacy.lift(lambda: batches_with_queues(files))",
        "    return sr.legacy.get_next(dataset)",
    ]


def test_the_name_of_the_package_may_be_taken():
    """A script that calls something else `sr` gets the package by its own name."""
    text = lift_script(script("    sr = 3\n" + READ + BATCH)).text
    assert text.startswith("import seqrecorder\n")
    assert "seqrecorder.legacy.get_next(dataset)" in text


LEFT = {
    "module": "import tensorflow as tf\n" + (READ + BATCH).replace("    ", "").replace("return", "x ="),
    "main": script(READ + "    x = tf.train.batch([record], 3)\n    return tf.Session().run(x)\n"),
    "helper": script("    _, record = tf.TFRecordReader().read(files)\n    return record\n"),
    "generator": script((READ + BATCH).replace("return", "yield")),
    "decorated": script(READ + BATCH).replace("def batches", "@cached\ndef batches"),
}


@pytest.mark.parametrize("case", LEFT)
def test_what_cannot_be_lifted_is_said(case):
    """A pipeline that no function returns stays, as does what is a part of one."""
    done = lift_script(LEFT[case])
    assert (done.status, done.text) == ("flagged", LEFT[case])
    assert [finding.code for finding in done.findings] == ["not-lifted"]


def test_lifting_where_rewriting_ends(tmp_path):
    """`fallback` lifts only what cannot be rewritten, and the report says which functions those are."""
    (tmp_path / "clear.py").write_text(script(READ + BATCH))
    (tmp_path / "unclear.py").write_text(script(UNCLEAR))
    (tmp_path / "whole.py").write_text(LEFT["module"].replace("[record]", "*[[record]]"))
    outcomes = {
        (target, fallback): {
            report.path.stem: (report.outcome, report.lifted)
            for report in migrate(tmp_path, target=target, fallback=fallback)
        }
        for target, fallback in (("graph", None), ("graph", "lift"), ("eager", "lift"), ("lift", None))
    }
    clear, lifted, flagged = ("converted", ()), ("converted", ("batches",)), ("flagged", ())
    assert outcomes["graph", None] == {"clear": clear, "unclear": flagged, "whole": flagged}
    assert outcomes["graph", "lift"] == {"clear": clear, "unclear": lifted, "whole": flagged}
    assert outcomes["eager", "lift"] == outcomes["graph", "lift"]
    assert outcomes["lift", None] == {"clear": lifted, "unclear": lifted, "whole": flagged}
