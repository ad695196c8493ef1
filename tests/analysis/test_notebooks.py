"""What notebooks show of results and records: a table and a small picture each, short, with everything escaped."""

import re

import numpy as np
import pytest

import seqrecorder as sr

HOSTILE = "<script>alert(1)</script>"


@sr.record
class Sample:
    key: str = sr.context(str, key=True)
    label: str = sr.context(str)
    frames: np.ndarray = sr.feature_list("float32", shape=(8,))
    ids: np.ndarray = sr.feature_list("int64")
    words: list = sr.feature_list(str, align=None)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("notebooks") / "corpus"
    samples = [
        Sample(f"{HOSTILE}{n}", HOSTILE, rng.normal(size=(n + 1, 8)).astype("f4"), np.arange(n + 1), [HOSTILE] * n)
        for n in range(300)
    ]
    sr.write({"train": samples[:200], "eval": samples[200:]}, path)
    return sr.open(path)


SHOWN = {
    "manifest": lambda corpus: corpus.manifest,
    "corpus": lambda corpus: corpus,
    "selection": lambda corpus: corpus["train"][:200:2],
    "plan": lambda corpus: sr.plan(corpus["train"], sr.Pad(8), sr.Bucket(8)),
    "stats": sr.stats,
    "field": lambda corpus: sr.stats(corpus)["frames"],
    "ids": lambda corpus: sr.stats(corpus)["ids"],
    "vocabulary": lambda corpus: sr.Vocabulary.build(corpus, "words"),
    "record": lambda corpus: corpus["eval"][-1],
    "own record": lambda _: Sample("k", HOSTILE, np.full((3, 8), np.nan, "f4"), np.arange(3), []),
}


@pytest.mark.parametrize("name", SHOWN)
def test_notebooks_show_a_table_and_a_picture(corpus, name):
    """Each has one of both, of at most some kilobytes, and no markup comes from the data."""
    shown = SHOWN[name](corpus)._repr_html_()
    assert shown.startswith("<table>")
    assert "<svg viewBox=" in shown
    assert len(shown) < 20_000
    assert "<script" not in shown
    assert not re.search(r'(?:d|x|y|width|height)="[^"]*(?:nan|inf)', shown)


@pytest.mark.parametrize("name", [name for name in SHOWN if "record" not in name])
def test_results_print_in_a_line(corpus, name):
    """What is held prints short."""
    line = repr(SHOWN[name](corpus))
    assert "\n" not in line
    assert len(line) < 400


def test_a_class_keeps_what_it_shows_itself():
    """A `_repr_html_` of the user's stays."""

    @sr.record
    class Own:
        text: str = sr.context(str)

        def _repr_html_(self) -> str:
            return "<b>mine</b>"

    assert Own("a")._repr_html_() == "<b>mine</b>"


def test_what_has_no_steps_has_no_picture(tmp_path):
    """Of records without feature lists, and of none, there are tables."""

    @sr.record
    class Word:
        text: str = sr.context(str)

    sr.write([Word("to")], tmp_path / "corpus")
    corpus = sr.open(tmp_path / "corpus")
    for shown in (corpus.manifest, corpus["train"], sr.stats(corpus), sr.stats(corpus)["text"], corpus["train"][0]):
        assert "<svg" not in shown._repr_html_()
    assert "<table>" in corpus["train"][:0]._repr_html_()
