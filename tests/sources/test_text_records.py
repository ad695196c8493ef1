"""Records of text in columns: those that are made one by one, with the same errors and the same left out."""

import itertools

import attrs
import numpy as np
import pytest
from combinations import all_at_night

import seqrecorder as sr
from seqrecorder.writing.columns import ColumnSource


@sr.record
class Plain:
    name: str = sr.context(str)
    tokens: np.ndarray = sr.feature_list(str)
    heads: np.ndarray = sr.feature_list("int16")


@sr.record
class WatchedPlain(Plain):
    def __attrs_post_init__(self):
        """Look at each record, which columns would pass by."""


@sr.record
class Series:
    label: int = sr.context("int8")
    values: np.ndarray = sr.feature_list("float32")


@sr.record
class WatchedSeries(Series):
    def __attrs_post_init__(self):
        """Look at each record, which columns would pass by."""


def conll(path, kind, count, **options):
    lines = [f"# name = s{i}\n" + "".join(f"w{i}\t{j}\n" for j in range(i % 4 + 1)) for i in range(count)]
    lines[7] = lines[7].replace("\t2\n", "\tx\n")
    lines[11] = "only\n"
    path.write_text("\n".join(lines))
    return sr.from_conll(path, Plain if kind else WatchedPlain, columns=["tokens", "heads"], **options)


def jsonl(path, kind, count, **options):
    lines = [f'{{"id": "s{i}", "tokens": ["a", "b"], "heads": [{i}, 1], "more": 1}}' for i in range(count)]
    lines[7], lines[11] = lines[7].replace("7,", "70000,"), "{"
    path.write_text("\n".join(lines))
    of = Plain if kind else WatchedPlain
    return sr.from_jsonl(path, of, columns={"name": "id"}, extra="ignore", **options)


def ts(path, kind, count, **options):
    lines = [f"{i},?,{i}.5:{'ab'[i % 2]}" for i in range(count)]
    lines[7], lines[11] = "1,x:a", "1:c"
    path.write_text("\n".join(["@classLabel true a b", "@data", *lines]))
    return sr.from_ts(path, Series if kind else WatchedSeries, **options)


SOURCES = (conll, jsonl, ts)


@pytest.mark.parametrize(
    ("count", "source"),  # one piece, or several
    all_at_night(
        itertools.product([20, 4200], SOURCES), [*((20, source) for source in SOURCES), (4200, jsonl), (4200, ts)]
    ),
)
def test_columns_are_the_records(tmp_path, source, count):
    """A class that is made by nothing but its fields comes in columns, equal to the records of another."""
    plain, watched = (source(tmp_path / "x", kind, count, on_error="skip") for kind in (True, False))
    assert isinstance(plain, ColumnSource)
    assert not isinstance(watched, ColumnSource)
    expected = [attrs.asdict(record) for record in watched]
    assert len(expected) == count - 2
    for got, wanted in zip(plain, expected, strict=True):
        for name, value in attrs.asdict(got).items():
            np.testing.assert_array_equal(value, wanted[name])
    assert plain.skipped == watched.skipped == 2
    manifests = [sr.write(records, tmp_path / type(records).__name__) for records in (plain, watched)]
    assert [(manifest.records, manifest.skipped) for manifest in manifests] == [(count - 2, 2)] * 2


@pytest.mark.parametrize("source", SOURCES)
def test_a_piece_that_is_no_record_is_named_alike(tmp_path, source):
    """The first bad piece among many is the error that it is alone, and nothing is published."""
    said = []
    for kind in (True, False):
        with pytest.raises(sr.SourceError) as caught:
            sr.write(source(tmp_path / "x", kind, 20), tmp_path / "corpus")
        said.append(str(caught.value).replace("Watched", ""))
        assert not (tmp_path / "corpus").exists()
    assert said[0] == said[1]
    assert "on_error='skip'" in said[0]
