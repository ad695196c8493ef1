"""`Summary`: figures of whole numbers, such as lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

if TYPE_CHECKING:
    from seqrecorder.analysis.numbers import Numbers

QUANTILES = (0.0, 0.01, 0.25, 0.5, 0.75, 0.99, 1.0)
"""Those that are told of all numbers."""


@attrs.frozen(repr=False)
class Summary:
    """Figures of whole numbers, such as lengths.

    Attributes:
        numbers: what is known of them.
    """

    numbers: Numbers

    @property
    def count(self) -> int:
        """How many there are."""
        return int(self.numbers.count[0])

    @property
    def minimum(self) -> int | None:
        """The least; None where there are none."""
        return int(self.numbers.minimum[0]) if self.count else None

    @property
    def maximum(self) -> int | None:
        """The largest; None where there are none."""
        return int(self.numbers.maximum[0]) if self.count else None

    @property
    def mean(self) -> float:
        """Their mean."""
        return float(self.numbers.mean[0]) if self.count else float("nan")

    @property
    def std(self) -> float:
        """Their standard deviation."""
        return float(np.sqrt(self.numbers.variance[0]))

    @property
    def total(self) -> int:
        """Their sum."""
        values, counts = self.numbers.distributions[0].steps()
        exact = self.numbers.distributions[0].values is not None
        return int(values.astype(np.int64) @ counts) if exact else round(self.mean * self.count)

    def quantile(self, q: float) -> float:
        """Return a quantile, as `FieldStats.quantile`."""
        if not self.count:
            return float("nan")
        return float(np.clip(self.numbers.distributions[0].quantile(q), self.minimum, self.maximum))

    def brief(self) -> str:
        """Return the least, the mean and the largest in a few characters."""
        return f"{self.minimum:,} / {self.mean:,.1f} / {self.maximum:,}" if self.count else "none"

    def __repr__(self) -> str:
        return f"<Summary {self.count:,}: {self.brief()}>"

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as what JSON holds."""
        names = ("count", "minimum", "maximum", "mean", "std")
        found = {name: getattr(self, name) for name in names}
        return {**found, "quantiles": {str(q): self.quantile(q) for q in QUANTILES}}
