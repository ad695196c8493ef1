"""Inference of a schema from a table: kinds, dtypes and shapes of the columns, with a comment on each guess.

The table is opened by `seqrecorder.sources.tables` or parsed by `seqrecorder.sources.text`.
"""

from __future__ import annotations

import itertools
import operator
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.codec.arrow import compute, pyarrow
from seqrecorder.errors import OptionError, SchemaError, SourceError, did_you_mean
from seqrecorder.schema.dtypes import element_type
from seqrecorder.schema.field import DEFAULT_GROUP, Field
from seqrecorder.schema.schema import Schema
from seqrecorder.schema.source_code import draft, identifier
from seqrecorder.schema.utf8 import check_utf8
from seqrecorder.sources.row_per_step import ranks_of
from seqrecorder.sources.tables import is_csv, open_table, table_of_files
from seqrecorder.sources.text import CONLLU_COLUMNS, in_chunks, series_in, split_sentences
from seqrecorder.storage.files import files_named, natural_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seqrecorder.codec.arrow import Table


_PIECES = 1 << 14  # maximum number of sentences or series to read, documented in `Schema.infer`
_CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
"""Column names of CoNLL-U (https://universaldependencies.org/format.html)."""
_CONLL_ENDINGS = (".conll", ".conllu", ".conllx")
_INT = re.compile("-?(?:0|[1-9][0-9]{0,17})")  # 18 digits always fit into 64 bits; leading zeros mean a code
_PACKED = (".gz", ".bz2", ".xz", ".zst")


def is_of_series(source: Any) -> bool:
    """Check whether a path or glob ends in `.ts` or `.tsf`.

    `.tsf` is recognized only so that reading it raises an error that says what to do instead.
    """
    return _unpacked(source).endswith((".ts", ".tsf"))


def _unpacked(source: Any) -> str:
    """Strip the compression suffix from a path.

    The result is an empty string if `source` is not a path.
    """
    name = str(source) if isinstance(source, (str, Path)) else ""
    return name.removesuffix(next((ending for ending in _PACKED if name.endswith(ending)), ""))


def _series(path: Any, most: int) -> list[dict[str, Any]]:
    files = files_named(path, natural_order)
    series = list(itertools.islice(itertools.chain.from_iterable(map(series_in, files)), most))
    together = all(len({part.size for part in parts}) == 1 for _, parts in series)
    rows = []
    for label, parts in series:
        row: dict[str, Any] = {} if label is None else {"label": label}
        if together:
            row["values"] = parts[0] if len(parts) == 1 else np.stack(parts, 1)
        else:
            row |= {f"dimension_{number}": part for number, part in enumerate(parts, 1)}
        rows.append(row)
    return rows


def _sentences(path: Any, columns: Sequence[str | None] | None, most: int) -> list[dict[str, Any]]:
    files = files_named(path, natural_order)
    parts = (sentence for file in files for sentence in split_sentences(file, None) if sentence.rows)
    sentences = list(itertools.islice(parts, most))
    for sentence in sentences:
        check_utf8("".join(itertools.chain(*sentence.rows, sentence.comments.values())))
    width = min((len(cells) for sentence in sentences for cells in sentence.rows), default=0)
    if columns is None:
        columns = _CONLLU if width == CONLLU_COLUMNS else [f"column_{number}" for number in range(1, width + 1)]
    if isinstance(columns, str) or not any(columns) or len(columns) > width:
        raise OptionError(f"columns: expected at most {width} names, of the columns of {path}, got {columns!r}")
    rows = [row for sentence in sentences for row in sentence.rows]
    kinds = [int if all(_INT.fullmatch(row[column]) for row in rows) else str for column in range(len(columns))]

    def lists(sentence: Any) -> dict[str, list[Any]]:
        cells = zip(columns, kinds, zip(*sentence.rows, strict=False), strict=False)
        return {name: list(map(kind, column)) for name, kind, column in cells if name is not None}

    return [{**sentence.comments, **lists(sentence)} for sentence in sentences]


_ROWS = 1 << 20  # maximum number of rows to read, documented in `Schema.infer`
_DRAFT_HEAD = "import numpy as np\n\nimport seqrecorder as sr\n\n\n"


def infer_table(
    source: Any,
    *,
    by: str | Sequence[str] | None = None,
    order: str | Sequence[str] | None = None,
    name: str = "Record",
    key: str | None = None,
    columns: Sequence[str | None] | None = None,
    rows: int = _ROWS,
    leave_out: Sequence[str] = (),
) -> Schema:
    """Infer the schema of records that are rows, or groups of rows, of a table; see `Schema.infer`.

    Columns in `leave_out` get no field.
    """
    table, codes = _rows_of(source, columns, rows)
    keys = [[] if part is None else [part] if isinstance(part, str) else list(part) for part in (by, order)]
    for column in itertools.chain(*keys, leave_out):
        if column not in table.column_names:
            raise OptionError(f"there is no column {column!r}{did_you_mean(column, table.column_names)}")
    if order is not None and by is None:
        raise OptionError("order: only for rows that are steps; pass the column that groups them into records as by=")
    drafted = _Drafted(table, name, codes, is_text=bool(re.search(r"\.(csv|tsv|jsonl|ndjson)\b", str(source))))
    for column in (name for name in table.column_names if name not in leave_out):
        if by is None:
            drafted.add_whole(column)
        else:
            drafted.add_step(column, keys[0], keys[1])
    if key is not None and key not in table.column_names:
        raise OptionError(f"key: there is no column {key!r}{did_you_mean(key, table.column_names)}")
    key = keys[0][0] if key is None and len(keys[0]) == 1 else key
    return drafted.schema(key=key, guesses=by is None and not is_of_series(source))


def _rows_of(source: Any, columns: Sequence[str | None] | None, rows: int) -> tuple[Any, Sequence[str]]:
    """Read the first rows of a table, file or list of dictionaries.

    The names of the columns that hold codes are also returned: digits with leading zeros (see `_with_codes`).

    Args:
        source: source as in `Schema.infer`.
        columns: column names of a CoNLL file, with None for columns to leave out; None if the file is not CoNLL.
        rows: maximum number of rows.

    Raises:
        DatasetNotFoundError: the file does not exist.
        OptionError: `columns` is passed for a source other than CoNLL, or there are no rows.
        SourceError: a file cannot be read, or the type of a value differs from that of the values before it.
    """
    pa, plain = pyarrow(), _unpacked(source)
    if is_of_series(source):
        source = _series(source, min(rows, _PIECES))
    elif plain and (columns is not None or plain.endswith(_CONLL_ENDINGS)):
        source = _sentences(source, columns, min(rows, _PIECES))
    elif columns is not None:
        raise OptionError("columns: only for CoNLL files; the columns of a table already have names")
    if isinstance(source, (list, tuple)) and source and all(isinstance(row, Mapping) for row in source):
        names = dict.fromkeys(name for row in source[:rows] for name in row)
        try:
            return pa.Table.from_pylist([{name: _nested(row.get(name)) for name in names} for row in source[:rows]]), ()
        except (pa.ArrowException, OverflowError, TypeError) as error:
            raise SourceError(f"rows: a value is too large, or its type differs from others: {error}") from error
    table: Table = open_table(source)
    batches = _head(table, table.names, rows)
    if not sum(batch.num_rows for batch in batches):
        raise OptionError(f"{table.name} has no rows to infer a schema from")
    return _with_codes(source, pa.Table.from_batches(batches).slice(0, rows))


def _head(table: Table, names: Sequence[str], rows: int) -> list[Any]:
    """Read the named columns of the first rows.

    The result is batches, which contain at least `rows` rows together, unless the table has fewer.
    """
    return next(in_chunks(table.batches(names), operator.attrgetter("num_rows"), sys.maxsize, rows), [])


def _with_codes(source: Any, table: Any) -> tuple[Any, Sequence[str]]:
    """Replace each column of numbers with leading zeros, such as 01234, by a column of text.

    The result is the table, and the names of these columns.

    Args:
        source: source of the table; only CSV files have such numbers.
        table: rows of the source.
    """
    pa, pc = pyarrow(), compute()
    numbers = [field.name for field in table.schema if field.type in (pa.int64(), pa.float64())]
    if not numbers or not is_csv(source):
        return table, ()
    as_text = table_of_files(source, dict.fromkeys(numbers, pa.large_string()))  # an empty cell becomes None
    texts = pa.Table.from_batches(_head(as_text, numbers, table.num_rows)).slice(0, table.num_rows)
    codes = [name for name in numbers if pc.any(pc.match_substring_regex(texts[name], r"^\s*0\d+\s*$")).as_py()]
    for name in codes:
        table = table.set_column(table.column_names.index(name), name, texts[name])
    return table, codes


def _nested(value: Any) -> Any:
    """Convert an array to nested lists of one-dimensional arrays.

    An array without dimensions is converted to a scalar.
    """
    if not isinstance(value, np.ndarray) or value.ndim == 1:
        return value
    return [_nested(part) for part in value] if value.ndim else value[()]


class _Drafted:
    """Draft of a schema: the fields added so far, with comments on guesses."""

    def __init__(self, table: Any, name: str, codes: Sequence[str], *, is_text: bool) -> None:
        self.table, self.name, self.codes, self.is_text = table, name, codes, is_text
        self.fields: list[Field] = []
        self.comments: dict[str, list[str]] = {}
        self.notes: list[str] = []
        self.lengths: dict[str, Any] = {}

    def add_whole(self, column: str) -> None:
        """Add a field for a column of a table with one row per record."""
        array = self.table[column].combine_chunks()
        comments: list[str] = []
        kind: Any = "context"
        rows = inner = array.drop_null()
        outer: tuple[int | None, ...] = ()
        if _is_list(rows.type):
            size, inner = _fixed_size(rows), rows.flatten()
            kind, outer = ("feature_list", ()) if size is None else (kind, (size,))
        inner, shape = _within(inner, comments)
        lengths = _counts(rows) if kind == "feature_list" else np.empty(0, np.int64)
        if lengths.size > 1 and (lengths == lengths[0]).all():
            comments.append(f"always {lengths[0]} long: context with shape=({lengths[0]},)?")
        optional = bool(array.null_count) and (_is_list(rows.type) or not pyarrow().types.is_floating(inner.type))
        added = self._add(column, kind, inner.type, (*outer, *shape), comments, optional=optional)
        if added and kind == "feature_list":
            spread = np.full(self.table.num_rows, -1)
            spread[array.is_valid().to_numpy(zero_copy_only=False)] = lengths
            self.lengths[self.fields[-1].name] = spread

    def add_step(self, column: str, by: Sequence[str], order: Sequence[str]) -> None:
        """Add a field for a column of a table with one row per step."""
        array = self.table[column].combine_chunks()
        comments: list[str] = []
        inner, shape = _within(array.drop_null(), comments)
        kind: Any = "feature_list"
        if column in by:
            ranks_of(column, self.table[column])  # raises an error if rows have no value, as `from_rows` does
            kind = "context"
        elif column not in order and not shape and self._is_constant(column, by):
            kind = "context"
            comments.append("the same in all rows of each group")
        nulls = array.null_count
        optional = bool(nulls) and kind == "context" and not pyarrow().types.is_floating(inner.type)
        if nulls and kind == "feature_list" and not pyarrow().types.is_floating(inner.type):
            comments.append(f"{nulls} rows have none: fill them first")
        self._add(column, kind, inner.type, shape, comments, optional=optional)

    def _is_constant(self, column: str, by: Sequence[str]) -> bool:
        options = compute().CountOptions(mode="all")
        counted = self.table.select([*by, column]).group_by(list(by)).aggregate([(column, "count_distinct", options)])
        sizes = self.table.group_by(list(by)).aggregate([([], "count_all")])
        several = np.asarray(sizes["count_all"].to_numpy() > 1)
        return bool(several.any()) and compute().max(counted[f"{column}_count_distinct"]).as_py() == 1

    def _add(
        self, column: str, kind: Any, inner: Any, shape: tuple[int | None, ...], comments: list[str], *, optional: bool
    ) -> bool:
        """Add a field for a column, and return True.

        If the column cannot be declared, add a note that says why, and return False.
        """
        if None in shape[1:]:
            self.notes.append(f"{column!r} cannot be declared: only the first dimension of a step may be of any size")
            return False
        name = identifier(column, [field.name for field in self.fields])
        try:
            element = element_type(_dtype_of(inner, comments))
            field = Field(name, column, kind, element, shape, optional=optional)
        except (SchemaError, NotImplementedError) as error:
            self.notes.append(f"{column!r} cannot be declared: {error}")
            return False
        if column in self.codes:
            comments.append("leading zeros, which a number would lose")
        nulls = self.table[column].null_count
        if nulls and (optional or pyarrow().types.is_floating(inner)):
            comments.append(f"{nulls} of {self.table.num_rows} rows have none{'' if optional else ', which is NaN'}")
        if self.is_text and element.name == "str" and inner == self.table[column].type:
            pc, cells = compute(), self.table[column].drop_null()
            if pc.all(pc.match_substring_regex(cells, r"^\d{4}-(0[1-9]|1[0-2])$")).as_py():
                field = attrs.evolve(field, element=element_type("datetime64[M]"))
            others = pc.filter(cells, pc.invert(pc.match_substring_regex(cells, r"^\s*[+-]?\d+(\.\d*)?\s*$")))
            if 0 < len(others) < len(cells) / 2:
                comments.append(f"most cells are numbers, but not {others[0].as_py()!r}")
        self.fields.append(field)
        self.comments[name] = comments
        return True

    def schema(self, *, key: str | None, guesses: bool) -> Schema:
        """Build the schema from the fields added so far.

        The repr of the schema is the source code of a record class.
        """
        if not self.fields:
            raise OptionError(f"no column can be declared: {'; '.join(self.notes)}")
        self._align()
        for number, field in enumerate(self.fields):
            chosen = field.feature == key if key is not None else guesses and self._may_be_key(field)
            if chosen and field.element.numpy.kind in "iuOM":
                self.fields[number] = attrs.evolve(field, key=True)
                if key is None:
                    self.comments[field.name].append(f"a guess: distinct in all {self.table.num_rows} rows")
                break
            if chosen:
                self.comments[field.name].append(f"{field.element.name} cannot be a key: cast it by .astype('int64')")
        schema = Schema(self.name, tuple(self.fields))
        comments = {name: "; ".join(notes) for name, notes in self.comments.items() if notes}
        text = _DRAFT_HEAD + draft(schema, comments=comments, notes=self.notes)
        return Schema(self.name, tuple(self.fields), None, text)

    def _align(self) -> None:
        """Set `align=None` for feature lists whose lengths differ from those of the first feature list."""
        first: Any = None
        for number, field in enumerate(self.fields):
            lengths = self.lengths.get(field.name)
            if lengths is None:
                continue
            first = lengths if first is None else first
            both = (first >= 0) & (lengths >= 0)
            if field.align == DEFAULT_GROUP and (first[both] != lengths[both]).any():
                self.fields[number] = attrs.evolve(field, align=None)
                self.comments[field.name].append("of other lengths than the first list")

    def _may_be_key(self, field: Field) -> bool:
        plain = field.kind == "context" and not field.shape and not field.optional
        if not plain or field.element.numpy.kind not in "iuO" or self.table.num_rows < 2:  # noqa: PLR2004
            return False
        return bool(compute().count_distinct(self.table[field.feature]).as_py() == self.table.num_rows)


def _dtype_of(kind: Any, comments: list[str]) -> Any:
    """Map a pyarrow type to the dtype of a field."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        return _dtype_of(kind.value_type, comments)
    if types.is_string(kind) or types.is_large_string(kind):
        return "str"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return "bytes"
    if types.is_timestamp(kind):
        if kind.tz is not None:
            comments.append(f"times of the zone {kind.tz!r}, moved to UTC")
            return f"datetime64[{kind.unit}, UTC]"
        return f"datetime64[{kind.unit}]"
    if types.is_duration(kind):
        return f"timedelta64[{kind.unit}]"
    if types.is_date32(kind):
        return "datetime64[D]"
    if types.is_nested(kind) or types.is_decimal(kind) or types.is_null(kind) or types.is_temporal(kind):
        raise SchemaError(f"no field holds {kind}")
    return kind.to_pandas_dtype()


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _within(array: Any, comments: list[str]) -> tuple[Any, tuple[int | None, ...]]:
    """Flatten nested lists.

    The result is the values, and the size of the lists on each level. The size is None if the lists of a level differ
    in size.
    """
    shape: tuple[int | None, ...] = ()
    while _is_list(array.type):
        size, counts = _fixed_size(array), _counts(array)
        if size is None and counts.size and counts[0] and (counts == counts[0]).all():
            size = int(counts[0])
            comments.append(f"steps always had {size} values: shape=(None,)?")
        shape, array = (*shape, size), array.flatten()
    return array, shape


def _fixed_size(array: Any) -> int | None:
    import pyarrow as pa

    return int(array.type.list_size) if pa.types.is_fixed_size_list(array.type) and array.type.list_size else None


def _counts(array: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    lengths = array.value_lengths().fill_null(0)
    return np.asarray(lengths.to_numpy(zero_copy_only=False), np.int64)
