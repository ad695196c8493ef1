"""Write the data set of a release, for all later ones to read: `python tests/golden/make.py tests/golden/v1`.

A directory is never changed once a release has it; a new format version gets a new one.
"""

import sys
from pathlib import Path

import numpy as np

import seqrecorder as sr


@sr.record(kw_only=True)
class Golden:
    key: str = sr.context(str, key=True)
    flag: bool = sr.context("bool")
    small: int = sr.context("int8")
    huge: int = sr.context("uint64")
    half: float = sr.context("float16")
    brain: float = sr.context("bfloat16")
    single: float = sr.context("float32")
    double: float = sr.context("float64")
    complex: complex = sr.context("complex64")
    day: np.datetime64 = sr.context("datetime64[D]")
    took: np.timedelta64 = sr.context("timedelta64[us]")
    data: bytes = sr.context(bytes)
    grid: np.ndarray = sr.context("int32", shape=(2, 3))
    open: np.ndarray = sr.context("float64", shape=(None, 2))
    bag: sr.SparseVector = sr.context("float32", sparse=100)
    maybe: str | None = sr.context(str, optional=True, default=None)
    rate: int = sr.context("int32", default=16_000)
    ids: np.ndarray = sr.feature_list("int64")
    words: np.ndarray = sr.feature_list(str)
    mfcc: np.ndarray = sr.feature_list("float32", shape=(3,))
    exact: np.ndarray = sr.feature_list("float64", shape=(2,))
    raw: np.ndarray = sr.feature_list("uint8", storage="raw", shape=(4,))
    packed: np.ndarray = sr.feature_list("uint16", storage="packed")
    tensor: np.ndarray = sr.feature_list("int16", storage="tensor", shape=(2,))
    ragged: list = sr.feature_list("int64", shape=(None,))
    bags: list = sr.feature_list("int64", sparse=10)
    side: np.ndarray = sr.feature_list("int32", align="side", name="a side")
    free: np.ndarray | None = sr.feature_list("float32", align=None, optional=True, default=None)


def record(number):
    """Return the record of a number: the same in every version of everything."""
    steps = number % 4
    count = np.arange(steps)
    return Golden(
        key=f"k{number}-\u00e9\u4e2d",
        flag=number % 2 == 0,
        small=-number,
        huge=2**64 - 1 - number,
        half=number / 8,
        brain=np.float32(number * 4),
        single=np.array([0x7F800001 + number], np.uint32).view(np.float32)[0],
        double=number / 7,
        complex=complex(number, -number),
        day=np.datetime64("1969-12-31", "D") + number,
        took=np.timedelta64(-number, "us"),
        data=bytes(range(number)),
        grid=np.arange(6).reshape(2, 3) - number,
        open=np.full((number % 3, 2), number / 3),
        bag={number: 1.5, 99: -0.0},
        maybe=[None, "", "text"][number % 3],
        rate=number,
        ids=count * 2**40,
        words=[f"w{i}" for i in range(steps)],
        mfcc=np.float32(count)[:, None] * np.ones(3, np.float32),
        exact=np.stack([count / 3, -count / 9], 1),
        raw=np.tile(np.arange(4), (steps, 1)),
        packed=count + number,
        tensor=np.stack([count, -count], 1),
        ragged=[np.arange(i) for i in range(steps)],
        bags=[{i: i} for i in range(steps)],
        side=np.arange(number % 3),
        free=None if number % 2 else np.arange(number, dtype="float32"),
    )


RECORDS = [record(number) for number in range(12)]


def write(destination):
    """Write both data sets: a plain one with everything, and a small compressed one."""
    sr.write(
        RECORDS,
        Path(destination, "plain"),
        splits={"train": 0.6, "eval": 0.4},
        seed=5,
        shards=2,
        csv=True,
        metadata={"of": ["a", 1, None]},
        assets={"words.txt": "a\nb\n"},
    )
    sr.write(RECORDS[:5], Path(destination, "gzip"), compression="GZIP", shuffle=True)
    sr.write(RECORDS[5:7], Path(destination, "gzip"), compression="GZIP", append=True)


if __name__ == "__main__":
    write(sys.argv[1])
