"""Data that were written as a class was: what is compatible reads right, in both readers, and the rest is refused."""

import numpy as np
import pytest
import tensorflow as tf
from schema_changes import COMPATIBLE, INCOMPATIBLE, Old, changed

import seqrecorder as sr
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
    figure(18, "changes of a schema", 1, "classified or read wrongly")


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
    figure(18, "changes of a schema", 1, "classified or read wrongly")


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
