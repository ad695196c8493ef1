"""What a dataset's elements look like: a dict, a tuple, a record, or what `model.fit` takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import attrs

from seqrecorder.errors import OptionError, did_you_mean
from seqrecorder.parsing import SEQUENCE_LENGTH, length_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from seqrecorder.schema import Schema

Output = Literal["dict", "tuple", "record"]
OUTPUTS = ("dict", "tuple", "record")


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
        batched: whether elements are batches.
    """

    output: Output = "dict"
    inputs: Any = None
    targets: Any = None
    weights: Any = None
    length_name: str = SEQUENCE_LENGTH
    mask_name: str | None = None
    batched: bool = False

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
    if fields is not None and isinstance(fields, str):
        raise OptionError(f"fields: expected a sequence of names, got the text {fields!r}")
    chosen = schema if fields is None else schema.select(fields)
    if options.inputs is None:
        return chosen
    made = _made_names(schema, options)
    wanted = [name for part in (options.inputs, options.targets, options.weights or None) for name in _names(part)]
    names = []
    for name in wanted:
        if name in made:
            continue
        base = name[: -len("_present")] if name.endswith("_present") and name not in _field_names(schema) else name
        if base not in _field_names(schema):
            everything = [*_field_names(schema), *made]
            raise OptionError(
                f"{schema.name} gives no {name!r}{did_you_mean(name, everything)}; it gives {', '.join(everything)}"
            )
        names.append(base)
    lists = [f.name for f in schema.fields if f.is_list]
    if any(name in made for name in wanted) and not any(name in lists for name in names):
        names += lists[:1]  # lengths and masks come from a feature list
    return chosen.select(names)


def _check_clashes(schema: Schema, options: OutputOptions) -> None:
    if not options.batched:
        return
    names = set(_field_names(schema))
    for option, name in (("length_name", options.length_name), ("mask_name", options.mask_name)):
        if name in names:
            raise OptionError(
                f"{schema.name} has a field {name!r}, as batches name what they carry: pass {option}= another name"
            )
    for group in schema.groups[1:]:
        if length_name(group) in names:
            raise OptionError(
                f"{schema.name} has a field {length_name(group)!r}, the lengths of group {group!r}: rename one"
            )


def _field_names(schema: Schema) -> list[str]:
    return [field.name for field in schema.fields]


def _made_names(schema: Schema, options: OutputOptions) -> list[str]:
    if not options.batched or not schema.groups:
        return []
    names = [options.length_name, *map(length_name, schema.groups[1:])]
    return names + ([options.mask_name] if options.mask_name else [])


def _names(part: Any) -> list[str]:
    if part is None:
        return []
    if isinstance(part, str):
        return [part]
    if isinstance(part, Mapping):
        return list(part.values())
    if isinstance(part, Sequence):
        return list(part)
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
        import tensorflow as tf

        if options.batched and first is not None:
            lengths = values.pop(length_name(first))
            longest = tf.reduce_max(tf.concat([lengths, [1]], 0))
            values[options.length_name] = lengths
            if options.mask_name:
                values[options.mask_name] = tf.sequence_mask(lengths, longest)
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
    y = _pick(values, options.targets)
    if options.weights is False:
        return x, y
    if options.weights is not None:
        return x, y, _pick(values, options.weights)
    lists = {field.name: field for field in parsed.fields if field.is_list}
    if not options.batched or not any(name in lists for name in _names(options.targets)):
        return x, y
    weights = {name: _weight(values, name, lists, parsed, options) for name in _names(options.targets)}
    return x, y, _pick(weights, options.targets)


def _weight(values: dict[str, Any], name: str, lists: dict[str, Any], parsed: Schema, options: OutputOptions) -> Any:
    """Return 1 for real steps and 0 for padding, or 1 for a target that has no steps."""
    import tensorflow as tf

    target = values[name]
    if name not in lists:
        return tf.ones(tf.shape(target)[:1], tf.float32)
    group = lists[name].group
    lengths = values[options.length_name if group == parsed.groups[0] else length_name(group)]
    return tf.sequence_mask(lengths, tf.shape(target)[1], tf.float32)


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
