"""The data of the benchmark: six kinds of sequences, made from seeds.

| name | what | where such data come from |
|---|---|---|
| W1 | int64 ids and labels, log-normal lengths of mean 40 (2 to 400); a key and the length as context | tagging |
| W2 | float32[16] and an int64 label a step, 50 to 1,000 steps | sensors |
| W3 | float32[1024] and 128 uint8 a step, 300 steps | video features |
| W4 | 1 to 8 int64 | clicks, short sessions |
| W5 | a token and its tag as text, log-normal lengths of mean 25 | text |
| W6 | ints of both signs, boxes, ragged tags, long tail (mean 60, to 4,000); image, caption, optional score | clips |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.codec.columns import Column
from seqrecorder.schema.declarations import context, feature_list, record
from seqrecorder.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Lists = dict[str, Any]

IMAGE = (24, 24, 3)
"""Shape of the images of W6."""
_WORDS = 8_000
_TAGS = 17
_PACKED = ("W1", "W2", "W4")


@record
class Tokens:
    """W1."""

    key: str = context(str, key=True)
    length: int = context("int64")
    ids: NDArray[np.int64] = feature_list("int64")
    labels: NDArray[np.int64] = feature_list("int64")


@record
class Sensors:
    """W2."""

    key: str = context(str, key=True)
    signal: NDArray[np.float32] = feature_list("float32", shape=(16,))
    label: NDArray[np.int64] = feature_list("int64")


@record
class Frames:
    """W3."""

    key: str = context(str, key=True)
    rgb: NDArray[np.float32] = feature_list("float32", shape=(1024,))
    audio: NDArray[np.uint8] = feature_list("uint8", shape=(128,), storage="raw")


@record
class Clicks:
    """W4."""

    ids: NDArray[np.int64] = feature_list("int64")


@record
class Words:
    """W5."""

    key: str = context(str, key=True)
    tokens: NDArray[Any] = feature_list(str)
    tags: NDArray[Any] = feature_list(str)


@record
class Clips:
    """W6."""

    key: str = context(str, key=True)
    caption: str = context(str)
    image: NDArray[np.uint8] = context("uint8", shape=IMAGE, storage="png")
    score: float | None = context("float32", optional=True)
    levels: NDArray[np.int64] = feature_list("int64")
    boxes: NDArray[np.float32] = feature_list("float32", shape=(4,))
    tags: Any = feature_list("int64", shape=(None,))


@attrs.frozen(eq=False)
class Workload:
    """The records of one workload, and what candidates must know of them.

    Attributes:
        name: `W1` to `W6`.
        title: what it is.
        record_class: class of the records.
        records: in memory.
        contexts: for each context field, one value per record.
        flat: for each feature list, the values of all steps of all records, one behind the other.
        lengths: int64, steps of each record.
        boundaries: of the buckets in which every candidate that buckets does so: quantiles of the lengths, as a person
            would choose them; none where all lengths are equal.
        shuffle: records that a streaming reader permutes at a time.
        packed: the schema of lists with `storage="packed"`, where that is measured.
        others: fields that are no plain columns, such as images, as `Writer.write_batch` takes them: other libraries
            are not measured where there are some, and batches are not compared by them.
    """

    name: str
    title: str
    record_class: type
    records: Sequence[Any]
    contexts: dict[str, Any]
    flat: dict[str, Any]
    lengths: NDArray[np.int64]
    boundaries: tuple[int, ...]
    shuffle: int
    packed: Schema | None = None
    others: Lists = attrs.field(factory=dict)

    @property
    def raw_bytes(self) -> int:
        """Bytes of the values as plain arrays; text as UTF-8."""
        others = [np.asarray(part) for value in self.others.values() for part in _arrays(value)]
        columns = [*self.contexts.values(), *self.flat.values(), *others]
        return sum(
            sum(len(text.encode()) for text in column) if np.asarray(column[:1]).dtype.kind in "OU" else column.nbytes
            for column in columns
        )


def make(name: str, *, quick: bool = False) -> Workload:
    """Return a workload, the same values each time.

    Args:
        name: `W1` to `W6`.
        quick: a tenth of the records.
    """
    return WORKLOADS[name](10 if quick else 1)


def _log_normal(rng: np.random.Generator, mean: float, most: int, count: int, sigma: float = 0.8) -> NDArray[np.int64]:
    drawn = rng.lognormal(np.log(mean) - sigma**2 / 2, sigma, count)
    return np.clip(np.round(drawn), 2, most).astype(np.int64)


def _keys(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{number:06d}" for number in range(count)]


def _arrays(value: Any) -> Sequence[Any]:
    """Return the arrays of values of a column."""
    if isinstance(value, Column):
        return [value.values]
    return [value[0]] if isinstance(value, tuple) else [value]


def _rows_of(value: Any) -> Sequence[Any]:
    """Return what each record has of a column: of an array, of values that may lack, or of ragged steps."""
    if isinstance(value, Column):
        given = iter(value.values.tolist())
        return [next(given) if there else None for there in value.present.tolist()]
    if isinstance(value, tuple):
        values, counts, lengths = value
        steps = np.split(values, np.cumsum(counts)[:-1])
        ends = np.cumsum(lengths).tolist()
        return [steps[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    return list(value)


def _objects(values: list[str]) -> NDArray[Any]:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _packed(schema: Schema) -> Schema:
    fields = (attrs.evolve(field, storage="packed") if field.is_list else field for field in schema.fields)
    return attrs.evolve(schema, fields=tuple(fields))


def _build(
    name: str,
    title: str,
    record_class: type,
    lengths: NDArray[np.int64],
    *,
    contexts: Lists,
    flat: Lists,
    others: Lists | None = None,
    shuffle: int = 10_000,
) -> Workload:
    ends = np.cumsum(lengths).tolist()
    # Copies, as records that come from somewhere are: slices of one array would share its memory.
    rows = {
        field: [values[start:end].copy() for start, end in zip([0, *ends], ends, strict=False)]
        for field, values in flat.items()
    }
    columns = {**contexts, **rows, **{name: _rows_of(value) for name, value in (others or {}).items()}}
    records = [
        record_class(**dict(zip(columns, values, strict=True))) for values in zip(*columns.values(), strict=True)
    ]
    cuts = np.unique(np.quantile(lengths, np.arange(1, 8) / 8).astype(np.int64)).tolist()
    boundaries = tuple(cuts) if len(cuts) > 1 else ()
    packed = _packed(Schema.of(record_class)) if name in _PACKED else None
    return Workload(
        name, title, record_class, records, contexts, flat, lengths, boundaries, shuffle, packed, others or {}
    )


def _tokens(divisor: int) -> Workload:
    rng = np.random.default_rng(1)
    lengths = _log_normal(rng, 40, 400, 20_000 // divisor)
    steps = int(lengths.sum())
    ids = np.minimum(rng.zipf(1.2, steps), 30_000).astype(np.int64)
    flat = {"ids": ids, "labels": rng.integers(0, 40, steps)}
    contexts = {"key": _keys("sentence", lengths.size), "length": lengths}
    return _build("W1", "tokens", Tokens, lengths, contexts=contexts, flat=flat)


def _sensors(divisor: int) -> Workload:
    rng = np.random.default_rng(2)
    lengths = rng.integers(50, 1001, 3_000 // divisor)
    steps = int(lengths.sum())
    flat = {"signal": rng.normal(size=(steps, 16)).astype(np.float32), "label": rng.integers(0, 12, steps)}
    contexts = {"key": _keys("trial", lengths.size)}
    return _build("W2", "sensor steps", Sensors, lengths, contexts=contexts, flat=flat, shuffle=1_000)


def _frames(divisor: int) -> Workload:
    rng = np.random.default_rng(3)
    lengths = np.full(128 // min(divisor, 2), 300)
    steps = int(lengths.sum())
    rgb = rng.standard_normal((steps, 1024), np.float32)
    flat = {"rgb": rgb, "audio": rng.integers(0, 256, (steps, 128), np.uint8)}
    contexts = {"key": _keys("video", lengths.size)}
    return _build("W3", "frames", Frames, lengths, contexts=contexts, flat=flat, shuffle=128)


def _clicks(divisor: int) -> Workload:
    rng = np.random.default_rng(4)
    lengths = rng.integers(1, 9, 200_000 // divisor)
    ids = np.minimum(rng.zipf(1.2, int(lengths.sum())), 1_000_000).astype(np.int64)
    return _build("W4", "tiny records", Clicks, lengths, contexts={}, flat={"ids": ids})


def _words(divisor: int) -> Workload:
    rng = np.random.default_rng(5)
    lengths = _log_normal(rng, 25, 200, 10_000 // divisor)
    steps = int(lengths.sum())
    letters = np.array(list("abcdefghijklmnopqrstuvwxyzäöüéß"))
    words = ["".join(rng.choice(letters, size)) for size in rng.integers(1, 12, _WORDS)]
    tags = [f"TAG-{number}" for number in range(_TAGS)]
    flat = {
        "tokens": _objects([words[i] for i in np.minimum(rng.zipf(1.3, steps), _WORDS) - 1]),
        "tags": _objects([tags[i] for i in rng.integers(0, _TAGS, steps)]),
    }
    contexts = {"key": _keys("text", lengths.size)}
    return _build("W5", "string tokens", Words, lengths, contexts=contexts, flat=flat)


def _clips(divisor: int) -> Workload:
    rng = np.random.default_rng(6)
    count = 4_000 // divisor
    lengths = _log_normal(rng, 60, 4_000, count, sigma=1.4)
    steps = int(lengths.sum())
    counts = rng.integers(0, 4, steps)
    smooth = np.add.outer(np.arange(IMAGE[0]), np.arange(IMAGE[1]))[None, :, :, None] + rng.integers(
        0, 200, (count, 1, 1, 3)
    )
    scored = rng.random(count) < 0.7
    flat = {"levels": rng.integers(-8, 8, steps), "boxes": rng.random((steps, 4), np.float32)}
    words = [f"a clip of {word}" for word in ("rain", "a street", "birds", "somebody who speaks")]
    contexts = {"key": _keys("clip", count), "caption": [words[i] for i in rng.integers(0, len(words), count)]}
    others = {
        "image": smooth.astype(np.uint8),
        "score": Column(rng.random(int(scored.sum()), np.float32), present=scored),
        "tags": (rng.integers(0, 50, int(counts.sum())), counts, lengths),
    }
    return _build("W6", "annotated clips", Clips, lengths, contexts=contexts, flat=flat, others=others)


WORKLOADS: dict[str, Callable[[int], Workload]] = {
    "W1": _tokens,
    "W2": _sensors,
    "W3": _frames,
    "W4": _clicks,
    "W5": _words,
    "W6": _clips,
}
