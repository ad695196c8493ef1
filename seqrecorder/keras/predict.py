"""Predictions of a model in the order of the records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from seqrecorder.codec.record_index import NOTHING
from seqrecorder.errors import OptionError
from seqrecorder.reading.read import read

if TYPE_CHECKING:
    from collections.abc import Sequence


def predict(
    model: Any,
    path: Any,
    split: str | None = None,
    *,
    batch: Any,
    inputs: Any,
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
        batch: `Pad`, `Bucket` or `TokenBudget`, which give each record once, with its padding on the right.
        inputs: as for `seqrecorder.read`.
        options: further options of `seqrecorder.read`.

    Returns:
        One array for each record, in the order in which `read_records` gives them: `(steps, ...)` where the model's
        output has the steps of its input, else `(...)`.

    Raises:
        OptionError: the strategy does not give each record once.
    """
    from seqrecorder.reading.batching.bucket import Bucket
    from seqrecorder.reading.batching.pad import Pad
    from seqrecorder.reading.batching.token_budget import TokenBudget

    if not isinstance(batch, (Pad, Bucket, TokenBudget)) or batch.padding_side != "right":
        expected = "Pad(...), Bucket(...) or TokenBudget(...) with padding on the right"
        raise OptionError(f"predict: expected {expected}, got {batch!r}")
    names = (batch.length_name, _INDEX)
    batches = read(path, split, batch=batch, inputs=inputs, targets=names, weights=False, index_name=_INDEX, **options)
    found: list[tuple[int, Any]] = []
    for features, (lengths, index) in batches:
        outputs = np.asarray(model(features, training=False))
        width = _width(features)
        for row, (position, length) in enumerate(zip(index.numpy().tolist(), lengths.numpy().tolist(), strict=True)):
            if position == NOTHING:
                continue
            of_steps = outputs.ndim > 1 and outputs.shape[1] == width
            found.append((position, outputs[row, :length] if of_steps else outputs[row]))
    found.sort(key=lambda pair: pair[0])
    return [output for _, output in found]


_INDEX = "predict/index"


def _width(features: Any) -> int | None:
    """Return the steps of a batch: the second dimension of its first input that has one."""
    parts: Sequence[Any] = keras.tree.flatten(features)
    return next((int(part.shape[1]) for part in parts if len(part.shape) > 1), None)
