"""Training on several machines, each a process here: the guide's programs run, and deal records as its table says."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import seqrecorder as sr

PAGE = Path(__file__).parents[2] / "examples" / "guide" / "several_machines.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
RECORDS = 20_000

pytestmark = pytest.mark.nightly


def block(words):
    """Return the program of the guide that has some words in it."""
    return next(code for _, code in BLOCKS if words in code)


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("localhost", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]


@contextlib.contextmanager
def processes():
    """Give a function that starts programs, which are killed in the end."""
    started = []

    def start(code, *arguments, cwd, **environment):
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", **environment}
        command = [sys.executable, "-c", code, *map(str, arguments)]
        with (cwd / f"{len(started)}.log").open("w") as log:  # a pipe that nobody reads would fill up
            process = subprocess.Popen(command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
        started.append(process)
        return process

    try:
        yield start
    finally:
        for process in started:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("what", ["jax", "tf.distribute"])
def test_two_processes_train_one_model(tmp_path, monkeypatch, what):
    """Two processes that read a share each have the same losses and weights in the end: those of all records."""
    if what == "jax":
        pytest.importorskip("jax")
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "several_machines"}
    exec(next(code for _, code in BLOCKS if "sr.write(" in code), namespace)  # noqa: S102 - our own text
    ports = free_ports(2)
    with processes() as start:
        if what == "jax":
            code = block("import jax").replace(
                "import jax\n", 'import jax\njax.config.update("jax_cpu_collectives_implementation", "gloo")\n'
            )
            code += "losses = history.history['loss']\n"
            both = [start(code + SAY, f"localhost:{ports[0]}", 2, index, cwd=tmp_path) for index in range(2)]
        else:
            cluster = {"worker": [f"localhost:{port}" for port in ports]}
            tasks = [json.dumps({"cluster": cluster, "task": {"type": "worker", "index": n}}) for n in range(2)]
            code = block("MultiWorkerMirroredStrategy") + SAY
            both = [start(code, cwd=tmp_path, TF_CONFIG=task) for task in tasks]
        said = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], (tmp_path / "0.log").read_text()[-2000:]
    first, second = (json.loads(out.splitlines()[-1]) for out, _ in said)
    assert first == second
    losses, weights = first
    assert np.isfinite(losses).all()
    assert np.isfinite(weights).all()
    assert np.mean(losses[: len(losses) // 2]) > np.mean(losses[len(losses) // 2 :])


SAY = """
import json, numpy
print(json.dumps([losses, numpy.asarray(model.get_weights()[-2]).ravel().tolist()]))
"""


@sr.record
class Word:
    number: int = sr.context("int64", key=True)
    ids: np.ndarray = sr.feature_list("int64")


def test_service_of_processes(tmp_path, figure):
    """What comes from two workers of tf.data's service, quietly, and where one is killed and started again."""
    sr.write((Word(n, np.arange(n % 9)) for n in range(RECORDS)), tmp_path / "c", shards=8)
    dispatcher, *ports = free_ports(3)
    code = block("DispatchServer").replace("5000", str(dispatcher))
    code = code.replace(
        "port=int(sys.argv[2])", "port=int(sys.argv[2]), heartbeat_interval_ms=100"
    )  # not half a minute
    service = tf.data.experimental.service
    with processes() as start:

        def serve(*arguments):
            process = start(code, *arguments, cwd=tmp_path)
            assert process.stdout.readline() == "ready\n", f"see the logs in {tmp_path}"
            return process

        serve("dispatcher")
        workers = [serve("worker", port) for port in ports]

        def count(policy, *, kill=False, **options):
            deal = service.distribute(processing_mode=policy, service=f"grpc://localhost:{dispatcher}")
            seen = np.zeros(RECORDS, int)
            for number, batch in enumerate(sr.read(tmp_path / "c", batch=sr.Pad(4), **options).apply(deal)):
                np.add.at(seen, batch["number"].numpy(), 1)
                if kill and number == 100:
                    workers[0].send_signal(signal.SIGKILL)
                    workers[0].wait()
                    workers[0] = serve("worker", ports[0])
            return seen

        dynamic, off = service.ShardingPolicy.DYNAMIC, service.ShardingPolicy.OFF
        for options in ({}, {"shuffle": 100, "seed": 1}):
            assert set(count(dynamic, **options)) == {1}
            assert set(count(off, **options)) == {2}
            once = count(dynamic, kill=True, **options)
            assert set(once) <= {0, 1}
            # What is lost is the rest of shards. How many of these small ones a worker has fetched is a matter of time.
            assert options or (np.diff(once.reshape(-1, 8), axis=0) <= 0).all()
            assert 0 not in count(off, kill=True, **options)
            figure(19, "workers of tf.data service killed under DYNAMIC", 1, "each once")
            figure(19, "workers of tf.data service killed under OFF", 1, "all there")
