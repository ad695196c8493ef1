"""`slim.data_provider`: named tensors of the next example."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class DataProvider:
    """`slim.data_provider.DataProvider`: named tensors of the next example.

    Args:
        items_to_tensors: the tensors by their names.
        num_samples: how many examples there are, or None.
    """

    def __init__(self, items_to_tensors: Mapping[str, Any], num_samples: Any) -> None:
        self._items_to_tensors, self._num_samples = dict(items_to_tensors), num_samples

    def get(self, items: Sequence[str]) -> list[Any]:
        """Return the tensors of some names.

        Raises:
            ValueError: there is no such name.
        """
        unknown = [item for item in items if item not in self._items_to_tensors]
        if unknown:
            raise ValueError(f"Items {unknown} are not among {self.list_items()}")
        return [self._items_to_tensors[item] for item in items]

    def list_items(self) -> list[str]:
        """Return the names."""
        return list(self._items_to_tensors)

    def num_samples(self) -> Any:
        """Return how many examples there are, or None."""
        return self._num_samples
