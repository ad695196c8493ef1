"""What splits share is found, whatever it is, and nothing else."""

from pathlib import Path

import numpy as np
import pytest

import seqrecorder as sr
from seqrecorder.analysis.leakage import Shared


@sr.record
class Visit:
    key: str = sr.context(str, key=True)
    patient: str | None = sr.context(str, optional=True)
    day: np.datetime64 = sr.context("datetime64[D]")
    ids: np.ndarray = sr.feature_list("int64")


def visit(number: int, patient: str | None, ids: list[int]) -> Visit:
    return Visit(f"v{number}", patient, np.datetime64("2026-01-01") + number, ids)


@pytest.fixture
def corpus(tmp_path: Path) -> sr.Corpus:
    train = [visit(0, "a", [1]), visit(1, "b", [2]), visit(2, None, [3])]
    held = [visit(3, "c", [1]), visit(4, "b", [9]), visit(5, None, [3])]
    sr.write({"train": train, "eval": held}, tmp_path / "corpus")
    return sr.open(tmp_path / "corpus")


def test_nothing_is_found_where_nothing_is(corpus: sr.Corpus) -> None:
    """Splits of other keys and contents are clean, and it is said what was looked for."""
    report = sr.leakage(corpus)
    assert report.is_clean
    assert report == sr.leakage(corpus.manifest.path)
    assert str(report) == "no shared keys, no shared contents"
    assert repr(report) == "<Leakage: none; looked for keys, contents>"
    assert sr.leakage(corpus, time="day").is_clean


def test_groups_contents_keys_and_times_are_found(corpus: sr.Corpus) -> None:
    """Each is told with the splits, how many there are, and some of them; None is no group."""
    assert sr.leakage(corpus, by="patient").shared == (Shared(("train", "eval"), "groups", 1, ("b",)),)
    everything = corpus.all()
    parts = {"one": everything[:3], "two": everything[2:5], "three": everything[[5, 0]]}
    report = sr.leakage(parts, by=lambda record: record.patient, time="day")
    assert [(s.splits, s.what, s.count, s.examples) for s in report.shared if s.what in ("keys", "contents")] == [
        (("one", "two"), "keys", 1, ("v2",)),
        (("one", "three"), "keys", 1, ("v0",)),
        (("one", "two"), "contents", 1, ((2, 0),)),
        (("one", "three"), "contents", 1, ((0, 1),)),
    ]
    times = {s.splits: (s.count, s.examples) for s in report.shared if s.what == "times"}
    assert times["one", "two"] == (2, ("2026-01-03 to 2026-01-03",))
    assert not report.is_clean
    assert "keys" in str(report).splitlines()[1]
    assert "<table>" in report._repr_html_()


def test_equal_records_of_other_keys_are_found(tmp_path: Path) -> None:
    """Records that differ in nothing but their keys are equal contents."""
    same = {"patient": "a", "day": np.datetime64("2026-01-01"), "ids": [1, 2]}
    parts = {"train": [visit(9, "b", []), Visit("x", **same)], "eval": [Visit("y", **same)]}
    sr.write(parts, tmp_path / "corpus")
    report = sr.leakage(tmp_path / "corpus")
    assert report.shared == (Shared(("train", "eval"), "contents", 1, ((1, 0),)),)


def test_what_makes_no_sense_is_refused(corpus: sr.Corpus) -> None:
    """One selection has no splits, and fields must be of the right kind."""
    for wrong in (corpus["train"], {"a": [1]}):
        with pytest.raises(sr.OptionError, match="selections by name"):
            sr.leakage(wrong)  # type: ignore[arg-type]
    with pytest.raises(sr.OptionError, match="one value per record"):
        sr.leakage(corpus, by="ids")
    with pytest.raises(sr.OptionError, match="time: expected"):
        sr.leakage(corpus, time="patient")
