"""Ids and normalised numbers in what `read` gives: those that mapping the elements afterwards would give."""

import numpy as np
import pytest
import tensorflow as tf
from combinations import all_at_night

import seqrecorder as sr
from seqrecorder.errors import OptionError, SchemaError


@sr.record
class Sentence:
    label: str = sr.context(str)
    words: list = sr.feature_list(str)
    frames: np.ndarray = sr.feature_list("float32", shape=(2,))
    level: np.ndarray = sr.feature_list("float64")
    packed: np.ndarray = sr.feature_list("int16", storage="packed")
    speaker: str | None = sr.context(str, optional=True, default=None)
    late: str = sr.context(str, default="b")


@pytest.fixture(scope="module")
def sentences():
    rng = np.random.default_rng(0)

    def sentence(number):
        size = int(rng.integers(1, 9))
        words = [f"w{word}" for word in rng.integers(0, 12, size)]
        frames = rng.normal(5, 2, (size, 2)).astype("f4")
        speaker = None if number % 3 else "a"
        return Sentence("ab"[number % 2], words, frames, rng.normal(3, 1, size), rng.integers(0, 4, size), speaker)

    return [sentence(number) for number in range(30)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory, sentences):
    path = tmp_path_factory.mktemp("maps") / "corpus"
    sr.write({"train": sentences[:20], "eval": sentences[20:]}, path)
    return path


@pytest.fixture(scope="module")
def vocabulary(corpus):
    labels = sr.Vocabulary(["a", "b"], padding=None, oov_buckets=0)
    words = sr.Vocabulary.build(corpus, "words", max_size=9, oov_buckets=2)
    return {"label": labels, "words": words, "speaker": labels, "late": labels, "packed": sr.Vocabulary([3, 2, 1, 0])}


@pytest.fixture(scope="module")
def stats(corpus):
    return sr.stats(corpus)


def expected(records, vocabulary, stats, name):
    """Return what elements hold of a field, record by record."""
    values = [getattr(record, name) for record in records]
    if name in vocabulary:
        return [0 if value is None else vocabulary[name].encode(value) for value in values]
    return [stats[name].normalize(value) for value in values]


@pytest.mark.parametrize(
    "batch",
    [
        *(None, sr.Ragged(4)),
        *(pytest.param(batch, marks=pytest.mark.nightly) for batch in (sr.Pad(4), sr.Bucket(4, buckets=2))),
    ],
    ids=["one", "ragged", "pad", "bucket"],
)
def test_elements_hold_ids_and_normalised_numbers(corpus, sentences, vocabulary, stats, batch):
    """Every field has what numpy makes of its stored values, and padding is 0, whatever the strategy."""
    dataset = sr.read(corpus, "train", batch=batch, vocabulary=vocabulary, normalize=stats, index_name="index")
    count = 0
    for element in dataset.as_numpy_iterator() if batch is None else dataset:
        rows = [element] if batch is None else list(range(int(element["index"].shape[0])))
        for row in rows:
            one = element if batch is None else {name: value[row].numpy() for name, value in element.items()}
            record = sentences[int(one["index"])]
            for name in ("label", "words", "speaker", "late", "packed", "frames", "level"):
                (wanted,) = expected([record], vocabulary, stats, name)
                got, size = np.asarray(one[name]), np.shape(wanted)[0] if np.ndim(wanted) else None
                np.testing.assert_allclose(got[:size] if np.ndim(wanted) else got, wanted, rtol=1e-5, atol=1e-5)
                assert size is None or not np.any(got[size:])
            count += 1
    assert count == 20


def test_dtypes_are_known_before_the_first_element(corpus, vocabulary, stats):
    """Ids are int64; normalised numbers keep the width of theirs."""
    spec = sr.read(corpus, "train", batch=sr.Pad(4), vocabulary=vocabulary, normalize=stats).element_spec
    assert {name: spec[name].dtype.name for name in ("words", "frames", "level", "label")} == {
        "words": "int64", "frames": "float32", "level": "float64", "label": "int64",
    }  # fmt: skip


def test_ids_are_inputs_and_targets(corpus, vocabulary, stats):
    """Text becomes a target once it has ids; targets and weights are not normalised, inputs are."""
    dataset = sr.read(corpus, "train", batch=sr.Pad(20), vocabulary=vocabulary, normalize=stats,
                      inputs={"words": "words", "frames": "frames"}, targets=("label", "level"))  # fmt: skip
    inputs, (label, level), _ = next(iter(dataset))
    assert inputs["words"].dtype == tf.int64
    assert label.numpy().tolist() == [0, 1] * 10
    assert abs(float(tf.reduce_mean(inputs["frames"]))) < 0.5
    assert float(tf.reduce_max(level)) > 4


def test_other_strategies_give_the_same_ids(corpus, vocabulary):
    """Windows, segments and packed rows are made of ids as of anything else."""
    options = {"vocabulary": {"words": vocabulary["words"]}, "fields": ["words"]}
    for batch in (sr.Window(2, shift=2, batch_size=8), sr.Pack(12, 4)):
        given = [element["words"].numpy() for element in sr.read(corpus, "train", batch=batch, **options)]
        plain = [element["words"].numpy() for element in sr.read(corpus, "train", batch=batch, fields=["words"])]
        for ids, words in zip(given, plain, strict=True):
            texts = np.vectorize(bytes.decode, otypes=[object])(words)
            assert np.array_equal(ids, vocabulary["words"].encode(texts))


def test_iterators_with_ids_can_be_resumed(corpus, vocabulary, tmp_path):
    """Nothing in the pipeline is beyond a checkpoint."""
    dataset = sr.read(corpus, "train", batch=sr.Pad(4), shuffle=20, seed=0, vocabulary=vocabulary)
    iterator = iter(dataset)
    next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
    rest = [batch["words"].numpy() for batch in iterator]
    other = iter(dataset)
    tf.train.Checkpoint(iterator=other).read(path)
    for left, right in zip(rest, other, strict=True):
        assert np.array_equal(left, right["words"].numpy())


def test_unknown_labels_are_an_error_that_names_them(corpus):
    """Without a bucket for unknown tokens the field, and what was found, are named."""
    few = sr.Vocabulary(["a"], padding=None, oov_buckets=0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="label.*unknown tokens.*oov_buckets=0.*b"):
        list(sr.read(corpus, "train", batch=sr.Pad(4), vocabulary={"label": few}))


def test_padding_values_are_those_of_what_is_read(corpus, vocabulary, stats):
    """An id pads ids and no word does; a float pads whole numbers that are normalized."""
    options = {"vocabulary": {"words": vocabulary["words"]}, "normalize": {"packed": stats["packed"]}}
    pad = sr.Pad(20, padding_values={"words": -1, "packed": 0.5})
    [batch] = sr.read(corpus, "train", batch=pad, fields=["words", "packed"], **options)
    beyond = ~tf.sequence_mask(batch["sequence_length"]).numpy()
    assert set(batch["words"].numpy()[beyond]) == {-1}
    assert set(batch["packed"].numpy()[beyond]) == {0.5}
    with pytest.raises(OptionError, match="padding_values: field 'words': expected int64, got str 'w1'"):
        sr.read(corpus, "train", batch=sr.Pad(20, padding_values={"words": "w1"}), **options)


def test_what_does_not_fit_is_refused(corpus, vocabulary, stats):
    """Before the first record: other things than vocabularies and statistics, fields twice or of another kind."""
    for options, message in (
        ({"vocabulary": vocabulary["words"]}, "mapping of field to vocabularies"),
        ({"vocabulary": {"words": ["a"]}}, "mapping of field to vocabularies"),
        ({"vocabulary": {"frames": vocabulary["words"]}}, "expected one of float32"),
        ({"vocabulary": {"words": sr.Vocabulary(["a"], pieces=list)}}, "store the pieces"),
        ({"normalize": {"words": stats["words"]}}, "expected numbers and their statistics"),
        (
            {"normalize": {"level": stats["frames"]}},
            r"got field 'level' of float64, shape \(\) and those of field 'frames' of float32, shape \(2,\)",
        ),
        ({"normalize": 3}, "mapping of field to statistics"),
        ({"normalize": stats, "fields": ["packed"]}, "expected statistics of a field that is read, of packed"),
        ({"normalize": stats, "inputs": "packed", "targets": "level"}, "normalize={'sound': stats"),
        ({"normalize": {"level": stats["level"]}, "inputs": "words", "targets": "level"}, "normalize_targets=True"),
        ({"normalize_targets": True}, "goes with normalize"),
        ({"vocabulary": {"packed": vocabulary["packed"]}, "normalize": {"packed": stats["packed"]}}, "already"),
    ):
        with pytest.raises(OptionError, match=message):
            sr.read(corpus, "train", **options)
    with pytest.raises(SchemaError, match="no field"):
        sr.read(corpus, "train", vocabulary={"word": vocabulary["words"]})


def test_what_is_derived_is_made_of_ids_and_normalised_numbers(corpus, sentences, vocabulary, stats):
    """The next step of a token is an id, and what is missing becomes the mean."""
    inputs = {"words": "words", "level": "level", "observed": "level_observed"}
    dataset = sr.read(corpus, "train", batch=sr.Pad(20), vocabulary={"words": vocabulary["words"]}, normalize=stats,
                      inputs=inputs, targets=sr.next_step("words"), missing={"level": "mask"})  # fmt: skip
    x, y, weights = next(iter(dataset))
    ids = x["words"].numpy()
    assert y.dtype == tf.int64
    assert np.array_equal(y.numpy()[:, :-1], ids[:, 1:])
    assert np.array_equal(weights.numpy().sum(1), [len(sentence.words) - 1 for sentence in sentences[:20]])
    assert abs(float(tf.reduce_sum(x["level"])) / float(tf.reduce_sum(x["observed"]))) < 1e-6


TARGETS = {"field": "level", "horizon": "level_horizon", "next": sr.next_step("level"), "masked": "level"}


@pytest.mark.parametrize(
    ("kind", "as_input"),
    all_at_night(
        [(kind, as_input) for kind in TARGETS for as_input in (True, False)],
        [("field", False), ("horizon", True), ("next", False), ("masked", True)],
    ),
)
def test_targets_are_as_stored_unless_asked_for(corpus, stats, kind, as_input):
    """The field, its horizon and its next step follow one rule, and inputs are normalized beside them."""
    batch = sr.Window(3, horizon=2, tail="drop") if kind == "horizon" else sr.Pad(20)
    options = {"batch": batch, "inputs": ("frames", "level") if as_input else "frames", "targets": TARGETS[kind]}
    options |= {"missing": {"level": "mask"}} if kind == "masked" else {}
    x, plain, weights = next(iter(sr.read(corpus, "train", **options)))
    for scaled in (False, True):
        inputs, y, same = next(iter(sr.read(corpus, "train", normalize=stats, normalize_targets=scaled, **options)))
        mask, real = weights.numpy() > 0, plain.numpy()
        np.testing.assert_array_equal(same, weights)
        expected = stats["level"].normalize(real) if scaled else real
        np.testing.assert_allclose(y.numpy()[mask], expected[mask], rtol=1e-6)
        pairs = zip(inputs, x, strict=True) if as_input else [(inputs, x)]
        for name, (got, stored) in zip(("frames", "level"), pairs, strict=False):
            steps = np.arange(stored.shape[1]) < 1  # the first step of each record is none of padding
            wanted = stats[name].normalize(stored.numpy()[:, steps])
            np.testing.assert_allclose(got.numpy()[:, steps], wanted, rtol=1e-4, atol=1e-5)


def test_weights_are_as_stored_and_whole_numbers_are_normalized_by_name(tmp_path):
    """A field that is input, target and weight at once has each in its own unit; missing values weigh nothing."""

    @sr.record
    class Series:
        price: np.ndarray = sr.feature_list("float32")
        sound: np.ndarray = sr.feature_list("int16")

    prices = np.array([100, np.nan, 130], "f4")
    sr.write([Series(prices, [1, 2, 6])], tmp_path / "d")
    stats = sr.stats(tmp_path / "d")
    scales = {name: stats[name] for name in ("price", "sound")}
    options = {"targets": {"a": "price", "b": "sound"}, "weights": {"a": ("price", sr.next_step("sound")), "b": None}}
    inputs = {"x": "price", "s": "sound", "before": sr.previous_step("price")}
    read = sr.read(
        tmp_path / "d", batch=sr.Pad(1), normalize=scales, missing={"price": "mask"}, inputs=inputs, **options
    )
    [(x, y, weights)] = read
    np.testing.assert_allclose(x["x"], [[-1, 0, 1]], rtol=1e-5)
    np.testing.assert_allclose(x["before"], [[0, -1, 0]], rtol=1e-5)
    np.testing.assert_allclose(x["s"][0], stats["sound"].normalize(np.array([1, 2, 6])), rtol=1e-5)
    np.testing.assert_array_equal(y["a"][..., 0], [[100, 0, 130]])
    np.testing.assert_array_equal(y["b"], [[1, 2, 6]])
    np.testing.assert_array_equal(weights["a"], [[200, 0, 0]])
    np.testing.assert_array_equal(weights["b"], [[1, 1, 1]])


def test_sparse_fields_keep_their_values(tmp_path):
    """Statistics of a dataset normalize its dense floats; a sparse vector, in which 0 means absent, stays as stored."""

    @sr.record
    class Tagged:
        level: np.ndarray = sr.feature_list("float32")
        tags: sr.SparseVector = sr.context("float32", sparse=4, dense=True)

    sr.write([Tagged([1, 3], {0: 1.0}), Tagged([2, 6], {1: 1.0, 3: 1.0})], tmp_path / "d", shards=1)
    [batch] = sr.read(tmp_path / "d", batch=2, normalize=sr.stats(tmp_path / "d"))
    assert batch["tags"].numpy().tolist() == [[1, 0, 0, 0], [0, 1, 0, 1]]
    np.testing.assert_allclose(batch["level"].numpy().mean(), 0, atol=1e-6)


def test_normalize_uses_exactly_the_statistics_that_are_shown(corpus, sentences):
    """`stats[...]` is of train, `stats.all[...]` of everything, and what each shows is what `read` does and undoes."""
    stats = sr.stats(corpus)
    level = {"train": sentences[:20], "eval": sentences[20:], "all": sentences}
    level = {name: np.concatenate([record.level for record in records]) for name, records in level.items()}
    shown = {"train": stats["level"], "eval": stats.splits["eval"]["level"], "all": stats.all["level"]}
    for name, figures in shown.items():
        np.testing.assert_allclose([figures.mean, figures.std], [level[name].mean(), level[name].std()])
        [batch] = sr.read(corpus, "eval", batch=sr.Pad(10), normalize={"level": figures}, missing={"level": "mask"})
        real = batch["level_observed"].numpy() > 0
        np.testing.assert_allclose(batch["level"].numpy()[real], (level["eval"] - figures.mean) / figures.std)
        np.testing.assert_allclose(figures.denormalize(batch["level"])[real], level["eval"])


def test_the_statistics_of_a_selection_over_splits_normalize_by_all_of_it(corpus, sentences):
    """`normalize=sr.stats(selection)` divides by the deviation of all its records, not of those from train alone."""
    chosen = sr.open(corpus).all()[10:]
    level = np.concatenate([record.level for record in sentences[10:]])
    [batch] = sr.read(chosen, batch=sr.Pad(20), normalize=sr.stats(chosen), missing={"level": "mask"})
    scaled = batch["level"].numpy()[batch["level_observed"].numpy() > 0]
    np.testing.assert_allclose(scaled, (level - level.mean()) / level.std())


def test_each_group_is_normalized_by_its_own_statistics(corpus, sentences) -> None:
    """Steps, horizons and next steps have the scale of their record, also where the field of groups is not read."""
    stats = sr.stats(corpus, by="label")
    train = {value: [each for each in sentences[:20] if each.label == value] for value in "ab"}
    scales = {
        value: (np.concatenate([r.level for r in of]), np.concatenate([r.frames for r in of]))
        for value, of in train.items()
    }
    for options in ({"fields": ["level", "frames"]}, {"vocabulary": {"label": sr.Vocabulary(["a", "b"])}}):
        batches = sr.read(corpus, "eval", batch=sr.Pad(4), normalize=stats, **options)
        rows = [
            row for batch in batches.as_numpy_iterator() for row in zip(batch["level"], batch["frames"], strict=True)
        ]
        assert ("label" in batches.element_spec) == ("vocabulary" in options)
        for record, (level, frames) in zip(sentences[20:], rows, strict=True):
            for got, own, of in (
                (level, record.level, scales[record.label][0]),
                (frames, record.frames, scales[record.label][1]),
            ):
                np.testing.assert_allclose(got[: len(own)], (own - of.mean(0)) / of.std(0), rtol=1e-4, atol=1e-5)
                back = stats.splits["train"].by[record.label]["level" if own.ndim == 1 else "frames"].denormalize(got)
                np.testing.assert_allclose(back[: len(own)], own, rtol=1e-4, atol=1e-4)
    window = sr.Window(2, horizon=1, shift=1)
    more = {"targets": "level_horizon", "normalize": stats, "normalize_targets": True}
    scaled, plain = (
        list(sr.read(corpus, "eval", batch=window, inputs=("label", "level"), **each).as_numpy_iterator())
        for each in (more, {"targets": "level_horizon"})
    )
    for mine, other in zip(scaled, plain, strict=True):
        for key, got, value in zip(mine[0][0], mine[1][:, 0, 0], other[1][:, 0, 0], strict=True):
            of = scales[key.decode()][0]
            assert got == pytest.approx((value - of.mean()) / of.std(), abs=1e-5)
    with pytest.raises(OptionError, match="records may have no 'speaker'"):
        sr.read(corpus, "eval", normalize=sr.stats(corpus, by="speaker"))


def test_each_field_has_statistics_by_its_own_groups(corpus, sentences) -> None:
    """A mapping gives one field the scale of its group, whole numbers too, another that of other groups, or of all."""
    by_label, by_late, whole = sr.stats(corpus, by="label"), sr.stats(corpus, by="late"), sr.stats(corpus)
    scales = {"packed": by_label, "frames": by_late, "level": whole["level"]}
    rows = {name: [] for name in scales}
    for batch in sr.read(corpus, "eval", batch=sr.Pad(4), fields=[*scales], normalize=scales).as_numpy_iterator():
        for name, found in rows.items():
            found.extend(batch[name])
    for record, *found in zip(sentences[20:], *rows.values(), strict=True):
        own = by_label.splits["train"].by[record.label]["packed"], by_late.splits["train"].by["b"]["frames"]
        for name, got, figures in zip(scales, found, (*own, whole["level"]), strict=True):
            value = getattr(record, name)
            np.testing.assert_allclose(got[: len(value)], (value - figures.mean) / figures.std, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "batch",
    [None, 2, sr.Ragged(2), *(pytest.param(batch, marks=pytest.mark.nightly) for batch in (3, sr.Pack(8, 2)))],
    ids=str,
)
def test_values_of_any_shape_are_normalized_by_group(tmp_path, batch) -> None:
    """Statistics have one mean per channel, the last axis, whatever other axes a value has, and whatever the batch."""

    @sr.record
    class Clip:
        key: str = sr.context(str, key=True)
        subject: str = sr.context(str)
        matrix: np.ndarray = sr.context("float32", shape=(2, 3))
        grid: np.ndarray = sr.feature_list("float32", shape=(3, 1))

    random = np.random.default_rng(0)
    clips = [
        Clip(f"c{n}", "ab"[n % 2], (random.random((2, 3)) + n).astype("f4"), random.random((n + 1, 3, 1)).astype("f4"))
        for n in range(6)
    ]
    sr.write(clips, tmp_path / "d", shards=1)
    stats = sr.stats(tmp_path / "d", by="subject")

    def scaled(clip: Clip, name: str) -> np.ndarray:
        figures = stats.by[clip.subject][name]
        return (getattr(clip, name) - figures.mean) / figures.std

    grids = []
    for element in sr.read(tmp_path / "d", batch=batch, normalize=stats):
        grid = element["grid"]
        rows = grid.to_list() if isinstance(grid, tf.RaggedTensor) else grid.numpy()[None if batch is None else ...]
        grids.append(np.concatenate([np.reshape(row, (-1, 3, 1)) for row in rows]))
        if not isinstance(batch, sr.Pack):
            names = np.atleast_1d(element["key"].numpy())
            found = element["matrix"].numpy().reshape(-1, 2, 3)
            expected = [scaled(clip, "matrix") for name in names for clip in clips if clip.key == name.decode()]
            np.testing.assert_allclose(found, expected, atol=1e-4)
    found = np.concatenate(grids)
    found = np.sort(found[found.any((1, 2))].sum((1, 2)))
    expected = np.sort(np.concatenate([scaled(clip, "grid") for clip in clips]).sum((1, 2)))
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_groups_without_statistics_are_an_error(corpus) -> None:
    """They have no scale; the error names the field and the values, and no command that finds no fault in them."""
    stats = sr.stats(sr.open(corpus)["train"].where(label="a"), by="label")
    for batch in (sr.Pad(4), sr.Window(1), sr.Pack(16, 2)):
        told = r"no statistics of these values of .*label.*; leave their records out, by `where`, .*:\W* \[\W*b\W*\]"
        with pytest.raises(tf.errors.InvalidArgumentError, match=told) as caught:
            list(sr.read(corpus, "eval", batch=batch, fields=["level", "label"], normalize=stats))
        assert "verify" not in str(caught.value)
        assert r"seqrecorder.stats(seqrecorder.open(path).all(), by=\'label\')" in str(caught.value)
    of_all = sr.stats(sr.open(corpus).all(), by="label")
    assert list(sr.read(corpus, "eval", batch=4, fields=["level", "label"], normalize=of_all))


def test_groups_without_finite_values_have_the_scale_of_all(tmp_path) -> None:
    """A channel that is NaN throughout a group is normalized as in all records together, if it has values later."""

    @sr.record
    class Patient:
        site: str = sr.context(str)
        labs: np.ndarray = sr.feature_list("float32", shape=(2,))

    nan = float("nan")
    train = [Patient("K", [[1, 2], [3, 4]]), Patient("L", [[1, nan], [5, nan]]), Patient("M", [[nan, nan]])]
    test = [Patient("L", [[5, 6], [nan, 3]]), Patient("M", [[2.5, nan]])]
    sr.write({"train": train, "eval": test}, tmp_path / "d")
    stats = sr.stats(tmp_path / "d", by="site")
    [batch] = sr.read(tmp_path / "d", "eval", batch=2, missing="mask", normalize=stats)
    first = np.std([1, 3, 1, 5])
    np.testing.assert_allclose(batch["labs"], [[[1, 3], [0, 0]], [[0, 0], [0, 0]]], atol=1e-6)
    np.testing.assert_allclose(stats["labs"].std, [first, 1], rtol=1e-6)
    np.testing.assert_array_equal(batch["labs_observed"][0], [[1, 1], [0, 1]])


@pytest.mark.parametrize("by", [None, "key"])
def test_a_constant_channel_is_divided_by_one(tmp_path, by) -> None:
    """What it does later is seen in its own unit: a meter without load in training has no standard deviation."""

    @sr.record
    class Meter:
        key: str = sr.context(str)
        load: np.ndarray = sr.feature_list("float32", shape=(2,))

    train, test = [Meter("a", [[0.1, 1], [0.1, 3], [0.1, 2]])], [Meter("a", [[0.4, 2]])]
    sr.write({"train": train, "eval": test}, tmp_path / "d")
    stats = sr.stats(tmp_path / "d", by=by)
    [batch] = sr.read(tmp_path / "d", "eval", batch=1, normalize=stats)
    np.testing.assert_allclose(batch["load"], [[[0.3, 0]]], atol=1e-6)
    np.testing.assert_allclose(stats["load"].normalization()(batch["load"] * 0 + [0.4, 2]), [[[0.3, 0]]], atol=1e-6)
    np.testing.assert_allclose(stats["load"].denormalize(batch["load"]), [[[0.4, 2]]], atol=1e-6)


def test_an_unknown_token_is_no_damage(corpus) -> None:
    """The error of a window names the token, and no command that would find no fault in the record."""
    words = sr.Vocabulary(["w1"], padding=None, oov_buckets=0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="unknown tokens, but oov_buckets=0") as caught:
        list(sr.read(corpus, "eval", batch=sr.Window(2), fields=["words"], vocabulary={"words": words}))
    assert "verify" not in str(caught.value)
    assert r"seqrecorder.Vocabulary.build(seqrecorder.open(path).all(), \'words\')" in str(caught.value)
    words = sr.Vocabulary.build(sr.open(corpus).all(), "words", padding=None, oov_buckets=0)
    assert list(sr.read(corpus, "eval", batch=sr.Window(2), fields=["words"], vocabulary={"words": words}))
