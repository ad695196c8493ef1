"""The options of writing, and what is wrong with them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import NoneType
from typing import Any, Literal

import attrs

from seqrecorder.dataset.metadata import check_metadata
from seqrecorder.dataset.owned_files import ASSET_GENERATION
from seqrecorder.errors import OptionError
from seqrecorder.storage.names import check_names
from seqrecorder.storage.tfrecord.format import check_compression


def _own_dict(value: Mapping[str, Any] | None) -> dict[str, Any]:
    if not isinstance(value, (Mapping, NoneType)):
        raise OptionError(f"params and assets: expected a mapping of names, got {value!r}")
    return dict(value or {})


@attrs.frozen
class WriteOptions:
    """The options of `Writer` and `write`; see there."""

    splits: Any = None
    split_by: Any = None
    seed: int = 0
    shards: int | None = None
    shard_bytes: int | None = None
    compression: str | None = None
    shuffle: bool = False
    workers: int = 1
    params: Mapping[str, Any] = attrs.field(factory=dict, converter=_own_dict)
    csv: bool = False
    metadata: Any = None
    assets: Mapping[str, Any] = attrs.field(factory=dict, converter=_own_dict)
    on_duplicate: Literal["error", "first"] = "error"
    overwrite: bool = False
    append: bool = False
    progress: bool | None = None

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.seed, int) or isinstance(self.seed, bool):
            raise OptionError(f"seed: expected an int, got {self.seed!r}")
        if not isinstance(self.workers, int) or isinstance(self.workers, bool) or self.workers < 1:
            raise OptionError(f"workers: expected a number of processes, 1 or more, got {self.workers!r}")
        if self.on_duplicate not in ("error", "first"):
            raise OptionError(f"on_duplicate: expected 'error' or 'first', got {self.on_duplicate!r}")
        for name in ("shuffle", "csv", "overwrite", "append"):
            if not isinstance(getattr(self, name), bool):
                raise OptionError(f"{name}: expected True or False, got {getattr(self, name)!r}")
        if self.append and self.overwrite:
            raise OptionError("give append=True or overwrite=True, not both")
        check_compression(self.compression)
        check_names(self.assets, "asset")
        for name, content in self.assets.items():
            if ASSET_GENERATION.fullmatch(name):
                raise OptionError(
                    f"asset {name!r}: such names are those of the dataset's own directories; choose another"
                )
            if not isinstance(content, (bytes, str, os.PathLike)):
                kind = type(content).__name__
                raise OptionError(f"asset {name!r}: expected text, bytes or the Path of a file, got {kind}")
        check_metadata(self.metadata)
