"""Columns that a caller gives: the same bytes as records, and the same checks."""

import attrs
import numpy as np
import pytest

import seqrecorder as sr
from seqrecorder.codec.columns import Column, gather
from seqrecorder.codec.encode import PIECE_BYTES, cut
from seqrecorder.schema.schema import Schema
from seqrecorder.writing.columns import given_columns


@sr.record
class Mixed:
    key: str = sr.context(str, key=True)
    label: int = sr.context("int32")
    pair: np.ndarray = sr.context("float32", shape=(2,))
    heads: np.ndarray = sr.context("int64", shape=(None,))
    ids: np.ndarray = sr.feature_list("int64")
    words: np.ndarray = sr.feature_list(str)
    frames: np.ndarray = sr.feature_list("float64", shape=(2,))
    ragged: list = sr.feature_list("uint16", shape=(None,))
    speaker: str | None = sr.context(str, optional=True, default=None)
    bag: sr.SparseVector | None = sr.context("float32", sparse=9, optional=True, default=None)
    rate: int = sr.context("int32", default=16_000)


def mixed(number):
    steps = number % 5
    return Mixed(
        key=f"k{number}",
        label=number,
        pair=[number, -number],
        heads=range(number % 3),
        ids=np.arange(steps) * 1000 ** (number % 6),
        words=[f"wörd{i}" for i in range(steps)],
        frames=np.full((steps, 2), number / 3),
        ragged=[range(i) for i in range(steps)],
        speaker=None if number % 4 == 1 else f"s{number}",
        bag={number % 9: 0.5} if number % 3 else None,
        rate=16_000,
    )


RECORDS = [mixed(number) for number in range(7)]


def columns_of(records):
    """Return what a script would have: flat values and lengths."""
    gathered = gather(Schema.of(Mixed), records)
    return {
        "key": [record.key for record in records],
        "label": np.array([record.label for record in records]),
        "pair": gathered["pair"].values,
        "heads": (gathered["heads"].values, gathered["heads"].counts),
        "ids": (gathered["ids"].values, gathered["ids"].steps),
        "words": (np.array(gathered["words"].values, str), gathered["words"].steps.astype("int32")),
        "frames": (gathered["frames"].values, gathered["frames"].steps),
        "ragged": (gathered["ragged"].values.astype("int64"), gathered["ragged"].counts, gathered["ragged"].steps),
        "speaker": gathered["speaker"],
        "bag": gathered["bag"],
    }


def files_of(directory):
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("piece", [1, 3, 7])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"splits": {"a": 0.5, "b": 0.5}, "csv": True},
        {"shards": 2},
        {"splits": {"a": 0.5, "b": 0.5}, "split_by": lambda record: record.ids.size},
        {"splits": "speaker_split", "shuffle": True},
    ],
)
def test_columns_give_the_bytes_of_records(tmp_path, piece, options):
    """Whatever the pieces, splits and options, a dataset from columns is the one from records, byte by byte."""
    heads = (
        np.arange(PIECE_BYTES // 8 // (piece + 1) + 1 if piece < 7 else 3) % 100
    )  # one more record is over the limit
    records = [attrs.evolve(record, heads=heads[number % 2 :]) for number, record in enumerate(RECORDS)]
    assert next(cut(*given_columns(Schema.of(Mixed), columns_of(records))))[0] == piece
    if options.get("splits") == "speaker_split":
        options = {**options, "splits": lambda record: "none" if record.speaker is None else "some"}
    sr.write(records, tmp_path / "records", **options)
    with sr.Writer(tmp_path / "columns", Mixed, **options) as writer:
        writer.write_batch(columns_of(records[:4]))
        writer.write(records[4])
        writer.write_batch(columns_of(records[5:]))
    assert files_of(tmp_path / "columns") == files_of(tmp_path / "records")


def test_doubled_keys_of_columns_are_found(tmp_path):
    """A key that came before is an error that names both records, or left out where the first shall stay."""
    with sr.Writer(tmp_path / "first", Mixed, on_duplicate="first") as writer:
        writer.write_batch(columns_of(RECORDS))
        writer.write_batch(columns_of([RECORDS[2], mixed(9), RECORDS[0]]))
    assert (writer.manifest.records, writer.manifest.skipped) == (8, 2)
    assert [record.key for record in sr.read_records(tmp_path / "first")][-1] == "k9"
    with pytest.raises(sr.DuplicateKeyError, match="record 8 .*key of record 3"), sr.Writer(tmp_path / "b", Mixed) as w:  # noqa: PT012
        w.write(mixed(50))
        w.write_batch(columns_of(RECORDS))
        w.write_batch(columns_of([RECORDS[2]]))
    assert not (tmp_path / "b").exists()


def test_splits_are_given_with_the_columns(tmp_path):
    """All records of a batch go to the split that is named with it."""
    with sr.Writer(tmp_path / "a", Mixed) as writer:
        writer.write_batch(columns_of(RECORDS[:3]), split="eval")
        writer.write_batch(columns_of(RECORDS[3:]))
    assert {name: split.records for name, split in writer.manifest.splits.items()} == {"eval": 3, "train": 4}


def test_no_records_are_no_error(tmp_path):
    """Columns of no record add nothing."""
    with sr.Writer(tmp_path / "a", Mixed) as writer:
        writer.write_batch(columns_of([]))
    assert writer.manifest.records == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": ([1, 2, 2**70], [1, 2])}, r"(?s)record 1.*ids\[1\].*int64 in"),
        ({"words": (["a", "b", "\ud800"], [0, 2, 1])}, r"(?s)record 2.*words\[0\].*surrogate"),
        ({"label": np.array([1, 2**40])}, r"(?s)record 1.*label.*int32 in"),
        ({"ragged": ([1, 2, 70_000], [1, 2], [0, 2])}, r"(?s)record 1.*ragged\[1\]\[1\].*uint16"),
    ],
)
def test_values_that_do_not_fit_name_their_record(tmp_path, change, message):
    """A value that its field cannot hold is an error with the record's position and the index in the record."""
    with pytest.raises(sr.RecordError, match=message) as caught:
        given_columns(Schema.of(Mixed), {**columns_of(RECORDS[:3]), **change})
    with pytest.raises(sr.RecordError), sr.Writer(tmp_path / "a", Mixed) as writer:  # noqa: PT012
        writer.write(mixed(99))
        with pytest.raises(sr.RecordError, match=f"record {caught.value.position + 1}"):
            writer.write_batch({**columns_of(RECORDS[:3]), **change})
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"wrods": [1]}, "no field 'wrods'.*did you mean 'words'"),
        ({"ids": [1, 2, 3]}, r"'ids': expected \(values, steps\).*got list"),
        ({"ragged": ([1], [1])}, r"'ragged': expected \(values, lengths, steps\).*tuple of 2"),
        ({"ids": ([1, 2, 3], [1, 1, 2])}, "'ids': expected lengths that sum to 3, got 4"),
        ({"ids": ([1, 2, 3], [4, -1, 0])}, "'ids': a length is -1"),
        ({"ids": ([1, 2, 3], [1.0, 1.0, 1.0])}, "'ids': expected a vector of lengths, got float64"),
        ({"pair": np.zeros((3, 3), "f4")}, r"'pair': expected values of shape \(n, 2\), got \(3, 3\)"),
        ({"label": np.zeros(2, int)}, "expected the same number of records in each, got .*label 2"),
        ({"label": None}, "'label' is missing, and has no default"),
        ({"bag": [{1: 2.0}] * 3}, "'bag' is sparse: give a seqrecorder.Column"),
        (
            {"speaker": Column(np.array(["a"], object), present=np.ones(3, bool))},
            "'speaker': 1 records have values, 3 are present",
        ),
        ({"ids": (np.array([1, 2.5]), [2])}, "'ids': expected int64, got dtype float64"),
        ({"frames": (np.array([[0, 1], [2, 3]]).astype(str), [2])}, "'frames': expected float64, got dtype"),
        ({"label": 3}, "'label': expected values of shape"),
        ({"label": object()}, "'label': "),
    ],
)
def test_columns_of_another_form_are_refused(change, message):
    """What is no column of its field is an error that names the field and says what was expected."""
    with pytest.raises(sr.OptionError, match=message):
        given_columns(Schema.of(Mixed), {**columns_of(RECORDS[:3]), **change})


def test_names_that_are_no_names_of_arguments(tmp_path):
    """Fields that differ from others by underscores only, or are keywords without them, route records."""

    @sr.record
    class Odd:
        a: int = sr.context("int64")
        _a: str = sr.context(str, key=True, alias="b")
        _class: str = sr.context(str, alias="cls")

    columns = {"a": np.arange(9), "_a": np.array(list("abcdefghi"), object), "_class": np.array(["x"] * 9, object)}
    for by in ("a", "_a", "_class"):
        with sr.Writer(tmp_path / by, Odd, splits={"x": 0.5, "y": 0.5}, split_by=by) as writer:
            writer.write_batch(columns)
        records = [Odd(a=n, b="abcdefghi"[n], cls="x") for n in range(9)]
        sr.write(records, tmp_path / f"{by}-records", splits={"x": 0.5, "y": 0.5}, split_by=by)
        assert files_of(tmp_path / by) == files_of(tmp_path / f"{by}-records")


def test_what_is_no_mapping_is_refused():
    """Columns come as a mapping."""
    with pytest.raises(sr.OptionError, match="expected a mapping of field to column, got list"):
        given_columns(Schema.of(Mixed), [1])
    with pytest.raises(sr.OptionError, match="got list; records go to `write`"):
        given_columns(Schema.of(Mixed), RECORDS)

    class Dataset:  # as the library of that name has it
        def with_format(self, kind):
            return kind

    with pytest.raises(sr.OptionError, match="with_format.'arrow'"):
        given_columns(Schema.of(Mixed), Dataset())
    with pytest.raises(sr.OptionError, match="at least one column, got none"):
        given_columns(Schema.of(Mixed), {})


def test_lengths_that_disagree_are_found():
    """Feature lists of other lengths than their neighbours are reported as for records."""
    columns = columns_of(RECORDS[2:4])
    columns["words"] = (columns["words"][0], [3, 2])
    with pytest.raises(sr.RecordError, match="(?s)record 0.*words.*2 steps, as 'ids' has"):
        given_columns(Schema.of(Mixed), columns)


def test_none_where_none_may_be_is_found():
    """A column that says that a required field is absent somewhere is refused with the record's position."""
    columns = {**columns_of(RECORDS[:3]), "label": Column(np.array([1, 2]), present=np.array([True, False, True]))}
    with pytest.raises(sr.RecordError, match="(?s)record 1.*label.*optional=True"):
        given_columns(Schema.of(Mixed), columns)


def test_classes_with_hooks_take_records_only(tmp_path):
    """A class with load or split is refused, since its hooks take records."""

    @sr.record
    class Loaded:
        x: int = sr.context("int64")

        def load(self):
            return self

    with pytest.raises(sr.OptionError, match="has load or split"), sr.Writer(tmp_path / "a", Loaded) as writer:
        writer.write_batch({"x": [1]})


def test_write_batch_outside_of_the_block(tmp_path):
    """A Writer takes columns inside its block only, and none after an error."""
    writer = sr.Writer(tmp_path / "a", Mixed)
    with pytest.raises(sr.OptionError, match="inside its `with` block"):
        writer.write_batch({})


def test_defaults_fill_what_is_not_given(tmp_path):
    """Fields with a default, and optional ones, may be left out."""

    @sr.record
    class Short:
        ids: np.ndarray = sr.feature_list("int64")
        weight: np.ndarray = sr.context("float32", shape=(2,), default=attrs.Factory(lambda: np.ones(2, "f4")))
        note: str | None = sr.context(str, optional=True, default=None)
        rate: int = sr.context("int32", default=7)

    with sr.Writer(tmp_path / "a", Short) as writer:
        writer.write_batch({"ids": ([1, 2, 3], [1, 2]), "weight": np.ones((2, 2), "f4")})
    back = list(sr.read_records(tmp_path / "a", schema=Short))
    assert back == [Short([1]), Short([2, 3])]
