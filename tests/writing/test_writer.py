import csv
import dataclasses
import errno
import hashlib
import itertools
import math
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from faults import FailAt, names
from written_records import Clip, Item, items

import seqrecorder as sr
from seqrecorder.codec.encode import PIECE_RECORDS
from seqrecorder.storage import shard_writer
from seqrecorder.storage.files import on_fault_point
from seqrecorder.storage.tfrecord import walk_frames


def keys(path: Path, split: str) -> list[str]:
    return [record.key for record in sr.read_records(path, split)]


def keys_by_split(path: Path) -> dict[str, set[str]]:
    return {name: set(keys(path, name)) for name in sr.info(path).splits}


def digest(directory: Path) -> str:
    """Return one SHA-256 over the names and bytes of all files."""
    state = hashlib.sha256()
    for path in sorted(p for p in directory.rglob("*") if p.is_file()):
        state.update(f"{path.relative_to(directory)}\n{path.stat().st_size}\n".encode() + path.read_bytes())
    return state.hexdigest()


# Splits


@pytest.mark.parametrize(
    "shares", [{"train": 0.7, "eval": 0.2, "test": 0.1}, {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}, {"all": 1}]
)
def test_ratios(tmp_path: Path, shares: dict[str, float]) -> None:
    """Shares are accepted though their floating-point sum is not 1, and splits are near them."""
    assert 0.7 + 0.2 + 0.1 != 1
    manifest = sr.write(items(2000), tmp_path / "d", splits=shares, seed=1)
    assert list(manifest.splits) == list(shares)
    assert manifest.records == 2000
    for name, share in shares.items():
        assert abs(manifest.splits[name].records - 2000 * share) < 4 * math.sqrt(2000 * share) + 1


def test_splits_depend_on_seed_and_key_alone(tmp_path: Path) -> None:
    """More data, and another order of it, move no key to another split; another seed moves many."""
    shares = {"train": 0.5, "eval": 0.5}
    sr.write(items(400), tmp_path / "few", splits=shares, seed=3)
    more = items(500)
    random.Random(0).shuffle(more)
    sr.write(more, tmp_path / "more", splits=shares, seed=3)
    sr.write(items(400), tmp_path / "other", splits=shares, seed=4)
    few, many, other = (keys_by_split(tmp_path / name) for name in ("few", "more", "other"))
    assert all(few[name] <= many[name] for name in shares)
    assert 100 < len(few["train"] & other["eval"]) + len(few["eval"] & other["train"]) < 300


@pytest.mark.parametrize("split_by", ["group", lambda record: record.group])
def test_groups_never_straddle(tmp_path: Path, split_by: Any) -> None:
    """Records of one group are in one split, whether a field or a function names it."""
    sr.write(items(300), tmp_path / "d", splits={"a": 0.5, "b": 0.5}, split_by=split_by)
    a, b = ({record.group for record in sr.read_records(tmp_path / "d", name)} for name in ("a", "b"))
    assert a
    assert b
    assert not a & b


def test_explicit_splits(tmp_path: Path) -> None:
    """A mapping names the splits, also one without records, in its order."""
    everything = items(10)
    manifest = sr.write({"eval": everything[:3], "train": iter(everything[3:]), "none": []}, tmp_path / "d")
    assert [(name, split.records) for name, split in manifest.splits.items()] == [
        ("eval", 3),
        ("train", 7),
        ("none", 0),
    ]
    assert keys(tmp_path / "d", "eval") == ["k0", "k1", "k2"]
    assert list(sr.read_records(tmp_path / "d", "none")) == []


@pytest.mark.parametrize("splits", ["group", lambda record: record.group])
def test_folds_named_by_records(tmp_path: Path, splits: Any) -> None:
    """An attribute, or a function of the record, names the split."""
    manifest = sr.write(items(21), tmp_path / "d", splits=splits)
    assert sorted(manifest.splits) == [f"g{i}" for i in range(7)]
    assert keys(tmp_path / "d", "g2") == ["k2", "k9", "k16"]


def test_split_of_a_single_record(tmp_path: Path) -> None:
    """`write(record, split=...)` decides over shares and without them."""
    with sr.Writer(tmp_path / "d", Item, splits={"train": 1.0, "eval": 0.0}) as writer:
        writer.write(items(1)[0])
        writer.write(items(1, 1)[0], split="eval")
        with pytest.raises(sr.OptionError, match="not one of train, eval"):
            writer.write(items(1, 2)[0], split="test")
    assert keys_by_split(tmp_path / "d") == {"train": {"k0"}, "eval": {"k1"}}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"splits": {"a": 0.5, "b": 0.4}}, "add up to 1"),
        ({"splits": {"a/b": 1.0}}, "plain file name"),
        ({"splits": {"a": 0.5, "A": 0.5}}, "differ by more than case"),
        ({"splits": "colour"}, "no attribute 'colour'"),
        ({"splits": 5}, "name of an attribute"),
        ({"split_by": "group"}, "needs splits"),
        ({"splits": {"a": 1.0}, "split_by": "colour"}, "no attribute 'colour'"),
        ({"seed": 1.5}, "seed"),
        ({"workers": 0}, "workers"),
        ({"shards": 2, "shard_bytes": 100}, "not both"),
        ({"shards": 0}, "shards"),
        ({"compression": "ZIP"}, "ZIP"),
        ({"on_duplicate": "last"}, "on_duplicate"),
        ({"append": True, "overwrite": True}, "not both"),
        ({"params": {"scale": 2}}, "takes 'scale'"),
        ({"params": {1: 2}}, "takes 1"),
        ({"progress": "yes"}, "progress"),
        ({"metadata": {1: "x"}}, "keys of JSON are text"),
        ({"metadata": {"x": math.nan}}, "JSON"),
        ({"metadata": {"x": object()}}, "JSON"),
        ({"metadata": "\ud800"}, "JSON"),
        ({"assets": {"../x": "y"}}, "plain file name"),
        ({"assets": {"g0001": "y"}}, "reserved for the dataset"),
        ({"assets": {"x": 5}}, "text, bytes or the Path"),
    ],
)
def test_senseless_options(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    """Options that make no sense are errors before anything is written."""
    with pytest.raises(sr.OptionError, match=message):
        sr.write(items(3), tmp_path / "d", **options)
    assert names(tmp_path) == []


def test_senseless_sources(tmp_path: Path) -> None:
    """What is no source of records is an error that says what one is."""
    with pytest.raises(sr.OptionError, match="iterable of records"):
        sr.write(items(1)[0], tmp_path / "d")
    with pytest.raises(sr.OptionError, match="leave `splits` out"):
        sr.write({"train": items(1)}, tmp_path / "d", splits={"train": 1.0})
    with pytest.raises(sr.OptionError, match="at least one record"):
        sr.write({}, tmp_path / "corpus")
    with pytest.raises(sr.OptionError, match="at least one record"):
        sr.write([], tmp_path / "d")
    with pytest.raises(sr.OptionError, match="'yes'"):
        sr.write(items(1), tmp_path / "d", progress="yes")
    with pytest.raises(sr.OptionError, match="inside its `with` block"):
        sr.Writer(tmp_path / "d", Item).write(items(1)[0])
    with pytest.raises(sr.OptionError, match=r"unknown options: sead \(did you mean 'seed'\?\)"):
        sr.Writer(tmp_path / "d", Item, sead=1)
    with pytest.raises(sr.OptionError, match=r"unknown options: sead \(did you mean 'seed'\?\)"):
        sr.write(items(1), tmp_path / "d", sead=1)
    with pytest.raises(sr.OptionError, match=r"unknown options: on_error \(from_table takes it\)"):
        sr.write(items(1), tmp_path / "d", on_error="skip")
    assert names(tmp_path) == []


@pytest.mark.parametrize("bad", [lambda record: 1 / 0, lambda record: 5])
def test_a_function_that_fails(tmp_path: Path, bad: Any) -> None:
    """A failing function for the split names the record."""
    with pytest.raises(sr.RecordError, match=r"record 0: its split"):
        sr.write(items(3), tmp_path / "d", splits=bad)
    with pytest.raises((sr.RecordError, sr.OptionError)):
        sr.write(items(3), tmp_path / "d", splits={"a": 1.0}, split_by=lambda record: record.ids)
    assert names(tmp_path) == []


def test_names_of_splits_differ_by_more_than_case(tmp_path: Path) -> None:
    """Splits named record by record are refused where some file systems would mix them."""
    with pytest.raises(sr.OptionError, match="differ by more than case"):
        sr.write([Item("a", "Fold"), Item("b", "fold")], tmp_path / "d", splits="group")
    assert names(tmp_path) == []


# Shards and order


@pytest.mark.parametrize("compression", [None, "GZIP"])
@pytest.mark.parametrize("options", [{"shards": 3}, {"shards": 50}, {"shard_bytes": 300}, {}])
def test_shards(tmp_path: Path, options: dict[str, int], compression: str | None) -> None:
    """Shards by count or by bytes: none is empty, and the written order comes back."""
    manifest = sr.write(items(20), tmp_path / "d", compression=compression, **options)
    shards = manifest.splits["train"].shards
    assert [shard.name for shard in shards] == [
        f"train-{i:05d}-of-{len(shards):05d}.tfrecord" for i in range(len(shards))
    ]
    assert all(shard.records for shard in shards)
    assert keys(tmp_path / "d", "train") == [f"k{i}" for i in range(20)]
    if "shards" in options:
        assert len(shards) == min(options["shards"], 20)
    if options == {"shards": 3}:
        first = [r.key for r in sr.read_records(tmp_path / "d" / "train" / shards[1].name, schema=Item)]
        assert first == ["k1", "k4", "k7", "k10", "k13", "k16", "k19"]
    assert sr.verify(tmp_path / "d").ok


def test_first_record_over_the_limit(tmp_path: Path) -> None:
    """A record larger than a shard may be gets one of its own, and no empty shard comes before or after it."""
    large = Item("large", ids=np.arange(1000))
    manifest = sr.write([large, *items(3), attrs.evolve(large, key="x")], tmp_path / "d", shard_bytes=400)
    assert [shard.records for shard in manifest.splits["train"].shards] == [1, 3, 1]


def test_few_files_are_open(tmp_path: Path) -> None:
    """Shards that are full are closed, so that their number has no limit."""
    seen: list[int] = []
    calls = itertools.count()

    def count_files(_name: str, _path: Any) -> None:
        if next(calls) % 25 == 0:
            seen.append(len(os.listdir("/proc/self/fd")))  # noqa: PTH208 - without the cost of paths

    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with on_fault_point(count_files):
        manifest = sr.write((Item(f"k{i}", ids=np.arange(50)) for i in range(3000)), tmp_path / "d", shard_bytes=1000)
    assert len(manifest.splits["train"].shards) > 1000
    assert len(seen) > 100
    assert before < max(seen) < before + 20


def test_splits_that_an_overwrite_loses_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Written again without `splits`, records of a test split would be trained on."""
    for splits in ({"train": 0.5, "test": 0.5}, None, {"train": 0.5, "test": 0.5}):
        sr.write(items(20), tmp_path / "d", splits=splits, overwrite=True)
    assert [record.message for record in caplog.records] == [
        f"{tmp_path / 'd'}: no longer has the split test; give splits= again"
    ]


@pytest.mark.parametrize("records", [[], {"train": []}, (item for item in ())])
def test_an_overwrite_needs_a_record(tmp_path: Path, records: Any) -> None:
    """A source that is empty by mistake does not remove a dataset; a rewrite that drops all records does."""
    sr.write(items(3), tmp_path / "d")
    with pytest.raises(sr.DatasetError, match="no record came to replace its 3 records, which stay; seqr"):
        sr.write(records, tmp_path / "d", schema=Item, overwrite=True)
    assert names(tmp_path) == ["d"]
    assert len(list(sr.read_records(tmp_path / "d"))) == 3
    assert sr.rewrite(tmp_path / "d", drop=sr.open(tmp_path / "d").all()).records == 0
    assert sr.write(records, tmp_path / "d", schema=Item, overwrite=True).records == 0


def test_empty_dataset(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A source without records gives a dataset without records, once the class is named, and a warning."""
    manifest = sr.write([], tmp_path / "d", schema=Item)
    assert manifest.records == 0
    assert [record.message for record in caplog.records] == [f"{tmp_path / 'd'}: no record was written"]
    assert list(sr.read_records(tmp_path / "d", "train")) == []
    assert sr.verify(tmp_path / "d").ok


def test_gzip_is_level_one(tmp_path: Path) -> None:
    """Compressed shards are of GZIP's fast level, and read back with the same frames."""
    sr.write([Item(f"{i}", ids=np.arange(200)) for i in range(200)], tmp_path / "d", compression="GZIP")
    path = tmp_path / "d" / "train" / "train-00000-of-00001.tfrecord"
    assert walk_frames(path, "GZIP").lengths.size == 200
    import gzip

    raw = gzip.decompress(path.read_bytes())
    size = path.stat().st_size
    assert abs(size - len(gzip.compress(raw, 1))) < 0.2 * size
    assert len(gzip.compress(raw, 6)) < size


def test_shuffle(tmp_path: Path) -> None:
    """On request the order on disk is random, the same for the same seed; the caller's list is left alone."""
    records = items(200)
    given = list(records)
    orders = []
    for number, seed in enumerate([1, 1, 2]):
        sr.write(records, tmp_path / str(number), shuffle=True, seed=seed, shards=3, csv=True)
        orders.append(keys(tmp_path / str(number), "train"))
    assert all(a is b for a, b in zip(records, given, strict=True))
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2]) == sorted(r.key for r in records)
    assert orders[0] != [r.key for r in records]
    assert digest(tmp_path / "0") == digest(tmp_path / "1")
    assert names(tmp_path / "0") == ["manifest.json", "train"]
    places = read_csv(tmp_path / "0" / "train" / "examples.csv")
    assert [row["key"] for row in places if row["shard"] == "1"] == orders[0][1::3]


# CSV, metadata, assets


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@sr.record
class Awkward:
    text: str = sr.context(str)
    ids: np.ndarray = sr.feature_list("int64")
    note: str | None = attrs.field(default=None)


def test_csv(tmp_path: Path) -> None:
    """The CSV says of each record its shard, its place there, its steps, and its scalars and plain fields."""
    records = [Awkward('a,"b"\nc', [1, 2]), Awkward("é", [], "plain"), Awkward("", [5])]
    sr.write(records, tmp_path / "d", csv=True, shards=2)
    rows = read_csv(tmp_path / "d" / "train" / "examples.csv")
    assert sorted(rows, key=lambda row: (row["index"], row["shard"])) == [
        {"shard": "0", "index": "0", "steps": "2", "text": 'a,"b"\nc', "note": ""},
        {"shard": "1", "index": "0", "steps": "0", "text": "é", "note": "plain"},
        {"shard": "0", "index": "1", "steps": "1", "text": "", "note": ""},
    ]


@pytest.mark.parametrize("text", ["two\nlines", "\n", "a\rb", "\r\n", " a ", '"', "a\t", "\u2028", "\x0b"])
def test_csv_of_texts_with_ends_of_lines(tmp_path: Path, text: str) -> None:
    """What would end a line stands in quotes, and comes back as the same text."""
    sr.write([Awkward(text, [1]), Awkward("b", [2, 3])], tmp_path / "d", csv=True)
    rows = read_csv(tmp_path / "d" / "train" / "examples.csv")
    assert [(row["index"], row["steps"], row["text"]) for row in rows] == [("0", "1", text), ("1", "2", "b")]


def test_csv_of_a_text_with_a_nul(tmp_path: Path) -> None:
    """Python 3.10 has no such CSV, and the record is named; later ones read it back."""
    records = [Awkward("a", [1]), Awkward("é\0", [2])]
    if sys.version_info < (3, 11):
        with pytest.raises(sr.RecordError, match=r"record 1.*its CSV line: it cannot stand in a CSV"):
            sr.write(records, tmp_path / "d", csv=True)
        assert names(tmp_path) == []
    else:
        sr.write(records, tmp_path / "d", csv=True)
        assert [row["text"] for row in read_csv(tmp_path / "d" / "train" / "examples.csv")] == ["a", "é\0"]


def test_csv_of_a_rerun(tmp_path: Path) -> None:
    """A rerun does not append its rows to the earlier ones."""
    for _ in range(2):
        sr.write(items(5), tmp_path / "d", csv=True, overwrite=True)
        assert len(read_csv(tmp_path / "d" / "train" / "examples.csv")) == 5
    assert names(tmp_path / "d" / "train")[0] == "examples.csv"


def test_csv_through_the_hook(tmp_path: Path) -> None:
    """`to_csv_row` gives the columns."""
    sr.write([Clip("a", size=2500)], tmp_path / "d", csv=True, params={"length": 1000})
    assert read_csv(tmp_path / "d" / "train" / "examples.csv") == [
        {"shard": "0", "index": str(i), "steps": str(steps), "key": "a", "chunk": str(i)}
        for i, steps in enumerate([1000, 1000, 500])
    ]


@sr.record
class Clashing:
    steps: str = sr.context(str)


def test_csv_columns_clash(tmp_path: Path) -> None:
    """A field with the name of one of the CSV's own columns is an error that says what to do."""
    with pytest.raises(sr.OptionError, match="define to_csv_row"):
        sr.write([Clashing("x")], tmp_path / "d", csv=True)
    assert names(tmp_path) == []


@sr.record
class Changing:
    key: int = sr.context("int64")

    def to_csv_row(self) -> Any:
        if self.key == 300:
            raise KeyError("row")
        return [] if self.key == 200 else {"a" if self.key < 100 else "b": self.key}


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ([1, 100], "columns of the first record"),
        ([200], "expected a dict"),
        ([300], "to_csv_row failed: Key"),
    ],
)
@pytest.mark.parametrize("before", [0, PIECE_RECORDS - 1])
def test_csv_hook_fails(tmp_path: Path, numbers: list[int], message: str, before: int) -> None:
    """A `to_csv_row` that gives other columns than before, or none, is an error that names the record."""
    with pytest.raises(sr.RecordError, match=rf"record {before + len(numbers) - 1}\b.*{message}"):
        sr.write(map(Changing, [*[1] * before, *numbers]), tmp_path / "d", csv=True)
    assert names(tmp_path) == []


def test_metadata_and_assets(tmp_path: Path) -> None:
    """The user's own come back from `info`: JSON as it is, files by text, bytes and path."""
    (tmp_path / "source.bin").write_bytes(b"\0\xff")
    metadata = {"vocabulary": ["a", "é"], "rate": 16_000, "none": None, "pair": (1, 2)}
    assets = {"words.txt": "a\r\né\n", "raw": b"\0\1", "file": tmp_path / "source.bin"}
    written = sr.write(items(3), tmp_path / "d", metadata=metadata, assets=assets)
    manifest = sr.info(tmp_path / "d")
    assert manifest == written
    assert manifest.metadata == {**metadata, "pair": [1, 2]}
    assert {name: path.read_bytes() for name, path in manifest.assets.items()} == {
        "words.txt": "a\r\né\n".encode(),
        "raw": b"\0\1",
        "file": b"\0\xff",
    }
    assert sr.verify(tmp_path / "d").ok
    with pytest.raises(sr.DatasetNotFoundError, match="absent"):
        sr.write(items(3), tmp_path / "e", assets={"x": tmp_path / "absent"})


# Errors on the way


def test_source_fails(tmp_path: Path) -> None:
    """An exception in the source names the record, and nothing is left."""

    def source() -> Any:
        yield from items(20)
        raise KeyError("x")

    with pytest.raises(sr.SourceError, match=r"failed at record 20: KeyError: 'x'") as caught:
        sr.write(source(), tmp_path / "d")
    assert isinstance(caught.value.__cause__, KeyError)
    assert names(tmp_path) == []


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_interrupted(tmp_path: Path, interrupt: type[BaseException]) -> None:
    """An interrupt in the source passes through, and nothing is left."""

    def source() -> Any:
        yield from items(20)
        raise interrupt

    with pytest.raises(interrupt):
        sr.write(source(), tmp_path / "d", shards=2, csv=True)
    assert names(tmp_path) == []


def test_bad_record(tmp_path: Path) -> None:
    """A record that cannot be encoded is named by position and key, with all of its bad fields."""
    bad = Item("bad", ids=[1])
    bad.ids = ["x"]
    bad.group = 5
    with pytest.raises(sr.RecordError, match="record 7 .key 'bad'.") as caught:
        sr.write([*items(7), bad], tmp_path / "d")
    assert {problem.field for problem in caught.value.problems} == {"ids", "group"}
    assert names(tmp_path) == []
    with pytest.raises(sr.RecordError, match="record 1.*class Item, got Clip"):
        sr.write([*items(1), Clip("x")], tmp_path / "d")
    with pytest.raises(sr.RecordError, match="record 0.*a Clip, got Item"):
        sr.write(items(1), tmp_path / "d", schema=Clip)


def test_errors_are_not_swallowed(tmp_path: Path) -> None:
    """A caller who goes on after an error gets it again, and no dataset: records before it were lost with it."""
    bad = Item("bad")
    bad.ids = "x"
    seen = 0
    with pytest.raises(sr.RecordError, match="bad"), sr.Writer(tmp_path / "d", Item) as writer:  # noqa: PT012
        for record in [*items(5), bad, *items(PIECE_RECORDS + 20, 10)]:
            try:
                writer.write(record)
            except sr.RecordError:
                seen += 1
    assert seen > 10
    assert names(tmp_path) == []


def test_a_writer_is_used_once(tmp_path: Path) -> None:
    """A second `with` over one writer is refused, and the dataset stays."""
    with sr.Writer(tmp_path / "d", Item) as writer:
        writer.write_all(items(3))
        writer.write_all(items(3, 3))
    with pytest.raises(sr.OptionError, match="once"), writer:
        pytest.fail("entered")
    assert keys(tmp_path / "d", "train") == [f"k{i}" for i in range(6)]


def test_existing_destination(tmp_path: Path) -> None:
    """A second write to one place is refused, and the first dataset stays as it is."""
    sr.write(items(3), tmp_path / "d")
    before = digest(tmp_path / "d")
    with pytest.raises(sr.DatasetExistsError, match="overwrite=True"):
        sr.write(items(5), tmp_path / "d")
    assert digest(tmp_path / "d") == before
    assert names(tmp_path) == ["d"]


# Keys


def test_duplicate_keys(tmp_path: Path) -> None:
    """A key that comes twice is an error naming both positions, or left out and counted."""
    count = PIECE_RECORDS + 5
    records = [*items(count), Item("k1", "later"), Item("x"), Item("x", "later")]
    with pytest.raises(sr.DuplicateKeyError, match=f"record {count} .key 'k1'.: has the key of record 1;"):
        sr.write(records, tmp_path / "d")
    assert names(tmp_path) == []
    manifest = sr.write(records, tmp_path / "d", on_duplicate="first")
    assert (manifest.records, manifest.skipped, manifest.splitting.sources) == (count + 1, 2, count + 3)
    assert [(r.key, r.group) for r in sr.read_records(tmp_path / "d")][-2:] == [
        (f"k{count - 1}", records[count - 1].group),
        ("x", ""),
    ]


def test_keys_of_numbers_are_shown_as_python_has_them(tmp_path: Path) -> None:
    """Not as np.int64(1001), in the messages of twice the same key and of a value that does not fit."""

    @sr.record
    class Meter:
        key: int = sr.context("int64", key=True)
        value: int = sr.context("int8")

    with pytest.raises(sr.DuplicateKeyError, match=r"^record 1 \(key 1001\): has the key of record 0;") as twice:
        sr.write([Meter(1001, 1), Meter(1001, 2)], tmp_path / "d")
    assert type(twice.value.key) is int
    with pytest.raises(sr.RecordError, match=r"^record 0 \(key 1001\): "):
        sr.write([Meter(1001, 300)], tmp_path / "d")


def test_keys_of_chunks(tmp_path: Path) -> None:
    """Chunks share the key of their source; a second source with that key is still a duplicate."""
    sr.write([Clip("a", size=25)], tmp_path / "d", params={"length": 10})
    assert [(r.key, r.chunk) for r in sr.read_records(tmp_path / "d")] == [("a", 0), ("a", 1), ("a", 2)]
    with pytest.raises(sr.DuplicateKeyError):
        sr.write([Clip("a", size=1), Clip("a", chunk=1, size=1)], tmp_path / "e")


@sr.record
class Piece:
    key: str = sr.context(str, key=True)
    number: int = sr.context("int64", chunk=True, default=0)


def test_keys_of_chunks_that_come_as_records(tmp_path: Path) -> None:
    """Where the source has made the chunks already, key and number together are unique."""
    sr.write([Piece("a", 0), Piece("a", 1)], tmp_path / "d")
    with pytest.raises(sr.DuplicateKeyError):
        sr.write([Piece("a", 0), Piece("a", 0)], tmp_path / "e")
    with pytest.raises(sr.DuplicateKeyError, match="already"):
        sr.write([Piece("a", 2), Piece("a", 1)], tmp_path / "d", append=True)


# Append and overwrite


def test_append(tmp_path: Path) -> None:
    """An append adds a generation of shards; what was there stays, byte for byte, in its split."""
    shares = {"train": 0.6, "eval": 0.4}
    sr.write(items(100), tmp_path / "d", splits=shares, seed=9, csv=True, metadata={"a": 1}, assets={"v": "old"})
    before = {path: path.read_bytes() for path in (tmp_path / "d").rglob("*") if path.is_file()}
    manifest = sr.write(items(50, 100), tmp_path / "d", append=True, shards=2, csv=True, assets={"v": "new", "w": "w"})
    assert manifest == sr.info(tmp_path / "d")
    assert (manifest.generation, manifest.records, manifest.metadata) == (1, 150, {"a": 1})
    assert {name: path.read_text() for name, path in manifest.assets.items()} == {"v": "new", "w": "w"}
    assert all(path.read_bytes() == data for path, data in before.items() if path.name != "manifest.json")
    assert "train-g0001-00001-of-00002.tfrecord" in names(tmp_path / "d" / "train")
    sr.write(items(150), tmp_path / "whole", splits=shares, seed=9)
    assert keys_by_split(tmp_path / "d") == keys_by_split(tmp_path / "whole")
    for name in shares:
        assert keys(tmp_path / "d", name) == keys(tmp_path / "whole", name)
    assert (
        len(read_csv(tmp_path / "d" / "train" / "examples-g0001.csv"))
        + len(read_csv(tmp_path / "d" / "eval" / "examples-g0001.csv"))
        == 50
    )
    assert sr.verify(tmp_path / "d").ok
    assert names(tmp_path) == ["d", "whole"]


@sr.record
class Bare:
    number: int = sr.context("int64")


def test_append_by_position(tmp_path: Path) -> None:
    """Without keys, an append continues with the positions, so that it splits as one write would have."""
    shares = {"train": 0.5, "eval": 0.5}
    sr.write(map(Bare, range(50)), tmp_path / "d", splits=shares)
    sr.write(map(Bare, range(50, 100)), tmp_path / "d", append=True)
    sr.write(map(Bare, range(100)), tmp_path / "whole", splits=shares)
    for name in shares:
        one, other = ([r.number for r in sr.read_records(tmp_path / d, name)] for d in ("d", "whole"))
        assert one == other


def test_append_finds_duplicates(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A key of an earlier generation is a duplicate, and positions are those of the records now given."""
    sr.write(items(10), tmp_path / "d", shards=3)
    before = digest(tmp_path / "d")
    with pytest.raises(
        sr.DuplicateKeyError, match="record 1 .key 'k3'.: has the key of a record that is in .* already"
    ):
        sr.write([Item("new"), Item("k3")], tmp_path / "d", append=True)
    with pytest.raises(sr.DuplicateKeyError, match="record 1 .key 'new'.: has the key of record 0;"):
        sr.write([Item("new"), Item("new")], tmp_path / "d", append=True)
    assert digest(tmp_path / "d") == before
    manifest = sr.write([Item("new"), Item("k3")], tmp_path / "d", append=True, on_duplicate="first")
    assert (manifest.records, manifest.skipped) == (11, 1)
    assert [record.message for record in caplog.records] == [f"{tmp_path / 'd'}: 1 record skipped"]
    with pytest.raises(sr.DuplicateKeyError):
        sr.write([Item("new")], tmp_path / "d", append=True)


@sr.record
class Wider:
    key: str = sr.context(str, key=True)
    group: bytes = sr.context(bytes, default=b"")
    ids: np.ndarray = sr.feature_list("int32", default=())
    more: int = sr.context("int64", default=0)


@sr.record
class Keyed:
    key: str = sr.context(str, key=True)


def test_append_finds_duplicates_in_every_shard(tmp_path: Path) -> None:
    """A key of any shard is found; and damage is named."""
    path = tmp_path / "lines"
    sr.write([Keyed(f"0-{n}") for n in range(5)], path)
    for generation in range(1, 5):
        sr.write([Keyed(f"{generation}-{n}") for n in range(5 * generation)], path, shards=2, append=True)
    for key in ("0-0", "0-4", "2-0", "4-19"):
        with pytest.raises(sr.DuplicateKeyError, match="in .* already"):
            sr.write([Keyed("new"), Keyed(key)], path, append=True)
    assert sr.write([Keyed("0-5"), Keyed("4-19")], path, append=True, on_duplicate="first").records == 56
    shard = sorted(path.rglob("*.tfrecord"))[3]
    data = bytearray(shard.read_bytes())
    data[-6] ^= 1
    shard.write_bytes(data)
    with pytest.raises(sr.ShardReadError, match=f"{shard.name}: damaged"):
        sr.write([Keyed("other")], path, append=True)


def test_append_of_another_schema(tmp_path: Path) -> None:
    """Other fields are refused, with a line for each."""
    sr.write(items(3), tmp_path / "d")
    with pytest.raises(sr.SchemaMismatchError) as caught:
        sr.write([Wider("a")], tmp_path / "d", append=True)
    assert {line.partition(":")[0] for line in caught.value.differences} == {"group", "ids"}
    assert "Give the class all of them" in str(caught.value)
    assert "which loses the fields that the class lacks" in str(caught.value)
    assert "int32 in the class" in str(caught.value)


def test_append_names_only_what_stands_in_the_way(tmp_path: Path) -> None:
    """New fields that records may lack are not listed beside the one that is refused."""

    def schema(dtype: str, **more: Any) -> type:
        return attrs.make_class("Row", {"x": sr.context(dtype), **more})

    old, new = schema("int64"), schema("int32", n=sr.context("int64", default=3))
    sr.write([old(1)], tmp_path / "d")
    with pytest.raises(sr.SchemaMismatchError) as caught:
        sr.write([new(1)], tmp_path / "d", append=True)
    assert [line.partition(":")[0] for line in caught.value.differences] == ["x"]


def test_append_keeps_the_rules(tmp_path: Path) -> None:
    """Seed, shares, group and compression are those of the dataset; others are refused, equal ones are fine."""
    shares = {"a": 0.5, "b": 0.5}
    sr.write(items(30), tmp_path / "d", splits=shares, split_by="group", seed=5)
    for options, message in [
        ({"seed": 6}, "seed=5"),
        ({"splits": {"a": 0.4, "b": 0.6}}, "written with splits="),
        ({"split_by": "key"}, "split_by='group'"),
        ({"compression": "GZIP"}, "compression=None"),
    ]:
        with pytest.raises(sr.OptionError, match=message):
            sr.write(items(1, 100), tmp_path / "d", append=True, **options)
    sr.write(items(30, 30), tmp_path / "d", append=True, splits=shares, split_by="group", seed=5)
    sr.write(items(30, 60), tmp_path / "d", append=True)
    a, b = ({record.group for record in sr.read_records(tmp_path / "d", name)} for name in shares)
    assert not a & b
    with pytest.raises(sr.DatasetNotFoundError):
        sr.write(items(3), tmp_path / "absent", append=True)


def test_append_to_a_function(tmp_path: Path) -> None:
    """A dataset that a function split wants the function again."""
    sr.write(items(3), tmp_path / "d", splits={"a": 1.0}, split_by=lambda record: record.group)
    with pytest.raises(sr.OptionError, match="pass the same as split_by="):
        sr.write(items(3, 3), tmp_path / "d", append=True)
    assert sr.write(items(3, 3), tmp_path / "d", append=True, split_by=lambda record: record.group).records == 6


def test_append_to_named_folds(tmp_path: Path) -> None:
    """Where records name their splits, an append says so again; it never invents a split."""
    sr.write(items(14), tmp_path / "d", splits="group")
    with pytest.raises(sr.OptionError, match="say where new records belong"):
        sr.write(items(7, 14), tmp_path / "d", append=True)
    with pytest.raises(sr.OptionError, match="named record by record; leave splits= out"):
        sr.write(items(7, 14), tmp_path / "d", append=True, splits={"g0": 1.0})
    sr.write(items(7, 14), tmp_path / "d", append=True, splits="group")
    manifest = sr.write({"g0": items(1, 21), "new": items(1, 22)}, tmp_path / "d", append=True)
    assert {name: split.records for name, split in manifest.splits.items()} == {
        **{f"g{i}": 3 for i in range(7)},
        "g0": 4,
        "new": 1,
    }


def test_append_to_a_rewritten_dataset(tmp_path: Path) -> None:
    """A dataset that was rewritten split by split has no rule any more: an append asks for the split."""
    shares = {"train": 0.5, "eval": 0.5}
    sr.write(items(30), tmp_path / "d", splits=shares, split_by="group")
    kept = {name: list(sr.read_records(tmp_path / "d", name)) for name in shares}
    sr.write(kept, tmp_path / "d", overwrite=True)
    for first in (None, "train"):
        with pytest.raises(sr.OptionError, match="a mapping of split names"):  # noqa: PT012, SIM117
            with sr.Writer(tmp_path / "d", Item, append=True) as writer:
                writer.write(Item("a"), split=first)
                writer.write(Item("b"))
    assert sr.write({"eval": items(2, 30)}, tmp_path / "d", append=True).records == 32
    sr.write({"train": items(2)}, tmp_path / "one")
    assert sr.write(items(2, 2), tmp_path / "one", append=True).records == 4


def test_overwrite(tmp_path: Path) -> None:
    """An overwrite replaces everything, under names of its own, so that no reader mixes the two."""
    sr.write(items(10), tmp_path / "d", splits="group", assets={"v": "old"})
    manifest = sr.write(items(3), tmp_path / "d", overwrite=True, assets={"w": "new"})
    assert manifest == sr.info(tmp_path / "d")
    assert names(tmp_path / "d") == ["assets", "manifest.json", "train"]
    assert manifest.splits["train"].shards[0].name == "train-g0001-00000-of-00001.tfrecord"
    assert list(manifest.assets) == ["w"]
    assert sr.verify(tmp_path / "d").ok


def test_overwrite_without_exchange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where directories cannot be exchanged, new files go beside the old ones, which go after the manifest."""
    sr.write(items(10), tmp_path / "d", splits="group", csv=True, assets={"v": "old", "u": "old"})
    (tmp_path / "d" / "mine").write_text("kept")
    monkeypatch.setattr("seqrecorder.storage.publish.exchange_now", lambda _one, _other: errno.EINVAL)
    calls: list[tuple[str, str]] = []
    with on_fault_point(lambda name, path: calls.append((name, Path(path).name))):
        manifest = sr.write(items(3), tmp_path / "d", overwrite=True, csv=True, assets={"v": "new"})
    assert manifest == sr.info(tmp_path / "d")
    assert names(tmp_path / "d") == ["assets", "manifest.json", "mine", "train"]
    assert names(tmp_path / "d" / "train") == [
        "examples-g0001.csv",
        "train-g0001-00000-of-00001.lengths",
        "train-g0001-00000-of-00001.tfrecord",
    ]
    assert manifest.assets["v"].read_text() == "new"
    assert names(tmp_path / "d" / "assets") == ["g0001"]
    assert keys(tmp_path / "d", "train") == ["k0", "k1", "k2"]
    assert sr.verify(tmp_path / "d").ok
    replaced = calls.index(("after_rename", "manifest.json"))
    assert all(i > replaced for i, (name, _) in enumerate(calls) if name == "before_remove")
    assert names(tmp_path) == ["d"]
    again = sr.write(items(5), tmp_path / "d", overwrite=True)
    assert (again.generation, keys(tmp_path / "d", "train")) == (2, [f"k{i}" for i in range(5)])
    assert names(tmp_path / "d") == ["manifest.json", "mine", "train"]


# Failing disks


def attempts(tmp_path: Path, write: Any, failure: BaseException) -> Any:
    """Fail the 1st, 2nd, ... file operation of `write(directory)`, and yield each directory and what came of it."""
    for number in range(1, 5000):
        directory = tmp_path / str(number)
        hook = FailAt(number, failure)
        error = None
        directory.mkdir()
        try:
            write(directory, hook)
        except type(failure) as caught:
            error = caught
        except sr.DatasetError as caught:
            error = caught
        yield directory, error
        if hook.seen < number:
            assert error is None
            return
    pytest.fail("operations without end")


@pytest.mark.parametrize("options", [{"shards": 2}, {"shard_bytes": 100, "compression": "GZIP"}, {"shuffle": True}])
def test_disk_full(tmp_path: Path, options: dict[str, Any]) -> None:
    """A full disk at the 1st, 2nd, ... operation is a ShardWriteError; nothing is there, and nothing is left."""

    def write(directory: Path, hook: Any) -> None:
        with on_fault_point(hook):
            sr.write(items(6), directory / "d", csv=True, assets={"v": "x"}, splits={"a": 0.5, "b": 0.5}, **options)

    failures = 0
    for directory, error in attempts(tmp_path, write, OSError(errno.ENOSPC, "No space left on device")):
        if error is None:
            assert names(directory) == ["d"]
            continue
        failures += 1
        assert type(error) is sr.ShardWriteError
        assert error.errno == errno.ENOSPC
        assert str(directory) in str(error)
        assert names(directory) == []
    assert failures > 40


@pytest.mark.parametrize(
    ("mode", "failure"),
    [
        ("append", OSError(errno.EIO, "Input/output error")),
        ("append", KeyboardInterrupt()),
        ("overwrite", OSError(errno.EIO, "Input/output error")),
        ("overwrite in place", OSError(errno.EIO, "Input/output error")),
    ],
)
def test_failure_beside_an_old_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, failure: BaseException
) -> None:
    """A failure at any operation of an append or overwrite leaves the old dataset, and nothing beside it."""
    if mode == "overwrite in place":
        monkeypatch.setattr("seqrecorder.storage.publish.exchange_now", lambda _one, _other: errno.EINVAL)
    options: Any = {"append": True} if mode == "append" else {"overwrite": True}
    sr.write(items(4), tmp_path / "old" / "d", csv=True, assets={"v": "old"})
    before = digest(tmp_path / "old")

    def write(directory: Path, hook: Any) -> None:
        copy_tree(tmp_path / "old" / "d", directory / "d")
        with on_fault_point(hook):
            sr.write(items(2, 4), directory / "d", csv=True, assets={"v": "new"}, **options)

    failures = 0
    for directory, error in attempts(tmp_path, write, failure):
        failures += error is not None
        manifest = sr.info(directory / "d")
        if error is not None and isinstance(failure, OSError):
            assert manifest.generation == 0
        if manifest.generation == 0:
            assert digest(directory) == before
        assert manifest.assets["v"].read_text() == ("new" if manifest.generation else "old")
        assert names(directory) == ["d"]
        # An old file that could not be removed harms nobody.
        left = [str(problem) for problem in sr.verify(directory / "d", level="quick").problems]
        assert len(left) <= (1 if mode == "overwrite in place" else 0)
        assert all("does not know" in problem for problem in left)
    assert failures > 20


def copy_tree(source: Path, target: Path) -> None:
    import shutil

    shutil.copytree(source, target)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux only")
def test_what_tensorflow_says_of_a_full_disk(tmp_path: Path) -> None:
    """TensorFlow's own errors become ours too, with the shard, its bytes and the system's number."""
    from seqrecorder.storage.shard_writer import ShardWriter

    link = tmp_path / "full.tfrecord"
    link.symlink_to("/dev/full")
    shard = ShardWriter(link, tmp_path / "full.lengths", None)
    with pytest.raises(sr.ShardWriteError, match=r"records and .* bytes.*full\.tfrecord") as caught:  # noqa: PT012
        for _ in range(64):
            shard.write([bytes(1 << 16)], np.zeros((1, 1), np.int64))
        shard.close()
    assert caught.value.errno == errno.ENOSPC
    shard.abandon()


# Determinism


SCRIPT = """
import sys
import seqrecorder as sr
from workers_at_once import at_once
from written_records import Clip, items
at_once()
options = dict(splits={"train": .7, "eval": .2, "test": .1}, seed=7, csv=True, shuffle=True, metadata={"b": 1, "a": 2})
if __name__ == "__main__":
    for run, workers in enumerate(map(int, sys.argv[2:])):
        place = f"{sys.argv[1]}/{run}"
        sr.write(items(500), place + "/items", shards=3, split_by="group", **options)
        clips = [Clip(f"c{i}", size=i * 7) for i in range(80)]
        params = {"length": 100, "scale": 0.5}
        sr.write(clips, place + "/clips", workers=workers, params=params, **options)
"""


@pytest.mark.parametrize(
    "runs",
    [
        {"0": [1] * 10, "12345": [2] + [1] * 9},
        pytest.param({"0": [1, 2, 8], "1": [8, 2, 1], "random": [1] * 14}, marks=pytest.mark.nightly),
    ],
    ids=["20 runs", "eight workers"],
)
def test_same_bytes(tmp_path: Path, runs: dict[str, list[int]], figure: Any) -> None:
    """Same records, schema and seed give the same bytes in 20 runs, whatever the workers and PYTHONHASHSEED."""
    (tmp_path / "script.py").write_text(SCRIPT)
    processes = []
    for hash_seed, workers in runs.items():
        environment = {
            **os.environ,
            "PYTHONHASHSEED": hash_seed,
            "PYTHONPATH": ":".join([str(Path(__file__).parent), *(p or "." for p in sys.path)]),
        }
        command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / hash_seed), *map(str, workers)]
        processes.append(subprocess.Popen(command, env=environment))
    assert {process.wait(200) for process in processes} == {0}
    digests = [digest(run) for hash_seed in runs for run in (tmp_path / hash_seed).iterdir()]
    assert (len(digests), len(set(digests))) == (20, 1)
    figure(6, "writes by 1, 2 and 8 workers under several hash seeds", len(digests), "the same bytes")


@pytest.mark.parametrize("split", ["../up", "/up", "a/b", "..", "a\0"])
def test_a_split_that_is_no_plain_name_is_refused_at_once(tmp_path: Path, split: str) -> None:
    """A name of a split that would leave the dataset is refused with the record it comes with."""
    [record] = items(1)
    with sr.Writer(tmp_path / "c", Item) as writer, pytest.raises(sr.OptionError, match="plain file name"):
        writer.write(record, split=split)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c"]


def test_chunks_do_not_matter(tmp_path: Path) -> None:
    """However records are gathered for encoding, the bytes are the same."""
    large = [Item(f"large{i}", ids=np.zeros(300_000, np.int64)) for i in range(9)]  # three fill a piece
    records = [*items(1000), *large, *items(2000, 1000)]
    options: dict[str, Any] = {"splits": {"a": 0.5, "b": 0.5}, "shard_bytes": 50_000, "csv": True}
    for source in (list, iter):
        sr.write(source(records), tmp_path / source.__name__, **options)
    for size in (1, 1500):
        with sr.Writer(tmp_path / str(size), Item, **options) as writer:
            writer.write(records[0])
            for start in range(1, len(records), size):
                writer.write_all(records[start : start + size])
    assert len({digest(path) for path in tmp_path.iterdir()}) == 1


def test_subclass_has_its_own_fields(tmp_path: Path) -> None:
    """A subclass adds to the fields of its parent, and changes nothing in it."""

    @sr.record
    class Parent:
        a: int = sr.context("int64")

    @sr.record
    class Child(Parent):
        b: int = sr.context("int64")

    sr.write([Child(1, 2)], tmp_path / "child")
    sr.write([Parent(1)], tmp_path / "parent")
    assert [field.name for field in sr.info(tmp_path / "child").schema.fields] == ["a", "b"]
    assert [field.name for field in sr.info(tmp_path / "parent").schema.fields] == ["a"]


@sr.record
class Exact:
    value: float = sr.context("float64")
    grid: np.ndarray = sr.context("float64", shape=(2, 3))


def test_doubles_and_shapes_stay(tmp_path: Path) -> None:
    """A double is stored as a double, and an array keeps its shape."""
    grid = np.arange(6).reshape(2, 3) / 7
    sr.write([Exact(1 / 3, grid)], tmp_path / "d")
    (back,) = sr.read_records(tmp_path / "d", schema=Exact)
    assert back.value == 1 / 3
    assert back.grid.shape == (2, 3)
    assert (back.grid == grid).all()


def test_plain_dataclasses_are_refused(tmp_path: Path) -> None:
    """What is no record class is an error that says how to make one."""

    @dataclasses.dataclass
    class Plain:
        a: int = 0

    with pytest.raises(sr.SchemaError, match=r"seqrecorder\.record"):
        sr.write([Plain()], tmp_path / "d")


@pytest.mark.parametrize("size", [1, 500, 100_000])
def test_tensorflow_and_numpy_write_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Who makes the frames of records depends on their size and on what is loaded; the bytes do not."""
    records = [Item(f"{n}", "", np.full(size, n)) for n in range(5)]
    made = {}
    for faster in (True, False):
        monkeypatch.setattr(shard_writer, "tensorflow_is_faster", lambda _, faster=faster: faster)
        sr.write(records, tmp_path / str(faster))
        made[faster] = [path.read_bytes() for path in sorted((tmp_path / str(faster)).rglob("*.tfrecord"))]
    assert made[True] == made[False]


def test_errors_of_tensorflow_files_are_those_of_the_system(tmp_path: Path) -> None:
    """What TensorFlow says of a file becomes an error with the system's number."""
    with pytest.raises(FileNotFoundError) as caught:
        shard_writer.TensorFlowFile(tmp_path / "none" / "x")
    assert caught.value.errno == errno.ENOENT
    assert "none/x" in caught.value.strerror
