"""Tag every token of Python functions with its kind: keyword, call, attribute, variable, operator or literal.

Functions of the standard library become records, one step a token. They are written with three splits, read back in
batches of about equal length, and a small recurrent network learns the kinds from hashed tokens. Padding has weight 0.

    python examples/tag_python_tokens.py [output_dir]
"""

import argparse
import ast
import difflib
import inspect
import io
import keyword
import statistics
import sys
import tempfile
import textwrap
import threading
import tokenize
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import seqrecorder as sr

MODULES = [argparse, ast, difflib, inspect, statistics, textwrap, threading, tokenize]
KINDS = ["keyword", "call", "attribute", "variable", "operator", "literal"]
BUCKETS = 2048  # of the hash that numbers tokens
LONGEST = 120  # tokens; only to keep the example short


@sr.record
class Function:
    name: str = sr.context(str, key=True)  # decides the split, for ever
    tokens: np.ndarray = sr.feature_list(str)  # (T,)
    kinds: np.ndarray = sr.feature_list("int64")  # (T,)


def kind_of(before: str, token: tokenize.TokenInfo, after: str) -> int:
    if token.type == tokenize.OP:
        return KINDS.index("operator")
    if token.type != tokenize.NAME:
        return KINDS.index("literal")
    if keyword.iskeyword(token.string):
        return KINDS.index("keyword")
    if after == "(":
        return KINDS.index("call")
    return KINDS.index("attribute" if before == "." else "variable")


def functions(module):
    """Yield a record for each function and method of a module."""
    lines = inspect.getsource(module).splitlines(keepends=True)
    for node in ast.walk(ast.parse("".join(lines))):
        if isinstance(node, ast.FunctionDef):
            code = textwrap.dedent("".join(lines[node.lineno - 1 : node.end_lineno]))
            tokens = tokenize.generate_tokens(io.StringIO(code).readline)
            tokens = [t for t in tokens if t.string.strip() and t.type != tokenize.COMMENT]
            words = ["", *(t.string for t in tokens), ""]
            kinds = [kind_of(words[i], t, words[i + 2]) for i, t in enumerate(tokens)]
            if len(tokens) <= LONGEST:
                yield Function(f"{module.__name__}.{node.name}:{node.lineno}", words[1:-1], kinds)


directory = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()) / "functions"
records = (record for module in MODULES for record in functions(module))
splits = {"train": 0.8, "eval": 0.1, "test": 0.1}
manifest = sr.write(records, directory, splits=splits, metadata={"kinds": KINDS}, overwrite=True)
print(f"{manifest.records} functions, {manifest.steps} tokens")


def batches(split, **options):
    """Return (hashed tokens, kinds, weights); what `read` gives is an ordinary `tf.data.Dataset`."""
    data = sr.read(directory, split, batch=sr.Bucket(32, buckets=4), inputs="tokens", targets="kinds", **options)
    return data.map(lambda tokens, *rest: (tf.strings.to_hash_bucket_fast(tokens, BUCKETS), *rest))


keras.utils.set_random_seed(0)
model = keras.Sequential(
    [
        keras.layers.Embedding(BUCKETS, 24),
        keras.layers.Conv1D(48, 3, padding="same", activation="relu"),  # sees the next token
        keras.layers.GRU(32, return_sequences=True),  # remembers those before
        keras.layers.Dense(len(KINDS)),
    ]
)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
# Without jit_compile=False, XLA compiles the model anew for each length of a batch.
model.compile(keras.optimizers.Adam(0.01), loss, weighted_metrics=["accuracy"], jit_compile=False)
train = batches("train", shuffle=1000, seed=0)  # each epoch has an order of its own
model.fit(train, validation_data=batches("eval"), epochs=3, shuffle=False, verbose=0)

kinds = np.concatenate([record.kinds for record in sr.read_records(directory, "test")])
_, accuracy = model.evaluate(batches("test"), verbose=0)
print(f"always saying {KINDS[np.bincount(kinds).argmax()]!r}: {np.bincount(kinds).max() / kinds.size:.1%} right")
print(f"recurrent network: {accuracy:.1%} right")
