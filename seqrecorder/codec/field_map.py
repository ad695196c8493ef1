"""`FieldMap`: other values in the place of a field's, such as ids for tokens and normalised numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import attrs

from seqrecorder.codec.derivation import Derivation
from seqrecorder.schema.dtypes import element_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from seqrecorder.codec.columns import Column
    from seqrecorder.schema.field import Field


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
