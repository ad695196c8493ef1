"""`slim.data_decoder`: what turns a record into named tensors."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


class DataDecoder(abc.ABC):
    """`slim.data_decoder.DataDecoder`: what turns a record into named tensors."""

    @abc.abstractmethod
    def decode(self, data: Any, items: Sequence[str], /) -> list[Any]:
        """Return the tensors of some names, in their order.

        Args:
            data: a string scalar, the record.
            items: names, of those of `list_items`.
        """

    @abc.abstractmethod
    def list_items(self) -> list[str]:
        """Return the names of the tensors that it can give."""
