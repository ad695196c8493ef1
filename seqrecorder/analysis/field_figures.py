"""`FieldFigures`: what is asked of the statistics of one field: figures, one a channel where it has channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.analysis.summary import QUANTILES, Summary
from seqrecorder.analysis.texts import Texts
from seqrecorder.errors import OptionError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seqrecorder.analysis.distribution import Distribution
    from seqrecorder.analysis.numbers import Numbers
    from seqrecorder.schema.field import Field

_TOP = 10


@attrs.define(eq=False, repr=False)
class FieldFigures:
    """The figures of a field; its attributes are those of `FieldStats`."""

    field: Field
    records: int
    none: int
    empty: int
    values: Numbers | Texts
    sizes: Numbers | None = None
    inner: Numbers | None = None
    gaps: Numbers | None = None
    backwards: int = 0

    @property
    def name(self) -> str:
        """Name of the field."""
        return self.field.name

    @property
    def present(self) -> int:
        """How many records have a value."""
        return self.records - self.none

    @property
    def lengths(self) -> Summary | None:
        """Steps of feature lists, values of ragged and sparse context fields; of records that have a value."""
        return None if self.sizes is None else Summary(self.sizes)

    @property
    def count(self) -> Any:
        """How many elements there are that are finite, or texts."""
        return self.values.total if isinstance(self.values, Texts) else self._of(self.values.count)

    @property
    def mean(self) -> Any:
        """Mean of the finite elements; NaN where there are none."""
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
        """The least finite element, exactly; NaN or NaT where there are none."""
        return self._extreme(self._numbers("minimum").minimum)

    @property
    def maximum(self) -> Any:
        """The largest finite element, exactly; NaN or NaT where there are none."""
        return self._extreme(self._numbers("maximum").maximum)

    @property
    def zeros(self) -> Any:
        """How many elements are 0, or False; how many texts are empty."""
        return self.values.empty if isinstance(self.values, Texts) else self._of(self.values.zeros)

    @property
    def missing(self) -> Any:
        """How many elements are NaN, or NaT."""
        return 0 if isinstance(self.values, Texts) else self._of(self.values.nan)

    @property
    def infinities(self) -> Any:
        """How many elements are infinite."""
        if isinstance(self.values, Texts):
            return 0
        return self._of(self.values.positive_infinity + self.values.negative_infinity)

    @property
    def constant(self) -> Any:
        """Whether there is one element, over and over."""
        if isinstance(self.values, Texts):
            return self.values.distinct == 1
        return self._of((self.values.count > 0) & (self.values.minimum == self.values.maximum))

    @property
    def distinct(self) -> int | None:
        """How many distinct elements there are; None where they are more than were counted."""
        return self.whole.distinct

    def top(self, count: int = _TOP) -> list[tuple[Any, int]]:
        """Return the elements that come most often, with how often; none where too many are distinct.

        Of more than 65,536 distinct texts it returns those that were counted most often.
        """
        if isinstance(self.values, Texts):
            return self.values.top(count)
        return [(self._native(value), times) for value, times in self.whole.top(count)]

    def quantile(self, q: float) -> Any:
        """Return a quantile of each channel, interpolated as `numpy.quantile` does it.

        It is exact where at most 4,096 distinct floats, or 65,536 distinct integers, came. Beyond, it is within 0.4 %
        of the elements that it lies between; of times there is none then (NaT). Of more than 64 channels, each has that
        of all.

        Raises:
            OptionError: `q` is no share, or the field is text.
        """
        if not 0 <= q <= 1:
            raise OptionError(f"q: expected a share from 0 to 1, got {q!r}")
        numbers = self._numbers("quantile")
        if self.field.element.is_time:
            part = numbers.distributions[0]
            exact = part.quantile(q) if part.values is not None and numbers.count[0] else None
            return self._native(np.iinfo(np.int64).min if exact is None else int(exact))
        found = np.array([part.quantile(q) for part in numbers.distributions])
        found = np.broadcast_to(found, numbers.count.shape)
        with np.errstate(invalid="ignore"):
            return self._of(np.clip(found, *(end.astype(np.float64) for end in (numbers.minimum, numbers.maximum))))

    @property
    def whole(self) -> Texts | Distribution:
        """What counts the elements of all channels."""
        return self.values if isinstance(self.values, Texts) else self.values.total().distributions[0]

    def _numbers(self, what: str) -> Numbers:
        if isinstance(self.values, Texts):
            raise OptionError(f"{what}: field {self.name!r} is text; it has `top`, `distinct` and `zeros`")
        return self.values

    def _of(self, figures: NDArray[Any]) -> Any:
        return figures if self.field.rest else figures[0].item()

    def _extreme(self, ends: NDArray[Any]) -> Any:
        numbers = self._numbers("minimum")
        if self.field.element.is_time:
            ends = np.where(numbers.count > 0, ends, np.iinfo(np.int64).min).view(self.field.element.numpy)
            return ends if self.field.rest else ends[0]
        if not numbers.count.all():
            ends = np.where(numbers.count > 0, ends, np.nan)
        return self._of(ends)

    def _native(self, value: Any) -> Any:
        """Return an element as the field has it."""
        element = self.field.element
        if element.is_time:
            return np.array(value, np.int64).view(element.numpy)[()]
        return bool(value) if element.name == "bool" else value

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as what JSON holds, with lists for channels."""
        found: dict[str, Any] = {
            "dtype": self.field.element.name,
            "kind": self.field.kind,
            "records": self.records,
            "none": self.none,
            "empty": self.empty,
            "count": self.count,
            "zeros": self.zeros,
            "constant": self.constant,
            "distinct": self.distinct,
            "top": [[value, times] for value, times in self.top()],
        }
        if isinstance(self.values, Texts):
            found |= {"shortest": self.values.shortest, "longest": self.values.longest, "top_error": self.values.error}
        else:
            names = ("missing", "infinities", "minimum", "maximum", "mean", "std")
            found |= {name: getattr(self, name) for name in names}
            found["quantiles"] = {str(q): self.quantile(q) for q in QUANTILES}
        for name, numbers in (("lengths", self.sizes), ("inner_lengths", self.inner)):
            if numbers is not None:
                found[name] = Summary(numbers).to_dict()
        if self.gaps is not None:
            duplicates = int(self.gaps.zeros[0])
            found["gaps"] = {**Summary(self.gaps).to_dict(), "duplicates": duplicates, "backwards": self.backwards}
        return found
