"""Rolling origins in time: what is known at each, and the windows of what came next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs
import numpy as np

from seqrecorder.dataset.folds import (
    timeline,
)
from seqrecorder.dataset.selection import Selection
from seqrecorder.errors import OptionError

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    R = TypeVarWithDefault("R", default=Any)
else:
    R = TypeVar("R")


@attrs.frozen
class Cutoff(Generic[R]):
    """Origin of forecasts: the series up to it, and the span to forecast from it; `cutoffs` gives several.

    Attributes:
        since: the first time to forecast, as `Window(since=)` takes it.
        until: the first time after the span, as `Window(until=)` takes it; None where the span ends with the data.
        train: the records, cut before `since`.
    """

    since: Any
    until: Any
    train: Selection[R] = attrs.field(repr=False)


def cutoffs(
    selection: Selection[R], count: int, *, time: str, horizon: int, shift: int | None = None
) -> list[Cutoff[R]]:
    """Return rolling origins of series: each has the records up to it to train on, and a span after it to test.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Series:
    ...     day: np.ndarray = sr.feature_list("datetime64[D]")
    ...     x: np.ndarray = sr.feature_list("float32")
    >>> path = tempfile.mkdtemp()
    >>> _ = sr.write([Series(np.datetime64("2026-01-01") + np.arange(9), np.arange(9))], path)
    >>> series = sr.open(path).all()
    >>> for cutoff in sr.cutoffs(series, 2, time="day", horizon=3):
    ...     window = sr.Window(2, horizon=3, shift=3, time="day", since=cutoff.since, until=cutoff.until)
    ...     [test] = sr.read(series, batch=window)
    ...     print(cutoff.since, cutoff.train[0].x, test["x"].numpy(), test["x_horizon"].numpy())
    2026-01-04 [0. 1. 2.] [[1. 2.]] [[3. 4. 5.]]
    2026-01-07 [0. 1. 2. 3. 4. 5.] [[4. 5.]] [[6. 7. 8.]]

    Others call this backtesting or cross-validation of series, and the parameters `n_windows`, `h` and `step_size`, or
    `fh` and `step_length`.

    Args:
        selection: whole series, from first to last.
        count: how many origins.
        time: name of the feature list of the times of steps, which ascend.
        horizon: times that are forecast from an origin, counted among the distinct times of all series.
        shift: times from one origin to the next; None is `horizon`, so that no time is forecast twice.

    Returns:
        The origins, the earliest first.

    Raises:
        OptionError: there are too few times, or options make no sense.
        SchemaError: there is no field of the name.
        RecordError: the times of a record do not ascend.
    """
    for name, value in (("count", count), ("horizon", horizon), ("shift", horizon if shift is None else shift)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise OptionError(f"cutoffs: {name}: expected an int of 1 or more, got {value!r}")
    if not isinstance(selection, Selection):
        raise OptionError(
            f"cutoffs: expected a selection, such as seqrecorder.open(path).all(), got {selection!r:.100}"
        )
    times = timeline(selection._rows, time)[0]  # noqa: SLF001 - see `rows_of`
    step = horizon if shift is None else shift
    first = times.size - horizon - (count - 1) * step
    if first < 1:
        raise OptionError(
            f"cutoffs: {count} origins need {times.size - first + 1} distinct times or more in {time!r}, there are "
            f"{times.size}; ask for fewer, or for a shorter horizon or shift"
        )
    origins = []
    for index in range(first, times.size, step)[:count]:
        parts = selection.split(at={"train": ..., "test": times[index]}, time=time, straddling="cut")
        until = times[index + horizon] if index + horizon < times.size else None
        origins.append(Cutoff(times[index], until, parts["train"]))
    return origins
