"""Every record exactly once: over readers, over tf.distribute and tf.data's service, and across a restart."""

import functools
import itertools
import json
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from combinations import all_at_night
from tensorflow.python.data.experimental.ops import data_service_ops, distribute  # neither has a public name

import seqrecorder as sr
from seqrecorder.dataset.checked_shards import Origin, ShardFile


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


@pytest.mark.parametrize(
    ("shards", "readers"),
    [
        *((shards, (1, 2, 3, 5, 8, 16) if shards in (2, 8) else (1, 3, 16)) for shards in (1, 2, 3, 8, 32)),
        *(pytest.param(shards, range(1, 17), marks=pytest.mark.nightly) for shards in range(1, 33)),
    ],
)
def test_readers_share_all_records(tmp_path, shards, readers, figure):
    """1 to 16 readers of 1 to 32 shards read every record exactly once between them."""
    sr.write(words(97), tmp_path / "c", shards=shards)
    for count in readers:
        seen = Counter(
            record.number for index in range(count) for record in sr.read_records(tmp_path / "c", shard=(index, count))
        )
        assert seen == Counter(range(97)), count
    figure(19, "numbers of shards with numbers of readers", len(readers), "each once")


@pytest.mark.parametrize(
    ("sizes", "readers", "files"),
    [
        ([80] * 6, 4, 3),
        ([80] * 6, 3, 2),
        ([80] * 8, 4, 2),
        ([80, 80, 81], 3, 1),
        ([5] * 40, 3, 14),
        ([100, 1, 1, 1], 2, 4),
        ([7, 8], 4, 1),
        ([3], 5, 1),
        ([2] * 127, 64, 16),
        ([], 2, 0),
    ],
    ids=str,
)
def test_readers_have_equal_shares(sizes, readers, files):
    """To one record; whole files where these are as equal, else as few files as may be."""
    shards = tuple(ShardFile(Path(), str(n), None, size, size, 0) for n, size in enumerate(sizes))
    origin = Origin("here", sr.Schema.of(Word), "steps", None, shards)
    seen, shares = Counter(), []
    for index in range(readers):
        part, deal = origin.take_shard((index, readers))
        assert len(part.files) <= files
        of_part = [(file.path, number) for file in part.files for number in range(file.records)]
        of_reader = of_part if deal is None else of_part[deal]
        seen.update(of_reader)
        shares.append(len(of_reader))
    assert seen == Counter((file.path, number) for file in shards for number in range(file.records))
    assert max(shares) - min(shares) <= 1


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
    figure(19, f"tf.distribute with autosharding {policy}", 1, "each once")


def dealt(build, workers=2):
    """Yield what tf.distribute gives to each of some workers, every one of which builds its pipeline."""
    for worker in range(workers):
        yield list(distribute._AutoShardDataset(build(), workers, worker))


@pytest.mark.parametrize(
    ("name", "shards"),
    all_at_night(
        itertools.product(["single", "pad", "bucket", "budget"], [1, 3]),
        [("single", 3), ("pad", 1), ("bucket", 3), ("budget", 1)],
    ),
)
def test_workers_share_what_is_shuffled(corpora, name, shards, figure):
    """Two workers of tf.distribute that share one seed get every record exactly once between them, as it is."""
    seen = Counter(
        number
        for part in dealt(lambda: sr.read(corpora / str(shards), batch=SERVED[name], shuffle=20, seed=1))
        for element in part
        for number in np.atleast_1d(element["number"].numpy()).tolist()
    )
    assert seen == Counter(range(97))
    figure(19, "two workers of tf.distribute", 1, "each once")


def test_autosharding_by_files_says_what_to_do(corpora):
    """Under FILE, where TensorFlow does not find the files, its error names DATA."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.FILE
    for strategy in ({"batch": sr.Pad(4)}, {"batch": sr.Bucket(4)}, {"batch": sr.Pad(4), "shuffle": 9}):
        refused = dealt(
            functools.partial(lambda **given: sr.read(corpora / "3", **given).with_options(options), **strategy)
        )
        with pytest.raises(tf.errors.OpError, match="DATA"):
            next(refused)


WORKER = """
import json, os, sys
index, ports, place = int(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
cluster = {"worker": [f"localhost:{port}" for port in ports]}
os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
import tensorflow as tf
import seqrecorder as sr

strategy = tf.distribute.MultiWorkerMirroredStrategy()

def numbers(distributed):
    return [
        number
        for batch in distributed
        for part in strategy.experimental_local_results(batch["number"])
        for number in part.numpy().tolist()
    ]

whole = sr.read(place, batch=sr.Bucket(4, boundaries=[3, 6]), shuffle=20, seed=1)
own = lambda context: sr.read(
    place, batch=sr.Pad(4), shuffle=20, shard=(context.input_pipeline_id, context.num_input_pipelines)
)
print(
    json.dumps(
        [
            numbers(strategy.experimental_distribute_dataset(whole)),
            numbers(strategy.distribute_datasets_from_function(own)),
        ]
    )
)
"""


@pytest.mark.nightly
def test_two_processes_of_one_strategy(corpora, figure):
    """Two processes of a MultiWorkerMirroredStrategy get every record once, dealt by it or by `shard`."""
    sockets = [socket.create_server(("localhost", 0)) for _ in range(2)]
    ports = json.dumps([one.getsockname()[1] for one in sockets])
    for one in sockets:
        one.close()
    command = [sys.executable, "-c", WORKER]
    workers = [
        subprocess.Popen(
            [*command, str(index), ports, str(corpora / "2")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for index in range(2)
    ]
    try:
        said = [worker.communicate(timeout=120) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    assert [worker.returncode for worker in workers] == [0, 0], said[0][1][-2000:]
    for parts in zip(*(json.loads(out) for out, _ in said), strict=True):
        assert sorted(parts[0] + parts[1]) == list(range(97))
        assert all(parts)
    figure(19, "processes of one tf.distribute strategy", 2, "each once")


@pytest.fixture(scope="module")
def service():
    """Two workers of tf.data's service, as what a dataset is applied to."""
    dispatcher = tf.data.experimental.service.DispatchServer()
    address = dispatcher.target.split("://")[1]
    config = tf.data.experimental.service.WorkerConfig(dispatcher_address=address, heartbeat_interval_ms=100)
    workers = [tf.data.experimental.service.WorkerServer(config) for _ in range(2)]
    # As `service.distribute`, which asks for tasks once a second only; an epoch is over long before.
    yield data_service_ops._distribute(
        tf.data.experimental.service.ShardingPolicy.DYNAMIC, dispatcher.target, task_refresh_interval_hint_ms=20
    )
    del workers


SERVED = {
    "single": None,
    "pad": sr.Pad(4),
    "bucket": sr.Bucket(4, boundaries=[3, 6]),
    "sorted": sr.Bucket(4, boundaries="sorted"),
    "budget": sr.TokenBudget(30),
    "ragged": sr.Ragged(4),
    "crop": sr.Crop(99),  # of which no record has more
    "window": sr.Window(3),
    "unroll": sr.Unroll(4, 3),
    "pack": sr.Pack(9),
}
SERVICES = (
    (8, {}),
    (1, {"epochs": 2}),
    (8, {"shuffle": 20, "seed": 1}),
    (1, {"shuffle": 20, "epochs": 2}),
    (8, {"shuffle": 20, "epochs": 3}),
    (8, {"epochs": 3, "shard": (0, 1)}),
)
ORDINARY = [(name, {}) for name in SERVED if name not in ("window", "unroll")]
ORDINARY += [("single", {"epochs": 2}), ("single", {"shuffle": 20, "seed": 1})]


@pytest.mark.parametrize(
    "reading",
    [
        pytest.param(
            (SERVED[name], str(shards), options),
            id=f"{name}-{shards}-{options}",
            marks=[] if (name, options) in ORDINARY else pytest.mark.nightly,
        )
        for name in SERVED
        for shards, options in SERVICES
    ],
)
def test_service_deals_dynamically(corpora, service, reading, figure):
    """Two workers of tf.data's service under DYNAMIC sharding give every record once an epoch between them."""
    batch, corpus, options = reading
    epochs = options.get("epochs", 1)
    dataset = sr.read(corpora / corpus, batch=batch, **options)
    seen, steps = Counter(), Counter()
    for element in dataset.apply(service):
        numbers = np.atleast_1d(element["number"].numpy())
        seen.update(numbers.ravel().tolist())
        if isinstance(batch, sr.Pack):  # each row holds several records, one after the other
            steps.update(
                np.take_along_axis(numbers, element["segment_ids"].numpy() - 1, 1)[
                    element["segment_ids"].numpy() > 0
                ].tolist()
            )
        elif batch is not None:
            steps.update(np.repeat(numbers, element["sequence_length"].numpy()).tolist())
    if batch is not None:
        assert steps == Counter({word.number: epochs * len(word.ids) for word in words(97) if len(word.ids)})
    if not isinstance(batch, (sr.Window, sr.Unroll, sr.Pack)):  # which cut records, and drop what has no steps
        assert seen == Counter([*range(97)] * epochs)
    figure(19, "tf.data service under DYNAMIC", 1, "each once")


RESUMER = """
import json, sys
import numpy as np
import tensorflow as tf
import seqrecorder as sr

corpus, place, batches, step, whole, optimizer = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
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
    rest = iterator if number % whole == 0 else [next(iterator) for _ in range(min(3, len(seen) - number))]
    rest = list(map(digest, rest))
    assert rest == seen[number : number + len(rest)] and len(rest) in (3, len(seen) - number), number
"""


@pytest.mark.parametrize(("batches", "whole"), [(20, 10), pytest.param(200, 1, marks=pytest.mark.nightly)])
def test_resume_in_a_new_process(tmp_path, warm_python, batches, whole, figure):
    """A checkpoint before each of many batches of shuffled buckets, read in a new process, gives the same remainder.

    Of most the ordinary run reads the next three batches, the long one the whole remainder.
    """
    sr.write(words(max(2 * batches, 120)), tmp_path / "corpus", shards=3)
    iterator = iter(sr.read(tmp_path / "corpus", batch=sr.Bucket(2, boundaries=[3, 6]), shuffle=50, seed=7))
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    seen = []
    for number in range(batches):
        checkpoint.write(str(tmp_path / f"{number}"))
        seen.append(next(iterator))
    seen = [{name: tensor.numpy().tolist() for name, tensor in batch.items()} for batch in [*seen, *iterator]]
    assert len(seen) >= batches
    for step, optimizer in (("1", "0"), ("10", "1")):
        command = [
            sys.executable,
            "-c",
            RESUMER,
            str(tmp_path / "corpus"),
            str(tmp_path),
            str(batches),
            step,
            str(whole),
            optimizer,
        ]
        again = warm_python.run(command, input=json.dumps(seen), text=True)
        assert again.returncode == 0, again.stderr[-2000:]
    figure(20, "restores in a new process" + ", read to the end" * (whole == 1), batches, "the exact remainder")
