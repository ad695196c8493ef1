"""TFRecord files in ZLIB, which programs of TensorFlow 1 wrote: unpacked beside, since shards are plain or in GZIP."""

from __future__ import annotations

import contextlib
import shutil
import zlib
from typing import TYPE_CHECKING, Any

from seqrecorder.errors import ShardReadError
from seqrecorder.storage.files import writing
from seqrecorder.storage.paths import files_named
from seqrecorder.storage.scratch import scratch
from seqrecorder.storage.tfrecord.format import is_packed_with_zlib

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_READ = 1 << 20  # bytes at a time


@contextlib.contextmanager
def unpacked(paths: Any) -> Iterator[list[Path]]:
    """Let files in ZLIB stand unpacked in a temporary directory for as long as this is open.

    Args:
        paths: a file, a glob or a list of files.

    Returns:
        The files, in their order, each plain or in GZIP.

    Raises:
        DatasetNotFoundError: there is no such file.
        ShardReadError: a file is damaged.
        ShardWriteError: there is no room for what is unpacked.
    """
    files = files_named(paths)
    packed = [i for i, file in enumerate(files) if is_packed_with_zlib(file)]
    with contextlib.ExitStack() as stack:
        for i in packed:
            directory = scratch()
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
            files[i] = _unpack(files[i], directory / files[i].name)
        yield files


def _unpack(source: Path, destination: Path) -> Path:
    unpacker = zlib.decompressobj()
    with writing("unpack to", destination), source.open("rb") as packed, destination.open("xb") as plain:
        while data := packed.read(_READ):
            try:
                plain.write(unpacker.decompress(data))
            except zlib.error as error:
                raise ShardReadError(
                    f"{source}: what is packed with ZLIB is damaged before byte {packed.tell()}: {error}", path=source
                ) from error
        plain.write(unpacker.flush())
    if not unpacker.eof:
        raise ShardReadError(f"{source}: it is cut: what is packed with ZLIB has no end", path=source)
    return destination
