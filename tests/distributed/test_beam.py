"""Beam pipelines write the dataset that one process writes, and read every record once."""

import os
import re
import sys
import types
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import seqrecorder as sr

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Beam's own
    beam = pytest.importorskip("apache_beam")
    from apache_beam.options.pipeline_options import PipelineOptions

    from seqrecorder.distributed.beam import ReadDataset, WriteDataset

pytestmark = [pytest.mark.filterwarnings("default")]


@sr.record
class Word:
    key: str = sr.context(str, key=True)
    speaker: str = sr.context(str)
    ids: np.ndarray = sr.feature_list("int64")


@sr.record
class Plain:
    label: int = sr.context("int64")


@sr.record
class Chunked:
    key: str = sr.context(str, key=True)
    number: int = sr.context("int64", chunk=True, default=0)

    def split(self) -> Any:
        if self.key == "w3":
            raise sr.SkipRecord
        for number in range(3):
            yield Chunked(self.key, number)


WORDS = [Word(f"w{i}", f"s{i % 7}", np.arange(i % 5)) for i in range(200)]
SHARES = {"train": 0.7, "eval": 0.3}


def run(build: Any, **options: Any) -> Any:
    """Run a pipeline in this process and return its result."""
    flags = {"runner": "FnApiRunner", **options}
    pipeline = beam.Pipeline(options=PipelineOptions([], **flags))
    build(pipeline)
    result = pipeline.run()
    result.wait_until_finish()
    return result


def by_split(path: Path) -> dict[str, Counter[bytes]]:
    """Return the encoded records of each split, and how often each is there."""
    manifest = sr.info(path)
    codec = sr.Schema.of(manifest.schema)
    return {name: Counter(codec.encode_batch(list(sr.read_records(path, name)))) for name in manifest.splits}


def shards(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*.tfrecord")}


@pytest.mark.parametrize(
    "options",
    [
        {"splits": SHARES, "seed": 3},
        {"splits": SHARES, "split_by": "speaker", "compression": "GZIP"},
        {"splits": "speaker", "metadata": {"a": 1}, "assets": {"x.txt": "hi"}},
    ],
)
def test_splits_are_those_of_write(tmp_path: Path, options: dict[str, Any]) -> None:
    """Each split has the records that `write` gives it; shards are as many as asked for; counters tell."""
    sr.write(WORDS, tmp_path / "one", **options)
    result = run(lambda p: p | beam.Create(WORDS) | WriteDataset(tmp_path / "c", Word, shards=2, **options))
    assert by_split(tmp_path / "c") == by_split(tmp_path / "one")
    manifest = sr.info(tmp_path / "c")
    assert {len(split.shards) for split in manifest.splits.values()} == {2}
    assert (manifest.metadata, set(manifest.assets)) == (options.get("metadata"), set(options.get("assets", {})))
    assert sr.verify(tmp_path / "c").ok
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["c", "one"]
    counters = {c.key.metric.name: c.committed for c in result.metrics().query()["counters"]}
    assert counters["records"] == len(WORDS)
    assert counters["bytes"] == manifest.bytes


def test_the_same_records_give_the_same_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records, dictionaries and Arrow batches, in any order and by several processes, give the same shards."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *sys.path]))
    rows = [{"key": word.key, "speaker": word.speaker, "ids": word.ids.tolist()} for word in WORDS]
    sources: dict[str, tuple[list[Any], dict[str, Any]]] = {
        "records": (WORDS[::-1], {}),
        "dictionaries": (rows, {"direct_num_workers": 2, "direct_running_mode": "multi_processing"}),
        "batches": ([pa.Table.from_pylist(rows[50:]), pa.RecordBatch.from_pylist(rows[:50])], {}),
    }
    found = []
    for name, (elements, options) in sources.items():
        path, given = tmp_path / name, elements
        run(lambda p, g=given, d=path: p | beam.Create(g) | WriteDataset(d, Word, splits=SHARES, shards=3), **options)
        found.append(shards(path))
    assert len(found[0]) == 6
    assert found[0] == found[1] == found[2]


def test_hooks(tmp_path: Path) -> None:
    """Hooks run where records are encoded: chunks share their key, and what they skip is counted."""
    sources = [Chunked(f"w{i}") for i in range(20)]
    sr.write(sources, tmp_path / "one", splits=SHARES)
    write = WriteDataset(tmp_path / "c", Chunked, splits=SHARES, shards=3)
    result = run(lambda p: p | beam.Create(sources) | write)
    assert by_split(tmp_path / "c") == by_split(tmp_path / "one")
    counters = {c.key.metric.name: c.committed for c in result.metrics().query()["counters"]}
    assert (counters["records"], counters["skipped"]) == (57, 1)


def test_splits_by_name_and_nothing_at_all(tmp_path: Path) -> None:
    """A dictionary names the splits; of no elements there is an empty dataset."""

    def build(pipeline: Any) -> None:
        parts = {"dev": pipeline | "a" >> beam.Create([Plain(1), Plain(1)]), "all": pipeline | beam.Create([Plain(2)])}
        parts | WriteDataset(tmp_path / "c", Plain)
        pipeline | "none" >> beam.Create([]) | "empty" >> WriteDataset(tmp_path / "d", Plain)

    run(build)
    assert {name: split.records for name, split in sr.info(tmp_path / "c").splits.items()} == {"all": 1, "dev": 2}
    assert {name: split.records for name, split in sr.info(tmp_path / "d").splits.items()} == {"train": 0}
    with pytest.raises(sr.OptionError, match="names the splits already"):
        run(lambda p: {"a": p | beam.Create([Plain(1)])} | WriteDataset(tmp_path / "e", Word, splits=SHARES))


def test_read_dataset(tmp_path: Path) -> None:
    """Every record of a split comes once, whatever order it was written in."""
    sr.write(WORDS, tmp_path / "c", splits=SHARES, shards=3)
    seen = tmp_path / "seen"

    def build(pipeline: Any) -> None:
        words = pipeline | ReadDataset(tmp_path / "c", "eval", schema=Word)
        words | beam.Map(lambda word: word.key) | beam.io.WriteToText(str(seen), num_shards=1)

    run(build)
    keys = Path(f"{seen}-00000-of-00001").read_text().split()
    assert sorted(keys) == sorted(word.key for word in sr.read_records(tmp_path / "c", "eval"))
    with pytest.raises(sr.DatasetNotFoundError):
        ReadDataset(tmp_path / "c", "dev")


FAILED: set[str] = set()


def fail_once(word: Word) -> Word:
    """Fail for each third record, the first time that it comes."""
    if int(word.key[1:]) % 67 == 0 and word.key not in FAILED:
        FAILED.add(word.key)
        raise OSError("a worker was lost")
    return word


def test_bundles_are_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bundles that fail, before and while shards are written, are run again, and leave nothing of their own."""
    from seqrecorder.distributed import beam as module

    FAILED.clear()
    write, calls = module.write_pieces, []

    def fails_at_first(*given: Any) -> Any:
        done = write(*given)
        calls.append(given[3])
        if calls.count(given[3]) == 1:
            raise OSError("a worker was lost after it had written")
        return done

    monkeypatch.setattr(module, "write_pieces", fails_at_first)
    sr.write(WORDS, tmp_path / "one", splits=SHARES)
    target = WriteDataset(tmp_path / "c", Word, splits=SHARES, shards=2)
    run(lambda p: p | beam.Create(WORDS) | beam.Map(fail_once) | target, runner="BundleBasedDirectRunner")
    assert FAILED
    assert min(calls.count(number) for number in (0, 1)) > 1
    assert by_split(tmp_path / "c") == by_split(tmp_path / "one")
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["c", "one"]


def test_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The guide's example runs as it stands."""
    page = Path(__file__).parents[2] / "examples" / "guide" / "distributed.md"
    blocks = re.findall(r"^```\w+\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    code = "\n".join([blocks[0], *(block for block in blocks if "apache_beam" in block)])
    # The runner that is taken by default may download its server. Threads of this one import what it pickles.
    code = code.replace("beam.Pipeline()", 'beam.Pipeline("FnApiRunner")')
    module = types.ModuleType("guide")
    monkeypatch.setitem(sys.modules, "guide", module)
    exec(compile(code, page.name, "exec"), module.__dict__)  # noqa: S102 - our own text
    assert sr.info("from_beam").records == 1000
    assert capsys.readouterr().out.split() == [str(sr.info("from_beam").splits["train"].records)]


def test_what_goes_wrong(tmp_path: Path) -> None:
    """Keys that come twice, bad records and options that make no sense are errors, and nothing is published."""
    for records, message in (
        ([*WORDS, WORDS[3]], "'w3'"),
        ([WORDS[0], Word("w0", "other", [])], "'w0'"),
        ([Word("x", "s", ["a"])], "ids"),
    ):
        with pytest.raises(Exception, match=message):
            run(lambda p, r=records: p | beam.Create(r) | WriteDataset(tmp_path / "c", Word, shards=2))
        assert not (tmp_path / "c").exists()
    for options, message in (
        ({"workers": 2}, "workers is not supported if many"),
        ({"append": True}, "append is not supported if many"),
        ({"shufle": True}, "unknown options: shufle"),
        ({"splits": SHARES, "split_by": sr.Balanced("speaker")}, "Balanced needs all records"),
        ({"shards": 0}, "shards: expected"),
        ({"params": {"a": 1}}, "no hook of Word"),
    ):
        with pytest.raises(sr.OptionError, match=message):
            WriteDataset(tmp_path / "c", Word, **options)
    with pytest.raises(sr.OptionError, match="positions cannot decide splits"):
        WriteDataset(tmp_path / "c", Plain, splits=SHARES)
