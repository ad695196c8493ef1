"""`Pad`: its options, against a slow implementation that pads objects one by one."""

from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import tensorflow as tf
from slow_records import assert_resumes_exactly

import seqrecorder as sr

LENGTHS = [3, 0, 5, 1, 7, 2, 4, 4, 6, 1, 0]


@sr.record
class Talk:
    """Two sequences of different lengths, in every form that is padded."""

    key: str = sr.context(str, key=True)
    ids: Any = sr.feature_list("int32")
    vectors: Any = sr.feature_list("float64", shape=(2,))
    words: Any = sr.feature_list(str)
    flags: Any = sr.feature_list(bool, storage="packed")
    parts: Any = sr.feature_list("int64", shape=(None,))
    bag: Any = sr.context("int16", shape=(None,))
    answer: Any = sr.feature_list("uint8", align="answer")
    notes: Any = sr.feature_list("float32", optional=True, default=None)


def talk(number: int, length: int) -> Talk:
    random = np.random.default_rng(number)
    return Talk(
        f"k{number}",
        random.integers(1, 100, length),
        random.normal(size=(length, 2)),
        [f"w{step}" for step in range(length)],
        random.integers(0, 2, length) > 0,
        [random.integers(1, 9, size) for size in random.integers(0, 4, length)],
        random.integers(1, 9, number % 4),
        random.integers(1, 9, (length * 3 + number) % 5),
        None if number % 3 else random.normal(size=length).astype("f4"),
    )


TALKS = [talk(number, length) for number, length in enumerate(LENGTHS)]
LISTS = [field for field in sr.Schema.of(Talk).fields if field.is_list]


@pytest.fixture(scope="module")
def talks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pad") / "talks"
    sr.write(TALKS, path)
    return path


def filled(
    rows: list[Any], width: int, filler: Any, dtype: Any, *, left: bool, rest: tuple[int, ...] = ()
) -> np.ndarray:
    out = np.full((len(rows), width, *rest), filler, dtype)
    for row, values in enumerate(rows):
        start = width - len(values) if left else 0
        if len(values):
            out[row, start : start + len(values)] = values
    return out


def slow(options: sr.Pad, chunk: list[Talk]) -> dict[str, np.ndarray]:
    """Return a batch of some records, made value by value."""
    side = options.padding_side
    to = options.length

    def of_group(option: Any, group: str, default: Any) -> Any:
        if not isinstance(option, dict):
            return option
        return next((option[field.name] for field in LISTS if field.group == group and field.name in option), default)

    batch: dict[str, np.ndarray] = {"key": np.array([record.key.encode() for record in chunk], object)}
    for field in LISTS:
        target, left = of_group(to, field.group, None), of_group(side, field.group, "right") == "left"
        cut = slice(None)
        if target is not None and options.too_long.startswith("cut"):
            cut = slice(target) if options.too_long == "cut_end" else slice(-target, None)
        values = [() if getattr(record, field.name) is None else getattr(record, field.name)[cut] for record in chunk]
        members = [f.name for f in LISTS if f.group == field.group and not f.optional]
        lengths = [len(getattr(record, members[0])[cut]) for record in chunk]
        width = target or max([1, *lengths])
        width = -(-width // options.pad_to_multiple_of) * options.pad_to_multiple_of
        text = field.element.is_text
        filler = options.padding_values.get(field.name, "" if text else 0)
        dtype = object if text else field.element.numpy
        if text:
            filler, values = filler.encode(), [[word.encode() for word in row] for row in values]
        if field.is_ragged:
            inner = max([1, *(len(step) for row in values for step in row)])
            values = [filled(row, inner, filler, dtype, left=False) for row in values]
            batch[field.name] = filled(values, width, filler, dtype, left=left, rest=(inner,))
        else:
            # A field that a record lacks is all padding.
            batch[field.name] = filled(values, width, filler, dtype, left=left, rest=field.rest)
        name = "sequence_length" if field.group == "default" else f"{field.group}_length"
        batch[name] = np.array(lengths)
        mask = filled([[True] * n for n in lengths], width, False, bool, left=left)
        batch["mask" if field.group == "default" else f"{field.group}_mask"] = mask
    bags = [record.bag for record in chunk]
    filler = options.padding_values.get("bag", 0)
    batch["bag"] = filled(bags, max([1, *map(len, bags)]), filler, "i2", left=False)
    batch["notes_present"] = np.array([record.notes is not None for record in chunk])
    return batch


def fits(options: sr.Pad, record: Talk) -> bool:
    """Return whether a record is not left out for its length."""
    if options.too_long != "drop":
        return True
    most = options.length if isinstance(options.length, dict) else dict.fromkeys(("ids", "answer"), options.length)
    return all(len(getattr(record, name)) <= steps for name, steps in most.items())


OPTIONS = {
    "plain": sr.Pad(4, mask_name="mask"),
    "values": sr.Pad(
        4,
        padding_values={
            "ids": -1,
            "vectors": np.nan,
            "words": "<pad>",
            "flags": True,
            "parts": -7,
            "bag": 99,
            "notes": 0.5,
        },
        mask_name="mask",
    ),
    "left": sr.Pad(3, padding_side="left", mask_name="mask", padding_values={"ids": -1, "parts": -1}),
    "left for one group": sr.Pad(4, padding_side={"answer": "left"}, mask_name="mask"),
    "multiple": sr.Pad(4, pad_to_multiple_of=4, mask_name="mask"),
    "fixed": sr.Pad(4, length=9, mask_name="mask"),
    "cut at the end": sr.Pad(4, length=3, too_long="cut_end", mask_name="mask", padding_values={"words": "?"}),
    "cut at the start, left": sr.Pad(5, length=3, too_long="cut_start", padding_side="left", mask_name="mask"),
    "left out": sr.Pad(3, length=5, too_long="drop", mask_name="mask"),
    "left out for one group": sr.Pad(3, length={"answer": 2}, too_long="drop", mask_name="mask"),
    "cut one group": sr.Pad(4, length={"answer": 2}, too_long="cut_end", pad_to_multiple_of=3, mask_name="mask"),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_batches_are_those_padded_one_by_one(talks: Path, case: str) -> None:
    """Every dtype, form and option gives what a loop over records gives."""
    options = OPTIONS[case]
    dataset = sr.read(talks, batch=options)
    batches = list(dataset)
    chosen = [record for record in TALKS if fits(options, record)]
    size = options.batch_size
    assert len(batches) == int(dataset.cardinality()) == -(-len(chosen) // size)
    for number, batch in enumerate(batches):
        want = slow(options, chosen[number * size : (number + 1) * size])
        assert set(batch) == set(want)
        for name, value in want.items():
            np.testing.assert_array_equal(batch[name].numpy(), value, err_msg=f"batch {number}, {name}")
            assert batch[name].dtype == tf.as_dtype(value.dtype if value.dtype != object else tf.string)


@pytest.mark.parametrize(
    ("empty", "kept"),
    [("keep", LENGTHS), ("drop", [len(record.ids) for record in TALKS if len(record.ids) and len(record.answer)])],
)
def test_records_without_steps(talks: Path, empty: Any, kept: list[int]) -> None:
    """Records without steps in a list are rows of padding, or left out, and the number of batches is known."""
    dataset = sr.read(talks, batch=sr.Pad(2, empty=empty))
    batches = list(dataset)
    assert np.concatenate([batch["sequence_length"] for batch in batches]).tolist() == kept
    assert int(dataset.cardinality()) == len(batches)
    assert min(batch["ids"].shape[1] for batch in batches) >= 1


def test_records_without_steps_are_an_error_on_request(talks: Path) -> None:
    """With empty="error" the first record without steps stops the reading, and says what to do."""
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"talks.*without steps \(empty="):
        list(sr.read(talks, batch=sr.Pad(2, empty="error")))


def test_records_that_are_too_long_are_an_error_first(talks: Path) -> None:
    """A record longer than `length` is an error before anything is read, or in the graph where no lengths are known."""
    with pytest.raises(sr.OptionError, match="length=5: 2 records are longer than 5 steps, the longest has 7;"):
        sr.read(talks, batch=sr.Pad(2, length=5))
    bare = sr.read(sorted(map(str, talks.glob("train/*.tfrecord"))), schema=Talk, batch=sr.Pad(2, length=5))
    with pytest.raises(tf.errors.InvalidArgumentError, match="length=5 is less than the length"):
        list(bare)


def test_records_that_are_too_long_are_left_out_on_request(talks: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Their number is logged; lengths are those after `steps`, and bare shards' are found by parsing."""
    options = sr.Pad(3, length={"ids": 4}, too_long="drop")
    bare = sr.read(sorted(map(str, talks.glob("train/*.tfrecord"))), schema=Talk, batch=options)
    keys = [key for batch in bare for key in batch["key"].numpy()]
    assert keys == [f"k{number}".encode() for number, length in enumerate(LENGTHS) if length <= 4]
    assert not caplog.text
    dataset = sr.read(talks, batch=options, steps=slice(2, None), shuffle=50, seed=1)
    keys = [key for batch in dataset for key in batch["key"].numpy()]
    assert sorted(keys) == sorted(f"k{number}".encode() for number, length in enumerate(LENGTHS) if length <= 6)
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "1 record left out: more than 4 steps"
    ]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"padding_values": {"idz": 0}}, sr.SchemaError, "did you mean 'ids'"),
        ({"padding_values": {"ids": 1.5}}, sr.OptionError, "padding_values: field 'ids': expected int32"),
        ({"padding_values": {"key": "x"}}, sr.OptionError, "'key' is not padded"),
        ({"length": {"key": 3}}, sr.OptionError, "'key' is a context field"),
        ({"length": {"ids": 3, "words": 4}, "too_long": "cut_end"}, sr.OptionError, "'words' and another field"),
        ({"padding_side": {"ids": "left", "words": "right"}}, sr.OptionError, "'words' and another field"),
    ],
)
def test_options_that_do_not_fit_the_fields(talks: Path, options: dict[str, Any], error: type, message: str) -> None:
    """Options that name fields are checked against them before anything is read."""
    with pytest.raises(error, match=message):
        sr.read(talks, batch=sr.Pad(4, **options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"padding_values": 0}, "padding_values: expected a mapping"),
        ({"padding_side": "top"}, "padding_side: expected one of right, left, got 'top'"),
        ({"padding_side": {"ids": "top"}}, "padding_side: expected one of right, left, got 'top'"),
        ({"pad_to_multiple_of": 0}, "pad_to_multiple_of: expected an int of 1 or more"),
        ({"length": 0}, "length: expected an int of 1 or more"),
        ({"length": {"ids": 2.5}}, "length: expected an int of 1 or more"),
        ({"length": {"ids": None}}, "length: expected an int of 1 or more, got None"),
        ({"too_long": "cut_end"}, "too_long: goes with length"),
        ({"length": 3, "too_long": "cut"}, "too_long: expected one of error, drop, cut_end, cut_start"),
        ({"empty": "skip"}, "empty: expected one of keep, drop, error"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    """An option that makes no sense is refused where it stands, by name."""
    with pytest.raises(sr.OptionError, match=message):
        sr.Pad(4, **options)


def test_sparse_steps_have_no_side(tmp_path: Path) -> None:
    """Sparse steps have no padding to put on the left, unless they are read dense."""
    for dense in (False, True):
        made = attrs.make_class("Bags", {"x": sr.feature_list("int64", sparse=3, dense=dense)})
        path = tmp_path / str(dense)
        sr.write([made([{0: 1}]), made([{1: 2}, {2: 3}])], path)
        if dense:
            [batch] = sr.read(path, schema=made, batch=sr.Pad(2, padding_side="left"))
            assert batch["x"].numpy().tolist() == [[[0, 0, 0], [1, 0, 0]], [[0, 2, 0], [0, 0, 3]]]
        else:
            with pytest.raises(sr.OptionError, match="'x' is sparse, without padding"):
                sr.read(path, schema=made, batch=sr.Pad(2, padding_side="left"))


def test_shuffled_epochs_hold_every_record_once(talks: Path) -> None:
    """Every epoch holds every record once, in an order of its own that its seed repeats."""
    orders = []
    for _ in range(2):
        batches = sr.read(talks, batch=sr.Pad(len(TALKS), padding_side="left"), shuffle=100, seed=4, epochs=3)
        orders.append([batch["key"].numpy().tolist() for batch in batches])
    assert orders[0] == orders[1]
    assert len({tuple(order) for order in orders[0]}) == 3
    assert all(sorted(order) == sorted(record.key.encode() for record in TALKS) for order in orders[0])


def test_resumes_exactly_at_every_batch(talks: Path, tmp_path: Path, stride: int) -> None:
    """An iterator saved before any batch resumes with the identical remainder."""
    options = sr.Pad(3, length=4, too_long="cut_start", padding_side="left", empty="drop", padding_values={"ids": -1})
    assert_resumes_exactly(
        lambda: sr.read(talks, batch=options, shuffle=5, seed=2, epochs=2, index_name="at"), tmp_path, stride
    )


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        (sr.Pad(2, length=5, drop_remainder=True), 5),
        (sr.Pad(2, length=5, pad_to_multiple_of=4, drop_remainder=True, padding_side="left"), 8),
        (sr.Bucket(2, boundaries=[9], pad_to_bucket_boundary=True, drop_remainder=True), 8),
        (sr.Bucket(2, buckets=1, pad_to_bucket_boundary=True, drop_remainder=True), 4),
        (sr.Bucket(2, boundaries=[3], pad_to_bucket_boundary=True, drop_remainder=True), None),
        (sr.Pad(2, drop_remainder=True), None),
    ],
    ids=str,
)
def test_what_is_fixed_is_static(tmp_path: Path, options: object, steps: int | None) -> None:
    """Where all batches have one shape, it is known before any is read: of values, text, masks, targets and weights."""
    rows = [Spoken(np.ones((n, 3), "f4"), ["a"] * n, [[1]] * n) for n in (1, 4, 2, 3)]
    sr.write(rows, tmp_path / "spoken")
    options = attrs.evolve(options, mask_name="mask")
    spec = sr.read(tmp_path / "spoken", batch=options).element_spec
    assert spec["x"].shape.as_list() == [2, steps, 3]
    assert spec["word"].shape.as_list() == spec["mask"].shape.as_list() == [2, steps]
    assert spec["ragged"].shape.as_list() == [2, steps, None]
    dataset = sr.read(tmp_path / "spoken", batch=options, inputs="word", targets="x")
    assert [part.shape.as_list()[:2] for part in dataset.element_spec] == [[2, steps]] * 3
    assert all(x.shape[1] == (steps or x.shape[1]) for x, *_ in dataset)


@sr.record
class Spoken:
    x: np.ndarray = sr.feature_list("float32", shape=(3,))
    word: np.ndarray = sr.feature_list(str)
    ragged: list = sr.feature_list("int32", shape=(None,))
