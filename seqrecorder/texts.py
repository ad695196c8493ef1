"""Short texts to the `tf.train.Feature`s that hold one each, many at once.

Texts are joined with room for their headers, which a NUL marks: joining finds what is no text, encoding to UTF-8 what
has none, and the marks where each header goes. Measured on 508,000 tokens of 8 bytes: 41 ns a token, and 110 through
a dictionary of the distinct ones.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.rows import Blob, scattered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_TAG = 0x0A  # of a Feature in a FeatureList, of the BytesList in it, and of its value
_LARGEST_IN_A_BYTE = 0x7F


@attrs.frozen(eq=False)
class JoinedTexts:
    """Texts in UTF-8, each behind room for the header of its feature.

    Attributes:
        octets: uint8, the texts and the room before each.
        starts: int64 `(n,)`: where the room of each begins.
        lengths: int64 `(n,)`: bytes of each, with its room.
        room: bytes before each text.
    """

    octets: NDArray[np.uint8]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    room: int

    def features(self) -> Blob:
        """Return the features."""
        return Blob(scattered(self.octets, _headers(self.room).take(self.lengths, axis=0), self.starts), self.lengths)


def join_texts(texts: Sequence[Any], kind: type[str | bytes], *, wrapped: bool) -> JoinedTexts | None:
    r"""Return texts of which every one is short and holds no NUL, joined; else None.

    >>> joined = join_texts(["a", "bc"], str, wrapped=False)
    >>> bytes(joined.features().data)
    b'\n\x03\n\x01a\n\x04\n\x02bc'

    Args:
        texts: what should be texts.
        kind: whether that is str or bytes.
        wrapped: whether each feature has a header of its own, as in a FeatureList.

    Raises:
        TypeError: one of them is not of that kind.
        UnicodeEncodeError: one holds a lone surrogate.
    """
    if not texts or len(texts[0]) > _LARGEST_IN_A_BYTE:  # then the others are long too, as a rule
        return None
    room = 6 if wrapped else 4
    if kind is str:
        mark = "\0" + " " * (room - 1)
        data = (mark + mark.join(texts)).encode()
    else:
        marks = b"\0" + b" " * (room - 1)
        data = marks + marks.join(texts)
    octets = np.frombuffer(data, np.uint8)
    starts = np.flatnonzero(octets == 0)
    if starts.size != len(texts):
        return None
    lengths = np.diff(starts, append=octets.size)
    if int(lengths.max()) - 2 > _LARGEST_IN_A_BYTE:
        return None
    return JoinedTexts(octets, starts, lengths, room)


@functools.cache
def _headers(room: int) -> NDArray[np.uint8]:
    """Return the headers of features of so many bytes, headers included, all of whose lengths are single bytes."""
    sizes = np.maximum(np.arange(_LARGEST_IN_A_BYTE + 3)[:, None] - np.arange(2, room + 1, 2), 0)
    return np.stack([np.full_like(sizes, _TAG), sizes], 2).astype(np.uint8).reshape(-1, room)
