"""Statistics of fields: they agree with numpy on everything, and those of parts add up to those of the whole."""

import itertools
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqrecorder as sr
from seqrecorder.analysis.stats import Stats
from seqrecorder.codec.columns import gather
from seqrecorder.errors import OptionError, SchemaError


@sr.record
class Series:
    label: str = sr.context(str, default="a")
    age: int | None = sr.context("int32", optional=True, default=None)
    price: np.ndarray = sr.feature_list("float64", default=())
    frames: np.ndarray = sr.feature_list("float32", shape=(3,), align=None, default=())
    ids: np.ndarray = sr.feature_list("uint64", align=None, default=())
    words: list = sr.feature_list(str, align=None, default=())
    times: np.ndarray = sr.feature_list("datetime64[s]", align=None, default=())
    bag: np.ndarray | None = sr.context("int16", shape=(None,), optional=True, default=None)
    ragged: list = sr.feature_list("int8", shape=(None,), align=None, default=())


SCHEMA = sr.Schema.of(Series)
NAT = np.datetime64("NaT")
_limit = 1e100
doubles = st.floats(-_limit, _limit) | st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0])
floats = st.floats(width=32, allow_infinity=True, allow_nan=True)
times = st.integers(-1000, 1000).map(lambda n: np.datetime64(n, "s")) | st.just(NAT)


def as_frames(rows):
    return np.array(rows, "f4").reshape(-1, 3)


records = st.builds(
    Series,
    label=st.sampled_from("abc"),
    age=st.none() | st.integers(-5, 5),
    price=st.lists(doubles, max_size=6),
    frames=st.lists(st.tuples(floats, floats, floats), max_size=4).map(as_frames),
    ids=st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 3), max_size=6),
    words=st.lists(st.text(max_size=3), max_size=4),
    times=st.lists(times, max_size=6).map(lambda values: np.array(values, "datetime64[s]")),
    bag=st.none() | st.lists(st.integers(-3, 3), max_size=4),
    ragged=st.lists(st.lists(st.integers(0, 3), max_size=3), max_size=3),
)


def stats_of(given_records: list[Series]) -> Stats:
    made = Stats.of_nothing(SCHEMA)
    if given_records:
        made.add(gather(SCHEMA, given_records), len(given_records))
    return made


def same(left: Any, right: Any, *, scale: float = 1.0) -> None:
    """Check figures for equality to 1e-12 of what they are figures of."""
    left, right = (np.asarray(side, np.float64) for side in (left, right))
    assert ((np.abs(left - right) <= 1e-12 * scale) | (np.isnan(left) & np.isnan(right)) | (left == right)).all()


def check_numbers(found: Any, values: np.ndarray) -> None:
    """Check the figures of one channel against numpy's."""
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    assert found["count"] == finite.size
    assert found["missing"] == found.get("none", 0) + (np.isnan(values).sum() if values.dtype.kind == "f" else 0)
    assert found["infinities"] == (np.isinf(values).sum() if values.dtype.kind == "f" else 0)
    assert found["zeros"] == (finite == 0).sum()
    assert bool(found["constant"]) == (np.unique(finite).size == 1)
    if not finite.size:
        assert all(np.isnan(found[name]) for name in ("mean", "std", "minimum", "maximum"))
        return
    wide = finite.astype(np.float64)
    scale = max(1.0, float(np.abs(wide).max()))
    assert found["minimum"] == finite.min()
    assert found["maximum"] == finite.max()
    same(found["mean"], wide.mean(), scale=scale)
    same(found["std"] ** 2, wide.var(), scale=scale * scale)
    for q, value in found["quantiles"].items():
        same(value, np.quantile(wide, float(q)), scale=scale)


NAMES = ("count", "missing", "infinities", "zeros", "constant", "minimum", "maximum", "mean", "std")


def check(found: Stats, given_records: list[Series]) -> None:
    """Check all figures of records against what numpy says of their values."""
    assert found.records == len(given_records)
    for name in ("price", "ids", "ragged", "bag", "age"):
        values = [value for value in (getattr(record, name) for record in given_records) if value is not None]
        field = found.fields[name]
        assert (field.none, field.present) == (len(given_records) - len(values), len(values))
        inner = list(itertools.chain(*values)) if name == "ragged" else values
        flat = [np.atleast_1d(np.asarray(value, SCHEMA[name].element.numpy)) for value in inner]
        whole = np.concatenate(flat) if flat else np.empty(0, SCHEMA[name].element.numpy)
        check_numbers(field.to_dict(), whole)
        assert field.distinct == np.unique(whole[np.isfinite(whole)] if name == "price" else whole).size
        if field.sizes is not None:
            assert field.empty == sum(len(value) == 0 for value in values)
            check_numbers({**field.lengths.to_dict(), **dict.fromkeys(("missing", "infinities"), 0),
                           "zeros": field.empty, "constant": len(set(map(len, values))) == 1,
                           **({} if values else dict.fromkeys(("minimum", "maximum"), np.nan))},
                          np.array(list(map(len, values)), np.int64))  # fmt: skip
    frames = np.concatenate([np.empty((0, 3), "f4"), *(record.frames for record in given_records)])
    shown = found.fields["frames"].to_dict()
    for channel in range(3):
        parts = {name: shown[name][channel] for name in NAMES}
        parts["quantiles"] = {q: value[channel] for q, value in shown["quantiles"].items()}
        check_numbers(parts, frames[:, channel])
    words = [word for record in given_records for word in record.words]
    assert dict(found.fields["words"].top(10**6)) == {word: words.count(word) for word in words}
    gaps = [np.diff(record.times.view(np.int64))[(~np.isnat(record.times[1:])) & (~np.isnat(record.times[:-1]))]
            for record in given_records]  # fmt: skip
    every = np.concatenate([np.empty(0, np.int64), *gaps])
    told = found.fields["times"].to_dict()["gaps"]
    assert (told["count"], told["duplicates"], told["backwards"]) == (every.size, (every == 0).sum(), (every < 0).sum())
    clock = np.concatenate([np.empty(0, "M8[s]"), *(record.times for record in given_records)])
    assert found.fields["times"].missing == np.isnat(clock).sum()
    if (~np.isnat(clock)).any():
        assert found.fields["times"].minimum == np.nanmin(clock)
        assert found.fields["times"].maximum == np.nanmax(clock)


@pytest.mark.parametrize("examples", [12, pytest.param(60, marks=pytest.mark.nightly)])
def test_statistics_are_those_of_numpy_and_parts_add_up(examples):
    """Of all records at once, and of three parts added in either order, every figure is numpy's to 1e-12."""

    @settings(max_examples=examples, deadline=None)
    @given(st.lists(records, max_size=8), st.integers(0, 8), st.integers(0, 8))
    def try_one(given_records, one, other):
        first, second = sorted((one, other))
        parts = (given_records[:first], given_records[first:second], given_records[second:])
        a, b, c = map(stats_of, parts)
        for found in (stats_of(given_records), (a + b) + c, a + (b + c), c + (b + a)):
            check(found, given_records)

    try_one()


def test_parts_stay_as_they_are_when_they_are_added():
    """The sum is another object; its parts do not change, whatever is added to it."""
    a, b = stats_of([Series(price=[1.0])]), stats_of([Series(price=[3.0])])
    total = a + b
    total += b
    assert [part["price"].mean for part in (a, b)] == [1.0, 3.0]
    assert total["price"].count == 3


def test_statistics_of_other_fields_are_refused():
    """Only statistics of the same fields add up."""
    one = Stats.of_nothing(SCHEMA.select(["price"]))
    with pytest.raises(OptionError, match="same fields"):
        _ = one + stats_of([])
    with pytest.raises(OptionError, match="same fields"):
        _ = one + 1


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    rng = np.random.default_rng(0)

    def series(number: int) -> Series:
        steps = int(rng.integers(0, 9))
        return Series("ab"[number % 2], None if number % 3 else number, rng.normal(size=steps),
                      rng.normal(size=(steps, 3)).astype("f4"))  # fmt: skip

    path = tmp_path_factory.mktemp("stats") / "corpus"
    sr.write({"train": map(series, range(20)), "eval": map(series, range(20, 30))}, path)
    return path


def test_a_dataset_has_statistics_by_split_and_together(corpus):
    """What is read of a dataset is what its records say, for each split, for all of them and for each label."""
    found = sr.stats(corpus, by="label")
    by_split = {split: list(sr.read_records(corpus, split)) for split in ("train", "eval")}
    assert list(found.splits) == ["train", "eval"]
    for split, held in by_split.items():
        check(found.splits[split], held)
    everything = by_split["train"] + by_split["eval"]
    check(found, everything)
    for label in "ab":
        check(found.by[label], [record for record in everything if record.label == label])
    same(found["price"].splits["eval"].mean, np.concatenate([record.price for record in by_split["eval"]]).mean())
    alone = sr.stats(corpus, "eval", fields=["price"])
    assert (list(alone), alone.records) == (["price"], 10)
    assert alone.lengths().maximum == found.splits["eval"].lengths().maximum


def test_a_selection_has_statistics_of_its_records_alone(corpus):
    """Those that are selected, told apart by split; a dataset that is open is looked at as its directory is."""
    opened = sr.open(corpus)
    chosen = opened.all().where(label="a")
    found = sr.stats(chosen)
    check(found, list(chosen))
    assert list(found.splits) == ["train", "eval"]
    assert sr.stats(opened, "eval").records == 10
    with pytest.raises(OptionError, match="already has its splits"):
        sr.stats(chosen, "train")
    with pytest.raises(OptionError, match="got none"):
        sr.stats(opened["train"][:0])


def test_a_selection_over_splits_counts_whole(corpus):
    """A dataset means `train`; a selection of several splits means all that it holds, also once it is added to."""
    opened = sr.open(corpus)
    for selection in (opened.all(), opened.all()[5:25], opened["train", "eval"], opened["eval"] | opened["train"]):
        found = sr.stats(selection, by="label", fields=["price"])
        prices = np.concatenate([record.price for record in selection])
        same(found["price"].mean, prices.mean())
        same(found["price"].mean, found.all["price"].mean)
        same(found.splits["eval"]["price"].mean, sr.stats(selection & opened["eval"])["price"].mean)
        assert list(found["price"].splits) == ["train", "eval"] == list(found.splits)
        assert {label: part["price"].count for label, part in found.by.items()} == {
            label: sum(record.price.size for record in selection if record.label == label) for label in found.by
        }
    one, other = next(iter(opened.all().folds(2, seed=0)))
    for part in (one, other):
        same(sr.stats(part)["price"].mean, np.concatenate([record.price for record in part]).mean())
    whole = np.concatenate([record.price for record in opened.all()]).mean()
    same((sr.stats(one) + sr.stats(other))["price"].mean, whole)
    same((sr.stats(corpus, "train") + sr.stats(opened["eval"]))["price"].mean, whole)
    of_train = sr.stats(opened["train"])["price"].mean
    assert of_train != whole
    for dataset in (sr.stats(corpus), sr.stats(opened), sr.stats(corpus, "train") + sr.stats(corpus, "eval")):
        same(dataset["price"].mean, of_train)


def test_statistics_are_short_in_a_line_and_tables_in_notebooks(corpus):
    """They print in a line, as a table of fields, as HTML, and as JSON without NaN."""
    found = sr.stats(corpus)
    assert repr(found).startswith("<Stats Series: 30 records (train 20, eval 10)")
    assert len(str(found).splitlines()) == len(SCHEMA.fields) + 2
    assert found._repr_html_().count("<tr>") == len(SCHEMA.fields) + 1
    assert "eval" in found["price"]._repr_html_()
    assert repr(found["price"]).startswith("<FieldStats field price")
    document = json.loads(found.to_json())
    assert document["splits"]["train"]["fields"]["frames"]["mean"] == found.splits["train"]["frames"].mean.tolist()
    assert document["fields"]["ids"]["mean"] is None


def test_what_cannot_be_asked_is_refused(corpus):
    """Unknown fields, fields with too many values, text where numbers are wanted, and shares beyond 1."""
    found = sr.stats(corpus, fields=["label", "price"])
    with pytest.raises(SchemaError, match="did you mean"):
        found["prise"]
    with pytest.raises(OptionError, match="is text"):
        _ = found["label"].mean
    with pytest.raises(OptionError, match="from 0 to 1"):
        found["price"].quantile(2)
    with pytest.raises(OptionError, match="scalar context field"):
        sr.stats(corpus, by="price")
    with pytest.raises(OptionError, match="one of default"):
        found.lengths("other")


@sr.record
class Moment:
    at: np.datetime64 = sr.context("datetime64[ns]")
    wide: np.ndarray = sr.context("float64", shape=(2,))


def test_quantiles_of_times_are_times_of_the_data_to_the_last_one(tmp_path):
    """Nanoseconds are exact in quantiles, and so is the last time there is, which stands for no end."""
    first = np.datetime64("2026-01-01T00:00:00.123456789", "ns")
    last = np.datetime64(2**63 - 1, "ns")
    times = [first, first + 1, first + 5, last, last]
    sr.write([Moment(at, np.full(2, 1.7e308)) for at in times], tmp_path / "corpus")
    found = sr.stats(tmp_path / "corpus")
    assert [found["at"].quantile(q) for q in (0, 0.25, 0.375, 0.5, 1)] == [*times[:2], first + 3, *times[2:4]]
    assert str(sr.stats(sr.open(tmp_path / "corpus").all()[-2:])["at"]).count(str(last)) == 3
    assert "wide" in str(found)  # deviations beyond all floats are no warnings
    sr.report(tmp_path / "corpus", tmp_path / "report.html")
    assert str(last) in (tmp_path / "report.html").read_text()


def test_more_values_than_are_told_apart_are_refused(tmp_path):
    """A field of very many values has no statistics for each."""
    sr.write([Series(label=str(number)) for number in range(10_001)], tmp_path / "corpus")
    with pytest.raises(OptionError, match="at most 10,000 values"):
        sr.stats(tmp_path / "corpus", by="label", fields=["label"])


def test_complex_numbers_count_by_their_magnitude_and_bools_as_numbers():
    """Every element type has statistics."""

    @sr.record
    class Mixed:
        waves: np.ndarray = sr.feature_list("complex64", default=())
        flags: np.ndarray = sr.feature_list("bool", default=())
        small: np.ndarray = sr.feature_list("bfloat16", default=())
        blobs: list = sr.feature_list(bytes, default=())
        spans: np.ndarray = sr.feature_list("timedelta64[ms]", default=())

    schema = sr.Schema.of(Mixed)
    made = Stats.of_nothing(schema)
    small = np.array([1, 2], schema["small"].element.numpy)
    waves, spans = np.array([3 + 4j, 0], "c8"), np.array([1, 5], "m8[ms]")
    record = Mixed(waves, np.array([True, False]), small, [b"x", b"x"], spans)
    made.add(gather(schema, [record]), 1)
    assert (made["waves"].maximum, made["flags"].mean, made["small"].mean) == (5.0, 0.5, 1.5)
    assert made["flags"].top() == [(False, 1), (True, 1)]
    assert made["blobs"].top() == [(b"x", 2)]
    assert made["spans"].maximum == np.timedelta64(5, "ms")
    assert json.loads(made.to_json())["fields"]["blobs"]["top"] == [["x", 2]]


def test_normalization_is_that_of_the_real_steps_of_train(corpus):
    """The Keras layer has the mean and variance of the steps of train, whatever padding a batch has."""
    frames = np.concatenate([record.frames for record in sr.read_records(corpus, "train")])
    found = sr.stats(corpus)
    made = np.asarray(found["frames"].normalization()(frames[np.newaxis]))
    np.testing.assert_allclose(made[0], (frames - frames.mean(0)) / frames.std(0), atol=1e-5)
    of_eval = found.splits["eval"]["price"].normalization()
    price = np.concatenate([record.price for record in sr.read_records(corpus, "eval")])
    np.testing.assert_allclose(
        np.asarray(of_eval(price[np.newaxis]))[0], (price - price.mean()) / price.std(), atol=1e-5
    )
    with pytest.raises(OptionError, match="expected numbers"):
        found["label"].normalization()


def test_progress_has_a_total(corpus, tmp_path, capsys):
    """Verification, statistics, vocabularies and reports show how many of all records are through, if asked."""
    sr.verify(corpus, progress=True)
    sr.stats(corpus, progress=True)
    sr.Vocabulary.build(corpus, "label", split="train", padding=None, oov_buckets=0, progress=True)
    sr.report(corpus, tmp_path / "report.html", progress=True)
    shown = capsys.readouterr().err
    for told in ("verifying: 100%", "statistics: 100%", "30/30", "counting tokens: 100%", "20/20", "report: 100%"):
        assert told in shown
    sr.stats(corpus)
    assert "statistics" not in capsys.readouterr().err
    with pytest.raises(OptionError, match="progress: expected True, False or None"):
        sr.stats(corpus, progress="yes")


def test_texts_that_cannot_be_seen_are_told_in_escapes():
    """A line break or nothing at all does not break the table."""
    found = stats_of([Series(words=["\n", "\n", "", "a"])])
    assert len(str(found).splitlines()) == len(SCHEMA.fields) + 2
    assert "'\\n' (2), '' (1), a (1)" in str(found)


def test_none_is_missing_as_nan_is():
    """Numbers, texts and times count None among what is missing."""
    found = stats_of([Series(price=[1.0, np.nan], age=None), Series(age=3), Series(age=None)])
    assert (found["age"].missing, found["price"].missing) == (2, 1)
    assert "missing 2" in repr(found["age"])
