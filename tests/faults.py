"""What tests of files share: failures at fault points, and what a directory holds."""

import contextlib
import errno
import io
import os
from unittest import mock

from seqrecorder.storage import files as bad_sectors
from seqrecorder.storage.files import on_fault_point


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def record_calls(action):
    calls = []
    with on_fault_point(lambda name, path: calls.append((name, path))):
        action()
    return calls


_PAGE = 4096


class FailAt:
    def __init__(self, number, failure):
        self.number, self.failure, self.seen = number, failure, 0

    def __call__(self, _name, _path):
        self.seen += 1
        if self.seen == self.number:
            raise self.failure


@contextlib.contextmanager
def on_read(action):
    """Call `action(path, start, stop)` before bytes of a source are read; what it raises comes out of reading."""

    class Watched(io.FileIO):
        read, readall = io.RawIOBase.read, io.RawIOBase.readall  # which go through `readinto`

        def readinto(self, buffer):
            action(os.fspath(self.name), self.tell(), self.tell() + len(buffer))
            return super().readinto(buffer)

    def watched_read_at(file, start, count):
        action(os.fspath(file.path), start, start + count)
        return read_at(file, start, count)

    def opened(path, _mode, buffering):
        return Watched(path) if buffering == 0 else io.BufferedReader(Watched(path))

    read_at = bad_sectors.PlacedFile.read_at
    with (
        mock.patch.object(bad_sectors, "_open", opened),
        mock.patch.object(bad_sectors.PlacedFile, "read_at", watched_read_at),
    ):
        yield


@contextlib.contextmanager
def bad_bytes(file, *ranges):
    """Let every read fail that touches the pages of some ranges of a file, and tell what was read of it."""
    tried = []
    ranges = [(first // _PAGE * _PAGE, -(-last // _PAGE) * _PAGE) for first, last in ranges]

    def read(path, start, stop):
        if path == str(file):
            tried.append((start, stop))
            if any(start < last and stop > first for first, last in ranges):
                raise OSError(errno.EIO, os.strerror(errno.EIO))

    with on_read(read):
        yield tried
