"""Few descriptors: what a dataset has more of than a process may open is written and read all the same."""

import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = """
import os, resource, sys
import numpy as np
import seqrecorder as sr

@sr.record
class Row:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int64")

path, compression, limit = sys.argv[1], sys.argv[2] or None, int(sys.argv[3])
rows = [Row(f"k{n}", np.arange(n % 3000)) for n in range(0, 4900, 7)]
more = [Row(f"m{n}", np.arange(n % 50)) for n in range(100)]
list(sr.read(sr.write(rows[:3], path + "/first").path))  # what TensorFlow opens once is open
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

before = sorted(os.listdir("/proc/self/fd"))
shards = path + "/shards"
options = {"shards": 70, "compression": compression, "csv": True}
sr.write(rows, shards, **options)
sr.write(more, shards, append=True, **options)
assert list(sr.read_records(shards, schema=Row)) == rows + more
assert sum(len(batch["key"]) for batch in sr.read(shards, shuffle=50, batch=sr.Pad(8))) == len(rows + more)
assert sr.verify(shards, level="quick").ok
splits = path + "/splits"
sr.write(rows, splits, splits=lambda row: f"s{int(row.key[1:]) // 7 % 70}", compression=compression, csv=True)
assert len(sr.info(splits).splits) == 70
assert sr.verify(splits).ok
lines = [line for file in os.scandir(splits) if file.is_dir() for line in open(file.path + "/examples.csv")]
assert len(lines) == 70 + len(rows)
assert sorted(os.listdir("/proc/self/fd")) == before

held = []
try:
    while True:
        held.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    os.close(held.pop())
try:
    sr.write(rows, path + "/full", **options)
except sr.ShardWriteError as error:
    assert f"the limit is {limit} open files" in str(error) and "`shards`" in str(error), error
    assert "space" not in str(error), error
else:
    raise AssertionError("written without descriptors")
for number in held:
    os.close(number)
assert not os.path.exists(path + "/full")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")
@pytest.mark.parametrize("compression", [pytest.param("", marks=pytest.mark.nightly), "GZIP"])
def test_more_shards_and_splits_than_descriptors(
    tmp_path: Path, warm_python: Any, compression: str, figure: Any
) -> None:
    """Under 64 descriptors 70 shards, and 70 splits, are written and read; without any, the error names the limit."""
    done = warm_python.run([sys.executable, "-c", SCRIPT, str(tmp_path), compression, "64"], text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    figure(30, "shards and splits under 64 descriptors", 70, "enough descriptors")
