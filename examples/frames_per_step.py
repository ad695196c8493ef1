"""Store a picture per step in three ways: as a tensor, as PNG and as JPEG.

Each record is a short film of a moving ball: a depth map (float32) and two copies of the same colour frames (uint8).
PNG and tensors are exact. JPEG is smaller but lossy, so you must ask for it.

    python examples/frames_per_step.py [output_dir]
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf

import seqrecorder as sr

SIZE = 48


@sr.record
class Film:
    name: str = sr.context(str, key=True)
    depth: np.ndarray = sr.feature_list("float32", shape=(SIZE, SIZE), storage="tensor")
    exact: np.ndarray = sr.feature_list("uint8", shape=(SIZE, SIZE, 3), storage="png")
    small: np.ndarray = sr.feature_list("uint8", shape=(SIZE, SIZE, 3), storage="jpeg")


def film(number):
    """Return a film of a ball that rolls over noisy ground."""
    random = np.random.default_rng(number)
    steps = random.integers(5, 15)
    y, x = np.mgrid[:SIZE, :SIZE]
    centres = np.linspace(random.uniform(5, 15, 2), random.uniform(30, 40, 2), steps)  # (T, 2)
    distance = np.hypot(y - centres[:, 0, None, None], x - centres[:, 1, None, None])  # (T, SIZE, SIZE)
    frames = random.normal(90, 12, (steps, SIZE, SIZE, 3)).clip(0, 255)
    frames[distance < 9] = [220, 60, 40]
    frames = frames.astype("uint8")
    return Film(f"film-{number}", distance.astype("float32"), frames, frames)


directory = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()) / "films"
films = [film(number) for number in range(12)]
manifest = sr.write(films, directory, overwrite=True)
print(f"{manifest.records} films, {manifest.steps} frames, {manifest.bytes / 1e6:.1f} MB")

print("unbatched, each film has its own length:")
for element in sr.read(directory, fields=["name", "exact"]).take(2):
    print("  ", element["name"].numpy().decode(), element["exact"].dtype.name, element["exact"].shape)

print("in batches, short films are padded with zeros:")
for batch in sr.read(directory, batch=sr.Pad(4, mask_name="mask")).take(1):
    print("   depth", batch["depth"].shape, "exact", batch["exact"].shape, "mask", batch["mask"].shape)
    print("   lengths", batch["sequence_length"].numpy().tolist())
    assert not tf.boolean_mask(batch["exact"], ~batch["mask"]).numpy().any()

# What a step takes in the file is what TensorFlow's own parser sees: one bytes value.
stored = dict.fromkeys(("depth", "exact", "small"), 0)
schema = sr.Schema.of(Film)
for serialized in schema.encode_batch(films):
    _, lists = tf.io.parse_single_sequence_example(serialized, schema.context_features, schema.sequence_features)
    for field in stored:
        stored[field] += int(tf.reduce_sum(tf.strings.length(lists[field].flat_values)))

error = dict.fromkeys(stored, 0.0)
for before, after in zip(films, sr.read_records(directory), strict=True):
    for field in stored:
        difference = np.subtract(getattr(after, field), getattr(before, field), dtype="float32")
        error[field] += float(np.abs(difference).mean()) / len(films)
for field, storage in [("depth", "tensor"), ("exact", "png"), ("small", "jpeg")]:
    print(f"{storage:>6}: {stored[field] / manifest.steps:7.0f} bytes a frame, mean error {error[field]:.3g}")
