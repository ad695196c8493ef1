"""Tables of any library, batch by batch: what comes through the Arrow C interface, and Hugging Face's datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.codec.arrow import pyarrow, without_views
from seqrecorder.errors import OptionError, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

BATCH_ROWS = 1 << 16
_BATCH_BYTES = 16 << 20
_HUB_ROWS = 8192
_HELD = ("pandas", "polars", "pyarrow")  # libraries whose tables lie in memory, where they have a length


@attrs.frozen
class Table:
    """Columns by name, whose rows come in record batches of pyarrow.

    Attributes:
        name: what messages call it.
        names: of the columns.
        again: whether its rows can be gone through more than once.
        open: gives the batches of some columns.
        is_sorted: whether they come in the order of the columns that somebody wants them in.
    """

    name: str
    names: tuple[str, ...]
    again: bool
    open: Callable[[Sequence[str]], Iterator[Any]]
    is_sorted: bool = False

    def batches(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield the rows of some columns, in batches of a bounded size.

        Raises:
            SourceError: the library that gives them failed, or the rows came already and cannot come again.
        """
        pa = pyarrow()
        try:
            for batch in self.open(names):
                plain = [without_views(column) for column in batch.columns]
                yield from cut_batch(pa.record_batch(plain, names=batch.schema.names))
        except (pa.ArrowException, TypeError, ValueError, OverflowError, OSError) as error:
            if isinstance(error, (SourceError, OptionError)):
                raise
            raise SourceError(f"{self.name}: {error}") from error


def is_arrow(given: object) -> bool:
    """Whether an object is given out through the Arrow C interface.

    >>> is_arrow([1, 2])
    False
    """
    kind = type(given)
    return hasattr(kind, "__arrow_c_stream__") or hasattr(kind, "__arrow_c_array__") or _is_series_of_lists(given)


def _is_series_of_lists(given: Any) -> bool:
    """Whether an object is a series of pandas before version 3, whose frames have the interface, and which lack it."""
    kind = type(given)
    if kind.__name__ != "Series" or not kind.__module__.startswith("pandas.") or given.dtype != object:
        return False
    return isinstance(next((item for item in given if item is not None), None), list | tuple | np.ndarray)


def is_table(given: object) -> bool:
    """Whether an object is a table: one with the Arrow C interface, or a dataset of Hugging Face's library.

    >>> is_table([1, 2])
    False
    """
    return is_arrow(given) or _is_hub_dataset(given)


def table_of(given: Any) -> Table:
    """Return a table in memory, or a stream, as batches.

    Args:
        given: what `is_table` knows.

    Raises:
        OptionError: it is no table, or pyarrow is not installed.
        SourceError: the library that gives it failed.
    """
    pa = pyarrow()
    name = type(given).__name__
    if _is_hub_dataset(given):
        return _hub_dataset(given)
    if type(given).__module__.partition(".")[0] in _HELD and hasattr(given, "__len__"):
        names = getattr(given, "column_names", None) or getattr(given, "columns", None)
        if isinstance(given, pa.RecordBatch):
            names = given.schema.names
        if names is None:
            raise OptionError(f"expected a table, got {name}: an array has no columns")
        texts = tuple(str(column) for column in names)
        is_pandas = type(given).__module__.startswith("pandas")

        def held(wanted: Sequence[str]) -> Iterator[Any]:
            part = given
            if is_pandas:  # which converts what it gives
                part = given[[column for column in names if str(column) in set(wanted)]].reset_index(drop=True)
            return iter(_arrow_table(part).select(list(wanted)).to_batches())

        return Table(name, texts, again=True, open=held)
    try:
        reader = pa.RecordBatchReader.from_stream(given)
    except (pa.ArrowException, TypeError, ValueError, AttributeError) as error:
        raise OptionError(f"expected a table, got {name}: {error}") from error
    return Table(name, tuple(reader.schema.names), again=False, open=once(name, reader))


def _arrow_table(given: Any) -> Any:
    """Return a table of pyarrow, also of objects of pandas that are ints beyond int64."""
    pa = pyarrow()
    try:
        return pa.table(given)
    except OverflowError:
        return pa.table({str(name): _large_integers(str(name), given[name]) for name in given.columns})


def _large_integers(name: str, column: Any) -> Any:
    pa = pyarrow()
    try:
        return pa.Array.from_pandas(column)
    except OverflowError:
        try:
            return pa.array(column, pa.uint64(), from_pandas=True)
        except (OverflowError, pa.ArrowException) as error:
            raise SourceError(f"column {name!r}: expected integers of at most 64 bits, got others: {error}") from error


def once(name: str, reader: Any) -> Callable[[Sequence[str]], Iterator[Any]]:
    """Return the function that gives some columns of a stream of batches, which refuses to be called twice."""
    left = [reader]

    def read(wanted: Sequence[str]) -> Iterator[Any]:
        if not left:
            raise SourceError(f"{name}: a stream gives its rows once, and they were taken: make another one")
        return (batch.select(list(wanted)) for batch in left.pop())

    return read


def cut_batch(batch: Any) -> Iterator[Any]:
    """Yield the slices of a record batch that are no larger than a batch should be."""
    each = max(1, batch.nbytes // max(1, batch.num_rows))
    rows = max(1, min(BATCH_ROWS, _BATCH_BYTES // each))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _is_hub_dataset(given: object) -> bool:
    return type(given).__module__.partition(".")[0] == "datasets" and hasattr(given, "with_format")


def _hub_dataset(given: Any) -> Table:
    names = given.column_names
    if not isinstance(names, list):
        raise OptionError(f"expected a dataset with known columns, got {type(given).__name__} with {names!r}")

    def read(wanted: Sequence[str]) -> Iterator[Any]:
        # The tables inside of it know nothing of what was selected and shuffled; these batches do.
        for table in given.select_columns(list(wanted)).with_format("arrow").iter(_HUB_ROWS):
            yield from table.to_batches()

    return Table(type(given).__name__, tuple(names), again=True, open=read)
