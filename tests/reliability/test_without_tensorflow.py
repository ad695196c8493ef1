"""What needs numpy only imports no TensorFlow: each verb, in a process of its own."""

import json
import subprocess
import sys

VERBS = """
import sys, tempfile, json
from pathlib import Path
import numpy as np
import seqrecorder as sr
from seqrecorder.cli.main import main

@sr.record
class Line:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int64")
    x: np.ndarray = sr.feature_list("float32", shape=(2,), storage="tensor")
    words: np.ndarray = sr.feature_list(str, optional=True, default=None)

place = Path(tempfile.mkdtemp())
lines = [Line(f"k{n}", np.arange(n % 5), np.zeros((n % 5, 2)), ["w"] * (n % 5) if n % 2 else None) for n in range(300)]
schema = sr.Schema.of(Line)
done = []

def step(name, ok):
    assert ok, name
    assert "tensorflow" not in sys.modules, name
    done.append(name)

step("encode, decode", schema.decode_batch(schema.encode_batch(lines)) == lines)
try:
    schema.decode(b"\\x0a\\x05abc")
except sr.RecordError:
    step("decode of what is no record", True)
for compression in (None, "GZIP"):
    path = place / f"lines{compression}"
    sr.write(lines, path, splits={"train": 0.5, "eval": 0.5}, shards=2, compression=compression, csv=True)
    step("write", True)
    sr.write(lines[:5], path, append=True, on_duplicate="first", compression=compression)
    step("append", True)
    step("read_records", len(list(sr.read_records(path, "train"))) + len(list(sr.read_records(path, "eval"))) == 300)
    step("verify", sr.verify(path).ok)
corpus = sr.open(place / "linesNone").all()
step("columns", sum(columns["ids"].values.size for columns in corpus.columns()) == 600)
step("where", len(corpus.where(key=["k3", "k4"])) == 2)
step("by key", corpus["k7"].key == "k7")
step("sorted_by", len(corpus.sorted_by("key")) == 300)
step("stats", sr.stats(corpus) is not None)
corpus.to_jsonl(place / "lines.jsonl")
step("to_jsonl", (place / "lines.jsonl").read_text().count("\\n") == 300)
step("write of a selection", sr.write(corpus[:10], place / "ten").records == 10)
bare = sorted((place / "linesNone" / "train").glob("*.tfrecord"))
step("bare shards", len(list(sr.read_records(bare, schema=Line))) > 100)
damaged = bytearray(bare[0].read_bytes())
damaged[100] ^= 0xFF
bare[0].write_bytes(damaged)
step("verify of damaged data", not sr.verify(place / "linesNone").ok)
step("salvage", sr.salvage(place / "linesNone", place / "saved") is not None)
for words in (
    ["head", str(place / "ten"), "-n", "1"], ["verify", str(place / "ten")], ["info", str(bare[1])],
    ["stats", str(place / "ten")], ["schema", str(bare[1])], ["head", str(bare[1])],
    ["salvage", str(place / "linesNone"), str(place / "again")],
    ["convert", str(bare[1]), str(place / "converted")],
):
    step("seqrecorder " + words[0], main(words) in (0, 1))
print("\\n" + json.dumps(done))
"""


def test_verbs_import_no_tensorflow() -> None:
    """Encoding, decoding, writing, reading, selections, statistics, verification and salvage need numpy only."""
    run = subprocess.run([sys.executable, "-c", VERBS], check=False, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-3000:]
    assert len(json.loads(run.stdout.splitlines()[-1])) > 25
