"""Checks that text is valid UTF-8, both in values to write and in text from files.

Text in stored records is checked where it is read, in `codec.flat_values`.
"""

from __future__ import annotations

import contextlib

import numpy as np

from seqrecorder.errors import SourceError
from seqrecorder.schema.exact_values import Mismatch, SparseVector


def require_utf8(value: object) -> None:
    """Raise `Mismatch` for text that UTF-8 cannot encode (lone surrogates).

    Args:
        value: str, object array of str, `SparseVector`, or a list of these.
    """
    if isinstance(value, SparseVector):
        require_utf8(value.values)
    elif isinstance(value, list):
        for step, item in enumerate(value):
            try:
                require_utf8(item)
            except Mismatch as mismatch:
                raise mismatch.inside(step) from None
    else:
        array = np.asarray(value, object)
        texts = array.ravel().tolist()
        with contextlib.suppress(UnicodeEncodeError):
            "".join(texts).encode()  # one call for all texts is far faster than one per text
            return
        for position, text in enumerate(texts):
            try:
                text.encode()
            except UnicodeEncodeError:
                index = tuple(int(i) for i in np.unravel_index(position, array.shape))
                raise Mismatch("text that UTF-8 can hold", f"{text!r}, with a lone surrogate", index) from None


def check_utf8(text: str, encoding: str = "UTF-8") -> None:
    """Raise `SourceError` if a string contains bytes that were invalid in the encoding of its file."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            octets = text[error.start : error.end].encode("utf-8", "surrogateescape")
            raise SourceError(f"expected {encoding}, got the bytes {octets!r} at character {error.start}") from None
