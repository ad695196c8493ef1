"""`slim.queues`: queue runners for as long as a block of statements."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_RUNNING = threading.Lock()


class NestedQueueRunnerError(Exception):
    """`slim.queues.NestedQueueRunnerError`: queue runners run already."""


@contextlib.contextmanager
def QueueRunners(session: Any) -> Iterator[None]:  # noqa: N802 - its old name
    """Run the queue runners of the default graph inside a `with` statement, as `slim.queues.QueueRunners` did.

    Args:
        session: in which they run.

    Raises:
        NestedQueueRunnerError: another such statement is not at its end.
    """
    import tensorflow as tf

    if not _RUNNING.acquire(blocking=False):
        raise NestedQueueRunnerError("QueueRunners cannot be nested")
    coordinator = tf.train.Coordinator()
    threads = tf.compat.v1.train.start_queue_runners(session, coordinator)
    try:
        yield
    finally:
        coordinator.request_stop()
        try:
            coordinator.join(threads, stop_grace_period_secs=120)
        except RuntimeError:
            session.close()
        _RUNNING.release()
