"""The shards of a split: one object each, or a table of columns, of which objects are made as they are asked for.

A dataset of a hundred thousand shards is opened by every process that reads it. Columns of JSON are read in a
twentieth of the time that as many objects take, and what nobody asks for, as the histograms, stays text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import attrs
import numpy as np

from seqrecorder.dataset.text_columns import TextColumn
from seqrecorder.errors import ManifestError
from seqrecorder.storage.cache import Wanted
from seqrecorder.storage.names import check_names, lengths_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

_DIGESTS = ("sha256", "lengths_sha256")
TEXTS = (*_DIGESTS, "histogram")
_COUNTS = ("records", "steps", "bytes", "start", "step")
_NO_BINS = bytes(range(128)).translate(None, b"0123456789: ")
_NO_HEX = bytes(range(128)).translate(None, b"0123456789abcdef")


@attrs.frozen
class ShardInfo:
    """One shard of a split.

    Attributes:
        name: file name inside the split's directory.
        records: number of records.
        steps: sum of the records' lengths in the first alignment group.
        bytes: size of the file.
        sha256: of the file, in hex.
        lengths_sha256: of the lengths file beside it, in hex.
        histogram: `(largest length, records)` of each bin of lengths, ascending.
        start: position in the split of the shard's first record, in written order.
        step: distance in positions between two records of the shard.
    """

    name: str
    records: int
    steps: int
    bytes: int
    sha256: str = attrs.field(repr=False)
    lengths_sha256: str = attrs.field(repr=False)
    histogram: tuple[tuple[int, int], ...] = attrs.field(repr=False)
    start: int = attrs.field(repr=False)
    step: int = attrs.field(repr=False)

    @property
    def lengths_name(self) -> str:
        """File name of the lengths, inside the split's directory."""
        return lengths_name(self.name)

    def files(self, split: str) -> list[Wanted]:
        """Return the shard and its lengths, as files of the dataset."""
        lengths = Wanted(f"{split}/{self.lengths_name}", self.lengths_sha256)
        return [Wanted(f"{split}/{self.name}", self.sha256, self.bytes), lengths]


COLUMNS = tuple(each.name for each in attrs.fields(ShardInfo))


@attrs.frozen(eq=False, repr=False)
class ShardTable(Sequence[ShardInfo]):
    """The shards of a split, as columns with an item for each; the attributes are those of `ShardInfo`.

    Attributes:
        name: names.
        records: int64 `(n,)`, like all other counts.
        steps: likewise.
        bytes: likewise.
        sha256: in hex.
        lengths_sha256: in hex.
        histogram: each as text, as in `3:2 5:1`.
        start: int64 `(n,)`.
        step: likewise.
        together: the histogram of all shards, as text.
    """

    name: list[str]
    records: NDArray[np.int64]
    steps: NDArray[np.int64]
    bytes: NDArray[np.int64]
    sha256: Sequence[str]
    lengths_sha256: Sequence[str]
    histogram: Sequence[str]
    start: NDArray[np.int64]
    step: NDArray[np.int64]
    together: str

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> ShardTable:
        """Return the table of data of unknown origin, by the names of the attributes.

        Raises:
            ValueError: they are not those of shards, or a name is no plain one.
            KeyError: one is missing.
            OverflowError: a count is too large.
        """
        values: dict[str, Any] = {name: data[name] for name in COLUMNS}
        names, histograms, together = data["name"], data["histogram"], data["together"]
        if set(map(type, values.values())) - {list, TextColumn} or len(set(map(len, values.values()))) != 1:
            raise ValueError("expected columns of shards, lists of one length")
        check_names(names, "shard")
        for name in names if not all(name.endswith(".tfrecord") for name in names) else ():
            lengths_name(name)  # which raises where it is not a shard's
        for each in _DIGESTS:
            if not isinstance(values[each], TextColumn):
                _check_digests(values[each])
        for each in _COUNTS:
            values[each] = _counts(values[each])
        values["step"] = np.maximum(values["step"], 1)
        if isinstance(histograms, list) and not (
            set(map(type, histograms)) <= {str} and _only("".join(histograms), _NO_BINS)
        ):
            raise ValueError(f"expected histograms, pairs of counts, got {histograms!r:.100}")
        _numbers(together)
        return cls(**values, together=together)

    @classmethod
    def of(cls, shards: Sequence[ShardInfo]) -> ShardTable:
        """Return the table of some shards, the same one where they are a table."""
        if isinstance(shards, ShardTable):
            return shards
        values: dict[str, Any] = {name: [getattr(shard, name) for shard in shards] for name in COLUMNS}
        values["histogram"] = list(map(bins_text, values["histogram"]))
        values |= {name: np.array(values[name], np.int64) for name in _COUNTS}
        return cls(**values, together=bins_text(bins_of(shards)))

    def columns(self) -> dict[str, Any]:
        """Return the columns as lists, in the order of `COLUMNS`."""
        values = {name: getattr(self, name) for name in COLUMNS}
        return values | {name: values[name].tolist() for name in _COUNTS} | {name: list(values[name]) for name in TEXTS}

    def to_dict(self) -> dict[str, Any]:
        """Return what `parse` takes."""
        return {**self.columns(), "together": self.together}

    def __len__(self) -> int:
        return len(self.name)

    @overload
    def __getitem__(self, index: int) -> ShardInfo: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[ShardInfo, ...]: ...

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple(self[place] for place in range(*index.indices(len(self))))
        item: dict[str, Any] = {name: getattr(self, name)[index] for name in COLUMNS}
        item |= {name: int(item[name]) for name in _COUNTS} | {"histogram": _bins(item["histogram"])}
        return ShardInfo(**item)

    def __iter__(self) -> Iterator[ShardInfo]:
        """Yield the shards.

        Raises:
            ManifestError: the text of a histogram is none.
        """
        columns = self.columns()
        columns["histogram"] = map(_bins, self.histogram)
        yield from map(ShardInfo, *columns.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self.sha256))


def column(shards: Sequence[Any], name: str) -> list[Any]:
    """Return an attribute of each of some shards, or of their files: of a table without making an object of each."""
    found = getattr(shards, name, None)
    if found is None:
        return [getattr(shard, name) for shard in shards]
    return found.tolist() if isinstance(found, np.ndarray) else list(found)


def bins_of(shards: Sequence[ShardInfo]) -> list[tuple[int, int]]:
    """Return `(largest length, records)` of the bins of all shards together, ascending.

    Raises:
        ManifestError: the text of a histogram is none.
    """
    if isinstance(shards, ShardTable):
        return list(_bins(shards.together))
    pairs = [pair for shard in shards for pair in shard.histogram]
    lengths, records = np.array(pairs, np.int64).reshape(-1, 2).T
    values, places = np.unique(lengths, return_inverse=True)
    counts = np.zeros(values.size, np.int64)
    np.add.at(counts, places, records)
    return list(zip(values.tolist(), counts.tolist(), strict=True))


def longest_of(shards: Sequence[ShardInfo]) -> int:
    """Return about the most steps of a record of some shards, in the first alignment group."""
    bins = bins_of(shards) if isinstance(shards, ShardTable) else [pair for shard in shards for pair in shard.histogram]
    return max((length for length, _ in bins), default=0)


def bins_text(bins: Any) -> str:
    """Return a histogram as text.

    >>> bins_text([(3, 2), (5, 1)])
    '3:2 5:1'
    """
    return " ".join(f"{length!r}:{records!r}" for length, records in bins)


def _bins(text: str) -> tuple[tuple[int, int], ...]:
    numbers = iter(_numbers(text))
    return tuple(zip(numbers, numbers, strict=True))


def _numbers(text: str) -> list[int]:
    """Return the numbers of a histogram, in the order of the text.

    Raises:
        ManifestError: the text is none.
    """
    try:
        pairs = [tuple(map(int, pair.split(":"))) for pair in text.split()]
    except (ValueError, AttributeError):
        pairs = [()]
    numbers = [number for pair in pairs for number in pair]
    if {*map(len, pairs)} - {2} or min(numbers, default=0) < 0 or max(numbers, default=0) >> 63:
        raise ManifestError(f"expected a histogram, pairs of counts such as '3:2 5:1', got {text!r:.100}")
    return numbers


def _only(text: str, others: bytes) -> bool:
    """Return whether a text is ASCII and has none of some characters."""
    return text.isascii() and len(text.encode().translate(None, others)) == len(text)


def _check_digests(values: list[Any]) -> None:
    wrong = [value for value in values if not isinstance(value, str) or len(value) != 64]  # noqa: PLR2004 - SHA-256
    if wrong or not _only("".join(values), _NO_HEX):
        raise ValueError(f"expected SHA-256s in hex, got {(wrong or values)[0]!r:.100}")


def _counts(values: list[Any]) -> NDArray[np.int64]:
    if set(map(type, values)) - {int} or not 0 <= min(values, default=0) <= max(values, default=0) < 1 << 63:
        wrong = [value for value in values if type(value) is not int or not 0 <= value < 1 << 63]
        raise ValueError(f"expected a count, got {wrong[0]!r:.100}")
    return np.array(values, np.int64)
