"""Reading selections: exactly their records, in their order, with every strategy."""

import re
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import tensorflow as tf

import seqrecorder as sr
from seqrecorder.dataset.checked_shards import Selected, resolve
from seqrecorder.dataset.record_store import _selected
from seqrecorder.dataset.selection import rows_of


@sr.record
class Sentence:
    key: str = sr.context(str, key=True)
    label: int = sr.context("int32")
    ids: np.ndarray = sr.feature_list("int64")
    marks: np.ndarray = sr.feature_list("float32", align="other")


RECORDS = [Sentence(f"r{i}", i % 4, np.arange(i * 7 % 6 + 1) + 100 * i, np.ones(i % 3, "float32")) for i in range(60)]
STRATEGIES: list[Any] = [None, sr.Pad(4), sr.Bucket(3, boundaries=[3, 5])]
OTHERS: list[Any] = [sr.TokenBudget(12), sr.Ragged(4), sr.Window(2, shift=1), sr.Unroll(3, 2), sr.Pack(8, 2)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> sr.Corpus:
    path = tmp_path_factory.mktemp("selected") / "corpus"
    sr.write({"train": RECORDS[:45], "eval": RECORDS[45:]}, path, shards=3)
    return sr.open(path, schema=Sentence)


def elements(dataset: Any) -> list[Any]:
    """The elements as nested lists."""

    def plain(value: Any) -> Any:
        return value.to_list() if isinstance(value, tf.RaggedTensor) else np.asarray(value.numpy()).tolist()

    return [{name: plain(value) for name, value in element.items()} for element in dataset]


def same_in_memory(selection: sr.Selection, path: Path) -> Path:
    """A dataset of just the selected records, in the same order, in one shard."""
    sr.write({"only": list(selection)}, path, schema=Sentence)
    return path


@pytest.mark.parametrize(
    "strategy", [*STRATEGIES, *(pytest.param(other, marks=pytest.mark.nightly) for other in OTHERS)], ids=repr
)
def test_every_strategy_gives_what_the_records_alone_give(corpus: sr.Corpus, tmp_path: Path, strategy: Any) -> None:
    """What is read of a selection is what is read of a dataset that holds nothing else, shuffled too; so are plans."""
    some = corpus["train"].where(label=[1, 3]).sorted_by("key") | corpus["eval"][::-2]
    alone = same_in_memory(some, tmp_path / "alone")
    fields = None if strategy is None or not isinstance(strategy, (sr.Window, sr.Unroll, sr.Pack)) else ["key", "ids"]
    options: dict[str, Any] = {"batch": strategy, "fields": fields, "shuffle": 7, "seed": 3, "index_name": "index"}
    got = elements(sr.read(some, **options))
    assert got
    assert got == elements(sr.read(alone, "only", schema=Sentence, **options))
    if strategy is not None and fields is None:
        for shuffle in (0, 7):
            assert sr.plan(some, strategy, shuffle=shuffle, seed=3) == sr.plan(
                alone, "only", strategy, shuffle=shuffle, seed=3
            )


def test_a_selection_keeps_its_order(corpus: sr.Corpus) -> None:
    """Unshuffled, records come in the selection's order, with their places in it; dealt, all come once."""
    some = corpus.all()[::-3]
    keys = [record.key for record in some]
    read = elements(sr.read(some, index_name="place", fields=["key"]))
    assert [element["key"].decode() for element in read] == keys
    assert [element["place"] for element in read] == list(range(len(some)))
    assert [record.key for record in sr.read_records(some)] == keys
    assert [record.key for record in sr.read_records(some, fields=["key"], shard=(1, 3))] == keys[1::3]
    dealt = [element["key"].decode() for index in (0, 1) for element in elements(sr.read(some, shard=(index, 2)))]
    assert sorted(dealt) == sorted(keys)


def test_limits_of_lengths_are_short_for_a_selection(corpus: sr.Corpus) -> None:
    """`min_length` and `max_length` give what the selection of those lengths gives; `split` is one of them, too."""
    train = corpus["train"]
    some = train[(train.lengths() >= 2) & (train.lengths() <= 4)]
    limited = elements(sr.read(corpus.manifest.path, "train", batch=sr.Pad(4), min_length=2, max_length=4))
    assert sorted(key for batch in limited for key in batch["key"]) == sorted(r.key.encode() for r in some)
    assert elements(sr.read(train.where(label=[1]), min_length=2, max_length=4, fields=["key"])) == elements(
        sr.read(some.where(label=[1]), fields=["key"])
    )


def test_whole_splits_are_read_where_they_are(corpus: sr.Corpus) -> None:
    """A whole split is read as by its name, several one after the other; nothing is copied."""
    path = corpus.manifest.path
    train, both = corpus["train"], corpus["eval", "train"]
    assert elements(sr.read(train, batch=sr.Pad(7))) == elements(sr.read(path, "train", batch=sr.Pad(7)))
    assert {Path(file.path).parent.parent for file in resolve(both, None).files} == {path}
    assert sorted(element["index"] for element in elements(sr.read(both, index_name="index"))) == list(range(60))
    expected = [*RECORDS[45:], *RECORDS[:45]]
    assert list(sr.read_records(both, schema=Sentence)) == expected
    for element in elements(sr.read(both, index_name="index")):
        assert element["key"].decode() == expected[element["index"]].key


def test_equal_selections_are_copied_once(corpus: sr.Corpus) -> None:
    """The same records in the same order have one copy in a process; plans alone copy nothing."""
    first = corpus["train"][5:20]
    planned = resolve(first, None, lengths_only=True).files[0]
    assert not planned.path.exists()
    files = [resolve(selection, None).files[0] for selection in (first, sr.open(corpus.manifest.path)["train"][5:20])]
    assert files[0] == files[1] == planned
    assert files[0].path.stat().st_size == planned.bytes
    files[0].path.unlink()
    assert resolve(first, None).files[0].path.exists()


def test_options_that_a_selection_decides_are_refused(corpus: sr.Corpus) -> None:
    """A selection names its split itself, and damage is left out of whole splits only."""
    some = corpus["train"][1:]
    with pytest.raises(sr.OptionError, match="a selection already determines split"):
        sr.read(some, "train")
    with pytest.raises(sr.OptionError, match="a selection already determines split"):
        sr.read_records(some, "train")
    with pytest.raises(sr.OptionError, match="leaves damage out of whole splits"):
        sr.read(some, on_corrupt="skip")
    assert len(elements(sr.read(corpus["train"], on_corrupt="skip", fields=["key"]))) == 45
    assert elements(sr.read(corpus["train"][:0], batch=sr.Pad(2))) == []


def test_damage_in_a_selected_record_is_named(tmp_path: Path) -> None:
    """A damaged record is named where it is selected, and does not matter where it is not."""
    sr.write(RECORDS, tmp_path / "corpus")
    [shard] = (tmp_path / "corpus" / "train").glob("*.tfrecord")
    data = bytearray(shard.read_bytes())
    data[data.index(b"r31")] ^= 1
    shard.write_bytes(data)
    train = sr.open(tmp_path / "corpus")["train"]
    with pytest.raises(sr.ShardReadError, match=r"record 31 at byte .* is damaged"):
        sr.read(train[20:40])
    assert len(elements(sr.read(train - train[31:32], fields=["key"]))) == 59
    with pytest.raises(sr.ShardReadError, match="SHA-256|CRC|damaged"):
        sr.read(train[:20], check="full")


class Cut(Selected):
    """A selection that is read in place, or copied, and in files of some number of bytes."""

    def __init__(self, selection: sr.Selection, run: int, size: int) -> None:
        self.selection, self.run, self.size = selection, run, size

    def _resolve(self, *, lengths_only: bool, **options: Any) -> Any:
        origin, rows = self.selection._resolve(lengths_only=True, **options), rows_of(self.selection)
        if rows.whole_splits() is not None:
            return origin
        cut = _selected(rows.store, rows.array(), lengths_only=lengths_only, run=self.run, size=self.size)
        return attrs.evolve(origin, files=tuple(cut))


def test_large_records_and_runs_of_small_ones_are_read_in_place(corpus: sr.Corpus, tmp_path: Path) -> None:
    """In any order, over shards, dealt, shuffled, planned and resumed they are what a copy of them is."""
    some = corpus["eval"][::-2] | corpus["train"][4:21] | corpus["train"].where(label=[1, 3])
    keys = [record.key.encode() for record in some]
    options: dict[str, Any] = {"shuffle": 5, "seed": 1, "batch": sr.Pad(3), "fields": ["key", "ids"]}
    copied = elements(sr.read(some, index_name="place", **options))
    assert elements(sr.read(Cut(some, 0, 1 << 26), index_name="place", **options)) == copied
    cut = Cut(some, 0, 1000)
    files = resolve(cut, None).files
    assert len(files) > 3
    assert not any(file.path.exists() for file in files[1:])
    read = elements(sr.read(cut, index_name="place", fields=["key"]))
    assert [element["key"] for element in read] == keys
    assert [element["place"] for element in read] == list(range(len(some)))
    dealt = [element["key"] for index in (0, 1) for element in elements(sr.read(cut, shard=(index, 2)))]
    assert sorted(dealt) == sorted(keys)
    iterator = iter(sr.read(cut, **options))
    plan = sr.plan(cut, None, sr.Pad(3), shuffle=5, seed=1)
    begun = [next(iterator) for _ in range(4)]
    saved = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "saved"))
    rest = elements(iterator)
    again = iter(sr.read(cut, **options))
    tf.train.Checkpoint(iterator=again).restore(saved)
    assert elements(again) == rest
    assert sorted(key for element in [*elements(begun), *rest] for key in element["key"]) == sorted(keys)
    assert len(begun) + len(rest) == plan.batches


def test_damage_in_a_record_that_is_read_in_place_is_named(tmp_path: Path) -> None:
    """While iterating, with its shard, number and byte; it does not matter where it is not selected."""
    large = [Sentence(f"r{i}", i, [], np.full(20_000, i, "float32")) for i in range(9)]
    sr.write(large, tmp_path / "corpus")
    [shard] = (tmp_path / "corpus" / "train").glob("*.tfrecord")
    data = bytearray(shard.read_bytes())
    place = data.index(b"r5")
    data[place + 900] ^= 1
    shard.write_bytes(data)
    train = sr.open(tmp_path / "corpus")["train"]
    damaged = sr.read(train[2:7], fields=["key"])
    named = rf"{shard.name}\] \[record\] \[5\] \[at byte\] \[(\d+)\] \[is damaged or missing;\] .*seqrecorder verify"
    with pytest.raises(tf.errors.InvalidArgumentError, match=named) as raised:
        elements(damaged)
    assert 0 < place - int(re.search(named, str(raised.value))[1]) < 400_000
    sound = elements(sr.read(train[[8, 2, 6]], fields=["key", "marks"]))
    assert [element["marks"] for element in sound] == [[float(i)] * 20_000 for i in (8, 2, 6)]
    gone = sr.read(train[[8, 2]], fields=["key"])
    shard.unlink()
    with pytest.raises(tf.errors.NotFoundError, match=shard.name):
        elements(gone)


def test_gzip_selections_are_read_in_written_order(tmp_path: Path) -> None:
    """Of GZIP shards a selection in written order is read; in another it is refused."""
    many = [Sentence(f"r{i}", i % 4, [i], []) for i in range(3000)]
    sr.write(many, tmp_path / "corpus", compression="GZIP")
    train = sr.open(tmp_path / "corpus")["train"]
    some = train.where(label=2)
    assert sr.plan(some, sr.Pad(10)).rows == 750
    keys = [element["key"].decode() for element in elements(sr.read(some, fields=["key"], batch=None))]
    assert keys == [record.key for record in many if record.label == 2]
    with pytest.raises(sr.OptionError, match="packed with GZIP"):
        list(train[::-1].columns(size=500))


def test_a_selection_resumes_in_the_midst(corpus: sr.Corpus, tmp_path: Path) -> None:
    """A pipeline over a selection goes on after a checkpoint as it would have gone on."""
    some = corpus["train"].where(label=[0, 2])
    options: dict[str, Any] = {"batch": sr.Pad(3), "shuffle": 5, "seed": 1, "epochs": 2, "fields": ["ids"]}
    whole = [element["ids"].numpy().tolist() for element in sr.read(some, **options)]
    iterator = iter(sr.read(some, **options))
    begun = [next(iterator)["ids"].numpy().tolist() for _ in range(4)]
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    saved = checkpoint.save(str(tmp_path / "saved"))
    again = iter(sr.read(some, **options))
    tf.train.Checkpoint(iterator=again).restore(saved)
    assert begun + [element["ids"].numpy().tolist() for element in again] == whole


def drawn(random: np.random.Generator, corpus: sr.Corpus) -> tuple[sr.Selection, list[Sentence]]:
    """A selection, and the same of a list of the records."""
    order, places = RECORDS[:45] + RECORDS[45:], np.arange(60)
    for _ in range(random.integers(1, 4)):
        kind, size = random.integers(5), len(places)
        if kind == 0:
            places = places[slice(*sorted(random.integers(0, size + 1, 2)))]
        elif kind == 1:
            places = places[random.integers(0, size, random.integers(0, 20))] if size else places
        elif kind == 2:
            places = places[np.isin(places % 4, random.integers(0, 4, 2))]
        elif kind == 3:
            places = places[:: random.choice([-1, 2, -3])]
        else:
            places = random.permutation(places)
    return corpus.all()[places], [order[place] for place in places]


@pytest.mark.nightly
@pytest.mark.parametrize("run", [0, 1 << 16], ids=["in place", "copied"])
def test_random_selections_are_read_as_lists_are(corpus: sr.Corpus, run: int) -> None:
    """Read with any strategy, by any number of readers, shuffled or not, they are the records of the list."""
    for seed in range(150):
        random = np.random.default_rng(seed)
        size = int(random.choice([300, 1 << 26]))
        some, records = drawn(random, corpus)
        cut = Cut(some, run, size)
        batch = random.choice(np.array([None, sr.Pad(4), sr.Bucket(3, boundaries=[3, 5]), sr.Ragged(4)], object))
        options: dict[str, Any] = {"batch": batch, "shuffle": int(random.choice([0, 7])), "fields": ["key", "label"]}
        readers = int(random.integers(1, 4))
        read = [each for n in range(readers) for each in elements(sr.read(cut, shard=(n, readers), **options))]
        rows = [(key, label) for e in read for key, label in zip(*map(np.ravel, (e["key"], e["label"])), strict=True)]
        expected = [(record.key.encode(), record.label) for record in records]
        if batch is None and not options["shuffle"] and readers == 1:
            assert rows == expected, seed
        assert sorted(rows) == sorted(expected), seed
        assert [record.key for record in sr.read_records(some)] == [record.key for record in records], seed
