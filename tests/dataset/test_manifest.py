"""The manifest: it comes back as it was written, and what is damaged is a ManifestError."""

import json
import random
from pathlib import Path

import pytest
from written_records import Item, items

import seqrecorder as sr
from seqrecorder.dataset.manifest import is_as_written, parse_manifest, read_manifest


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("manifest") / "items"
    options = {"splits": {"train": 0.8, "eval": 0.2}, "metadata": {"a": [1, None]}, "assets": {"words.txt": "x"}}
    sr.write(items(50), path, shards=2, **options)
    return (path / "manifest.json").read_text()


def test_json_round_trip(text: str, tmp_path: Path) -> None:
    """A manifest that is read and written again is the same text."""
    manifest = parse_manifest(text, Path("anywhere"))
    assert manifest.to_json() == text
    assert is_as_written(text)
    assert is_as_written(sr.write([], tmp_path / "empty", schema=Item, splits={"a": 1}, shards=2).to_json())
    assert manifest.schema.fingerprint == sr.Schema.of(Item).fingerprint
    assert manifest.metadata == {"a": [1, None]}


LINKS = {
    "train": ("shard", "lengths"),
    "train/train-00000-of-00001.tfrecord": ("shard",),
    "train/train-00000-of-00001.lengths": ("lengths",),
    "assets": ("asset",),
    "assets/words.txt": ("asset",),
}


@pytest.mark.parametrize("name", LINKS)
def test_links_that_lead_out_are_not_followed(tmp_path: Path, name: str) -> None:
    """A link that leads out of the dataset is refused by whatever asks for the file, and found by `verify`."""
    path = tmp_path / "items"
    sr.write(items(5), path, assets={"words.txt": "x"})
    (path / name).rename(tmp_path / "outside")
    (path / name).symlink_to(tmp_path / "outside")
    manifest = sr.info(path)
    [shard] = manifest.splits["train"].shards
    asked = {
        "shard": lambda: manifest.shard_path("train", shard),
        "lengths": lambda: manifest.lengths("train", shard),
        "asset": lambda: manifest.assets,
    }
    for what in LINKS[name]:
        with pytest.raises(sr.ManifestError, match="a symbolic link leads out of it"):
            asked[what]()
    for read in (sr.read, sr.read_records) if "asset" not in LINKS[name] else ():
        with pytest.raises(sr.ManifestError, match="a symbolic link leads out of it"):
            read(path)
    assert not sr.verify(path, level="quick")


def test_damaged_manifests_are_manifest_errors(text: str) -> None:
    """A manifest with random damage is read or refused with a ManifestError, and never anything else."""
    generator = random.Random(5)
    refused = 0
    for _ in range(2000):
        damaged = list(text)
        for _ in range(generator.choice([1, 1, 2, 5, 40])):
            at = generator.randrange(len(damaged))
            kind = generator.randrange(3)
            if kind == 0:
                damaged[at] = generator.choice('{}[]",:0123456789abnul.-/\\\0')
            elif kind == 1:
                del damaged[at : at + generator.randrange(1, 30)]
            else:
                damaged[at:at] = damaged[at - 20 : at]
        try:
            parse_manifest("".join(damaged), Path("anywhere"))
        except sr.ManifestError:
            refused += 1
    assert refused > 1000


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (["format"], "other"),
        (["format_version"], 99),
        (["generation"], -1),
        (["compression"], "LZMA"),
        (["fingerprint"], "0" * 64),
        (["splits"], {"../up": {"shards": []}}),
        (["splits", "train", "shards", 0, "name"], "../../etc/passwd"),
        (["splits", "train", "shards", 0, "name"], "/etc/passwd"),
        (["splits", "train", "shards", 0, "name"], "../eval/eval-00000-of-00002.tfrecord"),
        (["splits", "train", "shards", 0, "name"], "/etc/x.tfrecord"),
        (["splits", "train", "shards", 0, "name"], "train-00001-of-00002.tfrecord"),  # twice, so that records double
        (["splits", "train", "shards", 0, "records"], True),
        (["assets"], {"..": {"sha256": "0" * 64, "generation": 0}}),
    ],
)
def test_statements_that_are_refused(text: str, keys: list[object], value: object) -> None:
    """A name that leaves the dataset or comes twice, another format, or a count that is none: each is refused."""
    data = json.loads(text)
    place = data
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    with pytest.raises(sr.ManifestError):
        parse_manifest(json.dumps(data), Path("anywhere"))


def test_a_missing_manifest_is_said(tmp_path: Path) -> None:
    """A directory without a manifest, a file, and nothing at all are told apart."""
    with pytest.raises(sr.DatasetNotFoundError, match="not a finished dataset"):
        read_manifest(tmp_path)
    with pytest.raises(sr.DatasetNotFoundError, match="there is no dataset at"):
        read_manifest(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(sr.DatasetNotFoundError, match="is a file, not a dataset's directory"):
        read_manifest(tmp_path / "file")
    with pytest.raises(sr.DatasetNotFoundError, match="bare shards are read from local paths only"):
        sr.read_records("memory://nowhere/a.tfrecord")


def test_the_longest_names_of_splits(tmp_path: Path) -> None:
    """A split may have a name of 100 bytes, which the names of its shards are longer than."""
    name = "x" * 100
    sr.write({name: items(3)}, tmp_path / "c")
    assert sr.info(tmp_path / "c").splits[name].records == 3
    assert sr.push(tmp_path / "c", "memory://longest/c").records == 3
    assert sr.verify("memory://longest/c").ok
    with pytest.raises(sr.OptionError, match="101 bytes, where 100 is the limit"):
        sr.write({"x" * 101: items(3)}, tmp_path / "d")
