"""`Elements`, the fields that `read` must parse and the structure of its elements.

Derived fields are in `derived_fields`, masks and sample weights in `masks_and_weights`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.codec.graph_ops import Derivation, sources_of, to_numbers, to_seeds
from seqrecorder.codec.images import decode_elements
from seqrecorder.codec.parse import images_of, length_name
from seqrecorder.errors import OptionError, did_you_mean
from seqrecorder.reading.batching.ragged import splits_name
from seqrecorder.reading.batching.step_slices import ELEMENTS
from seqrecorder.reading.derived_fields import DerivedFields, Output, OutputOptions, mask_of, names_of, weight_names
from seqrecorder.reading.masks_and_weights import fit_element, padding_mask

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from seqrecorder.codec.images import ImageDecoder
    from seqrecorder.reading.batching.strategy import Carried, Strategy
    from seqrecorder.schema.schema import Schema


# Name suffixes of tensors that batches contain only with a certain option or strategy.
_ADDED_BY = {
    "the strategy's mask_name=": ("mask",),
    "the strategy's seed_name=": ("seed",),
    "missing='mask'": ("_observed",),
    "Pack": ("segment_ids", "positions"),
    "Unroll": ("reset", "segment_index", "total_length"),
    "Window's horizon=": ("_horizon", "horizon_length"),
}


def needed_fields(options: OutputOptions, chosen: Schema) -> Schema:
    """Select the fields that must be parsed or derived.

    The names that the options use are checked, too.

    Args:
        options: form of the elements.
        chosen: fields that the option `fields` selects.

    Raises:
        SchemaError: an option names a field that does not exist.
        OptionError: a name is unknown, or is used twice.
    """
    derived, schema = options.derived, options.derived.schema
    _check_clashes(schema, options)
    if derived.inputs is None:
        return chosen
    _check_targets(schema, options)
    carried_names = _made_names(chosen, options)
    ahead = [name for name in names_of(derived.inputs) if options.carried and options.carried.names.get(name)]
    if ahead and getattr(options.strategy, "future", False):
        raise OptionError(
            f"inputs: {ahead[0]!r} is unknown where a horizon lies in the future, which future=True allows: write the "
            "steps to come, too, with what is known of them and NaN for the rest, and leave out future"
        )
    wanted = [*names_of(derived.inputs), *names_of(derived.targets), *weight_names(derived.weights)]
    names, flags = [], {f"{field.name}_present": field.name for field in schema.fields if field.optional}
    for name in wanted:
        if name in carried_names:
            image = options.sizes.get(name, name)
            made_of = options.carried.names.get(image) if options.carried else None
            names += [made_of or image] if made_of or image in _field_names(schema) else []
            continue
        base = name if name in _field_names(schema) else flags.get(name, name)
        if base not in _field_names(schema):
            # Names with a slash are those that `predict` adds for its own use.
            everything = [*_field_names(schema), *flags, *(each for each in carried_names if "/" not in each)]
            adding = [option for option, ends in _ADDED_BY.items() if name.endswith(ends)]
            advice = f", which {adding[0]} adds" if adding and type(options.strategy).__name__ not in adding else ""
            close = did_you_mean(name, everything)
            raise OptionError(f"{schema.name} gives no {name!r}{close}{advice}; it gives {', '.join(everything)}")
        names.append(base)
    others = _other_groups(chosen, options)
    asked = [others[name] for name in wanted if name in others]
    for group in [*chosen.groups[:1], *asked] if asked else []:
        of_group = [field.name for field in chosen.fields if field.is_list and field.group == group]
        names += [] if set(of_group) & set(names) else of_group[:1]
    lists = [f.name for f in chosen.fields if f.is_list]
    of_steps = set(carried_names) - {options.index_name, options.strategy.seed_name, *options.sizes}
    if of_steps.intersection(wanted) and not any(name in lists for name in names):
        names += lists[:1]  # lengths and masks are computed from a feature list
    if not names:
        raise OptionError(f"inputs: expected at least one field of {schema.name}, got {', '.join(wanted) or 'none'}")
    if left := set(names) - set(_field_names(chosen)):
        raise OptionError(f"fields: {min(left)!r} is left out, but inputs, targets or weights need it; add it")
    return chosen.select(names)


def _check_targets(schema: Schema, options: OutputOptions) -> None:
    derived, names = options.derived, _field_names(schema)
    if derived.weights is False:
        return
    texts = {name for name in names if schema[name].element.is_text and name not in options.images}
    for name in names_of(derived.targets):
        if name in texts:
            raise OptionError(
                f"targets: {name!r} is text, for which Keras has no loss: store numbers, or pass "
                "vocabulary={field: ...} with a seqrecorder.Vocabulary, which maps it to ids, or weights=False"
            )
    for name in weight_names(derived.weights):
        if name in texts or name in derived.ids:
            problem = "is text" if name in texts else "becomes ids of its vocabulary"
            raise OptionError(
                f"weights: expected a field with a number for each record or step, and {name!r} {problem}; "
                "class_weight= takes weights by the classes of a target; store others as a number of each record"
            )


def _check_clashes(schema: Schema, options: OutputOptions) -> None:
    names = set(_field_names(schema))
    options_of_names = [("index_name", options.index_name), ("seed_name", options.strategy.seed_name)]
    if options.carried is not None:
        options_of_names += [("length_name", options.strategy.length_name), ("mask_name", options.strategy.mask_name)]
    for option, name in options_of_names:
        if not isinstance(name, str) and (name is not None or option == "length_name"):
            raise OptionError(f"{option}: expected a name, got {name!r}")
        if name in names:
            has, advice = _verb_and_advice(schema, f"pass {option}= another name")
            raise OptionError(f"{schema.name} {has} a field {name!r}, a name that batches use themselves: {advice}")
        if name is not None and [other for _, other in options_of_names].count(name) > 1:
            raise OptionError(f"{option}: another option has the name {name!r} already: pass another")


def _verb_and_advice(schema: Schema, advice: str) -> tuple[str, str]:
    """Choose the wording of an error about the name of a field.

    The result is the verb that follows the name of the schema, and advice on how to change the name of the field.
    """
    return ("have", "drop or rename it in `.map()` first") if schema.name == ELEMENTS else ("has", advice)


def _field_names(schema: Schema) -> list[str]:
    return [field.name for field in schema.fields]


def _made_names(schema: Schema, options: OutputOptions) -> list[str]:
    names = [*(name for name in (options.index_name, options.strategy.seed_name) if name), *options.sizes]
    if options.carried is None or not schema.groups:
        return names
    names += [options.strategy.length_name, *map(length_name, schema.groups[1:])]
    if options.strategy.mask_name:
        names += [mask_of(group, schema, options) for group in schema.groups]
    return [*names, *options.carried.names]


def _other_groups(schema: Schema, options: OutputOptions) -> dict[str, str]:
    """Map the tensors of each alignment group but the first to the name of the group.

    These are the lengths, the row splits and the mask of the group, and its tensors with steps that the strategy adds.
    """
    groups = schema.groups[1:] if options.carried else ()
    counts = {name(group): group for group in groups for name in (length_name, splits_name)}
    masks = {mask_of(group, schema, options): group for group in groups}
    lengths = options.carried.lengths if options.carried else {}
    return counts | masks | {name: counts[count] for name, count in lengths.items() if count in counts}


@attrs.frozen
class Elements:
    """Fields to parse and derive for elements, and the function that builds elements from them.

    Attributes:
        stored: fields to parse, without rates (see `Schema.in_one_rate`).
        derivations: derivations from these fields, in order of application.
        images: mapping from image tensor to its decoder; images stay encoded until an element is complete.
        shape: function that builds an element from the tensors of a strategy.
    """

    stored: Schema
    derivations: Sequence[Derivation]
    images: Mapping[str, ImageDecoder]
    shape: Callable[[dict[str, Any]], Any]

    @classmethod
    def of(
        cls,
        schema: Schema,
        strategy: Strategy,
        *,
        fields: Sequence[str] | None = None,
        images: Mapping[str, ImageDecoder] | None = None,
        output: Output = "dict",
        class_weight: Any = None,
        index_name: str | None = None,
        **derived_fields: Any,
    ) -> Elements:
        """Resolve the options of `read` that determine the form of elements.

        Args:
            schema: fields of the records.
            strategy: strategy that makes batches, or `Single` for single records.
            fields: names of the fields that elements contain; None for all.
            images: mapping from image field to its decoder.
            output: type of the elements: `dict`, `tuple` or `record`.
            class_weight: mapping from class to weight; see `read`.
            index_name: name of the tensor with the positions of records; None for no such tensor.
            derived_fields: keyword arguments of `DerivedFields.of`.

        Raises:
            SchemaError: an option names a field that does not exist.
            OptionError: options do not fit the fields, or contradict each other.
        """
        chosen, of_stored = schema.select(fields), strategy.carried(schema)
        derived = DerivedFields.of(schema, chosen, horizons=of_stored.names if of_stored else {}, **derived_fields)
        carried = _carried(strategy, schema, derived.choose(chosen))
        of_fields = carried.names if carried else {}
        images = dict(images or {})
        images |= images_of(derived.schema, sources_of(derived.derivations), images)
        images |= {name: images[source] for name, source in of_fields.items() if source in images}
        options = OutputOptions(
            derived=derived,
            strategy=strategy,
            output=output,
            class_weight=class_weight,
            counts=derived.counts(of_fields),
            index_name=index_name,
            carried=carried,
            images=images,
        )
        wanted = needed_fields(options, derived.choose(chosen))
        stored, derivations = derived.of_fields(wanted)
        names, whole = [field.name for field in stored.fields], schema.in_one_rate()
        for group in whole.select(names).groups:  # a list that may be None does not tell the length of a record
            members = sorted(whole.members(group), key=lambda field: (field.may_lack, field.name not in names))
            names += [] if members[0].name in names or members[0].may_lack else [members[0].name]
        stored, cut = derived.stored.select(names), whole.select(names)
        of_cut = strategy.carried(cut)
        masks = [f"{group}_{strategy.mask_name}" for group in cut.groups[1:]]
        asked = [*names, index_name, strategy.seed_name, strategy.length_name, strategy.mask_name, *masks]
        flags = [f"{field.name}_present" for field in cut.fields if field.optional]
        lengths = [name for at, name in enumerate(map(length_name, cut.groups)) if at or name in names]
        lengths += [length_name(group) for group in schema.select(names).groups if group in schema.rates]
        for name in (*(of_cut.names if of_cut else ()), *lengths, *flags, *options.sizes):
            if name in asked:
                has, advice = _verb_and_advice(schema, "rename it, or leave fields out by fields=")
                what, advice = ("a field", advice) if name in names else ("an option that names", "rename it")
                carries = f"as {type(strategy).__name__} names what batches carry"
                raise OptionError(f"{schema.name} {has} {what} {name!r}, {carries}: {advice}")
        shape = _shaper(schema, derived.choose(stored), options, set(names) - derived.made_of(wanted))
        return cls(cut, derivations, images, shape)


def _carried(strategy: Strategy, schema: Schema, derived: Schema) -> Carried | None:
    """Describe the tensors that a strategy adds to elements.

    The strategy cuts a field with a rate together with the group that it follows; afterwards, the field gets its own
    steps back. Its own group is therefore padded on the same side as the group that it follows. If the strategy adds
    tensors for the field, their lengths are in a tensor for its own group.
    """
    carried, joined = strategy.carried(derived), strategy.carried(schema.in_one_rate())
    if carried is None or joined is None or not schema.rates:
        return carried
    left = joined.left | {group for group, (followed, _) in schema.rates.items() if followed in joined.left}
    sources = {name: derived[of].group for name, of in carried.names.items() if name in carried.lengths and of}
    lengths = {name: f"{group}_{carried.lengths[name]}" for name, group in sources.items() if group in schema.rates}
    names = {**carried.names, **dict.fromkeys(lengths.values())}
    return attrs.evolve(carried, names=names, lengths={**carried.lengths, **lengths}, left=left)


def _shaper(schema: Schema, parsed: Schema, options: OutputOptions, unasked: Collection[str]) -> Any:
    """Build the function that turns the tensors of a strategy into an element.

    It first restores the steps of fields with a rate (see `_cut_apart`).

    Args:
        schema: fields of the records.
        parsed: parsed fields, and the fields derived from them.
        options: form of the elements.
        unasked: names of parsed fields that elements do not contain.
    """
    first = parsed.groups[0] if parsed.groups else None
    rated = {field.name: field.group for field in parsed.fields if field.is_list and field.group in schema.rates}
    of_fields = options.carried.names if options.carried else {}
    rated |= {name: rated[source] for name, source in of_fields.items() if source in rated}
    followed = {group for group, _ in schema.rates.values()} - set(parsed.groups)
    left_out = {*unasked, *map(length_name, followed), *map(splits_name, followed)}
    outer = int(options.carried is not None and not getattr(options.strategy, "flat", False))

    def shape(values: dict[str, Any]) -> Any:
        _cut_apart(values, schema, rated, outer)
        values = {name: value for name, value in values.items() if name not in left_out}
        values = decode_elements(values, options.images) if options.images else values
        if options.index_name is not None:
            values[options.index_name] = to_numbers(values[options.index_name])
        if options.strategy.seed_name is not None:
            values[options.strategy.seed_name] = to_seeds(values[options.strategy.seed_name])
        if options.carried is not None and first is not None:
            values[options.strategy.length_name] = values.pop(length_name(first))
            if options.strategy.mask_name:
                values |= {
                    mask_of(g, parsed, options): padding_mask(values, g, None, parsed, options) for g in parsed.groups
                }
            if options.derived.inputs is not None:  # if only a later group is read, its own names are valid, too
                lengths, mask = options.strategy.length_name, options.strategy.mask_name
                own = {length_name(first): lengths, f"{first}_{mask}": mask}
                values = {**values, **{new: values[old] for new, old in own.items() if old in values}}
        if options.derived.inputs is not None:
            return fit_element(values, parsed, options)
        if options.output != "record":
            return values if options.output == "dict" else tuple(values.values())
        return record_element(schema.record_class, tuple(values))(*values.values())

    return shape


def _cut_apart(values: dict[str, Any], schema: Schema, rated: Mapping[str, str], outer: int) -> None:
    """Restore the step dimension of fields with a rate.

    Strategies batch the steps of these fields as an inner dimension.

    Args:
        values: mapping from name to tensor of the strategy, changed in place.
        schema: fields of the records.
        rated: mapping from tensor with a rate to its alignment group.
        outer: number of dimensions before the steps: 1 for batches, 0 for records and for `Ragged(flat=True)`.
    """
    for name in rated.keys() & values.keys():
        values[name] = _steps_apart(values[name], schema.rates[rated[name]][1], outer)
    for group in dict.fromkeys(rated.values()):
        followed, rate = schema.rates[group]
        renamed = {name(followed): name(group) for name in (length_name, splits_name)}
        for old, new in {**renamed, _HORIZON: f"{group}_{_HORIZON}"}.items():
            if old in values:
                values[new] = values[old] * rate


def _steps_apart(value: Any, rate: int, outer: int) -> Any:
    """Reshape `(*outer, T, rate, ...)` to `(*outer, T * rate, ...)`."""
    import tensorflow as tf

    if isinstance(value, tf.RaggedTensor):
        flat = _steps_apart(value.values, rate, 0)
        return tf.RaggedTensor.from_row_splits(flat, value.row_splits * rate, validate=False)
    before, after = tf.shape(value)[: outer + 1], value.shape[outer + 2 :]
    steps = value.shape[outer]
    joined = tf.reshape(value, tf.concat([before[:outer], before[outer:] * rate, after], 0))
    return tf.ensure_shape(joined, [*value.shape[:outer], None if steps is None else steps * rate, *after])


@functools.lru_cache
def record_element(record_class: type, names: tuple[str, ...]) -> type:
    """Create a subclass of a record class whose instances contain tensors under the given names.

    `tf.nest` takes instances of attrs classes apart and rebuilds them with arguments by position. The `__init__` of the
    record class cannot be used for that: it converts and validates values, and takes fields that are not stored.
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


_HORIZON = "horizon_length"
