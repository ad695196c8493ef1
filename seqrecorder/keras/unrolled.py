"""Recurrent layers that keep their state from one segment of a record to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from seqrecorder.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray


_BACKWARDS = (
    "a layer that goes backwards begins with the steps of segments that have not come yet; leave it out, or train it "
    "on whole sequences (seqrecorder.Pad, Bucket or TokenBudget)"
)


@keras.saving.register_keras_serializable(package="seqrecorder")
class Unrolled(keras.layers.Layer):  # type: ignore[misc]  # Keras ships no types
    """Recurrent layer for the segments of `seqrecorder.Unroll` that keeps the state of each row until it is reset.

    Keras' `stateful=True` resets all rows of a batch or none. Here, each row (slot) has its own `reset`, because rows
    are at different positions of different records. Gradients stop at the start of a segment (truncated backpropagation
    through time).

    >>> import keras, numpy as np
    >>> layer = Unrolled(keras.layers.GRU(4, return_sequences=True))
    >>> x = np.random.default_rng(0).normal(size=(2, 6, 3)).astype("float32")
    >>> whole = layer.layer(x)
    >>> first = layer(x[:, :3], reset=np.array([True, True]))
    >>> second = layer(x[:, 3:], reset=np.array([False, False]))
    >>> bool(np.allclose(np.concatenate([first, second], 1), whole, atol=1e-6))
    True

    States are variables but not weights, so weights can be loaded into a model with a different number of slots.
    `get_states` and `set_states` copy the states. Training has states of its own, so validation and predictions in
    between do not change them. A batch of one row uses the first slot. `keras.saving.load_model` finds this class once
    it has been imported.

    Args:
        layer: a `GRU`, `LSTM`, `SimpleRNN` or `RNN` (of one or more cells) that runs forwards, is not stateful and does
            not return its state. Wrap each of several stacked layers in its own `Unrolled`.

    Call arguments:
        x: float `(B, T, features)`. The first batch fixes B, the number of slots; a batch with fewer rows uses the
            first slots.
        reset: bool `(B,)`, True for rows whose state is set to zeros before the call.
        mask: bool `(B, T)`, True for real steps; None if all steps are real.
        training: whether to use the states of training; Keras sets it in `fit`.

    Raises:
        OptionError: the layer cannot start from an initial state.
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
        """Build the layer, and create a state of zeros for each row."""
        if shape[0] is None:
            raise OptionError(
                "Unrolled: expected batches of one known size, got None; give it to the model: keras.Input(batch_shape="
                "(slots, length, features))"
            )
        self.layer.build(shape)
        for size in keras.tree.flatten(self.layer.state_size):
            for states, name in ((self._states, "state"), (self._states_apart, "state_apart")):
                states.append(self.add_weight((shape[0], size), initializer="zeros", trainable=False, name=name))
        super().build(shape)

    @property
    def weights(self) -> list[Any]:
        """Weights of the layer.

        The states are left out, because their shapes depend on the number of slots.
        """
        weights: list[Any] = self.layer.weights
        return weights

    def save_own_variables(self, store: Any) -> None:
        """Save nothing: the wrapped layer saves its weights."""

    def load_own_variables(self, store: Any) -> None:
        """Load nothing, as the layer has no variables of its own to restore.

        States that an earlier version saved are ignored.
        """

    def call(self, x: Any, reset: Any, mask: Any = None, training: Any = None) -> Any:
        """Run the layer, starting from the state at the end of the last call."""
        variables = self._states if training else self._states_apart
        slots, rows = int(variables[0].shape[0]), x.shape[0]
        if rows is not None and rows > slots:
            raise OptionError(f"Unrolled: expected at most {slots} rows, as many as the first batch had, got {rows}")
        all_rows = rows == slots
        rows = keras.ops.shape(x)[0] if rows is None else rows
        states = [keras.ops.convert_to_tensor(state) for state in variables]
        keep = keras.ops.logical_not(keras.ops.cast(reset, "bool"))[:, None]
        before = [keras.ops.where(keep, state if all_rows else state[:rows], 0.0) for state in states]
        self.layer.return_state = True  # only for this call: the wrapped layer stays as configured
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
        """Return the state variables, each of shape `(B, units)`.

        Training has state variables of its own. Prediction and validation share the others.
        """
        return self._states if training else self._states_apart


def get_states(model: Any, *, training: bool = False) -> dict[str, NDArray[Any]]:
    """Copy the states of a model's `Unrolled` layers to arrays, for `numpy.savez` and `set_states`.

    >>> import keras, numpy as np
    >>> x, reset = keras.Input(batch_shape=(2, 3, 1)), keras.Input(batch_shape=(2,), dtype="bool")
    >>> model = keras.Model([x, reset], Unrolled(keras.layers.GRU(4), name="memory")(x, reset=reset))
    >>> _ = model([np.ones((2, 3, 1)), np.ones(2, bool)])
    >>> states = get_states(model)
    >>> {name: state.shape for name, state in states.items()}
    {'memory/0': (2, 4)}
    >>> set_states(model, states)

    Args:
        model: a built model with `Unrolled` layers.
        training: whether to copy the states of training, instead of the states of predictions and validation.

    Returns:
        Mapping from layer name and state number, such as `memory/0`, to an array `(slots, units)`.
    """
    return {name: np.asarray(variable) for name, variable in _named_states(model, training=training)}


def set_states(model: Any, states: Mapping[str, Any], *, training: bool = False) -> None:
    """Set the states of a model's `Unrolled` layers to those from `get_states`.

    The model may have more slots than the model from which the states come.

    Args:
        model: a model whose layers have the same names.
        states: arrays `(slots, units)` for the first slots; the other slots are set to zeros.
        training: whether to set the states of training, instead of the states of predictions and validation.

    Raises:
        OptionError: the states belong to other layers, have a different number of units, or have too many slots.
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
        variable.assign(np.pad(arrays[name], [(0, variable.shape[0] - len(arrays[name])), (0, 0)]))


def _named_states(model: Any, *, training: bool) -> Iterator[tuple[str, Any]]:
    for layer in [model] if isinstance(model, Unrolled) else getattr(model, "layers", ()):
        if isinstance(layer, Unrolled):
            yield from ((f"{layer.name}/{i}", state) for i, state in enumerate(layer.states(training=training)))
        else:
            yield from _named_states(layer, training=training)
