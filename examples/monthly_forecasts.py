"""Forecast monthly sales with covariates: from rolling origins, and for the coming months, in their own unit.

python examples/monthly_forecasts.py [output_dir]
"""

import sys
import tempfile
from pathlib import Path

import keras
import numpy as np

import seqrecorder as sr

PAST, AHEAD = 24, 6


@sr.record
class Shop:
    name: str = sr.context(str, key=True)
    month: np.ndarray = sr.feature_list("datetime64[M]")
    sales: np.ndarray = sr.feature_list("float32")  # from 100 to 1,000,000 a month
    others: np.ndarray = sr.feature_list("float32", shape=(3,))  # promotion, and the month as sine and cosine


def shops():
    random = np.random.default_rng(0)
    for number in range(30):
        months = np.arange("2016-01", "2026-01", dtype="datetime64[M]")[random.integers(0, 40) :]
        clock = 2 * np.pi * (months.astype(int) % 12) / 12
        promoted = (random.random(months.size) < 0.2).astype("float32")
        wave = 1 + 0.4 * np.sin(clock + random.uniform(0, 6)) + 0.05 * random.normal(size=months.size)
        others = np.stack([promoted, np.sin(clock), np.cos(clock)], 1)
        sales = 10 ** random.uniform(2, 6) * (wave + 0.2 * promoted + 0.01 * np.arange(months.size))
        yield Shop(f"shop {number}", months, sales.astype("float32"), others.astype("float32"))


def forecaster():
    keras.utils.set_random_seed(0)
    sales, others = keras.Input((PAST,), name="sales"), keras.Input((PAST, 3), name="others")
    steps = keras.layers.Concatenate()([keras.layers.Reshape((PAST, 1))(sales), others])
    hidden = keras.layers.Dense(32, "relu")(keras.layers.Flatten()(steps))
    model = keras.Model(
        {"sales": sales, "others": others}, keras.layers.Reshape((AHEAD, 1))(keras.layers.Dense(AHEAD)(hidden))
    )
    model.compile(keras.optimizers.Adam(0.003), loss="mse")
    return model


directory = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()) / "shops"
sr.write(shops(), directory, overwrite=True)  # whole series: they are cut when they are read
series = sr.open(directory).all()
window = {"horizon": AHEAD, "batch_size": 64, "tail": "drop"}
errors = []
for origin in sr.cutoffs(series, 3, time="month", horizon=AHEAD):
    stats = sr.stats(origin.train, by="name", fields=["sales"])  # of each shop, as known at the origin
    inputs = {"inputs": {"sales": "sales", "others": "others"}, "normalize": stats}
    windows = sr.Window(PAST, shift=1, **window)
    targets = {"targets": "sales_horizon", "normalize_targets": True, "weights": False}
    model = forecaster()
    model.fit(
        sr.read(origin.train, batch=windows, shuffle=30, **inputs, **targets), epochs=20, shuffle=False, verbose=0
    )
    span = sr.Window(PAST, shift=AHEAD, time="month", since=origin.since, until=origin.until, **window)
    keep = ("name", "sales", "month_horizon", "sales_horizon")
    for shop in sr.keras.predict(model, series, batch=span, keep=keep, **inputs):
        forecast = stats.by[shop["name"]]["sales"].denormalize(shop["prediction"][0, :, 0])
        scale = stats.by[shop["name"]]["sales"].std
        assert shop["month_horizon"][0, 0] == origin.since
        last_year = shop["sales"][0, PAST - 12 : PAST - 12 + AHEAD]
        errors.append([np.abs(value - shop["sales_horizon"][0]).mean() / scale for value in (forecast, last_year)])

# The months to come: from the last window of each series, with the model and the scale of the last origin.
coming = series[0].month[-1] + np.timedelta64(1, "M")
ahead = sr.Window(PAST, shift=1, time="month", since=coming, future=True, **window)
for shop in sr.keras.predict(model, series[:3], batch=ahead, keep=("name", "month"), **inputs):
    months = shop["month"][0, -1] + np.arange(1, AHEAD + 1).astype("timedelta64[M]")
    forecast = stats.by[shop["name"]]["sales"].denormalize(shop["prediction"][0, :, 0])
    print(shop["name"], ", ".join(f"{month}: {value:,.0f}" for month, value in zip(months, forecast, strict=True)))
ours, last_year = np.mean(errors, 0)
print(f"{len(errors)} forecasts from 3 origins: error {ours:.2f} deviations, {last_year:.2f} with last year's months")
assert ours < last_year
