"""Tables whose rows are steps: the same records as a loop over sorted rows gives, in memory and outside of it."""

import datetime as dt
import logging
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv, parquet

import seqrecorder as sr
from seqrecorder.codec import arrow as codec_tables
from seqrecorder.sources import row_per_step as row_order


@sr.record
class Series:
    sensor: str = sr.context(str, key=True)
    site: int = sr.context("int32")
    time: np.ndarray = sr.feature_list("datetime64[ns]")
    watts: np.ndarray = sr.feature_list("float64")
    note: np.ndarray | None = sr.feature_list(str, optional=True, default=None)


START = np.datetime64("2024-01-01", "ns")


def frame(seed=0, rows=400, groups=20):
    random = np.random.default_rng(seed)
    sensor = random.integers(0, groups, rows)
    seconds = random.permutation(rows)
    return pa.table(
        {
            "sensor": [f"s{number:02}" for number in sensor],
            "site": pa.array(sensor % 3, pa.int32()),
            "time": pa.array(START + seconds.astype("m8[s]").astype("m8[ns]")),
            "watts": random.normal(size=rows),
            "note": pa.array([None if number % 4 == 0 else f"n{i}" for i, number in enumerate(sensor)]),
        }
    )


def slowly(table):
    """Return what `from_rows` is to give, by a loop."""
    found = {}
    for row in sorted(
        zip(
            *(table[name].to_pylist() for name in ("sensor", "site")),
            table["time"].to_numpy().tolist(),
            table["watts"].to_pylist(),
            table["note"].to_pylist(),
            strict=True,
        )
    ):
        found.setdefault(row[:2], []).append(row[2:])
    return [
        Series(
            sensor,
            site,
            np.array([row[0] for row in rows], "datetime64[ns]"),
            [row[1] for row in rows],
            None if rows[0][2] is None else [row[2] for row in rows],
        )
        for (sensor, site), rows in found.items()
    ]


TABLE = frame()
EXPECTED = slowly(TABLE)
MAKERS = {
    "pyarrow": lambda: TABLE,
    "pandas": TABLE.to_pandas,
    "polars": lambda: pl.from_arrow(TABLE),
    "categories": lambda: pl.from_arrow(TABLE).with_columns(pl.col("sensor").cast(pl.Categorical)),
    "chunks": lambda: pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches(37)),
    "sorted": lambda: TABLE.sort_by([("sensor", "ascending"), ("time", "ascending")]),
}


@pytest.mark.parametrize("memory", [row_order.MEMORY, 3000], ids=["memory", "files"])
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_rows_become_records(make, memory):
    """Rows of every library, sorted or not, in memory or not, give what a loop over sorted rows gives."""
    records = sr.from_rows(make(), Series, by="sensor", order="time", memory=memory)
    assert list(records) == EXPECTED
    assert (records.rows, records.groups, records.equal_times, records.gaps) == (400, 20, 0, 0)


@sr.record
class Long:
    g: int = sr.context("int64")
    t: np.ndarray = sr.feature_list("int64")
    x: np.ndarray = sr.feature_list("float64")


MANY = 2 * codec_tables.BATCH_ROWS + 100


def check_long(source, table, **options):
    """Compare records of a table of numbers with its rows, sorted by numpy."""
    columns = {name: column.to_numpy() for name, column in zip(table.column_names, table.columns, strict=True)}
    order = np.lexsort((columns["t"], columns["g"]))  # stable
    records = list(sr.from_rows(source, Long, by="g", order="t", **options))
    assert [record.g for record in records] == np.unique(columns["g"]).tolist()
    assert np.repeat([r.g for r in records], [len(r.t) for r in records]).tolist() == columns["g"][order].tolist()
    for name in "tx":
        np.testing.assert_array_equal(np.concatenate([getattr(r, name) for r in records]), columns[name][order])


@pytest.mark.parametrize("memory", [row_order.MEMORY, 1 << 20], ids=["memory", "files"])
def test_many_rows_become_records(memory):
    """Rows of several batches, in files of several blocks, come in the stable order of numpy."""
    random = np.random.default_rng(0)
    table = pa.table(
        {"g": random.integers(0, 70, MANY), "t": random.integers(0, 900, MANY), "x": random.normal(size=MANY)}
    )
    check_long(table, table, memory=memory)


def test_they_are_written_without_objects(tmp_path):
    """The shards are those of the same records as objects, in the same splits."""
    options = {"splits": {"train": 0.5, "eval": 0.5}, "split_by": "site", "shards": 2}
    given = sr.write(sr.from_rows(TABLE, Series, by="sensor", order="time"), tmp_path / "d", **options)
    objects = sr.write(EXPECTED, tmp_path / "e", **options)
    assert [s.sha256 for part in given.splits.values() for s in part.shards] == [
        s.sha256 for part in objects.splits.values() for s in part.shards
    ]


@sr.record
class Derived(Series):
    change: np.ndarray = sr.feature_list("float64", deferred=True, default=None)

    def load(self):
        self.change = np.diff(self.watts, prepend=np.nan)


def test_load_fills_fields_that_no_column_has(tmp_path):
    """Deferred fields are made of the others, once rows are together and cut in time; of rows that are records, too."""
    rows = sr.from_rows(TABLE, Derived, by="sensor", order="time")
    assert all(record.change is None and record.watts.size for record in rows)
    sr.write(rows, tmp_path / "d", splits={"train": ..., "eval": "2024-01-01T00:03"}, time="time", straddling="cut")
    for split in ("train", "eval"):
        for record in sr.read_records(tmp_path / "d", split):
            np.testing.assert_array_equal(record.change, np.diff(record.watts, prepend=np.nan))
    kept = sr.open(tmp_path / "d")["train"].to_arrow(["sensor", "site", "time", "watts", "note"]).read_all()
    sr.write({"train": kept}, tmp_path / "e", schema=Derived)
    again, first = (list(sr.read_records(tmp_path / name, "train", schema=Derived)) for name in "ed")
    assert again == first


def test_deferred_fields_need_a_column_where_there_is_no_load():
    """Nothing would fill them."""

    @sr.record
    class Unfilled(Series):
        change: np.ndarray = sr.feature_list("float64", deferred=True, default=None)

    with pytest.raises(sr.OptionError, match="no column 'change' for field 'change'"):
        sr.from_rows(TABLE, Unfilled, by="sensor", order="time")


FILES = {
    "parquet": lambda path: parquet.write_table(TABLE, path, row_group_size=50),
    "csv": lambda path: csv.write_csv(TABLE, str(path)),
    "jsonl": lambda path: pl.from_arrow(TABLE).write_ndjson(path),
}


@pytest.mark.parametrize("memory", [row_order.MEMORY, 3000], ids=["memory", "files"])
@pytest.mark.parametrize("ending", FILES)
def test_files_of_rows_are_read(tmp_path, ending, memory):
    """Parquet, CSV and JSON lines are read in batches, with the types that the fields declare."""
    FILES[ending](tmp_path / f"rows.{ending}")
    got = list(sr.from_rows(tmp_path / f"rows.{ending}", Series, by="sensor", order="time", memory=memory))
    if ending == "csv":  # where an empty text may be none at all
        assert [record.note is None for record in got] == [False] * 20
        got = [Series(r.sensor, r.site, r.time, r.watts, None if set(r.note) == {""} else r.note) for r in got]
    assert got == EXPECTED


KEYS = st.one_of(
    st.lists(st.integers(-3, 3), min_size=1, max_size=40),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=40),
    st.lists(st.floats(allow_nan=False), min_size=1, max_size=40),
    st.lists(st.text(min_size=1, max_size=2).filter(lambda text: text.isprintable()), min_size=1, max_size=40),
    st.lists(st.booleans(), min_size=1, max_size=40),
    st.lists(st.dates(), min_size=1, max_size=40),
    st.lists(st.binary(max_size=2), min_size=1, max_size=40),
)


@pytest.mark.parametrize("memory", [row_order.MEMORY, 1], ids=["memory", "files"])
@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(first=KEYS, second=KEYS, third=KEYS)
def test_rows_are_ordered_stably_by_any_keys(memory, first, second, third):
    """Keys of every type are in Python's order, and rows with equal keys stay as they came."""
    size = min(len(first), len(second), len(third))
    keys = {"a": first[:size], "b": second[:size], "c": third[:size]}
    given_rows = pa.table({**{name: pa.array(values) for name, values in keys.items()}, "row": pa.array(range(size))})
    reader = pa.RecordBatchReader.from_batches(given_rows.schema, given_rows.to_batches(5))
    table = codec_tables.table_of(reader)
    ordered = list(row_order.rows_in_order(table, given_rows.column_names, ["a", "b", "c"], memory=memory))
    got = [row for part in ordered for row in part["row"].to_pylist()]
    assert got == sorted(range(size), key=lambda row: tuple(values[row] for values in keys.values()))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("seed", range(3))
def test_fine_and_coarse_times_are_ordered(unit, seed):
    """Times are ordered whether they are whole seconds or not, beside many groups or few."""
    random = np.random.default_rng(seed)
    times = random.integers(-(2**62), 2**62, 500) // 10 ** (3 * seed) * 10 ** (3 * seed)
    groups = random.integers(0, 4, 500)
    table = pa.table({"g": groups, "t": pa.array(times.view(f"M8[{unit}]")), "row": np.arange(500)})
    ordered = row_order.in_order(table, ["g", "t"])
    assert ordered["row"].to_pylist() == np.lexsort((times, groups)).tolist()


def test_sorted_rows_are_not_written_anywhere(tmp_path, monkeypatch):
    """Rows that come in order are passed on as they come, be they more than the memory; streams need a file."""
    table = pa.table({"g": np.arange(MANY) // 1000, "t": np.arange(MANY) % 1000, "x": np.arange(float(MANY))})
    parquet.write_table(table, tmp_path / "t.parquet")
    monkeypatch.setattr(row_order, "scratch", lambda: pytest.fail("no file is needed"))
    check_long(tmp_path / "t.parquet", table, memory=1)


def test_files_are_gone_afterwards(monkeypatch):
    """What was sorted outside of memory is removed, at the end and after an iteration that stops early."""
    made = []
    original = row_order.scratch
    monkeypatch.setattr(row_order, "scratch", lambda: made.append(original()) or made[-1])
    list(sr.from_rows(TABLE, Series, by="sensor", order="time", memory=1))
    records = iter(sr.from_rows(TABLE, Series, by="sensor", order="time", memory=1))
    next(records)
    assert made[1].exists()
    del records
    assert len(made) == 2
    assert not any(Path(path).exists() for path in made)


def test_a_long_group_spans_batches():
    """A group may be larger than a batch, and the last one ends with the rows."""
    groups = [0] * 5 + [1] * MANY + [2]
    table = pa.table({"g": groups, "t": np.arange(MANY + 6), "x": np.arange(MANY + 6.0)})
    check_long(table, table)
    assert list(sr.from_rows(table.slice(0, 0), Long, by="g")) == []


@sr.record
class Walk:
    who: str = sr.context(str)
    day: int = sr.context("int64")
    vector: np.ndarray = sr.context("float32", shape=(2,))
    place: np.ndarray = sr.feature_list("float32", shape=(2,))
    near: list = sr.feature_list("int64", shape=(None,))


def test_lists_in_rows_are_shapes():
    """A column of lists gives steps with a shape or ragged ones, and a context field a vector; keys may be several."""
    table = pa.table(
        {
            "who": ["b", "a", "b", "b"],
            "day": [2, 1, 1, 2],
            "vector": pa.array([[0, 1]] * 4, pa.list_(pa.float32(), 2)),
            "place": pa.array([[1, 2], [3, 4], [5, 6], [7, 8]], pa.list_(pa.float32())),
            "near": [[1], [], [2, 3], []],
        }
    )
    assert list(sr.from_rows(table, Walk, by=["who", "day"])) == [
        Walk("a", 1, [0, 1], [[3, 4]], [[]]),
        Walk("b", 1, [0, 1], [[5, 6]], [[2, 3]]),
        Walk("b", 2, [0, 1], [[1, 2], [7, 8]], [[1], []]),
    ]


@pytest.mark.parametrize(
    ("values", "first"),
    [
        ([1, 1, 2], "1, then 2"),
        ([1.5, None, 1.5], "1.5, then None"),
        (["a", "b", "a"], "'a', then 'b'"),
        ([[1], [1], [1, 2]], r"\[1\], then \[1, 2\]"),
    ],
)
def test_context_columns_must_be_constant(values, first):
    """A column of a context field that changes inside of a group is refused with the group and both values."""
    kind = str if isinstance(values[0], str) else "float64" if isinstance(values[0], float) else "int64"

    @sr.record
    class Group:
        key: str = sr.context(str)
        value: object = sr.context(kind, shape=(None,) if isinstance(values[0], list) else ())
        x: np.ndarray = sr.feature_list("int64")

    table = pa.table({"key": ["a", "b", "b", "b"], "value": [values[2], *values], "x": range(4)})
    with pytest.raises(sr.SourceError, match=f"column 'value'.*in the group key='b': {first}"):
        list(sr.from_rows(table, Group, by="key"))


def test_missing_values_follow_the_rule_of_columns():
    """A null of a float is NaN, in a context field too where all are; of another field it is refused with its place."""

    @sr.record
    class Group:
        key: str = sr.context(str, key=True)
        weight: float = sr.context("float64")
        x: np.ndarray = sr.feature_list("float32")
        n: np.ndarray = sr.feature_list("int64")

    columns = {
        "key": list("aab"),
        "weight": [None, None, 1.0],
        "x": pa.array([1, None, 2], pa.float32()),
        "n": range(3),
    }
    groups = sr.from_rows(pa.table(columns), Group, by="key")
    first, second = groups
    assert groups.missing == 1
    assert (np.isnan(first.weight), first.x[0], np.isnan(first.x[1]), second.weight) == (True, 1, True, 1)
    with pytest.raises(sr.RecordError, match=r"record 0 \(?.*\n.*n\[1\]: expected int64"):
        list(sr.from_rows(pa.table({**columns, "n": [1, None, 2]}), Group, by="key"))
    got = list(sr.from_rows(pa.table({**columns, "n": [1, None, 2]}), Group, by="key", on_error="skip"))
    assert [record.key for record in got] == ["b"]


@pytest.mark.parametrize(("column", "value"), [("sensor", None), ("time", None), ("watts", float("nan"))])
def test_keys_must_not_be_missing(column, value):
    """A row without a group or a time has no place: it is refused, with the column and how many there are."""
    table = TABLE.to_pandas()
    table.loc[7, column] = value
    with pytest.raises(sr.SourceError, match=f"column '{column}': 1 row without a value, such as row 7"):
        list(sr.from_rows(table, Series, by="sensor", order=["time", column] if column == "watts" else "time"))


@sr.record
class Timed:
    time: np.ndarray = sr.feature_list("int64")


@pytest.mark.parametrize(("missing", "counted"), [(0.01, True), (0.1, True), (0.3, False)])
def test_gaps_are_counted_in_regular_steps(missing: float, *, counted: bool) -> None:
    """Every tenth row may be missing; with every third, or without weekends, longer steps are ordinary."""
    random = np.random.default_rng(0)
    times = np.flatnonzero(random.random(4000) >= missing)
    records = sr.from_rows(pa.table({"time": times}), Timed, by=None, order="time")
    list(records)
    assert records.gaps == (np.diff(times) > 1).sum() * counted
    days = np.arange(700)[np.arange(700) % 7 < 5]
    records = sr.from_rows(pa.table({"time": days}), Timed, by=None, order="time")
    list(records)
    assert records.gaps == 0


def test_equal_times_and_gaps_are_said(caplog):
    """Rows of one time stay as they came; these, and steps beyond a regular distance, are counted and logged once."""
    minutes = [*range(30), 29, 60, 61, *range(10)]
    table = pa.table(
        {
            "key": ["a"] * 33 + ["b"] * 10,
            "t": [dt.datetime(2024, 1, 1) + dt.timedelta(minutes=minute) for minute in minutes],  # noqa: DTZ001
            "x": np.arange(43),
        }
    )

    @sr.record
    class Group:
        key: str = sr.context(str)
        x: np.ndarray = sr.feature_list("int64")

    with caplog.at_level(logging.WARNING, "seqrecorder"):
        records = sr.from_rows(table, Group, by="key", order="t")
        assert [record.x.tolist() for record in records] == [list(range(33)), list(range(33, 43))]
    assert (records.equal_times, records.gaps) == (1, 1)
    assert caplog.text.count("1 of 43 rows") == 2
    assert "more than the usual 0:01:00 after" in caplog.text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"by": "sensr"}, "by: Table has no column 'sensr' \\(did you mean 'sensor'"),
        ({"by": "sensor", "order": "tame"}, "order: .*did you mean 'time'"),
        ({"by": "sensor", "memory": 0}, "memory: expected"),
        ({"by": "sensor", "columns": {"watt": "x"}}, "did you mean 'watts'"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, said):
    """Names that are not there are answered with those that are close."""
    with pytest.raises(sr.OptionError, match=said):
        sr.from_rows(TABLE, Series, **options)
    with pytest.raises(sr.OptionError, match="no field for the column 'extra'"):
        sr.from_rows(TABLE.append_column("extra", TABLE["site"]), Series, by="sensor")


def test_columns_that_order_need_no_field():
    """`by` and `order` are not stored unless a field asks for them; what else is left out is listed."""

    @sr.record
    class Bare:
        watts: np.ndarray = sr.feature_list("float32")

    records = sr.from_rows(TABLE, Bare, by="sensor", order="time", extra="ignore", cast=True)
    assert records.ignored == ("site", "note")
    assert repr(records) == "<Bare records, a row a step, of Table by sensor, ignored=['site', 'note']>"
    assert [record.watts.tolist() for record in records] == [r.watts.astype("f4").tolist() for r in EXPECTED]


def test_missing_values_in_joined_columns_are_counted():
    """A value that is missing in a vector counts, whether columns are joined or a column has lists."""

    @sr.record
    class Force:
        force: np.ndarray = sr.feature_list("float32", shape=(2,))

    nan, x, y = float("nan"), [1.0, None, 2.0], [None, 3.0, None]
    joined = sr.from_rows(pa.table({"x": x, "y": y}), Force, by=None, columns={"force": ["x", "y"]}, cast=True)
    lists = sr.from_rows(pa.table({"force": [*zip(x, y, strict=True)]}), Force, by=None, cast=True)
    for rows in (joined, lists):
        [record] = rows
        np.testing.assert_array_equal(record.force, [[1, nan], [nan, 3], [2, nan]])
        assert rows.missing == 3


@pytest.mark.parametrize(
    ("load", "message"),
    [
        ([0.5, "<5"], "^DataFrame: .*column load with type object: Could not convert '<5' with type str"),
        (["<5", "<7"], "^DataFrame: .*load, rest has incompatible types: (large_)?string vs double$"),
        ([True, False], "^DataFrame: .*load, rest has incompatible types: bool vs double$"),
    ],
)
def test_values_that_cannot_be_joined_are_named_with_their_columns(load, message):
    """Text among numbers, and columns of types that do not go together, are refused with the names of the columns."""

    @sr.record
    class Lab:
        values: np.ndarray = sr.feature_list("float32", shape=(2,))

    frame = pd.DataFrame({"load": load, "rest": [0.5, 1.5]})
    with pytest.raises(sr.SourceError, match=message):
        list(sr.from_rows(frame, Lab, by=None, columns={"values": ["load", "rest"]}, cast=True))


def test_periods_of_pandas_are_refused_with_what_to_do():
    """Rows cannot be ordered by periods: the error names the column, its type and a conversion that works."""

    @sr.record
    class Bare:
        watts: np.ndarray = sr.feature_list("float64")

    frame = pd.DataFrame({"month": pd.period_range("2020-01", periods=2, freq="M")[::-1], "watts": [0.5, 0.1]})
    with pytest.raises(sr.OptionError, match=r"'month'.*period.*convert it, a Period with \.dt\.to_timestamp"):
        list(sr.from_rows(frame, Bare, by=None, order="month", extra="ignore"))
    frame["month"] = frame["month"].dt.to_timestamp()
    [record] = sr.from_rows(frame, Bare, by=None, order="month", extra="ignore")
    assert record.watts.tolist() == [0.1, 0.5]


def test_an_index_of_pandas_is_no_column():
    """The order of a frame that was sorted, or filtered, is that of its rows; its index is left alone."""
    shuffled = TABLE.to_pandas().sample(frac=1, random_state=0)
    assert isinstance(shuffled.index, pd.Index)
    assert list(sr.from_rows(shuffled, Series, by="sensor", order="time")) == EXPECTED


def test_queries_of_duckdb_are_rows(tmp_path):
    """A relation of DuckDB gives the records of its rows, written as well as iterated over; its rows come once."""
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    query = "select 's' || i % 5 as sensor, i as minute, i / 2::float as watts from range(1000) as rows(i)"

    @sr.record
    class Day:
        sensor: str = sr.context(str, key=True)
        minute: np.ndarray = sr.feature_list("int64")
        watts: np.ndarray = sr.feature_list("float32")

    def days():
        return sr.from_rows(connection.sql(query), Day, by="sensor", order="minute")

    expected = [Day(f"s{k}", np.arange(k, 1000, 5), np.arange(k, 1000, 5) / 2) for k in range(5)]
    once = days()
    assert list(once) == expected
    with pytest.raises(sr.SourceError, match="gives its rows once"):
        list(once)
    reader = pa.RecordBatchReader.from_stream(connection.sql(query))
    assert list(sr.from_rows(reader, Day, by="sensor", order="minute")) == expected
    assert sr.write(days(), tmp_path / "days").records == 5
    assert list(sr.read_records(tmp_path / "days", schema=Day)) == expected


@pytest.mark.parametrize("by", [None, [], ()])
@pytest.mark.parametrize("memory", [1, 1 << 20])
@pytest.mark.parametrize("order", ["t", None])
def test_all_rows_are_one_record_without_by(by, memory, order):
    """A table of one series needs no column that says so, in memory or beyond it; an empty one has no record."""

    @sr.record
    class Whole:
        site: str = sr.context(str)
        x: np.ndarray = sr.feature_list("int64")

    size = 5000
    draw = np.random.default_rng(0).permutation(size)
    table = pa.table({"site": ["a"] * size, "t": draw, "x": draw})
    options = {"by": by, "order": order, "memory": memory, "extra": "ignore"}
    expected = Whole("a", np.arange(size) if order else draw)
    assert list(sr.from_rows(table, Whole, **options)) == [expected]
    assert list(sr.from_rows(table.slice(0, 0), Whole, **options)) == []
    changed = table.set_column(0, "site", pa.array(["a"] * (size - 1) + ["b"]))
    with pytest.raises(sr.SourceError, match="is not constant in the group of all rows"):
        list(sr.from_rows(changed, Whole, **options))


@pytest.mark.parametrize("kind", ["frame", "file"])
@pytest.mark.parametrize(
    ("site", "advice"), [("", "a cell is empty: fill it.*'site'.*'first'"), ("7.0", "feature_list")]
)
def test_a_context_with_an_empty_cell_is_to_be_filled(tmp_path, kind, site, advice):
    """An empty cell beside a value is no reason for another field, and what the error advises mends it."""

    @sr.record
    class Visit:
        shop: str = sr.context(str, key=True)
        site: str = sr.context(str)
        x: np.ndarray = sr.feature_list("int64")

    path = tmp_path / "visits.csv"
    path.write_text(f"shop,site,x\na,5.0,1\na,{site},2\n")
    table = pd.read_csv(path, dtype={"site": str})
    with pytest.raises(sr.SourceError, match=rf"is not constant in the group shop='a': '5.0', then .*; .*{advice}"):
        list(sr.from_rows(table if kind == "frame" else path, Visit, by="shop"))
    table["site"] = table.groupby("shop")["site"].transform("first")
    assert list(sr.from_rows(table, Visit, by="shop")) == [Visit("a", "5.0", [1, 2])]


@sr.record
class Months:
    shop: str = sr.context(str, key=True)
    month: np.ndarray = sr.feature_list("datetime64[M]")


@pytest.mark.parametrize("name", ["months.csv", "months.jsonl"])
@pytest.mark.parametrize("text", ["2017-02", "2017-02-01", "2017-02-15", "02/2017", "2017-13"])
def test_months_in_files_of_text_are_read_as_months(tmp_path, name, text):
    """A month, or the first day of one, is read; another date and another order of digits are refused by their row."""
    csv = f"shop,month\na,2016-12\na,{text}\n"
    lines = f'{{"shop": "a", "month": "2016-12"}}\n{{"shop": "a", "month": "{text}"}}\n'
    (tmp_path / name).write_text(csv if name.endswith("csv") else lines)
    records = sr.from_rows(str(tmp_path / name), Months, by="shop")
    if text.startswith("2017-02") and not text.endswith("15"):
        assert next(iter(records)).month.tolist() == np.array(["2016-12", "2017-02"], "M8[M]").tolist()
    else:
        wrong = r"month\[1\]: expected values that datetime64\[M\] holds" if text.endswith("15") else "row 1, column 'm"
        with pytest.raises(sr.SeqrecorderError, match=wrong):
            list(records)


def test_dates_in_json_lines_are_read_as_days(tmp_path):
    """JSON lines have no dates, so that days are read from their text."""

    @sr.record
    class Days:
        shop: str = sr.context(str, key=True)
        days: np.ndarray = sr.feature_list("datetime64[D]")

    lines = ['["2017-01-31", "1969-12-31"]', "[]", '["2017-02-01", null]']
    (tmp_path / "days.jsonl").write_text("".join(f'{{"shop": "a", "days": {line}}}\n' for line in lines))
    days = [record.days for record in sr.from_table(tmp_path / "days.jsonl", Days)]
    wanted = [np.array(text, "M8[D]") for text in (["2017-01-31", "1969-12-31"], [], ["2017-02-01", "NaT"])]
    for read, expected in zip(days, wanted, strict=True):
        np.testing.assert_array_equal(read, expected)


def test_months_inside_of_lists_are_read(tmp_path):
    """A record a line, whose months are a list of texts."""
    (tmp_path / "months.jsonl").write_text('{"shop": "a", "month": ["2017-01", "2017-03"]}\n')
    (record,) = sr.from_table(tmp_path / "months.jsonl", Months)
    assert record.month.tolist() == np.array(["2017-01", "2017-03"], "M8[M]").tolist()


def test_months_are_drafted_of_text_files(tmp_path):
    """A column of months of a CSV file is drafted as months, and reads as it is drafted; other text stays text."""
    (tmp_path / "shops.csv").write_text("shop,month,code\na,2017-01,2017-13\na,2017-02,2017-01\n")
    schema = sr.Schema.infer(tmp_path / "shops.csv", by="shop")
    assert [field.element.name for field in schema.fields] == ["str", "datetime64[M]", "str"]
    (record,) = sr.from_rows(tmp_path / "shops.csv", schema, by="shop")
    assert str(record.month[1]) == "2017-02"
    frame = pd.read_csv(tmp_path / "shops.csv")
    assert sr.Schema.infer(frame, by="shop")["month"].element.name == "str"


def test_other_characters_between_columns_are_told(tmp_path):
    """A header with semicolons is one column to a reader of commas: the error says what to do."""
    (tmp_path / "shops.csv").write_text("shop;month\na;2017-01\n")
    for read in (
        lambda: sr.Schema.infer(tmp_path / "shops.csv"),
        lambda: sr.from_table(tmp_path / "shops.csv", Months),
    ):
        with pytest.raises(sr.SourceError, match=r"shops.csv, header: expected commas .*read_csv\(sep="):
            read()


@sr.record
class Meter:
    k: str = sr.context(str, key=True)
    v: np.ndarray = sr.feature_list("float64")


def write_months(directory, *columns):
    """Write a Parquet file of two rows for each type of the column `v`, the key as text or as categories."""
    for number, column in enumerate(columns):
        key = pa.array(["b", "a"])
        table = pa.table({"k": key if number % 2 else key.dictionary_encode(), "v": column})
        parquet.write_table(table, directory / f"{number}.parquet")
    return str(directory / "*.parquet")


@pytest.mark.parametrize(
    ("element", "columns"),
    [
        ("float64", [pa.array([1, 2]), pa.array([2.5, 3.0])]),
        ("float64", [pa.array([2.5, 3.0]), pa.array([1, 2]), pa.array([7, None], pa.int32())]),
        ("float32", [pa.array([1, 2]), pa.array([2.5, 3.0], pa.float32())]),
        ("int64", [pa.array([1, 2], pa.int32()), pa.array([2**62, 3])]),
        (str, [pa.array(["x", "y"]), pa.array(["y", "x"]).dictionary_encode(), pa.array(["x", "y"], "large_string")]),
    ],
)
def test_files_of_other_types_are_read_as_one_table(tmp_path, element, columns):
    """An integer column of one month, a float column of the next: the values are those of the files, exactly."""

    @sr.record
    class Typed:
        k: str = sr.context(str, key=True)
        v: np.ndarray = sr.feature_list(element)

    records = {record.k: record.v for record in sr.from_rows(write_months(tmp_path, *columns), Typed, by="k")}
    for row, key in enumerate("ba"):
        expected = [column[row].as_py() for column in columns]
        assert [None if value != value else value for value in records[key].tolist()] == expected  # noqa: PLR0124


def test_files_of_types_that_do_not_merge_are_named(tmp_path):
    """Text and numbers, or an integer that no float holds: the error names file, column and types."""
    source = write_months(tmp_path, pa.array([1, 2]), pa.array(["x", "y"]))
    text = r"column 'v': expected one type in all files, got int64 in 0.parquet, string in 1.parquet"
    for read in (lambda: list(sr.from_rows(source, Meter, by="k")), lambda: sr.Schema.infer(source, by="k")):
        with pytest.raises(sr.SourceError, match=text):
            read()
    source = write_months(tmp_path, pa.array([1.5, 2]), pa.array([2**53 + 1, 2]))
    with pytest.raises(
        sr.SourceError, match=r"1.parquet, column 'v': int64 does not become double exactly.*9007199254740993"
    ):
        list(sr.from_rows(source, Meter, by="k"))


def test_a_csv_file_among_parquet_files_is_read(tmp_path):
    """Files of several formats are one table, though the types of their text differ."""
    parquet.write_table(pa.table({"k": pa.array(["a"], pa.large_string()), "v": [1]}), tmp_path / "1.parquet")
    (tmp_path / "2.csv").write_text("k,v\na,2.5\n")
    (record,) = sr.from_rows(tmp_path, Meter, by="k")
    assert record.v.tolist() == [1, 2.5]
    assert sr.Schema.infer(tmp_path, by="k")["v"].element.name == "float64"


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_decimal_commas_between_other_marks_are_told(tmp_path, mark):
    """A comma of a number makes a column too many: the error names the separator of the header, and no row names."""
    (tmp_path / "a.csv").write_text(f"k{mark}v{mark}w\na{mark}1,5{mark}2,5\n")
    for read in (sr.Schema.infer, lambda path: sr.from_rows(path, Meter, by="k")):
        with pytest.raises(sr.SourceError, match=r"got 3: .*pandas.read_csv\(sep='.*', decimal=','\)") as error:
            read(tmp_path / "a.csv")
        assert repr(mark) in str(error.value)
        assert "row names" not in str(error.value)
    (tmp_path / "a.tsv").write_text("k\tv\nrow 1\ta\t2\n")
    with pytest.raises(sr.SourceError, match="row names without a column name"):
        sr.from_rows(tmp_path / "a.tsv", Meter, by="k")


def test_a_header_of_another_encoding_is_told(tmp_path):
    """The error of a header in cp1252 advises an encoding, as that of a value does."""
    (tmp_path / "a.csv").write_bytes("k,Händler\na,1\n".encode("cp1252"))
    for read in (sr.Schema.infer, lambda path: sr.from_rows(path, Meter, by="k")):
        with pytest.raises(sr.SourceError, match=r"a.csv: header: expected UTF-8 \(see pandas.read_csv\(encoding="):
            read(tmp_path / "a.csv")


@sr.record
class Steps:
    key: str = sr.context(str, key=True)
    values: np.ndarray = sr.feature_list("int64")


@pytest.mark.parametrize(
    ("times", "text"),
    [
        (["11", "2", "10", "x", "9"], "steps.csv: order: .*'time' is text, such as 'x': .*; 11 is out of order"),
        (
            ["2.03.2026", "10.03.2026", "1.04.2026", "3.4.2026", "2/4/26"],
            "such as '1.04.2026': convert it",
        ),
    ],
)
def test_numbers_and_days_are_not_sorted_as_text(tmp_path, times, text):
    """An `order` column of text in which numbers or days would come in the order of text is refused, in any source."""
    rows = pd.DataFrame({"key": ["a"] * 5, "time": times, "values": range(5)})
    rows.to_csv(tmp_path / "steps.csv", index=False)
    with pytest.raises(sr.SourceError, match=text):
        list(sr.from_rows(tmp_path / "steps.csv", Steps, by="key", order="time", extra="ignore"))
    with pytest.raises(sr.SourceError, match="is text"):
        list(sr.from_rows(rows, Steps, by="key", order="time", extra="ignore"))
    days = rows.assign(time=[f"2026-03-{day:02}" for day in (5, 4, 3, 2, 1)])
    [record] = sr.from_rows(days, Steps, by="key", order="time", extra="ignore")
    assert record.values.tolist() == [4, 3, 2, 1, 0]


def test_zeros_of_a_group_in_a_csv_count(tmp_path):
    """A `by` column of a CSV that no field declares is text: 007 and 7 are two groups."""

    @sr.record
    class Plain:
        values: np.ndarray = sr.feature_list("int64")

    (tmp_path / "a.csv").write_text("run,time,values\n007,0,1\n7,0,2\n007,1,3\n7,1,4\n", encoding="utf-8")
    records = sr.from_rows(tmp_path / "a.csv", Plain, by="run", order="time")
    assert [record.values.tolist() for record in records] == [[1, 3], [2, 4]]
