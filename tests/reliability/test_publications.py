"""Writers, and people who remove, at one destination at once: one wins whole, and every loser has an error."""

import functools
import hashlib
import os
import shutil
import threading

import pytest

import seqrecorder as sr
from seqrecorder.dataset.append_and_overwrite import clean_destination, named, publish, standing
from seqrecorder.dataset.manifest import Manifest, ShardInfo, SplitInfo, combine
from seqrecorder.storage import locks
from seqrecorder.storage.files import lengths_name, on_fault_point, shard_name
from seqrecorder.storage.publish import Staging


@sr.record
class Word:
    ids: list = sr.feature_list("int64")


SCHEMA = sr.Schema.of(Word)


class Schedule:
    """Lets one of several threads go on at a time, up to its next operation on a file, in an order by chance."""

    def __init__(self, random):
        self._random, self._turns, self._done = random, {}, threading.Semaphore(0)

    def pause(self, *_):
        turn = self._turns.get(threading.get_ident())
        if turn is not None:
            self._done.release()
            turn.acquire()

    def run(self, actions):
        waiting = []
        for action in actions:
            turn = threading.Semaphore(0)
            thread = threading.Thread(target=self._play, args=(turn, action))
            thread.start()
            waiting.append((thread, turn))
        with on_fault_point(self.pause):
            while waiting:
                thread, turn = waiting[self._random.integers(len(waiting))]
                turn.release()
                assert self._done.acquire(timeout=60)
                waiting = [pair for pair in waiting if pair[1] is not turn or not getattr(turn, "over", False)]

    def _play(self, turn, action):
        turn.acquire()
        self._turns[threading.get_ident()] = turn
        try:
            action()
        finally:
            del self._turns[threading.get_ident()]
            turn.over = True
            self._done.release()


class Play:
    """Actors at one destination, and what became of each."""

    def __init__(self, destination, schedule):
        self.destination, self.schedule = destination, schedule
        self.published, self.refused, self.removals = [], [], 0

    def write(self, name, *, append=False, overwrite=False):
        """Publish a dataset of one shard, whose content no other has, by the steps that a Writer takes."""
        try:
            clean_destination(self.destination)
            before = standing(self.destination, SCHEMA, append=append, overwrite=overwrite, compression=None)
            self.schedule.pause()
            with Staging(self.destination, overwrite=append or overwrite) as staging:
                file, data = shard_name("train", 0, 1, before.generation), name.encode()
                (staging.path / "train").mkdir()
                (staging.path / "train" / file).write_bytes(data)
                (staging.path / "train" / lengths_name(file)).write_bytes(data)
                digest = hashlib.sha256(data).hexdigest()
                shard = ShardInfo(file, 1, 1, len(data), digest, digest, "", 0, 1)
                new = Manifest(
                    self.destination, SCHEMA, {"train": SplitInfo("train", (shard,))}, generation=before.generation
                )
                new = combine(before.manifest, new) if append else new
                self.schedule.pause()
                publish(staging, new, before, keep=append)
        except sr.SeqrecorderError as error:
            self.refused.append(error)
        else:
            self.published.append((before.text, new.to_json().encode()))

    def remove(self):
        gone = self.destination.with_name("gone")
        try:
            self.destination.rename(gone)
        except FileNotFoundError:
            return
        self.removals += 1
        shutil.rmtree(gone)

    def replace(self, name):
        self.remove()
        self.schedule.pause()
        self.write(name)

    def act(self, kind, name):
        if kind == "remove":
            self.remove()
        elif kind == "replace":
            self.replace(name)
        else:
            self.write(name, **{str(kind): True})

    def check(self):
        """Look at what is there when all is over."""
        # Of two that began with the same dataset, one at most has been published.
        origins = [old for old, _ in self.published if old is not None]
        assert len(set(origins)) == len(origins)
        assert sum(old is None for old, _ in self.published) <= 1 + self.removals
        assert {path.name for path in self.destination.parent.iterdir()} <= {self.destination.name}
        if not self.destination.exists():
            assert self.removals
            return
        manifest = sr.info(self.destination)
        text = (self.destination / "manifest.json").read_bytes()
        assert text in [new for _, new in self.published]
        # Whatever was published from it has been lost by a removal alone.
        assert text not in origins or self.removals
        for split in manifest.splits.values():
            for shard in split.shards:
                data = (self.destination / split.name / shard.name).read_bytes()
                assert hashlib.sha256(data).hexdigest() == shard.sha256
        files = {path.relative_to(self.destination).as_posix() for path in self.destination.rglob("*.*")}
        assert files - {"mine.txt"} == named(manifest) | {"manifest.json"}


@pytest.mark.parametrize("schedules", [100, pytest.param(5_000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("in_place", [False, True], ids=["by exchange", "in place"])
def test_schedules(tmp_path, monkeypatch, random, figure, *, schedules, in_place):
    """Appends, overwrites, removals and replacements in any order leave one whole dataset, or none."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    lock = locks.lock

    def lock_in_turn(directory, *, wait):
        while True:
            try:
                return lock(directory, wait=False)
            except BlockingIOError:
                if not wait:
                    raise
                schedule.pause()

    monkeypatch.setattr(locks, "lock", lock_in_turn)
    published = refused = 0
    for number in range(schedules):
        schedule = Schedule(random)
        parent = tmp_path / str(number)
        parent.mkdir()
        play = Play(parent / "d", schedule)
        play.write("first")
        if in_place:
            (parent / "d" / "mine.txt").write_text("")
        chosen = random.choice(["append", "overwrite", "replace", "remove"], 4, p=[0.4, 0.35, 0.15, 0.1])
        schedule.run([functools.partial(play.act, kind, f"{kind} {i}") for i, kind in enumerate(chosen)])
        play.check()
        published, refused = published + len(play.published), refused + len(play.refused)
        shutil.rmtree(parent)
    assert min(published, refused) > schedules
    figure(27, "schedules of writers at one destination", schedules, "old or new, whole")
