"""One rule in every reader: what one takes all take, with the same values, and what one refuses all refuse."""

import attrs
import numpy as np
import pytest
import tensorflow as tf
from combinations import all_at_night
from oracle import plain_record, value_of_record

import seqrecorder as sr
from seqrecorder.codec.parse import Parser
from seqrecorder.reading.batching.ragged import parse_ragged
from seqrecorder.reading.batching.step_slices import parse_records

NOTHING = {"optional": True, "default": None}
CUT = {
    "key": sr.context(str),
    "label": sr.context("int32", default=7),
    "pair": sr.context("float32", shape=(2,), **NOTHING),
    "either": sr.context("int64", optional=True, default=5),
    "blob": sr.context("float64", shape=(2,)),
    "tensor": sr.context("int16", shape=(2,), storage="tensor"),
    "image": sr.context("uint8", shape=(1, 2, 1), storage="png", **NOTHING),
    "ids": sr.feature_list("int8"),
    "x": sr.feature_list("float32", shape=(2,), deferred=True, default=None),
    "maybe": sr.feature_list("int64", **NOTHING),
    "empty": sr.feature_list("int64", default=()),
    "neither": sr.feature_list("uint8", optional=True, default=()),
    "packed": sr.feature_list("int64", shape=(2,), storage="packed"),
    "raw": sr.feature_list("int16", storage="raw", **NOTHING),
    "tensors": sr.feature_list("bool", storage="tensor"),
    "words": sr.feature_list(str, **NOTHING),
}
"""Fields that every strategy takes."""

WHOLE = {
    **CUT,
    "tags": sr.context("int64", shape=(None,)),
    "more_tags": sr.context("int64", shape=(None, 2), default=[[1, 2], [3, 4]]),
    "no_tags": sr.context("int16", shape=(None,), storage="tensor", **NOTHING),
    "bag": sr.context("float32", sparse=5),
    "full_bag": sr.context("int64", sparse=5, default={1: 2}),
    "ragged": sr.feature_list("int64", shape=(None,), align="b"),
    "bags": sr.feature_list("int64", sparse=4, align="b", **NOTHING),
    "filled": sr.feature_list("float64", default=[1.5, 2.5], align=None),
    "steps": sr.feature_list("int64", shape=(None,), default=[[1], [], [2, 3]], align=None),
    "free": sr.feature_list("float32", shape=(None, 2), align=None, **NOTHING),
    "either_list": sr.feature_list("int64", default=[4], optional=True, align=None),
}
SCHEMAS = {
    name: sr.Schema.of(attrs.make_class(name, fields, kw_only=True))
    for name, fields in {"Cut": CUT, "Whole": WHOLE}.items()
}


def record_of(schema, random):
    """Return a random record."""
    steps = dict.fromkeys(schema.groups, 0) | {group: int(random.integers(0, 4)) for group in schema.groups}

    def value(field):
        if field.optional and random.random() < 0.3:
            return None
        if field.sparse is not None:
            one = lambda: {int(i): 1 for i in random.choice(field.sparse, random.integers(0, 3), replace=False)}  # noqa: E731
            return [one() for _ in range(steps[field.group])] if field.is_list else one()
        size = [steps[field.group]] if field.is_list else []
        if field.element.is_text:
            texts = ["ab", "", "\u00e9"]
            return [texts[i] for i in random.integers(0, 3, size)] if field.is_list else "k"
        take = lambda shape: random.integers(0, 2, shape).astype(field.element.numpy)  # noqa: E731
        if field.is_list and field.is_ragged:
            return [take((random.integers(0, 3), *field.rest)) for _ in range(size[0])]
        shape = (*size, *((random.integers(0, 3),) if field.is_ragged else ()), *field.rest)
        return take(shape) if shape else take(1)[0]

    return schema.record_class(**{field.name: value(field) for field in schema.fields})


def changed(data, random):
    """Return a record of which up to two features were changed as others might have written them."""
    message = tf.train.SequenceExample.FromString(data)
    if random.random() < 0.4:  # records of others say nothing about presence
        for name in [name for name in message.context.feature if name.endswith("_present")]:
            del message.context.feature[name]
    for _ in range(random.integers(0, 3)):
        is_list = random.random() < 0.5
        place = message.feature_lists.feature_list if is_list else message.context.feature
        name = str(random.choice(sorted(place)))
        if is_list and random.random() < 0.6:
            change_steps(place, name, random)
        elif is_list and not place[name].feature:
            del place[name]
        else:
            change_feature(place, name, place[name].feature[0] if is_list else place[name], random)
    return message.SerializeToString(deterministic=True)


def change_steps(lists, name, random):
    steps = list(lists[name].feature)
    change = random.integers(4)
    if change == 0:
        del lists[name]
        return
    steps = [[], steps[:-1], [*steps, *(steps[-1:] or [tf.train.Feature()])]][change - 1]
    lists[name].CopyFrom(tf.train.FeatureList(feature=steps))


def change_feature(place, name, feature, random):
    kind = feature.WhichOneof("kind")
    values = list(getattr(feature, kind).value) if kind else []
    match random.integers(7):
        case 0:
            del place[name]
        case 1:
            feature.Clear()
        case 2:
            feature.Clear()
            getattr(feature, kind or "int64_list").SetInParent()
        case 3:
            feature.Clear()
            getattr(feature, str(random.choice(["int64_list", "float_list"]))).value.append(1)
        case 4:
            getattr(feature, kind or "int64_list").value.extend(values[-1:] or ([1] if kind != "bytes_list" else [b""]))
        case 5 if values:
            del getattr(feature, kind).value[-1]
        case 6 if kind == "int64_list" and values:
            getattr(feature, kind).value[0] = int(random.choice([-1, 0, 1, 3, 5, 200]))
        case 6 if kind == "bytes_list" and values:
            wrong = [b"abc", tf.io.serialize_tensor(tf.zeros([3], tf.int16)).numpy(), bytes(16), PNG]
            # Text that is no UTF-8 is another matter: graphs keep the bytes, Python refuses them.
            getattr(feature, kind).value[0] = wrong[0 if name in ("key", "words") else random.integers(len(wrong))]


PNG = tf.io.encode_png(tf.zeros([2, 2, 1], tf.uint8)).numpy()


def single(schema):
    return Parser(schema).parse


def batched(schema):
    parser = Parser(schema)
    return lambda one: parser.parse_batch(one[tf.newaxis])


def ragged(schema, *, flat):
    parser = Parser(schema)
    return lambda one: parse_ragged(parser, one[tf.newaxis], flat=flat)


def cut(schema):
    parser = Parser(schema)

    def parse(one):
        lengths = parser.lengths(one[tf.newaxis], "default")
        parsed = parse_records(parser, one[tf.newaxis], lengths, "here")
        length = tf.maximum(lengths[0], 1)
        return {**parsed.fields(tf.constant([0], tf.int64), tf.range(length)[tf.newaxis]), "sequence_length": lengths}

    return parse


READERS = {
    "none": (single, SCHEMAS["Whole"]),
    "Pad, Bucket": (batched, SCHEMAS["Whole"]),
    "Ragged": (lambda schema: ragged(schema, flat=False), SCHEMAS["Whole"]),
    "Ragged(flat=True)": (lambda schema: ragged(schema, flat=True), SCHEMAS["Whole"]),
    "Window, Unroll, Pack": (cut, SCHEMAS["Cut"]),
}


def plain(field, value, *, single):
    """Return the value of one record in what a reader gives, as the oracle does; padding left on."""
    if isinstance(value, tf.SparseTensor):
        places, values = value.indices.numpy().tolist(), value.values.numpy().tolist()
        steps = [{} for _ in range(int(value.dense_shape[-2]))] if field.is_list else [{}]
        for place, item in zip(places, values, strict=True):
            steps[place[-2] if field.is_list else 0][place[-1]] = item
        return steps if field.is_list else steps[0]
    items = value.to_list() if isinstance(value, tf.RaggedTensor) else np.asarray(value.numpy()).tolist()
    return items if single else items[0]


def decoded(value):
    if isinstance(value, list):
        return [decoded(part) for part in value]
    return value.decode() if isinstance(value, bytes) else value


def is_padded(found, wanted):
    """Whether a value begins with what is wanted and goes on with zeros."""
    if not isinstance(wanted, list):
        return found == wanted
    if wanted and isinstance(wanted[0], dict):
        return found[: len(wanted)] == wanted and not any(found[len(wanted) :])
    if not isinstance(found, list) or len(found) < len(wanted):
        return False
    rest = np.array([np.max(np.array(x or [0]) != 0) if isinstance(x, list) else bool(x) for x in found[len(wanted) :]])
    return not rest.any() and all(is_padded(a, b) for a, b in zip(found, wanted, strict=False))


def compare(schema, data, wanted, make, *, flat_names=(), is_single=False):
    """Assert that a reader takes the records that the oracle takes, and gives their values."""
    numbered = tf.data.Dataset.from_tensor_slices((list(data), list(range(len(data)))))
    parse = tf.autograph.experimental.do_not_convert(make(schema))
    parsed = numbered.map(lambda one, number: (number, parse(one)), num_parallel_calls=2).ignore_errors()
    found = {int(number): values for number, values in parsed}
    for number, expected in enumerate(wanted):
        assert (number in found) == (expected is not None), describe(data[number], expected)
        if expected is None:
            continue
        for field in schema.fields:
            want, have = expected[field.name], found[number][field.name]
            if field.optional:
                present = found[number][f"{field.name}_present"].numpy()
                assert bool(present if is_single else present[0]) == (want is not None), describe(data[number], field)
            if want is None:
                continue
            have = decoded(plain(field, have, single=is_single or field.name in flat_names))
            assert is_padded(have, want), (have, want, describe(data[number], field))


def describe(data, of):
    return f"{of}: {tf.train.SequenceExample.FromString(data)}"


def records_and_values(schema, count, random):
    data = [changed(schema.encode(record_of(schema, random)), random) for _ in range(count)]
    wanted = [value_of_record(schema, one) for one in data]
    assert min(sum(w is None for w in wanted), sum(w is not None for w in wanted)) > count // 5
    return data, wanted


MANY = [60, pytest.param(15_000, marks=pytest.mark.nightly)]
ORDINARY = ["none", "Window, Unroll, Pack"]


@pytest.mark.parametrize("count", MANY)
@pytest.mark.parametrize("name", all_at_night([(name,) for name in READERS], [(name,) for name in ORDINARY]))
def test_graphs_take_what_the_message_says(name, count, random, figure):
    """Every strategy takes the records that their messages make records, with the values that stand there."""
    make, schema = READERS[name]
    data, wanted = records_and_values(schema, count, random)
    flat = [f.name for f in schema.fields if f.is_list and not f.may_lack and not f.is_ragged and f.sparse is None]
    is_single = name.startswith("none")
    compare(schema, data, wanted, make, flat_names=flat if "flat" in name else (), is_single=is_single)
    figure(29, f"changed records read by {name}", count, "what their message says")


@pytest.mark.parametrize("count", MANY)
def test_decode_takes_what_the_message_says(count, random, figure):
    """`decode_batch` takes the records that their messages make records, with the values that stand there."""
    schema = SCHEMAS["Whole"]
    data, wanted = records_and_values(schema, count, random)
    good = [one for one, expected in zip(data, wanted, strict=True) if expected is not None]
    expected = [one for one in wanted if one is not None]
    for one, record, want in zip(good, schema.decode_batch(good), expected, strict=True):
        assert plain_record(schema, record) == want, describe(one, record)
    for one in [one for one, want in zip(data, wanted, strict=True) if want is None][: count // 6]:
        with pytest.raises(sr.RecordError):
            print(describe(one, schema.decode(one)))  # noqa: T201 - pytest shows it when a test fails
    figure(29, "changed records decoded", count, "what their message says")


def write(path, data):
    with tf.io.TFRecordWriter(str(path)) as file:
        for one in data:
            file.write(one)
    return path


STRATEGIES = {
    "none": None,
    "Pad": sr.Pad(2),
    "auto": sr.Bucket(2),
    "boundaries": sr.Bucket(2, boundaries=[2]),
    "sorted": sr.Bucket(2, boundaries="sorted"),
    "max_steps": sr.TokenBudget(8),
    "Ragged": sr.Ragged(2),
    "flat": sr.Ragged(2, flat=True),
    "Crop": sr.Crop(9, batch_size=2),
    "Window": sr.Window(2, batch_size=2),
    "Unroll": sr.Unroll(2, 2),
    "Pack": sr.Pack(4, 1),
    "Pack sides": sr.Pack({"ids": 4, "other": 4}, 1),
    "Groups": sr.Groups(by="label", groups=1, each=2),
}


@sr.record
class Pair:
    ids: np.ndarray = sr.feature_list("int64")
    x: np.ndarray = sr.feature_list("float32", deferred=True, default=None)
    label: int = sr.context("int32", default=0)


@sr.record
class Sides(Pair):
    other: np.ndarray = sr.feature_list("float32", align="other", default=())


def message_of(**lists):
    message = tf.train.SequenceExample()
    for name, steps in lists.items():
        message.feature_lists.feature_list[name].SetInParent()
        for step in steps:
            kind = "int64_list" if name == "ids" else "float_list"
            getattr(message.feature_lists.feature_list[name].feature.add(), kind).value.append(step)
    return message.SerializeToString()


GOOD = message_of(ids=[1, 2], x=[1, 2], other=[1, 2, 3])
BAD = {
    "short": message_of(ids=[1, 2, 3], x=[1]),
    "empty": message_of(ids=[1, 2, 3], x=[]),
    "first empty": message_of(ids=[], x=[1]),
    "missing": message_of(ids=[1, 2, 3]),
    "both missing": message_of(),
}


@pytest.mark.parametrize(
    "name", all_at_night([(name,) for name in STRATEGIES], [("sorted",), ("Unroll",), ("Pack sides",), ("Groups",)])
)
def test_strategies_take_the_same_records(name, tmp_path):
    """Every strategy reads a sound record, and refuses each of these with an error that names a field."""
    batch, schema = STRATEGIES[name], Sides if name == "Pack sides" else Pair
    assert len(list(sr.read(write(tmp_path / "good", [GOOD, GOOD]), schema=schema, batch=batch))) > 0
    for what, bad in BAD.items():
        with pytest.raises((tf.errors.InvalidArgumentError, sr.SeqrecorderError), match=r"ids|\bx\b"):
            list(sr.read(write(tmp_path / what, [GOOD, bad]), schema=schema, batch=batch))


@pytest.mark.parametrize("what", BAD)
def test_records_are_refused_without_tensors_too(what, tmp_path):
    """`decode`, `read_records` and `verify` refuse what strategies refuse, `verify` with the place of the record."""
    path = write(tmp_path / "records", [GOOD, BAD[what]])
    with pytest.raises(sr.RecordError):
        sr.Schema.of(Pair).decode(BAD[what])
    with pytest.raises(sr.RecordError, match="record 1"):
        list(sr.read_records(path, schema=Pair))
    [problem] = sr.verify(path, schema=Pair).problems
    assert "record 1 at byte" in problem.message
