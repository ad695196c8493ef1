"""Tables of shards: a manifest of thousands says what one object for each would, and all that it says is checked."""

import json
import random
from pathlib import Path

import attrs
import numpy as np
import pytest
from shard_tables import write_table
from written_records import Item, items

import seqrecorder as sr
from seqrecorder.dataset.manifest import (
    ShardInfo,
    SplitInfo,
    bins_text,
    is_as_written,
    parse_manifest,
)
from seqrecorder.dataset.record_store import WrittenOrder
from seqrecorder.dataset.selection import rows_of
from seqrecorder.dataset.split_shares import lowest_ranked, ranked
from seqrecorder.storage import files as names

COUNT = 1200


def shard(number: int, count: int = COUNT) -> ShardInfo:
    digest = f"{number:064x}"
    bins = ((number % 7, 2), (20, 1))[number % 2 :]
    name = f"train-{number:05d}-of-{count:05d}.tfrecord"
    return ShardInfo(name, 3, 24, 100 + number, digest, digest[::-1], bins_text(bins), 3 * number, 1)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> sr.Manifest:
    manifest = sr.write(items(1), tmp_path_factory.mktemp("table") / "items")
    return attrs.evolve(manifest, splits={"train": SplitInfo("train", tuple(map(shard, range(COUNT))))})


def test_a_table_is_the_shards(many: sr.Manifest) -> None:
    """Shards that are read from a table are those that were written, by index and slice, and are written alike."""
    text = many.to_json()
    found = parse_manifest(text, many.path)
    table, ours = found.splits["train"], many.splits["train"]
    assert json.loads(text)["splits"]["train"]["shards"]["bytes"] == [shard.bytes for shard in ours.shards]
    assert found == many
    assert is_as_written(text)
    assert found.to_json() == text == attrs.evolve(many, splits={"train": SplitInfo("train", table.shards)}).to_json()
    assert {type(value) for value in attrs.astuple(table.shards[5])} == {str, int}
    assert table.bins == table.sum_bins() == ours.bins
    assert sum(records for _, records in ours.bins) == sum(n for each in ours.shards for _, n in each.histogram)
    assert (found.records, found.steps, found.bytes) == (many.records, many.steps, many.bytes)
    assert len(text) < 300 * COUNT


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("name", "../../etc/passwd.tfrecord", "a '/'"),
        ("name", "train-00001-of-01200.tfrecord", "got 'train-00001-of-01200.tfrecord' as well"),
        ("name", "TRAIN-00001-of-01200.tfrecord", "differ by more than case"),
        ("name", "nul.tfrecord", "reserves for a device"),
        ("name", "train.txt", "ends with '.tfrecord'"),
        ("name", 5, "a name as str"),
        ("records", -1, "a count, got -1"),
        ("records", True, "a count, got True"),
        ("bytes", 1 << 63, "a count, got 9"),
        ("start", "1", "a count, got '1'"),
        ("sha256", "0" * 63, "SHA-256s in hex"),
        ("sha256", "G" * 64, "SHA-256s in hex"),
        ("lengths_sha256", None, "SHA-256s in hex"),
        ("histogram", "3:x", "histograms, pairs"),
        ("histogram", [[3, 1]], "histograms, pairs"),
    ],
)
def test_whatever_a_table_says(many: sr.Manifest, name: str, value: object, problem: str) -> None:
    """A name that leaves the dataset or comes twice, and what is no count, digest or histogram, is refused."""
    data = json.loads(many.to_json())
    data["splits"]["train"]["shards"][name][7] = value
    with pytest.raises(sr.ManifestError, match=problem):
        parse_manifest(json.dumps(data), many.path)
    del data["splits"]["train"]["shards"][name][7]
    with pytest.raises(sr.ManifestError, match="lists of one length"):
        parse_manifest(json.dumps(data), many.path)
    del data["splits"]["train"]["shards"][name]
    with pytest.raises(sr.ManifestError, match=name):
        parse_manifest(json.dumps(data), many.path)


@pytest.mark.parametrize("text", ["3", "3:1:2", "3: 1", ":", f"{1 << 63}:1", "3:1 4"])
def test_histograms_that_are_none(many: sr.Manifest, text: str) -> None:
    """Of thousands of shards a histogram is parsed when it is asked for, and refused then; that of all, at once."""
    data = json.loads(many.to_json())
    data["splits"]["train"]["shards"]["histogram"][7] = text
    shards = parse_manifest(json.dumps(data), many.path).splits["train"].shards
    with pytest.raises(sr.ManifestError, match="a histogram, pairs of counts such as"):
        shards[7].histogram  # noqa: B018 - that it raises
    data["splits"]["train"]["shards"]["together"] = text
    with pytest.raises(sr.ManifestError, match="a histogram, pairs of counts such as"):
        parse_manifest(json.dumps(data), many.path)


@pytest.mark.parametrize(
    ("name", "old", "new", "problem"),
    [
        ("sha256", '", "', '","', None),
        ("sha256", '", "', '", 5, "', "lists of one length|SHA-256s in hex"),
        ("sha256", "0", "x", "SHA-256s in hex"),
        ("lengths_sha256", '", "', "", "lists of one length"),
        ("histogram", '", "', '"  ,"', None),
        ("histogram", '", "', '"5, "', "histograms, pairs|JSON"),
        ("histogram", ":", "\\n", "histograms, pairs"),
        ("histogram", "2", "é", "histograms, pairs"),
    ],
)
def test_edited_columns(many: sr.Manifest, name: str, old: str, new: str, problem: str | None) -> None:
    """Any edit of a column's text that leaves its values gives the same shards, and every other an error."""
    text = many.to_json()
    before, column_, rest = text.partition(f'"{name}": [')
    edited = f"{before}{column_}{rest.replace(old, new, 1)}"
    if problem is None:
        assert parse_manifest(edited, many.path) == many
        return
    with pytest.raises(sr.ManifestError, match=problem):
        parse_manifest(edited, many.path).splits["train"].sum_bins()


def test_a_number_is_no_column(many: sr.Manifest) -> None:
    """Where a list of histograms is expected, a number is refused."""
    before, _, rest = many.to_json().partition('"histogram": ["')
    with pytest.raises(sr.ManifestError, match="columns of shards, lists of one length"):
        parse_manifest(f'{before}"histogram": 0{rest[rest.index("]") + 1 :]}', many.path)


def test_a_dataset_with_a_table(tmp_path: Path) -> None:
    """Whatever is done with a dataset goes with a table, too, and gives the same."""
    path, url = tmp_path / "items", "memory://tables/items"
    sr.write(items(40), path, shards=3)
    sr.write(items(80)[40:], write_table(path), append=True, shards=2, on_duplicate="first")
    write_table(path)
    assert sr.verify(path, level="full").ok
    assert [record.key for record in sr.read_records(path)] == [record.key for record in items(80)]
    train = sr.open(path)["train"]
    assert train[50].key == items(80)[50].key
    assert train.lengths().sum() == sr.info(path).steps
    assert sr.push(path, url).records == 80
    assert sr.verify(write_table(url)).ok
    assert sr.pull(url, tmp_path / "pulled").to_json() == sr.info(path).to_json()
    text = (path / "manifest.json").read_text()
    (path / "manifest.json").write_text(text.replace('"together": "', '"together": "1:1 '))
    assert not sr.verify(path).ok
    (path / "manifest.json").write_text(text)
    assert sr.rewrite(path, drop=sr.open(path)["train"][:30], schema=Item).records == 50
    assert sr.verify(path, level="full").ok
    sr.salvage(path, tmp_path / "salvaged")
    assert sr.info(tmp_path / "salvaged").records == 50


def test_ordinary_names() -> None:
    """Names of shards that are not looked at closely are those that a close look takes."""
    draw = random.Random(3)
    parts = ["a", "B", "b", "con", "COM1", ".", "-", "-", "_", "/", " ", "é", "\n", "x" * 90, "0"]
    texts = ["".join(draw.choices(parts, k=draw.randrange(1, 5))) + ".tfrecord" for _ in range(6000)]
    ordinary = [text for text in texts if names._ORDINARY.fullmatch(text)]
    assert 50 < len(set(ordinary)) < len(ordinary)
    with pytest.raises(sr.OptionError, match="differ by more than case"):
        names.check_names(["a-0.tfrecord", "a-0.tfrecord"], "shard")
    assert not names._ORDINARY.fullmatch("Z.tfrecord"), "for which all are looked at closely"
    looked_at = (*dict.fromkeys(ordinary), "Z.tfrecord")
    assert names.check_names(looked_at, "shard") == looked_at


def test_written_order_of_many_groups() -> None:
    """Records are found where they are, dealt to shards in turn, lost from some, or one behind the other."""
    draw = random.Random(4)
    for _ in range(60):
        shards, expected, start = list[ShardInfo](), list[tuple[int, int]](), 0
        for _ in range(draw.randrange(1, 6)):
            step, records = draw.randrange(1, 5), draw.randrange(9)
            counts = [len(range(first, records, step)) for first in range(step)]
            if draw.random() < 0.3:
                counts = [draw.randrange(count + 1) for count in counts]
            rows = [(row, len(shards) + number) for number, count in enumerate(counts) for row in range(count)]
            expected += [(number, row) for row, number in sorted(rows)]
            shards += [
                attrs.evolve(shard(0), records=count, start=start + n, step=step) for n, count in enumerate(counts)
            ]
            start += max(records, step)
        cut = draw.randrange(len(shards) + 1)
        cut = next((n for n in range(cut, len(shards)) if shards[n].step == 1), len(shards))
        order = WrittenOrder([tuple(shards[:cut]), tuple(shards[cut:])])
        assert order.records == len(expected)
        files, rows = order.find(np.arange(order.records))
        assert list(zip(files.tolist(), rows.tolist(), strict=True)) == expected
        assert list(map(order.find_one, range(order.records))) == expected


def test_the_lowest_ranks() -> None:
    """Records are drawn from windows as from all at once, of a range or an array, of one split or of several."""
    splits = {"train": range(90_000), "eval": range(90_000, 100_000)}
    draw = np.random.default_rng(0)
    for positions in (range(100_000), range(99_999, 3, -2), draw.permutation(100_000)[:70_000]):
        ranks = ranked(splits, np.asarray(positions), 3)
        for count in (0, 1, 50, 30_000, len(positions) - 1):
            wanted = np.sort(np.argsort(ranks)[:count])
            assert np.array_equal(lowest_ranked(splits, positions, 3, count), wanted)


def test_places_of_a_range(many: sr.Manifest) -> None:
    """Places are chosen from a range of positions as from an array of them, from its end too."""
    sr.write(items(20), many.path.parent / "twenty")
    train = sr.open(many.path.parent / "twenty")["train"]
    backwards, chosen = train[::-1], np.array([3, -1, 0, -20], np.int8)
    for selection in (train, backwards):
        assert np.array_equal(rows_of(selection[chosen]).array(), rows_of(selection).array()[chosen])
