"""`Stats`: what is known of some records, by field, alignment group, split and label; mergeable."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.analysis.field_stats import HEADS, FieldStats
from seqrecorder.analysis.numbers import Numbers
from seqrecorder.analysis.summary import Summary
from seqrecorder.codec.columns import group_lengths
from seqrecorder.dataset.lengths_picture import lengths_picture
from seqrecorder.errors import OptionError
from seqrecorder.schema.display import html_table, number_of, some, text_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from seqrecorder.codec.columns import Column
    from seqrecorder.schema.schema import Schema

_FLOATS = ("float16", "bfloat16", "float32", "float64")


@attrs.define(eq=False, repr=False)
class Stats:
    """What is known of some records.

    Those of two sets of records are added: `a + b` is what `stats` gives of both.

    Attributes:
        schema: of the records.
        records: how many there are.
        fields: by name, what is known of each field.
        groups: by alignment group, the lengths of the records.
        splits: the same of each split alone.
        by: where it was asked for, the same for each value of a field.
    """

    schema: Schema
    records: int
    fields: dict[str, FieldStats]
    groups: dict[str, Numbers]
    splits: dict[str, Stats] = attrs.field(factory=dict)
    by: dict[Any, Stats] = attrs.field(factory=dict)

    @classmethod
    def of_nothing(cls, schema: Schema) -> Stats:
        """Return what is known of no records."""
        groups = {group: Numbers.empty(np.dtype(np.int64)) for group in schema.groups}
        return cls(schema, 0, {field.name: FieldStats.of_nothing(field) for field in schema.fields}, groups)

    def __getitem__(self, name: str) -> FieldStats:
        """Return what is known of a field, with that of each split."""
        field = self.schema[name]
        splits = {split: part.fields[field.name] for split, part in self.splits.items()}
        return attrs.evolve(self.fields[field.name], splits=splits)

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __contains__(self, name: object) -> bool:
        return name in self.fields

    def lengths(self, group: str | None = None) -> Summary:
        """Return the lengths of the records in an alignment group, the first one by default.

        Raises:
            OptionError: there is no feature list, or no such group.
        """
        name = next(iter(self.groups), None) if group is None else group
        if name not in self.groups:
            raise OptionError(f"group: expected one of {', '.join(self.groups) or 'none'}, got {group!r}")
        return Summary(self.groups[name])

    def add(self, columns: Mapping[str, Column], records: int) -> None:
        """Take in the columns of some records."""
        self.records += records
        for name, field in self.fields.items():
            field.add(columns[name], records)
        lengths = group_lengths(self.schema, dict(columns), records)
        for at, group in enumerate(self.groups):
            self.groups[group].add(lengths[:, at : at + 1])

    def merge(self, other: Stats) -> None:
        """Take in what another knows of other records.

        Raises:
            OptionError: it is of other fields.
        """
        if not isinstance(other, Stats) or self.schema.fields != other.schema.fields:
            differs = self.schema.changes_since(other.schema) if isinstance(other, Stats) else [repr(other)]
            raise OptionError(f"statistics of the same fields can be added, got others: {some([*map(str, differs)])}")
        self.records += other.records
        for name, field in self.fields.items():
            field.merge(other.fields[name])
        for group, lengths in self.groups.items():
            lengths.merge(other.groups[group])
        for mine, its in ((self.splits, other.splits), (self.by, other.by)):
            for name, part in its.items():
                if name in mine:
                    mine[name].merge(part)
                else:
                    mine[name] = part.copy()

    def copy(self) -> Stats:
        """Return the same, to be added to by itself."""
        return attrs.evolve(
            self,
            fields={name: field.copy() for name, field in self.fields.items()},
            groups={name: lengths.copy() for name, lengths in self.groups.items()},
            splits={name: part.copy() for name, part in self.splits.items()},
            by={value: part.copy() for value, part in self.by.items()},
        )

    def __add__(self, other: Stats) -> Stats:
        both = self.copy()
        both.merge(other)
        return both

    def normalizers(self) -> dict[str, FieldStats]:
        """Return, by name, the statistics of the fields of floats, as `read(..., normalize=...)` takes them."""
        return {field.name: self[field.name] for field in self.schema.fields if field.element.name in _FLOATS}

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain dictionaries."""
        found: dict[str, Any] = {
            "schema": self.schema.name,
            "records": self.records,
            "lengths": {group: self.lengths(group).to_dict() for group in self.groups},
            "fields": {name: field.to_dict() for name, field in self.fields.items()},
        }
        if self.splits:
            found["splits"] = {name: part.to_dict() for name, part in self.splits.items()}
        if self.by:
            found["by"] = {str(value): part.to_dict() for value, part in self.by.items()}
        return found

    def to_json(self, indent: int | None = None) -> str:
        """Return the figures as JSON; NaN and infinities are null, bytes are text with escapes."""
        return json.dumps(_plain(self.to_dict()), indent=indent, allow_nan=False)

    def rows(self) -> list[tuple[str, ...]]:
        """Return the lines of the table of fields, whose heads are `seqrecorder.analysis.field_stats.HEADS`."""
        return [field.line() for field in self.fields.values()]

    def __repr__(self) -> str:
        splits = [f"{name} {part.records:,}" for name, part in self.splits.items()]
        lengths = f", steps {self.lengths().brief()}" if self.groups else ""
        of = f" ({some(splits)})" if splits else ""
        return f"<Stats {self.schema.name}: {number_of(self.records, 'record')}{of}{lengths}, {len(self)} fields>"

    def __str__(self) -> str:
        columns = [(head, *cells) for head, *cells in zip(HEADS, *self.rows(), strict=True)]
        filled = [column for column in columns if not {"", "0"}.issuperset(column[1:])]
        right = [head for head, *_ in filled if head not in ("field", "dtype", "steps", "top")]
        return f"{repr(self)[1:-1]}\n{text_table(list(zip(*filled, strict=True)), right=right)}"

    def _repr_html_(self) -> str:
        lengths = {}
        if self.groups:
            group = next(iter(self.groups))
            for name, part in self.splits.items() or (("all", self),):
                values, counts = part.groups[group].distributions[0].steps()
                lengths[name] = list(zip(values.astype(int).tolist(), counts.tolist(), strict=True))
        return html_table(repr(self)[1:-1], HEADS, self.rows()) + lengths_picture(lengths)


def _plain(value: Any) -> Any:
    """Return figures as what JSON holds."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value]
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return None if np.isnat(value) else str(value)
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
