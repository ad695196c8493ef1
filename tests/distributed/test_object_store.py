"""Beam and Spark write to an S3 server, tasks and requests fail, and two readers train from the cache."""

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from places import s3_server

import seqrecorder as sr
from seqrecorder.storage.files import on_fault_point
from seqrecorder.storage.place import Place

pytestmark = [pytest.mark.filterwarnings("default")]

COUNT = 10_000
SHARES = {"train": 0.9, "eval": 0.1}
READER = """
import sys
import seqrecorder as sr

shard = (int(sys.argv[2]), 2)
for batch in sr.read(sys.argv[1], "train", batch=sr.Bucket(64), shuffle=1000, seed=1, shard=shard).as_numpy_iterator():
    print(*(key.decode() for key in batch["key"] if key))
"""


@sr.record
class Word:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int64")


def word(number: int, flags: str) -> Word:
    """Return a record; every 4,000th fails the first time that it is made."""
    flag = Path(flags, str(number))
    if number % 4000 == 7 and not flag.exists():
        flag.touch()
        raise OSError("a worker was lost")
    return Word(f"w{number}", np.arange(number % 20))


@pytest.fixture(scope="module")
def bucket() -> Any:
    with s3_server() as url:
        yield url


def check(url: str, warm_python: Any) -> None:
    """Everything is right at a URL, and two readers in processes of their own have each record once."""
    sr.clean(url, older_than=0)  # what failed attempts have sent
    assert sr.info(url).records == COUNT
    assert sr.verify(url).ok
    assert not [name for name in Place.of(url).items() if name.startswith(".parts")]
    found: list[str] = []
    for index in range(2):
        done = warm_python.run([sys.executable, "-c", READER, url, str(index)], text=True, check=True)
        found += done.stdout.split()
    assert sorted(found) == sorted(record.key for record in sr.read_records(url, "train", fields=["key"]))
    assert len(set(found)) == len(found)


def test_a_pipeline_of_beam(bucket: str, tmp_path: Path, warm_python: Any) -> None:
    """Bundles fail while records are made, and while parts are sent; what is committed has every record once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Beam's own
        beam = pytest.importorskip("apache_beam")
        from apache_beam.options.pipeline_options import PipelineOptions

        from seqrecorder.distributed.beam import WriteDataset
    seen: list[str] = []

    def lose(name: str, path: str) -> None:
        if name in ("before_put", "after_put") and path.startswith("s3://") and "manifest" not in path:
            seen.append(path)
            if len(seen) in (4, 15):
                raise TimeoutError("no answer")

    options = PipelineOptions([], runner="BundleBasedDirectRunner")
    with on_fault_point(lose), beam.Pipeline(options=options) as pipeline:
        made = pipeline | beam.Create(range(COUNT)) | beam.Map(word, str(tmp_path))
        made | WriteDataset(f"{bucket}/beam", Word, splits=SHARES, shards=4)
    assert len(seen) > 22
    assert len(list(tmp_path.iterdir())) == 3
    check(f"{bucket}/beam", warm_python)


def test_a_job_of_spark(bucket: str, tmp_path: Path, warm_python: Any) -> None:
    """Tasks that fail are run again, in processes of Python that Spark starts."""
    pytest.importorskip("pyspark")
    sql = pytest.importorskip("pyspark.sql")
    from seqrecorder.distributed.spark import write

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = sql.SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
    path = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[1]), *filter(None, sys.path)])
    known = {name: value for name, value in os.environ.items() if name.startswith(("AWS_", "SEQRECORDER_"))}
    for name, value in {**known, "PYTHONPATH": path}.items():
        builder = builder.config(f"spark.executorEnv.{name}", value)
    session = builder.getOrCreate()
    try:
        flags = str(tmp_path)
        records = session.sparkContext.parallelize(range(COUNT), 3).map(lambda number: word(number, flags))
        write(records, f"{bucket}/spark", Word, splits=SHARES, shards=4)
    finally:
        session.stop()
    assert len(list(tmp_path.iterdir())) == 3
    check(f"{bucket}/spark", warm_python)
