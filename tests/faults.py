"""What tests of files share: failures at fault points, and what a directory holds."""

import contextlib
import errno
import os

from seqrecorder.storage.bad_sectors import on_read
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
