"""Which records are wanted: conditions on stored values, and numbers by which records are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.codec.columns import scatter
from seqrecorder.codec.construct import builder
from seqrecorder.errors import OptionError
from seqrecorder.schema.mismatch import Mismatch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from seqrecorder.codec.columns import Column
    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema

_SEVERAL = (list, tuple, set, frozenset, range, np.ndarray)


@attrs.frozen
class Condition:
    """What is asked of each record.

    Attributes:
        schema: of the fields that are parsed for it.
        predicate: what is called with a record of these; None where nothing is.
        values: by field, the values that are wanted.
    """

    schema: Schema
    predicate: Callable[[Any], Any] | None
    values: Mapping[str, Sequence[Any]]

    @property
    def fields(self) -> list[str]:
        """The names of the fields that are parsed for it."""
        return [field.name for field in self.schema.fields]

    def of(self, columns: Mapping[str, Column]) -> NDArray[np.bool_]:
        """Return for which records it holds, bool `(n,)`."""
        masks = [_is_among(columns[name], values) for name, values in self.values.items()]
        if self.predicate is not None:
            given = [scatter(field, columns[field.name]) for field in self.schema.fields]
            masks.append(np.array([_answer(self.predicate, record) for record in builder(self.schema)(given)], bool))
        wanted: NDArray[np.bool_] = np.logical_and.reduce(masks)
        return wanted


def _answer(predicate: Callable[[Any], Any], record: Any) -> bool:
    answer = predicate(record)
    if getattr(answer, "shape", ()):
        raise OptionError(
            f"where: expected True or False of the predicate, got an array of shape {answer.shape}: use its any() "
            "or all()"
        )
    return bool(answer)


def condition(
    schema: Schema,
    predicate: Callable[[Any], Any] | None,
    fields: Sequence[str] | None,
    values: Mapping[str, Any],
) -> Condition:
    """Return the condition of the arguments of `Selection.where`; raises what that does."""
    if predicate is not None and not callable(predicate):
        raise OptionError(f"where: expected a callable, and values by the names of fields, got {predicate!r:.100}")
    if predicate is None and (fields is not None or not values):
        raise OptionError("where: expected a predicate, or values as in `where(label=3)`, got neither")
    require_fields(schema, list(values))
    wanted = {name: _values(schema[name], value) for name, value in values.items()}
    asked = list(wanted)
    if predicate is not None:
        asked += [field.name for field in schema.select(fields).fields]
    return Condition(schema.select(asked), predicate, wanted)


def require_fields(schema: Schema, names: Sequence[str]) -> None:
    """Raise `OptionError` for fields that do not have one value in each record, `SchemaError` for unknown ones."""
    for name in names:
        field = schema[name]
        if field.is_list or field.shape or field.sparse is not None:
            raise OptionError(
                f"{name!r}: expected a context field without a shape, got a {field.kind} of shape {field.shape}; "
                "`where` takes a predicate for others: where(lambda record: ..., fields=[...])"
            )


def _values(field: Field, given: Any) -> list[Any]:
    several = list(given) if isinstance(given, _SEVERAL) else [given]
    try:
        return [field.exact(value) for value in several]
    except (Mismatch, TypeError, ValueError, OverflowError) as error:
        expected = error.expected if isinstance(error, Mismatch) else field.element.name
        got = error.got if isinstance(error, Mismatch) else repr(given)
        raise OptionError(f"where: field {field.name!r}: expected {expected}, got {got}") from None


def _is_among(column: Column, wanted: Sequence[Any]) -> NDArray[np.bool_]:
    """Return which records have one of some values."""
    some = [value for value in wanted if value is not None]
    if column.values.dtype == object:
        known = set(some)
        own = np.array([value in known for value in column.values.tolist()], bool)
    else:
        own = np.isin(column.values, np.array(some, column.values.dtype))
    if column.present is None:
        return own
    out = np.full(column.present.shape, None in wanted)
    out[column.present] = own
    return out
