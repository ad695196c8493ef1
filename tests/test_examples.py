"""The examples run, stay short, and print what they promise."""

import ast
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
PRINTED = {
    "audio_clips_from_csv.py": "99 chunks written, 1 clip skipped",
    "compare_batches.py": "steps of the first batch 2000, of the largest 2000",
    "forecast_windows.py": "when the last value is repeated",
    "frames_per_step.py": "lengths [13, 9, 13, 13]",
    "lift_queue_pipeline.py": "order: not fixed in the original; the examples are the same",
    "packed_rows.py": "10% by guessing",
    "stateful_language_model.py": "4.85 by guessing",
    "stocks_and_eeg.py": "9 windows of 160 samples\ndrawn: series.png",
    "tag_python_tokens.py": "always saying 'operator':",
    "text_and_image_to_keras.py": "{'train': 1592, 'eval': 187, 'test': 221}",
    "token_labels_with_length.py": "tokens [[6, 8, 7, 4], [3, 9, 1, 0], [2, 5, 0, 0]]",
}
# What comes before the accuracy on the test split, and the least that it may be: seeded, but libraries differ.
LEARNED = {
    "packed_rows.py": ("topics of unseen sentences: ", 70),
    "tag_python_tokens.py": ("recurrent network: ", 90),
    "text_and_image_to_keras.py": ("test accuracy ", 90),
}

each_script = pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)


def run(script, directory):
    """Run a script somewhere else, so that it writes into the directory it was given and finds no other."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "MPLBACKEND": "agg"}
    command = [sys.executable, str(script), str(directory / "out")]
    directory.joinpath("elsewhere").mkdir()
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, cwd=directory / "elsewhere", timeout=300
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Run all scripts, two at a time, those that train first: most of the others' time is TensorFlow's import."""
    pool = ThreadPoolExecutor(2)
    longest_first = sorted(SCRIPTS, key=lambda script: script.name not in LEARNED)
    try:
        yield {script: pool.submit(run, script, tmp_path_factory.mktemp(script.stem)) for script in longest_first}
    finally:
        pool.shutdown(cancel_futures=True)  # those that nobody asked for, as under -k


def test_every_script_has_its_fragment():
    """The scripts that exist are those whose output is known, and there are some."""
    assert {script.name for script in SCRIPTS} == set(PRINTED)


@each_script
def test_script_is_short_and_documented(script):
    """An example has a module docstring, with the command that runs it, and fewer than 100 lines."""
    text = script.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 100
    assert f"python examples/{script.name} [output_dir]" in (ast.get_docstring(ast.parse(text)) or "")


@each_script
def test_script_runs(script, runs):
    """An example ends without an error or a warning, prints its fragment, and writes only where it is told to."""
    assert script.name in PRINTED, "add a fragment of its output to PRINTED"
    done = runs[script].result()
    assert done.returncode == 0, done.stdout + done.stderr
    assert PRINTED[script.name] in done.stdout
    assert not re.search(r"\w+Warning: |WARNING:tensorflow", done.stderr), done.stderr
    out = Path(done.args[-1])
    assert any(out.rglob("manifest.json"))
    assert not any((out.parent / "elsewhere").iterdir())


@pytest.mark.parametrize("name", LEARNED)
def test_network_learns(name, runs):
    """A network that an example trains is nearly always right, which neither guessing nor half of the input can be."""
    before, least = LEARNED[name]
    found = re.search(re.escape(before) + r"([\d.]+)%", runs[ROOT / "examples" / name].result().stdout)
    assert found
    assert float(found[1]) >= least
