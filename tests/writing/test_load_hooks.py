"""What the hooks of a class do between a source and the disk."""

import gc
import re
import weakref

import attrs
import numpy as np
import pytest
from faults import names
from workers_at_once import at_once

import seqrecorder as sr

loaded = []  # weak references to what `load` read


@sr.record
class Recording:
    key: str = sr.context(str, key=True)
    chunk: int = sr.context("int64", chunk=True, default=0)
    signal: np.ndarray | None = sr.feature_list("int64", deferred=True, default=None)

    def load(self, size=3, fail=()):
        if self.key in fail:
            raise OSError("no such sound")
        if self.key == "empty":
            raise sr.SkipRecord
        self.signal = np.arange(size, dtype=np.int64)
        loaded.append(weakref.ref(self.signal))


@sr.record
class Chunked(Recording):
    def split(self, length=2, late=False, same=False):
        for number, start in enumerate(range(0, len(self.signal), length)):
            if self.key == "noise" and (number or not late):
                raise sr.SkipRecord
            yield Chunked(self.key, 0 if same else number, self.signal[start : start + length])


@sr.record
class Routed:
    key: str = sr.context(str)
    where: str = attrs.field(default="a")

    def split(self):
        if self.key.startswith("noise"):
            raise sr.SkipRecord
        return (Routed(f"{self.key}/{number}") for number in range(3))


@sr.record
class Renewed:
    name: str = sr.context(str)

    def load(self):
        return Renewed(self.name.upper())


@sr.record
class Returning:
    name: str = sr.context(str)

    def split(self):
        return self


@sr.record
class Breaking:
    name: str = sr.context(str)

    def split(self):
        yield self
        raise ZeroDivisionError("mine")


@sr.record
class Taking:
    name: str = sr.context(str)

    def load(self, **params):
        self.name = repr(sorted(params.items()))


@sr.record
class Corrected:
    name: str = sr.context(str)

    def load(self, names, case=str.lower, **ends):
        self.name = case(names[self.name]) + "".join(ends)


def read(path, split=None):
    return [(r.key, r.chunk, r.signal.tolist()) for r in sr.read_records(path, split)]


def test_load_runs_on_a_copy(tmp_path):
    """The caller's records stay as they are, and what `load` read is released."""
    loaded.clear()
    sources = [Recording(f"k{i}") for i in range(30)]
    sr.write(sources, tmp_path / "c")
    assert all(source.signal is None for source in sources)
    assert read(tmp_path / "c") == [(f"k{i}", 0, [0, 1, 2]) for i in range(30)]
    gc.collect()
    assert len(loaded) == 30
    assert [reference() for reference in loaded if reference() is not None] == []


def test_memory_is_released_on_the_way(tmp_path, monkeypatch):
    """Of many large recordings, only some are in memory at the same time."""
    loaded.clear()
    alive = []
    load = Recording.load

    def counted(self, **params):
        alive.append(sum(reference() is not None for reference in loaded))
        load(self, **params)

    monkeypatch.setattr(Recording, "load", counted)
    sr.write((Recording(f"k{i}") for i in range(24)), tmp_path / "c", params={"size": 1 << 20})
    assert len(alive) == 24
    assert max(alive) < 20
    assert sr.info(tmp_path / "c").steps == 24 << 20


def test_load_may_return_another_record(tmp_path):
    """The record that `load` returns is written."""
    sources = [Renewed("a"), Renewed("b")]
    sr.write(sources, tmp_path / "c")
    assert [record.name for record in sr.read_records(tmp_path / "c")] == ["A", "B"]
    assert [source.name for source in sources] == ["a", "b"]


def test_chunks_follow_their_source(tmp_path):
    """All chunks of a source are in its split, numbered, in order, and the key stays unique among sources."""
    shares = {"train": 0.5, "eval": 0.5}
    sr.write([Chunked(f"k{i}") for i in range(40)], tmp_path / "c", splits=shares, params={"size": 5})
    sr.write([Recording(f"k{i}") for i in range(40)], tmp_path / "whole", splits=shares)
    for name in shares:
        whole = [key for key, _, _ in read(tmp_path / "whole", name)]
        expected = [(key, i, part) for key in whole for i, part in enumerate(([0, 1], [2, 3], [4]))]
        assert read(tmp_path / "c", name) == expected
    with pytest.raises(sr.DuplicateKeyError, match="record 2"):
        sr.write([Chunked("a"), Chunked("b"), Chunked("a")], tmp_path / "d")


@pytest.mark.parametrize("late", [False, True])
def test_skipped_records_are_counted(tmp_path, late):
    """A record that `load` or `split` leaves out is left out with all its chunks, and counted."""
    sources = [Chunked(key) for key in ("a", "empty", "noise", "b", "empty2")]
    manifest = sr.write(sources, tmp_path / "c", params={"late": late})
    assert [key for key, chunk, _ in read(tmp_path / "c") if chunk == 0] == ["a", "b", "empty2"]
    assert manifest.skipped == sr.info(tmp_path / "c").skipped == 2


def test_params_reach_the_hooks_that_name_them(tmp_path):
    """Each hook gets the parameters that it names, and one with `**params` gets all."""
    sr.write([Chunked("a")], tmp_path / "c", params={"size": 4, "length": 3})
    assert read(tmp_path / "c") == [("a", 0, [0, 1, 2]), ("a", 1, [3])]
    sr.write([Taking("a")], tmp_path / "d", params={"x": 1, "y": 2})
    assert [r.name for r in sr.read_records(tmp_path / "d")] == ["[('x', 1), ('y', 2)]"]


def test_unknown_parameter(tmp_path):
    """A parameter that no hook takes is an error, with the nearest name."""
    with pytest.raises(sr.OptionError, match=r"Chunked .*takes 'lenght' \(did you mean 'length'\?\)"):
        sr.write([Chunked("a")], tmp_path / "c", params={"lenght": 3})
    assert names(tmp_path) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_missing_parameter(tmp_path, workers):
    """A parameter that a hook needs is named, with the option that passes it; copying bytes runs no hook."""
    with pytest.raises(sr.OptionError, match=r"params: Corrected.load needs 'names'; pass params={'names': ...}"):
        sr.write([Corrected("a")], tmp_path / "c", workers=workers)
    assert names(tmp_path) == []
    sr.write([Corrected("a")], tmp_path / "c", params={"names": {"a": "b"}}, workers=workers)
    assert sr.rewrite(tmp_path / "c", schema=Corrected).records == 1
    assert [record.name for record in sr.read_records(tmp_path / "c")] == ["b"]


@pytest.mark.parametrize(
    ("sources", "params", "message"),
    [
        (
            [Recording("a"), Recording("b")],
            {"fail": ("b",)},
            "record 1 .*'b'.*Recording.load failed: OSError: no such",
        ),
        ([Breaking("a")], {}, "record 0.*Breaking.split failed: ZeroDivisionError: mine"),
        ([Returning("a")], {}, "record 0.*Returning.split failed: TypeError: expected records .*got Returning"),
        (
            [Chunked("a")],
            {"size": 5, "same": True},
            "record 0.*Chunked.split failed: .*two chunks .*key and 'chunk'",
        ),
        ([Recording("a"), Renewed("b")], {}, "record 1"),
        ([Recording("a"), 3], {}, "record 1.*expected a Recording, got int"),
    ],
)
def test_hook_that_fails(tmp_path, sources, params, message):
    """A hook that fails is a RecordError with the position of the source, and nothing is published."""
    with pytest.raises(sr.RecordError) as caught:
        sr.write(sources, tmp_path / "c", params=params)
    assert caught.value.position == len(sources) - 1
    assert re.search(message, str(caught.value), re.DOTALL)
    assert names(tmp_path) == []


@pytest.mark.parametrize("option", ["split_by", "stratify"])
def test_splits_are_chosen_before_load(tmp_path, option):
    """A rule of splits refuses a deferred field that `load` is still to fill, and takes one that is filled already."""

    @sr.record
    class Spoken:
        name: str = sr.context(str, key=True)
        speaker: str | None = sr.context(str, deferred=True, default=None)

        def load(self):
            self.speaker = self.speaker or self.name[:1]

    options = {"splits": {"train": 0.5, "eval": 0.5}, option: "speaker"}
    with pytest.raises(sr.RecordError, match=r"record 1: .*'speaker' is None, because `load` runs later"):
        sr.write([Spoken("a1", "a"), Spoken("b1")], tmp_path / "d", **options)
    assert names(tmp_path) == []
    assert sr.write([Spoken("a1", "a"), Spoken("b1", "b")], tmp_path / "d", **options).records == 2


def test_field_that_is_called_like_a_hook(tmp_path):
    """A field may have the name of a hook."""
    named = sr.record(type("Named", (), {"__annotations__": {"split": str}, "split": sr.context(str)}))
    sr.write([named("eval"), named("train")], tmp_path / "c", splits="split")
    assert sorted(sr.info(tmp_path / "c").splits) == ["eval", "train"]


@pytest.mark.parametrize("workers", [1, 2])
def test_chunks_go_to_the_split_of_their_source(tmp_path, workers, monkeypatch):
    """Chunks of a record, in whatever block they are encoded, go where it goes; records left out shift nothing."""
    at_once(monkeypatch.setattr)
    keys = [f"{'noise' if number % 5 == 0 else 'clip'}{number}" for number in range(40)]
    sources = [Routed(key, where="ab"[number % 3 == 0]) for number, key in enumerate(keys)]
    sr.write(sources, tmp_path / "d", splits="where", workers=workers)
    wanted = {"a": [], "b": []}
    for source in sources:
        wanted[source.where] += [] if source.key.startswith("noise") else [f"{source.key}/{i}" for i in range(3)]
    for name, chunks in wanted.items():
        assert [record.key for record in sr.read_records(tmp_path / "d", name)] == chunks


@sr.record
class Picky:
    text: str = sr.context(str)

    @classmethod
    def from_csv_row(cls, row):
        if row["text"] == "row":
            raise sr.SkipRecord("no such row")
        return cls(row["text"])

    def load(self):
        if self.text.startswith("bad"):
            raise sr.SkipRecord(f"{self.text} is not loaded")

    def split(self):
        if self.text == "empty":
            raise sr.SkipRecord("nothing to split" + "." * 500)
        yield self


@pytest.mark.parametrize("workers", [1, 2])
def test_the_manifest_has_the_first_reasons_of_what_is_left_out(tmp_path, workers):
    """Of hooks, in whatever process, and of rows; each once, three at most, short; appends and parts add theirs."""
    texts = ["a", "bad", "bad", "b", "empty"]
    manifest = sr.write(map(Picky, texts), tmp_path / "d", workers=workers)
    reasons = ("bad is not loaded", ("nothing to split" + "." * 500)[:200])
    assert (manifest.skipped, manifest.skip_reasons) == (3, reasons)
    assert sr.info(tmp_path / "d").skip_reasons == reasons
    (tmp_path / "rows.csv").write_text("text\nrow\nc\nbad two\n")
    rows = sr.from_csv(tmp_path / "rows.csv", Picky)
    assert set(sr.write(rows, tmp_path / "csv", workers=workers).skip_reasons) == {
        "no such row",
        "bad two is not loaded",
    }
    more = sr.write([Picky("bad one"), Picky("bad two"), Picky("c")], tmp_path / "d", append=True, workers=workers)
    assert more.skip_reasons == (*reasons, "bad one is not loaded")
    for part, text in enumerate(["bad", "bad one"]):
        sr.write_part([Picky(text), Picky("a")], tmp_path / "parts", part)
    assert sr.commit(tmp_path / "parts").skip_reasons == ("bad is not loaded", "bad one is not loaded")
    assert not sr.write([Picky("a")], tmp_path / "e").skip_reasons
