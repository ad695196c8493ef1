"""`leakage`: keys, groups, contents and times that overlap between splits.

`Selection.split` splits a dataset without such overlaps.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.analysis.stats import by_pieces, selections_of
from seqrecorder.codec.records import content_digest
from seqrecorder.dataset.folds_and_subsets import times_of, values_by
from seqrecorder.dataset.selection import Corpus, Selection, rows_of
from seqrecorder.errors import OptionError, printable
from seqrecorder.schema.display import cut, html_table, text_table

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Hashable, Iterator

_WIDTH = 40  # characters of the examples in a printed table
_EXAMPLES = 5
_HEADS = ("splits", "shared", "count", "examples")


@attrs.frozen
class Shared:
    """Keys, groups, contents or times that two splits share.

    Attributes:
        splits: names of the two splits.
        what: `keys`, `groups`, `contents` (records equal except for their keys) or `times`.
        count: number of shared keys, groups or contents; for times, number of records within the time range of the
            other split.
        examples: a few of the shared values; for contents, pairs of record positions, one in each split.
    """

    splits: tuple[str, str]
    what: str
    count: int
    examples: tuple[Any, ...]


@attrs.frozen(repr=False)
class Leakage:
    """Result of `leakage`: the overlaps between splits, which print as a table.

    Attributes:
        looked_for: kinds of overlap that were checked, as in `Shared.what`.
        shared: overlaps found.
    """

    looked_for: tuple[str, ...]
    shared: tuple[Shared, ...]

    @property
    def is_clean(self) -> bool:
        """Check whether no overlaps were found."""
        return not self.shared

    def _rows(self) -> list[tuple[str, str, str, str]]:
        return [
            (" and ".join(s.splits), s.what, f"{s.count:,}", cut(", ".join(map(str, s.examples)), _WIDTH))
            for s in self.shared
        ]

    def __repr__(self) -> str:
        shared = ", ".join(f"{s.count:,} {s.what} in {s.splits[0]} and {s.splits[1]}" for s in self.shared)
        return f"<Leakage: {printable(shared) or 'none'}; looked for {', '.join(self.looked_for)}>"

    def __str__(self) -> str:
        if self.is_clean:
            return f"no shared {', no shared '.join(self.looked_for)}"
        return text_table([_HEADS, *self._rows()])

    def _repr_html_(self) -> str:
        return html_table(repr(self)[1:-1], _HEADS, self._rows())


def leakage(
    corpus: Corpus | str | os.PathLike[str] | Mapping[str, Selection],
    *,
    by: str | Callable[[Any], Any] | None = None,
    time: str | None = None,
    end: str | None = None,
) -> Leakage:
    """Find keys and groups that splits share, records that are equal except for their keys, and overlapping times.

    >>> import tempfile, seqrecorder as sr
    >>> @sr.record
    ... class Word:
    ...     text: str = sr.context(str)
    ...     speaker: str = sr.context(str)
    >>> path = tempfile.mkdtemp()
    >>> _ = sr.write({"train": [Word("to", "s1"), Word("be", "s2")], "eval": [Word("or", "s1")]}, path)
    >>> print(sr.leakage(path, by="speaker"))
    splits          shared  count  examples
    train and eval  groups  1      s1
    >>> print(sr.leakage(path))
    no shared contents

    Every record is read once. Memory use is 16 bytes per record, plus its key.

    Args:
        corpus: dataset, or mapping from split names to selections, as `Selection.split` returns it.
        by: name of a context field, or function that computes a group from a record. No group should be in two splits.
        time: name of the field with the time of a record. Splits should not overlap in time.
        end: name of the field with the end time of a record; None if a record has only one time.

    Raises:
        OptionError: `corpus` is neither a dataset nor a mapping of selections, or a field has the wrong kind.
        RecordError: the function `by` failed; the error names the position of the record.
        SchemaError: `by`, `time` or `end` names a field that the dataset does not have.
        ShardReadError: a record is damaged.
    """
    if isinstance(corpus, Selection):
        raise OptionError("leakage: one selection has no splits; pass a dataset, or selections by name")
    splits = dict(corpus) if isinstance(corpus, Mapping) else selections_of(corpus)
    if not all(isinstance(part, Selection) for part in splits.values()):
        raise OptionError("leakage: expected selections by name, as `selection.split(...)` gives them")
    contents: dict[str, dict[bytes, int]] = {name: {} for name in splits}
    counts = dict.fromkeys(splits, 0)
    for name, digests in by_pieces(_digests, splits, "leakage", progress=False):
        contents[name].update(zip(digests, range(counts[name], counts[name] + len(digests)), strict=True))
        counts[name] += len(digests)
    return leakage_of(splits, contents, by=by, time=time, end=end)


def leakage_of(
    splits: Mapping[str, Selection],
    contents: Mapping[str, Mapping[bytes, int]],
    *,
    by: str | Callable[[Any], Any] | None,
    time: str | None,
    end: str | None = None,
) -> Leakage:
    """Find what selections share, given the digests of their contents.

    `contents` maps the name of each selection to a mapping from each digest to the position of its last record.
    """
    looked_for, shared = [], list[Shared]()
    keys = {name: part.schema.key_field.name for name, part in splits.items() if part.schema.key_field is not None}
    if keys and keys.keys() == splits.keys():
        looked_for.append("keys")
        shared += _in_common("keys", {name: _values(part, keys[name], "key") for name, part in splits.items()})
    looked_for.append("contents")
    for one, other in itertools.combinations(contents, 2):
        common = contents[one].keys() & contents[other].keys()
        examples = sorted((contents[one][digest], contents[other][digest]) for digest in common)[:_EXAMPLES]
        if common:
            shared.append(Shared((one, other), "contents", len(common), tuple(examples)))
    if by is not None:
        looked_for.append("groups")
        shared += _in_common("groups", {name: _values(part, by, "by") for name, part in splits.items()})
    if time is not None:
        looked_for.append("times")
        shared += _overlaps(splits, time, end)
    return Leakage(tuple(looked_for), tuple(shared))


def _values(part: Selection, by: Any, option: str) -> dict[Hashable, None]:
    values = [value for value in values_by(rows_of(part), by, option) if value is not None]
    try:
        return dict.fromkeys(values)
    except TypeError as error:
        raise OptionError(f"{option}: expected values that can be told apart by their hash: {error}") from None


def _in_common(what: str, values: Mapping[str, dict[Hashable, None]]) -> Iterator[Shared]:
    for one, other in itertools.combinations(values, 2):
        common = [value for value in values[one] if value in values[other]]
        if common:
            yield Shared((one, other), what, len(common), tuple(common[:_EXAMPLES]))


def _digests(part: Selection) -> list[bytes]:
    """Compute the content digest of each record, in the order of the selection."""
    rows = rows_of(part)
    store = rows.store.forward()
    messages = itertools.chain.from_iterable(store.messages(positions).rows() for positions in rows.chunks())
    return [content_digest(store.manifest.schema, data) for data in messages]


def _overlaps(splits: Mapping[str, Selection], time: str, end: str | None) -> Iterator[Shared]:
    times = {name: times_of(rows_of(part), time, end)[:2] for name, part in splits.items() if len(part)}
    for (one, (begins, ends)), (other, (starts, stops)) in itertools.combinations(times.items(), 2):
        inside = int(((begins <= stops.max()) & (ends >= starts.min())).sum())
        inside += int(((starts <= ends.max()) & (stops >= begins.min())).sum())
        if inside:
            first, last = max(begins.min(), starts.min()), min(ends.max(), stops.max())
            yield Shared((one, other), "times", inside, (f"{first} to {last}",))
