"""Estimates of what records take in memory."""

import attrs
import numpy as np

import seqrecorder as sr
from seqrecorder.codec.memory_size import sizer


@sr.record
class Everything:
    key: str = sr.context(str)
    number: int = sr.context("int64")
    image: np.ndarray = sr.context("uint8", shape=(2, 3))
    some: np.ndarray = sr.context("float32", shape=(None,), optional=True)
    ids: np.ndarray = sr.feature_list("int64")
    words: np.ndarray = sr.feature_list(str)
    ragged: list = sr.feature_list("int16", shape=(None,))
    bag: object = sr.feature_list("float32", sparse=9)


def record(steps=2, some=(1.0, 2.0)):
    return Everything(
        "four", 7, np.zeros((2, 3), "uint8"), some, range(steps), ["ab"] * steps, [[1, 2]] * steps, [{3: 1.0}] * steps
    )


EXPECTED = 4 + 8 + 6 + 8 + 2 * (8 + (2 + 8) + 4 + (8 + 4))


def test_sizes_of_every_kind():
    """Arrays count their bytes, text its characters and a pointer each, and lists and sparse vectors what they hold."""
    size = sizer(sr.Schema.of(Everything))
    assert size([record()]) == EXPECTED
    assert size([record(), record(0), record()]) == 2 * EXPECTED + 26
    assert size([]) == 0


def test_sizes_of_what_is_not_as_declared():
    """Values in other forms are looked at one by one, None counts as a number, and what is no record as nothing."""
    size = sizer(sr.Schema.of(Everything))
    assert size([record(some=None), record()]) == 2 * EXPECTED
    plain = record()
    object.__setattr__(plain, "words", ["ab", "ab"])  # what no converter has seen
    assert size([plain, record(some=None)]) == 2 * EXPECTED - 16
    assert size([record(), object(), 3]) == EXPECTED


def test_sizes_of_texts_from_a_sample():
    """Texts of lists are counted, and sized by those of some records; all else is exact."""
    size = sizer(sr.Schema.of(Everything))
    records = [record(number % 5) for number in range(1000)]
    assert size(records) == sum(size([one]) for one in records)
    records[500].words = np.array(["x" * 100_000, "ab"] + [""] * 98, object)
    alone = size(records[500:501])
    assert alone > 100_000
    assert 98 * 8 < size(records) - size(records[:500] + records[501:]) < 100_000


def test_sizes_of_optional_arrays_of_texts():
    """What is None, has no steps, or is in another form is no obstacle."""
    rows = attrs.make_class("Rows", {"words": sr.feature_list(str, optional=True)})
    size = sizer(sr.Schema.of(rows))
    assert size([rows(None), rows([])]) == 8
    assert size([rows([]), rows([])]) == 0
    assert size([rows(["abc"]), rows([])]) == 3 + 8
