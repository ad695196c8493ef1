"""Write with Beam and Spark to an S3 server while workers and requests fail; then train with two workers.

python examples/beyond_one_machine [output_dir] [records]

It needs `pip install apache-beam pyspark pyarrow fsspec s3fs 'moto[server]'` and a Java runtime. The server runs on
this machine and loses its data when the program ends. The output directory has the cache.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import seqrecorder as sr

WRITING = {"splits": {"train": 0.9, "eval": 0.1}, "shards": 8}


@sr.record
class Sentence:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int64")
    label: float = sr.context("float32")


def make(number, lost, flags):
    """Make a record; the first worker to make one of the chosen records fails or is killed."""
    flag = Path(flags, f"lost-{number}")
    if number in lost and not flag.exists():
        flag.touch()
        if flag.parent.name == "spark":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError("a worker was lost")
    return Sentence(str(number), np.arange(number % 20) + number % 2, number % 2)


def write_by_beam(url, count, lost, flags):
    import apache_beam as beam

    from seqrecorder.distributed.beam import WriteDataset

    with beam.Pipeline(runner="BundleBasedDirectRunner") as pipeline:  # which runs bundles again that failed
        records = pipeline | beam.Create(range(count)) | beam.Map(make, lost, flags)
        records | WriteDataset(url, Sentence, **WRITING)


def write_by_spark(url, count, lost, flags):
    from pyspark.sql import SparkSession

    from seqrecorder.distributed.spark import write

    os.environ.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
    with SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false").getOrCreate() as session:
        records = session.sparkContext.parallelize(range(count), 8).map(lambda number: make(number, lost, flags))
        write(records, url, Sentence, **WRITING)


def train(url, index):
    """Train and evaluate on a share of a dataset; print the keys of its records."""
    import keras

    layers = [keras.layers.Embedding(32, 4), keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    model.compile("adam", "mse")
    for split, step in (("train", model.train_on_batch), ("eval", model.test_on_batch)):
        for batch in sr.read(url, split, batch=sr.Pad(256, length=20), shuffle=1000, seed=1, shard=(index, 2)):
            step(batch["ids"], batch["label"])
            print(*(key.decode() for key in batch["key"].numpy()))


def train_two(url):
    """Train with two workers in processes of their own; return the keys of their records."""
    commands = [[sys.executable, __file__, "train", url, str(index)] for index in range(2)]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    return [key for worker in workers for key in worker.communicate()[0].split()]


def main(output, count):
    import s3fs
    from faulty_server import FaultyServer

    server = FaultyServer()
    os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
    os.environ.update(AWS_ENDPOINT_URL=server.url, SEQRECORDER_CACHE=f"{output}/cache", TF_CPP_MIN_LOG_LEVEL="3")
    store = s3fs.S3FileSystem()
    store.mkdir("bucket")
    Path(output).mkdir(parents=True, exist_ok=True)
    lost = [count // 5, count // 2, count - 1]
    for name, write in (("beam", write_by_beam), ("spark", write_by_spark)):
        started, url, flags = time.monotonic(), f"s3://bucket/{name}", Path(tempfile.mkdtemp(name, dir=output))
        write(url, count, lost, str(flags))
        print(f"{name}: {len(list(flags.iterdir()))} workers lost, {time.monotonic() - started:.0f} s to write")
        left = sr.clean(url, older_than=0)  # hours
        parts = store.find(f"{url}/.parts")
        print(f"{name}: removed {len(left)} files of attempts that failed; {len(parts)} parts are left")
        assert sr.verify(url).ok
        found = train_two(url)
        assert sorted(map(int, found)) == list(range(count)), "not each record once"
        print(f"{name}: verified; two workers had each of {len(found):,} records once")
    print(*(f"{times} x {fault}" for fault, times in sorted(server.injected.items())), sep="\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["train"]:
        train(sys.argv[2], int(sys.argv[3]))
    else:
        given = dict(enumerate(sys.argv[1:]))
        main(given.get(0) or tempfile.mkdtemp(), int(given.get(1, 10_000)))
