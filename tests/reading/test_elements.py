"""What `model.fit` gets: names that strategies add, masks, and sample weights that are 1 for what is real."""

from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import tensorflow as tf

import seqrecorder as sr

LENGTHS = [3, 1, 5, 2, 0, 7, 4]


@sr.record
class Series:
    key: str = sr.context(str, key=True)
    label: int = sr.context("int32")
    x: Any = sr.feature_list("float32", shape=(2,))
    y: Any = sr.feature_list("int64")
    note: Any = sr.feature_list("int8", align="notes")


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("outputs") / "series"
    sr.write(
        (
            Series(f"k{i}", i + 1, np.ones((n, 2), "f4"), np.arange(n) + 1, np.ones(i % 3, "i1"))
            for i, n in enumerate(LENGTHS)
        ),
        path,
    )
    return path


FIELDS = ["label", "x", "y"]
STRATEGIES: dict[str, Any] = {
    "pad": sr.Pad(3, mask_name="mask"),
    "left": sr.Pad(3, mask_name="mask", padding_side="left", pad_to_multiple_of=4),
    "fixed": sr.Pad(3, mask_name="mask", length=9),
    "bucket": sr.Bucket(3, boundaries=[4], mask_name="mask", pad_to_bucket_boundary=True),
    "sorted": sr.Bucket(3, boundaries="sorted", mask_name="mask"),
    "budget": sr.TokenBudget(14, mask_name="mask"),
    "unroll": sr.Unroll(3, 2, mask_name="mask"),
    "window": sr.Window(3, batch_size=4, shift=2, mask_name="mask"),
    "pack": sr.Pack(8, 2, mask_name="mask"),
}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.nightly if case == "window" else ()) for case in STRATEGIES]
)
def test_weights_and_masks_are_one_for_real_steps(series: Path, case: str) -> None:
    """A step is real where its target is not padding, which is 0 here and nowhere else."""
    batches = list(sr.read(series, batch=STRATEGIES[case], fields=FIELDS, inputs=("x", "mask"), targets="y"))
    assert batches
    for (x, mask), y, weight in batches:
        real = y.numpy() > 0
        np.testing.assert_array_equal(mask.numpy(), real)
        np.testing.assert_array_equal(weight.numpy(), real.astype("f4"))
        np.testing.assert_array_equal(x.numpy()[..., 0] > 0, real)
        assert weight.dtype == tf.float32


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=pytest.mark.nightly if case in ("unroll", "window") else ()) for case in STRATEGIES],
)
def test_context_targets(series: Path, case: str) -> None:
    """A target of context has one weight a row, of 0 where there is no record; packed rows have one a segment."""
    for element in sr.read(series, batch=STRATEGIES[case], fields=FIELDS, inputs="x", targets={"a": "label", "b": "y"}):
        _, targets, weights = element
        np.testing.assert_array_equal(weights["a"].numpy(), (targets["a"].numpy() > 0).astype("f4"))
        assert set(weights) == {"a", "b"}


def test_what_strategies_add_can_be_asked_for(series: Path) -> None:
    """Inputs, targets and weights may be what a strategy adds, and only what these need is parsed."""
    names = {"inputs": ("x", "reset"), "targets": "total_length", "weights": "at", "index_name": "at"}
    (x, reset), total, index = next(iter(sr.read(series, batch=sr.Unroll(3, 2), fields=FIELDS, **names)))
    assert (x.shape, reset.numpy().tolist()) == ((3, 2, 2), [True, True, True])
    assert (total.numpy().tolist(), index.numpy().tolist()) == ([3, 1, 5], [0, 1, 2])
    window = sr.Window(2, batch_size=4, shift=1, horizon=2)
    for inputs, targets, weights in sr.read(series, batch=window, inputs="y", targets="y_horizon", fields=FIELDS):
        assert inputs.shape[1] == 2
        np.testing.assert_array_equal(weights.numpy(), (targets.numpy() > 0).astype("f4"))
    ids, positions, weights = next(
        iter(sr.read(series, batch=sr.Pack(8, 2), inputs="segment_ids", targets="positions", fields=FIELDS))
    )
    np.testing.assert_array_equal(weights.numpy(), (ids.numpy() > 0).astype("f4"))
    assert positions.shape == ids.shape == (2, 8)


def test_ragged_targets_have_no_weights(series: Path) -> None:
    """There is no padding in ragged batches, so no weights either."""
    element = next(iter(sr.read(series, batch=sr.Ragged(3), inputs="x", targets="y")))
    assert len(element) == 2
    flat = next(iter(sr.read(series, batch=sr.Ragged(3, flat=True), inputs=("x", "row_splits"), targets="y")))
    assert flat[0][1].numpy().tolist() == [0, 3, 4, 9]


def test_other_groups_have_masks_of_their_own(series: Path) -> None:
    """Each alignment group has a mask and weights by its own lengths."""
    for batch in sr.read(series, batch=sr.Pad(4, mask_name="mask")):
        for values, mask in (("y", "mask"), ("note", "notes_mask")):
            np.testing.assert_array_equal(batch[mask].numpy(), batch[values].numpy() > 0)
    for _, (y, note), weights in sr.read(series, batch=sr.Pad(4), inputs="x", targets=("y", "note")):
        for target, weight in zip((y, note), weights, strict=True):
            np.testing.assert_array_equal(weight.numpy(), (target.numpy() > 0).astype("f4"))


def test_the_largest_batch_comes_first(series: Path) -> None:
    """`warm_up="largest"` gives one more batch, as large as any, whose weights are 0; the others are as without it."""
    for strategy in (sr.Bucket(3, boundaries=[4]), sr.TokenBudget(15, batch_size_multiple=2)):
        plain = sr.read(series, batch=strategy, inputs="x", targets=("y", "label"))
        large = attrs.evolve(strategy, warm_up="largest")
        warm = sr.read(series, batch=large, inputs="x", targets=("y", "label"))
        (x, _, weights), *rest = list(warm)
        assert not any(weight.numpy().any() for weight in weights)
        assert tf.size(x) >= max(int(tf.size(element[0])) for element in rest)
        assert int(warm.cardinality()) in (len(rest) + 1, -2)
        for mine, other in zip(rest, plain, strict=True):
            tf.nest.map_structure(np.testing.assert_array_equal, mine, other)
    # A context target alone has no weights without it, and elements must be alike.
    first, *others = sr.read(series, batch=sr.Bucket(3, warm_up="largest"), inputs="x", targets="label")
    assert not first[2].numpy().any()
    assert all(element[2].numpy().all() for element in others)
    with pytest.raises(sr.OptionError, match="warm_up: goes with inputs and targets"):
        sr.read(series, batch=sr.Bucket(3, warm_up="largest"))


def test_names_that_nothing_has(series: Path) -> None:
    """An unknown name is refused with all that there are, those of the strategy among them."""
    with pytest.raises(sr.OptionError, match=r"gives no 'resett' \(did you mean 'reset'\?\).*segment_index"):
        sr.read(series, batch=sr.Unroll(3, 2), inputs="x", targets="resett")
    with pytest.raises(sr.OptionError, match="fields: 'y' is left out, but inputs, targets or weights need it"):
        sr.read(series, batch=sr.Pad(3), inputs="x", targets="y", fields=["x"])


@pytest.mark.parametrize(
    ("batch", "name", "message"),
    [
        (sr.Pad(3), "mask", "gives no 'mask', which the strategy's mask_name= adds; it gives key, "),
        (sr.Pad(3), "y_mask", "gives no 'y_mask'.*, which the strategy's mask_name= adds; it gives"),
        (sr.Pad(3), "seed", "gives no 'seed', which the strategy's seed_name= adds; it gives"),
        (sr.Pad(3), "x_observed", "gives no 'x_observed'.*, which missing='mask' adds; it gives"),
        (sr.Pad(3), "reset", "gives no 'reset', which Unroll adds; it gives"),
        (sr.Unroll(3, 2), "y_segment_ids", "gives no 'y_segment_ids'.*, which Pack adds; it gives"),
        (sr.Pack(8, 2), "q_segment_ids", r"gives no 'q_segment_ids' \(did you mean 'segment_ids'\?\); it gives"),
        (sr.Window(3), "x_horizon", "gives no 'x_horizon'.*, which Window's horizon= adds; it gives"),
        (sr.Pad(3), "z", "gives no 'z'; it gives"),
    ],
)
def test_the_option_that_adds_a_name_is_named(series: Path, batch: Any, name: str, message: str) -> None:
    """A tensor that another strategy or option adds is refused with that option."""
    with pytest.raises(sr.OptionError, match=message):
        sr.read(series, batch=batch, inputs=("x", name))


@pytest.mark.parametrize(
    ("batch", "options"),
    [
        (sr.Pad(3, length_name="notes_length"), {}),
        (sr.Pad(3, mask_name="length"), {}),
        (sr.Pad(3), {"index_name": "notes_length"}),
        (sr.Unroll(3, 2, mask_name="reset"), {"fields": FIELDS}),
        (sr.Window(3, length_name="window_index"), {"fields": FIELDS}),
        (sr.Window(3, horizon=1, mask_name="horizon_length"), {"fields": FIELDS}),
    ],
)
def test_options_do_not_name_what_batches_carry(series: Path, batch: Any, options: Any) -> None:
    """The name of an option would stand in place of what the strategy gives under it."""
    with pytest.raises(sr.OptionError, match="an option that names '.*_?(length|index|reset)', as .* names what batch"):
        sr.read(series, batch=batch, **options)


@pytest.mark.parametrize("batch", [None, sr.Pad(2), sr.Window(2), sr.Ragged(2), sr.Pack(8), sr.Unroll(2, 2)], ids=str)
def test_a_field_named_as_the_lengths_is_refused(tmp_path: Path, batch: Any) -> None:
    """A field with the name of a group's lengths is refused, whatever the strategy; none is lost without a word."""

    @sr.record
    class Sound:
        audio: Any = sr.feature_list("float32", align="audio")
        audio_length: int = sr.context("int64")

    sr.write([Sound(np.ones(3, "f4"), 77)], tmp_path / "sounds")
    with pytest.raises(sr.OptionError, match="Sound has a field 'audio_length', as .* names what batches carry"):
        sr.read(tmp_path / "sounds", batch=batch)
    assert "sequence_length" in sr.read(tmp_path / "sounds", batch=2, fields=["audio"]).element_spec


@pytest.mark.parametrize("option", ["mask_name", "length_name", "seed_name"])
@pytest.mark.parametrize("name", ["frames_size", "sound_length"])
def test_options_take_no_name_of_another_tensor(tmp_path: Path, option: str, name: str) -> None:
    """Sizes of images and lengths of fields with a rate keep their names."""

    @sr.record
    class Clip:
        frames: list = sr.feature_list("uint8", shape=(None, None, 3), storage="png")
        sound: np.ndarray = sr.feature_list("int16", align="sound", per_step=4)

    sr.write([Clip([np.zeros((4, 5, 3), "u1")] * 2, np.arange(8))], tmp_path / "clips")
    with pytest.raises(sr.OptionError, match=f"an option that names '{name}'"):
        sr.read(tmp_path / "clips", batch=sr.Pad(1, **{option: name}))
    assert sr.read(tmp_path / "clips", batch=sr.Pad(1), fields=["frames"]).cardinality() == 1


def test_only_optional_fields_have_flags(series: Path) -> None:
    """Asking for the flag of a mandatory field is an error that lists what there is."""
    with pytest.raises(sr.OptionError, match="gives no 'label_present'; it gives key, label, x"):
        sr.read(series, batch=sr.Pad(2), inputs=("x", "label_present"))


def test_flags_of_optional_fields_keep_their_names(tmp_path: Path) -> None:
    """No option takes the name of what says whether a field is None; without the field, it may."""

    @sr.record
    class Noted:
        x: Any = sr.feature_list("int64")
        note: Any = sr.context("int64", optional=True, default=None)

    sr.write([Noted([1, 2], 3), Noted([4])], tmp_path / "noted")
    for batch, options in ((2, {"index_name": "note_present"}), (sr.Pad(2, mask_name="note_present"), {})):
        with pytest.raises(sr.OptionError, match="an option that names 'note_present'"):
            sr.read(tmp_path / "noted", batch=batch, **options)
        [element] = sr.read(tmp_path / "noted", batch=batch, fields=["x"], **options)
        assert element["note_present"].shape[0] == 2


@pytest.mark.parametrize("read", [sr.read, sr.read_records])
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([], "fields: expected one name or more, got none"),
        ("key", "fields: expected a sequence of names, got"),
    ],
)
def test_a_choice_of_fields_that_makes_no_sense_is_refused(series: Path, read: Any, fields: Any, message: str) -> None:
    """Batches and records are made of one field at least, named in a sequence."""
    with pytest.raises(sr.OptionError, match=message):
        read(series, fields=fields)


@pytest.mark.parametrize(("inputs", "got"), [("number", "got number"), ([], "got none")])
def test_inputs_without_any_field_are_refused(series: Path, inputs: Any, got: str) -> None:
    """What elements carry beside fields is not enough to parse."""
    with pytest.raises(sr.OptionError, match=f"inputs: expected at least one field of Series, {got}"):
        sr.read(series, batch=sr.Pad(2), inputs=inputs, index_name="number")
