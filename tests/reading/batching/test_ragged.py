"""`Ragged` against padded batches, and against the records themselves."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from slow_records import assert_resumes_exactly

import seqrecorder as sr
from seqrecorder.errors import OptionError
from seqrecorder.reading.batching.ragged import Ragged

LENGTHS = [3, 0, 5, 1, 0, 2, 4]


@sr.record
class Take:
    key: str = sr.context(str, key=True)
    x: np.ndarray = sr.feature_list("float64", shape=(2,))
    word: list = sr.feature_list(str)
    half: np.ndarray = sr.feature_list("float16")
    big: np.ndarray = sr.feature_list("uint64", storage="packed")
    tags: np.ndarray = sr.context("int64", shape=(None,))
    ways: list = sr.feature_list("int32", shape=(None,))
    free: np.ndarray = sr.feature_list("bool", align="free")
    hits: list = sr.feature_list("float32", sparse=4)
    maybe: np.ndarray | None = sr.feature_list("int64", optional=True, default=None)


def take_of(number, length):
    """Return a record with genuine zeros, of which some lack the optional field."""
    steps = np.arange(length) + 10 * number
    return Take(
        f"k{number}",
        np.stack([steps / 7, -steps * 0.0], 1),
        [f"w{step}" if step % 2 else "" for step in steps.tolist()],
        (steps / 3).astype(np.float16),
        steps.astype(np.uint64) + np.uint64(2**63),
        np.arange(number % 3),
        [np.arange(step % 3, dtype=np.int32) for step in steps.tolist()],
        np.arange(number % 4) % 2 == 1,
        [sr.SparseVector([step % 4], [float(step)], 4) for step in steps.tolist()],
        None if number % 2 else steps,
    )


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("ragged") / "takes"
    sr.write({"train": (take_of(number, length) for number, length in enumerate(LENGTHS))}, path, shards=1)
    return path


def rows_of(value):
    """Return the rows of a tensor of any kind as nested lists."""
    if isinstance(value, tf.SparseTensor):
        value = tf.sparse.to_dense(value)
    return value.to_list() if isinstance(value, tf.RaggedTensor) else value.numpy().tolist()


def assert_holds(batch, records):
    """Assert that a ragged batch holds the values of records, field by field."""
    for name in ("x", "half", "big", "tags", "free", "ways"):
        value = getattr(batch, name)
        assert rows_of(value) == [[np.asarray(step).tolist() for step in getattr(r, name)] for r in records], name
    assert rows_of(batch.key) == [record.key.encode() for record in records]
    assert rows_of(batch.word) == [[word.encode() for word in record.word] for record in records]
    assert rows_of(batch.maybe) == [[] if record.maybe is None else record.maybe.tolist() for record in records]
    assert rows_of(batch.maybe_present) == [record.maybe is not None for record in records]
    assert rows_of(batch.sequence_length) == [len(record.x) for record in records]
    assert rows_of(batch.free_length) == [len(record.free) for record in records]
    for row, record in zip(rows_of(batch.hits), records, strict=True):
        dense = [[hit.values[0] if at == hit.indices[0] else 0.0 for at in range(4)] for hit in record.hits]
        assert row[: len(dense)] == dense


@pytest.mark.parametrize(
    ("size", "drop_remainder"), [(3, True), (7, False), pytest.param(100, False, marks=pytest.mark.nightly)]
)
def test_batches_hold_the_records_without_padding(corpus, size, drop_remainder):
    """Of every kind of field; `dtype` and inner shapes are those declared, and the number of batches is known."""
    records = list(sr.read_records(corpus))
    dataset = sr.read(corpus, batch=Ragged(size, drop_remainder=drop_remainder), output="record")
    batches = list(dataset)
    chunks = [records[at : at + size] for at in range(0, len(records), size)]
    if drop_remainder:
        chunks = [chunk for chunk in chunks if len(chunk) == size]
    assert len(batches) == len(chunks) == dataset.cardinality()
    for batch, chunk in zip(batches, chunks, strict=True):
        assert_holds(batch, chunk)
    for name, dtype, shape in (
        ("x", tf.float64, [None, None, 2]),
        ("word", tf.string, [None, None]),
        ("big", tf.uint64, [None, None]),
        ("ways", tf.int32, [None, None, None]),
    ):
        value = getattr(batches[0], name)
        assert isinstance(value, tf.RaggedTensor)
        assert value.dtype == dtype
        assert value.shape.as_list()[1:] == shape[1:]


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(lengths=st.lists(st.integers(0, 9), min_size=1, max_size=12), size=st.integers(1, 5), flat=st.booleans())
def test_padding_a_ragged_batch_gives_the_padded_batch(tmp_path_factory, lengths, size, flat):
    """Whatever the lengths, shuffled, with RaggedTensors built here or there."""
    path = tmp_path_factory.mktemp("any") / "takes"
    sr.write({"train": (take_of(number, length) for number, length in enumerate(lengths))}, path, shards=2)
    options = {"fields": ["key", "x", "word", "half"], "shuffle": 8, "seed": 1}
    ragged = sr.read(path, batch=Ragged(size, flat=flat), **options)
    for mine, padded in zip(ragged, sr.read(path, batch=sr.Pad(size), **options), strict=True):
        for name, value in padded.items():
            other = mine[name]
            if flat and name in ("x", "word", "half"):
                other = tf.RaggedTensor.from_row_splits(other, mine["row_splits"])
            if isinstance(other, tf.RaggedTensor):
                other = other.to_tensor(shape=value.shape)
            np.testing.assert_array_equal(other.numpy(), value.numpy(), err_msg=name, strict=True)


def test_flat_batches_carry_splits_for_each_group(corpus):
    """Lists that a record may lack, and ragged steps, have splits of their own and stay RaggedTensors."""
    for flat, ragged in zip(sr.read(corpus, batch=Ragged(3, flat=True)), sr.read(corpus, batch=Ragged(3)), strict=True):
        assert set(flat) == {*ragged, "row_splits", "free_row_splits"}
        for name, splits in (("x", "row_splits"), ("word", "row_splits"), ("free", "free_row_splits")):
            assert isinstance(flat[name], tf.Tensor)
            assert rows_of(tf.RaggedTensor.from_row_splits(flat[name], flat[splits])) == rows_of(ragged[name])
        for name in ("maybe", "ways", "tags"):
            assert rows_of(flat[name]) == rows_of(ragged[name])


@pytest.mark.parametrize("shuffle", [pytest.param(0, marks=pytest.mark.nightly), 5])
def test_resumes_exactly_before_every_batch(corpus, shuffle, tmp_path, stride):
    """Saved before any batch, the whole remainder follows in an iterator built anew."""
    assert_resumes_exactly(
        lambda: sr.read(
            corpus, batch=Ragged(4, flat=True), fields=["key", "x", "word"], shuffle=shuffle, seed=3, epochs=2
        ),
        tmp_path,
        stride,
    )


def test_inputs_and_targets_are_ragged_too(corpus):
    """Lengths come under the name that is asked for."""
    options = Ragged(7, length_name="steps")
    x, steps = next(iter(sr.read(corpus, batch=options, inputs="x", targets="steps", weights=False)))
    assert x.row_lengths().numpy().tolist() == steps.numpy().tolist() == LENGTHS


def test_records_of_context_fields_alone_are_batched(corpus):
    """Nothing is ragged then but context fields of unknown length."""
    (batch,) = sr.read(corpus, batch=Ragged(7), fields=["key", "tags"])
    assert sorted(batch) == ["key", "tags"]
    assert rows_of(batch["tags"]) == [list(range(number % 3)) for number in range(7)]


def test_names_and_options_that_clash_are_refused(tmp_path):
    """The message names the field, or what came."""

    @sr.record
    class Split:
        row_splits: np.ndarray = sr.feature_list("int64")

    sr.write([Split([1])], tmp_path / "split")
    assert rows_of(next(iter(sr.read(tmp_path / "split", batch=Ragged(1))))["row_splits"]) == [[1]]
    with pytest.raises(OptionError, match="a field 'row_splits', as Ragged names what batches carry"):
        sr.read(tmp_path / "split", batch=Ragged(1, flat=True))
    with pytest.raises(OptionError, match="batch_size: expected an int of 1 or more, got 0"):
        Ragged(0)


@pytest.mark.parametrize("flat", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_records_without_steps_are_left_out_or_an_error_on_request(corpus, flat):
    """As by `Pad`, of every group; the number of batches is known."""
    kept = [n for number, n in enumerate(LENGTHS) if n and number % 4]  # those that have steps in `free`, too
    dataset = sr.read(corpus, batch=Ragged(2, empty="drop", flat=flat), fields=["x", "free"])
    batches = list(dataset)
    assert np.concatenate([batch["sequence_length"] for batch in batches]).tolist() == kept
    assert int(dataset.cardinality()) == len(batches) == -(-len(kept) // 2)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"takes.*without steps \(empty="):
        list(sr.read(corpus, batch=Ragged(2, empty="error", flat=flat), fields=["x", "free"]))
