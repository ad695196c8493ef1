"""Spark jobs write the dataset that one process writes, also where tasks are killed, and read every record once."""

import contextlib
import datetime as dt
import os
import re
import signal
import sys
import types
import warnings
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import seqrecorder as sr
from seqrecorder.storage.files import on_fault_point
from seqrecorder.writing.part import write_pieces

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
class Series:
    sensor: str = sr.context(str, key=True)
    site: int = sr.context("int32")
    watts: np.ndarray = sr.feature_list("float64")


ROWS = [{"key": f"w{i}", "ids": list(range(i % 5))} for i in range(100)]
BLOCK = re.compile(r"^```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHARES = {"train": 0.7, "eval": 0.3}


def kill_writer(_: str, path: str) -> None:
    """Kill this task, or the JVM that it belongs to, where a file tells to, once it has written so many files."""
    orders = Path(os.environ["SEQRECORDER_ORDERS"])
    if ".parts" not in path:
        return
    for whom in ("task", "machine"):
        with contextlib.suppress(FileNotFoundError):
            (orders / whom).rename(orders / f"{whom}-{os.getpid()}")  # one process takes an order
            if whom == "machine":
                daemon = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
                os.kill(int(daemon[1]), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)


def write_twice(pieces: Any, *given: Any) -> Any:
    """Write a shard in two attempts at once, where a file tells to, as speculative tasks do."""
    orders, some = Path(os.environ["SEQRECORDER_ORDERS"]), list(pieces)
    if not (orders / "twice").exists():
        return write_pieces(some, *given)
    (orders / f"twice-{given[2]}").touch()
    with futures.ThreadPoolExecutor() as pool:
        return list(pool.map(lambda _: write_pieces(some, *given), range(2)))[1]


if "SEQRECORDER_ORDERS" in os.environ:  # a worker, which imports our classes; for as long as it lives
    _HOOK = on_fault_point(kill_writer)
    _HOOK.__enter__()
    module.write_pieces = write_twice


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("orders")


@pytest.fixture(scope="module")
def session(orders: Path) -> Iterator[Any]:
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    os.environ.update(PYTHONPATH=path, PYSPARK_PYTHON=sys.executable)
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {
        "ui.enabled": False,
        "driver.host": "127.0.0.1",
        "driver.bindAddress": "127.0.0.1",
        "executorEnv.PYTHONPATH": path,
        "executorEnv.SEQRECORDER_ORDERS": orders,
        "sql.shuffle.partitions": 4,
        "sql.session.timeZone": "UTC",
    }
    builder = sql.SparkSession.builder.master("local-cluster[2,1,1024]")  # two workers, each a JVM of its own
    for name, value in settings.items():
        builder = builder.config(f"spark.{name}", str(value))
    made = builder.getOrCreate()
    yield made
    made.stop()


def keys(path: Path) -> dict[str, list[str]]:
    return {name: sorted(record.key for record in sr.read_records(path, name)) for name in sr.info(path).splits}


def digests(manifest: sr.Manifest) -> list[str]:
    return [shard.sha256 for split in manifest.splits.values() for shard in split.shards]


def test_frames_and_rdds(tmp_path: Path, session: Any) -> None:
    """A data frame and an RDD give the same shards, and the splits of `write`."""
    sr.write(ROWS, tmp_path / "one", schema=Word, splits=SHARES)
    frame = session.createDataFrame(ROWS, "key string, ids array<long>")
    found = []
    for name, data in (("frame", frame), ("rdd", session.sparkContext.parallelize(ROWS[::-1], 3))):
        manifest = module.write(data, tmp_path / name, Word, splits=SHARES, shards=2, metadata={"a": 1})
        assert keys(tmp_path / name) == keys(tmp_path / "one")
        assert manifest.metadata == {"a": 1}
        found.append(digests(manifest))
    assert found[0] == found[1]
    assert len(found[0]) == 4
    assert sr.verify(tmp_path / "frame").ok
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["frame", "one", "rdd"]


@pytest.mark.parametrize("whom", ["task", "machine"])
def test_killed_writers(tmp_path: Path, session: Any, orders: Path, whom: str) -> None:
    """Where a worker dies in the middle of a shard, or its machine, others write that, and nothing of it is left."""
    data = session.sparkContext.parallelize([Word(**row) for row in ROWS], 2)
    quiet = module.write(data, tmp_path / "quiet", Word, shards=2)
    (orders / whom).touch()
    assert digests(module.write(data, tmp_path / "c", Word, shards=2)) == digests(quiet)
    assert len(list(orders.glob(f"{whom}-*"))) == 1
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["c", "quiet"]


def test_two_attempts_at_once(tmp_path: Path, session: Any, orders: Path) -> None:
    """Where each shard is written by two attempts at once, it is in the dataset once."""
    data = session.sparkContext.parallelize([Word(**row) for row in ROWS], 2)
    (orders / "twice").touch()
    try:
        manifest = module.write(data, tmp_path / "c", Word, shards=2)
    finally:
        (orders / "twice").unlink()
    assert {path.name for path in orders.glob("twice-*")} == {"twice-0", "twice-1"}
    assert (manifest.records, keys(tmp_path / "c")["train"]) == (100, sorted(row["key"] for row in ROWS))
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_rows_that_are_steps(tmp_path: Path, session: Any) -> None:
    """Spark gathers the rows of each group; in whatever parts they come, the shards are the same."""
    rows = [
        {"sensor": f"s{sensor}", "time": time // 2, "site": sensor % 3, "watts": float(sensor * 100 + time)}
        for time in range(40)
        for sensor in range(30)
    ]
    one = sr.from_rows(pa.Table.from_pylist(rows), Series, by="sensor", order="time")
    sr.write(one, tmp_path / "one", splits=SHARES)
    found = []
    for name, given, parts in (("few", rows, 2), ("many", rows[::-1], 7)):
        frame = session.createDataFrame(given, "sensor string, time long, site int, watts double").repartition(parts)
        manifest = module.write(frame, tmp_path / name, Series, splits=SHARES, shards=2, by="sensor", order="time")
        found.append(digests(manifest))
    assert found[0] == found[1]
    for split in SHARES:
        wanted = {record.sensor: record for record in sr.read_records(tmp_path / "one", split, schema=Series)}
        got = {record.sensor: record for record in sr.read_records(tmp_path / "few", split, schema=Series)}
        assert got == wanted
        assert len(got) == sr.info(tmp_path / "few").splits[split].records
    columns = "sensor string, time int, site int, watts double"
    changing = session.createDataFrame([("a", 1, 1, 0.0), ("a", 2, 2, 0.0)], columns)
    with pytest.raises(Exception, match="'site'.*not constant in the group sensor='a'"):
        module.write(changing, tmp_path / "d", Series, by="sensor", order="time")
    missing = session.createDataFrame([(None, 1, 1, 0.0)], columns)
    with pytest.raises(Exception, match="column 'sensor': 1 row without a value"):
        module.write(missing, tmp_path / "d", Series, by="sensor", order="time")
    assert not (tmp_path / "d").exists()
    for options, message in (
        ({"by": "sensor"}, "name the columns that order each group"),
        ({"order": "time"}, "name the columns that make groups"),
        ({"by": "sensors", "order": "time"}, "no column 'sensors' .did you mean 'sensor'"),
        ({"by": "sensor", "order": "watts"}, "'time'"),
        ({}, "'time'"),
    ):
        with pytest.raises(sr.OptionError, match=message):
            module.write(changing, tmp_path / "d", Series, **options)


def test_read(tmp_path: Path, session: Any) -> None:
    """A split is a data frame with every record once, in the types of Spark that hold the values."""

    @sr.record
    class Every:
        key: str = sr.context(str, key=True)
        big: int = sr.context("uint64")
        half: float = sr.context("float16")
        when: np.datetime64 = sr.context("datetime64[s]")
        steps: np.ndarray = sr.feature_list("float32", shape=(2,))
        texts: list = sr.feature_list("bytes")
        maybe: int | None = sr.context("uint8", optional=True, default=None)

    when = dt.datetime(2026, 1, 2, 3, 4, 5)  # noqa: DTZ001 - as it is stored
    records = [
        Every(f"w{i}", 2**64 - 1 - i, 0.5, np.datetime64(when), np.full((i % 3, 2), i), [b"x"] * (i % 3), i % 2 or None)
        for i in range(50)
    ]
    for name, options in (("plain", {"shards": 3}), ("packed", {"shards": 2, "compression": "GZIP"})):
        sr.write({"train": records[:40], "eval": records[40:]}, tmp_path / name, **options)
        frame = module.read(session, tmp_path / name, "train")
        rows = {row["key"]: row for row in frame.collect()}
        assert len(rows) == frame.count() == 40
        for record in records[:40]:
            row = rows[record.key]
            assert (int(row["big"]), row["half"], row["when"]) == (record.big, 0.5, when)
            assert (row["maybe"], row["steps"]) == (record.maybe, record.steps.tolist())
            assert [bytes(text) for text in row["texts"]] == record.texts.tolist()
    kinds = dict(module.read(session, tmp_path / "plain", "eval", fields=["steps", "big"]).dtypes)
    assert kinds == {"big": "decimal(20,0)", "steps": "array<array<float>>"}
    late = module.read(session, tmp_path / "plain", "eval", schema=Every, fields=["key"])
    sr.write(records, tmp_path / "plain", overwrite=True)
    with pytest.raises(Exception, match="was written again"):
        late.collect()
    with pytest.raises(sr.DatasetNotFoundError):
        module.read(session, tmp_path / "plain", "dev")


def test_nothing_and_what_goes_wrong(tmp_path: Path, session: Any) -> None:
    """Of no rows there is an empty dataset; keys that come twice are an error, and nothing is published."""
    empty = session.createDataFrame([], "key string, ids array<long>")
    assert module.write(empty, tmp_path / "c", Word).records == 0
    assert module.read(session, tmp_path / "c").collect() == []
    twice = session.createDataFrame([*ROWS, ROWS[3]], "key string, ids array<long>")
    with pytest.raises(Exception, match="w3"):
        module.write(twice, tmp_path / "d", Word)
    assert not (tmp_path / "d").exists()
    with pytest.raises(sr.OptionError, match="append is not supported if many"):
        module.write(empty, tmp_path / "d", Word, append=True)
    with pytest.raises(sr.OptionError, match="an RDD has no columns"):
        module.write(session.sparkContext.parallelize(ROWS, 2), tmp_path / "d", Word, by="key", order="key")


def test_the_guide(tmp_path: Path, session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guide's examples run as they stand."""
    page = Path(__file__).parents[2] / "examples" / "guide" / "distributed.md"
    first, *sections = page.read_text(encoding="utf-8").split("\n## ")
    section = next(text for text in sections if text.startswith("Spark"))
    code = "\n".join([*BLOCK.findall(first)[:1], *BLOCK.findall(section)])
    monkeypatch.chdir(tmp_path)
    guide = types.ModuleType("__main__")  # where the classes of a main program go with the tasks
    monkeypatch.setitem(sys.modules, "__main__", guide)
    guide.__dict__["spark"] = session
    readings = [(f"s{n % 3}", n, float(n)) for n in range(30)]
    for name, rows, columns in (
        ("sentences.parquet", ROWS, "key string, ids array<long>"),
        ("readings.parquet", readings, "sensor string, time long, watts double"),
    ):
        session.createDataFrame(rows, columns).write.parquet(str(tmp_path / name))
        code = code.replace(f'"{name}"', repr(str(tmp_path / name)))  # the JVM has another working directory
    exec(compile(code, page.name, "exec"), guide.__dict__)  # noqa: S102 - our own text
    assert (sr.info("from_spark").records, sr.info("from_readings").records) == (100, 3)
