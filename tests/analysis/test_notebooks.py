"""What notebooks show of results and records: a table and a small picture each, short, with everything escaped."""

import re

import numpy as np
import pytest

import seqrecorder as sr

HOSTILE = "<script>alert(1)</script>\x1b]0;owned\x07\x1b[31m\r\x9b\u202e\u2028"


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


PRINTED = {
    **SHOWN,
    "report": sr.report,
    "stats by": lambda corpus: sr.stats(corpus, by="label"),
    "leakage": lambda corpus: sr.leakage(corpus, by="label"),
    "coverage": lambda corpus: sr.Vocabulary(["a"], oov_buckets=1).coverage(corpus["train"], "words"),
    "split shares": lambda corpus: corpus["train"].split({"a": 0.5, "b": 0.5}, stratify="label", by="key").shares,
    "schema": lambda corpus: corpus.schema,
}


@pytest.mark.parametrize("name", PRINTED)
def test_nothing_from_data_acts_upon_a_terminal(corpus, name):
    """Whatever is printed or shown has no control or direction character of the data."""
    result = PRINTED[name](corpus)
    texts = [str(result), repr(result), getattr(result, "_repr_html_", str)()]
    assert not [c for text in texts for c in set(text) - {"\n"} if not c.isprintable()]


def test_report_pages_have_no_control_characters(corpus, tmp_path):
    """A report's page has none either."""
    sr.report(corpus, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "owned" in page
    assert not [c for c in set(page) - {"\n"} if not c.isprintable()]


def test_errors_are_short_and_harmless(corpus):
    """An error escapes what came from data, keeps its lines, and leaves out the middle of a long text."""
    error = sr.OptionError(f"first {HOSTILE}\n  second {'x' * 5_000_000}; do this")
    assert str(error).startswith("first <script>")
    assert str(error).endswith("; do this")
    assert len(str(error)) <= 2000
    assert str(error).count("\n") == 1
    with pytest.raises(sr.RecordNotFoundError) as raised:
        corpus["train"][HOSTILE * 1000]
    assert len(str(raised.value)) <= 2000
    assert not [c for c in str(raised.value) if not c.isprintable()]


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
