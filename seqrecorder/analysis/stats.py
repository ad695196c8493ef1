"""`stats`: statistics of the records of a dataset by field, channel and split, computed in one pass.

The statistics of plain numbers and texts are in `seqrecorder.analysis.numbers`.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import logging
import zlib
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import numpy as np

from seqrecorder.analysis.numbers import QUANTILES, Numbers, Summary, Texts, edges_of, shares_of, ticks_of
from seqrecorder.codec.columns import Column, group_lengths
from seqrecorder.codec.graph_ops import FieldMap, as_numbers, checked, records_called
from seqrecorder.dataset.manifest import lengths_picture, read_statistics, write_statistics
from seqrecorder.dataset.record_store import Rows
from seqrecorder.dataset.selection import Corpus, Selection, rows_of
from seqrecorder.dataset.selection import open as open_corpus
from seqrecorder.errors import OptionError, SeqrecorderError
from seqrecorder.schema.display import cut, fit, html_table, join, number_of, outlines, text_table
from seqrecorder.storage.processes_and_signals import Progress, ahead, in_processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from seqrecorder.analysis.numbers import Distribution
    from seqrecorder.dataset.manifest import Manifest
    from seqrecorder.dataset.record_store import RecordStore
    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema

R = TypeVar("R")


def selections_of(source: Any, split: str | None = None) -> dict[str, Selection]:
    """Map each split of a source to a selection of its records, in the order of the manifest.

    Args:
        source: directory of a dataset, `Corpus` or `Selection`.
        split: name of the only split to return; None for all.

    Raises:
        DatasetNotFoundError: the dataset or split does not exist.
        OptionError: `split` is passed with a selection, which already has its splits.
    """
    if not isinstance(source, Selection):
        corpus = source if isinstance(source, Corpus) else open_corpus(source)
        return {name: corpus[name] for name in (corpus if split is None else [split])}
    if split is not None:
        raise OptionError(f"split: a selection already has its splits, got {split!r}; select from corpus[{split!r}]")
    return {name: Selection(rows) for name, rows in rows_of(source).by_split().items()}


_PIECE = 64 << 20  # bytes of records per piece: about a second of reading, enough to outweigh the cost of a process


def by_pieces(
    work: Callable[[Selection], R],
    splits: Mapping[str, Selection],
    label: str,
    *,
    progress: bool | None,
    alone: bool = False,
) -> Iterator[tuple[str, R]]:
    """Apply a function to pieces of selections in parallel processes.

    Each result is yielded with the name of its selection. How selections are divided does not depend on the machine, so
    sums over the pieces are reproducible to the bit.

    Args:
        work: function that takes a selection; worker processes must be able to import it (see `in_processes`).
        splits: selections by name.
        label: label of the progress bar (see `Progress`).
        progress: whether to show the progress (see `Progress`).
        alone: whether to run in this process only, as needed for a function that other processes cannot import.
    """
    stores, pieces = [], list[tuple[str, int, Any]]()
    for name, selection in splits.items():
        rows = rows_of(selection)
        stores.append(rows.store)
        mean = rows.store.manifest.bytes // max(1, rows.store.manifest.records)
        # A GZIP file can only be read from its start, so its records are one piece.
        size = max(1, _PIECE // max(1, mean)) if rows.store.is_sought else max(1, len(rows))
        pieces += [(name, len(stores) - 1, rows.positions[at : at + size]) for at in range(0, max(1, len(rows)), size)]
    on_pieces = _OnPieces(work, tuple(stores))
    results = ahead(on_pieces, pieces, 0) if alone else in_processes(on_pieces, pieces)
    with contextlib.closing(Progress(progress, label)) as bar, contextlib.closing(results) as done:
        bar.expect(sum(map(len, splits.values())))
        for (name, _, positions), result in done:
            yield name, result.result()
            bar.advance(len(positions))


@attrs.frozen
class _OnPieces:
    """Function that applies `work` to some of the records of a store.

    Its argument, a piece, contains the number of the store and the records. The function can be pickled, so worker
    processes can call it.
    """

    work: Callable[[Selection], Any]
    stores: tuple[RecordStore, ...]

    def __call__(self, piece: tuple[str, int, Any]) -> Any:
        return self.work(Selection(Rows(self.stores[piece[1]], piece[2])))

    def __reduce__(self) -> tuple[object, ...]:
        # Workers read records through the schema, because another process may be unable to import the record class.
        return type(self), (self.work, tuple(store.reading(store.schema) for store in self.stores))


_TOP = 10


HEADS = ("field", "dtype", "empty", "steps", "missing", "minimum", "mean", "maximum", "std", "distinct", "top")
"""Headings of the cells of `FieldStats.line`."""

_LENGTH = np.dtype(np.int64)
_DRAWN = 6


@attrs.define(eq=False, repr=False)
class FieldStats:
    """Statistics of a field.

    If values or steps are arrays, their last dimension holds the channels, and statistics such as `mean` are arrays of
    shape `(channels,)`; otherwise, they are numbers. NaN, NaT and None are counted as missing, and excluded from every
    other statistic.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Series:
    ...     price: np.ndarray = sr.feature_list("float64")
    >>> corpus = tempfile.mkdtemp()
    >>> _ = sr.write([Series([1.0, 2.0]), Series([float("nan"), 6.0])], corpus)
    >>> price = sr.stats(corpus)["price"]
    >>> price.mean, price.missing, price.quantile(0.5), price.lengths.maximum
    (3.0, 1, 2.0, 2)

    Attributes:
        field: field that the statistics describe.
        records: number of records.
        none: number of records whose value is None.
        empty: number of records whose value has no steps or elements.
        values: statistics of the elements of all values.
        sizes: statistics of the number of steps of a feature list, or of elements of a ragged or sparse context field;
            None for other fields.
        inner: statistics of the number of elements per step of a ragged or sparse feature list; None for other fields.
        gaps: statistics of the differences between consecutive times in a feature list of times, in the unit of the
            times; None for other fields.
        backwards: number of negative gaps.
        splits: statistics of each split, by name.
    """

    field: Field
    records: int
    none: int
    empty: int
    values: Numbers | Texts
    sizes: Numbers | None = None
    inner: Numbers | None = None
    gaps: Numbers | None = None
    backwards: int = 0
    splits: Mapping[str, FieldStats] = attrs.field(factory=dict)

    @classmethod
    def of_nothing(cls, field: Field) -> FieldStats:
        """Create empty statistics for a field."""
        values = Texts() if field.element.is_text else Numbers.empty(field.element.numpy, _channels(field))
        sizes = Numbers.empty(_LENGTH) if field.is_counted else None
        inner = Numbers.empty(_LENGTH) if field.is_list and (field.is_ragged or field.sparse is not None) else None
        has_gaps = field.is_list and field.element.is_time and not field.shape and field.sparse is None
        return cls(field, 0, 0, 0, values, sizes, inner, Numbers.empty(_LENGTH) if has_gaps else None)

    def add(self, column: Column, records: int) -> None:
        """Update the statistics with the field's values from a batch of records."""
        self.records += records
        self.none += 0 if column.present is None else int(records - np.count_nonzero(column.present))
        if self.sizes is not None:
            sizes = np.asarray(column.counts if column.steps is None else column.steps, np.int64)
            self.empty += int(np.count_nonzero(sizes == 0))
            self.sizes.add(sizes[:, np.newaxis])
            if self.inner is not None:
                self.inner.add(np.asarray(column.counts, np.int64)[:, np.newaxis])
            if self.gaps is not None:
                self._add_gaps(column.values.view(np.int64), sizes)
        if isinstance(self.values, Texts):
            self.values.add(column.values.ravel().tolist())
        else:
            values: Any = column.values
            if self.field.any_size:
                empty = np.empty(0, self.field.element.numpy)
                values = np.concatenate([empty, *map(np.ravel, values)], dtype=empty.dtype)
            self.values.add(np.reshape(values, (-1, _channels(self.field))))

    def _add_gaps(self, times: NDArray[np.int64], sizes: NDArray[np.int64]) -> None:
        inside = np.ones(times.size, bool)
        starts = (np.cumsum(sizes) - sizes)[sizes > 0]
        inside[starts] = False
        inside[1:] &= (times[1:] != np.iinfo(np.int64).min) & (times[:-1] != np.iinfo(np.int64).min)
        gaps = np.diff(times, prepend=times[:1])[inside]
        self.backwards += int(np.count_nonzero(gaps < 0))
        if self.gaps is not None:
            self.gaps.add(gaps[:, np.newaxis])

    def __add__(self, other: FieldStats) -> FieldStats:
        names = ("records", "none", "empty", "backwards", "values", "sizes", "inner", "gaps")
        known = [name for name in names if getattr(self, name) is not None]
        return attrs.evolve(self, **{name: getattr(self, name) + getattr(other, name) for name in known})

    @property
    def name(self) -> str:
        """Name of the field."""
        return self.field.name

    @property
    def by_channel(self) -> bool:
        """Check whether statistics have one entry per channel.

        This is the case if the values or steps of the field are arrays.
        """
        return bool(self.field.rest) or self.field.any_size

    @property
    def present(self) -> int:
        """Number of records with a value."""
        return self.records - self.none

    @property
    def lengths(self) -> Summary | None:
        """Summary of the sizes of the records that have a value.

        It is None for fields without sizes.
        """
        return None if self.sizes is None else Summary(self.sizes)

    @property
    def count(self) -> Any:
        """Number of finite elements, or of texts."""
        return self.values.total if isinstance(self.values, Texts) else self._of(self.values.count)

    @property
    def mean(self) -> Any:
        """Mean of the finite elements; NaN if there are none."""
        numbers = self._numbers("mean")
        return self._of(np.where(numbers.count > 0, numbers.mean, np.nan))

    @property
    def variance(self) -> Any:
        """Mean squared distance from the mean (`numpy.var`)."""
        return self._of(self._numbers("variance").variance)

    @property
    def std(self) -> Any:
        """Standard deviation (`numpy.std`)."""
        return self._of(np.sqrt(self._numbers("std").variance))

    @property
    def minimum(self) -> Any:
        """Exact minimum of the finite elements; NaN or NaT if there are none."""
        return self._extreme(self._numbers("minimum").minimum)

    @property
    def maximum(self) -> Any:
        """Exact maximum of the finite elements; NaN or NaT if there are none."""
        return self._extreme(self._numbers("maximum").maximum)

    @property
    def zeros(self) -> Any:
        """Number of elements that are 0 or False, or of texts that are empty."""
        return self.values.empty if isinstance(self.values, Texts) else self._of(self.values.zeros)

    @property
    def nan(self) -> Any:
        """Number of elements that are NaN or NaT."""
        return 0 if isinstance(self.values, Texts) else self._of(self.values.nan)

    @property
    def missing(self) -> Any:
        """Number of missing values.

        This is the number of elements that are NaN or NaT, plus the number of records whose value is None.
        """
        return self.nan + self.none

    @property
    def infinities(self) -> Any:
        """Number of infinite elements."""
        return 0 if isinstance(self.values, Texts) else self._of(self.values.infinite)

    @property
    def constant(self) -> Any:
        """Check whether all elements are equal."""
        if isinstance(self.values, Texts):
            return self.values.distinct == 1
        return self._of((self.values.count > 0) & (self.values.minimum == self.values.maximum))

    @property
    def distinct(self) -> int | None:
        """Number of distinct elements; None if there were too many to count."""
        return self.whole.distinct

    def top(self, count: int = _TOP) -> list[tuple[Any, int]]:
        """Return the most frequent elements with their counts.

        Beyond 65,536 distinct texts, counts are approximate. The list is empty if there were too many distinct numbers
        to count (see `distinct`).
        """
        if isinstance(self.values, Texts):
            return self.values.top(count)
        return [(self.native(value), times) for value, times in self.whole.top(count)]

    def quantile(self, q: float) -> Any:
        """Compute a quantile of each channel, interpolated like `numpy.quantile`.

        Quantiles are exact up to 4,096 distinct floats or 65,536 distinct integers. Beyond that, the interpolated
        elements have a relative error of at most 0.4 %, and the quantiles of times are NaT. With more than 64 channels,
        every channel has the quantiles of all channels together.

        Raises:
            OptionError: `q` is not in [0, 1], or the field is text.
        """
        if not 0 <= q <= 1:
            raise OptionError(f"q: expected a share from 0 to 1, got {q!r}")
        numbers = self._numbers("quantile")
        if self.field.element.is_time:
            part = numbers.distributions[0]
            if part.values is None or not numbers.count[0]:
                return np.array("NaT", self.field.element.numpy)[()]
            rank, ends = q * (part.total - 1), np.cumsum(part.counts)
            # Interpolate in integers, because a float64 cannot represent every time.
            low, high = (int(part.values[np.searchsorted(ends, at, "right")]) for at in (int(rank), -int(-rank // 1)))
            return self.native(low + int((high - low) * (rank % 1)))
        values = np.array([part.quantile(q) for part in numbers.distributions])
        values = np.broadcast_to(values, numbers.count.shape)
        with np.errstate(invalid="ignore"):
            return self._of(np.clip(values, *(end.astype(np.float64) for end in (numbers.minimum, numbers.maximum))))

    @property
    def whole(self) -> Texts | Distribution:
        """Frequencies of the elements of all channels together."""
        return self.values if isinstance(self.values, Texts) else self.values.total().distributions[0]

    def _numbers(self, what: str) -> Numbers:
        if isinstance(self.values, Texts):
            raise OptionError(f"{what}: field {self.name!r} is text; it has `top`, `distinct` and `zeros`")
        return self.values

    def _of(self, figures: NDArray[Any]) -> Any:
        return figures if self.by_channel else figures[0].item()

    def _extreme(self, ends: NDArray[Any]) -> Any:
        numbers = self._numbers("minimum")
        if self.field.element.is_time:
            ends = np.where(numbers.count > 0, ends, np.iinfo(np.int64).min).view(self.field.element.numpy)
            return ends if self.field.rest else ends[0]
        if not numbers.count.all():
            ends = np.where(numbers.count > 0, ends, np.nan)
        return self._of(ends)

    def native(self, value: Any) -> Any:
        """Convert a counted element to the type of the field.

        If the field contains times, a number out of range becomes the nearest time.
        """
        element, last = self.field.element, np.iinfo(np.int64).max
        if element.is_time:
            return np.array(min(max(value, -last), last), np.int64).view(element.numpy)[()]
        return bool(value) if element.name == "bool" else value

    def to_dict(self) -> dict[str, Any]:
        """Convert the statistics to a dictionary.

        If the field has channels, statistics such as the mean have one entry per channel.
        """
        figures: dict[str, Any] = {"dtype": self.field.element.name, "kind": self.field.kind}
        names = ["records", "none", "empty", "count", "missing", "zeros", "constant", "distinct"]
        figures |= {name: getattr(self, name) for name in names}
        figures["top"] = [[value, times] for value, times in self.top()]
        if isinstance(self.values, Texts):
            texts = self.values
            figures |= {"shortest": texts.shortest, "longest": texts.longest, "top_error": texts.error}
        else:
            figures |= {name: getattr(self, name) for name in ("infinities", "minimum", "maximum", "mean", "std")}
            figures["quantiles"] = {str(q): self.quantile(q) for q in QUANTILES}
        for name, numbers in (("lengths", self.sizes), ("inner_lengths", self.inner)):
            if numbers is not None:
                figures[name] = Summary(numbers).to_dict()
        if self.gaps is not None:
            duplicates = int(self.gaps.zeros[0])
            figures["gaps"] = {**Summary(self.gaps).to_dict(), "duplicates": duplicates, "backwards": self.backwards}
        return figures

    def normalization(self) -> Any:
        """Build a `keras.layers.Normalization` from the exact mean and variance.

        Padding is excluded from both.

        Raises:
            OptionError: the field is not numeric.
        """
        import keras

        mean, scale = self._center_and_scale()
        return keras.layers.Normalization(-1 if self.by_channel else None, mean=mean, variance=scale**2)

    def normalize(self, values: Any) -> Any:
        """Subtract the mean and divide by the standard deviation.

        If the standard deviation is 0, values are divided by 1. `read(..., normalize=...)` does the same.

        Args:
            values: array, list or tensor of shape `(..., channels)`, or of any shape for a field without channels.

        Raises:
            OptionError: the field is not numeric, or a channel has no finite values.
        """
        center, scale = self._center_and_scale()
        return (_as_array(values) - center) / scale

    def denormalize(self, values: Any) -> Any:
        """Undo `normalize`, for example for predictions.

        The values are multiplied by the standard deviation (or by 1 if it is 0), and then the mean is added.

        Args:
            values: normalized values of shape `(..., channels)`, or of any shape for a field without channels.

        Raises:
            OptionError: the field is not numeric, or a channel has no finite values.
        """
        center, scale = self._center_and_scale()
        return _as_array(values) * scale + center

    def _center_and_scale(self, other: tuple[Any, Any] | None = None) -> tuple[Any, Any]:
        """Compute the mean and the scale of each channel.

        If a channel has no finite values, its mean and scale are those in `other`. If `other` is None, an error is
        raised.
        """
        if self.field.element.numpy.kind not in "fiuV":
            raise OptionError(f"normalize: expected numbers, got field {self.name!r} of {self.field.element.name}")
        std = np.atleast_1d(self.std)
        center, scale = self.mean, self._of(np.where(std == 0, 1.0, np.maximum(std, 1e-7)))  # as in the Keras layer
        if other is not None:
            return np.where(np.isfinite(center), center, other[0]), np.where(np.isfinite(center), scale, other[1])
        if not np.isfinite([center, scale]).all():
            raise OptionError(f"normalize: {self.name!r} has a channel without finite values; name the other fields")
        return center, scale

    def field_map(self, field: Field) -> FieldMap:
        """Build the graph function that normalizes a field and leaves padding at 0.

        Raises:
            OptionError: the field is not numeric, or its channels differ from the channels of the statistics.
        """
        if self.field.any_size:
            raise OptionError(
                f"normalize: {self.name!r} holds images of any size: give the model the layer "
                f"stats[{self.name!r}].normalization(), or keras.layers.Rescaling(1 / 255)"
            )
        if self.field.element.is_text or field.element.numpy.kind not in "fiuV" or field.rest != self.field.rest:
            got = [f"field {each.name!r} of {each.element.name}, shape {each.rest}" for each in (field, self.field)]
            raise OptionError(f"normalize: expected numbers and their statistics, got {' and those of '.join(got)}")
        wide = "float64" if field.element.name == "float64" else "float32"
        center, scale = self._center_and_scale()

        def normalized(values: Any) -> Any:
            import tensorflow as tf

            return (tf.cast(values, wide) - tf.constant(center, wide)) / tf.constant(scale, wide)

        return FieldMap(field.name, as_numbers(field, wide), normalized)

    def line(self) -> tuple[str, ...]:
        """Format the statistics as the cells of a table row (see `HEADS`)."""

        def shown(figure: Any) -> str:
            if self.by_channel:
                figures = np.asarray(figure, np.float64)[~np.isnan(figure)]
                ends = {f"{end:.4g}" for end in (figures.min(), figures.max())} if figures.size else set()
                return " to ".join(sorted(ends, key=float))
            return f"{figure:.4g}" if isinstance(figure, float) else str(figure)

        element, figures, top = self.field.element, ["", "", "", ""], ""
        if not element.is_text and np.any(self.count):
            mean = self.native(round(self.mean)) if element.is_time and not self.field.rest else self.mean
            std = "" if element.is_time else shown(self.std)
            figures = [shown(self.minimum), shown(mean), shown(self.maximum), std]
        if element.is_text or element.numpy.kind in "iub":
            top = ", ".join(f"{cut(_named(value), 20)} ({times:,})" for value, times in self.top(3))
        sizes = "" if self.sizes is None or not self.present else Summary(self.sizes).brief()
        missing = f"{int(np.sum(self.missing)):,}"
        distinct = "more" if self.distinct is None else f"{self.distinct:,}"
        return self.name, element.name, f"{self.empty:,}", sizes, missing, *figures, distinct, top

    def __repr__(self) -> str:
        cells = [f"{head} {cell}" for head, cell in zip(HEADS, self.line(), strict=True) if cell not in ("", "0")]
        return f"<FieldStats {', '.join(cells[:1] + cells[2:])}>"

    def _repr_html_(self) -> str:
        named = self.splits or {"": self}
        rows = [(name, *part.line()[1:]) for name, part in named.items()]
        return html_table(self.name, ("", *HEADS[1:]), rows) + self._drawn(named)

    def _drawn(self, splits: Mapping[str, FieldStats]) -> str:
        """Draw the histograms of the values by split.

        The result is an empty string for texts, for times, and for fields without values.
        """
        whole = self.whole
        if isinstance(whole, Texts) or not whole.total or self.field.element.is_time:
            return ""
        edges, shares = self.binned(dict(list(splits.items())[:_DRAWN]))
        return outlines(f"{self.name}: share of the values", edges, shares, ticks_of(edges))

    def binned(self, splits: Mapping[str, FieldStats]) -> tuple[Any, dict[str, Any]]:
        """Compute a histogram of the numbers of all channels for each split.

        The first result contains the edges of the bins, which all splits share. The second maps each split with values
        to the shares of its bins.
        """
        edges = edges_of(self.whole, is_whole=self.field.element.numpy.kind in "iu")
        parts = {name: part.whole for name, part in splits.items() if np.any(part.count)}
        return edges, {name: shares_of(part, edges) for name, part in parts.items()}


def _as_array(values: Any) -> Any:
    return values if hasattr(values, "dtype") else np.asarray(values)


def _named(value: Any) -> str:
    """Format a value on one line, as its repr if it is blank or not printable."""
    text = str(value)
    return text if text.isprintable() and text.strip() else repr(value)


def _channels(field: Field) -> int:
    dimensions = field.shape if field.any_size else field.rest
    return (dimensions[-1] if dimensions else None) or 1


_FLOATS = ("float16", "bfloat16", "float32", "float64")


@attrs.define(eq=False, repr=False)
class Stats:
    """Statistics of records.

    For a dataset, `stats["price"]` covers the split `train` if there is one, and all records otherwise; for a
    selection, it covers all records. `stats.all["price"]` always covers all records, as does the printed table, and
    `stats.splits["eval"]["price"]` covers one split. `a + b` merges the statistics of two sets of records; the result
    is treated as that of a selection if `a` or `b` is.

    Attributes:
        schema: schema of the records.
        records: number of records.
        fields: statistics of each field over all records, by field name.
        groups: statistics of the record lengths in each alignment group, by the name of the group.
        splits: statistics of each split, by name.
        by: statistics of the records with each value of the field `by_field`; empty if `by_field` is None.
        by_field: name of the field passed as `by`; None if there is none.
        of_selection: whether the records are a selection, so that `stats["price"]` covers all splits.
    """

    schema: Schema
    records: int
    fields: dict[str, FieldStats]
    groups: dict[str, Numbers]
    splits: dict[str, Stats] = attrs.field(factory=dict)
    by: dict[Any, Stats] = attrs.field(factory=dict)
    by_field: str | None = None
    of_selection: bool = False

    @classmethod
    def of_nothing(cls, schema: Schema) -> Stats:
        """Create empty statistics for a schema."""
        groups = {group: Numbers.empty(np.dtype(np.int64)) for group in schema.groups}
        return cls(schema, 0, {field.name: FieldStats.of_nothing(field) for field in schema.fields}, groups)

    def __getitem__(self, name: str) -> FieldStats:
        """Look up the statistics of a field.

        If a dataset has a split `train`, they cover this split. Otherwise, they cover all records.
        """
        field = self.schema[name]
        splits = {split: part.fields[field.name] for split, part in self.splits.items()}
        return attrs.evolve(self._default.fields[field.name], splits=splits)

    @property
    def _default(self) -> Stats:
        """Statistics that `stats["price"]` and `read(..., normalize=stats)` use."""
        return self if self.of_selection else self.splits.get("train", self)

    @property
    def all(self) -> Stats:
        """Statistics over all records, without splits."""
        return attrs.evolve(self, splits={})

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __contains__(self, name: object) -> bool:
        return name in self.fields

    def lengths(self, group: str | None = None) -> Summary:
        """Summarize the lengths of records in an alignment group, by default the first.

        Raises:
            OptionError: the schema has no feature list, or no group of this name.
        """
        name = next(iter(self.groups), None) if group is None else group
        if name not in self.groups:
            raise OptionError(f"group: expected one of {', '.join(self.groups) or 'none'}, got {group!r}")
        return Summary(self.groups[name])

    def add(self, columns: Mapping[str, Column], records: int) -> None:
        """Update the statistics with the columns of a batch of records."""
        self.records += records
        for name, field in self.fields.items():
            field.add(columns[name], records)
        lengths = group_lengths(self.schema, dict(columns), records)
        for at, group in enumerate(self.groups):
            self.groups[group].add(lengths[:, at : at + 1])

    def __add__(self, other: Stats) -> Stats:
        """Merge the statistics of two sets of records.

        Raises:
            OptionError: their fields differ.
        """
        if not isinstance(other, Stats) or self.schema.fields != other.schema.fields:
            differs = self.schema.changes_since(other.schema) if isinstance(other, Stats) else [repr(other)]
            raise OptionError(f"expected statistics of the same fields, got others: {join([*map(str, differs)])}")
        names = ("fields", "groups", "splits", "by")
        sums: dict[str, Any] = {name: _sums(getattr(self, name), getattr(other, name)) for name in names}
        either = self.of_selection or other.of_selection
        return attrs.evolve(self, records=self.records + other.records, of_selection=either, **sums)

    def normalizers(self) -> dict[str, Stats]:
        """Build the mapping that `read(..., normalize=...)` uses.

        Its keys are the names of the float fields, except for sparse fields. Each of its values is this object.
        """
        dense = [each for each in self.schema.fields if each.sparse is None]
        return {each.name: self for each in dense if each.element.name in _FLOATS}

    def field_map(self, field: Field) -> FieldMap:
        """Build the graph function that normalizes a field.

        If the statistics are grouped by a field, each record is normalized by the statistics of its group. A channel
        without finite values in a group is normalized by the statistics of all groups together.

        Raises:
            OptionError: the field is not numeric, its channels differ from those of the statistics, a channel has no
                finite values, or the grouping field is optional.
        """
        by = self.by_field
        if by is None:
            return self[field.name].field_map(field)
        if self.schema[by].optional:
            raise OptionError(f"normalize: records may have no {by!r}; declare a default instead of optional=True")
        parts = {value: part[field.name] for value, part in self._default.by.items()}
        target, whole = self[field.name].field_map(field).target, self[field.name]._center_and_scale()  # noqa: SLF001 - same module
        wide = target.element.name
        figures = np.array([part._center_and_scale(whole) for part in parts.values()], wide)  # noqa: SLF001 - as above
        rest = figures.shape[2:]  # channels only, whatever the shape of a value

        def code(keys: Any) -> Any:
            import tensorflow as tf

            matches = tf.equal(keys[:, tf.newaxis], tf.constant(list(parts), keys.dtype))
            known = tf.reduce_any(matches, 1)
            lost = tf.unique(tf.boolean_mask(keys, tf.logical_not(known)))[0]
            message = (
                f"normalize: no statistics of these values of {by!r}; leave their records out, by `where`, or compute "
                f"those of all splits, held-out values too: seqrecorder.stats(seqrecorder.open(path).all(), by={by!r}):"
            )
            with records_called(""):  # `seqrecorder verify` would find nothing wrong with them
                return checked(tf.argmax(matches, 1), known, message, lost)

        def normalized(values: Any, groups: Any) -> Any:
            import tensorflow as tf

            ones = [1] * (values.shape.rank - 1 - len(rest))
            center, scale = (tf.reshape(tf.gather(figures[:, at], groups), [-1, *ones, *rest]) for at in (0, 1))
            return (tf.cast(values, wide) - center) / scale

        return FieldMap(field.name, target, normalized, beside=by, code=code)

    def to_dict(self) -> dict[str, Any]:
        """Convert the statistics to nested dictionaries."""
        document: dict[str, Any] = {
            "schema": self.schema.name,
            "records": self.records,
            "lengths": {group: self.lengths(group).to_dict() for group in self.groups},
            "fields": {name: field.to_dict() for name, field in self.fields.items()},
        }
        if self.splits:
            document["splits"] = {name: attrs.evolve(part, by={}).to_dict() for name, part in self.splits.items()}
        if self.by:
            document["by"] = {str(value): part.to_dict() for value, part in self.by.items()}
        return document

    def to_json(self, indent: int | None = None) -> str:
        """Serialize the statistics to JSON.

        NaN and infinities become null, and bytes become escaped text.
        """
        return json.dumps(_plain(self.to_dict()), indent=indent, allow_nan=False)

    def rows(self) -> list[tuple[str, ...]]:
        """Format the rows of the table of fields, whose headings are `seqrecorder.analysis.stats.HEADS`."""
        return [field.line() for field in self.fields.values()]

    def __repr__(self) -> str:
        splits = [f"{name} {part.records:,}" for name, part in self.splits.items()]
        lengths = f", steps {self.lengths().brief()}" if self.groups else ""
        of = f" ({join(splits)})" if splits else ""
        return f"<Stats {self.schema.name}: {number_of(self.records, 'record')}{of}{lengths}, {len(self)} fields>"

    def __str__(self) -> str:
        columns = [(head, *cells) for head, *cells in zip(HEADS, *self.rows(), strict=True)]
        filled = [column for column in columns if not {"", "0"}.issuperset(column[1:])]
        right = [head for head, *_ in filled if head not in ("field", "dtype", "steps", "top")]
        of = "; all splits together" if len(self.splits) > 1 else ""
        return f"{fit(repr(self)[1:-1] + of)}\n{text_table(list(zip(*filled, strict=True)), right=right)}"

    def _repr_html_(self) -> str:
        lengths = {}
        if self.groups:
            group = next(iter(self.groups))
            for name, part in self.splits.items() or (("all", self),):
                values, counts = part.groups[group].distributions[0].steps()
                lengths[name] = list(zip(values.astype(int).tolist(), counts.tolist(), strict=True))
        return html_table(repr(self)[1:-1], HEADS, self.rows()) + lengths_picture(lengths)


def _sums(ours: Mapping[Any, Any], theirs: Mapping[Any, Any]) -> dict[Any, Any]:
    """Add the values of two mappings by key."""
    return {**ours, **{key: ours[key] + part if key in ours else part for key, part in theirs.items()}}


def _plain(value: Any) -> Any:
    """Convert a value, nested or not, to JSON types."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(item) for item in value]
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return None if np.isnat(value) else str(value)
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


_FOLLOWING = ("schema", "field", "dtype", "splits", "by", "of_selection")


def kept_stats(source: Any, split: str | None = None) -> Stats | None:
    """Load the stored statistics of a dataset or of one split, or return None if they are absent or outdated.

    Args:
        source: directory of a dataset, `Corpus` or `Selection`.
        split: name of the only split to load; None for all.

    Raises:
        ManifestError: the stored statistics are damaged.
    """
    if isinstance(source, Selection):
        return None
    corpus = source if isinstance(source, Corpus) else open_corpus(source)
    data = read_statistics(corpus.manifest.path, corpus.manifest.to_json().encode())
    if data is None or corpus.schema.fields != corpus.manifest.schema.fields:
        return None
    splits = from_bytes(data, corpus.schema)
    chosen = splits if split is None else {corpus.manifest.split(split).name: splits[split]}
    total = Stats.of_nothing(corpus.schema)
    for name, part in chosen.items():
        total += attrs.evolve(part, splits={name: part})
    return total


def to_bytes(splits: dict[str, Stats]) -> bytes:
    """Serialize the statistics of each split."""
    return zlib.compress(json.dumps(_state(splits)).encode())


def from_bytes(data: bytes, schema: Schema) -> dict[str, Stats]:
    """Deserialize the statistics of each split."""
    states = json.loads(zlib.decompress(data))
    return {split: _restored(Stats.of_nothing(schema), state) for split, state in states.items()}


def _state(part: Any) -> Any:
    """Convert statistics to JSON types, omitting attributes that can be derived from the schema or the source."""
    if attrs.has(type(part)):
        return {a.name: _state(getattr(part, a.name)) for a in attrs.fields(type(part)) if a.name not in _FOLLOWING}
    if isinstance(part, np.ndarray):
        return [part.dtype.str, base64.b64encode(zlib.compress(part.tobytes())).decode()]
    if isinstance(part, Counter):
        return [[_state(value), count] for value, count in part.items()]
    if isinstance(part, dict):
        return {name: _state(item) for name, item in part.items()}
    if isinstance(part, tuple):
        return list(map(_state, part))
    return [base64.b64encode(part).decode()] if isinstance(part, bytes) else part


def _restored(empty: Any, state: Any) -> Any:
    """Restore statistics from the output of `_state`.

    The result has the same structure as `empty`, which contains statistics of no values.
    """
    if attrs.has(type(empty)):
        return attrs.evolve(empty, **{name: _restored(getattr(empty, name), each) for name, each in state.items()})
    if isinstance(empty, Counter):
        return Counter({base64.b64decode(item[0]) if isinstance(item, list) else item: n for item, n in state})
    if isinstance(empty, dict):
        return {name: _restored(empty[name], each) for name, each in state.items()}
    if isinstance(empty, tuple):
        return tuple(map(_restored, empty, state))
    if isinstance(state, list):
        return np.frombuffer(zlib.decompress(base64.b64decode(state[1])), state[0]).copy()
    return state


_LOG = logging.getLogger("seqrecorder")
_MOST_VALUES = 10_000
"""Maximum number of distinct values of the field `by`; the statistics of each value need several kilobytes."""


def stats(
    source: Any,
    split: str | None = None,
    *,
    by: str | None = None,
    fields: Sequence[str] | None = None,
    progress: bool | None = None,
) -> Stats:
    """Compute the statistics of the records of a dataset, in one pass.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     label: int = sr.context("int32")
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> corpus = tempfile.mkdtemp()
    >>> _ = sr.write({"train": [Sentence(0, [1, 2, 3]), Sentence(1, [4])], "eval": [Sentence(1, [5])]}, corpus)
    >>> stats = sr.stats(corpus, by="label")
    >>> stats
    <Stats Sentence: 3 records (train 2, eval 1), steps 1 / 1.7 / 3, 2 fields>
    >>> stats["ids"].mean, stats["ids"].quantile(0.5), stats["label"].top()
    (2.5, 2.5, [(0, 1), (1, 1)])
    >>> stats.all["ids"].mean, stats["ids"].denormalize(stats["ids"].normalize([1, 4])).tolist()
    (3.0, [1.0, 4.0])
    >>> stats.splits["train"]["ids"].maximum, stats.by[1]["ids"].minimum
    (4, 4)

    Counts and extremes are exact. Means and deviations have the accuracy of numpy in float64. Quantiles are exact up to
    several thousand distinct values; beyond that, they have a relative error of 0.4 % (see `FieldStats.quantile`).
    Frequencies have limits, too (see `FieldStats.top`). NaN and padding are excluded. For a dataset, `stats["ids"]`
    covers the split `train` if there is one, and all records otherwise; for a selection, it covers all records.
    `stats.all["ids"]` always covers all records. Statistics stored by `write(..., stats=True)` are loaded, not
    recomputed.

    Args:
        source: directory of a dataset, result of `seqrecorder.open`, or selection of its records.
        split: name of the only split to read; None for all.
        by: name of a scalar context field of text, whole numbers or bools. The records with each value have their own
            statistics, by which `read(normalize=stats)` normalizes them. None for no grouping.
        fields: names of the fields to read; None for all.
        progress: whether to show a progress bar; None shows one on terminals if tqdm is installed.

    Raises:
        OptionError: `by` has the wrong kind or more than 10,000 values.
        DatasetNotFoundError: the dataset or split does not exist.
        RecordError: a record cannot be decoded.
    """
    names = None if fields is None else [*fields, *([] if by is None else [by])]
    known = kept_stats(source, split) if names is None and by is None else None
    if known is not None:
        return known
    total: Stats | None = None
    splits: dict[str, Stats] = {}
    work = functools.partial(_stats_of, names=names, by=by)
    for name, part in by_pieces(work, selections_of(source, split), "statistics", progress=progress):
        splits[name] = splits[name] + part if name in splits else part
    for name, part in splits.items():
        if len(part.by) > _MOST_VALUES:
            raise _too_many(by)
        whole = attrs.evolve(part, splits={name: part})
        total = whole if total is None else total + whole
    if total is None:
        raise OptionError(f"stats: expected records, got none: {source!r}")
    return attrs.evolve(total, of_selection=isinstance(source, Selection))


def keep_stats(manifest: Manifest, known: Stats | None) -> None:
    """Store the statistics of a published dataset.

    If this fails, a warning is logged, and no error is raised.

    Args:
        manifest: manifest of the dataset.
        known: statistics stored before an append, which cover the older records; None if there are none.
    """
    try:
        corpus, splits = open_corpus(manifest.path), {}
        for name in corpus:
            old = None if known is None else known.splits.get(name)
            if old is not None and list(old.fields) != [field.name for field in corpus.schema.fields]:
                old = None  # the stored statistics lack a new field
            splits[name] = _stats_of(corpus[name][0 if old is None else old.records :], None, None)
            if old is not None:
                splits[name] = old + splits[name]
        write_statistics(manifest.path, manifest.to_json().encode(), to_bytes(splits))
    except (SeqrecorderError, OSError) as error:
        _LOG.warning("%s: its statistics could not be kept: %s", manifest.path, error)


def _stats_of(selection: Selection, names: Sequence[str] | None, by: str | None) -> Stats:
    schema = selection.schema.select(names)
    part = Stats.of_nothing(schema)
    label = None if by is None else _field_of_labels(schema, by)
    part.by_field = by
    for columns in selection.columns(names):
        records = columns[schema.fields[0].name].records
        part.add(columns, records)
        if label is not None:
            _add_by(part.by, schema, label, columns, records)
    return part


def _field_of_labels(schema: Schema, by: str) -> Field:
    field = schema[by]
    if not field.is_scalar or not (field.element.is_text or field.element.numpy.kind in "iub"):
        raise OptionError(f"by: expected a scalar context field of text, whole numbers or bools, got {by!r}, {field!r}")
    return field


def _add_by(by: dict[Any, Stats], schema: Schema, field: Field, columns: Mapping[str, Column], records: int) -> None:
    """Add a batch of records to the statistics that are grouped by a field.

    `by` maps each value of the field to the statistics of the records that have it. Records without a value belong to
    None.
    """
    labels = columns[field.name]
    present = np.ones(records, bool) if labels.present is None else labels.present
    values = labels.values.tolist()
    by_value: dict[Any, list[int]] = {}
    for row, value in zip(np.flatnonzero(present).tolist(), values, strict=True):
        by_value.setdefault(value, []).append(row)
    if not present.all():
        by_value[None] = np.flatnonzero(~present).tolist()
    if len(by.keys() | by_value.keys()) > _MOST_VALUES:
        raise _too_many(field.name)
    for value, rows in by_value.items():
        chosen = np.zeros(records, bool)
        chosen[rows] = True
        part = by.setdefault(value, Stats.of_nothing(schema))
        part.add({name: _records_of(column, chosen) for name, column in columns.items()}, len(rows))


def _too_many(by: str | None) -> OptionError:
    return OptionError(
        f"by: expected a field of at most {_MOST_VALUES:,} values, got more of {by!r}: group by a coarser field, or "
        "scale each record in the model, such as by keras.layers.UnitNormalization"
    )


def _records_of(column: Column, chosen: NDArray[np.bool_]) -> Column:
    """Select some of the records of a column.

    `chosen` contains a bool for each record, which says whether the record is selected.
    """
    present, keep = None, chosen
    if column.present is not None:
        present, keep = column.present[chosen], chosen[column.present]
    inner: dict[str, Any] = {}
    for name in ("steps", "counts"):
        lengths = getattr(column, name)
        if lengths is not None:
            inner[name] = lengths[keep]
            keep = np.repeat(keep, lengths)
    if column.indices is not None:
        inner["indices"] = column.indices[keep]
    return Column(column.values[keep], present=present, **inner)
