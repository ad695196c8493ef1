"""Pictures of records: what is drawn of each kind of feature list, and what is refused."""

import io

import numpy as np
import pytest

import seqrecorder as sr
from seqrecorder.errors import OptionError, SchemaError


@sr.record
class Everything:
    key: str = sr.context(str, key=True)
    day: np.ndarray = sr.feature_list("datetime64[D]")
    price: np.ndarray = sr.feature_list("float64")
    pairs: np.ndarray = sr.feature_list("float32", shape=(2,))
    eeg: np.ndarray = sr.feature_list("float32", shape=(20,))
    spike: np.ndarray = sr.feature_list("bool")
    ids: np.ndarray = sr.feature_list("int32")
    words: list = sr.feature_list(str, align="words")
    frames: np.ndarray = sr.feature_list("uint8", shape=(4, 5, 3), align="frames")
    ragged: list = sr.feature_list("int8", shape=(None,), align="words")
    waves: np.ndarray = sr.feature_list("complex64", align=None, default=())
    nothing: np.ndarray | None = sr.feature_list("int8", optional=True, default=None)


def everything(key: str = "a\x1b$", size: int = 30) -> Everything:
    rng = np.random.default_rng(0)
    price = rng.normal(size=size)
    price[:2] = price[10:12] = price[-1:] = np.nan
    eeg = rng.normal(size=(size, 20)).astype("f4")
    eeg[3:4, 4] = np.nan
    days = np.arange("2026-01-01", size, dtype="datetime64[D]")
    words = ["wörd", "$x_1$", "\x00", *("w" * n for n in range(50))]
    ragged = [np.zeros(n % 3, "i1") for n in range(len(words))]
    pairs = rng.normal(size=(size, 2)).astype("f4")
    frames = rng.integers(0, 255, (7, 4, 5, 3)).astype("u1")
    return Everything(key, days, price, pairs, eeg, pairs[:, 0] > 0, np.arange(size), words, frames, ragged,
                      np.array([1j]))  # fmt: skip


def axes_of(figure):
    """Return the panels by the names of their fields."""
    figure.savefig(io.BytesIO(), format="png", dpi=20)
    return {ax.get_ylabel(): ax for ax in figure.axes if ax.get_ylabel()}


def test_every_kind_of_feature_list_has_its_picture():
    """Curves, a heat map, ticks, texts and images, over time where there is one; None is said."""
    axes = axes_of(sr.plot(everything()))
    assert list(axes) == ["price", "pairs", "eeg", "spike", "ids", "words", "frames", "ragged", "waves", "nothing"]
    assert "key a" in axes["price"].get_title(loc="left")
    assert axes["price"].get_xlabel() == "day"
    assert len(axes["price"].patches) == 3  # runs of missing steps
    assert len(axes["pairs"].lines) == 2
    assert "1 missing value" in axes["eeg"].texts[0].get_text()
    assert len(axes["spike"].collections[0].get_segments()) == int((everything().pairs[:, 0] > 0).sum())
    assert [text.get_text() for text in axes["words"].texts[:2]] == ["wörd", r"\x00"]
    assert "one text of 2" in axes["words"].get_xlabel()
    assert len(axes["frames"].get_xticks()) == 7
    assert axes["nothing"].texts[0].get_text() == "None"


def test_records_stand_under_one_another(tmp_path):
    """Of a selection, each with a title of its own; over steps where that is asked for."""
    sr.write([everything("a"), everything("b", 5)], tmp_path / "corpus")
    figure = sr.plot(sr.open(tmp_path / "corpus")["train"], ["price", "ids"], time="")
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles == ["key a", "", "key b", ""]
    assert figure.axes[0].get_xlabel() == "step"
    over_ids = sr.plot(everything("a"), ["price"], time="ids")
    assert over_ids.axes[0].get_xlabel() == "ids"


def test_times_that_go_backwards_are_drawn_themselves():
    """They are no axis; nor are those of records without steps."""
    record = everything(size=6)
    record.day = record.day[::-1]
    axes = axes_of(sr.plot(record))
    assert axes["price"].get_xlabel() == "step"
    assert "day" in axes
    empty = axes_of(sr.plot(everything(size=0), ["price", "eeg"]))
    assert empty["price"].texts[0].get_text() == "no steps"


def test_missing_times_are_marked_and_no_numbers():
    """The axis of times reaches over those that there are, not to the number that stands for NaT."""
    record = everything(size=6)
    record.day[2] = "NaT"
    days = axes_of(sr.plot(record))["day"]
    assert days.texts[0].get_text() == "1 steps with missing values"
    assert days.get_ylim()[0] > 0


def test_what_cannot_be_drawn_is_refused():
    """Nothing, too much, unknown fields, and axes that are none."""
    record = everything()
    with pytest.raises(OptionError, match="got none"):
        sr.plot([])
    with pytest.raises(OptionError, match="at most 16 records"):
        sr.plot([record] * 17)
    with pytest.raises(OptionError, match="expected a feature list to draw"):
        sr.plot(record, ["key"])
    with pytest.raises(SchemaError, match="no field"):
        sr.plot(record, ["prices"])
    with pytest.raises(OptionError, match="time: expected a feature list"):
        sr.plot(record, time="key")
    with pytest.raises(SchemaError, match="no field"):
        sr.plot(record, time="days")


@pytest.mark.parametrize("centre", [0, 5])
def test_missing_values_are_red_in_every_map(centre):
    """One colour map for one field, whatever the signs of a record's values; what is missing is red."""
    record = everything()
    record.eeg[:] += centre
    axes = axes_of(sr.plot(record, ["eeg"]))
    mesh = [*axes["eeg"].images, *axes["eeg"].collections][0]
    assert mesh.cmap.name == "viridis"
    red, green, blue, _ = mesh.cmap.get_bad()
    assert red > 2 * max(green, blue)
    assert axes["eeg"].texts[0].get_text() == "1 missing values in red"


def test_letters_without_a_font_are_no_warnings(recwarn):
    """Text of a script that no font has is drawn as question marks, in titles and names too, without a warning."""

    @sr.record
    class Talk:
        key: str = sr.context(str, key=True)
        words: list = sr.feature_list(str)

    axes = axes_of(sr.plot(Talk("\u0995", ["\u0995\u0996", "w\u00f6rd", "\u03b1$"])))
    assert [text.get_text() for text in axes["words"].texts] == ["??", "w\u00f6rd", "\u03b1\\$"]
    assert axes["words"].get_title(loc="left") == "key ?"
    assert not [str(warning.message) for warning in recwarn if "Glyph" in str(warning.message)]
