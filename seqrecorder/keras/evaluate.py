"""Loss and metrics of a model over the real steps of a split, independent of how records are batched."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from seqrecorder.errors import OptionError
from seqrecorder.keras.predict import caller_of
from seqrecorder.reading.masks_and_weights import with_last_axis
from seqrecorder.reading.read import read

if TYPE_CHECKING:
    from numpy.typing import NDArray


def evaluate(
    model: Any, path: Any, split: str | None = None, *, batch: Any, inputs: Any, targets: Any, **options: Any
) -> dict[str, float]:
    """Compute the loss and metrics of a compiled model over a split, independent of how records are batched.

    `model.evaluate` averages each row over its padded steps, so its results depend on the batches. Here, each real step
    of a target (or each record, for a context field) counts once, weighted by its sample weight. The loss and the
    model's `weighted_metrics` are `sum(weight * value) / sum(weight)`; its `metrics` are not weighted, but leave out
    steps of weight 0.

    >>> import tempfile, keras, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Series:
    ...     x: np.ndarray = sr.feature_list("float32", shape=(1,))
    ...     y: np.ndarray = sr.feature_list("float32", shape=(1,))
    >>> data = tempfile.mkdtemp()
    >>> _ = sr.write([Series(np.ones((n, 1)), np.full((n, 1), n)) for n in (1, 3)], data)
    >>> model = keras.Sequential([keras.Input((None, 1)), keras.layers.Rescaling(1.0)])
    >>> model.compile(loss="mse")
    >>> for batch in (sr.Pad(2), sr.Bucket(1), sr.TokenBudget(9), sr.Ragged(2)):
    ...     print(sr.keras.evaluate(model, data, batch=batch, inputs="x", targets="y"))
    {'loss': 3.0}
    {'loss': 3.0}
    {'loss': 3.0}
    {'loss': 3.0}

    Args:
        model: a compiled Keras model. Its losses are computed per step or record; their `reduction` is ignored.
        path: dataset, selection or shards, as in `seqrecorder.read`.
        split: name of the split; optional for a dataset with one split, and for selections.
        batch: batching strategy; ragged batches are padded for the model.
        inputs: fields that are the inputs of the model, as in `seqrecorder.read`.
        targets: fields that are the targets, in the structure of the model's outputs.
        **options: other options of `seqrecorder.read`. With `weights=False`, each record has weight 1, which suits
            losses of whole sequences.

    Returns:
        Mapping from names to results, with the names that `model.evaluate` uses: `loss`, `<output>_loss` if there are
            several outputs, and the metrics.

    Raises:
        OptionError: the model is not compiled, the steps of an output do not match those of its target, or all weights
            are 0.
    """
    if batch is None or options.get("epochs", 1) is None:
        raise OptionError("evaluate: expected batch=Pad(...) or another strategy, and epochs that end, got None")
    if getattr(model, "loss", None) is None:
        raise OptionError("evaluate: expected a compiled model: call model.compile(loss=..., weighted_metrics=[...])")
    model.reset_metrics()
    losses: dict[str, _Loss] = {}
    penalty, call = 0.0, caller_of(model)
    for features, y, *weights in read(path, split, batch=batch, inputs=inputs, targets=targets, **options):
        outputs, extra = call(features)
        flat = {
            name: _entries(name, *arrays) for name, arrays in _outputs(model, outputs, y, *(weights or [None])).items()
        }
        losses = losses or _losses(model, list(flat))
        for name, (target, output, weight) in flat.items():
            if name in losses:
                losses[name].add(target, output, weight)
        penalty += float(keras.ops.convert_to_numpy(extra)) * float(next(iter(flat.values()))[2].sum())
        if any(len(weight) for *_, weight in flat.values()):
            model.compute_metrics(features, *(_structured(outputs, flat, number) for number in range(3)))
    if not losses or not all(loss.weight for loss in losses.values()):
        raise OptionError("evaluate: expected steps or records that count, got none: all weights are 0, or no records")
    means = {name: loss.total / loss.weight for name, loss in losses.items()}
    metrics = {name: float(value) for name, value in model.get_metrics_result().items()}
    if len(means) > 1:
        metrics |= {f"{name}_loss": mean for name, mean in means.items()}
    total = sum(loss.share * means[name] for name, loss in losses.items())
    return {**metrics, "loss": float(total + penalty / next(iter(losses.values())).weight)}


class _Loss:
    """Loss of one output, with running sums of the weighted values and the weights."""

    def __init__(self, loss: Any, share: float) -> None:
        known = keras.losses.get(loss)
        is_function = not isinstance(known, keras.losses.Loss)
        self.loss = keras.losses.Loss() if is_function else copy.copy(known)
        self.loss.reduction = "none"
        if is_function:
            self.loss.call = known
        self.share, self.total, self.weight = share, 0.0, 0.0

    def add(self, target: Any, output: Any, weight: Any) -> None:
        if len(weight):
            # Keras' loss functions, unlike its loss classes, expect equal ranks.
            target = target.reshape(output.shape) if output.shape == (*target.shape, 1) else target
            output = output.reshape(target.shape) if target.shape == (*output.shape, 1) else output
            values = keras.ops.convert_to_numpy(self.loss(target, output)).reshape(len(weight), -1)
            self.total += float((values.astype(np.float64).mean(1) * weight).sum())
            self.weight += float(weight.sum())


def _losses(model: Any, names: list[str]) -> dict[str, _Loss]:
    """Map the name of each output to its loss.

    Outputs without a loss are left out.
    """
    shares = getattr(getattr(model, "_compile_loss", None), "_user_loss_weights", None)
    parts = [{**dict.fromkeys(names), **part} if isinstance(part, Mapping) else part for part in (model.loss, shares)]
    by_name = zip(names, *(_in_order(part, names) for part in parts), strict=True)
    return {name: _Loss(loss, 1.0 if share is None else share) for name, loss, share in by_name if loss is not None}


def _in_order(part: Any, names: list[str]) -> list[Any]:
    """Convert `part` to a list with one entry for each output.

    `part` is a mapping from the names of outputs, a list in their order, or one entry for all outputs.
    """
    if isinstance(part, Mapping):
        return [part[name] for name in names]
    return list(part) if isinstance(part, (list, tuple)) else [part] * len(names)


def _outputs(model: Any, outputs: Any, targets: Any, weights: Any) -> dict[str, tuple[Any, Any, Any]]:
    """Map the name of each output to a tuple of its values, its target and its sample weights."""
    if isinstance(outputs, Mapping):
        names = list(outputs)
    else:
        count = len(outputs) if isinstance(outputs, (list, tuple)) else 1
        names = list(getattr(model, "output_names", None) or [])
        names = names if len(names) == count else [f"output_{number}" for number in range(count)]
    parts = [_in_order(part, names) for part in (outputs, targets, weights)]
    return dict(zip(names, zip(*parts, strict=True), strict=True))


def _structured(outputs: Any, flat: dict[str, tuple[Any, Any, Any]], number: int) -> Any:
    """Pack one value for each output into the structure of the outputs.

    `flat` maps the name of each output to a tuple, and `number` is the index of the value in this tuple.
    """
    values = {name: part[number] for name, part in flat.items()}
    if isinstance(outputs, Mapping):
        return values
    return list(values.values()) if isinstance(outputs, (list, tuple)) else next(iter(values.values()))


def _entries(name: str, output: Any, target: Any, weights: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Select the real steps or records of one output.

    The results are the targets, the outputs and the weights, with one row per step or record. Padding has the weight 0
    and is left out.
    """
    if hasattr(target, "row_lengths"):
        import tensorflow as tf

        real = tf.sequence_mask(target.row_lengths(), target.bounding_shape(axis=1))
        weights = tf.cast(real, tf.float32) if weights is None else weights.to_tensor()
        target = with_last_axis(target.to_tensor())
    values = [np.asarray(target), keras.ops.convert_to_numpy(output)]
    weight = np.ones(len(values[0]), np.float32) if weights is None else np.asarray(weights)
    outer = weight.ndim
    if any(value.shape[:outer] != weight.shape for value in values):
        raise OptionError(
            f"evaluate: expected an output {name!r} that begins with the dimensions of its target's weights, "
            f"{weight.shape}, got {values[1].shape}"
        )
    real = weight != 0
    target, output = (value[real] for value in values)
    return target, output, weight[real]
