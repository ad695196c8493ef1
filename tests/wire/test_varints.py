"""Varints of many ints at once, against those that are made one by one."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqrecorder.wire.byte_rows import BARE, Head, split_rows, varint, varint_lengths, varints
from seqrecorder.wire.write import _INT_HEADS

HEADS = [BARE, *_INT_HEADS.values()]
EDGES = [0, 1, 127, 128, 2**14 - 1, 2**14, 2**15 - 1, 2**15, 2**16, 2**21, 2**31, 2**56 - 1, 2**56, 2**63 - 1]


def row(value: int, head: Head) -> bytes:
    data = varint(value % 2**64)
    before = head.constant + head.growing * len(data)
    return before.to_bytes(8, "little")[: head.size] + data


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("others", [[], [5], [5] * 40, [300] * 40, [-1] * 40])
@pytest.mark.parametrize("value", [*EDGES, -1, -(2**63)])
def test_ints_of_every_width(value: int, others: list[int], head: Head) -> None:
    """Alone, or beside ints that are mostly small or mostly large: the bytes do not depend on the company."""
    values = [*others, value, *others]
    blob = varints(np.array(values), head)
    assert split_rows(blob) == [row(each, head) for each in values]


@settings(deadline=None, max_examples=200, derandomize=True, database=None)
@given(
    st.lists(st.sampled_from([7, 14, 15, 16, 40, 63]).flatmap(lambda b: st.integers(-(2**b), 2**b - 1)), max_size=60)
)
def test_any_ints(values: list[int]) -> None:
    """Ints of mixed sizes and signs are varints of their two's complement, and their lengths are told."""
    given_values = np.array(values, np.int64)
    expected = [varint(value % 2**64) for value in values]
    assert split_rows(varints(given_values)) == expected
    assert varint_lengths(given_values).tolist() == list(map(len, expected))


@pytest.mark.parametrize("values", [np.arange(20)[::3], np.arange(6).reshape(2, 3), np.empty(0, np.int64)])
def test_arrays_of_any_form(values: Any) -> None:
    """Strided, two-dimensional and empty arrays are read in their order."""
    assert split_rows(varints(values)) == [varint(value) for value in values.ravel().tolist()]
