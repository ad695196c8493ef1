"""Parts that many processes wrote become the dataset that one process would have written."""

import contextlib
import itertools
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults import names

import seqrecorder as sr
from seqrecorder.dataset import keys as unique_keys
from seqrecorder.storage.files import FAULT_POINTS, KEY_INDEX, on_fault_point
from seqrecorder.writing import commit as part_keys
from seqrecorder.writing.writer import KEYS


@sr.record
class Word:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int64")


@sr.record
class Plain:
    label: int = sr.context("int64")


@sr.record
class Chunk:
    key: str = sr.context(str, key=True)
    number: int = sr.context("int64", chunk=True)


WORDS = [Word(f"w{i}", np.arange(i % 5)) for i in range(60)]
OPTIONS: dict[str, Any] = {"splits": {"train": 0.7, "eval": 0.3}, "seed": 4}


def files_of(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_parts_are_the_dataset_of_one_process(tmp_path: Path) -> None:
    """Splits, records and their order are those of `write`; the same parts give the same files in whatever order."""
    whole = sr.write(WORDS, tmp_path / "whole", **OPTIONS, metadata={"a": 1}, assets={"x.txt": "hi"})
    made = []
    for number, order in enumerate([(0, 1, 2), (2, 0, 1, 0, 2)]):
        path = tmp_path / f"c{number}"
        for part in order:
            sr.write_part(WORDS[part * 20 : part * 20 + 20], path, part, shards=2, **OPTIONS)
            assert not path.exists()
        manifest = sr.commit(path, expected=3, metadata={"a": 1}, assets={"x.txt": "hi"})
        assert manifest == sr.info(path)
        assert manifest.assets["x.txt"].read_text() == "hi"
        assert (manifest.metadata, manifest.splitting) == (whole.metadata, whole.splitting)
        for split in ("train", "eval"):
            found = [record.key for record in sr.read_records(path, split)]
            assert found == [record.key for record in sr.read_records(tmp_path / "whole", split)]
            shards = manifest.splits[split].shards
            assert [shard.name for shard in shards] == [f"{split}-{n:05d}-of-00006.tfrecord" for n in range(6)]
        made.append(files_of(path))
    assert made[0] == made[1]
    assert sr.verify(tmp_path / "c0").ok
    assert names(tmp_path) == ["c0", "c1", "whole"]


def test_committed_again(tmp_path: Path) -> None:
    """What is committed is given again, and late attempts are told that there is a dataset."""
    sr.write_part(WORDS, tmp_path / "c", "a-m")
    first = sr.commit(tmp_path / "c", expected=["a-m"])
    assert sr.commit(tmp_path / "c", expected=1) == first
    with pytest.raises(sr.DatasetExistsError, match="committed already"):
        sr.write_part(WORDS, tmp_path / "c", "a-m")
    # An attempt that began before, and was completed after the commit.
    sr.write_part(WORDS, tmp_path / "c", "a-m", append=True)
    assert sr.commit(tmp_path / "c", expected=["a-m"]) == first
    assert names(tmp_path) == ["c"]
    for option in ("append", "overwrite"):
        with pytest.raises(sr.DatasetNotFoundError, match="a commit that ran before"):
            sr.commit(tmp_path / "c", **{option: True})
    with pytest.raises(sr.DatasetNotFoundError, match="there are no parts"):
        sr.commit(tmp_path / "d")
    assert names(tmp_path) == ["c"]


def test_appended_and_overwritten(tmp_path: Path) -> None:
    """Parts are added to a dataset under its own rule of splits, or take its place."""
    sr.write(WORDS[:20], tmp_path / "c", **OPTIONS)
    sr.write(WORDS, tmp_path / "whole", **OPTIONS)
    for part in (1, 0):
        sr.write_part(WORDS[20 + part * 20 : 40 + part * 20], tmp_path / "c", part, append=True)
    assert sr.info(tmp_path / "c").records == 20
    manifest = sr.commit(tmp_path / "c", append=True)
    assert (manifest.generation, manifest.splitting) == (1, sr.info(tmp_path / "whole").splitting)
    for split in ("train", "eval"):
        found = [record.key for record in sr.read_records(tmp_path / "c", split)]
        assert found == [record.key for record in sr.read_records(tmp_path / "whole", split)]
    sr.write_part(WORDS[:1], tmp_path / "c", 0, append=True)
    with pytest.raises(sr.DuplicateKeyError, match="'w0'.*part 0 and in .*c; leave it out of part 0"):
        sr.commit(tmp_path / "c", append=True)
    sr.write_part([Word("new", [])], tmp_path / "c", 0, append=True, schema=Word)
    sr.write_part([Word("newer", [])], tmp_path / "c", 1, splits={"train": 1.0}, overwrite=True)
    for options, part, option in (
        ({"append": True}, 1, "overwrite"),
        ({"overwrite": True}, 0, "append"),
        ({}, 0, "append"),
    ):
        with pytest.raises(sr.OptionError, match=f"part {part} was written with {option}=True: pass {option}=True to"):
            sr.commit(tmp_path / "c", **options)
    assert sr.info(tmp_path / "c").records == 60
    sr.write_part([Word("new", [])], tmp_path / "c", 0, splits={"train": 1.0}, overwrite=True)
    assert sr.commit(tmp_path / "c", overwrite=True).records == 2
    assert sr.verify(tmp_path / "c").ok
    assert names(tmp_path) == ["c", "whole"]


def test_parts_that_another_dataset_came_before(tmp_path: Path) -> None:
    """Parts may be added to a dataset that was written after them, if that has the same rule of splits."""
    sr.write_part(WORDS[20:], tmp_path / "c", 0, splits=OPTIONS["splits"])
    sr.write(WORDS[:20], tmp_path / "c", **OPTIONS)
    with pytest.raises(sr.OptionError, match="part 0 was written with seed=0, and .*c with 4"):
        sr.commit(tmp_path / "c", append=True)
    sr.write_part(WORDS[20:], tmp_path / "d", 0, **OPTIONS)
    sr.write(WORDS[:20], tmp_path / "d", **OPTIONS)
    with pytest.raises(sr.DatasetExistsError, match="is not empty"):
        sr.commit(tmp_path / "d")
    assert sr.commit(tmp_path / "d", append=True).records == 60


def test_no_parts_are_no_success(tmp_path: Path) -> None:
    """Where no part is left, a dataset counts as committed only if it was, from as many parts as are expected."""
    sr.write(WORDS[:20], tmp_path / "written")
    with pytest.raises(sr.DatasetNotFoundError, match="all 2 are missing, .*was not written in parts"):
        sr.commit(tmp_path / "written", expected=2)
    for part in range(3):
        sr.write_part(WORDS[part * 20 : part * 20 + 20], tmp_path / "c", part)
    first = sr.commit(tmp_path / "c", expected=3)
    sr.write([Word("new", [])], tmp_path / "c", append=True)
    for expected in (None, 3, ["a", "b", "c"]):
        assert sr.commit(tmp_path / "c", expected=expected).records == first.records + 1
    (tmp_path / "c.parts" / "p00000-unfinished").mkdir(parents=True)
    for expected in (2, [0, 1, 2, 3]):
        with pytest.raises(sr.DatasetNotFoundError, match=r"all [24] are missing, .*was committed from 3 parts"):
            sr.commit(tmp_path / "c", expected=expected)


def test_positions_count_inside_parts(tmp_path: Path) -> None:
    """Without a key, records find their splits by the part and their place in it, whatever else is written."""
    shares = {"train": 0.5, "eval": 0.5}
    for path, parts in (("one", [0, 1]), ("other", [1, 0])):
        for part in parts:
            sr.write_part([Plain(10 * part + n) for n in range(10)], tmp_path / path, part, splits=shares)
    assert sr.commit(tmp_path / "one").to_json() == sr.commit(tmp_path / "other").to_json()
    found = [[r.label // 10 for r in sr.read_records(tmp_path / "one", split)] for split in shares]
    assert all({0, 1} == set(parts) for parts in found)
    places = [[r.label % 10 for r in sr.read_records(tmp_path / "one", "eval") if r.label // 10 == n] for n in (0, 1)]
    assert places[0] != places[1]


def test_empty_parts(tmp_path: Path) -> None:
    """Parts without a record add nothing, also no split; if all are so, the dataset is empty."""
    sr.write_part([], tmp_path / "c", 0, schema=Plain)
    sr.write_part({"dev": [Plain(1)]}, tmp_path / "c", 1)
    assert list(sr.commit(tmp_path / "c").splits) == ["dev"]
    sr.write_part([], tmp_path / "d", 0, schema=Plain)
    assert list(sr.commit(tmp_path / "d").splits) == ["train"]
    assert sr.verify(tmp_path / "d").ok


def test_expected(tmp_path: Path) -> None:
    """Parts that are missing, or too many, are named, and nothing is published; jobs may count from 1."""
    for part in ("0007", 2, 3):
        sr.write_part([Plain(1)], tmp_path / "c", part)
    for expected, kind, message in (
        (8, sr.DatasetNotFoundError, "expected 8 parts of .*, got 3; missing: 1, 4, 5, 6, 0 or 8"),
        ([2, 3, 5], sr.DatasetNotFoundError, "got 3; missing: 5"),
        (2, sr.DatasetError, "expected 2 parts of .*, got 3, with 3, 7 as well; remove from .*c.parts"),
        ([2, 3], sr.DatasetError, "with 7 as well"),
        (0, sr.OptionError, "expected: the number of parts"),
        ("7", sr.OptionError, "expected: the number of parts"),
        (True, sr.OptionError, "expected: the number of parts"),
        (1.5, sr.OptionError, "expected: the number of parts"),
    ):
        with pytest.raises(kind, match=message):
            sr.commit(tmp_path / "c", expected=expected)
    assert sr.commit(tmp_path / "c", expected=[7, 2, "3"]).records == 3
    for part in ("a", "b"):
        sr.write_part([Plain(1)], tmp_path / "d", part)
    for expected, message in ((3, "expected 3 parts of .*, got 2; write"), (1, "got 2, with b as well")):
        with pytest.raises(sr.DatasetError, match=message):
            sr.commit(tmp_path / "d", expected=expected)
    assert names(tmp_path) == ["c", "d.parts"]


def test_last_attempt_counts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Of attempts at a part that differ, the last one counts, and it is told that they do."""
    for value in (1, 2, 2):
        sr.write_part([Plain(value)], tmp_path / "c", 0)
    with caplog.at_level(logging.WARNING):
        assert [record.label for record in sr.read_records(sr.commit(tmp_path / "c").path)] == [2]
    assert "3 attempts at part 0 have different contents" in caplog.text


@pytest.mark.parametrize("straddling", ["cut", "drop"])
def test_parts_split_in_time(tmp_path: Path, straddling: str) -> None:
    """Parts find splits in time as one process does; other times than those of the others are refused."""

    @sr.record
    class Ride:
        key: str = sr.context(str, key=True)
        piece: int = sr.context("int64", chunk=True)
        day: np.ndarray = sr.feature_list("datetime64[D]")

    first = np.datetime64("2026-01-01")
    rides = [Ride(f"r{i}", 0, first + np.arange(i, i + 4)) for i in range(20)]
    options: dict[str, Any] = {"splits": {"train": ..., "eval": "2026-01-10"}, "time": "day", "straddling": straddling}
    one = sr.write(rides, tmp_path / "one", **options)
    for part in (1, 0):
        sr.write_part(rides[part * 10 : part * 10 + 10], tmp_path / "c", part, **options)
    manifest = sr.commit(tmp_path / "c")
    assert (manifest.splitting, manifest.skipped) == (one.splitting, one.skipped)
    for split in ("train", "eval"):
        keys = [(record.key, record.piece) for record in sr.read_records(tmp_path / "c", split)]
        assert keys == [(record.key, record.piece) for record in sr.read_records(tmp_path / "one", split)]
    sr.write_part([Ride("late", 0, first + np.arange(30, 33))], tmp_path / "c", 0, append=True)
    assert sr.commit(tmp_path / "c", append=True).splits["eval"].records == one.splits["eval"].records + 1
    sr.write_part(rides[:1], tmp_path / "d", 0, **options)
    sr.write_part(rides[1:2], tmp_path / "d", 1, **{**options, "splits": {"train": ..., "eval": "2026-01-11"}})
    with pytest.raises(sr.OptionError, match="part 1 was written with time="):
        sr.commit(tmp_path / "d")


def test_parts_that_do_not_fit(tmp_path: Path) -> None:
    """Other fields, and other rules of splits, are refused, with the part and what is different."""

    @sr.record
    class Other:
        label: str = sr.context(str)

    sr.write_part([Plain(1)], tmp_path / "c", 0)
    for options, message in (
        ({"seed": 1}, "seed=1, and part 0 with 0"),
        ({"splits": {"train": 1.0}}, r"splits={'train': 1.0}, and part 0 with None"),
        ({"compression": "GZIP"}, "compression='GZIP'"),
    ):
        sr.write_part([Plain(1)], tmp_path / "c", 1, **options)
        with pytest.raises(sr.OptionError, match=f"part 1 was written with {message}"):
            sr.commit(tmp_path / "c")
    sr.write_part([Other("x")], tmp_path / "c", 1)
    with pytest.raises(sr.SchemaMismatchError, match="part 1 was written with other fields than part 0"):
        sr.commit(tmp_path / "c")
    sr.write_part([Plain(2)], tmp_path / "c", 1)
    assert sr.commit(tmp_path / "c").records == 2


@pytest.mark.parametrize("append", [False, True])
@pytest.mark.parametrize("at_url", [False, True])
def test_splits_that_differ_by_case(tmp_path: Path, append: bool, at_url: bool) -> None:
    """Parts whose splits have one name on macOS are refused together: nothing is published, and all parts stay."""
    target = f"memory://{tmp_path.name}-case/c" if at_url else str(tmp_path / "c")
    if append:
        sr.write({"Dev": [Plain(0)]}, target)
    sr.write_part({"dev" if append else "Dev": [Plain(1)]}, target, 0, append=append)
    sr.write_part({"dev": [Plain(2)]}, target, 1, append=append)
    with pytest.raises(sr.OptionError, match="split 'dev': expected names that differ by more than case"):
        sr.commit(target, append=append)
    assert sr.parts(target) == [0, 1]
    if append:
        assert sr.info(target).records == 1
    else:
        with pytest.raises(sr.DatasetNotFoundError):
            sr.info(target)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metadata": 1}, "give metadata to commit"),
        ({"assets": {"a": "x"}}, "give assets to commit"),
        ({"csv": True}, "csv=True is for"),
        ({"splits": {"a": 1.0}, "split_by": sr.Balanced("label")}, "Balanced needs all records"),
        ({"splits": {"a": 1.0}, "stratify": "label"}, r"write what seqrecorder.open\(path\).all\(\).split"),
        ({"part": -1}, "0 or more, got -1"),
        ({"part": 1.5}, "a number or a name, got 1.5"),
        ({"part": True}, "a number or a name, got True"),
        ({"part": "a/b"}, "part 'a/b': expected a plain file name"),
        ({"parts": 1}, "unknown options: parts"),
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    """What is of the whole dataset, or needs all of it, no part can be given."""
    with pytest.raises(sr.OptionError, match=message):
        sr.write_part([Plain(1)], tmp_path / "c", **{"part": 0, **options})
    assert names(tmp_path) == []


def test_keys_are_unique_over_all_parts(tmp_path: Path) -> None:
    """A key of two parts is named with both; in one part it is an error at once; chunks of a source are apart."""
    for part in range(4):
        sr.write_part(WORDS[part * 5 : part * 5 + (6 if part == 1 else 5)], tmp_path / "c", part)
    with pytest.raises(sr.DuplicateKeyError, match="'w10'.: is in part 1 and in part 2") as caught:
        sr.commit(tmp_path / "c")
    assert caught.value.key == "w10"
    with pytest.raises(sr.DuplicateKeyError, match="record 1"):
        sr.write_part(WORDS[:1] * 2, tmp_path / "c", 0)
    for part in range(2):
        sr.write_part([Chunk("a", part), Chunk("b", part)], tmp_path / "d", part)
    assert sr.commit(tmp_path / "d").records == 4


def test_keys_are_kept_for_the_next_append(tmp_path: Path) -> None:
    """A dataset of many shards gets an index of its keys, so that parts, and `write`, are added without reading it."""
    path = tmp_path / "c"
    for part in range(2):
        sr.write_part(WORDS[part * 20 : part * 20 + 20], path, part, shards=8)
    sr.commit(path)
    shards = {shard: shard.read_bytes() for shard in path.rglob("*.tfrecord")}
    for shard, data in shards.items():
        shard.write_bytes(data[:-6] + bytes(6))  # whoever reads them says so
    for part, some in enumerate((WORDS[40:50], WORDS[50:55])):
        sr.write_part(some, path, part, append=True)
    sr.commit(path, append=True)
    for word in (WORDS[0], WORDS[39], WORDS[54]):
        with pytest.raises(sr.DuplicateKeyError, match="already"):
            sr.write([word], path, append=True)
        sr.write_part([word], path, 0, append=True)
        for shard, data in shards.items():
            shard.write_bytes(data)
        with pytest.raises(sr.DuplicateKeyError, match=f"'{word.key}'.*part 0 and in .*c;"):
            sr.commit(path, append=True)
    assert sr.verify(path).ok
    # Without the index the keys are read.
    (path / KEY_INDEX).unlink()
    with pytest.raises(sr.DuplicateKeyError, match="'w54'"):
        sr.commit(path, append=True)
    sr.write_part([WORDS[55]], path, 0, append=True)
    assert sr.commit(path, append=True).records == 56
    assert (path / KEY_INDEX).stat().st_size == 44 + 8 * 56
    assert names(tmp_path) == ["c"]


def test_keys_that_hooks_leave_out_are_free(tmp_path: Path) -> None:
    """Of a class with hooks there is no index, since other keys may be stored than came."""

    @sr.record
    class Odd:
        key: int = sr.context("int64", key=True)

        def load(self) -> None:
            if self.key % 2 == 0:
                raise sr.SkipRecord

    sr.write_part(map(Odd, range(80)), tmp_path / "c", 0, shards=20)
    assert sr.commit(tmp_path / "c").records == 40
    assert not (tmp_path / "c" / KEY_INDEX).exists()
    sr.write_part([Odd(4), Odd(81)], tmp_path / "c", 0, append=True)
    assert sr.commit(tmp_path / "c", append=True).records == 41


def test_equal_hashes_are_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two keys that have one hash by chance are two keys."""

    def poor(keys: Any) -> Any:
        return np.array([len(key) for key in keys], np.uint64)

    for module in (unique_keys, part_keys):
        monkeypatch.setattr(module, "key_hashes", poor)
    for part, key in enumerate(["a", "bb", "c"]):
        sr.write_part([Word(key, [])], tmp_path / "c", part)
    assert sr.commit(tmp_path / "c").records == 3
    for part, key in enumerate(["a", "bb", "c", "a"]):
        sr.write_part([Word(key, [])], tmp_path / "d", part)
    with pytest.raises(sr.DuplicateKeyError, match="'a'.: is in part 0 and in part 3"):
        sr.commit(tmp_path / "d")


def test_hooks_that_leave_out_or_change_keys(tmp_path: Path) -> None:
    """Keys of sources count as they came, as in one process, also where no record of that key is stored."""

    @sr.record
    class Renamed:
        key: str = sr.context(str, key=True)

        def load(self) -> None:
            self.key = f"{self.key}!"

    for part in range(2):
        sr.write_part([Renamed("a")], tmp_path / "c", part)
    with pytest.raises(sr.DuplicateKeyError, match="part 0 and in part 1"):
        sr.commit(tmp_path / "c")


def test_damaged_parts(tmp_path: Path) -> None:
    """A file of a part that is missing, or not as it was written, is an error; the part is written again."""
    for damage, message in (("*.tfrecord", "cannot be read"), (KEYS, "its digest differs from the manifest")):
        kept = [sr.write_part(WORDS[n : n + 1], tmp_path / "c", n).path for n in range(2)]
        file = next(kept[1].rglob(damage))
        file.write_bytes(b"") if damage == KEYS else file.unlink()
        with pytest.raises(sr.ShardReadError, match=message):
            sr.commit(tmp_path / "c")
    (tmp_path / "c.parts" / "mine").mkdir()
    sr.write(WORDS, tmp_path / "c.parts" / "mine", metadata=[1])
    with pytest.raises(sr.ManifestError, match="expected the manifest of a part"):
        sr.commit(tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_shares_are_missed_by_the_whole_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Shares that groups have missed are told of the dataset, not of each part."""

    @sr.record
    class Verse:
        book: str = sr.context(str)

    with caplog.at_level(logging.WARNING):
        for part in range(2):
            sr.write_part([Verse("a")] * 50, tmp_path / "c", part, splits={"x": 0.5, "y": 0.5}, split_by="book")
        assert not caplog.records
        sr.commit(tmp_path / "c")
    assert len(caplog.records) == 2
    assert str(tmp_path / "c") in caplog.text


def test_workers_and_order_on_disk(tmp_path: Path) -> None:
    """Options of order, size and processes hold inside each part."""
    for path, workers in (("one", 1), ("other", 2)):
        for part in range(2):
            given = WORDS[part * 30 : part * 30 + 30]
            sr.write_part(given, tmp_path / path, part, shuffle=True, shard_bytes=500, workers=workers, **OPTIONS)
    assert sr.commit(tmp_path / "one").to_json() == sr.commit(tmp_path / "other").to_json()
    found = [record.key for split in ("train", "eval") for record in sr.read_records(tmp_path / "one", split)]
    assert found != sorted(found)
    assert sorted(found) == sorted(word.key for word in WORDS)
    starts = [shard.start for shard in sr.info(tmp_path / "one").splits["train"].shards]
    counts = [shard.records for shard in sr.info(tmp_path / "one").splits["train"].shards]
    assert starts == list(itertools.accumulate([0, *counts[:-1]]))


@sr.record
class Line:
    text: str = sr.context(str)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("step", [17, pytest.param(1, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("append", [False, True])
def test_a_commit_that_is_killed_is_run_again(tmp_path: Path, append: bool, step: int) -> None:
    """Killed at any operation, it has published all parts or none, and the next call adds what lacks, nothing twice."""
    number, ended = 1, False
    while not ended:
        path, every = tmp_path / str(number), ["a", "b", "c"] if append else ["b", "c"]
        if append:
            sr.write([Line("a")], path)
        for part, text in enumerate("bc"):
            sr.write_part([Line(text)], path, part, append=append)
        child = os.fork()
        if not child:
            seen = iter(range(1, number))

            def kill(name: str, _: str, seen: Iterator[int] = seen) -> None:
                if name in FAULT_POINTS and next(seen, None) is None:
                    os.kill(os.getpid(), signal.SIGKILL)

            try:
                with on_fault_point(kill):
                    sr.commit(path, append=append)
            finally:
                os._exit(0)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        before = [record.text for record in sr.read_records(path)] if (path / "manifest.json").exists() else []
        assert before in (every, every[:-2])
        with contextlib.suppress(sr.DatasetNotFoundError):  # whoever appends cannot tell whether that was done
            sr.commit(path, append=append)
        assert [record.text for record in sr.read_records(path)] == every
        sr.write_part([Line("d")], path, 0, append=True)
        assert sr.commit(path, append=True).records == len(every) + 1
        assert sr.verify(path).ok
        number += step
    assert number > 60
    assert not [name for name in names(tmp_path) if not name.isdigit()]
