"""Tag every token of Python functions with its kind: name, number, string, operator, comment, end of a line, ...

Each function of the standard library is a record, and each token a step. All tokens except the 400 most frequent share
one id, so a small recurrent network must learn the kinds from neighbouring tokens. It takes under two minutes.

    python examples/tag_python_tokens.py [output_dir]
"""

import ast
import bisect
import contextlib
import io
import sys
import sysconfig
import tempfile
import time
import tokenize
import warnings
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import seqrecorder as sr

LIBRARY = Path(sysconfig.get_path("stdlib"))
SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}
KINDS = sorted(set(tokenize.tok_name.values()))
warnings.simplefilter("ignore", SyntaxWarning)  # old escapes in the library's strings


@sr.record
class Function:
    key: str = sr.context(str, key=True)
    module: str = sr.context(str)
    tokens: np.ndarray = sr.feature_list(str)  # (T,)
    kinds: np.ndarray = sr.feature_list("uint8")  # (T,), positions in KINDS


def functions_of(module, source):
    """Yield a record for each function and method; a function inside another is part of it."""
    parents = [("", ast.parse(source))]
    tokens = list(tokenize.tokenize(io.BytesIO(source).readline))
    lines = [token.start[0] for token in tokens]
    for prefix, parent in parents:
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                own = tokens[bisect.bisect_left(lines, node.lineno) : bisect.bisect_right(lines, node.end_lineno)]
                texts = [token.string or "(none)" for token in own]  # indentation ends without a character
                kinds = [KINDS.index(tokenize.tok_name[token.type]) for token in own]
                yield Function(f"{module}:{prefix}{node.name}:{node.lineno}", module, texts, kinds)
            else:
                parents.append((f"{prefix}{node.name}." if isinstance(node, ast.ClassDef) else prefix, node))


def timed(function, *arguments, **options):
    started = time.perf_counter()
    return function(*arguments, **options), time.perf_counter() - started


def library():
    for path in sorted(LIBRARY.rglob("*.py")):
        parts = path.relative_to(LIBRARY).with_suffix("").parts
        if not SKIPPED.intersection(parts):
            with contextlib.suppress(SyntaxError, ValueError, tokenize.TokenError):  # not of this version of Python
                yield from list(functions_of(".".join(parts), path.read_bytes()))


directory = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()) / "functions"
records, seconds = timed(lambda: list(library()))
print(f"scan      {seconds:.1f} s to find and tokenize the functions of {LIBRARY}", flush=True)
options = {"split_by": "module", "seed": 0, "shuffle": True, "metadata": {"kinds": KINDS}, "overwrite": True}
corpus, seconds = timed(sr.write, records, directory, splits={"train": 0.8, "eval": 0.1, "test": 0.1}, **options)
print(f"dataset   {corpus.records:,} functions, {corpus.steps:,} tokens; look at it: seqrecorder info {directory}")
print(f"write     {seconds:.1f} s, {corpus.records / seconds:,.0f} records/s, {corpus.bytes / 1e6 / seconds:.1f} MB/s")
bucket, train = sr.Bucket(64), corpus.splits["train"]
_, seconds = timed(lambda: sum(1 for _ in sr.read(directory, "train", batch=bucket)))
print(f"read      {seconds:.1f} s, {train.records / seconds:,.0f} records/s, {train.bytes / 1e6 / seconds:.1f} MB/s")
buckets, unsorted = (plan.efficiency for plan in sr.plan(directory, "train", bucket, sr.Pad(64)))
print(f"padding   {buckets:.0%} of the steps are real in buckets, {unsorted:.0%} unsorted", flush=True)

vocabulary = sr.Vocabulary.build(directory, "tokens", max_size=402)  # of train; 0 is padding, 1 what is rare
options = {"batch": bucket, "inputs": "tokens", "targets": "kinds", "vocabulary": {"tokens": vocabulary}}
batches = sr.read(directory, "train", shuffle=4096, seed=0, epochs=None, **options)
short = batches.filter(lambda ids, *_: tf.shape(ids)[1] <= 128)  # the few longest would take most of the time
keras.utils.set_random_seed(0)
embedding = keras.layers.Embedding(len(vocabulary), 48, mask_zero=True)  # the GRUs skip padding
recurrent = keras.layers.Bidirectional(keras.layers.GRU(48, return_sequences=True))
model = keras.Sequential([embedding, recurrent, keras.layers.Dense(len(KINDS))])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
# Without jit_compile=False, XLA compiles the model anew for each length of a batch.
model.compile(keras.optimizers.Adam(4e-3), loss, weighted_metrics=["accuracy"], jit_compile=False)
_, seconds = timed(model.fit, short, steps_per_epoch=250, shuffle=False, verbose=0)
print(f"train     {seconds:.1f} s, 250 batches", flush=True)
_, accuracy = model.evaluate(sr.read(directory, "eval", **options), verbose=0)
counts = [np.bincount(np.concatenate([r.kinds for r in sr.read_records(directory, s)])) for s in ("train", "eval")]
guess = counts[1][counts[0].argmax()] / counts[1].sum()
print(f"accuracy  {accuracy:.1%} on the eval split (commonest kind: {guess:.1%})")
