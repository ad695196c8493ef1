"""From what a strategy gathers to an element: a dict, a tuple, a record, or what `model.fit` takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.codec.graph_ops import to_numbers
from seqrecorder.codec.parse import length_name
from seqrecorder.reading.elements import mask_of
from seqrecorder.reading.sample_weights import fit_element, mask_of_steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from seqrecorder.reading.elements import OutputOptions
    from seqrecorder.schema.schema import Schema


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
                masks = {
                    mask_of(g, parsed, options): mask_of_steps(values, g, None, parsed, options) for g in parsed.groups
                }
                values |= masks
        if options.inputs is not None:
            return fit_element(values, parsed, options)
        if options.output == "dict":
            return values
        if options.output == "tuple":
            return tuple(values.values())
        return record_element(schema.record_class, tuple(values))(*values.values())

    return shape


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
