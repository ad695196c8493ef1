"""What a dataset's elements look like: a dict, a tuple, a record, or what `model.fit` takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal

import attrs

from seqrecorder.codec.parse import SEQUENCE_LENGTH, length_name
from seqrecorder.errors import OptionError, did_you_mean

if TYPE_CHECKING:
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
        class_weight: by class, its weight; structured as the targets where these are several.
        counts: by target, the names of what is 0 or False where an entry of it does not count.
        length_name: name of the lengths of the first alignment group in batches.
        mask_name: name of the mask in batches, or None.
        index_name: name of the positions of records, or None.
        carried: what elements carry besides; None for single records.
    """

    output: Output = "dict"
    inputs: Any = None
    targets: Any = None
    weights: Any = None
    class_weight: Any = None
    counts: Mapping[str, Sequence[str]] = attrs.field(factory=dict)
    length_name: str = SEQUENCE_LENGTH
    mask_name: str | None = None
    index_name: str | None = None
    carried: Carried | None = None

    def __attrs_post_init__(self) -> None:
        if self.output not in OUTPUTS:
            raise OptionError(f"output: expected one of {', '.join(OUTPUTS)}, got {self.output!r}")
        if self.inputs is None and (self.targets is not None or self.weights not in (None, False)):
            raise OptionError("targets and weights go with inputs: name the inputs of the model too")
        if self.class_weight is not None and (self.targets is None or self.weights is False):
            raise OptionError("class_weight: goes with targets, and with sample weights: leave weights=False out")
        if self.inputs is not None and self.output != "dict":
            raise OptionError("inputs and targets shape the elements already: leave `output` out")


def needed_fields(schema: Schema, options: OutputOptions, chosen: Schema) -> Schema:
    """Return the schema of the fields that must be parsed, or derived.

    Args:
        schema: all that there are, stored and derived.
        options: how elements are given.
        chosen: those of the fields that `fields` leaves.

    Raises:
        SchemaError: there is no field of a name.
        OptionError: a name clashes with a field's.
    """
    _check_clashes(schema, options)
    if options.inputs is None:
        return chosen
    _check_targets(schema, options)
    made = _made_names(schema, options)
    wanted = [*names_of(options.inputs), *names_of(options.targets), *weight_names(options.weights)]
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
    for option, names in (("targets", names_of(options.targets)), ("weights", weight_names(options.weights))):
        for name in names:
            if name in _field_names(schema) and schema[name].element.is_text:
                raise OptionError(
                    f"{option}: {name!r} is text, of which Keras makes no loss: pass vocabulary={{field: ...}} with a "
                    "seqrecorder.Vocabulary, which makes ids of it; or store numbers"
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
        names += [mask_of(group, schema, options) for group in schema.groups]
    return [*names, *options.carried.names]


def mask_of(group: str, schema: Schema, options: OutputOptions) -> str:
    """Return the name of the mask of an alignment group."""
    return str(options.mask_name) if group == schema.groups[0] else f"{group}_{options.mask_name}"


def names_of(part: Any) -> list[str]:
    """Return the names in inputs, targets or weights.

    Raises:
        OptionError: these are no names.
    """
    if part is None:
        return []
    if isinstance(part, str):
        return [part]
    if isinstance(part, (Mapping, Sequence)):
        names = list(part.values() if isinstance(part, Mapping) else part)
        if all(isinstance(name, str) for name in names):
            return names
    raise OptionError(f"inputs and targets: expected a name, a sequence of names or a mapping, got {part!r}")


def weight_names(weights: Any) -> list[str]:
    """Return the names in weights, where several may stand in the place of one target, and False and None for none.

    Raises:
        OptionError: these are no names.
    """
    places = list(weights.values() if isinstance(weights, Mapping) else weights) if _is_several(weights) else [weights]
    parts = [part for place in places for part in (place if _is_several(place) else [place])]
    names = [part for part in parts if part is not None and part is not False]
    if all(isinstance(name, str) for name in names):
        return names
    raise OptionError(
        "weights: expected a name, or names whose weights are multiplied; of several targets, structured as they are; "
        f"got {weights!r}"
    )


def _is_several(part: Any) -> bool:
    return isinstance(part, (Mapping, Sequence)) and not isinstance(part, str)
