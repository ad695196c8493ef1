"""Rewriting, compacting, merging and appends (indexed, of a wider class): killed anywhere, old or new is there."""

import subprocess
import sys

import pytest
from killed_children import FORKING

EDITS = """
from seqrecorder.dataset.selection import rows_of

@sr.record
class Tagged(Word):
    tag: str = sr.context(str, default="none")

stride = int(sys.argv[2])

def forked(action, victim=0):
    return end(start(action, victim))

def records(path):
    if not path.exists():
        return None
    rows = rows_of(sr.open(path).all())
    manifest = rows.store.manifest
    for name, split in manifest.splits.items():
        for shard in split.shards:
            manifest.lengths(name, shard)
    splits = {name: (split.records, len(split.shards)) for name, split in manifest.splits.items()}
    return splits, rows.store.messages(rows.array()).rows()  # which checks their CRCs

words = [Word(f"w{n}", [n] * (n % 5)) for n in range(40)]
sr.write({"train": words[:30], "eval": words[30:]}, root / "old", shards=10)
sr.write([Word("other", [7])], root / "other")

def dropped(path):
    everything = sr.open(path).all()
    sr.rewrite(path, drop=everything[[3, 35]] if len(everything) == 40 else everything[:0])

def appended(path):
    if len(sr.open(path).all()) == 40:
        sr.write({"train": [Tagged("new", [1], "new")]}, path, append=True)

edits = {
    "rewrite": dropped,
    "compact": lambda path: sr.compact(path, shards=1),
    "append": appended,
    "merge": lambda path: path.exists() or sr.merge([root / "old", root / "other"], path),
}
for name, edit in edits.items():
    def prepared(place):
        place.mkdir(parents=True)
        if name != "merge":
            shutil.copytree(root / "old", place / "c")
        return place / "c"

    whole = prepared(root / name / "whole")
    old = records(whole)
    assert forked(lambda: edit(whole)) == 0
    points, new = int((root / "points").read_text()), records(whole)
    assert new != old
    killed = 0
    for victim in range(1, points + 1, stride):
        path = prepared(root / name / str(victim))
        assert forked(lambda: edit(path), victim) == -signal.SIGKILL, (name, victim)
        killed += 1
        found = records(path)
        assert found in (old, new), (name, victim)
        assert forked(lambda: edit(path)) == 0, (name, victim)
        assert records(path) == new, (name, victim)
        assert sr.verify(path).ok, (name, victim)
        if found == new and name in ("append", "merge"):
            continue  # nothing was done again, and the next write will tidy up
        assert [each.name for each in path.parent.iterdir()] == ["c"], (name, victim)
        known = {shard.name for split in sr.info(path).splits.values() for shard in split.shards}
        assert {file.name for file in path.rglob("*.tfrecord")} == known, (name, victim)
        if name == "rewrite":
            assert not any(b"w35" in file.read_bytes() for file in path.rglob("*") if file.is_file()), victim
        shutil.rmtree(path.parent)
    print(name, points, killed, flush=True)
"""


@pytest.mark.parametrize("stride", [61, pytest.param(1, marks=pytest.mark.nightly)])
def test_killed_edits_leave_old_or_new(tmp_path, stride, figure):
    """Killed at any fault point, an edit has happened or not; done again, it is complete, and nothing is left over.

    The ordinary run takes every 61st of the points, the long one all.
    """
    command = [sys.executable, "-c", FORKING + EDITS, str(tmp_path), str(stride)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = {name: (int(points), int(killed)) for name, points, killed in map(str.split, done.stdout.splitlines())}
    assert list(found) == ["rewrite", "compact", "append", "merge"]
    assert all(points > 40 for points, _ in found.values())
    killed = sum(killed for _, killed in found.values())
    figure(1, "SIGKILL at fault points of rewrites, merges, appends and compactions", killed, "complete or absent")
