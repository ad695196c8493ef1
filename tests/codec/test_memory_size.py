"""Estimates of what records take in memory, and the values that are taken for them."""

import numpy as np

import seqrecorder as sr
from seqrecorder.codec.memory_size import join_taken, sizer, taker


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
    """Where values are taken, texts of lists are counted, and sized by those of some records; all else is exact."""
    take, exact = taker(sr.Schema.of(Everything)), sizer(sr.Schema.of(Everything))

    def estimate(records):
        return take(records)[0]

    records = [record(number % 5) for number in range(1000)]
    assert estimate(records) == exact(records)
    records[500].words = np.array(["x" * 100_000, "ab"] + [""] * 98, object)
    assert exact(records[500:501]) - estimate(records[500:501]) == 0
    assert 98 * 8 < estimate(records) - estimate(records[:500] + records[501:]) < 100_000
    assert estimate([]) == 0


def test_values_are_taken_with_their_size():
    """What is taken are the records' own values, and of arrays of rows the lengths; the sizes are those of `sizer`."""
    schema = sr.Schema.of(Everything)
    records = [record(), record(0), record(5)]
    size, taken = taker(schema)(records)
    assert size == sizer(schema)(records)
    for name, values in taken.items():
        assert all(mine is getattr(other, name) for mine, other in zip(values.values, records, strict=True))
    lengths = {name: values.lengths.tolist() for name, values in taken.items() if values.lengths is not None}
    assert lengths == {"some": [2, 2, 2], "ids": [2, 0, 5], "words": [2, 0, 5]}


def test_values_are_taken_of_what_is_not_as_declared():
    """Where a value has no length, its field has none; where an attribute is missing, nothing is taken."""
    take = taker(sr.Schema.of(Everything))
    size, taken = take([record(some=None), record()])
    assert size == 2 * EXPECTED
    assert taken["some"].lengths is None
    assert taken["ids"].lengths.tolist() == [2, 2]
    assert take([record(), "no record"]) == (EXPECTED, {})


def test_taken_blocks_are_joined():
    """Blocks become one in their order; lengths are known where all blocks have them, and so are values."""
    take = taker(sr.Schema.of(Everything))
    blocks = [take(records)[1] for records in ([record(1)], [record(2), record(3)], [record(4, some=None)])]
    joined = join_taken(blocks)
    assert joined["ids"].lengths.tolist() == [1, 2, 3, 4]
    assert list(map(len, joined["words"].values)) == [1, 2, 3, 4]
    assert (joined["some"].lengths, joined["some"].values[3]) == (None, None)
    assert join_taken(blocks[:1]) is blocks[0]
    assert join_taken([*blocks, {}]) == {}
