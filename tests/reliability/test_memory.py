"""Memory: the source is never held as a whole."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = """
import resource, sys
import numpy as np
import seqrecorder as sr

@sr.record
class Sentence:
    ids: np.ndarray = sr.feature_list("int64")

def sentences(count):
    values = np.arange(400)
    for number in range(count):
        yield Sentence(values[: 20 + number % 40].copy())

few, many = int(sys.argv[2]), int(sys.argv[3])
sr.write(sentences(few), sys.argv[1] + "/small")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
manifest = sr.write(sentences(many), sys.argv[1] + "/large", shard_bytes=8 << 20)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert manifest.records == many
print(before, after)
"""


@pytest.mark.parametrize(
    ("few", "many"), [(20_000, 100_000), pytest.param(100_000, 1_000_000, marks=pytest.mark.nightly)]
)
def test_a_generator_streams_in_flat_memory(tmp_path: Path, few: int, many: int, figure: Any) -> None:
    """Many records from a generator take no more memory than few, within a tenth."""
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), str(few), str(many)],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    before, after = map(int, result.stdout.split())
    assert after < 1.1 * before
    figure(9, "records from a generator", many, "growth of memory by a tenth")


LARGE = """
import resource, sys
import numpy as np
import seqrecorder as sr

@sr.record
class Image:
    pixels: np.ndarray = sr.context("float32", shape=(None,))
    ids: np.ndarray = sr.feature_list("int64")
    marks: np.ndarray = sr.context("float64", shape=(None,))

path, doing, size = sys.argv[1], sys.argv[2], 40_000_000
if doing == "write":
    def image(size, number):  # a third of its bytes in each field
        return Image(np.full(size // 12, number, "f4"), np.full(size // 21, number), np.full(size // 24, number, "f8"))
    sr.write([image(100, 0)], path + "/small")
    sr.write((image(size, number) for number in range(4)), path + "/large")
    sys.exit()

def use(dataset):
    if doing == "verify":
        assert sr.verify(dataset).ok
    else:
        for record in sr.read_records(dataset): pass

use(path + "/small")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
use(path + "/large")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / size)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peaks are in kilobytes there")
def test_large_records_are_read_one_at_a_time(tmp_path: Path, warm_python: Any, figure: Any) -> None:
    """A large record is in memory serialized and as arrays, beside what is parsed and the one before, still used."""

    def run(doing: str) -> str:
        command = [sys.executable, "-c", LARGE, str(tmp_path), doing]
        return warm_python.run(command, text=True, check=True, timeout=600).stdout

    run("write")
    assert float(run("verify")) < 3
    assert float(run("read")) < 4
    figure(9, "large records read", 4, "more than 4 times one of them in memory")
