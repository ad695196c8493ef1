"""Selections written: bytes are copied; datasets are rewritten in place, merged, compacted."""

import csv
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import seqrecorder as sr
from seqrecorder.codec.decode import RecordDecoder
from seqrecorder.storage.files import on_fault_point


@sr.record
class Word:
    key: str = sr.context(str, key=True)
    speaker: str = sr.context(str)
    ids: np.ndarray = sr.feature_list("int64")


WORDS = [Word(f"w{i}", f"speaker-{i % 4}", np.arange(i % 5)) for i in range(30)]


@pytest.fixture
def corpus(tmp_path: Path) -> sr.Corpus:
    shares = {"train": 0.8, "eval": 0.2}
    options: dict[str, Any] = {"seed": 5, "metadata": {"by": "us"}, "assets": {"note.txt": "hello"}}
    sr.write(WORDS, tmp_path / "corpus", splits=shares, split_by="speaker", shards=3, **options)
    return sr.open(tmp_path / "corpus", schema=Word)


def shards(path: Path, split: str) -> bytes:
    return b"".join(file.read_bytes() for file in sorted((path / split).glob("*.tfrecord")))


def test_bytes_are_copied(corpus: sr.Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Selections are written without being decoded, and give what their records give, byte for byte."""
    everything = corpus.all()
    parts = {"fit": everything[::-2], "held": everything[:10:2]}
    sr.write({name: list(part) for name, part in parts.items()}, tmp_path / "objects", shards=2)
    decoded: list[set[str]] = []
    decode = RecordDecoder.decode_columns

    def seen(self: RecordDecoder, data: Any) -> Any:
        decoded.append({field.name for field in self.schema.fields})
        return decode(self, data)

    monkeypatch.setattr(RecordDecoder, "decode_columns", seen)
    written = sr.write(parts, tmp_path / "copied", shards=2)
    assert decoded
    assert all(fields == {"key"} for fields in decoded)
    for name in parts:
        assert shards(tmp_path / "copied", name) == shards(tmp_path / "objects", name)
    assert written.to_json() == sr.info(tmp_path / "objects").to_json()
    assert sr.verify(tmp_path / "copied").ok


def test_selections_find_splits_and_keep_keys_apart(corpus: sr.Corpus, tmp_path: Path) -> None:
    """Shares, groups, listings and unique keys work on what is copied as on records."""
    new = sr.write(
        corpus.all(), tmp_path / "new", splits={"a": 0.5, "b": 0.5}, split_by=sr.Balanced("speaker"), csv=True
    )
    old = sr.write(
        list(corpus.all()), tmp_path / "old", splits={"a": 0.5, "b": 0.5}, split_by=sr.Balanced("speaker"), csv=True
    )
    assert new.to_json() == old.to_json()
    twice = corpus.all()[[0, 1, 0]]
    with pytest.raises(
        sr.DuplicateKeyError,
        match=r"has the key of record 0; .*which drops 1 of the 3 records checked here; pieces of .*\(chunk=True\)$",
    ):
        sr.write(twice, tmp_path / "twice")
    assert sr.write(twice, tmp_path / "twice", on_duplicate="first").records == 2
    with pytest.raises(sr.DuplicateKeyError, match="checked here. An append extends no record$"):
        sr.write(twice, tmp_path / "twice", append=True)
    sr.write(corpus.all()[2:4], tmp_path / "twice", append=True)
    assert len(sr.open(tmp_path / "twice").all()) == 4


@sr.record
class Photo:
    key: str = sr.context(str, key=True)
    pixels: np.ndarray = sr.context("uint8", shape=(8, 8, 3), storage="jpeg")

    def load(self) -> None:
        self.pixels = 255 - self.pixels

    def to_csv_row(self) -> dict[str, Any]:
        return {"key": self.key, "mean": int(self.pixels.mean())}


@sr.record
class Passage:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int64")

    def split(self) -> Iterator[Any]:
        if len(self.ids) == 1:
            raise sr.SkipRecord("short")
        for start in range(0, len(self.ids), 3):
            yield Passage(self.key, self.ids[start : start + 3])


@pytest.mark.parametrize("way", ["rewrite", "merge", "write"])
def test_bytes_are_copied_beside_a_csv(tmp_path: Path, way: str) -> None:
    """JPEG loses nothing a second time, hooks do not run again, and the rows are those of the records."""
    rng = np.random.default_rng(0)
    photos = [Photo(f"p{i}", rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)) for i in range(9)]
    source, there = tmp_path / "source", tmp_path / "there"
    sr.write(photos, source)
    before, stored = shards(source, "train"), list(sr.read_records(source, schema=Photo))
    selected = sr.open(source, schema=Photo).all()
    if way == "rewrite":
        there = source
        sr.rewrite(source, csv=True, schema=Photo)
    elif way == "merge":
        sr.merge([selected], there, schema=Photo, csv=True)
    else:
        sr.write(selected, there, schema=Photo, csv=True)
    assert shards(there, "train") == before
    rows = list(csv.DictReader((there / "train" / "examples.csv").read_text().splitlines()))
    assert [(row["key"], int(row["mean"])) for row in rows] == [(one.key, int(one.pixels.mean())) for one in stored]
    sr.compact(there, csv=True)  # without the class
    assert shards(there, "train") == before


@pytest.mark.parametrize("storage", ["png", "jpeg"])
def test_images_that_hooks_take_are_logged_if_they_lose(
    tmp_path: Path, storage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A class with a hook gets pixels; JPEG, unlike PNG, is not what it was after encoding them again."""

    @sr.record
    class Plain:
        pixels: np.ndarray = sr.context("uint8", shape=(8, 8, 3), storage=storage)

    @sr.record
    class Rated(Plain):
        rating: int | None = sr.context("int64", optional=True, deferred=True, default=None)

        def load(self, rating: int) -> None:
            self.rating = rating

    sr.write([Plain(np.zeros((8, 8, 3), np.uint8))], tmp_path / "photos")
    sr.rewrite(tmp_path / "photos", schema=Rated, params={"rating": 3})
    text = f"{tmp_path / 'photos'}: JPEG images are encoded again, with loss, since hooks of Rated take pixels"
    assert [record.message for record in caplog.records] == [text] * (storage == "jpeg")


@sr.record
class Chapter:
    key: str = sr.context(str, key=True)
    chunk: int = sr.context("int32", chunk=True, default=0)
    ids: np.ndarray = sr.feature_list("int64", default=())

    def split(self) -> Iterator[Any]:
        for number, start in enumerate(range(0, len(self.ids), 3)):
            yield attrs.evolve(self, chunk=number, ids=self.ids[start : start + 3])


@sr.record
class Counted(Chapter):
    count: int = sr.context("int64", deferred=True, default=None)

    def load(self) -> None:
        self.count = len(self.ids)


@pytest.mark.parametrize("workers", [1, 2])
def test_stored_chunks_are_not_split_again(tmp_path: Path, workers: int) -> None:
    """Under a class with `split`, stored chunks keep their numbers, and are told apart by them; lists are sources."""
    whole, path = [Chapter(f"c{i}", ids=np.arange(3 * i + 1)) for i in range(5)], tmp_path / "d"
    sr.write(whole, path)
    chunks = list(sr.read_records(path, schema=Chapter))
    assert [(each.key, each.chunk) for each in chunks[:3]] == [("c0", 0), ("c1", 0), ("c1", 1)]

    def read(name: str = "new") -> list[Any]:
        return list(sr.read_records(tmp_path / name, schema=Chapter))

    for selection in (sr.open(path).all(), sr.open(path, schema=Chapter).all()):
        sr.write(selection, tmp_path / "new", schema=Chapter, overwrite=True, workers=workers)
        assert read() == chunks
    sr.merge([path], tmp_path / "new", schema=Chapter, overwrite=True)
    assert read() == chunks
    sr.write(sr.open(path).all(), tmp_path / "more", schema=Counted, workers=workers)
    assert read("more") == chunks
    assert [each.count for each in sr.read_records(tmp_path / "more")] == [len(each.ids) for each in chunks]
    sr.rewrite(tmp_path / "new", drop=sr.open(tmp_path / "new").all()[[2, 5]], schema=Chapter)
    sr.write(sr.open(path).all(), tmp_path / "new", schema=Chapter, append=True, on_duplicate="first")
    assert sorted(read(), key=lambda each: (each.key, each.chunk)) == chunks
    sr.rewrite(tmp_path / "new", schema=Counted, workers=workers)
    assert sr.write(whole, tmp_path / "new", schema=Counted, append=True, on_duplicate="first").records == len(chunks)
    with pytest.raises(sr.DuplicateKeyError, match="record 2 .key 'c1'.: has the key of record 1"):
        sr.write(chunks, tmp_path / "list")
    plain = sr.write([Whole(each.key, each.ids) for each in whole], tmp_path / "unsplit")
    assert sr.write(sr.open(plain.path).all(), tmp_path / "split", schema=Chapter).records == len(chunks)


@sr.record
class Whole:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int64", default=())


def test_a_rewrite_keeps_chunks_without_numbers(tmp_path: Path) -> None:
    """Chunks that share their key stay, and so does the count of what hooks left out; other duplicates are found."""
    path = tmp_path / "d"
    sr.write([Passage("a", np.arange(7)), Passage("b", [0])], path)
    sr.write([Passage("c", np.arange(4))], path, append=True)
    chunks = list(sr.read_records(path))
    assert len(chunks) == 5
    manifest = sr.compact(path)
    assert (len(manifest.splits["train"].shards), manifest.skipped, manifest.skip_reasons) == (1, 1, ("short",))
    assert list(sr.read_records(path)) == chunks
    manifest = sr.rewrite(path, drop=sr.open(path).all().where(key="c"), csv=True)
    assert (manifest.records, manifest.skipped, manifest.skip_reasons) == (3, 1, ())
    with pytest.raises(sr.DuplicateKeyError, match="stored chunks again as a selection, not as a list"):
        sr.rewrite(path, schema=Passage, on_duplicate="error")
    assert sr.rewrite(path, schema=Passage).records == 3
    assert sr.rewrite(path, on_duplicate="first").records == 1
    with pytest.raises(sr.DuplicateKeyError):
        sr.merge([path, path], tmp_path / "twice")


@sr.record
class Renamed:
    key: str = sr.context(str, key=True)
    who: str = sr.context(str, renamed_from="speaker")
    ids: np.ndarray = sr.feature_list("int64")


@sr.record
class Nameless:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int64")


@pytest.mark.parametrize("rule", ["split_by", "balanced", "stratify"])
def test_the_splitting_rule_follows_a_renamed_field(tmp_path: Path, rule: str) -> None:
    """Appends to a rewritten or merged dataset go on with its rule; without a field of the rule, they name splits."""
    by = {"balanced": sr.Balanced("speaker")}.get(rule, "speaker")
    options: dict[str, Any] = {"stratify" if rule == "stratify" else "split_by": by}
    shares = {"train": 0.5, "eval": 0.5}
    for name in ("corpus", "merged"):
        sr.write(WORDS, tmp_path / name, splits=shares, **options)
    sides = {record.speaker: name for name in shares for record in sr.read_records(tmp_path / "corpus", name)}
    sr.merge([tmp_path / "merged"], tmp_path / "merged", schema=Renamed, overwrite=True)
    sr.rewrite(tmp_path / "corpus", schema=Renamed)
    more = [Renamed(f"more-{n}", f"speaker-{n % 4}", [n]) for n in range(40)]
    for name in ("corpus", "merged"):
        manifest = sr.write(more, tmp_path / name, append=True)
        assert {manifest.splitting.by, manifest.splitting.stratify} == {"who", None}
        if rule != "stratify":
            found = {record.who: split for split in shares for record in sr.read_records(tmp_path / name, split)}
            assert found == sides
    sr.rewrite(tmp_path / "corpus", schema=Nameless)
    with pytest.raises(sr.OptionError, match="without a rule; say where new records belong"):
        sr.write([Nameless("last", [1])], tmp_path / "corpus", append=True)
    assert sr.write({"eval": [Nameless("last", [1])]}, tmp_path / "corpus", append=True).records == 71


def test_a_class_that_differs_is_encoded_anew(corpus: sr.Corpus, tmp_path: Path) -> None:
    """As another class, records are read and encoded; the same where a source is damaged: nothing is published."""

    @sr.record
    class Short:
        key: str = sr.context(str, key=True)
        rank: int = sr.context("int32", default=7)

    sr.write(corpus.all()[3:5], tmp_path / "short", schema=Short)
    keys = [record.key for record in corpus.all()[3:5]]
    assert list(sr.open(tmp_path / "short", schema=Short).all()) == [Short(key) for key in keys]
    assert sr.rewrite(tmp_path / "short", schema=Short).records == 2
    file = max((corpus.manifest.path / "train").glob("*.tfrecord"), key=lambda path: path.stat().st_size)
    data = bytearray(file.read_bytes())
    data[-10] ^= 1
    file.write_bytes(data)
    with pytest.raises(sr.ShardReadError, match="is damaged"):
        sr.write(corpus.all(), tmp_path / "damaged")
    assert not (tmp_path / "damaged").exists()


@pytest.mark.parametrize("way", ["drop", "keep"])
def test_dropped_records_are_gone(corpus: sr.Corpus, way: str) -> None:
    """What is dropped is in no file; the others stay in their splits and order, under the same rule."""
    path, before = corpus.manifest.path, corpus.manifest
    gone = corpus.all().where(speaker="speaker-2")
    stays = {name: [record for record in corpus[name] if record.speaker != "speaker-2"] for name in corpus}
    manifest = sr.rewrite(path, **{way: gone if way == "drop" else corpus.all() - gone})
    after = sr.open(path, schema=Word)
    assert {name: list(after[name]) for name in after} == stays
    files = [file for file in path.parent.rglob("*") if file.is_file()]
    assert files
    assert not [file for file in files if b"speaker-2" in file.read_bytes()]
    assert (manifest.splitting, manifest.metadata) == (before.splitting, {"by": "us"})
    assert manifest.assets["note.txt"].read_text() == "hello"
    assert sr.verify(path).ok
    with pytest.raises(sr.DatasetError, match="select again"):
        sr.rewrite(path, drop=gone)
    # An append goes on under the old rule: groups are found where they were.
    more = [Word(f"x{i}", f"speaker-{i % 4}", []) for i in range(4)]
    sr.write(more, path, append=True)
    again = sr.open(path, schema=Word)
    for name, records in stays.items():
        speakers = {record.speaker for record in records}
        assert speakers <= {record.speaker for record in again[name]} <= {*speakers, "speaker-2"}


def test_a_rewrite_that_is_killed_leaves_the_old(corpus: sr.Corpus) -> None:
    """Until all is written the old dataset stands: an error at any fault point before that changes nothing."""
    path, before = corpus.manifest.path, sorted(corpus.manifest.path.rglob("*"))
    held = {file: file.read_bytes() for file in before if file.is_file()}
    points: list[str] = []
    with on_fault_point(lambda name, _: points.append(name)):
        sr.write(corpus.all(), path.parent / "counted")
    for fatal in range(0, points.index("before_rename") if "before_rename" in points else len(points), 7):
        seen: list[str] = []

        def fail(name: str, _: str, fatal: int = fatal, seen: list[str] = seen) -> None:
            seen.append(name)
            if len(seen) > fatal:
                raise OSError(5, "Input/output error")

        with on_fault_point(fail), pytest.raises(sr.SeqrecorderError):
            sr.rewrite(path, drop=corpus["eval"])
        assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == held


def test_merged_and_compacted(corpus: sr.Corpus, tmp_path: Path) -> None:
    """Several datasets become one, split by split; many generations become few shards."""
    other = [Word(f"o{i}", "new", [i]) for i in range(6)]
    sr.write({"eval": other[:2], "test": other[2:]}, tmp_path / "other")
    manifest = sr.merge([corpus.manifest.path, tmp_path / "other"], tmp_path / "both")
    both = sr.open(tmp_path / "both", schema=Word)
    assert list(both["train"]) == list(corpus["train"])
    assert list(both["eval"]) == [*corpus["eval"], *other[:2]]
    assert list(both["test"]) == other[2:]
    assert manifest.records == 36
    some = sr.merge([corpus["train"][:3], tmp_path / "other"], tmp_path / "some", splits={"a": 0.5, "b": 0.5})
    assert (some.records, set(some.splits)) == (9, {"a", "b"})
    with pytest.raises(sr.DuplicateKeyError):
        sr.merge([tmp_path / "other", tmp_path / "other"], tmp_path / "twice")
    for wrong in ([], "both"):
        with pytest.raises(sr.OptionError, match="expected a list"):
            sr.merge(wrong, tmp_path / "wrong")
    for number in range(3):
        sr.write({"test": [Word(f"more {number}", "new", [])]}, tmp_path / "both", append=True)
    keys = [record.key for record in sr.open(tmp_path / "both").all()]
    compacted = sr.compact(tmp_path / "both", shards=1)
    assert [len(split.shards) for split in compacted.splits.values()] == [1, 1, 1]
    assert [record.key for record in sr.open(tmp_path / "both").all()] == keys
    assert json.loads((tmp_path / "both" / "manifest.json").read_text())["generation"] == compacted.generation


@pytest.mark.parametrize(
    "rule",
    [
        {},
        {"split_by": "speaker"},
        {"split_by": sr.Balanced("speaker")},
        {"stratify": "speaker"},
        {"split_by": sr.Balanced("speaker"), "stratify": "key"},
    ],
    ids=["by key", "by group", "balanced", "strata", "strata of groups"],
)
def test_merge_keeps_a_common_rule(rule: dict[str, Any], tmp_path: Path) -> None:
    """Where all datasets have one rule, records can be appended to what was merged, and find their splits by it."""
    shares = {"train": 0.5, "eval": 0.5}
    words = [Word(f"w{i}", f"speaker-{i // 3}", []) for i in range(60)]
    for name, some in (("one", words[:30]), ("two", words[30:])):
        sr.write(some, tmp_path / name, splits=shares, seed=3, **rule)
    merged = sr.merge([tmp_path / "one", sr.open(tmp_path / "two").all()], tmp_path / "merged")
    again = sr.merge([sr.open(tmp_path / "merged")[name] for name in shares], tmp_path / "again")
    assert again.splitting == merged.splitting
    assert merged.splitting.sources == 60
    if merged.splitting.strata:
        assert sum(sum(stratum.counts) for stratum in merged.splitting.strata.values()) == 60
        some = sr.merge([sr.open(tmp_path / "merged").all()[:9]], tmp_path / "some")
        assert some.splitting.stratify == merged.splitting.stratify
        assert not some.shares.strata
        new = [Word(f"n{i}", f"speaker-{i}", []) for i in range(9)]
        assert sr.write(new, tmp_path / "some", append=True).shares.strata
    more = [Word(f"m{i}", f"speaker-{i}", []) for i in range(20)]
    assert sr.write(more, tmp_path / "merged", append=True).records == 80
    if rule:
        speakers = [{word.speaker for word in sr.open(tmp_path / "merged", schema=Word)[name]} for name in shares]
        assert rule == {"stratify": "speaker"} or not speakers[0] & speakers[1]
    else:
        sr.write(words + more, tmp_path / "whole", splits=shares, seed=3)
        for name in shares:
            found, whole = (list(sr.open(tmp_path / each, schema=Word)[name]) for each in ("merged", "whole"))
            assert found == whole


def test_merge_forgets_rules_that_differ(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Other shares, seeds or groups are no common rule; what is merged has none then, and groups are warned of."""
    shares, balanced, seen = {"train": 0.5, "eval": 0.5}, sr.Balanced("speaker"), set()
    sr.write(WORDS[:10], tmp_path / "one", splits=shares, seed=3)
    for number, options in enumerate(
        [{"seed": 4}, {"splits": {"train": 0.4, "eval": 0.6}}, {"split_by": "speaker"}, {"stratify": "speaker"}]
    ):
        sr.write(WORDS[10:], tmp_path / f"{number}", **{"splits": shares, "seed": 3, **options})
        assert sr.merge([tmp_path / "one", tmp_path / f"{number}"], tmp_path / f"m{number}").splitting.shares is None
        assert ("equal speaker may be in several splits" in caplog.text) == (number >= 2)
    for seed in range(20):  # which deals the one group that both have
        sr.write([Word("a", "same", [])], tmp_path / f"a{seed}", splits=shares, split_by=balanced, seed=seed)
        sr.write(
            [Word("c", "other", []), Word("b", "same", [])][:: (-1) ** seed],
            tmp_path / f"b{seed}",
            splits=shares,
            split_by=balanced,
            seed=seed,
        )
        places = [_split_of("same", tmp_path / f"{name}{seed}") for name in "ab"]
        rule = sr.merge([tmp_path / f"a{seed}", tmp_path / f"b{seed}"], tmp_path / f"ab{seed}").splitting
        assert (rule.groups is None) == (places[0] != places[1])
        seen.add(places[0] == places[1])
    assert seen == {True, False}


def _split_of(speaker: str, path: Path) -> str:
    corpus = sr.open(path)
    return next(name for name in corpus if any(word.speaker == speaker for word in corpus[name]))


def test_what_makes_no_sense_is_refused(corpus: sr.Corpus, tmp_path: Path) -> None:
    """Contradictions and selections of other datasets are OptionErrors."""
    path = corpus.manifest.path
    sr.write(WORDS[:2], tmp_path / "other")
    for arguments, problem in (
        ({"drop": corpus["eval"], "keep": corpus["train"]}, "not both"),
        ({"drop": sr.open(tmp_path / "other").all()}, "expected a selection of"),
        ({"drop": [corpus.all()[0]]}, r"as open\(path\).all\(\).where\(...\), got list"),
        ({"keep": corpus.all().where(key="w171")}, "keep= selects no record"),
        ({"seed": 3}, "seed cannot be changed"),
        ({"splits": {"a": 1.0}}, "splits cannot be changed"),
    ):
        with pytest.raises(sr.OptionError, match=problem):
            sr.rewrite(path, **arguments)


def test_a_drop_of_nothing_is_logged(corpus: sr.Corpus, caplog: pytest.LogCaptureFixture) -> None:
    """A key that is misspelled selects no record, so the log says that none is dropped."""
    path = corpus.manifest.path
    assert sr.rewrite(path, drop=corpus.all().where(key="w171")).records == len(corpus.all())
    assert caplog.messages[0] == f"{path}: nothing is dropped, since the selection is empty"


def test_fields_that_a_rewrite_loses_are_logged(corpus: sr.Corpus, caplog: pytest.LogCaptureFixture) -> None:
    """A field that the new class lacks, perhaps since it has a new name, is named before its values are gone."""
    path = corpus.manifest.path

    @sr.record
    class Sound:
        key: str = sr.context(str, key=True)
        voice: str = sr.context(str, renamed_from="speaker")
        ids: np.ndarray = sr.feature_list("int64")

    @sr.record
    class Misspelled:
        key: str = sr.context(str, key=True)
        ids: np.ndarray = sr.feature_list("int64")
        person: str = sr.context(str, default="", renamed_from="voise")

    @sr.record
    class Loaded(Misspelled):
        def load(self, speakers: dict[str, str]) -> None: ...

    with pytest.raises(sr.OptionError, match="Loaded.load needs 'speakers'"):  # nothing is lost, and none is named
        sr.rewrite(path, schema=Loaded)
    sr.rewrite(path, schema=Sound)
    assert not any("no field" in message for message in caplog.messages)
    sr.rewrite(path, schema=Misspelled)
    lost = "the stored 'voice', whose values go; declare renamed_from= where the name is new"
    assert f"{path}: Misspelled has no field for {lost}" in caplog.messages


def test_hooks_run_again_with_other_params(tmp_path: Path) -> None:
    """A class that corrects values from a table does so at each rewrite with `params=`; without, bytes are copied."""

    @sr.record
    class Corrected(Word):
        speaker: str = sr.context(str, deferred=True, default=None)

        def load(self, speakers: dict[str, str] | None = None) -> None:
            self.speaker = (speakers or {}).get(self.key, self.speaker)

    path = tmp_path / "d"
    sr.write(WORDS[:3], path)
    for speakers in ({"w0": "a"}, {"w1": "b"}, {"w1": "c"}):
        sr.rewrite(path, schema=Corrected, params={"speakers": speakers})
    stored = shards(path, "train")
    sr.rewrite(path, schema=Corrected)
    assert shards(path, "train") == stored
    assert [word.speaker for word in sr.read_records(path)] == ["a", "c", "speaker-2"]


def test_chunks_without_numbers_are_not_split_again(tmp_path: Path) -> None:
    """Stored records of a class that splits may be chunks: a rewrite with `params=` copies them as they are."""

    @sr.record
    class Halved:
        ids: np.ndarray = sr.feature_list("int64")

        def split(self, most: int = 4) -> Iterator["Halved"]:
            for start in range(0, len(self.ids), most):
                yield Halved(self.ids[start : start + most])

    path = tmp_path / "d"
    sr.write([Halved(np.arange(10))], path)
    sr.rewrite(path, schema=Halved, params={"most": 1})
    assert [record.ids.tolist() for record in sr.read_records(path)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_damage_stops_what_reads_it(corpus: sr.Corpus, tmp_path: Path) -> None:
    """A damaged record that would be written is named, and what stands stays; dropped or not read, it is no matter."""
    path = corpus.manifest.path
    first = [Word(f"first{i}", "speaker-1", [0]) for i in range(10)]
    sr.write(first, path, append=True, shards=10)  # so many shards that the hashes of the keys are kept
    assert list(path.rglob("*.keys"))
    everything = sr.open(path).all()
    bad = everything.where(lambda record: record.key == "w17", fields=["key"])
    shard = next(file for file in path.rglob("*.tfrecord") if b"w17" in file.read_bytes())
    split = shard.parent.name
    place = [record.key for record in sr.open(path)[split]].index("w17")
    data = bytearray(shard.read_bytes())
    data[data.index(b"w17")] ^= 1
    shard.write_bytes(data)
    held = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    for edit in (
        lambda: sr.rewrite(path, drop=everything[:0]),
        lambda: sr.rewrite(path, keep=bad),
        lambda: sr.compact(path, shards=1),
        lambda: sr.merge([path], tmp_path / "merged"),
    ):
        with pytest.raises(sr.ShardReadError, match=rf"{shard.name}.*record \d+ at byte \d+ is damaged"):
            edit()
        assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == held
    assert not (tmp_path / "merged").exists()
    assert sr.merge([everything - bad], tmp_path / "merged").records == 39
    sr.write([Word("new", "speaker-1", [1])], path, append=True)
    sr.write_part([Word("newer", "speaker-1", [2])], path, 0, append=True)
    assert sr.commit(path, append=True).records == 42
    assert sr.rewrite(path, drop=sr.open(path)[split][[place]]).records == 41
    assert sr.verify(path).ok
    assert sr.verify(tmp_path / "merged").ok


def test_shards_that_were_replaced_are_not_copied(tmp_path: Path) -> None:
    """An intact shard of another dataset is refused, as `push` does; a selection without its records is not."""
    for name, speaker in (("old", "a"), ("now", "b")):
        words = (Word(f"w{i:02}", speaker, [i]) for i in range(20))
        sr.write(words, tmp_path / name, shards=2)
    now = tmp_path / "now"
    rest = sr.open(now).all()[1::2]
    shutil.copy(tmp_path / "old" / "train" / "train-00000-of-00002.tfrecord", now / "train")
    for edit in (
        lambda: sr.compact(now),
        lambda: sr.rewrite(now, keep=sr.open(now).all()[:1]),
        lambda: sr.rewrite(now, compression="GZIP"),
        lambda: sr.merge([tmp_path / "old", now], tmp_path / "merged", on_duplicate="first"),
    ):
        with pytest.raises(sr.ShardReadError, match=r"train-00000-of-00002.*SHA-256.*verify.*salvage"):
            edit()
    assert not (tmp_path / "merged").exists()
    assert len(list(sr.read_records(now))) == 20
    assert sr.rewrite(now, keep=rest).records == 10
    assert sr.verify(now).ok


@sr.record
class Loaded:
    key: str = sr.context(str, key=True)
    x: np.ndarray = sr.feature_list("float32")
    energy: float = sr.context("float32", deferred=True, default=None)
    change: np.ndarray = sr.feature_list("float32", deferred=True, default=None)

    def load(self) -> None:
        self.energy, self.change = float((self.x**2).sum()), np.diff(self.x, prepend=0)


def test_fields_that_load_fills_are_derived_in_a_rewrite(tmp_path: Path) -> None:
    """Deferred fields may be missing in the data: `load` gets None for them, and what it sets is stored."""

    @sr.record
    class Plain:
        key: str = sr.context(str, key=True)
        x: np.ndarray = sr.feature_list("float32")

    sr.write([Plain(f"k{n}", np.arange(n)) for n in range(4)], tmp_path / "data")
    sr.rewrite(tmp_path / "data", schema=Loaded)
    for number, record in enumerate(sr.read_records(tmp_path / "data", schema=Loaded)):
        assert record.energy == sum(n * n for n in range(number))
        assert record.change.tolist() == [float(n > 0) for n in range(number)]
    assert sr.info(tmp_path / "data").schema.fields == sr.Schema.of(Loaded).fields


def test_fields_that_nothing_fills_are_refused_in_a_rewrite(tmp_path: Path) -> None:
    """Without `load`, a new field without a default is no field of the data."""

    @sr.record
    class Wider:
        text: str = sr.context(str)
        more: float = sr.context("float32", deferred=True, default=None)

    @sr.record
    class Plain:
        text: str = sr.context(str)

    sr.write([Plain("a")], tmp_path / "data")
    with pytest.raises(sr.SchemaMismatchError, match="more: not in the data"):
        sr.rewrite(tmp_path / "data", schema=Wider)


@sr.record
class Bounded:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int64", validator=lambda _, __, value: Bounded.check(value))
    more: int = sr.context("int64", default=0)

    @staticmethod
    def check(value: Any) -> None:
        if len(value) > 2:
            raise ValueError("too long")

    def __attrs_post_init__(self) -> None:
        self.more = len(self.ids)


def test_another_class_creates_its_records(tmp_path: Path) -> None:
    """Validators and `__attrs_post_init__` of the new class run, and an invalid record leaves the dataset as it was."""
    path = tmp_path / "data"
    sr.write([Passage("a", [1, 2])], path)
    sr.rewrite(path, schema=Bounded)
    assert [record.more for record in sr.read_records(path)] == [2]
    sr.write([Passage("a", [1, 2, 3])], tmp_path / "long", schema=sr.Schema.of(Passage).written)
    with pytest.raises(sr.SourceError, match="too long"):
        sr.rewrite(tmp_path / "long", schema=Bounded)
    assert sr.info(tmp_path / "long").schema.fields == sr.Schema.of(Passage).fields
