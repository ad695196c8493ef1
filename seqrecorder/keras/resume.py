"""Resumable training: `Resume` saves the state of `fit` and restores it after a restart."""

from __future__ import annotations

import inspect
import io
import itertools
import json
import logging
import shutil
import warnings
from typing import TYPE_CHECKING, Any

import attrs
import keras
import numpy as np

from seqrecorder.errors import OptionError, check_count
from seqrecorder.storage.files import (
    faults_around,
    local_path,
    sealed,
    sha256,
    sync_directory,
    sync_tree,
    unsealed,
    write_file,
    writing,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator
    from pathlib import Path


_FORMAT = 1
_PREFIX = "state-"
_UNFINISHED = ".unfinished-"
_ABOUT = "state.json"
_VARIABLES = "variables.npz"


@attrs.frozen
class TrainingState:
    """State of a training run.

    Attributes:
        epoch: number of the current epoch, from 0.
        batch: number of completed batches in this epoch.
        first_epoch: number of the first epoch of the training run.
        taken: number of batches taken from the current iterator; 0 if the epoch starts with a new iterator.
        batches: number of batches per epoch; None if Keras does not know it.
        finished: requested number of epochs if the training has ended; otherwise None.
        history: mapping from each metric to its values, one per epoch.
        history_epochs: numbers of the epochs in `history`.
        variables: names, shapes and dtypes of the variables, in order.
    """

    epoch: int
    batch: int
    first_epoch: int
    taken: int
    batches: int | None
    finished: int | None
    history: dict[str, list[float]]
    history_epochs: list[int]
    variables: list[Any]


class SavedStates:
    """Directory of the last saved states.

    Each state is a subdirectory that is written under a temporary name, synced, and then renamed.
    """

    def __init__(self, directory: Path, keep: int) -> None:
        self.directory, self.keep = directory, keep

    def save(self, state: TrainingState, values: list[Any], more: Callable[[Path], None]) -> None:
        """Write a state, and remove the oldest states.

        The last `keep` states remain.

        Args:
            state: the state, stored as JSON.
            values: arrays with the values of `state.variables`, in the same order.
            more: function that writes additional files; it is called with the directory of the state.

        Raises:
            ShardWriteError: the state cannot be written, for example because the disk is full. Earlier states remain.
        """
        saved = self._saved()
        number = int(saved[-1].name.removeprefix(_PREFIX)) + 1 if saved else 0
        path = self.directory / f"{_PREFIX}{number:06d}"
        unfinished = self.directory / f"{_UNFINISHED}{number:06d}"
        with writing("make", self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
            for left in self.directory.glob(f"{_UNFINISHED}*"):  # a killed process left them
                shutil.rmtree(left)
            unfinished.mkdir()
        buffer = io.BytesIO()
        np.savez(buffer, *(value.reshape(-1).view(np.uint8) for value in map(np.ascontiguousarray, values)))
        write_file(unfinished / _VARIABLES, buffer.getvalue())
        more(unfinished)
        files = {file.name: sha256(file) for file in sorted(unfinished.iterdir())}
        about = sealed({"format": _FORMAT, **attrs.asdict(state), "files": files})
        write_file(unfinished / _ABOUT, json.dumps(about).encode())
        sync_tree(unfinished)
        with writing("rename", path), faults_around("rename", path):
            unfinished.rename(path)
        sync_directory(self.directory)
        for old in [*saved, path][: -self.keep]:
            with writing("remove", old), faults_around("remove", old):
                shutil.rmtree(old.rename(self.directory / f"{_UNFINISHED}{old.name}"))

    def last(self) -> tuple[TrainingState, list[Any], Path] | None:
        """Load the last state.

        The result consists of the state, the arrays of its variables, and its directory. It is None if there is no
        state.

        Raises:
            OptionError: the state is damaged, or was saved by another version of seqrecorder.
        """
        saved = self._saved()
        if not saved:
            return None
        import ml_dtypes

        path = saved[-1]
        try:
            about = json.loads((path / _ABOUT).read_bytes())
            if about["format"] != _FORMAT:
                raise ValueError("it was saved by another version of seqrecorder, which reads it")
            about = unsealed(about)
            for name, digest in about.pop("files").items():
                if sha256(path / name) != digest:
                    raise ValueError(f"{name} was changed, or cut")
            state = TrainingState(**{name: value for name, value in about.items() if name != "format"})
            with np.load(path / _VARIABLES, allow_pickle=False) as stored:
                raw = [stored[name] for name in stored.files]
            values = [
                flat.view(np.dtype(getattr(ml_dtypes, dtype, dtype))).reshape(shape)
                for flat, (_, shape, dtype) in zip(raw, state.variables, strict=True)
            ]
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise OptionError(
                f"Resume: {path} cannot be read ({type(error).__name__}: {error}); remove it to go on from the state "
                "before it"
            ) from error
        return state, values, path

    def _saved(self) -> list[Path]:
        paths = self.directory.glob(f"{_PREFIX}*") if self.directory.is_dir() else []
        numbers = {path: path.name.removeprefix(_PREFIX) for path in paths}
        return sorted((path for path, number in numbers.items() if number.isdecimal()), key=lambda p: int(numbers[p]))


_LOGGER = logging.getLogger("seqrecorder")

_STEPS = ("_enumerate_iterator", "enumerate_epoch")
"""Names of the method of Keras' epoch iterator that yields the steps: the current name, and that of Keras 3.5."""

_ITERATOR = "iterator"
_ELEMENTS = f"{_ITERATOR}.elements"


class Resume(keras.callbacks.Callback):  # type: ignore[misc]  # Keras ships no types
    """Keras callback that saves the training state during `fit`, so that rerunning the script resumes where it stopped.

    The state contains all variables of the model (weights, seeds of layers such as `Dropout`, states of `Unrolled`),
    the optimizer and the metrics, the history, and the position in the data. A run that was interrupted therefore gets
    the same batches as one that was not. Its losses and metrics are the same bit for bit if floating-point operations
    on the machine are deterministic.

    >>> import tempfile, keras, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Series:
    ...     x: np.ndarray = sr.feature_list("float32", shape=(1,))
    >>> data, directory = tempfile.mkdtemp(), tempfile.mkdtemp()
    >>> _ = sr.write([Series(np.full((n, 1), n, "float32")) for n in (3, 1, 2)], data)
    >>> def script(epochs):
    ...     model = keras.Sequential([keras.Input((None, 1)), keras.layers.Dense(1)])
    ...     model.compile(loss="mse")
    ...     train = sr.read(data, batch=sr.Pad(2), shuffle=3, seed=0, inputs="x", targets="x")
    ...     resume = sr.keras.Resume(directory, every=100)
    ...     return model.fit(train, epochs=epochs, shuffle=False, verbose=0, callbacks=[resume]).history["loss"]
    >>> first = script(2)
    >>> longer = script(3)
    >>> longer[:2] == first, len(longer)
    (True, 3)

    A finished training run is not repeated: its model and history are restored. Remove the directory to train again.

    The iterator is saved with `tf.train.Checkpoint`, together with up to `shuffle` records that it holds. Later epochs
    take their order from the seed, so seed every shuffle, including any `tf.data.Dataset.shuffle`. Iterators of
    `prefetch_to_device`, `from_generator` or `tf.distribute` cannot be saved: a warning is issued, and they are
    replayed up to their position. Unless Keras' backend is TensorFlow, all iterators are replayed.

    Other callbacks are not saved: `EarlyStopping` and `ReduceLROnPlateau` start counting again, and
    `ModelCheckpoint(save_best_only=True)` forgets the best value (see its `initial_value_threshold`). `Resume` can be
    anywhere in the list of callbacks.

    Some random states are not saved either: those of Python, of numpy, of stateful operations in `map` and, on PyTorch,
    of `Dropout` layers without `seed=`.

    Args:
        directory: directory (not a URL) for the states of this `fit` only; it is created if missing.
        every: number of batches between states. Another state is saved at the start of each epoch.
        keep: number of states to keep.

    Raises:
        OptionError: an option is invalid; in `fit`: the state belongs to another model or another pipeline, the number
            of batches in an epoch has changed, or there is another `Resume`.
        ShardWriteError: in `fit`: a state cannot be written. Earlier states remain.
    """

    def __init__(self, directory: str | os.PathLike[str], *, every: int = 1000, keep: int = 2) -> None:
        super().__init__()
        for name, value in (("every", every), ("keep", keep)):
            check_count(f"Resume: {name}", value)
        self.directory, self.every = local_path(directory), every
        self._states = SavedStates(self.directory, keep)

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002 - Keras passes `logs`, also below
        """Restore the model and the data from the last state."""
        self._data, self._others = _fit_locals()
        if sum(isinstance(callback, Resume) for callback in self._others.callbacks) > 1:
            raise OptionError("Resume: expected one Resume among the callbacks of a fit, got several")
        # Run last, when all other callbacks have finished.
        self._last = keras.callbacks.LambdaCallback(on_train_end=lambda logs: self._end())  # noqa: ARG005
        self._others.callbacks.append(self._last)
        self._steps = next(name for name in _STEPS if hasattr(self._data, name))
        self._new_steps: Callable[[], Iterator[Any]] = getattr(self._data, self._steps)
        setattr(self._data, self._steps, self._run_epoch)
        self._progress = _Progress()
        self._since = 0
        self._iterator: Any = None
        self._can_save_iterator = keras.backend.backend() == "tensorflow"
        self._prepared: Iterator[Any] | None = None
        self._restored: TrainingState | None = None
        self._metrics: list[tuple[Any, Any]] = []
        self._unseen_logs: dict[str, Any] = {}
        if saved := self._states.last():
            self._restore(*saved)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Restore the history and the metrics, after Keras has reset the metrics."""
        if self._progress.first_epoch is None:
            self._progress.first_epoch = epoch
        self._progress.epoch = epoch
        self._finish_restoring()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Add the restored metrics to the logs of the epoch.

        Keras has no metrics to log if no batch of the epoch was left to run.
        """
        for name, value in self._unseen_logs.items():
            logs.setdefault(name, float(value))
        self._unseen_logs = {}

    def _end(self) -> None:
        """Save the final state after all other callbacks have ended."""
        self._others.callbacks.remove(self._last)
        setattr(self._data, self._steps, self._new_steps)
        if self._restored is not None:  # no epoch was left to run
            self._finish_restoring()
            return
        self._progress.epoch, self._progress.batch = self._progress.epoch + 1, 0
        if not self._data.steps_per_epoch or self._data._current_iterator is not self._iterator:  # noqa: SLF001
            self._progress.taken = 0  # the next epoch would start a new iterator
        self._save(finished=self.params["epochs"])

    # Saving

    def _run_epoch(self) -> Iterator[Any]:
        """Yield the steps of an epoch as Keras does.

        States are saved between the steps.
        """
        progress, goes_on = self._progress, self._prepared is not None
        steps, self._prepared = self._prepared or self._new_steps(), None
        progress.batch = progress.batch if goes_on else 0
        for step in steps:
            self._follow(step[-1])
            if progress.batch == 0 and progress.epoch != progress.first_epoch and not goes_on:
                self._save()  # by now, other callbacks have finished the previous epoch
            yield step
            executed = self._data.steps_per_execution
            progress.batch += executed
            progress.taken += executed
            self._since += executed
            # After the last batch of an epoch, the start of the next epoch saves the state instead.
            if self._since >= self.every and progress.batch != self._data.num_batches:
                self._save()

    def _follow(self, iterator: Any) -> bool:
        """Remember the iterator that Keras uses now.

        The result is True if the iterator is new. No batches have been taken from a new iterator yet.
        """
        if iterator is self._iterator:
            return False
        self._iterator, self._progress.taken = iterator, 0
        return True

    def _save(self, *, finished: int | None = None) -> None:
        variables = _variables(self.model)
        values = [np.asarray(variable) for variable in variables]
        history = self.model.history
        state = TrainingState(
            self._progress.epoch,
            self._progress.batch,
            self._progress.first_epoch or 0,
            self._progress.taken,
            self._data.num_batches,
            finished,
            {name: [float(value) for value in series] for name, series in history.history.items()},
            list(history.epoch),
            [(v.path, list(value.shape), value.dtype.name) for v, value in zip(variables, values, strict=True)],
        )
        self._states.save(state, values, self._save_iterator)
        self._since = 0

    def _save_iterator(self, directory: Path) -> None:
        if not self._progress.taken or not self._can_save_iterator:
            return
        import tensorflow as tf

        try:
            tf.train.Checkpoint(iterator=self._iterator).write(str(directory / _ITERATOR))
            write_file(directory / _ELEMENTS, repr(self._iterator.element_spec).encode())
        except (tf.errors.OpError, ValueError, TypeError, NotImplementedError) as error:
            self._can_save_iterator = False
            for file in directory.glob(f"{_ITERATOR}*"):
                file.unlink()
            reason = str(error).partition("\n")[0]
            warnings.warn(
                f"Resume: the place in the data cannot be saved ({reason}). A run that goes on reads the data again up "
                "to there, which is exact where all that shuffles has a seed.",
                stacklevel=2,
            )

    # Restoring

    def _restore(self, state: TrainingState, values: list[Any], directory: Path) -> None:
        """Restore the data and the model from a state.

        The data comes first, because a batch of it may be needed to build the model. The values of the metrics and the
        history are restored later, when the epoch begins.
        """
        asked = self.params["epochs"]
        ended = asked <= (state.epoch if state.finished is None else state.finished)
        if ended:
            _LOGGER.warning("Resume: the training in %s has ended; remove it to train anew", self.directory)
        else:
            _LOGGER.info("Resume: %s: epoch %d, batch %d", directory, state.epoch, state.batch)
        now = self._data.num_batches
        if None not in (state.batches, now) and state.batches != now:
            raise OptionError(
                f"Resume: {directory} was saved when an epoch had {state.batches:,} batches, and now it has {now:,}: "
                "pass the same data and batches, or another directory"
            )
        self._assign(state, values, None if ended else self._go_to(state, directory), directory)
        self._progress = _Progress(state.epoch, state.batch, state.first_epoch, self._progress.taken)
        self._restored = state
        # There is no public API; `keras.callbacks.BackupAndRestore` does the same.
        self.model._initial_epoch = asked if ended else state.epoch  # noqa: SLF001

    def _go_to(self, state: TrainingState, directory: Path) -> Any:
        """Advance the data to the step at which training continues.

        If this reads batches, one of them is returned, so that the model can be built from it. Otherwise, the result is
        None.
        """
        seen = None
        # Create the iterators of the earlier epochs, too, because each one draws the order of its epoch.
        for _ in range(state.first_epoch, state.epoch):
            for step in self._new_steps():
                if self._follow(step[-1]):
                    seen = self._take()
                if self._data.num_batches is None:
                    break
        steps = self._new_steps()
        first = next(steps)
        self._follow(first[-1])
        if state.taken:
            seen = self._take() if self._progress.taken < state.taken else seen
            self._take_up_to(state.taken, directory / _ITERATOR)
        done = state.batch // self._data.steps_per_execution
        self._prepared = itertools.islice(itertools.chain([first], steps), done, None)
        return seen

    def _take(self) -> Any:
        self._progress.taken += 1
        return next(self._iterator)

    def _take_up_to(self, taken: int, saved: Path) -> None:
        if saved.with_name(f"{_ITERATOR}.index").exists() and self._can_save_iterator:
            import tensorflow as tf

            try:
                if saved.with_name(_ELEMENTS).read_bytes() != repr(self._iterator.element_spec).encode():
                    raise ValueError("the restored iterator would yield other elements, an error of TensorFlow")
                tf.train.Checkpoint(iterator=self._iterator).read(str(saved)).assert_consumed()
            except (OSError, tf.errors.OpError, ValueError, AssertionError) as error:
                raise OptionError(f"Resume: {saved} is of other data, or it changed: pass another directory") from error
            self._progress.taken = taken
        while self._progress.taken < taken:
            self._take()

    def _assign(self, state: TrainingState, values: list[Any], seen: Any, directory: Path) -> None:
        model = self.model
        if len(_variables(model)) != len(values):
            _build(model, next(next(self._new_steps())[-1]) if seen is None else seen)
        variables = _variables(model)
        shapes = [tuple(variable.shape) for variable in variables]
        if shapes != [value.shape for value in values]:
            different = [
                f"{path} {tuple(shape)}"
                for (path, shape, _), own in itertools.zip_longest(state.variables, shapes, fillvalue=("", (), ""))
                if tuple(shape) != own
            ]
            raise OptionError(
                f"Resume: {directory} is of another model: it has {len(values)} variables, and this one "
                f"{len(variables)}; the first that differs is {different[0]}; pass the same model, or another directory"
            )
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)
        self._metrics = list(zip(variables, values, strict=True))[len(variables) - len(model.metrics_variables) :]

    def _finish_restoring(self) -> None:
        if self._restored is None:
            return
        for variable, value in self._metrics if self._restored.batch else ():
            variable.assign(value)
        self._unseen_logs = self.model.get_metrics_result() if self._restored.batch else {}
        history = self.model.history
        history.history.update({name: list(values) for name, values in self._restored.history.items()})
        history.epoch[:] = self._restored.history_epochs
        self.model._initial_epoch = None  # noqa: SLF001 - the next `fit` has its own `initial_epoch`
        self._restored = None


@attrs.define
class _Progress:
    """Position of a training run.

    The attributes have the same meaning as those of `TrainingState`. `first_epoch` is None before the first epoch
    begins.
    """

    epoch: int = 0
    batch: int = 0
    first_epoch: int | None = None
    taken: int = 0


def _fit_locals() -> tuple[Any, Any]:
    """Find the epoch iterator and the callbacks of the `fit` that is running.

    They are taken from its local variables, because Keras has no API for them.
    """
    frame = inspect.currentframe()
    while frame is not None:
        iterator, callbacks = (frame.f_locals.get(name) for name in ("epoch_iterator", "callbacks"))
        if any(hasattr(iterator, name) for name in _STEPS) and isinstance(callbacks, keras.callbacks.CallbackList):
            return iterator, callbacks
        frame = frame.f_back
    raise OptionError(f"Resume: found no data in `fit` of Keras {keras.version()}; Resume is a callback of `Model.fit`")


def _variables(model: Any) -> list[Any]:
    """List all variables of a model and its optimizer, followed by the variables of its metrics."""
    if model.optimizer is not None and model.built and not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    metrics = model.metrics_variables
    of_metrics = {id(variable) for variable in metrics}
    others = [*model.variables, *(model.optimizer.variables if model.optimizer is not None else ())]
    unique = {id(variable): variable for variable in others if id(variable) not in of_metrics}
    return [*unique.values(), *metrics]


def _build(model: Any, batch: Any) -> None:
    """Run a model, its losses and its metrics on one batch, so that they create their variables."""
    x, y, weights = keras.utils.unpack_x_y_sample_weight(batch)
    outputs = model(x)
    model.compute_loss(x, y, outputs, weights)
    model.compute_metrics(x, y, outputs, weights)
