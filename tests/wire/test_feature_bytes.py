"""Features that are made while values are gathered, against those that protobuf writes and the slower way makes."""

from typing import Any

import pytest
from protobuf_messages import BytesList, Feature, FeatureList

from seqrecorder.wire.byte_rows import split_rows
from seqrecorder.wire.write import text_features

TEXTS = ["", "a", "ü", "x" * 127, "naïve", " ", "\x01", "é" * 30]


def feature(text: str | bytes) -> Any:
    data = text.encode() if isinstance(text, str) else text
    return Feature(bytes_list=BytesList(value=[data]))


@pytest.mark.parametrize("kind", [str, bytes])
@pytest.mark.parametrize("longest", [0, 1, 100, 123, 124, 125, 126])
def test_texts_are_those_that_protobuf_writes(kind: type, longest: int) -> None:
    """Of any length whose headers are of one width, in a context and in lists; longer ones are left to others."""
    texts = [text for text in ["x" * longest, *TEXTS] if len(text.encode()) <= longest]
    given = texts if kind is str else [text.encode() for text in texts]
    made = text_features(given, kind, wrapped=False)
    wrapped = text_features(given, kind, wrapped=True)
    fits, fits_wrapped = longest <= 125, longest <= 123
    assert (made is not None, wrapped is not None) == (fits, fits_wrapped)
    if made is not None:
        assert split_rows(made) == [feature(text).SerializeToString() for text in given]
    if wrapped is not None:
        lists = [FeatureList(feature=[feature(text)]) for text in given]
        assert split_rows(wrapped) == [part.SerializeToString() for part in lists]


@pytest.mark.parametrize("kind", [str, bytes])
@pytest.mark.parametrize("long", [[122], [124, 125], [126, 128], [200, 20_000], [17_000, 130, 100_000]])
@pytest.mark.parametrize("place", [1, 40, 99])
def test_a_few_long_texts_among_short_ones(kind: type, long: list[int], place: int) -> None:
    """Long ones get the headers that they need, wherever they stand, side by side or apart."""
    short = [text for text in TEXTS if len(text) < 100]
    texts = [short[i % len(short)] for i in range(100)]
    texts[place:place] = ["x" * (size - 1) + "y" for size in long]
    texts.append("z" * long[0])
    given = texts if kind is str else [text.encode() for text in texts]
    made, wrapped = (text_features(given, kind, wrapped=wrap) for wrap in (False, True))
    assert made is not None
    assert wrapped is not None
    assert split_rows(made) == [feature(text).SerializeToString() for text in given]
    lists = [FeatureList(feature=[feature(text)]) for text in given]
    assert split_rows(wrapped) == [part.SerializeToString() for part in lists]


@pytest.mark.parametrize("texts", [[], ["a", "b\0"], ["\0"], ["x" * 128], ["a", "x" * 128], ["a", "é" * 100]])
def test_texts_that_are_left_to_others(texts: list[str]) -> None:
    """None, NULs, and long ones, wherever they stand."""
    assert text_features(texts, str, wrapped=True) is None
    assert text_features([text.encode() for text in texts], bytes, wrapped=False) is None


@pytest.mark.parametrize("texts", [[b"a"], ["a", b"b"], ["a", None], [None, "a"], ["a", 1], [1], ["a", ["b"]]])
def test_what_is_no_text_cannot_be_joined(texts: list[Any]) -> None:
    """Bytes among texts, None, numbers and lists: a TypeError, which makes gathering look at each value."""
    with pytest.raises(TypeError):
        text_features(texts, str, wrapped=True)


def test_lone_surrogates_cannot_be_encoded() -> None:
    """A text that UTF-8 cannot hold is found by joining too."""
    with pytest.raises(UnicodeEncodeError):
        text_features(["a", "\ud800"], str, wrapped=True)
