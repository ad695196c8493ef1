"""The tutorials of the guide, killed while they train and started again, end as if nothing had happened."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

GUIDE = Path(__file__).parents[2] / "examples" / "guide"

# Runs a page's blocks up to its training, as a reader's script, in the directory where it is started. A dataset is
# written once: a run that is resumed reads what the one before it has written.
SCRIPT = """
import json, os, re, signal, sys
from pathlib import Path
import keras
import seqrecorder as sr

page, kill_at = Path(sys.argv[1]), int(sys.argv[2])

class Kill(keras.callbacks.Callback):
    batches = 0
    def on_train_batch_end(self, batch, logs=None):
        Kill.batches += 1
        if Kill.batches == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

fit, write = keras.Model.fit, sr.write
def fit_and_kill(self, *args, callbacks, **options):
    return fit(self, *args, callbacks=[*callbacks, Kill()], **options)
def write_once(records, path, **options):
    if not Path(path).exists():
        write(records, path, **options)
keras.Model.fit, sr.write = fit_and_kill, write_once
names = {"__name__": page.stem}
for code in re.findall(r"^```python\\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
    exec(compile(code, page.name, "exec"), names)
    if "history" in names:
        break
print(json.dumps({"history": names["history"], "batches": Kill.batches}))
"""


def run(page: str, directory: Path, kill_at: int) -> Any:
    """Return what a tutorial says when it has ended; None where it was killed after so many batches."""
    directory.mkdir(exist_ok=True)
    command = [sys.executable, "-c", SCRIPT, str(GUIDE / f"{page}.md"), str(kill_at)]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == (-signal.SIGKILL if kill_at else 0), done.stderr
    return None if kill_at else json.loads(done.stdout.splitlines()[-1])


@pytest.mark.nightly
@pytest.mark.parametrize("page", ["language_model", "translation"])
def test_a_tutorial_that_was_killed_goes_on(page: str, tmp_path: Path) -> None:
    """Killed in its second epoch, it trains the rest of the batches, and its history is that of an undisturbed run."""
    whole = run(page, tmp_path / "whole", 0)
    epochs = len(whole["history"]["loss"])
    per_epoch = whole["batches"] // epochs
    run(page, tmp_path / "killed", per_epoch + per_epoch // 2)
    rest = run(page, tmp_path / "killed", 0)
    assert rest["batches"] < whole["batches"]
    assert rest["history"].keys() == whole["history"].keys()
    for name, values in whole["history"].items():
        np.testing.assert_allclose(rest["history"][name], values, rtol=1e-4, err_msg=name)
