"""Random walks, and what can be learned of them."""

from typing import Any

import numpy as np

import seqrecorder as sr

LENGTHS = np.clip(np.random.default_rng(2).lognormal(2.2, 0.7, 120).astype(int), 1, 40).tolist()


@sr.record
class Walk:
    """A random walk, and what can be learned of it."""

    key: str = sr.context(str, key=True)
    up: int = sr.context("int32")
    x: Any = sr.feature_list("float32", shape=(1,))
    sign: Any = sr.feature_list("int32")
    token: Any = sr.feature_list("int32")


def walk(number: int, length: int) -> Walk:
    random = np.random.default_rng(number)
    x = random.normal(size=(length, 1)).astype("f4")
    drift = 0.7 if number % 2 else -0.7
    token = (number + np.arange(length)) % 5  # the next token is known from the last
    return Walk(f"k{number}", number % 2, x + np.float32(drift), (x[:, 0] + drift > 0).astype("i4"), token)
