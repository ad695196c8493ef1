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
from seqrecorder.storage.files import on_fault_point
from seqrecorder.storage.processes_and_signals import scratch
from seqrecorder.storage.shard_reader import RecordReader
from seqrecorder.storage.tfrecord import walk_frames


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
        assert records == keys(RECORDS[1::2] + RECORDS[:6:2] + RECORDS[8::2])
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


def test_the_log_counts_all_that_is_lost(lines, caplog):
    """The log gives the number of lost records even if frames are gone in several places."""
    data = bytearray(shard_of(lines).read_bytes())
    for start in (150, 600):
        data[start : start + 90] = bytes(90)
    shard_of(lines).write_bytes(data)
    found = list(sr.read_records(lines, on_corrupt="skip"))
    [said] = caplog.records
    assert f"left out {40 - len(found)} damaged records" in said.getMessage()
    if sr.info(lines).compression is None:
        assert [loss.records for loss in said.losses] == [-1, -1]


def test_sound_shards_keep_the_written_order(lines, tmp_path, caplog):
    """Sound shards come first, in the order of writing, then what is left of each damaged one, in its own order."""
    sr.write(RECORDS, tmp_path / "dealt", shards=4, compression=sr.info(lines).compression)
    shard = sorted((tmp_path / "dealt").rglob("*.tfrecord"))[1]
    data = bytearray(shard.read_bytes())
    data[200:210] = bytes(10)
    shard.write_bytes(data)
    for read in (
        sr.read_records,
        lambda *a, **o: (r["key"].numpy().decode() for r in sr.read(*a, fields=["key"], **o)),
    ):
        found = [getattr(record, "key", record) for record in read(tmp_path / "dealt", on_corrupt="skip")]
        sound, left = found[:30], found[30:]
        assert sorted(sound) == sorted(f"k{n}" for n in range(40) if n % 4 != 1)
        assert left == [f"k{n}" for n in range(1, 40, 4) if f"k{n}" in left]
        assert len(left) < 10
        if read is sr.read_records:
            assert sound == [f"k{n}" for n in range(40) if n % 4 != 1]
    assert {str(shard) in said.getMessage() for said in caplog.records} == {True}


@pytest.mark.parametrize("bare", [False, True])
def test_positions_are_refused_while_a_shard_is_damaged(lines, bare):
    """`index_name` names the damaged shard and what to do; after a salvage it is there again."""
    data = bytearray(shard_of(lines).read_bytes())
    data[100] ^= 1
    shard_of(lines).write_bytes(data)
    path = sorted(lines.rglob("*.tfrecord")) if bare else lines
    with pytest.raises(sr.OptionError, match="index_name: train-00000-of-00002.tfrecord is damaged.*salvage"):
        sr.read(path, schema=Line, on_corrupt="skip", index_name="at")
    sr.salvage(lines, lines / ".." / "saved")
    positions = [int(r["at"]) for r in sr.read(lines / ".." / "saved", on_corrupt="skip", index_name="at")]
    assert len(positions) == len(set(positions)) == sr.info(lines / ".." / "saved").records


def test_selections_of_sound_shards(tmp_path):
    """Records of sound shards are selected as ever; one of the damaged shard is right, or an error that names it."""
    sr.write(RECORDS, tmp_path / "lines", shards=2)
    one = min((tmp_path / "lines").rglob("*.tfrecord"))
    data = bytearray(one.read_bytes())
    data[200:300] = bytes(100)
    one.write_bytes(data)
    train = sr.open(tmp_path / "lines", schema=Line)["train"]
    assert list(train[1::2]) == RECORDS[1::2]
    refused = 0
    for position in range(0, 40, 2):
        try:
            assert train[position] == RECORDS[position]
        except sr.ShardReadError as error:
            refused += one.name in str(error)
    assert refused > 1
    with pytest.raises(sr.ShardReadError, match=one.name):
        list(train[:10])
    with pytest.raises(sr.OptionError, match="salvage the dataset, and select"):
        list(sr.read_records(train[:10], on_corrupt="skip"))


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
    assert kept == [key for key in keys(RECORDS[::2]) if key in kept]
    assert len(kept) >= 18
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
    with pytest.raises(sr.ShardReadError, match=f"00000-of-00002.*a shard of the dataset is missing.*verify {lines}`"):
        sr.read(lines, on_corrupt="skip")


@sr.record
class Row:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int64")


def rows(count):
    return [Row(f"k{n:02}", [0, 1]) for n in range(count)]


def changed(path, change, shards=1):
    """Change the first shard of a dataset, whose frames' first bytes are given too."""
    shard = min(path.rglob("*.tfrecord"))
    starts = np.cumsum([0, *(16 + walk_frames(shard, None).lengths)]).tolist()
    shard.write_bytes(change(shard.read_bytes(), starts))
    assert len(list(path.rglob("*.tfrecord"))) == shards
    return shard


@pytest.mark.parametrize(("offset", "more"), [(0, 0), (5, 0), (5, 9), (20, 0), (20, 9)])
@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("row", ["keyed", "keyless", "repeating"])
def test_a_doubled_range_comes_once(tmp_path, offset, more, row, bare):
    """Of a range of bytes that stands twice, each record comes once, wherever the range begins."""

    @sr.record
    class Keyless:
        ids: np.ndarray = sr.feature_list("int64")

    schema = Row if row == "keyed" else Keyless
    written = {
        "keyed": rows(40),
        "keyless": [Keyless([n]) for n in range(40)],
        "repeating": [Keyless([n // 2 if n in (5, 9) else n]) for n in range(40)],
    }[row]
    sr.write(written, tmp_path / "rows", schema=schema)
    shard = changed(tmp_path / "rows", lambda data, at: data[: at[20] + offset] + data[at[17] + offset + more :])
    found = list(sr.read_records(shard if bare else tmp_path / "rows", schema=schema, on_corrupt="skip"))
    if bare and (not more or row == "repeating"):
        # Records of one size may join without a break; nothing tells how many there were of those that repeat.
        assert [list(record.ids) for record in found if record in written] == [list(record.ids) for record in found]
        return
    assert found == written


def test_records_that_repeat_are_no_copies(tmp_path):
    """Equal records that were written are all there, but those that are damaged."""

    @sr.record
    class Keyless:
        ids: np.ndarray = sr.feature_list("int64")

    sr.write([Keyless([n % 3]) for n in range(40)], tmp_path / "rows")
    shard = changed(tmp_path / "rows", lambda data, at: data[: at[5] + 9] + bytes(30) + data[at[5] + 39 :])
    expected = [[n % 3] for n in range(40) if n not in (5, 6)]
    for path in (tmp_path / "rows", shard):
        found = [list(record.ids) for record in sr.read_records(path, schema=Keyless, on_corrupt="skip")]
        assert found == expected


@pytest.mark.parametrize("check", ["manifest", "full", "none"])
def test_a_shard_of_others_is_refused(tmp_path, check):
    """A shard that is whole, and not the one that was written, is refused, with as many records or with fewer."""
    sr.write(rows(20), tmp_path / "mine")
    sr.write([Row(f"x{n:02}", [7, 7]) for n in range(20)], tmp_path / "other")
    [other] = (tmp_path / "other").rglob("*.tfrecord")
    foreign = other.read_bytes()
    for data in (foreign, foreign[: len(foreign) // 20 * 5]):
        changed(tmp_path / "mine", lambda *_, data=data: data)
        cut = "" if data is foreign else ", or the shard was cut between two records"
        for read in (sr.read, sr.read_records):
            with pytest.raises(sr.ShardReadError, match=f"not those that were written{cut}; .*verify {tmp_path}/mine`"):
                read(tmp_path / "mine", check=check, on_corrupt="skip")


def test_sectors_that_cannot_be_read(tmp_path, caplog):
    """Where the disk fails in a shard, records beyond 64 KiB of the place are read, and the others named."""

    @sr.record
    class Row:
        key: str = sr.context(str, key=True)
        ids: np.ndarray = sr.feature_list("int64")
        payload: bytes = sr.context(bytes)

    sr.write([Row(f"k{n:02}", [n], bytes(28_000 + n)) for n in range(40)], tmp_path / "rows", shards=2)
    one, two = sorted((tmp_path / "rows").rglob("*.tfrecord"))
    ends = np.cumsum(16 + walk_frames(one, None).lengths).tolist()
    first, stop = 1 << 16, 1 << 17
    kept = [2 * n for n, (a, b) in enumerate(itertools.pairwise([0, *ends])) if b <= first or a >= stop]
    assert 10 < len(kept) < 20
    found = [f"k{n:02}" for n in [*range(1, 40, 2), *kept]]
    with bad_bytes(one, (70_000, 70_001)):
        for check in ("manifest", "full"):
            with pytest.raises(sr.ShardReadError, match=rf"{one.name}.*output error in bytes {first} to {stop}"):
                list(sr.read_records(tmp_path / "rows", check=check))
        assert keys(sr.read_records(tmp_path / "rows", on_corrupt="skip")) == found
        assert f"the disk cannot read bytes {first} to {stop} of the file" in caplog.text
        lost = 20 - len(kept)
        assert f"left out {lost} damaged records" in caplog.text
        before = sum(end <= first for end in ends)
        assert f"(records {before} to {before + lost - 1})" in caplog.text
        bare = keys(sr.read_records([one, two], schema=Row, on_corrupt="skip"))
        assert sorted(bare) == sorted(found)
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
