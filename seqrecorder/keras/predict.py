"""Predictions of a model in the order of the records, and its metrics by the step."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import attrs
import keras
import numpy as np

from seqrecorder.codec.graph_ops import NOTHING
from seqrecorder.dataset.shard_set import resolve
from seqrecorder.errors import OptionError, did_you_mean
from seqrecorder.reading.batching.bucket import Bucket
from seqrecorder.reading.batching.pack import Pack
from seqrecorder.reading.batching.pad import Pad
from seqrecorder.reading.batching.token_budget import TokenBudget
from seqrecorder.reading.batching.unroll import Unroll
from seqrecorder.reading.batching.window import Window
from seqrecorder.reading.read import read
from seqrecorder.reading.targets import with_last_axis

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from seqrecorder.schema.field import Field


def predict(
    model: Any,
    path: Any,
    split: str | None = None,
    *,
    batch: Any,
    inputs: Any,
    join: bool = False,
    keep: str | Sequence[str] = (),
    **options: Any,
) -> list[Any]:
    """Predict for the records of a split, and return the predictions in the order of the records.

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
        batch: `Pad`, `Bucket` or `TokenBudget`, with padding on the right; or `Window`, `Unroll` or `Pack`, whose
            windows and segments are put together again.
        inputs: as for `seqrecorder.read`; with `Unroll`, a model of `seqrecorder.keras.Unrolled` layers takes `reset`.
        join: of windows that follow each other without a gap or an overlap: whether their steps become one sequence
            again. Segments always do.
        keep: fields that come with the predictions, such as keys and times, or what a strategy makes of them
            (`day_horizon`): as they are stored, whatever is normalized.
        options: further options of `seqrecorder.read`.

    Returns:
        One array for each record, in the order in which `read_records` gives them: `(steps, ...)` where the model's
        output has the steps of its input, else `(...)`. Of packed rows an output has the steps of the row (of that
        list, of several, whose rows are as long), or an entry for each segment. Of windows that are not joined, and of
        segments whose output has no steps, it is `(windows, ...)`, of a record that has none `(0, ...)`. With `keep`, a
        dictionary for each record: `prediction`, and by name what is kept: a context field once (None of a record
        without windows), all else as predictions are, with a row for each window or step.

    Raises:
        OptionError: the strategy gives records that cannot be put together again; or there is nothing of a name in
            `keep`.
    """
    batch = Pad(batch) if isinstance(batch, int) and not isinstance(batch, bool) else batch
    cuts = isinstance(batch, (Window, Unroll, Pack))
    if not cuts and (not isinstance(batch, (Pad, Bucket, TokenBudget)) or batch.padding_side != "right"):
        expected = "Pad, Bucket or TokenBudget with padding on the right, Window, Unroll or Pack"
        raise OptionError(f"predict: expected {expected}, got {batch!r}")
    if isinstance(batch, Window) and (batch.jitter or batch.max_windows is not None):
        raise OptionError(f"predict: expected windows of which none is drawn or moved at random, got {batch!r}")
    whole_windows = (batch.distance, batch.stride, batch.pad, batch.time) if isinstance(batch, Window) else ()
    if join and whole_windows != (getattr(batch, "length", None), 1, "end", None):
        raise OptionError(
            "predict: join=True puts the steps of windows together that follow each other: expected "
            f"Window(length) with neither shift, stride, pad nor time, got {batch!r}"
        )
    packed = _Packed.of(path, split, batch, options) if isinstance(batch, Pack) else None
    number: tuple[str, ...] = ("window_index" if isinstance(batch, Window) else "segment_index",) if cuts else ()
    number = packed.names if packed else number
    kept = _Kept.of(path, split, batch, [keep] if isinstance(keep, str) else keep, options) if keep else None
    names = (batch.length_name, _INDEX, *number, *(kept.numbers if kept else ()))
    asked = kept.beside(inputs) if kept else inputs
    batches = read(path, split, batch=batch, inputs=asked, targets=names, weights=False, index_name=_INDEX, **options)
    by_record: dict[int, list[tuple[int, list[Any]]]] = {}
    whole = join or not isinstance(batch, Window)  # steps are cut to those that are real
    of_steps = [False] * (1 + len(keep))
    for picked, (lengths, index, *others) in batches:
        features, values = kept.take(inputs, picked, others[len(number) :]) if kept else (picked, [])
        outputs = keras.ops.convert_to_numpy(_call(model, features))
        of_steps = [outputs.ndim > 1 and outputs.shape[1] == _width(features), *(kept.of_steps if kept else ())]
        if packed:
            of_steps[0], spans = packed.segments(index.numpy(), outputs, [each.numpy() for each in others])
        else:
            numbers = others[0].numpy().tolist() if cuts else [0] * len(outputs)
            stops = [slice(int(stop)) for stop in lengths]
            spans = [
                (at, numbers[row], row, (row, stops[row]), (row, stops[row]))
                for row, at in enumerate(index.numpy().tolist())
                if at != NOTHING
            ]
        for at, order, row, own, steps_of in spans:
            cells = [
                value[(own if value is outputs else steps_of) if steps and whole else row]
                for value, steps in zip([outputs, *values], of_steps, strict=True)
            ]
            by_record.setdefault(at, []).append((order, cells))
    if not by_record:
        return []
    results: dict[int, list[Any]] = {}
    for at, pieces in by_record.items():
        columns = zip(*(cells for _, cells in sorted(pieces, key=itemgetter(0))), strict=True)
        results[at] = [
            (np.concatenate if steps and whole else np.stack)(column) if cuts else column[0]
            for column, steps in zip(columns, of_steps, strict=True)
        ]
    nothing = [column[:0] for column in next(iter(results.values()))] if cuts else []
    positions = _positions(path, split, results, options) if cuts else sorted(results)
    rows = [results.get(at, nothing) for at in positions]
    return [row[0] if kept is None else kept.named(row, once=cuts) for row in rows]


@attrs.frozen
class _Packed:
    """Names of the batch's fields that identify segments: ids by alignment group, and first steps."""

    ids: Mapping[str, str]
    start: tuple[str, ...]

    @classmethod
    def of(cls, path: Any, split: str | None, batch: Pack, options: Mapping[str, Any]) -> _Packed:
        schema = resolve(path, split, schema=options.get("schema"), lengths_only=True).schema
        schema = schema.select(options.get("fields"))
        ids = batch.carried(schema).places.values()
        start = ("segment_start",) if batch.too_long == "split" else ()
        return cls(dict(zip(schema.groups, ids, strict=True)), start)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of what is read beside the lengths and positions of records."""
        return (*self.ids.values(), *self.start)

    def segments(
        self, index: NDArray[Any], outputs: NDArray[Any], columns: Sequence[NDArray[Any]]
    ) -> tuple[bool, list[tuple[int, int, Any, Any, Any]]]:
        """Find the segments of a batch.

        Returns:
            Whether outputs are of steps; and for each segment the position of its record, its first step there, its
            place among the segments, and its steps in the output and in the fields that are kept.

        Raises:
            OptionError: outputs are neither of the steps of one group nor of segments.
        """
        width = outputs.shape[1] if outputs.ndim > 1 else -1
        groups = [group for group, ids in zip(self.ids, columns, strict=False) if ids.shape[1] == width]
        if len(groups) > 1 or (not groups and width != index.shape[1]):
            rows = " and ".join(groups or self.ids)
            raise OptionError(
                f"predict: expected an output with the steps of a row of one list, or of segments, got the shape "
                f"{outputs.shape} for rows of {rows}; give these rows lengths that differ: Pack(length={{...}})"
            )
        ids = columns[list(self.ids).index(groups[0])] if groups else columns[0]
        starts = columns[len(self.ids)] if self.start else np.zeros_like(index)
        return bool(groups), [
            (
                int(index[row, at]),
                int(starts[row, at]),
                (row, at),
                (row, ids[row] == at + 1),
                (row, columns[0][row] == at + 1),
            )
            for row, at in np.argwhere(index != NOTHING).tolist()
        ]


@attrs.frozen
class _Kept:
    """Fields that come with predictions: numbers among the targets, which stay as stored, texts among the inputs."""

    names: Sequence[str]
    fields: Mapping[str, Field]
    texts: Sequence[str]

    @classmethod
    def of(cls, path: Any, split: str | None, batch: Any, names: Sequence[str], options: Mapping[str, Any]) -> _Kept:
        schema = resolve(path, split, schema=options.get("schema"), lengths_only=True).schema
        made_of = {name: source for name, source in batch.carried(schema).names.items() if source is not None}
        known = [*(field.name for field in schema.fields), *made_of]
        unknown = [name for name in names if name not in known]
        if unknown:
            raise OptionError(f"keep: there is no {unknown[0]!r}{did_you_mean(unknown[0], known)}")
        fields = {name: schema[made_of.get(name, name)] for name in names}
        for name, field in fields.items():
            if field.sparse is not None or field.is_ragged or (field.is_list and field.group != schema.groups[0]):
                raise OptionError(f"keep: {name!r} has lengths of its own, beside those of {schema.groups[0]!r}")
        mapped = options.get("vocabulary") or {}
        return cls(names, fields, [n for n in names if fields[n].element.is_text and fields[n].name not in mapped])

    @property
    def numbers(self) -> list[str]:
        """Names of those that are numbers."""
        return [name for name in self.names if name not in self.texts]

    @property
    def of_steps(self) -> list[bool]:
        """Check of each whether it has a value for each step."""
        return [field.is_list and name == field.name for name, field in self.fields.items()]

    def beside(self, inputs: Any) -> Any:
        """Return inputs with texts beside them."""
        is_one = isinstance(inputs, str) or not isinstance(inputs, (Mapping, Sequence))
        return (*([inputs] if is_one else inputs.values() if isinstance(inputs, Mapping) else inputs), *self.texts)

    def take(self, inputs: Any, features: tuple[Any, ...], numbers: Sequence[Any]) -> tuple[Any, list[Any]]:
        """Take a batch apart: the features as they were asked for, and what is kept, as arrays."""
        count = len(features) - len(self.texts)
        values = dict(zip([*self.texts, *self.numbers], [*features[count:], *numbers], strict=True))
        rest: Any = features[:count]
        if isinstance(inputs, Mapping):
            rest = dict(zip(inputs, rest, strict=True))
        elif isinstance(inputs, str) or not isinstance(inputs, Sequence):
            rest = rest[0] if count == 1 else rest
        return rest, [self._stored(name, np.asarray(values[name])) for name in self.names]

    def _stored(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        """Return values as records have them: times, `str`, and targets of steps without the axis that losses want."""
        field = self.fields[name]
        if name not in self.texts and not field.shape and values.ndim > 2:  # noqa: PLR2004 - (B, T, 1), packed too
            values = values[..., 0]
        if field.element.is_time:
            return values.view(field.element.numpy)
        if field.element.name == "str" and name in self.texts:
            return np.array([item.decode() for item in values.ravel().tolist()], object).reshape(values.shape)
        return values

    def named(self, row: list[Any], *, once: bool) -> dict[str, Any]:
        """Return a record's prediction and what is kept by name; of context fields, `once` takes the first."""
        out = {"prediction": row[0]} if row else {}
        for (name, field), value in zip(self.fields.items(), row[1:], strict=True):
            first = once and not field.is_list
            out[name] = value if not first else value[0] if len(value) else None
        return out


def evaluate(
    model: Any,
    path: Any,
    split: str | None = None,
    *,
    batch: Any,
    inputs: Any,
    targets: Any,
    **options: Any,
) -> dict[str, float]:
    """Return a compiled model's loss and metrics over the steps and records of a split, whatever the batches.

    `model.evaluate` averages each row over its padded steps, so that its figures depend on how rows are batched. Here
    each real step of a target (each record, of a context field) counts once, times its sample weight: the loss is
    `sum(weight * loss) / sum(weight)`, so are weighted metrics, and `metrics` leave out what weighs 0.

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
        model: a compiled Keras model; its losses are per step or per record, whatever their `reduction`.
        path: as for `seqrecorder.read`.
        split: as for `seqrecorder.read`.
        batch: as for `seqrecorder.read`; ragged batches are padded for the model.
        inputs: as for `seqrecorder.read`.
        targets: as for `seqrecorder.read`, structured as the outputs of the model.
        options: further options of `seqrecorder.read`. With `weights=False` each record counts once, as losses of
            whole sequences want it.

    Returns:
        By name, `loss`, `<output>_loss` where there are several outputs, and the metrics, as `model.evaluate` names
        them.

    Raises:
        OptionError: the model is not compiled, outputs do not have the steps of their targets, or nothing counts.
    """
    if batch is None:
        raise OptionError("evaluate: expected batch=Pad(...) or another strategy, got None")
    if getattr(model, "loss", None) is None:
        raise OptionError("evaluate: expected a compiled model: call model.compile(loss=..., weighted_metrics=[...])")
    model.reset_metrics()
    losses: dict[str, _Loss] = {}
    penalty = 0.0
    for features, y, *weights in read(path, split, batch=batch, inputs=inputs, targets=targets, **options):
        outputs = _call(model, features)
        flat = {
            name: _entries(name, *arrays) for name, arrays in _outputs(model, outputs, y, *(weights or [None])).items()
        }
        losses = losses or _losses(model, list(flat))
        for name, (target, output, weight) in flat.items():
            if name in losses:
                losses[name].add(target, output, weight)
        of_layers = sum(float(keras.ops.sum(each)) for each in model.losses)
        penalty += of_layers * float(next(iter(flat.values()))[2].sum())
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
    """The sum of one output's loss, and of its weights."""

    def __init__(self, loss: Any, share: float) -> None:
        known = keras.losses.get(loss)
        if isinstance(known, keras.losses.Loss):
            self.loss = copy.copy(known)
            self.loss.reduction = "none"
        else:
            self.loss = keras.losses.Loss(reduction="none")
            self.loss.call = known
        self.share, self.total, self.weight = share, 0.0, 0.0

    def add(self, target: Any, output: Any, weight: Any) -> None:
        if len(weight):
            values = keras.ops.convert_to_numpy(self.loss(target, output)).reshape(len(weight), -1)
            self.total += float((values.astype(np.float64).mean(1) * weight).sum())
            self.weight += float(weight.sum())


def _losses(model: Any, names: list[str]) -> dict[str, _Loss]:
    """Return the losses of the outputs that have one."""
    shares = getattr(getattr(model, "_compile_loss", None), "_user_loss_weights", None)
    by_name = {}
    for option, value in (("loss", model.loss), ("share", shares)):
        if isinstance(value, Mapping):
            by_name[option] = {name: value.get(name) for name in names}
        elif isinstance(value, (list, tuple)):
            by_name[option] = dict(zip(names, value, strict=True))
        else:
            by_name[option] = dict.fromkeys(names, value)
    shares = {name: 1.0 if share is None else share for name, share in by_name["share"].items()}
    return {name: _Loss(loss, shares[name]) for name, loss in by_name["loss"].items() if loss is not None}


def _outputs(model: Any, outputs: Any, targets: Any, weights: Any) -> dict[str, tuple[Any, Any, Any]]:
    """Return output, target and sample weights by the name of the output."""
    if isinstance(outputs, Mapping):
        names = list(outputs)
    else:
        count = len(outputs) if isinstance(outputs, (list, tuple)) else 1
        names = list(getattr(model, "output_names", None) or [])
        names = names if len(names) == count else [f"output_{number}" for number in range(count)]

    def by_name(part: Any) -> list[Any]:
        if isinstance(part, Mapping):
            return [part[name] for name in names]
        return list(part) if isinstance(part, (list, tuple)) else [part] * len(names)

    return dict(zip(names, zip(*map(by_name, (outputs, targets, weights)), strict=True), strict=True))


def _structured(outputs: Any, flat: dict[str, tuple[Any, Any, Any]], number: int) -> Any:
    """Return the entries of outputs, structured as these."""
    values = {name: part[number] for name, part in flat.items()}
    if isinstance(outputs, Mapping):
        return values
    return list(values.values()) if isinstance(outputs, (list, tuple)) else next(iter(values.values()))


def _entries(name: str, output: Any, target: Any, weights: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return target, output and weight of each step or record that counts: a row each, without padding."""
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


def _call(model: Any, features: Any) -> Any:
    """Return the outputs of a model; ragged inputs are padded, and backends other than TensorFlow get arrays."""
    is_tensorflow = keras.backend.backend() == "tensorflow"

    def taken(part: Any) -> Any:
        part = part.to_tensor() if hasattr(part, "row_lengths") else part
        return part if is_tensorflow else np.asarray(part)

    return model(keras.tree.map_structure(taken, features), training=False)


_INDEX = "predict/index"
_OF_ORDER = ("shuffle", "seed", "epochs", "epoch", "deterministic")


def _positions(path: Any, split: str | None, indices: Iterable[int], options: Mapping[str, Any]) -> list[int]:
    """Return the positions of all records that are read, those that have no window too."""
    chosen = {name: value for name, value in options.items() if name not in _OF_ORDER}
    positions, records = sorted(indices), read(path, split, index_name=_INDEX, **chosen)
    if int(records.cardinality()) == len(positions):
        return positions
    return sorted(int(record[_INDEX]) for record in records)


def _width(features: Any) -> int | None:
    """Return the steps of a batch: the second dimension of its first input that has one."""
    leaves: Sequence[Any] = keras.tree.flatten(features)
    return next((int(part.shape[1]) for part in leaves if len(part.shape) > 1), None)
