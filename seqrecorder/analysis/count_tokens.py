"""Counting tokens: those of a field of many records, or of any iterable, in memory for the distinct ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.analysis.sources import columns_of, selections_of, watched
from seqrecorder.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from seqrecorder.schema.field import Field

_TOGETHER = 1 << 16


@attrs.define
class Tokens:
    """How often which tokens came.

    Attributes:
        prune: how many distinct ones are remembered at most; None for all.
        counts: by token; too low by at most a `prune`th of all tokens where rare ones were forgotten.
        total: how many came.
    """

    prune: int | None = None
    counts: Counter[Any] = attrs.field(factory=Counter)
    total: int = 0

    def add(self, tokens: Sequence[Any]) -> None:
        """Count some tokens."""
        self.counts.update(tokens)
        self.total += len(tokens)
        if self.prune is not None and len(self.counts) > self.prune:
            least = sorted(self.counts.values())[-self.prune - 1]
            self.counts = Counter({token: count - least for token, count in self.counts.items() if count > least})

    def top(self) -> list[tuple[Any, int]]:
        """Return all tokens with their counts, the frequent ones first, and equally frequent ones in their order."""
        try:
            return sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        except TypeError:
            kinds = ", ".join(sorted({type(token).__name__ for token in self.counts}))
            raise OptionError(f"tokens: expected text, bytes or ints, all of one type, got {kinds}") from None


def count_tokens(
    source: Any,
    field: str | None,
    pieces: Callable[[Any], Sequence[Any]] | None,
    prune: int | None,
    progress: bool | None = None,  # noqa: FBT001 - see `sr.write`
) -> Tokens:
    """Return how often which tokens come.

    Args:
        source: a dataset, a selection, or several by name; without a field tokens, or sequences of them.
        field: name of the field whose elements they are.
        pieces: makes tokens of each element.
        prune: as for `Tokens`.
        progress: as for `write`.

    Raises:
        OptionError: the field has no tokens, or the source none.
        SchemaError: there is no field of that name.
    """
    tokens = Tokens(prune)
    for values in _given(source) if field is None else _stored(source, field, progress):
        tokens.add(values if pieces is None else list(chain.from_iterable(map(pieces, values))))
    return tokens


def _stored(source: Any, name: str, progress: bool | None) -> Iterator[list[Any]]:  # noqa: FBT001 - see `sr.write`
    parts = source if isinstance(source, Mapping) else selections_of(source)
    with watched(progress, "counting tokens", parts) as bar:
        for selection in parts.values():
            _check_field(selection.schema[name])
            for columns, _ in columns_of(selection, [name], bar)[1]:
                yield columns[name].values.ravel().tolist()


def _check_field(field: Field) -> None:
    if not (field.element.is_text or field.element.numpy.kind in "iub"):
        raise OptionError(f"expected a field of text, bytes or whole numbers, got {field!r}")


def _given(source: Any) -> Iterator[list[Any]]:
    if isinstance(source, (str, bytes)) or not isinstance(source, Iterable):
        raise OptionError(f"expected tokens, or sequences of tokens, got {source!r:.100}; a dataset takes a field, too")
    items = iter(source)
    while some := list(islice(items, _TOGETHER)):
        yield list(chain.from_iterable(map(_flat, some)))


def _flat(item: Any) -> list[Any]:
    if isinstance(item, np.ndarray):
        return list(item.ravel().tolist())
    if isinstance(item, (list, tuple)):
        return list(chain.from_iterable(map(_flat, item)))
    return [item.item() if isinstance(item, np.generic) else item]
