"""What becomes of fields between the parse and the batch, as the arguments of `read` say it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from seqrecorder.errors import OptionError

if TYPE_CHECKING:
    from seqrecorder.codec.field_map import FieldMap
    from seqrecorder.schema.schema import Schema


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
