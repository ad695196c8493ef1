"""Object stores and other remote places, accessed by URL through fsspec.

A place has named objects, which are written atomically and never renamed. One object, the manifest, is replaced only if
it is unchanged since it was read. Like file operations, every request goes through fault points, so that tests can make
it fail before or after it takes effect.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import secrets
import threading
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.errors import DatasetError, OptionError, ShardReadError, ShardWriteError
from seqrecorder.storage.files import MANIFEST, faults_around

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable, Iterator
    from pathlib import Path


_PUBLISHING = threading.Lock()  # for stores without conditional writes: at least excludes other threads of the process
_VERSIONS = ("generation", "ETag", "etag")
_TIMES = ("LastModified", "last_modified", "updated", "mtime", "modified", "created")


@attrs.frozen
class Item:
    """Properties of an object.

    Attributes:
        bytes: size in bytes.
        modified: time of the last write; None if the store does not report it.
    """

    bytes: int
    modified: dt.datetime | None


@attrs.frozen
class Place:
    """Objects under a URL.

    >>> place = Place.of("memory://doctest-of-place")
    >>> place.put("manifest.json", b"{}", expected=None)
    True
    >>> place.read("manifest.json"), list(place.items())
    (b'{}', ['manifest.json'])
    >>> place.put("manifest.json", b"[]", expected=None)  # another writer was faster
    False
    >>> place.remove(["manifest.json"])

    Attributes:
        url: URL without a trailing slash.
        files: fsspec file system.
        root: path in the file system.
    """

    url: str
    files: Any
    root: str

    @classmethod
    def of(cls, url: str) -> Place:
        """Build the place of a URL.

        Nothing need exist at the URL. The URL of a manifest stands for that of its dataset.

        Raises:
            OptionError: fsspec does not know the scheme, or the package for it is not installed.
        """
        plain = url.rstrip("/").removesuffix(f"/{MANIFEST}").rstrip("/")
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise OptionError(f"{url!r}: URLs need fsspec: pip install fsspec, and s3fs, gcsfs or adlfs") from None
        try:
            files, root = url_to_fs(plain)
        except Exception as error:  # store clients raise their own kinds of errors here, too
            raise OptionError(f"{url!r}: cannot be opened: {error}") from error
        if not plain.partition("://")[2].strip("/"):
            raise OptionError(f"{url!r}: expected the URL of a dataset, got a bucket or root; append a name")
        return cls(plain, files, str(root).rstrip("/"))

    def __str__(self) -> str:
        return self.url

    def is_same(self, other: Place) -> bool:
        """Check whether two URLs name the same place, even if they use different schemes of one store."""
        return (type(self.files), self.root) == (type(other.files), other.root)

    def at(self, name: str) -> str:
        """Build the URL of an object, for messages."""
        return f"{self.url}/{name}"

    def items(self) -> dict[str, Item]:
        """Map the name of each object to its properties.

        Some stores list a new object only after a delay.

        Raises:
            DatasetError: the place cannot be listed.
        """
        with self._asking("list", "", DatasetError, "list"):
            self.files.invalidate_cache()
            try:
                infos = self.files.find(self.root, detail=True)
            except FileNotFoundError:
                return {}
        skipped = len(self.root) + 1
        return {path[skipped:]: Item(int(info["size"] or 0), _modified(info)) for path, info in infos.items()}

    def read(self, name: str) -> bytes | None:
        """Read an object; return None if it does not exist.

        Raises:
            DatasetError: the object cannot be read.
        """
        with self._asking("get", name, DatasetError, "read"):
            try:
                data: bytes = self.files.cat_file(self._path(name))
            except FileNotFoundError:
                return None
        return data

    def size(self, name: str) -> int | None:
        """Request the size of an object, without a listing; return None if it does not exist.

        Raises:
            DatasetError: the request failed.
        """
        info = self._info(name)
        return None if info is None else int(info["size"])

    def version(self, name: str) -> str | None:
        """Request the version of an object, which `put` compares with the expected one.

        The result is None if the object does not exist.

        Raises:
            DatasetError: the request failed.
        """
        info = self._info(name)
        if info is None:
            return None
        versions = [str(info[key]) for key in _VERSIONS if info.get(key) is not None]
        return versions[0] if versions else hashlib.sha256(self.read(name) or b"").hexdigest()

    def download(self, name: str, target: Path) -> None:
        """Download an object to a file, which may be incomplete after an error.

        Raises:
            ShardReadError: the object does not exist, or cannot be read.
        """
        with self._asking("get", name, ShardReadError, "read"):
            self.files.get_file(self._path(name), str(target))

    def upload(self, source: Path, name: str) -> None:
        """Upload a file as an object.

        Raises:
            ShardWriteError: the upload failed; the object may still exist, if only the response was lost.
        """
        with self._asking("put", name, ShardWriteError, "write"):
            self.files.put_file(str(source), self._path(name))

    def put(self, name: str, data: bytes, *, expected: str | None) -> bool:
        """Write an object if its version is unchanged; return False if another writer has changed it.

        S3 and Google Cloud Storage check the version themselves (`If-None-Match`, `If-Match`, `ifGenerationMatch`),
        even between writers on different machines. Elsewhere, a new object is created exclusively if fsspec supports
        it, and the version of an old object is checked just before the write.

        Args:
            name: name of the object.
            data: contents of the object.
            expected: version from `version`; None if the object did not exist.

        Raises:
            ShardWriteError: the object cannot be written, or the outcome is unknown.
        """
        path = self._path(name)
        with _PUBLISHING:
            if self.version(name) != expected:
                return False
            try:
                with self._asking("put", name, ShardWriteError, "write"):
                    self._write_where(path, data, expected)
            except ShardWriteError:
                # The response may be lost, or belong to a retry by the client after a success, so read the object.
                if self.read(name) == data:
                    return True
                if self.version(name) != expected:
                    return False
                raise
        return True

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects; ignore missing ones.

        Raises:
            DatasetError: an object cannot be removed.
        """
        for name in names:
            with self._asking("delete", name, DatasetError, "remove"), contextlib.suppress(FileNotFoundError):
                self.files.rm_file(self._path(name))

    def _write_where(self, path: str, data: bytes, expected: str | None) -> None:
        """Write an object, with the store's own conditional write if it has one."""
        protocol = self.files.protocol
        protocols = [protocol] if isinstance(protocol, str) else protocol
        if "s3" in protocols:
            self.files.pipe_file(path, data, **({"IfNoneMatch": "*"} if expected is None else {"IfMatch": expected}))
        elif "gs" in protocols:
            self._write_at_generation(path, data, expected or "0")
        elif expected is None and "mode" in inspect.signature(self.files.pipe_file).parameters:
            self.files.pipe_file(path, data, mode="create")
        else:
            self.files.pipe_file(path, data)

    def _write_at_generation(self, path: str, data: bytes, generation: str) -> None:
        """Write an object of Google Cloud Storage if its generation matches.

        This makes the request itself, since gcsfs supports only exclusive creation.
        """
        bucket, name, _ = self.files.split_path(path)
        seam = secrets.token_hex(16)
        head = f"--{seam}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{json.dumps({'name': name})}\r\n"
        body = f"{head}--{seam}\r\nContent-Type: application/octet-stream\r\n\r\n".encode() + data
        self.files.call(
            "POST",
            self.files.base.replace("/storage/v1/", "/upload/storage/v1/") + "b/{}/o",
            bucket,
            uploadType="multipart",
            ifGenerationMatch=generation,
            headers={"Content-Type": f'multipart/related; boundary="{seam}"'},
            data=body + f"\r\n--{seam}--".encode(),
        )

    def _info(self, name: str) -> dict[str, Any] | None:
        with self._asking("get", name, DatasetError, "look at"):
            self.files.invalidate_cache()
            try:
                info: dict[str, Any] = self.files.info(self._path(name))
            except FileNotFoundError:
                return None
        return info if info["type"] == "file" else None

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}"

    @contextlib.contextmanager
    def _asking(self, operation: str, name: str, kind: type[DatasetError], doing: str) -> Iterator[None]:
        """Surround a request to the store with fault points, and convert its errors.

        An error becomes one of class `kind`, whose message names the object. A `DatasetError` stays unchanged.
        """
        where = self.at(name) if name else self.url
        try:
            with faults_around(operation, where):
                yield
        except DatasetError:
            raise
        except Exception as error:  # store clients raise their own kinds of errors
            text = "there is no such object" if isinstance(error, FileNotFoundError) else str(error)
            reason = getattr(error, "strerror", None) or text or type(error).__name__
            raise kind(f"cannot {doing} {where}: {reason}", path=where) from error


def _modified(info: dict[str, Any]) -> dt.datetime | None:
    import datetime as dt

    value = next((info[key] for key in _TIMES if info.get(key) is not None), None)
    if isinstance(value, (int, float)):
        value = dt.datetime.fromtimestamp(value, dt.timezone.utc)
    if isinstance(value, str):
        value = dt.datetime.fromisoformat(value.replace("Z", "+00:00"))
    if isinstance(value, dt.datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=dt.timezone.utc)
    return None
