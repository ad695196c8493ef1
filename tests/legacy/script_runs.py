"""Scripts run as they are: the queues of old ones, and what they became; and the batches of both, compared."""

import contextlib
import itertools
import re
from unittest import mock

import absl.flags
import tensorflow as tf
from tensorflow.python.autograph.core import ag_ctx  # it has no public name

from seqrecorder.legacy import compat
from seqrecorder.legacy.migrate.verify import call, sessions

v1 = tf.compat.v1

MOST = 24
_PATIENCE = v1.RunOptions(timeout_in_ms=60_000)
_PLAIN = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=4)
_PLAIN.graph_options.rewrite_options.disable_meta_optimizer = True
_PLAIN.graph_options.optimizer_options.opt_level = -1
_UNCHANGED = tf.data.Options()
_UNCHANGED.experimental_optimization.apply_default_optimizations = False
_UNCHANGED.autotune.enabled = False


def _iterator(dataset, make=v1.data.make_one_shot_iterator):
    return make(dataset.with_options(_UNCHANGED))


@contextlib.contextmanager
def _plainly():
    """Let functions be traced as they are written, and datasets run so, which is several times faster."""
    disabled = ag_ctx.ControlStatusCtx(status=ag_ctx.Status.DISABLED)
    with disabled, mock.patch.object(v1.data, "make_one_shot_iterator", _iterator):
        yield


def _carried_out(text):
    """Return the names of a script that is carried out whole, but for the switch to TensorFlow 1."""
    for name in ("factor", "flag"):
        if name in absl.flags.FLAGS:
            delattr(absl.flags.FLAGS, name)
    names = {"__name__": "random_script"}
    exec(compile(re.sub(r"\w+\.disable_v2_behavior\(\)", "pass", text), "random_script", "exec"), names)  # noqa: S102 - it is ours
    absl.flags.FLAGS.mark_as_parsed()
    return names


def run_in_graph(text, expression, files, *, old):
    """Return the batches of a function in a graph, whether their order is one of chance, and their structure."""
    with _place_of(text, old), tf.Graph().as_default() as graph, _plainly():
        given = eval(expression, _carried_out(text))(files)  # noqa: S307 - ours
        tensors = [item for item in tf.nest.flatten(given) if isinstance(item, (tf.Tensor, tf.SparseTensor))]
        sessions.one_thread_each()
        session, coordinator, found = v1.Session(config=_PLAIN), v1.train.Coordinator(), []
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer(), v1.tables_initializer()])
        threads = v1.train.start_queue_runners(session, coordinator) if old or "legacy.lift" in text else []
        with contextlib.suppress(tf.errors.OutOfRangeError):
            for _ in range(MOST):
                found.append(session.run(tensors, options=_PATIENCE))  # noqa: PERF401 - it may raise
        coordinator.raise_requested_exception()
        coordinator.request_stop()
        session.close()
        with contextlib.suppress(RuntimeError, tf.errors.OpError):  # what threads say of a session that is closed
            coordinator.join(threads, stop_grace_period_secs=5)
        return found, sessions.is_shuffled(graph), call.structure(given)


def run_eagerly(text, expression, files):
    """Return the batches of the dataset that a function returns, flat, and their structure."""
    tf.random.set_seed(None)  # which other tests have set, and graphs do not have
    with _place_of(text, old=False), _plainly():
        given = eval(expression, _carried_out(text))(files)  # noqa: S307 - ours
        [dataset] = [item for item in tf.nest.flatten(given) if isinstance(item, tf.data.Dataset)]
        batches = dataset.with_options(_UNCHANGED).as_numpy_iterator()
        return [tf.nest.flatten(item) for item in itertools.islice(batches, MOST)], call.structure(dataset.element_spec)


def _place_of(text, old):
    """Return where a script finds its TensorFlow: those that are told that they need contrib find that too."""
    return compat() if old or "TODO[contrib]" in text else contextlib.nullcontext()
