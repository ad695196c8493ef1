"""Write the audio clips of a CSV list, cut into chunks, with only a few clips in memory at a time.

The record class defines three steps: make a record from a CSV row, load its samples just before they are encoded, and
cut a long clip into chunks. Unreadable files are left out and counted. All chunks of a clip are in the same split, and
the `examples.csv` of each split lists the shard and index of each record.

    python examples/audio_clips_from_csv.py [output_dir]
"""

import csv
import sys
import tempfile
from pathlib import Path

import attrs
import numpy as np

import seqrecorder as sr

RATE = 8000


@sr.record
class Clip:
    name: str = sr.context(str, key=True)
    label: str = sr.context(str)
    chunk: int = sr.context("int32", chunk=True, default=0)
    data: np.ndarray = sr.feature_list("float32", storage="packed", deferred=True, default=None)  # (T,)
    path: str = attrs.field(default="")  # a plain attrs field is not stored

    @classmethod
    def from_csv_row(cls, row, folder):
        return cls(name=row["name"], label=row["label"], path=str(folder / row["file"]))

    def to_csv_row(self):
        peak = float(np.abs(self.data).max())
        return {"name": self.name, "chunk": self.chunk, "samples": len(self.data), "peak": f"{peak:.2f}"}

    def load(self, normalise):
        try:
            self.data = np.load(self.path)
        except (OSError, ValueError):  # missing, cut short, or not a .npy file
            raise sr.SkipRecord from None
        if normalise:
            self.data = self.data / np.abs(self.data).max()

    def split(self, seconds):
        size = int(seconds * RATE)
        for chunk, start in enumerate(range(0, len(self.data), size)):
            yield attrs.evolve(self, chunk=chunk, data=self.data[start : start + size])


def make_clips(folder):
    """Write forty tones, a broken file, and a CSV that lists them; return the path of the CSV."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    rows = []
    for number in range(40):
        label, hertz = ("low", 220.0) if number % 2 else ("high", 880.0)
        seconds = np.arange(int(random.uniform(1, 3) * RATE)) / RATE
        tone = random.uniform(0.1, 0.9) * np.sin(2 * np.pi * hertz * seconds)
        np.save(folder / f"{number}.npy", tone.astype("float32"))
        rows.append({"name": f"clip-{number:02}", "label": label, "file": f"{number}.npy"})
    (folder / "7.npy").write_bytes(b"not an array")
    with (folder / "clips.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["name", "label", "file"])
        writer.writeheader()
        writer.writerows(rows)
    return folder / "clips.csv"


directory = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
clips = sr.from_csv(make_clips(directory / "raw"), Clip, folder=directory / "raw")
manifest = sr.write(
    clips,
    directory / "clips",
    splits={"train": 0.7, "eval": 0.15, "test": 0.15},
    params={"normalise": True, "seconds": 1.0},  # for `load` and `split`, which get those that they name
    csv=True,
    overwrite=True,
)

print(f"{manifest.records} chunks written, {manifest.skipped} clip skipped")
names = {}
for split, info in manifest.splits.items():
    names[split] = {record.name for record in sr.read_records(directory / "clips", split, fields=["name"])}
    print(f"{split}: {info.records} chunks of {len(names[split])} clips, {info.steps / RATE:.1f} s")
assert names["train"].isdisjoint(names["eval"] | names["test"])
print((directory / "clips" / "test" / "examples.csv").read_text().splitlines()[:3])
