"""What a batching strategy works on: a stream of serialized records, their lengths, and the parser of their fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import attrs

from seqrecorder.errors import OptionError
from seqrecorder.streams import StreamOptions, stream

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from seqrecorder.origin import Origin
    from seqrecorder.parsing import Parser

PARALLEL = 2
"""Parse calls at a time; measured on two cores, more gains nothing."""

WINDOW = 1024
"""Records that travel together where a strategy does not care."""


@attrs.frozen
class Feed:
    """The records of an origin, for one strategy.

    Attributes:
        origin: the shards.
        parser: of the fields that are wanted.
        shape: from the dictionary of tensors that a strategy makes to an element; its last step.
        options: order, epochs and dealing of the stream.
    """

    origin: Origin
    parser: Parser
    shape: Callable[[dict[str, Any]], Any]
    options: StreamOptions

    @property
    def records(self) -> int:
        """Number of records of an epoch, -1 where they were not counted."""
        records, deal = self.origin.records, self.options.deal
        if deal is None or records < 0:
            return records
        index, count = deal
        return (records - index + count - 1) // count

    def group(self, length_field: str | None) -> str:
        """Return the alignment group whose lengths count: that of a feature list, or the first for None.

        Raises:
            OptionError: there is no feature list.
        """
        schema = self.origin.schema
        if length_field is not None:
            field = schema[length_field]
            if not field.is_list:
                raise OptionError(f"length_field: {length_field!r} is a context field and has no length")
            return field.group
        if not schema.groups:
            raise OptionError(f"{schema.name} has no feature list, so no lengths to go by; use Pad")
        return schema.groups[0]

    def lengths(self, group: str, *, parse: bool) -> NDArray[np.int64] | None:
        """Return the length of every record of an epoch, in the order of the files.

        Args:
            group: the alignment group.
            parse: whether every record is parsed to know, where no file of lengths says; else None is returned.
        """
        if not parse and not all(file.lengths_path for file in self.origin.files):
            return None
        lengths = self.origin.lengths(group)
        return lengths if self.options.deal is None else lengths[self.options.deal[0] :: self.options.deal[1]]

    def stream(self, transform: Callable[[Any, Any], Any], *, window: int = WINDOW, group: str | None = None) -> Any:
        """Return a `tf.data.Dataset` of `transform` applied to each epoch's windows (see `seqrecorder.streams`).

        Args:
            transform: from the windows of an epoch, and the number that stands for its order, to a dataset.
            window: records to a window, at most: of large records fewer come.
            group: the alignment group whose lengths come with the records; None for none.
        """
        return stream(
            self.origin, attrs.evolve(self.options, window=self.origin.window(window), group=group), transform
        )


class Strategy(Protocol):
    """A way of making elements: the classes of `seqrecorder.batching`."""

    @property
    def length_name(self) -> str:
        """Name under which elements carry the lengths of the first alignment group."""
        ...

    @property
    def mask_name(self) -> str | None:
        """Name under which elements carry a mask, or None."""
        ...

    def read(self, feed: Feed) -> tuple[Any, int]:
        """Return a `tf.data.Dataset` of shaped elements, and how many an epoch has (-1 where that is not known)."""
        ...
