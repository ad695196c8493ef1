"""Every loss of Keras that takes what `read` gives has the value that numpy works out from the records."""

import itertools
from pathlib import Path
from typing import Any

import attrs
import keras
import numpy as np
import pytest
import tensorflow as tf
from combinations import all_at_night

import seqrecorder as sr

LENGTHS = (4, 2, 3, 1)
CLASSES = 3
EPSILON = 1e-7
WEIGHTS = np.array([0, 0.5, 1.5, 2.5, 4])  # of padding, and of each record


@sr.record
class Row:
    who: int = sr.context("int32")
    weight: float = sr.context("float32")
    number: float = sr.context("float32")
    flag: bool = sr.context("bool")
    tag: int = sr.context("int32")
    share: Any = sr.context("float32", shape=(CLASSES,))
    grid: Any = sr.context("float32", shape=(2, CLASSES))
    whos: Any = sr.feature_list("int32")
    step_weights: Any = sr.feature_list("float32")
    numbers: Any = sr.feature_list("float32")
    flags: Any = sr.feature_list("bool")
    tags: Any = sr.feature_list("int32")
    shares: Any = sr.feature_list("float32", shape=(CLASSES,))
    grids: Any = sr.feature_list("float32", shape=(2, CLASSES))
    labels: Any = sr.feature_list("int32", align="labels")


def rows() -> list[Row]:
    random = np.random.default_rng(5)

    def of(*shape: int) -> dict[str, Any]:
        numbers, shares = random.uniform(0.2, 2, shape), random.dirichlet([1.0] * CLASSES, shape)
        grids = random.uniform(0.2, 2, (*shape, 2, CLASSES))
        drawn = {"number": numbers, "flag": random.random(shape) < 0.5, "tag": random.integers(0, CLASSES, shape)}
        return {
            name: np.asarray(value, np.float32 if np.asarray(value).dtype == np.float64 else None)
            for name, value in {**drawn, "share": shares, "grid": grids}.items()
        }

    return [
        Row(
            **of(),
            **{f"{name}s": value for name, value in of(steps).items()},
            who=place + 1,
            whos=np.full(steps, place + 1),
            weight=WEIGHTS[place + 1],
            step_weights=np.arange(steps, dtype="float32") + 1,
            labels=random.integers(1, CLASSES, 1 + place % 2),
        )
        for place, steps in enumerate(LENGTHS)
    ]


ROWS = rows()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("losses") / "rows"
    sr.write(ROWS, path)
    return path


def logs(p: Any) -> Any:
    return np.log(np.clip(p, EPSILON, 1 - EPSILON))


def picked(y: Any, p: Any) -> Any:
    return np.take_along_axis(p, y[..., None].astype(int), -1)[..., 0]


def unit(values: Any) -> Any:
    return values / np.linalg.norm(values, axis=-1, keepdims=True)


def sign(y: Any) -> Any:
    return 2.0 * y - 1


def huber(error: Any) -> Any:
    return np.where(abs(error) <= 1, error**2 / 2, abs(error) - 0.5)


def focal(y: Any, p: Any) -> Any:
    return -((1 - (y * p + (1 - y) * (1 - p))) ** 2) * (y * logs(p) + (1 - y) * logs(1 - p))


# Each with the field it takes, and the loss of one value (or one vector).
LOSSES: dict[str, tuple[str, Any]] = {
    "MeanSquaredError": ("number", lambda y, p: (y - p) ** 2),
    "MeanAbsoluteError": ("number", lambda y, p: abs(y - p)),
    "MeanAbsolutePercentageError": ("number", lambda y, p: 100 * abs(y - p) / y),
    "MeanSquaredLogarithmicError": ("number", lambda y, p: (np.log1p(y) - np.log1p(p)) ** 2),
    "Huber": ("number", lambda y, p: huber(y - p)),
    "LogCosh": ("number", lambda y, p: np.log(np.cosh(y - p))),
    "Poisson": ("number", lambda y, p: p - y * np.log(p + EPSILON)),
    "BinaryCrossentropy": ("flag", lambda y, p: -(y * logs(p) + (1 - y) * logs(1 - p))),
    "BinaryFocalCrossentropy": ("flag", focal),
    "Hinge": ("flag", lambda y, p: np.maximum(1 - sign(y) * p, 0)),
    "SquaredHinge": ("flag", lambda y, p: np.maximum(1 - sign(y) * p, 0) ** 2),
    "CategoricalCrossentropy": ("share", lambda y, p: -(y * logs(p)).sum(-1)),
    "CategoricalFocalCrossentropy": ("share", lambda y, p: -(0.25 * (1 - p) ** 2 * y * logs(p)).sum(-1)),
    "CategoricalHinge": ("share", lambda y, p: np.maximum(((1 - y) * p).max(-1) - (y * p).sum(-1) + 1, 0)),
    "KLDivergence": ("share", lambda y, p: (y * np.log(y / p)).sum(-1)),
    "CosineSimilarity": ("share", lambda y, p: -(unit(y) * unit(p)).sum(-1)),
    "SparseCategoricalCrossentropy": ("tag", lambda y, p: -logs(picked(y, p))),
    "CategoricalGeneralizedCrossEntropy": ("tag", lambda y, p: (1 - picked(y, p) ** 0.5) / 0.5),
    "MeanSquaredError of grids": ("grid", lambda y, p: ((y - p) ** 2).mean(-1)),
}
REDUCTIONS = ("mean_with_sample_weight", "sum_over_batch_size", "sum")


def guesses(shape: Any, width: int) -> Any:
    """Return predictions for so many values: some between 0 and 1, vectors that add up to 1."""
    size = tf.cast(tf.reduce_prod(shape), tf.float32)
    values = 0.1 + 0.8 * tf.math.floormod(tf.sin(tf.range(size * width) * 12.9898) * 43758.5, 1.0)
    values = tf.reshape(values, tf.concat([shape, [width]], 0))
    return values if width == 1 else values / tf.reduce_sum(values, -1, keepdims=True)


# Strategy, the ending of the targets' names, and how many dimensions of records and steps these have.
TARGETS = {
    "steps": (sr.Pad(4), "s", 2),
    "one step more": (sr.Pad(4, length=5, drop_remainder=True), "s", 2),
    "padding on the left": (sr.Pad(4, padding_side="left"), "s", 2),
    "horizons": (sr.Window(1, shift=1, horizon=2, batch_size=5), "s_horizon", 2),
    "horizons of one step": (sr.Window(1, shift=1, horizon=1, batch_size=1), "s_horizon", 2),
    "segments": (sr.Unroll(3, 2), "s", 2),
    "packed steps": (sr.Pack(6, 2), "s", 2),
    "packed records": (sr.Pack(6, 2), "", 2),
    "records": (sr.Pad(4), "", 1),
    "records of slots": (sr.Unroll(3, 2), "", 1),
}
FIELDS = [field.name for field in sr.Schema.of(Row).fields if field.name != "labels"]


def losses(y: Any, w: Any, outer: int, reductions: tuple[str, ...]) -> Any:
    """Return by loss what a model could give for targets, and the loss of that by reduction."""
    made = {}
    for name, (kind, _) in LOSSES.items():
        dimensions = outer + (kind == "grid")
        width = 1 if kind in ("number", "flag") else CLASSES
        predicted = tf.ensure_shape(guesses(tf.shape(y[kind])[:dimensions], width), [None] * dimensions + [width])
        made[name] = (
            predicted,
            {
                reduction: getattr(keras.losses, name.split()[0])(reduction=reduction)(
                    y[kind], predicted, sample_weight=None if w is None else w[kind]
                )
                for reduction in reductions
            },
        )
    return made


CASES = [(case, weights) for weights in (None, "weight") for case in TARGETS]
AT_NIGHT = ("one step more", "horizons of one step", "records of slots")
SHORT = {("steps", None), ("records", None), *((case, "weight") for case in TARGETS if case not in AT_NIGHT)}


# What is traced has no static sizes, as in `fit`.
@pytest.mark.parametrize(
    ("case", "weights", "traced"),
    [
        *((*case, False) for case in CASES if case in SHORT),
        *(pytest.param(*case, True, marks=pytest.mark.nightly) for case in CASES),
    ],
)
def test_every_loss_is_that_of_the_records(data: Path, case: str, weights: str | None, *, traced: bool) -> None:
    """Of real values alone, each with the weight of its record, whatever the loss averages over."""
    strategy, ending, outer = TARGETS[case]
    targets = {kind: kind + ending for kind in ("who", *dict.fromkeys(kind for kind, _ in LOSSES.values()))}
    batches = sr.read(data, batch=strategy, fields=FIELDS, inputs="numbers", targets=targets, weights=weights)
    reductions = REDUCTIONS if traced else REDUCTIONS[:1]

    def of(y: Any, w: Any = None) -> Any:
        return losses(y, w, outer, reductions)

    if traced:
        of = tf.function(of, autograph=False, input_signature=batches.element_spec[1:])
    for _, y, *w in batches if traced else batches.take(2):
        who = y["who"].numpy()
        for name, (predicted, values) in of(y, *w).items():
            kind, function = LOSSES[name]
            truth, guess = (np.asarray(part, np.float64) for part in (y[kind], predicted))
            if kind in ("number", "flag"):
                truth, guess = truth.reshape(who.shape), guess[..., 0]
            with np.errstate(divide="ignore", invalid="ignore"):
                each = function(truth, guess)
            weight = (WEIGHTS if weights else WEIGHTS > 0)[who]
            weight = np.broadcast_to(weight if each.ndim == who.ndim else weight[..., None], each.shape)
            total = (np.where(weight > 0, each, 0) * weight).sum()
            sizes = {"sum": 1, "sum_over_batch_size": each.size, "mean_with_sample_weight": weight.sum()}
            for reduction, value in values.items():
                expected = total / sizes[reduction]
                np.testing.assert_allclose(value, expected, rtol=1e-3, atol=1e-6, err_msg=f"{name}, {reduction}")


def test_masks_of_layers_go_with_targets(data: Path) -> None:
    """Without weights, a loss over what a `Masking` layer lets through is that of the real steps."""
    [(_, y, w)] = sr.read(data, batch=sr.Pad(4), inputs="numbers", targets="numbers")
    [(_, same)] = sr.read(data, batch=sr.Pad(4), inputs="numbers", targets="numbers", weights=False)
    np.testing.assert_array_equal(y, same)
    predicted = keras.layers.Masking()(keras.ops.convert_to_tensor(y) * 3)
    real = w.numpy() > 0
    expected = (2 * y.numpy()[..., 0][real]) ** 2
    np.testing.assert_allclose(keras.losses.MeanSquaredError()(same, predicted), expected.mean(), rtol=1e-5)


def test_losses_of_whole_batches_take_no_weights(data: Path) -> None:
    """CTC, Dice, Tversky and Circle are of a whole sequence or batch: `weights=False`."""
    fields = {"batch": sr.Pad(4), "inputs": "numbers", "weights": False}
    [(_, labels)] = sr.read(data, targets="labels", **fields)
    guess = guesses([4, 5], CLASSES)
    each = [keras.losses.CTC()(row.labels[None], guess[place : place + 1]) for place, row in enumerate(ROWS)]
    np.testing.assert_allclose(keras.losses.CTC()(labels, guess), np.mean(each), rtol=1e-4)
    [(_, (share, tag))] = sr.read(data, targets=("share", "tag"), **fields)
    guess = guesses([4], CLASSES)
    both = (share * guess).numpy().sum()
    np.testing.assert_allclose(keras.losses.Dice()(share, guess), 1 - 2 * both / (4 + 4), rtol=1e-5)
    np.testing.assert_allclose(keras.losses.Tversky()(share, guess), 1 - both / 4, rtol=1e-5)
    circle = keras.losses.Circle()
    np.testing.assert_allclose(circle(tag, guess), circle(np.array([row.tag for row in ROWS]), guess))


GIVEN = ["step_weights", "weight", "mask"]
PADDED_OR_CUT = {"pad": sr.Pad(4), "unroll": sr.Unroll(4, 4)}


@pytest.mark.parametrize(
    ("given", "name"),
    all_at_night(
        itertools.product(GIVEN, PADDED_OR_CUT), [*((given, "pad") for given in GIVEN), ("step_weights", "unroll")]
    ),
)
def test_weights_of_steps_and_of_records_are_given_without_padding(data: Path, name: str, given: str) -> None:
    """What is given weighs real steps, as numbers of 32 bits; padding weighs 0, and so does the rest of the batch."""
    strategy = attrs.evolve(PADDED_OR_CUT[name], mask_name="mask")
    batches = sr.read(data, batch=strategy, fields=FIELDS, inputs="numbers", targets=("whos", "shares"), weights=given)
    for _, (whos, _), weights in batches:
        expected = (whos.numpy() > 0) * {
            "step_weights": np.arange(4) + 1,
            "weight": WEIGHTS[whos.numpy()],
            "mask": 1,
        }[given]
        for weight in weights:
            np.testing.assert_array_equal(weight, expected)
            assert weight.dtype == tf.float32


def test_each_target_has_the_weights_of_its_name(data: Path) -> None:
    """Weights are named as targets are: one for all, one for each in turn, or some by key."""
    fields = {"batch": sr.Pad(4), "inputs": "numbers"}
    [(_, _, weights)] = sr.read(data, targets=("numbers", "tag"), weights=("step_weights", "weight"), **fields)
    assert [weight.shape.rank for weight in weights] == [2, 1]
    targets = {"a": "numbers", "b": "numbers", "c": "grid"}
    [(_, _, weights)] = sr.read(data, targets=targets, weights={"b": "weight"}, **fields)
    assert {key: weight.shape.as_list() for key, weight in weights.items()} == {"a": [4, 4], "b": [4, 4], "c": [4, 2]}
    np.testing.assert_array_equal(weights["a"] > 0, weights["b"] > 0)
    assert not np.array_equal(weights["a"], weights["b"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": {"a": "weight"}}, "expected one name, or names as those of targets='numbers'"),
        ({"weights": ("weight", 3)}, "weights: expected a name, or names whose weights are multiplied"),
        ({"weights": ("weight",), "targets": ("tag", "numbers")}, "expected one name, or names as those of targets"),
        ({"weights": "step_weights", "targets": "tag"}, "expected weights, one for each record; got one per step"),
        ({"weights": "step_weights", "targets": "labels"}, "as many as the target, whose number is 'labels_length'"),
        ({"weights": "share"}, "expected one number for each record, got the shape"),
        ({"weights": "shares"}, "expected one number for each step, got the shape"),
        (
            {
                "weights": "step_weights",
                "targets": "numbers_horizon",
                "batch": sr.Window(2, horizon=1),
                "fields": FIELDS,
            },
            "whose number is 'horizon_length'; got one per step, number 'sequence_length'; name 'step_weights_horizon'",
        ),
    ],
    ids=str,
)
def test_weights_that_fit_no_loss_are_refused(data: Path, options: Any, message: str) -> None:
    """Keras would stretch them over something else, or fail with the shapes of an operation."""
    with pytest.raises(sr.OptionError, match=message):
        sr.read(data, **{"batch": sr.Pad(4), "inputs": "numbers", "targets": "numbers", **options})


def test_fit_takes_numbers_and_classes_of_steps(data: Path) -> None:
    """In `fit` with two outputs, losses and metrics run; integers get the axis that compares numbers by `map`."""
    x = keras.Input((None,))
    dense = keras.layers.Dense(CLASSES + 2)(keras.ops.expand_dims(x, -1))
    model = keras.Model(x, {"real": dense[..., :1], "class": dense[..., 1:-1], "count": dense[..., -1:]})
    classes = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", {"real": "mse", "class": classes, "count": "mae"}, weighted_metrics={"real": "mae"})
    targets = {"real": "numbers", "class": "tags", "count": "whos"}
    train = sr.read(data, batch=sr.Pad(2), inputs="numbers", targets=targets, weights="weight")
    train = train.map(lambda x, y, w: (x, {**y, "count": y["count"][..., None]}, w))
    history = model.fit(train, epochs=2, shuffle=False, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    assert history["loss"][1] < history["loss"][0]


STATIC = {
    "pad": sr.Pad(4, length=9, drop_remainder=True, mask_name="mask"),
    "window": sr.Window(3, batch_size=4, horizon=2, drop_remainder=True, mask_name="mask"),
    "unroll": sr.Unroll(4, 3, mask_name="mask"),
    "pack": sr.Pack(12, 4, drop_remainder=True, mask_name="mask"),
    "crop": sr.Crop(5, batch_size=4, drop_remainder=True, mask_name="mask"),
}
TRAINED = {
    **STATIC,
    "window": sr.Window(3, batch_size=4, drop_remainder=True),
    "bucket": sr.Bucket(4, boundaries=[5, 10], pad_to_bucket_boundary=True, drop_remainder=True),
}


@sr.record
class Reading:
    key: str = sr.context(str, key=True)
    weight: float = sr.context("float32")
    x: Any = sr.feature_list("float32", shape=(2,))
    y: Any = sr.feature_list("float32")
    label: Any = sr.feature_list("int32", storage="packed")
    text: Any = sr.feature_list(str)


@pytest.fixture(scope="module")
def readings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("readings") / "d"
    made = (Reading(f"k{n}", 1, np.ones((n, 2), "f4"), np.ones(n, "f4"), [1] * n, ["a"] * n) for n in range(1, 9))
    sr.write(made, path)
    return path


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.nightly if name in ("unroll", "crop") else ()) for name in STATIC]
)
def test_shapes_are_known_before(readings: Path, name: str) -> None:
    """With the options of the guide's table no field, weight, mask or target has an unknown dimension."""
    fit = {
        "inputs": ("x", "mask", "sequence_length"),
        "targets": ("y", "label"),
        "weights": "weight",
        "index_name": "i",
    }
    for options in ({}, fit):
        spec = sr.read(readings, batch=STATIC[name], **options).element_spec
        context = {"key", "weight"} if name == "pack" and not options else set()  # as many as a row has segments
        fields = {key: part for key, part in spec.items() if key not in context} if not options else spec
        assert all(part.shape.is_fully_defined() for part in tf.nest.flatten(fields)), spec


def test_xla_trains_where_shapes_are_known(readings: Path) -> None:
    """A model that XLA compiles trains on such batches."""
    model = keras.Sequential([keras.Input((9, 2)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=True)
    data = sr.read(readings, batch=STATIC["pad"], inputs="x", targets="y", shuffle=8, seed=0)
    assert np.isfinite(model.fit(data, shuffle=False, verbose=0).history["loss"]).all()


@pytest.mark.nightly
@pytest.mark.parametrize("case", TRAINED)
def test_xla_trains_on_what_has_few_shapes(tmp_path: Path, case: str) -> None:
    """Each strategy of the table in the guide, with a recurrent layer: the losses are those without XLA."""
    random = np.random.default_rng(0)
    values = [random.normal(size=(n, 2)).astype("f4") for n in random.integers(1, 10, 24)]
    records = [Reading(str(n), 1, x, [1] * len(x), [0] * len(x), ["a"] * len(x)) for n, x in enumerate(values)]
    sr.write(records, tmp_path / "d")
    strategy = TRAINED[case]
    names: dict[str, Any] = {"inputs": "x", "targets": "y"}
    if case == "unroll":
        names["inputs"] = {"x": "x", "reset": "reset"}

    def losses(*, jit_compile: bool) -> list[float]:
        keras.utils.set_random_seed(0)
        length = getattr(strategy, "length", None)
        x = keras.Input(batch_shape=(4, length, 2), name="x")
        reset = keras.Input(batch_shape=(4,), dtype="bool", name="reset")
        rnn = keras.layers.GRU(3, return_sequences=True)
        hidden = sr.keras.Unrolled(rnn)(x, reset=reset) if case == "unroll" else rnn(x)
        inputs = {"x": x, "reset": reset} if case == "unroll" else x
        model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
        model.compile("sgd", "mse", jit_compile=jit_compile)
        train = sr.read(tmp_path / "d", batch=strategy, shuffle=8, seed=0, epochs=None, **names)
        return list(model.fit(train, epochs=2, steps_per_epoch=4, shuffle=False, verbose=0).history["loss"])

    compiled = losses(jit_compile=True)
    np.testing.assert_allclose(compiled, losses(jit_compile=False), rtol=1e-4)
    assert compiled[1] != compiled[0]


@sr.record
class Judged:
    x: Any = sr.feature_list("float32", shape=(2,))
    group: int = sr.context("int64")
    verdict: str | None = sr.context(str, optional=True)
    failed: bool | None = sr.context(bool, optional=True)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("judged") / "data"
    one = np.ones((3, 2), np.float32)
    sr.write([Judged(one, 1, "yes", True), Judged(one * 2, 2, None, None), Judged(one * 3, 3, "no", False)], path)
    return path


EVERY = (
    None,
    sr.Pad(3),
    sr.Bucket(3),
    sr.Ragged(3),
    sr.Crop(2, batch_size=3),
    sr.Window(3, batch_size=3),
    sr.Unroll(3, 3),
)


@pytest.mark.parametrize(
    ("strategy", "target"),
    all_at_night(
        itertools.product(EVERY, ["failed", "verdict"]),
        [*((strategy, "failed") for strategy in (None, sr.Pad(3), sr.Ragged(3), EVERY[5])), (EVERY[1], "verdict")],
    ),
    ids=str,
)
def test_targets_that_are_none_weigh_nothing(judged: Path, strategy: Any, target: str) -> None:
    """The record of no verdict has weight 0, alone and multiplied by the weights of users and of classes."""
    words = {"verdict": sr.Vocabulary(["yes", "no"], padding=None, oov_buckets=0)}

    def weights(**options: Any) -> list[float]:
        options |= {"batch": strategy, "inputs": "x", "vocabulary": words if target == "verdict" else None}
        return [float(w) for *_, weight in sr.read(judged, targets=target, **options) for w in np.ravel(weight)]

    assert weights() == [1, 0, 1]
    assert weights(weights="group") == [1, 0, 3]
    assert weights(class_weight={0: 5.0}) == ([5, 0, 1] if target == "verdict" else [1, 0, 5])


def test_two_targets_of_which_one_may_be_none(judged: Path) -> None:
    """Each target has its own weights, and in packed rows so has each record."""
    [(_, _, weights)] = sr.read(judged, batch=sr.Pad(3), inputs="x", targets=("group", "failed"))
    assert [weight.numpy().tolist() for weight in weights] == [[1, 1, 1], [1, 0, 1]]
    [(_, _, weight)] = sr.read(judged, batch=sr.Pack(9, 1), inputs=("x", "segment_ids"), targets="failed")
    assert weight.numpy().tolist() == [[1, 0, 1]]


def test_inputs_are_not_normalized_by_a_target(judged: Path) -> None:
    """Means by class would hide the classes; by another field they are as welcome as for other targets."""
    by_class = sr.stats(judged, by="group")
    with pytest.raises(sr.OptionError, match="normalize: statistics by 'group', a target"):
        sr.read(judged, batch=sr.Pad(3), inputs="x", targets="group", normalize=by_class)
    assert len(list(sr.read(judged, batch=sr.Pad(3), inputs="x", targets="failed", normalize=by_class))) == 1


@sr.record
class Tagged:
    x: np.ndarray = sr.feature_list("float32", shape=(2,))
    tags: np.ndarray | None = sr.feature_list("int64", optional=True, default=None)


WITH_NONE: dict[str, tuple[Any, Any]] = {
    "pad": (sr.Pad(3), "tags"),
    "next step": (sr.Pad(3), sr.next_step("tags")),
    "bucket": (sr.Bucket(3, boundaries=[3]), "tags"),
    "token budget": (sr.TokenBudget(12), "tags"),
    "pack": (sr.Pack(16, 1), "tags"),
    "crop": (sr.Crop(8, batch_size=3), "tags"),
    "window": (sr.Window(2, batch_size=3), "tags"),
    "horizon": (sr.Window(1, horizon=2, shift=2, batch_size=3), "tags_horizon"),
    "unroll": (sr.Unroll(3, 2), "tags"),
}


@pytest.mark.parametrize("name", WITH_NONE)
def test_a_list_that_is_none_weighs_nothing(tmp_path: Path, name: str) -> None:
    """The zeros that stand for a target list that is None have weight 0, and real values, none of them 0, weigh 1."""
    lengths = [4, 2, 3, 5, 1, 3]
    rows = [Tagged(np.ones((n, 2)), None if at in (1, 3) else np.arange(1, n + 1)) for at, n in enumerate(lengths)]
    sr.write(rows, tmp_path / "data", shards=1)
    strategy, target = WITH_NONE[name]
    batches = list(sr.read(tmp_path / "data", batch=strategy, inputs="x", targets=target))
    assert any((y > 0).numpy().any() for _, y, _ in batches)
    for _, y, weights in batches:
        np.testing.assert_array_equal(weights, y.numpy() > 0)


def test_a_list_that_is_none_has_no_steps_in_ragged_batches(tmp_path: Path) -> None:
    """A ragged target needs no weights for a list that is None."""
    sr.write([Tagged(np.ones((2, 2)), [3, 4]), Tagged(np.ones((3, 2)))], tmp_path / "data")
    [(_, y)] = sr.read(tmp_path / "data", batch=sr.Ragged(2), inputs="x", targets="tags")
    assert y.to_list() == [[3, 4], []]
