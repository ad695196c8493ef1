"""The text of a manifest, as `json.dumps` writes it with an indent of 1, and its checksum as the last item."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from seqrecorder.dataset.shard_info import ShardTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SEAL = ',\n "checksum": "'

MOST_ROWS = 1000
"""Shards of a split that are objects of JSON, one each, which are easily looked at; more are a table, easily read."""


def manifest_text(data: Mapping[str, Any], splits: Mapping[str, Any]) -> str:
    """Return the text of a manifest.

    Args:
        data: what stands in it before the splits.
        splits: `SplitInfo` by name.
    """
    parts = [
        f'\n  {_dumps(name)}: {{\n   "shards": {_shards_text(split.shards)}\n  }}' for name, split in splits.items()
    ]
    text = json.dumps(data, indent=1, ensure_ascii=False).removesuffix("\n}")
    end = "\n " if parts else ""
    return _sealed(f'{text},\n "splits": {{{",".join(parts)}{end}}}\n}}')


def is_as_written(text: str) -> bool:
    """Return whether the text of a manifest has the checksum that stands in it, so that nobody changed it since.

    Reading does not ask for that: a manifest that somebody edited with care is still one.
    """
    unsealed, _, _ = text.rpartition(_SEAL)
    return text == _sealed(f"{unsealed}\n}}")


def _dumps(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _list(items: Iterable[str], level: int) -> str:
    """Return a list of JSON, as `json.dumps` writes it with an indent of 1."""
    lines = f",\n{' ' * (level + 1)}".join(items)
    return f"[\n{' ' * (level + 1)}{lines}\n{' ' * level}]" if lines else "[]"


def _shards_text(shards: Any) -> str:
    """Return the shards of a split as JSON."""
    if len(shards) <= MOST_ROWS:
        return _list(map(_shard_text, shards), 3)
    columns = ShardTable.of(shards).to_dict()
    each = (f'    "{name}": {json.dumps(values, ensure_ascii=False)}' for name, values in columns.items())
    return "{\n" + ",\n".join(each) + "\n   }"


def _shard_text(shard: Any) -> str:
    """Return a `ShardInfo` as JSON: `json.dumps` takes as long for a thousand as an append for all else."""
    bins = (f"[\n       {length},\n       {records}\n      ]" for length, records in shard.histogram)
    return (
        f'{{\n     "name": {_dumps(shard.name)},\n     "records": {shard.records},\n     "steps": {shard.steps},\n'
        f'     "bytes": {shard.bytes},\n     "sha256": "{shard.sha256}",\n'
        f'     "lengths_sha256": "{shard.lengths_sha256}",\n     "histogram": {_list(bins, 5)},\n'
        f'     "start": {shard.start},\n     "step": {shard.step}\n    }}'
    )


def _sealed(text: str) -> str:
    """Return the text of a mapping with the checksum of that text as its last item."""
    checksum = hashlib.sha256(f"{text}\n".encode()).hexdigest()
    unfinished = text.removesuffix("\n}")
    return f'{unfinished}{_SEAL}{checksum}"\n}}\n'
