"""What is given is what is written: whatever becomes of a record and of its arrays afterwards."""

import itertools

import attrs
import numpy as np
import pytest
from workers_at_once import at_once
from written_records import Cut, Loose

import seqrecorder as sr
from seqrecorder.dataset.manifest import read_manifest


@pytest.fixture(autouse=True)
def workers_take_over(monkeypatch):
    at_once(monkeypatch.setattr)


def held(record):
    """Return what a record holds, as values that nothing can change."""
    bag = record.bag.items() if isinstance(record.bag, dict) else zip(*record.bag, strict=True)
    return (
        record.key,
        int(record.rank),
        bytes(record.blob),
        np.asarray(record.matrix, "float32").tobytes(),
        tuple(np.asarray(record.ids).tolist()),
        tuple(np.asarray(record.words, object).tolist()),
        tuple(map(bytes, np.asarray(record.blobs, object).tolist())),
        tuple(tuple(np.asarray(step).tolist()) for step in record.ragged),
        tuple(sorted((int(index), float(value)) for index, value in bag)),
    )


class Source:
    """Records of a program that keeps few buffers, and what each held when it was given."""

    def __init__(self, seed):
        self.name, self.given = f"s{seed}", []
        rng = self.rng = np.random.default_rng([26, *seed])
        self.large = np.zeros(400, np.int64)
        self.arrays = [np.zeros(int(rng.integers(1, 9)), np.int64) for _ in range(int(rng.integers(1, 5)))]
        self.matrix, self.list, self.steps = np.zeros((2, 2), np.float32), [], [np.zeros(2, np.int32)]
        self.words, self.blobs = np.array(["a", "b"], object), np.array([bytearray(b"x"), b"y"], object)
        self.octets, self.mapping = bytearray(4), {1: 0.5}
        self.indices, self.weights = np.array([1, 5]), np.array([0.5, 1.5])
        self.one = Loose("")

    def fill(self, number):
        """Put other values into every buffer."""
        rng = self.rng
        for array in (*self.arrays, self.large, self.matrix.reshape(-1), self.steps[0]):
            array[:] = rng.integers(0, 1000, array.size)
        self.list[:] = rng.integers(0, 99, int(rng.integers(0, 5))).tolist()
        if rng.random() < 0.3:
            self.arrays[0].resize(int(rng.integers(1, 12)), refcheck=False)
        self.words[:] = [f"{self.name}-{number}", "ö"]
        self.blobs[0][:] = b"%d" % number
        self.octets[:] = b"%04d" % number
        self.mapping[1 + number % 30] = float(number)
        self.weights[:] = number, number + 1

    def ids(self):
        start, length = self.rng.integers(0, 300), self.rng.integers(0, 9)
        choices = [*self.arrays, self.large[start : start + length], self.list, self.large[start:][::-1][:length]]
        return choices[self.rng.integers(len(choices))]

    def values(self, number):
        bags = [self.mapping, sr.SparseVector(self.indices, self.weights, 32)]
        return {
            "key": f"{self.name}-{number}",
            "rank": number,
            "blob": self.octets,
            "matrix": self.matrix,
            "ids": self.ids(),
            "words": self.words,
            "blobs": self.blobs,
            "ragged": self.steps,
            "bag": bags[self.rng.integers(2)],
        }

    def __iter__(self):
        reuses = self.rng.random() < 0.5
        for number in range(int(self.rng.integers(2, 40))):
            self.fill(number)
            values = self.values(number)
            record = self.one if reuses else Loose(values["key"])
            for name, value in values.items():
                setattr(record, name, value)
            if self.rng.random() < 0.5:
                record = Loose(**{a.name: getattr(record, a.name) for a in attrs.fields(Loose)})
            self.given.append(held(record))
            yield record
            self.fill(-number)
        self.one.ids = self.arrays = None


def write_one_by_one(sources, path):
    with sr.Writer(path, Loose) as writer:
        for record in itertools.chain(*sources):
            writer.write(record)
            record.rank = -1


def write_lists_and_iterators(sources, path):
    """Lists are refilled once they are given, and generators that come next refill what lists hold."""
    first, *rest = sources
    listed = [attrs.evolve(record, ids=np.array(record.ids), words=np.array(["w"], object)) for record in first]
    first.given = list(map(held, listed))

    def spoiling():
        for record in itertools.chain(*rest):
            for other in listed:
                other.ids[:], other.rank = -1, -1
            yield record

    with sr.Writer(path, Loose) as writer:
        writer.write_all({"train": listed, "eval": spoiling()})
        again = [Loose(f"again {number}", ids=np.array([number])) for number in range(5)]
        rest[-1].given += map(held, again)
        writer.write_all(again)
        for record in again:
            record.ids[:] = -1


WAYS = {
    "write": lambda sources, path: sr.write(itertools.chain(*sources), path),
    "write with workers": lambda sources, path: sr.write(itertools.chain(*sources), path, workers=2),
    "write with a function": lambda sources, path: sr.write(
        itertools.chain(*sources), path, splits={"train": 0.5, "eval": 0.5}, split_by=lambda record: int(record.rank)
    ),
    "mapping": lambda sources, path: sr.write({f"s{i}": source for i, source in enumerate(sources)}, path),
    "Writer.write": write_one_by_one,
    "write_all": write_lists_and_iterators,
}


@pytest.mark.parametrize(
    "each", [34, pytest.param(500, marks=pytest.mark.nightly)], ids=["200 sources", "3000 sources"]
)
def test_no_record_has_the_values_of_another(tmp_path, seed, figure, each):
    """Sources reuse, resize and share buffers and records; each record is stored as it was when it was given."""
    tried, wrong = 0, []
    for number, (way, write) in enumerate(WAYS.items()):
        sources = [Source([seed, number, i]) for i in range(each)]
        write(sources, tmp_path / str(number))
        given = {row[0]: row for source in sources for row in source.given}
        splits = read_manifest(tmp_path / str(number)).splits
        records = itertools.chain(*(sr.read_records(tmp_path / str(number), split) for split in splits))
        stored = {record.key: held(record) for record in records}
        wrong += [(way, key) for key in given.keys() | stored.keys() if given.get(key) != stored.get(key)]
        tried += each
    figure("26", "sources that reuse their buffers", tried, "its own values")
    assert not wrong


def test_columns_that_are_filled_again(tmp_path, random):
    """`write_batch` has encoded its columns when it returns, and what waited before it."""
    ids, steps, given = np.zeros(40, np.int64), np.zeros(4, np.int64), []
    with sr.Writer(tmp_path / "c", Loose) as writer:
        for number in range(50):
            writer.write(Loose(f"one {number}", ids=ids))
            given.append(tuple(ids.tolist()))
            ids[:], steps[:] = random.integers(0, 9, 40), random.multinomial(40, np.full(4, 0.25))
            writer.write_batch({"key": [f"{number} {i}" for i in range(4)], "ids": (ids, steps)})
            given += map(tuple, np.split(ids.copy(), np.cumsum(steps)[:-1]))
    assert [tuple(record.ids.tolist()) for record in sr.read_records(tmp_path / "c")] == [
        tuple(map(int, row)) for row in given
    ]


@pytest.mark.parametrize("workers", [1, 2])
def test_hooks_that_share_a_buffer(tmp_path, workers):
    """What `load` reads into one array, and what `split` cuts into one, is stored as it was then."""
    shared = np.arange(3)
    sources = [Cut(f"k{size}", ids=shared, size=size) for size in range(2, 40)]
    sr.write(iter(sources), tmp_path / "c", workers=workers)
    expected = [
        (f"k{size}", number, [100 * size + 2 * number + i + 1000 * number for i in range(2)])
        for size in range(2, 40)
        for number in range(size // 2)
    ]
    stored = [(record.key, record.chunk, record.ids.tolist()) for record in sr.read_records(tmp_path / "c")]
    assert stored == expected
    assert shared.tolist() == [0, 1, 2], "the caller's array is left alone"


def test_lines_of_the_csv_are_of_the_moment(tmp_path):
    """Attributes that are not stored are written into the CSV as they were, though they are objects that change."""
    note = ["nobody"]

    def records():
        for number in range(20):
            note[0] = f"n{number}"
            yield Loose(f"k{number}", note=note)
            note.append("late")
            del note[1:]

    sr.write(records(), tmp_path / "c", csv=True)
    lines = (tmp_path / "c/train/examples.csv").read_text().splitlines()[1:]
    assert [f"n{number}" in line for number, line in enumerate(lines)] == [True] * 20


@sr.record
class Row:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int64")
    steps: list = sr.feature_list("float32", shape=(None,), align=None)


@pytest.mark.parametrize("seed", range(6))
def test_no_dictionary_has_the_values_of_another(tmp_path, seed):
    """Dictionaries of lists and arrays that are filled again, in lists and of generators, are stored as they were."""
    rng = np.random.default_rng([27, seed])
    ids, array, steps = [], np.zeros(3, np.int64), [[0.0], np.zeros(2, np.float32)]
    row, given = {}, {"a": [], "b": [], "c": []}
    listed = [{"key": f"a{number}", "ids": [number], "steps": [[0.5]]} for number in range(3)]
    given["a"] = [("a0", [0], [[0.5]]), ("a1", [1], [[0.5]]), ("a2", [2], [[0.5]])]

    def rows(split):
        for number in range(int(rng.integers(1, 30))):
            for other in listed:
                other["ids"][:], other["key"] = [-1], "x"
            ids[:], array[:] = rng.integers(0, 99, int(rng.integers(0, 5))).tolist(), rng.integers(0, 99, 3)
            steps[0][:], steps[1][:] = rng.integers(0, 9, int(rng.integers(0, 3))).tolist(), number
            held = ids if rng.random() < 0.5 else array
            row.update(key=f"{split}{number}", ids=held, steps=steps)
            given[split].append((row["key"], list(map(int, held)), [list(map(float, step)) for step in steps]))
            yield row if rng.random() < 0.5 else dict(row)

    sr.write({"a": listed, "b": rows("b"), "c": rows("c")}, tmp_path / "d", schema=Row, workers=1)
    for split, expected in given.items():
        got = [(r.key, r.ids.tolist(), [s.tolist() for s in r.steps]) for r in sr.read_records(tmp_path / "d", split)]
        assert got == expected


@pytest.mark.parametrize("good", [0, 1, 40])
def test_a_source_of_dictionaries_that_fails_is_named(tmp_path, good):
    """What a generator of dictionaries raises is said with the number of its record, and nothing is published."""

    def rows():
        for number in range(good):
            yield {"key": str(number), "ids": [], "steps": []}
        raise ValueError("gone")

    with pytest.raises(sr.SourceError, match=f"failed at record {good}: ValueError: gone; nothing was published"):
        sr.write(rows(), tmp_path / "d", schema=Row)
    assert not (tmp_path / "d").exists()
