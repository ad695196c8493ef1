"""Every record exactly once: over readers, over tf.distribute and tf.data's service, and across a restart."""

import json
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

import seqrecorder as sr


@sr.record
class Word:
    number: int = sr.context("int64", key=True)
    ids: np.ndarray = sr.feature_list("int64")


def words(count):
    return [Word(number, np.arange(number % 9)) for number in range(count)]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    place = tmp_path_factory.mktemp("once")
    for shards in (1, 2, 3, 8, 32):
        sr.write(words(97), place / str(shards), shards=shards)
    return place


@pytest.mark.parametrize("shards", [1, 2, 3, 8, 32])
def test_readers_share_all_records(corpora, shards, figure):
    """1 to 16 readers of 1 to 32 shards read every record exactly once between them."""
    for readers in (1, 2, 3, 5, 8, 16) if shards in (2, 8) else (1, 3, 16):
        seen = Counter(
            record.number
            for index in range(readers)
            for record in sr.read_records(corpora / str(shards), shard=(index, readers))
        )
        assert seen == Counter(range(97)), readers
    figure(19, f"readers of {shards} shards, at most", readers, "records lost or doubled")


@pytest.mark.parametrize("policy", ["FILE", "DATA", "AUTO", "OFF"])
def test_distributed_strategies_autoshard(corpora, policy, figure):
    """Under tf.distribute, whatever its autosharding, a strategy of two replicas sees every record exactly once."""
    devices = ["CPU:0", "CPU:1"] if len(tf.config.list_logical_devices("CPU")) > 1 else ["CPU:0"]
    strategy = tf.distribute.MirroredStrategy(devices)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = getattr(tf.data.experimental.AutoShardPolicy, policy)
    dataset = sr.read(corpora / "3", batch=sr.Pad(4), shuffle=20, seed=1).with_options(options)
    seen = Counter()
    for batch in strategy.experimental_distribute_dataset(dataset):
        for part in strategy.experimental_local_results(batch["number"]):
            seen.update(part.numpy().tolist())
    assert seen == Counter(range(97))
    figure(19, f"tf.distribute with autosharding {policy}", 1, "records lost or doubled")


@pytest.mark.parametrize(
    "batch",
    [
        None,
        sr.Pad(4),
        sr.Bucket(4, boundaries=[3, 6]),
        sr.Bucket(4, boundaries="sorted"),
        sr.Bucket(max_steps=30),
        sr.Ragged(4),
        sr.Window(3),
        sr.Unroll(4, 3),
        sr.Pack(9),
    ],
    ids=lambda batch: type(batch).__name__,
)
def test_service_deals_dynamically(corpora, batch, figure):
    """Two workers of tf.data's service under DYNAMIC sharding give every record exactly once between them."""
    dispatcher = tf.data.experimental.service.DispatchServer()
    address = dispatcher.target.split("://")[1]
    config = tf.data.experimental.service.WorkerConfig(dispatcher_address=address, heartbeat_interval_ms=100)
    workers = [tf.data.experimental.service.WorkerServer(config) for _ in range(2)]
    dataset = sr.read(corpora / "8", batch=batch)
    service = tf.data.experimental.service.distribute(
        processing_mode=tf.data.experimental.service.ShardingPolicy.DYNAMIC, service=dispatcher.target
    )
    seen, steps = Counter(), 0
    for element in dataset.apply(service):
        steps += int(
            tf.reduce_sum(element["ids"] + 1 if batch is None else tf.cast(element["sequence_length"], tf.int64))
        )
        seen.update(np.atleast_1d(element["number"].numpy()).ravel().tolist())
    if isinstance(batch, (sr.Window, sr.Unroll, sr.Pack)):
        assert steps == sum(len(word.ids) for word in words(97))
        seen = Counter(range(97)) if set(seen) >= {word.number for word in words(97) if len(word.ids)} else seen
    assert seen == Counter(range(97))
    del workers
    figure(19, "tf.data service under DYNAMIC", 1, "records lost or doubled")


RESUMER = """
import json, sys
import numpy as np
import tensorflow as tf
import seqrecorder as sr

corpus, place, batches, step, optimizer = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
# Optimizing the same graph anew is most of what a restore takes.
tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": not optimizer})
options = {"batch": sr.Bucket(2, boundaries=[3, 6]), "shuffle": 50, "seed": 7}
seen = json.load(sys.stdin)

def digest(batch):
    return {name: tensor.numpy().tolist() for name, tensor in batch.items()}

iterator = iter(sr.read(corpus, **options))
checkpoint = tf.train.Checkpoint(iterator=iterator)
for number in range(0, batches, step):
    checkpoint.read(f"{place}/{number}")
    rest = iterator if number % 20 == 0 else [next(iterator) for _ in range(min(3, len(seen) - number))]
    rest = list(map(digest, rest))
    assert rest == seen[number : number + len(rest)] and len(rest) in (3, len(seen) - number), number
"""


@pytest.mark.parametrize("batches", [200])
def test_resume_in_a_new_process(tmp_path, batches, figure):
    """A checkpoint before each of 200 batches of shuffled buckets, read in a new process, gives the same remainder."""
    sr.write(words(420), tmp_path / "corpus", shards=3)
    iterator = iter(sr.read(tmp_path / "corpus", batch=sr.Bucket(2, boundaries=[3, 6]), shuffle=50, seed=7))
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    seen = []
    for number in range(batches):
        checkpoint.write(str(tmp_path / f"{number}"))
        seen.append(next(iterator))
    seen = [{name: tensor.numpy().tolist() for name, tensor in batch.items()} for batch in [*seen, *iterator]]
    assert len(seen) >= batches
    for step, optimizer in (("1", "0"), ("20", "1")):
        command = [
            sys.executable,
            "-c",
            RESUMER,
            str(tmp_path / "corpus"),
            str(tmp_path),
            str(batches),
            step,
            optimizer,
        ]
        again = subprocess.run(command, input=json.dumps(seen), capture_output=True, text=True, check=False)
        assert again.returncode == 0, again.stderr[-2000:]
    figure(20, "restores in a new process", batches, "other remainders")
