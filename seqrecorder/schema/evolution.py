"""Schema evolution: how the fields of a class differ from those of a dataset, and whether the data stays readable.

These changes are compatible:

- A field is added with `optional=True`, or with a default that fits its alignment group.
- A field is removed, moved, renamed by `renamed_from`, or made optional.
- Integers or floats become wider, if both the old and the new type are stored as numbers and not as bytes.
- str becomes bytes.
- The height or width of an image becomes None, or a sparse vector becomes longer.
- A default, the name of a feature, or a role (such as key) changes.
- An alignment is loosened.

All other changes are errors, which are reported per field before a record is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from seqrecorder.schema.exact_values import same_bits
from seqrecorder.schema.field import brief, groups_among

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from seqrecorder.schema.dtypes import ElementType
    from seqrecorder.schema.field import Field


@attrs.frozen
class Change:
    """One difference between a dataset and a class.

    Attributes:
        field: name of the field in the class, or in the data if the class lacks it.
        what: description of the difference.
        compatible: whether the data can still be read.
    """

    field: str
    what: str
    compatible: bool

    def __str__(self) -> str:
        return f"{self.field}: {self.what}"


def source_of(field: Field, stored: Sequence[Field]) -> Field | None:
    """Find the stored field from which a field of a class is read.

    The field of the same name comes first, then the names in `renamed_from` in order, then the field stored in the
    feature that `name=` declares.
    """
    by_name = {other.name: other for other in stored}
    for name in (field.name, *field.renamed_from):
        if name in by_name:
            return by_name[name]
    if field.feature != field.name:
        return next((other for other in stored if other.feature == field.feature), None)
    return None


def changes(stored: Sequence[Field], wanted: Sequence[Field]) -> list[Change]:
    """List the changes from the fields of a dataset to the fields of a class, in the order of the class.

    Args:
        stored: fields of the dataset.
        wanted: fields of the class.
    """
    result: list[Change] = []
    sources = {field.name: source_of(field, stored) for field in wanted}
    taken: dict[str, str] = {}
    for field in wanted:
        source = sources[field.name]
        if source is None:
            result.append(_added(field, stored, wanted, sources))
            continue
        if source.name in taken:
            what = f"would be read from {source.name!r}, as {taken[source.name]!r} is"
            result.append(Change(field.name, what, compatible=False))
        taken[source.name] = field.name
        result += _differences(field, source)
    result += _alignments(stored, wanted, sources)
    result += [
        Change(other.name, "not in the class, left unread", compatible=True)
        for other in stored
        if other.name not in taken
    ]
    common = [source.name for source in sources.values() if source is not None]
    if common != [other.name for other in stored if other.name in common]:
        result.append(Change("order", f"{', '.join(common)} in the class", compatible=True))
    return result


def obstacles_to_append(stored: Sequence[Field], wanted: Sequence[Field]) -> list[Change]:
    """List the changes that prevent records of a class from being appended to a dataset.

    The list is empty if the records fit: new fields must have a default or be optional, and new feature lists must
    belong to existing alignment groups.

    Args:
        stored: fields of the dataset.
        wanted: fields of the class.
    """
    every, names = changes(stored, wanted), {field.name for field in stored}
    kept, groups = [field for field in wanted if field.name in names], groups_among(stored)
    if kept == list(stored) and groups_among(wanted) == groups and all(change.compatible for change in every):
        return []
    new = [field for field in wanted if source_of(field, stored) is None]
    fitting = {field.name for field in new if not field.is_list or field.group in groups}
    return [change for change in every if not (change.compatible and change.field in fitting)] or every


def _added(field: Field, stored: Sequence[Field], wanted: Sequence[Field], sources: dict[str, Field | None]) -> Change:
    what = f"not in the data ({brief(field)})"
    if not field.may_lack:
        unread = {source.name for source in sources.values() if source is not None}
        near = [other.name for other in stored if other.name not in unread and _kind(other) == _kind(field)]
        hint = f"; if it was renamed, declare renamed_from={' or '.join(map(repr, near[:5]))}" if near else ""
        return Change(field.name, f"{what}, and has no default{hint}", compatible=False)
    aligned = [
        other.name
        for other in wanted
        if other.is_list and other is not field and other.group == field.group and sources[other.name] is not None
    ]
    if field.is_list and field.has_default and aligned:
        what += f"; a default of {len(field.default)} steps cannot have the length of {aligned[0]!r}: "
        return Change(field.name, f"{what}declare optional=True, or align=None", compatible=False)
    filled = "filled with its default" if field.has_default else "None"
    return Change(field.name, f"{what}, {filled}", compatible=True)


def _kind(field: Field) -> tuple[object, ...]:
    return field.kind, field.element.name, field.shape, field.storage, field.sparse


def _differences(field: Field, source: Field) -> Iterator[Change]:
    if source.name != field.name:
        yield Change(field.name, f"{source.name!r} in the data", compatible=True)
    for attribute in ("kind", "shape", "storage", "per_step"):
        was, now = getattr(source, attribute), getattr(field, attribute)
        if was != now:
            freed = attribute == "shape" and field.is_image and source.is_image and _frees(was, now)
            yield Change(field.name, f"{attribute} {was!r} in the data, {now!r} in the class", compatible=freed)
    if source.sparse != field.sparse:
        grows = source.sparse is not None and field.sparse is not None and field.sparse > source.sparse
        yield Change(field.name, f"sparse {source.sparse!r} in the data, {field.sparse!r} in the class", grows)
    if source.element.name != field.element.name:
        wider = not source.in_items and not field.in_items and _widens(source.element, field.element)
        yield Change(field.name, f"dtype {source.element.name} in the data, {field.element.name} in the class", wider)
    if source.optional != field.optional:
        what = "may be None in the data, and not in the class" if source.optional else "may be None in the class"
        yield Change(field.name, what, compatible=field.optional)
    if not same_bits(source.default, field.default):
        yield Change(field.name, "another default", compatible=True)
    for attribute in ("feature", "dense", "key", "chunk", "deferred"):
        if getattr(source, attribute) != getattr(field, attribute):
            now = getattr(field, attribute)
            yield Change(field.name, f"{attribute}={now!r} in the class", compatible=True)


def _frees(was: tuple[int | None, ...], now: tuple[int | None, ...]) -> bool:
    """Check whether every image of the old shape fits the new shape."""
    return all(size in (None, other) for size, other in zip(now, was, strict=True))


def _widens(old: ElementType, new: ElementType) -> bool:
    """Check whether the new type can represent every stored value of the old type."""
    if old.name == "str":
        return new.name == "bytes"
    kinds = old.numpy.kind + new.numpy.kind
    numbers = set(kinds) <= set("iu") or old.wire == new.wire == "float"
    return numbers and old.wire == new.wire and bool(np.can_cast(old.numpy, new.numpy, "safe"))


def _alignments(stored: Sequence[Field], wanted: Sequence[Field], sources: dict[str, Field | None]) -> Iterator[Change]:
    """List the changes to alignment groups.

    A change is incompatible if it aligns fields that are not aligned in the data. Length files refer to groups by name,
    so a class must not reuse the name of a group for other fields.
    """
    groups = {other.group for other in stored if other.is_list}
    firsts: dict[str, tuple[str, str]] = {}
    for field in wanted:
        source = sources[field.name]
        if source is None or not field.is_list or not source.is_list:
            continue
        name, group = firsts.setdefault(field.group, (field.name, source.group))
        if source.group != group:
            what = f"aligned with {name!r} in the class, and not in the data"
            yield Change(field.name, what, compatible=False)
        elif source.group != field.group and field.group in groups:
            what = f"in the alignment group {field.group!r}, which is another one in the data"
            yield Change(field.name, what, compatible=False)
        elif source.align != field.align:
            yield Change(field.name, f"align={field.align!r} in the class", compatible=True)
    for field in wanted:
        if field.is_list and sources[field.name] is None and field.group in groups and field.group not in firsts:
            what = f"in the alignment group {field.group!r}, of which the class has no other field"
            yield Change(field.name, what, compatible=False)
