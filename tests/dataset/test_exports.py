"""What selections become elsewhere, and back: the same records, and refusals by name."""

import json

import attrs
import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import CASES, declarations
from strategies import records_of as drawn_records

import seqrecorder as sr
from seqrecorder.codec.arrow import arrow_batch
from seqrecorder.codec.columns import gather, records_of
from seqrecorder.codec.decode import RecordDecoder
from seqrecorder.dataset.record_store import Rows
from seqrecorder.dataset.selection import Selection
from seqrecorder.wire.byte_rows import Messages


@sr.record
class Everything:
    key: str = sr.context(str, key=True)
    rank: int | None = sr.context("int16", optional=True)
    score: float = sr.context("float32")
    pair: np.ndarray = sr.context("float64", shape=(2,))
    times: np.ndarray = sr.feature_list("datetime64[us]")
    steps: np.ndarray = sr.feature_list("float16", shape=(2,))
    ragged: list = sr.feature_list("uint8", shape=(None,))
    flags: np.ndarray | None = sr.feature_list("bool", optional=True)
    bag: sr.SparseVector = sr.context("float32", sparse=9)
    bags: list = sr.feature_list(str, sparse=5)


def everything(number):
    steps = number % 4
    return Everything(
        f"kö{number}",
        None if number % 3 else -number,
        float("nan") if number % 5 == 2 else number / 4,
        [number, 0.1],
        [np.datetime64(number * 10**6 + i, "us") for i in range(steps)],
        np.full((steps, 2), number / 8),
        [range(i) for i in range(steps)],
        None if number % 4 == 1 else [True] * steps,
        {number % 9: 0.5} if number % 2 else {},
        [{i: "x"} for i in range(steps)],
    )


RECORDS = [everything(number) for number in range(23)]


class InMemory(Rows):
    """Records that come in columns, without files."""

    schema = None

    def __init__(self, records, size):
        self.records, self.size = records, size
        self.schema = sr.Schema.of(type(records[0]))

    def columns(self, fields=None, *, joined=False):
        schema = self.schema if fields is None else self.schema.select(fields)
        if joined:
            yield from self.joined_columns(schema)
            return
        for start in range(0, len(self.records), self.size):
            columns = gather(self.schema, self.records[start : start + self.size])
            yield {field.name: columns[field.name] for field in schema.fields}

    def joined_columns(self, schema):
        decoder = RecordDecoder(schema, joined=True)
        for start in range(0, len(self.records), self.size):
            data = self.schema.encode_batch(self.records[start : start + self.size])
            yield decoder.decode_columns(Messages.of(data))


def in_memory(records, size=5):
    """Select records without files."""
    return Selection(InMemory(records, size))


SELECTION = in_memory(RECORDS)
WAYS = {
    "to_arrow": lambda s, _: s.to_arrow(),
    "to_pandas": lambda s, _: s.to_pandas(),
    "to_polars": lambda s, _: s.to_polars(),
    "to_hf": lambda s, _: s.to_hf(),
    "to_parquet": lambda s, path: (s.to_parquet(path / "x.parquet", compression="zstd"), path / "x.parquet")[1],
}


@pytest.mark.parametrize("way", WAYS)
def test_tables_come_back(way, tmp_path):
    """What a selection becomes in each library and in Parquet is taken back as the same records."""
    table = WAYS[way](SELECTION, tmp_path)
    kinds = {
        "to_pandas": pd.DataFrame,
        "to_polars": pl.DataFrame,
        "to_hf": datasets.Dataset,
        "to_arrow": pa.RecordBatchReader,
    }
    assert isinstance(table, kinds.get(way, object))
    assert list(sr.from_table(table, Everything)) == RECORDS


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "jsonl.bz2", "jsonl.xz", "jsonl.zst"])
def test_lines_of_json_come_back(ending, tmp_path):
    """JSON lines hold NaN as null, times as texts and sparse fields as two keys, packed as the name says."""
    SELECTION.to_jsonl(tmp_path / f"x.{ending}")
    assert list(sr.from_jsonl(tmp_path / f"x.{ending}", Everything)) == RECORDS
    assert [path.name for path in tmp_path.iterdir()] == [f"x.{ending}"]


def test_arrays_come_back():
    """`to_columns` gives each field whole: flat values, lengths and presence."""
    columns = SELECTION.to_columns()
    assert records_of(SELECTION.schema, columns) == RECORDS
    assert columns["times"].steps.tolist() == [number % 4 for number in range(23)]


def test_a_selection_of_a_dataset_has_them(tmp_path):
    """A selection in whatever order goes out in that order, with the fields that are asked for, also if it is empty."""
    sr.write(RECORDS, tmp_path / "d", shards=3)
    train = sr.open(tmp_path / "d", schema=Everything)["train"]
    assert list(sr.from_table(train[::-2].to_arrow(), Everything)) == RECORDS[::-2]
    assert train.to_polars(["score", "key"]).columns == ["key", "score"]
    assert train[:0].to_arrow().read_all().num_rows == 0
    assert records_of(train.schema, train[:0].to_columns()) == []
    train[2:4].to_jsonl(tmp_path / "x.jsonl", ["key", "rank"])
    assert [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()] == [
        {"key": "kö2", "rank": None},
        {"key": "kö3", "rank": -3},
    ]
    with pytest.raises(sr.SchemaError, match="kay"):
        train.to_arrow(["kay"])


@pytest.mark.parametrize("dtype", ["bytes", "complex64", "timedelta64[s]"])
def test_what_json_lacks_is_refused_by_name(dtype, tmp_path):
    """A field that JSON cannot hold is named before anything is written."""

    @sr.record
    class Lacking:
        signal: np.ndarray = sr.feature_list(dtype)

    (tmp_path / "x.jsonl").write_text("old")
    with pytest.raises(sr.OptionError, match="field 'signal': JSON holds no"):
        in_memory([Lacking([])]).to_jsonl(tmp_path / "x.jsonl")
    assert (tmp_path / "x.jsonl").read_text() == "old"


def test_a_failure_leaves_the_old_file(tmp_path):
    """What cannot be written to its end does not replace what was there."""

    @sr.record
    class Number:
        x: float = sr.context("float64")

    (tmp_path / "x.jsonl").write_text("old")
    with pytest.raises(sr.OptionError, match="field 'x': JSON holds no infinity"):
        in_memory([Number(1.0)] * 6 + [Number(float("inf"))]).to_jsonl(tmp_path / "x.jsonl")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_libraries_that_are_missing_are_named(monkeypatch):
    """What is not installed is said with how to install it."""
    monkeypatch.setitem(__import__("sys").modules, "polars", None)
    with pytest.raises(sr.OptionError, match="pip install polars"):
        SELECTION.to_polars()


def exported_class(dtype):
    """Return a class with every kind, shape and presence of an element type, in the storage of its own."""
    fields = {name: field for name, field in declarations(dtype) if "auto" in name}
    return attrs.make_class("Exported", {"key": sr.context(str, key=True), **fields})


HELD = {name: exported_class(name) for name in CASES if not name.startswith("complex")}


def go_everywhere_and_back(dtype, seed, path):
    """Have records of a type go everywhere and back."""
    schema, values, random = sr.Schema.of(HELD[dtype]), CASES[dtype].valid, np.random.default_rng(seed)
    plain = values
    if values.dtype.kind in "mM":
        values = values[~np.isnat(values)]  # days hold none in Arrow, and pandas gives nulls back
        plain = values
    elif values.dtype.kind not in "Obiu":
        with np.errstate(invalid="ignore"):  # NaN that signals
            plain = values[np.isfinite(values.astype(np.float64))]  # in JSON; pandas keeps no bits of NaN
    for way, give in (WAYS | {"to_jsonl": in_jsonl}).items():
        if way == "to_jsonl" and (dtype == "bytes" or values.dtype.kind == "m"):
            continue  # refused by name
        of = plain if way in ("to_jsonl", "to_pandas") else values
        records = drawn_records(HELD[dtype], of, random.integers(0, 4, 3).tolist(), random, 0.3)
        selection = in_memory(records, 2)
        given = give(selection, path)
        back = sr.from_jsonl(given, HELD[dtype]) if way == "to_jsonl" else sr.from_table(given, HELD[dtype])
        assert list(back) == records, way
        assert records_of(schema, selection.to_columns()) == records


def in_jsonl(selection, path):
    selection.to_jsonl(path / "x.jsonl")
    return path / "x.jsonl"


@pytest.mark.parametrize("examples", [1, pytest.param(40, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("dtype", HELD)
def test_every_type_comes_back_to_the_bit(dtype, examples, tmp_path):
    """Every kind, shape and presence of an element type comes back from each library and file, to the bit."""

    @settings(max_examples=examples, deadline=None, derandomize=True, database=None)
    @given(seed=st.integers(0, 2**32 - 1))
    def check(seed):
        go_everywhere_and_back(dtype, seed, tmp_path)

    check()


SINKS = {
    "arrow": lambda records, _: records.to_arrow().read_all(),
    "polars": lambda records, _: records.to_polars(),
    "pandas": lambda records, _: records.to_pandas(),
    "hf": lambda records, _: records.to_hf(),
    "parquet": lambda records, path: records.to_parquet(path / "x.parquet") or str(path / "x.parquet"),
}


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("unit", ["D", "s", "ms", "us", "ns"])
def test_nat_is_null_there_and_nat_again_here(unit, sink, tmp_path):
    """NaT leaves as a null, whatever the field, unit and sink, and nulls of times come in as NaT."""
    fields = {}
    for kind in ["datetime64"] + ["timedelta64"] * (unit != "D"):
        fields |= {
            f"{kind}_one": sr.context(f"{kind}[{unit}]"),
            f"{kind}_some": sr.context(f"{kind}[{unit}]", shape=(None,)),
            f"{kind}_steps": sr.feature_list(f"{kind}[{unit}]"),
            f"{kind}_ragged": sr.feature_list(f"{kind}[{unit}]", shape=(None,)),
        }
    record_class = attrs.make_class("Times", fields, kw_only=True)

    def record(*numbers):
        values = {}
        for name in fields:
            times = np.array(numbers, "int64").view(f"{'M8' if name.startswith('d') else 'm8'}[{unit}]")
            times[-1] = np.array("NaT", times.dtype)
            values[name] = (
                times[-1] if name.endswith("one") else [times, times[:1]] if name.endswith("ragged") else times
            )
            if name.endswith("steps"):
                values[name] = times[:2]
        return record_class(**values)

    records = [record(86_400, 5 * 10**3, 0), record(0, 1)]
    table = SINKS[sink](in_memory(records, 1), tmp_path)
    assert list(sr.from_table(table, record_class)) == records
    if sink == "arrow":
        assert all(table[name].null_count for name in fields if name.endswith("one"))
    nothing = pa.table({name: pa.nulls(2) for name in fields if name.endswith("one")})
    ones = attrs.make_class("Ones", {name: field for name, field in fields.items() if name.endswith("one")})
    for made in sr.from_table(nothing, ones):
        assert all(np.isnat(getattr(made, name)) for name in fields if name.endswith("one"))


def test_nat_is_null_in_json_too(tmp_path):
    """Whatever the field of times, and the other way round: NaT is null, and null is NaT."""

    @sr.record
    class Times:
        one: np.datetime64 = sr.context("datetime64[ms]")
        steps: np.ndarray = sr.feature_list("datetime64[s]")
        ragged: list = sr.feature_list("datetime64[D]", shape=(None,))

    nothing = np.datetime64("NaT", "D")
    records = [Times(nothing, [nothing, np.datetime64(5, "s")], [[nothing], []])]
    in_memory(records).to_jsonl(tmp_path / "x.jsonl")
    assert json.loads((tmp_path / "x.jsonl").read_text()) == {
        "one": None, "steps": [None, "1970-01-01T00:00:05"], "ragged": [[None], []],
    }  # fmt: skip
    assert list(sr.from_jsonl(tmp_path / "x.jsonl", Times)) == records


@pytest.mark.parametrize("sink", ["polars", "parquet"])
def test_seconds_without_milliseconds_are_refused(sink, tmp_path):
    """What would wrap where seconds become milliseconds is refused by the field's name."""

    @sr.record
    class Far:
        far: np.ndarray = sr.feature_list("datetime64[s]")

    @sr.record
    class Day:
        day: np.datetime64 = sr.context("datetime64[D]")

    with pytest.raises(sr.OptionError, match="pandas has the days of Python, .* 'day'"):
        in_memory([Day(np.datetime64(10**8, "D"))]).to_pandas()
    with pytest.raises(sr.OptionError, match="field 'far': expected times that can be counted in milliseconds"):
        SINKS[sink](in_memory([Far(np.array([2**62], "M8[s]"))]), tmp_path)


def test_damaged_parquet_is_refused(tmp_path):
    """A changed byte of what `to_parquet` wrote is an error, or in what says nothing of the values."""

    @sr.record
    class Row:
        x: np.ndarray = sr.feature_list("int64")

    records = [Row(np.arange(number, number + 9) ** 5) for number in range(40)]
    path = tmp_path / "x.parquet"
    in_memory(records).to_parquet(path, compression="none")
    whole, refused = path.read_bytes(), 0
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        try:
            assert list(sr.from_table(str(path), Row)) == records, place
        except (sr.SourceError, sr.OptionError):
            refused += 1
    assert refused > len(whole) // 14


@pytest.mark.parametrize("numbers", [[2**64 - 1, None, 3], [None, 2**63], [2**64]])
def test_large_integers_of_pandas_come_in(numbers):
    """Objects of pandas that are ints beyond int64 are uint64, and larger ones an error that names the column."""

    @sr.record
    class Row:
        u: int | None = sr.context("uint64", optional=True, default=None)

    frame = pd.DataFrame({"u": pd.Series(numbers, dtype=object)})
    if numbers == [2**64]:
        with pytest.raises(sr.SourceError, match="column 'u'"):
            list(sr.from_table(frame, Row))
        return
    assert [None if row.u is None else int(row.u) for row in sr.from_table(frame, Row)] == numbers


@pytest.mark.parametrize(
    ("dtype", "nothing"), [("float32", float("nan")), ("datetime64[s]", np.datetime64("NaT", "s"))]
)
def test_nothing_is_told_from_none(dtype, nothing, tmp_path):
    """An optional NaN would come back from a data frame as None, and an optional NaT from any sink: it is refused."""

    @sr.record
    class Maybe:
        score: object = sr.context(dtype, optional=True)

    assert len(in_memory([Maybe(None)]).to_pandas()) == 1
    with pytest.raises(sr.OptionError, match="field 'score': (pandas cannot tell|Arrow has one null)"):
        in_memory([Maybe(None), Maybe(nothing)]).to_pandas()
    with pytest.raises(sr.OptionError, match="field 'score': JSON has one null"):
        in_memory([Maybe(None), Maybe(nothing)]).to_jsonl(tmp_path / "x.jsonl")


def test_vectors_that_may_be_missing_are_in_every_parquet(tmp_path):
    """They are lists of any size, since not every pyarrow reads those of one size that are null, and come back."""

    @sr.record
    class Maybe:
        pair: np.ndarray | None = sr.context("float64", shape=(2,), optional=True)
        square: np.ndarray | None = sr.context("int8", shape=(2, 1), optional=True)

    records = [Maybe([1, 2], None), Maybe(None, [[3], [4]]), Maybe(None, None), Maybe([5, 6], [[7], [8]])]
    in_memory(records, 3).to_parquet(tmp_path / "x.parquet")
    assert list(sr.from_table(tmp_path / "x.parquet", Maybe)) == records


@pytest.mark.parametrize("steps", [[b"\xc3", b"\xa9"], [b"a", b"\xff"], [b"\xed\xa0\x80"]])
def test_bytes_that_are_no_text_are_refused_on_the_way_out(steps):
    """Texts go out without a look at each, and one that is no UTF-8 is an error, also where all together are."""

    @sr.record
    class Stored:
        words: np.ndarray = sr.feature_list(bytes)

    @sr.record
    class Asked:
        words: np.ndarray = sr.feature_list(str)

    data = sr.Schema.of(Stored).encode_batch([Stored([b"", b"\0", "é".encode()]), Stored(steps)])
    decoder = RecordDecoder(sr.Schema.of(Asked), joined=True)
    good = decoder.decode_columns(Messages.of(data[:1]))
    assert arrow_batch(sr.Schema.of(Asked), good).to_pydict() == {"words": [["", "\0", "é"]]}
    with pytest.raises(sr.RecordError, match="UTF-8") as caught:
        decoder.decode_columns(Messages.of(data))
    assert caught.value.position == 1
