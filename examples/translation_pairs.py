"""Train an encoder-decoder transformer on packed pairs of sentences with two lengths.

python examples/translation_pairs.py [output_dir]
"""

import sys
import tempfile
from pathlib import Path

import keras
import numpy as np
from keras import layers, ops

import seqrecorder as sr

ENGLISH = "one two three four five six seven eight nine", "twenty thirty forty fifty sixty seventy eighty"
GERMAN = "ein zwei drei vier fünf sechs sieben acht neun", "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig"
(ONES, TENS), (EINER, ZEHNER) = ([words.split() for words in texts] for texts in (ENGLISH, GERMAN))
STEPS, WIDTH = {"source": 64, "target": 80}, 64


@sr.record
class Pair:
    source: list = sr.feature_list(str, align="source")
    target: list = sr.feature_list(str, align="target")


def line(thousand, hundred, ten, one):
    """Return a number in English, a tab, and the number in German, where the ones come before the tens."""
    units = (thousand, "thousand", "tausend"), (hundred, "hundred", "hundert")
    english = [f"{ONES[digit - 1]} {unit} " for digit, unit, _ in units if digit]
    german = [f"{EINER[digit - 1]} {einheit} " for digit, _, einheit in units if digit]
    return f"{''.join(english)}{TENS[ten]} {ONES[one]}\t{''.join(german)}{EINER[one]} und {ZEHNER[ten]}"


directory = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
directory.mkdir(parents=True, exist_ok=True)
lines = directory / "pairs.tsv"  # of your own: a sentence, a tab, and its translation to a line
digits = np.random.default_rng(0).integers(0, [10, 10, 7, 9], (4000, 4))
lines.write_text("\n".join(sorted({line(*each) for each in digits})), encoding="utf-8")

sides = (text.split("\t") for text in lines.read_text(encoding="utf-8").splitlines())
pairs = (Pair(source.split(), [*target.split(), "</s>"]) for source, target in sides)
sr.write(pairs, directory / "pairs", splits={"train": 0.9, "eval": 0.1}, seed=0, overwrite=True)
words = {side: sr.Vocabulary.build(directory / "pairs", side, reserved=("<s>", "</s>")) for side in STEPS}
pack = sr.Pack(STEPS, 8)
plans = {split: sr.plan(directory / "pairs", split, pack) for split in ("train", "eval")}
print(f"{plans['train'].efficiency:.0%} of the steps of packed rows are real")
inputs = {
    "source": "source",
    "segments": "segment_ids",
    "positions": "positions",
    "before": sr.previous_step("target", start="<s>"),
    "target_segments": "target_segment_ids",
    "target_positions": "target_positions",
}
options = {"batch": pack, "epochs": None, "vocabulary": words, "inputs": inputs, "targets": "target"}
train = sr.read(directory / "pairs", "train", shuffle=3000, seed=0, **options)
held = sr.read(directory / "pairs", "eval", **options)


def attend(x, *others, **masks):
    return layers.LayerNormalization()(x + layers.MultiHeadAttention(4, 16)(x, *others, **masks))


def forward(x):
    return layers.LayerNormalization()(x + layers.Dense(WIDTH)(layers.Dense(128, "relu")(x)))


def same(of, to):
    """Return the mask of steps in the same pair, (rows, steps, steps)."""
    return ops.equal(ops.expand_dims(of, 2), ops.expand_dims(to, 1))


keras.utils.set_random_seed(0)
x = {name: keras.Input((None,), dtype="int64", name=name) for name in inputs}
place = layers.Embedding(max(STEPS.values()), WIDTH)
code = layers.Embedding(len(words["source"]), WIDTH)(x["source"]) + place(x["positions"])
code = forward(attend(code, code, attention_mask=same(x["segments"], x["segments"])))
text = layers.Embedding(len(words["target"]), WIDTH)(x["before"]) + place(x["target_positions"])
own, cross = (same(x["target_segments"], x[to]) for to in ("target_segments", "segments"))
text = attend(text, text, attention_mask=own, use_causal_mask=True)
text = forward(attend(text, code, attention_mask=cross))
model = keras.Model(x, layers.Dense(len(words["target"]))(text))
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
model.compile(keras.optimizers.Adam(0.003), loss, weighted_metrics=["accuracy"])
model.fit(train, epochs=6, steps_per_epoch=plans["train"].batches, shuffle=False, verbose=0)
accuracy = model.evaluate(held, steps=plans["eval"].batches, verbose=0)[1]
print(f"words of unseen translations: {accuracy:.0%} right")

source, written = words["source"].encode(line(4, 3, 0, 0).split("\t")[0].split()), ["<s>"]
while written[-1] != "</s>" and len(written) < STEPS["target"]:
    before = words["target"].encode(written)
    steps = [source, np.ones_like(source), np.arange(len(source)), before, np.ones_like(before), np.arange(len(before))]
    logits = model({name: value[None] for name, value in zip(inputs, steps, strict=True)})
    written += words["target"].decode([int(np.argmax(logits[0, -1]))])
print(" ".join(written[1:-1]))
