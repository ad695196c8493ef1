"""Columns of other libraries through the Arrow C interface: the same bytes as numpy's, and the same care."""

import datetime as dt
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqrecorder as sr
from seqrecorder.codec.columns import records_of
from seqrecorder.codec.encode import RecordEncoder
from seqrecorder.schema.schema import Schema
from seqrecorder.writing.columns import given_columns


@sr.record
class Everything:
    key: str = sr.context(str, key=True)
    blob: bytes = sr.context(bytes)
    label: int = sr.context("int32")
    flag: bool = sr.context("bool")
    day: np.datetime64 = sr.context("datetime64[ms]")
    pair: np.ndarray = sr.context("float32", shape=(2,))
    heads: np.ndarray = sr.context("int64", shape=(None,))
    ids: np.ndarray = sr.feature_list("int64")
    words: np.ndarray = sr.feature_list(str)
    frames: np.ndarray = sr.feature_list("float64", shape=(2, 1))
    ragged: list = sr.feature_list("uint16", shape=(None,))
    speaker: str | None = sr.context(str, optional=True, default=None)
    notes: np.ndarray | None = sr.feature_list("int8", optional=True, align="notes", default=None)


def everything(number):
    steps = number % 4
    return Everything(
        key=f"k{number}",
        blob=bytes([number, 255]),
        label=-number,
        flag=number % 2 == 0,
        day=np.datetime64(number, "ms"),
        pair=[number, 0.5],
        heads=range(number % 3),
        ids=np.arange(steps) * 2**60,
        words=[f"wörd{i}" for i in range(steps)],
        frames=np.full((steps, 2, 1), number / 3),
        ragged=[range(i) for i in range(steps)],
        speaker=None if number % 3 == 1 else f"s{number}",
        notes=None if number % 2 else [1] * (number % 5),
    )


RECORDS = [everything(number) for number in range(9)]
TYPES = {
    "key": pa.string(),
    "blob": pa.binary(),
    "label": pa.int32(),
    "flag": pa.bool_(),
    "day": pa.timestamp("ms"),
    "pair": pa.list_(pa.float32(), 2),
    "heads": pa.list_(pa.int64()),
    "ids": pa.list_(pa.int64()),
    "words": pa.list_(pa.string()),
    "frames": pa.list_(pa.list_(pa.list_(pa.float64(), 1), 2)),
    "ragged": pa.list_(pa.list_(pa.uint16())),
    "speaker": pa.string(),
    "notes": pa.list_(pa.int8()),
}


def plain(value):
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def table(records=RECORDS):
    return pa.table({n: pa.array([plain(getattr(r, n)) for r in records], kind) for n, kind in TYPES.items()})


class Foreign:
    """An array of some other library, of which nothing but the interface is known."""

    def __init__(self, array):
        self._array = array

    def __arrow_c_array__(self, requested_schema=None):
        return self._array.__arrow_c_array__(requested_schema)


class ForeignStream:
    """A table, or an array in chunks, of which nothing but the interface is known."""

    def __init__(self, stream):
        self._stream = stream

    def __arrow_c_stream__(self, requested_schema=None):
        return self._stream.__arrow_c_stream__(requested_schema)


def encoded(given):
    columns, size = given_columns(Schema.of(Everything), given)
    return list(RecordEncoder(Schema.of(Everything)).encode_columns(columns, size)[0])


WANTED = Schema.of(Everything).encode_batch(RECORDS)


def test_tables_give_the_bytes_of_records():
    """A table in one piece, in chunks, as a stream, or cut out of a larger one, is the records that it was made of."""
    whole = table()
    assert encoded(whole) == WANTED
    assert encoded(pa.concat_tables([table(RECORDS[:4]), table(RECORDS[4:5]), table(RECORDS[5:])])) == WANTED
    assert encoded(ForeignStream(whole)) == WANTED
    assert encoded(whole.combine_chunks().to_batches()[0]) == WANTED
    assert encoded(whole.slice(2, 5)) == WANTED[2:7]
    assert encoded(whole.slice(0, 0)) == []


def test_arrays_give_the_bytes_of_records():
    """A mapping may hold arrays of lists, flat arrays with lengths, and numpy's side by side, of any list and text."""
    columns = dict(zip(whole.column_names, whole.columns, strict=True)) if (whole := table()) else {}
    lists = {
        "ids": Foreign(columns["ids"].combine_chunks().cast(pa.large_list(pa.int64()))),
        "label": np.array([record.label for record in RECORDS]),
        "words": (
            # Not by a cast: pyarrow 18 crashes when it exports views that one made of short texts alone.
            Foreign(pa.array(columns["words"].combine_chunks().flatten().to_pylist(), pa.string_view())),
            Foreign(columns["words"].combine_chunks().value_lengths()),
        ),
        "speaker": ForeignStream(columns["speaker"].dictionary_encode()),
        "key": columns["key"].cast(pa.large_string()),
    }
    assert encoded({**columns, **lists}) == WANTED


@sr.record
class Texts:
    name: str = sr.context(str)
    words: np.ndarray | None = sr.feature_list(str, optional=True)
    raw: np.ndarray = sr.feature_list("bytes", align=None)


TEXT = st.text(max_size=4) | st.sampled_from(["", "a\0b", "é" * 61 + "x", "x" * 123, "x" * 124, "x" * 126, "y" * 300])


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(st.lists(st.tuples(TEXT, st.none() | st.lists(TEXT, max_size=4)), max_size=6), st.integers(0, 3), st.data())
def test_texts_of_buffers_are_those_of_objects(rows, start, data):
    """Texts that are encoded from Arrow's buffers, sliced and of categories too, have the bytes of records' texts."""
    wide = data.draw(st.booleans())
    text = pa.large_string() if wide else pa.string()
    words = pa.array([words for _, words in rows], pa.list_(text))
    names = pa.array([name for name, _ in rows], text)
    raw = pa.array(
        [[word.encode() for word in words or []] for _, words in rows],
        pa.large_list(pa.large_binary() if wide else pa.binary()),
    )
    if data.draw(st.booleans()):
        names = names.dictionary_encode()
    schema, start = Schema.of(Texts), min(start, len(rows))
    given = {"name": names[start:], "words": words[start:], "raw": raw[start:]}
    columns, size = given_columns(schema, pa.table(given))
    records = [Texts(name, words, [word.encode() for word in words or []]) for name, words in rows[start:]]
    made = list(RecordEncoder(schema).encode_columns(columns, size)[0])
    assert made == schema.encode_batch(records)
    assert schema.decode_batch(made) == records


def test_text_that_is_no_utf8_is_refused():
    """A library that gives other bytes as text is told so, with the field."""
    broken = pa.array([b"a", b"\xff"]).view(pa.string())
    with pytest.raises((sr.OptionError, sr.RecordError), match="name"):
        given_columns(Schema.of(Texts).select(["name"]), pa.table({"name": broken}))


def test_a_dataset_of_a_table(tmp_path):
    """`write_batch` takes a table, and what is read are its rows."""
    with sr.Writer(tmp_path / "d", Everything) as writer:
        writer.write_batch(table(RECORDS[:5]))
        writer.write_batch(table(RECORDS[5:]))
    assert list(sr.read_records(tmp_path / "d", schema=Everything)) == RECORDS


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("ids", pa.array([1, 2]), r"'ids': expected an array of lists, one list for each record, got int64"),
        ("ids", pa.array([[[1]], [[2]]]), r"'ids': expected numbers or text here, got list"),
        ("ids", pa.array([[1, None], [2]]), r"record 0.*ids\[1\]: expected int64 \(fill.*null"),
        (
            "ragged",
            pa.array([[[1], None], []], pa.list_(pa.list_(pa.uint16()))),
            r"record 0.*ragged\[1\]: expected a list, got None; pass \[\] for an empty one",
        ),
        (
            "pair",
            pa.array([[1.0], [1.0, 2.0]], pa.list_(pa.float32())),
            r"'pair': expected lists of 2 values.*one of 1",
        ),
        ("label", pa.array(["a", "b"]), r"label: expected int32, got str"),
        ("words", (pa.array(["a", None]), [1, 1]), r"record 1.*words\[0\]: expected str \(fill"),
        ("notes", pa.array([1, 2]), r"'notes': expected an array of lists"),
    ],
)
def test_arrays_that_do_not_fit(name, values, message):
    """An array that is nested otherwise, or has nulls where no None can be, is refused with the field's name."""
    given = dict(zip(TYPES, table(RECORDS[:2]).columns, strict=True))
    with pytest.raises((sr.OptionError, sr.RecordError), match=f"(?s){message}"):
        given_columns(Schema.of(Everything), {**given, name: values})


def test_nulls_of_fields_that_are_not_optional():
    """A null in a field that allows no None names the record."""
    given = {**dict(zip(TYPES, table(RECORDS[:3]).columns, strict=True)), "label": pa.array([1, 2, None], pa.int32())}
    with pytest.raises(sr.RecordError, match=r"(?s)record 2.*label.*optional=True"):
        given_columns(Schema.of(Everything), given)


def test_an_array_is_no_table():
    """One array instead of a table, and a column that no field has, are refused."""
    with pytest.raises(sr.OptionError, match="expected a table"):
        given_columns(Schema.of(Everything), pa.array([1, 2]))
    with pytest.raises(sr.OptionError, match="no field 'lable'.*did you mean 'label'"):
        given_columns(Schema.of(Everything), table().rename_columns(["lable" if n == "label" else n for n in TYPES]))


def test_without_pyarrow(monkeypatch):
    """Where pyarrow is missing, the error says what to install."""
    whole = table()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(sr.OptionError, match="pip install pyarrow"):
        given_columns(Schema.of(Everything), whole)


@sr.record
class Measured:
    key: str = sr.context(str, key=True)
    weight: float = sr.context("float32")
    guess: float | None = sr.context("float64", optional=True)
    pair: np.ndarray = sr.context("float32", shape=(2,))
    curve: np.ndarray = sr.feature_list("float64")
    spans: list = sr.feature_list("float16", shape=(None,))
    size: int = sr.context("int32", default=0)


NAN = float("nan")
MEASURED = {
    "key": ["a", "b"],
    "weight": [NAN, 0.5],
    "guess": [1.5, None],
    "pair": [[NAN, 1.0], [2.0, 3.0]],
    "curve": [[1.0, NAN], [NAN]],
    "spans": [[[NAN], []], [[0.5, NAN]]],
}


def measured(given):
    columns, _ = given_columns(Schema.of(Measured), given)
    return records_of(Schema.of(Measured), columns)


@pytest.mark.parametrize(
    "make",
    [
        pd.DataFrame,
        lambda columns: pd.DataFrame({**columns, "key": ["-", "b"]}).assign(key=columns["key"])[lambda d: d.key > ""],
        lambda columns: pl.DataFrame(columns, schema_overrides={"spans": pl.List(pl.List(pl.Float32))}),
        lambda columns: pa.table(pd.DataFrame(columns)),
        lambda columns: {name: pd.Series(column) for name, column in columns.items()},
    ],
)
def test_nan_of_data_frames(make):
    """NaN of floats stays NaN through frames whose NaN are nulls in Arrow; where None may be, a null is None."""
    records = measured(make(MEASURED))
    assert records[0] == Measured("a", NAN, 1.5, [NAN, 1], [1, NAN], [[NAN], []])
    assert records[1].guess is None or np.isnan(records[1].guess)  # polars tells NaN from null
    assert records[1] == Measured("b", 0.5, records[1].guess, [2, 3], [NAN], [[0.5, NAN]])


def test_rows_that_pandas_left_out():
    """The row numbers that pandas keeps when rows are left out are no column."""
    frame = pd.DataFrame(MEASURED)
    assert [record.key for record in measured(frame[frame.key == "b"])] == ["b"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": pa.array([1, None])}, r"record 1.*size: expected a value \(fill it"),
        ({"curve": pa.array([[1.0, 2.0], None])}, r"record 1.*curve: expected a value"),
        ({"curve": (pa.array([True, True, None]), [2, 1])}, r"record 1.*curve\[0\]: expected float64 \(fill it"),
        (
            {"pair": pa.array([[True, True], [True, None]])},
            r"record 1.*pair\[1\]: expected float32",
        ),
        ({"spans": pa.array([[[1.0]], [[2.0], None]])}, r"record 1.*spans\[1\]: expected a list"),
        ({"weight": pa.array([0.5, 0.1])}, r"record 1.*weight.*float32 holds exactly.*float64.*astype"),
        ({"weight": pa.array([2**60 + 1, None])}, r"'weight': Integer value"),
        ({"size": pd.Series([1.0, NAN])}, r"'size'.*int32.*float64.*astype"),
        ({"weight": pa.array([{"a": 1}])}, r"'weight': expected numbers or text"),
        ({"other": pa.array([1, 2])}, r"no field 'other'.*its fields are key, weight"),
    ],
)
def test_columns_that_do_not_fit(change, message):
    """What is no value of its field is refused with the field, the record, the place in it and what to do."""
    with pytest.raises((sr.OptionError, sr.RecordError), match=f"(?s){message}"):
        measured({**{name: pa.array(column) for name, column in MEASURED.items()}, **change})


@sr.record
class Book:
    title: str = sr.context(str)
    genres: np.ndarray = sr.feature_list(str)


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["x", "y"]), "dictionary", "category"])
def test_categories_are_their_texts(kind):
    """Categories of polars, pandas and Arrow are the texts that they stand for, alone and inside of lists."""
    if kind == "dictionary":
        texts = pa.array(["x", "y", "x"]).dictionary_encode()
        given = {"title": texts, "genres": (texts, [1, 0, 2])}
    elif kind == "category":
        texts = pd.Series(["x", "y", "x"]).astype("category")
        given = {"title": texts, "genres": (texts, [1, 0, 2])}
    else:
        given = pl.DataFrame(
            {"title": ["x", "y", "x"], "genres": [["x"], [], ["y", "x"]]},
            schema={"title": kind, "genres": pl.List(kind)},
        )
    columns, _ = given_columns(Schema.of(Book), given)
    assert columns["title"].values.tolist() == ["x", "y", "x"]
    assert columns["genres"].steps.tolist() == [1, 0, 2]
    assert columns["genres"].values.tolist() == ["x", "y", "x"]


ZONED = dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1)))


@sr.record
class Timed:
    at: np.datetime64 = sr.context("datetime64[s]", optional=True, default=None)
    times: np.ndarray = sr.feature_list("datetime64[s]", optional=True, default=None)


@pytest.mark.parametrize(
    "given",
    [
        {"at": pa.array([ZONED])},
        {"at": pa.array([ZONED]).dictionary_encode()},
        {"at": pl.Series([ZONED])},
        {"at": pd.Series([ZONED])},
        {"at": pd.DatetimeIndex([ZONED])},
        {"at": pd.Series([ZONED], dtype=object)},
        {"at": [ZONED]},
        pa.table({"at": [ZONED]}),
        pd.DataFrame({"at": [ZONED]}),
        pl.DataFrame({"at": [ZONED]}),
        pa.table({"times": [[ZONED]]}),
        pd.DataFrame({"times": [[ZONED]]}),
        pl.DataFrame({"times": [[ZONED]]}),
        {"times": (pa.array([ZONED]), [1])},
        {"times": (pl.Series([ZONED]), [1])},
        {"times": ([ZONED], [1])},
    ],
)
def test_times_with_a_zone_are_refused(given):
    """A time with a zone is refused in columns as in objects, whatever library it comes from, and never moved."""
    with pytest.raises(sr.SeqrecorderError, match="without a time zone.*drop the zone"):
        given_columns(Schema.of(Timed), given)


@sr.record
class Moment:
    at: np.datetime64 = sr.context("datetime64[s, UTC]", optional=True, default=None)


@pytest.mark.parametrize("record_class", [Timed, Moment])
@pytest.mark.parametrize("times", [[ZONED, ZONED.replace(tzinfo=None)], [ZONED.replace(tzinfo=None), pd.NaT, ZONED]])
def test_columns_with_and_without_a_zone_are_refused(record_class, times):
    """Arrow would take the zone of the first time for all of them."""
    column = pd.Series(times, dtype=object)
    in_arrow = rf"'at', row {len(times) - 1}: expected a zone in all times or in none"
    # Before pandas 3, a series has no Arrow interface, and its values are checked one by one.
    one_by_one = in_arrow if hasattr(column, "__arrow_c_stream__") else "cannot be encoded\n.*without a (time )?zone"
    for columns, text in (({"at": column}, one_by_one), (pd.DataFrame({"at": column}), in_arrow)):
        with pytest.raises(sr.SeqrecorderError, match=text):
            given_columns(Schema.of(record_class), columns)


def test_times_without_a_zone_are_taken():
    """Times without a zone are stored as they are, from every library."""
    plain = ZONED.replace(tzinfo=None)
    for make in (pa.table, pd.DataFrame, pl.DataFrame):
        columns, _ = given_columns(Schema.of(Timed), make({"at": [plain], "times": [[plain, plain]]}))
        assert columns["at"].values.tolist() == [plain]
        assert columns["times"].values.tolist() == [plain] * 2
