"""How something is timed: in a process of its own, in turn with others, by the clock and by the processor."""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable


@attrs.frozen
class Effort:
    """How much is measured, and how often.

    Attributes:
        quick: whether the data are a tenth.
        rounds: how often everything runs.
        seconds: how long the steady state of a reading is measured in each round.
    """

    quick: bool = False
    rounds: int = 5
    seconds: float = 5.0


@attrs.frozen
class Taken:
    """What one run took: seconds of the clock, and of the processor where that is known."""

    clock: float
    processor: float | None = None

    def over(self, times: float) -> Taken:
        """Return what each of so many took."""
        return Taken(self.clock / times, None if self.processor is None else self.processor / times)


def in_new_process(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Return what a function returns in a process of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(function, *args, **options).result()


def time_run(run: Callable[[], Any]) -> tuple[Taken, Any]:
    """Return what a run took, the processor's time of all threads, and what it returned."""
    clock, processor = time.perf_counter(), time.process_time()
    done = run()
    return Taken(time.perf_counter() - clock, time.process_time() - processor), done
