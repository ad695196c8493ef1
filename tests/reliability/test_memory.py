"""Memory: the source is never held as a whole."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# Where a program is started, getrusage begins with the peak of its parent; VmHWM is its own.
PEAK = """
import sys
from pathlib import Path

def peak():
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
"""
linux = pytest.mark.skipif(sys.platform != "linux", reason="peaks are in /proc there, and in kilobytes")

SCRIPT = f"""{PEAK}
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
before = peak()
manifest = sr.write(sentences(many), sys.argv[1] + "/large", shard_bytes=8 << 20)
after = peak()
assert manifest.records == many
print(before, after)
"""


@linux
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
    figure(9, "records from a generator", many, "memory stays")


LARGE = f"""{PEAK}
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
    sr.write((image(size, number) for number in range(3)), path + "/large")
    sys.exit()

def use(dataset):
    if doing == "verify":
        assert sr.verify(dataset).ok
    else:
        for record in sr.read_records(dataset): pass

use(path + "/small")
before = peak()
use(path + "/large")
print((peak() - before) * 1024 / size)
"""


@linux
def test_large_records_are_read_one_at_a_time(tmp_path: Path, warm_python: Any, figure: Any) -> None:
    """A large record is in memory serialized and as arrays, beside the one before, still used, and what was freed."""

    def run(doing: str) -> str:
        command = [sys.executable, "-c", LARGE, str(tmp_path), doing]
        return warm_python.run(command, text=True, check=True, timeout=600).stdout

    run("write")
    assert float(run("verify")) < 3
    assert float(run("read")) < 4
    figure(9, "large records read", 3, "at most 4 times one of them in memory")


ROWS = f"""{PEAK}
import numpy as np
import pyarrow as pa
from pyarrow import parquet
import seqrecorder as sr

@sr.record
class Series:
    sensor: int = sr.context("int32", key=True)
    time: np.ndarray = sr.feature_list("int64")
    value: np.ndarray = sr.feature_list("float64")

path, pieces, random = sys.argv[1] + "/rows.parquet", int(sys.argv[2]), np.random.default_rng(0)
schema = pa.schema([("sensor", pa.int32()), ("time", pa.int64()), ("value", pa.float64())])
with parquet.ParquetWriter(path, schema) as writer:
    for _ in range(pieces):
        sensors, values = random.integers(0, 100_000, 1_000_000).astype("i4"), random.normal(size=1_000_000)
        writer.write_table(pa.table([sensors, random.integers(0, 2**40, 1_000_000), values], schema=schema))
records = sr.from_rows(path, Series, by="sensor", order="time")
groups = sum(table.num_rows for table in records.tables())
assert (groups, records.rows) == (100_000, pieces * 1_000_000)
print(peak())
"""


@linux
@pytest.mark.nightly
@pytest.mark.parametrize("pieces", [10, 30])
def test_rows_are_sorted_outside_of_memory(tmp_path: Path, pieces: int) -> None:
    """However many rows a file has, sorting and gathering them takes less than 1.5 GiB."""
    result = subprocess.run(
        [sys.executable, "-c", ROWS, str(tmp_path), str(pieces)],
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
    )
    assert int(result.stdout) < 1536 * 1024
