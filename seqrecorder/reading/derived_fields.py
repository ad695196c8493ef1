"""Which fields `read` derives, for what is asked of it: shifted steps, masks of missing values, and what counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.codec.derivation import derivations_of, derived_schema, sources_of
from seqrecorder.errors import OptionError
from seqrecorder.reading.elements import names_of, weight_names
from seqrecorder.reading.field_maps import field_maps
from seqrecorder.reading.missing import Observed, mask_missing
from seqrecorder.reading.shifted_steps import Shift, name_shifts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from seqrecorder.codec.derivation import Derivation
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
            named, found = name_shifts(option, part)
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
