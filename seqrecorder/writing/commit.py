"""`commit`, which combines the parts that several processes wrote and publishes them as one dataset.

The parts are written by the module `part`.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import operator
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.dataset.append_and_overwrite import NOTHING, clean_destination, publish, standing
from seqrecorder.dataset.append_and_overwrite import named as named_files
from seqrecorder.dataset.keys import (
    MOST_INDEXED,
    SortedHashes,
    UniqueKeys,
    merged_hashes,
    open_key_index,
    pays,
    write_key_index,
)
from seqrecorder.dataset.manifest import (
    Manifest,
    ShardInfo,
    SplitInfo,
    combine,
    first_reasons,
    read_manifest,
    shards_of,
    write_assets,
)
from seqrecorder.dataset.split_shares import key_hashes
from seqrecorder.dataset.verify import require_fit
from seqrecorder.errors import (
    ChangedError,
    DatasetError,
    DatasetNotFoundError,
    DuplicateKeyError,
    OptionError,
    SchemaMismatchError,
    ShardReadError,
)
from seqrecorder.schema.display import join, number_of
from seqrecorder.storage.files import (
    check_names,
    faults_around,
    generation_of,
    inside,
    is_url,
    link_file,
    sha256,
    shard_name,
    write_file,
    writing,
)
from seqrecorder.storage.locks import exclusive
from seqrecorder.storage.processes_and_signals import cleanup_when_terminated, in_threads, scratch
from seqrecorder.storage.publish import PartsDirectory, Staging
from seqrecorder.storage.tfrecord import advice
from seqrecorder.writing.part import (
    HOOKS,
    IDENTITY,
    MODE,
    Attempt,
    UrlParts,
    checked_part,
    is_dataset,
    read_attempts,
    write_pieces,
)
from seqrecorder.writing.splits import DEFAULT_SPLIT, warn_of_missed_shares
from seqrecorder.writing.writer import KEYS, WriteOptions

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from seqrecorder.dataset.append_and_overwrite import Standing
    from seqrecorder.storage.locks import Held

    Expected = int | list[int | str] | None
    Source = PartsDirectory | UrlParts


def check_unique(parts: Sequence[Attempt], old: Standing, scratch: Path) -> NDArray[np.uint64] | None:
    """Raise `DuplicateKeyError` if a key occurs in two parts, or in a part and the old dataset.

    Args:
        parts: last completed attempt at each part.
        old: dataset to which the parts are added; `NOTHING` for a new dataset.
        scratch: directory for temporary files, on the file system of the dataset; the caller removes them.

    Returns:
        The hashes of all keys, ascending. None if there are no keys, if there are too many to index, or if hooks may
        have changed the stored keys.

    Raises:
        ShardReadError: a file is damaged.
        ShardWriteError: the disk is full or failed.
    """
    first = parts[0].manifest
    keys = UniqueKeys(first.schema, "error", needs=first.metadata[IDENTITY])
    if not keys.needs:
        return None
    owners = [(f"part {part.name}", part.manifest) for part in parts]
    files = [manifest.assets[KEYS] for _, manifest in owners]
    for (_, part), path, digest in zip(owners, files, in_threads(sha256, files), strict=True):
        if digest != part.asset_infos[KEYS].sha256:
            raise ShardReadError(f"{path}: its digest differs from the manifest; {advice(part.path)}", path=path)
    readers = [*map(SortedHashes, files)]
    if old.manifest is not None and old.text is not None:
        known = open_key_index(old.manifest.path, old.text, keys.needs)
        if known is None:
            path = scratch / f".{KEYS}"
            stored = map(key_hashes, keys.stored(old.manifest, old.manifest.splits))
            hashes = np.unique(np.concatenate([np.empty(0, np.uint64), *stored]))
            write_file(path, hashes.astype("<u8", copy=False).tobytes())
            known = SortedHashes(path)
        owners.append((old.manifest.where, old.manifest))
        readers.append(known)
    index = np.empty(0, np.uint64)
    for hashes in merged_hashes(readers):
        doubled = hashes[1:][hashes[1:] == hashes[:-1]]
        for value in np.unique(doubled).tolist():
            holders = dict(owner for owner, file in zip(owners, readers, strict=True) if file.finds(value))
            if len(holders) > 1:
                _check_hash(value, keys, holders)
        index = np.unique(hashes) if doubled.size else hashes
    has_hooks = any(part.manifest.metadata.get(HOOKS, True) for part in parts)
    return None if has_hooks or sum(map(len, readers)) > MOST_INDEXED else index


def _check_hash(value: int, unique: UniqueKeys, holders: Mapping[str, Manifest]) -> None:
    """Raise `DuplicateKeyError` if manifests that share the hash of a key also share the key.

    The keys are compared because different keys may have the same hash. The error is also raised if the key is not
    found, because a hook has changed or dropped its record.
    """
    known: dict[Any, str] = {}
    for name, manifest in holders.items():
        keys = set[Any]()
        for identities in unique.stored(manifest, manifest.splits):
            keys.update(identities[at] for at in np.flatnonzero(key_hashes(identities) == np.uint64(value)).tolist())
        # A hook may have dropped or changed the hashed record. Writing in one process would raise the same error.
        twice = next((key for key in keys if key in known), None)
        other = known[twice] if twice is not None else next(iter(holders))
        if twice is not None or (not keys and len(holders) > 1):
            at = [other, name] if other != name else list(holders)[:2]
            hint = "make keys unique, and write both again" if at[1].startswith("part ") else f"leave it out of {at[0]}"
            raise DuplicateKeyError(f"is in {at[0]} and in {at[1]}; {hint}", key=twice)
        known.update(dict.fromkeys(keys, name))


_LOG = logging.getLogger("seqrecorder")
_TRIES = 9  # a URL cannot be locked, so other processes that append can win several times in a row


def commit(
    destination: str | os.PathLike[str],
    *,
    expected: int | Iterable[int | str] | None = None,
    overwrite: bool = False,
    append: bool = False,
    metadata: Any = None,
    assets: Mapping[str, str | bytes | os.PathLike[str]] | None = None,
) -> Manifest:
    """Publish the parts from `write_part` together as one dataset, in a single step.

    >>> import tempfile, seqrecorder as sr
    >>> @sr.record
    ... class Word:
    ...     text: str = sr.context(str)
    >>> destination = tempfile.mkdtemp() + "/corpus"
    >>> _ = sr.write_part([Word("to"), Word("be")], destination, part=0, shards=2)
    >>> sr.commit(destination, expected=1).records
    2

    The records are in the order of their parts. If there are several attempts at a part, the last completed one is
    used. The files of all attempts are then removed, and attempts that are still running end with an error. An attempt
    that completes too late for this commit is left for the next call, and a warning is logged.

    A commit may be killed at any time and run again. If the dataset is already committed, its manifest is returned,
    unless `append` or `overwrite` is set, or the dataset was committed from a different number of parts than
    `expected`. With `append`, the commit is retried if another process has appended in the meantime: once for a
    directory, which is locked for the second try, and up to nine times for a URL.

    Args:
        destination: directory or URL of the dataset, the same as for `write_part`.
        expected: number of parts, or a list of their numbers or names; if a part is missing, nothing is published. None
            commits all completed parts.
        overwrite: whether to replace a dataset at the destination.
        append: whether to add the parts to the dataset at the destination, as a new generation.
        metadata: any JSON data to store with the dataset, as for `write`.
        assets: mapping from name to a file to store with the dataset, as for `write`.

    Returns:
        The manifest of the dataset.

    Raises:
        DatasetNotFoundError: a part is missing, or there are neither parts nor a dataset.
        DatasetExistsError: the dataset at the destination does not consist of these parts.
        DatasetError: there are more parts than expected, or the dataset to replace or append to has changed.
        DuplicateKeyError: a key occurs in two parts, or in a part and the dataset being appended to.
        SchemaMismatchError: the parts were written with different fields.
        OptionError: the parts were written with different options; or they were written with `append` or `overwrite`,
            and this call does not set the same option; or an option of this call is invalid.
        ShardReadError: a file of a part is missing or was changed.
        ShardWriteError: the disk is full or failed.
    """
    options = WriteOptions.of({"overwrite": overwrite, "append": append, "metadata": metadata, "assets": assets})
    wanted = _wanted(expected)
    if not is_url(destination):
        return _commit_in_directory(PartsDirectory.of(destination), wanted, options)
    for _ in range(_TRIES if append else 0):
        with contextlib.suppress(ChangedError):
            return _commit_at_url(UrlParts.of(str(destination)), wanted, options)
    return _commit_at_url(UrlParts.of(str(destination)), wanted, options)


def _commit_in_directory(source: PartsDirectory, wanted: Expected, options: WriteOptions) -> Manifest:
    may_be_done = not (options.append or options.overwrite)
    try:
        # Other commits of the same parts wait for the lock.
        with writing("commit", source.destination), cleanup_when_terminated(), exclusive(source.path):
            if not _is_done(source, late=may_be_done):
                try:
                    _commit(source, wanted, options)
                except ChangedError:
                    if not options.append:
                        raise
                    with exclusive(source.destination) as lock:  # no other writer can win the second time
                        _commit(source, wanted, options, lock)
            source.remove()
    except DatasetNotFoundError:
        if source.attempts:
            raise
        _check_committed(source, wanted, late=may_be_done)
        with contextlib.suppress(OSError):  # a removal that was killed shortly before its end leaves it empty
            source.path.rmdir()
    return read_manifest(source.destination)


def _check_committed(source: Source, expected: Expected, *, late: bool) -> None:
    """Raise `DatasetNotFoundError` for missing parts, unless they seem to be committed already.

    If `late` is true, a dataset at the destination is taken as proof that they are. It must have been committed from
    the expected number of parts, if there is one.
    """
    count = len(expected) if isinstance(expected, list) else expected
    more = "" if late else "; a commit that ran before may have taken them"
    if late and is_dataset(source.destination):
        got = read_manifest(source.destination).parts
        if count in (None, got):
            return
        origin = f"committed from {number_of(got, 'part')}" if got else "not written in parts"
        more = f"; all {count} are missing, since the dataset there was {origin}"
    text = f"there are no parts of {source.destination}: expected {count or 'them'} in {source.path}{more}"
    raise DatasetNotFoundError(text, path=source.path) from None


def _commit(source: PartsDirectory, expected: Expected, options: WriteOptions, lock: Held | None = None) -> None:
    """Publish the parts, but do not remove their files.

    `lock` is the lock that the caller holds on the destination, or None if the caller holds none.
    """
    if lock is None:  # with a lock, `publish` cleans up
        clean_destination(source.destination)
    parts, old = _fitting_parts(source, expected, options, functools.partial(standing, source.destination))
    for part in parts:
        require_fit(part.manifest)
    with Staging(source.destination, overwrite=options.overwrite or options.append) as staging:
        index = check_unique(parts, old if options.append else NOTHING, source.path)
        manifest = attrs.evolve(_whole(parts, old, options, staging.path), path=staging.destination)
        source.note(_identity(manifest, old.generation))
        published = publish(staging, manifest, old, keep=options.append, outer=lock)
    warn_of_missed_shares(published)
    if index is not None and pays(published):
        try:
            names, text = parts[0].manifest.metadata[IDENTITY], published.to_json().encode()
            write_key_index(published.path, text, names, index, lock)
        except DatasetError as error:  # not a failure: without the index, the next append reads the keys again
            _LOG.warning("%s is committed, but the index of its keys could not be kept: %s", published.path, error)


def _commit_at_url(source: UrlParts, expected: Expected, options: WriteOptions) -> Manifest:
    """Publish the parts at a URL, without moving their shards."""
    late = not (options.append or options.overwrite)
    if not source.attempts:
        _check_committed(source, expected, late=late)
    published = None
    if source.attempts and not _is_done(source, late=late):
        parts, old = _fitting_parts(source, expected, options, source.whole.standing)
        source.check_files([part.manifest for part in parts])
        directory = scratch()
        check_unique(parts, old if options.append else NOTHING, directory)
        manifest = _whole(parts, old, options, directory, stay=True)
        there = set[str]().union(*(named_files(part.manifest) for part in parts))
        published = source.whole.publish(manifest, directory, overwrite=not late, there=there)
        warn_of_missed_shares(published)
    published = published or read_manifest(source.destination)
    source.remove(_taken(source, published, late=late), published)
    return published


def _fitting_parts(
    source: Source, expected: Expected, options: WriteOptions, stands: Callable[..., Standing]
) -> tuple[list[Attempt], Standing]:
    """Read the parts and the dataset at the destination, and check that they fit together.

    The result is the parts, in order, and the state of the destination.

    Args:
        source: directory or URL of the parts.
        expected: how many parts there must be, or a list of their numbers or names; None for any.
        options: options of `commit`.
        stands: function that reads the state of the destination, like `standing`.

    Raises:
        DatasetError: the parts replace the dataset from which their records were copied, but it has changed since then.
    """
    parts = _read_parts(source)
    _check_expected(source, parts, expected)
    for part in parts:  # parts without a mode may also join or replace a dataset that was created after them
        mode = part.manifest.metadata.get(MODE)
        if mode is not None and not getattr(options, str(mode), True):
            raise OptionError(f"part {part.name} was written with {mode}=True: pass {mode}=True to commit, too")
    first = parts[0].manifest
    old = stands(first.schema, append=options.append, overwrite=options.overwrite, compression=first.compression)
    _check_alike(parts, old.manifest if options.append else None)
    for digest in {digest for part in parts if options.overwrite for digest in part.opened}:
        old.check_opened(digest, source.destination)
    return parts, old


def _whole(
    parts: Sequence[Attempt], old: Standing, options: WriteOptions, directory: Path, *, stay: bool = False
) -> Manifest:
    """Combine the parts into one manifest.

    Their files are linked into `directory`. With `stay`, the files are left in place.
    """
    earlier = old.manifest if options.append else None
    generation = 0 if stay or earlier is None else old.generation
    manifest = attrs.evolve(
        _joined(parts, old, earlier, None if stay else directory),
        path=directory,
        metadata=json.loads(json.dumps(options.metadata)),  # as readers get it: tuples become lists
        asset_infos=write_assets(options.assets, directory, generation),
    )
    return manifest if earlier is None else combine(earlier, manifest)


def _taken(source: Source, there: Manifest, *, late: bool) -> list[bool]:
    """Check for each attempt whether the dataset contains it.

    The dataset contains an attempt if it has its shards, or those of a later attempt at the same part. An attempt
    without shards counts as contained if any other attempt is.

    Args:
        source: directory or URL of the parts.
        there: manifest of the dataset.
        late: whether to compare shards by digest, so that later attempts with the same contents also match. If False,
            shards are compared by name; at a URL, each attempt has its own names.
    """
    ours, last = _marks(there, late=late), dict[int | str, int]()
    every = [(part, _marks(part.manifest, late=late)) for part in read_attempts(source)]
    for part, shards in every:
        if shards and shards <= ours:
            last[part.name] = max(part.completed, last.get(part.name, part.completed))
    return [
        bool(last) and (shards <= ours or (part.name in last and part.completed <= last[part.name]))
        for part, shards in every
    ]


def _marks(manifest: Manifest, *, late: bool = True) -> set[tuple[str, str]]:
    """Collect the pairs that identify the shards: the split of each, and its digest.

    If `late` is false, the name of the shard takes the place of its digest.
    """
    return {(split, shard.sha256 if late else shard.name) for split, shard in shards_of(manifest)}


def _read_parts(source: Source) -> list[Attempt]:
    """Read the last completed attempt at each part, in the order of the parts."""
    attempts: dict[int | str, list[Attempt]] = {}
    for part in sorted(read_attempts(source), key=operator.attrgetter("completed", "manifest.path")):
        attempts.setdefault(part.name, []).append(part)
    if not attempts:
        raise DatasetNotFoundError(f"{source.path} has no completed part; write the parts first", path=source.path)
    parts = []
    for name in sorted(attempts, key=lambda name: (isinstance(name, str), name)):
        *others, last = attempts[name]
        parts.append(last)
        if any(_marks(other.manifest) != _marks(last.manifest) for other in others):
            text = "%s: %s attempts at part %s have different contents; the one that was completed last counts"
            _LOG.warning(text, source.destination, len(others) + 1, name)
    return parts


def _wanted(expected: Any) -> Expected:
    if expected is None or (isinstance(expected, int) and not isinstance(expected, bool) and expected >= 1):
        return expected
    if isinstance(expected, (int, str, bytes)) or not hasattr(expected, "__iter__"):
        raise OptionError(f"expected: the number of parts, 1 or more, or their names; got {expected!r}")
    return list(dict.fromkeys(map(checked_part, expected)))


def _check_expected(source: Source, parts: Sequence[Attempt], expected: Expected) -> None:
    there = {part.name: None for part in parts}
    if expected is None or expected == len(there):
        return
    if isinstance(expected, int):
        # Jobs may count from 0 or from 1. If parts have names, we can only check how many there are.
        first = 0 if 0 in there else 1
        every = list[int | str](range(first, first + expected))
        if any(isinstance(name, str) for name in there):
            every = list(there)[:expected]
        count, is_short = expected, len(there) < expected
    else:
        every, count, is_short = expected, len(expected), not set(expected) <= set(there)
    wanted = set(every)
    lacking = [str(name) for name in every if name not in there]
    if isinstance(expected, int) and lacking[-1:] == [str(expected)]:  # a job that counts from 0 lacks part 0 instead
        lacking[-1] = f"0 or {expected}"
    missing = join(lacking, 20)
    more = join([str(name) for name in there if name not in wanted], 20)
    text = f"expected {number_of(count, 'part')} of {source.destination}, got {len(there)}"
    if is_short:
        raise DatasetNotFoundError(f"{text}{missing and '; missing: '}{missing}; write them first", path=source.path)
    if more:
        text += f", with {more} as well; remove from {source.path} the parts of earlier jobs, and commit again"
        raise DatasetError(text, path=source.path)


def _check_alike(parts: Sequence[Attempt], earlier: Manifest | None) -> None:
    """Raise an error if the parts cannot be combined into one dataset.

    The fields of each part must equal those of the first part. Its compression and splitting rule must equal those of
    the dataset to append to or, without one, those of the first part.
    """
    first, where = (parts[0].manifest, f"part {parts[0].name}") if earlier is None else (earlier, str(earlier.path))
    check_names(dict.fromkeys([*first.splits, *(name for part in parts for name in part.manifest.splits)]), "split")
    for part in parts:
        got = part.manifest
        if got.schema.fields != parts[0].manifest.schema.fields:
            raise SchemaMismatchError(
                f"part {part.name} was written with other fields than part {parts[0].name}; write it again:",
                list(map(str, got.schema.changes_since(parts[0].manifest.schema))),
            )
        for name, one, other in (
            ("compression", first.compression, got.compression),
            ("seed", first.splitting.seed, got.splitting.seed),
            ("splits", first.splitting.shares, got.splitting.shares),
            ("split_by", first.splitting.by, got.splitting.by),
            ("time", first.splitting.time, got.splitting.time),
        ):
            if one != other:
                text = f"was written with {name}={other!r}, and {where} with {one!r}; write one of them again"
                raise OptionError(f"part {part.name} {text}")


def _joined(parts: Sequence[Attempt], old: Standing, earlier: Manifest | None, staging: Path | None) -> Manifest:
    """Join the manifests of all parts.

    The files of the parts are linked into `staging`. If `staging` is None, the files are left in place.
    """
    splits = {}
    for name in dict.fromkeys(name for part in parts for name in part.manifest.splits) or [DEFAULT_SPLIT]:
        directory = None if staging is None else staging / name
        if directory is not None:
            with writing("create the directory of split", directory), faults_around("mkdir", directory):
                directory.mkdir(exist_ok=True)
        start = earlier.splits[name].records if earlier is not None and name in earlier.splits else 0
        pairs = [(part.manifest, part.manifest.splits[name]) for part in parts if name in part.manifest.splits]
        count, infos = sum(len(split.shards) for _, split in pairs), list[ShardInfo]()
        for manifest, split in pairs:
            for shard in split.shards:
                if directory is None:
                    infos.append(attrs.evolve(shard, start=start + shard.start))
                    continue
                final = shard_name(name, len(infos), count, old.generation)
                infos.append(attrs.evolve(shard, name=final, start=start + shard.start))
                link_file(manifest.shard_path(name, shard), directory / final)
                link_file(inside(manifest.path, f"{name}/{shard.lengths_name}"), directory / infos[-1].lengths_name)
            start += split.records
        splits[name] = SplitInfo(name, tuple(infos))
    first = parts[0].manifest
    sources = sum(part.manifest.splitting.sources for part in parts)
    if earlier is not None:  # the count of each part includes the sources of the earlier dataset
        sources -= (len(parts) - 1) * earlier.splitting.sources
    return Manifest(
        path=first.path if staging is None else staging,
        schema=first.schema,
        splits=splits,
        compression=first.compression,
        generation=old.generation,
        skipped=sum(part.manifest.skipped for part in parts),
        skip_reasons=first_reasons(*(part.manifest.skip_reasons for part in parts)),
        splitting=attrs.evolve(first.splitting, sources=sources),
        parts=len(parts),
    )


def _identity(manifest: Manifest, generation: int) -> str:
    """Compute a digest of the shards that a generation added to a dataset.

    Later generations do not change this digest.
    """
    shards = [(split, shard.name, shard.sha256) for split, shard in shards_of(manifest)]
    ours = [shard for shard in shards if generation_of(*shard[:2]) == generation]
    return f"{generation} {hashlib.sha256(json.dumps(ours).encode()).hexdigest()}"


def _is_done(source: Source, *, late: bool) -> bool:
    """Check whether the parts are already committed.

    If they are committed and are in a directory, a note that says so is left beside them, unless it is there already.

    Args:
        source: directory or URL of the parts.
        late: whether attempts that finished after the commit also count as committed if their contents are the same.
    """
    try:
        there = read_manifest(source.destination)
    except DatasetError:
        return False
    if isinstance(source, PartsDirectory):
        noted = source.noted() or ""
        generation = int(noted.partition(" ")[0] or -1)
        is_noted = 0 <= generation <= there.generation and noted == _identity(there, generation)
        if is_noted or not late:
            return is_noted
    taken = _taken(source, there, late=late)
    done = all(taken or [False]) if late else any(taken)
    if done and isinstance(source, PartsDirectory):
        source.note(_identity(there, there.generation))
    return done


def commit_pieces(
    numbers: Sequence[int], destination: str | os.PathLike[str], schema: object, options: WriteOptions
) -> Manifest:
    """Commit the parts that `write_pieces` wrote.

    If there are none, an empty dataset is written.

    Raises:
        DuplicateKeyError: two parts share a key.
    """
    if not numbers:
        write_pieces([], destination, schema, 0, options)
    whole: Any = {name: getattr(options, name) for name in ("overwrite", "metadata", "assets")}
    return commit(destination, expected=numbers or 1, **whole)
