"""Data that were written as a class was: what is compatible reads right, in both readers, and the rest is refused."""

import attrs
import numpy as np
import pytest
import tensorflow as tf
from schema_changes import COMPATIBLE, INCOMPATIBLE, Old, changed

import seqrecorder as sr
from seqrecorder.dataset.selection import rows_of
from seqrecorder.schema.field import Field


def old_record(number, steps):
    return Old(
        key=f"k{number}",
        n=-number,
        half=number / 2,
        wide=number + 0.1,
        flag=bool(number % 2),
        pair=[number, 7],
        maybe=None if number % 2 else number,
        bag={3: 1.0},
        day=np.datetime64("2026-01-01"),
        ids=np.arange(steps),
        mfcc=np.ones((steps, 2)) * number,
        raw=np.arange(steps),
        free=np.arange(number),
        side=np.arange(3 - number),
    )


RECORDS = [old_record(0, 2), old_record(1, 0), old_record(2, 3)]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    path = tmp_path_factory.mktemp("evolution") / "old"
    sr.write(RECORDS, path)
    return path


def expected(name, how, record):
    if isinstance(how, str) and hasattr(record, how):
        return getattr(record, how)
    return how(getattr(record, name)) if callable(how) else how


@pytest.mark.parametrize("change", COMPATIBLE)
def test_a_compatible_change_reads_right(dataset, change, figure):
    """Read as the changed class, data hold the stored values, and the defaults of what they lack, in both readers."""
    fields, values = COMPATIBLE[change]
    new = changed(fields)
    schema = sr.Schema.of(new)
    read = list(sr.read_records(dataset, schema=new))
    assert len(read) == len(RECORDS)
    for record, was in zip(read, RECORDS, strict=True):
        for field in schema.fields:
            how = values.get(field.name, field.name)
            want = expected(field.name, how, was)
            assert sr.testing.same_bits(getattr(record, field.name), want), field.name
    shard = next((dataset / "train").glob("*.tfrecord"))
    serialized = tf.constant([data.numpy() for data in tf.data.TFRecordDataset(str(shard))])
    parsed = schema.reading(sr.Schema.of(Old)).parse_batch(serialized)
    for field in schema.fields:
        compare(field, parsed, read)
    figure(18, "changes of a schema", 1, "told and read as documented")


def compare(field: Field, parsed, read):
    """What the graph gives is what Python gives, up to padding and None."""
    for row, record in enumerate(read):
        value = getattr(record, field.name)
        if value is None:
            assert not bool(parsed[f"{field.name}_present"][row])
        elif isinstance(value, sr.SparseVector):
            tensor = parsed[field.name]
            dense = (tensor if field.dense else tf.sparse.to_dense(tensor))[row].numpy()
            assert dense.tolist() == value.to_dense().tolist()
        else:
            graph = parsed[field.name][row].numpy()
            if isinstance(graph, bytes) and isinstance(value, str):
                graph = graph.decode()
            value = np.asarray(value)
            graph = np.asarray(graph)[tuple(slice(0, n) for n in value.shape)]
            assert graph.tolist() == value.astype(graph.dtype if value.dtype.kind == "M" else value.dtype).tolist()


@pytest.mark.parametrize("change", INCOMPATIBLE)
def test_an_incompatible_change_is_said_first(dataset, change, figure):
    """Both readers refuse the data before the first record, with one line for the field that disagrees."""
    fields, line = INCOMPATIBLE[change]
    new = changed(fields)
    for read in (sr.read, sr.read_records):
        with pytest.raises(sr.SchemaMismatchError) as error:
            read(dataset, schema=new)
        assert len([one for one in error.value.differences if line in one]) == 1, error.value.differences
        assert "was written as Old and cannot be read as New" in str(error.value)
    figure(18, "changes of a schema", 1, "told and read as documented")


def test_old_data_in_batches(dataset):
    """Renamed fields and defaults are there in every batch of a pipeline, also where fields are chosen."""
    new = changed(
        {
            "ids": None,
            "tokens": sr.feature_list("int64", renamed_from="ids"),
            "tags": sr.feature_list("int64", align=None, default=[7, 8]),
        }
    )
    for batch in (sr.Pad(3), sr.Bucket(3, boundaries=[9])):
        [elements] = sr.read(dataset, schema=new, batch=batch, fields=["tokens", "tags"])
        assert elements["tokens"].dtype == tf.int64
        assert elements["sequence_length"].numpy().tolist() == [2, 0, 3]
        assert elements["tokens"].numpy().tolist() == [[0, 1, 0], [0, 0, 0], [0, 1, 2]]
        assert elements["tags"].numpy().tolist() == [[7, 8]] * 3


nightly = pytest.mark.nightly
GIVEN = {
    "context added with default": 1.5,
    "text added with default": "x",
    "array added with default": [7, 8],
    "ragged added with default": [9],
    "sparse added with default": sr.SparseVector([0], [1.0], 4),
    "optional added": 4,
    "optional added with default": None,
    "list added optional": [1.0, 2.0],
}


def wider(change, record=RECORDS[0]):
    """The record as the changed class gives it, under another key and with a value of the new field."""
    read = sr.Schema.of(changed(COMPATIBLE[change][0])).decode(sr.Schema.of(Old).encode(record))
    return attrs.evolve(read, key="new", new=GIVEN.get(change, [5.0]))


@pytest.mark.parametrize(
    "change",
    [
        change if change in ("text added with default", "list added optional") else pytest.param(change, marks=nightly)
        for change in GIVEN
    ],
)
def test_records_with_a_new_field_are_appended(tmp_path, change):
    """A field that old records may lack comes with an append: they give its default or None from then on.

    So they do in both decoders, by position, and once their bytes were copied; nothing is wrong with them.
    """
    fields, values = COMPATIBLE[change]
    new, path = changed(fields), tmp_path / "corpus"
    sr.write(RECORDS, path, shards=2)
    manifest = sr.write([wider(change)], path, append=True)
    schema = sr.Schema.of(new)
    assert manifest.schema == schema
    assert [str(found) for found in sr.Schema.of(Old).changes_since(schema)] == ["new: not in the class, left unread"]
    for _ in range(2):
        read = list(sr.read_records(path, schema=new))
        for record, was in zip(read, RECORDS, strict=False):
            for field in schema.fields:
                want = expected(field.name, values.get(field.name, field.name), was)
                assert sr.testing.same_bits(getattr(record, field.name), want), field.name
        selection = sr.open(path, schema=new)["train"]
        assert sr.testing.same_bits(selection[1].new, read[1].new)
        given = sr.Schema.of(new).decode(schema.encode(wider(change)))
        assert sr.testing.same_bits(selection["new"].new, given.new)
        serialized = tf.constant(rows_of(selection).store.messages(rows_of(selection).array()).rows())
        compare(schema["new"], schema.parse_batch(serialized), read)
        assert len(list(sr.read_records(path, schema=Old))) == 4
        assert sr.verify(path).ok
        sr.compact(path)


def test_a_new_field_that_does_not_fit_is_not_appended(tmp_path):
    """A field without a default, one in an alignment group of its own, and any other change are refused."""
    path = tmp_path / "corpus"
    sr.write(RECORDS, path)
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    free = "free list added with default"
    for fields, line in (
        (COMPATIBLE[free][0], "new: not in the data"),
        ({"new": sr.context("int64")}, "new: not in the data"),
        (
            {"new": sr.context("int64", default=1), "n": sr.context("int64")},
            "n: dtype int16 in the data, int64 in the class",
        ),
        ({"n": None, "new": sr.context("int16", renamed_from="n", default=1)}, "new: 'n' in the data"),
    ):
        with pytest.raises(sr.SchemaMismatchError, match="new ones must be optional") as error:
            sr.Writer(path, changed(fields), append=True)
        assert any(one.startswith(line) for one in error.value.differences), error.value.differences
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before
    sr.rewrite(path, schema=changed(COMPATIBLE[free][0]))
    assert sr.write([wider(free)], path, append=True).records == 4


def test_parts_with_a_new_field_are_committed(tmp_path):
    """Parts of a wider class are added like a write; kept statistics count the old records as None."""
    change, path = "optional added", tmp_path / "corpus"
    sr.write(RECORDS, path, stats=True)
    for part in range(2):
        record = attrs.evolve(wider(change), key=f"part {part}")
        sr.write_part([record], path, part, append=True)
    assert sr.commit(path, append=True).records == 5
    assert [record.new for record in sr.read_records(path)] == [None] * 3 + [4, 4]
    sr.write([wider(change)], path, append=True, stats=True)
    assert (sr.stats(path).fields["new"].none, sr.stats(path).records) == (3, 6)
