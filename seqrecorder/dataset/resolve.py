"""A path to what is to be read: a dataset's split, a selection, or bare shards that others wrote; found and checked.

Everything that can be wrong with files is looked for here, before a `tf.data` pipeline hides their names.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.codec.message_layout import PEEKED, check_layout, detect_layout
from seqrecorder.dataset.file_table import FileTable
from seqrecorder.dataset.read_manifest import dataset_at, explaining_replacement, read_manifest
from seqrecorder.dataset.recovery import Expected, without_damage
from seqrecorder.dataset.shard_info import ShardTable, bins_of
from seqrecorder.dataset.shard_set import Origin, Selected, ShardFile
from seqrecorder.errors import OptionError, ShardReadError
from seqrecorder.schema.schema import Schema
from seqrecorder.storage.digests import sha256
from seqrecorder.storage.names import inside
from seqrecorder.storage.paths import files_named, is_url
from seqrecorder.storage.shard import RecordReader, peek
from seqrecorder.storage.tfrecord.check import advice, check_size, check_walk, count_records
from seqrecorder.storage.tfrecord.format import check_compression, detect_compression, is_packed_with_zlib

if TYPE_CHECKING:
    from pathlib import Path

    from seqrecorder.dataset.manifest import Manifest, ShardInfo
    from seqrecorder.dataset.shard_set import Check, OnCorrupt
    from seqrecorder.storage.tfrecord.format import Compression

_LAYOUTS = ("auto", "steps", "packed", "example")


def resolve(
    path: Any,
    split: str | None,
    *,
    schema: object = None,
    compression: str | None = None,
    layout: str = "auto",
    check: Check = "manifest",
    on_corrupt: OnCorrupt = "error",
    lengths_only: bool = False,
) -> Origin:
    """Find what is to be read and check that it can be.

    Args:
        path: a dataset's directory; a selection; or a shard, a glob of shards or a list of shards.
        split: of the dataset; None for its only one.
        schema: class or schema to read as; needed for bare shards.
        compression: of bare shards; None looks at their first bytes.
        layout: of bare shards.
        check: `manifest` trusts shards whose size is as the manifest says, but for the lengths of their frames, which
            `Origin.check_frames` follows when a file is opened, and for the files of lengths (`Origin.check_lengths`);
            and walks over the frames of bare ones. `full` reads all, whatever was found before. `none` looks at
            nothing.
        on_corrupt: `error`, or `skip` to read all of every shard and to leave out what is damaged.
        lengths_only: whether nothing but lengths is asked for; then the records of a selection are not copied.

    Raises:
        DatasetNotFoundError: there is nothing there.
        ShardReadError: a shard is missing, cut, of another size or compression.
        SchemaMismatchError: the data cannot be read as the schema.
        OptionError: arguments make no sense.
    """
    if check not in ("manifest", "full", "none"):
        raise OptionError(f"check: expected 'manifest', 'full' or 'none', got {check!r}")
    if on_corrupt not in ("error", "skip"):
        raise OptionError(f"on_corrupt: expected 'error' or 'skip', got {on_corrupt!r}")
    if layout not in _LAYOUTS:
        raise OptionError(f"layout: expected one of {', '.join(_LAYOUTS)}, got {layout!r}")
    wanted = check_compression(compression)
    if isinstance(path, Selected):
        if split is not None or compression is not None or layout not in ("auto", "steps"):
            raise OptionError(
                "a selection says itself what is read: leave split, compression and layout out, as in "
                "read(corpus['train'])"
            )
        return path.resolve(schema=schema, check=check, on_corrupt=on_corrupt, lengths_only=lengths_only)
    directory = _dataset_directory(path)
    if directory is None:
        if split is not None:
            raise OptionError(f"bare shards have no splits, got {split!r}; pass the paths alone")
        return _resolve_bare(path, schema, wanted=wanted, layout=layout, check=check, on_corrupt=on_corrupt)
    manifest = read_manifest(directory)
    if compression is not None and wanted != manifest.compression:
        raise OptionError(
            f"{directory}: compression is {manifest.compression!r}, as its manifest says, not {compression!r}"
        )
    if layout not in ("auto", "steps"):
        raise OptionError(f"{directory}: layout is for bare shards; what seqrecorder wrote is 'steps'")
    with explaining_replacement(manifest):
        return resolve_dataset(manifest, split, schema, check, on_corrupt)


def _dataset_directory(path: Any) -> Path | None:
    if isinstance(path, Sequence) and not isinstance(path, str):
        return None
    candidate = dataset_at(path)
    if candidate.is_dir() or is_url(path):
        return candidate
    if candidate.exists() or glob.has_magic(str(path)):
        return None
    return candidate  # reading its manifest says what is missing


def resolve_dataset(
    manifest: Manifest, split: str | None, schema: object, check: Check, on_corrupt: OnCorrupt
) -> Origin:
    """Find the shards of a split; takes and raises what `resolve` does."""
    info = manifest.split(split)
    where = f"{manifest.where}, split {info.name!r}"
    wanted = manifest.schema
    if check == "full" or on_corrupt == "skip":  # else each reader fetches its share alone
        manifest.fetch([(info.name, shard) for shard in info.shards])
    if schema is not None:
        wanted = Schema.of(schema)
        wanted.require_readable(manifest.schema, where)
        wanted = wanted.reading(manifest.schema)
    if isinstance(info.shards, ShardTable) and manifest.url is None and check != "full" and on_corrupt == "error":
        bins = tuple(bins_of(info.shards))
        exact = (sum(n for _, n in bins), sum(length * n for length, n in bins)) == (info.records, info.steps)
        files = FileTable.of(manifest, info.name, info.shards)
        origin = Origin(
            where, wanted, "steps", manifest.compression, files, manifest, check, bins=bins if exact else None
        )
        for file in files if check == "manifest" and not origin.is_large else ():
            check_size(file.path, file.bytes, manifest.path)
        return origin
    found = []
    for shard in info.shards:
        path = manifest.shard_path(info.name, shard)
        lengths_path = inside(manifest.path, f"{info.name}/{shard.lengths_name}")
        file = ShardFile(
            path,
            lengths_path,
            shard.records,
            shard.bytes,
            shard.start,
            shard.step,
            lengths_sha256=shard.lengths_sha256,
        )
        if on_corrupt == "skip":
            found.append(_without_damage(file, lengths_path, shard, manifest))
            continue
        found.append(file)
        if check != "none" and (manifest.url is None or check == "full"):
            check_size(path, shard.bytes, manifest.path)
        if check == "full":
            walk = check_walk(path, manifest.compression, shard.records, manifest.path)
            RecordReader(path, manifest.compression, walk.window).read_all()
            if sha256(path) != shard.sha256:
                raise ShardReadError(
                    f"{path}: all its records are whole, and its SHA-256 is not the manifest's, so they are not what "
                    f"was written; {advice(manifest.where)}",
                    path=path,
                )
    found.sort(key=lambda file: file.is_damaged)  # behind the others, which so keep their order
    return Origin(where, wanted, "steps", manifest.compression, tuple(found), manifest, check)


def _without_damage(file: ShardFile, lengths_path: Path, shard: ShardInfo, manifest: Manifest) -> ShardFile:
    expected = Expected(shard.records, shard.sha256, lengths_path, shard.lengths_sha256)
    schema, is_unique = manifest.schema, manifest.schema.key_field is not None
    copy = without_damage(file.path, manifest.compression, schema=schema, expected=expected, is_unique=is_unique)
    if copy is None:
        return file
    return attrs.evolve(
        file,
        path=copy.path,
        lengths_path=copy.lengths_path,
        lengths_sha256=None,  # they were worked out anew
        records=copy.records,
        bytes=copy.path.stat().st_size,
        step=1,  # records are not dealt to it any more
        is_damaged=True,
    )


def _resolve_bare(
    path: Any, schema: object, *, wanted: Compression, layout: str, check: Check, on_corrupt: OnCorrupt
) -> Origin:
    paths = files_named(path)
    if schema is None:
        raise OptionError(f"{paths[0]} is a bare shard: pass schema= with the class that says what is in it")
    compression = common_compression(paths, wanted, on_corrupt)
    target = Schema.of(schema)
    start, files, is_unique = 0, [], target.key_field is not None
    for given in paths:
        copy = without_damage(given, compression, is_unique=is_unique) if on_corrupt == "skip" else None
        shard = given if copy is None else copy.path
        records = -1
        if check == "manifest":
            records = count_records(shard, compression)
        elif check == "full":
            walk = check_walk(shard, compression, -1, shard)
            RecordReader(shard, compression, walk.window).read_all()
            records = walk.lengths.size
        files.append(ShardFile(shard, None, records, shard.stat().st_size, start, is_damaged=copy is not None))
        start += max(records, 0)
    where = str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    samples: list[bytes] = []
    for file in files:
        samples = peek(file.path, compression, PEEKED)
        if samples:
            break
    found: Any = layout
    if samples and layout == "auto":
        found = detect_layout(samples, target, where)
    elif samples:
        check_layout(samples, target, found, where)
    elif layout == "auto":
        found = "steps"
    return Origin(where, target, found, compression, tuple(files))


def common_compression(paths: Sequence[Path], wanted: Compression, on_corrupt: OnCorrupt = "error") -> Compression:
    """Return the compression that all shards have; with `skip`, all of those whose first bytes can be read.

    Raises:
        ShardReadError: they have several, or not the one that is wanted; or one cannot be read.
    """
    kinds = {}
    for path in paths:
        try:
            kinds[path] = detect_compression(path)
            is_zlib = kinds[path] is None and is_packed_with_zlib(path)
        except ShardReadError:
            if on_corrupt == "skip":
                continue
            raise
        if is_zlib:
            raise ShardReadError(
                f"{path}: expected a plain file or one in GZIP, got ZLIB; copy its records to a new file, which "
                "`tf.data.TFRecordDataset(path, 'ZLIB')` reads",
                path=path,
            )
    first = next(iter(kinds.values()), None) if wanted is None else wanted
    for path, kind in kinds.items():
        if kind != first:
            raise ShardReadError(
                f"{path}: expected compression {first!r}"
                + (", as asked for" if wanted is not None else f", as {paths[0]} has")
                + f", got a file with {kind!r}; "
                + ("leave `compression` out to have it found" if wanted is not None else "read the two kinds apart"),
                path=path,
            )
    return first
