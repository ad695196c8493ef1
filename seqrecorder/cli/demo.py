"""The demo: the standard library's own source code as a dataset, from files to a trained model.

One record is one function, one step is one token. A GRU learns to tell the kind of each token (name, number,
string, comment, end of a line inside or outside of brackets, ...) from token ids in which all but the most
frequent strings are one id, so that only the surroundings tell.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.cli.source_functions import KINDS, SEED, SPLITS, library, scan_functions, to_records
from seqrecorder.errors import DatasetExistsError, OptionError
from seqrecorder.reading.batching.bucket import Bucket
from seqrecorder.reading.batching.pad import Pad
from seqrecorder.reading.plan import plan
from seqrecorder.reading.read import read
from seqrecorder.reading.read_records import read_records
from seqrecorder.storage.paths import local_path
from seqrecorder.writing.write import write

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from seqrecorder.dataset.manifest import Manifest

VOCABULARY = "vocabulary.json"
"""The asset that lists the string of each token id."""

_LEAST_FUNCTIONS = 200  # with fewer, a split may stay empty
_BATCH = 64
_TRAINING_STEPS = 250
_TRAINED_LENGTH = 128  # a GRU takes its steps one after the other, so the few longest functions cost the most
_SHUFFLE = 4096
_WIDTH = 48
_LEARNING_RATE = 4e-3


@attrs.frozen
class DemoReport:
    """What a run of the demo measured.

    Attributes:
        path: where the dataset stays; None where it was temporary.
        modules: modules read.
        records: functions written, in all splits.
        steps: tokens written.
        bytes: size of the shards.
        splits: records of each split.
        vocabulary: number of token ids.
        scan_seconds: time to find and tokenize the functions.
        write_seconds: time of `sr.write`.
        write_records_per_second: records through `sr.write`.
        write_megabytes_per_second: 10**6 bytes of shards through `sr.write`.
        read_seconds: time to read the train split once in bucketed batches.
        read_records_per_second: records in these batches.
        read_megabytes_per_second: 10**6 bytes of shards read for these batches.
        bucket_efficiency: real over padded steps in these batches.
        pad_efficiency: the same for batches of records as they come.
        training_steps: batches that the model was trained on.
        training_seconds: time it took.
        accuracy: share of the eval split's steps whose kind the model tells.
        majority_accuracy: the same for always naming the train split's most frequent kind.
        seconds: time of the whole run.
    """

    path: str | None
    modules: int
    records: int
    steps: int
    bytes: int
    splits: dict[str, int]
    vocabulary: int
    scan_seconds: float
    write_seconds: float
    write_records_per_second: float
    write_megabytes_per_second: float
    read_seconds: float
    read_records_per_second: float
    read_megabytes_per_second: float
    bucket_efficiency: float
    pad_efficiency: float
    training_steps: int
    training_seconds: float
    accuracy: float
    majority_accuracy: float
    seconds: float


def _say_nothing(_: str) -> None:
    """Take a line of text for one that nobody wants to see."""


def run(
    directory: str | os.PathLike[str] | None = None,
    *,
    functions: int | None = None,
    training_steps: int = _TRAINING_STEPS,
    overwrite: bool = False,
    say: Callable[[str], object] = _say_nothing,
) -> DemoReport:
    """Write the standard library's functions as a dataset, read it in batches, and train a model on it.

    >>> import seqrecorder.cli.demo  # doctest: +SKIP
    >>> seqrecorder.cli.demo.run("stdlib/").accuracy  # doctest: +SKIP
    0.98

    Args:
        directory: where the dataset stays; None is a temporary directory, removed afterwards.
        functions: how many functions to take at most, from at least 50 modules; None takes all.
        training_steps: how many batches the model is trained on.
        overwrite: whether a dataset at `directory` is replaced.
        say: called with a line of text at the beginning of each stage.

    Returns:
        The numbers.

    Raises:
        DatasetExistsError: there is something at `directory` already.
        OptionError: there are too few functions to fill the splits.
    """
    if functions is not None and functions < _LEAST_FUNCTIONS:
        raise OptionError(f"functions: expected {_LEAST_FUNCTIONS} or more, so that no split is empty, got {functions}")
    if training_steps < 1:
        raise OptionError(f"training_steps: expected 1 or more, got {training_steps}")
    if directory is not None:
        destination = local_path(directory)
        _refuse_existing(destination, overwrite=overwrite)
        return _run(destination, functions, training_steps, say, overwrite=overwrite)
    with tempfile.TemporaryDirectory(prefix="seqrecorder-demo-") as temporary:
        say(f"the dataset goes to {temporary} and is removed afterwards; name a directory to keep it")
        report = _run(Path(temporary, "stdlib"), functions, training_steps, say, overwrite=False)
    return attrs.evolve(report, path=None)


def _refuse_existing(directory: Path, *, overwrite: bool) -> None:
    # Writing refuses too, but only after all the tokenizing.
    if overwrite or not directory.exists() or (directory.is_dir() and not any(directory.iterdir())):
        return
    raise DatasetExistsError(
        f"{directory}: there is something here already; choose another directory, or overwrite the dataset",
        path=directory,
    )


def _run(
    destination: Path,
    functions: int | None,
    training_steps: int,
    say: Callable[[str], object],
    *,
    overwrite: bool,
) -> DemoReport:
    started = time.perf_counter()
    say(f"reading the functions of {library()}")
    found = scan_functions(functions)
    scanned = time.perf_counter()
    vocabulary, records = to_records(found)
    say(f"writing {len(records):,} functions to {destination}")
    writing = time.perf_counter()
    manifest = write(
        records,
        destination,
        splits=SPLITS,
        split_by="module",
        seed=SEED,
        shards=4,
        shuffle=True,
        metadata={"kinds": list(KINDS), "python": sys.version.split()[0]},
        assets={VOCABULARY: json.dumps(vocabulary)},
        overwrite=overwrite,
        progress=False,
    )
    written = time.perf_counter()
    _require_splits(manifest)
    say("reading them back in batches")
    train = manifest.splits["train"]
    reading = _seconds_to_read(destination)
    say(f"training a model on {training_steps} batches")
    training = time.perf_counter()
    model = _train(destination, len(vocabulary), training_steps)
    trained = time.perf_counter()
    say("asking it about the eval split")
    scores = _score(model, destination)
    return DemoReport(
        path=str(destination),
        modules=len({function.module for function in found}),
        records=manifest.records,
        steps=manifest.steps,
        bytes=manifest.bytes,
        splits={name: split.records for name, split in manifest.splits.items()},
        vocabulary=len(vocabulary),
        scan_seconds=scanned - started,
        write_seconds=written - writing,
        write_records_per_second=manifest.records / (written - writing),
        write_megabytes_per_second=manifest.bytes / 1e6 / (written - writing),
        read_seconds=reading,
        read_records_per_second=train.records / reading,
        read_megabytes_per_second=train.bytes / 1e6 / reading,
        bucket_efficiency=plan(destination, "train", Bucket(_BATCH)).efficiency,
        pad_efficiency=plan(destination, "train", Pad(_BATCH)).efficiency,
        training_steps=training_steps,
        training_seconds=trained - training,
        seconds=time.perf_counter() - started,
        **scores,
    )


def _require_splits(manifest: Manifest) -> None:
    empty = [name for name, split in manifest.splits.items() if not split.records]
    if empty:
        raise OptionError(f"{manifest.records} functions leave nothing for split {empty[0]!r}; take more of them")


# Batches to a model ---------------------------------------------------------------------------------------


def _seconds_to_read(path: Path) -> float:
    """Return how long it takes to read the train split once in batches by length."""
    batches = read(path, "train", batch=Bucket(_BATCH))
    started = time.perf_counter()
    for _ in batches:
        pass
    return time.perf_counter() - started


def _train(path: Path, vocabulary: int, steps: int) -> Any:
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(SEED)
    batches = read(
        path,
        "train",
        batch=Bucket(_BATCH),
        shuffle=_SHUFFLE,
        seed=SEED,
        epochs=None,
        inputs="ids",
        targets="kinds",
    )
    short = batches.filter(lambda ids, *_: tf.shape(ids)[1] <= _TRAINED_LENGTH)
    model = keras.Sequential(
        [
            keras.Input((None,), dtype="int64"),
            # The mask makes the backward half begin at the last real step, not in the padding.
            keras.layers.Embedding(vocabulary, _WIDTH, mask_zero=True),
            keras.layers.Bidirectional(keras.layers.GRU(_WIDTH, return_sequences=True)),
            keras.layers.Dense(len(KINDS)),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(_LEARNING_RATE),
        # Any other reduction divides by the number of padded steps.
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight"),
        weighted_metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        jit_compile=False,  # each length of a batch would be compiled anew
    )
    model.fit(short, steps_per_epoch=steps, shuffle=False, verbose=0)
    return model


def _score(model: Any, path: Path) -> dict[str, float]:
    """Return the accuracies on the eval split, the model's and that of a constant answer."""
    batches = read(path, "eval", batch=Bucket(_BATCH), inputs="ids", targets="kinds")
    train, held_out = (_count_kinds(path, split) for split in ("train", "eval"))
    return {
        "accuracy": model.evaluate(batches, verbose=0, return_dict=True)["accuracy"],
        "majority_accuracy": float(held_out[train.argmax()] / max(1, held_out.sum())),
    }


def _count_kinds(path: Path, split: str) -> np.ndarray[Any, Any]:
    """Return how often each kind comes, int64 (kinds,)."""
    kinds = [function.kinds for function in read_records(path, split, fields=["kinds"])]
    return np.bincount(np.concatenate(kinds), minlength=len(KINDS))
