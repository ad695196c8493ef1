"""Statistics that are kept with a dataset: as bytes, exactly, and back."""

from __future__ import annotations

import base64
import json
import zlib
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.analysis.numbers import Numbers
from seqrecorder.analysis.record_stats import Stats
from seqrecorder.analysis.texts import Texts
from seqrecorder.dataset.corpus import Corpus
from seqrecorder.dataset.corpus import open as open_corpus
from seqrecorder.dataset.selection import Selection
from seqrecorder.dataset.statistics_file import read_statistics

if TYPE_CHECKING:
    from seqrecorder.analysis.distribution import Distribution
    from seqrecorder.schema.schema import Schema

_PARTS = ("values", "sizes", "inner", "gaps")
_COUNTS = ("records", "none", "empty", "backwards")
_BUCKETS = 1 << 16


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
    state = {
        split: {
            "records": part.records,
            "groups": {group: _state(numbers) for group, numbers in part.groups.items()},
            "fields": {
                name: {
                    **{count: getattr(field, count) for count in _COUNTS},
                    **{each: _state(getattr(field, each)) for each in _PARTS},
                }
                for name, field in part.fields.items()
            },
        }
        for split, part in parts.items()
    }
    return zlib.compress(json.dumps(state).encode())


def from_bytes(data: bytes, schema: Schema) -> dict[str, Stats]:
    """Return the statistics of splits."""
    found = {}
    for split, state in json.loads(zlib.decompress(data)).items():
        part = found[split] = Stats.of_nothing(schema)
        part.records = state["records"]
        part.groups = {group: _part(part.groups[group], each) for group, each in state["groups"].items()}
        for name, each in state["fields"].items():
            field = part.fields[name]
            for count in _COUNTS:
                setattr(field, count, each[count])
            for kind in _PARTS:
                setattr(field, kind, _part(getattr(field, kind), each[kind]))
    return found


def _state(part: Numbers | Texts | None) -> Any:
    if part is None:
        return None
    if isinstance(part, Texts):
        counts = [[_text(value), count] for value, count in part.counts.items()]
        return {"counts": counts, **{a.name: getattr(part, a.name) for a in attrs.fields(Texts) if a.name != "counts"}}
    arrays = {a.name: _array(getattr(part, a.name)) for a in attrs.fields(Numbers) if a.name not in _APART}
    return {**arrays, "distributions": [_distribution(each) for each in part.distributions]}


_APART = ("dtype", "distributions")


def _part(empty: Any, state: Any) -> Any:
    """Return what a state is of, made as nothing of it is."""
    if isinstance(empty, Texts):
        counts = type(empty.counts)({_value(value): count for value, count in state["counts"]})
        return attrs.evolve(empty, **{**state, "counts": counts})
    if empty is None:
        return None
    arrays = {name: _values(value) for name, value in state.items() if name not in _APART}
    made = []
    for nothing, (values, places, counts) in zip(empty.distributions, state["distributions"], strict=True):
        spread = _values(counts)
        if values is None:
            spread = np.zeros(_BUCKETS, np.int64)
            spread[_values(places)] = _values(counts)
        made.append(attrs.evolve(nothing, values=None if values is None else _values(values), counts=spread))
    return attrs.evolve(empty, **arrays, distributions=tuple(made))


def _distribution(part: Distribution) -> list[Any]:
    """Return values, filled buckets, and the counts of either."""
    if part.values is not None:
        return [_array(part.values), None, _array(part.counts)]
    places = np.flatnonzero(part.counts)
    return [None, _array(places.astype(np.uint16)), _array(part.counts[places])]


def _array(values: Any) -> list[str]:
    return [values.dtype.str, base64.b64encode(values.tobytes()).decode()]


def _values(state: list[str]) -> Any:
    return np.frombuffer(base64.b64decode(state[1]), state[0]).copy()


def _text(value: Any) -> Any:
    return [base64.b64encode(value).decode()] if isinstance(value, bytes) else value


def _value(state: Any) -> Any:
    return base64.b64decode(state[0]) if isinstance(state, list) else state
