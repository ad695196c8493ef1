"""Predictions of a model for the records of a split, in the order of the records."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import attrs
import keras
import numpy as np

from seqrecorder.codec.graph_ops import NOTHING
from seqrecorder.codec.parse import length_name
from seqrecorder.dataset.checked_shards import resolve
from seqrecorder.errors import OptionError
from seqrecorder.reading.batching.bucket import Bucket
from seqrecorder.reading.batching.pack import Pack
from seqrecorder.reading.batching.pad import Pad
from seqrecorder.reading.batching.token_budget import TokenBudget
from seqrecorder.reading.batching.unroll import Unroll
from seqrecorder.reading.batching.window import Window
from seqrecorder.reading.derived_fields import Shifted, mask_missing
from seqrecorder.reading.read import read
from seqrecorder.schema.dtypes import element_type
from seqrecorder.schema.field import Field

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seqrecorder.schema.schema import Schema


def predict(
    model: Any,
    path: Any,
    split: str | None = None,
    *,
    batch: Any,
    inputs: Any,
    join: bool = False,
    keep: str | Sequence[str] = (),
    steps_of: str | None = None,
    **options: Any,
) -> list[Any]:
    """Run a model over a split and return the predictions in the order of the records.

    Batches can be in any order, for example sorted by length. If the model predicts steps, the predictions for a record
    are cut to its length.

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
        model: a Keras model with one output, whose first dimension is the batch.
        path: dataset, selection or shards, as in `seqrecorder.read`.
        split: name of the split; optional for a dataset with one split, and for selections.
        batch: `Pad`, `Bucket` or `TokenBudget`, with padding on the right; or `Window`, `Unroll` or `Pack`, whose
            windows and segments are reassembled into records.
        inputs: fields that are the inputs of the model, as in `seqrecorder.read`. With `Unroll`, a model with
            `seqrecorder.keras.Unrolled` layers also needs the input `reset`.
        join: whether to join adjacent windows (without gaps or overlaps) into one sequence; segments are always joined.
        keep: names of fields to return with the predictions, such as keys and times, or of other outputs of `read`
            (`day_horizon`, `horizon_length`, `image_size`, `sr.next_step("ids")`). Values are returned as stored, not
            normalized; with `vocabulary`, they are ids. NaN stays NaN, except in `sr.next_step` with the option
            `missing`, where it is 0. Steps that a window or horizon lacks are NaN or NaT, 0 for integers, and empty for
            text. None becomes 0 or empty, or NaN with `missing`; to recognize it, keep `<field>_present` as well.
        steps_of: name of the feature list with which the output shares its steps, for inputs of different lengths: a
            list that is as long as an input, or one that an input follows by `per_step`. By default, it is inferred
            from the width of the output; if several lists match, an error asks for it.
        **options: other options of `seqrecorder.read`.

    Returns:
        One array per record, in the order of `read_records`: `(steps, ...)` if the output has steps, otherwise `(...)`.
            For windows that are not joined, and for segments whose output has no steps, the array is `(windows, ...)`.
            For packed rows, the output of the model must have the steps of the row or one entry per segment. With
            `keep`, each record has a dictionary instead, with the array under `prediction` and each kept field under
            its name: a context field as one value (None if the record has no window), and any other field with one row
            per window or step.

    Raises:
        OptionError: the strategy's batches cannot be reassembled into records; a name in `keep` is unknown; it is
            unclear which steps the output has; the model has several outputs; an option does not apply to predictions;
            or records are left out, and `keep` is empty.
    """
    batch = _checked(batch, options, join=join)
    cuts = isinstance(batch, (Window, Unroll, Pack))
    origin = resolve(path, split, schema=options.get("schema"), lengths_only=True)
    schema = origin.schema
    kept = _Kept.of(schema, batch, keep, options)
    of_inputs = _groups_of(inputs, schema)
    rates = {group: schema.rates[group] for group in of_inputs.values() if group in schema.rates}
    of_output = [*of_inputs.values(), *(followed for followed, _ in rates.values())]
    chosen = None if steps_of is None else schema[steps_of].group
    if steps_of is not None and not (schema[steps_of].is_list and chosen in of_output):
        raise OptionError(f"steps_of: expected a feature list of the length of an input, got {steps_of!r}")
    groups = list(dict.fromkeys(group for group in (*of_output, *kept.groups) if group is not None))
    ids, numbered = _identities(batch, schema)
    numbered += ["horizon_length"] if kept.ahead else []
    names = (_INDEX, *map(ids.__getitem__, groups), *numbered, *kept.fields, *kept.masks.values())
    batches = read(path, split, batch=batch, inputs=inputs, targets=names, weights=False, index_name=_INDEX, **options)
    by_record: dict[int, list[tuple[int, list[Any]]]] = {}
    call = caller_of(model)
    gives_steps: bool | None = None
    of_steps: list[str | None] = [None] * (1 + len(kept.fields))  # the group whose lengths cut each column
    for features, targets in batches:
        index, *others = (part.numpy() for part in targets)
        values = kept.stored(others[len(groups) + len(numbered) :])
        every = list(map(keras.ops.convert_to_numpy, keras.tree.flatten(call(features)[0])))
        if len(every) != 1 or every[0].shape[:1] != index.shape[:1]:
            text = f"predict: expected one output of {len(index)} rows, got {[value.shape for value in every]}; of "
            raise OptionError(f"{text}several outputs, predict with one: keras.Model(model.inputs, model.outputs[0])")
        outputs = every[0]
        widths = _widths(inputs, features, of_inputs, rates)
        if gives_steps is None and chosen is None and outputs.shape[1:2] in {(width,) for width in widths.values()}:
            gives_steps = _gives_steps(model, inputs, features, of_inputs)
        group = _group_of_output(outputs, {} if gives_steps is False else widths, chosen)
        if isinstance(batch, Pack) and group is None and outputs.shape[1:2] != index.shape[1:]:
            raise OptionError(
                f"predict: expected an output with the steps of a row of {' or '.join(groups)}, or an entry for each "
                f"segment, {index.shape}, got the shape {outputs.shape}"
            )
        real, order = dict(zip(groups, others, strict=False)), others[len(groups)] if numbered else np.zeros_like(index)
        if isinstance(batch, Window) and not join:
            values = kept.blank(values, real, others[len(groups) + len(numbered) - 1], front=batch.pad == "start")
        else:
            of_steps = [group, *kept.groups]
        for position in map(tuple, np.argwhere(index != NOTHING)):
            cells = [
                np.asarray(value[position], value.dtype) if of is None else _steps_at(value, real[of], position)
                for value, of in zip([outputs, *values], of_steps, strict=True)
            ]
            by_record.setdefault(int(index[position]), []).append((int(order[position]), cells))
    if not by_record and (keep or cuts or origin.records <= 0):
        return []
    results = {
        at: [
            (np.stack if of is None else np.concatenate)(column) if cuts else column[0][()]
            for *column, of in zip(*(cells for _, cells in sorted(pieces, key=itemgetter(0))), of_steps, strict=True)
        ]
        for at, pieces in by_record.items()
    }
    nothing = [column[:0] for column in next(iter(results.values()))] if cuts else []
    positions = _positions(path, split, results, options) if cuts else sorted(results)
    skips = keep or "shard" in options or "on_corrupt" in options
    left = 0 if skips else origin.records - len(results if getattr(batch, "too_long", "") == "drop" else positions)
    if left > 0:
        raise OptionError(
            f"predict: {left} of {origin.records} records are left out, so that results would not stand beside their "
            "records: pass keep= to know whose they are, such as a key, or leave out what drops records (empty, "
            "too_long, min_length, max_length)"
        )
    rows = [results.get(at, nothing) for at in positions]
    return [kept.named(row, once=cuts) if keep else row[0] for row in rows]


def _checked(batch: Any, options: Mapping[str, Any], *, join: bool) -> Any:
    """Check that the batches of a strategy can be reassembled into records.

    The result is the strategy. A number stands for `Pad` with this batch size.

    Raises:
        OptionError: the batches cannot be reassembled, or there is an option that `predict` does not accept.
    """
    for name in ("fields", "targets", "weights", "index_name", "epochs", "oversample"):
        if name in options:
            raise OptionError(f"predict: leave {name} out; give inputs, and in keep= what comes with predictions")
    batch = Pad(batch) if isinstance(batch, int) and not isinstance(batch, bool) else batch
    cuts = isinstance(batch, (Window, Unroll, Pack))
    if not cuts and (not isinstance(batch, (Pad, Bucket, TokenBudget)) or batch.padding_side != "right"):
        expected = "Pad, Bucket or TokenBudget with padding on the right, Window, Unroll or Pack"
        raise OptionError(f"predict: expected {expected}, got {batch!r}")
    if getattr(batch, "drop_remainder", False) or getattr(batch, "jitter", 0) or getattr(batch, "max_windows", None):
        raise OptionError(f"predict: expected no drop_remainder, and no window drawn or moved at random, got {batch!r}")
    whole_windows = (batch.distance, batch.stride, batch.pad, batch.time) if isinstance(batch, Window) else ()
    if join and whole_windows != (getattr(batch, "length", None), 1, "end", None):
        raise OptionError(
            "predict: join=True puts the steps of windows together that follow each other: expected "
            f"Window(length) with neither shift, stride, pad nor time, got {batch!r}"
        )
    return batch


def _identities(batch: Any, schema: Schema) -> tuple[dict[str, str], list[str]]:
    """Find the values of a batch that identify the pieces of a record.

    The first result maps each alignment group to the name of its lengths or, in packed rows, of its segment numbers.
    The second result lists the names of the values that say in which order the pieces follow each other.
    """
    if isinstance(batch, Pack):
        ids = dict(zip(schema.groups, batch.carried(schema).places.values(), strict=True))
        return ids, ["segment_start"] if batch.too_long == "split" else []
    ids = {group: batch.length_name if at == 0 else length_name(group) for at, group in enumerate(schema.groups)}
    index = "window_index" if isinstance(batch, Window) else "segment_index"
    return ids, [index] if isinstance(batch, (Window, Unroll)) else []


def _steps_at(values: NDArray[Any], real: NDArray[Any], position: tuple[int, ...]) -> Any:
    """Select the real steps of a record in a batch.

    In packed batches, `position` consists of a row and a segment, and the steps of this segment are selected.
    """
    row, own = values[position[0]], real[position[0]]
    return row[: int(own)] if len(position) == 1 else row[np.repeat(own == position[1] + 1, len(row) // len(own))]


def _groups_of(inputs: Any, schema: Schema) -> dict[Any, str]:
    """Map each feature list among the inputs to its alignment group.

    The keys of the result are those of `inputs`, or positions if `inputs` is not a mapping.
    """
    named = inputs if isinstance(inputs, Mapping) else dict(enumerate([inputs] if _is_one(inputs) else inputs))
    groups = {field.name: field.group for field in schema.fields if field.is_list}
    return {key: groups[_source(part)] for key, part in named.items() if _source(part) in groups}


def _source(part: Any) -> Any:
    return part.shifts[0].source if isinstance(part, Shifted) else part


def _is_one(inputs: Any) -> bool:
    return isinstance(inputs, str) or not isinstance(inputs, (Mapping, Sequence))


def _widths(inputs: Any, features: Any, of_inputs: Mapping[Any, str], rates: Mapping[str, Any]) -> dict[str, int]:
    """Map each alignment group to its number of steps in the batch, including padding.

    A group that has no input itself is included if a group with inputs follows it at a rate.
    """
    parts = {0: features} if _is_one(inputs) else features
    own = {group: int(keras.tree.flatten(parts[key])[0].shape[1]) for key, group in of_inputs.items()}
    return {followed: own[group] // rate for group, (followed, rate) in rates.items()} | own


def _gives_steps(model: Any, names: Any, features: Any, of_inputs: Mapping[Any, str]) -> bool:
    """Check whether the output of a model can have steps.

    It cannot have any if its second dimension is fixed while that of an input varies. If the dimensions are unknown,
    the result is True.
    """
    inputs, outputs = getattr(model, "inputs", None), getattr(model, "outputs", None)
    if not inputs or not outputs:  # a subclassed model or a function
        is_dict = isinstance(features, Mapping)
        parts = {0: features} if _is_one(names) else features if is_dict else dict(enumerate(features))
        symbols = {key: keras.tree.map_structure(_symbol(key in of_inputs), part) for key, part in parts.items()}
        taken = symbols[0] if _is_one(names) else symbols if is_dict else tuple(symbols.values())
        try:
            inputs, outputs = keras.tree.flatten(taken), keras.tree.flatten(model.compute_output_spec(taken))
        except Exception:  # noqa: BLE001 - a function has no specification, and a model may need fixed steps
            return True
    is_fixed = len(outputs[0].shape) > 1 and outputs[0].shape[1] is not None
    return not (is_fixed and any(len(part.shape) > 1 and part.shape[1] is None for part in inputs))


def _symbol(has_steps: bool) -> Callable[[Any], Any]:  # noqa: FBT001 - one flag
    """Build a function that converts a tensor to a symbolic tensor.

    The symbolic tensor has any number of rows. If `has_steps` is true, it also has any number of steps.
    """
    any_size = (None, None) if has_steps else (None,)
    return lambda part: keras.KerasTensor((*any_size, *part.shape[len(any_size) :]), part.dtype)


def _group_of_output(outputs: NDArray[Any], widths: Mapping[str, int], chosen: str | None) -> str | None:
    """Find the alignment group whose steps an output has, or return None if it has no steps.

    Raises:
        OptionError: the output lacks the steps of the chosen group, or several groups match.
    """
    groups = [group for group, width in widths.items() if outputs.shape[1:2] == (width,)]
    if chosen is not None and chosen not in groups:
        raise OptionError(f"steps_of: expected an output of shape (B, {widths[chosen]}, ...), got {outputs.shape}")
    if chosen is None and len(groups) > 1:
        raise OptionError(
            f"predict: the output of shape {outputs.shape} may have the steps of {' or '.join(groups)}: say of which "
            "feature list, steps_of=..."
        )
    return chosen or (groups[0] if groups else None)


@attrs.frozen
class _Kept:
    """Fields to return with predictions.

    They are read as targets, because targets are never normalized.

    Attributes:
        fields: for each kept name, its field or a field with the same steps; None for lengths, for example.
        groups: alignment group of each kept name with a value per step of a record; None for other names.
        ahead: kept names whose steps are those of a horizon.
        masks: for each kept name whose NaN values are read as 0, the name of its mask of observed values.
    """

    fields: Mapping[Any, Field | None]
    groups: Sequence[str | None]
    ahead: set[Any]
    masks: Mapping[Any, str]

    @classmethod
    def of(cls, schema: Schema, batch: Any, keep: Any, options: Mapping[str, Any]) -> _Kept:
        names = list(keep) if isinstance(keep, Iterable) and not isinstance(keep, str) else [keep]
        if not all(isinstance(name, (str, Shifted)) for name in names):
            raise OptionError(f"keep: expected a name, or a sequence of names, got {keep!r}")
        own = {field.name: field for field in schema.fields}
        observed = {mask.source: mask for mask in mask_missing(schema, options.get("missing"))}
        for source, mask in observed.items():
            own[mask.name] = attrs.evolve(mask.fields(own[source])[1], element=element_type("bool"))
        carried = batch.carried(attrs.evolve(schema, fields=tuple(own.values())))
        for at, group in enumerate(schema.groups if batch.mask_name else ()):
            mask_name = f"{group}_{batch.mask_name}" if at else batch.mask_name
            own[mask_name] = Field(mask_name, mask_name, "feature_list", element_type("bool"), (), align=group)
        rated = [field.name for field in schema.fields if field.per_step is not None]
        undivided = {*carried.names, *carried.places, *rated} - {"segment_start"} if carried.context else ()
        fields = {name: own.get(carried.names.get(_source(name)) or _source(name)) for name in names}
        for name, field in fields.items():
            if name in undivided:
                raise OptionError(f"keep: {name!r} cannot be divided among the records of a packed row")
            if field is not None and ((field.sparse and (field.is_list or not field.dense)) or field.is_ragged):
                raise OptionError(f"keep: {name!r} is {'ragged' if field.is_ragged else 'sparse'}, and gives no array")
        masks = {
            name: observed[of.name].name + name.removeprefix(of.name)
            for name, of in fields.items()
            if of is not None and of.name in observed and not isinstance(name, Shifted)
        }
        ahead = {name for name in names if carried.names.get(name)}
        groups = [of.group if of and of.is_list and name not in ahead else None for name, of in fields.items()]
        return cls(fields, groups, ahead, masks)

    def stored(self, targets: Sequence[Any]) -> list[Any]:
        """Restore the kept values to the form in which they are stored in records.

        `targets` contains the kept values, followed by their masks. Values that a mask marks as missing become NaN
        again.
        """
        values = dict(zip([*self.fields, *self.masks.values()], targets, strict=True))
        stored = {name: self._stored(name, values[name]) for name in self.fields}
        for name, mask in self.masks.items():
            is_missing = values[mask].reshape(stored[name].shape) == 0
            stored[name] = np.where(is_missing, np.array(np.nan, stored[name].dtype), stored[name])
        return list(stored.values())

    def _stored(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        """Convert the values of one name to the form in which they are stored in records.

        Times and `str` get back their own types, and the axis that was added for losses is removed.
        """
        field = self.fields[name]
        if field is None:
            return values
        if not field.element.is_text and not field.shape and values.ndim > 2:  # noqa: PLR2004 - (B, T, 1), packed too
            values = values[..., 0]
        if field.element.is_time:
            return values.view(field.element.numpy)
        if field.element.name == "str" and values.dtype == object:
            return np.array([item.decode() for item in values.ravel().tolist()], object).reshape(values.shape)
        return values

    def blank(self, values: list[Any], lengths: Mapping[str, Any], ahead: Any, *, front: bool) -> list[Any]:
        """Replace the padding of windows and horizons by NaN or NaT.

        Only feature lists of floats and times are changed, because other dtypes have neither NaN nor NaT.

        Args:
            values: the kept values, `(B, T, ...)`.
            lengths: number of real steps of each window, int64 `(B,)`, by alignment group.
            ahead: number of real steps of each horizon, int64 `(B,)`.
            front: whether windows are padded at the front.
        """
        blanked = list(values)
        for at, (value, (name, field), group) in enumerate(zip(values, self.fields.items(), self.groups, strict=True)):
            if field is not None and field.is_list and value.dtype.kind in "fmM" and field.element.name != "bool":
                real, steps = (ahead if group is None else lengths[group])[:, np.newaxis], np.arange(value.shape[1])
                at_front = front and name not in self.ahead
                is_padding = steps < value.shape[1] - real if at_front else steps >= real
                mask = is_padding.reshape(is_padding.shape + (1,) * (value.ndim - 2))
                blanked[at] = np.where(mask, np.array(np.nan if value.dtype.kind == "f" else "NaT", value.dtype), value)
        return blanked

    def named(self, row: list[Any], *, once: bool) -> dict[str, Any]:
        """Build the dictionary of a record from its prediction and its kept values.

        If the record was cut into windows, a context field has the same value for each of them. If `once` is true, only
        the first of these values is kept, or None if there are no windows.
        """
        out = {"prediction": row[0]} if row else {}
        for (name, field), value in zip(self.fields.items(), row[1:], strict=True):
            first = once and field is not None and not field.is_list
            out[name] = value if not first else value[0] if len(value) else None
        return out


def caller_of(model: Any) -> Callable[[Any], tuple[Any, Any]]:
    """Build a function that calls a model on a batch of inputs.

    The inputs may be ragged. The function returns the outputs of the model and the sum of its losses. With TensorFlow,
    the call is traced, because a recurrent model takes ten times as long when run eagerly.
    """
    is_tensorflow = keras.backend.backend() == "tensorflow"

    def taken(part: Any) -> Any:
        part = part.to_tensor() if hasattr(part, "row_lengths") else part
        return part if is_tensorflow else np.asarray(part)

    call: Any = functools.partial(_call, model)  # a new function, since TensorFlow warns of one with many traces
    if is_tensorflow and isinstance(model, keras.Model) and not model.run_eagerly:
        import tensorflow as tf

        call = tf.function(call, autograph=False, reduce_retracing=True)
    return lambda features: call(keras.tree.map_structure(taken, features))


def _call(model: Any, features: Any) -> tuple[Any, Any]:
    return model(features, training=False), sum(map(keras.ops.sum, getattr(model, "losses", ())))


_INDEX = "predict/index"
_OF_ORDER = ("shuffle", "seed", "epoch", "deterministic")


def _positions(path: Any, split: str | None, indices: Iterable[int], options: Mapping[str, Any]) -> list[int]:
    """List the positions of all selected records.

    This includes records without windows.
    """
    chosen = {name: value for name, value in options.items() if name not in _OF_ORDER}
    positions, records = sorted(indices), read(path, split, index_name=_INDEX, **chosen)
    if int(records.cardinality()) == len(positions):
        return positions
    return sorted(int(record[_INDEX]) for record in records)
