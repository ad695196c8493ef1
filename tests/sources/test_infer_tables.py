"""Schemas inferred from tables: they hold the table, and say what is a guess."""

import datetime as dt
import decimal
import gzip
import io
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pasting import pasted

import seqrecorder as sr
from seqrecorder.codec.arrow import arrow_batch
from seqrecorder.writing.columns import given_columns

ROWS = [
    {
        "id": f"r{number}",
        "class": number % 2 == 0,
        "weight": None if number == 1 else 0.5,
        "note": None if number == 2 else "x",
        "pair": [1.0, 2.0],
        "ids": list(range(number)),
        "tags": ["a"] * number,
        "other": [b"b"],
        "frames": [[0.5, 1.5]] * number,
        "ragged": [[1] * i for i in range(number)],
        "at": dt.datetime(2024, 1, number + 1),  # noqa: DTZ001
    }
    for number in range(4)
]


def test_rows_are_records():
    """Lists are feature lists, what is missing is optional or NaN, and each guess has its comment."""
    table = pa.Table.from_pylist(ROWS)
    table = table.set_column(4, "pair", table["pair"].cast(pa.list_(pa.float64(), 2)))
    schema = sr.Schema.infer(table, name="Row")
    vector, other = "context with shape=(1,)?", "of other lengths than the first list"
    assert repr(schema).split("class Row:\n")[1].splitlines() == [
        '    id: str = sr.context("str", key=True)  # a guess: distinct in all 4 rows',
        "    field_class: bool = sr.context(\"bool\", name='class')",
        '    weight: float = sr.context("float64")  # 1 of 4 rows have none, which is NaN',
        '    note: str | None = sr.context("str", optional=True)  # 1 of 4 rows have none',
        '    pair: np.ndarray = sr.context("float64", shape=(2,))',
        '    ids: np.ndarray = sr.feature_list("int64")',
        '    tags: np.ndarray = sr.feature_list("str")',
        f'    other: np.ndarray = sr.feature_list("bytes", align=None)  # always 1 long: {vector}; {other}',
        '    frames: np.ndarray = sr.feature_list("float64", shape=(2,))  # steps always had 2 values: shape=(None,)?',
        '    ragged: list = sr.feature_list("int64", shape=(None,))',
        '    at: np.datetime64 = sr.context("datetime64[us]")',
    ]
    assert schema == sr.Schema.of(pasted(repr(schema))), "the text is a class of this schema"
    assert repr(pickle.loads(pickle.dumps(schema))) == repr(schema)  # noqa: S301 - our own
    records = list(sr.from_table(table, schema))
    assert [record.field_class for record in records] == [True, False, True, False]
    assert [step.tolist() for step in records[3].ragged] == [[], [1], [1, 1]]


def test_dictionaries_and_files_are_tables(tmp_path):
    """A list of dictionaries, and a file, give the same fields as their table."""
    rows = [{"k": 1, "x": [1.5]}, {"k": 1, "x": []}]
    (tmp_path / "x.jsonl").write_text('{"k": 1, "x": [1.5]}\n{"k": 1, "x": []}\n')
    expected = sr.Schema.infer(pa.Table.from_pylist(rows))
    assert sr.Schema.infer(rows) == expected == sr.Schema.infer(tmp_path / "x.jsonl")
    assert [field.kind for field in expected.fields] == ["context", "feature_list"]


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz", "directory"])
def test_numbers_with_leading_zeros_are_text(tmp_path, ending):
    """Codes of CSV files keep their zeros, with a comment; numbers and zeros alone stay numbers."""
    rows = ["postcode,ean,n,x,level", "01234,00012345678901234567890,0,0.5,-1", "99999,1,10,00.5,0", ",2,5,1,7"]
    text = "\n".join([*rows, ""])
    file = tmp_path / ("data/a.csv" if ending == "directory" else f"a.{ending}")
    file.parent.mkdir(exist_ok=True)
    with (gzip.open if ending.endswith("gz") else open)(file, "wt") as out:
        out.write(text.replace(",", "\t") if ending == "tsv" else text)
    source = file.parent if ending == "directory" else file
    schema = sr.Schema.infer(source)
    found = [(field.name, field.element.name, field.optional) for field in schema.fields]
    assert found[:2] == [("postcode", "str", True), ("ean", "str", False)]
    assert found[2:] == [("n", "int64", False), ("x", "float64", False), ("level", "int64", False)]
    lines = repr(schema).splitlines()
    assert ["leading zeros" in line for line in lines if "sr.context" in line] == [True, True, False, False, False]
    assert "1 of 3 rows have none" in next(line for line in lines if "postcode" in line)
    records = [(record.postcode, record.ean, record.n) for record in sr.from_table(source, schema)]
    assert records == [("01234", "00012345678901234567890", 0), ("99999", "1", 10), (None, "2", 5)]


def test_groups_of_codes_with_leading_zeros(tmp_path):
    """A column of `by` keeps its zeros as the key; one of steps, too."""
    (tmp_path / "a.csv").write_text("shop,code\n07,1\n07,02\n7,3\n")
    schema = sr.Schema.infer(tmp_path / "a.csv", by="shop")
    records = sr.from_rows(tmp_path / "a.csv", schema, by="shop")
    assert [(record.shop, record.code.tolist()) for record in records] == [("07", ["1", "02"]), ("7", ["3"])]


def test_dictionaries_of_arrays_are_records():
    """Arrays of several dimensions are feature lists with a shape, those of none are context."""
    rows = [{"frames": np.ones((size, 2), "float32"), "rate": np.array(8, "int16")} for size in (3, 5)]
    assert [(field.name, field.kind, field.element.name, field.shape) for field in sr.Schema.infer(rows).fields] == [
        ("frames", "feature_list", "float32", (2,)),
        ("rate", "context", "int16", ()),
    ]


def test_rows_are_steps(tmp_path):
    """What is constant in every group is context, with a comment; the column of `by` is the key."""
    table = pa.table(
        {
            "sensor": ["a", "b", "a", "b"],
            "site": [1, 2, 1, 2],
            "t": [0, 0, 1, 1],
            "x": [0.5, None, 1.5, 2.5],
            "n": [1, None, 3, 4],
            "xyz": [[1, 2, 3]] * 4,
        }
    )
    schema = sr.Schema.infer(table, by="sensor", order="t")
    assert [(field.name, field.kind, field.shape, field.key) for field in schema.fields] == [
        ("sensor", "context", (), True),
        ("site", "context", (), False),
        ("t", "feature_list", (), False),
        ("x", "feature_list", (), False),
        ("n", "feature_list", (), False),
        ("xyz", "feature_list", (3,), False),
    ]
    for said in ("the same in all rows of each group", "1 rows have none: fill them first", "shape=(None,)"):
        assert said in repr(schema)
    without = table.drop_columns(["n"])
    records = sr.from_rows(without, sr.Schema.infer(without, by="sensor", order="t"), by="sensor", order="t")
    assert [(record.sensor, record.site, record.t.tolist()) for record in records] == [
        ("a", 1, [0, 1]),
        ("b", 2, [0, 1]),
    ]
    assert sr.write(records, tmp_path / "d").records == 2


def test_what_cannot_be_declared_is_noted():
    """Columns of types that no field holds stand under the class with the reason."""
    table = pa.table({"x": [1], "d": [decimal.Decimal("1.5")], "s": [{"a": 1}], "n": pa.nulls(1), "deep": [[[[1]]]]})
    table = table.append_column("zoned", pa.array([0], pa.timestamp("s", "UTC")))
    table = table.append_column("", pa.array([0]))  # the index of a CSV file that pandas wrote
    text = repr(sr.Schema.infer(table))
    assert "# '' cannot be declared: field 'field_': name: expected nonempty text" in text
    for column in ("d", "s", "n"):
        assert f"# {column!r} cannot be declared: no field holds" in text
    assert "datetime64[s, UTC]" in text
    with pytest.raises(sr.OptionError, match="no column can be declared"):
        sr.Schema.infer(table.select(["d", "s"]))


def test_columns_of_one_name_are_refused(tmp_path):
    """Tables, streams and files with two columns of one name are an error that names it."""
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["xy", "xy"])
    (tmp_path / "twice.csv").write_text("xy,xy\n1,2\n")
    for source in (twice, twice.to_batches()[0], twice.to_reader(), twice.to_pandas(), tmp_path / "twice.csv"):
        with pytest.raises(sr.SourceError, match="xy"):
            sr.Schema.infer(source)


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        (pa.table({"x": [1]}), {"by": "y"}, "no column 'y'"),
        (pa.table({"x": [1]}), {"order": "x"}, "by="),
        (pa.table({"x": [1]}), {"key": "xx"}, "key: there is no column 'xx' \\(did you mean 'x'"),
        (pa.table({"x": pa.array([], pa.int64())}), {}, "no rows"),
        (3, {}, "expected a table"),
    ],
)
def test_what_says_nothing_is_refused(source, options, said):
    """Columns that are not there, and tables without rows, are refused."""
    with pytest.raises(sr.OptionError, match=said):
        sr.Schema.infer(source, **options)


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(st.data(), st.integers(1, 6))
def test_an_inferred_schema_takes_its_table(data, size):
    """Whatever the columns are, the schema that is inferred of them takes all rows."""
    values = {
        "i": st.integers(-(2**63), 2**63 - 1),
        "f": st.none() | st.floats(),
        "s": st.none() | st.text(st.characters(codec="utf-8")),
        "b": st.none() | st.booleans(),
        "li": st.lists(st.integers(0, 9)),
        "ls": st.lists(st.text(st.characters(codec="utf-8"), max_size=2)),
        "lf": st.none() | st.lists(st.none() | st.floats(width=32)),
        "ll": st.lists(st.lists(st.floats())),
    }
    kinds = {
        "i": pa.int64(), "f": pa.float64(), "s": pa.string(), "b": pa.bool_(), "li": pa.list_(pa.int8()),
        "ls": pa.list_(pa.large_string()), "lf": pa.list_(pa.float32()), "ll": pa.large_list(pa.list_(pa.float64())),
    }  # fmt: skip
    columns = {
        name: pa.array([data.draw(kind) for _ in range(size)], kinds[name])
        for name, kind in values.items()
        if data.draw(st.booleans())
    }
    columns["always"] = pa.array(np.arange(size))
    table = pa.table(columns)
    records = list(sr.from_table(table, sr.Schema.infer(table)))
    assert [record.always for record in records] == list(range(size))


LEAVES = {
    **{name: st.integers(0, 100) for name in ("int8", "uint16", "int64", "uint64")},
    **{name: st.integers(-9, 9).map(float) | st.just(float("nan")) for name in ("float32", "float64")},
    "string": st.text(max_size=3),
    "large_string": st.text(max_size=3),
    "binary": st.binary(max_size=3),
    "bool_": st.booleans(),
    "date32": st.integers(-9, 9),
}
NESTINGS = [
    (),
    ("list",),
    ("large",),
    ("of 2",),
    ("list", "large"),
    ("of 2", "list"),
    ("large", "list"),
    ("of 2", "of 2"),
]


@st.composite
def drawn_columns(draw):
    name, nesting = draw(st.sampled_from(list(LEAVES))), draw(st.sampled_from(NESTINGS))
    kind, values = getattr(pa, name)(), LEAVES[name]
    for nest in nesting:
        kind = {"list": pa.list_(kind), "large": pa.large_list(kind), "of 2": pa.list_(kind, 2)}[nest]
        values = st.lists(values, min_size=2 * (nest == "of 2"), max_size=2 if nest == "of 2" else 3)
    nulls = st.none() if nesting or "float" not in name else values  # of floats they are NaN
    return pa.array(draw(st.lists(values | nulls, min_size=1, max_size=5)), kind)


@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(drawn_columns())
def test_tables_come_back(array):
    """A column of any type that a field holds comes back as it was, through the class that is inferred for it."""
    table = pa.table({"x": array})
    schema = sr.Schema.infer(table)
    columns, _ = given_columns(schema, table)
    back = pa.table(arrow_batch(schema, columns))
    assert repr(back["x"].to_pylist()) == repr(array.to_pylist())


@pytest.mark.parametrize("rows", [[{"a": 10**20}], [{"a": 1}, {"a": "x"}], [{"a": 1}, {"a": [1]}]])
def test_dictionaries_that_no_table_holds_are_refused(rows):
    """Values of several types, or beyond 64 bits, are an error of ours that says so."""
    with pytest.raises(sr.SourceError, match="rows: a value is too large, or its type differs from "):
        sr.Schema.infer(rows)


@pytest.mark.parametrize("options", [{"by": "id"}, {"key": "id"}])
def test_a_key_of_floats_is_commented(options):
    """Pandas makes floats of integers with gaps: the draft has no key, and the comment says how to get one."""
    frame = pd.DataFrame({"id": [1, None, 2], "x": [0.5, 1.5, 2.5]}).dropna()
    field, other = sr.Schema.infer(frame, **options).fields
    assert (field.key, other.key) == (False, False)
    assert "# float64 cannot be a key: cast it by .astype('int64')" in repr(sr.Schema.infer(frame, **options))
    schema = sr.Schema.infer(frame.astype({"id": "int64"}), **options)
    assert schema["id"].key
    assert "cannot be a key" not in repr(schema)


@pytest.mark.parametrize("kind", ["file", "frame"])
def test_rows_without_a_group_are_named(tmp_path: Path, kind: str) -> None:
    """Where the column of `by` has empty cells, the draft ends with the error of `from_rows`."""
    text = "machine,time,temp\n1,0,2.5\n,1,1.0\n2,0,1.0\n"
    (tmp_path / "f.csv").write_text(text)
    source = tmp_path / "f.csv" if kind == "file" else pa.csv.read_csv(io.BytesIO(text.encode()))
    with pytest.raises(sr.SourceError, match="column 'machine': 1 row without a value, such as row 1: leave them out"):
        sr.Schema.infer(source, by="machine", order="time")


def test_empty_texts_name_no_group(tmp_path: Path) -> None:
    """An empty cell in a column of text is a missing value of `by`, in a CSV and in a frame."""
    (tmp_path / "f.csv").write_text("machine,time\na,1\n,1\nb,0\n")

    @sr.record
    class Series:
        machine: str = sr.context(str)
        time: np.ndarray = sr.feature_list("int64")

    for source in (tmp_path / "f.csv", pa.table({"machine": ["a", "", "b"], "time": [1, 1, 0]})):
        with pytest.raises(sr.SourceError, match="column 'machine': 1 row without a value, such as row 1: leave them"):
            list(sr.from_rows(source, Series, by="machine", order="time"))
