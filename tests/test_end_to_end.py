"""The main job: one class with a field of every dtype, through files, and back by every way."""

import itertools
from pathlib import Path
from typing import Any

import attrs
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import seqrecorder as sr
from seqrecorder.schema.exact_values import same_bits

NAN16 = np.array([0x7C01, 0xFE01, 0x0001, 0x8000], np.uint16)  # a signalling and a quiet NaN, a denormal, -0.0
NAN32 = np.array([0x7F800001, 0xFFC00123, 1, 1 << 31], np.uint32)
NAN64 = np.array([0x7FF0000000000001, 0xFFF8000000000123, 1, 1 << 63], np.uint64)
# Four values that a careless way would change, of every dtype.
VALUES: dict[str, np.ndarray] = {
    "bool": np.array([True, False, True, True]),
    **{
        f"{sign}int{bits}": np.array([info.min, info.max, 0, 1], f"{sign}int{bits}")
        for sign, bits in itertools.product(("", "u"), (8, 16, 32, 64))
        for info in [np.iinfo(f"{sign}int{bits}")]
    },
    "float16": NAN16.view(np.float16),
    "bfloat16": (NAN16 | 0x7F81 * np.array([1, 1, 0, 0], np.uint16)).view(ml_dtypes.bfloat16),
    "float32": NAN32.view(np.float32),
    "float64": NAN64.view(np.float64),
    "complex64": np.repeat(NAN32, 2).view(np.complex64),
    "complex128": np.repeat(NAN64, 2).view(np.complex128),
    "datetime64[ns]": np.array(["NaT", "1677-09-22", "2262-04-11", "1970-01-01"], "datetime64[ns]"),
    "timedelta64[D]": np.array([-(2**40), 2**40, 0, 1], "timedelta64[D]"),
    "str": np.array(["", "a\0b", "\U0001f600\U0010ffff", "\u00e9\u4e2d"], object),
    "bytes": np.array([b"", b"\0\xff", b"a" * 300, b"\n"], object),
}


def name_of(dtype: str) -> str:
    return dtype.replace("[", "_").replace("]", "")


def every_field() -> dict[str, Any]:
    fields: dict[str, Any] = {"key": sr.context(str, key=True)}
    for dtype in VALUES:
        name = name_of(dtype)
        fields[f"{name}_scalar"] = sr.context(dtype)
        fields[f"{name}_fixed"] = sr.context(dtype, shape=(2, 2))
        fields[f"{name}_open"] = sr.context(dtype, shape=(None, 2))
        fields[f"{name}_steps"] = sr.feature_list(dtype)
        fields[f"{name}_vectors"] = sr.feature_list(dtype, shape=(2,))
        fields[f"{name}_ragged"] = sr.feature_list(dtype, shape=(None,))
        fields[f"{name}_packed"] = sr.feature_list(dtype, storage="packed")
    return fields


Everything = attrs.make_class("Everything", every_field(), kw_only=True)


def everything(number: int, steps: int) -> Any:
    values: dict[str, Any] = {"key": f"k{number}"}
    for dtype, four in VALUES.items():
        name = name_of(dtype)
        rolled = np.roll(four, number)
        many = np.resize(rolled, steps) if steps else rolled[:0]
        values[f"{name}_scalar"] = rolled[0]
        values[f"{name}_fixed"] = rolled.reshape(2, 2)
        values[f"{name}_open"] = np.resize(rolled, (number % 3, 2))
        values[f"{name}_steps"] = many
        values[f"{name}_vectors"] = np.stack([many, many[::-1]], 1)
        values[f"{name}_ragged"] = [rolled[: step % 4] for step in range(steps)]
        values[f"{name}_packed"] = many
    return Everything(**values)


RECORDS = [everything(number, steps) for number, steps in enumerate((3, 0, 1, 7, 2))]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("everything") / "corpus"
    sr.write(RECORDS, path)
    return path


@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_objects_come_back_to_the_bit(tmp_path: Path, compression: str | None) -> None:
    """Every field of every dtype comes back from disk with its dtype, shape and bits, with the class and without."""
    corpus = tmp_path / "corpus"
    sr.write(RECORDS, corpus, compression=compression)
    assert list(sr.read_records(corpus, schema=Everything)) == RECORDS
    for before, after in zip(RECORDS, sr.read_records(corpus), strict=True):
        for field in sr.Schema.of(Everything).fields:
            assert same_bits(getattr(before, field.name), getattr(after, field.name)), field.name


def as_tensor_holds(value: Any, field: Any) -> np.ndarray:
    """The value as a graph gives it: text as bytes, times as int64."""
    if field.element.name == "str":
        array = np.asarray(value, object)
        encoded = np.empty(array.shape, object)
        encoded.ravel()[:] = [text.encode() for text in array.ravel()]
        return encoded
    array = np.asarray(value, field.element.numpy)
    return field.element.to_graph(array)


def assert_row(field: Any, value: Any, row: Any) -> None:
    if field.is_list and field.is_ragged:
        assert int(row.nrows()) == len(value)
        for mine, step in zip(value, row, strict=True):
            assert_row(attrs.evolve(field, kind="context"), mine, step)
        return
    want, got = as_tensor_holds(value, field), np.asarray(row.numpy())
    got = got.astype(object) if want.dtype == object else got
    assert same_bits(want, got), (field.name, want, got)


@pytest.mark.nightly
def test_graphs_give_the_same_bits(corpus: Path) -> None:
    """`read` gives the same bits in a tf.data pipeline, in C++ threads, as the records held."""
    for record, tensors in zip(RECORDS, sr.read(corpus), strict=True):
        for field in sr.Schema.of(Everything).fields:
            assert_row(field, getattr(record, field.name), tensors[field.name])


def test_padded_batches_give_the_same_bits(corpus: Path) -> None:
    """Padded batches hold the same bits at the real steps, and zeros or empty text elsewhere."""
    [batch] = sr.read(corpus, batch=sr.Pad(len(RECORDS)))
    for field in sr.Schema.of(Everything).fields:
        for row, record in enumerate(RECORDS):
            value = getattr(record, field.name)
            tensor = batch[field.name][row]
            if field.is_list and field.is_ragged:
                for step, part in enumerate(value):
                    assert_row(attrs.evolve(field, kind="context"), part, tensor[step, : len(part)])
                continue
            open_ended = field.is_list or field.is_ragged
            assert_row(field, value, tensor[: len(value)] if open_ended else tensor)
            if open_ended:
                rest = tensor[len(value) :].numpy()
                assert not rest.astype(bool).any() if rest.dtype != object else not any(rest.ravel())


def test_plain_tensorflow_reads_it(corpus: Path) -> None:
    """TensorFlow's own parser reads every record with the schema's specs, and finds the same wire values."""
    schema = sr.Schema.of(Everything)
    files = sorted(map(str, (corpus / "train").glob("*.tfrecord")))
    for record, serialized in zip(RECORDS, tf.data.TFRecordDataset(files), strict=True):
        context, lists = tf.io.parse_single_sequence_example(
            serialized, schema.context_features, schema.sequence_features
        )
        assert set(context) | set(lists) == {field.name for field in schema.fields}
        for field in schema.fields:
            value = getattr(record, field.name)
            got = (lists if field.is_list else context)[field.name]
            got = got.numpy() if isinstance(got, tf.Tensor) else got.flat_values.numpy()
            parts = value if isinstance(value, list) else [value]
            flat = np.concatenate([np.asarray(part).ravel() for part in parts]) if parts else np.empty(0)
            if field.element.buffered:
                assert b"".join(np.ravel(got)) == flat.astype(field.element.numpy).tobytes()
            elif field.element.is_text:
                assert list(np.ravel(got)) == [t.encode() if isinstance(t, str) else t for t in flat]
            else:
                want = field.element.to_wire(flat.astype(field.element.numpy))
                assert same_bits(want, np.ravel(got)), field.name


@pytest.mark.nightly
def test_one_call_checks_a_class() -> None:
    """`testing.assert_round_trip` passes for the class with everything."""
    sr.testing.assert_round_trip(RECORDS)
