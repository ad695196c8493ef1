"""A corpus with twelve flaws, planted one by one: what a report has to find."""

from pathlib import Path

import attrs
import numpy as np

import seqrecorder as sr

FLAWS = {
    "a damaged byte in a shard": ("damaged files", ""),
    "six records of train are in eval under other keys": ("shared contents", "train and eval"),
    "two speakers of train are in eval": ("groups nearly disjoint", "speaker, train and eval"),
    "nine records of train are copies": ("exact copies", ""),
    "five records have no step": ("empty records", ""),
    "one record is forty times as long": ("very long records", ""),
    "one channel is dead": ("constant values", "imu"),
    "an electrode falls off in the middle": ("missing values", "ecg"),
    "eval has no seizure": ("labels not in every split", "label"),
    "eval is in Fahrenheit": ("values differ", "temperature, train and eval"),
    "a clock is set back": ("time goes backwards", "times"),
    "-9999 stands for no pulse": ("outliers", "pulse"),
}
"""What was planted, and the rule that has to find it, with what it is about."""


@sr.record
class Recording:
    key: str = sr.context(str, key=True)
    speaker: str = sr.context(str)
    label: str = sr.context(str)
    temperature: float = sr.context("float64")
    times: np.ndarray = sr.feature_list("datetime64[ms]")
    ecg: np.ndarray = sr.feature_list("float32")
    imu: np.ndarray = sr.feature_list("float32", shape=(4,))
    pulse: np.ndarray = sr.feature_list("int16")


def recording(
    rng: np.random.Generator, number: int, speaker: str, label: str, *, steps: int, celsius: bool
) -> Recording:
    """Return a recording without a flaw."""
    times = np.datetime64("2026-01-01", "ms") + np.arange(steps) * 40 + number * 10_000
    ecg = np.sin(np.arange(steps) / 3) + rng.normal(0, 0.3, steps)
    warm = rng.normal(36.8, 0.4)
    return Recording(
        f"r{number}", speaker, label, warm if celsius else warm * 1.8 + 32, times, ecg.astype("f4"),
        rng.normal(0, 1, (steps, 4)).astype("f4"), rng.integers(55, 95, steps).astype("i2"),
    )  # fmt: skip


def write_flawed_corpus(path: Path, *, compression: str | None = None) -> None:
    """Write the corpus."""
    rng = np.random.default_rng(0)
    labels = np.array(["rest", "walk", "seizure"])
    train = [
        recording(rng, n, f"s{n % 20}", labels[n % 3], steps=int(rng.integers(40, 100)), celsius=True)
        for n in range(240)
    ]
    held = [
        recording(rng, 240 + n, f"s{20 + n % 10}", labels[n % 2], steps=int(rng.integers(40, 100)), celsius=False)
        for n in range(80)
    ]
    for record in train[::3]:
        record.ecg[30:38] = np.nan
    for at in (17, 90, 91):
        record = train[at]
        record.times[20:] -= np.timedelta64(3_600_000, "ms")
    train[40].pulse[::7] = -9999
    long = recording(rng, 320, "s4", "rest", steps=4000, celsius=True)
    empty = [recording(rng, 321 + n, f"s{n}", "walk", steps=0, celsius=True) for n in range(5)]
    copies = [attrs.evolve(train[100 + n], key=f"again-{n}") for n in range(9)]
    leaked = [attrs.evolve(train[n], key=f"leak-{n}") for n in (0, 40, 60, 120, 160, 180)]
    held += [*leaked, recording(rng, 330, "s7", "rest", steps=60, celsius=False)]
    for record in [*train, long, *held]:
        record.imu[:, 2] = 0.25
    sr.write({"train": [*train, long, *empty, *copies], "eval": held}, path, shards=2, compression=compression)
    shard = min((path / "train").glob("*.tfrecord"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 3] ^= 0xFF
    shard.write_bytes(data)
