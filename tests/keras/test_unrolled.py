"""Training in Keras: state that goes on, and models that learn from what `read` gives."""

import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from walks import LENGTHS, walk

import seqrecorder as sr


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keras") / "walks"
    sr.write((walk(i, n) for i, n in enumerate(LENGTHS)), path)
    return path


@pytest.fixture(autouse=True)
def seeded() -> None:
    keras.utils.set_random_seed(1)


LAYERS = {
    "gru": lambda: keras.layers.GRU(5, return_sequences=True),
    "lstm": lambda: keras.layers.LSTM(4, return_sequences=True),
    "simple": lambda: keras.layers.SimpleRNN(3, return_sequences=True),
}


@pytest.mark.parametrize(
    "kind", ["gru", *(pytest.param(kind, marks=pytest.mark.nightly) for kind in ("lstm", "simple"))]
)
def test_segments_give_what_whole_sequences_give(walks: Path, kind: str) -> None:
    """Outputs over the segments of `Unroll` are those over whole sequences, to 1e-6, whatever slot a record was in."""
    rnn = LAYERS[kind]()
    model = sr.keras.Unrolled(rnn)
    parts: dict[bytes, list[np.ndarray]] = {}
    for batch in sr.read(walks, batch=sr.Unroll(7, 6), shuffle=50, seed=3, fields=["key", "x"]):
        outputs = np.asarray(model(batch["x"], reset=batch["reset"]))
        for key, output, length in zip(batch["key"].numpy(), outputs, batch["sequence_length"].numpy(), strict=True):
            parts.setdefault(key, []).append(output[:length])
    for record in itertools.islice(sr.read_records(walks), 0, None, 3):
        whole = np.asarray(rnn(record.x[np.newaxis]))[0]
        np.testing.assert_allclose(np.concatenate(parts[record.key.encode()]), whole, atol=1e-6)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of Keras, when it saves weights
def test_a_model_with_state_is_saved_and_loaded(walks: Path, tmp_path: Path) -> None:
    """The layer is part of a model that Keras saves and loads."""
    model = stateful_model(4)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    data = sr.read(walks, batch=sr.Unroll(4, 5), inputs=("token", "reset"), fields=["token"])
    for (tokens, reset), _ in zip(data, range(5), strict=False):
        np.testing.assert_allclose(np.asarray(model([tokens, reset])), np.asarray(again([tokens, reset])), atol=1e-6)


def test_fewer_rows_are_the_first_slots() -> None:
    """A batch of fewer rows is answered by as many and leaves the other slots alone; more rows are refused."""
    x = np.random.default_rng(0).normal(size=(4, 6, 2)).astype("f4")
    rnn = keras.layers.LSTM(3, return_sequences=True)
    layer, whole = sr.keras.Unrolled(rnn), np.asarray(rnn(x))
    layer(x[:, :2], reset=np.ones(4, bool))
    three = layer(x[:3, 2:4], reset=np.zeros(3, bool))
    np.testing.assert_allclose(three, whole[:3, 2:4], atol=1e-6)
    traced = tf.function(layer, input_signature=[tf.TensorSpec([None, 2, 2]), tf.TensorSpec([None], tf.bool)])
    np.testing.assert_allclose(traced(x[:1, 4:], np.zeros(1, bool)), whole[:1, 4:], atol=1e-6)
    rest = np.asarray(layer(x[:, 2:4], reset=np.zeros(4, bool)))
    assert np.allclose(rest[3], whole[3, 2:4], atol=1e-6)
    assert not np.allclose(rest[:3], whole[:3, 2:4], atol=1e-3)
    with pytest.raises(ValueError, match="expected at most 4 rows, as many as the first batch had, got 5"):
        layer(np.ones((5, 2, 2), "f4"), reset=np.ones(5, bool))


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of Keras, when it saves weights
def test_weights_go_into_other_numbers_of_slots(tmp_path: Path) -> None:
    """States are no weights: files and lists of weights fit a model with any number of slots."""
    many, one = stateful_model(4), stateful_model(1)
    tokens, reset = np.arange(20).reshape(4, 5) % 5, np.ones(4, bool)
    expected = np.asarray(many([tokens, reset]))[:1]
    assert not np.allclose(one([tokens[:1], reset[:1]]), expected, atol=1e-3)
    many.save_weights(tmp_path / "all.weights.h5")
    one.load_weights(tmp_path / "all.weights.h5")
    np.testing.assert_allclose(one([tokens[:1], reset[:1]]), expected, atol=1e-6)
    again = stateful_model(2)
    again.set_weights(many.get_weights())
    np.testing.assert_allclose(again([tokens[:2], reset[:2]])[:1], expected, atol=1e-6)


def test_a_layer_of_several_cells() -> None:
    """One `RNN` of stacked cells, whose state is nested, goes on too."""
    x = np.random.default_rng(0).normal(size=(2, 6, 1)).astype("f4")
    rnn = keras.layers.RNN([keras.layers.LSTMCell(3), keras.layers.GRUCell(2)], return_sequences=True)
    layer, whole = sr.keras.Unrolled(rnn), np.asarray(rnn(x))
    parts = [layer(x[:, n * 3 : n * 3 + 3], reset=np.full(2, n == 0)) for n in range(2)]
    np.testing.assert_allclose(np.concatenate(parts, 1), whole, atol=1e-6)


def test_states_are_handed_on() -> None:
    """States of a stack go into models of more slots, apart from weights: one sequence goes on where it was."""
    x, reset = np.random.default_rng(0).normal(size=(2, 6, 1)).astype("f4"), np.ones(3, bool)

    def stack(slots: int) -> keras.Model:
        inputs = keras.Input(batch_shape=(slots, 3, 1)), keras.Input(batch_shape=(slots,), dtype="bool")
        below = sr.keras.Unrolled(keras.layers.LSTM(4, return_sequences=True), name="below")
        above = sr.keras.Unrolled(keras.layers.SimpleRNN(3), name="above")
        return keras.Model(inputs, above(below(inputs[0], reset=inputs[1]), reset=inputs[1]))

    two, one, three = stack(2), stack(1), stack(3)
    for other in (one, three):
        other.set_weights(two.get_weights())
    two([x[:, :3], reset[:2]])
    states = sr.keras.get_states(two)
    assert {name: state.shape for name, state in states.items()} == {
        "below/0": (2, 4),
        "below/1": (2, 4),
        "above/0": (2, 3),
    }
    assert not any(np.any(state) for state in sr.keras.get_states(two, training=True).values())
    expected = np.asarray(two([x[:, 3:], ~reset[:2]]))
    sr.keras.set_states(three, states)
    np.testing.assert_allclose(np.asarray(three([np.concatenate([x, x[:1]])[:, 3:], ~reset]))[:2], expected, atol=1e-6)
    sr.keras.set_states(one, {name: state[1:] for name, state in states.items()})
    np.testing.assert_allclose(one([x[1:, 3:], ~reset[:1]]), expected[1:], atol=1e-6)
    sr.keras.set_states(three, states)
    np.testing.assert_allclose(three([x[:1, 3:], ~reset[:1]]), expected[:1], atol=1e-6)  # one row is the first slot
    with pytest.raises(sr.OptionError, match=r"below/0: expected at most 1 slots of 4 units, got \(2, 4\)"):
        sr.keras.set_states(one, states)
    with pytest.raises(sr.OptionError, match="expected states of below/0, below/1, above/0, got below/0"):
        sr.keras.set_states(one, {"below/0": states["below/0"]})


ELSEWHERE = """
import keras, os, numpy as np, seqrecorder as sr
assert keras.backend.backend() == os.environ["KERAS_BACKEND"]
x, resets = np.random.default_rng(0).normal(size=(4, 6, 1)).astype("f4"), [True, False]
inputs = keras.Input(batch_shape=(4, 3, 1), name="x"), keras.Input(batch_shape=(4,), dtype="bool", name="reset")
rnn = keras.layers.GRU(5, return_sequences=True)
model = keras.Model(inputs, sr.keras.Unrolled(rnn)(inputs[0], reset=inputs[1]))
whole = keras.ops.convert_to_numpy(rnn(x))
parts = [keras.ops.convert_to_numpy(model([x[:, n * 3 : n * 3 + 3], np.full(4, resets[n])])) for n in range(2)]
np.testing.assert_allclose(np.concatenate(parts, 1), whole, atol=1e-6)
model.compile(keras.optimizers.SGD(0.0), "mse")
batches = [((x[:, n * 3 : n * 3 + 3], np.full(4, resets[n])), whole[:, n * 3 : n * 3 + 3]) for n in range(2)]
class Batches(keras.utils.PyDataset):
    def __len__(self): return 2
    def __getitem__(self, n): return batches[n]
loss = model.fit(Batches(), shuffle=False, verbose=0).history["loss"][0]
assert loss < 1e-10, loss  # in `fit` the state goes on too
print("equal")
"""


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_states_go_on_with_other_backends(backend: str) -> None:
    """Where Keras runs on JAX or PyTorch, if installed, calls and `fit` go on with the states too."""
    pytest.importorskip(backend, reason=f"Keras' backend needs {backend}")
    environment = {**os.environ, "KERAS_BACKEND": backend}
    command = [sys.executable, "-c", ELSEWHERE]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    assert done.stdout == "equal\n"


def test_validation_leaves_the_states_of_training_alone(walks: Path) -> None:
    """Losses of training are the same with validation, predictions and calls in between, to the last bit."""
    unroll = sr.Unroll(4, 5)
    options = {"batch": unroll, "inputs": ("token", "reset"), "targets": "token"}

    def losses(**validation: Any) -> list[float]:
        keras.utils.set_random_seed(0)
        model = stateful_model(4)
        model.compile(keras.optimizers.SGD(0.1), loss=masked_loss(keras.losses.SparseCategoricalCrossentropy))
        train = sr.read(walks, epochs=None, **options)
        if validation:
            predicted = keras.callbacks.LambdaCallback(
                on_epoch_begin=lambda *_: model([np.ones((4, 5)), np.ones(4, bool)])
            )
            validation["callbacks"] = [predicted]
        return model.fit(train, steps_per_epoch=4, epochs=2, verbose=0, shuffle=False, **validation).history["loss"]

    assert losses() == losses(validation_data=sr.read(walks, **options), validation_steps=3)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of Keras
@pytest.mark.parametrize("training", [True, False])
def test_states_are_handed_over_where_a_backend_has_no_variables(*, training: bool) -> None:
    """As JAX has it, a call without side effects takes all variables and returns them changed."""
    x, reset = np.ones((2, 3, 1), "f4"), np.zeros(2, bool)
    rnn = keras.layers.GRU(4, return_sequences=True)
    layer, whole = sr.keras.Unrolled(rnn), np.asarray(rnn(np.ones((2, 6, 1), "f4")))
    layer.build((2, 3, 1))
    start = [keras.ops.convert_to_numpy(variable).copy() for variable in layer.non_trainable_variables]
    weights = [keras.ops.convert_to_numpy(variable) for variable in layer.trainable_variables]
    first, states = layer.stateless_call(weights, start, x, reset=reset, training=training)
    second, _ = layer.stateless_call(weights, states, x, reset=reset, training=training)
    np.testing.assert_allclose(np.concatenate([first, second], 1), whole, atol=1e-6)
    for variable, before in zip(layer.non_trainable_variables, start, strict=True):
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(variable), before)


def test_layers_that_cannot_go_on() -> None:
    """What is no recurrent layer, keeps its own state or goes backwards is refused, as are batches of unknown size."""
    for layer, message in (
        (keras.layers.Dense(2), "expected a recurrent layer"),
        (keras.layers.GRU(2, stateful=True), "leave stateful=True out"),
        (keras.layers.GRU(2, return_state=True), "leave return_state=True out"),
        (keras.layers.GRU(2, go_backwards=True), "goes backwards begins with the steps of segments that have not come"),
        (keras.layers.Bidirectional(keras.layers.GRU(2)), "goes backwards .*train it on whole sequences"),
    ):
        with pytest.raises(sr.OptionError, match=message):
            sr.keras.Unrolled(layer)
    with pytest.raises(sr.OptionError, match="batches of one known size"):
        sr.keras.Unrolled(keras.layers.GRU(2))(keras.Input((5, 1)), reset=keras.Input((), dtype="bool"))


def fit(model: keras.Model, data: tf.data.Dataset, epochs: int, **options: Any) -> float:
    """Train, and return the last loss."""
    model.optimizer.build(model.trainable_variables)  # otherwise, Keras traces the step twice
    losses = model.fit(data, epochs=epochs, shuffle=False, verbose=0, **options).history["loss"]
    assert np.isfinite(losses).all()
    return losses[-1]


def masked_loss(loss: type) -> Any:
    return loss(from_logits=True, reduction="mean_with_sample_weight")


@pytest.mark.nightly
def test_a_tagger_learns(walks: Path) -> None:
    """A label for each step is learned in `fit`, far below the loss of the label's share alone."""
    model = keras.Sequential(
        [keras.Input((None, 1)), keras.layers.GRU(8, return_sequences=True), keras.layers.Dense(2)]
    )
    model.compile(keras.optimizers.Adam(0.02), loss=masked_loss(keras.losses.SparseCategoricalCrossentropy))
    data = sr.read(walks, batch=sr.Bucket(16), shuffle=200, seed=1, inputs="x", targets="sign")
    loss = fit(model, data, 8)
    assert loss < 0.35 < np.log(2)


@pytest.mark.nightly
def test_a_classifier_learns(walks: Path) -> None:
    """A label for the whole sequence is learned in `fit`, with padding masked out."""
    inputs = keras.Input((None, 1)), keras.Input((None,), dtype="bool")
    outputs = keras.layers.Dense(1)(keras.layers.GRU(8)(inputs[0], mask=inputs[1]))
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.Adam(0.02), loss=keras.losses.BinaryCrossentropy(from_logits=True))
    data = sr.read(walks, batch=sr.Pad(16, mask_name="mask"), shuffle=200, seed=1, inputs=("x", "mask"), targets="up")
    loss = fit(model, data, 8)
    assert loss < 0.35 < np.log(2)


@pytest.mark.nightly
def test_a_forecaster_learns(walks: Path) -> None:
    """The next token is learned from windows with a horizon."""
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Embedding(5, 4),
            keras.layers.GRU(8),
            keras.layers.Dense(5),
            keras.layers.Reshape((1, 5)),
        ]
    )
    model.compile(keras.optimizers.Adam(0.03), loss=masked_loss(keras.losses.SparseCategoricalCrossentropy))
    window = sr.Window(4, batch_size=32, shift=1, horizon=1, tail="drop")
    data = sr.read(walks, batch=window, shuffle=200, seed=1, inputs="token", targets="token_horizon")
    loss = fit(model, data, 4)
    assert loss < 0.3 < np.log(5)


def stateful_model(slots: int) -> keras.Model:
    tokens, reset = keras.Input(batch_shape=(slots, 5)), keras.Input(batch_shape=(slots,), dtype="bool")
    embedded = keras.layers.Embedding(5, 4)(tokens)
    states = sr.keras.Unrolled(keras.layers.GRU(8, return_sequences=True))(embedded, reset=reset)
    return keras.Model([tokens, reset], keras.layers.Dense(5)(states))


@pytest.mark.nightly
def test_a_stateful_language_model_learns(walks: Path) -> None:
    """The next token is learned over segments, the state going on from batch to batch in `fit`."""
    model = stateful_model(8)
    model.compile(keras.optimizers.Adam(0.03), loss=masked_loss(keras.losses.SparseCategoricalCrossentropy))
    unroll = sr.Unroll(8, 5)
    data = sr.read(walks, batch=unroll, shuffle=200, seed=1, epochs=None, inputs=("token", "reset"), targets="token")
    shifted = data.map(lambda x, y, w: (x, (y + 1) % 5, w))
    steps = sr.plan(walks, None, unroll, shuffle=200, seed=1).batches  # it depends on the order: fit wants one number
    loss = fit(model, shifted, 6, steps_per_epoch=steps)
    assert loss < 0.3 < np.log(5)
