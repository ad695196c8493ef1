"""What notebooks and prompts show of results: a line or two, and tables in which everything is escaped."""

import numpy as np
import pytest

import seqrecorder as sr
from seqrecorder.codec.columns import gather
from seqrecorder.sources.foreign.infer import infer


@sr.record
class Wide:
    key: str = sr.context(str, key=True)
    mfcc: np.ndarray = sr.feature_list("float32", shape=(13,), renamed_from=("m", "f"))
    phones: np.ndarray = sr.feature_list("int64", storage="packed")
    mark: bytes = sr.context(bytes, default=b"x" * 3000)


def wide(number):
    return Wide(str(number), np.zeros((number, 13), "float32"), np.arange(number))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    path = tmp_path_factory.mktemp("notebooks") / "<b>corpus & co"
    manifest = sr.write(map(wide, range(1, 80)), path, splits={f"fold_{n}": 0.05 for n in range(20)}, shards=3)
    report = sr.verify(path, level="quick")
    shard = manifest.shard_path("fold_3", manifest.splits["fold_3"].shards[0])
    shard.write_bytes(shard.read_bytes()[:-7])
    damaged = sr.verify(path, level="quick")
    salvage = sr.salvage(path, path.with_name("saved"))
    plans = sr.plan(path, "fold_1", sr.Pad(2), sr.Bucket(2))
    column = gather(manifest.schema, [wide(3)] * 2000)["mfcc"]
    inference = infer(manifest.shard_path("fold_0", manifest.splits["fold_0"].shards[0]))
    split = manifest.splits["fold_1"]
    fields = (manifest.schema, manifest.schema["mark"], manifest.schema["mfcc"].element)
    return [manifest, split, split.shards[0], report, damaged, salvage, plans, plans[0], column, inference, *fields]


def test_results_are_short(results):
    """What is shown of a result takes a line or two, however large it is."""
    for result in results:
        assert len(repr(result)) < 600, type(result)
        assert "\n" not in repr(result)
    manifest, *_ = results
    assert "Manifest of Wide" in repr(manifest)
    assert "79 records (fold_0" in repr(manifest)
    assert "and 16 more" in repr(manifest)
    assert len(repr(manifest)) < 400
    assert "; no problem>" in repr(results[3])
    assert "fold_3" in repr(results[4])
    assert repr(manifest.schema["mfcc"]) == (
        "Field('mfcc', feature_list, float32, shape=(13,), renamed_from=('m', 'f'))"
    )


def test_results_are_public(results):
    """What calls give has its class among the public names, so that programs can annotate and test for it."""
    manifest, _, _, report, _, salvage, plans, plan, column, *_ = results
    kinds = (sr.Manifest, sr.VerifyReport, sr.Salvage, sr.PlanTable, sr.Plan, sr.Column)
    assert tuple(map(type, (manifest, report, salvage, plans, plan, column))) == kinds


def test_tables_of_results_are_escaped(results):
    """Results have tables for notebooks, in which names from data are text."""
    tables = [result._repr_html_() for result in results if hasattr(result, "_repr_html_")]
    assert len(tables) == 7
    for shown in tables:
        assert shown.startswith("<table>")
        assert "<b>" not in shown
        assert len(shown) < 20_000
    assert "&lt;b&gt;corpus &amp; co" in tables[0]
