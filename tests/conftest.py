import gc
import os
from pathlib import Path

# Before TensorFlow is imported: its start-up messages would drown a failure's output.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

LONGEST_FIRST = (
    "reliability/test_corruption.py",
    "reliability/test_killed_writes.py",
    "test_readme.py",
    "test_records.py",
    "test_examples.py",
    "reliability/test_exactly_once.py",
    "test_reader.py",
    "migrate/test_verification.py",
    "batching/test_pack.py",
    "test_planning.py",
    "test_demo.py",
    "test_keras.py",
)
"""The files that take longest, so that with `-n 2` no core is idle while the other ends the last one."""


def pytest_configure(config):
    # pytest-xdist would begin with the files that have the most tests, which are the shortest.
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def pytest_collection_modifyitems(items):
    place = {Path(__file__).parent / name: number for number, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


def pytest_collection_finish():
    # What is imported by now stays. Tracing makes very many small objects, and looking at them all takes a tenth of it.
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)
