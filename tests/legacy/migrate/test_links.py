"""Pipelines whose parts stand in several scripts of a directory."""

import json
import sys

import pytest
from script_runs import MOST, run_eagerly, run_in_graph

from seqrecorder.legacy.migrate.project import migrate
from seqrecorder.legacy.migrate.verify.equality import compare
from seqrecorder.legacy.migrate.verify.verify import tried

READING = """\
import tensorflow as tf


def read_and_decode(filename_queue):
    reader = tf.TextLineReader()
    _, value = reader.read(filename_queue)
    return value, tf.strings.length(value)


def of_files(files):
    queue = tf.train.string_input_producer(files, num_epochs=2, shuffle=False)
    _, value = tf.TextLineReader().read(queue)
    return {"value": value, "length": tf.strings.length(value)}


def batched(size, queue):
    value, length = _read(queue)
    return tf.train.batch([value, length], size)


def _read(queue):
    _, value = tf.TextLineReader().read(queue)
    return value, tf.strings.length(value)
"""
TRAIN = """\
import tensorflow as tf

import records.reading as reading
from records import reading as same
from records.reading import *
from .records.reading import of_files as take


def helped(files):
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    value, length = reading.read_and_decode(queue)
    return tf.train.batch([value, length], 2)


def made(files):
    features = take(files)
    return tf.train.batch([features["value"], features["length"] + 1], 3)


def given(files):
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    return same.batched(queue=queue, size=2)


def given_by_star(files):
    queue = tf.train.string_input_producer(files[:1], num_epochs=3, shuffle=False)
    return batched(2, queue)


def twice(files):
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    first = reading.batched(2, queue)
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    value, length = reading.read_and_decode(queue)
    second = tf.train.batch([value], 2)
    return first, second
"""


def written(directory, **others):
    """Write two scripts that belong together, and others beside them."""
    (directory / "records").mkdir(parents=True)
    (directory / "records" / "reading.py").write_text(READING)
    (directory / "train.py").write_text(TRAIN)
    for name, text in others.items():
        (directory / name.replace("_", ".")).write_text(text)
    return directory


def outcomes(directory, **options):
    return {report.path.name: report.outcome for report in migrate(directory, **options)}


def imported(directory, monkeypatch):
    """Return the text of the script, whose imports are found, and what it imports is read anew.

    None of it turns TensorFlow 2 off for the tests that follow.
    """
    for path in directory.rglob("*.py"):
        path.write_text(path.read_text().replace("tf.disable_v2_behavior()\n", ""))
    monkeypatch.syspath_prepend(str(directory))
    for name in [name for name in sys.modules if name.partition(".")[0] == "records"]:
        monkeypatch.delitem(sys.modules, name)
    return (directory / "train.py").read_text().replace("from .", "from ")


@pytest.mark.parametrize("target", ["graph", "eager"])
def test_scripts_that_make_one_pipeline_together_are_rewritten_together(target, tmp_path, monkeypatch):
    """Functions of other scripts hand on datasets, or are given them, and give what their queues gave."""
    files = [str(tmp_path / name) for name in "ab"]
    for number, name in enumerate("ab", start=4):
        (tmp_path / name).write_text("".join(f"{number}{'x' * line}\n" for line in range(number)))
    old, new = written(tmp_path / "old"), written(tmp_path / "new")
    assert outcomes(new, target=target, write=True) == {"reading.py": "converted", "train.py": "converted"}
    names = ["helped", "made", "given", "given_by_star", *(["twice"] if target == "graph" else [])]
    text = imported(old, monkeypatch)
    expected = {name: run_in_graph(text, name, files, old=True) for name in names}
    text = imported(new, monkeypatch)
    for name in names:
        batches, _, structure = expected[name]
        if target == "graph":
            found, _, became = run_in_graph(text, name, files, old=False)
            assert became == structure
        else:
            found, _ = run_eagerly(text, name, files)
        assert len(batches) > 1
        compare(batches, found, ordered=True, records=10**9, most=MOST)


@pytest.mark.usefixtures("warm_trials")
def test_what_goes_together_is_tried_together(tmp_path):
    """Old functions import the old scripts, and new ones the new; those that others call are tried with these."""
    written(tmp_path, reading_py="raise RuntimeError('another module of this name')\n")
    reports = {report.path.name: report for report in migrate(tmp_path / "train.py", verify=True)}
    assert reports["train.py"].outcome != "verified"
    reports = {report.path.name: report for report in migrate(tmp_path, verify=True) if report.outcome != "nothing"}
    found = {trial.function: trial.outcome for trial in reports["train.py"].trials}
    assert found == dict.fromkeys(("helped", "made", "given", "given_by_star", "twice"), "equal")
    assert not any("stand-ins" in trial.reason for trial in reports["train.py"].trials)
    assert {path: report.outcome for path, report in reports.items()} == {
        "train.py": "verified",
        "reading.py": "converted",
    }
    new, reading = written(tmp_path / "new"), tmp_path / "records" / "reading.py"
    migrate(new, write=True)
    text = (new / "records" / "reading.py").read_text()
    for others, outcome in (
        ({reading: text.replace("length(value)", "length(value) + 1")}, "differs"),
        ({}, "unverified"),
    ):
        [trial] = tried(
            TRAIN, (new / "train.py").read_text(), ["made"], "graph", tmp_path, others=others, needed=[reading]
        )
        assert trial.outcome == outcome


def test_what_goes_together_is_told(tmp_path):
    """The report of each script says what it takes from others, and what others have to give it."""
    notes = {report.path.name: " ".join(report.notes) for report in migrate(written(tmp_path / "project"))}
    assert "reading.batched is of a file that is rewritten together with this one" in notes["train.py"]
    assert "takes the dataset of the files' names for its parameter 'filename_queue'" in notes["reading.py"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("other_py", "from records.reading import of_files\nprint(of_files(['a']))\n"),
        ("other_py", "import records.reading as r\nprint(r.of_files)\n"),
        ("other_py", "from records.reading import *\nprint of_files\nprint(1\n"),
        ("other_ipynb", json.dumps({"cells": [{"source": ["from records.reading import of_files\n"]}]})),
    ],
)
def test_a_function_stays_as_it_is_where_something_else_may_call_it(name, text, tmp_path):
    """What is no part of a pipeline that is rewritten goes on to get tensors."""
    found = outcomes(written(tmp_path / "project", **{name: text}))
    assert found["train.py"] == "flagged"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    features = take(files)\n", "    features = take(files)\n    print(take)\n"),
        ("def made", "take = print\n\n\ndef made"),
        ("def made(files)", "def made(files, take=None)"),
        ("    features = take(files)\n", "    features = [take(files) for _ in range(2)][0]\n"),
        ("    value, length = reading", "    print(queue)\n    value, length = reading"),
        ("    return same.batched(queue=queue, size=2)", "    return same.batched(2, queue), same.batched(2, queue)"),
        ("same.batched(queue=queue, size=2)", "same.batched(queue, 2)"),
        ("import *", "import *\nfrom elsewhere import *"),
    ],
)
def test_scripts_stay_where_one_does_more_with_what_it_takes(old, new, tmp_path):
    """A script whose part of a pipeline is not clear keeps it, and so do those that go together with it."""
    project = written(tmp_path / "project")
    assert TRAIN.count(old) >= 1
    (project / "train.py").write_text(TRAIN.replace(old, new, 1))
    assert outcomes(project)["train.py"] == "flagged"


def test_scripts_of_one_name_in_other_directories_are_told_apart(tmp_path):
    """A script takes from the one beside it, or in a directory above it, and from no other."""
    project = written(tmp_path / "project")
    (project / "far").mkdir()
    (project / "train.py").rename(project / "far" / "train.py")
    (project / "records").rename(project / "far" / "others")
    assert outcomes(project)["train.py"] == "flagged"


WHOLE = """\
import tensorflow as tf

from reading import read


class Model:
    def __init__(self, images):
        self.images = images

    def batches(self, files, size):
        queue = tf.train.string_input_producer(files)
        record = read(queue)
        return tf.train.batch([record], size)
"""


@pytest.mark.parametrize(
    ("old", "new", "taking", "giving"),
    [
        (
            "[record], size",
            "[record], size, shared_name='batches'",
            "read is of reading.py, and not rewritten together with this: train.py, line 13: shared_name: the queue",
            "train.py imports read, and is not rewritten together with this: train.py, line 13: shared_name: the queue",
        ),
        (
            "from reading import read\n",
            "from reading import read\nprint(read)\n",
            "read is of reading.py, and not rewritten together with this: train.py, line 4: read is also used",
            "train.py imports read, and is not rewritten together with this: train.py, line 4: read is also used",
        ),
        (
            "from reading import read",
            "",
            "the queue is given to read, which is no name of this file",
            "nothing in this",
        ),
        ("from reading import", "from readers import", "the queue is given to read, which is no function", "nothing"),
        (
            "        record = read(queue)",
            "        record, _ = tf.py_func(self.next, [], [tf.string, tf.int64])",
            "what is batched hangs on no record that is read here, but on tf.py_func, self.next",
            "train.py imports read, and is not rewritten together with this: train.py, line 12: what is batched",
        ),
        (
            "        record = read(queue)",
            "        record = [self.images, files]",
            "what is batched hangs on no record that is read here, but on self.images, files",
            "train.py imports read, and is not rewritten together with this: train.py, line 12: what is batched",
        ),
        (
            "        record = read(queue)",
            "        record = tf.zeros([3])",
            "what is batched hangs on no record that is read here, but on constants alone",
            "train.py imports read, and is not rewritten together with this: train.py, line 12: what is batched",
        ),
    ],
)
def test_why_scripts_do_not_go_together_is_told(old, new, taking, giving, tmp_path):
    """Each of two scripts says what keeps the other, or itself, from being rewritten with it, and where."""
    text = "def read(queue):\n    _, record = tf.TextLineReader().read(queue)\n    return record\n"
    (tmp_path / "reading.py").write_text(f"import tensorflow as tf\n\n\n{text}")
    changed = WHOLE.replace(old, new)
    if "record = read(queue)" not in changed:
        changed = changed.replace("        queue = tf.train.string_input_producer(files)\n", "")
    (tmp_path / "train.py").write_text(changed)
    found = {report.path.name: [each.reason for each in report.findings] for report in migrate(tmp_path)}
    assert any(reason.startswith(taking) for reason in found["train.py"]), found["train.py"]
    assert found["reading.py"][0].startswith(giving), found["reading.py"]


def test_a_function_that_stays_with_its_caller_is_not_rewritten_for_its_own_file(tmp_path):
    """A script that is flagged goes on to give its queue to a function of another one, which has a pipeline too."""
    own = "\n\ndef own(files):\n    queue = tf.train.string_input_producer(files)\n"
    own += "    return tf.train.batch([read(queue).value], 4)\n"
    text = "class Result:\n    pass\n\n\ndef read(queue):\n    result = Result()\n"
    text += "    result.key, value = tf.TextLineReader().read(queue)\n    result.value = value\n    return result\n"
    (tmp_path / "reading.py").write_text(f"import tensorflow as tf\n\n\n{text}{own}")
    assert outcomes(tmp_path)["reading.py"] == "converted"
    (tmp_path / "train.py").write_text(WHOLE)
    assert outcomes(tmp_path) == {"reading.py": "flagged", "train.py": "flagged"}


def test_why_a_function_is_no_part_of_a_pipeline_is_told(tmp_path):
    """A function of another script that cannot be rewritten is named with the line that keeps it."""
    (tmp_path / "reading.py").write_text(
        "import tensorflow as tf\n\n\ndef read(queue):\n    with tf.name_scope('read', values=[queue]):\n"
        "        _, record = tf.TextLineReader().read(queue)\n        return record\n"
    )
    (tmp_path / "train.py").write_text(WHOLE)
    [report] = [each for each in migrate(tmp_path) if each.path.name == "train.py"]
    said = "reading.py, line 6: the queue is used for more than reading"
    assert [each.reason for each in report.findings] == [
        f"read is of reading.py, and not rewritten together with this: {said}"
    ]
