"""TFRecord frames of many records at once, in numpy: what `tf.io.TFRecordWriter` writes."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.storage.tfrecord.crc32c import masked_crc32c, masked_crc32c_of_one, masked_crc32c_of_spans
from seqrecorder.storage.tfrecord.format import FOOTER, HEADER
from seqrecorder.wire.byte_rows import interleave, of_list, of_matrix, sizes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

_KNOWN = 4096  # lengths whose headers are looked up
_LENGTH = 8  # bytes
_LARGE = 64 << 10  # mean bytes of records that are written one by one


def frames(data: Sequence[bytes]) -> NDArray[np.uint8]:
    """Return records with their frames, one behind the other.

    >>> frames([b"abc", b""]).tobytes().hex(" ", -8)
    '0300000000000000 b099490e6162636e 57f1210000000000 00000029039807d8 ea82a2'

    Args:
        data: serialized records.
    """
    rows = of_list(data)
    crcs = masked_crc32c_of_spans(rows.data, np.cumsum(rows.lengths) - rows.lengths, rows.lengths)
    footers = crcs.astype("<u4").view(np.uint8).reshape(-1, FOOTER)
    return interleave([of_matrix(frame_headers(rows.lengths)), rows, of_matrix(footers)]).data


def framed(data: Sequence[bytes]) -> Iterator[Any]:
    """Yield the bytes of records with their frames, in pieces: of large ones no copies are made."""
    if not len(data):
        return
    if int(sizes(data).sum()) <= _LARGE * len(data):
        yield frames(data).data
        return
    for item in data:
        yield frame_headers(np.array([len(item)])).data
        yield item
        yield masked_crc32c_of_one(np.frombuffer(item, np.uint8)).to_bytes(FOOTER, "little")


def is_framed(frame: bytes) -> bool:
    """Return whether bytes are one record with its frame, both of whose CRCs are right.

    >>> is_framed(frames([b"abc"]).tobytes()), is_framed(bytes(19))
    (True, False)
    """
    size = len(frame) - HEADER - FOOTER
    if size < 0 or frame[:HEADER] != _header(size):
        return False
    crc = masked_crc32c_of_one(np.frombuffer(frame, np.uint8, size, HEADER))
    return crc == int.from_bytes(frame[-FOOTER:], "little")


def frame_headers(lengths: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return what stands before records of these lengths, uint8 `(n, HEADER)`."""
    return _known_headers().take(lengths, axis=0) if int(lengths.max(initial=0)) < _KNOWN else _new_headers(lengths)


@functools.lru_cache(maxsize=_KNOWN)
def _header(size: int) -> bytes:
    return frame_headers(np.array([size])).tobytes()


@functools.cache
def _known_headers() -> NDArray[np.uint8]:
    return _new_headers(np.arange(_KNOWN))


def _new_headers(lengths: NDArray[np.int64]) -> NDArray[np.uint8]:
    octets = lengths.astype("<u8").view(np.uint8).reshape(-1, _LENGTH)
    return np.hstack([octets, masked_crc32c(octets).astype("<u4").view(np.uint8).reshape(-1, HEADER - _LENGTH)])
