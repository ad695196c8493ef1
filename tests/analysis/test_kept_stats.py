"""Statistics that are kept with a dataset: the same as those of its records, through appends, rewriting and damage."""

import json
import zlib

import numpy as np
import pytest

import seqrecorder as sr
from seqrecorder.analysis.stats import Stats, from_bytes, kept_stats, to_bytes
from seqrecorder.errors import ManifestError, OptionError
from seqrecorder.storage.files import STATISTICS


@sr.record
class Sample:
    key: str = sr.context(str, key=True)
    blob: bytes = sr.context(bytes, default=b"")
    age: int | None = sr.context("uint64", optional=True, default=None)
    price: np.ndarray = sr.feature_list("float32", default=())
    pair: np.ndarray = sr.feature_list("float64", shape=(2,), align=None, default=())
    times: np.ndarray = sr.feature_list("datetime64[s]", align=None, default=())
    ragged: list = sr.feature_list("int8", shape=(None,), align=None, default=())


def samples(numbers: range, *, steps: int = 7) -> list[Sample]:
    rng = np.random.default_rng(numbers.start)
    return [
        Sample(f"s{n}", bytes([n % 256, 255]), n if n % 3 else None, rng.normal(size=steps).astype("f4"),
               np.where(rng.random((3, 2)) < 0.1, np.nan, rng.normal(size=(3, 2))),
               np.array([5, 3, "NaT"], "M8[s]") if n % 2 else np.empty(0, "M8[s]"), [np.arange(n % 4, dtype="i1")])
        for n in numbers
    ]  # fmt: skip


def counted(path) -> Stats:
    """Return the statistics that are counted, whatever is kept."""
    corpus = sr.open(path)
    total = None
    for name in corpus:
        part = sr.stats(corpus[name])
        total = part if total is None else total + part
    return total


def same(found: Stats, expected: Stats) -> None:
    """Check that two statistics say the same: counts exactly, moments but for the last digits."""
    left, right = (json.loads(each.to_json()) for each in (found, expected))
    assert list(left["splits"]) == list(right["splits"])

    def check(one, other) -> None:
        if isinstance(one, dict):
            assert one.keys() == other.keys()
            for name in one:
                check(one[name], other[name])
        elif isinstance(one, list):
            assert len(one) == len(other)
            for pair in zip(one, other, strict=True):
                check(*pair)
        else:
            assert one == (pytest.approx(other, rel=1e-9, abs=1e-12) if isinstance(one, float) else other)

    check(left, right)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    path = tmp_path_factory.mktemp("kept") / "corpus"
    sr.write({"train": samples(range(700)), "eval": samples(range(700, 720))}, path, stats=True, shards=2)
    return path


def test_what_is_kept_is_what_would_be_counted(kept, monkeypatch):
    """`stats` gives the same figures and reads no record; of a selection, of fields or labels it counts."""
    expected = counted(kept)
    assert expected["price"].distinct is None  # beyond what is counted one by one
    with monkeypatch.context() as patch:
        patch.setattr("seqrecorder.analysis.stats.by_pieces", None)
        same(sr.stats(kept), expected)
        same(sr.stats(sr.open(kept), "eval"), sr.stats(kept, "eval"))
        assert list(sr.stats(kept, "eval").splits) == ["eval"]
        with pytest.raises(TypeError):
            sr.stats(kept, by="age")
    assert list(sr.stats(kept, fields=["price"])) == ["price"]
    assert kept_stats(sr.open(kept)["train"]) is None
    assert sr.verify(kept).ok


def test_bytes_are_exact_and_deterministic(kept):
    """What was read is written as the same bytes, and as JSON without pickles."""
    parts = kept_stats(kept).splits
    data = to_bytes(parts)
    assert to_bytes(from_bytes(data, sr.info(kept).schema)) == data
    assert json.loads(zlib.decompress(data))["eval"]["records"] == 20


def test_an_append_adds_its_statistics(tmp_path):
    """Appends merge what they bring, whether they ask or not; one that asks counts what was there before."""
    path = tmp_path / "corpus"
    sr.write({"train": samples(range(30))}, path)
    assert kept_stats(path) is None
    sr.write({"train": samples(range(30, 40)), "eval": samples(range(40, 45))}, path, append=True, stats=True)
    same(kept_stats(path), counted(path))
    sr.write({"eval": samples(range(45, 50)), "test": samples(range(50, 60))}, path, append=True)
    same(kept_stats(path), counted(path))
    assert kept_stats(path).records == 60
    assert sr.verify(path).ok


def test_rewriting_makes_them_again_and_overwriting_drops_them(tmp_path):
    """What is dropped from a dataset is dropped from what is known of it."""
    path = tmp_path / "corpus"
    sr.write({"train": samples(range(30))}, path, stats=True)
    sr.rewrite(path, drop=sr.open(path).all()[:10])
    same(kept_stats(path), counted(path))
    assert kept_stats(path).records == 20
    sr.write({"train": samples(range(5))}, path, overwrite=True)
    assert kept_stats(path) is None
    assert not (path / STATISTICS).exists()


def test_damage_of_them_is_found(tmp_path, caplog):
    """`verify` names the file, `stats` refuses it, and an append goes on; beside another manifest it says nothing."""
    path = tmp_path / "corpus"
    sr.write({"train": samples(range(5))}, path, stats=True)
    data = bytearray((path / STATISTICS).read_bytes())
    (path / STATISTICS).write_bytes(data[:-1])
    assert [problem.path for problem in sr.verify(path, level="quick").problems] == [STATISTICS]
    with pytest.raises(ManifestError, match="remove it"):
        sr.stats(path)
    sr.write({"train": samples(range(5, 9))}, path, append=True)
    assert "is damaged" in caplog.text
    assert sr.stats(path).records == 9
    (path / STATISTICS).write_bytes(data)
    assert sr.verify(path).ok
    assert sr.stats(path).records == 9


def test_what_keeps_no_statistics_says_so(tmp_path):
    """Parts are put together by other processes, which keep none; other values than bools are refused."""
    with pytest.raises(OptionError, match="stats=True is for datasets"):
        sr.write_part(samples(range(3)), tmp_path / "corpus", 0, stats=True)
    with pytest.raises(OptionError, match="stats: expected True or False"):
        sr.write(samples(range(3)), tmp_path / "corpus", stats="yes")


def test_statistics_of_an_earlier_version_are_made_again(tmp_path):
    """What another version kept is neither read nor damage: it is counted anew, and kept when it is asked for."""
    path = tmp_path / "corpus"
    sr.write({"train": samples(range(5))}, path, stats=True)
    data = (path / STATISTICS).read_bytes()
    (path / STATISTICS).write_bytes(b"SRSTAT01" + data[8:])
    assert kept_stats(path) is None
    assert sr.verify(path).ok
    same(sr.stats(path), counted(path))
    sr.write({"train": samples(range(5, 9))}, path, append=True, stats=True)
    same(kept_stats(path), counted(path))
