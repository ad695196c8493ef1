"""`Crop` against steps cut from whole records."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from slow_records import as_numpy, assert_resumes_exactly, assert_same, trace_of, written

import seqrecorder as sr
from seqrecorder.codec.graph_ops import Stretch
from seqrecorder.codec.parse import Parser

LENGTHS = [5, 0, 12, 1, 3, 4, 9, 0, 2, 7, 8, 1, 30, 6]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(LENGTHS, tmp_path_factory.mktemp("crop") / "traces", shards=2)


def expected(numbers, starts, length, stride=1):
    """Return a batch of crops, cut record by record."""
    rows = []
    for number, start in zip(numbers, starts, strict=True):
        record, kept = trace_of(number, LENGTHS[number]), slice(start, start + (length - 1) * stride + 1, stride)
        missing = length - len(record.flag[kept])
        rows.append(
            {
                "key": np.array(record.key.encode(), object),
                "x": np.pad(record.x[kept], ((0, missing), (0, 0))),
                "weight": np.float32(record.weight),
                "word": np.array([word.encode() for word in record.word[kept]] + [b""] * missing, object),
                "flag": np.pad(record.flag[kept], (0, missing)),
                "sequence_length": np.int64(length - missing),
                "crop_start": np.int64(start),
            }
        )
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def numbers_of(batch):
    return [int(key[1:]) for key in batch["key"]]


@pytest.mark.parametrize("shuffle", [pytest.param(0, marks=pytest.mark.nightly), 10])
def test_crops_are_stretches_of_their_records(corpus: Path, shuffle: int) -> None:
    """Every tensor is that of the record from a place on that fits; all places come, others in every epoch."""
    options = sr.Crop(4, batch_size=5)

    dataset = sr.read(corpus, batch=options, shuffle=shuffle, seed=1, epochs=60)
    batches = [as_numpy(batch) for batch in dataset]
    assert int(dataset.cardinality()) == len(batches) == 60 * 3
    assert dataset.element_spec["x"].shape.as_list() == [None, 4, 2]
    starts: dict[int, list[int]] = {}
    for batch in batches:
        assert_same([batch], [expected(numbers_of(batch), batch["crop_start"].tolist(), 4)])
        for number, start in zip(numbers_of(batch), batch["crop_start"].tolist(), strict=True):
            starts.setdefault(number, []).append(start)
    for number, length in enumerate(LENGTHS):
        assert len(starts[number]) == 60
        assert set(starts[number]) <= set(range(max(length - 4, 0) + 1))
    assert set(starts[10]) == {0, 1, 2, 3, 4}
    assert len(set(starts[12])) > 15
    again = sr.read(corpus, batch=options, shuffle=shuffle, seed=1, epochs=60)
    assert_same(again.take(5), batches[:5])


def test_steps_of_a_crop_may_lie_apart(corpus: Path) -> None:
    """With a stride, the steps of a crop lie so far apart; records that are shorter are padded, or left out."""
    batches = [as_numpy(b) for b in sr.read(corpus, batch=sr.Crop(3, stride=4, batch_size=5), seed=1, epochs=30)]
    starts: dict[int, set[int]] = {}
    for batch in batches:
        assert_same([batch], [expected(numbers_of(batch), batch["crop_start"].tolist(), 3, 4)])
        for number, start in zip(numbers_of(batch), batch["crop_start"].tolist(), strict=True):
            starts.setdefault(number, set()).add(start)
    assert {number: max(places) for number, places in starts.items()} == {
        number: 3 if length == 12 else max(length - 9, 0) for number, length in enumerate(LENGTHS) if number != 12
    } | {12: max(starts[12])}
    assert max(starts[12]) <= 21
    long = sr.read(corpus, batch=sr.Crop(3, stride=4, too_short="drop"), seed=1)
    assert sorted(numbers_of(as_numpy(next(iter(long))))) == [n for n, length in enumerate(LENGTHS) if length >= 9]
    options = {"inputs": "x", "targets": sr.next_step("x"), "weights": False}
    [(_, after)] = sr.read(corpus, batch=sr.Crop(2, stride=3), seed=2, **options)
    [crops] = sr.read(corpus, batch=sr.Crop(2, stride=3), seed=2)
    row = numbers_of(as_numpy(crops)).index(12)
    first, x = int(crops["crop_start"][row]), trace_of(12, LENGTHS[12]).x
    np.testing.assert_array_equal(after[row], [x[first + 3], x[first + 6]])


def test_short_and_empty_records_are_left_out_on_request(corpus: Path) -> None:
    """`too_short="drop"` keeps records of `length` steps and more; `empty="drop"` those of one and more."""
    for options, kept in ((sr.Crop(4, too_short="drop"), 4), (sr.Crop(4, empty="drop"), 1)):
        dataset = sr.read(corpus, batch=options)
        (batch,) = dataset.as_numpy_iterator()
        assert sorted(numbers_of(batch)) == [n for n, length in enumerate(LENGTHS) if length >= kept]
        assert int(dataset.cardinality()) == 1
    with pytest.raises(tf.errors.InvalidArgumentError, match="without steps"):
        list(sr.read(corpus, batch=sr.Crop(4, empty="error")))
    plan = sr.plan(corpus, "train", sr.Crop(4, batch_size=5, drop_remainder=True))
    assert (plan.batches, plan.rows, plan.padded_steps) == (2, 10, 40)


@pytest.mark.parametrize("shuffle", [pytest.param(0, marks=pytest.mark.nightly), 10])
def test_resumes_exactly(tmp_path: Path, shuffle: int, stride: int) -> None:
    """A restored iterator cuts where the one that was saved would have cut."""
    path = written([5, 0, 19, 1, 14, 8, 3], tmp_path / "traces")
    options = {"batch": sr.Crop(4, batch_size=2), "fields": ["key", "x"], "shuffle": shuffle}
    assert_resumes_exactly(lambda: sr.read(path, seed=1, epochs=2, **options), tmp_path, stride)


@sr.record
class Film:
    frame: np.ndarray = sr.feature_list("uint8", shape=(4, 4, 3), storage="png")
    parts: list = sr.feature_list("int64", shape=(None,))
    sound: np.ndarray = sr.feature_list("float32", align="sound")
    note: np.ndarray | None = sr.feature_list("int64", optional=True, default=None)


def test_every_kind_of_field_is_cropped_or_padded(tmp_path: Path) -> None:
    """Images, ragged steps and lists that may be None are cropped alike; a list of another group is left whole."""
    generator = np.random.default_rng(0)
    films = [
        Film(
            generator.integers(0, 255, (n, 4, 4, 3), np.uint8),
            [list(range(i % 3)) for i in range(n)],
            np.arange(n + 2, dtype=np.float32),
            np.arange(n) if n % 2 else None,
        )
        for n in (7, 2, 10, 5)
    ]
    sr.write(films, tmp_path / "films")
    (batch,) = sr.read(tmp_path / "films", batch=sr.Crop(3, mask_name="mask"), seed=2).as_numpy_iterator()
    assert batch["sound"].shape == (4, 12)
    assert batch["sound_length"].tolist() == [9, 4, 12, 7]
    assert batch["mask"].sum(1).tolist() == batch["sequence_length"].tolist() == [3, 2, 3, 3]
    assert len(set(batch["crop_start"].tolist())) > 1
    for row, (film, start) in enumerate(zip(films, batch["crop_start"], strict=True)):
        kept = slice(start, start + 3)
        steps = len(film.frame[kept])
        np.testing.assert_array_equal(batch["frame"][row, :steps], film.frame[kept])
        for step, parts in enumerate(film.parts[kept]):
            assert batch["parts"][row, step, : len(parts)].tolist() == list(parts)
        if film.note is not None:
            assert batch["note"][row, :steps].tolist() == film.note[kept].tolist()


def test_images_outside_of_a_crop_are_not_decoded() -> None:
    """A record of which another image is broken gives its crop."""

    @sr.record
    class Raw:
        frame: list = sr.feature_list(bytes)

    @sr.record
    class Clip:
        frame: np.ndarray = sr.feature_list("uint8", shape=(2, 2, 3), storage="png")

    good = tf.io.encode_png(np.zeros((2, 2, 3), np.uint8)).numpy()
    serialized = [sr.Schema.of(Raw).encode(Raw([good, good, b"broken"]))] * 2
    (group,) = sr.Schema.of(Clip).groups

    def parse(starts):
        stretch = Stretch(tf.constant(starts, tf.int64), 1)
        return Parser(sr.Schema.of(Clip), crops={group: (stretch,)}).parse_batch(serialized)

    assert parse([0, 1])["sequence_length"].numpy().tolist() == [1, 1]
    with pytest.raises(tf.errors.InvalidArgumentError):
        parse([0, 2])


@sr.record
class Filled:
    ids: np.ndarray = sr.feature_list("int64", default=(1, 2, 3))
    crop_start: int = sr.context("int64", default=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fields": ["ids"]}, "'ids' has a default .* cannot be cropped; leave it out"),
        ({}, "has a field 'crop_start', as Crop names what batches carry"),
        ({"fields": ["ids"], "batch": sr.Crop(2, length_field="crop_start")}, "'crop_start' is a context field"),
    ],
)
def test_fields_that_cannot_be_cropped_are_refused(tmp_path: Path, options, message) -> None:
    """With the name of the field, and what to do."""
    sr.write([Filled([1, 2])], tmp_path / "filled")
    with pytest.raises(sr.OptionError, match=message):
        sr.read(tmp_path / "filled", **{"batch": sr.Crop(2), **options})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sr.Crop(0), "length: expected an int of 1 or more"),
        (lambda: sr.Crop(3, batch_size=0), "batch_size"),
        (lambda: sr.Crop(3, too_short="error"), "too_short: expected one of pad, drop"),
    ],
)
def test_options_that_make_no_sense_are_refused(make, message) -> None:
    """Each with an error that names the option."""
    with pytest.raises(sr.OptionError, match=message):
        make()
