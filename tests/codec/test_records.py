"""Records to bytes and back: one matrix of every element type, kind, shape, storage and presence."""

import functools
from typing import Any

import attrs
import numpy as np
import pytest
import tensorflow as tf
from combinations import all_at_night
from strategies import CASES, NUMBERS, as_tensor_holds, class_of, from_tensor, records_of, some_fields

import seqrecorder as sr
from seqrecorder.codec.decode import RecordDecoder
from seqrecorder.codec.encode import RecordEncoder
from seqrecorder.codec.parse import Parser
from seqrecorder.schema.exact_values import same_bits
from seqrecorder.wire.byte_rows import Messages

LENGTHS = [3, 0, 1, 2, 5]


@functools.cache
def matrix(dtype: str) -> tuple[sr.Schema, list[Any], list[bytes]]:
    record_class = class_of(dtype)
    records = records_of(record_class, CASES[dtype].valid, LENGTHS, np.random.default_rng(7))
    schema = sr.Schema.of(record_class)
    return schema, records, schema.encode_batch(records)


def each_part(ordinary):
    """Parametrize by part and element type; the ordinary run takes some fields of some types, the long one all."""
    cases = [(part, dtype) for part in ("some", "whole") for dtype in CASES]
    return pytest.mark.parametrize(("part", "dtype"), all_at_night(cases, [("some", dtype) for dtype in ordinary]))


def assert_same(field: Any, value: Any, tensor: Any) -> None:
    if field.is_list and field.is_ragged:
        assert int(tensor.nrows()) == len(value), field.name
        parts = list(zip(value, tensor, strict=True))
    else:
        parts = [(value, tensor)]
    for want, got in parts:
        assert same_bits(as_tensor_holds(want, field), from_tensor(got)), (field.name, want, got)


@pytest.mark.parametrize("dtype", CASES)
def test_objects_come_back_to_the_bit(dtype: str) -> None:
    """Decoding gives records that equal those encoded, together and one by one."""
    schema, records, data = matrix(dtype)
    assert schema.decode_batch(data) == records
    assert schema.decode(data[3]) == records[3]


@pytest.mark.parametrize("dtype", CASES)
def test_records_come_back_to_the_bit_one_by_one(dtype: str) -> None:
    """Records that are decoded alone equal those encoded, and their arrays can be written to."""
    schema, records, data = matrix(dtype)
    found = list(map(schema.decode, data[::2]))
    assert found == records[::2]
    arrays = [value for value in attrs.astuple(found[-1], recurse=False) if isinstance(value, np.ndarray)]
    assert arrays
    assert all(array.flags.writeable for array in arrays)


def test_records_of_others_are_checked_alone() -> None:
    """What a record lacks takes the default or is named, and steps of another size are refused."""

    @sr.record
    class Clip:
        ids: np.ndarray = sr.feature_list("int64")
        rows: np.ndarray = sr.feature_list("float64", shape=(2,))
        words: np.ndarray | None = sr.feature_list(str, optional=True, default=None)
        marks: np.ndarray = sr.feature_list("int8", default=[5], align=None)

    schema = sr.Schema.of(Clip)
    message = tf.train.SequenceExample()
    lists = message.feature_lists.feature_list
    for number in range(2):
        lists["ids"].feature.add().int64_list.value.append(number)
        lists["rows"].feature.add().bytes_list.value.append(np.full(2, number, "<f8").tobytes())
    assert schema.decode(message.SerializeToString()) == Clip([0, 1], [[0, 0], [1, 1]], None, [5])
    lists["rows"].feature[1].bytes_list.value[0] = bytes(8)
    with pytest.raises(sr.RecordError, match="16 bytes are expected"):
        schema.decode(message.SerializeToString())
    lists["ids"].feature[1].int64_list.value.append(7)
    with pytest.raises(sr.RecordError, match="cannot be decoded as Clip"):
        schema.decode(message.SerializeToString())
    del lists["ids"]
    with pytest.raises(sr.RecordError, match="'ids'"):
        schema.decode(message.SerializeToString())


@each_part(list(CASES)[1::2])
def test_parse_gives_the_same_bits(dtype: str, part: str) -> None:
    """`parse` inside a tf.data map, in C++ threads, gives what the records hold, and whether they hold it."""
    whole, records, data = matrix(dtype)
    schema = some_fields(whole, dtype, 0, every=3) if part == "some" else whole
    parsed = tf.data.Dataset.from_tensor_slices(data).map(schema.parse, num_parallel_calls=2)
    for record, tensors in zip(records, parsed, strict=True):
        for field in schema.fields:
            value = getattr(record, field.name)
            if field.optional:
                assert bool(tensors[f"{field.name}_present"]) == (value is not None)
            if value is not None:
                assert_same(field, value, tensors[field.name])
            elif field.is_list or field.is_ragged:
                assert tensors[field.name].shape[0] == 0
            else:
                assert not any(map(any, [from_tensor(tensors[field.name]).ravel().tolist()]) if field.shape else ())


@each_part(list(CASES)[::2])
def test_parse_batch_gives_the_same_bits(dtype: str, part: str) -> None:
    """`parse_batch` inside a tf.data map gives the same bits at the real steps, and zeros or empty text elsewhere."""
    whole, records, data = matrix(dtype)
    schema = some_fields(whole, dtype, 2) if part == "some" else whole
    [batch] = tf.data.Dataset.from_tensor_slices(data).batch(len(data)).map(schema.parse_batch)
    assert batch["sequence_length"].numpy().tolist() == LENGTHS or any(
        field.is_list and not field.optional for field in schema.fields
    )
    assert batch["sequence_length"].dtype == tf.int64
    for field in schema.fields:
        tensor = batch[field.name]
        if field.optional:
            present = [getattr(record, field.name) is not None for record in records]
            assert batch[f"{field.name}_present"].numpy().tolist() == present
        for row, record in enumerate(records):
            value = getattr(record, field.name)
            if field.is_ragged or value is None:
                if value is not None:
                    assert_same(field, value, tensor[row])
                continue
            assert_same(field, value, tensor[row, : len(value)] if field.is_list else tensor[row])
            if field.is_list:
                rest = from_tensor(tensor[row, len(value) :]).ravel().tolist()
                assert not any(rest)


def wire_values(value: Any, field: Any) -> list[Any]:
    """Return the values of each feature of a field, as TensorFlow's parser shall find them."""
    element = field.element
    steps = list(value) if field.is_list else [value]
    if field.packed:
        steps = [value]
    out: list[Any] = []
    for step in steps:
        array = as_tensor_holds(step, field)
        if field.storage == "tensor":
            tensor = tf.constant(array, tf.as_dtype(element.graph))
            out.append(tf.io.serialize_tensor(tensor).numpy())
        elif field.buffered:
            out.append(np.asarray(array).tobytes())
        elif element.is_text:
            out += array.ravel().tolist()
        else:
            out += list(element.to_wire(np.asarray(step, element.numpy)).ravel())
    return out


@pytest.mark.parametrize("dtype", CASES)
def test_plain_tensorflow_finds_the_wire_values(dtype: str) -> None:
    """TensorFlow's own parser, with the schema's specs, finds the documented storage: lists, buffers or tensors."""
    schema, records, data = matrix(dtype)
    context_spec, list_spec = schema.context_features, schema.sequence_features
    for record, item in zip(records, data, strict=True):
        context, lists = tf.io.parse_single_sequence_example(item, context_spec, list_spec)
        for field in schema.fields:
            value = getattr(record, field.name)
            if value is None:
                continue
            got = (lists if field.is_list else context)[field.feature]
            flat = got.flat_values if isinstance(got, tf.RaggedTensor) else tf.reshape(got, [-1])
            want = wire_values(value, field)
            array = from_tensor(flat)
            if array.dtype == object:
                assert array.tolist() == want, field.name
            else:
                assert array.tobytes() == np.array(want, array.dtype).tobytes(), field.name


@pytest.mark.parametrize("dtype", CASES)
def test_what_a_type_does_not_hold_is_refused(dtype: str, figure: Any) -> None:
    """Every invalid value raises RecordError with key, field, index, what was expected and what came."""
    single = attrs.make_class("Single", {"key": sr.context(str, key=True), "x": sr.context(dtype)})
    several = attrs.make_class("Several", {"key": sr.context(str, key=True), "x": sr.feature_list(dtype)})
    good = CASES[dtype].valid[2]
    for bad in CASES[dtype].invalid:
        with pytest.raises(sr.RecordError, match=r"key 'a'.*\n *x: expected .*, got ") as caught:
            sr.Schema.of(single).encode(single("a", bad))
        assert [(p.field, p.index) for p in caught.value.problems] == [("x", ())]
        if isinstance(bad, (list, np.ndarray)):
            continue
        with pytest.raises(sr.RecordError, match=r"key 'a'") as caught:
            sr.Schema.of(several).encode_batch([several("z", [good]), several("a", [good, bad])])
        assert (caught.value.position, caught.value.problems[0].field) == (1, "x")
        assert caught.value.problems[0].index == (1,), bad
    figure(11, "values that a type does not hold", len(CASES[dtype].invalid), "refused")


def test_the_matrix_covers_the_table() -> None:
    """Every element type of the dtype table has a case, so adding one means to list values for it."""
    from seqrecorder.schema.dtypes import _TABLE, element_type

    covered = {element_type(name).name.split("[")[0] for name in CASES}
    assert covered == {*_TABLE, "bfloat16", "datetime64", "timedelta64"}
    assert set(NUMBERS) < set(CASES)
    for name, case in CASES.items():
        assert len(case.valid) >= 5, name
        assert len(case.invalid) >= 4, name


# None, empty and absent -----------------------------------------------------------------------------------------------


@sr.record
class Sparse:
    key: str = sr.context(str, key=True, default="?")
    rate: Any = sr.context("int32", default=16_000)
    name: Any = sr.context(str, optional=True, default="unnamed")
    weights: Any = sr.context("float64", shape=(2,), default=(0.5, float("inf")))
    marks: Any = sr.context("int64", shape=(None,), optional=True, default=None)
    labels: Any = sr.context("int8", shape=(None,), default=(1, 2))
    words: Any = sr.feature_list(str, optional=True, default=None)
    packed: Any = sr.feature_list("float64", shape=(2,), storage="packed", optional=True, default=None, align=None)
    bag: Any = sr.context("float32", sparse=4, optional=True, default=None)


SPARSE = sr.Schema.of(Sparse)


def test_none_and_empty_stay_apart() -> None:
    """None and empty come back as they were, and graphs say which is which under `<field>_present`."""
    empty = Sparse("e", name="", marks=[], words=[], packed=[], bag={})
    none = Sparse("n", name=None)
    data = SPARSE.encode_batch([empty, none])
    assert SPARSE.decode_batch(data) == [empty, none]
    assert none.words is None
    assert SPARSE.decode(data[0]).words.shape == (0,)
    optional = [field.name for field in SPARSE.fields if field.optional]
    for tensors in (SPARSE.parse_batch(data), tf.function(SPARSE.parse_batch)(tf.constant(data))):
        for name in optional:
            assert tensors[f"{name}_present"].numpy().tolist() == [True, False], name
        assert tensors["name"].numpy().tolist() == [b"", b""]
    keys = tf.train.SequenceExample.FromString(data[1])
    assert "words" not in keys.feature_lists.feature_list
    assert "words" in tf.train.SequenceExample.FromString(data[0]).feature_lists.feature_list


def test_defaults_fill_what_data_lacks() -> None:
    """A record of others without the fields gets the class's defaults in decode, and so do context fields in graphs."""
    record = SPARSE.decode(b"")
    assert record == Sparse()
    assert SPARSE.decode_batch([b"", SPARSE.encode(Sparse("k", labels=[]))])[1].labels.size == 0
    tensors = SPARSE.parse(b"")
    assert tensors["rate"].numpy() == 16_000
    assert tensors["name"].numpy() == b"unnamed"
    assert bool(tensors["name_present"])
    assert tensors["weights"].numpy().tolist() == [0.5, float("inf")]
    assert not bool(tensors["words_present"])
    first, second = SPARSE.decode_batch([b"", b""])
    assert first.labels is not second.labels


def test_empty_features_of_others_are_empty() -> None:
    """A feature that is there and holds nothing is empty, with or without our presence feature."""
    message = tf.train.SequenceExample()
    message.context.feature["marks"].int64_list.SetInParent()
    message.context.feature["labels"].int64_list.SetInParent()
    message.feature_lists.feature_list["words"].SetInParent()
    record = SPARSE.decode(message.SerializeToString())
    assert record.marks.shape == (0,)
    assert record.labels.shape == (0,)
    assert record.words.shape == (0,)
    assert record.packed is None


@pytest.mark.parametrize(("field", "stated"), [("name", 0), ("name", 1), ("words", 0), ("marks", 0)])
def test_presence_that_contradicts_the_values_is_an_error(field: str, stated: int) -> None:
    """A record that says None and holds a value, or the other way round, is refused, eagerly and in tf.data."""
    message = tf.train.SequenceExample()
    message.context.feature[f"{field}_present"].int64_list.value.append(stated)
    if stated == 0:
        message.context.feature["name"].bytes_list.value.append(b"n")
        message.context.feature["marks"].int64_list.value.append(1)
        message.feature_lists.feature_list["words"].feature.add().bytes_list.value.append(b"w")
    data = message.SerializeToString()
    with pytest.raises(sr.RecordError, match=f"'{field}'"):
        SPARSE.decode(data)
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"'{field}\\*'"):
        list(tf.data.Dataset.from_tensors([data]).map(SPARSE.parse_batch))


@sr.record
class Required:
    key: str = sr.context(str, key=True)
    size: Any = sr.context("float64", shape=(2,))
    open_ended: Any = sr.context("int64", shape=(None,))
    ids: Any = sr.feature_list("int64")
    packed: Any = sr.feature_list("float64", storage="packed")


REQUIRED = sr.Schema.of(Required)


def test_missing_fields_are_named() -> None:
    """A record that lacks required fields is refused with its position, every missing field, and what there is."""
    good = REQUIRED.encode(Required("a", [1, 2], [], [1], [1]))
    bad = tf.train.SequenceExample()
    bad.context.feature["key"].bytes_list.value.append(b"k")
    with pytest.raises(sr.RecordError, match=r"record 1: .*context features key") as caught:
        REQUIRED.decode_batch([good, bad.SerializeToString()])
    assert [problem.field for problem in caught.value.problems] == ["size", "open_ended", "ids", "packed"]
    with pytest.raises(sr.RecordError, match="the message is empty"):
        REQUIRED.decode(b"")


def test_an_example_is_told_from_a_sequence_example() -> None:
    """The bytes of a flat tf.train.Example are refused by decode with words that say so, not read as empty."""
    example = tf.train.Example()
    example.features.feature["key"].bytes_list.value.append(b"k")
    example.features.feature["size"].bytes_list.value.append(np.ones(2).tobytes())
    for name in ("open_ended", "ids", "packed"):
        example.features.feature[name].int64_list.value.extend([1, 2])
    with pytest.raises(sr.RecordError, match=r"tf\.train\.Example\?"):
        REQUIRED.decode(example.SerializeToString())


@pytest.mark.parametrize("data", [b"\xff\xff", b"\x0a\x05abc", "text", 5, None])
def test_what_is_no_message_is_refused(data: Any) -> None:
    """Bytes that are no message, and what is not bytes, are a RecordError that names the position."""
    good = REQUIRED.encode(Required("a", [1, 2], [], [1], [1]))
    with pytest.raises(sr.RecordError, match="record 1: "):
        REQUIRED.decode_batch([good, data])


def test_text_that_is_not_utf8_is_refused() -> None:
    """A str field whose bytes are not UTF-8 is refused with record and field, and a bytes field takes them."""
    good, bad = tf.train.SequenceExample(), tf.train.SequenceExample()
    good.context.feature["x"].bytes_list.value.append(b"fine")
    bad.context.feature["x"].bytes_list.value.append(b"\xff")
    data = [good.SerializeToString(), bad.SerializeToString()]
    as_str, as_bytes = (attrs.make_class("T", {"x": sr.context(dtype)}) for dtype in (str, bytes))
    with pytest.raises(sr.RecordError, match=r"record 1: (.|\n)*x: expected UTF-8"):
        sr.Schema.of(as_str).decode_batch(data)
    assert [record.x for record in sr.Schema.of(as_bytes).decode_batch(data)] == [b"fine", b"\xff"]


def test_a_class_that_decode_cannot_build_is_named() -> None:
    """A plain field without a default cannot be filled by decode, and the error says what to do."""
    half = attrs.make_class("Half", {"x": sr.context("int64"), "path": attrs.field()})
    schema = sr.Schema.of(half)
    with pytest.raises(sr.SchemaError, match=r"Half\.path is kept off disk.*give it a default"):
        schema.decode(schema.encode(half(1, "p")))


def test_lengths_are_given_with_the_bytes() -> None:
    """The codec gives the lengths of every alignment group, 0 where a record has no value."""

    @sr.record
    class Groups:
        a: Any = sr.feature_list("int64", optional=True)
        b: Any = sr.feature_list("int64", align="other")
        c: Any = sr.feature_list("int64", align=None)

    codec = RecordEncoder(sr.Schema.of(Groups))
    records = [Groups([1], [1, 2], []), Groups(None, [], [1, 2, 3])]
    data, lengths = codec.encode(records)
    assert codec.schema.groups == ("default", "other", "c")
    assert lengths.tolist() == [[1, 2, 0], [0, 0, 3]]
    for position, group in enumerate(codec.schema.groups):
        assert RecordDecoder(codec.schema).lengths(Messages.of(data), group).tolist() == lengths[:, position].tolist()


def test_sparse_fields_come_back() -> None:
    """Sparse context and steps come back as SparseVectors, as tf.SparseTensor, and dense on request."""

    @sr.record
    class Bags:
        bag: Any = sr.context("float32", sparse=5)
        wide: Any = sr.context("float64", sparse=2**40)
        steps: Any = sr.feature_list("int64", sparse=4)
        dense: Any = sr.feature_list(str, sparse=3, dense=True)

    records = [
        Bags({1: 2.0, 4: -1.0}, {2**39: 0.5}, [{0: 1}, {}], [{2: "c"}, {0: "a", 1: "b"}]),
        Bags({}, {}, [], []),
        Bags(np.array([0, -0.0, 1, 0, 0], "f4"), {0: 1.0}, [{3: 9}], [{}]),
    ]
    schema = sr.Schema.of(Bags)
    data = schema.encode_batch(records)
    assert schema.decode_batch(data) == records
    assert list(records[2].bag.indices) == [1, 2]
    batch = tf.function(schema.parse_batch)(tf.constant(data))
    assert tf.sparse.to_dense(batch["bag"]).numpy().tolist() == [[0, 2, 0, 0, -1], [0] * 5, [0, 0, 1, 0, 0]]
    assert batch["steps"].dense_shape.numpy().tolist() == [3, 2, 4]
    assert batch["dense"].numpy()[0].tolist() == [[b"", b"", b"c"], [b"a", b"b", b""]]
    one = schema.parse(data[1])
    assert one["steps"].dense_shape.numpy().tolist() == [0, 4]
    assert one["dense"].shape == (0, 3)
    assert schema.parse(data[0])["wide"].indices.numpy().tolist() == [[2**39]]


@pytest.mark.parametrize(("count", "steps"), [(100, 12_000), (16_500, 3)], ids=["large", "many"])
def test_pieces_do_not_show(count: int, steps: int) -> None:
    """Records are encoded piece by piece to the same bytes, and an error names the position in the whole."""
    record_class = attrs.make_class("Steps", {"ids": sr.feature_list("int64")})
    data = [record_class(np.full(n % (steps + 1), 2**62)) for n in range(count)]
    data[-1] = record_class(np.full(steps, 2**62))
    schema = sr.Schema.of(record_class)
    want = [one for first in range(0, count, 999) for one in schema.encode_batch(data[first : first + 999])]
    assert schema.encode_batch(data) == want
    with pytest.raises(sr.RecordError) as caught:
        schema.encode_batch([*data, object(), *data[:9]])
    assert caught.value.position == count


@pytest.mark.parametrize("first", [0, 1, 499, 500, 998, 999])
def test_the_first_of_several_bad_records_is_named(first: int) -> None:
    """Among a thousand, of which others are bad in fields that are looked at before."""
    good = attrs.make_class("Row", {"a": sr.context("int16"), "x": sr.context("int8"), "ids": sr.feature_list("int8")})
    wide = {"a": sr.context("int32"), "x": sr.context("int16"), "ids": sr.feature_list("int16")}
    bad = sr.Schema.of(attrs.make_class("Row", wide))
    make = bad.record_class
    data = sr.Schema.of(good).encode_batch([good(1, i % 100, [i % 100]) for i in range(1000)])
    for position in {min(999, first + 2), 999}:
        data[position] = bad.encode(make(99_999, 1, [1]))
    data[min(999, first + 1)] = bad.encode(make(1, 300, [1]))
    data[first] = bad.encode(make(1, 1, [300 + first]))
    with pytest.raises(sr.RecordError, match=f"int8.*{300 + first}") as caught:
        sr.Schema.of(good).decode_batch(data)
    assert caught.value.position == first


@sr.record
class Labelled:
    label: int = sr.context("int64")
    ids: Any = sr.feature_list("int64")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda bad: bad.context.feature["label"].int64_list.ClearField("value"),
            r"elements in example \(a record of here\)",
        ),
        (
            lambda bad: bad.feature_lists.feature_list.clear(),
            r"Name: \(a record of here\), Feature list 'ids' is required",
        ),
    ],
)
def test_errors_of_the_parse_op_name_the_record(change: Any, message: str) -> None:
    """The label of a record stands in brackets in TensorFlow's sentences, which have no article of their own."""
    schema = sr.Schema.of(Labelled)
    bad = tf.train.SequenceExample.FromString(good := schema.encode(Labelled(1, [2])))
    change(bad)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        Parser(schema, where="a record of here").parse_batch(tf.constant([good, bad.SerializeToString()]))
