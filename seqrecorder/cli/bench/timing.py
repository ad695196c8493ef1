"""How something is timed: in a process of its own, in turn with others, by the clock and by the processor."""

from __future__ import annotations

import collections
import functools
import multiprocessing
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Way = tuple[Callable[[], object], Callable[[], Iterable[Any]]]


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


def time_ways(
    what: str, ways: Mapping[str, Way], is_written: Callable[[Iterable[Any]], bool], rounds: int
) -> dict[str, dict[str, list[float]]]:
    """Time in turn how candidates write something, and read it again.

    Args:
        what: is written.
        ways: by candidate, a function that writes, and one that gives the pieces of what was written.
        is_written: whether pieces that were read are what was to be written.
        rounds: how often everything runs.

    Returns:
        By candidate and half (`write`, `read`), median seconds of the processor and of the clock.

    Raises:
        AssertionError: what was read is not what was written.
    """
    for candidate, (put, get) in ways.items():
        put()
        if not is_written(get()):
            raise AssertionError(f"{what}: {candidate} gave something else than was written")
    taken: dict[str, dict[str, list[Taken]]] = {name: {"write": [], "read": []} for name in ways}
    for _ in range(rounds):
        for candidate, (put, get) in ways.items():
            taken[candidate]["write"].append(time_run(put)[0])
            taken[candidate]["read"].append(time_run(functools.partial(_drain, get))[0])
    return {name: {half: _medians(runs) for half, runs in halves.items()} for name, halves in taken.items()}


def _drain(get: Callable[[], Iterable[Any]]) -> None:
    collections.deque(get(), maxlen=0)


def _medians(runs: list[Taken]) -> list[float]:
    return [statistics.median(run.processor or 0.0 for run in runs), statistics.median(run.clock for run in runs)]
