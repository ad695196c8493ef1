"""Fields that no record stores: made of the columns of stored ones, once these are parsed.

A derived field goes through padding, cutting and packing as a stored one does. So what concerns the steps of a whole
record, such as which one is next, is said once, of its columns, and holds wherever the record is cut.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import attrs

from seqrecorder.schema.dtypes import element_type
from seqrecorder.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from seqrecorder.codec.columns import Column
    from seqrecorder.schema.field import Field


@attrs.frozen
class Derivation(ABC):
    """What is made of one field: other values for it, fields beside it, or both.

    Attributes:
        source: name of the field, stored or derived itself.
    """

    source: str

    looks_around: ClassVar[bool] = False
    """Whether what stands at a step is made of the steps beside it."""

    @abstractmethod
    def fields(self, field: Field) -> tuple[Field, ...]:
        """Return what stands in the place of a field: itself, changed or not, and the fields that are made of it.

        Raises:
            OptionError: none can be made of it.
        """

    @abstractmethod
    def columns(self, field: Field, column: Column) -> tuple[Column, ...]:
        """Return the columns of `fields(field)`.

        Args:
            field: the declaration.
            column: its values, tensors, cropped and with defaults in their places.
        """

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Names of the fields that are made beside the source."""

    @property
    def padded_alike(self) -> tuple[str, ...]:
        """Names of the fields that are made whose padding is that of the source."""
        return ()


def derived_schema(schema: Schema, derivations: Sequence[Derivation]) -> Schema:
    """Return a schema with what some derivations, one after the other, make of its fields.

    Raises:
        SchemaError: there is no field of a name.
        OptionError: nothing can be made of a field.
    """
    fields = list(schema.fields)
    for derivation in derivations:
        field = Schema(schema.name, tuple(fields))[derivation.source]
        at = fields.index(field)
        fields[at : at + 1] = derivation.fields(field)
    return attrs.evolve(schema, fields=tuple(fields)) if derivations else schema


def derive_columns(schema: Schema, columns: dict[str, Column], derivations: Sequence[Derivation]) -> None:
    """Add the columns of derived fields to those of stored ones.

    Args:
        schema: the stored fields.
        columns: by name; at least of the fields of which something is made.
        derivations: one after the other.
    """
    known = {field.name: field for field in schema.fields}
    for derivation in derivations:
        field = known[derivation.source]
        fields = derivation.fields(field)
        known |= {made.name: made for made in fields}
        columns.update(zip((made.name for made in fields), derivation.columns(field, columns[field.name]), strict=True))


def sources_of(derivations: Sequence[Derivation]) -> dict[str, str]:
    """Return, by derived field, the stored one of which it is made."""
    sources: dict[str, str] = {}
    for derivation in derivations:
        sources |= dict.fromkeys(derivation.names, sources.get(derivation.source, derivation.source))
    return sources


def derivations_of(schema: Schema, derivations: Sequence[Derivation]) -> list[Derivation]:
    """Return those derivations that make something of the fields of a schema, in their order."""
    sources, stored = sources_of(derivations), {field.name for field in schema.fields}
    return [each for each in derivations if sources.get(each.source, each.source) in stored]


# Other values in the place of a field's -------------------------------------------------------------------------------


@attrs.frozen
class FieldMap(Derivation):
    """Other values in the place of a field's, one for each; what is padding afterwards is zeros.

    Attributes:
        made: what the values are afterwards.
        tensor: from a tensor of values `(n, *known dimensions)` to one of the same shape, in a graph.
    """

    made: Field
    tensor: Callable[[Any], Any] = attrs.field(eq=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the fields that are made beside the source: none."""
        return ()

    def fields(self, field: Field) -> tuple[Field, ...]:  # noqa: ARG002 - as every derivation has it
        """Return what a field becomes (see `Derivation`)."""
        return (self.made,)

    def columns(self, field: Field, column: Column) -> tuple[Column, ...]:  # noqa: ARG002 - as every derivation has it
        """Return what its column becomes (see `Derivation`)."""
        return (attrs.evolve(column, values=self.tensor(column.values)),)


class MapsField(Protocol):
    """What fields can be mapped by: vocabularies, and statistics."""

    def field_map(self, field: Field) -> FieldMap:
        """Return what becomes of the values of a field.

        Raises:
            OptionError: the field is not one of its kind.
        """
        ...


def as_numbers(field: Field, dtype: str) -> Field:
    """Return a field whose values have become others, of a number's dtype."""
    return attrs.evolve(
        field,
        element=element_type(dtype),
        storage="auto",
        default=attrs.NOTHING,
        key=False,
        chunk=False,
        deferred=False,
    )
