"""How many modules a record passes on its way: a walk that a newcomer can follow."""

import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

import seqrecorder as sr

PACKAGE = Path(sr.__file__).parent
MOST = {"write": 18, "read": 18, "read_records": 14, "selection": 14, "verify": 12}


@sr.record
class Sound:
    key: str = sr.context(str, key=True)
    label: int = sr.context("int32")
    wave: np.ndarray = sr.feature_list("float32")


def write(path: Path) -> None:
    records = [Sound(f"s{n}", n % 3, np.arange(n + 1, dtype="f4")) for n in range(50)]
    shutil.rmtree(path.with_name("written"), ignore_errors=True)
    sr.write(records, path.with_name("written"), splits={"train": 0.8, "eval": 0.2}, seed=0)


WALKS: dict[str, Callable[[Path], object]] = {
    "write": write,
    "read": lambda path: list(sr.read(path, "train", batch=sr.Bucket(8), shuffle=20, seed=1)),
    "read_records": lambda path: list(sr.read_records(path, "train", schema=Sound)),
    "selection": lambda path: list(sr.open(path, schema=Sound)["train"].where(label=1)),
    "verify": sr.verify,
}


def modules_of(walk: Callable[[], object]) -> set[str]:
    """Count the modules whose functions run, in any thread; what runs while modules are imported does not count."""
    passed = set[str]()

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            code = frame.f_code
            if code.co_filename.startswith(str(PACKAGE)) and code.co_name != "<module>":
                passed.add(code.co_filename)

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        walk()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type] # as its documentation says
    names = {Path(file).relative_to(PACKAGE).with_suffix("").as_posix() for file in passed}
    return {name for name in names if not name.startswith(("schema/", "errors")) and not name.endswith("__init__")}


@pytest.mark.parametrize("name", WALKS)
def test_a_record_passes_few_modules(name: str, tmp_path: Path) -> None:
    """The second run of a verb goes through at most so many modules, those of declarations and errors aside."""
    sr.write([Sound(f"s{n}", n % 3, np.arange(n + 1, dtype="f4")) for n in range(50)], tmp_path / "data")
    WALKS[name](tmp_path / "data")
    passed = modules_of(lambda: WALKS[name](tmp_path / "data"))
    assert len(passed) <= MOST[name], sorted(passed)
    assert len(passed) > MOST[name] - 3, f"lower the bound of {name}: {len(passed)}"
