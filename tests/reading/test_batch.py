"""`batch` against `read` of the same records in the same order."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from combinations import all_at_night
from slow_records import Trace, as_numpy, assert_resumes_exactly, assert_same, written

import seqrecorder as sr
from seqrecorder.reading.batch import schema_of

LENGTHS = [5, 0, 12, 1, 3, 4, 9, 0, 2, 7, 8, 1, 30, 6]
STRATEGIES = {
    "Pad": sr.Pad(4, length=8, too_long="cut_start", mask_name="mask", drop_remainder=True),
    "pad": sr.Pad(4, empty="drop", padding_values={"word": "-"}),
    "Bucket": sr.Bucket(3, buckets=3, pad_to_bucket_boundary=True),
    "boundaries": sr.Bucket(3, boundaries=[4, 8]),
    "sorted": sr.Bucket(3, boundaries="sorted"),
    "TokenBudget": sr.TokenBudget(30, too_long="drop"),
    "Ragged": sr.Ragged(4),
    "flat": sr.Ragged(4, flat=True),
    "Crop": sr.Crop(4, batch_size=3),
    "Window": sr.Window(3, shift=2, horizon=1, batch_size=5),
    "jitter": sr.Window(3, shift=2, jitter=2, max_windows=2, batch_size=5),
    "Unroll": sr.Unroll(3, 4),
    "Pack": sr.Pack(30, 2),
    "split": sr.Pack(12, 2, too_long="split"),
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(LENGTHS, tmp_path_factory.mktemp("batch") / "traces", shards=1)


def plain(batch):
    return {
        name: np.asarray(value.flat_values) if isinstance(value, tf.RaggedTensor) else value
        for name, value in batch.items()
    }


@pytest.mark.parametrize(
    ("case", "shuffle"),
    all_at_night(
        [(case, shuffle) for case in STRATEGIES for shuffle in (0, 10)],
        [("Window", 0), ("Pack", 0), ("TokenBudget", 10)],
    ),
)
def test_batches_are_those_of_read(corpus: Path, case: str, shuffle: int) -> None:
    """Every tensor of every batch, for the order of the elements and for that of a seed.

    `sorted` has one bucket where no lengths are stored, as in bare shards.
    """
    options = {"shuffle": shuffle, "seed": 3}
    source = {"path": next(corpus.rglob("*.tfrecord")), "schema": Trace} if case == "sorted" else {"path": corpus}
    expected = [as_numpy(plain(batch)) for batch in sr.read(**source, batch=STRATEGIES[case], **options)]
    made = sr.batch(sr.read(corpus), STRATEGIES[case], length="x", **options)
    assert_same(map(plain, made), expected)


@sr.record
class Sides:
    label: int = sr.context("int32")
    ids: np.ndarray = sr.feature_list("int64")
    other: np.ndarray = sr.feature_list("int64", align="other")


OF_SEVERAL = {"Groups": sr.Groups(by="label", groups=2, each=3), "sides": sr.Pack({"ids": 20, "other": 10}, 3)}


@pytest.mark.parametrize(
    ("case", "shuffle"),
    all_at_night([(case, shuffle) for case in OF_SEVERAL for shuffle in (0, 10)], [("Groups", 10), ("sides", 0)]),
)
def test_groups_and_packed_sides_are_those_of_read(tmp_path: Path, case: str, shuffle: int) -> None:
    """Groups of a field, and rows of several lengths, are those that `read` gives of the same records."""
    sr.write((Sides(n % 3, range(n % 9 + 1), range(n % 4)) for n in range(60)), tmp_path / "sides")
    options = {"shuffle": shuffle, "seed": 3}
    expected = [as_numpy(batch) for batch in sr.read(tmp_path / "sides", batch=OF_SEVERAL[case], **options)]
    assert len(expected) > 4
    assert_same(sr.batch(sr.read(tmp_path / "sides"), OF_SEVERAL[case], length=("ids", "other"), **options), expected)


def test_what_was_mapped_and_filtered_trains(corpus: Path) -> None:
    """Inputs, targets and weights are those of `read`, the next step and padding among them."""
    options = {"inputs": "x", "targets": sr.next_step("flag"), "weights": "weight"}
    elements = sr.read(corpus).filter(lambda element: tf.size(element["flag"]) > 2)
    elements = elements.map(lambda element: {**element, "x": -element["x"]})
    made = list(sr.batch(elements, sr.Bucket(3, boundaries=[6]), **options).as_numpy_iterator())
    expected = list(sr.read(corpus, batch=sr.Bucket(3, boundaries=[6]), min_length=3, **options).as_numpy_iterator())
    assert len(made) == len(expected)
    for (x, y, weights), (other, target, of_target) in zip(made, expected, strict=True):
        np.testing.assert_array_equal(x, -other)
        np.testing.assert_array_equal(y, target)
        np.testing.assert_array_equal(weights, of_target)


DTYPES = [*map(np.dtype, ("int8", "uint32", "uint64", "float16", "complex64"))]


def test_every_bit_of_every_dtype_is_kept() -> None:
    """NaN payloads and extremes too, in sequences, scalars and shapes; of text its bytes."""
    bits = np.random.default_rng(0).bytes(16 * 6)
    values = {dtype.name: np.frombuffer(bits, dtype)[:6] for dtype in [*DTYPES, np.dtype(ml_dtypes.bfloat16)]}
    values["text"] = np.array([b"", b"\0\xff", b"x" * 300, b"a", b"b", b"c"], object)
    elements = tf.data.Dataset.range(1, 7).map(
        lambda size: {
            **{name: tf.constant(value)[:size] for name, value in values.items()},
            **{f"{name} of all": tf.reshape(tf.constant(value), [3, 2]) for name, value in values.items()},
        }
    )
    batches = list(sr.batch(elements, sr.Pad(6), length="int8"))
    assert len(batches) == 1
    for name, value in values.items():
        for size, row in enumerate(batches[0][name].numpy(), 1):
            assert row.dtype == value.dtype
            assert row[:size].tobytes() == value[:size].tobytes() or row[:size].tolist() == value[:size].tolist()
        assert batches[0][f"{name} of all"].shape == (6, 3, 2)


def test_fields_are_mapped_masked_and_weighted() -> None:
    """Tokens become ids, for targets too; missing values are masked, and classes weighted, as `read` does."""
    lines = tf.data.Dataset.from_tensor_slices((["a b", "c a d"], [[1.0, np.nan], [np.nan, 2.0]], [0, 3]))
    elements = lines.map(lambda line, x, label: {"words": tf.strings.split(line), "x": x, "label": label})
    options = {"length": "words", "inputs": ("words", "x", "x_observed"), "targets": {"a": "words", "b": "label"}}
    (batch,) = sr.batch(
        elements,
        sr.Pad(2),
        vocabulary={"words": sr.Vocabulary(["a", "b", "c"])},
        missing={"x": "mask"},
        class_weight={"b": {3: 5.0}},
        **options,
    )
    (words, x, observed), y, weights = batch
    np.testing.assert_array_equal(y["a"], words)
    assert len(set(words.numpy().ravel())) == 5  # three tokens, one unknown, padding
    np.testing.assert_array_equal(x, [[1, 0], [0, 2]])
    np.testing.assert_array_equal(observed, [[1, 0], [0, 1]])
    np.testing.assert_array_equal(weights["a"], [[1, 1, 0], [1, 1, 1]])
    np.testing.assert_array_equal(np.ravel(weights["b"]), [1, 5])


def test_two_lengths_count_together() -> None:
    """Of several sequences that `length` names the longest counts; others are as long as the first."""
    sizes = np.random.default_rng(1).integers(0, 20, (40, 2))
    elements = tf.data.Dataset.from_tensor_slices(sizes).map(
        lambda pair: {"target": tf.range(pair[1]), "source": tf.range(pair[0]), "tags": tf.range(pair[0])}
    )
    made = sr.batch(elements, sr.TokenBudget(60), length=("source", "target"))
    batches = [as_numpy(batch) for batch in made]
    assert sum(len(batch["source"]) for batch in batches) == 40
    assert max(max(batch["source"].size, batch["target"].size) for batch in batches) <= 60
    lengths = [
        pair for b in batches for pair in zip(b["sequence_length"].tolist(), b["target_length"].tolist(), strict=True)
    ]
    assert sorted(lengths) == sorted(map(tuple, sizes.tolist()))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"'target.*frees a field, length=\(\.\.\.\) in sr.batch"):
        list(sr.batch(elements, sr.Pad(4), length="source"))
    for strategy, advice in (
        (sr.Window(4), r"and cannot be cut; drop it in `.map\(\)` first$"),
        (sr.Pack(60, too_long="split"), r"or keep the lists of one, by fields= or by `.map\(\)` before batch$"),
    ):
        with pytest.raises(sr.OptionError, match=advice):
            sr.batch(elements, strategy, length=("source", "target"))


@pytest.mark.parametrize(
    "strategy", [sr.Pad(2), sr.Pad(2, length_name="n"), pytest.param(sr.Pack(40), marks=pytest.mark.nightly)], ids=str
)
def test_a_name_that_batches_use_is_left_to_map(corpus: Path, strategy) -> None:
    """Elements with the lengths of earlier batches are refused, with what `batch` lets one do; that works."""
    elements = sr.read(corpus, batch=sr.Pad(2)).unbatch().filter(lambda each: each["sequence_length"] > 0)
    with pytest.raises(sr.OptionError, match=r"elements have a field 'seq.*: drop or rename it in `.map\(\)` first$"):
        sr.batch(elements, strategy, length="x")
    renamed = elements.map(lambda each: {"steps": each["sequence_length"], "x": each["x"]})
    assert "steps" in sr.batch(renamed, strategy, length="x").element_spec
    with pytest.raises(sr.OptionError, match="elements have an option that names 'reset', as Unroll .*: rename it$"):
        sr.batch(renamed, sr.Unroll(2, 2, length_name="reset"), length="x")


def test_sequences_of_known_length_are_cut() -> None:
    """A sequence that `length` names, and what is as long, is one even where its first dimension is known."""
    elements = tf.data.Dataset.range(2).map(
        lambda n: {"x": tf.range(10), "y": tf.fill([10, 2], n), "place": tf.fill([3], n)}
    )
    (batch,) = sr.batch(elements, sr.Window(4, batch_size=10), length="x").as_numpy_iterator()
    assert (batch["x"].shape, batch["y"].shape, batch["place"].shape) == ((6, 4), (6, 4, 2), (6, 3))


@pytest.mark.parametrize(
    ("case", "shuffle"), all_at_night([("boundaries", 0), ("boundaries", 4), ("jitter", 4)], [("boundaries", 4)])
)
def test_resumes_exactly(tmp_path: Path, case: str, shuffle: int, stride: int) -> None:
    """Where the dataset can be saved, what is made of it can."""
    path = written([5, 0, 9, 1, 4, 7], tmp_path / "traces")
    options = {"length": "x", "shuffle": shuffle, "seed": 1}
    elements = lambda: sr.read(path, fields=["key", "x"])  # noqa: E731
    assert_resumes_exactly(lambda: sr.batch(elements(), STRATEGIES[case], **options), tmp_path, stride)


def elements_of(**tensors):
    return tf.data.Dataset.from_tensors(tensors)


@pytest.mark.parametrize(
    ("dataset", "options", "message"),
    [
        ([1, 2], {}, "expected a tf.data.Dataset, got list"),
        (tf.data.Dataset.range(3), {}, "dictionaries"),
        (elements_of(x=tf.ragged.constant([[1], [2, 3]])), {}, "'x': expected a dense tensor"),
        (elements_of(x=tf.sparse.from_dense([1, 0])), {}, "'x': expected a dense tensor"),
        (elements_of(x={"y": [1]}), {}, "'x': expected a dense tensor"),
        (elements_of(x=[1, 2]), {"length": "z"}, "length: 'z' is no sequence of the elements; these are x"),
        (elements_of(x=1), {"length": "x"}, "'x' is no sequence"),
        (elements_of(x=[1]), {"length": 3}, "length: expected the name"),
        (elements_of(x=[1]), {"length": ("x", "x")}, "each name once"),
        (elements_of(x=[1]), {"strategy": 4}, "expected Pad"),
        (elements_of(x=[1]), {"shuffle": -1}, "shuffle"),
        (elements_of(x=[1]), {"seed": "a"}, "seed: expected an int"),
        (elements_of(x=[1]), {"strategy": sr.Bucket(2)}, "no feature list"),
        (elements_of(x=[1]).repeat(), {"strategy": sr.TokenBudget(9), "length": "x"}, "end.*, or choose Bucket with"),
    ],
)
def test_what_cannot_be_batched_is_refused(dataset, options, message) -> None:
    """Each with an error that says what to do."""
    with pytest.raises(sr.OptionError, match=message):
        sr.batch(dataset, **{"strategy": sr.Pad(2), **options})


@pytest.mark.parametrize("shape", [None, [None, None]])
def test_unknown_dimensions_are_refused(shape) -> None:
    """All but the first must be known."""
    spec = {"x": tf.TensorSpec(shape, tf.int32)}
    with pytest.raises(sr.OptionError, match="at most the first dimension is unknown"):
        schema_of(spec, ())


def test_rows_of_ragged_tensors_are_taken() -> None:
    """Elements of a dataset made of a ragged tensor are the dense tensors that an identity `map` makes of them."""
    texts = tf.data.Dataset.from_tensor_slices({"ids": tf.ragged.constant([[1, 2, 3], [4]])})
    [batch] = sr.batch(texts, sr.Pad(2), length="ids")
    assert batch["ids"].numpy().tolist() == [[1, 2, 3], [4, 0, 0]]
