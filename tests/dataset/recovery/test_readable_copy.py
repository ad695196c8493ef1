"""Reading around damage: only the damaged records are missing, and it is said which and where."""

import contextlib
import errno
import itertools
import logging
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from faults import FailAt, bad_bytes, names

import seqrecorder as sr
from seqrecorder.storage.fault_points import on_fault_point
from seqrecorder.storage.scratch import scratch
from seqrecorder.storage.shard import RecordReader
from seqrecorder.storage.tfrecord.format import walk_frames


@sr.record
class Line:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int64")
    marks: np.ndarray = sr.feature_list("float32", align="marks")


RECORDS = [Line(f"k{n}", np.arange(1 + n % 7), np.ones(n % 3, "float32")) for n in range(40)]


@pytest.fixture(scope="module", params=[None, "GZIP"])
def pristine(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("skipping") / "lines"
    sr.write(RECORDS, path, shards=2, compression=request.param)
    return path


@pytest.fixture
def lines(pristine, tmp_path):
    return shutil.copytree(pristine, tmp_path / "lines")


def shard_of(lines):
    return lines / "train" / "train-00000-of-00002.tfrecord"


def keys(records):
    return [record.key for record in records]


def test_a_sound_dataset_is_read_where_it_is(lines, caplog):
    """Nothing is copied, left out or logged of a sound dataset."""
    records = list(sr.read_records(lines, schema=Line, on_corrupt="skip"))
    assert records == RECORDS
    assert caplog.records == []


def test_only_the_damaged_record_is_missing(lines, caplog):
    """One damaged record of a plain shard is left out by every reader, which says where it was; the default raises."""
    plain = sr.info(lines).compression is None
    lengths = walk_frames(shard_of(lines), None if plain else "GZIP").lengths
    start, stop = (16 * n + int(lengths[:n].sum()) for n in (3, 4))
    data = bytearray(shard_of(lines).read_bytes())
    data[start + 20 if plain else 200] ^= 1
    shard_of(lines).write_bytes(data)
    place = f"bytes {start} to {stop} (record 3): the CRC of a record differs"
    with pytest.raises(sr.ShardReadError, match=r"seqrecorder salvage") as error:
        list(sr.read_records(lines))
    if plain:
        assert place in str(error.value)
    with pytest.raises(sr.ShardReadError, match="00000-of-00002"):
        sr.read(lines, check="full")
    records = keys(sr.read_records(lines, on_corrupt="skip"))
    if plain:
        assert records == keys(RECORDS[:6] + RECORDS[7:])
    [said] = caplog.records
    assert (said.levelno, said.name, said.shard) == (logging.WARNING, "seqrecorder", str(shard_of(lines)))
    assert str(shard_of(lines)) in said.getMessage()
    assert sum(loss.records for loss in said.losses) == 40 - len(records)
    if plain:
        assert f"left out 1 damaged records: {place}" in said.getMessage()
    for batch in (None, sr.Bucket(4, boundaries=[3, 5]), sr.Pad(3)):
        dataset = sr.read(lines, batch=batch, shuffle=10, seed=1, on_corrupt="skip")
        count = [np.size(element["key"]) for element in dataset]
        assert (sum(count), len(count)) == (len(records), int(dataset.cardinality()))


def numbered(path, **options):
    """Return the positions that records are given, by their keys."""
    records = sr.read(path, on_corrupt="skip", index_name="at", fields=["key"], **options)
    return {key.decode(): int(at) for key, at in ((record["key"].numpy(), record["at"]) for record in records)}


@pytest.mark.parametrize("shuffle", [0, 10])
def test_positions_are_those_that_were_stored(lines, shuffle):
    """Records that are left keep the positions that they had, behind damaged records, in holes and at cut ends."""
    plain = sr.info(lines).compression is None
    one, two = sorted(lines.rglob("*.tfrecord"))
    data = bytearray(one.read_bytes())
    if plain:
        data[70:300] = bytes(230)
        data[-20] ^= 1
    one.write_bytes(data if plain else data[:-60])
    two.write_bytes(two.read_bytes()[:-30])
    found = numbered(lines, shuffle=shuffle, seed=1)
    assert 20 < len(found) < 39
    assert found == {f"k{at}": at for at in found.values()}
    kept = [record.key for record in sr.read_records(lines, on_corrupt="skip")]
    assert kept == [f"k{at}" for at in sorted(found.values())]


def test_positions_in_shards_of_others(pristine, tmp_path):
    """Positions in bare shards count what was lost, and are refused where nothing says how much that is."""
    plain = sr.info(pristine).compression is None
    bare = [tmp_path / path.name for path in sorted(pristine.rglob("*.tfrecord"))]
    for path in bare:
        shutil.copy(pristine / "train" / path.name, path)
    order = [record.key for path in bare for record in sr.read_records(path, schema=Line)]
    data = bytearray(bare[0].read_bytes())
    data[30] ^= plain
    bare[0].write_bytes(data if plain else data[:-60])
    found = numbered(bare if plain else bare[:1], schema=Line)
    assert len(found) == 39 if plain else 10 < len(found) < 20
    assert found == {order[at]: at for at in found.values()}
    data[30:300] = bytes(270)
    bare[0].write_bytes(data)
    with pytest.raises(sr.OptionError, match="index_name: .*salvage the shards first"):
        numbered(bare, schema=Line)
    assert len(list(sr.read(bare, schema=Line, on_corrupt="skip"))) >= 20


def test_cut_shards_and_lost_lengths(lines):
    """A cut shard loses its end, one that is cut between two records too, and lost lengths lose nothing."""
    whole = shard_of(lines).read_bytes()
    plain = sr.info(lines).compression is None
    first = 16 + int.from_bytes(whole[:8], "little")
    shard_of(lines).write_bytes(whole[: first if plain else -9])
    with pytest.raises(sr.ShardReadError, match="expected"):
        sr.read(lines)
    records = keys(sr.read_records(lines, on_corrupt="skip"))
    assert len(records) == 21 if plain else 20 <= len(records) <= 40
    shard_of(lines).write_bytes(whole)
    lengths = shard_of(lines).with_suffix(".lengths")
    lengths.write_bytes(b"\xff" * lengths.stat().st_size)
    batches = sr.read(lines, batch=sr.Bucket(4, boundaries=[3, 5]), on_corrupt="skip")
    assert sum(len(batch["key"]) for batch in batches) == 40


def test_shards_of_others(pristine, tmp_path, caplog):
    """Damaged records of bare shards are left out too, however the records are asked for."""
    shard = shutil.copy(shard_of(pristine), tmp_path / "bare")
    data = bytearray((tmp_path / "bare").read_bytes())
    data[-30] ^= 0xFF
    (tmp_path / "bare").write_bytes(data)
    with pytest.raises((sr.ShardReadError, sr.SchemaMismatchError)):
        sr.read(shard, schema=Line, check="full")
    kept = keys(sr.read_records(shard, schema=Line, on_corrupt="skip"))
    assert kept == keys(RECORDS[::2])[: len(kept)]
    assert len(list(sr.read(shard, schema=Line, on_corrupt="skip"))) == len(kept)
    assert len(caplog.records) == 2


def test_copies_resume(lines, tmp_path):
    """Reading around damage can be saved and resumed like any other reading."""
    shard_of(lines).write_bytes(shard_of(lines).read_bytes()[:-40])
    options = {"batch": sr.Pad(4), "shuffle": 10, "seed": 3, "on_corrupt": "skip"}
    iterator = iter(sr.read(lines, **options))
    next(iterator)
    saved = tf.train.Checkpoint(iterator=iterator).save(tmp_path / "state")
    rest = [batch["key"].numpy().tolist() for batch in iterator]
    again = iter(sr.read(lines, **options))
    tf.train.Checkpoint(iterator=again).restore(saved)
    assert [batch["key"].numpy().tolist() for batch in again] == rest


def test_what_cannot_be_skipped(lines):
    """A shard that is missing is an error all the same, and so is an unknown word."""
    with pytest.raises(sr.OptionError, match="'error' or 'skip'"):
        sr.read(lines, on_corrupt="ignore")
    shard_of(lines).unlink()
    with pytest.raises(sr.ShardReadError, match="00000-of-00002"):
        sr.read(lines, on_corrupt="skip")


@sr.record
class Row:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int64")


def rows(count, steps=lambda _: 2):
    return [Row(f"k{n:02}", np.arange(steps(n))) for n in range(count)]


def changed(path, change, shards=1):
    """Change the first shard of a dataset, whose frames' first bytes are given too."""
    shard = min(path.rglob("*.tfrecord"))
    starts = np.cumsum([0, *(16 + walk_frames(shard, None).lengths)]).tolist()
    shard.write_bytes(change(shard.read_bytes(), starts))
    assert len(list(path.rglob("*.tfrecord"))) == shards
    return shard


@pytest.mark.parametrize("offset", [0, 5, 20])
@pytest.mark.parametrize("varied", [False, True])
def test_a_doubled_range_comes_once(tmp_path, offset, varied):
    """Of a range of bytes that stands twice, each record comes once, at its position, wherever the range begins."""
    sr.write(rows(40, lambda n: n * n % 11 if varied else 2), tmp_path / "rows")
    changed(tmp_path / "rows", lambda data, at: data[: at[20] + offset] + data[at[17] + offset :])
    assert numbered(tmp_path / "rows") == {f"k{n:02}": n for n in range(40)}
    assert keys(sr.read_records(tmp_path / "rows", on_corrupt="skip")) == [f"k{n:02}" for n in range(40)]


def test_holes_of_dealt_shards(tmp_path):
    """Where lengths tell the places, records of several holes keep positions and order; else both are refused."""
    for name, steps in (("told", lambda n: n * n % 11), ("untold", lambda _: 2)):
        sr.write(rows(60, steps), tmp_path / name, shards=3)
        changed(
            tmp_path / name,
            lambda data, at: (
                data[: at[3]] + bytes(at[5] - at[3]) + data[at[5] : at[9]] + bytes(at[11] - at[9]) + data[at[11] :]
            ),
            shards=3,
        )
        kept = [n for n in range(60) if n not in (9, 12, 27, 30)]
        assert sum(1 for _ in sr.read(tmp_path / name, on_corrupt="skip")) == len(kept)
        if name == "told":
            assert numbered(tmp_path / name) == {f"k{n:02}": n for n in kept}
            assert keys(sr.read_records(tmp_path / name, on_corrupt="skip")) == [f"k{n:02}" for n in kept]
            continue
        with pytest.raises(sr.OptionError, match="positions .*are unknown"):
            numbered(tmp_path / name)
        with pytest.raises(sr.OptionError, match="the order .*is not certain; `read` gives them"):
            sr.read_records(tmp_path / name, on_corrupt="skip")


@pytest.mark.parametrize("check", ["manifest", "full", "none"])
def test_a_shard_of_others_is_refused(tmp_path, check):
    """A shard that is whole, and not the one that was written, is refused, with as many records or with fewer."""
    sr.write(rows(20), tmp_path / "mine")
    sr.write([Row(f"x{n:02}", [7, 7]) for n in range(20)], tmp_path / "other")
    [other] = (tmp_path / "other").rglob("*.tfrecord")
    foreign = other.read_bytes()
    for data in (foreign, foreign[: len(foreign) // 20 * 5]):
        changed(tmp_path / "mine", lambda *_, data=data: data)
        for read in (sr.read, sr.read_records):
            with pytest.raises(sr.ShardReadError, match="not those that were written"):
                read(tmp_path / "mine", check=check, on_corrupt="skip")


def test_moved_records_are_not_taken_for_holes(tmp_path):
    """Records that have changed places are put back where their lengths tell it, and refused where nothing does."""
    for name, steps in (("told", lambda n: n * n % 29), ("untold", lambda _: 2)):
        sr.write(rows(40, steps), tmp_path / name)
        changed(
            tmp_path / name,
            lambda data, at: (
                data[: at[5] + 20]
                + data[at[20] + 30 : at[30] + 10]
                + data[at[5] + 20 : at[20] + 30]
                + data[at[30] + 10 :]
            ),
        )
        if name == "told":
            kept = keys(sr.read_records(tmp_path / name, on_corrupt="skip"))
            assert kept == [f"k{n:02}" for n in range(40) if n not in (5, 20, 30)]
            assert numbered(tmp_path / name) == {key: int(key[1:]) for key in kept}
        else:
            with pytest.raises(sr.OptionError, match="the order"):
                sr.read_records(tmp_path / name, on_corrupt="skip")


def test_sectors_that_cannot_be_read(tmp_path, caplog):
    """Where the disk fails in a shard, the records that do not touch the place are read, and the others named."""
    sr.write(rows(40, lambda n: 200 + n), tmp_path / "rows", shards=2)
    one, two = sorted((tmp_path / "rows").rglob("*.tfrecord"))
    ends = np.cumsum(16 + walk_frames(one, None).lengths).tolist()
    kept = [2 * n for n, (start, stop) in enumerate(itertools.pairwise([0, *ends])) if stop <= 4096 or start >= 8192]
    assert 0 < len(kept) < 20
    with bad_bytes(one, (5000, 5001)):
        for check in ("manifest", "full"):
            for read in (sr.read, lambda *a, **o: list(sr.read_records(*a, **o))):
                if check == "full" or ends[1] > 4096:
                    with pytest.raises(sr.ShardReadError, match=rf"{one.name}.*output error at byte 4096"):
                        read(tmp_path / "rows", check=check)
        found = numbered(tmp_path / "rows")
        assert found == {f"k{n:02}": n for n in sorted([*kept, *range(1, 40, 2)])}
        assert keys(sr.read_records(tmp_path / "rows", on_corrupt="skip")) == sorted(found)
        assert "the disk cannot read bytes 4096 to 8192 of the file" in caplog.text
        bare = keys(sr.read_records([one, two], schema=Row, on_corrupt="skip"))
        assert bare == [f"k{n:02}" for n in [*kept, *range(1, 40, 2)]]
    os.utime(one)  # else what was found out before is known still
    with bad_bytes(one, (0, 1 << 30)):
        assert len(keys(sr.read_records([one, two], schema=Row, on_corrupt="skip"))) == 20


def test_records_meet_a_bad_sector(tmp_path):
    """Where the records of a file cannot be read, the error is ours and names the file."""
    sr.write(rows(4), tmp_path / "rows")
    [shard] = (tmp_path / "rows").rglob("*.tfrecord")
    with bad_bytes(shard, (0, 1)), pytest.raises(sr.ShardReadError, match=rf"{shard.name}: .*output error"):
        list(RecordReader(shard, None))


def test_a_full_disk_is_named(tmp_path):
    """Where the copy of a damaged shard finds no room, the error names its place, and nothing stays there."""
    sr.write(rows(20), tmp_path / "rows")
    shard = changed(tmp_path / "rows", lambda data, _: data[:-9])
    place = scratch().parent
    before = names(place)
    for number in itertools.count(1):
        with on_fault_point(FailAt(number, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))):
            try:
                sr.read(tmp_path / "rows", on_corrupt="skip")
            except sr.ShardWriteError as error:
                assert str(place) in str(error)  # noqa: PT017 - until none is left to fail
                assert "No space left on device" in str(error)  # noqa: PT017
                assert str(shard) not in str(error)  # noqa: PT017
                assert names(place) == before
            else:
                break
    assert number > 3


LEFT = """
import sys, time
import seqrecorder as sr
print(sum(1 for _ in sr.read_records(sys.argv[1], on_corrupt="skip")), flush=True)
time.sleep(60)
"""


def test_copies_of_killed_readers_are_removed(tmp_path):
    """What a killed reader left in the temporary directory, the next one removes, and that of a living one stays."""
    sr.write(rows(20), tmp_path / "rows")
    changed(tmp_path / "rows", lambda data, _: data[:-9])
    place = tmp_path / "temporary"
    place.mkdir()
    environment = {**os.environ, "TMPDIR": str(place)}

    def reader():
        process = subprocess.Popen(
            [sys.executable, "-c", LEFT, str(tmp_path / "rows")], env=environment, stdout=subprocess.PIPE, text=True
        )
        return process, process.stdout.readline()

    with contextlib.ExitStack() as stack:
        readers = []
        for _ in range(2):
            process, said = reader()
            stack.enter_context(process)
            stack.callback(process.kill)
            assert said == "19\n"
            readers.append((process, set(names(place))))
            if len(readers) == 1:
                (process.kill(), process.wait())
        (_, first), (_, second) = readers
        assert len(first) == len(second) == 1
        assert not first & second
