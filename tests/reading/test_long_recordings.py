"""Windows and crops of long recordings, whose buffers are decoded where these lie: the same as of arrays in memory."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from combinations import all_at_night
from slow_records import assert_resumes_exactly

import seqrecorder as sr

STEPS = (190_000, 1500, 185_001)  # of 74 bytes: two records of the mean size exceed a window of 16 MiB


@sr.record
class Recording:
    name: str = sr.context(str, key=True)
    signal: np.ndarray = sr.feature_list("float32", shape=(16,), storage="buffer")
    count: np.ndarray = sr.feature_list("int16", storage="buffer")
    valid: np.ndarray = sr.feature_list("bool", storage="buffer")
    label: np.ndarray = sr.feature_list("int64")


def recording(number: int) -> Recording:
    steps, rng = STEPS[number], np.random.default_rng(number)
    return Recording(
        f"r{number}",
        rng.standard_normal((steps, 16), np.float32),
        rng.integers(-500, 500, steps).astype(np.int16),
        rng.integers(0, 2, steps).astype(bool),
        rng.integers(0, 9, steps),
    )


RECORDS = [recording(number) for number in range(len(STEPS))]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long") / "corpus"
    manifest = sr.write(RECORDS, path, shards=1)
    assert 2 * manifest.splits["train"].bytes / len(STEPS) > 16 << 20, "buffers of such records are not kept apart"
    return path


def rows(batches: Any) -> list[dict[str, Any]]:
    """The windows of all batches, each with what belongs to it."""
    return [
        {name: values[row] for name, values in batch.items()} for batch in batches for row in range(len(batch["name"]))
    ]


def padded(values: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Values at positions of a record, zeros where there are none."""
    inside = (positions >= 0) & (positions < len(values))
    out = values[np.where(inside, positions, 0)]
    out[~inside] = 0
    return out


def require_windows(found: list[dict[str, Any]], window: sr.Window) -> None:
    """Compare windows with those of arrays in memory, each found by its record and number."""
    by_name = {record.name: record for record in RECORDS}
    for row in found:
        record = by_name[row["name"].decode()]
        steps, start = len(record.count), int(row["window_index"]) * (window.shift or window.length)
        if window.pad == "start":
            start = min(start, steps - window.length - window.horizon)
        at = start + np.arange(window.length) * window.stride
        after = start + (window.length + window.gap + np.arange(window.horizon)) * window.stride
        assert row["sequence_length"] == ((at >= 0) & (at < steps)).sum()
        for name in ("signal", "count", "valid", "label"):
            np.testing.assert_array_equal(row[name], padded(getattr(record, name), at))
            if window.horizon:
                np.testing.assert_array_equal(row[f"{name}_horizon"], padded(getattr(record, name), after))


WINDOWS = [
    sr.Window(1000, shift=700, batch_size=7),
    sr.Window(2000, shift=900, stride=3, horizon=5, gap=2, tail="drop", batch_size=16),
    sr.Window(1600, shift=10_000, horizon=3, pad="start", batch_size=4),
    sr.Window(1000, shift=999, tail="pad", batch_size=50, drop_remainder=True),
]


@pytest.mark.parametrize(
    ("window", "shuffle"),
    all_at_night(
        [(window, shuffle) for window in WINDOWS for shuffle in (None, 3)],
        [(window, (None, 3)[number % 2]) for number, window in enumerate(WINDOWS)],
    ),
)
def test_windows_of_long_records_are_exact(corpus: Path, window: sr.Window, shuffle: int | None) -> None:
    """Every window comes once, in turn unless records are shuffled, with all fields as they were written."""
    options = {} if shuffle is None else {"shuffle": shuffle, "seed": 3}
    dataset = sr.read(corpus, batch=window, **options)
    found = rows(dataset.as_numpy_iterator())
    expected = [
        (record.name.encode(), number)
        for record in RECORDS
        for number in range(int(window.counts(np.array([len(record.count)]), np)[0]))
    ]
    names = [(row["name"], row["window_index"]) for row in found]
    left_out = len(expected) % window.batch_size if window.drop_remainder else 0
    assert len(names) == len(set(names)) == len(expected) - left_out
    if shuffle is None:
        assert names == expected[: len(names)]
    else:
        assert names != expected[: len(names)]
        assert set(names) <= set(expected)
    assert int(dataset.cardinality()) == -(-len(found) // window.batch_size)
    require_windows(found, window)


def test_windows_of_long_records_resume(corpus: Path, tmp_path: Path) -> None:
    """An iterator that is saved between two batches, and restored, gives the batches that were still to come."""
    window = sr.Window(1000, shift=20_000, batch_size=3)
    dataset = sr.read(corpus, batch=window, fields=["count"], shuffle=3, seed=5)
    iterator = iter(dataset)
    for _ in range(2):
        next(iterator)
    saved = tf.train.Checkpoint(iterator=iterator).save(tmp_path / "state")
    rest = [batch["count"].numpy().tolist() for batch in iterator]
    again = iter(dataset)
    tf.train.Checkpoint(iterator=again).restore(saved)
    assert rest
    assert [batch["count"].numpy().tolist() for batch in again] == rest


def test_buffers_of_other_lengths_than_what_is_aligned_are_refused(tmp_path: Path) -> None:
    """A recording whose fields differ in length names the field, as one of short records does."""

    @sr.record
    class Apart:
        signal: np.ndarray = sr.feature_list("float32", storage="buffer", align=None)
        label: np.ndarray = sr.feature_list("float32", storage="buffer", align=None)

    @sr.record
    class Together:
        signal: np.ndarray = sr.feature_list("float32", storage="buffer")
        label: np.ndarray = sr.feature_list("float32", storage="buffer")

    sr.write([Apart(np.zeros(3_000_000, "f4"), np.zeros(2_999_999, "f4"))], tmp_path / "apart")
    dataset = sr.read(sorted((tmp_path / "apart").rglob("*.tfrecord")), schema=Together, batch=sr.Window(1000))
    with pytest.raises(tf.errors.InvalidArgumentError, match="lengths.*are expected of field .*label"):
        list(dataset)


CROPS = [
    sr.Crop(1000, batch_size=2),
    sr.Crop(2000, stride=3, batch_size=2, padding_side="left"),
    sr.Crop(1000, batch_size=2, drop_remainder=True, mask_name="real"),
]


@pytest.mark.parametrize(
    ("crop", "shuffle"),
    all_at_night(
        [(crop, shuffle) for crop in CROPS for shuffle in (None, 3)],
        [(CROPS[1], None), (CROPS[2], 3)],
    ),
)
def test_crops_of_long_records_are_exact(corpus: Path, crop: sr.Crop, shuffle: int | None) -> None:
    """Each epoch has its own batches, of one crop per record, which is drawn anew."""
    options = {} if shuffle is None else {"shuffle": shuffle}
    dataset = sr.read(corpus, batch=crop, seed=3, epochs=2, **options)
    batches = list(dataset.as_numpy_iterator())
    assert [len(batch["name"]) for batch in batches] == ([2, 2] if crop.drop_remainder else [2, 1, 2, 1])
    assert int(dataset.cardinality()) == len(batches)
    found = rows(batches)
    half = len(found) // 2
    for epoch in (found[:half], found[half:]):
        assert len({row["name"] for row in epoch}) == half
    assert {(row["name"], row["crop_start"]) for row in found[:half]}.isdisjoint(
        (row["name"], row["crop_start"]) for row in found[half:] if row["name"] != b"r1"
    )
    for row in found:
        record = RECORDS[int(row["name"][1:])]
        values = {name: getattr(record, name)[row["crop_start"] :] for name in ("signal", "count", "valid", "label")}
        at = np.arange(crop.length) * crop.stride
        real = int((at < len(record.count) - row["crop_start"]).sum())
        assert row["sequence_length"] == real
        for name, left in values.items():
            expected = padded(left, at)
            np.testing.assert_array_equal(
                row[name], np.roll(expected, -real, 0) if crop.padding_side == "left" else expected
            )


def test_crops_of_long_records_resume(corpus: Path, tmp_path: Path) -> None:
    """A saved iterator continues with the batch that follows."""
    crop = sr.Crop(1000, batch_size=2)
    options = {"batch": crop, "fields": ["name", "count"], "shuffle": 3}
    assert_resumes_exactly(lambda: sr.read(corpus, seed=1, epochs=2, **options), tmp_path, 1)


def test_long_records_with_lists_of_several_lengths_are_cropped(tmp_path: Path) -> None:
    """Lists of other groups, padded to the longest of the batch, are batched with their crops."""

    @sr.record
    class Marked:
        signal: np.ndarray = sr.feature_list("float32", shape=(64,), storage="buffer")
        marks: np.ndarray = sr.feature_list("int64", align=None)

    signals = [np.full((40_000, 64), number, np.float32) for number in range(2)]
    sr.write([Marked(signals[0], [1, 2, 3]), Marked(signals[1], [4])], tmp_path / "data", shards=1)
    (batch,) = sr.read(tmp_path / "data", batch=sr.Crop(10, batch_size=2), seed=1)
    assert batch["signal"].numpy().mean((1, 2)).tolist() == [0, 1]
    assert batch["marks"].numpy().tolist() == [[1, 2, 3], [4, 0, 0]]


def segments(record: Recording, unroll: sr.Unroll) -> list[list[np.ndarray]]:
    """The positions of the steps in each slot, batch after batch; `len(record.count)` where there are none."""
    steps, slots = len(record.count), unroll.batch_size
    edges = [number * steps // slots for number in range(slots + 1)]
    longest = max(np.diff(edges)) if unroll.tail == "drain" else min(np.diff(edges))
    starts = range(0, longest, unroll.length)
    batches = [[edges[slot] + start + np.arange(unroll.length) for slot in range(slots)] for start in starts]
    return [[np.where(at < edges[slot + 1], at, steps) for slot, at in enumerate(batch)] for batch in batches]


@pytest.mark.parametrize(
    ("unroll", "shuffle"),
    [
        (sr.Unroll(1, 1000), None),
        (sr.Unroll(1, 9_999), 3),
        (sr.Unroll(3, 1000, split_records=True), None),
        (sr.Unroll(7, 2_000, split_records=True, tail="drop"), 3),
    ],
)
def test_segments_of_long_records_are_exact(corpus: Path, unroll: sr.Unroll, shuffle: int | None) -> None:
    """A record alone in its slots is cut where it lies; each batch has the segments that come next."""
    dataset = sr.read(corpus, batch=unroll, shuffle=shuffle or 0, seed=3)
    batches = list(dataset.as_numpy_iterator())
    assert len(batches) == int(dataset.cardinality())
    order = list(dict.fromkeys(int(batch["name"][0][1:]) for batch in batches))
    assert sorted(order) == [0, 1, 2]
    expected = [(number, places) for number in order for places in segments(RECORDS[number], unroll)]
    for batch, (number, places) in zip(batches, expected, strict=True):
        for name in ("signal", "count", "valid", "label"):
            np.testing.assert_array_equal(batch[name], [padded(getattr(RECORDS[number], name), at) for at in places])


@pytest.mark.parametrize("drop_remainder", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_plans_of_long_records_are_exact(corpus: Path, drop_remainder: bool) -> None:
    """Batches go on from record to record in a plan, too, as they do when they are read."""
    window = sr.Window(1000, shift=700, batch_size=7, drop_remainder=drop_remainder)
    plan = sr.plan(corpus, "train", window)
    sizes = [len(name) for name in (batch["name"] for batch in sr.read(corpus, batch=window).as_numpy_iterator())]
    assert (plan.batches, plan.rows) == (len(sizes), sum(sizes))
