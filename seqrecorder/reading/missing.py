"""Missing values of float fields: filled, with a field beside them that says what was observed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.codec.derivation import Derivation
from seqrecorder.errors import OptionError
from seqrecorder.schema.dtypes import element_type
from seqrecorder.schema.field import Field

if TYPE_CHECKING:
    from seqrecorder.codec.columns import Column
    from seqrecorder.schema.schema import Schema


@attrs.frozen
class Observed(Derivation):
    """A float field with 0 in place of NaN, and beside it float32 of its shape: 1 where it was observed, 0 where not.

    Floats, since models concatenate them to the values, multiply with them, and take them for sample weights.
    """

    @property
    def name(self) -> str:
        """Name of the field that says what was observed."""
        return f"{self.source}_observed"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the fields that are made."""
        return (self.name,)

    def fields(self, field: Field) -> tuple[Field, ...]:
        """Return a field and what is made of it (see `Derivation`)."""
        if field.sparse is not None or not is_float(field):
            what = "is sparse" if field.sparse is not None else f"is of {field.element.name}, which has no NaN"
            raise OptionError(f"missing: expected a float field, but {field.name!r} {what}; name others in missing=")
        made = Field(self.name, self.name, field.kind, element_type("float32"), field.shape, align=field.group)
        return field, made

    def columns(self, field: Field, column: Column) -> tuple[Column, ...]:  # noqa: ARG002 - as every derivation has it
        """Return a column and what is made of it (see `Derivation`)."""
        import tensorflow as tf

        missing = tf.math.is_nan(column.values)
        filled = tf.where(missing, tf.zeros([], column.values.dtype), column.values)
        return attrs.evolve(column, values=filled), attrs.evolve(column, values=tf.cast(~missing, tf.float32))


def mask_missing(schema: Schema, missing: Any) -> list[Observed]:
    """Return what masks the missing values of some fields, or of all float fields for `"mask"`.

    Raises:
        OptionError: a field is none of floats, or one has the name of what would say what was observed of it.
        SchemaError: there is no field of a name.
    """
    if missing is None:
        return []
    if isinstance(missing, Mapping) and all(how == "mask" for how in missing.values()):
        names = [schema[name].name for name in missing]
    elif isinstance(missing, str) and missing == "mask":
        names = [field.name for field in schema.fields if is_float(field)]
        if not names:
            raise OptionError(f"missing: {schema.name} has no float field, and other values are never missing")
    else:
        raise OptionError(f"missing: expected 'mask', or a mapping of fields to 'mask', got {missing!r}")
    masks = [Observed(name) for name in names]
    taken = {field.name for field in schema.fields}
    for mask in masks:
        if mask.name in taken:
            raise OptionError(
                f"missing: {schema.name} has a field {mask.name!r}, the name of what says where {mask.source!r} was "
                "observed; rename it"
            )
    return masks


def is_float(field: Field) -> bool:
    """Return whether a field holds floats, of which NaN may stand for a missing one."""
    return field.element.has_nan and field.element.numpy.kind != "c"
