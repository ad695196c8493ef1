"""Datasets that several files of tests read."""

from pathlib import Path

import pytest
from short_lines import written


@pytest.fixture(scope="session")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("short") / "lines")
