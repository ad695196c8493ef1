"""Training that goes on: `Resume` where a `fit` was killed, `Unrolled` from one segment of a record to the next."""

from __future__ import annotations

import inspect
import io
import itertools
import json
import logging
import shutil
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import keras
import numpy as np

from seqrecorder.errors import OptionError
from seqrecorder.storage.files import (
    faults_around,
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
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray


_FORMAT = 1
_PREFIX = "state-"
_UNFINISHED = ".unfinished-"
_ABOUT = "state.json"
_VARIABLES = "variables.npz"


@attrs.frozen
class TrainingState:
    """State of a training.

    Attributes:
        epoch: that is running, from 0 on.
        batch: batches of it that are done.
        first_epoch: the one that the training started with.
        taken: batches taken from the iterator that is running; 0 where the epoch starts with a new one.
        batches: of an epoch; None where Keras does not know.
        finished: the epochs that were asked for, where the training has ended; else None.
        history: of Keras, by metric; and the epochs that it is of.
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
    """Directory of saved states, which keeps the last ones.

    A state is a directory of its own, written beside the others under a name that nobody reads, synced, and renamed.
    """

    def __init__(self, directory: str | os.PathLike[str], keep: int) -> None:
        self.directory, self.keep = Path(directory), keep

    def save(self, state: TrainingState, values: list[Any], more: Callable[[Path], None]) -> None:
        """Write a state, then remove those that are not kept.

        Args:
            state: what is written as JSON.
            values: arrays, one for each of its variables.
            more: writes further files into a directory.

        Raises:
            ShardWriteError: the disk is full or cannot be written; the states that were there still are.
        """
        saved = self._saved()
        number = int(saved[-1].name.removeprefix(_PREFIX)) + 1 if saved else 0
        path = self.directory / f"{_PREFIX}{number:06d}"
        unfinished = self.directory / f"{_UNFINISHED}{number:06d}"
        with writing("make", self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
            self._clean()
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
                removed = old.rename(self.directory / f"{_UNFINISHED}{old.name}")
                shutil.rmtree(removed)

    def last(self) -> tuple[TrainingState, list[Any], Path] | None:
        """Return the last state, the arrays of its variables and its directory; None where there is no state.

        Raises:
            OptionError: it is damaged, or of a newer version.
        """
        saved = self._saved()
        if not saved:
            return None
        path = saved[-1]
        try:
            about = json.loads((path / _ABOUT).read_bytes())
            if about["format"] != _FORMAT:
                raise OptionError(f"Resume: {path} was saved by another version of seqrecorder; read it with that one")
            about = unsealed(about)
            for name, digest in about.pop("files").items():
                if sha256(path / name) != digest:
                    raise ValueError(f"{name} was changed, or cut")
            state = TrainingState(**{name: value for name, value in about.items() if name != "format"})
            with np.load(path / _VARIABLES, allow_pickle=False) as stored:
                raw = [stored[name] for name in stored.files]
            values = [
                flat.view(_dtype(dtype)).reshape(shape)
                for flat, (_, shape, dtype) in zip(raw, state.variables, strict=True)
            ]
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if isinstance(error, OptionError):
                raise
            raise OptionError(
                f"Resume: {path} cannot be read ({type(error).__name__}: {error}); remove it to go on from the state "
                "before it"
            ) from error
        return state, values, path

    def _saved(self) -> list[Path]:
        paths = self.directory.glob(f"{_PREFIX}*") if self.directory.is_dir() else []
        numbers = {path: path.name.removeprefix(_PREFIX) for path in paths}
        return sorted((path for path, number in numbers.items() if number.isdecimal()), key=lambda p: int(numbers[p]))

    def _clean(self) -> None:
        """Remove what a process that was killed has left."""
        for left in self.directory.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(left)


def _dtype(name: str) -> Any:
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name, name))


_LOGGER = logging.getLogger("seqrecorder")

_STEPS = ("_enumerate_iterator", "enumerate_epoch")
"""Names of the method of Keras' epoch iterator that gives the steps, now and in Keras 3.5."""

_ITERATOR = "iterator"


class Resume(keras.callbacks.Callback):  # type: ignore[misc]  # Keras ships no types
    """A callback with which a `fit` that was killed goes on where it stood, when the same script runs again.

    Saved are the variables of the model (weights, the seeds of layers such as `Dropout`, the states of `Unrolled`), of
    the optimizer and of the metrics; the history; the epoch, the batch, and the place in the data. So batches, losses
    and metrics of a run that was killed are those of a run that was not, bit for bit where the machine repeats its own
    sums.

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

    A training that has ended is not run again: its model and history are restored. Remove the directory to train anew.

    The place in the data is saved with the iterator, like by `tf.train.Checkpoint`: as large as the records that are
    held, which are up to `shuffle` of them. The epochs behind it take their order from the seed, so give one to
    whatever shuffles, `tf.data.Dataset.shuffle` too. An iterator that cannot be saved (`prefetch_to_device`,
    `from_generator`) is run again up to its place, with a warning, and so is any where Keras runs on JAX.

    Not saved are the other callbacks: `EarlyStopping` and `ReduceLROnPlateau` count anew after a restart, and
    `ModelCheckpoint(save_best_only=True)` forgets the best value (see its `initial_value_threshold`). Their order does
    not matter: what the others do at the end is in the state of a training that has ended. Random numbers of Python, of
    numpy, and of operations in `map` that keep a state are not saved either; nor where Keras runs on PyTorch those of
    `Dropout` without `seed=`, which draws from PyTorch's own.

    Args:
        directory: of the states, for this one `fit`. It is made where there is none.
        every: batches from one state to the next. One more is saved at the start of each epoch.
        keep: how many states are kept.

    Raises:
        OptionError: options make no sense; while fitting: the state is of another model or of other data.
        ShardWriteError: while fitting: a state cannot be written. Those before stay.
    """

    def __init__(self, directory: str | os.PathLike[str], *, every: int = 1000, keep: int = 2) -> None:
        super().__init__()
        for name, value in (("every", every), ("keep", keep)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise OptionError(f"Resume: {name}: expected an int of 1 or more, got {value!r}")
        self.directory, self.every = directory, every
        self._states = SavedStates(directory, keep)

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002 - Keras passes it, like all that follow
        """Find the last state, and bring the model and the data to where they were."""
        self._data, others = _fit_locals()
        # The last callback, so that all others have finished.
        self._last = keras.callbacks.LambdaCallback(on_train_end=lambda logs: self._end())  # noqa: ARG005
        others.callbacks.append(self._last)
        self._others = others
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
        saved = self._states.last()
        if saved is not None:
            self._restore(*saved)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Put back the metrics, which Keras has just reset, and the history."""
        if self._progress.first_epoch is None:
            self._progress.first_epoch = epoch
        self._progress.epoch = epoch
        self._finish_restoring()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Restore the metrics of an epoch that was complete when it was saved, so that Keras runs no batch of it."""
        for name, value in self._unseen_logs.items():
            logs.setdefault(name, float(value))
        self._unseen_logs = {}

    def _end(self) -> None:
        """Save what was reached, once all callbacks have ended."""
        self._others.callbacks.remove(self._last)
        setattr(self._data, self._steps, self._new_steps)
        if self._restored is not None:  # no epoch was left
            self._finish_restoring()
            return
        self._progress.epoch, self._progress.batch = self._progress.epoch + 1, 0
        if not self._data.steps_per_epoch or self._data._current_iterator is not self._iterator:  # noqa: SLF001
            self._progress.taken = 0  # another epoch would start with a new iterator
        self._save(finished=self.params["epochs"])

    # Saving

    def _run_epoch(self) -> Iterator[Any]:
        """Yield the steps of an epoch, as Keras does, and save states between them."""
        progress, goes_on = self._progress, self._prepared is not None
        steps, self._prepared = self._prepared or self._new_steps(), None
        progress.batch = progress.batch if goes_on else 0
        for step in steps:
            self._follow(step[-1])
            if progress.batch == 0 and progress.epoch != progress.first_epoch and not goes_on:
                self._save()  # here other callbacks have finished the last epoch
            yield step
            executed = self._data.steps_per_execution
            progress.batch += executed
            progress.taken += executed
            self._since += executed
            # At the last batch, an epoch is about to start.
            if self._since >= self.every and progress.batch != self._data.num_batches:
                self._save()

    def _follow(self, iterator: Any) -> bool:
        """Note which iterator is running, and return whether it is another one."""
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
        """Bring the data, then the model to a state; metrics and history follow when the epoch begins."""
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
        seen = None if ended else self._go_to(state, directory)
        self._assign(state, values, seen, directory)
        self._progress = _Progress(state.epoch, state.batch, state.first_epoch, self._progress.taken)
        self._restored = state
        # There is no public way; `keras.callbacks.BackupAndRestore` does the same.
        self.model._initial_epoch = asked if ended else state.epoch  # noqa: SLF001

    def _go_to(self, state: TrainingState, directory: Path) -> Any:
        """Prepare the steps that are left of the epoch; return a batch, if one was seen on the way there."""
        seen = None
        # Keras makes iterators for the epochs before as it did then: each draws the order of its epoch.
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

            tf.train.Checkpoint(iterator=self._iterator).read(str(saved)).assert_consumed()
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
        count = len(model.metrics_variables)
        self._metrics = list(zip(variables, values, strict=True))[len(variables) - count :]

    def _finish_restoring(self) -> None:
        if self._restored is None:
            return
        for variable, value in self._metrics if self._restored.batch else ():
            variable.assign(value)
        self._unseen_logs = self.model.get_metrics_result() if self._restored.batch else {}
        history = self.model.history
        history.history.update({name: list(values) for name, values in self._restored.history.items()})
        history.epoch[:] = self._restored.history_epochs
        self.model._initial_epoch = None  # noqa: SLF001 - the next `fit` starts where it says
        self._restored = None


@attrs.define
class _Progress:
    """Position of a training: epoch, batches of it that are done, its first epoch, batches taken from the iterator."""

    epoch: int = 0
    batch: int = 0
    first_epoch: int | None = None
    taken: int = 0


def _fit_locals() -> tuple[Any, Any]:
    """Return the epoch iterator of `fit`, and its callbacks: Keras gives callbacks no access to these."""
    frame = inspect.currentframe()
    while frame is not None:
        iterator, callbacks = (frame.f_locals.get(name) for name in ("epoch_iterator", "callbacks"))
        if any(hasattr(iterator, name) for name in _STEPS) and isinstance(callbacks, keras.callbacks.CallbackList):
            return iterator, callbacks
        frame = frame.f_back
    raise OptionError(f"Resume: found no data in `fit` of Keras {keras.version()}; Resume is a callback of `Model.fit`")


def _variables(model: Any) -> list[Any]:
    """Return all variables of a model, its optimizer and its metrics; of metrics, the last ones."""
    if model.optimizer is not None and model.built and not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    metrics = model.metrics_variables
    of_metrics = {id(variable) for variable in metrics}
    others = [*model.variables, *(model.optimizer.variables if model.optimizer is not None else ())]
    unique = {id(variable): variable for variable in others if id(variable) not in of_metrics}
    return [*unique.values(), *metrics]


def _build(model: Any, batch: Any) -> None:
    """Make the variables that a model, its losses and its metrics make when they see their first batch."""
    x, y, weights = keras.utils.unpack_x_y_sample_weight(batch)
    outputs = model(x)
    model.compute_loss(x, y, outputs, weights)
    model.compute_metrics(x, y, outputs, weights)


_BACKWARDS = (
    "a layer that goes backwards begins with the steps of segments that have not come yet; leave it out, or train it "
    "on whole sequences (seqrecorder.Pad, Bucket or TokenBudget)"
)


@keras.saving.register_keras_serializable(package="seqrecorder")
class Unrolled(keras.layers.Layer):  # type: ignore[misc]  # Keras ships no types
    """A recurrent layer for the segments of `seqrecorder.Unroll`: its state goes on, and starts anew where told.

    Keras' own `stateful=True` starts all rows of a batch anew, or none. Here each row (slot) has its own `reset`, as
    each is at another place of another record. Gradients stop at the start of a segment, as truncated backpropagation
    has it.

    >>> import keras, numpy as np
    >>> layer = Unrolled(keras.layers.GRU(4, return_sequences=True))
    >>> x = np.random.default_rng(0).normal(size=(2, 6, 3)).astype("float32")
    >>> whole = layer.layer(x)
    >>> first = layer(x[:, :3], reset=np.array([True, True]))
    >>> second = layer(x[:, 3:], reset=np.array([False, False]))
    >>> bool(np.allclose(np.concatenate([first, second], 1), whole, atol=1e-6))
    True

    States are variables, but no weights: what is trained with some slots loads into a model with another number, and
    `get_states` and `set_states` hand them on. What is called while training has states of its own, so that validation
    and predictions in between do not touch them. One row is the first slot, so a model answers one sequence too.

    Args:
        layer: a `GRU`, `LSTM`, `SimpleRNN` or `RNN` (of one cell or of several) that goes forwards, is not stateful and
            does not return its state. Layers above each other are each in an `Unrolled` of their own.

    Call arguments:
        x: float `(B, T, features)`; B, the slots, is that of the first batch for good. Fewer rows are the first slots.
        reset: bool `(B,)`: rows that start anew.
        mask: bool `(B, T)`: steps that count, or None for all.
        training: whether the states are those of training; Keras says so in `fit`.

    Raises:
        OptionError: the layer cannot go on from a state.
    """

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        if isinstance(layer, keras.layers.Bidirectional) or getattr(layer, "go_backwards", False):
            raise OptionError(f"Unrolled: {layer.name}: {_BACKWARDS}")
        if not isinstance(layer, keras.layers.RNN):
            raise OptionError(f"Unrolled: expected a recurrent layer, such as keras.layers.GRU, got {layer!r}")
        for option in ("stateful", "return_state"):
            if getattr(layer, option, False):
                raise OptionError(f"Unrolled: leave {option}=True out of {layer.name}; the state is kept here")
        super().__init__(**kwargs)
        self.layer = layer
        self.supports_masking = True
        self._states: list[Any] = []
        self._states_apart: list[Any] = []

    def build(self, shape: Any) -> None:
        """Make the states: zeros for each row."""
        if shape[0] is None:
            raise OptionError(
                "Unrolled: expected batches of one known size, got None; give it to the model: keras.Input(batch_shape="
                "(slots, length, features))"
            )
        self.layer.build(shape)
        for size in keras.tree.flatten(self.layer.state_size):
            for states, name in ((self._states, "state"), (self._states_apart, "state_apart")):
                shaped = {"shape": (shape[0], size), "initializer": "zeros", "trainable": False}
                states.append(self.add_weight(**shaped, name=name))
        super().build(shape)

    @property
    def weights(self) -> list[Any]:
        """Weights of the layer; states, which depend on the number of slots, are none."""
        weights: list[Any] = self.layer.weights
        return weights

    def save_own_variables(self, store: Any) -> None:
        """Save nothing: the layer saves its weights."""

    def load_own_variables(self, store: Any) -> None:
        """Load nothing; states that an earlier version saved are left out."""

    def call(self, x: Any, reset: Any, mask: Any = None, training: Any = None) -> Any:
        """Return the output of the layer, going on from where the last call ended."""
        variables = self._states if training else self._states_apart
        slots, rows = int(variables[0].shape[0]), x.shape[0]
        if rows is not None and rows > slots:
            raise OptionError(f"Unrolled: expected at most {slots} rows, as many as the first batch had, got {rows}")
        all_rows = rows == slots
        rows = keras.ops.shape(x)[0] if rows is None else rows
        states = [keras.ops.convert_to_tensor(state) for state in variables]
        keep = keras.ops.logical_not(keras.ops.cast(reset, "bool"))[:, None]
        before = [keras.ops.where(keep, state if all_rows else state[:rows], 0.0) for state in states]
        self.layer.return_state = True  # for this call: the layer stays what its owner made it
        try:
            several = isinstance(self.layer.state_size, (list, tuple))
            initial = keras.tree.pack_sequence_as(self.layer.state_size, before) if several else before
            output, *after = self.layer(x, initial_state=initial, mask=mask, training=training)
        finally:
            self.layer.return_state = False
        for variable, state, value in zip(variables, states, keras.tree.flatten(after), strict=True):
            now = keras.ops.stop_gradient(keras.ops.cast(value, variable.dtype))
            others = keras.ops.cast(state, variable.dtype)
            variable.assign(now if all_rows else keras.ops.concatenate([now, others[rows:]], 0))
        return output

    def compute_output_shape(self, shape: Any, *_: Any) -> Any:
        """Return the shape of the output."""
        return self.layer.compute_output_shape(shape)

    def get_config(self) -> dict[str, Any]:
        """Return the configuration that rebuilds the layer."""
        return {**super().get_config(), "layer": keras.saving.serialize_keras_object(self.layer)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Unrolled:
        """Rebuild the layer."""
        return cls(keras.saving.deserialize_keras_object(config.pop("layer")), **config)

    def states(self, *, training: bool) -> list[Any]:
        """Return the variables that hold the state of each slot, `(B, units)`: of training, or of all other calls."""
        return self._states if training else self._states_apart


def get_states(model: Any, *, training: bool = False) -> dict[str, NDArray[Any]]:
    """Return the states of a model's `Unrolled` layers: arrays that `numpy.savez` saves and `set_states` takes.

    >>> import keras, numpy as np
    >>> x, reset = keras.Input(batch_shape=(2, 3, 1)), keras.Input(batch_shape=(2,), dtype="bool")
    >>> model = keras.Model([x, reset], Unrolled(keras.layers.GRU(4), name="memory")(x, reset=reset))
    >>> _ = model([np.ones((2, 3, 1)), np.ones(2, bool)])
    >>> states = get_states(model)
    >>> {name: state.shape for name, state in states.items()}
    {'memory/0': (2, 4)}
    >>> set_states(model, states)

    Args:
        model: with `Unrolled` layers in it, built.
        training: those of training; else those of predictions and validation.

    Returns:
        By the name of the layer and the number of the state, `(slots, units)`.
    """
    return {name: np.asarray(variable) for name, variable in _named_states(model, training=training)}


def set_states(model: Any, states: Mapping[str, Any], *, training: bool = False) -> None:
    """Give a model's `Unrolled` layers states that `get_states` returned, of this model or of one with other slots.

    Args:
        model: with layers of the same names.
        states: arrays `(slots, units)`, the first ones of its slots; those of the others are zeros.
        training: as for `get_states`.

    Raises:
        OptionError: the states are of other layers, of other sizes, or of more slots.
    """
    variables = dict(_named_states(model, training=training))
    if set(variables) != set(states):
        raise OptionError(f"set_states: expected states of {', '.join(variables) or 'none'}, got {', '.join(states)}")
    arrays = {name: np.asarray(states[name]) for name in variables}
    for name, variable in variables.items():
        (slots, units), shape = variable.shape, arrays[name].shape
        if shape[1:] != (units,) or shape[0] > slots:
            raise OptionError(f"set_states: {name}: expected at most {slots} slots of {units} units, got {shape}")
    for name, variable in variables.items():
        value = np.zeros(variable.shape, arrays[name].dtype)
        value[: len(arrays[name])] = arrays[name]
        variable.assign(value)


def _named_states(model: Any, *, training: bool) -> Iterator[tuple[str, Any]]:
    for layer in [model] if isinstance(model, Unrolled) else getattr(model, "layers", ()):
        if isinstance(layer, Unrolled):
            yield from ((f"{layer.name}/{i}", state) for i, state in enumerate(layer.states(training=training)))
        else:
            yield from _named_states(layer, training=training)
