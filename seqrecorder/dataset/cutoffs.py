"""Rolling forecast origins: for each origin, the training records before it and the span to forecast.

The windows themselves are cut by `seqrecorder.Window` while reading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs
import numpy as np

from seqrecorder.dataset.folds_and_subsets import timeline
from seqrecorder.dataset.selection import Selection
from seqrecorder.errors import OptionError

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    R = TypeVarWithDefault("R", default=Any)
else:
    R = TypeVar("R")


@attrs.frozen
class Cutoff(Generic[R]):
    """Forecast origin, with the records before it and the span to forecast.

    `cutoffs` returns a list of them.

    Attributes:
        since: first time to forecast; pass it to `Window(since=)`.
        until: first time after the span; pass it to `Window(until=)`. None if the span ends with the data.
        train: selection of the records, each cut off before `since`.
    """

    since: Any
    until: Any
    train: Selection[R] = attrs.field(repr=False)


def cutoffs(
    selection: Selection[R], count: int, *, time: str, horizon: int, shift: int | None = None
) -> list[Cutoff[R]]:
    """Compute rolling forecast origins, to test forecasts at several points in time.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Series:
    ...     day: np.ndarray = sr.feature_list("datetime64[D]")
    ...     x: np.ndarray = sr.feature_list("float32")
    >>> path = tempfile.mkdtemp()
    >>> _ = sr.write([Series(np.arange("2026-01-01", "2026-01-10", dtype="M8[D]"), np.arange(9))], path)
    >>> series = sr.open(path).all()
    >>> for cutoff in sr.cutoffs(series, 2, time="day", horizon=3):
    ...     window = sr.Window(2, horizon=3, shift=3, time="day", since=cutoff.since, until=cutoff.until)
    ...     [test] = sr.read(series, batch=window)
    ...     print(cutoff.since, cutoff.train[0].x, test["x"].numpy(), test["x_horizon"].numpy())
    2026-01-04 [0. 1. 2.] [[1. 2.]] [[3. 4. 5.]]
    2026-01-07 [0. 1. 2. 3. 4. 5.] [[4. 5.]] [[6. 7. 8.]]

    The steps before an origin are for training. The span of `horizon` time points from the origin on is to be forecast.

    Other libraries call this backtesting or time series cross-validation; their parameters are `n_windows`, `h` and
    `step_size`, or `fh` and `step_length`.

    Args:
        selection: records with the complete series.
        count: number of origins.
        time: name of the feature list with the times of the steps, which ascend.
        horizon: number of time points to forecast from each origin, counted among the distinct times of all series.
        shift: number of time points from one origin to the next; None means `horizon`, so that no time is forecast
            twice.

    Returns:
        The origins, earliest first.

    Raises:
        OptionError: there are too few distinct times, or an option is invalid.
        SchemaError: the field does not exist.
        RecordError: the times of a record do not ascend.
    """
    for name, value in (("count", count), ("horizon", horizon), ("shift", horizon if shift is None else shift)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise OptionError(f"cutoffs: {name}: expected an int of 1 or more, got {value!r}")
    if not isinstance(selection, Selection):
        raise OptionError(f"cutoffs: expected a selection, such as open(path).all(), got {selection!r:.100}")
    times = timeline(selection._rows, time)[0]  # noqa: SLF001 - see `rows_of`
    step = horizon if shift is None else shift
    first = times.size - horizon - (count - 1) * step
    if first < 1:
        text = f"{times.size - first + 1} distinct times or more in {time!r}, there are {times.size}"
        raise OptionError(f"cutoffs: {count} origins need {text}; ask for fewer, or for a shorter horizon or shift")
    origins = []
    for index in range(first, times.size, step)[:count]:
        parts = selection.split(at={"train": ..., "test": times[index]}, time=time, straddling="cut")
        until = times[index + horizon] if index + horizon < times.size else None
        origins.append(Cutoff(times[index], until, parts["train"]))
    return origins
