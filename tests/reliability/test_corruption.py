"""Bytes that change, vanish or come: no wrong record is delivered, and all damage is found."""

import functools
import os
import re
import shutil
import sys
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf
from decoders import SEEDS, Line, compare, line

import seqrecorder as sr
from seqrecorder.dataset.manifest import parse_manifest

TOKENS = ["{", "}", "null", "-1", "1e999", '"', "../", "[", ","]
RECORDS = [line(n, n % 2) for n in range(4)]


@pytest.fixture(scope="module", params=[None, "GZIP"])
def pristine(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("corruption") / "lines"
    sr.write(RECORDS, path, shards=2, compression=request.param)
    return path


@pytest.fixture
def lines(pristine, tmp_path):
    return shutil.copytree(pristine, tmp_path / "lines")


def shards_of(path):
    return sorted(path.rglob("*.tfrecord"))


def keys_of(element):
    return np.atleast_1d(element["key"].numpy()).tolist()


def in_graphs(lines):
    """Return what reads the records in a pipeline, which is made once for all states of the shards."""
    dataset = sr.read(lines, check="none")
    return lambda: (Line(one["key"].numpy().decode(), one["ids"].numpy(), one["x"].numpy()) for one in dataset)


SHARDWISE = [*RECORDS[::2], *RECORDS[1::2]]
READINGS = {
    "records, in full": (lambda lines: functools.partial(sr.read_records, lines, schema=Line, check="full"), RECORDS),
    "records": (lambda lines: functools.partial(sr.read_records, lines, schema=Line), RECORDS),
    "bare": (lambda lines: functools.partial(sr.read_records, shards_of(lines), schema=Line), SHARDWISE),
    "graphs": (in_graphs, RECORDS),
}


@pytest.mark.parametrize(("every", "step"), [(5, 25), pytest.param(1, 1, marks=pytest.mark.nightly)])
def test_every_truncation_of_a_dataset(lines, every, step, figure):
    """A shard that is cut at any byte is refused when it is opened, and without checks at the end of reading."""
    cuts, read = 0, in_graphs(lines)
    for shard in shards_of(lines):
        data = shard.read_bytes()
        for size in range(0, len(data), every):
            shard.write_bytes(data[:size])
            with pytest.raises(sr.ShardReadError, match=shard.name):
                sr.read_records(lines)
            cuts += 1
            try:
                records = list(sr.read_records(lines, schema=Line, check="none"))
            except sr.ShardReadError as error:
                assert shard.name in str(error)  # noqa: PT017 - or all is there, where GZIP's checksum alone was cut
            else:
                assert records == RECORDS
            if size % step:
                continue  # an iterator takes 50 ms
            try:
                assert list(read()) == RECORDS
            except tf.errors.InvalidArgumentError as error:
                assert shard.name in str(error)  # noqa: PT017 - as above
        shard.write_bytes(data)
    figure(13, "cuts of a dataset's shards", cuts, "an error")


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.nightly)])
def test_every_byte_of_a_dataset(lines, step, figure, monkeypatch):
    """No changed byte of a shard or of its lengths delivers a wrong record, and `verify` finds every one."""
    # The digest alone finds each; the records are looked at in the test of bare shards.
    monkeypatch.setattr(
        "seqrecorder.dataset.verify._verify_records", lambda _origin, _path, records, _lengths: (records, [])
    )
    flips = 0
    for file in [*shards_of(lines), *sorted(lines.rglob("*.lengths"))]:
        data = file.read_bytes()
        for place in range(0, len(data), step):
            for mask in (0x01, 0x80, 0xFF):
                file.write_bytes(data[:place] + bytes([data[place] ^ mask]) + data[place + 1 :])
                assert not sr.verify(lines), (file.name, place, mask)
                flips += 1
        file.write_bytes(data)
    figure(14, "changed bytes of a dataset's files", flips, "found by verify")


@pytest.mark.parametrize(
    ("reading", "step"),
    [
        *((reading, 7) for reading in READINGS if reading != "graphs"),
        ("graphs", 29),  # an iterator takes 50 ms
        *(pytest.param(reading, 1, marks=pytest.mark.nightly) for reading in READINGS),
    ],
)
def test_every_byte_is_read_right_or_refused(lines, reading, step, figure):
    """Whichever byte of a shard changes, the records that are delivered are those that were written."""
    flips = 0
    make, expected = READINGS[reading]
    read = make(lines)
    shard = shards_of(lines)[0]
    data = shard.read_bytes()
    for place in range(0, len(data), step):
        for mask in (0x01, 0x80, 0xFF):
            shard.write_bytes(data[:place] + bytes([data[place] ^ mask]) + data[place + 1 :])
            delivered = []
            try:
                for record in read():
                    delivered.append(record)  # noqa: PERF402 - what came before an error counts
            except (sr.ShardReadError, tf.errors.InvalidArgumentError):
                assert delivered == expected[: len(delivered)], (place, mask)
            else:  # the header and the trailer of GZIP hold bytes that mean nothing
                assert delivered == expected, (place, mask)
            flips += 1
    figure(14, "changed bytes of a shard, read", flips, "an error")


def test_every_cut_of_a_bare_shard(pristine, tmp_path, figure):
    """A bare shard that is cut anywhere but between two records is refused, whatever its compression."""
    data = shards_of(pristine)[0].read_bytes()
    plain = sr.info(pristine).compression is None
    ends = {0}
    while plain and max(ends) < len(data):
        ends.add(max(ends) + 16 + int.from_bytes(data[max(ends) : max(ends) + 8], "little"))
    bare = tmp_path / "bare"
    for size in range(len(data)):
        bare.write_bytes(data[:size])
        if (size in ends) if plain else size == 0:
            continue  # an empty file says of no compression that it has it
        with pytest.raises(sr.ShardReadError, match="bare"):
            sr.read_records(bare, schema=Line)
    figure(13, "cuts of a bare shard inside a record", len(data) - len(ends), "an error")


def test_appended_doubled_and_swapped(lines, figure):
    """Shards with more than they had, twice what they had, or what another had, are refused and found."""
    one, two = shards_of(lines)
    first, second = one.read_bytes(), two.read_bytes()
    for changed in (first + b"\0", first + first, first + second, second, b"", first[::-1]):
        one.write_bytes(changed)
        assert not sr.verify(lines)
        try:
            assert list(sr.read_records(lines, schema=Line, check="full")) == RECORDS
        except sr.ShardReadError as error:
            assert one.name in str(error)  # noqa: PT017 - reading may refuse or be right, and nothing else
        else:
            pytest.fail("such a shard is refused")
    figure(14, "shards appended to, doubled, swapped, emptied, reversed", 6, "found by verify")


def test_read_errors_say_everything(lines):
    """An error of reading names dataset, shard, record and offset, and the commands to run next."""
    shard = shards_of(lines)[1]
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 0xFF
    shard.write_bytes(data)
    for read in (
        lambda: list(sr.read_records(lines)),
        lambda: sr.read_records(lines, check="full"),
        lambda: sr.read(lines, check="full"),
        lambda: list(sr.read(lines)),
        lambda: list(sr.read(lines, batch=sr.Bucket(2), shuffle=3, check="none")),
        lambda: tf.function(lambda batches: next(iter(batches)))(sr.read(lines, batch=sr.Pad(4))),
    ):
        with pytest.raises((sr.ShardReadError, tf.errors.InvalidArgumentError)) as error:
            read()
        message = str(error.value)
        assert str(shard) in message
        assert "record" in message
        assert "byte" in message or "GZIP" in message
        assert f"`seqrecorder verify {lines}`" in message
        assert "`seqrecorder salvage`" in message


def rewritten(shard, change):
    """Write a shard anew, with the CRCs of what its records have become."""
    records = change([record.numpy() for record in tf.data.TFRecordDataset(str(shard))])
    with tf.io.TFRecordWriter(str(shard)) as writer:
        for record in records:
            writer.write(record)


DAMAGES = {
    "data": lambda shard, data: shard.write_bytes(data[:40] + bytes([data[40] ^ 0xFF]) + data[41:]),
    "a cut": lambda shard, data: shard.write_bytes(data[:-5]),
    "nothing left": lambda shard, _: shard.write_bytes(b""),
    "one record less": lambda shard, _: rewritten(shard, lambda records: records[:-1]),
    "one record more": lambda shard, _: rewritten(shard, lambda records: [*records, records[0]]),
    "no message": lambda shard, _: rewritten(shard, lambda records: [b"\xff" + records[0][1:], *records[1:]]),
    "another field": lambda shard, _: rewritten(shard, lambda records: [r.replace(b"ids", b"idz") for r in records]),
    "lengths": lambda shard, _: shard.with_suffix(".lengths").write_bytes(b"\1" * 7),
}
WAYS = {
    "records": lambda path: list(sr.read_records(path)),
    "records, unchecked": lambda path: list(sr.read_records(path, check="none")),
    "records, in full": lambda path: list(sr.read_records(path, check="full")),
    "single": lambda path: list(sr.read(path)),
    "padded, unchecked": lambda path: list(sr.read(path, batch=sr.Pad(3), check="none")),
    "dealt": lambda path: list(sr.read(path, batch=sr.Unroll(2, 1))),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_error_of_reading_names_the_dataset_and_what_to_do(tmp_path, damage, figure):
    """However damaged data are read, the error names the dataset and the command, and the shard where it is known."""
    path = tmp_path / "lines"
    sr.write(RECORDS, path, shards=2)
    shard = shards_of(path)[1]
    DAMAGES[damage](shard, shard.read_bytes())
    for way in WAYS if damage != "lengths" else ["dealt"]:  # the others do not need them
        with pytest.raises((sr.ShardReadError, sr.RecordError, tf.errors.InvalidArgumentError)) as error:
            WAYS[way](path)
        message = str(error.value)
        assert f"`seqrecorder verify {path}`" in message, way
        assert "record" in message, way
        if damage in ("no message", "another field"):  # in graphs the command that is named tells the place
            if way in ("records", "records, unchecked"):
                assert f"{shard}, record 0 at byte 0" in message, way
            assert re.search(rf"{shard.name}: record 0 at byte 0\b", "\n".join(map(str, sr.verify(path).problems)))
        else:
            assert shard.stem in message, way
        if damage == "data":
            assert re.search(r"record\W+0\W", message), way
        figure(15, "ways to read damaged data", 1, "dataset, record and command named")


def test_other_records_of_the_same_size_are_found(tmp_path):
    """A shard in the place of another of the same size and number of records is refused by `check="full"`."""
    path = tmp_path / "lines"
    sr.write([line(number, 1) for number in range(4)], path, shards=2)
    one, two = shards_of(path)
    assert one.stat().st_size == two.stat().st_size
    shutil.copy(one, two)
    for read in (sr.read, sr.read_records):
        with pytest.raises(
            sr.ShardReadError, match=rf"{two.name}: .*SHA-256 is not the manifest's.*seqrecorder verify"
        ):
            read(path, check="full")


def test_a_vanished_shard_is_an_error(lines):
    """A shard that vanishes while others are read is an error that names it, and does not hang."""
    dataset = sr.read(lines, batch=sr.Pad(1))
    shards_of(lines)[1].unlink()
    with pytest.raises(tf.errors.NotFoundError, match=shards_of(lines)[0].name.replace("00000-", "00001-", 1)):
        list(dataset)


PEAK = """
import re, resource
from pathlib import Path

def peak():
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return int(re.search(r"VmHWM:\\s+(\\d+)", status.read_text())[1]) / 1024

def peak_from_here():
    forget = Path("/proc/self/clear_refs")
    if forget.exists():
        forget.write_text("5")  # else what an import took would hide what is taken later
    return peak()
"""
"""What a process takes at most, in MiB."""

FORGED = """
import struct, sys, time, zlib
from pathlib import Path
import numpy as np
import seqrecorder as sr
from seqrecorder.storage.crc32c import masked_crc32c

@sr.record
class Line:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int64")

place, powers = Path(sys.argv[1]), map(int, sys.argv[2:])
sr.write([Line("a", [1, 2]), Line("b", [3])], place / "lines")
[shard] = (place / "lines" / "train").glob("*.tfrecord")
whole = shard.read_bytes()
first = 16 + int.from_bytes(whole[:8], "little")

def attempts_on_bare(bare):
    yield lambda: sr.read(bare, schema=Line)
    yield lambda: list(sr.read_records(bare, schema=Line))
    yield lambda: sr.verify(bare)
    yield lambda: sr.salvage(bare, place / f"salvaged{power}{name}{time.monotonic_ns()}")

def attempts():
    yield lambda: sr.read(place / "lines", check="full")
    yield lambda: list(sr.read(place / "lines"))
    yield lambda: list(sr.read_records(place / "lines"))
    yield lambda: list(sr.read_records(place / "lines", on_corrupt="skip"))
    if power >= 35 and power % 9 == 0:
        yield lambda: sr.write([Line("c", [4])], place / "lines", append=True)
    yield lambda: sr.verify(place / "lines")

list(sr.read(place / "lines")); sr.verify(place / "lines"); sr.salvage(shard, place / "warm")
before = peak_from_here()
slowest, tried = 0.0, 0
for power in powers:
    length = min(2**power, 2**64 - 1).to_bytes(8, "little")
    [crc] = masked_crc32c(np.frombuffer(length, np.uint8)[None])
    header = length + struct.pack("<I", crc)
    second = whole[:first] + header + whole[first + 12:]
    for name, data in {"short": header, "first": header + whole[12:], "second": second}.items():
        for compress in (False, True):
            bare = place / "bare"
            bare.write_bytes(zlib.compress(data, wbits=31) if compress else data)
            shard.write_bytes(data)
            for attempt in [*attempts_on_bare(bare), *(() if compress else attempts())]:
                start = time.process_time()
                try:
                    result = attempt()
                    assert not hasattr(result, "ok") or not result.ok, (power, name)
                except sr.SeqrecorderError:
                    pass
                slowest, tried = max(slowest, time.process_time() - start), tried + 1
print(tried, slowest, peak() - before)
"""


@pytest.mark.parametrize(
    "powers",
    [(0, 3, 24, 31, 32, 45, 64), pytest.param(range(65), marks=pytest.mark.nightly)],
    ids=["edges", "all"],
)
def test_forged_lengths(powers, tmp_path, warm_python, figure):
    """A length of 2^0 to 2^64 with a valid CRC is an error, never a signal, in a processor second and 64 MiB."""
    done = warm_python.run([sys.executable, "-c", PEAK + FORGED, tmp_path, *powers], text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    tried, slowest, megabytes = map(float, done.stdout.split())
    assert slowest < 1
    assert megabytes < 64
    figure(16, "calls on forged frame lengths", int(tried), "an error")


BOMB = """
import gzip, struct, sys
from pathlib import Path
import numpy as np
import seqrecorder as sr
from seqrecorder.storage.crc32c import masked_crc32c

@sr.record
class Line:
    ids: np.ndarray = sr.feature_list("int64")

place, mebibytes = Path(sys.argv[1]), int(sys.argv[2])
sr.write([Line([1, 2])], place / "warm")
list(sr.read(place / "warm")); sr.verify(place / "warm"); sr.salvage(place / "warm", place / "warmer")
for size in (0, mebibytes << 20):
    bomb = place / f"bomb{size}"
    with gzip.open(bomb, "wb", compresslevel=1) as file:
        if size:
            length = size.to_bytes(8, "little")
            file.write(length + struct.pack("<I", masked_crc32c(np.frombuffer(length, np.uint8)[None])[0]))
        for _ in range(mebibytes):
            file.write(bytes(1 << 20))
before = peak_from_here()
for size in (0, mebibytes << 20):
    bomb = place / f"bomb{size}"
    assert not sr.verify(bomb)
    assert not sr.verify(bomb, schema=Line)
    for check in ("full", "manifest"):
        try:
            sr.read(bomb, schema=Line, check=check)
        except sr.ShardReadError:
            pass
        else:
            raise AssertionError("expected an error")
    assert sr.salvage(bomb, place / f"salvaged{size}").records == 0
print(peak() - before)
"""


@pytest.mark.parametrize(("mebibytes", "most"), [(72, 64), pytest.param(192, 128, marks=pytest.mark.nightly)])
def test_gzip_bombs(mebibytes, most, tmp_path, warm_python, figure):
    """A GZIP bomb, framed or not, stops verify, salvage and full checks within 128 MiB."""
    done = warm_python.run([sys.executable, "-c", PEAK + BOMB, str(tmp_path), str(mebibytes)], text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert float(done.stdout) < most
    figure(17, f"MiB that a GZIP bomb of {mebibytes} MiB took", round(float(done.stdout)), f"at most {most}")


def mutated(data, choices):
    """Return a record of which up to three bytes were changed, removed or put in."""
    for kind, place, value in choices:
        place %= len(data)  # noqa: PLW2901 - no record is empty
        if kind == 0:
            del data[place]
        elif kind == 1:
            data.insert(place, value)
        else:
            data[place] = value
    return bytes(data)


@pytest.mark.parametrize("mutants", [2500, pytest.param(1_000_000, marks=pytest.mark.nightly)])
def test_mutated_records(mutants, random, figure):
    """A mutated record is decoded by Python and by the graph parser to the same values, or refused by both."""
    size, outcomes = min(mutants, 25_000), Counter()
    for _ in range(mutants // size):
        choices = random.integers(0, [9, 1 << 30, 256], (size, 3, 3)).tolist()
        rows, counts = random.integers(0, len(SEEDS), size).tolist(), random.integers(1, 4, size).tolist()
        outcomes += compare(
            mutated(bytearray(SEEDS[row]), choice[:count])
            for row, count, choice in zip(rows, counts, choices, strict=True)
        )
    assert min(outcomes.values()) > mutants // 100, outcomes
    figure(17, "mutated records", mutants, "protobuf's answer, or an error")


@pytest.mark.parametrize("mutants", [5000, pytest.param(50_000, marks=pytest.mark.nightly)])
def test_mutated_manifests(pristine, mutants, random, figure):
    """A mutated manifest is a manifest or a ManifestError, and names nothing outside its directory."""
    text = (pristine / "manifest.json").read_text()
    refused = 0
    for _ in range(mutants):
        characters = list(text)
        for _ in range(random.integers(1, 5)):
            place = int(random.integers(len(characters)))
            match random.integers(4):
                case 0:
                    characters[place] = chr(random.integers(1, 0x300))
                case 1:
                    del characters[place : place + random.integers(1, 30)]
                case 2:
                    characters.insert(place, str(random.choice(TOKENS)))
                case 3:
                    other = int(random.integers(len(characters)))
                    characters[place:place] = characters[other : other + 40]
        try:
            manifest = parse_manifest("".join(characters), pristine)
        except sr.ManifestError:
            refused += 1
            continue
        for split in manifest.splits.values():
            for shard in split.shards:
                assert manifest.shard_path(split.name, shard).parent.parent == pristine
        assert all(path.is_relative_to(pristine) for path in manifest.assets.values())
    assert refused > mutants // 10
    figure(24, "mutated manifests", mutants, "ManifestError")


@pytest.mark.parametrize("trials", [100, pytest.param(1000, marks=pytest.mark.nightly)])
def test_salvage_after_a_hole(trials, tmp_path, random, figure):
    """After one hole of up to 4 KiB, headers included, at least 99 % of the records outside it are recovered."""
    from seqrecorder.storage.tfrecord import find_records, read_batches

    records = [random.bytes(int(random.integers(0, 300))) for _ in range(150)]
    shard = tmp_path / "shard"
    with tf.io.TFRecordWriter(str(shard)) as writer:
        for record in records:
            writer.write(record)
    data = shard.read_bytes()
    ends = np.cumsum([0] + [16 + len(record) for record in records])
    lost = expected = 0
    for trial in range(trials):
        size = int(random.integers(1, 4097))
        start = int(random.integers(0, len(data) - size))
        filling = (bytes(size), random.bytes(size), b"")[trial % 3]
        shard.write_bytes(data[:start] + filling + data[start + size :])
        with shard.open("rb") as file:
            findings = find_records(file, shard.stat().st_size)
            found = [record for batch in read_batches(file, findings.starts, findings.lengths) for record in batch]
        untouched = [r for r, a, b in zip(records, ends, ends[1:], strict=False) if b <= start or a >= start + size]
        left = iter(records)
        assert all(record in left for record in found)  # in their order, and each of them once
        expected += len(untouched)
        lost += len(untouched) - sum(record in set(found) for record in untouched)
    assert lost <= expected / 100
    figure(
        22,
        f"holes of up to 4 KiB ({lost / expected:.3%} of the records outside lost)",
        trials,
        "99 % and more recovered",
    )


PIPED = ("manifest.json", "train/train-00000-of-00002.tfrecord", "train/train-00000-of-00002.lengths")


@pytest.mark.parametrize("name", PIPED)
def test_a_pipe_in_the_place_of_a_file_is_refused(lines, name, tmp_path):
    """Nothing waits for a pipe that somebody put into a dataset: it is an error, a problem or a loss."""
    (lines / name).unlink()
    os.mkfifo(lines / name)
    for read in (sr.read, sr.read_records):
        with pytest.raises(sr.ManifestError, match="a pipe or a device"):
            read(lines)
    assert not sr.verify(lines)
    if name == PIPED[0]:
        with pytest.raises(sr.ManifestError):
            sr.salvage(lines, tmp_path / "salvaged")
    else:
        assert sr.salvage(lines, tmp_path / "salvaged").records == (4 if name == PIPED[2] else 2)


def test_counts_of_a_manifest_cost_nothing(pristine):
    """Where a manifest says that a shard held a trillion records, salvage takes no memory and no time for them."""
    path = pristine.parent / f"trillion{pristine.name}"
    shutil.copytree(pristine, path)
    text = (path / "manifest.json").read_text()
    (path / "manifest.json").write_text(text.replace('"records": 2', f'"records": {10**12}'))
    found = sr.salvage(path, path.parent / "salvaged")
    assert (found.records, found.lost) == (4, 2 * 10**12 - 4)


CLAIMS = """
import sys, zlib
import attrs, tensorflow as tf
import seqrecorder as sr

def chunk(kind, data):
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

side = 30_000
size = side.to_bytes(4, "big")
pixels = zlib.compress(bytes(side + 1))
head, end = chunk(b"IHDR", size + size + bytes([8, 0, 0, 0, 0])), chunk(b"IEND", b"")
png = b"\\x89PNG\\r\\n\\x1a\\n" + head + chunk(b"IDAT", pixels) + end
jpeg = bytearray(tf.io.encode_jpeg(tf.zeros([8, 8, 1], tf.uint8)).numpy())
at = jpeg.index(b"\\xff\\xc0") + 5
jpeg[at:at + 4] = (60_000).to_bytes(2, "big") * 2
tensor = bytes.fromhex("0801" "120812060880808080" "02" "2a04" "0000803f")
image = {"dtype": "uint8", "shape": (4, 4, 1)}
bombs = {
    "png": (png, {**image, "storage": "png"}),
    "jpeg": (bytes(jpeg), {**image, "storage": "jpeg"}),
    "tensor": (tensor, {"dtype": "float32", "shape": (4,), "storage": "tensor"}),
    "ragged tensor": (tensor, {"dtype": "float32", "shape": (None,), "storage": "tensor"}),
}

def tried(data, options, path):
    schema = sr.Schema.of(attrs.make_class("Row", {"x": sr.context(**options)}))
    example = tf.train.SequenceExample()
    example.context.feature["x"].bytes_list.value.append(data)
    with tf.io.TFRecordWriter(path) as file:
        file.write(example.SerializeToString())
    refused = 0
    for read in (lambda: list(sr.read(path, schema=schema)), lambda: list(sr.read_records(path, schema=schema))):
        try:
            read()
        except (tf.errors.InvalidArgumentError, sr.SeqrecorderError):
            refused += 1
    return refused + (not sr.verify(path, schema=schema).ok)

place = sys.argv[1] + "/bomb"
for data, options in bombs.values():
    tried(b"", options, place)
before = peak_from_here()
for name, (data, options) in bombs.items():
    assert tried(data, options, place) == 3, name
print(peak() - before)
"""


def test_sizes_are_looked_at_before_they_are_believed(tmp_path, warm_python, figure):
    """A tensor, a PNG and a JPEG that claim sizes of up to 4 GiB are refused within 128 MiB, by every reader."""
    done = warm_python.run([sys.executable, "-c", PEAK + CLAIMS, str(tmp_path)], text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert float(done.stdout) < 128
    figure(33, "MiB that tensors and images of forged sizes took", round(float(done.stdout)), "at most 128")
