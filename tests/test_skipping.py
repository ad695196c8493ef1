"""Reading around damage: only the damaged records are missing, and it is said which and where."""

import logging
import shutil

import numpy as np
import pytest
import tensorflow as tf

import seqrecorder as sr
from seqrecorder.framing import walk_frames


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
