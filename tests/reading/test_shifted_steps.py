"""The next and the previous step of whatever `read` gives are those of the records, wherever these are cut."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from combinations import all_at_night
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import CASES as DTYPES
from strategies import as_tensor_holds, from_tensor

import seqrecorder as sr
from seqrecorder.codec.columns import Column
from seqrecorder.reading.derived_fields import Shift

LENGTHS = (3, 1, 5, 0, 2, 7, 4, 4)
START = 99
ANY = [(0, 0)]  # steps that were drawn, whichever


@sr.record
class Text:
    who: int = sr.context("int32")
    whos: Any = sr.feature_list("int32")
    at: Any = sr.feature_list("int32")
    ids: Any = sr.feature_list("int64")
    pairs: Any = sr.feature_list("float32", shape=(2,))
    notes: Any = sr.feature_list("int16", align="notes")
    bag: Any = sr.feature_list("float32", align=None, sparse=4)
    words: Any = sr.feature_list(str, align=None, shape=(None,))


def text(number: int, length: int) -> Text:
    ids = np.arange(length) + 10 * (number + 1)
    return Text(
        number + 1,
        np.full(length, number + 1),
        np.arange(length),
        ids,
        np.stack([ids, -ids], 1).astype("f4"),
        np.arange(number) + 1,
        [],
        [],
    )


def written(lengths: Any, path: Path) -> Path:
    sr.write((text(number, length) for number, length in enumerate(lengths)), path, shards=1)
    return path


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(LENGTHS, tmp_path_factory.mktemp("shifted") / "texts")


FIELDS = ["who", "whos", "at", "ids", "pairs"]
STRATEGIES: dict[str, Any] = {
    "single": None,
    "pad": sr.Pad(3),
    "left": sr.Pad(3, padding_side="left", length=9, padding_values={"ids": -1}),
    "cut": sr.Pad(3, length=3, too_long="cut_start"),
    "bucket": sr.Bucket(3, boundaries=[4], pad_to_bucket_boundary=True),
    "sorted": sr.Bucket(3, boundaries="sorted"),
    "budget": sr.TokenBudget(14),
    "unroll": sr.Unroll(3, 2),
    "window": sr.Window(3, batch_size=4, shift=2),
    "pack": sr.Pack(8, 2),
    "split": sr.Pack(4, 2, too_long="split"),
    "ragged": sr.Ragged(3),
    "flat": sr.Ragged(3, flat=True),
}
ORDINARY = ("left", "unroll")
NAMES = {
    "inputs": {
        "who": "whos",
        "at": "at",
        "before": sr.previous_step("ids", start=START),
        "pair_before": sr.previous_step("pairs"),
    },
    "targets": sr.next_step(["ids", "pairs"]),
}


def flat(value: Any, real: Any) -> Any:
    """Return what is real of a tensor of steps, without its dimensions of records and steps."""
    value = value.flat_values if isinstance(value, tf.RaggedTensor) else value
    return value.numpy().reshape(-1, *value.shape[real.ndim :])[real.ravel()]


def check(path: Path, strategy: Any, kept: Any = None, **options: Any) -> None:
    """Compare what `read` gives with what is worked out from the records by hand, step by step."""
    records = {record.who: record for record in sr.read_records(path, fields=FIELDS)}
    seen: list[tuple[int, int]] = []
    for x, y, weights in sr.read(path, batch=strategy, fields=FIELDS, **NAMES, **options):
        whos = x["who"].flat_values if isinstance(x["who"], tf.RaggedTensor) else x["who"]
        real = whos.numpy() > 0
        steps = list(zip(flat(x["who"], real).tolist(), flat(x["at"], real).tolist(), strict=True))
        seen += steps
        for part, weight, name in zip(y, weights, ("ids", "pairs"), strict=True):
            nexts = [getattr(records[who], name)[at + 1 : at + 2] for who, at in steps]
            have = np.array([len(value) for value in nexts], bool)
            empty = np.zeros(records[1].pairs.shape[1:] if name == "pairs" else ())
            expected = np.array([value[0] if len(value) else empty for value in nexts])
            np.testing.assert_array_equal(flat(part, real), expected.reshape(-1, *empty.shape))
            np.testing.assert_array_equal(flat(weight, real), have)
            assert not flat(weight, ~real).any()
            assert weight.dtype == tf.float32
        before = [records[who].ids[at - 1] if at else START for who, at in steps]
        np.testing.assert_array_equal(flat(x["before"], real), before)
        pairs = [records[who].pairs[at - 1] if at else np.zeros(2) for who, at in steps]
        np.testing.assert_array_equal(flat(x["pair_before"], real), np.reshape(pairs, (-1, 2)))
    lengths = {who: len(record.at) for who, record in records.items()}
    expected_steps = (
        kept if kept not in (None, ANY) else [(who, at) for who, length in lengths.items() for at in range(length)]
    )
    assert set(seen) <= set(expected_steps) if kept == ANY else set(seen) == set(expected_steps)


@pytest.mark.parametrize("case", all_at_night([(case,) for case in STRATEGIES], [(case,) for case in ORDINARY]))
def test_next_and_previous_are_those_of_the_record(texts: Path, case: str) -> None:
    """Across segments, windows and parts of records, and never of another record; what has none weighs nothing."""
    kept = [(n + 1, at) for n, length in enumerate(LENGTHS) for at in range(max(0, length - 3), length)]
    check(texts, STRATEGIES[case], kept if case == "cut" else None)


@pytest.mark.nightly
@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=9).filter(any),
    st.sampled_from(sorted(set(STRATEGIES) - {"cut", "left"})),
)
def test_next_and_previous_for_any_lengths(tmp_path_factory: Any, lengths: list[int], case: str) -> None:
    """Whatever the lengths of the records are."""
    if case != "pack" or max(lengths) <= STRATEGIES["pack"].length:
        check(written(lengths, tmp_path_factory.mktemp("any") / "texts"), STRATEGIES[case])


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=8, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 4), max_size=6),
    shape=st.sampled_from([(), (2,), (2, 3)]),
    by=st.sampled_from([1, -1]),
    seed=st.integers(0, 9),
)
def test_every_dtype_is_shifted_to_the_bit(dtype: str, lengths: Any, shape: Any, by: int, seed: int) -> None:
    """Steps of every dtype and shape are moved as they are, record by record."""
    valid = DTYPES[dtype].valid
    made = sr.record(type("A", (), {"x": sr.feature_list(dtype, shape=shape), "__annotations__": {"x": Any}}))
    [field] = sr.Schema.of(made).fields
    values = valid[np.random.default_rng(seed).integers(0, len(valid), (sum(lengths), *shape))]
    start = valid[seed % len(valid)] if by < 0 else None
    held = as_tensor_holds(values, field)
    column = Column(tf.constant(held, field.element.graph, held.shape), steps=tf.constant(lengths, tf.int64))
    _, shifted, *real = Shift("x", by, start).columns(field, column)
    filler = as_tensor_holds(field.element.zero() if start is None else start, field)
    expected, has_next = [np.empty((0, *shape), held.dtype)], [np.empty(0, bool)]
    for record in np.split(held, np.cumsum(lengths)[:-1]) if lengths else []:
        edge = np.broadcast_to(filler, (len(record[:1]), *shape)).astype(held.dtype)
        expected.append(np.concatenate([record[1:], edge] if by > 0 else [edge, record[:-1]]))
        has_next.append(np.arange(len(record)) < len(record) - 1)
    want, got = np.concatenate(expected), from_tensor(shifted.values)
    assert got.tobytes() == want.tobytes() if got.dtype != object else got.tolist() == want.tolist()
    if by > 0:
        np.testing.assert_array_equal(real[0].values, np.concatenate(has_next))


def test_one_name_many_and_mappings(texts: Path) -> None:
    """A field stands for itself, a list for a tuple; and both go where names go, weights included."""
    [(x, y, weights)] = sr.read(
        texts,
        batch=sr.Pad(8),
        inputs=("ids", sr.previous_step("notes", start=7)),
        targets={"a": sr.next_step("ids"), "b": "who"},
        weights={"a": sr.next_step("at")},
    )
    assert x[1].dtype == tf.int16
    np.testing.assert_array_equal(x[1][:, 0], [0] + [7] * 7)
    np.testing.assert_array_equal(y["a"][0], [11, 12, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(weights["a"][2], [1, 2, 3, 4, 0, 0, 0])
    np.testing.assert_array_equal(weights["b"], np.ones(8))
    two = sr.read(texts, batch=sr.Pad(8), inputs=sr.previous_step(["ids", "at"]), targets=[sr.next_step("ids")])
    assert [tuple(len(part) for part in element) for element in two] == [(2, 1, 1)]
    [only] = sr.read(texts, batch=sr.Pad(8), inputs=sr.previous_step("ids"))
    np.testing.assert_array_equal(only[0], [0, 10, 11, 0, 0, 0, 0])


def test_targets_without_weights_are_shifted_alike(texts: Path) -> None:
    """`weights=False` leaves out the weights alone."""
    [(_, y)] = sr.read(texts, batch=sr.Pad(8), inputs="ids", targets=sr.next_step("ids"), weights=False)
    np.testing.assert_array_equal(y[0], [11, 12, 0, 0, 0, 0, 0])


def test_the_next_step_is_one_that_is_kept(texts: Path) -> None:
    """Where `steps` leaves one in so many; and where it cuts, the next of the record, as before the first one."""
    names = {"inputs": ("ids", sr.previous_step("ids", start=9)), "targets": sr.next_step("ids")}
    [((_, before), y, w)] = sr.read(texts, batch=sr.Pad(8), steps=slice(1, None, 2), **names)
    np.testing.assert_array_equal(y[5], [63, 65, 0])
    np.testing.assert_array_equal(w[5], [1, 1, 0])
    np.testing.assert_array_equal(before[5], [9, 61, 63])
    [((ids, before), y, w)] = sr.read(texts, batch=sr.Pad(8), steps=slice(2, 6, 2), **names)
    np.testing.assert_array_equal(ids[5], [62, 64])
    np.testing.assert_array_equal(y[5], [64, 66])
    np.testing.assert_array_equal(w[5], [1, 1])
    np.testing.assert_array_equal(before[5], [60, 62])


def test_crops_know_the_steps_beside_them(texts: Path) -> None:
    """The next step of a crop's last one is that of the record, and so is the one before its first."""
    for options in ({"seed": 1}, {"seed": 2, "steps": slice(1, None)}):
        check(texts, sr.Crop(3, batch_size=8), ANY, **options)


@sr.record(kw_only=True)
class Film:
    frame: Any = sr.feature_list("uint8", shape=(2, 2, 3), storage="png")
    sound: Any = sr.feature_list("int64", optional=True, default=None)
    packed: Any = sr.feature_list("int16", shape=(2,), storage="packed")
    raw: Any = sr.feature_list("float64", storage="raw", default=np.arange(5.0))


@pytest.mark.parametrize(
    "crop", [pytest.param({"steps": slice(1, 4)}, marks=pytest.mark.nightly), {"steps": slice(-3, None, 2)}]
)
def test_every_storage_is_cropped_after_it_is_shifted(tmp_path: Path, crop: Any) -> None:
    """Images, packed and raw fields, and those that may be None."""
    lengths = (5, 1, 0, 7)
    films = []
    for n in lengths:
        frames = np.random.default_rng(n).integers(0, 255, (n, 2, 2, 3), np.uint8)
        sound, packed = None if n == 5 else np.arange(n), np.arange(2 * n).reshape(n, 2)
        films.append(Film(frame=frames, sound=sound, packed=packed, raw=np.arange(n) / 3))
    sr.write(films, tmp_path / "films")
    names = ["frame", "sound", "packed", "raw"]
    targets = sr.next_step(names)
    [(x, y, weights)] = sr.read(tmp_path / "films", batch=sr.Pad(4), inputs=tuple(names), targets=targets, **crop)
    step = crop["steps"].step or 1
    for name, part, target, all_weights in zip(names, x, y, weights, strict=True):
        weight = all_weights.numpy().reshape(*all_weights.shape[:2], -1)[:, :, 0]
        for row, film in enumerate(films):
            whole = getattr(film, name)
            if whole is None:
                assert not weight[row].any()
                continue
            kept = np.arange(len(whole))[crop["steps"]]
            np.testing.assert_array_equal(np.squeeze(part[row, : len(kept)]), np.squeeze(whole[kept]))
            np.testing.assert_array_equal(weight[row, : len(kept)], kept + step < len(whole))
            nexts = whole[kept[kept + step < len(whole)] + step]
            np.testing.assert_array_equal(np.squeeze(target[row, : len(nexts)]), np.squeeze(nexts))
            assert not weight[row, len(kept) :].any()


@sr.record
class Before:
    ids: Any = sr.feature_list("int64")


@sr.record
class After:
    ids: Any = sr.feature_list("int64")
    marks: Any = sr.feature_list("int64", default=[0, 1, 2, 3, 4], align=None)


def test_defaults_are_cropped_after_they_are_shifted(tmp_path: Path) -> None:
    """Of records that lack the field, the next step is that of the default as a whole."""
    sr.write([Before(range(5)), Before(range(5, 10))], tmp_path / "data")
    names = {"inputs": ("ids", sr.previous_step("marks", start=9)), "targets": sr.next_step("marks")}
    for steps, nexts, before in ((slice(1, 3), [2, 3], [0, 1]), (slice(0, None, 2), [2, 4, 0], [9, 0, 2])):
        [((_, previous), y, w)] = sr.read(tmp_path / "data", schema=After, batch=sr.Pad(2), steps=steps, **names)
        np.testing.assert_array_equal(y, [nexts] * 2)
        np.testing.assert_array_equal(w, [[float(n > 0) for n in nexts]] * 2)
        np.testing.assert_array_equal(previous, [before] * 2)


@pytest.mark.nightly
def test_a_pipeline_of_shifted_steps_resumes(texts: Path, tmp_path: Path) -> None:
    """Its iterator is saved and restored as any other."""
    names = {"batch": sr.Unroll(3, 2), "shuffle": 4, "seed": 1, "inputs": "ids", "targets": sr.next_step("ids")}
    whole = [y.numpy().tolist() for _, y, _ in sr.read(texts, fields=FIELDS, **names)]
    iterator = iter(sr.read(texts, fields=FIELDS, **names))
    for _ in range(2):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "saved"))
    again = iter(sr.read(texts, fields=FIELDS, **names))
    tf.train.Checkpoint(iterator=again).restore(path).assert_consumed()
    assert [y.numpy().tolist() for _, y, _ in again] == whole[2:]


def test_a_language_model_trains_on_every_transition(texts: Path) -> None:
    """The loss over segments is that of all pairs of steps of the records, each once; `fit` takes what is given."""
    records = list(sr.read_records(texts, fields=FIELDS))
    names = {"inputs": "ids", "targets": sr.next_step("ids"), "fields": FIELDS}
    inputs = keras.Input((2,), dtype="int64")
    model = keras.Model(inputs, keras.layers.Embedding(100, 100, embeddings_initializer="glorot_uniform")(inputs))
    logits = model.get_weights()[0].astype(np.float64)
    logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = sum(-logits[a, b] for record in records for a, b in zip(record.ids, record.ids[1:], strict=False))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")
    batches = sr.read(texts, batch=sr.Unroll(3, 2), **names)
    total = sum(float(loss(y, model(x), sample_weight=w)) for x, y, w in batches)
    np.testing.assert_allclose(total, expected, rtol=1e-5)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(True, reduction="mean_with_sample_weight"))
    endless = sr.read(texts, batch=sr.Unroll(3, 2), epochs=None, **names)
    assert np.isfinite(model.fit(endless, steps_per_epoch=2, shuffle=False, verbose=0).history["loss"][0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"targets": sr.next_step("idz")}, r"no field 'idz' \(did you mean 'ids'\?\)"),
        ({"targets": sr.next_step("who")}, "next_step: field 'who' is a context field and has no steps"),
        ({"targets": sr.next_step("bag")}, "next_step: field 'bag' is sparse and its steps cannot be shifted"),
        ({"inputs": sr.previous_step("words")}, "previous_step: field 'words' is ragged"),
        (
            {"inputs": sr.previous_step("ids", start=0.5)},
            "previous_step: start: expected a value of field 'ids', int64",
        ),
        ({"inputs": sr.previous_step("pairs", start=[1, 2, 3])}, r"start: expected a value .* of shape \(2,\)"),
        ({"targets": {"a": sr.next_step(["ids", "at"])}}, "targets: expected one field in each place"),
        ({"targets": sr.next_step("ids"), "batch": sr.Window(2, stride=2)}, r"steps=slice\(None, None, 2\)"),
        ({"targets": sr.next_step("ids"), "fields": ["at"]}, "fields: 'ids' is left out"),
    ],
    ids=lambda value: None if isinstance(value, str) else next(iter(value)),
)
def test_what_has_no_next_step_is_refused(texts: Path, options: Any, message: str) -> None:
    """Fields without steps, or with steps that are no tensors, and starts that are no value of theirs."""
    with pytest.raises((sr.OptionError, sr.SchemaError), match=message):
        sr.read(texts, **{"batch": sr.Pad(4), "inputs": "ids", "fields": None, **options})


@pytest.mark.parametrize("function", [sr.next_step, sr.previous_step])
@pytest.mark.parametrize("field", [[], 3, ["ids", 3], None])
def test_names_are_expected(function: Any, field: Any) -> None:
    """What is shifted is named when the function is called."""
    with pytest.raises(sr.OptionError, match="expected the name of a feature list, or a sequence of names"):
        function(field)
