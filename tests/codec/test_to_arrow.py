"""Columns as tables of pyarrow and back: the same bits, for every element type that Arrow has."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from strategies import CASES, class_of, records_of

import seqrecorder as sr
from seqrecorder.codec import columns as construct
from seqrecorder.codec.arrow import arrow_batch, arrow_schema
from seqrecorder.codec.columns import gather
from seqrecorder.schema.schema import Schema
from seqrecorder.writing.columns import given_columns

HELD = [name for name in CASES if not name.startswith("complex")]
CLASSES = {name: class_of(name) for name in HELD}


def there_and_back(schema, records, way=lambda batch: batch):
    batch = arrow_batch(schema, gather(schema, records))
    return construct.records_of(schema, given_columns(schema, pa.table(way(pa.table(batch))))[0])


def in_parquet(table):
    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink)
    return parquet.read_table(pa.BufferReader(sink.getvalue()))


def parquet_holds_missing_vectors():
    """Whether pyarrow reads what it wrote of lists of one size that may be null: the lowest versions do not."""
    try:
        return in_parquet(pa.table({"x": pa.array([[1, 2], None], pa.list_(pa.int64(), 2))})).num_rows == 2
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False


ABSENT = 0.3 if parquet_holds_missing_vectors() else 0.0


@pytest.mark.parametrize("dtype", HELD)
@settings(max_examples=8, deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_records_come_back_to_the_bit(dtype, seed):
    """Every kind, shape and presence of an element type goes to Arrow, to Parquet and back, with its NaN payloads."""
    schema = Schema.of(CLASSES[dtype])
    values = CASES[dtype].valid
    if dtype == "datetime64[D]":
        values = values[~np.isnat(values)]
    random = np.random.default_rng(seed)
    records = records_of(CLASSES[dtype], values, random.integers(0, 5, seed % 6).tolist(), random)
    assert there_and_back(schema, records) == records
    if seed % 4 == 0:
        records = records_of(CLASSES[dtype], values, [3, 0, 2], random, ABSENT)
        assert there_and_back(schema, records, in_parquet) == records


@sr.record
class Bags:
    bag: sr.SparseVector = sr.context("float32", sparse=9)
    bags: list | None = sr.feature_list("int64", sparse=5, optional=True, default=None)


@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(st.lists(st.tuples(st.sets(st.integers(0, 8)), st.none() | st.lists(st.sets(st.integers(0, 4)), max_size=3))))
def test_sparse_fields_are_two_columns(drawn):
    """The indices and the values of sparse fields are columns of their own, and one field again on the way back."""
    records = [
        Bags(dict.fromkeys(bag, 0.5), None if bags is None else [dict.fromkeys(step, 7) for step in bags])
        for bag, bags in drawn
    ]
    schema = Schema.of(Bags)
    assert arrow_schema(schema).names == ["bag/indices", "bag/values", "bags/indices", "bags/values"]
    assert there_and_back(schema, records) == records


@pytest.mark.parametrize(
    ("indices", "values", "said"),
    [
        ([[0, 9]], [[1.0, 2.0]], r"bag\[1\]: expected indices in \[0, 9\), ascending, got 9"),
        ([[3], [4, 4]], [[1.0], [2.0, 3.0]], r"record 1.*\n.*bag\[1\]: .*ascending, got 4"),
        ([[-1]], [[1.0]], "got -1"),
        ([[1, 2]], [[1.0]], "as many indices as values"),
    ],
)
def test_bad_indices_are_refused(indices, values, said):
    """An index that is out of range, doubled or out of order is named with its place."""
    table = pa.table({"bag/indices": indices, "bag/values": pa.array(values, pa.list_(pa.float32()))})
    with pytest.raises(sr.SeqrecorderError, match=said):
        given_columns(Schema.of(Bags), table)


@pytest.mark.parametrize("dtype", ["complex64", "complex128", "datetime64[h]", "timedelta64[D]"])
def test_what_arrow_lacks_is_refused_by_name(dtype):
    """An element type without one in Arrow is refused with the name of its field."""

    @sr.record
    class Lacking:
        signal: np.ndarray = sr.feature_list(dtype)

    with pytest.raises(sr.OptionError, match=r"field 'signal': Arrow has no type for"):
        arrow_schema(Schema.of(Lacking))


def test_days_beyond_arrows_are_refused():
    """Arrow's days have 32 bits: NaT, and days further away, are refused."""

    @sr.record
    class Day:
        day: np.datetime64 = sr.context("datetime64[D]")

    with pytest.raises(sr.OptionError, match="NaT"):
        there_and_back(Schema.of(Day), [Day(np.datetime64("NaT", "D"))])


@sr.record
class Moment:
    at: np.datetime64 = sr.context("datetime64[us, UTC]")
    times: np.ndarray = sr.feature_list("datetime64[ns, UTC]")


MOMENTS = [Moment(np.datetime64(5, "us"), np.array([7, -1], "datetime64[ns]"))]


def test_times_of_utc_have_their_zone_in_arrow():
    """A field of UTC is a column with that zone, takes any other as the same moments, and none without a zone."""
    schema = Schema.of(Moment)
    assert arrow_schema(schema).types[0] == pa.timestamp("us", "UTC")
    assert there_and_back(schema, MOMENTS) == MOMENTS
    zoned = pa.table({"at": pa.array([5], pa.timestamp("us", "Asia/Tokyo")), "times": pa.array([[7, -1]])})
    kind = pa.list_(pa.timestamp("ns", "+01:00"))
    columns, _ = given_columns(schema, zoned.set_column(1, "times", zoned["times"].cast(kind)))
    assert construct.records_of(schema, columns) == MOMENTS
    plain = pa.table({"at": pa.array([5], pa.timestamp("us")), "times": pa.array([[]], pa.list_(pa.timestamp("ns")))})
    with pytest.raises(sr.OptionError, match="'at': expected .* \\(with a time zone\\), got timestamp"):
        given_columns(schema, plain)
