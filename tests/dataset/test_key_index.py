"""The index of keys: appends find every key that came before, and read no old record for that."""

from pathlib import Path

import numpy as np
import pytest

import seqrecorder as sr
from seqrecorder.dataset import keys as key_index
from seqrecorder.storage.files import KEY_INDEX


@sr.record
class Keyed:
    key: str = sr.context(str, key=True)


@sr.record
class Chosen:
    """A class of which `load` leaves records out."""

    key: int = sr.context("int64", key=True)
    wanted: bool = sr.context(bool)

    def load(self) -> "Chosen":
        if not self.wanted:
            raise sr.SkipRecord
        return self


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A dataset of many shards that was appended to."""
    sr.write([Keyed(f"a{i}") for i in range(40)], tmp_path / "corpus", shards=20)
    sr.write([Keyed(f"b{i}") for i in range(3)], tmp_path / "corpus", append=True)
    return tmp_path / "corpus"


def damage(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-6] ^= 1
    file.write_bytes(data)


def test_old_records_are_not_read(path: Path) -> None:
    """With the index beside it, an append needs no old shard to find keys of any generation."""
    for shard in path.rglob("*.tfrecord"):
        damage(shard)
    sr.write([Keyed("c0")], path, append=True)
    for key in ("a0", "a39", "b2", "c0"):
        with pytest.raises(sr.DuplicateKeyError, match="in .*corpus already"):
            sr.write([Keyed("new"), Keyed(key)], path, append=True)
    assert sr.write([Keyed("a7"), Keyed("new")], path, append=True, on_duplicate="first").records == 45


@pytest.mark.parametrize("change", ["damaged", "cut", "gone", "of another manifest"])
def test_a_doubtful_index_is_not_believed(path: Path, change: str) -> None:
    """An index that is not as it was written, or not of this dataset, is made again from the shards."""
    file = path / KEY_INDEX
    if change == "damaged":
        damage(file)
    elif change == "cut":
        file.write_bytes(file.read_bytes()[:-8])
    elif change == "gone":
        file.unlink()
    else:
        old = file.read_bytes()
        sr.write([Keyed("c0")], path, append=True)
        file.write_bytes(old)
    with pytest.raises(sr.DuplicateKeyError):
        sr.write([Keyed("a39")], path, append=True)
    sr.write([Keyed("d0")], path, append=True)
    for shard in path.rglob("*.tfrecord"):
        damage(shard)
    with pytest.raises(sr.DuplicateKeyError):
        sr.write([Keyed("d0")], path, append=True)


def test_it_goes_with_its_dataset(path: Path) -> None:
    """What is overwritten or rewritten leaves no hash of a key; small datasets have no index."""
    assert (path / KEY_INDEX).exists()
    assert sr.verify(path).ok
    sr.rewrite(path, drop=sr.open(path)["train"].where(key="a7"), shards=20)
    assert not (path / KEY_INDEX).exists()
    sr.write([Keyed("a7")], path, append=True)
    assert (path / KEY_INDEX).exists()
    with pytest.raises(sr.DuplicateKeyError):
        sr.write([Keyed("a7")], path, append=True)
    sr.write([Keyed("other")], path, overwrite=True)
    assert sorted(file.name for file in path.iterdir()) == ["manifest.json", "train"]
    sr.write([Keyed("one")], path, append=True)
    assert not (path / KEY_INDEX).exists()


def test_keys_of_what_was_left_out_are_free(tmp_path: Path) -> None:
    """The key of a record that a hook left out may come again."""
    path = tmp_path / "corpus"
    sr.write([Chosen(i, wanted=True) for i in range(20)], path, shards=20)
    sr.write([Chosen(i, wanted=i % 2 == 0) for i in range(20, 30)], path, append=True)
    assert (path / KEY_INDEX).exists()
    assert sr.write([Chosen(21, wanted=True)], path, append=True).records == 26
    with pytest.raises(sr.DuplicateKeyError):
        sr.write([Chosen(22, wanted=True)], path, append=True)


def test_hashes_belong_to_a_text(tmp_path: Path) -> None:
    """Hashes are given for the manifest and the fields for which they were kept, and for no other."""
    sr.write([Keyed("a")], tmp_path / "corpus")
    text = (tmp_path / "corpus" / "manifest.json").read_bytes()
    hashes = np.array([1, 2**63, 2**64 - 1], np.uint64)
    key_index.write_key_index(tmp_path / "corpus", text, ["key"], hashes)
    assert key_index.open_key_index(tmp_path / "corpus", text, ["key"]).read_through().tolist() == hashes.tolist()
    assert key_index.open_key_index(tmp_path / "corpus", text, ["key", "chunk"]) is None
    assert key_index.open_key_index(tmp_path / "corpus", text + b" ", ["key"]) is None
    key_index.write_key_index(tmp_path / "corpus", text + b" ", ["key"], hashes[:1])  # no longer what stands there
    assert len(key_index.open_key_index(tmp_path / "corpus", text, ["key"])) == 3
