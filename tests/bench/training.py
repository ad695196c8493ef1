"""For what share of the time training waits for data: a GRU, trained on batches as they come."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqrecorder.reading.batching.bucket import Bucket
from seqrecorder.reading.read import read
from seqrecorder.writing.writer import write

from .machine import machine
from .workloads import make

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .timing import Effort

WORKLOADS = ("W1", "W2")
"""Names of the workloads that are trained on: tokens, and sensors of 16 numbers a step."""

_BATCH, _TOKENS = 64, 1 << 16
_UNITS, _BATCHES = 512, 100
_QUICK_UNITS, _QUICK_BATCHES = 4, 2


def measure(names: Sequence[str], effort: Effort, say: Callable[[str], None]) -> dict[str, Any]:
    """Train a GRU on workloads, and return how long that took and how long it waited for batches.

    Batches come in buckets, shuffled. Where there is a GPU they are copied to it ahead of their use. Compiling is not
    counted: a fifth as many batches are trained on before.

    Args:
        names: of the workloads; those but W1 and W2 are left out.
        effort: how much data, and with that how many batches and how large a GRU.
        say: takes a line for the user.

    Returns:
        The device, the machine, units and batches; by workload, `seconds` of all, `waiting` seconds, and `share`.
    """
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    details = tf.config.experimental.get_device_details(gpus[0]) if gpus else {}
    units, batches = (_QUICK_UNITS, _QUICK_BATCHES) if effort.quick else (_UNITS, _BATCHES)
    device = details.get("device_name", "CPU")
    report = {"device": device, "machine": machine(), "units": units, "batches": batches, "workloads": {}}
    for name in filter(WORKLOADS.__contains__, names):
        say(f"{name}: training a GRU of {units} units on {report['device']}")
        workload = make(name, quick=effort.quick)
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / name
            write(workload.records, path)
            first = "ids" if name == "W1" else "signal"
            data = read(
                path,
                batch=Bucket(_BATCH, boundaries=workload.boundaries),
                shuffle=workload.shuffle,
                seed=0,
                epochs=None,
                inputs=(first, "sequence_length"),
            )
            if gpus:
                data = data.apply(tf.data.experimental.prefetch_to_device("/gpu:0", buffer_size=2))
            report["workloads"][name] = _train(data, units, batches)
    return report


def _train(data: Any, units: int, batches: int) -> dict[str, float]:
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    is_text = data.element_spec[0].dtype.is_integer
    first = keras.layers.Embedding(_TOKENS, 64) if is_text else keras.layers.Dense(64)
    model = keras.Sequential([first, keras.layers.GRU(units), keras.layers.Dense(1)])
    optimizer = keras.optimizers.Adam()

    def train(x: Any, lengths: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True)[:, 0] - tf.cast(lengths, tf.float32)) ** 2)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    step = tf.function(train, reduce_retracing=True)
    iterator = iter(data)
    model(next(iterator)[0])
    optimizer.build(model.trainable_variables)
    for _ in range(batches // 5):
        step(*next(iterator)).numpy()
    waiting, begun = 0.0, time.perf_counter()
    for _ in range(batches):
        asked = time.perf_counter()
        batch = next(iterator)
        waiting += time.perf_counter() - asked
        step(*batch).numpy()  # the value is there when the device is done
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "waiting": waiting, "share": waiting / seconds}


def text(report: dict[str, Any]) -> str:
    """Return the report of `measure` in lines."""
    lines = [f"a GRU of {report['units']} units, {report['batches']} batches of {_BATCH}, on {report['device']}"]
    lines[0] += f" ({report['machine']})"
    for name, figures in report["workloads"].items():
        lines.append(f"{name}  {figures['share']:.1%} of {figures['seconds']:.1f} s waiting for data")
    return "\n".join(lines)
