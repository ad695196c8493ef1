"""Train a recurrent classifier on clips whose JPEG frames have different sizes and are resized while reading.

Each clip shows a disk that moves up, down, left or right over noise. Frames are stored as the JPEG files of a camera;
each camera has a size of its own.

    python examples/classify_clips.py [output_dir]
"""

import sys
import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import seqrecorder as sr

SIZE, WAYS = (24, 24), {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}


@sr.record
class Clip:
    key: str = sr.context(str, key=True)
    way: int = sr.context("int32")
    frames: list = sr.feature_list("uint8", shape=(None, None, 3), storage="jpeg")


def clip(number):
    """Make a clip of 5 to 9 frames, encoded as JPEG like the files of a camera."""
    random = np.random.default_rng(number)
    height, width = random.integers(30, 60, 2)
    way, steps = number % len(WAYS), random.integers(5, 10)
    y, x = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
    frames = []
    for place in np.linspace(-0.6, 0.6, steps):
        down, right = np.multiply(list(WAYS.values())[way], place) + random.normal(0, 0.05, 2)
        frame = random.normal(70, 15, (height, width, 3))
        frame[np.hypot(y - down, x - right) < 0.3] = (230, 180, 60)
        frames.append(tf.io.encode_jpeg(frame.clip(0, 255).astype("uint8")).numpy())
    return Clip(f"clip-{number}", way, frames)


directory = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()) / "clips"
manifest = sr.write(map(clip, range(400)), directory, splits={"train": 0.8, "test": 0.2}, seed=0, overwrite=True)
print(f"{manifest.records} clips, {manifest.steps} frames, {manifest.bytes / 1e6:.1f} MB")
first = next(iter(sr.read_records(directory, "train")))
print(f"frames of {first.key} as stored: {len(first.frames)} of {first.frames[0].shape}")

names = {"inputs": ("frames", "mask"), "targets": "way"}
batch = sr.Bucket(16, mask_name="mask")
train = sr.read(directory, "train", batch=batch, resize={"frames": SIZE}, shuffle=400, seed=0, epochs=None, **names)
test = sr.read(directory, "test", batch=batch, resize={"frames": SIZE}, **names)
print("a batch:", next(iter(train))[0][0].shape)

keras.utils.set_random_seed(0)
frames, mask = keras.Input((None, *SIZE, 3)), keras.Input((None,), dtype="bool")
pixels = keras.layers.Reshape((-1, SIZE[0] * SIZE[1] * 3))(keras.layers.Rescaling(1 / 255)(frames))
seen = keras.layers.Dense(32, activation="relu")(pixels)
model = keras.Model([frames, mask], keras.layers.Dense(len(WAYS))(keras.layers.GRU(32)(seen, mask=mask)))
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(0.002), loss=loss, metrics=["accuracy"])
model.fit(train, steps_per_epoch=20, epochs=4, shuffle=False, verbose=0)
_, accuracy = model.evaluate(test, verbose=0)
print(f"ways of unseen clips: {accuracy:.0%}, {1 / len(WAYS):.0%} by guessing")
