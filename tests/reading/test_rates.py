"""Fields of two rates are cut together: as steps with a dimension more are, which are then put in a row again."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import seqrecorder as sr

RATE = 4


@sr.record
class Take:
    key: str = sr.context(str, key=True)
    sound: np.ndarray = sr.feature_list("int16", align="sound", per_step=RATE, storage="buffer")
    pitch: np.ndarray = sr.feature_list("float32", align="frames")
    stereo: np.ndarray = sr.feature_list("float32", shape=(2,), align="sound", per_step=RATE)
    marks: np.ndarray | None = sr.feature_list(
        "int64", align="marks", per_step=2, optional=True, default=None, storage="packed"
    )


@sr.record
class Folded:
    """The same, with the steps of a rate as a dimension of the others."""

    key: str = sr.context(str, key=True)
    sound: np.ndarray = sr.feature_list("int16", shape=(RATE,), align="frames", storage="buffer")
    pitch: np.ndarray = sr.feature_list("float32", align="frames")
    stereo: np.ndarray = sr.feature_list("float32", shape=(RATE, 2), align="frames", storage="packed")
    marks: np.ndarray | None = sr.feature_list(
        "int64", shape=(2,), align="frames", optional=True, default=None, storage="packed"
    )


RATES = {"sound": RATE, "stereo": RATE, "marks": 2}


def take(number: int, frames: int) -> Take:
    steps = np.arange(1, 1 + frames * RATE) + 100 * number
    marks = None if number % 3 == 1 else steps[: 2 * frames]
    return Take(f"t{number}", steps, np.arange(frames) + number / 8, np.stack([steps, -steps], 1), marks)


def folded(record: Take) -> Folded:
    marks = None if record.marks is None else record.marks.reshape(-1, 2)
    sound, stereo = record.sound.reshape(-1, RATE), record.stereo.reshape(-1, RATE, 2)
    return Folded(record.key, sound, record.pitch, stereo, marks)


TAKES = [take(number, frames) for number, frames in enumerate([5, 9, 1, 7, 12, 3, 6])]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    place = tmp_path_factory.mktemp("rates")
    sr.write(TAKES, place / "takes", shards=2)
    sr.write(map(folded, TAKES), place / "folded", shards=2)
    return place / "takes", place / "folded"


def unfolded(batch: dict[str, Any], outer: int) -> dict[str, Any]:
    """Put the steps of each rate in a row, and tell their lengths."""
    out = dict(batch)
    for name, value in batch.items():
        rate = RATES.get(name.removesuffix("_horizon").removesuffix("_observed"))
        if rate and isinstance(value, tf.RaggedTensor):
            out[name] = [np.reshape(row.numpy(), [-1, *value.shape[3:]]) for row in value]
        elif rate:
            out[name] = np.reshape(value, [*value.shape[:outer], -1, *value.shape[outer + 2 :]])
    for old, base in (("frames_length", ""), ("sequence_length", ""), ("horizon_length", "_horizon")):
        if old in batch:
            out |= {f"sound{base}_length": batch[old] * RATE, f"marks{base}_length": batch[old] * 2}
    if "frames_row_splits" in batch:
        splits = batch["frames_row_splits"]
        out |= {"sound_row_splits": splits * RATE, "marks_row_splits": splits * 2}
    if "mask" in batch:
        out |= {"sound_mask": np.repeat(batch["mask"], RATE, 1), "marks_mask": np.repeat(batch["mask"], 2, 1)}
    return out


@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"steps": slice(1, None, 2)}, marks=pytest.mark.nightly),
        pytest.param({"batch": sr.Pad(3, mask_name="mask")}, marks=pytest.mark.nightly),
        pytest.param(
            {"batch": sr.Pad(3, padding_side="left", mask_name="mask", pad_to_multiple_of=4), "max_length": 8},
            marks=pytest.mark.nightly,
        ),
        {"batch": sr.Bucket(2, boundaries=[6]), "steps": slice(2, 9)},
        pytest.param({"batch": sr.TokenBudget(16), "shuffle": 7, "seed": 1}, marks=pytest.mark.nightly),
        pytest.param({"batch": sr.Ragged(3)}, marks=pytest.mark.nightly),
        pytest.param({"batch": sr.Ragged(3, flat=True)}, marks=pytest.mark.nightly),
        pytest.param({"batch": sr.Crop(4, batch_size=2), "seed": 3}, marks=pytest.mark.nightly),
        {"batch": sr.Window(3, shift=2, stride=2, horizon=2, batch_size=4)},
        pytest.param({"batch": sr.Window(5, horizon=1, pad="start", mask_name="mask")}, marks=pytest.mark.nightly),
        pytest.param({"batch": sr.Unroll(2, 3)}, marks=pytest.mark.nightly),
        {"batch": sr.Pack(12, 2)},
        {"batch": sr.Pad(3), "missing": {"stereo": "mask"}},
    ],
    ids=str,
)
def test_every_strategy_cuts_both_together(places: tuple[Path, Path], options: dict[str, Any]) -> None:
    """Batches are those of steps that hold the samples, in a row; `plan` counts the steps that others follow."""
    mine, others = (sr.read(place, **options) for place in places)
    count = 0
    for batch, other in zip(mine, others, strict=True):
        expected = unfolded(other, int("batch" in options and "frames_row_splits" not in other))
        assert set(batch) == set(expected)
        for name, value in expected.items():
            if isinstance(value, list):
                assert all(np.array_equal(row, want) for row, want in zip(batch[name], value, strict=True)), name
            else:
                pair = [
                    part.to_tensor() if isinstance(part, tf.RaggedTensor) else part for part in (batch[name], value)
                ]
                np.testing.assert_array_equal(*pair, err_msg=name)
        count += 1
    assert count
    if "batch" in options and not {"steps", "max_length", "missing"} & options.keys():
        drawn = {name: options[name] for name in ("shuffle", "seed") if name in options}
        plans = [sr.plan(place, None, options["batch"], **drawn) for place in places]
        assert plans[0].rows == plans[1].rows
        assert plans[0].shapes == plans[1].shapes


def test_weights_are_of_the_steps_of_a_target(places: tuple[Path, Path]) -> None:
    """Padding of a target of a rate weighs nothing, in batches and in horizons."""
    for batch in sr.read(places[0], batch=sr.Pad(3, padding_side="left"), inputs="pitch", targets="stereo"):
        x, y, weights = (part.numpy() for part in batch)
        assert weights.shape == y.shape[:2] == (x.shape[0], RATE * x.shape[1])
        np.testing.assert_array_equal(weights > 0, y[..., 0] != 0)
    window = sr.Window(3, horizon=3, shift=3)
    for x, y, weights in sr.read(places[0], batch=window, inputs="sound", targets="sound_horizon"):
        assert (x.shape[1], y.shape[1]) == (3 * RATE, 3 * RATE)
        np.testing.assert_array_equal(weights.numpy() > 0, y.numpy() != 0)
    [(sound, length), *_] = sr.read(places[0], batch=sr.Pad(7), inputs=("sound", "sequence_length"), fields=["sound"])
    assert (sound.numpy() > 0).sum(1).tolist() == length.numpy().tolist()


@pytest.mark.parametrize("inputs", ["pitch", "sound"])
def test_segments_of_a_rate_are_those_of_the_steps(places: tuple[Path, Path], inputs: str) -> None:
    """In packed rows, weights of records reach the targets of a rate; their segments have no names of their own."""
    pack: dict[str, Any] = {"batch": sr.Pack(12, 2), "index_name": "at"}
    packed = sr.read(places[0], **pack, inputs=(inputs, "segment_ids"), targets="stereo", weights="at")
    for (_, ids), target, weights in packed:
        of_records = target[..., 0].numpy().astype(int) // 100  # the values of a record begin at 100 times its index
        np.testing.assert_array_equal(weights, np.where(np.repeat(ids, RATE, axis=1) > 0, of_records, 0))
    with pytest.raises(sr.OptionError, match="Take gives no 'sound_segment_ids'"):
        sr.read(places[0], **pack, inputs=("pitch", "sound_segment_ids"))


@pytest.mark.parametrize("name", ["sound_length", "sound_mask", "sequence_length", "mask"])
def test_names_of_a_group_that_is_read_alone(places: tuple[Path, Path], name: str) -> None:
    """Its lengths and its mask go by the names that they have beside the first group, and by those of a first group."""
    sound, other = next(iter(sr.read(places[0], batch=sr.Pad(7, mask_name="mask"), inputs=("sound", name))))
    real = sound.numpy() > 0
    np.testing.assert_array_equal(other, real if "mask" in name else real.sum(1))


def test_flat_steps_of_a_rate_have_their_own_splits(places: tuple[Path, Path]) -> None:
    """They are those of all records, concatenated, also where the steps that they follow are not read."""
    for fields in (None, ["sound", "stereo"]):
        [batch] = sr.read(places[0], batch=sr.Ragged(len(TAKES), flat=True), fields=fields)
        np.testing.assert_array_equal(batch["sound"], np.concatenate([take.sound for take in TAKES]))
        np.testing.assert_array_equal(batch["stereo"], np.concatenate([take.stereo for take in TAKES]))
        ends = np.cumsum([len(take.sound) for take in TAKES])
        np.testing.assert_array_equal(batch["sound_row_splits"], [0, *ends])
    assert set(batch) == {"sound", "stereo", "sound_row_splits", "sequence_length"}
    for inputs in ("sound_row_splits", ("pitch", "sound_row_splits")):
        [batch] = sr.read(places[0], batch=sr.Ragged(len(TAKES), flat=True), inputs=inputs)
        np.testing.assert_array_equal(batch[-1] if isinstance(batch, tuple) else batch, [0, *ends])


def test_fields_of_a_rate_are_cut_by_the_steps_of_others(places: tuple[Path, Path]) -> None:
    """Also where those are not read, and normalized with statistics of their own."""
    stats = sr.stats(places[0])
    for batch in sr.read(places[0], batch=sr.Window(2), fields=["stereo"], normalize={"stereo": stats["stereo"]}):
        assert set(batch) == {"stereo", "sequence_length", "window_index"}
        assert batch["stereo"].shape[1:] == (2 * RATE, 2)
    with pytest.raises(sr.OptionError, match="has 4 steps for each of another group"):
        sr.read(places[0], batch=sr.Pad(2), inputs="pitch", targets=sr.next_step("sound"))
    for batch, record in zip(sr.read(places[0], output="record"), sr.read_records(places[0]), strict=True):
        assert batch.sound.shape == (len(batch.pitch) * RATE,)
        assert len(record.sound) == len(record.pitch) * RATE


def test_lengths_that_do_not_fit_their_rate(tmp_path: Path) -> None:
    """They are refused when they are written, one by one and in columns, beside what fits."""
    good = take(0, 3)
    bad = Take("x", good.sound[:-1], good.pitch, good.stereo, good.marks)
    message = r"expected 12 steps, as 'pitch' has, times 4 \(cut or pad it\), got 11 steps"
    with pytest.raises(sr.RecordError, match=message):
        sr.write([good, bad], tmp_path / "d")
    for short, sound, stereo in (("sound", bad.sound, good.stereo), ("stereo", good.sound, good.stereo[:-1])):
        with pytest.raises(sr.RecordError, match=message) as caught:
            sr.write([Take("x", sound, good.pitch, stereo, good.marks)], tmp_path / "d")
        assert [problem.field for problem in caught.value.problems] == [
            short
        ]  # once, and the intact list is not blamed
    rows = [{"key": "x", "sound": np.arange(11), "pitch": [1.0] * 3, "stereo": np.ones((12, 2)), "marks": None}]
    with pytest.raises(sr.RecordError, match=message):
        sr.write(rows, tmp_path / "d", schema=Take)
    assert Take("x", [], [], np.zeros((0, 2)), None) == sr.Schema.of(Take).decode(
        sr.Schema.of(Take).encode(Take("x", [], [], [], None))
    )


def test_declarations_of_rates(tmp_path: Path) -> None:
    """A rate is kept by the schema's JSON and text; what makes no sense is refused where it stands."""
    schema = sr.Schema.of(Take)
    again = sr.Schema.from_json(schema.to_json())
    assert again == schema
    assert again.groups == ("frames", "sound", "marks")
    assert schema["stereo"].storage == "packed"
    sr.write(TAKES, tmp_path / "d")
    assert list(sr.read_records(tmp_path / "d", schema=Take)) == TAKES
    slower = sr.record(type("Take", (), {name: sr.feature_list("int16", align=name) for name in ("sound",)}))
    with pytest.raises(sr.SchemaMismatchError, match="per_step 4 in the data, None in the class"):
        list(sr.read_records(tmp_path / "d", schema=slower))
    for fields, problem in (
        ({"x": {"per_step": 4}}, "there is none"),
        ({"x": {}, "y": {"per_step": 4}}, "have per_step=4 and None"),
        ({"x": {}, "y": {"per_step": 0, "align": "y"}}, "an int of 1 or more"),
        ({"x": {}, "y": {"per_step": 2, "align": "y", "storage": "raw"}}, "needs storage='packed' or 'buffer'"),
    ):
        with pytest.raises(sr.SchemaError, match=problem):
            sr.record(type("Wrong", (), {name: sr.feature_list("int16", **more) for name, more in fields.items()}))


def test_rates_are_cut_in_time(tmp_path: Path) -> None:
    """Splits and folds that cut series cut what follows their steps, too."""

    @sr.record
    class Timed:
        day: np.ndarray = sr.feature_list("datetime64[D]")
        hours: np.ndarray = sr.feature_list("float32", align="hours", per_step=24)

    days = np.datetime64("2026-01-01") + np.arange(10)
    sr.write([Timed(days, np.arange(240))], tmp_path / "d")
    window = sr.Window(2, horizon=1, shift=1, time="day", since="2026-01-09")
    [batch] = sr.read(tmp_path / "d", batch=window)
    assert batch["hours_horizon"][:, 0].numpy().tolist() == [192, 216]
    for past, future in sr.open(tmp_path / "d").all().folds(2, time="day"):
        assert future[0].hours[0] == len(past[0].day) * 24 == len(past[0].hours)
