"""Which fields `read` derives, for what is asked of it: shifted steps, masks of missing values, other values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.codec.graph_ops import Derivation, derivations_of, derived_schema, sources_of
from seqrecorder.errors import OptionError
from seqrecorder.reading.elements import names_of, weight_names
from seqrecorder.reading.shifted_steps import Shift, name_shifts
from seqrecorder.schema.dtypes import element_type
from seqrecorder.schema.field import Field

if TYPE_CHECKING:
    from seqrecorder.codec.columns import Column
    from seqrecorder.codec.graph_ops import FieldMap
    from seqrecorder.schema.schema import Schema


@attrs.frozen
class DerivedFields:
    """The fields of a dataset, and those that are made of them.

    Attributes:
        stored: the fields that records hold.
        derivations: what is made of them, one after the other.
        inputs: as `read` takes them, with names for `next_step` and `previous_step`.
        targets: likewise.
        weights: likewise.
    """

    stored: Schema
    derivations: tuple[Derivation, ...]
    inputs: Any
    targets: Any
    weights: Any

    @classmethod
    def of(
        cls,
        schema: Schema,
        chosen: Schema,
        *,
        inputs: Any,
        targets: Any,
        weights: Any,
        missing: Any,
        vocabulary: Any,
        normalize: Any,
    ) -> DerivedFields:
        """Return what is derived for some options of `read`.

        Args:
            schema: the fields that records hold.
            chosen: those that `fields` leaves.
            inputs: as for `read`, like all that follows.
            targets: see there.
            weights: see there.
            missing: see there.
            vocabulary: see there.
            normalize: see there.

        Raises:
            SchemaError: there is no field of a name.
            OptionError: nothing can be made of a field.
        """
        masks = {mask.source: mask for mask in mask_missing(chosen, missing)}
        parts, shifts = [], []
        for option, part in (("inputs", inputs), ("targets", targets), ("weights", weights)):
            named, found = (None, []) if part is None else name_shifts(option, part)
            parts.append(named)
            shifts += found
            if option == "targets":
                shifts += [_observed(shift, masks[shift.source]) for shift in found if shift.source in masks]
        unique = {shift.name: shift for shift in shifts}
        # First of all, so that what is missing is filled with the mean, and the next step of a token is an id.
        maps = field_maps(schema, vocabulary, normalize, [*names_of(parts[1]), *weight_names(parts[2])])
        return cls(schema, (*maps, *masks.values(), *unique.values()), *parts)

    @property
    def schema(self) -> Schema:
        """All fields that elements may have."""
        return derived_schema(self.stored, self.derivations)

    def choose(self, chosen: Schema) -> Schema:
        """Return some stored fields, and all that is made of them."""
        return derived_schema(chosen, derivations_of(chosen, self.derivations))

    def of_fields(self, wanted: Schema) -> tuple[Schema, list[Derivation]]:
        """Return the stored fields of which some fields are made, and what is made of those."""
        sources = sources_of(self.derivations)
        stored = self.stored.select(sources.get(field.name, field.name) for field in wanted.fields)
        return stored, derivations_of(stored, self.derivations)

    def counts(self, carried: Mapping[str, str | None]) -> dict[str, tuple[str, ...]]:
        """Return, by target, the names of what is 0 or False where an entry of it does not count.

        Args:
            carried: what a strategy makes of fields (see `Carried.names`).

        Raises:
            OptionError: it cannot be told of a target.
        """
        shifts = {each.name: each for each in self.derivations if isinstance(each, Shift)}
        observed = {each.source: each for each in self.derivations if isinstance(each, Observed)}
        counts = {}
        for name in names_of(self.targets):
            shift = shifts.get(name)
            made_of = shift.source if shift else carried.get(name)
            mask = observed.get(made_of or name)
            of = [shift.real] if shift and shift.real else []
            if mask is not None:
                if self.stored[mask.source].is_ragged:
                    raise OptionError(
                        f"missing: {mask.source!r} has steps of unknown length, of which a loss averages over padding, "
                        "so that it is no target with missing values; leave it out of missing="
                    )
                # Of what a strategy makes of a field, it makes the same of what was observed.
                of.append(_observed(shift, mask).name if shift else f"{mask.name}{name.removeprefix(mask.source)}")
            counts[name] = tuple(of)
        return counts


def _observed(shift: Shift, mask: Observed) -> Shift:
    """Return the shift of what says where the values of a shift were observed; a start counts as observed."""
    return Shift(mask.name, shift.by, 1.0 if shift.by < 0 else None)


# Missing values ------------------------------------------------------------------------------------------------------


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


# Values that are mapped ----------------------------------------------------------------------------------------------


def field_maps(schema: Schema, vocabulary: Any, normalize: Any, given_as_is: Iterable[str]) -> list[FieldMap]:
    """Return what maps fields.

    Args:
        schema: of the fields as they are stored.
        vocabulary: by field, the vocabulary that makes ids of it; None for none.
        normalize: statistics of a dataset, or by field those of each; None for none.
        given_as_is: names of fields that statistics of a dataset leave as they are.

    Raises:
        OptionError: these are no such things, or a field is mapped twice.
        SchemaError: there is no field of a name.
    """
    whole = getattr(normalize, "normalizers", None)
    if whole is not None:
        kept = {field.name for field in schema.fields} - set(given_as_is)
        normalize = {name: stats for name, stats in whole().items() if name in kept}
    maps: dict[str, FieldMap] = {}
    for option, given, what in (
        ("vocabulary", vocabulary, "vocabularies"),
        ("normalize", normalize, "statistics, such as those of seqrecorder.stats"),
    ):
        if given is None:
            continue
        if not isinstance(given, Mapping) or not all(hasattr(each, "field_map") for each in given.values()):
            raise OptionError(f"{option}: expected a mapping of field to {what}, got {given!r:.200}")
        for name, each in given.items():
            if name in maps:
                raise OptionError(f"normalize: {name!r} becomes ids of a vocabulary already; leave one of them out")
            maps[name] = each.field_map(schema[name])
    return list(maps.values())
