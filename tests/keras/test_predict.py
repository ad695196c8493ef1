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


def test_predictions_need_each_record_once(walks: Path) -> None:
    """Strategies that cut records, or put the padding first, are refused."""
    model = keras.Sequential([keras.Input((None, 1)), keras.layers.Rescaling(2.0)])
    for batch in (sr.Window(4), sr.Pad(4, padding_side="left")):
        with pytest.raises(sr.OptionError, match="predict: expected"):
            sr.keras.predict(model, walks, batch=batch, inputs="x")
