"""Pieces of records and of columns: bounded in number and bytes, complete and in order; and what records take."""

import attrs
import numpy as np
import pytest

import seqrecorder as sr
from seqrecorder.codec.columns import Column, gather
from seqrecorder.codec.encode import bytes_of, cut, records_in_piece, sizer
from seqrecorder.schema.exact_values import same_bits
from seqrecorder.schema.schema import Schema


@sr.record
class Steps:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int64")


def steps(count: int, length: int = 2) -> list[Steps]:
    return [Steps(f"k{number}", np.arange(length) + number) for number in range(count)]


def test_pieces_are_bounded_in_number() -> None:
    """Small records come in pieces of as many as may be."""
    assert records_in_piece(40_000, 40_000) == 16_384
    assert records_in_piece(0, 0) == 16_384


@pytest.mark.parametrize("size", [0, 1, 64, 512, 3071, 3072, 3073, 6 << 20, 10**9])
def test_pieces_are_bounded_in_bytes(size: int) -> None:
    """Records of equal size come in pieces of a mebibyte to six, and one at least, unless there are very many."""
    most = records_in_piece(50_000, 50_000 * size)
    assert most >= 1
    assert most * size <= max(6 << 20, size)
    assert most == 16_384 or 2 * most * size >= 1 << 20


@pytest.mark.parametrize(("size", "wanted"), [(10, 16_384), (100, 10_486), (1000, 2048), (2000, 2048), (5000, 1258)])
def test_pieces_of_many_records_end_early(size: int, wanted: int) -> None:
    """A piece ends where it has many records and a mebibyte; one of fewer goes on to its limit."""
    assert abs(records_in_piece(40_000, 40_000 * size) - wanted) <= 1
    columns = {"x": Column(np.zeros((40_000, size), np.uint8))}
    assert abs(next(cut(columns, 40_000))[0] - wanted) <= 1


def test_errors_name_the_position_in_all_records() -> None:
    """A record that does not fit is named by its place in what was given, whatever piece it is in."""
    bad = steps(1)[0]
    bad.ids = "x"  # type: ignore[assignment]  # what no converter has seen
    with pytest.raises(sr.RecordError) as caught:
        Schema.of(Steps).encode_batch([*steps(16_390), bad, *steps(10)])
    assert (caught.value.position, caught.value.key) == (16_390, "k0")


def test_cut_columns_are_views_of_bounded_pieces() -> None:
    """Columns are cut at records, into pieces of so many bytes, without a copy."""
    schema, records = Schema.of(Steps), steps(100, 16_000)
    assert [size for size, _ in cut(gather(schema, steps(100)), 100)] == [100]
    assert list(cut(gather(schema, []), 0)) == []
    columns = gather(schema, records)
    start = 0
    for size, piece in cut(columns, 100):
        assert size * 8 * 16_000 <= 6 << 20
        assert piece["ids"].values.base is not None
        assert_equal_columns(piece, gather(schema, records[start : start + size]))
        start += size
    assert start == 100


def assert_equal_columns(got: dict[str, Column], want: dict[str, Column]) -> None:
    """All parts of all columns are equal, but for features, which are not cut."""
    names = [attribute.name for attribute in attrs.fields(Column) if attribute.name != "features"]
    for field, column in want.items():
        for name in names:
            mine, other = getattr(got[field], name), getattr(column, name)
            assert (mine is None) == (other is None)
            assert mine is None or same_bits(mine, other)


def test_bytes_of_columns() -> None:
    """Texts count their characters and a pointer each, numbers their width."""
    schema = Schema.of(Steps)
    records = [Steps("k" * 200, np.array([1])), Steps("é", np.arange(3))]
    assert bytes_of(gather(schema, records)) == 201 + 2 * 8 + 4 * 8 + 2 * 8 - 2 * 8
    assert bytes_of(gather(schema, [])) == 0


# Sizes ----------------------------------------------------------------------------------------------------------------


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
    """Values in other forms are looked at one by one, and what is None or missing counts as a number."""
    size = sizer(sr.Schema.of(Everything))
    assert size([record(some=None), record()]) == 2 * EXPECTED
    plain = record()
    object.__setattr__(plain, "words", ["ab", "ab"])  # what no converter has seen
    assert size([plain, record(some=None)]) == 2 * EXPECTED - 16
    assert size([record(), object(), 3]) == EXPECTED + 2 * 8 * len(attrs.fields(Everything))


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
