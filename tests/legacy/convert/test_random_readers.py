"""Random pipelines are printed, and what is printed gives what their queues gave."""

import pytest
from random_readers import RandomReader

from seqrecorder import legacy
from seqrecorder.errors import LiftError


def check(seed, files):
    try:
        conversion = legacy.convert(RandomReader(seed, files))
    except LiftError as error:
        assert "gives no batch" in str(error), f"seed {seed}: {error}"  # noqa: PT017 - a few keep nothing
        return
    assert conversion.printed, f"seed {seed}: {conversion.report}"
    assert max(map(len, conversion.source.splitlines())) < 100


@pytest.mark.parametrize("seed", range(2))
def test_random_readers(files, seed):
    """Some of them."""
    check(seed, files)


@pytest.mark.nightly
@pytest.mark.parametrize("hundred", range(20))
def test_many_random_readers(files, hundred):
    """Two thousand of them."""
    for seed in range(100 * hundred, 100 * hundred + 100):
        check(seed, files)
