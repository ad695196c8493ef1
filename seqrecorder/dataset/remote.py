"""Datasets at URLs: sent there, brought from there, and what is left there by whoever was killed.

Objects are never renamed, and never change: shards and assets have the digest of their contents in their names, so that
writers never meet, and a transfer that was cut short goes on where it stood. The manifest comes last, in one
conditional put, and is all that makes them a dataset.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import re
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from seqrecorder.dataset.generations import ASSET_GENERATION, NOTHING, Standing, named, publish, standing
from seqrecorder.dataset.manifest import (
    FORMAT,
    Manifest,
    SplitInfo,
    dataset_at,
    files_of,
    manifest_bytes,
    parse_manifest,
    read_manifest,
)
from seqrecorder.dataset.verify import require_fit
from seqrecorder.errors import DatasetExistsError, DatasetNotFoundError, ManifestError, OptionError, ShardReadError
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
from seqrecorder.storage.places import Place
from seqrecorder.storage.publish import Staging
from seqrecorder.storage.threads import Progress, cleanup_when_terminated, in_threads

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Sequence

    from seqrecorder.dataset.manifest import AssetInfo, ShardInfo
    from seqrecorder.schema.schema import Schema
    from seqrecorder.storage.cache import Wanted
    from seqrecorder.storage.places import Item
    from seqrecorder.storage.tfrecord import Compression


_RECORDS = ".tfrecord"

_UNIQUE = re.compile(r".*-[0-9a-f]{16}\.(?:tfrecord|lengths)")


def uniquely_named(manifest: Manifest, label: str = "") -> Manifest:
    """Return a manifest whose files have a label and the digests of their contents in their names, if they have not."""

    def names(_: str, shards: Sequence[ShardInfo]) -> list[str]:
        return [unique_name(shard.name, shard.sha256, shard.lengths_sha256, label) for shard in shards]

    return _renamed(manifest, names, lambda info: int(info.sha256[:12], 16))


def plainly_named(manifest: Manifest) -> Manifest:
    """Return a manifest whose files have the names that they have in a directory.

    They are those from before `uniquely_named`. The shards of a split are numbered anew where these are not unique, or
    no names for a directory: those of parts, and of a writer that began to send before it knew how many there would be.
    """

    def names(split: str, shards: Sequence[ShardInfo]) -> list[str]:
        plain = [_plain_name(shard) for shard in shards]
        known = len(set(plain)) == len(plain) and all(generation_of(split, each) is not None for each in plain)
        return plain if known else [shard_name(split, index, len(plain)) for index in range(len(plain))]

    return attrs.evolve(_renamed(manifest, names, lambda _: 0), url=None)


def _renamed(
    manifest: Manifest,
    names: Callable[[str, Sequence[ShardInfo]], list[str]],
    generation: Callable[[AssetInfo], int],
) -> Manifest:
    splits = {}
    for name, split in manifest.splits.items():
        pairs = zip(split.shards, names(name, split.shards), strict=True)
        splits[name] = SplitInfo(name, tuple(attrs.evolve(shard, name=new) for shard, new in pairs))
    infos = {name: attrs.evolve(info, generation=generation(info)) for name, info in manifest.asset_infos.items()}
    return attrs.evolve(manifest, splits=splits, asset_infos=infos)


def unique_name(name: str, sha256: str, lengths_sha256: str, label: str) -> str:
    """Return the name of a shard with a label and the digest of its contents, if it has not that already."""
    stem, end = name.removesuffix(_RECORDS), _token(sha256, lengths_sha256)
    return name if stem.endswith(end) else f"{stem}{label}{end}{_RECORDS}"


def _plain_name(shard: ShardInfo) -> str:
    return shard.name.removesuffix(_RECORDS).removesuffix(_token(shard.sha256, shard.lengths_sha256)) + _RECORDS


def _token(sha256: str, lengths_sha256: str) -> str:
    """Return the end of a shard's name, which is in that of its lengths, too."""
    return f"-{hashlib.sha256(f'{sha256}{lengths_sha256}'.encode()).hexdigest()[:16]}"


def is_ours(name: str) -> bool:
    """Check whether an object has a name that only a writer of a dataset gives."""
    *directories, file = name.split("/")
    if len(directories) == 1:
        return file.startswith(f"{directories[0]}-") and _UNIQUE.fullmatch(file) is not None
    return len(directories) == 2 and directories[0] == ASSETS and ASSET_GENERATION.fullmatch(directories[1]) is not None  # noqa: PLR2004 - assets/g123/name


PARTS = ".parts/"
"""Prefix of the names of parts' manifests, until `commit` makes them one dataset."""

_REUSED = dt.timedelta(hours=12)
"""Age up to which a transfer takes an object up again: `clean` leaves objects younger than a day."""


@attrs.frozen
class Destination:
    """A URL that is written to, and what stood there when that began.

    Attributes:
        place: of the URL.
        version: of its manifest; None where there was none.
        text: of the same.
        name: of the manifest.
        label: what the names of shards get, besides their digest.
    """

    place: Place
    version: str | None = None
    text: bytes | None = None
    name: str = MANIFEST
    label: str = ""

    @classmethod
    def of(cls, url: str) -> Destination:
        """Look at a URL.

        Raises:
            DatasetError: the place cannot be asked.
            OptionError: it is no URL, or of a scheme that is not known.
        """
        if not is_url(url):
            raise OptionError(f"expected a URL such as 's3://bucket/corpus', got {url!r}; a directory can be copied")
        place = Place.of(url)
        version = place.version(MANIFEST)  # before the text: where that is newer, nothing is replaced
        return cls(place, version, None if version is None else place.read(MANIFEST))

    @property
    def manifest(self) -> Manifest | None:
        """The manifest that stood there; None where it cannot be read."""
        with contextlib.suppress(ManifestError):
            return None if self.text is None else parse_manifest(self.text, Path(self.place.url))
        return None

    def standing(
        self, schema: Schema, *, append: bool = False, overwrite: bool = False, compression: Compression = None
    ) -> Standing:
        """Check what stands there for a writer, as `seqrecorder.dataset.generations.standing` does."""
        if append:
            path = dataset_at(self.place.url) if self.text is None else cached(self.place, self.text)
            return standing(path, schema, append=True, overwrite=False, compression=compression)
        if self.text is None:
            return NOTHING
        if not overwrite:
            raise DatasetExistsError(
                f"there is a dataset at {self.place.url}; choose another destination, or pass overwrite=True",
                path=self.place.url,
            )
        old = self.manifest
        if old is None and f'"format": "{FORMAT}"'.encode() not in self.text:
            raise DatasetExistsError(
                f"{self.place.at(MANIFEST)} is not of seqrecorder, so there is no dataset to overwrite; choose another "
                "destination",
                path=self.place.url,
            )
        return Standing(self.text, old, 0 if old is None else old.generation + 1)

    def publish(
        self,
        new: Manifest,
        directory: Path,
        *,
        overwrite: bool,
        there: Iterable[str] = (),
        progress: bool | None = None,
    ) -> Manifest:
        """Send the files of a dataset that are not there yet, and then its manifest.

        Args:
            new: what the dataset shall be.
            directory: with its files.
            overwrite: whether it may take the place of another.
            there: names of files that are known to be there.
            progress: as for `write`.

        Returns:
            What is there now.

        Raises:
            DatasetExistsError: there is a dataset, or came meanwhile.
            DatasetError: the dataset that is replaced was changed meanwhile.
            ShardReadError: a file is not what the manifest says.
            ShardWriteError: the place fails; nothing has changed for readers, and what was sent is not sent again.
        """
        final = uniquely_named(new, self.label)
        text = final.to_json().encode()
        if text != self.text:
            old = self.standing(new.schema, overwrite=overwrite).manifest
            known = {*there, *(named(old) if old is not None else ())}
            files = [pair for pair in zip(files_of(new), files_of(final), strict=True) if pair[1].name not in known]
            self._send(files, directory, progress)
            if not self.place.put(self.name, text, expected=self.version):
                Standing(self.text).raise_changed(self.place.url)
        path = cached(self.place, text)
        return parse_manifest(text, path)

    def _send(self, files: list[tuple[Wanted, Wanted]], directory: Path, show: bool | None) -> None:  # noqa: FBT001 - see `sr.write`
        listed = self.place.items() if files else {}
        now, guard = dt.datetime.now(dt.timezone.utc), threading.Lock()
        progress = Progress(show, f"sending {self.place.url}", "bytes")

        def send(pair: tuple[Wanted, Wanted]) -> None:
            local, remote = pair
            source = inside(directory, local.name)
            if sha256(source) != local.sha256:
                raise ShardReadError(
                    f"{source}: its SHA-256 is not the manifest's, so it is not sent; `seqrecorder verify` says more",
                    path=source,
                )
            size, known = source.stat().st_size, listed.get(remote.name)
            # A list may be late, and tell of what is gone.
            if not (_is_fresh(known, now) and self.place.size(remote.name) == size):
                self.place.upload(source, remote.name)
            with guard:
                progress.advance(local.bytes)

        progress.expect(sum(local.bytes for local, _ in files))
        try:
            in_threads(send, files)
        finally:
            progress.close()


def push(
    source: str | os.PathLike[str],
    url: str,
    *,
    overwrite: bool = False,
    progress: bool | None = None,
) -> Manifest:
    """Send a dataset to a URL, where it is complete or absent for every reader.

    >>> import tempfile, seqrecorder as sr
    >>> @sr.record
    ... class Word:
    ...     text: str = sr.context(str)
    >>> corpus = tempfile.mkdtemp()
    >>> _ = sr.write([Word("to"), Word("be")], corpus)
    >>> sr.push(corpus, "memory://doctest-of-push/corpus").records
    2

    It may be killed and run again: what is there already is not sent again. Of a dataset that was appended to since it
    was sent, only the new shards are. `examples.csv` and kept statistics stay where they are.

    Args:
        source: a dataset's directory, or another URL.
        url: of fsspec, such as `s3://bucket/corpus` (the extra `remote`, and the package that knows the scheme).
        overwrite: whether a dataset there is replaced. The files of the old one stay for those who read it, until
            `clean`.
        progress: as for `write`.

    Returns:
        What is there now.

    Raises:
        DatasetExistsError: there is another dataset, or one came meanwhile.
        DatasetError: the dataset that is replaced was changed meanwhile.
        ShardReadError: a shard is not what the manifest says; nothing is published.
        ShardWriteError: the place fails; nothing is published.
        OptionError: it is no URL, or of a scheme that is not known.
    """
    destination, manifest = Destination.of(url), read_manifest(source)
    manifest.fetch_files(files_of(manifest))
    require_fit(manifest)
    return destination.publish(manifest, manifest.path, overwrite=overwrite, progress=progress)


def pull(
    url: str,
    destination: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    progress: bool | None = None,
) -> Manifest:
    """Bring a dataset from a URL into a directory, as it was before it was sent; complete or absent.

    >>> import tempfile, seqrecorder as sr
    >>> @sr.record
    ... class Word:
    ...     text: str = sr.context(str)
    >>> _ = sr.write([Word("to"), Word("be")], "memory://doctest-of-pull/corpus")
    >>> sr.pull("memory://doctest-of-pull/corpus", tempfile.mkdtemp() + "/corpus").records
    2

    It may be killed and run again: what was brought, and has the digest that the manifest says, is not brought again.

    Args:
        url: of the dataset.
        destination: a directory, as for `write`.
        overwrite: whether a dataset there is replaced.
        progress: as for `write`.

    Returns:
        What is there now.

    Raises:
        DatasetNotFoundError: there is no dataset at the URL.
        DatasetExistsError: something else stands at the destination.
        ShardReadError: a shard cannot be brought, or is not what the manifest says; nothing is published.
        ShardWriteError: the disk is full, or failed; nothing is published.
    """
    there = Destination.of(url)
    if there.text is None:
        raise DatasetNotFoundError(f"there is no dataset at {there.place.url}: it has no {MANIFEST}", path=url)
    staging = Staging(destination, overwrite=overwrite)
    remote = parse_manifest(there.text, staging.destination)
    final = plainly_named(remote)
    if (staging.destination / MANIFEST).is_file() and manifest_bytes(staging.destination) == final.to_json().encode():
        return final
    old = standing(staging.destination, final.schema, append=False, overwrite=overwrite, compression=final.compression)
    pairs = list(zip(files_of(remote), files_of(final), strict=True))
    bar, guard = Progress(progress, f"fetching {there.place.url}", "bytes"), threading.Lock()
    bar.expect(remote.bytes)

    def done(size: int) -> None:
        with guard:
            bar.advance(size)

    prefix = f".{staging.destination.name}.pulling-"
    brought = staging.destination.with_name(prefix + hashlib.sha256(there.text).hexdigest()[:16])
    try:
        with cleanup_when_terminated(), staging:  # which says before that nothing can stand there
            with writing("make", brought):
                brought.mkdir(exist_ok=True)
            fetch(there.place, brought, [file for file, _ in pairs], done=done)
            for file, local in pairs:
                target = staging.path / local.name
                target.parent.mkdir(parents=True, exist_ok=True)
                link_file(brought / file.name, target)
            for split in final.splits:
                (staging.path / split).mkdir(exist_ok=True)
            require_fit(attrs.evolve(final, path=staging.path))
            final = publish(staging, final, old)
    finally:
        bar.close()
    for rest in brought.parent.glob("*"):
        if rest.name.startswith(prefix):
            shutil.rmtree(rest, ignore_errors=True)
    return final


def clean(url: str, *, older_than: float = 24.0, parts: bool = False, dry_run: bool = False) -> dict[str, int]:
    """Remove what writers have left at a URL that were killed, and what was replaced there.

    >>> import seqrecorder as sr
    >>> sr.clean("memory://doctest-of-clean/corpus")
    {}

    Only shards, lengths and assets go, by names that nobody else gives, and none that the manifest, or a part that is
    to be committed, names. Who reads a dataset that was replaced can go on for as long as its files stay.

    Args:
        url: of the dataset, or of what should have been one.
        older_than: hours that an object stays after it was written; more than the longest writing takes. With 0 nobody
            may write there meanwhile.
        parts: whether parts go, too, that were never committed: the job was given up.
        dry_run: whether nothing is removed.

    Returns:
        The size in bytes of each object that went, by its name.

    Raises:
        DatasetError: the place fails.
        ManifestError: the manifest is damaged, so that nobody knows what belongs to it; nothing is removed.
    """
    if not isinstance(older_than, (int, float)) or isinstance(older_than, bool) or not older_than >= 0:
        raise OptionError(f"older_than: expected hours, 0 or more, got {older_than!r}")
    place = Destination.of(url).place
    listed = place.items()  # before the manifest, which names whatever was taken up since
    text = place.read(MANIFEST)
    texts = [
        text,
        *(place.read(name) for name in listed if name.startswith(PARTS) and name.endswith(".json") and not parts),
    ]
    manifests = [parse_manifest(each.decode(errors="replace"), Path(place.url)) for each in texts if each is not None]
    kept = set[str]().union(*map(named, manifests))
    now, gone = dt.datetime.now(dt.timezone.utc), dict[str, int]()
    for name, item in sorted(listed.items()):
        age = dt.timedelta.max if item.modified is None and not older_than else now - (item.modified or now)
        if (
            name not in kept
            and (is_ours(name) or (parts and name.startswith(PARTS)))
            and age >= dt.timedelta(hours=older_than)
        ):
            gone[name] = item.bytes
    if not dry_run:
        place.remove(gone)
    return gone


def _is_fresh(item: Item | None, now: dt.datetime) -> bool:
    return item is not None and (item.modified is None or now - item.modified < _REUSED)
