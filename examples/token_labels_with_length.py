"""Exchange files with plain TensorFlow: tokens with labels, and their number as `length` in the context.

This is the classic example of SequenceExample tutorials. Plain TensorFlow reads the files of `sr.write` with the
parsing spec of the schema, and `sr.read` reads a shard written by hand with `tf.train.SequenceExample`.

    python examples/token_labels_with_length.py [output_dir]
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf

import seqrecorder as sr

SENTENCES = [
    ("tim went to paris", "B-PER O O B-LOC"),
    ("new york is big", "B-LOC I-LOC O O"),
    ("it rains", "O O"),
]
LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


@sr.record
class Sentence:
    length: int = sr.context("int64")
    tokens: np.ndarray = sr.feature_list("int64")
    labels: np.ndarray = sr.feature_list("int64")


words = sorted({word for text, _ in SENTENCES for word in text.split()})
sentences = []
for text, labels in SENTENCES:
    tokens = [words.index(word) for word in text.split()]
    sentences.append(Sentence(len(tokens), tokens, [LABELS.index(label) for label in labels.split()]))

directory = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
manifest = sr.write(sentences, directory / "sentences", assets={"words.txt": "\n".join(words)}, overwrite=True)

# 1. Written by seqrecorder, read by plain TensorFlow.
schema = sr.Schema.of(Sentence)
shards = [str(manifest.shard_path("train", shard)) for shard in manifest.splits["train"].shards]
plain = tf.data.TFRecordDataset(shards).map(
    lambda serialized: tf.io.parse_single_sequence_example(
        serialized, schema.context_features, schema.sequence_features
    )
)
for (context, lists), ours in zip(plain, sr.read(directory / "sentences"), strict=True):
    for name, value in {**context, **lists}.items():
        np.testing.assert_array_equal(value, ours[name])
print(f"plain TensorFlow reads the same {manifest.records} sentences")

# 2. Written by hand, read by seqrecorder.
by_hand = directory / "by_hand.tfrecord"
with tf.io.TFRecordWriter(str(by_hand)) as writer:
    for sentence in sentences:
        example = tf.train.SequenceExample()
        example.context.feature["length"].int64_list.value.append(sentence.length)
        for name in ("tokens", "labels"):
            steps = example.feature_lists.feature_list[name]
            for value in getattr(sentence, name):
                steps.feature.add().int64_list.value.append(value)
        writer.write(example.SerializeToString())

assert list(sr.read_records(by_hand, schema=Sentence)) == sentences
print("seqrecorder reads the same sentences from the shard written by hand")

for batch in sr.read(by_hand, schema=Sentence, batch=sr.Pad(3)):
    print("tokens", batch["tokens"].numpy().tolist())
    print("labels", batch["labels"].numpy().tolist())
    # Batches know their lengths anyway, so the field in the context is for other readers.
    assert (batch["length"].numpy() == batch["sequence_length"].numpy()).all()
    print("length", batch["length"].numpy().tolist())
