"""Lift an unchanged input function of TensorFlow 1 into tf.data, and write its data as a dataset.

The function is typical of SequenceExample code, because `shuffle_batch` does not pad. It has a queue of files, a
reader, a random queue without shapes, and a padding queue with a queue runner. `lift` returns a `tf.data.Dataset`.

    python examples/lift_queue_pipeline.py [output_dir]
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf

import seqrecorder as sr
from seqrecorder import legacy

v1 = tf.compat.v1


@sr.record
class Tagged:
    length: int = sr.context("int64")
    tokens: np.ndarray = sr.feature_list("int64")
    labels: np.ndarray = sr.feature_list("int64")


rng = np.random.default_rng(0)
records = []
for length in rng.integers(1, 9, 100):
    tokens = rng.integers(1, 50, length)
    records.append(Tagged(int(length), tokens, tokens % 5))

directory = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
manifest = sr.write(records, directory / "tagged", shards=4, overwrite=True)
paths = [str(manifest.shard_path("train", shard)) for shard in manifest.splits["train"].shards]


def inputs():
    """Read with queues, like many old scripts, without seqrecorder and tf.data."""
    file_queue = v1.train.string_input_producer(paths, num_epochs=1, seed=7)
    _, serialized = v1.TFRecordReader().read(file_queue)
    context, sequence = v1.parse_single_sequence_example(
        serialized,
        context_features={"length": v1.FixedLenFeature([], tf.int64)},
        sequence_features={
            "tokens": v1.FixedLenSequenceFeature([], tf.int64),
            "labels": v1.FixedLenSequenceFeature([], tf.int64),
        },
    )
    tensors = [context["length"], sequence["tokens"], sequence["labels"]]
    shuffled = v1.RandomShuffleQueue(capacity=50, min_after_dequeue=20, dtypes=[tf.int64] * 3, seed=1)
    v1.train.add_queue_runner(v1.train.QueueRunner(shuffled, [shuffled.enqueue(tensors)] * 2))
    dequeued = shuffled.dequeue()
    for tensor, original in zip(dequeued, tensors, strict=True):
        tensor.set_shape(original.get_shape())
    length, tokens, labels = v1.train.batch(dequeued, 16, dynamic_pad=True, allow_smaller_final_batch=True)
    return {"length": length, "tokens": tokens, "labels": labels}


# 1. As a tf.data.Dataset, in eager code.
dataset = legacy.lift(inputs, explain=True)
for batch in dataset.take(1):
    print({name: tuple(tensor.shape) for name, tensor in batch.items()})

# 2. In the training loop that the script has.
with tf.Graph().as_default(), v1.Session() as session:
    batch = legacy.get_next(dataset)  # was: batch = inputs()
    steps = tf.reduce_sum(batch["length"])
    total = 0
    coordinator = tf.train.Coordinator()
    try:
        while not coordinator.should_stop():
            total += session.run(steps)
    except tf.errors.OutOfRangeError:
        coordinator.request_stop()
print(f"{total} steps in the old loop")
assert total == sum(record.length for record in records)

# 3. And without any of it.
for batch in sr.read(directory / "tagged", batch=sr.Bucket(16), shuffle=50, seed=1).take(1):
    print({name: tuple(tensor.shape) for name, tensor in batch.items()})
