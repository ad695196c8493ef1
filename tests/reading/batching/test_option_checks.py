"""`Pad`, `Bucket` and `TokenBudget`: options that check themselves, and what they give through `read`."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from short_lines import LENGTHS, keys

import seqrecorder as sr


def efficiency(batches: list[dict[str, tf.Tensor]]) -> float:
    real = sum(int(b["sequence_length"].numpy().sum()) for b in batches)
    return real / sum(int(tf.size(b["ids"])) for b in batches)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sr.Pad(0), "batch_size"),
        (lambda: sr.Pad("4"), "batch_size"),
        (lambda: sr.Pad(True), "batch_size"),
        (lambda: sr.Bucket(4, boundaries="best"), "'auto', 'quantile', 'sorted'"),
        (lambda: sr.Bucket(4, boundaries=[5, 5]), "ascending"),
        (lambda: sr.Bucket(4, boundaries=[0, 5]), "more than 0"),
        (lambda: sr.Bucket(4, boundaries=[1.5]), "ascending ints"),
        (lambda: sr.Bucket([4, 4], boundaries=[5, 9]), "expected 3 sizes"),
        (lambda: sr.Bucket([4, 4]), "needs given boundaries"),
        (lambda: sr.Bucket(4, buckets=0), "buckets"),
        (lambda: sr.Bucket(4, boundaries=5), "or ascending ints, got 5"),
        (lambda: sr.Bucket(4, warm_up="small"), "warm_up: expected 'largest' or None"),
        (lambda: sr.Ragged(4, empty="skip"), "empty: expected one of keep, drop, error"),
        (lambda: sr.TokenBudget(0), "max_steps: expected an int of 1 or more"),
        (lambda: sr.Bucket(4, pad_to_bucket_boundary=True, pad_to_multiple_of=8), "one of them"),
        (lambda: sr.TokenBudget(100, max_batch_size=3, batch_size_multiple=4), "max_batch_size: .* got 3"),
        (lambda: sr.TokenBudget(100, too_long="cut"), "too_long"),
        (lambda: sr.TokenBudget(3, batch_size_multiple=4), "at least batch_size_multiple"),
    ],
)
def test_options_that_make_no_sense(make: object, message: str) -> None:
    """An option that makes no sense is refused where it stands, by name."""
    with pytest.raises(sr.OptionError, match=message):
        make()


def test_auto_boundaries_pad_less_than_quantiles(lines: Path) -> None:
    """`"auto"` needs no more padding than as many quantiles, and keeps its batches' number known."""
    quantiles = sorted({int(q) for q in np.quantile(LENGTHS, np.arange(1, 8) / 8) if q >= 1})
    by_hand = list(sr.read(lines, batch=sr.Bucket(16, boundaries=quantiles)))
    dataset = sr.read(lines, batch=sr.Bucket(16))
    auto = list(dataset)
    assert len(auto) == int(dataset.cardinality())
    assert keys(auto) == keys(by_hand)
    assert efficiency(auto) > efficiency(by_hand) - 0.02
    assert efficiency(auto) > 0.75


@pytest.mark.parametrize("shuffle", [0, 1000])
def test_sorted_windows_pad_least(lines: Path, shuffle: int) -> None:
    """`"sorted"` needs the least padding, holds every record once, and knows the number of its batches."""
    dataset = sr.read(lines, batch=sr.Bucket(16, boundaries="sorted"), shuffle=shuffle, seed=0)
    batches = list(dataset)
    assert len(batches) == int(dataset.cardinality()) <= len(LENGTHS) // 16 + 8
    assert keys(batches) == sorted(f"k{i}".encode() for i in range(len(LENGTHS)))
    assert efficiency(batches) > 0.93
    widths = [b["ids"].shape[1] for b in batches if b["ids"].shape[0] == 16]
    assert (widths == sorted(widths)) == (shuffle == 0)


@pytest.mark.parametrize(
    "options",
    [sr.Bucket(16, boundaries="sorted"), pytest.param(sr.TokenBudget(600), marks=pytest.mark.nightly)],
    ids=["sorted", "budget"],
)
def test_resumes_exactly(lines: Path, tmp_path: Path, options: sr.Bucket) -> None:
    """An iterator saved between batches resumes with the identical remainder."""

    def build() -> tf.data.Dataset:
        return sr.read(lines, batch=options, shuffle=200, seed=1, epochs=2)

    iterator, anew = iter(build()), build()
    whole, saved = [], {}
    for number in itertools.count():
        if number % 11 == 0:
            saved[number] = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / f"at{number}"))
        batch = next(iterator, None)
        if batch is None:
            break
        whole.append(batch["key"].numpy().tolist())
    for position, path in saved.items():
        again = iter(anew)
        tf.train.Checkpoint(iterator=again).restore(path)
        assert [b["key"].numpy().tolist() for b in again] == whole[position:]
    assert len(saved) > 3
