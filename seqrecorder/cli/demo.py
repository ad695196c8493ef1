"""The demo: the standard library's own source code as a dataset, from files to a trained model.

One record is one function, one step is one token. A GRU learns to tell the kind of each token (name, number,
string, comment, end of a line inside or outside of brackets, ...) from token ids in which all but the most
frequent strings are one id, so that only the surroundings tell.
"""

from __future__ import annotations

import ast
import bisect
import collections
import io
import json
import sys
import sysconfig
import tempfile
import time
import token
import tokenize
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.dataset.splits import Ratios, key_hash
from seqrecorder.errors import DatasetExistsError, OptionError
from seqrecorder.reading.batching.bucket import Bucket
from seqrecorder.reading.batching.pad import Pad
from seqrecorder.reading.read import read, read_records
from seqrecorder.schema.declarations import context, feature_list, record
from seqrecorder.storage.paths import local_path
from seqrecorder.writing.write import write

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from seqrecorder.dataset.manifest import Manifest

SPLITS = {"train": 0.8, "eval": 0.1, "test": 0.1}
VOCABULARY = "vocabulary.json"
"""The asset that lists the string of each token id."""
PADDING = 0
"""Token id of no token."""
UNKNOWN = 1
"""Token id of every string that is not in the vocabulary."""

_SEED = 0
_ORDER_SEED = 1  # not the splits' seed: the first modules in order would all fall into one split
_LEAST_FUNCTIONS = 200  # with fewer, a split may stay empty
_LEAST_MODULES = 50
_WORDS = 400
_BATCH = 64
_TRAINING_STEPS = 250
_TRAINED_LENGTH = 128  # a GRU takes its steps one after the other, so the few longest functions cost the most
_SHUFFLE = 4096
_WIDTH = 48
_LEARNING_RATE = 4e-3
_SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}


@record
class Function:
    """The tokens of one function or method.

    Attributes:
        key: module, qualified name and line.
        module: dotted name of the module.
        name: qualified name inside the module.
        ids: index of each token's string in the vocabulary.
        tokens: the strings.
        kinds: index of each token's kind in the metadata's `kinds`.
        columns: where each token begins in its line, from 0.
    """

    key: str = context(str, key=True)
    module: str = context(str)
    name: str = context(str)
    ids: np.ndarray[Any, Any] = feature_list("int64")
    tokens: np.ndarray[Any, Any] = feature_list(str)
    kinds: np.ndarray[Any, Any] = feature_list("uint8")
    columns: np.ndarray[Any, Any] = feature_list("int32")


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
        unknown_share: share of the steps of the eval split whose string is not in the vocabulary.
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
        unknown_accuracy: share told of those steps whose string is not in the vocabulary.
        unknown_majority_accuracy: the same for always naming the most frequent kind of such steps.
        seconds: time of the whole run.
    """

    path: str | None
    modules: int
    records: int
    steps: int
    bytes: int
    splits: dict[str, int]
    vocabulary: int
    unknown_share: float
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
    unknown_accuracy: float
    unknown_majority_accuracy: float
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
    say(f"reading the functions of {_library()}")
    found = _scan(functions)
    scanned = time.perf_counter()
    vocabulary, records = _to_records(found)
    say(f"writing {len(records):,} functions to {destination}")
    writing = time.perf_counter()
    manifest = write(
        records,
        destination,
        splits=SPLITS,
        split_by="module",
        seed=_SEED,
        shards=4,
        shuffle=True,
        metadata={"kinds": list(_KINDS), "python": sys.version.split()[0]},
        assets={VOCABULARY: json.dumps(vocabulary)},
        overwrite=overwrite,
        progress=False,
    )
    written = time.perf_counter()
    _require_splits(manifest)
    say("reading them back in batches")
    train = manifest.splits["train"]
    bucket_efficiency, reading = _read_through(destination, Bucket(_BATCH))
    pad_efficiency, _ = _read_through(destination, Pad(_BATCH))
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
        bucket_efficiency=bucket_efficiency,
        pad_efficiency=pad_efficiency,
        training_steps=training_steps,
        training_seconds=trained - training,
        seconds=time.perf_counter() - started,
        **scores,
    )


# Source code to records -----------------------------------------------------------------------------------

_KINDS = tuple(
    name
    for name in (
        *("NAME", "NUMBER", "STRING", "OP", "COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT"),
        *("FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END"),
    )
    if hasattr(token, name)  # f-strings are taken apart from Python 3.12 on
)
_KIND_IDS = {getattr(token, name): index for index, name in enumerate(_KINDS)}


@attrs.frozen
class _Tokenized:
    """A function before there is a vocabulary."""

    module: str
    name: str
    line: int
    tokens: list[str] = attrs.field(factory=list)
    kinds: list[int] = attrs.field(factory=list)
    columns: list[int] = attrs.field(factory=list)


def _library() -> Path:
    return Path(sysconfig.get_path("stdlib"))


def _scan(limit: int | None) -> list[_Tokenized]:
    """Return the functions of the standard library, module by module in an order that is always the same."""
    modules = dict(_modules(_library(), ""))
    found: list[_Tokenized] = []
    for module in sorted(modules, key=lambda name: key_hash(name, _ORDER_SEED)):
        functions = _functions(module, modules[module])
        found += functions if limit is None else functions[: limit // _LEAST_MODULES]
        if limit is not None and len(found) >= limit:
            return found[:limit]
    return found


def _modules(directory: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    for path in directory.iterdir():
        if path.is_dir() and path.name.isidentifier() and path.name not in _SKIPPED:
            yield from _modules(path, f"{prefix}{path.name}.")
        elif path.suffix == ".py" and path.stem.isidentifier():
            yield f"{prefix}{path.stem}".removesuffix(".__init__"), path


def _functions(module: str, path: Path) -> list[_Tokenized]:
    source = path.read_bytes()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old escapes in strings and the like
            tree = ast.parse(source)
        tokens = list(tokenize.tokenize(io.BytesIO(source).readline))
    except (SyntaxError, ValueError, tokenize.TokenError):
        return []
    spans = sorted(_spans(tree, ""))
    functions = [_Tokenized(module, name, line) for line, _, name in spans]
    starts = [line for line, _, _ in spans]
    for item in tokens:
        line, column = item.start
        index = bisect.bisect_right(starts, line) - 1
        kind = _KIND_IDS.get(item.type)
        if index < 0 or line > spans[index][1] or kind is None:
            continue
        function = functions[index]
        function.tokens.append(item.string)
        function.kinds.append(kind)
        function.columns.append(column)
    return functions


def _spans(node: ast.AST, prefix: str) -> Iterator[tuple[int, int, str]]:
    """Yield first line, last line and qualified name of each function; one inside another is a part of it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
            yield first, child.end_lineno or first, prefix + child.name
        else:
            yield from _spans(child, f"{prefix}{child.name}." if isinstance(child, ast.ClassDef) else prefix)


def _to_records(found: Sequence[_Tokenized]) -> tuple[list[str], list[Function]]:
    """Return the string of each token id, learnt from the train split alone, and the records."""
    ratios = Ratios(SPLITS)  # what `write` will decide
    counts: collections.Counter[str] = collections.Counter()
    for function in found:
        if ratios.assign(key_hash(function.module, _SEED)) == "train":
            counts.update(function.tokens)
    # Equal counts in the order of their strings: the vocabulary shall not depend on anything else.
    common = sorted(counts, key=lambda string: (-counts[string], string))[:_WORDS]
    vocabulary = ["<padding>", "<unknown>", *common]
    ids = {string: index for index, string in enumerate(vocabulary) if index > UNKNOWN}
    records = [
        Function(
            key=f"{function.module}:{function.name}:{function.line}",
            module=function.module,
            name=function.name,
            ids=np.array([ids.get(string, UNKNOWN) for string in function.tokens], np.int64),
            tokens=np.array(function.tokens, object),
            kinds=np.array(function.kinds, np.uint8),
            columns=np.array(function.columns, np.int32),
        )
        for function in found
    ]
    return vocabulary, records


def _require_splits(manifest: Manifest) -> None:
    empty = [name for name, split in manifest.splits.items() if not split.records]
    if empty:
        raise OptionError(f"{manifest.records} functions leave nothing for split {empty[0]!r}; take more of them")


# Batches to a model ---------------------------------------------------------------------------------------


def _read_through(path: Path, batch: Pad | Bucket) -> tuple[float, float]:
    """Return real over padded steps of the train split's batches, and the seconds that reading them took."""
    batches = read(path, "train", batch=batch)
    real = padded = 0
    started = time.perf_counter()
    for values in batches:
        real += int(values["sequence_length"].numpy().sum())
        padded += values["ids"].shape[0] * values["ids"].shape[1]
    return real / padded, time.perf_counter() - started


def _train(path: Path, vocabulary: int, steps: int) -> Any:
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(_SEED)
    batches = read(
        path,
        "train",
        batch=Bucket(_BATCH),
        shuffle=_SHUFFLE,
        seed=_SEED,
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
            keras.layers.Dense(len(_KINDS)),
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
    """Return the accuracies on the eval split, the model's and those of a constant answer."""
    import tensorflow as tf

    batches = read(path, "eval", batch=Bucket(_BATCH), inputs="ids", targets="kinds")
    unknown = batches.map(
        lambda ids, kinds, weights: (ids, kinds, tf.where(ids == UNKNOWN, weights, tf.zeros_like(weights)))
    )
    train, held_out = _count_kinds(path, "train"), _count_kinds(path, "eval")
    return {
        "accuracy": model.evaluate(batches, verbose=0, return_dict=True)["accuracy"],
        "majority_accuracy": _share_of_majority(train.sum(0), held_out.sum(0)),
        "unknown_accuracy": model.evaluate(unknown, verbose=0, return_dict=True)["accuracy"],
        "unknown_majority_accuracy": _share_of_majority(train[1], held_out[1]),
        "unknown_share": float(held_out[1].sum() / held_out.sum()),
    }


def _count_kinds(path: Path, split: str) -> np.ndarray[Any, Any]:
    """Return how often each kind comes, int64 (2, kinds): among known strings, among unknown ones."""
    counts = np.zeros((2, len(_KINDS)), np.int64)
    for function in read_records(path, split, fields=["ids", "kinds"]):
        np.add.at(counts, ((function.ids == UNKNOWN).astype(np.intp), function.kinds), 1)
    return counts


def _share_of_majority(seen: np.ndarray[Any, Any], asked: np.ndarray[Any, Any]) -> float:
    return float(asked[seen.argmax()] / max(1, asked.sum()))
