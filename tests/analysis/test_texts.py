"""Frequencies of texts: exact up to a limit, and in bounded memory beyond."""

from collections import Counter

from seqrecorder.analysis.numbers import Texts


def test_texts_are_counted_exactly_up_to_the_limit():
    """In whatever parts they come; equally frequent ones are in their order."""
    words = ["b", "a", "b", "", "a", "c"]
    whole, left, right = Texts(), Texts(), Texts()
    whole.add(words)
    left.add(words[:2])
    right.add(words[2:])
    for texts in (whole, left + right):
        assert texts.top(3) == [("a", 2), ("b", 2), ("", 1)]
        assert (texts.distinct, texts.total, texts.empty) == (4, 6, 1)
        assert (texts.shortest, texts.longest) == (0, 1)


def test_frequent_texts_survive_the_limit(random):
    """Beyond the limit memory stays bounded, and each count is too low by the stated error at most."""
    words = [f"w{n}" for n in random.zipf(1.5, 5000).tolist()]
    texts = Texts(limit=50)
    for start in range(0, len(words), 100):
        part = Texts(limit=50)
        part.add(words[start : start + 100])
        texts += part
    true = Counter(words)
    assert texts.distinct is None
    assert len(texts.counts) <= 50
    assert 0 < texts.error <= len(words) / 50
    assert all(true[word] - texts.error <= count <= true[word] for word, count in texts.counts.items())
    assert all(word in texts.counts for word, count in true.items() if count > texts.error)


def test_long_texts_are_told_apart_and_not_kept():
    """Two long ones with the same beginning are two; of each the beginning is shown."""
    texts = Texts()
    texts.add(["x" * 1000, "x" * 1000 + "y", b"z" * 1000])
    assert texts.distinct == 3
    assert texts.longest == 1001
    assert all(len(text) < 100 for text, _ in [(text, n) for text, n in texts.counts.items()])
