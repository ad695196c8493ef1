"""What stands for a field in the records that lack it, in numpy; `seqrecorder.codec.presence` does it in graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.codec.broken_record import Broken
from seqrecorder.codec.columns import Column
from seqrecorder.schema.field import value_features
from seqrecorder.wire.byte_rows import bounds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from seqrecorder.schema.field import Field

    Flags = NDArray[np.bool_]
    Sizes = NDArray[np.int64]


@attrs.frozen(eq=False)
class Presence:
    """Which records have a value of a field; see `seqrecorder.codec.presence`."""

    absent: Flags | None = None
    present: Flags | None = None
    excused: Flags | None = None


def known_presence(field: Field, sizes: Sizes, held: Flags, stated: Sizes | None) -> Presence:
    """Return which records have a value of a field that may be empty.

    Args:
        field: a feature list, or context of unknown length.
        sizes: parts of each record.
        held: which hold it.
        stated: what they say of it.
    """
    if not field.may_lack:
        _require(field, held)
        return Presence()
    if not field.optional:
        return Presence(~held, excused=None if field.has_filling else ~held)
    stated = np.full(held.shape, -1) if stated is None else stated
    _agree_with_presence(field, (stated == 0) & (sizes != 0), stated, sizes)
    absent = (stated < 0) & ~held
    present = (stated != 0) if field.has_default else (stated != 0) & ~absent
    return Presence(absent, present, ~present if field.has_filling else ~present | absent)


def spread_fixed(field: Field, values: NDArray[Any], have: Flags, stated: Sizes | None) -> Column:
    """Return the column of a context field of known shape, in which no value is none at all.

    Args:
        field: the field.
        values: of those records that have one.
        have: which do.
        stated: what they say of it.
    """
    if not field.may_lack:
        _require(field, have)
        return Column(values)
    if not field.optional:
        return Column(_with_defaults(field, values, have))
    stated = np.full(have.shape, -1) if stated is None else stated
    _agree_with_presence(field, (stated >= 0) & (have != (stated > 0)), stated, have)
    present = (stated != 0) if field.has_default else have
    if field.has_default:
        values = _with_defaults(field, values, have)[present]
    return Column(values, present=None if present.all() else present)


def _require(field: Field, held: Flags) -> None:
    if not held.all():
        kind = "feature list" if field.is_list else "context feature"
        names = ", ".join(map(repr, value_features(field)))
        message = f"the {kind} {names} is missing, and the class gives no default"
        raise Broken(int((~held).argmax()), field.name, message)


def _agree_with_presence(field: Field, wrong: Flags, stated: Sizes, got: NDArray[Any]) -> None:
    if wrong.any():
        place = int(wrong.argmax())
        message = f"a value where {field.presence!r} is 1 and none where it is 0 is expected, got"
        raise Broken(place, field.name, f"{message} {int(stated[place])} and {int(got[place])}")


def _with_defaults(field: Field, values: NDArray[Any], have: Flags) -> NDArray[Any]:
    if have.all():
        return values
    out = np.empty((have.size, *field.rest), values.dtype)
    out[have] = values
    out[~have] = field.exact(field.default)
    return out


def filled(field: Field, column: Column, lacks: Flags) -> Column:
    """Return a column in which the default of its field stands for each record that lacks it.

    Args:
        field: one that `has_filling`.
        column: the values of all records, none of those that lack it.
        lacks: which lack it.
    """
    value = field.exact(field.default)
    values, counts, indices = flat_default(field, value)
    name = "steps" if field.is_list else "counts"
    own = len(value) if field.is_list or field.sparse is None else counts[0]
    sizes = np.where(lacks, own, getattr(column, name))
    before = bounds(np.where(lacks, 0, sizes))[:-1]
    order = _ranges(np.where(lacks, 0, own + before), sizes)
    out: dict[str, Any] = {name: sizes}
    if field.is_list and column.counts is not None:
        every = np.concatenate([np.array(counts, np.int64), column.counts])
        out["counts"] = every[order]
        order = _ranges(bounds(every)[:-1][order], out["counts"])
    out["values"] = np.concatenate([values, column.values])[order]
    if indices is not None:
        out["indices"] = np.concatenate([indices, column.indices])[order]
    return attrs.evolve(column, **out)


def _ranges(starts: Sizes, sizes: Sizes) -> Sizes:
    """Return the numbers from each start on, so many of each."""
    return np.repeat(starts - bounds(sizes)[:-1], sizes) + np.arange(int(sizes.sum()))


def flat_default(field: Field, value: Any) -> tuple[Any, list[int], Any]:
    """Return a value flat, how many elements each of its parts holds, and their indices where it is sparse."""
    if field.sparse is not None:
        vectors = value if field.is_list else [value]
        indices = np.concatenate([np.empty(0, np.int64), *(vector.indices for vector in vectors)])
        nothing = np.empty(0, field.element.numpy)
        values = np.concatenate([nothing, *(vector.values for vector in vectors)])
        return values, [vector.indices.size for vector in vectors], indices
    if field.is_list and field.is_ragged:
        nothing = np.empty((0, *field.rest), field.element.numpy)
        return np.concatenate([nothing, *value]), list(map(len, value)), None
    return value, [len(value)], None


def agree(fields: Sequence[Field], sizes: Mapping[str, Sizes], excused: Mapping[str, Flags]) -> None:
    """Raise `Broken` for the first record whose fields of an alignment group differ in length.

    Args:
        fields: of the group.
        sizes: by field, the steps of each record.
        excused: by field, the records that lack it.
    """
    if len(fields) == 1:
        return
    sure = next((field for field in fields if field.name not in excused), None)
    size = sizes[sure.name] if sure else np.max(np.stack([sizes[field.name] for field in fields]), 0)
    for field in fields:
        wrong = sizes[field.name] != size
        if field.name in excused:
            wrong &= ~excused[field.name]
        if wrong.any():
            place = int(wrong.argmax())
            others = ", ".join(repr(other.name) for other in fields if other is not field)
            message = f"as many steps as of {others} are expected (align=None frees a field), got"
            raise Broken(place, field.name, f"{message} {int(sizes[field.name][place])} of {int(size[place])}")
