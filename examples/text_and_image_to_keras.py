"""Feed Keras with records of a text, its sparse bag of words, an image and a label.

Each postcard has a message, warm or cold, and a picture, bright or dark. The label combines both, so neither text nor
image alone determines it. Images are stored as PNG files and read as uint8 arrays. The bag of words stores only the
words that occur.

    python examples/text_and_image_to_keras.py [output_dir]
"""

import sys
import tempfile
from pathlib import Path

import keras
import numpy as np

import seqrecorder as sr

WARM = ["sun", "beach", "heat", "summer", "palm"]
COLD = ["snow", "ice", "frost", "winter", "ski"]
OTHER = ["we", "love", "the", "hotel", "food", "and", "people", "here"]
VOCABULARY = {word: number for number, word in enumerate(WARM + COLD + OTHER)}
LABELS = ["warm and bright", "warm and dark", "cold and bright", "cold and dark"]


@sr.record
class Postcard:
    key: int = sr.context("int64", key=True)
    text: str = sr.context(str)
    bag: dict = sr.context("float32", sparse=len(VOCABULARY), dense=True)  # index to count; read back dense
    image: np.ndarray = sr.context("uint8", shape=(16, 16, 3), storage="png")
    label: int = sr.context("int32")


def postcards(count, seed=0):
    random = np.random.default_rng(seed)
    for key in range(count):
        label = int(random.integers(len(LABELS)))
        message = [*random.choice(OTHER, 6), *random.choice(COLD if label // 2 else WARM, 2)]
        random.shuffle(message)
        words, counts = np.unique([VOCABULARY[word] for word in message], return_counts=True)
        bag = dict(zip(words.tolist(), counts.tolist(), strict=True))
        image = random.integers(0, 160, (16, 16, 3)) + (0 if label % 2 else 96)
        yield Postcard(key, " ".join(message), bag, image.astype("uint8"), label)


directory = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()) / "postcards"
manifest = sr.write(postcards(2000), directory, splits={"train": 0.8, "eval": 0.1, "test": 0.1}, overwrite=True)
print({split: info.records for split, info in manifest.splits.items()})

first = next(sr.read_records(directory, "train"))
print(f"{first.text!r}: {LABELS[first.label]}, {len(first.bag.indices)} different words, image {first.image.shape}")


def batches(split, **options):
    """Read batches of ({"bag": ..., "image": ...}, label) for `model.fit`."""
    inputs = {"bag": "bag", "image": "image"}  # the model's input: the record's field
    return sr.read(directory, split, batch=sr.Pad(64), inputs=inputs, targets="label", **options)


keras.utils.set_random_seed(0)
bag = keras.Input((len(VOCABULARY),), name="bag")
image = keras.Input((16, 16, 3), name="image", dtype="uint8")
seen = keras.layers.GlobalAveragePooling2D()(keras.layers.Rescaling(1 / 255)(image))
both = keras.layers.Dense(32, activation="relu")(keras.layers.Concatenate()([bag, seen]))
model = keras.Model({"bag": bag, "image": image}, keras.layers.Dense(len(LABELS))(both))
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(0.02), loss, metrics=["accuracy"])
train = batches("train", shuffle=2000, seed=0)  # each epoch has an order of its own
model.fit(train, validation_data=batches("eval"), epochs=4, shuffle=False, verbose=0)

_, accuracy = model.evaluate(batches("test"), verbose=0)
print(f"test accuracy {accuracy:.0%} (text or image alone: 50% at best)")
