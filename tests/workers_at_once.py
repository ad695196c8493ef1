"""Workers that take over behind the first chunk, whatever they gain: for tests, whose data are small."""

import time
from collections.abc import Callable
from typing import Any

from seqrecorder.writing import workers as worker_pool


def at_once(patch: Callable[[Any, str, Any], None] = setattr) -> None:
    """Let every writer with workers use them."""

    def is_ready(pool: Any) -> bool:
        # A pool that is closed before its threads have begun starts no process.
        while pool._ready < pool.workers and not (pool.problem or pool._closed):
            time.sleep(0.01)
        return pool._ready == pool.workers

    patch(worker_pool._Costs, "verdict", property(lambda _: True))
    patch(worker_pool._Pool, "is_ready", property(is_ready))
