"""What parts, manifests and keys cost at scale: simulated, with the code that commits real ones.

`python tests/reliability/at_scale.py DIRECTORY 10000 1000000 300000000` makes the figures of the guide's page "At
scale": so many parts, shards (a tenth of them with files, of 1,000 records each) and keys; 0 leaves one out.
"""

# ruff: noqa: T201 - printing is its job

import os
import random
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import attrs
import numpy as np

import seqrecorder as sr
from seqrecorder.dataset.keys import SortedHashes, merged_hashes
from seqrecorder.dataset.manifest import SplitInfo

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
import os, sys, time
from pathlib import Path
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf
import seqrecorder as sr

path, few, found = sys.argv[1], sys.argv[2], Path(sys.argv[1], "train").exists()

def most_memory():  # of this program alone, where getrusage knows that of its parent, too
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])

def timed(what, action):
    Path("/proc/self/clear_refs").write_text("5")  # the most memory counts anew
    wall, start, before = time.perf_counter(), time.process_time(), most_memory()
    result = action()
    took, used = time.process_time() - start, most_memory() - before
    print(f"{what}: {took:.2f} s of processor time, {time.perf_counter() - wall:.2f} s, {used >> 10} MiB")
    return result

def first(path, **options):
    return next(iter(sr.read(path, "train", **options)))

sr.open(few)["train"].sample(2, seed=0)
corpus = timed("open", lambda: sr.open(path))
train = corpus["train"]
print(f"{len(train)} records in {len(corpus.manifest.splits['train'].shards)} shards")
timed("a slice of nine tenths", lambda: train[: len(train) * 9 // 10])
timed("sample(1000)", lambda: train.sample(1000, seed=0))
if found:
    timed("a record", lambda: train[len(train) // 2])
    for name, batch in (("Pad", sr.Pad(64)), ("Bucket", sr.Bucket(64)), ("TokenBudget", sr.TokenBudget(4096))):
        for shuffle in (0, 1000):
            options = {"batch": batch, "shuffle": shuffle}
            first(few, **options)
            timed(f"first batch of three shards, {name}, shuffle={shuffle}", lambda: first(few, **options))
            timed(f"first batch, {name}, shuffle={shuffle}", lambda: first(path, **options))
"""


def simulate_manifest(path, count, files=None, bins=16):
    """Write and read a manifest of many shards, which are not there, or are all the same file under many names."""
    lengths = np.repeat(np.arange(1, bins + 1), 1000 // bins + 1)[:1000]
    manifest = sr.write([Word(str(n), range(size)) for n, size in enumerate(lengths)], path, shards=1)
    [shard] = manifest.splits["train"].shards
    infos = tuple(
        attrs.evolve(shard, name=f"train-{n:05d}-of-{count:05d}.tfrecord", start=n * shard.records)
        for n in range(count)
    )
    whole = attrs.evolve(manifest, splits={"train": SplitInfo("train", infos)})
    text = timed(f"the text of a manifest of {count} shards", whole.to_json)
    Path(path, "manifest.json").write_text(text)
    print(f"it has {len(text) / count:.0f} bytes for each shard")
    directory = Path(path, "train")
    if files:
        for old, names in ((shard.name, "name"), (shard.lengths_name, "lengths_name")):
            for number, info in enumerate(infos):
                if number % 30_000 == 0:  # a file has so many names at most
                    source = directory / f"{number}.{names}"
                    shutil.copy(directory / old, source)
                os.link(source, directory / getattr(info, names))
    else:
        shutil.rmtree(directory)
    del whole, text, infos
    sr.write([Word(str(n), range(n % bins)) for n in range(999)], f"{path}.few", shards=3)
    subprocess.run([sys.executable, "-c", READ, path, f"{path}.few"], check=True)


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
    (output / "keys").mkdir(parents=True)
    if keys:
        simulate_keys(output / "keys", keys)
    if shards:
        simulate_manifest(str(output / "files"), shards // 10, files=True)
        simulate_manifest(str(output / "manifest"), shards)
    if parts:
        simulate_job(str(output / "job"), parts)
