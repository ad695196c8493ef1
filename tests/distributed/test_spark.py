"""Spark jobs write the dataset that one process writes, also where tasks are killed."""

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqrecorder as sr

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Spark's own
    pyspark = pytest.importorskip("pyspark")
    sql = pytest.importorskip("pyspark.sql")

    from seqrecorder.distributed import spark as module

pytestmark = [pytest.mark.filterwarnings("default")]


@sr.record
class Word:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int64")


@sr.record
class Fragile:
    key: str = sr.context(str, key=True)

    def load(self, flag: str = "") -> None:
        """Kill the worker for some records, the first time that they come."""
        if int(self.key[1:]) % 40 == 7 and not Path(f"{flag}-{self.key}").exists():
            Path(f"{flag}-{self.key}").touch()
            os._exit(1)


ROWS = [{"key": f"w{i}", "ids": list(range(i % 5))} for i in range(100)]
SHARES = {"train": 0.7, "eval": 0.3}


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = sql.SparkSession.builder.master("local-cluster[2,1,1024]")  # two workers, each a JVM of its own
    settings = {"ui.enabled": False, "driver.host": "127.0.0.1", "driver.bindAddress": "127.0.0.1"}
    for name, value in {**settings, "executorEnv.PYTHONPATH": os.environ["PYTHONPATH"]}.items():
        builder = builder.config(f"spark.{name}", value)
    made = builder.getOrCreate()
    yield made
    made.stop()


def keys(path: Path) -> dict[str, list[str]]:
    return {name: sorted(record.key for record in sr.read_records(path, name)) for name in sr.info(path).splits}


def test_frames_and_rdds(tmp_path: Path, session: Any) -> None:
    """A data frame and an RDD give the same shards, and the splits of `write`."""
    sr.write(ROWS, tmp_path / "one", schema=Word, splits=SHARES)
    frame = session.createDataFrame(ROWS, "key string, ids array<long>")
    found = []
    for name, data in (("frame", frame), ("rdd", session.sparkContext.parallelize(ROWS[::-1], 3))):
        manifest = module.write(data, tmp_path / name, Word, splits=SHARES, shards=2, metadata={"a": 1})
        assert keys(tmp_path / name) == keys(tmp_path / "one")
        assert manifest.metadata == {"a": 1}
        found.append([shard.sha256 for split in manifest.splits.values() for shard in split.shards])
    assert found[0] == found[1]
    assert len(found[0]) == 4
    assert sr.verify(tmp_path / "frame").ok
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["frame", "one", "rdd"]


def test_killed_tasks(tmp_path: Path, session: Any) -> None:
    """Tasks whose worker dies are run again, and leave nothing of their own."""
    records = [Fragile(f"w{i}") for i in range(100)]
    data = session.sparkContext.parallelize(records, 2)
    module.write(data, tmp_path / "c", Fragile, shards=2, params={"flag": str(tmp_path / "flag")})
    assert len(list(tmp_path.glob("flag-*"))) == 3
    assert keys(tmp_path / "c")["train"] == sorted(record.key for record in records)
    assert not list(tmp_path.glob("*.parts"))


def test_nothing_and_what_goes_wrong(tmp_path: Path, session: Any) -> None:
    """Of no rows there is an empty dataset; keys that come twice are an error, and nothing is published."""
    empty = session.createDataFrame([], "key string, ids array<long>")
    assert module.write(empty, tmp_path / "c", Word).records == 0
    twice = session.createDataFrame([*ROWS, ROWS[3]], "key string, ids array<long>")
    with pytest.raises(Exception, match="w3"):
        module.write(twice, tmp_path / "d", Word)
    assert not (tmp_path / "d").exists()
    with pytest.raises(sr.OptionError, match="append: not where many"):
        module.write(empty, tmp_path / "d", Word, append=True)
