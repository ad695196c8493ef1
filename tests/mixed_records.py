"""Records of a class with fields of every kind of encoding, of many lengths."""

from typing import Any

import numpy as np

import seqrecorder as sr


@sr.record
class Mixed:
    key: str = sr.context(str, key=True)
    number: int = sr.context("int64")
    ids: Any = sr.feature_list("int64")
    words: Any = sr.feature_list(str, align=None)
    frames: Any = sr.feature_list("float32", shape=(60,), align=None)  # 240 bytes: above the small-row limit
    ragged: Any = sr.feature_list("int32", shape=(None,), align=None)
    bag: Any = sr.context("float64", sparse=9)
    maybe: Any = sr.context("uint8", shape=(None,), optional=True, default=None)


def mixed(number: int) -> Mixed:
    rng = np.random.default_rng(number)
    steps = int(rng.integers(0, 9)) * (1 + 40 * (number % 7 == 0))
    return Mixed(
        key=f"k{number}",
        number=int(rng.choice([-1, 0, 1, 2**63 - 1, -(2**63)])),
        ids=rng.integers(-(2**62), 2**62, steps) >> rng.integers(0, 62, steps),
        words=["w" * int(n) for n in rng.choice([0, 1, 127, 128, 300], steps)],
        frames=rng.standard_normal((steps % 5, 60)).astype("f4"),
        ragged=[rng.integers(-9, 9, int(n)).astype("i4") for n in rng.integers(0, 4, steps)],
        bag={int(i): float(i) for i in rng.choice(9, int(rng.integers(0, 4)), replace=False)},
        maybe=None if number % 3 else rng.integers(0, 255, number % 5).astype("u1"),
    )


MANY = [mixed(number) for number in range(60)]
