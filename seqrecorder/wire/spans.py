"""Where many messages are in one buffer: whole ones, and those inside of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.wire.byte_rows import bounds, copied_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Places = NDArray[np.int64]
    Flags = NDArray[np.bool_]


ROOM = 160
"""Bytes behind the last message of a buffer: its tags, lengths and words are read before they are checked."""

WORD = 8

LARGE_SPAN = 1024  # mean bytes of spans that are copied one by one

MASKS = np.array([(1 << 8 * size) - 1 for size in range(WORD + 1)], np.uint64)


@attrs.frozen(eq=False)
class Messages:
    """Messages in a buffer.

    Attributes:
        data: uint8, with `ROOM` bytes behind the last message.
        starts: where each begins, int64.
        stops: where each ends.
    """

    data: NDArray[np.uint8]
    starts: Places
    stops: Places

    @classmethod
    def of(cls, rows: Sequence[bytes]) -> Messages:
        """Return messages that are bytes objects."""
        edges = bounds(np.fromiter(map(len, rows), np.int64, len(rows)))
        return cls(np.frombuffer(b"".join([*rows, bytes(ROOM)]), np.uint8), edges[:-1], edges[1:])

    def __len__(self) -> int:
        return self.starts.size

    @property
    def nbytes(self) -> int:
        """Bytes of all."""
        return int((self.stops - self.starts).sum())

    def __getitem__(self, number: int) -> bytes:
        return self.data[int(self.starts[number]) : int(self.stops[number])].tobytes()

    def view(self, number: int) -> memoryview:
        """Return a message, without a copy."""
        return self.data[int(self.starts[number]) : int(self.stops[number])].data

    def some(self, which: Any) -> Messages:
        """Return those of the messages that are chosen, without a copy."""
        return Messages(self.data, self.starts[which], self.stops[which])

    def rows(self) -> list[bytes]:
        """Return the messages as bytes objects."""
        view = self.data.data
        return [bytes(view[i:j]) for i, j in zip(self.starts.tolist(), self.stops.tolist(), strict=True)]

    @staticmethod
    def together(several: Sequence[Messages]) -> Messages:
        """Return the messages of all, one behind the other."""
        if len(several) == 1:
            return several[0]
        bases = bounds(np.array([one.data.size for one in several]))[:-1].tolist()
        parts = list(zip(several, bases, strict=True))
        return Messages(
            np.concatenate([np.empty(0, np.uint8), *(one.data for one in several), np.zeros(ROOM, np.uint8)]),
            np.concatenate([np.empty(0, np.int64), *(one.starts + base for one, base in parts)]),
            np.concatenate([np.empty(0, np.int64), *(one.stops + base for one, base in parts)]),
        )

    def replaced(self, numbers: Places, rows: Sequence[bytes]) -> Messages:
        """Return the messages with others in the place of some."""
        others = Messages.of(rows)
        starts, stops = self.starts.copy(), self.stops.copy()
        starts[numbers], stops[numbers] = others.starts + self.data.size, others.stops + self.data.size
        return Messages(np.concatenate([self.data, others.data]), starts, stops)


@attrs.frozen(eq=False)
class Spans:
    """Where some messages inside a buffer are.

    Attributes:
        data: uint8, with `ROOM` bytes behind the last one.
        starts: where each begins, int64; -1 for one that is not there.
        stops: where each ends.
    """

    data: NDArray[np.uint8]
    starts: Places
    stops: Places

    def __len__(self) -> int:
        return self.starts.size

    @property
    def sizes(self) -> Places:
        """Bytes of each."""
        return self.stops - self.starts

    def some(self, which: Any) -> Spans:
        """Return those that are chosen."""
        return Spans(self.data, self.starts[which], self.stops[which])

    def joined(self) -> NDArray[np.uint8]:
        """Return the bytes of all, one behind the other, with as much room behind them; one alone is not copied."""
        sizes = self.sizes
        if sizes.size == 1:
            return self.data[int(self.starts[0]) : int(self.stops[0]) + ROOM]
        if int(sizes.sum()) > LARGE_SPAN * sizes.size:
            view = self.data.data
            parts = [view[i:j] for i, j in zip(self.starts.tolist(), self.stops.tolist(), strict=True)]
            return np.frombuffer(bytearray().join([*parts, bytes(ROOM)]), np.uint8)
        return copied_rows(self.data, self.starts, sizes, ROOM)


def words_of(data: NDArray[np.uint8], size: int = WORD) -> NDArray[Any]:
    """Return a view of the eight bytes from every byte on, as an unsigned number; or of 1, 2 or 4 that hold `size`."""
    width = next(width for width in (1, 2, 4, WORD) if size <= width)
    view: NDArray[Any] = np.ndarray((data.size - width + 1,), f"<u{width}", data.data, strides=(1,))
    return view
