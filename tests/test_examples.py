"""The examples run, stay short, and print what they promise."""

import ast
import inspect
import io
import re
import shutil
import sys
import sysconfig
import textwrap
import tokenize
from pathlib import Path

import attrs
import pytest

import seqrecorder as sr

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
PRINTED = {
    "audio_clips_from_csv.py": "99 chunks written, 1 clip skipped",
    "classify_clips.py": "400 clips, 2811 frames",
    "compare_batches.py": "steps of the first batch 2000, of the largest 2000",
    "forecast_windows.py": "when the last value is repeated",
    "frames_per_step.py": "lengths [13, 9, 13, 13]",
    "lift_queue_pipeline.py": "order: not fixed in the original; the examples are the same",
    "monthly_forecasts.py": "90 forecasts from 3 origins: error",
    "packed_rows.py": "10% by guessing",
    "stateful_language_model.py": "4.85 by guessing",
    "stocks_and_eeg.py": "9 windows of 160 samples\ndrawn: series.png",
    "tag_python_tokens.py": "on the eval split (commonest kind: ",
    "text_and_image_to_keras.py": "{'train': 1592, 'eval': 187, 'test': 221}",
    "token_labels_with_length.py": "tokens [[6, 8, 7, 4], [3, 9, 1, 0], [2, 5, 0, 0]]",
    "translation_pairs.py": "of the steps of packed rows are real",
}
# What comes before the accuracy on the test split, and the least that it may be: seeded, but libraries differ. Then
# what is printed that has been learned.
LEARNED = {
    "classify_clips.py": ("ways of unseen clips: ", 90, ""),
    "packed_rows.py": ("topics of unseen sentences: ", 70, ""),
    "tag_python_tokens.py": ("accuracy  ", 95, ""),
    "text_and_image_to_keras.py": ("test accuracy ", 90, ""),
    "translation_pairs.py": ("words of unseen translations: ", 95, "vier tausend drei hundert ein und zwanzig"),
}

FEWER = {"monthly_forecasts.py": ("series, 3, time", "series, 1, time", "30 forecasts from 3 origins: error")}
"""What is done more often than once, but for at night: the text, the one instead of it, and what is printed then."""

JUDGED = re.compile(r"^assert (accuracy|error|losses|ours)\b.*\n", re.MULTILINE)
"""What only a network that has learned holds to."""

SHORT = """
import os, runpy, sys, sysconfig
import keras

def always(method, **options):
    return lambda model, *args, **others: method(model, *args, **{**others, **options})

def fit(model, data, fit=keras.Model.fit, **options):
    model._symbolic_build(data_batch=data.element_spec)  # Keras traces a step twice if it has to make variables
    return fit(model, data, **{**options, "epochs": 1, "steps_per_epoch": 2})

keras.Model.fit = fit
keras.Model.evaluate = always(keras.Model.evaluate, steps=2)
del sys.argv[0]
sys.path[0] = os.path.dirname(sys.argv[0])
places = {"stdlib": os.path.join(sys.path[0], "library")}
path_of = sysconfig.get_path
sysconfig.get_path = lambda name, *others: places.get(name) or path_of(name, *others)
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs a script, in which networks are trained by two batches, for all that it does beside; of `LIBRARY` alone."""

LIBRARY = [path for path in Path(sysconfig.get_path("stdlib")).glob("*.py") if path.stat().st_size < 21_000]
"""The small modules of the standard library, which stand for all of it, but for at night."""

each_script = pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)


@attrs.frozen
class Run:
    """A script that was run, and what it printed."""

    code: int
    directory: Path
    stdout: str
    stderr: str


@pytest.fixture(scope="module")
def run(tmp_path_factory, warm_python):
    done = {}

    def run_once(script, *, short=True):
        if (script, short) not in done:
            directory = tmp_path_factory.mktemp(script.stem)
            elsewhere = directory / "elsewhere"  # so that it writes where it was told to, and finds nothing else
            elsewhere.mkdir()
            command = [sys.executable, script, directory / "out"]
            if short:
                (directory / "library").mkdir()
                for module in LIBRARY if "sysconfig" in script.read_text(encoding="utf-8") else ():
                    shutil.copy(module, directory / "library")
                unjudged, text = directory / script.name, script.read_text(encoding="utf-8")
                often, once, _ = FEWER.get(script.name, ("", "", ""))
                assert often in text
                unjudged.write_text(JUDGED.sub("", text.replace(often, once, 1)), encoding="utf-8")
                command[1:2] = ["-c", SHORT, unjudged]
            ended = warm_python.run(command, cwd=elsewhere, text=True)
            done[script, short] = Run(ended.returncode, directory, ended.stdout, ended.stderr)
        return done[script, short]

    return run_once


def test_every_script_has_its_fragment():
    """The scripts that exist are those whose output is known, and there are some."""
    assert {script.name for script in SCRIPTS} == set(PRINTED)


@each_script
def test_script_is_short_and_documented(script):
    """An example has a module docstring, with the command that runs it, and fewer than 100 lines."""
    text = script.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 100
    assert f"python examples/{script.name} [output_dir]" in (ast.get_docstring(ast.parse(text)) or "")


@pytest.mark.parametrize("short", [True, pytest.param(False, marks=pytest.mark.nightly)], ids=["short", "whole"])
@each_script
def test_script_runs(script, short, run):
    """An example ends without an error or a warning, prints its fragment, and writes only where it is told to."""
    assert script.name in PRINTED, "add a fragment of its output to PRINTED"
    done = run(script, short=short)
    assert done.code == 0, done.stdout + done.stderr
    printed = FEWER[script.name][-1] if short and script.name in FEWER else PRINTED[script.name]
    assert printed in done.stdout
    assert not re.search(r"\w+Warning: |WARNING:tensorflow", done.stderr), done.stderr
    assert any((done.directory / "out").rglob("manifest.json"))
    assert not any((done.directory / "elsewhere").iterdir())


@pytest.mark.nightly
@pytest.mark.parametrize("name", LEARNED)
def test_network_learns(name, run):
    """A network that an example trains is nearly always right, which neither guessing nor half of the input can be."""
    before, least, learned = LEARNED[name]
    printed = run(ROOT / "examples" / name, short=False).stdout
    accuracy = re.search(re.escape(before) + r"([\d.]+)%", printed)
    assert accuracy
    assert float(accuracy[1]) >= least
    assert learned in printed


def test_functions_of_the_library_are_a_sound_dataset(run):
    """No module is in two splits, tokens and kinds are the tokenizer's, and rows of packed functions are full."""
    path = run(ROOT / "examples" / "tag_python_tokens.py").directory / "out" / "functions"
    assert sr.verify(path).ok
    records = {split: list(sr.read_records(path, split)) for split in ("train", "eval", "test")}
    modules = {split: {record.module for record in found} for split, found in records.items()}
    assert all(modules.values())
    assert sum(map(len, modules.values())) == len(set().union(*modules.values()))
    key = f"textwrap:indent:{textwrap.indent.__code__.co_firstlineno}"
    [record] = [record for found in records.values() for record in found if record.key == key]
    expected = list(tokenize.generate_tokens(io.StringIO(inspect.getsource(textwrap.indent)).readline))[:-1]
    kinds = sr.info(path).metadata["kinds"]
    tagged = [(text, kinds[kind]) for text, kind in zip(record.tokens, record.kinds, strict=True) if text != "(none)"]
    assert tagged == [(token.string, tokenize.tok_name[token.type]) for token in expected if token.string]
    for shuffle in (0, 1000):
        assert sr.plan(path, "train", sr.Pack(512, 4, too_long="split"), shuffle=shuffle, seed=0).efficiency >= 0.95
