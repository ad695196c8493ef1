"""Train a character model of Python's own source by truncated backpropagation through time.

A module has thousands of characters, too many for backpropagation through all of them. `sr.Unroll` assigns modules to
slots, with 50 characters per batch. `sr.keras.Unrolled` keeps the state of each slot until a new module begins.

    python examples/stateful_language_model.py [output_dir]
"""

import sys
import tempfile
from pathlib import Path

import keras
import numpy as np

import seqrecorder as sr

MODULES = ("bisect", "colorsys", "fnmatch", "heapq", "keyword", "opcode", "quopri", "reprlib", "sched", "shlex", "this")
SLOTS, STEPS, SYMBOLS = 8, 50, 128


@sr.record
class Module:
    name: str = sr.context(str, key=True)
    characters: np.ndarray = sr.feature_list("uint8", storage="packed")


def modules():
    for name in MODULES:
        source = Path(sys.modules["os"].__file__).with_name(f"{name}.py").read_text(encoding="utf-8")[:4000]
        yield Module(name, np.frombuffer(source.encode("ascii", "replace"), np.uint8))


directory = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()) / "modules"
sr.write(modules(), directory, overwrite=True)

unroll = sr.Unroll(SLOTS, STEPS, bucket=True)  # by number of segments: slots are busy until the end
plan = sr.plan(directory, "train", unroll)
print(plan)

names = {"inputs": ("characters", "reset"), "targets": sr.next_step("characters")}
train = sr.read(directory, "train", batch=unroll, epochs=None, **names)

keras.utils.set_random_seed(0)
characters = keras.Input(batch_shape=(SLOTS, STEPS), dtype="uint8")
reset = keras.Input(batch_shape=(SLOTS,), dtype="bool")
embedded = keras.layers.Embedding(SYMBOLS, 32)(characters)
states = sr.keras.Unrolled(keras.layers.GRU(128, return_sequences=True))(embedded, reset=reset)
model = keras.Model([characters, reset], keras.layers.Dense(SYMBOLS)(states))
# Without this reduction the loss would be an average over the padding too.
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
model.compile(keras.optimizers.Adam(0.005), loss=loss)
# How many batches an epoch has depends on the order of the records, so Keras is told by the plan.
history = model.fit(train, epochs=4, steps_per_epoch=plan.batches, shuffle=False, verbose=0)
losses = history.history["loss"]
print(f"nats per character: {losses[0]:.2f} at first, {losses[-1]:.2f} at last, {np.log(SYMBOLS):.2f} by guessing")
assert losses[-1] < 2.6
