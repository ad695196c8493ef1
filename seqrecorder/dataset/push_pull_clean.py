"""Datasets at URLs: push, pull, and removal of leftovers.

Objects are never renamed or changed. The names of shards and assets contain digests of their contents, so concurrent
writers never collide, and an interrupted transfer can be resumed. The manifest is written last, with one conditional
put, which publishes the dataset.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from seqrecorder.dataset.append_and_overwrite import (
    ASSET_GENERATION,
    NOTHING,
    Standing,
    named,
    publish,
    standing,
    standing_to_replace,
)
from seqrecorder.dataset.manifest import (
    Manifest,
    SplitInfo,
    dataset_at,
    files_of,
    manifest_bytes,
    parse_manifest,
    read_manifest,
)
from seqrecorder.dataset.verify import require_fit
from seqrecorder.errors import DatasetError, DatasetExistsError, DatasetNotFoundError, OptionError, ShardReadError
from seqrecorder.storage.cache import cached, fetch
from seqrecorder.storage.files import (
    ASSETS,
    MANIFEST,
    generation_of,
    inside,
    is_url,
    link_file,
    sha256,
    shard_name,
    writing,
)
from seqrecorder.storage.object_store import Place
from seqrecorder.storage.processes_and_signals import Progress, cleanup_when_terminated, in_threads
from seqrecorder.storage.publish import Staging
from seqrecorder.storage.tfrecord import advice

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Sequence

    from seqrecorder.dataset.manifest import AssetInfo, ShardInfo
    from seqrecorder.schema.schema import Schema
    from seqrecorder.storage.cache import Wanted
    from seqrecorder.storage.files import Compression


_RECORDS = ".tfrecord"

_UNIQUE = re.compile(r".*-[0-9a-f]{16}\.(?:tfrecord|lengths)")


def use_unique_names(manifest: Manifest, label: str = "") -> Manifest:
    """Rename the files in a manifest: add a label and the digest of the contents to names that lack them."""

    def names(_: str, shards: Sequence[ShardInfo]) -> list[str]:
        return [unique_name(shard.name, shard.sha256, shard.lengths_sha256, label) for shard in shards]

    return _rename(manifest, names, lambda info: int(info.sha256[:12], 16))


def use_plain_names(manifest: Manifest) -> Manifest:
    """Remove the labels and digests that `use_unique_names` added to the file names in a manifest.

    The new names are for a dataset in a directory. If the shards of a split would not get unique, valid names, they are
    numbered again. This happens if the dataset was written in parts, or if a writer sent shards before it knew how many
    there would be.
    """

    def names(split: str, shards: Sequence[ShardInfo]) -> list[str]:
        plain = [_plain_name(shard) for shard in shards]
        known = len(set(plain)) == len(plain) and all(generation_of(split, each) is not None for each in plain)
        return plain if known else [shard_name(split, index, len(plain)) for index in range(len(plain))]

    return attrs.evolve(_rename(manifest, names, lambda _: 0), url=None)


def _rename(
    manifest: Manifest, names: Callable[[str, Sequence[ShardInfo]], list[str]], generation: Callable[[AssetInfo], int]
) -> Manifest:
    splits = {}
    for name, split in manifest.splits.items():
        pairs = zip(split.shards, names(name, split.shards), strict=True)
        splits[name] = SplitInfo(name, tuple(attrs.evolve(shard, name=new) for shard, new in pairs))
    infos = {name: attrs.evolve(info, generation=generation(info)) for name, info in manifest.asset_infos.items()}
    return attrs.evolve(manifest, splits=splits, asset_infos=infos)


def unique_name(name: str, sha256: str, lengths_sha256: str, label: str) -> str:
    """Append a label and a content digest to the name of a shard, unless the name already has them."""
    stem, end = name.removesuffix(_RECORDS), _token(sha256, lengths_sha256)
    return name if stem.endswith(end) else f"{stem}{label}{end}{_RECORDS}"


def _plain_name(shard: ShardInfo) -> str:
    return shard.name.removesuffix(_RECORDS).removesuffix(_token(shard.sha256, shard.lengths_sha256)) + _RECORDS


def _token(sha256: str, lengths_sha256: str) -> str:
    """Compute the suffix that the names of a shard and its lengths file share, from the digests of both."""
    return f"-{hashlib.sha256(f'{sha256}{lengths_sha256}'.encode()).hexdigest()[:16]}"


def is_ours(name: str) -> bool:
    """Check whether the name of an object is one that only writers of datasets use."""
    *directories, file = name.split("/")
    if len(directories) == 1:
        return file.startswith(f"{directories[0]}-") and _UNIQUE.fullmatch(file) is not None
    return len(directories) == 2 and directories[0] == ASSETS and ASSET_GENERATION.fullmatch(directories[1]) is not None  # noqa: PLR2004 - assets/g123/name


PARTS = ".parts/"
"""Prefix of the names of the manifests of parts, which exist until `commit` combines the parts."""

_REUSED = dt.timedelta(hours=12)
"""Maximum age at which a transfer reuses an object; well below a day, since `clean` may remove older objects."""


@attrs.frozen
class Destination:
    """URL to which a dataset is written, and its state when the write began.

    Attributes:
        place: `Place` of the URL.
        version: version of the manifest at the URL; None if there was none.
        text: text of the manifest at the URL; None if there was none.
        name: name of the manifest to write.
        label: label to add to the names of shards, in addition to their digest.
    """

    place: Place
    version: str | None = None
    text: bytes | None = None
    name: str = MANIFEST
    label: str = ""

    @classmethod
    def of(cls, url: str) -> Destination:
        """Read the state of a URL.

        Raises:
            DatasetError: the URL cannot be reached.
            OptionError: `url` is not a URL, or its scheme is unknown.
        """
        if not is_url(url):
            raise OptionError(f"expected a URL such as 's3://bucket', got {url!r}; directories need no push or clean")
        remote = Place.of(url)
        version = remote.version(MANIFEST)  # read before the text: if the text is newer, the conditional put fails
        return cls(remote, version, None if version is None else remote.read(MANIFEST))

    def standing(
        self, schema: Schema, *, append: bool = False, overwrite: bool = False, compression: Compression = None
    ) -> Standing:
        """Check that writing to the URL is allowed, and return its state (see `append_and_overwrite.standing`)."""
        if append:
            path = dataset_at(self.place.url) if self.text is None else cached(self.place, self.text)
            return standing(path, schema, append=True, overwrite=False, compression=compression)
        if self.text is None:
            return NOTHING
        if not overwrite:
            text = f"there is a dataset at {self.place.url}; choose another destination, or pass overwrite=True"
            raise DatasetExistsError(text, path=self.place.url)
        return standing_to_replace(self.text, Path(self.place.url), self.place.url)

    def publish(
        self,
        new: Manifest,
        directory: Path,
        *,
        overwrite: bool,
        there: Iterable[str] = (),
        progress: bool | None = None,
    ) -> Manifest:
        """Send the files of a dataset that are missing at the URL, and then its manifest.

        Args:
            new: manifest of the dataset.
            directory: directory with its files.
            overwrite: whether to replace a dataset at the URL, if there is one.
            there: names of files that are known to be at the URL.
            progress: whether to show a progress bar; None shows it on a terminal.

        Returns:
            The manifest at the URL.

        Raises:
            DatasetExistsError: there is a dataset at the URL, or one was created in the meantime.
            DatasetError: the dataset to replace was changed in the meantime.
            ShardReadError: a file does not match the manifest.
            ShardWriteError: sending failed. Readers see no change, and another try sends only the missing files.
        """
        final = use_unique_names(new, self.label)
        text = final.to_json().encode()
        if text != self.text:
            old = self.standing(new.schema, overwrite=overwrite).manifest
            known = {*there, *(named(old) if old is not None else ())}
            files = [pair for pair in zip(files_of(new), files_of(final), strict=True) if pair[1].name not in known]
            self._send(files, directory, progress)
            if not self.place.put(self.name, text, expected=self.version):
                Standing(self.text).raise_changed(self.place.url)
        return parse_manifest(text, cached(self.place, text))

    def _send(self, files: list[tuple[Wanted, Wanted]], directory: Path, show: bool | None) -> None:  # noqa: FBT001 - see `sr.write`
        listed = self.place.items() if files else {}
        now = dt.datetime.now(dt.timezone.utc)

        def send(pair: tuple[Wanted, Wanted]) -> None:
            local, remote = pair
            source = inside(directory, local.name)
            if sha256(source) != local.sha256:
                text = f"{source}: its SHA-256 is not the manifest's, so it is not sent; {advice(directory)}"
                raise ShardReadError(text, path=source)
            size, known = source.stat().st_size, listed.get(remote.name)
            # The listing may be outdated, and still contain objects that have been removed.
            is_fresh = known is not None and (known.modified is None or now - known.modified < _REUSED)
            if not (is_fresh and self.place.size(remote.name) == size):
                self.place.upload(source, remote.name)
            progress.advance(local.bytes)

        with contextlib.closing(Progress(show, f"sending {self.place.url}", "bytes")) as progress:
            progress.expect(sum(local.bytes for local, _ in files))
            in_threads(send, files)


def push(
    source: str | os.PathLike[str], url: str, *, overwrite: bool = False, progress: bool | None = None
) -> Manifest:
    """Send a dataset to a URL.

    Readers see the dataset complete or not at all.

    >>> import tempfile, seqrecorder as sr
    >>> @sr.record
    ... class Word:
    ...     text: str = sr.context(str)
    >>> corpus = tempfile.mkdtemp()
    >>> _ = sr.write([Word("to"), Word("be")], corpus)
    >>> sr.push(corpus, "memory://doctest-of-push/corpus").records
    2

    If the program is killed, push again: files that are already at the URL are not sent again. After an append, only
    the new shards are sent. `examples.csv` files and stored statistics are never sent.

    Args:
        source: directory of the dataset, or another URL.
        url: URL for fsspec, such as `s3://bucket/corpus`; needs the extra `remote` and the package for the scheme.
        overwrite: whether to replace a dataset at the URL. The old files stay until `clean` removes them, so that its
            readers can continue.
        progress: whether to show a progress bar; None shows it on a terminal.

    Returns:
        The manifest at the URL.

    Raises:
        DatasetExistsError: there is another dataset at the URL, or one was created in the meantime.
        DatasetError: the dataset to replace was changed in the meantime.
        ShardReadError: a shard does not match the manifest; nothing is published.
        ShardWriteError: sending failed; nothing is published.
        OptionError: `url` is not a URL, or its scheme is unknown.
    """
    destination, manifest = Destination.of(url), read_manifest(source)
    manifest.fetch_files(files_of(manifest), verify=True)
    require_fit(manifest)
    return destination.publish(manifest, manifest.path, overwrite=overwrite, progress=progress)


def pull(
    url: str, destination: str | os.PathLike[str], *, overwrite: bool = False, progress: bool | None = None
) -> Manifest:
    """Fetch a dataset from a URL into a directory.

    The files get the names that they had before `push`. The dataset appears complete or not at all.

    >>> import tempfile, seqrecorder as sr
    >>> @sr.record
    ... class Word:
    ...     text: str = sr.context(str)
    >>> _ = sr.write([Word("to"), Word("be")], "memory://doctest-of-pull/corpus")
    >>> sr.pull("memory://doctest-of-pull/corpus", tempfile.mkdtemp() + "/corpus").records
    2

    If the program is killed or a request fails, pull again: fetched files that match the manifest are not fetched
    again. Until then, they are kept next to the destination, in a directory `.<name>.pulling-...`.

    Args:
        url: URL of the dataset.
        destination: directory of the dataset, as for `write`.
        overwrite: whether to replace a dataset at the destination.
        progress: whether to show a progress bar; None shows it on a terminal.

    Returns:
        The manifest of the dataset in the directory.

    Raises:
        DatasetNotFoundError: there is no dataset at the URL.
        DatasetExistsError: the destination exists, and is neither empty nor this dataset.
        ShardReadError: a shard cannot be fetched, or does not match the manifest; nothing is published. To recover
            the rest of a damaged dataset, copy the files as they are, and call `salvage`.
        ShardWriteError: the disk is full, or failed; nothing is published.
    """
    there = Destination.of(url)
    if there.text is None:
        raise DatasetNotFoundError(f"there is no dataset at {there.place.url}: it has no {MANIFEST}", path=url)
    staging = Staging(destination, overwrite=overwrite)
    remote = parse_manifest(there.text, staging.destination)
    final = use_plain_names(remote)
    if (staging.destination / MANIFEST).is_file() and manifest_bytes(staging.destination) == final.to_json().encode():
        return final
    old = standing(staging.destination, final.schema, append=False, overwrite=overwrite, compression=final.compression)
    pairs = list(zip(files_of(remote), files_of(final), strict=True))
    bar = Progress(progress, f"fetching {there.place.url}", "bytes")
    bar.expect(remote.bytes)
    prefix = f".{staging.destination.name}.pulling-"
    fetched = staging.destination.with_name(prefix + hashlib.sha256(there.text).hexdigest()[:16])
    try:
        # Staging raises before the transfer if the destination is taken.
        with contextlib.closing(bar), cleanup_when_terminated(), staging:
            with writing("create the directory", fetched):
                fetched.mkdir(exist_ok=True)
            fetch(there.place, fetched, [file for file, _ in pairs], done=bar.advance)
            for file, local in pairs:
                target = staging.path / local.name
                target.parent.mkdir(parents=True, exist_ok=True)
                link_file(fetched / file.name, target)
            for split in final.splits:
                (staging.path / split).mkdir(exist_ok=True)
            require_fit(attrs.evolve(final, path=staging.path))
            final = publish(staging, final, old)
    except DatasetError as error:
        if error.__cause__ is None:  # the dataset is damaged; after a failed request, the next pull continues
            shutil.rmtree(fetched, ignore_errors=True)
        raise
    for rest in fetched.parent.glob("*"):
        if rest.name.startswith(prefix):
            shutil.rmtree(rest, ignore_errors=True)
    return final


def clean(url: str, *, older_than: float = 24.0, parts: bool = False, dry_run: bool = False) -> dict[str, int]:
    """Remove leftovers of killed writers and of replaced datasets at a URL.

    >>> import seqrecorder as sr
    >>> sr.clean("memory://doctest-of-clean/corpus")
    {}

    Only shards, lengths files and assets are removed; no other program uses names like theirs. Files of the current
    dataset and of uncommitted parts stay. Once the files of a replaced dataset are removed, its readers fail.

    Args:
        url: URL of the dataset, which may be incomplete.
        older_than: minimum age in hours of the objects to remove; choose a longer time than any write takes. Below
            24, a `push` that is run again may reuse an object that is then removed. With 0, there must be no concurrent
            writer.
        parts: whether to also remove uncommitted parts; use this after a job was abandoned.
        dry_run: whether to list the objects without removing them.

    Returns:
        A mapping from the name of each removed object to its size in bytes.

    Raises:
        DatasetError: the URL cannot be reached.
        ManifestError: the manifest is damaged, so the files of the dataset are unknown; nothing is removed.
    """
    if not isinstance(older_than, (int, float)) or isinstance(older_than, bool) or not older_than >= 0:
        raise OptionError(f"older_than: expected hours, 0 or more, got {older_than!r}")
    remote = Destination.of(url).place
    listed = remote.items()  # first: a manifest published after this then names the objects that its writer reused
    text = remote.read(MANIFEST)
    kept_parts = [name for name in listed if name.startswith(PARTS) and name.endswith(".json") and not parts]
    texts = [text, *map(remote.read, kept_parts)]
    manifests = [parse_manifest(each.decode(errors="replace"), Path(remote.url)) for each in texts if each is not None]
    kept = set[str]().union(*map(named, manifests))
    now, gone = dt.datetime.now(dt.timezone.utc), dict[str, int]()
    for name, item in sorted(listed.items()):
        age = dt.timedelta.max if item.modified is None and not older_than else now - (item.modified or now)
        is_left_over = name not in kept and (is_ours(name) or (parts and name.startswith(PARTS)))
        if is_left_over and age >= dt.timedelta(hours=older_than):
            gone[name] = item.bytes
    if not dry_run:
        remote.remove(gone)
    return gone
