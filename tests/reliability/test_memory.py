"""Memory: the source is never held as a whole."""

import subprocess
import sys
from pathlib import Path

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

sr.write(sentences(20_000), sys.argv[1] + "/small")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
manifest = sr.write(sentences(100_000), sys.argv[1] + "/large", shard_bytes=8 << 20)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert manifest.records == 100_000
print(before, after)
"""


def test_a_generator_streams_in_flat_memory(tmp_path: Path) -> None:
    """100,000 records from a generator take no more memory than 20,000, within a tenth."""
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, check=True, timeout=300
    )
    before, after = map(int, result.stdout.split())
    assert after < 1.1 * before
