"""What a strategy is told of its records."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import seqrecorder as sr
from seqrecorder.codec.parse import Parser
from seqrecorder.dataset.checked_shards import resolve
from seqrecorder.reading import prefetching
from seqrecorder.reading.batching.strategy import Feed
from seqrecorder.reading.order_and_seeds import StreamOptions
from seqrecorder.reading.prefetching import _bytes_of
from seqrecorder.schema.display import number_of


@sr.record
class Clip:
    """A class whose records are 10 kB large."""

    samples: np.ndarray = sr.feature_list("float32", shape=(500,))


@sr.record
class Icon:
    """A class whose records take long to decode."""

    image: np.ndarray = sr.context("uint8", shape=(8, 8, 1), storage="png")


def feed_of(path: Path, schema: type | None = None) -> Feed:
    origin, shape = resolve(path, None, schema=schema), lambda values: values
    return Feed(origin, Parser(origin.schema, origin.layout), shape, StreamOptions(1))


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    sr.write((Clip(np.ones((5, 500), np.float32)) for _ in range(10)), tmp_path / "clips")
    return tmp_path / "clips"


def made_ahead(feed: Feed, size: int, shape: list[int] | None = None, width: int | None = None) -> int:
    """Return how many of 200 batches are made before the second is asked for; check that all come in order."""
    made: list[int] = []

    def make(number: Any) -> Any:
        def note(value: Any) -> Any:
            made.append(int(value))
            return value

        noted = tf.ensure_shape(tf.numpy_function(note, [number], tf.int64), [])
        if width is not None:
            return noted, tf.zeros([noted % 2])  # as long as cannot be told
        return noted if shape is None else (noted, tf.zeros(shape))

    batches = iter(feed.map_batches(tf.data.Dataset.range(200), make, size, width=width or 0))
    first = next(batches)
    time.sleep(0.2)  # let those that are made ahead be made
    count = len(made)
    assert [int(tf.nest.flatten(batch)[0]) for batch in (first, *batches)] == sorted(made) == list(range(200))
    return count


@pytest.mark.parametrize(("size", "cores", "most"), [(1, 2, 65), (2, 2, 9), (2, 5, 21), (3000, 5, 5), (9600, 5, 3)])
def test_batches_are_made_ahead_as_their_size_allows(
    clips: Path, monkeypatch: pytest.MonkeyPatch, size: int, cores: int, most: int
) -> None:
    """Batches come in order; four for each core wait to be taken, of large ones 128 MiB, and 64 of up to 16 KiB."""
    monkeypatch.setattr(prefetching, "cores", lambda: cores)
    feed = feed_of(clips)
    record = feed.origin.mean_bytes
    assert record < 1 << 14 < 2 * record
    assert 4 * 3000 * record < 1 << 27 < 2 * 9600 * record
    assert 5 * 3000 * record > 1 << 27
    assert most // 4 < made_ahead(feed, size) <= most


def test_of_what_grows_when_it_is_parsed_few_are_made_ahead(
    clips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small records whose tensors are large, may be, or take long are made four for each core at a time."""
    monkeypatch.setattr(prefetching, "cores", lambda: 2)
    assert made_ahead(feed_of(clips), 1, [100, 100]) > 9
    assert made_ahead(feed_of(clips), 1, [300, 300]) <= 9
    assert made_ahead(feed_of(clips), 1, width=10) > 9
    assert made_ahead(feed_of(clips), 1, width=1 << 17) <= 9
    sr.write([Clip(np.ones((5, 500), np.float32))], tmp_path / "gzip", compression="GZIP")
    assert made_ahead(feed_of(tmp_path / "gzip"), 1) <= 9
    assert made_ahead(feed_of(clips / "train" / "*.tfrecord", Clip), 1) <= 9
    sr.write([Icon(np.zeros((8, 8, 1), np.uint8))], tmp_path / "icons")
    assert made_ahead(feed_of(tmp_path / "icons"), 1) <= 9


@pytest.mark.parametrize(
    ("shape", "rows", "longest", "size"),
    [
        ([], 8, 5, 4),
        ([None], 8, 5, 8 * 4),
        ([3, None], 8, 5, 3 * 5 * 4),
        ([None, None, 2], 8, 5, 8 * 5 * 2 * 4),
        ([None, 0], 8, 5, 0),
    ],
)
def test_bytes_of_tensors(shape: list[int | None], rows: int, longest: int, size: int) -> None:
    """What is not static is the rows, where it comes first, and else the longest record; parts add up."""
    spec = tf.TensorSpec(shape, tf.float32)
    assert _bytes_of({"a": spec, "b": (spec,)}, rows, longest) == 2 * size


@sr.record
class Stretch:
    x: np.ndarray = sr.feature_list("float32")


def stretches(path: Path) -> Path:
    sr.write([Stretch(np.arange(n)) for n in (0, 3, 3, 3, 9)], path)
    return path


LEFT_OUT = {
    "window": ({"batch": sr.Window(5, horizon=1, tail="drop")}, "3 records left out: too short for Window("),
    "window empty": ({"batch": sr.Window(5)}, "1 record left out: no steps"),
    "horizon": ({"batch": sr.Window(3, horizon=1)}, "3 records left out: too short for Window("),
    "horizon empty": ({"batch": sr.Window(3, horizon=1)}, "1 record left out: no steps"),
    "crop": ({"batch": sr.Crop(5, too_short="drop")}, "4 records left out: fewer than 5 steps"),
    "crop empty": ({"batch": sr.Crop(5, empty="drop")}, "1 record left out: no steps"),
    "max_length": ({"batch": sr.Pad(4), "max_length": 5}, "1 record left out: more than 5 steps"),
    "single": ({"max_length": 5}, "1 record left out: more than 5 steps"),
    "both": (
        {"batch": sr.Bucket(4), "min_length": 1, "max_length": 5},
        "2 records left out: no steps or more than 5 steps",
    ),
    "pad empty": ({"batch": sr.Pad(4, empty="drop")}, "1 record left out: no steps"),
    "pad long": ({"batch": sr.Pad(4, length=5, too_long="drop")}, "1 record left out: more than 5 steps"),
    "cut": ({"batch": sr.Pad(4, length=5, too_long="cut_end")}, "1 record is longer than 5 steps and cut"),
    "ragged": ({"batch": sr.Ragged(4, empty="drop")}, "1 record left out: no steps"),
    "bucket": ({"batch": sr.Bucket(4, empty="drop")}, "1 record left out: no steps"),
    "budget": ({"batch": sr.TokenBudget(20, empty="drop")}, "1 record left out: no steps"),
    "pack": ({"batch": sr.Pack(9)}, "1 record left out: no steps"),
    "unroll": ({"batch": sr.Unroll(2, 3)}, "1 record left out: no steps"),
}


# What these log is what others do: `horizon` as `window`, `single` as `max_length`, the rest as `ragged`.
AT_NIGHT = ("horizon", "crop empty", "single", "pad empty", "bucket", "budget", "unroll")


def cases(names):
    return [pytest.param(name, marks=pytest.mark.nightly if name in AT_NIGHT else ()) for name in names]


@pytest.mark.parametrize("case", cases(LEFT_OUT))
def test_what_is_left_out_is_counted_once(tmp_path: Path, caplog: pytest.LogCaptureFixture, case: str) -> None:
    """Windows, crops, limits and strategies that drop records log how many, once for a dataset and its options."""
    path = stretches(tmp_path / "d")
    options, message = LEFT_OUT[case]
    for _ in range(2):
        sr.read(path, **options)
    told = [record.getMessage() for record in caplog.records if str(path) in record.getMessage()]
    assert len([text for text in told if message in text]) == 1, told


@pytest.mark.parametrize("case", cases(case for case, (options, _) in LEFT_OUT.items() if set(options) == {"batch"}))
def test_plans_count_what_is_left_out(tmp_path: Path, case: str) -> None:
    """A plan says how many records give nothing, and why: the same number and reason as the log."""
    options, message = LEFT_OUT[case]
    plan = sr.plan(stretches(tmp_path / "d"), "train", options["batch"])
    if case == "cut":
        assert plan.left_out == {}
        return
    told = {f"{number_of(count, 'record')} left out: {reason}": count for reason, count in plan.left_out.items()}
    assert [text for text in told if text.startswith(message)]
    assert str(plan).split("\n")[0].endswith("left out")
    assert str(plan).split("\n")[1].endswith(str(sum(told.values())))


@pytest.mark.parametrize("options", [
    {"batch": sr.Window(20, tail="drop")}, {"batch": sr.Crop(20, too_short="drop")},
    {"batch": sr.Pad(4), "min_length": 99}, {"min_length": 99}, {"batch": sr.Pad(8, drop_remainder=True)},
    {"batch": sr.TokenBudget(20), "min_length": 99},
    {"batch": sr.Pack(9), "min_length": 99}, {"batch": sr.Unroll(2, 3), "min_length": 99},
])  # fmt: skip
def test_an_epoch_that_would_be_empty_is_an_error(tmp_path: Path, options: dict[str, Any]) -> None:
    """It is known from the lengths when `read` is called, and says why."""
    path = stretches(tmp_path / "d")
    with pytest.raises(sr.OptionError, match="expected an epoch of a batch or more"):
        sr.read(path, **options)


def test_records_without_steps_alone_are_an_error(tmp_path: Path) -> None:
    """Strategies that cut records have nothing to cut then."""
    sr.write([Stretch([]), Stretch([])], tmp_path / "d")
    for batch in (sr.Pack(9), sr.Unroll(2, 3), sr.Window(3), sr.Pad(2, empty="drop")):
        with pytest.raises(sr.OptionError, match="expected an epoch of a batch or more"):
            sr.read(tmp_path / "d", batch=batch)


def test_options_of_strategies_lead_there(tmp_path: Path) -> None:
    """An option of a strategy that `read` is given says where it goes; any other unknown one is Python's error."""
    path = stretches(tmp_path / "d")
    for options, message in (
        ({"length_name": "n", "batch": sr.Pad(2)}, r"pass batch=Pad\(\.\.\., length_name=\.\.\.\)$"),
        ({"horizon": 2}, r"batch=Window\(\.\.\., horizon="),
        ({"boundaries": [3], "batch": sr.Pad(2)}, r"batch=Bucket\("),
    ):
        with pytest.raises(sr.OptionError, match=message):
            sr.read(path, **options)
    with pytest.raises(TypeError, match="unexpected keyword argument 'shufle' .did you mean 'shuffle'"):
        sr.read(path, shufle=3)


@sr.record
class Speech:
    mfcc: np.ndarray = sr.feature_list("float32")
    labels: np.ndarray = sr.feature_list("int64", align="labels")


@pytest.mark.parametrize("strategy", [
    sr.Pad, sr.Bucket, lambda size, **o: sr.Crop(3, batch_size=size, **o),
    pytest.param(sr.Ragged, marks=pytest.mark.nightly),
    pytest.param(lambda size, **o: sr.TokenBudget(4 * size, **o), marks=pytest.mark.nightly),
])  # fmt: skip
def test_empty_is_about_every_list_that_is_read(tmp_path: Path, strategy: Any) -> None:
    """A record with an empty list is dropped, or an error that names it; lists that are not read do not count."""
    sr.write([Speech(np.ones(6), [1, 0, 1]), Speech(np.ones(4), [])], tmp_path / "d")
    [batch] = sr.read(tmp_path / "d", batch=strategy(2, empty="drop"))
    assert batch["labels_length"].numpy().tolist() == [3]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"without steps of \\*'labels"):
        list(sr.read(tmp_path / "d", batch=strategy(2, empty="error")))
    sizes = [batch["sequence_length"].shape[0] for batch in sr.read(tmp_path / "d", batch=strategy(2), fields=["mfcc"])]
    for empty in ("drop", "error"):
        options = {"batch": strategy(2, empty=empty), "fields": ["mfcc"]}
        assert [batch["sequence_length"].shape[0] for batch in sr.read(tmp_path / "d", **options)] == sizes
