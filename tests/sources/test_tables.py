"""Tables whose rows are records: the same bytes as objects, from every library and file, and the same care."""

import datetime as dt
import decimal
import functools
import json
import logging
import pathlib
import sys

import attrs
import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import csv, feather, ipc, parquet

import seqrecorder as sr
from seqrecorder.codec.arrow import BATCH_ROWS


@sr.record
class Utterance:
    key: str = sr.context(str, key=True)
    label: int = sr.context("int16")
    frames: np.ndarray = sr.feature_list("float64", shape=(2,))
    words: np.ndarray = sr.feature_list(str)
    speaker: str | None = sr.context(str, optional=True, default=None)


def utterance(number):
    steps = number % 4
    return Utterance(
        f"k{number}", number, np.full((steps, 2), number / 3), ["wörd"] * steps, None if number % 3 else f"s{number}"
    )


RECORDS = [utterance(number) for number in range(50)]
ROWS = [
    {
        "key": record.key,
        "label": int(record.label),
        "frames": record.frames.tolist(),
        "words": list(record.words),
        "speaker": record.speaker,
    }
    for record in RECORDS
]
COLUMNS = {name: [row[name] for row in ROWS] for name in ROWS[0]}
TYPES = {"frames": pa.list_(pa.list_(pa.float64())), "words": pa.list_(pa.string())}
TABLE = pa.table({name: pa.array(values, TYPES.get(name)) for name, values in COLUMNS.items()})


def digests(manifest):
    """Return what tells the bytes of all shards."""
    return {name: [shard.sha256 for shard in split.shards] for name, split in manifest.splits.items()}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return digests(sr.write(RECORDS, tmp_path_factory.mktemp("x") / "d", splits={"a": 0.5, "b": 0.5}))


class Stream:
    """What only gives a stream, once: a relation of DuckDB, a reader of another library."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


MAKERS = {
    "pyarrow": lambda: TABLE,
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "reader": lambda: pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches(7)),
    "batch": lambda: TABLE.to_batches()[0],
    "stream": lambda: Stream(TABLE),
    "hub": lambda: datasets.Dataset.from_list(ROWS[::-1]).select(range(49, -1, -1)),
    "hub_stream": lambda: datasets.Dataset.from_list(ROWS).to_iterable_dataset(num_shards=3),
    "dictionaries": lambda: ROWS,
    "iterator": lambda: iter(ROWS),
    "categories": lambda: pl.DataFrame(COLUMNS).with_columns(pl.col("key").cast(pl.Categorical)),
    "wide_lists": lambda: TABLE.set_column(2, "frames", TABLE["frames"].cast(pa.large_list(pa.list_(pa.float64(), 2)))),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_write_takes_what_has_rows(tmp_path, expected, make):
    """Tables of every library and dictionaries are written as the same bytes as records, in the same splits."""
    assert digests(sr.write(make(), tmp_path / "d", schema=Utterance, splits={"a": 0.5, "b": 0.5})) == expected


def test_splits_may_be_of_different_kinds(tmp_path):
    """A mapping of splits takes a table here and dictionaries there."""
    manifest = sr.write({"a": TABLE[:5], "b": ROWS[5:9], "c": RECORDS[9:]}, tmp_path / "d", schema=Utterance)
    assert {name: split.records for name, split in manifest.splits.items()} == {"a": 5, "b": 4, "c": 41}
    assert manifest.records == 50


def test_the_writer_takes_tables_among_records(tmp_path):
    """`write_all` keeps the order of what it is given, be it records or columns."""
    with sr.Writer(tmp_path / "d", Utterance) as writer:
        writer.write(RECORDS[0])
        writer.write_all(TABLE[1:30])
        writer.write_all(ROWS[30:])
    whole = sr.write(RECORDS, tmp_path / "whole")
    assert digests(writer.manifest) == digests(whole)


def write_stream(path):
    with ipc.new_stream(str(path), TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=9)


FILES = {
    "parquet": lambda path: parquet.write_table(TABLE, path, row_group_size=9),
    "arrow": lambda path: feather.write_feather(TABLE, path, compression="uncompressed"),
    "ipc": write_stream,
    "jsonl": lambda path: pd.DataFrame(COLUMNS).to_json(path, orient="records", lines=True, double_precision=15),
    "jsonl.gz": lambda path: pd.DataFrame(COLUMNS).to_json(path, orient="records", lines=True, double_precision=15),
}


@pytest.mark.parametrize("ending", FILES)
def test_files_of_tables_are_read(tmp_path, expected, ending):
    """Each format that holds lists gives the same records, packed or not."""
    FILES[ending](tmp_path / f"t.{ending}")
    records = sr.from_table(str(tmp_path / f"t.{ending}"), Utterance, cast="json" in ending)
    if "json" in ending:  # of 15 digits
        assert [record.key for record in records] == COLUMNS["key"]
    else:
        assert digests(sr.write(records, tmp_path / "d", splits={"a": 0.5, "b": 0.5})) == expected
        assert list(records) == RECORDS, "it can be gone through again"


def test_directories_and_globs_are_read_in_order(tmp_path):
    """Files come in the order of the numbers in their names, and hidden ones of a directory not at all."""
    for number in range(3):
        parquet.write_table(TABLE[number * 10 : number * 10 + 10], tmp_path / f"part-{4 * number}.parquet")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "notes.txt").touch()
    for given in (
        tmp_path,
        tmp_path / "part-*.parquet",
        [tmp_path / f"part-{4 * number}.parquet" for number in range(3)],
    ):
        assert list(sr.from_table(given, Utterance)) == RECORDS[:30]
        assert "(3 files)" in repr(sr.from_table(given, Utterance))


@sr.record
class Reading:
    key: str = sr.context(str, key=True)
    x: float = sr.context("float32")
    at: np.datetime64 = sr.context("datetime64[s]")


@pytest.mark.parametrize("name", ["r.csv", "r.csv.gz", "r.tsv"])
def test_text_is_read_as_the_fields_declare(tmp_path, name):
    """Files of text tell no types: zeros in front stay, numbers are rounded to the declared float, times are times."""
    table = pa.table({"key": ["007", "8"], "x": ["0.1", ""], "at": ["2024-01-01T00:00:01", "1970-01-01"]})
    separator = "\t" if name.endswith("tsv") else ","
    with pa.output_stream(str(tmp_path / name), compression="detect") as stream:
        csv.write_csv(table, stream, csv.WriteOptions(quoting_style="none", delimiter=separator))
    assert list(sr.from_table(tmp_path / name, Reading)) == [
        Reading("007", 0.1, np.datetime64("2024-01-01T00:00:01", "s")),
        Reading("8", np.float32("nan"), np.datetime64(0, "s")),
    ]


@sr.record
class Remark:
    key: str = sr.context(str, key=True)
    shown: str = sr.context(str)
    note: str | None = sr.context(str, optional=True, default=None)
    raw: bytes | None = sr.context(bytes, optional=True, default=None)
    count: int | None = sr.context("int64", optional=True, default=None)


def test_an_empty_cell_of_an_optional_field_is_none(tmp_path):
    """By a path as by a frame, and of a text as of a number; a required text is empty, and NA is a text."""
    path = tmp_path / "remarks.csv"
    path.write_text('key,shown,note,raw,count\na,x,,,\nb,x,"",,3\nc,x,NA,z,\n')
    expected = [Remark("a", "x"), Remark("b", "x", count=3), Remark("c", "x", "NA", b"z")]
    assert list(sr.from_table(path, Remark)) == list(sr.from_rows(path, Remark, by="key")) == expected
    frame = pd.read_csv(path, keep_default_na=False, na_values=[""]).astype({"raw": object})
    frame["raw"] = [cell.encode() if isinstance(cell, str) else None for cell in frame.raw]
    assert list(sr.from_table(frame, Remark, cast=True)) == expected
    path.write_text("key,shown\na,\n")
    columns = {"note": "shown"}
    assert list(sr.from_table(path, Remark)) == [Remark("a", "")]
    assert list(sr.from_table(path, Remark, columns=columns)) == [Remark("a", "", "")], "the required field decides"
    lines = tmp_path / "remarks.jsonl"
    lines.write_text('{"key": "a", "shown": "", "note": ""}\n{"key": "b", "shown": "", "note": null}\n')
    assert list(sr.from_table(lines, Remark)) == [Remark("a", "", ""), Remark("b", "")], "JSON tells them apart"
    path.write_bytes(b"key,shown,note\na,x,\xff\n")
    with pytest.raises(sr.SourceError, match="row 0, column 'note': expected UTF-8 .*, got str"):
        list(sr.from_table(path, Remark))
    frame = pd.DataFrame({"key": ["a", 5], "shown": ["x", "y"]})
    with pytest.raises(sr.SourceError, match="failed for column key with type object: Expected bytes, got a 'int'"):
        list(sr.from_table(frame, Remark))


def test_columns_are_mapped_and_others_listed():
    """`columns` maps names, one column may serve two fields, and what is left out is listed when asked."""
    frame = pd.DataFrame({"id": ["a"], "seconds": pd.to_datetime(["2024-01-01"]), "value": [0.1], "note": ["x"]})
    mapping = {"key": "id", "at": "seconds", "x": "value"}
    records = sr.from_table(frame, Reading, columns=mapping, extra="ignore", cast=True)
    assert records.ignored == ("note",)
    assert "ignored=['note']" in repr(records)
    assert list(records) == [Reading("a", 0.1, np.datetime64("2024-01-01", "s"))]


@sr.record
class House:
    label: int = sr.context("int64")
    sides: np.ndarray = sr.context("float32", shape=(2,))


@sr.record
class Query:
    query: int = sr.context("int64", key=True)
    features: np.ndarray = sr.feature_list("float32", shape=(3,))
    label: np.ndarray = sr.feature_list("int64")


@pytest.mark.parametrize("kind", ["pandas", "polars", "stream", "csv", "parquet", "jsonl"])
def test_columns_that_are_listed_make_one_field(tmp_path, kind):
    """Of rows that are records and of rows that are steps; ints beside floats are floats, and a null is NaN."""
    frame = pd.DataFrame(
        {"q": [1, 1, 2], "a": [1, 2, 3], "b": [0.5, np.nan, 1.5], "c": [7.0, 8.0, 9.0], "y": [3, 0, 1]}
    )
    path = tmp_path / f"rows.{kind}"
    if kind == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    elif kind in ("csv", "parquet"):
        getattr(frame, f"to_{kind}")(path, index=False)

    def given():
        memory = {"pandas": frame, "polars": pl.from_pandas(frame), "stream": pa.table(frame).to_reader()}
        return memory.get(kind, path)

    columns = {"query": "q", "features": ["a", "b", "c"], "label": "y"}
    found = list(sr.from_rows(given(), Query, by="q", columns=columns, cast=True))
    first = [[1, 0.5, 7], [2, np.nan, 8]]
    assert found == [Query(1, np.array(first, "f4"), [3, 0]), Query(2, np.array([[3, 1.5, 9]], "f4"), [1])]
    records = sr.from_table(given(), House, columns={"label": "y", "sides": ("c", "a")}, extra="ignore", cast=True)
    assert records.ignored == ("q", "b")
    assert list(records) == [House(3, [7, 1]), House(0, [8, 2]), House(1, [9, 3])]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (["a", "bb"], "no column 'bb' \\(did you mean 'b'"),
        ([], "one column, or a list of names for field 'sides', got \\[\\]"),
        (["a", 3], "or a list of names for field 'sides', got \\['a', 3\\]"),
    ],
)
def test_lists_of_columns_that_are_none_are_refused(columns, said):
    """Each name in the list is a column."""
    with pytest.raises(sr.OptionError, match=said):
        sr.from_table(pd.DataFrame({"label": [1], "a": [1.0], "b": [2.0]}), House, columns={"sides": columns})


def test_lists_of_columns_of_other_types_or_sizes_are_refused():
    """Texts beside numbers have no common type; and a list has as many columns as the shape says."""
    frame = pd.DataFrame({"label": [1], "a": [1.0], "b": ["x"], "c": [2.0]})
    with pytest.raises(sr.SourceError, match="DataFrame: .*(incompatible|merge|type)"):
        list(sr.from_table(frame[["label", "a", "b"]], House, columns={"sides": ["a", "b"]}))
    with pytest.raises(sr.OptionError, match="'sides': expected lists of 2 values, .* got one of 3"):
        list(sr.from_table(frame.assign(b=0.5), House, columns={"sides": ["a", "b", "c"]}, cast=True))


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        ({"kay": ["a"]}, {}, "no field for the column 'kay' \\(did you mean 'key'\\?\\).*extra='ignore'"),
        ({}, {"columns": {"kye": "key"}}, "no field 'kye' \\(did you mean 'key'"),
        ({}, {"columns": {"key": "kee"}}, "no column 'kee' for field 'key' \\(did you mean 'key'"),
        ({}, {"columns": "key"}, "mapping of field to column"),
        ({}, {"columns": {"x": ["key", "at"]}}, r"one column for field 'x', got \['key', 'at'\]"),
        ({}, {"columns": {"x": 3}}, "the name of one column for field 'x', got 3"),
        (
            {"x": None},
            {},
            "no column 'x' for field 'x': columns=.*; merge the table that has it, or `reset_index.*; the columns are",
        ),
        ({}, {"extra": "drop"}, "'error' or 'ignore'"),
        ({}, {"on_error": "ignore"}, "'raise' or 'skip'"),
        ({"x": [decimal.Decimal("1.5")]}, {}, "column 'x', for field 'x': no field holds decimal"),
        ({"x": [{"a": 1}]}, {}, "column 'x', for field 'x': no field holds struct"),
        ({"x": [dt.time(1)]}, {}, "no field holds time64"),
    ],
)
def test_columns_that_do_not_belong_are_refused(change, options, said):
    """What has no field, no column, or no type that a field holds is named."""
    columns = {"key": ["a"], "x": pa.array([0.5], pa.float32()), "at": pa.array([1], pa.timestamp("s")), **change}
    table = pa.table({name: values for name, values in columns.items() if values is not None})
    with pytest.raises(sr.OptionError, match=f"(?s){said}"):
        list(sr.from_table(table, Reading, **options))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([{"key": "a"}], "dictionaries and records go to seqrecorder.write"),
        (pl.LazyFrame({"key": ["a"]}), "collect"),
        (3, "expected a table"),
        (pa.array([1]), "no columns|no table|column"),
    ],
)
def test_what_is_no_table_is_refused(given, said):
    """The message says what to do with dictionaries and with plans of tables."""
    with pytest.raises(sr.OptionError, match=said):
        sr.from_table(given, Reading)


def test_values_that_do_not_fit_are_refused_unless_licensed(tmp_path):
    """float64 does not fit float32, and does with `cast`; what overflows never does; the record is named."""
    frame = pd.DataFrame({"key": ["a", "b"], "x": [0.5, 0.1], "at": pd.to_datetime(["2024-01-01"] * 2)})
    with pytest.raises(sr.RecordError, match=r"record 1 \(key 'b'\)(?s:.*)x: expected"):
        sr.write(frame, tmp_path / "d", schema=Reading)
    assert not (tmp_path / "d").exists()
    assert sr.write(sr.from_table(frame, Reading, cast=True), tmp_path / "d").records == 2
    with pytest.raises(sr.RecordError, match="finite"):
        list(sr.from_table(frame.assign(x=1e300), Reading, cast=True))


@pytest.mark.parametrize("bad", [[], [0], [49], [3, 4, 30], range(50)])
def test_bad_rows_are_left_out_and_counted(tmp_path, bad, caplog):
    """With `on_error="skip"` all rows but the bad ones are written; the manifest counts, and the first is logged."""
    labels = [10**6 if number in bad else number for number in range(50)]
    table = TABLE.set_column(1, "label", pa.array(labels))
    with caplog.at_level(logging.WARNING, "seqrecorder"):
        records = sr.from_table(table, Utterance, on_error="skip")
        manifest = sr.write(records, tmp_path / "d")
    assert manifest.skipped == len(bad) == records.skipped
    good = [record for number, record in enumerate(RECORDS) if number not in bad]
    assert digests(manifest) == digests(sr.write(good, tmp_path / "good", schema=Utterance))
    assert ("first record that is left out" in caplog.text) is bool(bad)


def test_a_bad_row_is_named_with_its_source_row_and_key(tmp_path, caplog):
    """The row counts from the first of the source, whatever was left out before; a key may be what is missing."""

    @sr.record
    class Point:
        key: str = sr.context(str, key=True)
        x: int = sr.context("int64")

    table = pa.table({"key": ["a", "b", None, "d"], "x": [1, 2, 3, None]})
    parquet.write_table(table, tmp_path / "points.parquet")
    with pytest.raises(
        sr.RecordError, match=r"record 2: Point cannot be encoded \(in .*points.parquet\)\n  key: expected"
    ):
        list(sr.from_table(tmp_path / "points.parquet", Point))
    with pytest.raises(
        sr.RecordError, match=r"record 3 \(key 'd'\): Point cannot be encoded \(in Table\)\n  x: expected"
    ):
        list(sr.from_table(table.set_column(0, "key", pa.array(["a", "b", "c", "d"])), Point))
    with caplog.at_level(logging.WARNING, "seqrecorder"):
        assert [point.key for point in sr.from_table(table, Point, on_error="skip")] == ["a", "b"]
    assert "record 2: Point cannot be encoded (in Table)" in caplog.text


def test_batches_are_bounded():
    """A large table comes in batches of a bounded size, and positions in errors count from the first."""

    @sr.record
    class Point:
        key: str = sr.context(str, key=True)
        x: int = sr.context("int32")

    rows, bad = BATCH_ROWS + 2, BATCH_ROWS + 1
    table = pa.table({"key": [f"k{number}" for number in range(rows)], "x": range(rows)})
    records = sr.from_table(table, Point)
    assert [batch.num_rows for batch in records.tables()] == [BATCH_ROWS, 2]
    assert [(point.key, point.x) for point in records] == [(f"k{number}", number) for number in range(rows)]
    values = pa.array([10**10 if number == bad else number for number in range(rows)])
    with pytest.raises(sr.RecordError, match=rf"record {bad} \(key 'k{bad}'\)"):
        list(sr.from_table(table.set_column(1, "x", values), Point))


def test_streams_come_once():
    """A stream whose rows were taken is refused, rather than empty."""
    records = sr.from_table(Stream(TABLE), Utterance)
    assert list(records) == RECORDS
    with pytest.raises(sr.SourceError, match="once"):
        list(records)


def test_classes_with_hooks_take_tables_as_records(tmp_path):
    """Where a class has `load` or `split`, records are made of the rows."""

    @sr.record
    class Loaded:
        key: str = sr.context(str, key=True)
        ids: np.ndarray = sr.feature_list("int64")

        def load(self):
            return attrs.evolve(self, ids=self.ids * 2)

    table = pa.table({"key": ["a", "b"], "ids": [[1, 2], []]})
    given, objects = {"s": table}, {"s": [Loaded("a", [1, 2]), Loaded("b", [])]}
    assert digests(sr.write(given, tmp_path / "d", schema=Loaded)) == digests(sr.write(objects, tmp_path / "e"))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"key": "a", "x": 1.0, "at": np.datetime64(1, "s"), "y": 1}], "y: expected a field of Reading"),
        ([{"key": "a"}], r"record 0 \(key 'a'\): this dictionary is no Reading\n.*x: expected a value"),
        ([{"key": "a", "x": 1.0, "at": np.datetime64(1, "s")}, 3], "record 1: expected a dictionary"),
        ([{"key": "a", "x": "1", "at": np.datetime64(1, "s")}], "x: expected float32, got str"),
    ],
)
def test_dictionaries_that_are_no_records_are_refused(tmp_path, rows, said):
    """Keys that are no field, missing ones and bad values are named with the record."""
    for given in (rows, iter(rows)):
        with pytest.raises(sr.RecordError, match=said):
            sr.write(given, tmp_path / "d", schema=Reading)
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("given", [TABLE, ROWS, {"train": TABLE}])
def test_rows_without_a_class_are_refused(tmp_path, given):
    """Neither a table nor a dictionary says what its records are."""
    with pytest.raises(sr.OptionError, match="schema=Class"):
        sr.write(given, tmp_path / "d")


@pytest.mark.parametrize("given", ["x.csv", b"x.csv", pathlib.Path("x.csv")])
def test_paths_are_no_records(tmp_path, given):
    """A path is answered with what reads files."""
    with pytest.raises(sr.OptionError, match="from_table, from_rows, from_jsonl"):
        sr.write(given, tmp_path / "d", schema=Reading)


def test_files_that_differ_are_refused(tmp_path):
    """Files of one table have one set of columns; the one that differs is named, and so is a damaged one."""
    parquet.write_table(pa.table({"key": ["a"]}), tmp_path / "a.parquet")
    parquet.write_table(pa.table({"kay": ["a"]}), tmp_path / "b.parquet")
    with pytest.raises(sr.SourceError, match=r"b\.parquet: expected the columns"):
        sr.from_table(tmp_path, Reading)
    (tmp_path / "b.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(sr.SourceError, match=r"b\.parquet: "):
        sr.from_table(tmp_path / "b.parquet", Reading)
    with pytest.raises(sr.OptionError, match="ends in"):
        sr.from_table(__file__, Reading)
    with pytest.raises(sr.DatasetNotFoundError, match="no file"):
        sr.from_table(tmp_path / "c.parquet", Reading)


def test_relations_of_duckdb_are_tables(tmp_path):
    """A relation of DuckDB is a table of records: lists, arrays and enums; a schema is inferred, and types refused."""
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()

    @sr.record
    class Group:
        key: str = sr.context(str, key=True)
        pair: np.ndarray = sr.context("float64", shape=(2,))
        ids: np.ndarray = sr.feature_list("int64")

    query = """select 'a'::enum('b', 'a') as key, [0.5, 1]::double[2] as pair, [1, 2]::bigint[] as ids
               union all select 'b', [2, 3]::double[2], []::bigint[]"""
    expected = [Group("a", [0.5, 1], [1, 2]), Group("b", [2, 3], [])]
    assert list(sr.from_table(connection.sql(query), Group)) == expected
    assert sr.write({"train": connection.sql(query)}, tmp_path / "groups", schema=Group).records == 2
    assert list(sr.read_records(tmp_path / "groups", schema=Group)) == expected
    assert sr.Schema.infer(connection.sql(query))["ids"].kind == "feature_list"
    for value, kind in (("1::hugeint", "decimal"), ("map {'a': 1}", "map"), ("{'x': 1}", "struct")):
        relation = connection.sql(f"select 'a' as key, [0.5, 1]::double[2] as pair, [{value}] as ids")
        with pytest.raises(sr.OptionError, match=f"column 'ids', for field 'ids': no field holds {kind}"):
            list(sr.from_table(relation, Group))


@pytest.mark.parametrize(
    "read",
    [
        lambda path: list(sr.from_rows(path, Reading, by="id")),
        lambda path: list(sr.from_table(path, Reading)),
        sr.Schema.infer,
        lambda path: sr.Schema.infer([{"id": 1}]),
    ],
    ids=["from_rows", "from_table", "infer", "infer of dictionaries"],
)
@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_files_say_that_they_need_pyarrow(tmp_path, monkeypatch, read, name):
    """Where pyarrow is missing, whatever reads a table's file says what to install."""
    (tmp_path / name).write_text("id,time\n1,2\n")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(sr.OptionError, match="need pyarrow: pip install pyarrow"):
        read(str(tmp_path / name))


@pytest.mark.parametrize("read", [sr.from_table, functools.partial(sr.from_rows, by="key")])
def test_columns_of_text_for_numbers_are_refused(read):
    """One cell of text makes text of a whole column: with `on_error="skip"`, no record would be left."""

    @sr.record
    class Load:
        key: str = sr.context(str, key=True)
        load: float = sr.context("float32")
        at: np.datetime64 | None = sr.context("datetime64[s]", optional=True, default=None)

    frame = pd.DataFrame({"key": ["a", "b"], "load": ["1.5", "ERR"]})
    message = r"'load': holds text such as 'ERR', expected float32; convert it by pandas.to_numeric\(frame\['load'\]\)$"
    for options in ({}, {"on_error": "skip"}, {"cast": True}):
        with pytest.raises(sr.OptionError, match=message):
            list(read(frame, Load, **options))
    with pytest.raises(sr.OptionError, match=r"'at': holds text such as '2025-01-01', .*to_datetime\(frame"):
        list(read(frame.assign(load=1.5, at="2025-01-01"), Load))
    assert list(read(frame.assign(load=1.5, at=None), Load)) == [Load("a", 1.5), Load("b", 1.5)]


def test_the_advice_on_text_loses_no_value():
    """It shows a text that is no number, never turns it into NaN, and knows decimal commas and bools."""

    @sr.record
    class Sale:
        price: float = sr.context("float64", default=0.0)
        paid: bool = sr.context(bool, default=False)
        prices: np.ndarray | None = sr.feature_list("float64", optional=True, default=None)

    comma = (
        r"such as '1.234,56', expected float64; convert it by pandas.to_numeric\(frame\['{}'\]\) or, of decimal commas"
    )
    for column, values, text in [
        ("price", ["7", "1e5", None, "1.234,56"], comma.format("price") + r".*decimal=','"),
        ("prices", [["7", ""], [], ["1.234,56"]], comma.format("prices")),
        ("price", ["007", "8"], r"such as '007', .*to_numeric\(frame\['price'\]\)$"),
        ("price", ["901.12", "1.182,56"], r"such as '1.182,56', .*to_numeric\(frame\['price'\]\)$"),  # not by 100
        (
            "paid",
            ["ja", "nein"],
            r"such as 'ja', expected bool; convert it by frame\['paid'\].map\(\{'ja': ..., ...\}\)",
        ),
    ]:
        with pytest.raises(sr.OptionError, match=text) as error:
            list(sr.from_table(pd.DataFrame({column: values}), Sale))
        assert "coerce" not in str(error.value)


@pytest.mark.parametrize("columns", [{"x": ["a", "b"]}, {"x": ("a",)}, {"x": None}, {"key": {"a"}}, "key", ["key"]])
def test_columns_name_one_column(tmp_path, columns):
    """Several columns for one field are refused by an error of ours, by tables, rows and files of text alike."""
    (tmp_path / "a.csv").write_text("key,a,b\n1,2,3\n")
    for given in (pa.table({"key": ["1"], "a": [2], "b": [3]}), tmp_path / "a.csv"):
        for read in (sr.from_table, lambda *args, **options: sr.from_rows(*args, by="key", **options)):
            with pytest.raises(sr.OptionError, match="expected the name of one column|expected a mapping"):
                list(read(given, Reading, columns=columns, extra="ignore"))


def test_row_names_of_r_are_explained(tmp_path):
    """A header with a name less than the rows have values is the one of R's `write.table`."""

    @sr.record
    class Word:
        key: str = sr.context(str)

        @classmethod
        def from_csv_row(cls, row):
            return cls(row["key"])

    (tmp_path / "a.csv").write_text("key,x\n1,a,2\n2,b,3\n")
    for read in (lambda path: sr.from_table(path, Word, extra="ignore"), lambda path: sr.from_csv(path, Word)):
        with pytest.raises(sr.SourceError, match=r"a\.csv.*row\.names=FALSE"):
            list(read(tmp_path / "a.csv"))
    with pytest.raises(sr.SourceError, match=r"row\.names=FALSE"):
        sr.Schema.infer(tmp_path / "a.csv")


def test_frames_with_arrays_of_several_dimensions_name_the_way_out():
    """Arrow has no cells of `(T, n)` arrays, as feature extraction leaves them in a frame; records have."""
    frame = pd.DataFrame({"key": ["a"], "label": [1], "frames": [np.ones((2, 2))], "words": [["a", "b"]]})
    with pytest.raises(sr.SourceError, match=r"column frames .*to_dict\('records'\)"):
        list(sr.from_table(frame, Utterance))


def test_files_of_records_lead_to_their_command(tmp_path):
    """`Schema.infer` and `from_table` of a TFRecord file name the command that knows them."""
    (tmp_path / "a.tfrecord").touch()
    for read in (sr.Schema.infer, lambda path: sr.from_table(path, Reading)):
        with pytest.raises(sr.OptionError, match="`seqrecorder schema` drafts a class"):
            read(tmp_path / "a.tfrecord")


@pytest.mark.parametrize("bad", [[], [0], [11], [3, 4, 9], range(12)])
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_rows_of_text_that_do_not_fit_are_left_out(tmp_path, bad, ending, caplog):
    """A value of text that its type does not hold costs its row alone; the first is logged with file and row."""

    @sr.record
    class Point:
        key: str = sr.context(str)
        x: float = sr.context("float32")

    values = ["1e39" if number in bad else f"{number}.5" for number in range(12)]
    texts = {
        "csv": "key,x\n" + "".join(f"k{number},{value}\n" for number, value in enumerate(values)),
        "jsonl": "".join(f'{{"key": "k{number}", "x": {value}}}\n' for number, value in enumerate(values)),
    }
    (tmp_path / f"a.{ending}").write_text(texts[ending])
    records = sr.from_table(tmp_path / f"a.{ending}", Point, on_error="skip")
    for _ in range(2):
        assert [record.x for record in records] == [number + 0.5 for number in range(12) if number not in bad]
        assert records.skipped == len(bad)
    assert sr.write(records, tmp_path / "d").skipped == len(bad)
    if bad:
        assert f"a.{ending}, row {min(bad)}, column 'x': expected float, got" in caplog.text
        with pytest.raises(sr.SourceError, match=rf"a\.{ending}, row {min(bad)}, column 'x'"):
            list(sr.from_table(tmp_path / f"a.{ending}", Point))


@sr.record
class Ping:
    taxi: int = sr.context("int64")
    at: np.datetime64 = sr.context("datetime64[s, UTC]")


@sr.record
class Pings:
    taxi: int = sr.context("int64", key=True)
    at: np.ndarray = sr.feature_list("datetime64[s, UTC]")


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
@pytest.mark.parametrize("bad", ["2013-07-01T10:00:00", "yesterday"])
def test_texts_without_a_zone_are_no_utc_times(tmp_path, ending, bad):
    """Whether rows are records or steps, the error names the row of a text without a time zone."""
    times = ["2013-07-01T10:00:00+01:00", "2013-07-01T10:00:00Z", bad]
    lines = {"csv": "taxi,at\n" + "".join(f"1,{time}\n" for time in times)}
    lines["jsonl"] = "".join(json.dumps({"taxi": 1, "at": time}) + "\n" for time in times)
    path = tmp_path / f"a.{ending}"
    path.write_text(lines[ending])
    ways = functools.partial(sr.from_table, path, Ping), functools.partial(sr.from_rows, path, Pings, by="taxi")
    for read in ways:
        with pytest.raises(sr.SourceError, match=rf"row 2, column 'at': expected a time such as \S*Z, got '{bad}'"):
            list(read())
    hours = [record.at.item().hour for record in sr.from_table(path, Ping, on_error="skip")]
    assert hours == [9, 10]


@sr.record
class Trip:
    taxi: int = sr.context("int64")
    at: np.ndarray = sr.feature_list("datetime64[s, UTC]")


@pytest.mark.parametrize("first", [0, 1])
def test_times_with_and_without_a_zone_are_refused(first):
    """An object column of pandas may hold both, and Arrow would take the zone of the first for all of them."""
    noon = [pd.Timestamp("2025-01-01T12:00:00+02:00"), pd.Timestamp("2025-01-01T12:00:00").to_pydatetime()]
    noon = noon[first:] + noon[:first]
    rows = pd.DataFrame({"taxi": 1, "at": pd.Series([pd.NaT, *noon], dtype=object)})
    text = r"column 'at', row 2: expected a zone in all times or in none, .*to_datetime\(frame\['at'\], utc=True\)"
    for read in (functools.partial(sr.from_table, rows, Ping), functools.partial(sr.from_rows, rows, Pings, by="taxi")):
        with pytest.raises(sr.SourceError, match=text):
            list(read())
    together = rows[1:].assign(at=pd.to_datetime(rows["at"][1:], utc=True))
    assert sorted(record.at.item().hour for record in sr.from_table(together, Ping)) == [10, 12]
    for lists in ([noon], [[noon[0]], [noon[1]]], [[], [np.nan], noon]):
        trips = pd.DataFrame({"taxi": 1, "at": pd.Series(lists, dtype=object)})
        with pytest.raises(sr.SourceError, match=r"column 'at', row \d: .*frame\['at'\].map\(lambda"):
            list(sr.from_table(trips, Trip))
        mapped = trips["at"].map(lambda ts: pd.to_datetime(ts, utc=True).tolist())
        assert len(list(sr.from_table(trips.assign(at=mapped), Trip))) == len(lists)


def test_the_zone_of_lists_and_object_columns_is_set_as_advised():
    """The error of times without a zone says what works for lists and object columns, too."""
    noon = pd.Timestamp("2025-01-01T12:00:00")
    rows = pd.DataFrame({"taxi": 1, "at": pd.Series([noon], dtype=object)})
    with pytest.raises(sr.OptionError, match=r"pandas.to_datetime\(frame\[name\]\).dt.tz_localize"):
        list(sr.from_table(rows, Ping))
    zoned = rows.assign(at=pd.to_datetime(rows["at"]).dt.tz_localize("Europe/Berlin"))
    assert [record.at.item().hour for record in sr.from_table(zoned, Ping)] == [11]
    trips = pd.DataFrame({"taxi": 1, "at": [[noon]]})
    text = r"in lists .map\(lambda ts: pandas.to_datetime\(ts\).tz_localize\(...\).tolist\(\)\)"
    with pytest.raises(sr.OptionError, match=text):
        list(sr.from_table(trips, Trip))
    zoned = trips["at"].map(lambda ts: pd.to_datetime(ts).tz_localize("Europe/Berlin").tolist())
    (trip,) = sr.from_table(trips.assign(at=zoned), Trip)
    assert str(trip.at) == "['2025-01-01T11:00:00']"


@sr.record
class Coarse:
    watts: int = sr.context("int64")
    hour: np.datetime64 = sr.context("datetime64[h]")
    weeks: np.ndarray = sr.feature_list("datetime64[W]")
    fine: np.datetime64 = sr.context("datetime64[ps]", default=np.datetime64(0, "ps"))


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl"])
def test_files_give_times_of_units_that_arrow_lacks(tmp_path, name):
    """Hours and weeks of files are those of tables in memory; a field of another unit needs no column."""
    weeks = np.array(["2026-01-01", "2026-01-08"], "datetime64[s]")
    hour = np.datetime64("2026-01-01T05", "s")
    table = pa.table({"watts": [1], "hour": pa.array([hour]), "weeks": pa.array([weeks])})
    if name == "a.parquet":
        parquet.write_table(table, tmp_path / name)
    else:
        times = '"hour": "2026-01-01T05:00:00", "weeks": ["2026-01-01T00:00:00", "2026-01-08T00:00:00"]'
        (tmp_path / name).write_text(f'{{"watts": 1, {times}}}\n')
    [record] = sr.from_table(tmp_path / name, Coarse)
    assert record == Coarse(1, np.datetime64("2026-01-01T05", "h"), weeks.astype("datetime64[W]"))
    assert [record] == list(sr.from_table(table, Coarse))


def test_a_time_between_two_hours_is_refused(tmp_path):
    """A line of CSV that says half an hour is no hour."""
    (tmp_path / "a.csv").write_text("watts,hour\n1,2026-01-01T05:30\n")

    @sr.record
    class Hourly:
        watts: int = sr.context("int64")
        hour: np.datetime64 = sr.context("datetime64[h]")

    with pytest.raises(sr.RecordError, match="hour"):
        list(sr.from_table(tmp_path / "a.csv", Hourly))


def test_ragged_lists_that_are_all_empty():
    """A table in which no list has a step has no type for the steps, and gives empty lists."""

    @sr.record
    class Ragged:
        x: object = sr.feature_list("int32", shape=(None, 2))

    frame = pd.DataFrame({"x": [[], []]})
    assert [len(record.x) for record in sr.from_table(frame, Ragged)] == [0, 0]
    with pytest.raises(sr.RecordError, match="x: expected a value"):
        list(sr.from_table(pa.table({"x": pa.nulls(2)}), Ragged))


def test_a_time_without_its_zone_is_told(tmp_path):
    """The error of a time in a CSV shows one as the field wants it: with a zone where the field has one."""
    (tmp_path / "times.csv").write_text("at\n2026-03-01T10:00:00Z\n2026-03-01 10:00:00\n")
    for dtype, row, example in (("datetime64[s, UTC]", 1, "12:00:00Z, got"), ("datetime64[s]", 0, "12:00:00, got")):
        timed = sr.record(type("Timed", (), {"__annotations__": {"at": np.datetime64}, "at": sr.context(dtype)}))
        with pytest.raises(sr.SeqrecorderError, match=f"row {row}, column 'at': expected a time .*{example}"):
            list(sr.from_table(tmp_path / "times.csv", timed))


def test_errors_of_a_csv_name_the_row(tmp_path):
    """A short line and a late cell of another type are named by their row; `cast=` is named where it helps."""

    @sr.record
    class Cells:
        key: str = sr.context(str)
        count: int = sr.context("int64")

    path = tmp_path / "a.csv"
    for last, text in (
        ("a", "row 70000: Expected 2 columns, got 1"),
        ("a,2.0", r"row 70000, .*\(cast=True takes it\)"),
    ):
        path.write_text("key,count\n" + '"a\nb",1\n' * 70_000 + last + "\n", encoding="utf-8")
        with pytest.raises(sr.SourceError, match=text):
            list(sr.from_table(path, Cells))
    assert len(list(sr.from_table(path, Cells, cast=True))) == 70_001
