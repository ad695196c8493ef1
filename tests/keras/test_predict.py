"""Predictions in the order of the records."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
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


@pytest.mark.parametrize("batch", [sr.Pad(16), sr.Bucket(16, boundaries="sorted"), sr.TokenBudget(100)])
@pytest.mark.parametrize("sequences", [True, False])
def test_predictions_are_in_the_order_of_the_records(walks: Path, batch: Any, *, sequences: bool) -> None:
    """Each record's prediction stands at its place, cut to its steps, whatever batches it was made in."""
    layers = [] if sequences else [keras.layers.GlobalMaxPooling1D()]
    model = keras.Sequential([keras.Input((None, 1)), keras.layers.Rescaling(2.0), *layers])
    results = sr.keras.predict(model, walks, batch=batch, inputs="x")
    for record, result in zip(sr.read_records(walks), results, strict=True):
        if sequences:
            np.testing.assert_array_equal(result, record.x * 2)
        else:
            assert result.shape == (1,)


def test_predictions_of_windows_and_segments_are_put_together(walks: Path) -> None:
    """Windows come stacked or joined, and segments joined along their record, with the state of its slot."""
    records = list(sr.read_records(walks))
    double = keras.Sequential([keras.Input((None, 1)), keras.layers.Rescaling(2.0)])
    last = keras.Sequential([keras.Input((None, 1)), keras.layers.Lambda(lambda x: x[:, -1])])
    joined = sr.keras.predict(double, walks, batch=sr.Window(7), inputs="x", join=True)
    stacked = sr.keras.predict(last, walks, batch=sr.Window(5, shift=2, tail="drop"), inputs="x", shuffle=50)
    for record, steps, windows in zip(records, joined, stacked, strict=True):
        np.testing.assert_array_equal(steps, record.x * 2)
        np.testing.assert_array_equal(windows, record.x[4::2])
    rnn = keras.layers.GRU(3, return_sequences=True)
    x, reset = keras.Input(batch_shape=(6, 4, 1)), keras.Input(batch_shape=(6,), dtype="bool")
    model = keras.Model([x, reset], sr.keras.Unrolled(rnn)(x, reset=reset))
    outputs = sr.keras.predict(model, walks, batch=sr.Unroll(6, 4), inputs=("x", "reset"))
    for record, output in zip(records[:5], outputs[:5], strict=True):
        np.testing.assert_allclose(output, np.asarray(rnn(record.x[np.newaxis]))[0], atol=1e-6)
    assert [len(output) for output in outputs] == LENGTHS


def test_predictions_of_what_read_derives(walks: Path) -> None:
    """Inputs that are normalised, of windows too, are those that `read` gives."""
    double = keras.Sequential([keras.Input((None, 1)), keras.layers.Rescaling(2.0)])
    stats = sr.stats(walks)
    mean, std = stats["x"].mean, stats["x"].std
    results = sr.keras.predict(double, walks, batch=sr.Window(5, tail="drop"), inputs="x", normalize=stats, join=True)
    for record, result in zip(sr.read_records(walks), results, strict=True):
        expected = (record.x[: len(record.x) // 5 * 5] - mean) / std * 2
        np.testing.assert_allclose(result, expected, atol=1e-5)


def test_predictions_that_cannot_be_put_together(walks: Path) -> None:
    """Strategies that mix records in a row, put the padding first, or have windows that overlap are refused."""
    model = keras.Sequential([keras.Input((None, 1)), keras.layers.Rescaling(2.0)])
    for batch in (sr.Pack(50), sr.Pad(4, padding_side="left")):
        with pytest.raises(sr.OptionError, match="predict: expected"):
            sr.keras.predict(model, walks, batch=batch, inputs="x")
    for batch in (sr.Window(4, jitter=1), sr.Window(4, max_windows=1)):
        with pytest.raises(sr.OptionError, match="none is drawn or moved at random"):
            sr.keras.predict(model, walks, batch=batch, inputs="x")
    for batch in (sr.Window(4, shift=2), sr.Window(4, stride=2), sr.Pad(4)):
        with pytest.raises(sr.OptionError, match="join=True puts the steps of windows together"):
            sr.keras.predict(model, walks, batch=batch, inputs="x", join=True)
