"""`TokenBudget` through `read`: what its batches never exceed, and which records it leaves out or cuts."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from short_lines import LENGTHS, keys

import seqrecorder as sr


@pytest.mark.parametrize("multiple", [1, 4])
def test_budgets_are_never_exceeded(lines: Path, multiple: int) -> None:
    """Rows times longest length never exceed it, padding included, and sizes are multiples."""
    options = sr.TokenBudget(400, batch_size_multiple=multiple, max_batch_size=32)
    batches = list(sr.read(lines, batch=options, shuffle=500, seed=3))
    assert max(int(tf.size(b["ids"])) for b in batches) <= 400
    sizes = [b["ids"].shape[0] for b in batches]
    assert max(sizes) <= 32
    assert sum(size % multiple != 0 for size in sizes) <= 1
    assert keys(batches) == sorted(f"k{i}".encode() for i in range(len(LENGTHS)))


def test_records_over_the_budget(lines: Path) -> None:
    """A record that fits no batch is an error before anything is read, or left out on request."""
    over = int((LENGTHS > 30).sum())
    with pytest.raises(
        sr.OptionError, match=f"{over} records are longer than 30 steps, the longest has {LENGTHS.max()}"
    ):
        sr.read(lines, batch=sr.TokenBudget(30))
    batches = list(sr.read(lines, batch=sr.TokenBudget(30, too_long="drop")))
    assert keys(batches) == sorted(f"k{i}".encode() for i, n in enumerate(LENGTHS) if n <= 30)


def test_records_over_the_budget_are_cut_on_request(lines: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Their last steps are left out, lengths count what is left, and a log tells how many records that were."""
    batches = list(sr.read(lines, batch=sr.TokenBudget(30, too_long="cut_end")))
    assert keys(batches) == sorted(f"k{i}".encode() for i in range(len(LENGTHS)))
    lengths = np.concatenate([batch["sequence_length"].numpy() for batch in batches])
    assert sorted(lengths) == sorted(np.minimum(LENGTHS, 30))
    assert f"{(LENGTHS > 30).sum()} records are longer than 30 steps and cut" in caplog.text


@pytest.mark.parametrize("multiple", [1, 16])
def test_what_is_padded_to_multiples_counts(lines: Path, multiple: int) -> None:
    """Batches, the largest one that comes first too, never exceed the budget, padding included."""
    options = sr.TokenBudget(100, pad_to_multiple_of=multiple, too_long="cut_end", warm_up="largest")
    first, *batches = sr.read(lines, batch=options, shuffle=500, seed=3, inputs="ids", targets="ids")
    sizes = [int(tf.size(x)) for x, *_ in batches]
    assert max(sizes) <= int(tf.size(first[0])) <= 100
    assert all(x.shape[1] % multiple == 0 for x, *_ in batches)
    assert sum(int(x.shape[0]) for x, *_ in batches) == len(LENGTHS)
