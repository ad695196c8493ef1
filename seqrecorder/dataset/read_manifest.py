"""The manifest as it is read: text of unknown origin, of which every name is checked and nothing is evaluated."""

from __future__ import annotations

import contextlib
import gc
import json
import re
from types import NoneType
from typing import TYPE_CHECKING, Any

from seqrecorder.dataset.manifest import (
    DEEPEST,
    FORMAT,
    FORMAT_VERSION,
    AssetInfo,
    Manifest,
    SplitInfo,
    Splitting,
    is_too_deep,
)
from seqrecorder.dataset.shard_info import COLUMNS, TEXTS, ShardTable, bins_text, column
from seqrecorder.dataset.splits import Ratios
from seqrecorder.dataset.strata import Stratum
from seqrecorder.dataset.text_columns import without_columns
from seqrecorder.dataset.time_rule import TimeRule
from seqrecorder.errors import DatasetNotFoundError, ManifestError, ShardReadError
from seqrecorder.schema.schema import Schema
from seqrecorder.storage.names import MANIFEST, check_names, is_special
from seqrecorder.storage.object_cache import cached
from seqrecorder.storage.paths import is_url, local_path, origin_of
from seqrecorder.storage.place import Place
from seqrecorder.storage.tfrecord.format import check_compression

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from seqrecorder.dataset.text_columns import TextColumn

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # in an escape, where UTF-8 has none

_DIGEST = re.compile("[0-9a-f]{64}")


def read_manifest(directory: str | os.PathLike[str]) -> Manifest:
    """Return the manifest of a dataset.

    Raises:
        DatasetNotFoundError: there is no dataset.
        ManifestError: the manifest is damaged, or of a newer format.
    """
    path = dataset_at(directory) if is_url(directory) else local_path(directory)
    return parse_manifest(manifest_bytes(path), path)


def dataset_at(given: Any) -> Path:
    """Return the directory of a dataset that is named by itself, by its manifest, or by a URL: then that in the cache.

    Raises:
        DatasetNotFoundError: there is no dataset at the URL.
        DatasetError: the place cannot be asked.
        OptionError: it is no path.
    """
    if not is_url(given):
        path = local_path(given)
        return path.parent if path.name == MANIFEST and not path.is_dir() else path
    place = Place.of(given)
    text = place.read(MANIFEST)
    if text is None:
        raise DatasetNotFoundError(f"there is no dataset at {place.url}: it has no {MANIFEST}", path=place.url)
    return cached(place, text)


def manifest_bytes(path: Path) -> bytes:
    """Return what the manifest of a dataset holds; raises what `read_manifest` does where there is none."""
    file = path / MANIFEST
    if is_special(file):
        raise ManifestError(f"{file}: expected a file, got a pipe or a device", path=file)
    try:
        return file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        if path.is_dir():
            why = f"{path} is a directory without {MANIFEST}, so not a finished dataset; for bare shards pass "
            why += "their paths (or a glob) and `schema=`"
        else:
            why = f"there is no dataset at {path}"
        raise DatasetNotFoundError(why, path=path) from None
    except OSError as error:
        raise ManifestError(f"{file}: cannot be read: {error}", path=file) from error


@contextlib.contextmanager
def explaining_replacement(manifest: Manifest | None) -> Iterator[None]:
    """Say that a dataset was replaced, where that is why its shards cannot be read: then nothing is damaged.

    Args:
        manifest: as it was when the dataset was opened; None for bare shards.

    Raises:
        ShardReadError: the body raised it.
    """
    try:
        yield
    except ShardReadError as error:
        if manifest is None or not was_replaced(manifest):
            raise
        raise ShardReadError(
            f"{manifest.where} was replaced or removed since it was opened, so that {error.path} is not what it was; "
            "nothing is damaged: open it again",
            path=error.path,
        ) from error


def was_replaced(manifest: Manifest) -> bool:
    """Whether shards that a manifest names are not of the dataset any more; whatever is appended leaves them there."""
    try:
        now = read_manifest(manifest.path)
    except DatasetNotFoundError:
        return True
    except ManifestError:
        return False
    return not _shards(manifest) <= _shards(now)


def _shards(manifest: Manifest) -> set[tuple[str, str, str]]:
    """Return the split, name and digest of each shard: written again, equal records have other names."""
    columns = (
        (name, column(split.shards, "name"), column(split.shards, "sha256")) for name, split in manifest.splits.items()
    )
    return {(name, *shard) for name, *both in columns for shard in zip(*both, strict=True)}


def parse_manifest(text: str | bytes, path: Path) -> Manifest:
    """Return the manifest of a dataset at `path` from what its file holds.

    Raises:
        ManifestError: it is damaged, or of a newer format.
    """
    file = path / MANIFEST
    try:
        with _uncollected():
            data = text.encode() if isinstance(text, str) else text
            rest, apart = without_columns(data)
            manifest = _manifest(rest, path, apart)
            return manifest if not apart else _manifest(data, path, {})  # a user's own text may look like a column
    except ManifestError as error:
        raise ManifestError(f"{file}: {error}", path=file) from None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ManifestError(f"{file}: damaged, or not a manifest: {error!r:.1000}", path=file) from None


def _manifest(json_text: bytes, path: Path, apart: dict[tuple[str, int], TextColumn]) -> Manifest:
    """Return the manifest of JSON in which numbers stand for columns, which are taken from those that are apart."""
    text = json_text.decode()
    data = json.loads(text, parse_constant=_refuse_constant)
    if "\\u" in text and _SURROGATE.search(text):  # the first is found to be so a hundred times faster
        json.dumps(data, ensure_ascii=False).encode()
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError("not a manifest of seqrecorder")
    version = data["format_version"]
    if version != FORMAT_VERSION:
        raise ValueError(f"format version {version!r}, where this release reads {FORMAT_VERSION}; update seqrecorder")
    schema = Schema.from_dict(data["schema"])
    if data["fingerprint"] != schema.fingerprint:
        raise ValueError("the schema does not have the fingerprint that stands beside it")
    check_names(data["splits"], "split")
    check_names(data["assets"], "asset")
    return Manifest(
        path=path,
        schema=schema,
        splits={name: _split(name, split, apart) for name, split in data["splits"].items()},
        compression=check_compression(data["compression"]),
        generation=_count(data["generation"]),
        skipped=_count(data["skipped"]),
        splitting=_splitting(data["splitting"]),
        metadata=_metadata(data["metadata"]),
        asset_infos={
            name: AssetInfo(_digest(info["sha256"]), _count(info["generation"]))
            for name, info in data["assets"].items()
        },
        url=origin_of(path),
    )


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the garbage collector from going through millions of values, none of which is garbage, while they come."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _metadata(value: Any) -> Any:
    if is_too_deep(value):
        raise ValueError(f"metadata of more than {DEEPEST} levels")
    return value


def _split(name: str, data: Mapping[str, Any], apart: dict[tuple[str, int], TextColumn]) -> SplitInfo:
    given = data["shards"]
    if isinstance(given, dict):
        given |= {each: apart.pop((each, given[each])) for each in TEXTS if isinstance(given[each], int)}
        return SplitInfo(name, ShardTable.parse(given))
    columns = {column: [shard[column] for shard in given] for column in COLUMNS}
    columns["histogram"] = list(map(bins_text, columns["histogram"]))
    return SplitInfo(name, tuple(ShardTable.parse(columns | {"together": ""})))


def _splitting(data: Mapping[str, Any]) -> Splitting:
    """Return what `Splitting.to_dict` gave; a `ValueError` says what is damaged."""
    seed, shares, by = data["seed"], data["shares"], data["by"]
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise ValueError(f"expected a seed, got {seed!r}")  # noqa: TRY004 - all damage is one error
    if shares is not None:
        shares = dict(Ratios(shares).shares)
    if not isinstance(by, (str, NoneType)):
        raise ValueError(f"expected the name of what was hashed, got {by!r}")  # noqa: TRY004 - as above
    groups = data.get("groups")
    if groups is not None:
        groups = {str(name): _hashes(text) for name, text in groups.items()}
        if shares is None or set(groups) - set(shares):
            raise ValueError(f"expected groups of the splits that have shares, got those of {sorted(groups)}")
    stratify, strata = data.get("stratify"), data.get("strata")
    if not isinstance(stratify, (str, NoneType)) or (stratify is None) != (strata is None):
        raise ValueError(f"expected strata, and the name of what they go by, got {stratify!r}")
    if strata is not None:
        if shares is None:
            raise ValueError("expected shares beside strata")
        strata = {_hash(value): _stratum(name, counts, len(shares)) for value, name, counts in strata}
    rule = data.get("time")
    if rule is not None:
        TimeRule(**rule)
    return Splitting(seed, shares, by, _count(data["sources"]), groups, stratify, strata, rule)


def _stratum(name: Any, counts: Any, splits: int) -> Stratum:
    if not isinstance(name, str) or not isinstance(counts, list) or len(counts) != splits:
        raise ValueError(f"expected a stratum and its counts, got {name!r:.80} and {counts!r:.80}")
    return Stratum(name, list(map(_count, counts)))


def _hash(text: Any) -> int:
    (value,) = _hashes(text)
    return value


def _hashes(text: Any) -> tuple[int, ...]:
    if not isinstance(text, str) or len(text) % 16 or not set(text) <= set("0123456789abcdef"):
        raise ValueError(f"expected hashes of 16 hexadecimal digits each, got {text!r:.80}")
    return tuple(int(text[start : start + 16], 16) for start in range(0, len(text), 16))


def _digest(value: Any) -> str:
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise ValueError(f"expected a SHA-256 in hex, got {value!r}")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise ValueError(f"expected a count, got {value!r}")
    return value
