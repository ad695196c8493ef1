"""Seeds and figures of random tests, and the order of the files: long ones begin."""

import datetime as dt
import gc
import json
import logging
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from warm_python import WarmPython

# Before TensorFlow is imported: its start-up messages would drown a failure's output.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

# Without compiled files, each process that a test starts compiles the package again, which is half of a command.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

FAST_ROOMS = ("schema", "wire", "storage")
"""The rooms of the inner loop whose tests run without TensorFlow."""

LONGEST_FIRST = (
    "test_readme.py",
    "test_examples.py",
    "legacy/convert/test_table.py",
    "reliability/test_corruption.py",
    "legacy/convert/test_converted_scripts.py",
    "reliability/test_layouts.py",
    "reading/batching/test_window.py",
    "keras/test_predict.py",
    "test_docstrings.py",
    "keras/test_resume.py",
    "bench/test_bench.py",
    "writing/test_writer.py",
    "reading/batching/test_pack.py",
    "reading/batching/test_unroll.py",
    "reliability/test_places.py",
    "reading/test_read.py",
    "reading/test_images.py",
    "reliability/test_meanwhile.py",
    "sources/foreign/test_numbered.py",
    "keras/test_unrolled.py",
    "legacy/test_contrib.py",
    "reading/test_field_maps.py",
    "reading/test_batch.py",
    "reading/batching/test_groups.py",
    "writing/test_worker_pool.py",
    "cli/test_main.py",
    "analysis/test_report.py",
    "reliability/test_exactly_once.py",
    "reliability/test_killed_writes.py",
    "legacy/convert/test_compare.py",
    "writing/test_external_shuffle.py",
    "reading/test_long_recordings.py",
)
"""The files that take longest, so that no core is idle while the last one is run."""


def pytest_configure(config):
    # pytest-xdist would begin with the files that have the most tests, which are the shortest.
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False
    # A script's background jobs ignore this signal, and so would the processes that tests interrupt.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.set_threshold(50_000, 50, 50)  # importing and tracing make very many small objects that stay
    import hypothesis

    is_ordinary = "not nightly" in config.option.markexpr
    # How long an example takes to draw or to run is for no test to say: others may have the cores. Each run of the
    # ordinary suite draws the same examples.
    too_slow = hypothesis.HealthCheck.too_slow
    hypothesis.settings.register_profile(
        "suite", deadline=None, suppress_health_check=[too_slow], derandomize=is_ordinary, database=None
    )
    hypothesis.settings.load_profile("suite")
    if is_ordinary:
        # Nothing here cuts the power, and the disk's answers are most of what a small write waits for.
        os.fsync = os.fstat


class NoTwinLambdas(logging.Handler):
    """Fails the test in which AutoGraph cannot tell two functions of a line apart, of which TensorFlow only warns."""

    def emit(self, record):
        assert "found multiple definitions" not in record.getMessage(), record.getMessage()


logging.getLogger("tensorflow").addHandler(NoTwinLambdas(logging.WARNING))


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is marked
def pytest_collection_modifyitems(items):
    names = set(Path(__file__).with_name("at_night.txt").read_text(encoding="utf-8").splitlines())
    for item in items:
        if item.nodeid in names:
            item.add_marker(pytest.mark.nightly)
    place = {Path(__file__).parent / name: number for number, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


def pytest_collection_finish():
    # What is imported by now stays; to look at it again and again takes a tenth of what tracing takes.
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _no_tensorflow_in_fast_rooms(request):
    """Let every import of TensorFlow fail in the fast rooms, also where another file has imported it."""
    with pytest.MonkeyPatch.context() as patch:
        if request.path.relative_to(Path(__file__).parent).parts[0] in FAST_ROOMS:
            patch.setitem(sys.modules, "tensorflow", None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    """Keep what is fetched from URLs out of the user's own cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEQRECORDER_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def warm_python():
    """Runs programs in processes of their own, which need not import TensorFlow; see `WarmPython.run`."""
    warm = WarmPython()
    yield warm
    warm.close()


@pytest.fixture
def seed():
    """The seed of a random test: 0, or SEQRECORDER_SEED."""
    number = int(os.environ.get("SEQRECORDER_SEED", "0"))
    print(f"seed {number}: SEQRECORDER_SEED={number} repeats this")  # noqa: T201 - pytest shows it when a test fails
    return number


@pytest.fixture
def random(seed):
    return np.random.default_rng(seed)


@pytest.fixture(params=[5, pytest.param(1, marks=pytest.mark.nightly)], ids=["every fifth", "every one"])
def stride(request):
    """How many batches lie between two checkpoints that are tried."""
    return request.param


@pytest.fixture
def figure(request):
    """Append a figure to the file SEQRECORDER_FIGURES: what was tried, how often, and what held each time."""
    run = {"test": request.node.nodeid, "date": str(dt.datetime.now(dt.timezone.utc).date()), "run": time.time_ns()}

    def say(promise, tried, count, kept):
        path = os.environ.get("SEQRECORDER_FIGURES")
        if path:
            line = json.dumps({**run, "promise": promise, "tried": tried, "count": count, "kept": kept})
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(line + "\n")

    return say
