"""A `fit` that was killed goes on where it stood."""

import contextlib
import errno
import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from faults import FailAt, names, record_calls

import seqrecorder as sr
from seqrecorder.storage.files import on_fault_point


@sr.record
class Series:
    x: Any = sr.feature_list("float32", shape=(2,))
    y: Any = sr.feature_list("float32")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("resume") / "data"
    random = np.random.default_rng(0)
    lengths = random.integers(1, 9, 45)
    sr.write((Series(random.normal(size=(n, 2)).astype("f4"), np.ones(n, "f4")) for n in lengths), path)
    return path


def read(data: Path, **options: Any) -> tf.data.Dataset:
    return sr.read(data, batch=sr.Pad(9), inputs="x", targets="y", **{"shuffle": 20, "seed": 5, **options})


def plain(size: int = 9) -> tf.data.Dataset:
    """Return a dataset that is made in a moment, and shuffled by `tf.data` itself."""
    keras.utils.set_random_seed(1)  # as `fit` does; the seed of `shuffle` is taken with that of the program
    x = np.random.default_rng(0).normal(size=(45, 2)).astype("f4")
    return tf.data.Dataset.from_tensor_slices((x, np.ones((45, 1), "f4"))).shuffle(20, seed=5).batch(size)


class StopAt(keras.callbacks.Callback):
    """Notes the losses of batches, and raises after some of them, or where an epoch ends or begins."""

    def __init__(self, place: Any = None) -> None:
        super().__init__()
        self.place, self.losses, self.epoch = place, {}, 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 - Keras passes it
        self.epoch = epoch
        if self.place == ("begin", epoch):
            raise KeyboardInterrupt

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.losses[self.epoch, batch] = logs["loss"]
        if self.place == (self.epoch, batch):
            raise KeyboardInterrupt

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 - the same
        if self.place == ("end", epoch):
            raise KeyboardInterrupt


def fit(
    train: Any, directory: Path | None, place: Any = None, *, epochs: int = 3, every: int = 2, **options: Any
) -> Any:
    """Return the losses of all batches, the history and the weights of a script; a part where it is interrupted."""
    keras.utils.set_random_seed(1)
    dense = keras.layers.Dense(1)
    layers = [keras.layers.Dropout(0.5), dense]  # no input: the model is built when it sees its first batch
    model = keras.Sequential(options.pop("layers", layers))
    model.compile(keras.optimizers.Adam(0.1), "mse", weighted_metrics=["mae"], run_eagerly=True)
    stop = StopAt(place)
    resume = [] if directory is None else [sr.keras.Resume(directory, every=every)]
    callbacks = [stop, *options.pop("callbacks", []), *resume]
    history = None
    with contextlib.suppress(KeyboardInterrupt):
        history = model.fit(train, epochs=epochs, verbose=0, shuffle=False, callbacks=callbacks, **options)
    weights = [np.asarray(weight).tolist() for weight in model.get_weights()]
    return stop.losses, history and (history.history, history.epoch), weights


def test_losses_go_on_as_if_nothing_had_happened(data: Path, tmp_path: Path) -> None:
    """Interrupted in an epoch, behind its last batch, and twice between two epochs; a state every two batches."""
    whole = fit(read(data), None)
    places = [(0, 1), (0, 4), ("end", 0), (1, 2), ("begin", 2), None]
    parts = [fit(read(data), tmp_path / "state", place) for place in places]
    assert [min(part[0], default=None) for part in parts] == [(0, 0), (0, 0), (0, 4), (0, 4), (1, 2), (1, 4)]
    for part in parts:
        assert part[0].items() <= whole[0].items()
    assert parts[-1][1:] == whole[1:]
    assert len(names(tmp_path / "state")) == 2


def test_one_iterator_over_all_epochs(tmp_path: Path) -> None:
    """With steps per epoch the place in a dataset without end is found, with validation between."""
    options = {"steps_per_epoch": 4, "validation_data": plain().take(1).cache(), "validation_freq": 2}
    whole = fit(plain().repeat(), None, **options)
    parts = [fit(plain().repeat(), tmp_path, place, **options) for place in [(1, 2), ("begin", 2), None]]
    for part in parts:
        assert part[0].items() <= whole[0].items()
    assert parts[-1][1:] == whole[1:]


@pytest.mark.nightly
def test_several_steps_at_a_time(tmp_path: Path) -> None:
    """The place is counted in batches where Keras runs several at a time."""

    def losses(place: Any, directory: Path | None) -> Any:
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse", steps_per_execution=2)
        stop, more = StopAt(place), [sr.keras.Resume(directory, every=2)] if directory else []
        with contextlib.suppress(KeyboardInterrupt):
            train = plain().repeat()
            model.fit(train, steps_per_epoch=6, epochs=2, verbose=0, shuffle=False, callbacks=[stop, *more])
        return stop.losses

    whole = losses(None, None)
    first, second = losses((1, 3), tmp_path), losses(None, tmp_path)
    assert {**first, **second} == whole
    assert min(second) == (1, 3)


@pytest.mark.filterwarnings("ignore:Resume. the place in the data cannot be saved:UserWarning")
def test_iterators_that_cannot_be_saved(tmp_path: Path) -> None:
    """They are run again up to their place, with a warning."""
    rows = [(np.full((2, 2), n, "f4"), np.ones((2, 1), "f4")) for n in range(7)]
    spec = tf.TensorSpec((2, 2)), tf.TensorSpec((2, 1))

    def make() -> Any:
        made = tf.data.Dataset.from_generator(lambda: iter(rows), output_signature=spec)
        return made.apply(tf.data.experimental.assert_cardinality(7)).shuffle(5, seed=3)

    whole = fit(make(), None)
    parts = [fit(make(), tmp_path, place) for place in [(1, 3), None]]
    assert min(parts[1][0]) == (1, 2)
    assert parts[1][0].items() <= whole[0].items()
    assert parts[1][1:] == whole[1:]
    with pytest.warns(UserWarning, match="cannot be saved .*exact where all that shuffles has a seed"):
        fit(make(), tmp_path / "more", (0, 2))


def test_a_training_that_has_ended_is_not_run_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its model and its history come back; with more epochs it goes on, unless none is left."""
    first = fit(plain(), tmp_path, epochs=2)
    with caplog.at_level(logging.WARNING, "seqrecorder"):
        again = fit(plain(), tmp_path, epochs=2)
    assert "has ended; remove it to train anew" in caplog.text
    assert again[0] == {}
    assert again[1:] == first[1:]
    more = fit(plain(), tmp_path, epochs=3)
    assert min(more[0]) == (2, 0)
    assert more[1:] == fit(plain(), None)[1:]


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:Your input ran out of data:UserWarning")  # Keras, where it did not know how many
def test_epochs_of_unknown_length(data: Path, tmp_path: Path) -> None:
    """An epoch that was killed behind its last batch has its metrics in the history."""

    def make() -> Any:
        return read(data).filter(lambda *_: True)

    whole = fit(make(), None, epochs=2)
    parts = [fit(make(), tmp_path, place, epochs=2, every=1) for place in [("end", 0), None]]
    assert parts[1][0].items() <= whole[0].items()
    assert min(parts[1][0]) == (1, 0)
    assert parts[1][1:] == whole[1:]


def test_weights_are_kept_for_other_data(tmp_path: Path) -> None:
    """With no epoch and the old number of batches, `fit` restores the weights and trains nothing, whatever the data."""

    def layers() -> list[Any]:
        return [keras.Input((2,)), keras.layers.Dense(1)]

    first = fit(plain(), tmp_path, epochs=1, layers=layers())
    with pytest.raises(sr.OptionError, match="5 batches"):
        fit(plain(15), tmp_path, epochs=2, layers=layers())
    kept = fit(plain(15), tmp_path, epochs=0, steps_per_epoch=5, layers=layers())
    assert (kept[0], kept[2]) == ({}, first[2])


def test_early_stopping_is_an_end(tmp_path: Path) -> None:
    """What another callback has stopped is not gone on with, and its best weights are kept."""
    stopping = [keras.callbacks.EarlyStopping("loss", min_delta=9, patience=1, restore_best_weights=True)]
    first = fit(plain(), tmp_path, callbacks=stopping)
    assert first[1][1] == [0, 1]
    again = fit(plain(), tmp_path)
    assert again[0] == {}
    assert again[1:] == first[1:]


def test_the_order_of_callbacks_does_not_matter(tmp_path: Path) -> None:
    """What a callback behind does at the end, such as to bring the best weights back, is in the state."""

    class Zeros(keras.callbacks.Callback):
        def on_train_end(self, logs: Any = None) -> None:  # noqa: ARG002 - Keras passes it
            self.model.set_weights([np.zeros_like(weight) for weight in self.model.get_weights()])

    def weights(*callbacks: Any) -> list[Any]:
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse", run_eagerly=True)
        model.fit(plain(), verbose=0, shuffle=False, callbacks=[sr.keras.Resume(tmp_path), *callbacks])
        return model.get_weights()

    weights(Zeros())
    assert not any(weight.any() for weight in weights())


def test_what_is_not_saved_leaves_the_last_state(tmp_path: Path) -> None:
    """A disk that is full at any operation stops `fit`, with the states before it whole and nothing unfinished read."""
    fit(plain(), tmp_path / "state", (0, 2))
    calls = record_calls(lambda: fit(plain(), tmp_path / "state", (0, 4)))
    whole = fit(plain(), None)
    assert len(calls) > 15
    for number in range(1, len(calls) + 1, 6):
        with pytest.raises(sr.ShardWriteError), on_fault_point(FailAt(number, OSError(errno.ENOSPC, "full"))):
            fit(plain(), tmp_path / "state")
    last = fit(plain(), tmp_path / "state")
    assert last[0].items() <= whole[0].items()
    assert last[1:] == whole[1:]
    assert len(names(tmp_path / "state")) == 2


def test_states_of_others_are_refused(tmp_path: Path) -> None:
    """Another model, other batches and a damaged state are errors that say what to do; nothing is trained."""
    fit(plain(), tmp_path, (1, 0))
    with pytest.raises(sr.OptionError, match=r"another model.* has 13 variables, and this one"):
        fit(plain(), tmp_path, layers=[keras.layers.Dense(1)])
    with pytest.raises(sr.OptionError, match=r"another model: .* the first that differs is .*kernel \(2, 1\)"):
        fit(plain(), tmp_path, layers=[keras.layers.Dropout(0.5), keras.layers.Dense(3)])
    with pytest.raises(sr.OptionError, match="an epoch had 5 batches, and now it has 45"):
        fit(plain(1), tmp_path)
    last = max(tmp_path.iterdir())
    for file in sorted(last.iterdir()):
        whole = file.read_bytes()
        for changed in (whole[:-1], whole[: len(whole) // 2], bytes([whole[0] ^ 1]) + whole[1:], whole + b" ", b""):
            if file.name == "state.json" and changed == whole + b" ":
                continue  # which is the same JSON
            file.write_bytes(changed)
            with pytest.raises(
                sr.OptionError, match=rf"state-\d+ cannot be read .*{'' if '.json' in file.name else file.name}"
            ):
                fit(plain(), tmp_path)
        file.write_bytes(whole)
    (last / "state.json").write_text(json.dumps({"format": 2}))
    with pytest.raises(sr.OptionError, match="saved by another version of seqrecorder"):
        fit(plain(), tmp_path)
    (last / "variables.npz").write_bytes(b"")
    (last / "state.json").write_text("{")
    with pytest.raises(sr.OptionError, match=r"state-\d+ cannot be read .*; remove it to go on from the state before"):
        fit(plain(), tmp_path)


def test_a_position_in_another_pipeline_is_refused(data: Path, tmp_path: Path) -> None:
    """A state is refused by data in another order or of another shape, with an error that says so."""
    fit(read(data), tmp_path, (0, 2))
    longer = sr.read(data, batch=sr.Pad(9, length=12), inputs="x", targets="y", shuffle=20, seed=5)
    for other in (read(data, shuffle=0), longer):
        with pytest.raises(sr.OptionError, match=r"state-\d+/iterator is of other data, or it changed: pass"):
            fit(other, tmp_path)


@pytest.mark.parametrize("options", [{"every": 0}, {"keep": 0}, {"every": 1.5}, {"keep": True}], ids=str)
def test_options_that_make_no_sense(tmp_path: Path, options: dict[str, Any]) -> None:
    """Both are whole numbers of 1 or more."""
    with pytest.raises(sr.OptionError, match="expected a local path, got a gs URL"):
        sr.keras.Resume("gs://bucket/states")
    with pytest.raises(sr.OptionError, match="expected an int of 1 or more"):
        sr.keras.Resume(tmp_path, **options)


def test_a_fit_has_one_resume(tmp_path: Path) -> None:
    """A second `Resume` in a `fit` is refused before anything is trained or saved."""
    with pytest.raises(sr.OptionError, match="expected one Resume among the callbacks of a fit, got several"):
        fit(plain(), tmp_path / "one", callbacks=[sr.keras.Resume(tmp_path / "other")])
    assert not names(tmp_path)


def test_only_fit_has_batches(tmp_path: Path) -> None:
    """Called by something else than `fit`, the callback says so."""
    with pytest.raises(sr.OptionError, match="a callback of `Model.fit`"):
        sr.keras.Resume(tmp_path).on_train_begin()


KILLED = """
import json, os, signal, sys
from pathlib import Path
import keras, numpy as np, tensorflow as tf  # imported once for all children; this process starts no threads of them
import seqrecorder as sr
from seqrecorder.storage.files import on_fault_point

data, root = map(Path, sys.argv[1:])

def die():
    os.kill(os.getpid(), signal.SIGKILL)

class Log(keras.callbacks.Callback):
    def __init__(self, file, place):
        super().__init__()
        self.file, self.place = file, place
    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch
    def on_train_batch_end(self, batch, logs=None):
        with self.file.open("a") as file:
            print(json.dumps([self.epoch, batch, logs["loss"], logs["mae"]]), file=file)
        if self.place == [self.epoch, batch]:
            die()
    def on_epoch_end(self, epoch, logs=None):
        if self.place == ["end", epoch]:
            die()

def script(name, place):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dropout(0.5), keras.layers.Dense(1)])
    model.compile("adam", "mse", weighted_metrics=["mae"])
    train = sr.read(data, batch=sr.Pad(9), shuffle=20, seed=5, inputs="x", targets="y")
    callbacks = [Log(root / f"{name}.log", place), sr.keras.Resume(root / name, every=2, keep=1)]
    saving = []
    def kill_while_saving(point, path):
        saving.append(point)
        if place == ["saving", len(saving)]:
            die()
    with on_fault_point(kill_while_saving):
        history = model.fit(train, epochs=2, verbose=0, shuffle=False, callbacks=callbacks)
    (root / f"{name}.json").write_text(json.dumps([history.history, *map(np.ndarray.tolist, model.get_weights())]))

def run(name, place=None):
    child = os.fork()
    if child == 0:
        script(name, place)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

print(run("whole"), *[run("killed", place) for place in json.loads(os.environ["PLACES"])])
"""


def killed(warm_python: Any, data: Path, tmp_path: Path, places: list[Any]) -> list[int]:
    """Return the exit codes of a run and of one that is killed at each place, after comparing both."""
    environment = {**os.environ, "PLACES": json.dumps([*places, None])}
    done = warm_python.run([sys.executable, "-c", KILLED, data, tmp_path], env=environment, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    logs = [[json.loads(line) for line in (tmp_path / f"{name}.log").read_text().splitlines()] for name in RUNS]
    whole, other = ({(epoch, batch): values for epoch, batch, *values in log} for log in logs)
    assert len(whole) == 10
    assert other == whole
    assert (tmp_path / "whole.json").read_text() == (tmp_path / "killed.json").read_text()
    assert len(names(tmp_path / "killed")) == 1
    return [int(code) for code in done.stdout.split()]


RUNS = ("whole", "killed")


def test_killed_for_good(warm_python: Any, data: Path, tmp_path: Path) -> None:
    """SIGKILL in an epoch, while a state is saved, and between epochs: losses and metrics of every batch are equal."""
    assert killed(warm_python, data, tmp_path, [[0, 2], ["saving", 9], ["end", 0]]) == [0, -9, -9, -9, 0]


@pytest.mark.nightly
def test_killed_while_saving(warm_python: Any, data: Path, tmp_path: Path) -> None:
    """SIGKILL at operations on files all through the saving of states."""
    places = [["saving", number] for number in range(1, 50, 3)]
    assert killed(warm_python, data, tmp_path, places)[1] == -9


TUTORIAL = """
import itertools, json, os, re, signal, sys
from pathlib import Path
import keras, numpy as np, tensorflow as tf
import seqrecorder as sr

page, root = map(Path, sys.argv[1:])
code = chr(10).join(re.findall(r"^```python\\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL))
fit, write, fits = keras.Model.fit, sr.write, itertools.count()

class Log(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch
    def on_train_batch_end(self, batch, logs=None):
        with open("log", "a") as file:
            print(json.dumps([self.epoch, batch, logs["loss"]]), file=file)
        if kill and (self.epoch, batch) == (1, 3):
            os.kill(os.getpid(), signal.SIGKILL)

def fit_and_log(self, *args, callbacks=(), **options):
    resumes = any(isinstance(callback, sr.keras.Resume) for callback in callbacks)
    more = [] if resumes else [sr.keras.Resume(f"state{next(fits)}", every=5)]
    return fit(self, *args, callbacks=[Log(), *callbacks, *more], **options)

keras.Model.fit = fit_and_log
# Pages that write their data each time are spared a second time, as a script would.
sr.write = lambda records, path, **options: None if Path(path).exists() else write(records, path, **options)

for name, kill in (("whole", False), ("killed", True), ("killed", False)):
    (root / name).mkdir(exist_ok=True)
    child = os.fork()
    if child == 0:
        os.chdir(root / name)
        exec(compile(code, page.name, "exec"), {"__name__": "tutorial"})
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=sys.stderr)
"""


@pytest.mark.nightly
@pytest.mark.parametrize("page", ["forecasting", "language_model", "translation"])
def test_tutorials_go_on(page: str, tmp_path: Path) -> None:
    """Each tutorial of the guide, killed once in its second epoch, has the losses of the run that was not killed."""
    text = Path(__file__).parents[2] / "examples" / "guide" / f"{page}.md"
    command = [sys.executable, "-c", TUTORIAL, str(text), str(tmp_path)]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True, text=True)
    assert [int(line) for line in done.stderr.splitlines() if re.fullmatch(r"-?[0-9]+", line)] == [0, -9, 0]
    logs = [[json.loads(line) for line in (tmp_path / name / "log").read_text().splitlines()] for name in RUNS]
    whole, other = ({(epoch, batch): loss for epoch, batch, loss in log} for log in logs)
    assert other == whole
    assert len(logs[1]) <= len(logs[0]) + 4  # it went on in the epoch in which it was killed, or at its start


ELSEWHERE = """
import json, os, sys
from pathlib import Path
import keras, numpy as np, seqrecorder as sr
assert keras.backend.backend() == os.environ["KERAS_BACKEND"]
data, root = map(Path, sys.argv[1:])

class Log(keras.callbacks.Callback):
    def __init__(self, place):
        super().__init__()
        self.place, self.losses = place, {}
    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch
    def on_train_batch_end(self, batch, logs=None):
        self.losses[self.epoch, batch] = float(logs["loss"])
        if self.place == (self.epoch, batch):
            raise KeyboardInterrupt

def script(name, place=None):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dropout(0.5, seed=3), keras.layers.Dense(1)])
    model.compile("adam", "mse", weighted_metrics=["mae"])
    pad = sr.Pad(9, length=8, drop_remainder=True)
    train = sr.read(data, batch=pad, shuffle=20, seed=5, inputs="x", targets="y")
    log, history = Log(place), None
    try:
        callbacks = [log, sr.keras.Resume(root / name, every=2)]
        history = model.fit(train, epochs=2, verbose=0, shuffle=False, callbacks=callbacks).history
    except KeyboardInterrupt:
        pass
    return log.losses, history, [np.asarray(weight).tolist() for weight in model.get_weights()]

whole = script("whole")
first, second, third = script("killed", (0, 2)), script("killed", (1, 3)), script("killed")
assert (min(second[0]), min(third[0])) == ((0, 2), (1, 2))
assert {**first[0], **second[0], **third[0]} == whole[0]
assert third[1:] == whole[1:]
print("equal")
"""


@pytest.mark.nightly
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_goes_on_with_other_backends(data: Path, tmp_path: Path, backend: str) -> None:
    """Where Keras runs on JAX or PyTorch, if installed, losses, history and weights go on as with TensorFlow."""
    pytest.importorskip(backend, reason=f"Keras' backend needs {backend}")
    environment = {**os.environ, "KERAS_BACKEND": backend}
    command = [sys.executable, "-c", ELSEWHERE, str(data), str(tmp_path)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    assert done.stdout == "equal\n"
