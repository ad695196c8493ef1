"""Selections: some records of a dataset, equal to the same list in memory."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import seqrecorder as sr
from seqrecorder.dataset.selection import rows_of


@sr.record(kw_only=True)
class Utterance:
    key: str = sr.context(str, key=True)
    label: int = sr.context("int32")
    score: float = sr.context("float32")
    speaker: str | None = sr.context(str, optional=True, default=None)
    ids: np.ndarray = sr.feature_list("int64")


def utterances(count: int, start: int = 0) -> list[Utterance]:
    return [
        Utterance(
            key=f"u{i}", label=i % 7, score=i / 4, speaker=f"s{i % 5}" if i % 3 else None, ids=np.arange(i * 7 % 5)
        )
        for i in range(start, start + count)
    ]


TRAIN, EVAL = utterances(41), utterances(9, start=41)


def keys(records: object) -> list[str]:
    return [record.key for record in records]


@pytest.fixture(scope="module", params=["in turn", "one after the other", "appended"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset whose records lie in several shards."""
    path = tmp_path_factory.mktemp("selection") / "corpus"
    if request.param == "in turn":
        sr.write({"train": TRAIN, "eval": EVAL}, path, shards=3)
    elif request.param == "one after the other":
        sr.write({"train": TRAIN, "eval": EVAL}, path, shard_bytes=400)
    else:
        sr.write({"train": TRAIN[:20], "eval": EVAL}, path, shards=2)
        sr.write({"train": TRAIN[20:]}, path, shards=3, append=True)
    return path


@pytest.fixture(scope="module")
def corpus(path: Path) -> sr.Corpus:
    return sr.open(path, schema=Utterance)


def test_loaders_get_records_by_their_numbers(corpus: sr.Corpus) -> None:
    """What torch's loaders ask of a dataset in worker processes: its length, records by ints, and several at once."""
    train = pickle.loads(pickle.dumps(corpus["train"]))  # noqa: S301 - our own bytes
    order = np.random.default_rng(0).permutation(len(train))
    assert [train[int(place)].key for place in order] == [TRAIN[place].key for place in order]
    assert keys(train.__getitems__(order[:7].tolist())) == [TRAIN[place].key for place in order[:7]]


def test_grain_takes_it(corpus: sr.Corpus) -> None:
    """A selection is a source of grain's, to be shuffled and batched there."""
    grain = pytest.importorskip("grain.python")
    source = grain.MapDataset.source(corpus["train"])
    assert len(source) == len(TRAIN)
    assert source[3] == TRAIN[3]
    shuffled = source.seed(1).shuffle().map(lambda record: record.key)
    assert sorted(shuffled[i] for i in range(len(shuffled))) == sorted(keys(TRAIN))


def test_splits_are_in_written_order(corpus: sr.Corpus) -> None:
    """A split gives its records in written order; several come one after the other."""
    assert list(corpus["train"]) == TRAIN
    assert list(corpus.all()) == [*TRAIN, *EVAL]
    assert list(corpus["eval", "train"]) == [*EVAL, *TRAIN]
    assert list(corpus) == ["train", "eval"]
    assert "eval" in corpus
    assert len(corpus) == 2


def test_what_is_indexed_is_a_list(corpus: sr.Corpus) -> None:
    """Positions, slices, arrays, masks and lists of keys give what a list of the records gives."""
    train = corpus["train"]
    assert train[17] == TRAIN[17]
    assert train[-3] == TRAIN[-3]
    assert train[np.int64(4)] == TRAIN[4]
    assert list(train[-3:]) == TRAIN[-3:]
    assert list(train[30:2:-4][1:]) == TRAIN[30:2:-4][1:]
    assert list(train[[4, 1, 4, -1]]) == [TRAIN[4], TRAIN[1], TRAIN[4], TRAIN[-1]]
    assert list(train[train.lengths() == 3]) == [record for record in TRAIN if len(record.ids) == 3]
    assert list(train[["u5", "u2"]]) == [TRAIN[5], TRAIN[2]]
    assert train[[]] == train[5:5]
    assert list(train[[]]) == []
    assert train.__getitems__([2, 0]) == [TRAIN[2], TRAIN[0]]


def test_records_are_found_by_key(corpus: sr.Corpus) -> None:
    """A key gives its record if it is selected."""
    train = corpus["train"]
    assert train["u17"] == TRAIN[17]
    assert "u17" in train
    assert "u17" in train[[17]]
    assert "u17" not in train[:17]
    assert "u45" not in train
    assert 17 not in train
    with pytest.raises(KeyError, match="no record of the key 'u45'"):
        train["u45"]


def test_places_that_are_not_there(corpus: sr.Corpus) -> None:
    """A place outside is an IndexError that says how many there are; anything else is refused by name."""
    train = corpus["train"]
    for place in (41, -42):
        with pytest.raises(IndexError, match=f"no record {place} of 41; for integer keys: where"):
            train[place]
        with pytest.raises(sr.RecordNotFoundError, match=f"no record {place} of 41"):
            train[[0, place]]
    for wrong in (None, 1.5, [0.5], np.zeros((2, 2), int), [True], True, np.True_, slice("u7"), slice(None, None, 0)):
        for selection in (train, train.where(label=3)):
            with pytest.raises(sr.OptionError, match="expected"):
                selection[wrong]
    for asked in (lambda: train.where(lambda _: np.ones(2)), lambda: train.sorted_by(lambda _: np.ones(2))):
        with pytest.raises(sr.OptionError, match="an array|without an order"):
            asked()
    with pytest.raises(sr.DatasetNotFoundError, match="did you mean 'train'"):
        corpus["trian"]
    with pytest.raises(sr.OptionError, match="expected the name"):
        corpus[["train"]]


def test_where_by_values_and_by_predicate(corpus: sr.Corpus) -> None:
    """All conditions must hold; None is a value of optional fields."""
    train = corpus["train"]
    assert list(train.where(label=[3, 5])) == [r for r in TRAIN if r.label in (3, 5)]
    assert list(train.where(label={3}, speaker="s3")) == [r for r in TRAIN if r.label == 3 and r.speaker == "s3"]
    assert list(train.where(speaker=None)) == [r for r in TRAIN if r.speaker is None]
    assert list(train.where(speaker=["s1", None])) == [r for r in TRAIN if r.speaker in ("s1", None)]
    assert list(train.where(score=0.25)) == [TRAIN[1]]
    long = train.where(lambda r: len(r.ids) > 2, fields=["ids"], label=range(3))
    assert list(long) == [r for r in TRAIN if len(r.ids) > 2 and r.label < 3]
    assert list(long.where(lambda r: r.key > "u2")) == [r for r in long if r.key > "u2"]
    assert list(train[:0].where(label=3)) == []
    only = r"record 0: where: AttributeError: .*'label'; fields=\['ids'\] leaves out the others"
    with pytest.raises(sr.RecordError, match=only):
        train.where(lambda r: r.label, fields=["ids"])
    with pytest.raises(sr.RecordError, match="record 4: where: ZeroDivisionError") as error:
        train[30:].where(lambda r: 1 / (r.key != TRAIN[34].key))
    assert error.value.position == 4
    shares, fails = {"a": 0.5, "b": 0.5}, lambda r: 1 / (r.key != TRAIN[34].key)
    for option, call in {
        "sorted_by": lambda part: part.sorted_by(fails),
        "by": lambda part: part.folds(2, by=fails),
        "split_by": lambda part: part.split(shares, by=fails),
        "stratify": lambda part: part.split(shares, stratify=fails),
        "leakage": lambda part: sr.leakage({"a": train[:2], "b": part}, by=fails),
    }.items():
        with pytest.raises(sr.RecordError, match=r"record 4: \w+: ZeroDivisionError: division by zero") as error:
            call(train[30:])
        assert isinstance(error.value.__cause__, ZeroDivisionError), option
    for problem, arguments in {
        "expected int32, got str '3'": {"label": "3"},
        "expected one value per record, got a feature list": {"ids": 3},
        "expected a predicate": {},
    }.items():
        with pytest.raises(sr.OptionError, match=problem):
            train.where(**arguments)
    with pytest.raises(sr.SchemaError, match="did you mean 'label'"):
        train.where(lable=3)


def test_samples_are_seeded_and_stay(corpus: sr.Corpus) -> None:
    """A sample has its size, keeps the order, and is the same for the same seed."""
    train = corpus["train"]
    some = train.sample(0.25, seed=1)
    assert len(some) == 10
    assert (np.diff(rows_of(some).array()) > 0).all()
    assert some == train.sample(10, seed=1)
    assert some != train.sample(10, seed=2)
    assert train.sample(1.0, seed=1) == train
    assert len(train.sample(0, seed=1)) == 0
    # Of more data mostly the same ones: each has its own number.
    assert len(corpus.all().sample(12, seed=1) & some) >= 8
    for wrong in (42, -1, 1.5, True, "a"):
        with pytest.raises(sr.OptionError, match="sample: expected"):
            train.sample(wrong, seed=0)


def test_selections_are_joined_and_sorted(corpus: sr.Corpus, tmp_path: Path) -> None:
    """Union, intersection and difference keep an order that can be told beforehand; sorting is stable."""
    train, held = corpus["train"], corpus["eval"]
    assert (train | held) == corpus.all()
    assert list(train[::-1] | train[[3, 40]] | held[:1]) == [*TRAIN[::-1], EVAL[0]]
    assert list(train[::-1] & train[3:6]) == TRAIN[5:2:-1]
    assert list(train[::-1] - train[3:]) == TRAIN[2::-1]
    assert list(train.sorted_by("label")) == sorted(TRAIN, key=lambda r: r.label)
    by_steps = train.sorted_by(lambda r: len(r.ids), fields=["ids"], reverse=True)
    assert list(by_steps) == sorted(TRAIN, key=lambda r: len(r.ids), reverse=True)
    with pytest.raises(sr.OptionError, match="without an order"):
        train.sorted_by("speaker")
    with pytest.raises(TypeError):
        train | [1]
    sr.write(held, tmp_path / "other")
    with pytest.raises(sr.OptionError, match="expected two selections of one dataset, got .*; `merge` writes both"):
        train | sr.open(tmp_path / "other").all()


def test_columns_come_in_order_and_in_parts(corpus: sr.Corpus) -> None:
    """Columns hold the records of the selection in its order, of the fields that are asked for."""
    some = corpus["train"][::-2]
    parts = list(some.columns(["ids", "speaker"], size=8))
    assert [part["ids"].steps.size for part in parts] == [8, 8, 5]
    assert parts[0].keys() == {"ids", "speaker"}
    wanted = TRAIN[::-2]
    assert np.concatenate([part["ids"].values for part in parts]).tolist() == [i for r in wanted for i in r.ids]
    assert [text for part in parts for text in part["speaker"].values] == [r.speaker for r in wanted if r.speaker]
    assert np.concatenate([part["speaker"].present for part in parts]).tolist() == [bool(r.speaker) for r in wanted]
    assert some.lengths().tolist() == [len(r.ids) for r in wanted]
    for wrong in (0, True, 1.5):
        with pytest.raises(sr.OptionError, match="size: expected"):
            some.columns(size=wrong)
    with pytest.raises(sr.OptionError, match="group: expected one of default"):
        some.lengths("other")


def test_selections_pickle_small(path: Path, corpus: sr.Corpus) -> None:
    """A pickle holds the place of the dataset and the positions, and gives an equal selection."""
    train = corpus["train"]
    assert len(pickle.dumps(train)) < 600
    for some in (train, train[[5, 3]], corpus.all()[::-3]):
        again = pickle.loads(pickle.dumps(some))  # noqa: S301 - our own
        assert again == some
        assert list(again) == list(some)
    assert list(pickle.loads(pickle.dumps(corpus))["eval"]) == EVAL  # noqa: S301
    again = sr.open(path, schema=Utterance)["train"]
    assert again == train
    assert len({train, again}) == 1


def test_a_pickle_of_other_data_is_refused(tmp_path: Path) -> None:
    """Where the dataset was written again, the positions of a pickle would be those of other records."""
    sr.write(TRAIN, tmp_path / "corpus")
    pickled = pickle.dumps(sr.open(tmp_path / "corpus")["train"])
    sr.write(EVAL, tmp_path / "corpus", append=True)
    with pytest.raises(sr.DatasetError, match="select again"):
        pickle.loads(pickled)  # noqa: S301


def test_selections_show_themselves(corpus: sr.Corpus) -> None:
    """In a line they say how many of what, in a notebook the first records with their lengths, escaped."""
    train = corpus["train"][3:]
    assert repr(train).startswith("<Selection of 38 records: Utterance, of train of ")
    table = train._repr_html_()
    assert "<td>3</td><td>u3</td><td>3</td><td>0.75</td><td>None</td><td>1</td>" in table
    assert "u14" not in table


def test_damage_is_named_where_it_is_selected(tmp_path: Path) -> None:
    """A damaged record is an error where it is selected, with its shard and number, and none in a selection without."""
    sr.write(TRAIN, tmp_path / "corpus")
    [shard] = (tmp_path / "corpus" / "train").glob("*.tfrecord")
    data = bytearray(shard.read_bytes())
    data[data.index(b"u20")] ^= 1
    shard.write_bytes(data)
    train = sr.open(tmp_path / "corpus", schema=Utterance)["train"]
    for damaged in (lambda: train[20], lambda: list(train), lambda: list(train[[3, 20]].columns(["label"]))):
        with pytest.raises(sr.ShardReadError, match="record 20 at byte .* is damaged.*seqrecorder verify"):
            damaged()
    assert list(train[[19, 21, 3]]) == [TRAIN[19], TRAIN[21], TRAIN[3]]
    assert "<td>" not in train[15:]._repr_html_()
    shard.write_bytes(data[:-1])
    with pytest.raises(sr.ShardReadError, match="expected .* bytes"):
        sr.open(tmp_path / "corpus")["train"][0]


def test_gzip_says_that_it_cannot_be_sought(tmp_path: Path) -> None:
    """Records of GZIP shards come in written order, all or some; by position they are refused with the way out."""
    sr.write(TRAIN, tmp_path / "corpus", compression="GZIP", shards=2)
    train = sr.open(tmp_path / "corpus", schema=Utterance)["train"]
    assert list(train) == TRAIN
    assert list(train.where(label=3)[1:]) == [r for r in TRAIN if r.label == 3][1:]
    assert "u7" in train
    assert "x" not in train
    for sought in (lambda: train[3], lambda: train["u3"]):
        with pytest.raises(sr.OptionError, match=r"packed with GZIP.*write the dataset again without compression"):
            sought()


def test_a_class_that_differs_is_read_as(path: Path) -> None:
    """With a class, records are of it: fields that the data lack have their defaults; others are refused."""

    @sr.record(kw_only=True)
    class Wider:
        key: str = sr.context(str, key=True)
        label: int = sr.context("int64")
        added: int = sr.context("int32", default=7)

    train = sr.open(path, schema=Wider)["train"]
    assert train[2] == Wider(key="u2", label=2)
    assert [record.label for record in train.where(added=7)] == [record.label for record in TRAIN]

    @sr.record
    class Other:
        score: str = sr.context(str)

    with pytest.raises(sr.SchemaMismatchError, match="score"):
        sr.open(path, schema=Other)


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("slice"), st.slices(50)),
        st.tuples(st.just("take"), st.lists(st.integers(0, 10**6), max_size=30)),
        st.tuples(st.just("where"), st.sets(st.integers(0, 6))),
        st.tuples(st.just("predicate"), st.integers(0, 4)),
        st.tuples(st.just("sort"), st.booleans()),
        st.tuples(st.sampled_from(["|", "&", "-"]), st.slices(50)),
    ),
    max_size=4,
)


def applied(selection: sr.Selection, records: list, operation: tuple, corpus: sr.Corpus) -> tuple[sr.Selection, list]:
    """Do the same to a selection and to a list of the records."""
    name, what = operation
    everything = [*TRAIN, *EVAL]
    if name == "slice":
        return selection[what], records[what]
    if name == "take":
        places = [place % len(records) for place in what] if records else []
        return selection[places], [records[place] for place in places]
    if name == "where":
        return selection.where(label=what), [r for r in records if r.label in what]
    if name == "predicate":
        return selection.where(lambda r: r.ids.size >= what, fields=["ids"]), [r for r in records if len(r.ids) >= what]
    if name == "sort":
        return selection.sorted_by("score", reverse=what), sorted(records, key=lambda r: r.score, reverse=what)
    other, others = corpus.all()[what], everything[what]
    if name == "&":
        return selection & other, [r for r in records if r in others]
    if name == "-":
        return selection - other, [r for r in records if r not in others]
    place = {record.key: number for number, record in enumerate(everything)}
    both = [*records, *others]
    first = [record for number, record in enumerate(both) if record not in both[:number]]
    orders = [[place[record.key] for record in part] for part in (records, others)]
    if all(order == sorted(set(order)) for order in orders):
        first.sort(key=lambda record: place[record.key])
    return selection | other, first


def check(corpus: sr.Corpus, operations: list) -> None:
    selection, records = corpus.all(), [*TRAIN, *EVAL]
    for operation in operations:
        selection, records = applied(selection, records, operation, corpus)
    assert len(selection) == len(records)
    assert keys(selection) == keys(records)
    if records:
        assert selection[len(records) // 2] == records[len(records) // 2]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=OPERATIONS)
def test_selections_equal_lists(corpus: sr.Corpus, operations: list) -> None:
    """Whatever is selected of what was selected, it is what the same does to a list of the records."""
    check(corpus, operations)


@pytest.mark.nightly
@settings(max_examples=4000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=OPERATIONS)
def test_selections_equal_lists_in_the_longer_run(corpus: sr.Corpus, operations: list) -> None:
    """The same over ten thousand cases."""
    check(corpus, operations)


_FEW_DESCRIPTORS = """
import resource, sys
import seqrecorder as sr
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
everything = sr.open(sys.argv[1]).all()
assert len([everything[place].key for place in range(0, 200, 2)]) == 100
assert len(list(everything.sample(0.5, seed=0))) == 100
assert len(list(everything)) == 200
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_many_shards_are_read_under_few_descriptors(tmp_path: Path) -> None:
    """Shards that stay open for the next record take an eighth of what the process may open."""
    sr.write(
        (Utterance(key=f"u{number}", label=0, score=0, ids=[number]) for number in range(200)),
        tmp_path / "d",
        shards=100,
    )
    subprocess.run([sys.executable, "-c", _FEW_DESCRIPTORS, str(tmp_path / "d")], check=True)


def test_a_selection_shows_no_machinery(corpus: sr.Corpus) -> None:
    """Every public name of a selection is one that the guide explains: how it is kept stays inside."""
    shown = {name for name in dir(corpus["train"]) if not name.startswith("_")}
    exports = {"to_arrow", "to_columns", "to_hf", "to_jsonl", "to_pandas", "to_parquet", "to_polars"}
    subsets = {"folds", "sample", "sorted_by", "split", "where"}
    assert shown == exports | subsets | {"columns", "lengths", "records", "schema"}


def test_an_open_dataset_is_a_mapping(corpus: sr.Corpus, tmp_path: Path) -> None:
    """It has the methods of a mapping, and `write` copies it with its splits, which it refuses to split again."""
    assert corpus.get("train") == corpus["train"]
    assert corpus.get("other") is None
    assert [(name, len(part)) for name, part in corpus.items()] == [("train", 41), ("eval", 9)]
    assert sr.write(corpus, tmp_path / "copy", compression="GZIP").splits["eval"].records == 9
    assert list(sr.read_records(tmp_path / "copy", "train", schema=Utterance)) == TRAIN
    with pytest.raises(sr.OptionError, match="the mapping names the splits already"):
        sr.write(corpus, tmp_path / "other", splits={"train": 0.5, "eval": 0.5})


@pytest.mark.parametrize("reverse", [False, True])
def test_missing_values_are_sorted_last(tmp_path, reverse):
    """NaN and NaT come last, in their order, and the others are sorted."""

    @sr.record
    class Reading:
        number: int = sr.context("int64")
        energy: float = sr.context("float32")
        day: np.datetime64 = sr.context("datetime64[D]")

    energies = [5, 3, np.nan, 4, 1, np.nan, 2]
    days = [np.datetime64("NaT" if np.isnan(e) else f"2026-01-0{int(e)}", "D") for e in energies]
    sr.write([Reading(n, e, d) for n, (e, d) in enumerate(zip(energies, days, strict=True))], tmp_path / "data")
    expected = [*sorted([4, 6, 1, 3, 0], key=energies.__getitem__, reverse=reverse), 2, 5]
    for by in ("energy", "day", lambda record: float(record.energy)):
        assert [r.number for r in sr.open(tmp_path / "data").all().sorted_by(by, reverse=reverse)] == expected
