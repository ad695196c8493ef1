"""`FieldStats`: what is known of the values of one field over many records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.analysis.binning import edges_of, shares_of, ticks_of
from seqrecorder.analysis.field_figures import FieldFigures
from seqrecorder.analysis.numbers import Numbers
from seqrecorder.analysis.summary import Summary
from seqrecorder.analysis.texts import Texts
from seqrecorder.codec.derivation import FieldMap, as_numbers
from seqrecorder.errors import OptionError
from seqrecorder.schema.display import html_table, outlines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from seqrecorder.codec.columns import Column
    from seqrecorder.schema.field import Field

HEADS = (
    "field", "dtype", "None", "empty", "steps", "missing", "minimum", "mean", "maximum", "std", "distinct", "top"
)  # fmt: skip
"""What the cells of `FieldStats.line` are."""

_LENGTH = np.dtype(np.int64)
_DRAWN = 6


@attrs.define(eq=False, repr=False)
class FieldStats(FieldFigures):
    """What is known of the values of one field.

    What has an entry per channel has the shape `(channels,)` where values or steps have a shape, whose last dimension
    the channels are; of scalars it is a number. NaN and NaT are missing, and in no other figure.

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
        field: its declaration.
        records: how many records there are.
        none: how many have None.
        empty: how many have a value without steps or elements.
        values: what is known of the elements of all values.
        sizes: steps of feature lists, values of ragged and sparse context fields; None for others.
        inner: values of each step, of ragged and sparse steps; None for others.
        gaps: of feature lists of times: the differences of consecutive steps, in the unit; None for others.
        backwards: how many of these are negative.
        splits: the same of each split alone, where it was asked of several.
    """

    splits: Mapping[str, FieldStats] = attrs.field(factory=dict)

    @classmethod
    def of_nothing(cls, field: Field) -> FieldStats:
        """Return what is known of a field over no records."""
        counted = field.is_list or field.is_ragged or field.sparse is not None
        values = Texts() if field.element.is_text else Numbers.empty(field.element.numpy, _channels(field))
        inner = field.is_list and (field.is_ragged or field.sparse is not None)
        gaps = field.is_list and field.element.is_time and not field.shape and field.sparse is None
        return cls(
            field,
            0,
            0,
            0,
            values,
            Numbers.empty(_LENGTH) if counted else None,
            Numbers.empty(_LENGTH) if inner else None,
            Numbers.empty(_LENGTH) if gaps else None,
        )

    def add(self, column: Column, records: int) -> None:
        """Take in the values of some records."""
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
            self.values.add(np.reshape(column.values, (-1, _channels(self.field))))

    def _add_gaps(self, times: NDArray[np.int64], sizes: NDArray[np.int64]) -> None:
        inside = np.ones(times.size, bool)
        starts = (np.cumsum(sizes) - sizes)[sizes > 0]
        inside[starts] = False
        inside[1:] &= (times[1:] != np.iinfo(np.int64).min) & (times[:-1] != np.iinfo(np.int64).min)
        gaps = np.diff(times, prepend=times[:1])[inside]
        self.backwards += int(np.count_nonzero(gaps < 0))
        if self.gaps is not None:
            self.gaps.add(gaps[:, np.newaxis])

    def merge(self, other: FieldStats) -> None:
        """Take in what another knows of the same field over other records."""
        for name in ("records", "none", "empty", "backwards"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("values", "sizes", "inner", "gaps"):
            if getattr(self, name) is not None:
                getattr(self, name).merge(getattr(other, name))

    def copy(self) -> FieldStats:
        """Return the same, to be added to by itself."""
        parts = {name: getattr(self, name) for name in ("values", "sizes", "inner", "gaps")}
        return attrs.evolve(self, **{name: part and part.copy() for name, part in parts.items()})

    def normalization(self, split: str | None = None) -> Any:
        """Return the `keras.layers.Normalization` of this field, exact, with no padding in mean and variance.

        Args:
            split: of whose records; by default of `train`, where there is such a split, else of all.

        Raises:
            OptionError: the field is no number, there is no such split, or nothing in it.
        """
        import keras

        chosen = self.of_split(split)
        if self.field.element.numpy.kind not in "fiuV" or chosen.values.total == 0:
            raise OptionError(f"normalization: expected numbers, got field {self.name!r} of {self.field.element.name}")
        axis = -1 if self.field.rest else None
        return keras.layers.Normalization(axis=axis, mean=chosen.mean, variance=chosen.variance)

    def field_map(self, field: Field) -> FieldMap:
        """Return what `read(..., normalize=...)` does to a field: as `normalization`, with padding that stays 0.

        Raises:
            OptionError: the field is no number, or has other channels.
        """
        if self.field.element.is_text or field.element.numpy.kind not in "fiuV" or field.rest != self.field.rest:
            raise OptionError(f"normalize: expected statistics of {field!r}, got those of {self.field!r}")
        chosen = self.of_split(None)
        wide = "float64" if field.element.name == "float64" else "float32"
        scale = np.maximum(chosen.std, 1e-7)  # as keras.layers.Normalization has it
        if not np.isfinite([chosen.mean, scale]).all():
            raise OptionError(f"normalize: the statistics of {self.field.name!r} have a channel without finite values")

        def normalized(values: Any) -> Any:
            import tensorflow as tf

            return (tf.cast(values, wide) - tf.constant(chosen.mean, wide)) / tf.constant(scale, wide)

        return FieldMap(field.name, as_numbers(field, wide), normalized)

    def of_split(self, split: str | None) -> FieldStats:
        """Return the statistics of a split; for None those of `train`, where there is such a split, else of all.

        Raises:
            OptionError: there is no such split.
        """
        if split is None:
            return self.splits.get("train", self)
        if split not in self.splits:
            raise OptionError(f"split: expected one of {', '.join(self.splits) or 'none'}, got {split!r}")
        return self.splits[split]

    def line(self) -> tuple[str, ...]:
        """Return the cells of a table's line."""
        several = bool(self.field.rest)

        def shown(figure: Any) -> str:
            if several:
                figures = np.asarray(figure, np.float64)
                ends = {f"{end:.4g}" for end in (np.nanmin(figures), np.nanmax(figures))} if figures.size else set()
                return " to ".join(sorted(ends, key=float))
            return f"{figure:.4g}" if isinstance(figure, float) else str(figure)

        text, known = isinstance(self.values, Texts), bool(np.any(self.count))
        sizes = "" if self.sizes is None or not self.present else Summary(self.sizes).brief()
        top = ", ".join(f"{_named(value):.20} ({times:,})" for value, times in self.top(3)) if self._is_coded else ""
        numeric = known and not text
        return (
            self.name,
            self.field.element.name,
            f"{self.none:,}",
            f"{self.empty:,}",
            sizes,
            f"{int(np.sum(self.missing)):,}",
            *(shown(figure) if numeric else "" for figure in self._line_figures()),
            shown(self.std) if numeric and not self.field.element.is_time else "",
            "more" if self.distinct is None else f"{self.distinct:,}",
            top,
        )

    def _line_figures(self) -> tuple[Any, Any, Any]:
        """Return minimum, mean and maximum, all of them times where the field is of such."""
        if isinstance(self.values, Texts) or not np.any(self.count):
            return None, None, None
        is_time = self.field.element.is_time and not self.field.rest
        mean = self._native(round(self.mean)) if is_time else self.mean
        return self.minimum, mean, self.maximum

    @property
    def _is_coded(self) -> bool:
        """Whether elements are texts or codes, whose frequencies say something."""
        return self.field.element.is_text or self.field.element.numpy.kind in "iub"

    def __repr__(self) -> str:
        cells = [f"{head} {cell}" for head, cell in zip(HEADS, self.line(), strict=True) if cell not in ("", "0")]
        return f"<FieldStats {', '.join(cells[:1] + cells[2:])}>"

    def _repr_html_(self) -> str:
        named = {"all": self, **self.splits}
        drawn = self._drawn({"all": self} if len(self.splits) < 2 else self.splits)  # noqa: PLR2004 - to compare
        return (
            html_table(self.name, ("", *HEADS[1:]), [(name, *part.line()[1:]) for name, part in named.items()]) + drawn
        )

    def _drawn(self, parts: Mapping[str, FieldStats]) -> str:
        """Return the distribution of the values of some splits; nothing of texts."""
        whole = self.whole
        if isinstance(whole, Texts) or not whole.total or self.field.element.is_time:
            return ""
        edges = edges_of(whole, is_whole=self.field.element.numpy.kind in "iu")
        shares = {
            name: shares_of(part.whole, edges)
            for name, part in list(parts.items())[:_DRAWN]
            if not isinstance(part.whole, Texts)
        }
        return outlines(f"{self.name}: share of the values", edges, shares, ticks_of(edges))


def _named(value: Any) -> str:
    """Return a value in a line: as it is, if it can be seen."""
    text = str(value)
    return text if text.isprintable() and text.strip() else repr(value)


def _channels(field: Field) -> int:
    return field.rest[-1] if field.rest else 1
