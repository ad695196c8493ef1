"""`Coverage`: how many of the tokens of some records a vocabulary knows."""

from __future__ import annotations

from typing import Any

import attrs

from seqrecorder.schema.display import number_of, some


@attrs.frozen(eq=False, repr=False)
class Coverage:
    """How many of the tokens of some records a vocabulary knows.

    Attributes:
        tokens: how many there are.
        known: how many of them are in the vocabulary.
        unknown: the unknown ones that come most often, with how often.
    """

    tokens: int
    known: int
    unknown: tuple[tuple[Any, int], ...]

    @property
    def share(self) -> float:
        """The share of tokens that are known, 1.0 where there are none."""
        return self.known / self.tokens if self.tokens else 1.0

    def __repr__(self) -> str:
        rest = f"; unknown: {some([f'{token} ({count:,})' for token, count in self.unknown])}" if self.unknown else ""
        return f"<Coverage {self.share:.2%} of {number_of(self.tokens, 'token')}{rest}>"
