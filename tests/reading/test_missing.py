"""`missing="mask"`: NaN is 0, what was observed stands beside it, and what was not weighs nothing as a target."""

from pathlib import Path
from typing import Any

import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from combinations import all_at_night

import seqrecorder as sr
from seqrecorder.codec.columns import Column
from seqrecorder.reading.derived_fields import Observed

LENGTHS = (3, 1, 5, 0, 4)


@sr.record
class Weather:
    who: int = sr.context("int32")
    height: float = sr.context("float64")
    whos: Any = sr.feature_list("int32")
    at: Any = sr.feature_list("int32")
    temp: Any = sr.feature_list("float32")
    wind: Any = sr.feature_list("float16", shape=(2,))
    rain: Any = sr.feature_list("float32", optional=True)
    bag: Any = sr.context("float32", sparse=4)
    gusts: Any = sr.feature_list("float32", shape=(None,), align=None)


def holed(values: Any, random: np.random.Generator) -> Any:
    return np.where(random.random(values.shape) < 0.3, np.nan, values)


def weather(number: int, length: int, random: np.random.Generator) -> Weather:
    return Weather(
        number + 1,
        np.nan if number == 2 else number,
        np.full(length, number + 1),
        np.arange(length),
        holed(random.random(length, "f4"), random),
        holed(random.random((length, 2)).astype("f2"), random).astype("f2"),
        None if number == 0 else holed(random.random(length, "f4"), random),
        {1: 1.0},
        [np.array([1, np.nan], "f4")[: step % 3] for step in range(length)],
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("missing") / "data"
    random = np.random.default_rng(1)
    sr.write((weather(number, length, random) for number, length in enumerate(LENGTHS)), path, shards=1)
    return path


FIELDS = ["who", "height", "whos", "at", "temp", "wind", "rain"]
STRATEGIES: dict[str, Any] = {
    "single": None,
    "pad": sr.Pad(3, padding_values={"temp": np.nan}, padding_side="left"),
    "bucket": sr.Bucket(3, boundaries=[4]),
    "budget": sr.TokenBudget(14),
    "unroll": sr.Unroll(3, 2),
    "window": sr.Window(2, batch_size=4, shift=1),
    "pack": sr.Pack(8, 2),
    "ragged": sr.Ragged(3),
}


def steps_of(value: Any) -> Any:
    return (value.flat_values if isinstance(value, tf.RaggedTensor) else value).numpy()


@pytest.mark.parametrize("case", all_at_night([(case,) for case in STRATEGIES], [("pad",)]))
def test_what_was_observed_is_that_of_the_records(data: Path, case: str) -> None:
    """Of every step, in every strategy; padding and lists that a record lacks were not observed."""
    records = {record.who: record for record in sr.read_records(data)}
    for batch in sr.read(data, batch=STRATEGIES[case], fields=FIELDS, missing="mask"):
        whos, ats = steps_of(batch["whos"]), steps_of(batch["at"])
        for name in ("temp", "wind", "rain"):
            if case in ("single", "ragged") and name == "rain":
                continue  # has no steps where a record lacks it
            values, observed = steps_of(batch[name]), steps_of(batch[f"{name}_observed"])
            assert observed.dtype == np.float32
            assert observed.shape == values.shape
            for place in np.ndindex(whos.shape):
                whole = getattr(records[whos[place]], name) if whos[place] else None
                if whole is None:
                    assert not observed[place].any()
                    continue
                np.testing.assert_array_equal(values[place], np.nan_to_num(whole[ats[place]]))
                np.testing.assert_array_equal(observed[place], ~np.isnan(whole[ats[place]]))
        if case not in ("pack", "unroll"):
            heights = np.array([records[int(who)].height for who in np.atleast_1d(batch["who"])])
            np.testing.assert_array_equal(np.atleast_1d(batch["height_observed"]), ~np.isnan(heights))
            np.testing.assert_array_equal(np.atleast_1d(batch["height"]), np.nan_to_num(heights))
        names = list(batch)
        assert names[names.index("temp") + 1] == "temp_observed"  # it stands beside its field


def test_targets_that_were_not_observed_weigh_nothing(data: Path) -> None:
    """Of steps, of steps of several numbers where any is missing, of the next step, of records and horizons."""
    records = list(sr.read_records(data))
    targets = {"temp": "temp", "wind": "wind", "next": sr.next_step("temp"), "height": "height", "at": "at"}
    names = {"inputs": "temp", "targets": targets, "weights": {"wind": "who"}, "missing": "mask", "fields": FIELDS}
    [(x, y, w)] = sr.read(data, batch=sr.Pad(5), **names)
    assert np.isfinite(x).all()
    assert all(np.isfinite(part).all() for part in y.values())
    for row, record in enumerate(records):
        length = LENGTHS[row]
        real = ~np.isnan(record.temp)
        expected = {
            "temp": real,
            "wind": ~np.isnan(record.wind).any(-1) * record.who,
            "next": np.append(real[1:], np.zeros(min(length, 1), bool)),
            "at": np.ones(length),
        }
        for name, weight in expected.items():
            np.testing.assert_array_equal(w[name][row], np.append(weight, np.zeros(5 - length)), err_msg=name)
        assert w["height"][row] == (0 if np.isnan(record.height) else 1)
    horizon = sr.Window(1, shift=1, horizon=2, batch_size=20)
    inputs = ("temp", "temp_observed", "window_index", "who")
    [(x, y, w)] = sr.read(
        data, batch=horizon, inputs=inputs, targets="temp_horizon", missing={"temp": "mask"}, fields=FIELDS
    )
    for place, who, observed, weight in zip(x[2].numpy(), x[3].numpy(), x[1].numpy(), w.numpy(), strict=True):
        temp = records[who - 1].temp
        assert observed[0] == (not np.isnan(temp[place]))
        np.testing.assert_array_equal(weight[: len(temp) - place - 1], ~np.isnan(temp[place + 1 : place + 3]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_every_float_has_its_nan(dtype: str) -> None:
    """Quiet and signalling ones with any payload are missing; infinities and -0.0 are values."""
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    nans = {"float16": 0x7C01, "bfloat16": 0x7F81, "float32": 0x7F800001, "float64": 0x7FF0000000000001}
    signalling = np.array([nans[dtype]], f"u{kind.itemsize}").view(kind)
    values = np.concatenate([np.array([1, np.nan, np.inf, -np.inf, -0.0], kind), signalling])
    [field] = sr.Schema.of(sr.record(type("A", (), {"x": sr.context(dtype), "__annotations__": {"x": Any}}))).fields
    filled, observed = Observed("x").columns(field, Column(tf.constant(values)))
    np.testing.assert_array_equal(observed.values, [1, 0, 1, 1, 1, 0])
    assert filled.values.numpy().tobytes() == np.array([1, 0, np.inf, -np.inf, -0.0, 0], kind).tobytes()


def test_ragged_steps_are_masked_as_inputs(data: Path) -> None:
    """Their padding was not observed either; as targets they are refused, since a loss averages over it."""
    options = {"batch": sr.Pad(5), "missing": {"gusts": "mask"}, "fields": ["temp", "gusts"]}
    [batch] = sr.read(data, **options)
    np.testing.assert_array_equal(batch["gusts_observed"][2], [[0, 0], [1, 0], [1, 0], [0, 0], [1, 0]])
    assert not np.isnan(batch["gusts"]).any()
    with pytest.raises(sr.OptionError, match="'gusts' has steps of unknown length"):
        sr.read(data, inputs="temp", targets="gusts", **options)


def test_targets_without_weights_need_their_mask(data: Path) -> None:
    """A missing target is 0: without weights, its mask is among the inputs or the targets, or it is an error."""
    options = {"batch": sr.Pad(5), "missing": "mask", "fields": FIELDS, "weights": False}
    with pytest.raises(sr.OptionError, match="weights=False: the target 'temp' is 0 .* 'temp_observed' among"):
        sr.read(data, inputs="at", targets="temp", **options)
    for names in ({"inputs": ("at", "temp_observed"), "targets": "temp"}, {"targets": ("temp", "temp_observed")}):
        [(_, _)] = sr.read(data, **{"inputs": "at", **names}, **options)
    [(_, _)] = sr.read(data, inputs="temp", targets="at", **options)


def test_a_forecast_trains_on_what_was_observed(data: Path) -> None:
    """The loss is the mean over the next steps that were observed, and `fit` takes values and mask as inputs."""
    inputs = {"temp": "temp", "seen": "temp_observed"}
    names = {"inputs": inputs, "targets": sr.next_step("temp"), "missing": "mask", "fields": FIELDS}
    x = {name: keras.Input((None,), name=name) for name in inputs}
    both = keras.layers.Concatenate()([keras.ops.expand_dims(part, -1) for part in x.values()])
    model = keras.Model(x, keras.layers.Dense(1, use_bias=False)(both))
    model.set_weights([np.array([[0.5], [0.25]], "f4")])
    model.compile("sgd", keras.losses.MeanSquaredError(reduction="mean_with_sample_weight"))
    errors = [
        (0.5 * np.nan_to_num(a) + 0.25 * (not np.isnan(a)) - b) ** 2
        for record in sr.read_records(data)
        for a, b in zip(record.temp, record.temp[1:], strict=False)
        if not np.isnan(b)
    ]
    history = model.fit(sr.read(data, batch=sr.Pad(5), **names), shuffle=False, verbose=0).history
    np.testing.assert_allclose(history["loss"], np.mean(errors), rtol=1e-5)


@sr.record
class Clash:
    temp: Any = sr.feature_list("float32")
    temp_observed: Any = sr.feature_list("float32")


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("drop", "missing: expected 'mask', or a mapping of fields to 'mask', got 'drop'"),
        ({"temp": "fill"}, "missing: expected 'mask'"),
        (True, "missing: expected 'mask'"),
        ({"who": "mask"}, "expected a float field, but 'who' is of int32, which has no NaN"),
        ({"tempp": "mask"}, r"no field 'tempp' \(did you mean 'temp'\?\)"),
        ({"bag": "mask"}, "'bag' is sparse; name others in missing="),
    ],
    ids=str,
)
def test_what_cannot_be_masked_is_refused(data: Path, missing: Any, message: str) -> None:
    """Words that are none, fields that have no NaN, and fields that are none."""
    with pytest.raises((sr.OptionError, sr.SchemaError), match=message):
        sr.read(data, batch=sr.Pad(2), missing=missing)


def test_sparse_fields_have_no_mask(data: Path) -> None:
    """`"mask"` leaves them out as it leaves out whole numbers, whether they are read or not."""
    [batch] = sr.read(data, batch=sr.Pad(5), missing="mask")
    assert isinstance(batch["bag"], tf.SparseTensor)
    assert {name for name in batch if name.endswith("_observed")} == {
        f"{name}_observed" for name in ("height", "temp", "wind", "rain", "gusts")
    }
    [values] = sr.read(data, batch=sr.Pad(5), missing="mask", inputs="temp")
    assert np.isfinite(values).all()


def test_masks_need_floats_and_a_name(tmp_path: Path, data: Path) -> None:
    """Without a float field there is nothing to mask; another field's name is not taken."""
    with pytest.raises(sr.OptionError, match="Weather has no float field"):
        sr.read(data, fields=["who", "bag"], missing="mask")
    sr.write([Clash([1.0], [1.0])], tmp_path / "clash")
    with pytest.raises(sr.OptionError, match="has a field 'temp_observed', the name of what says"):
        sr.read(tmp_path / "clash", missing={"temp": "mask"})
