"""Left out is left out: whatever is damaged, no record comes twice, and those of sound shards keep their order."""

import itertools
import shutil

import numpy as np
import pytest

import seqrecorder as sr
from seqrecorder.dataset.checked_shards import resolve
from seqrecorder.storage.shard_reader import RecordReader

COUNT = 60


@sr.record
class Row:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int64")


LENGTHS = {"one length": [2] * COUNT, "lengths": [n * n * 7 % 23 for n in range(COUNT)]}
SETS = {
    (kind, shards, compression): {"shards": shards, "compression": compression}
    for kind, shards, compression in (
        ("one length", 1, None),
        ("one length", 3, None),
        ("lengths", 1, None),
        ("lengths", 3, None),
        ("lengths", 2, "GZIP"),
    )
}


def rows(kind):
    return [Row(f"k{n:02}", np.arange(steps)) for n, steps in enumerate(LENGTHS[kind])]


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    place = tmp_path_factory.mktemp("left out")
    for number, (name, options) in enumerate(SETS.items()):
        sr.write(rows(name[0]), place / str(number), **options)
    return place


def frames(data):
    """Return where each frame begins, and where the last one ends."""
    ends = [0]
    while ends[-1] < len(data):
        ends.append(ends[-1] + 16 + int.from_bytes(data[ends[-1] : ends[-1] + 8], "little"))
    return ends


def standing(data, sound):
    """Return which of the sound frames stand in the data, but for those in the body of a damaged record.

    A damaged record is one whose length is sound, and which another frame follows. Its body may hold whole frames, as a
    record may contain a file, so none of them counts.
    """
    headers, at, found = {frame[:12] for frame in sound}, 0, set()

    def end(at):
        stop = at + 16 + int.from_bytes(data[at : at + 8], "little")
        return stop if data[at : at + 12] in headers and stop <= len(data) else 0

    while at < len(data):
        stop = end(at)
        if data[at:stop] in sound:
            found.add(data[at:stop])
        elif not (stop and end(stop)):
            stop = at + 1
        at = stop
    return found


def damaged(random, data, at):
    """Return bytes with a hole, of which some are doubled, moved or missing, or to which some are added."""
    a, b, c, d = at
    size = min(b - a, d - c)
    return [
        lambda: data[:a] + random.bytes(b - a) + data[b:],
        lambda: data[:a] + bytes(b - a) + data[b:],
        lambda: data[:a] + bytes(x ^ 1 for x in data[a : a + 1]) + data[a + 1 :],
        lambda: data[:a] + random.bytes(100) + data[a:],
        lambda: data[:d],
        lambda: data[:a] + data[b:],
        lambda: data[:b] + data[a:],
        lambda: data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:],
        lambda: data[:a] + data[c : c + size] + data[a + size :],
        lambda: data[b:] + data[:b],
    ][random.integers(10)]()


def damage(random, shard, kind, compression):
    """Damage a shard one to three times, at times at the same bytes of frames."""
    data = shard.read_bytes()
    if compression is None and random.random() < 0.2:
        # Nothing tells where records of one length and size stood that move at the same bytes of theirs.
        starts, offset = frames(data), int(random.integers(30))
        choices = random.integers(0, len(starts), 4) if kind != "one length" else random.integers(0, len(starts), 1)
        at = sorted(min(len(data), starts[number] + offset) for number in choices.tolist())
        data = damaged(random, data, [*at, *at, *at, *at][:4])
    for _ in range(random.integers(1, 4)):
        a, b, c, d = sorted(random.integers(0, len(data) + 1, 4).tolist())
        if random.random() < 0.5:
            b, d = min(b, a + 300), min(d, c + 300)
        data = damaged(random, data, (a, b, c, d))
    shard.write_bytes(data)
    return data


def shard_number(path):
    return int(path.name.split("-")[1])


@pytest.mark.parametrize("trials", [50, pytest.param(3000, marks=pytest.mark.nightly)])
def test_what_is_left_comes_once(pristine, tmp_path, trials, seed, figure):
    """After one to three damages in each of several shards the other records come once, those of sound shards in order.

    A shard in which nothing is broken any more, and which is not the one that was written, may be refused.
    """
    delivered = whole = refused = 0
    for trial in range(trials):
        random = np.random.default_rng([seed, trial])
        number = trial % len(SETS)
        kind, count, compression = list(SETS)[number]
        written = rows(kind)
        lines = shutil.copytree(pristine / str(number), tmp_path / "lines")
        expected, broken = set(), set()
        for shard in sorted(lines.rglob("*.tfrecord")):
            before = shard.read_bytes()
            if random.random() < 0.3:
                continue
            after = damage(random, shard, kind, compression)
            broken |= {shard_number(shard)} if before != after else set()
            ends = frames(before) if compression is None else []
            cut = {before[start:stop] for start, stop in itertools.pairwise(ends)}
            expected |= {frame[12:-4] for frame in standing(after, cut)}
        try:
            origin = resolve(lines, None, on_corrupt="skip")
        except sr.ShardReadError as error:
            assert "not those that were written" in str(error)  # noqa: PT017 - nothing but that is refused
            refused += 1
            shutil.rmtree(lines)
            continue
        found = [data for file in origin.files for window in RecordReader(file.path, compression) for data in window]
        assert len(set(found)) == len(found), trial
        whole, delivered = whole + len(expected), delivered + len(expected & set(found))
        if broken:
            with pytest.raises(sr.OptionError, match="index_name"):
                sr.read(lines, on_corrupt="skip", index_name="at")
        records = list(sr.read_records(lines, schema=Row, on_corrupt="skip"))
        positions = [int(record.key[1:]) for record in records]
        assert records == [written[position] for position in positions], trial
        assert len(records) == len(found), trial
        sound = [position for position in range(COUNT) if position % count not in broken]
        assert positions[: len(sound)] == sound, trial
        assert not {position % count for position in positions[len(sound) :]} - broken, trial
        shutil.rmtree(lines)
    assert delivered == whole
    assert refused < trials / 4
    figure(31, "datasets with shards damaged up to three times", trials, "each once")
