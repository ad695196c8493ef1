"""What tests of migration share: trials of functions."""

import subprocess
from types import SimpleNamespace

import pytest

from seqrecorder.legacy.migrate.verify import verify


@pytest.fixture
def warm_trials(monkeypatch, warm_python):
    """Functions are tried in processes that need not import TensorFlow."""
    names = {name: getattr(subprocess, name) for name in ("DEVNULL", "TimeoutExpired")}
    monkeypatch.setattr(verify, "subprocess", SimpleNamespace(run=warm_python.run, **names))
