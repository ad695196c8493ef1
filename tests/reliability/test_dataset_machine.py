# ruff: noqa: PT017 - what is left after the error is the point here
"""One dataset after any sequence of writes, failures, kills and damage, against a model in memory.

A write is complete or absent, also where it is killed, its source raises or a file operation fails. Splits depend on
the seed and the key or group alone, and no key comes twice. Whatever is damaged is found, no wrong record is delivered,
and a salvage recovers what is whole. Of two writers at once one wins whole, and the other has an error. Only what is
ours is removed: the user's files stay.
"""

import errno
import itertools
import os
import shutil

import attrs
import pytest
from faults import FailAt, names
from hypothesis import HealthCheck, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

import seqrecorder as sr
from seqrecorder.dataset.append_and_overwrite import named
from seqrecorder.dataset.split_shares import Ratios, key_hashes
from seqrecorder.storage.files import on_fault_point


@sr.record
class Note:
    key: str = sr.context(str, key=True)
    group: str = sr.context(str)
    ids: list = sr.feature_list("int64")


RULES = {
    "one split": {},
    "by shares": {"splits": {"train": 0.6, "eval": 0.4}, "seed": 3},
    "by name": {"splits": "group"},
    "by group": {"splits": {"train": 0.5, "eval": 0.5}, "split_by": "group"},
}
"""How records find their splits, as the first write says it."""

MINE = ("mine.txt", ".hidden", "train/mine.txt", "a/examples.csv", "assets/mine.txt", "more/train-00000-of-00001.old")

KEYS = st.lists(st.tuples(st.integers(0, 99), st.sampled_from("abc"), st.integers(0, 4)), max_size=7)
OPTIONS = st.fixed_dictionaries(
    {
        "on_duplicate": st.sampled_from(["first", "error"]),
        "csv": st.booleans(),
        "assets": st.sampled_from([{}, {"vocabulary.txt": "a b c"}]),
    },
    optional={"shards": st.integers(1, 3)},
)
KINDS = st.sampled_from(["append", "overwrite", "new"])
EARLY = st.integers(1, 60)
"""Numbers of fault points; a write has about so many."""


@attrs.frozen
class Expected:
    """What a dataset holds: the records of each split, in the order in which they came, and how it was written."""

    rule: str
    compression: str | None
    splits: dict[str, tuple[Note, ...]]

    @property
    def keys(self):
        return {note.key for notes in self.splits.values() for note in notes}


class BrokenError(Exception):
    """What a source raises."""


def split_of(rule, note):
    """Return the split of a record, from the seed and its key or group alone."""
    options = RULES[rule]
    if rule == "one split":
        return "train"
    if rule == "by name":
        return note.group
    key = note.group if rule == "by group" else note.key
    [split] = Ratios(options["splits"]).assign_all(key_hashes([key], options.get("seed", 0)))
    return split


def plain(notes):
    return [(note.key, note.group, list(note.ids)) for note in notes]


def tree(directory):
    """Return everything in a directory, hidden or not, with the bytes of files."""
    found = {path.relative_to(directory).as_posix(): path for path in directory.rglob("*")}
    return {name: path.read_bytes() if path.is_file() else None for name, path in found.items()}


class DatasetMachine(RuleBasedStateMachine):
    """A directory for a dataset, and what it must hold.

    Args:
        parent: of the directory; there is nothing else in it.
    """

    def __init__(self, parent):
        super().__init__()
        self.parent, self.place = parent, parent / "d"
        parent.mkdir()
        self.expected = None
        self.mine = {}
        self.stamps = itertools.count(1)
        self.damage = None  # the path of a file, a place in it, and the mask
        self.settled = True  # nothing was killed, nor failed to be removed, since the last write that was published

    # Writing --------------------------------------------------------------------------------------------------------

    def notes(self, keys):
        """Return records that differ from all earlier ones, also from those with the same keys."""
        stamp = next(self.stamps)
        return [Note(f"k{key}", group, [stamp] * steps) for key, group, steps in keys]

    def planned(self, kind, rule, compression, notes, options):
        """Return what a write shall be given, and what there is after it: a dataset, or the class of its error."""
        old = self.expected
        if kind == "append" and old is not None:
            rule, compression = old.rule, old.compression
        given = {**options, "compression": compression, "schema": Note}
        if kind == "append":
            given |= {"append": True, **({"splits": "group"} if rule == "by name" else {})}
        else:
            given |= RULES[rule] | ({"overwrite": True} if kind == "overwrite" else {})
        if kind == "append" and old is None:
            return given, sr.DatasetNotFoundError
        if kind == "new" and (old is not None or self.mine):
            return given, sr.DatasetExistsError
        if kind == "overwrite" and old is None and self.mine:
            return given, sr.DatasetExistsError
        if kind == "overwrite" and old is not None and old.keys and not notes:
            return given, sr.DatasetError
        base = old if kind == "append" else Expected(rule, compression, {})
        splits = dict.fromkeys(RULES[rule]["splits"] if rule.endswith(("shares", "group")) else (), ())
        splits |= base.splits
        keys = base.keys
        for note in notes:
            if note.key in keys:
                if options["on_duplicate"] == "error":
                    return given, sr.DuplicateKeyError
                continue
            keys.add(note.key)
            name = split_of(rule, note)
            splits[name] = (*splits.get(name, ()), note)
        return given, attrs.evolve(base, splits=splits or {"train": ()})

    def wrote(self, expected):
        self.expected, self.damage, self.settled = expected, None, True

    @precondition(lambda self: self.damage is None)
    @rule(
        kind=KINDS,
        how=st.sampled_from(sorted(RULES)),
        compression=st.sampled_from([None, "GZIP"]),
        keys=KEYS,
        options=OPTIONS,
    )
    def write(self, kind, how, compression, keys, options):
        """A write gives what it was given beside what stays, or an error and no change."""
        notes = self.notes(keys)
        given, after = self.planned(kind, how, compression, notes, options)
        if isinstance(after, Expected):
            sr.write(iter(notes), self.place, **given)
            self.wrote(after)
        else:
            self.refused(after, notes, given)

    def refused(self, error, notes, given):
        before = tree(self.parent)
        with pytest.raises(error):
            sr.write(iter(notes), self.place, **given)
        if self.settled:
            assert tree(self.parent) == before

    @precondition(lambda self: self.damage is None)
    @rule(kind=KINDS, how=st.sampled_from(sorted(RULES)), keys=KEYS, options=OPTIONS, data=st.data())
    def write_from_broken_source(self, kind, how, keys, options, data):
        """A source that raises leaves nothing."""
        notes = self.notes(keys)
        given, after = self.planned(kind, how, None, notes, options)
        stop = data.draw(st.integers(0, len(notes)))

        def source():
            yield from notes[:stop]
            raise BrokenError

        is_source = isinstance(after, Expected)
        self.refused(sr.SourceError if is_source else (after, sr.SourceError), source(), given)

    @precondition(lambda self: self.damage is None)
    @rule(kind=KINDS, how=st.sampled_from(sorted(RULES)), keys=KEYS, options=OPTIONS, number=EARLY)
    def write_with_failure(self, kind, how, keys, options, number):
        """A file operation that fails is an error and no change, unless all is published and only rests are removed."""
        notes = self.notes(keys)
        given, after = self.planned(kind, how, None, notes, options)
        if not isinstance(after, Expected):
            return
        before = tree(self.parent)
        fail = FailAt(number, OSError(errno.EIO, os.strerror(errno.EIO)))
        try:
            with on_fault_point(fail):
                sr.write(iter(notes), self.place, **given)
        except sr.DatasetError as error:
            assert error.errno == errno.EIO
            if self.settled:
                assert tree(self.parent) == before
        else:
            self.wrote(after)
            self.settled = fail.seen < number

    @precondition(lambda self: self.damage is None)
    @rule(kind=KINDS, how=st.sampled_from(sorted(RULES)), keys=KEYS, options=OPTIONS, number=EARLY)
    def write_and_be_killed(self, kind, how, keys, options, number):
        """Killed at any fault point, the old dataset is there or the new one, whole.

        What a kill leaves is what the files are at that moment, so a copy of them takes the place of what came later.
        """
        notes = self.notes(keys)
        given, after = self.planned(kind, how, None, notes, options)
        if not isinstance(after, Expected):
            return
        picture, seen = self.parent.with_name(f"{self.parent.name}-killed"), itertools.count(1)

        def take(_name, _path):
            if next(seen) == number:
                shutil.copytree(self.parent, picture)

        with on_fault_point(take):
            sr.write(iter(notes), self.place, **given)
        if not picture.exists():
            self.wrote(after)
            return
        shutil.rmtree(self.parent)
        picture.rename(self.parent)
        self.settled = False
        found = self.found()
        assert found in (self.contents(self.expected), self.contents(after))
        if found != self.contents(self.expected):
            self.expected = after

    @precondition(lambda self: self.damage is None)
    @rule(
        kinds=st.tuples(KINDS, KINDS),
        hows=st.tuples(st.sampled_from(sorted(RULES)), st.sampled_from(sorted(RULES))),
        keys=st.tuples(KEYS, KEYS),
        options=OPTIONS,
    )
    def two_write_at_once(self, kinds, hows, keys, options):
        """Of two writers the one that ends first wins, and the other has an error."""
        first, second = map(self.notes, keys)
        given, after = self.planned(kinds[0], hows[0], None, first, options)
        inner, wins = self.planned(kinds[1], hows[1], None, second, options)
        if not isinstance(after, Expected) or not isinstance(wins, Expected):
            return

        def source():
            yield from first
            sr.write(second, self.place, **inner)

        with pytest.raises(sr.DatasetError):
            sr.write(source(), self.place, **given)
        self.wrote(wins)

    # What others do -------------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(MINE), data=st.binary(max_size=5))
    def put_own_file(self, name, data):
        """A user puts a file of his own into the directory."""
        self.mine[name] = data
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    @precondition(lambda self: self.place.exists())
    @rule()
    def remove(self):
        """A user removes the directory."""
        shutil.rmtree(self.place)
        self.expected, self.damage, self.mine = None, None, {}

    @precondition(lambda self: self.expected is not None and self.damage is None)
    @rule(data=st.data(), mask=st.sampled_from([0x01, 0x80, 0xFF]))
    def damage_byte(self, data, mask):
        """A byte of a file of the dataset goes bad."""
        files = sorted({*named(sr.info(self.place)), "manifest.json"})
        path = self.place / data.draw(st.sampled_from([name for name in files if (self.place / name).stat().st_size]))
        self.damage = path, data.draw(st.integers(0, path.stat().st_size - 1)), mask
        self.flip()

    def flip(self):
        path, position, mask = self.damage
        content = bytearray(path.read_bytes())
        content[position] ^= mask
        path.write_bytes(content)

    @precondition(lambda self: self.damage is not None)
    @rule()
    def mend_byte(self):
        """The byte is good again, and with it everything."""
        self.flip()
        self.damage = None

    @precondition(lambda self: self.damage is not None)
    @rule(how=st.sampled_from(sorted(RULES)), keys=KEYS, options=OPTIONS)
    def overwrite_damaged(self, how, keys, options):
        """A damaged dataset can be overwritten, unless its manifest says no more that it is one of ours."""
        notes = self.notes(keys)
        given, after = self.planned("overwrite", how, None, notes, options)
        manifest = self.damage[0].name == "manifest.json"
        before = tree(self.parent)
        try:
            sr.write(iter(notes), self.place, **given)
        except sr.DuplicateKeyError:
            assert after is sr.DuplicateKeyError
        except sr.DatasetExistsError:
            assert manifest
        except sr.DatasetError:
            assert after is sr.DatasetError
        else:
            self.wrote(after)
            self.settled = not manifest  # where nothing names them, assets and listings may stay
            return
        if self.settled:
            assert tree(self.parent) == before

    @precondition(lambda self: self.damage is not None)
    @rule(keeps=st.booleans())
    def salvage(self, keeps):
        """A salvage recovers records of the dataset alone, all that lie outside the damage, and changes no file."""
        before, rescued = tree(self.parent), self.parent.with_name(f"{self.parent.name}-rescued")
        lost = 1 if self.damage[0].suffix == ".tfrecord" else 0
        if self.damage[0].name == "manifest.json" and not list(self.place.rglob("*.tfrecord")):
            self.refused_salvage(rescued)
            return
        done = sr.salvage(self.place, rescued, schema=Note)
        assert tree(self.parent) == before
        assert sr.verify(rescued).ok
        splits = {}
        unordered = self.damage[0].name == "manifest.json"  # which alone knows the order of shards
        for name, notes in self.expected.splits.items():
            kept = plain(sr.read_records(rescued, name)) if name in sr.info(rescued).splits else []
            splits[name] = tuple(note for note in notes if plain([note])[0] in kept)
            # Shards are copied as they are, so what was dealt to several of them is no longer in turn after a loss.
            if unordered or (len(kept) < len(notes) and len(sr.info(rescued).splits[name].shards) > 1):
                assert sorted(kept) == sorted(plain(splits[name]))
                splits[name] = tuple(sorted(splits[name], key=lambda note, kept=kept: kept.index(plain([note])[0])))
            else:
                assert kept == plain(splits[name])
        missing = sum(map(len, self.expected.splits.values())) - sum(map(len, splits.values()))
        assert done.records == sum(map(len, splits.values()))
        assert missing <= lost or self.expected.compression
        if not keeps or self.damage[0].name == "manifest.json":
            shutil.rmtree(rescued)
            return
        shutil.rmtree(self.place)
        rescued.rename(self.place)
        self.mine, self.damage = {}, None
        self.expected = attrs.evolve(self.expected, splits=splits)  # what a kill has left is still there

    def refused_salvage(self, rescued):
        assert not any(self.expected.splits.values())
        try:
            sr.salvage(self.place, rescued, schema=Note)
        except sr.DatasetNotFoundError:
            assert not rescued.exists()
        else:  # the manifest can be read still
            shutil.rmtree(rescued)

    # What holds -----------------------------------------------------------------------------------------------------

    def contents(self, expected):
        return None if expected is None else {name: plain(notes) for name, notes in expected.splits.items()}

    def found(self):
        """Return the records of each split, None where there is no dataset."""
        try:
            manifest = sr.info(self.place)
        except sr.DatasetNotFoundError:
            with pytest.raises(sr.DatasetNotFoundError):
                sr.read_records(self.place)
            return None
        return {name: plain(sr.read_records(self.place, name)) for name in manifest.splits}

    @invariant()
    def holds_what_was_written(self):
        """The dataset holds exactly what was written, in that order, and says so."""
        if self.damage is not None:
            return
        found = self.found()
        assert found == self.contents(self.expected)
        if found is None:
            return
        manifest = sr.info(self.place)
        # Files that it does not know are told too: the user's beside shards, and those of killed writers.
        known = named(manifest) | {"manifest.json"}
        wrong = {problem.path for problem in sr.verify(self.place).problems} - set(self.mine)
        assert not (wrong if self.settled else wrong & known)
        assert manifest.compression == self.expected.compression
        for name, notes in found.items():
            split = manifest.splits[name]
            assert (split.records, split.steps) == (len(notes), sum(len(ids) for _, _, ids in notes))
        keys = [key for notes in found.values() for key, _, _ in notes]
        assert len(set(keys)) == len(keys)

    @invariant()
    def finds_damage(self):
        """Damage is found, and until it is reached no wrong record is delivered."""
        if self.damage is None:
            return
        path, _, _ = self.damage
        bad = path.relative_to(self.place).as_posix()
        assert bad in {problem.path for problem in sr.verify(self.place).problems}
        for name, notes in self.expected.splits.items():
            delivered = []
            try:
                for note in sr.read_records(self.place, name, schema=Note):
                    delivered += plain([note])
            except sr.DatasetError:
                assert delivered == plain(notes)[: len(delivered)]
            else:
                assert delivered == plain(notes)

    @invariant()
    def only_ours_is_there_and_goes(self):
        """The user's files are there as he left them, and after a write that is published nothing is left over."""
        assert {name: (self.place / name).read_bytes() for name in self.mine} == self.mine
        if not self.settled or self.damage is not None:
            return
        assert names(self.parent) == [self.place.name] * self.place.exists()
        if self.expected is None:
            assert {name for name, data in tree(self.place).items() if data is not None} == set(self.mine)
            return
        there = {name for name, data in tree(self.place).items() if data is not None} - set(self.mine)
        known = named(sr.info(self.place)) | {"manifest.json"}
        # Listings are no part of the manifest; an append keeps the files of assets that it gives anew.
        unknown = {name for name in there - known if not name.endswith(".csv") and not name.startswith("assets/")}
        assert (known - there, unknown) == (set(), set())

    def teardown(self):
        """Now and then, what `read` gives is the same."""
        count = len(self.expected.keys) if self.expected is not None else 0
        if self.damage is None and count > 7 and count % 4 == 0:
            for name, notes in self.expected.splits.items():
                if notes:
                    batches = sr.read(self.place, name, batch=sr.Pad(4))
                    keys = [key.decode() for batch in batches for key in batch["key"].numpy().tolist()]
                    assert sorted(keys) == sorted(note.key for note in notes)  # in the order of the files
        shutil.rmtree(self.parent)


@pytest.mark.parametrize("examples", [8, pytest.param(2_000, marks=pytest.mark.nightly)])
def test_dataset_machine(tmp_path, monkeypatch, seed, figure, examples):
    """After any sequence of writes, failures, kills, damage and salvages, a dataset is what the model says."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # nothing here cuts the power
    places = itertools.count()

    def machine():
        return DatasetMachine(tmp_path / str(next(places)))

    run_state_machine_as_test(
        seeded(seed)(machine),
        settings=settings(
            max_examples=examples,
            stateful_step_count=20,
            deadline=None,
            database=None,
            # Files are slow beside what Hypothesis expects of a step.
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
    figure(27, "sequences of writes, failures, kills and damage", examples, "the dataset of the model")
