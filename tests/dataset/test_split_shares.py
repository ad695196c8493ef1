"""Shares of splits whose groups stay whole: near, or told."""

import json
import logging

import attrs
import numpy as np
import pytest

import seqrecorder as sr
from seqrecorder.dataset.manifest import read_manifest
from seqrecorder.dataset.split_shares import missed_shares

SHARES = {"train": 0.8, "eval": 0.1, "test": 0.1}
SIZES = np.random.default_rng(0).lognormal(4, 1, 66).astype(int)


@attrs.define
class Verse:
    book: str = sr.context(str)
    number: int = sr.context("int64", default=0)


def verses(sizes=SIZES, first=0):
    return [Verse(f"book {first + book}", i) for book, size in enumerate(sizes) for i in range(size)]


def books(path):
    return {name: {record.book for record in sr.read_records(path, name)} for name in SHARES}


def test_splits_that_miss_their_shares_are_told(tmp_path, caplog):
    """Few groups of different sizes are far from the shares by their hashes: the log and the manifest say so."""
    with caplog.at_level(logging.WARNING, "seqrecorder"):
        for seed in range(3):
            manifest = sr.write(verses(), tmp_path / str(seed), splits=SHARES, split_by="book", seed=seed)
            counts = {name: manifest.splits[name].records for name in SHARES}
            assert manifest.missed_shares == missed_shares(SHARES, counts)
            assert manifest.missed_shares == read_manifest(tmp_path / str(seed)).missed_shares
            assert [record.args[1] for record in caplog.records] == list(manifest.missed_shares)
            near = [abs(counts[name] / manifest.records - share) <= share / 3 for name, share in SHARES.items()]
            assert all(near) or caplog.records
            caplog.clear()
    many = [Verse(f"book {i}") for i in range(3000)]
    assert not sr.write(many, tmp_path / "many", splits=SHARES, split_by="book").missed_shares


def test_a_split_that_is_split_again_needs_another_seed(tmp_path, caplog):
    """The seed that drew a split draws the same numbers for its records, and the log says so; another seed does not."""
    Keyed = sr.record(type("Keyed", (), {"__annotations__": {"key": str}, "key": sr.context(str, key=True)}))  # noqa: N806
    sr.write((Keyed(f"k{n}") for n in range(1000)), tmp_path / "all", splits={"train": 0.8, "test": 0.2})
    train = sr.open(tmp_path / "all")["train"]
    assert not caplog.records
    again = sr.write(train, tmp_path / "again", splits={"fit": 0.9, "dev": 0.1})
    assert (again.splits["dev"].records, list(again.missed_shares)) == (0, ["dev"])
    assert "an earlier split by this seed=, or dropped records cause this: pass another seed= to a new" in caplog.text
    caplog.clear()
    other = sr.write(train, tmp_path / "other", splits={"fit": 0.9, "dev": 0.1}, seed=1)
    assert other.splits["dev"].records > 50
    assert not caplog.records


@pytest.mark.parametrize("order", ["together", "mixed"])
def test_balanced_groups_come_near(tmp_path, order, caplog):
    """Whole groups go where records are missing: no share is missed, be they together or not."""
    records = verses()
    if order == "mixed":
        records = [records[i] for i in np.random.default_rng(0).permutation(len(records))]
    manifest = sr.write(records, tmp_path / "c", splits=SHARES, split_by=sr.Balanced("book"))
    off = {name: manifest.splits[name].records / len(records) - share for name, share in SHARES.items()}
    largest = SIZES.max() / SIZES.sum()
    assert all(abs(error) < (0.02 if order == "together" else largest) for error in off.values()), off
    kinds = list(books(tmp_path / "c").values())
    assert sum(map(len, kinds)) == 66, "no book is in two splits"
    if order == "together":
        assert not manifest.missed_shares
        assert not caplog.records


def test_balanced_groups_that_miss_are_told(tmp_path, caplog):
    """Where one group is larger than its share, the log names that as the cause and advises no other seed."""
    halves = {"a": 0.5, "b": 0.5}
    manifest = sr.write(verses([90, 5, 5]), tmp_path / "c", splits=halves, split_by=sr.Balanced("book"))
    assert [record.args[1] for record in caplog.records] == list(manifest.missed_shares) == ["a", "b"]
    assert "one is larger than its share, or came late, or they take turns: another seed= does not help" in caplog.text
    assert "Balanced" not in caplog.text


def test_an_append_goes_on_with_the_groups(tmp_path):
    """Groups stay where they are when more of their records come, and new ones go where records are missing."""
    path = tmp_path / "c"
    sr.write(verses(SIZES[:30]), path, splits=SHARES, split_by=sr.Balanced("book"))
    before = books(path)
    sr.write(verses(SIZES), path, append=True, schema=Verse)
    after = books(path)
    assert all(before[name] <= after[name] for name in SHARES)
    assert sum(map(len, after.values())) == 66
    sr.write(verses(SIZES), path, append=True, split_by=sr.Balanced("book"))
    assert books(path) == after
    assert not sr.info(path).missed_shares
    with pytest.raises(sr.OptionError, match="was written with split_by=.book."):
        sr.write(verses(), path, append=True, split_by=sr.Balanced("number"))
    sr.write(verses(), tmp_path / "hashed", splits=SHARES, split_by="book")
    with pytest.raises(sr.OptionError, match="split_by=.by hash.; leave it out, got .balanced."):
        sr.write(verses(), tmp_path / "hashed", append=True, split_by=sr.Balanced("book"))


def test_balanced_splits_do_not_depend_on_chunks_or_workers(tmp_path):
    """The order of the records alone decides, and functions give groups too."""
    by_function = sr.Balanced(lambda record: record.book)
    manifests = [sr.write(iter(verses()), tmp_path / "0", splits=SHARES, split_by=by_function)]
    with sr.Writer(tmp_path / "1", Verse, splits=SHARES, split_by=sr.Balanced("book")) as writer:
        for start in range(0, len(verses()), 1100):  # enough in a list to be encoded at once
            writer.write_all(verses()[start : start + 1100])
    manifests.append(writer.manifest)
    assert [manifest.splits for manifest in manifests[1:]] == [manifests[0].splits]
    assert manifests[0].splitting.groups == manifests[1].splitting.groups


@pytest.mark.parametrize("groups", [{"train": "0f"}, {"train": 3}, {"other": "0" * 16}, [1], {"train": "G" * 16}])
def test_damaged_groups_are_refused(tmp_path, groups):
    """Of a manifest whose groups are none, an error says so."""
    sr.write(verses(), tmp_path / "c", splits=SHARES, split_by=sr.Balanced("book"))
    path = tmp_path / "c/manifest.json"
    data = json.loads(path.read_text())
    data["splitting"]["groups"] = groups
    path.write_text(json.dumps(data))
    with pytest.raises(sr.ManifestError):
        sr.info(tmp_path / "c")


def test_balanced_needs_shares(tmp_path):
    """Without shares there is nothing to come near to."""
    with pytest.raises(sr.OptionError, match="split_by needs splits with shares"):
        sr.write(verses(), tmp_path / "c", split_by=sr.Balanced("book"))


@sr.record
class Page:
    package: str = sr.context(str)
    section: int = sr.context("int64")


def test_strata_of_groups_are_near_or_told(tmp_path, caplog):
    """Where whole groups keep a stratum from its share, the log says of which, with figures; and only there."""
    shares, far, told = {"train": 0.8, "test": 0.2}, 0, 0
    for seed in range(6):
        random, pages = np.random.default_rng(seed), []
        for package in range(300):
            sections = random.choice(5, size=random.integers(1, 4), replace=False)
            size = min(200, 1 + int(random.pareto(1.1))) if seed else 2
            pages += [Page(f"p{package}", int(random.choice(sections))) for _ in range(size)]
        pages.sort(key=lambda page: page.section)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "seqrecorder"):
            options = {"splits": shares, "split_by": sr.Balanced("package"), "stratify": "section"}
            manifest = sr.write(pages, tmp_path / str(seed), **options)
        off = {name: abs(part["train"] - 0.8) for name, part in manifest.shares.strata.items()}
        is_far, texts = max(off.values()) > 0.05, [record.getMessage() for record in caplog.records]
        assert is_far == any("strata miss their shares" in text for text in texts), off
        if is_far:
            worst = max(off, key=off.get)
            assert any(f"most of all {worst!r}" in text for text in texts)
        far, told = far + is_far, told + (not is_far)
    assert far
