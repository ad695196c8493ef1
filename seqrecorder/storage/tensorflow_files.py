"""Files under `ram://`, which TensorFlow has in the memory of a process, with the methods of fsspec that places use."""

from __future__ import annotations

import contextlib
import secrets
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEME = "ram://"


class TensorFlowFiles:
    """What `Place` asks of a file system; paths are whole URLs."""

    protocol = "ram"

    def __init__(self) -> None:
        import tensorflow as tf

        self._files, self._missing = tf.io.gfile, tf.errors.NotFoundError

    def invalidate_cache(self) -> None:
        """Do nothing: nothing is kept."""

    def find(self, root: str, *, detail: bool) -> dict[str, dict[str, Any]]:
        """Return what is under a root, by path."""
        del detail
        paths = [f"{directory}/{name}" for directory, _, names in self._files.walk(root) for name in names]
        # TensorFlow takes the end of `ram://corpus2` for a file of `ram://corpus`.
        return {path: self.info(path) for path in paths if self._files.exists(path)}

    def info(self, path: str) -> dict[str, Any]:
        """Return the size of a file; when it was written is not known."""
        with self._errors():
            return {
                "size": self._files.stat(path).length,
                "type": "directory" if self._files.isdir(path) else "file",
            }

    def cat_file(self, path: str) -> bytes:
        """Return a file's bytes."""
        with self._errors(), self._files.GFile(path, "rb") as file:
            data: bytes = file.read()
        return data

    def get_file(self, path: str, target: str) -> None:
        """Copy a file out."""
        with self._errors():
            self._files.copy(path, target, overwrite=True)

    def put_file(self, source: str, path: str) -> None:
        """Copy a file in; it is there whole, or as it was."""
        with self._replacing(path) as part:
            self._files.copy(source, part)

    def pipe_file(self, path: str, data: bytes) -> None:
        """Write a file; it is there whole, or as it was."""
        with self._replacing(path) as part, self._files.GFile(part, "wb") as file:
            file.write(data)

    @contextlib.contextmanager
    def _replacing(self, path: str) -> Iterator[str]:
        """Give a name for a file that then takes the place of another, to which TensorFlow would append."""
        self._files.makedirs(path.rpartition("/")[0])  # else it does not list what is in there
        part = f"{path}.{secrets.token_hex(8)}"
        yield part
        self._files.rename(part, path, overwrite=True)

    def rm_file(self, path: str) -> None:
        """Remove a file."""
        with self._errors():
            self._files.remove(path)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except self._missing as error:
            raise FileNotFoundError(str(error)) from error
