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
from seqrecorder.dataset.subsets import Exports
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


class InMemory(Exports):
    """Records that come in columns, without files."""

    schema = at = None

    def __init__(self, records, size=5):
        self.records, self.size = records, size
        self.schema = sr.Schema.of(type(records[0]))

    def columns(self, fields=None):
        schema = self.schema if fields is None else self.schema.select(fields)
        for start in range(0, len(self.records), self.size):
            columns = gather(self.schema, self.records[start : start + self.size])
            yield {field.name: columns[field.name] for field in schema.fields}

    def joined_columns(self, fields=None):
        schema = self.schema if fields is None else self.schema.select(fields)
        decoder = RecordDecoder(schema, joined=True)
        for start in range(0, len(self.records), self.size):
            data = self.schema.encode_batch(self.records[start : start + self.size])
            yield decoder.decode_columns(Messages.of(data))


SELECTION = InMemory(RECORDS)
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
        InMemory([Lacking([])]).to_jsonl(tmp_path / "x.jsonl")
    assert (tmp_path / "x.jsonl").read_text() == "old"


def test_a_failure_leaves_the_old_file(tmp_path):
    """What cannot be written to its end does not replace what was there."""

    @sr.record
    class Number:
        x: float = sr.context("float64")

    (tmp_path / "x.jsonl").write_text("old")
    with pytest.raises(sr.OptionError, match="field 'x': JSON holds no infinity"):
        InMemory([Number(1.0)] * 6 + [Number(float("inf"))]).to_jsonl(tmp_path / "x.jsonl")
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
        selection = InMemory(records, 2)
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


@pytest.mark.parametrize(
    ("dtype", "nothing"), [("float32", float("nan")), ("datetime64[s]", np.datetime64("NaT", "s"))]
)
def test_pandas_cannot_tell_nothing_from_none(dtype, nothing):
    """An optional NaN or NaT would come back from a data frame as None: it is refused by name."""

    @sr.record
    class Maybe:
        score: object = sr.context(dtype, optional=True)

    assert len(InMemory([Maybe(None)]).to_pandas()) == 1
    with pytest.raises(sr.OptionError, match="field 'score': pandas cannot tell"):
        InMemory([Maybe(None), Maybe(nothing)]).to_pandas()


def test_vectors_that_may_be_missing_are_in_every_parquet(tmp_path):
    """They are lists of any size, since not every pyarrow reads those of one size that are null, and come back."""

    @sr.record
    class Maybe:
        pair: np.ndarray | None = sr.context("float64", shape=(2,), optional=True)
        square: np.ndarray | None = sr.context("int8", shape=(2, 1), optional=True)

    records = [Maybe([1, 2], None), Maybe(None, [[3], [4]]), Maybe(None, None), Maybe([5, 6], [[7], [8]])]
    InMemory(records, 3).to_parquet(tmp_path / "x.parquet")
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
