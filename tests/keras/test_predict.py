"""Predictions in the order of the records."""

import itertools
from pathlib import Path
from types import NoneType
from typing import Any

import keras
import numpy as np
import pytest
from combinations import all_at_night
from walks import LENGTHS, walk

import seqrecorder as sr


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keras") / "walks"
    sr.write((walk(i, n) for i, n in enumerate(LENGTHS)), path)
    return path


@pytest.fixture(autouse=True)
def seeded() -> None:
    keras.utils.set_random_seed(1)


IN_ORDER = [sr.Pad(16), sr.Bucket(16, boundaries="sorted"), sr.TokenBudget(100)]


@pytest.mark.parametrize(
    ("sequences", "batch"),
    all_at_night(
        itertools.product([True, False], IN_ORDER), [*((True, batch) for batch in IN_ORDER), (False, IN_ORDER[1])]
    ),
)
def test_predictions_are_in_the_order_of_the_records(walks: Path, batch: Any, *, sequences: bool) -> None:
    """Each record's prediction stands at its place, cut to its steps, whatever batches it was made in."""
    layers = [] if sequences else [keras.layers.GlobalMaxPooling1D()]
    model = keras.Sequential([keras.Input((None, 1)), keras.layers.Rescaling(2.0), *layers])
    results = sr.keras.predict(model, walks, batch=batch, inputs="x")
    for record, result in zip(sr.read_records(walks), results, strict=True):
        if sequences:
            np.testing.assert_array_equal(result, record.x * 2)
        else:
            assert result.shape == (1,)


AS_MANY = sorted({*LENGTHS} - {0, 1})


WIDTHS = [sr.Pad(1), sr.Pad(4, length=max(LENGTHS)), sr.Bucket(4, boundaries="sorted")]


@pytest.mark.parametrize(
    ("batch", "classes"),
    all_at_night(
        itertools.product(WIDTHS, AS_MANY), [(WIDTHS[0], AS_MANY[0]), *((batch, AS_MANY[-1]) for batch in WIDTHS[1:])]
    ),
)
def test_as_many_classes_as_steps_are_not_taken_for_steps(walks: Path, batch: Any, classes: int) -> None:
    """Values of a record stay whole, also in a batch that happens to have as many steps."""
    layers = [keras.layers.GlobalMaxPooling1D(), keras.layers.Dense(classes)]
    model = keras.Sequential([keras.Input((None, 1)), *layers])
    results = sr.keras.predict(model, walks, batch=batch, inputs="x")
    assert {result.shape for result in results} == {(classes,)}


def test_predictions_of_windows_and_segments_are_put_together(walks: Path) -> None:
    """Windows come stacked or joined, and segments joined along their record, with the state of its slot."""
    records = list(sr.read_records(walks))
    double = keras.Sequential([keras.Input((None, 1)), keras.layers.Rescaling(2.0)])
    last = keras.Sequential([keras.Input((None, 1)), keras.layers.Lambda(lambda x: x[:, -1])])
    joined = sr.keras.predict(double, walks, batch=sr.Window(7), inputs="x", join=True)
    stacked = sr.keras.predict(last, walks, batch=sr.Window(5, shift=2, tail="drop"), inputs="x", shuffle=50)
    for record, steps, windows in zip(records, joined, stacked, strict=True):
        np.testing.assert_array_equal(steps, record.x * 2)
        np.testing.assert_array_equal(windows, record.x[4::2])
    rnn = keras.layers.GRU(3, return_sequences=True)
    x, reset = keras.Input(batch_shape=(6, 4, 1)), keras.Input(batch_shape=(6,), dtype="bool")
    model = keras.Model([x, reset], sr.keras.Unrolled(rnn)(x, reset=reset))
    outputs = sr.keras.predict(model, walks, batch=sr.Unroll(6, 4), inputs=("x", "reset"))
    for record, output in zip(records[:5], outputs[:5], strict=True):
        np.testing.assert_allclose(output, keras.ops.convert_to_numpy(rnn(record.x[np.newaxis]))[0], atol=1e-6)
    assert [len(output) for output in outputs] == LENGTHS


@sr.record
class Pair:
    key: str = sr.context(str, key=True)
    rate: float = sr.context("float32")
    source: np.ndarray = sr.feature_list("float32", shape=(1,), align="source")
    score: np.ndarray = sr.feature_list("float32", align="source")
    target: np.ndarray = sr.feature_list("float32", shape=(1,), align="target")


def test_predictions_of_packed_rows_are_taken_apart(tmp_path: Path) -> None:
    """Steps of either list, or values of segments, go to their records, whole or split, with what is kept."""
    rng, sizes = np.random.default_rng(0), np.random.default_rng(1).integers(0, 9, (40, 2))
    steps = [(rng.random((s, 1), "f4"), rng.random(s, "f4"), rng.random((t, 1), "f4")) for s, t in sizes]
    sr.write([Pair(f"k{number}", number, *each) for number, each in enumerate(steps)], tmp_path / "pairs")
    double = keras.Sequential([keras.Input((None, 1)), keras.layers.Rescaling(2.0)])
    records = list(sr.read_records(tmp_path / "pairs"))
    for batch, name in (
        (sr.Pack(20, 3), "source"),
        (sr.Pack(3, 3, too_long="split"), "source"),
        (sr.Pack({"source": 20, "target": 12}, 3), "source"),
        (sr.Pack({"source": 20, "target": 12}, 3), "target"),
    ):
        options: Any = {"batch": batch, "inputs": name, "keep": ("key", "rate", "score")}
        for record, result in zip(records, sr.keras.predict(double, tmp_path / "pairs", **options), strict=True):
            np.testing.assert_array_equal(result["prediction"], getattr(record, name) * 2)
            np.testing.assert_array_equal(result["score"], record.score)
            is_empty = not len(record.source) and (name == "source" or not len(record.target))
            assert (result["key"], result["rate"]) == ((None, None) if is_empty else (record.key, record.rate))
            assert type(result["key"]) is (NoneType if is_empty else str)
    results = sr.keras.predict(double, tmp_path / "pairs", batch=sr.Pack(20, 3), inputs="source")
    for record, result in zip(records, results, strict=True):
        np.testing.assert_array_equal(result, record.source * 2)

    def of_segments(inputs: Any, *, training: bool) -> Any:
        del training
        return inputs[1]

    results = sr.keras.predict(of_segments, tmp_path / "pairs", batch=sr.Pack(30, 3), inputs=("source", "rate"))
    expected = [[record.rate] if len(record.source) else [] for record in records]
    assert [result.tolist() for result in results] == expected


def test_predictions_of_what_read_derives(walks: Path) -> None:
    """Inputs that are normalised, of windows too, are those that `read` gives."""
    double = keras.Sequential([keras.Input((None, 1)), keras.layers.Rescaling(2.0)])
    stats = sr.stats(walks)
    mean, std = stats["x"].mean, stats["x"].std
    results = sr.keras.predict(double, walks, batch=sr.Window(5, tail="drop"), inputs="x", normalize=stats, join=True)
    for record, result in zip(sr.read_records(walks), results, strict=True):
        expected = (record.x[: len(record.x) // 5 * 5] - mean) / std * 2
        np.testing.assert_allclose(result, expected, atol=1e-5)


@sr.record
class Stock:
    symbol: str = sr.context(str, key=True)
    sector: int = sr.context("int32")
    day: np.ndarray = sr.feature_list("datetime64[D]")
    price: np.ndarray = sr.feature_list("float32")
    news: list = sr.feature_list(str)
    ticks: np.ndarray = sr.feature_list("int64", align="ticks")
    links: list = sr.feature_list("int64", shape=(None,), align="ticks")


def stocks() -> list[Stock]:
    start = np.datetime64("2005-01-01")
    lengths = enumerate((10, 3, 8))
    return [
        Stock(f"s{i}", i, start + np.arange(n), np.arange(n), [f"n{t}" for t in range(n)], [i], [[]])
        for i, n in lengths
    ]


def test_predictions_come_with_what_is_kept(tmp_path: Path) -> None:
    """Keys, times and values come as they are stored, a row for each window or step; none without windows."""
    records = stocks()
    sr.write(records, tmp_path / "data")
    flat = keras.Sequential([keras.Input((4, 1)), keras.layers.Flatten(), keras.layers.Dense(2)])
    window = sr.Window(4, horizon=2, shift=2, tail="drop")
    options = {"inputs": "price", "normalize": sr.stats(tmp_path / "data")}
    keep = ("symbol", "sector", "day_horizon", "price_horizon", "news")
    plain = sr.keras.predict(flat, tmp_path / "data", batch=window, **options)
    kept = sr.keras.predict(flat, tmp_path / "data", batch=window, keep=keep, **options)
    for record, alone, row in zip(records, plain, kept, strict=True):
        starts = range(0, len(record.day) - 5, 2)
        np.testing.assert_array_equal(row["prediction"], alone)
        if not starts:
            assert row["symbol"] is None
            assert len(row["day_horizon"]) == 0
            continue
        assert (row["symbol"], row["sector"]) == (record.symbol, record.sector)
        assert type(row["symbol"]) is str
        np.testing.assert_array_equal(row["day_horizon"], np.stack([record.day[s + 4 : s + 6] for s in starts]))
        np.testing.assert_array_equal(row["price_horizon"], np.stack([record.price[s + 4 : s + 6] for s in starts]))
        assert row["news"].tolist() == [list(record.news[s : s + 4]) for s in starts]
    steps = keras.Sequential([keras.Input((None, 1)), keras.layers.Rescaling(2.0)])
    for batch, more in ((2, {}), (sr.Bucket(2, boundaries="sorted"), {}), (sr.Window(4), {"join": True})):
        kept = sr.keras.predict(steps, tmp_path / "data", batch=batch, inputs="price", keep=("symbol", "day"), **more)
        for record, row in zip(records, kept, strict=True):
            np.testing.assert_array_equal(row["prediction"].ravel(), record.price * 2)
            np.testing.assert_array_equal(row["day"], record.day)
            assert row["symbol"] == record.symbol
    for name, message in (
        ("dya", "gives no 'dya'.*did you mean 'day'"),
        ("links", "'links' is ragged"),
    ):
        with pytest.raises(sr.OptionError, match=message):
            sr.keras.predict(steps, tmp_path / "data", batch=2, inputs="price", keep=name)


@sr.record
class Spoken:
    x: np.ndarray = sr.feature_list("float32", shape=(2,))
    level: np.ndarray = sr.feature_list("float32")
    words: list = sr.feature_list(str)
    sound: np.ndarray = sr.feature_list("int16", align="sound", per_step=3)


STEPWISE = [
    sr.Pad(4, mask_name="mask"), sr.Bucket(4, boundaries=[3], mask_name="mask"), sr.TokenBudget(40, mask_name="mask"),
    sr.Unroll(3, 4, mask_name="mask"), sr.Window(3, mask_name="mask"), sr.Pack(12, 2),
]  # fmt: skip


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(batch, marks=() if isinstance(batch, (sr.Pad, sr.Unroll, sr.Pack)) else pytest.mark.nightly)
        for batch in STEPWISE
    ],
    ids=lambda batch: type(batch).__name__,
)
def test_kept_values_of_steps_are_cut_to_their_record(tmp_path: Path, batch: Any) -> None:
    """Masks, observed values, shifted steps and steps with a rate have exactly the steps of their record."""
    rng = np.random.default_rng(0)
    levels = [np.where(np.arange(n) % 3, 1, np.nan).astype("f4") for n in (5, 2, 9, 1, 7)]
    sr.write(
        (
            Spoken(rng.random((n, 2), "f4"), v, [f"w{t}" for t in range(n)], range(3 * n))
            for v in levels
            if (n := len(v))
        ),
        tmp_path / "data",
    )
    after, before = sr.next_step("level"), sr.previous_step("words", start="<s>")
    packed = isinstance(batch, sr.Pack)
    keep = [after, before, "level", "level_observed", *([] if packed else ["mask", "sound", "sound_mask"])]
    model = keras.Sequential([keras.Input((None, 2)), keras.layers.Rescaling(2.0)])
    options: Any = {"batch": batch, "inputs": "x", "missing": {"level": "mask"}}
    options["join"] = isinstance(batch, sr.Window)
    results = sr.keras.predict(model, tmp_path / "data", keep=keep, **options)
    for record, result in zip(sr.read_records(tmp_path / "data"), results, strict=True):
        n = len(record.level)
        expected = {
            after: [*np.nan_to_num(record.level)[1:], 0],
            before: ["<s>", *record.words][:n],
            "level": record.level,
            "level_observed": ~np.isnan(record.level),
            "mask": np.ones(n, bool),
            "sound": record.sound,
            "sound_mask": np.ones(3 * n, bool),
        }
        for name in keep:
            np.testing.assert_array_equal(result[name], expected[name], err_msg=str(name))
    for wrong in (3, None, ("level", 3)):
        with pytest.raises(sr.OptionError, match="keep: expected a name, or a sequence of names, got"):
            sr.keras.predict(model, tmp_path / "data", keep=wrong, **options)
    for wrong in ("sequence_length", "segment_ids", "sound") if packed else ():
        with pytest.raises(sr.OptionError, match=f"keep: '{wrong}' cannot be divided among the records of a packed"):
            sr.keras.predict(model, tmp_path / "data", keep=wrong, **options)


def test_missing_values_are_kept_as_nan(tmp_path: Path) -> None:
    """NaN in a horizon, a context field or a vector is kept as NaN, though the model reads 0; None is NaN, too."""

    @sr.record
    class Day:
        mean: float = sr.context("float32")
        level: np.ndarray = sr.feature_list("float16", shape=(2,))
        hint: float | None = sr.context("float64", optional=True, default=None)

    levels = np.where(np.arange(12).reshape(6, 2) % 5, 1, np.nan).astype("f2")
    sr.write([Day(np.nan, levels), Day(1.0, levels + 1, 2.0)], tmp_path / "data")
    model = keras.Sequential([keras.Input((3, 2)), keras.layers.Flatten(), keras.layers.Dense(1)])
    window = sr.Window(3, horizon=3, tail="drop")
    keep = ["mean", "hint", "level", "level_horizon"]
    one, two = sr.keras.predict(model, tmp_path / "data", batch=window, inputs="level", missing="mask", keep=keep)
    np.testing.assert_array_equal([one["mean"], one["hint"], two["mean"], two["hint"]], [np.nan, np.nan, 1, 2])
    for result, values in ((one, levels), (two, levels + 1)):
        np.testing.assert_array_equal(result["level"], values[np.newaxis, :3])
        np.testing.assert_array_equal(result["level_horizon"], values[np.newaxis, 3:])
        assert np.isfinite(result["prediction"]).all()


@pytest.mark.parametrize("name", [pytest.param("level", marks=pytest.mark.nightly), "sound"])
def test_packed_rows_of_two_rates_come_apart(tmp_path: Path, name: str) -> None:
    """Of rows with lists of two rates, each record has the steps of the list that the output has."""

    @sr.record
    class Take:
        level: Any = sr.feature_list("float32")
        sound: Any = sr.feature_list("float32", align="sound", per_step=3)

    takes = [Take(np.arange(n) + 10 * n, np.arange(3 * n) + 100 * n) for n in (1, 4, 2, 3)]
    sr.write(takes, tmp_path / "takes")
    both = [keras.Input((None,)), keras.Input((None,))]
    model = keras.Model(both, keras.layers.Rescaling(2.0)(both[name == "sound"]))
    results = sr.keras.predict(model, tmp_path / "takes", batch=sr.Pack(5, 2), inputs=("level", "sound"), steps_of=name)
    for take, result in zip(takes, results, strict=True):
        np.testing.assert_array_equal(result, 2 * getattr(take, name))


def test_what_a_window_or_a_horizon_lacks_is_missing(tmp_path: Path) -> None:
    """Kept floats are NaN and times NaT where a window is padded, or its horizon has not happened yet; counts tell."""
    records = stocks()
    sr.write(records, tmp_path / "data")
    flat = keras.Sequential([keras.Input((4, 1)), keras.layers.Flatten(), keras.layers.Dense(2)])
    keep = ("symbol", "day", "price", "day_horizon", "price_horizon", "horizon_length", "window_index", "news")
    for window, front in (
        (sr.Window(4, horizon=3, shift=3, future=True), False),
        (sr.Window(4, horizon=3, shift=3, future=True, pad="start"), True),
    ):
        kept = sr.keras.predict(flat, tmp_path / "data", batch=window, inputs="price", keep=keep)
        fields = ["symbol", "day", "price", "news"]
        read = sr.read(tmp_path / "data", batch=window, index_name="number", fields=fields)
        rows = [row for batch in read.as_numpy_iterator() for row in zip(*batch.values(), strict=True)]
        names = list(read.element_spec)
        for number, record in enumerate(kept):
            own = [row for row in (dict(zip(names, each, strict=True)) for each in rows) if row["number"] == number]
            assert record["window_index"].tolist() == [row["window_index"] for row in own]
            for at, row in enumerate(own):
                steps = slice(-row["sequence_length"], None) if front else slice(row["sequence_length"])
                real = np.zeros(4, bool)
                real[steps] = True
                ahead = np.arange(3) < row["horizon_length"]
                assert record["horizon_length"][at] == row["horizon_length"]
                for name, mask in (("price", real), ("price_horizon", ahead)):
                    np.testing.assert_array_equal(record[name][at], np.where(mask, row[name], np.nan))
                for name, mask in (("day", real), ("day_horizon", ahead)):
                    assert (np.isnat(record[name][at]) == ~mask).all()
    assert np.isnat(kept[0]["day_horizon"]).any()
    for option in ("targets", "weights", "index_name"):
        with pytest.raises(sr.OptionError, match=f"predict: leave {option} out; give inputs, and in keep= "):
            sr.keras.predict(flat, tmp_path / "data", batch=window, inputs="price", **{option: "price"})


OF_PAIRS = [sr.Pad(4), sr.Bucket(4, boundaries="sorted"), sr.Pack(20, 3)]


@pytest.mark.parametrize(
    ("name", "batch"),
    all_at_night(
        itertools.product(["source", "target"], OF_PAIRS),
        [("source", OF_PAIRS[0]), ("source", OF_PAIRS[1]), ("target", OF_PAIRS[2])],
    ),
)
def test_an_output_has_the_steps_of_the_list_that_is_named(tmp_path: Path, batch: Any, name: str) -> None:
    """Of pairs, outputs and what is kept are cut to the steps of their own list; unnamed, equal widths are refused."""
    rng = np.random.default_rng(3)
    sizes = [(s, t) for s in range(1, 7) for t in range(1, 7)]
    steps = [(rng.random((s, 1), "f4"), rng.random(s, "f4"), rng.random((t, 1), "f4")) for s, t in sizes]
    sr.write([Pair(f"k{number}", number, *each) for number, each in enumerate(steps)], tmp_path / "pairs")
    inputs = {"first": keras.Input((None, 1), name="first"), "second": keras.Input((None, 1), name="second")}
    model = keras.Model(inputs, keras.layers.Rescaling(2.0)(inputs["first" if name == "source" else "second"]))
    options: Any = {"batch": batch, "inputs": {"second": "target", "first": "source"}}
    keep = ("source", "key", "target", "score")
    results = sr.keras.predict(model, tmp_path / "pairs", steps_of=name, keep=keep, **options)
    for record, result in zip(sr.read_records(tmp_path / "pairs"), results, strict=True):
        np.testing.assert_array_equal(result["prediction"], getattr(record, name) * 2)
        np.testing.assert_array_equal(result["source"], record.source)
        np.testing.assert_array_equal(result["target"], record.target)
        np.testing.assert_array_equal(result["score"], record.score)
        assert result["key"] == record.key
    with pytest.raises(sr.OptionError, match=r"may have the steps of .* say of which feature list, steps_of="):
        sr.keras.predict(model, tmp_path / "pairs", **options)
    for wrong in ("rate", "score"):
        with pytest.raises(sr.OptionError, match="steps_of: expected a feature list of the length of an input"):
            sr.keras.predict(model, tmp_path / "pairs", steps_of=wrong, batch=batch, inputs="target")


def test_predictions_that_cannot_be_put_together(walks: Path) -> None:
    """Strategies that draw or leave out records, put the padding first, or have windows that overlap are refused."""
    model = keras.Sequential([keras.Input((None, 1)), keras.layers.Rescaling(2.0)])
    for batch in (sr.Crop(50), sr.Pad(4, padding_side="left")):
        with pytest.raises(sr.OptionError, match="predict: expected"):
            sr.keras.predict(model, walks, batch=batch, inputs="x")
    drawn = sr.Window(4, jitter=1), sr.Window(4, max_windows=1)
    for batch in (*drawn, sr.Pad(4, drop_remainder=True), sr.Window(4, drop_remainder=True)):
        with pytest.raises(sr.OptionError, match="no drop_remainder, and no window drawn or moved at random"):
            sr.keras.predict(model, walks, batch=batch, inputs="x")
    for batch in (sr.Window(4, shift=2), sr.Window(4, stride=2), sr.Pad(4)):
        with pytest.raises(sr.OptionError, match="join=True puts the steps of windows together"):
            sr.keras.predict(model, walks, batch=batch, inputs="x", join=True)
    for name, value in (("epochs", None), ("epochs", 2), ("oversample", "copies"), ("fields", ["x"])):
        with pytest.raises(sr.OptionError, match=f"predict: leave {name} out; give inputs, and in keep= "):
            sr.keras.predict(model, walks, batch=4, inputs="x", **{name: value})


def test_what_is_not_written_is_not_predicted(walks: Path) -> None:
    """Records and arrays are no paths: the error says that they are written first."""
    for data in (list(sr.read_records(walks)), walk(0, 3), np.zeros((3, 4, 2))):
        with pytest.raises(sr.OptionError, match=r"(?s)expected a path, got .*first written: seqrecorder.write\("):
            sr.keras.predict(None, data, batch=4, inputs="x")
    with pytest.raises(sr.OptionError, match="expected a path, got 3$"):
        sr.keras.predict(None, 3, batch=4, inputs="x")


def test_predictions_have_one_output(walks: Path) -> None:
    """Several outputs, and one of other rows than the batch, are refused; one in a dictionary is that one."""
    x = keras.Input((None, 1), name="x")
    doubled = keras.layers.Rescaling(2.0)(x)
    one = keras.Model({"x": x}, {"doubled": doubled})
    with pytest.raises(sr.OptionError, match=r"gives no 'z'.*; it gives (?!.*predict/)"):
        sr.keras.predict(one, walks, batch=4, inputs={"x": "x"}, keep="z")
    results = sr.keras.predict(one, walks, batch=4, inputs={"x": "x"}, keep=("x", "x"))
    for record, result in zip(sr.read_records(walks), results, strict=True):
        np.testing.assert_array_equal(result["prediction"], record.x * 2)
        np.testing.assert_array_equal(result["x"], record.x)
    pair = keras.Model(x, [doubled, doubled])
    rows = keras.Model(x, keras.layers.Lambda(lambda values: values[:1])(x))
    for model in (pair, rows):
        with pytest.raises(sr.OptionError, match=r"predict: expected one output of 4 rows, got .*keras\.Model"):
            sr.keras.predict(model, walks, batch=4, inputs="x")


def test_multi_hot_labels_are_kept(tmp_path: Path) -> None:
    """A sparse vector that `read` gives as a dense one stands beside the prediction of its record."""

    @sr.record
    class Labelled:
        d: np.ndarray = sr.feature_list("float32")
        tags: sr.SparseVector = sr.context("float32", sparse=3, dense=True)
        bag: sr.SparseVector = sr.context("float32", sparse=3)

    sr.write([Labelled(np.ones(n), {n: 1.0}, {}) for n in (1, 2)], tmp_path / "d", shards=1)
    model = keras.Sequential([keras.Input((None,)), keras.layers.Reshape((-1, 1))])
    found = sr.keras.predict(model, tmp_path / "d", batch=sr.Pad(2), inputs="d", keep="tags")
    assert [result["tags"].tolist() for result in found] == [[0, 1, 0], [0, 0, 1]]
    with pytest.raises(sr.OptionError, match="keep: 'bag' is sparse"):
        sr.keras.predict(model, tmp_path / "d", batch=sr.Pad(2), inputs="d", keep="bag")


def test_records_too_long_for_a_row_are_told(tmp_path: Path) -> None:
    """Of records that `Pack` drops there are no empty predictions, but an error."""
    sr.write([User(f"u{n}", np.ones(n)) for n in range(1, 7)], tmp_path / "d")
    model = keras.Sequential([keras.Input((None,)), keras.layers.Reshape((-1, 1))])
    with pytest.raises(sr.OptionError, match="predict: 3 of 6 records are left out"):
        sr.keras.predict(model, tmp_path / "d", batch=sr.Pack(3, 2, too_long="drop"), inputs="d")


LABELLED = [1, 9, 4, 25, 2, 1, 13, 40, 3, 7]


@sr.record
class User:
    user: str = sr.context(str, key=True)
    d: np.ndarray = sr.feature_list("float32")


@pytest.mark.parametrize(
    "options",
    [
        {"batch": sr.Bucket(4, empty="drop")},
        {"batch": sr.Pad(4), "min_length": 1},
        {"batch": sr.Pad(2), "max_length": 0},
    ],
    ids=str,
)
def test_results_stand_beside_the_records(tmp_path: Path, options: Any) -> None:
    """What leaves records out goes with `keep`, which tells whose results there are."""
    sr.write([User(f"u{n}", np.full(0 if n == 2 else 3, n)) for n in range(6)], tmp_path / "d")
    layers = [keras.Input((None,)), keras.layers.Reshape((-1, 1)), keras.layers.GlobalAveragePooling1D()]
    model, kept = keras.Sequential(layers), [2] if "max_length" in options else [0, 1, 3, 4, 5]
    with pytest.raises(sr.OptionError, match=f"predict: {6 - len(kept)} of 6 records are left out.*pass keep="):
        sr.keras.predict(model, tmp_path / "d", inputs="d", **options)
    found = sr.keras.predict(model, tmp_path / "d", inputs="d", keep="user", **options)
    assert [result["user"] for result in found] == [f"u{n}" for n in kept]


def test_every_call_is_traced_for_itself(walks: Path, caplog: pytest.LogCaptureFixture) -> None:
    """TensorFlow does not warn of retracing when datasets are evaluated one after the other."""
    model = keras.Sequential([keras.Input((None, 1)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    for _ in range(7):
        sr.keras.evaluate(model, walks, batch=sr.Pad(16), inputs="x", targets="x", steps=slice(1))
    assert "retracing" not in caplog.text


STRATEGIES = [
    sr.Pad(4), sr.Bucket(4), sr.Bucket(3, boundaries="sorted", warm_up="largest"), sr.TokenBudget(50), sr.Ragged(4),
    sr.Pack(50, 3), sr.Pack(16, 3, too_long="split"), sr.Unroll(3, 6), sr.Window(7, batch_size=5, tail="pad"),
]  # fmt: skip


@sr.record
class Labelled:
    x: np.ndarray = sr.feature_list("float32", shape=(2,))
    tags: np.ndarray = sr.feature_list("int64")
    value: np.ndarray = sr.feature_list("float32")
    label: int = sr.context("int64")


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Labelled]]:
    rng, path = np.random.default_rng(3), tmp_path_factory.mktemp("keras") / "labelled"
    records = [
        Labelled(rng.random((n, 2), "f4"), rng.integers(0, 3, n), rng.random(n, "f4"), int(rng.integers(0, 3)))
        for n in LABELLED
    ]
    for record in records[::2]:
        record.value[0] = np.nan
    sr.write(records, path)
    return path, records


def cross_entropy(logits: np.ndarray, classes: np.ndarray) -> np.ndarray:
    shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    return -np.log(shares[np.arange(len(classes)), classes])


PADDED_OR_PACKED = (sr.Pad(4), sr.TokenBudget(50), sr.Pack(50, 3))  # counted as Bucket and the other Pack are


@pytest.mark.parametrize(
    ("batch", "reduction"),
    all_at_night(
        itertools.product(STRATEGIES, ["sum_over_batch_size", "mean_with_sample_weight", "sum"]),
        [
            *((batch, "sum_over_batch_size") for batch in STRATEGIES if batch not in PADDED_OR_PACKED),
            *((STRATEGIES[1], reduction) for reduction in ("mean_with_sample_weight", "sum")),
        ],
    ),
    ids=str,
)
def test_metrics_count_steps_whatever_the_batches(labelled: Any, batch: Any, reduction: str) -> None:
    """Losses and metrics of two outputs are numpy's over all steps, by weight, in every strategy and reduction."""
    path, records = labelled
    x = keras.Input((None, 2))
    tags, value = keras.layers.Dense(3, name="tags")(x), keras.layers.Dense(1, name="value")(x)
    model = keras.Model(x, {"tags": tags, "value": value})
    model.compile(
        loss={
            "tags": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=reduction),
            "value": keras.losses.MeanAbsoluteError(reduction=reduction),
        },
        loss_weights={"tags": 1.0, "value": 3.0},
        weighted_metrics={"tags": ["accuracy"], "value": ["mse"]},
        metrics={"tags": [keras.metrics.SparseCategoricalAccuracy(name="plain")]},
    )
    reading = {
        "batch": batch,
        "inputs": "x",
        "targets": {"tags": "tags", "value": "value"},
        "missing": {"value": "mask"},
    }
    found = sr.keras.evaluate(model, path, class_weight={"tags": {0: 5.0}, "value": None}, **reading)
    steps = model(np.concatenate([r.x for r in records])[np.newaxis])
    outputs = {name: keras.ops.convert_to_numpy(output)[0] for name, output in steps.items()}
    classes, values = (np.concatenate([getattr(r, name) for r in records]) for name in ("tags", "value"))
    weights, real, right = np.where(classes == 0, 5.0, 1.0), ~np.isnan(values), outputs["tags"].argmax(-1) == classes
    off = (outputs["value"][:, 0] - values)[real]
    expected = {
        "tags_loss": np.average(cross_entropy(outputs["tags"], classes), weights=weights),
        "value_loss": np.abs(off).mean(), "value_mse": np.square(off).mean(),
        "tags_accuracy": np.average(right, weights=weights), "tags_plain": right.mean(),
    }  # fmt: skip
    expected["loss"] = expected["tags_loss"] + 3 * expected["value_loss"]
    assert found.keys() == expected.keys()
    for name, figure in expected.items():
        assert found[name] == pytest.approx(figure, rel=1e-5), name


def test_metrics_of_records_and_penalties_of_layers(labelled: Any) -> None:
    """A target of the record counts each record once; losses of layers are added, functions are losses, too."""
    path, records = labelled
    model = keras.Sequential([keras.Input((None, 2)), keras.layers.GlobalMaxPooling1D(),
                              keras.layers.Dense(3, kernel_regularizer="l2")])  # fmt: skip
    model.compile(loss=lambda y, p: keras.losses.sparse_categorical_crossentropy(y, p, True), metrics=["accuracy"])
    logits = np.concatenate([keras.ops.convert_to_numpy(model(record.x[np.newaxis])) for record in records])
    labels = np.array([record.label for record in records])
    for batch in (sr.Pad(1), sr.Bucket(1, buckets=3), sr.Ragged(1)):
        found = sr.keras.evaluate(model, path, batch=batch, inputs="x", targets="label")
        entropy = cross_entropy(logits, labels).mean() + float(keras.ops.convert_to_numpy(sum(model.losses)))
        assert found == pytest.approx({"loss": entropy, "accuracy": (logits.argmax(-1) == labels).mean()}, rel=1e-5)


def test_metrics_of_nothing_are_refused(labelled: Any) -> None:
    """A model that is not compiled, targets that weigh nothing, or other steps than the output's are errors."""
    model = keras.Sequential([keras.Input((None, 2)), keras.layers.Dense(3)])
    options = {"batch": sr.Pad(4), "inputs": "x", "targets": "tags"}
    with pytest.raises(sr.OptionError, match="expected a compiled model"):
        sr.keras.evaluate(model, labelled[0], **options)
    model.compile(loss="sparse_categorical_crossentropy")
    with pytest.raises(sr.OptionError, match="steps or records that count"):
        sr.keras.evaluate(model, labelled[0], class_weight=dict.fromkeys(range(3), 0.0), **options)
    for option in ("batch", "epochs"):
        with pytest.raises(sr.OptionError, match=r"expected batch=Pad.*, and epochs that end"):
            sr.keras.evaluate(model, labelled[0], **{**options, option: None})
    short = keras.Sequential([keras.Input((None, 2)), keras.layers.Dense(3), keras.layers.Cropping1D((0, 1))])
    short.compile(loss="sparse_categorical_crossentropy")
    with pytest.raises(sr.OptionError, match="begins with the dimensions of its target's weights"):
        sr.keras.evaluate(short, labelled[0], **options)


class Attached:
    """An output that numpy refuses until the backend has detached it, as a tensor of PyTorch with a gradient is."""

    def __init__(self, value: np.ndarray) -> None:
        self.value = value

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad")


def test_other_backends_get_arrays_and_give_them(walks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Keras runs on JAX or PyTorch, no tensor of TensorFlow reaches a model, and outputs leave by Keras."""
    to_numpy = keras.ops.convert_to_numpy
    monkeypatch.setattr(keras.backend, "backend", lambda: "torch")
    monkeypatch.setattr(keras.ops, "convert_to_numpy", lambda x: x.value if isinstance(x, Attached) else to_numpy(x))

    def model(features: dict[str, Any], *, training: bool) -> Attached:
        assert isinstance(features["x"], np.ndarray)
        assert not training
        return Attached(features["x"] * 2)

    results = sr.keras.predict(model, walks, batch=sr.Bucket(8), inputs={"x": "x"})
    for record, result in zip(sr.read_records(walks), results, strict=True):
        np.testing.assert_array_equal(result, record.x * 2)


@pytest.mark.parametrize(
    ("batch", "remedy"),
    [
        (sr.Bucket(5), "pad_to_bucket_boundary=True"),
        pytest.param(sr.TokenBudget(23), "pad_to_bucket_boundary=True", marks=pytest.mark.nightly),
        (sr.Pad(5), "length="),
        (sr.Bucket(5, pad_to_bucket_boundary=True), None),
        pytest.param(sr.Pad(5, length=9), None, marks=pytest.mark.nightly),
        pytest.param(sr.Crop(2), None, marks=pytest.mark.nightly),
    ],
)
def test_jax_is_not_given_many_shapes_in_silence(tmp_path, monkeypatch, caplog, batch, remedy):
    """Where Keras runs on JAX, which compiles each shape, `read` says so once for each strategy, with the remedy."""

    @sr.record
    class Series:
        x: np.ndarray = sr.feature_list("float32")

    sr.write([Series(np.zeros(n, "f4")) for n in range(2, 9)], tmp_path / "data")
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    for _ in range(2):
        sr.read(tmp_path / "data", batch=batch, inputs="x", targets="x")
        sr.read(tmp_path / "data", batch=batch)
    said = [record.message for record in caplog.records if "JAX" in record.message]
    assert len(said) == (remedy is not None)
    assert remedy is None or remedy in said[0]


@sr.record
class Verdict:
    x: Any = sr.feature_list("float32", shape=(2,))
    failed: bool = sr.context(bool)
    late: Any = sr.feature_list(bool)


@pytest.mark.parametrize("batch", [sr.Pad(4), sr.Window(2, horizon=1, tail="drop")], ids=["Pad", "Window"])
@pytest.mark.parametrize("loss", ["binary_crossentropy", keras.losses.BinaryCrossentropy(), "mse"])
def test_a_target_of_yes_or_no_goes_with_one_output(tmp_path: Path, loss: Any, batch: Any) -> None:
    """`fit` and `model.evaluate` compare targets `(B,)` or `(B, 1, 1)` with outputs `(B, 1)`; so does `evaluate`."""
    random = np.random.default_rng(0)
    x = random.normal(size=(8, 3, 2)).astype("f4")
    sr.write([Verdict(x[at], at % 3 == 0, random.random(3) < 0.5) for at in range(8)], tmp_path / "d")
    layers = [keras.Input((None, 2)), keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(1, "sigmoid")]
    model = keras.Sequential(layers)
    model.compile("sgd", loss, metrics=["accuracy"])
    fields = {"batch": batch, "inputs": "x", "targets": "failed" if isinstance(batch, sr.Pad) else "late_horizon"}
    expected = model.evaluate(sr.read(tmp_path / "d", **fields), verbose=0, return_dict=True)
    assert sr.keras.evaluate(model, tmp_path / "d", **fields) == pytest.approx(expected, rel=1e-5)


def test_stored_values_are_kept_beside_normalized_inputs(tmp_path: Path) -> None:
    """What is kept of a normalized field with missing values is as it was stored, with NaN."""

    @sr.record
    class Meter:
        power: np.ndarray = sr.feature_list("float32")

    power = np.arange(20, dtype=np.float32)
    power[17] = np.nan
    sr.write([Meter(power)], tmp_path / "data")
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4)])
    options = {"inputs": "power", "missing": "mask", "normalize": sr.stats(tmp_path / "data")}
    window, keep = sr.Window(4, horizon=4), ["power", "power_horizon"]
    [result] = sr.keras.predict(model, tmp_path / "data", batch=window, keep=keep, **options)
    np.testing.assert_array_equal(result["power"], power[:16].reshape(4, 4))
    np.testing.assert_array_equal(result["power_horizon"], power[4:].reshape(4, 4))


@pytest.mark.parametrize(
    ("of_steps", "batch_size"),
    all_at_night(itertools.product([False, True], [2, 4]), [(False, 4), (True, 2)]),
)
def test_outputs_of_subclassed_models_are_told_apart(tmp_path: Path, of_steps: bool, batch_size: int) -> None:
    """An output per record that happens to be as wide as a batch is no output per step."""

    @sr.record
    class Session:
        ids: np.ndarray = sr.feature_list("int64")
        share: np.ndarray = sr.context("float32", shape=(3,))

    class Scores(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = keras.layers.Embedding(9, 4)
            self.gru = keras.layers.GRU(5, return_sequences=of_steps)

        def call(self, x):
            out = self.gru(self.embedding(x["ids"]))
            return out[..., 0] if of_steps else out + keras.ops.sum(x["share"])

    lengths = (2, 3, 5, 4)
    sr.write([Session(np.ones(n, "int64"), [1, 2, 3]) for n in lengths], tmp_path / "data")
    inputs = {"share": "share", "ids": "ids"}
    results = sr.keras.predict(Scores(), tmp_path / "data", batch=sr.Pad(batch_size), inputs=inputs)
    assert [result.shape for result in results] == [(n,) if of_steps else (5,) for n in lengths]


@sr.record
class Night:
    key: str = sr.context(str, key=True)
    stage: np.ndarray = sr.feature_list("int64")
    eeg: np.ndarray = sr.feature_list("float32", align="eeg", per_step=4)


WITH_RATES = [
    *((batch, {}) for batch in (sr.Pad(2), sr.Bucket(2), sr.TokenBudget(20), sr.Unroll(2, 4), sr.Pack(16, 2))),
    (sr.Window(5), {"join": True}),
]


@pytest.mark.parametrize("keep", [(), ("stage",)], ids=["alone", "kept"])
@pytest.mark.parametrize(("batch", "options"), WITH_RATES)
def test_outputs_have_the_steps_that_an_input_follows_at_a_rate(
    tmp_path: Path, batch: Any, options: dict[str, Any], keep: tuple[str, ...]
) -> None:
    """Of a model that reads samples alone, an output for each step of the other lists is cut to the record's steps."""
    nights = [Night(f"n{steps}", range(steps), np.arange(4 * steps)) for steps in (7, 10, 3)]
    sr.write(nights, tmp_path / "nights")
    samples = keras.Input((None,))
    means = keras.layers.AveragePooling1D(4)(keras.layers.Reshape((-1, 1))(samples))
    model = keras.Model(samples, means)
    results = sr.keras.predict(model, tmp_path / "nights", batch=batch, inputs="eeg", keep=keep, **options)
    for night, result in zip(nights, results, strict=True):
        got = result["prediction"] if keep else result
        np.testing.assert_allclose(got[:, 0], night.eeg.reshape(-1, 4).mean(1), rtol=1e-6)
        assert not keep or result["stage"].tolist() == night.stage.tolist()
