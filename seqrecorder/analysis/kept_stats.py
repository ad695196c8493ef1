"""Statistics that are kept with a dataset: as bytes, exactly, and back."""

from __future__ import annotations

import base64
import json
import zlib
from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.analysis.record_stats import Stats
from seqrecorder.dataset.corpus import Corpus
from seqrecorder.dataset.corpus import open as open_corpus
from seqrecorder.dataset.selection import Selection
from seqrecorder.dataset.statistics_file import read_statistics

if TYPE_CHECKING:
    from seqrecorder.schema.schema import Schema

_FOLLOWING = ("schema", "field", "dtype", "splits", "by")


def kept_stats(source: Any, split: str | None = None) -> Stats | None:
    """Return the statistics that are kept for a dataset, or for one split; None where there are none, or of others.

    Args:
        source: as for `stats`.
        split: as for `stats`.

    Raises:
        ManifestError: they are damaged.
    """
    if isinstance(source, Selection):
        return None
    corpus = source if isinstance(source, Corpus) else open_corpus(source)
    data = read_statistics(corpus.manifest.path, corpus.manifest.to_json().encode())
    if data is None or corpus.schema.fields != corpus.manifest.schema.fields:
        return None
    parts = from_bytes(data, corpus.schema)
    chosen = parts if split is None else {corpus.manifest.split(split).name: parts[split]}
    total = Stats.of_nothing(corpus.schema)
    for name, part in chosen.items():
        total.merge(attrs.evolve(part, splits={name: part}))
    return total


def to_bytes(parts: dict[str, Stats]) -> bytes:
    """Return the statistics of splits as bytes."""
    return zlib.compress(json.dumps(_state(parts)).encode())


def from_bytes(data: bytes, schema: Schema) -> dict[str, Stats]:
    """Return the statistics of splits."""
    parts = json.loads(zlib.decompress(data))
    return {split: _restored(Stats.of_nothing(schema), state) for split, state in parts.items()}


def _state(part: Any) -> Any:
    """Return what JSON can hold of statistics, but for what follows from the schema."""
    if attrs.has(type(part)):
        return {a.name: _state(getattr(part, a.name)) for a in attrs.fields(type(part)) if a.name not in _FOLLOWING}
    if isinstance(part, np.ndarray):
        return [part.dtype.str, base64.b64encode(zlib.compress(part.tobytes())).decode()]
    if isinstance(part, Counter):
        return [[_state(value), count] for value, count in part.items()]
    if isinstance(part, dict):
        return {name: _state(item) for name, item in part.items()}
    if isinstance(part, tuple):
        return list(map(_state, part))
    return [base64.b64encode(part).decode()] if isinstance(part, bytes) else part


def _restored(empty: Any, state: Any) -> Any:
    """Return what a state is of, made as nothing of it is."""
    if attrs.has(type(empty)):
        return attrs.evolve(empty, **{name: _restored(getattr(empty, name), each) for name, each in state.items()})
    if isinstance(empty, Counter):
        return Counter({base64.b64decode(item[0]) if isinstance(item, list) else item: n for item, n in state})
    if isinstance(empty, dict):
        return {name: _restored(empty[name], each) for name, each in state.items()}
    if isinstance(empty, tuple):
        return tuple(map(_restored, empty, state))
    if isinstance(state, list):
        return np.frombuffer(zlib.decompress(base64.b64decode(state[1])), state[0]).copy()
    return state
