"""What parts, manifests and keys cost at scale: simulated, with the code that commits real ones.

`python tests/reliability/at_scale.py DIRECTORY 10000 1000000 300000000` makes the figures of the guide's page "At
scale": so many parts, shards and keys.
"""

# ruff: noqa: T201 - printing is its job

import random
import resource
import subprocess
import sys
import time
from pathlib import Path

import attrs
import numpy as np

import seqrecorder as sr
from seqrecorder.dataset.common_keys import SortedHashes, merged_hashes
from seqrecorder.dataset.manifest import ShardInfo, SplitInfo

LOST, TWICE = 0.01, 0.05


@sr.record
class Word:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int64")


def timed(what, action):
    wall, processor = time.perf_counter(), time.process_time()
    result = action()
    print(f"{what}: {time.perf_counter() - wall:.1f} s, {time.process_time() - processor:.1f} s of processor time")
    return result


def simulate_job(path, count):
    """Write many tiny parts, of which some are lost and some written twice; commit what there is, and the rest."""
    draw = random.Random(0)
    lost = {number for number in range(count) if draw.random() < LOST} or {0}
    tasks = [number for number in range(count) for _ in range(1 + (draw.random() < TWICE)) if number not in lost]
    draw.shuffle(tasks)

    def write(number):
        return sr.write_part([Word(f"{number}-{n}", range(n)) for n in range(10)], path, number)

    timed(f"{len(tasks)} attempts at {count} parts, {len(lost)} lost", lambda: [write(number) for number in tasks])
    try:
        timed("commit with lost parts", lambda: sr.commit(path, expected=count))
    except sr.DatasetNotFoundError as error:
        print(f"refused: {str(error)[-120:]}")
    size = write(min(lost)).path.joinpath("manifest.json").stat().st_size
    for number in lost:
        write(number)
    manifest = timed(
        f"commit of {count} parts, of {size} bytes of manifest each", lambda: sr.commit(path, expected=count)
    )
    assert manifest.records == 10 * count == sum(1 for _ in sr.read_records(path))
    assert not Path(f"{path}.parts").exists()
    print(f"memory of the process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB")


READ = """
import sys, time
from pathlib import Path
import seqrecorder as sr

def most_memory():  # of this program alone, where getrusage knows that of its parent, too
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])

sr.info  # which imports all
start, before = time.process_time(), most_memory()
shards = len(sr.info(sys.argv[1]).splits["train"].shards)
took, used = time.process_time() - start, most_memory() - before
print(f"a manifest of {shards} shards is read: {took:.1f} s of processor time, {used >> 10} MiB")
"""


def simulate_manifest(path, count, bins=16):
    """Write and read a manifest of many shards, which need not be there for that."""
    manifest = sr.write([Word("a", [1])], path)
    histogram = tuple((16 * number, 625) for number in range(1, bins + 1))
    infos = (
        ShardInfo(
            f"train-{n:05d}-of-{count:05d}.tfrecord", 10_000, 10**6, 10**8, f"{n:064x}", f"{n:064x}", histogram, n, 1
        )
        for n in range(count)
    )
    whole = attrs.evolve(manifest, splits={"train": SplitInfo("train", tuple(infos))})
    text = timed(f"the text of a manifest of {count} shards", whole.to_json)
    Path(path, "manifest.json").write_text(text)
    print(f"it has {len(text) / count:.0f} bytes for each shard")
    del whole, text
    print(subprocess.run([sys.executable, "-c", READ, path], capture_output=True, text=True, check=True).stdout, end="")


def simulate_keys(path, count, parts=100):
    """Compare the keys of many parts as `commit` does."""
    draw = np.random.default_rng(0)
    files = [Path(path, str(number)) for number in range(parts)]
    for file in files:
        np.sort(draw.integers(0, 2**64, count // parts, np.uint64)).tofile(file)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = timed(f"{count} keys compared", lambda: sum(map(len, merged_hashes([*map(SortedHashes, files)]))))
    assert found == count // parts * parts
    print(f"memory for that: {(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10} MiB")


if __name__ == "__main__":
    output = Path(sys.argv[1])
    parts, shards, keys = map(int, sys.argv[2:5])
    for name in ("manifest", "keys"):
        (output / name).mkdir(parents=True)
    simulate_keys(output / "keys", keys)
    if shards:
        simulate_manifest(str(output / "manifest"), shards)
    if parts:
        simulate_job(str(output / "job"), parts)
