"""What a dataset's elements look like: a dict, a tuple, a record, or what `model.fit` takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal

import attrs

from seqrecorder.codec.parser import SEQUENCE_LENGTH, length_name
from seqrecorder.codec.record_index import to_numbers
from seqrecorder.errors import OptionError, did_you_mean
from seqrecorder.reading.keras_losses import loss_rank, loss_weights, with_last_axis
from seqrecorder.schema.schema import chosen_fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from seqrecorder.schema.schema import Schema

Output = Literal["dict", "tuple", "record"]
OUTPUTS = ("dict", "tuple", "record")


@attrs.frozen
class Carried:
    """What the elements of a strategy carry beside the fields and their lengths.

    Attributes:
        names: of what is made, each with the field that it is made of, or None.
        lengths: by name, the name of the lengths that say how many entries of its second dimension are real; for what
            has a second dimension and is no feature list.
        context: the name of such lengths for context fields, where a row has several of each.
        places: where a row has several of each: the name of what says, for each step, of which it is, from 1 on.
        vacant: whether a row may hold no record, and its length is 0 then.
        left: the alignment groups whose padding comes first.
        padded: whether there is padding that a loss must not count.
        weighted: whether there are sample weights even where no target has padding.
    """

    names: Mapping[str, str | None] = attrs.field(factory=dict)
    lengths: Mapping[str, str] = attrs.field(factory=dict)
    context: str | None = None
    places: str | None = None
    vacant: bool = False
    left: frozenset[str] = frozenset()
    padded: bool = True
    weighted: bool = False


@attrs.frozen
class OutputOptions:
    """How elements are given.

    Attributes:
        output: `dict`, `tuple` in declaration order, or `record`.
        inputs: name, sequence of names, or mapping of input to name: what the model takes.
        targets: likewise: what it shall give.
        weights: name of the sample weights; None makes them from the mask; False leaves them out.
        length_name: name of the lengths of the first alignment group in batches.
        mask_name: name of the mask in batches, or None.
        index_name: name of the positions of records, or None.
        carried: what elements carry besides; None for single records.
    """

    output: Output = "dict"
    inputs: Any = None
    targets: Any = None
    weights: Any = None
    length_name: str = SEQUENCE_LENGTH
    mask_name: str | None = None
    index_name: str | None = None
    carried: Carried | None = None

    def __attrs_post_init__(self) -> None:
        if self.output not in OUTPUTS:
            raise OptionError(f"output: expected one of {', '.join(OUTPUTS)}, got {self.output!r}")
        if self.inputs is None and (self.targets is not None or self.weights not in (None, False)):
            raise OptionError("targets and weights go with inputs: name the inputs of the model too")
        if self.inputs is not None and self.output != "dict":
            raise OptionError("inputs and targets shape the elements already: leave `output` out")


def needed_fields(schema: Schema, options: OutputOptions, fields: Sequence[str] | None) -> Schema:
    """Return the schema of the fields that must be parsed.

    Raises:
        SchemaError: there is no field of a name.
        OptionError: a name clashes with a field's.
    """
    _check_clashes(schema, options)
    chosen = chosen_fields(schema, fields)
    if options.inputs is None:
        return chosen
    _check_targets(schema, options)
    made = _made_names(schema, options)
    wanted = [name for part in (options.inputs, options.targets, options.weights or None) for name in _names(part)]
    names = []
    for name in wanted:
        if name in made:
            made_of = options.carried.names.get(name) if options.carried else None
            names += [made_of] if made_of else []
            continue
        base = name[: -len("_present")] if name.endswith("_present") and name not in _field_names(schema) else name
        if base not in _field_names(schema):
            everything = [*_field_names(schema), *made]
            raise OptionError(
                f"{schema.name} gives no {name!r}{did_you_mean(name, everything)}; it gives {', '.join(everything)}"
            )
        names.append(base)
    lists = [f.name for f in chosen.fields if f.is_list]
    if any(name in made and name != options.index_name for name in wanted) and not any(name in lists for name in names):
        names += lists[:1]  # lengths and masks come from a feature list
    if not names:
        raise OptionError(f"inputs: expected a field of {schema.name} or more, got {', '.join(wanted) or 'none'}")
    return chosen.select(names)


def _check_targets(schema: Schema, options: OutputOptions) -> None:
    for option, part in (("targets", options.targets), ("weights", options.weights or None)):
        for name in _names(part):
            if name in _field_names(schema) and schema[name].element.is_text:
                raise OptionError(
                    f"{option}: {name!r} is text, of which Keras makes no loss: store numbers, or read dictionaries "
                    f"(leave inputs and {option} out) and `map` them, with `keras.layers.StringLookup` for one"
                )


def _check_clashes(schema: Schema, options: OutputOptions) -> None:
    names = set(_field_names(schema))
    made = [("index_name", options.index_name)]
    if options.carried is not None:
        made += [("length_name", options.length_name), ("mask_name", options.mask_name)]
    for option, name in made:
        if not isinstance(name, (str, NoneType)):
            raise OptionError(f"{option}: expected a name, got {name!r}")
        if name in names:
            raise OptionError(
                f"{schema.name} has a field {name!r}, as elements name what they carry: pass {option}= another name"
            )
    for group in schema.groups[1:] if options.carried is not None else ():
        if length_name(group) in names:
            raise OptionError(
                f"{schema.name} has a field {length_name(group)!r}, the lengths of group {group!r}: rename one"
            )


def _field_names(schema: Schema) -> list[str]:
    return [field.name for field in schema.fields]


def _made_names(schema: Schema, options: OutputOptions) -> list[str]:
    names = [options.index_name] if options.index_name else []
    if options.carried is None or not schema.groups:
        return names
    names += [options.length_name, *map(length_name, schema.groups[1:])]
    if options.mask_name:
        names += [_mask_of(group, schema, options) for group in schema.groups]
    return [*names, *options.carried.names]


def _mask_of(group: str, schema: Schema, options: OutputOptions) -> str:
    return str(options.mask_name) if group == schema.groups[0] else f"{group}_{options.mask_name}"


def _names(part: Any) -> list[str]:
    if part is None:
        return []
    if isinstance(part, str):
        return [part]
    if isinstance(part, (Mapping, Sequence)):
        names = list(part.values() if isinstance(part, Mapping) else part)
        if all(isinstance(name, str) for name in names):
            return names
    raise OptionError(f"inputs and targets: expected a name, a sequence of names or a mapping, got {part!r}")


def shaper(schema: Schema, parsed: Schema, options: OutputOptions) -> Callable[[dict[str, Any]], Any]:
    """Return the function from what the parser gives to an element.

    Args:
        schema: of the class.
        parsed: the fields that are parsed.
        options: how elements are given.
    """
    first = parsed.groups[0] if parsed.groups else None

    def shape(values: dict[str, Any]) -> Any:
        if options.index_name is not None:
            values[options.index_name] = to_numbers(values[options.index_name])
        if options.carried is not None and first is not None:
            values[options.length_name] = values.pop(length_name(first))
            if options.mask_name:
                masks = {_mask_of(g, parsed, options): _mask(values, g, None, parsed, options) for g in parsed.groups}
                values |= masks
        if options.inputs is not None:
            return _for_fit(values, parsed, options)
        if options.output == "dict":
            return values
        if options.output == "tuple":
            return tuple(values.values())
        return record_element(schema.record_class, tuple(values))(*values.values())

    return shape


def _for_fit(values: dict[str, Any], parsed: Schema, options: OutputOptions) -> Any:
    x = _pick(values, options.inputs)
    if options.targets is None:
        return x
    carried, names = options.carried, _names(options.targets)
    if carried is None or not carried.padded:
        y = _pick(values, options.targets)
        return (x, y, _pick(values, options.weights)) if options.weights else (x, y)
    lengths = {name: _lengths_of(name, parsed, options, carried) for name in (*names, *_names(options.weights or None))}
    shaped = {name: with_last_axis(values[name]) if lengths[name] else values[name] for name in names}
    y = _pick(shaped, options.targets)
    weighted = carried.vacant or carried.weighted or any(lengths[name] for name in names)
    if options.weights is False or (options.weights is None and not weighted):
        return x, y

    def weigh(target: str, given: str | None) -> Any:
        outer = 1 if lengths[target] is None else 2
        parts = _real(values, target, lengths[target], parsed, options)
        if given is not None:
            parts.append(_fitting(values, (target, given), lengths, loss_rank(values[target], outer), options))
        return loss_weights(values[target], outer, parts)

    return x, y, _paired(options.targets, options.weights, weigh)


def _lengths_of(name: str, parsed: Schema, options: OutputOptions, carried: Carried) -> str | None:
    """Return the name of the lengths that say how many entries of a second dimension are real; None without one."""
    if name in carried.lengths:
        return carried.lengths[name]
    names = {group: length_name(group) for group in parsed.groups}
    if parsed.groups:
        names[parsed.groups[0]] = options.length_name
    for field in parsed.fields:
        if field.name == name and field.is_list:
            return names[field.group]
    for group, lengths in names.items():
        if options.mask_name and name == _mask_of(group, parsed, options):
            return lengths
    if name in (*names.values(), *carried.names):
        return None
    return carried.context


def _real(values: dict[str, Any], name: str, lengths: str | None, parsed: Schema, options: OutputOptions) -> list[Any]:
    """Return what says which entries of a target are real, bool of its first one or two dimensions, if any does."""
    import tensorflow as tf

    target, carried = values[name], options.carried
    field = next((field for field in parsed.fields if field.name == name), None)
    if field is not None and field.is_list:
        return [_mask(values, field.group, target, parsed, options)]
    if lengths is not None:
        return [tf.sequence_mask(values[lengths], tf.shape(target)[1])]
    return [values[options.length_name] > 0] if carried is not None and carried.vacant else []


def _fitting(
    values: dict[str, Any],
    names: tuple[str, str],
    lengths: Mapping[str, str | None],
    rank: int,
    options: OutputOptions,
) -> Any:
    """Return the sample weights that are given for a target, with dimensions that are the first ones of its loss.

    Raises:
        OptionError: they are of other steps than the target, or have dimensions that its loss has not.
    """
    import tensorflow as tf

    target, given = names
    weights, of_weights, of_target = values[given], lengths[given], lengths[target]
    carried = options.carried
    where = f"weights: {given!r} for the target {target!r}:"
    if not isinstance(weights, tf.Tensor) or not (
        weights.dtype.is_floating or weights.dtype.is_integer or weights.dtype.is_bool
    ):
        raise OptionError(f"{where} expected numbers, got {weights.dtype.name}")
    if carried is not None and carried.places is not None and of_weights == carried.context != of_target is not None:
        weights = tf.gather(weights, tf.maximum(values[carried.places] - 1, 0), batch_dims=1)
        of_weights = of_target
    if of_weights is not None and of_weights != of_target:
        expected = f"as many as the target, whose number is {of_target!r}" if of_target else "one for each record"
        raise OptionError(
            f"{where} expected weights, {expected}; got one for each step, whose number is {of_weights!r}"
        )
    inner = weights.shape[2 if of_weights else 1 :]
    loss = values[target].shape[:rank]
    if inner.rank and not (of_weights == of_target and weights.shape.is_compatible_with(loss)):
        raise OptionError(
            f"{where} expected one number for each {'step' if of_weights else 'record'}, got the shape {weights.shape}"
            f" beside a loss of the shape {loss}"
        )
    return weights


def _paired(targets: Any, weights: Any, weigh: Callable[[str, str | None], Any]) -> Any:
    """Return what is made of the name of each target and that of its weights, in the structure of the targets.

    Raises:
        OptionError: the names of weights are not structured as those of targets.
    """
    if weights is None or isinstance(weights, str):
        if isinstance(targets, str):
            return weigh(targets, weights)
        if isinstance(targets, Mapping):
            return {key: weigh(name, weights) for key, name in targets.items()}
        return tuple(weigh(name, weights) for name in targets)
    if isinstance(weights, Mapping) and isinstance(targets, Mapping) and set(weights) <= set(targets):
        return {key: weigh(name, weights.get(key)) for key, name in targets.items()}
    sequences = not isinstance(targets, (str, Mapping)) and not isinstance(weights, Mapping)
    if sequences and len(weights) == len(targets):
        return tuple(map(weigh, targets, weights))
    raise OptionError(f"weights: expected one name, or names as those of targets={targets!r}, got {weights!r}")


def _mask(values: dict[str, Any], group: str, like: Any, parsed: Schema, options: OutputOptions) -> Any:
    """Return which steps are real, bool `(B, T)`, T as that of `like` or of a feature list of the group."""
    import tensorflow as tf

    lengths = values[options.length_name if group == parsed.groups[0] else length_name(group)]
    if like is None:
        steps = [values[f.name] for f in parsed.fields if f.is_list and f.group == group]
        like = next((value for value in steps if isinstance(value, tf.Tensor)), None)
    width = tf.reduce_max(tf.concat([lengths, [1]], 0)) if like is None else tf.shape(like, tf.int64)[1]
    mask = tf.sequence_mask(lengths, width)
    left = options.carried is not None and group in options.carried.left
    mask = tf.reverse(mask, [1]) if left else mask
    return mask if like is None else tf.ensure_shape(mask, like.shape[:2])


def _pick(values: Mapping[str, Any], part: Any) -> Any:
    if isinstance(part, str):
        return values[part]
    if isinstance(part, Mapping):
        return {key: values[name] for key, name in part.items()}
    return tuple(values[name] for name in part)


def record_element(record_class: type, names: tuple[str, ...]) -> type:
    """Return a subclass of a record class whose instances hold tensors under the given names.

    `tf.nest` takes apart and rebuilds attrs classes, by position. A record's own `__init__` converts, validates and
    takes what is not stored, so elements get one of their own.
    """

    def init(self: Any, *values: Any) -> None:
        for name, value in zip(names, values, strict=True):
            object.__setattr__(self, name, value)

    def show(self: Any) -> str:
        return f"{record_class.__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    members = {
        "__init__": init,
        "__repr__": show,
        "__eq__": object.__eq__,
        "__hash__": object.__hash__,
        "__module__": record_class.__module__,
        "__attrs_attrs__": attrs.fields(attrs.make_class("Names", list(names))),
        "__doc__": f"An element of a dataset of {record_class.__name__}, with tensors for values.",
    }
    return type(record_class.__name__, (record_class,), members)
