"""Pack several sequences into a row, for a model that attends only within segments.

python examples/packed_rows.py [output_dir]
"""

import sys
import tempfile
from pathlib import Path

import keras
import numpy as np

import seqrecorder as sr

LENGTH, WORDS = 64, 50


@sr.record
class Sentence:
    topic: int = sr.context("int32")  # each segment of a row has its own
    ids: np.ndarray = sr.feature_list("int32")


def sentences():
    """Yield sentences that mostly use the words of their topic, a tenth of all words."""
    random = np.random.default_rng(0)
    for _ in range(4000):
        topic, length = random.integers(10), random.integers(3, 30)
        own = topic * 5 + random.integers(0, 5, length)
        yield Sentence(topic, np.where(random.random(length) < 0.5, own, random.integers(0, WORDS, length)))


directory = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()) / "sentences"
sr.write(sentences(), directory, splits={"train": 0.9, "eval": 0.1}, seed=0, overwrite=True)

pack = sr.Pack(LENGTH, 32)
plans = sr.plan(directory, "train", sr.Pad(32), pack)
print(plans)
names = {"inputs": ("ids", "segment_ids"), "targets": "topic"}  # topics are (rows, segments), with weights
train = sr.read(directory, "train", batch=pack, shuffle=4000, seed=0, epochs=None, **names)

keras.utils.set_random_seed(0)
ids, segments = keras.Input((LENGTH,), dtype="int32"), keras.Input((LENGTH,), dtype="int64")
embedded = keras.layers.Embedding(WORDS, 16)(ids)
same = keras.layers.Lambda(lambda s: (s[:, :, None] == s[:, None, :]) & (s > 0)[:, None, :])(segments)
attended = keras.layers.MultiHeadAttention(2, 16)(embedded, embedded, attention_mask=same)


def of_segments(parts):
    """Return the mean over each segment, (rows, segments, features)."""
    steps, owners = parts
    numbers = keras.ops.arange(1, keras.ops.max(owners) + 1)
    members = keras.ops.cast(owners[:, None, :] == numbers[None, :, None], steps.dtype)
    return keras.ops.matmul(members, steps) / keras.ops.maximum(keras.ops.sum(members, -1, keepdims=True), 1)


outputs = keras.layers.Dense(10)(keras.layers.Lambda(of_segments)([attended, segments]))
model = keras.Model([ids, segments], outputs)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
model.compile(keras.optimizers.Adam(0.01), loss=loss, weighted_metrics=["accuracy"])
# How many batches an epoch has depends on the order of the records, so Keras is told by the plan.
model.fit(train, epochs=5, steps_per_epoch=plans[1].batches, shuffle=False, verbose=0)
evaluation = sr.read(directory, "eval", batch=pack, epochs=None, **names)
accuracy = model.evaluate(evaluation, steps=sr.plan(directory, "eval", pack).batches, verbose=0)[1]
print(f"topics of unseen sentences: {accuracy:.0%} right, 10% by guessing")
assert accuracy > 0.7
