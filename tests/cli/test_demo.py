"""The demo, on a few hundred functions."""

import io
import json
import tokenize
from pathlib import Path

import attrs
import numpy as np
import pytest

import seqrecorder as sr
from seqrecorder.cli import demo, source_functions
from seqrecorder.cli.report import demo_text, to_json
from seqrecorder.reading.batching.bucket_boundaries import optimal_boundaries, quantile_boundaries

FUNCTIONS = 300
SCORES = ("accuracy", "majority_accuracy")


@pytest.fixture(scope="module")
def said():
    return []


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return tmp_path_factory.mktemp("demo") / "stdlib"


@pytest.fixture(scope="module")
def report(corpus, said):
    return demo.run(corpus, functions=FUNCTIONS, training_steps=120, say=said.append)


@pytest.fixture(scope="module")
def records(report, corpus):
    return {split: list(sr.read_records(corpus, split)) for split in report.splits}


def test_the_dataset_stays_and_is_sound(report, corpus):
    """The directory that was named holds a dataset that verifies, with as much in it as the report says."""
    manifest = sr.info(corpus)
    assert sr.verify(corpus).ok
    assert report.path == str(corpus)
    assert (report.records, report.steps, report.bytes) == (manifest.records, manifest.steps, manifest.bytes)
    assert report.records == sum(report.splits.values()) == FUNCTIONS
    assert list(report.splits) == ["train", "eval", "test"]


def test_no_module_straddles_splits(records):
    """The functions of a module are all in one split."""
    modules = {split: {record.module for record in found} for split, found in records.items()}
    assert all(modules.values())
    assert sum(map(len, modules.values())) == len(set().union(*modules.values()))


def test_ids_follow_the_vocabulary(records, corpus):
    """A token's id is that of its string in the asset, or that of the unknown string."""
    vocabulary = json.loads(sr.info(corpus).assets[demo.VOCABULARY].read_text())
    known = set(vocabulary[2:])
    for record in (record for found in records.values() for record in found):
        for token, number in zip(record.tokens, record.ids, strict=True):
            assert vocabulary[number] == token if token in known else number == source_functions.UNKNOWN


def test_the_vocabulary_is_learnt_from_the_train_split_alone(records, corpus):
    """Every string of the vocabulary comes in the train split."""
    vocabulary = json.loads(sr.info(corpus).assets[demo.VOCABULARY].read_text())
    assert set(vocabulary[2:]) <= {token for record in records["train"] for token in record.tokens}


def test_tokens_are_those_of_the_source(records, corpus):
    """Kinds, strings and columns are what tokenize gives for the lines of the function."""
    kinds = sr.info(corpus).metadata["kinds"]
    record = next(record for record in records["train"] if record.tokens[0] == "def")
    module, name, line = record.key.split(":")
    assert (module, name) == (record.module, record.name)
    path = Path(source_functions.library(), *module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    tokens = [item for item in tokenize.tokenize(io.BytesIO(path.read_bytes()).readline) if item.start[0] >= int(line)]
    first = next(position for position, item in enumerate(tokens) if item.string == "def")
    expected = tokens[first : first + len(record.tokens)]
    assert list(record.tokens) == [item.string for item in expected]
    assert [kinds[kind] for kind in record.kinds] == [tokenize.tok_name[item.type] for item in expected]
    assert record.columns.tolist() == [item.start[1] for item in expected]


def test_a_method_knows_its_class_and_an_inner_function_is_no_record(tmp_path):
    """Methods are named by their class, and a function inside another is part of that one, whatever decorates it."""
    path = tmp_path / "one.py"
    path.write_text("class A:\n    @property\n    def b(self):\n        def c(): pass\n        return c\nx = 1\n")
    (function,) = source_functions.functions_of("one", path)
    assert (function.module, function.name, function.line) == ("one", "A.b", 2)
    assert function.tokens[:3] == ["    ", "@", "property"]
    assert "c" in function.tokens
    assert "x" not in function.tokens


@pytest.mark.parametrize("source", ["def f(:\n", "def f():\n  '\n", "\0"])
def test_what_does_not_tokenize_is_left_out(tmp_path, source):
    """A file that is not Python gives no function."""
    path = tmp_path / "broken.py"
    path.write_text(source)
    assert source_functions.functions_of("broken", path) == []


def test_the_model_beats_the_constant_answer(report):
    """The kinds are told better than by naming the most frequent one."""
    assert report.accuracy > report.majority_accuracy + 0.3


def test_the_constant_answer_is_scored_over_real_steps(report, records):
    """The majority baseline is the train split's most frequent kind, counted in the eval split."""
    train, held_out = (np.concatenate([r.kinds for r in records[split]]) for split in ("train", "eval"))
    assert report.majority_accuracy == pytest.approx((held_out == np.bincount(train).argmax()).mean())


def test_the_padding_is_that_of_the_lengths(report, corpus):
    """The efficiency of unsorted batches is what the lengths give in the order of reading; buckets are better."""
    lengths = np.array([len(element["ids"]) for element in sr.read(corpus, "train")])
    batches = np.split(lengths, range(64, len(lengths), 64))
    assert report.pad_efficiency == pytest.approx(lengths.sum() / sum(len(batch) * batch.max() for batch in batches))
    assert report.pad_efficiency < report.bucket_efficiency <= 1


def test_the_report_is_told_in_text_and_json(report, said):
    """Every number of the report is valid JSON, and the text fits 80 columns."""
    assert json.loads(to_json(report)) == attrs.asdict(report)
    assert all(len(line) <= 80 for line in demo_text(report).splitlines() if "seqrecorder info" not in line)
    assert said[0].startswith("reading the functions of ")


def test_an_existing_directory_is_refused_at_once(tmp_path, said):
    """A directory with something in it is refused before any work, and stays as it is."""
    file = tmp_path / "mine.txt"
    file.write_text("mine")
    said.clear()
    with pytest.raises(sr.DatasetExistsError, match="something here already"):
        demo.run(tmp_path, functions=FUNCTIONS, say=said.append)
    assert said == []
    assert file.read_text() == "mine"


@pytest.mark.parametrize("options", [{"functions": 10}, {"training_steps": 0}])
def test_too_little_is_refused(options):
    """Too few functions or no training raise an error that says how many are needed."""
    with pytest.raises(sr.OptionError, match="or more"):
        demo.run(**options)


@pytest.fixture(scope="module")
def found():
    return source_functions.scan_functions(200)


def test_a_temporary_dataset_is_removed(monkeypatch, said, found):
    """Without a directory the place is said, and nothing is left of it afterwards."""
    said.clear()
    monkeypatch.setattr(demo, "scan_functions", lambda _: found)
    scores = dict.fromkeys(SCORES, 0.5)
    monkeypatch.setattr(demo, "_train", lambda *_: None)
    monkeypatch.setattr(demo, "_score", lambda *_: scores)
    monkeypatch.setattr(demo, "_seconds_to_read", lambda _: 1.0)
    report = demo.run(functions=200, say=said.append)
    place = said[0].removeprefix("the dataset goes to ").partition(" and is removed afterwards")[0]
    assert report.path is None
    assert not Path(place).exists()


def test_a_temporary_dataset_is_removed_after_an_error(monkeypatch, found):
    """Nothing is left of a temporary dataset when the training fails."""
    monkeypatch.setattr(demo, "scan_functions", lambda _: found)
    monkeypatch.setattr(demo, "_seconds_to_read", lambda _: 1.0)

    def fail(path, *_):
        assert path.is_dir()
        raise ArithmeticError(path)

    monkeypatch.setattr(demo, "_train", fail)
    with pytest.raises(ArithmeticError) as error:
        demo.run(functions=200)
    assert not error.value.args[0].exists()


def padded_steps(lengths: np.ndarray, boundaries: tuple[int, ...]) -> int:
    """Return the steps of all records when each is padded to the longest of its bucket."""
    bucket = np.searchsorted(boundaries, lengths, side="right")
    return sum(int(lengths[bucket == b].max() * (bucket == b).sum()) for b in set(bucket.tolist()))


def searched(lengths: np.ndarray, start: tuple[int, ...]) -> int:
    """Return the least padding that moving one boundary at a time finds, from some boundaries on."""
    candidates = np.unique(lengths)[1:].tolist()
    best, least = start, padded_steps(lengths, start)
    improved = True
    while improved:
        improved = False
        for place in range(len(best)):
            for candidate in candidates:
                moved = tuple(sorted({*best[:place], candidate, *best[place + 1 :]}))
                steps = padded_steps(lengths, moved)
                if len(moved) == len(best) and steps < least:
                    best, least, improved = moved, steps, True
    return least


def test_no_boundaries_are_better_than_auto(records):
    """Eight buckets by "auto" waste no more steps than any of a hand's, of quantiles or of a search."""
    lengths = np.array([len(record.ids) for record in records["train"]])
    distinct, counts = np.unique(lengths, return_counts=True)
    auto = padded_steps(lengths, tuple(optimal_boundaries(distinct, counts, 8)))
    random = np.random.default_rng(0)
    starts = [tuple(quantile_boundaries(distinct, counts, 8)), (10, 20, 40, 80, 160, 320, 640)]
    starts.append(tuple(sorted(random.choice(distinct[1:], 7, replace=False).tolist())))
    for start in starts:
        assert auto <= searched(lengths, start), start


@pytest.mark.nightly
def test_no_boundaries_are_better_than_auto_on_the_whole_library():
    """The same of all functions, for random boundaries."""
    lengths = np.array([len(function.tokens) for function in source_functions.scan_functions(None)])
    distinct, counts = np.unique(lengths, return_counts=True)
    auto = padded_steps(lengths, tuple(optimal_boundaries(distinct, counts, 8)))
    random = np.random.default_rng(0)
    for _ in range(2000):
        assert auto <= padded_steps(lengths, tuple(sorted(random.choice(distinct[1:], 7, replace=False).tolist())))


@pytest.mark.parametrize("shuffle", [0, 1000])
def test_packed_rows_are_full(corpus, records, shuffle):
    """At least 95 % of the steps of packed rows of 512 are real, and all steps are there."""
    pack = sr.Pack(512, 4, too_long="split")
    plan = sr.plan(corpus, "train", pack, shuffle=shuffle, seed=0)
    assert plan.efficiency >= 0.95
    batches = sr.read(corpus, "train", batch=pack, shuffle=shuffle, seed=0, fields=["ids"])
    read = sum(int((batch["segment_ids"] > 0).numpy().sum()) for batch in batches)
    assert plan.steps == read == sum(len(record.ids) for record in records["train"])
