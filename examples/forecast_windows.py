"""Forecast with sliding windows over long series, without a tf.data element for every step.

python examples/forecast_windows.py [output_dir]
"""

import sys
import tempfile
from pathlib import Path

import keras
import numpy as np

import seqrecorder as sr


@sr.record
class Sensor:
    name: str = sr.context(str, key=True)
    value: np.ndarray = sr.feature_list("float32", storage="packed")


def sensors():
    random = np.random.default_rng(0)
    for number in range(40):
        period, steps = random.uniform(15, 40), np.arange(random.integers(800, 1200))
        value = np.sin(2 * np.pi * steps / period) + 0.05 * random.normal(size=steps.size)
        yield Sensor(f"sensor {number}", value.astype("float32"))


directory = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()) / "sensors"
# The splits go by the key: no sensor is in both.
sr.write(sensors(), directory, splits={"train": 0.75, "eval": 0.25}, seed=1, overwrite=True)

# 48 steps in, the 6 that follow out; a window every third step.
windows = sr.Window(48, batch_size=256, shift=3, horizon=6, tail="drop")
print(sr.plan(directory, "train", windows))
train, evaluation = (
    sr.read(directory, split, batch=windows, shuffle=40, inputs="value", targets="value_horizon", weights=False)
    for split in ("train", "eval")
)

keras.utils.set_random_seed(0)
model = keras.Sequential(
    [keras.Input((48,)), keras.layers.Reshape((48, 1)), keras.layers.GRU(24), keras.layers.Dense(6)]
)
model.compile(keras.optimizers.Adam(0.01), loss="mse")
model.fit(train, epochs=3, shuffle=False, verbose=0)
error = model.evaluate(evaluation, verbose=0)
last = np.mean([np.mean((y[..., 0] - x[:, -1:]) ** 2) for x, y in evaluation.as_numpy_iterator()])
print(f"squared error {error:.3f}, {last:.3f} when the last value is repeated")
assert error < last / 5
