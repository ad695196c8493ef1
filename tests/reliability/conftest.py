"""Seeds and figures: every random test prints its seed and takes another; every promise says what was tried."""

import json
import os
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def seed():
    """The seed of a random test: 0, or SEQRECORDER_SEED."""
    number = int(os.environ.get("SEQRECORDER_SEED", "0"))
    print(f"seed {number}: SEQRECORDER_SEED={number} repeats this")  # noqa: T201 - pytest shows it when a test fails
    return number


@pytest.fixture
def random(seed):
    return np.random.default_rng(seed)


@pytest.fixture
def figure():
    """Append a figure to the file SEQRECORDER_FIGURES: what was tried, how often, and what came out."""

    def say(promise, tried, count, found):
        place = os.environ.get("SEQRECORDER_FIGURES")
        if place:
            line = json.dumps({"promise": promise, "tried": tried, "count": count, "found": found})
            with Path(place).open("a", encoding="utf-8") as file:
                file.write(line + "\n")

    return say
