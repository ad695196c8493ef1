"""What selections become elsewhere, and back: the same records, and refusals by name."""

import json

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import seqrecorder as sr
from seqrecorder.codec.columns import gather
from seqrecorder.codec.construct import records_of
from seqrecorder.dataset.exports import Exports


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

    def __init__(self, records, size=5):
        self.records, self.size = records, size
        self.schema = sr.Schema.of(type(records[0]))

    def columns(self, fields=None):
        schema = self.schema if fields is None else self.schema.select(fields)
        for start in range(0, len(self.records), self.size):
            columns = gather(self.schema, self.records[start : start + self.size])
            yield {field.name: columns[field.name] for field in schema.fields}


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
