import errno
import threading
import time

import pytest
from faults import FailAt, names

from seqrecorder.errors import DatasetError, DatasetNotFoundError
from seqrecorder.storage.files import on_fault_point
from seqrecorder.storage.locks import exclusive


def test_exclusive(tmp_path):
    """The second to ask for a dataset waits for the first, though an overwrite has replaced it meanwhile."""
    destination, beside = tmp_path / "corpus", tmp_path / "beside"
    for directory, text in ((destination, "old"), (beside, "newer")):
        directory.mkdir()
        (directory / "manifest.json").write_text(text)
    order, started = [], threading.Event()

    def second():
        started.set()
        with exclusive(destination):
            order.append((destination / "manifest.json").read_text())

    thread = threading.Thread(target=second)
    with exclusive(destination):
        thread.start()
        started.wait()
        time.sleep(0.05)
        order.append("first")
        destination.rename(tmp_path / "gone")
        beside.rename(destination)
    thread.join(10)
    assert order == ["first", "newer"]


@pytest.mark.parametrize("failure", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
def test_a_failure_leaves_no_lock(tmp_path, failure):
    """A failure around the locking keeps no lock, for which this process would wait itself."""
    for number in (1, 2):
        with (
            on_fault_point(FailAt(number, failure)),
            pytest.raises((DatasetError, KeyboardInterrupt)),
            exclusive(tmp_path),
        ):
            pytest.fail("entered")
        with exclusive(tmp_path):
            pass


def test_exclusive_errors(tmp_path):
    """What is no directory cannot be locked, and the error says which."""
    (tmp_path / "file").write_text("")
    for name in ("absent", "file"):
        with pytest.raises(DatasetNotFoundError, match=name) as caught, exclusive(tmp_path / name):
            pytest.fail("entered")
        assert caught.value.errno in (errno.ENOENT, errno.ENOTDIR)


def test_replace_file_killed(tmp_path):
    """What a process killed while replacing left is removed by the next who has the lock."""
    (tmp_path / ".manifest.json.replacing-0123456789abcdef").write_text("")
    with exclusive(tmp_path):
        assert names(tmp_path) == []
