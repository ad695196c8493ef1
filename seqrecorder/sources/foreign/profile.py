"""What the messages of unknown shards hold, feature by feature: looked at as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.codec.message_layout import describe_message
from seqrecorder.schema.field import DEFAULT_GROUP
from seqrecorder.wire.message_objects import message_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

SEQUENCE_EXAMPLE = "tf.train.SequenceExample"
EXAMPLE = "tf.train.Example"
ABSENT = -1

# How files of these formats begin.
_FORMATS = {
    b"\x89PNG\r\n\x1a\n": "PNG",
    b"\xff\xd8\xff": "JPEG",
    b"GIF8": "GIF",
    b"RIFF": "WAV or WebP",
    b"fLaC": "FLAC",
    b"OggS": "Ogg",
    b"\x1f\x8b": "GZIP",
    b"\x93NUMPY": "npy",
}
_DTYPES = {"int64_list": "int64", "float_list": "float32", "bytes_list": "bytes"}


@attrs.frozen
class Range:
    """The least and the largest of some counts."""

    least: int
    most: int

    @property
    def only(self) -> int | None:
        """The count, where all are the same."""
        return self.least if self.least == self.most else None

    def __str__(self) -> str:
        return f"{self.least:,}" if self.least == self.most else f"{self.least:,} to {self.most:,}"


@attrs.frozen
class FeatureDescription:
    """One feature of the messages in a shard.

    Attributes:
        name: of the feature.
        kind: `context` or `feature_list`; the features of a flat `tf.train.Example` are `context`.
        dtype: `int64`, `float32`, `bytes`, `str` (bytes that are all UTF-8) or `mixed`; None where it never
            has a value.
        present: in how many of the messages it is.
        steps: number of steps; None for `context`.
        values: number of values, of each step for a `feature_list`; None where there is no step.
        format: `PNG`, `JPEG` and the like where all values are bytes that begin so, else None.
    """

    name: str
    kind: str
    dtype: str | None
    present: int
    steps: Range | None
    values: Range | None
    format: str | None = None


@attrs.frozen(eq=False)
class Profile:
    """What some messages hold.

    Attributes:
        message: `tf.train.SequenceExample`, `tf.train.Example`, or what else can be said.
        records: how many messages were looked at.
        features: of these messages; none where they are of another kind.
        sizes: by the name of a feature, in each message its values (`context`) or its steps (`feature_list`), `ABSENT`
            where it is not.
        totals: likewise, the values of all steps.
    """

    message: str
    records: int
    features: tuple[FeatureDescription, ...]
    sizes: Mapping[str, NDArray[np.int64]]
    totals: Mapping[str, NDArray[np.int64]]

    def is_packed(self, feature: FeatureDescription) -> bool:
        """Whether a feature list has whole sequences for its only steps, as far as can be told."""
        several = feature.values is not None and feature.values.only != 1
        return feature.steps is not None and feature.steps.most == 1 and several


class _Tally:
    """What is known of one feature so far."""

    def __init__(self) -> None:
        self.kinds: set[str] = set()
        self.is_text = True
        self.formats: set[str | None] = set()
        self.positions: list[int] = []
        self.sizes: list[int] = []
        self.totals: list[int] = []
        self.values: Range | None = None

    def add(self, feature: Any) -> int:
        """Count the values of one Feature, and return how many there are."""
        kind = feature.WhichOneof("kind")
        values = getattr(feature, kind).value if kind else ()
        count = len(values)
        if kind:
            self.kinds.add(kind)
            if kind == "bytes_list" and self.is_text:
                self.is_text = all(map(_is_text, values))
            if kind == "bytes_list" and len(self.formats) <= 1:
                self.formats.update(map(_format, values))
        known = self.values
        if known is None:
            self.values = Range(count, count)
        elif not known.least <= count <= known.most:
            self.values = Range(min(known.least, count), max(known.most, count))
        return count

    def place(self, position: int, size: int, total: int) -> None:
        """Note how large the feature is in one message."""
        self.positions.append(position)
        self.sizes.append(size)
        self.totals.append(total)

    def dtype(self) -> str | None:
        """Return the element type of the values."""
        if len(self.kinds) != 1:
            return "mixed" if self.kinds else None
        dtype = _DTYPES[next(iter(self.kinds))]
        return "str" if dtype == "bytes" and self.is_text else dtype

    @property
    def format(self) -> str | None:
        """The format of files that all values are."""
        return next(iter(self.formats)) if len(self.formats) == 1 else None


class Profiler:
    """Takes serialized messages one by one, and tells what they hold.

    >>> import tensorflow as tf
    >>> profiler, message = Profiler(), tf.train.Example()
    >>> message.features.feature["ids"].int64_list.value.extend([3, 1, 2])
    >>> profiler.add(message.SerializeToString())
    >>> [(feature.name, feature.dtype, str(feature.values)) for feature in profiler.profile().features]
    [('ids', 'int64', '3')]
    """

    def __init__(self) -> None:
        self._records = 0
        self._context: dict[str, _Tally] = {}
        self._lists: dict[str, _Tally] = {}
        self._problem = ""

    def add(self, data: bytes) -> None:
        """Count what one message holds."""
        message = message_of(data)
        if message is None:
            self._problem = self._problem or f"unknown: {describe_message(data)}"
            return
        position, self._records = self._records, self._records + 1
        for name, feature in message.context.feature.items():
            tally = self._context.setdefault(name, _Tally())
            count = tally.add(feature)
            tally.place(position, count, count)
        for name, steps in message.feature_lists.feature_list.items():
            tally = self._lists.setdefault(name, _Tally())
            tally.place(position, len(steps.feature), sum(map(tally.add, steps.feature)))

    def profile(self) -> Profile:
        """Return what the messages so far hold."""
        if self._problem:
            return Profile(self._problem, self._records, (), {}, {})
        if not self._records:
            return Profile("unknown: no record could be read", 0, (), {}, {})
        if not self._context and not self._lists:
            return Profile("unknown: no record has a feature", self._records, (), {}, {})
        tallies = {**self._context, **self._lists}
        sizes = {name: self._dense(tally, tally.sizes) for name, tally in tallies.items()}
        totals = {name: self._dense(tally, tally.totals) for name, tally in tallies.items()}
        features = [
            FeatureDescription(name, "context", tally.dtype(), len(tally.positions), None, tally.values, tally.format)
            for name, tally in sorted(self._context.items())
        ]
        features += [
            FeatureDescription(
                name,
                "feature_list",
                tally.dtype(),
                len(tally.positions),
                Range(min(tally.sizes), max(tally.sizes)),
                tally.values,
                tally.format,
            )
            for name, tally in sorted(self._lists.items())
        ]
        # Both have their first features under one number, so a flat message is an Example for all one can tell.
        return Profile(SEQUENCE_EXAMPLE if self._lists else EXAMPLE, self._records, tuple(features), sizes, totals)

    def _dense(self, tally: _Tally, counts: Sequence[int]) -> NDArray[np.int64]:
        dense = np.full(self._records, ABSENT, np.int64)
        dense[tally.positions] = counts
        return dense


def profile(data: Iterable[bytes]) -> Profile:
    """Return what some serialized messages hold."""
    profiler = Profiler()
    for item in data:
        profiler.add(item)
    return profiler.profile()


def aligned(sizes: Mapping[str, NDArray[np.int64]], *, has_default: bool = True) -> dict[str, str | None]:
    """Return for each feature the group of those that are as long in every record, None for one that is alone.

    The largest group, by features and then by elements, is the default one, unless there is none; others are called by
    their first feature.

    >>> sizes = {"a": [2, 2], "b": [1, 3], "c": [1, 3]}
    >>> aligned({name: np.array(counts) for name, counts in sizes.items()})
    {'a': None, 'b': 'default', 'c': 'default'}
    """
    groups: list[list[str]] = []
    for name in sorted(sizes, key=lambda name: -int((sizes[name] != ABSENT).sum())):
        fitting = (group for group in groups if all(_agree(sizes[name], sizes[other]) for other in group))
        group = next(fitting, None)
        if group is None:
            groups.append([name])
        else:
            group.append(name)
    groups.sort(key=lambda group: (-len(group), -max(int(sizes[name].sum()) for name in group)))
    names: dict[str, str | None] = {}
    for position, group in enumerate(groups):
        alone = len(group) == 1
        names |= dict.fromkeys(group, DEFAULT_GROUP if has_default and position == 0 else None if alone else group[0])
    return {name: names[name] for name in sizes}


def _agree(one: NDArray[np.int64], other: NDArray[np.int64]) -> bool:
    both = (one != ABSENT) & (other != ABSENT)
    return bool(both.any() and (one == other)[both].all())


def _format(value: bytes) -> str | None:
    return next((name for start, name in _FORMATS.items() if value.startswith(start)), None)


def _is_text(value: bytes) -> bool:
    try:
        return "\0" not in value.decode()
    except UnicodeDecodeError:
        return False


def array_of(feature: Any) -> np.ndarray[Any, Any]:
    """Return the values of one Feature as an array; bytes that are UTF-8 as text."""
    kind = feature.WhichOneof("kind")
    if kind is None:
        return np.empty(0, np.float32)
    if kind == "bytes_list":
        values = np.empty(len(feature.bytes_list.value), object)
        values[:] = [value.decode() if _is_text(value) else value for value in feature.bytes_list.value]
        return values
    return np.array(getattr(feature, kind).value, np.int64 if kind == "int64_list" else np.float32)
