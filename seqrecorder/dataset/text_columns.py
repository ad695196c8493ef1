"""Columns of a table of shards that stay as they stand in a manifest: its digests and histograms, most of the text."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.errors import ManifestError

if TYPE_CHECKING:
    from collections.abc import Iterator

_LEAST = 1 << 16
"""Bytes of a manifest that is worth it."""

_BETWEEN = b'", "'
_DIGEST = 64 + len(_BETWEEN)
_HEAD = re.compile(rb' *"((?:lengths_)?sha256|histogram)": \["')
_TAIL = re.compile(rb'"\],?')


@attrs.frozen(slots=False, eq=False, repr=False)
class TextColumn(Sequence[str]):
    """Texts, of which none is made before one is asked for.

    Attributes:
        text: what stands between the first quotation mark and the last.
        size: how many there are.
    """

    text: bytes
    size: int

    @classmethod
    def of(cls, name: str, text: bytes) -> TextColumn | None:
        """Return a column of that name, None where it must be parsed to know that it is one.

        Of digests everything is looked at; of histograms, that there is nothing but numbers between marks.
        """
        if name == "histogram":
            marks = text.translate(None, b"0123456789: ")
            count = len(marks) // 3 + 1
            return cls(text, count) if marks == b'","' * (count - 1) else None
        count = (len(text) + len(_BETWEEN)) // _DIGEST
        apart = all(text[64 + n :: _DIGEST] == _BETWEEN[n : n + 1] * (count - 1) for n in range(len(_BETWEEN)))
        digits = len(text) - len(text.translate(None, b"0123456789abcdef"))
        return cls(text, count) if apart and digits == 64 * count == len(text) - 4 * (count - 1) else None

    @functools.cached_property
    def items(self) -> list[str]:
        """All of them.

        Raises:
            ManifestError: it is no column.
        """
        items: list[str] = self.text.decode().split('", "')
        if len(items) != self.size:
            try:
                items = json.loads(f'["{self.text.decode()}"]')
            except ValueError as error:
                raise ManifestError(f"expected histograms, pairs of counts, got {self.text[:100]!r}: {error}") from None
        return items

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: Any) -> Any:
        return self.items[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self.items)


def without_columns(text: bytes) -> tuple[bytes, dict[tuple[str, int], TextColumn]]:
    """Return the text of a manifest with a number in place of each column that can stay text, and these.

    >>> text = ' "histogram": ["3:2", "1:1 5:1"],'.encode() + bytes([10]) + b'"steps": [6, 6]' + b" " * 2**16
    >>> rest, columns = without_columns(text)
    >>> rest.decode().split(), list(columns["histogram", 0])
    (['"histogram":', '0,', '"steps":', '[6,', '6]'], ['3:2', '1:1 5:1'])

    Returns:
        The text, and the columns by their names and numbers.
    """
    columns: dict[tuple[str, int], TextColumn] = {}
    parts, done, start = [], 0, 0
    while len(text) > _LEAST and (end := text.find(b"\n", start)) >= 0:
        head = _HEAD.match(text, start, end)
        tail = head and _TAIL.match(text, text.rfind(b'"', start, end), end)
        column = TextColumn.of(head[1].decode(), text[head.end() : tail.start()]) if head and tail else None
        if head and tail and column is not None:
            parts += [text[done : head.end() - 2], b"%d" % len(columns)]
            done = tail.start() + 2
            columns[head[1].decode(), len(columns)] = column
        start = end + 1
    return b"".join([*parts, text[done:]]), columns
