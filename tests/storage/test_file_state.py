"""What is remembered of files, and for how long."""

import gc
import os
import weakref

import attrs
import pytest

import seqrecorder as sr
from seqrecorder.storage.files import FileState, remember


class Found:
    """What a look at a file gives."""


@pytest.fixture
def look():
    """A function that remembers, with the list of what it returned."""
    made = []

    @remember(most=2)
    def look(_path):
        found = Found()
        made.append(weakref.ref(found))
        return found

    look.made = made
    return look


@pytest.fixture
def state(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    return FileState.of(tmp_path / "file")


def test_a_settled_file_is_looked_at_once(look, state, monkeypatch):
    """What was found of a file is given again while its state is equal, and looked for again when it is not."""
    settled = attrs.evolve(state, is_settled=True)
    states = [settled, attrs.evolve(settled)]
    for at in range(5):  # size, times of modification and change, inode, device
        other = tuple(value + (i == at) for i, value in enumerate(settled.status))
        states += [attrs.evolve(settled, status=other), settled]
    monkeypatch.setattr(FileState, "of", lambda _: states.pop(0))
    assert look(state.path) is look(state.path)
    assert len(look.made) == 1
    for _ in range(5):
        assert look(state.path) is not look(state.path)


def test_nothing_is_kept_of_a_file_that_changed_just_now(look, state):
    """It is looked at each time, and what was found goes when nobody holds it."""
    assert not state.is_settled
    for _ in range(5):
        look(state.path)
    gc.collect()
    assert [reference() for reference in look.made] == [None] * 5


def test_the_time_of_change_cannot_be_set(tmp_path):
    """A time of modification, in the past or in the future, makes no file settled."""
    (tmp_path / "file").write_bytes(b"abc")
    for time in (0, 2**61):
        os.utime(tmp_path / "file", ns=(time, time))
        assert not FileState.of(tmp_path / "file").is_settled


def test_what_is_no_file_is_refused(tmp_path):
    """A directory, a pipe and nothing have no state; none is waited for."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(sr.ShardReadError, match="got a pipe or a device"):
        FileState.of(tmp_path / "pipe")
    with pytest.raises(sr.ShardReadError, match="got a directory"):
        FileState.of(tmp_path)
    with pytest.raises(sr.ShardReadError, match="No such file"):
        FileState.of(tmp_path / "nothing")
