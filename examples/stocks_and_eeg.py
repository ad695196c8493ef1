"""Store real time series exactly, read them back and draw them.

Share prices are whole series, with dates (datetime64) and float64 prices. An EEG is one long recording, which `split`
cuts into overlapping windows of float32 samples. Both data sets come with matplotlib (`pip install matplotlib`), which
also draws `series.png` in the output directory.

    python examples/stocks_and_eeg.py [output_dir]
"""

import csv
import sys
import tempfile
from pathlib import Path

import attrs
import numpy as np
from matplotlib.cbook import get_sample_data
from matplotlib.figure import Figure

import seqrecorder as sr

RATE = 80  # EEG samples a second
ELECTRODES = ["PG3", "PG5", "PG7", "PG9"]


@sr.record
class Share:
    name: str = sr.context(str, key=True)
    date: np.ndarray = sr.feature_list("datetime64[D]")  # (T,)
    price: np.ndarray = sr.feature_list("float64")  # (T,)


@sr.record
class Recording:
    name: str = sr.context(str, key=True)
    samples: np.ndarray = sr.feature_list("float32", shape=(len(ELECTRODES),), storage="packed")  # (T, 4)
    window: int = sr.context("int32", chunk=True, default=0)

    def split(self, size, stride):
        for window, start in enumerate(range(0, len(self.samples) - size + 1, stride)):
            yield attrs.evolve(self, window=window, samples=self.samples[start : start + size])


def shares():
    """Yield a record for each column of a table of monthly prices; shares may have different months."""
    with Path(get_sample_data("Stocks.csv", asfileobj=False)).open() as file:
        header, *rows = csv.reader(line for line in file if not line.startswith("#"))
    for column, name in enumerate(header[1:], start=1):
        months = [(row[0], float(row[column])) for row in rows if row[column]]
        date, price = zip(*months, strict=True)
        yield Share(name, np.array(date, "datetime64[D]"), price)


directory = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())

stocks = sr.write(shares(), directory / "stocks", overwrite=True)
assert list(sr.read_records(directory / "stocks", schema=Share)) == list(shares())  # equal in every bit
print(f"{stocks.records} shares, {stocks.steps} prices: they come back to the bit")
for share in sr.read(directory / "stocks").take(1):  # times are int64 in graphs, in the declared unit
    print(f"{share['name'].numpy().decode()}: date {share['date'].dtype.name}, price {share['price'].dtype.name}")

eeg = np.fromfile(get_sample_data("eeg.dat", asfileobj=False)).reshape(-1, len(ELECTRODES))
recording = Recording("eeg", eeg.astype("float32"))  # rounding has to be asked for
params = {"size": 2 * RATE, "stride": RATE}
windows = sr.write([recording], directory / "eeg", params=params, overwrite=True)
print(f"{windows.records} windows of {params['size']} samples")

figure = Figure(figsize=(8, 7), layout="constrained")
above, below = figure.subplots(2)
for share in sr.read_records(directory / "stocks"):
    if share.name in ("GOOGL", "MSFT", "IBM", "DELL", "XRX"):
        (line,) = above.plot(share.date, share.price, linewidth=1.2)
        end = (share.date[-1], share.price[-1])
        above.annotate(share.name, end, (5, 0), textcoords="offset points", va="center", color=line.get_color())
above.set(yscale="log", title="Shares: one record each, of its own length", ylabel="price in dollars")

height = 8  # between two electrodes
for record in sr.read_records(directory / "eeg"):
    seconds = (record.window * params["stride"] + np.arange(len(record.samples))) / RATE
    if record.window % 2 == 0:  # these cover it all; what overlaps would be drawn twice
        below.plot(seconds, record.samples - height * np.arange(len(ELECTRODES)), color="tab:blue", linewidth=0.9)
    below.plot(seconds[[4, -4]], [7 + record.window % 2] * 2, color="tab:orange", linewidth=3)
below.set(title="EEG: overlapping windows (orange) of one recording", xlabel="seconds", xlim=(0, len(eeg) / RATE))
below.set_yticks(-height * np.arange(len(ELECTRODES)), ELECTRODES)
for axes in (above, below):
    axes.spines[["top", "right"]].set_visible(False)
figure.savefig(directory / "series.png", dpi=110)
print("drawn: series.png")
