"""Many shards: records that were dealt to them come from all in turn; of thousands, the manifest's columns are used."""

import itertools
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from shard_tables import write_table

import seqrecorder as sr
from seqrecorder.dataset.checked_shards import Selected, resolve_dataset
from seqrecorder.dataset.manifest import read_manifest
from seqrecorder.storage.shard_reader import block_for


@sr.record
class Row:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int64")


ROWS = [Row(f"k{n}", np.arange(n % 5)) for n in range(101)]


@pytest.mark.parametrize("compression", [None, pytest.param("GZIP", marks=pytest.mark.nightly)])
def test_many_dealt_shards_are_read_in_written_order(tmp_path, compression):
    """Though each is read in several blocks, records come in written order; and damage is found."""
    path = tmp_path / "rows"
    ids = [np.arange(2000 + n) for n in range(5)]
    rows = [Row(f"k{n}", ids[n % 5]) for n in range(1000)]
    written = sr.write(rows, path, shards=3, compression=compression)
    assert compression or written.bytes > 3 * block_for(written.bytes // len(rows))

    def read(**options):
        found = sr.read_records(path, schema=Row, **options)
        return [(int(row.key[1:]), row.ids.size, int(row.ids.sum())) for row in found]

    expected = [(n, row.ids.size, int(row.ids.sum())) for n, row in enumerate(rows)]
    assert read() == read(check="full") == expected
    parts = [read(shard=(index, 2)) for index in range(2)]
    assert [sorted(part) for part in parts] == parts
    assert sorted(parts[0] + parts[1]) == expected
    shard = path / "train" / "train-00002-of-00003.tfrecord"
    data = bytearray(shard.read_bytes())
    data[-9] ^= 1
    shard.write_bytes(data)
    with pytest.raises(sr.ShardReadError, match=r"00002-of-00003.*damaged"):
        list(sr.read_records(path))


def test_counts_of_many_dealt_shards_are_asserted(tmp_path):
    """A shard that ends too early is named, where many are read in turn as well."""
    path = tmp_path / "rows"
    sr.write(ROWS, path, shards=7)
    shard = path / "train" / "train-00002-of-00007.tfrecord"
    first = int.from_bytes(shard.read_bytes()[:8], "little") + 16
    shard.write_bytes(shard.read_bytes()[:first])
    with pytest.raises(sr.ShardReadError, match=r"00002-of-00007.*expected 15 records, got 1"):
        list(sr.read_records(path, check="none"))


@sr.record
class Line:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int64")
    others: np.ndarray = sr.feature_list("int64", align=None)


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same dataset twice: as it is, and with the manifest of one that has thousands of shards."""
    draw = np.random.default_rng(0)
    sizes = draw.integers(0, 12, (300, 2)).tolist()
    records = [Line(str(number), range(size), range(other)) for number, (size, other) in enumerate(sizes)]
    few, many = tmp_path_factory.mktemp("few") / "lines", tmp_path_factory.mktemp("many") / "lines"
    sr.write({"train": records[:250], "eval": records[250:]}, few, shard_bytes=2000)
    shutil.copytree(few, many)
    write_table(many)
    assert len(sr.info(many).splits["train"].shards) > 8
    return few, many


class Unchecked(Selected):
    """The training split of a dataset, no file of which is checked before the first record, as of thousands."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _resolve(self, *, schema: object, check: Any, on_corrupt: Any, lengths_only: bool) -> Any:
        del lengths_only  # the files of a split are where they are
        return resolve_dataset(read_manifest(self.path), "train", schema, check, on_corrupt, most=1)


READS: dict[str, dict[str, Any]] = {
    "single": {"index_name": "place"},
    "padded": {"batch": sr.Pad(4), "shuffle": 50, "seed": 3, "epochs": 2},
    "buckets": {"batch": sr.Bucket(4), "shuffle": 50, "seed": 3},
    "without empty ones": {"batch": sr.Bucket(4, empty="drop")},
    "other lengths": {"batch": sr.Bucket(4, length_field="others", boundaries="quantile")},
    "both lengths": {"batch": sr.Bucket(4, length_field=("ids", "others"), length_of="sum")},
    "sorted": {"batch": sr.Bucket(4, boundaries="sorted"), "max_length": 9},
    "cropped": {"batch": sr.Bucket(4, pad_to_bucket_boundary=True), "steps": slice(5)},
    "budget": {"batch": sr.TokenBudget(40, too_long="drop"), "shuffle": 20, "seed": 1},
    "a share": {"batch": sr.Bucket(3), "shard": (1, 3)},
    "whole files": {"batch": sr.Bucket(3), "shard": (0, 1), "check": "full"},
    "packed": {"batch": sr.Pack(30, 2), "fields": ["key", "ids"]},
}


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("padded", "buckets", "budget", "a share") else pytest.param(name, marks=pytest.mark.nightly)
        for name in READS
    ],
)
def test_thousands_of_shards_are_read_as_few(lines: tuple[Path, Path], name: str) -> None:
    """Whatever is planned from the manifest's columns and histogram is what the files of lengths say."""
    few, many = sr.read(lines[0], "train", **READS[name]), sr.read(Unchecked(lines[1]), **READS[name])
    assert few.cardinality() == many.cardinality()
    for ours, theirs in zip(few, many, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, dict(theirs), dict(ours))


def keys_of(batches: Any) -> list[bytes]:
    """Return the keys of all records of batches, in their order."""
    return [key for batch in batches for key in batch["key"].numpy().tolist()]


def test_thousands_of_shards_are_resumed_and_shared(lines: tuple[Path, Path], tmp_path: Path) -> None:
    """A saved iterator goes on where it was, and of two workers of tf.data's service each gives a part."""

    def opened() -> Any:
        return sr.read(Unchecked(lines[1]), batch=sr.Bucket(4), fields=["key", "ids"], shuffle=50, seed=3)

    before, after = iter(opened()), iter(opened())
    head = keys_of(itertools.islice(before, 20))
    saved = tf.train.Checkpoint(iterator=before).save(str(tmp_path / "saved"))
    tf.train.Checkpoint(iterator=after).restore(saved).assert_consumed()
    whole = keys_of(opened())
    assert [*head, *keys_of(after)] == [*head, *keys_of(before)] == whole
    assert len(set(whole)) == 250

    dispatcher = tf.data.experimental.service.DispatchServer()
    config = tf.data.experimental.service.WorkerConfig(dispatcher_address=dispatcher.target.split("://")[1])
    workers = [tf.data.experimental.service.WorkerServer(config) for _ in range(2)]
    policy = tf.data.experimental.service.ShardingPolicy.DYNAMIC
    served = opened().apply(tf.data.experimental.service.distribute(policy, dispatcher.target))
    assert sorted(keys_of(served)) == sorted(whole)
    del workers


def test_selections_and_plans_of_thousands_of_shards(lines: tuple[Path, Path]) -> None:
    """A whole split, its records and a plan are the same."""
    few, many = (sr.open(path) for path in lines)
    assert sr.plan(few["train"], sr.Bucket(4)) == sr.plan(many["train"], sr.Bucket(4))
    read = [list(sr.read(each["train"], batch=sr.Pad(50), fields=["key"])) for each in (few, many)]
    assert [batch["key"].numpy().tolist() for batch in read[0]] == [batch["key"].numpy().tolist() for batch in read[1]]
    assert [record.key for record in many["train"]] == [record.key for record in sr.read_records(lines[1], "train")]


def test_damage_to_thousands_of_shards_is_found_in_its_turn(lines: tuple[Path, Path], tmp_path: Path) -> None:
    """A shard that is missing, short or replaced by a link is an error, if not before the first record then behind."""
    path = tmp_path / "lines"
    shutil.copytree(lines[1], path)
    shards = sorted(path.joinpath("train").glob("*.tfrecord"))
    data = shards[4].read_bytes()
    shards[4].write_bytes(data[:-5])
    dataset = iter(sr.read(Unchecked(path), batch=sr.Bucket(4)))
    assert next(dataset)["key"].shape == (4,)
    with pytest.raises(tf.errors.InvalidArgumentError, match="is damaged, missing or one too many"):
        list(dataset)
    shards[4].unlink()
    with pytest.raises(tf.errors.NotFoundError, match=shards[4].name):
        list(sr.read(Unchecked(path), batch=sr.Bucket(4)))
    tmp_path.joinpath("elsewhere").write_bytes(data)
    shards[4].symlink_to(tmp_path / "elsewhere")
    with pytest.raises(sr.ManifestError, match="a symbolic link leads out of it"):
        sr.read(Unchecked(path), batch=sr.Bucket(4))


def test_few_thousand_shards_are_looked_at(lines: tuple[Path, Path], tmp_path: Path) -> None:
    """Up to some thousands of shards are looked at before the first record, and their lengths."""
    path = tmp_path / "lines"
    shutil.copytree(lines[1], path)
    shard, lengths = (sorted(path.joinpath("train").glob(f"*.{end}"))[4] for end in ("tfrecord", "lengths"))
    table, data = lengths.read_bytes(), shard.read_bytes()
    lengths.write_bytes(bytes([table[0] ^ 1]) + table[1:])
    with pytest.raises(sr.ShardReadError, match=lengths.name):
        sr.read(path, "train")
    lengths.write_bytes(table)
    shard.write_bytes(data[:-1])
    with pytest.raises(sr.ShardReadError, match=f"{shard.name}: expected {len(data)} bytes"):
        sr.read(path, "train")


def test_verify_looks_at_histograms(lines: tuple[Path, Path], tmp_path: Path) -> None:
    """What batches are planned from is what the lengths are, of each shard and of all."""
    for number, (name, old, new) in enumerate([("histogram", "0:", "1:"), ("together", "11:", "12:")]):
        path = tmp_path / str(number)
        shutil.copytree(lines[1], path)
        text = path.joinpath("manifest.json").read_text()
        before, found, rest = text.partition(f'"{name}": ')
        path.joinpath("manifest.json").write_text(before + found + rest.replace(old, new, 1))
        problems = [problem.message for problem in sr.verify(path).problems]
        assert any("histogram" in problem for problem in problems)
