"""Combinations of options: some in the ordinary run, all of them in the long one."""

import pytest


def all_at_night(combinations, ordinary):
    """Return combinations for `parametrize`: those that are not ordinary are left to the long run."""
    combinations = list(combinations)
    ordinary = list(ordinary)
    assert all(one in combinations for one in ordinary)
    return [pytest.param(*one, marks=() if one in ordinary else pytest.mark.nightly) for one in combinations]
