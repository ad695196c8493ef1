"""Predictions of a model in the order of the records."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from seqrecorder.codec.graph_ops import NOTHING
from seqrecorder.errors import OptionError
from seqrecorder.reading.batching.bucket import Bucket
from seqrecorder.reading.batching.pad import Pad
from seqrecorder.reading.batching.token_budget import TokenBudget
from seqrecorder.reading.batching.unroll import Unroll
from seqrecorder.reading.batching.window import Window
from seqrecorder.reading.read import read

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def predict(
    model: Any,
    path: Any,
    split: str | None = None,
    *,
    batch: Any,
    inputs: Any,
    join: bool = False,
    **options: Any,
) -> list[Any]:
    """Return a model's predictions for the records of a split, in the order of the records.

    Batches come in the order that is fastest, such as by length; predictions are put back, and those of steps are cut
    to the length of their record.

    >>> import tempfile, keras, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Series:
    ...     x: np.ndarray = sr.feature_list("float32", shape=(1,))
    >>> data = tempfile.mkdtemp()
    >>> _ = sr.write([Series(np.full((n, 1), n, "float32")) for n in (3, 1, 2)], data)
    >>> model = keras.Sequential([keras.Input((None, 1)), keras.layers.Rescaling(2.0)])
    >>> results = sr.keras.predict(model, data, batch=sr.Bucket(2, boundaries="sorted"), inputs="x")
    >>> [result.ravel().tolist() for result in results]
    [[6.0, 6.0, 6.0], [2.0], [4.0, 4.0]]

    Args:
        model: a Keras model of one output, with the records in its first dimension.
        path: as for `seqrecorder.read`.
        split: as for `seqrecorder.read`.
        batch: `Pad`, `Bucket` or `TokenBudget`, with padding on the right; or `Window` or `Unroll`, whose windows and
            segments are put together again.
        inputs: as for `seqrecorder.read`; with `Unroll`, a model of `seqrecorder.keras.Unrolled` layers takes `reset`.
        join: of windows that follow each other without a gap or an overlap: whether their steps become one sequence
            again. Segments always do.
        options: further options of `seqrecorder.read`.

    Returns:
        One array for each record, in the order in which `read_records` gives them: `(steps, ...)` where the model's
        output has the steps of its input, else `(...)`. Of windows that are not joined, and of segments whose output
        has no steps, it is `(windows, ...)`, of a record that has none `(0, ...)`.

    Raises:
        OptionError: the strategy gives records that cannot be put together again.
    """
    cuts = isinstance(batch, (Window, Unroll))
    if not cuts and (not isinstance(batch, (Pad, Bucket, TokenBudget)) or batch.padding_side != "right"):
        expected = "Pad(...), Bucket(...) or TokenBudget(...) with padding on the right, Window(...) or Unroll(...)"
        raise OptionError(f"predict: expected {expected}, got {batch!r}")
    if isinstance(batch, Window) and (batch.jitter or batch.max_windows is not None):
        raise OptionError(f"predict: expected windows of which none is drawn or moved at random, got {batch!r}")
    if join and not (isinstance(batch, Window) and batch.distance == batch.length and batch.stride == 1):
        raise OptionError(
            "predict: join=True puts the steps of windows together that follow each other: expected "
            f"Window(length) with neither shift nor stride, got {batch!r}"
        )
    number = ("window_index" if isinstance(batch, Window) else "segment_index",) if cuts else ()
    names = (batch.length_name, _INDEX, *number)
    batches = read(path, split, batch=batch, inputs=inputs, targets=names, weights=False, index_name=_INDEX, **options)
    found: dict[int, list[tuple[int, Any]]] = {}
    whole = join or not isinstance(batch, Window)  # steps are cut to those that are real
    of_steps = False
    for features, (lengths, index, *numbers) in batches:
        outputs = np.asarray(model(features, training=False))
        of_steps = outputs.ndim > 1 and outputs.shape[1] == _width(features)
        rows = zip(
            index.numpy().tolist(), lengths.numpy().tolist(), *(n.numpy().tolist() for n in numbers), strict=True
        )
        for row, (position, length, *place) in enumerate(rows):
            if position != NOTHING:
                part = outputs[row, :length] if of_steps and whole else outputs[row]
                found.setdefault(position, []).append((place[0] if place else 0, part))
    if not cuts:
        return [found[position][0][1] for position in sorted(found)]
    if not found:
        return []
    together = np.concatenate if of_steps and whole else np.stack
    results = {at: together([part for _, part in sorted(parts, key=itemgetter(0))]) for at, parts in found.items()}
    nothing = next(iter(results.values()))[:0]
    return [results.get(position, nothing) for position in _positions(path, split, results, options)]


_INDEX = "predict/index"
_OF_ORDER = ("shuffle", "seed", "epochs", "epoch", "deterministic")


def _positions(path: Any, split: str | None, found: Iterable[int], options: Mapping[str, Any]) -> list[int]:
    """Return the positions of all records that are read, those that have no window too."""
    chosen = {name: value for name, value in options.items() if name not in _OF_ORDER}
    positions, records = sorted(found), read(path, split, index_name=_INDEX, **chosen)
    if int(records.cardinality()) == len(positions):
        return positions
    return sorted(int(record[_INDEX]) for record in records)


def _width(features: Any) -> int | None:
    """Return the steps of a batch: the second dimension of its first input that has one."""
    parts: Sequence[Any] = keras.tree.flatten(features)
    return next((int(part.shape[1]) for part in parts if len(part.shape) > 1), None)
