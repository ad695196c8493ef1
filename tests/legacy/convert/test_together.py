"""Several calls of one function: what differs between them is a parameter, or a function of its own."""

import importlib.util

import numpy as np
import pytest
import tensorflow as tf

from seqrecorder import legacy
from seqrecorder.cli.main import main
from seqrecorder.errors import OptionError

v1 = tf.compat.v1

SCRIPT = """
import tensorflow as tf


def inputs(files, batch_size, is_training, scale=2):
    queue = tf.train.string_input_producer(files, None if is_training else 1, shuffle=False)
    _, line = tf.TextLineReader().read(queue)
    length = tf.strings.length(line) * scale
    if is_training:
        return tf.train.shuffle_batch([length], batch_size, 20, 4)
    return tf.train.batch([length], batch_size, allow_smaller_final_batch=batch_size == 3)
"""


@pytest.fixture
def convert(tmp_path, capsys):
    """Convert some calls of the script; return the module that was written, and the report."""
    script = tmp_path / "old_script.py"
    script.write_text(SCRIPT)

    def run(*calls):
        options = [part for call in calls for part in ("--call", call)]
        target = tmp_path / "reader.py"
        assert main(["legacy", "convert", str(script), *options, "--write", str(target)]) == 0
        spec = importlib.util.spec_from_file_location("reader", target)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module, capsys.readouterr().out

    return run


def old(files, *arguments):
    namespace = {}
    with legacy.compat():
        exec(SCRIPT, namespace)  # noqa: S102 - ours
    return legacy.lift(lambda: namespace["inputs"](files, *arguments))


def same(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def test_constants_become_parameters(convert, files):
    """Files, sizes, and what to do with a remainder are parameters; the report tells the other call."""
    first, second = files["text"], files["text"][:1]
    module, report = convert(f"inputs({first}, 2, False)", f"inputs({second}, 3, False)")
    assert f"inputs(files={second}, batch_size=3, drop_remainder=False)" in report
    same(module.inputs(), old(first, 2, False))
    same(module.inputs(files=second, batch_size=3, drop_remainder=False), old(second, 3, False))


def test_other_graphs_become_other_functions(convert, files):
    """A shuffle for training alone makes two functions, which share what is the same."""
    module, report = convert(f"inputs({files['text']}, 2, False)", f"inputs({files['text']}, 4, True)")
    assert "inputs_2()" in report
    assert not hasattr(module, "parse_2")
    same(module.inputs(), old(files["text"], 2, False))
    assert next(iter(module.inputs_2())).shape == (4,)


def test_functions_follow_what_they_use(convert, files):
    """A function that calls another one in each module is another function itself."""
    calls = [f"inputs({files['text']}, 2, False, {scale})" for scale in (2, 5)]
    module, _ = convert(*calls)
    same(module.inputs(), old(files["text"], 2, False, 2))
    same(module.inputs_2(), old(files["text"], 2, False, 5))


def test_endless_epochs_are_a_parameter(files):
    """None repeats for ever."""

    def inputs(epochs):
        queue = v1.train.string_input_producer(files["text"], epochs, shuffle=False)
        return v1.train.batch([v1.TextLineReader().read(queue).value], 2)

    both = legacy.convert(inputs, 2).together(legacy.convert(inputs, None))
    assert "num_epochs=2):" in both.source
    assert "inputs(num_epochs=None)" in both.report


def test_what_is_lifted_stays_by_itself(files):
    """Only what is printed can be put together."""

    def inputs(size):
        queue = v1.train.string_input_producer(files["text"], 1, shuffle=False)
        line = v1.TextLineReader().read(queue).value
        return v1.train.batch([v1.py_func(len, [line], tf.int64)], size, shapes=[[]])

    one, other = legacy.convert(inputs, 2), legacy.convert(inputs, 3)
    with pytest.raises(OptionError, match="only printed modules"):
        one.together(other)
