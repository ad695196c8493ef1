"""Names of `tf.contrib` in lifted scripts."""

import sys

import pytest

from seqrecorder.legacy.migrate.rewrite.lift_script import lift_script

BUCKETS = """\
import sys
import tensorflow as tf
{imports}

def batches(files):
    _, line = tf.TextLineReader().read(tf.train.string_input_producer(files, num_epochs=1, shuffle=False))
    return {called}(tf.strings.length(line), [line], 2, [3], allow_smaller_final_batch=True)


def model(x):
    return {model}
"""
RUN = """
lengths, [lines] = batches(sys.argv[1:])
with tf.Session() as session:
    session.run(tf.local_variables_initializer())
    tf.train.start_queue_runners(session)
    print(session.run(lines))
    print(session.run(lines))
"""
WHOLE = "tf.contrib.training.bucket_by_sequence_length"
NEW = "sr.legacy.contrib.training.bucket_by_sequence_length"
FORMS = {
    "written out": ("", WHOLE, "", NEW),
    "module": (
        "import tensorflow.contrib.training as training",
        "training.bucket_by_sequence_length",
        "from seqrecorder.legacy.contrib import training",
        "training.bucket_by_sequence_length",
    ),
    "private": (
        "from tensorflow.contrib.training.python.training.bucket_ops import bucket_by_sequence_length as by_length",
        "by_length",
        "from seqrecorder.legacy.contrib.training import bucket_by_sequence_length as by_length",
        "by_length",
    ),
    "another name": (
        "training = tf.contrib.training",
        "training.bucket_by_sequence_length",
        "training = sr.legacy.contrib.training",
        "training.bucket_by_sequence_length",
    ),
}


def text(imports="", called=WHOLE, model="x"):
    return BUCKETS.format(imports=imports, called=called, model=model)


@pytest.mark.parametrize("case", FORMS)
def test_names_that_are_here_are_taken_from_here(case):
    """However a script writes or imports them, and without anything left to do."""
    imports, called, new_imports, new_called = FORMS[case]
    done = lift_script(text(imports, called))
    assert (done.status, done.findings) == ("converted", ())
    assert new_imports in done.text.splitlines()
    assert f"    return {new_called}(" in done.text
    assert "tensorflow.contrib" not in done.text


def test_a_lifted_script_with_names_of_contrib_runs(tmp_path, warm_python):
    """Under TensorFlow 2, which has no tf.contrib, and with nothing around it."""
    (tmp_path / "lines.txt").write_text("a\nbbbb\nc\ndddd\n")
    (tmp_path / "run.py").write_text(lift_script(text() + RUN).text)
    command = [sys.executable, str(tmp_path / "run.py"), str(tmp_path / "lines.txt")]
    ran = warm_python.run(command, capture_output=True, check=True, timeout=120)
    assert sorted(ran.stdout.decode().splitlines()) == ["[b'a' b'c']", "[b'bbbb' b'dddd']"]


def test_packages_of_which_something_is_not_here_stay():
    """What a model takes of the same package is not here, which a comment says; another package goes its way."""
    imports = "from tensorflow.contrib import slim"
    done = lift_script(text(imports, model="slim.conv2d(slim.dataset.Dataset, x)"))
    assert imports in done.text.splitlines()
    assert [finding.code for finding in done.findings] == ["contrib"]
    assert f"    return {NEW}(" in done.text
    done = lift_script(text(model="getattr(tf.contrib, x)"))
    assert f"    return {WHOLE}(" in done.text
    folded = "from tensorflow.contrib.training import (\n    bucket_by_sequence_length)"
    assert folded in lift_script(text(folded, "bucket_by_sequence_length")).text
