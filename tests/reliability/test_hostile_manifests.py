"""Manifests that somebody made to do harm: each is read, or refused by a ManifestError, and nothing else happens."""

import contextlib
import copy
import json
import os
import random
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqrecorder as sr
from seqrecorder.dataset.manifest import is_as_written, parse_manifest
from seqrecorder.schema.source_code import draft


@sr.record(kw_only=True)
class Rich:
    key: str = sr.context(str, key=True)
    label: int = sr.context("int32", default=3)
    at: np.datetime64 = sr.context("datetime64[s]", default=np.datetime64(3, "s"))
    blob: bytes = sr.context(bytes, default=b"ab")
    part: int = sr.context("int32", chunk=True, default=0)
    pair: np.ndarray = sr.context("complex64", shape=(2,), default=[1, 2])
    bag: Any = sr.context("float32", sparse=9, optional=True, default=None, dense=True)
    bins: Any = sr.context("float32", sparse=9, default={3: 1.0})
    image: np.ndarray = sr.context("uint8", shape=(2, 2, 3), storage="png")
    frames: np.ndarray = sr.feature_list("float32", shape=(3,))
    samples: np.ndarray = sr.feature_list("int16", storage="packed")
    words: Any = sr.feature_list(str, align="words", optional=True)
    ragged: list = sr.feature_list("int64", shape=(None, 2), align=None, default=[np.ones((1, 2), int)])
    late: Any = sr.feature_list("float64", storage="raw", deferred=True, default=None, name="late/x")


RECORD = Rich(
    key="a", image=np.zeros((2, 2, 3), "uint8"), frames=np.zeros((1, 3), "float32"), samples=[1], words=None, late=[0.5]
)
VALUES: list[Any] = [
    *[None, True, False, 0, -1, 1, 2, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**400, 0.5],
    *[
        float("nan"),
        float("inf"),
        1e308,
        "",
        "a",
        "train",
        "self",
        "class",
        "__init__",
        "_x",
        "\ufb01",
        "a/b",
        "\ud800",
    ],
    *["x" * 300, "\0", "GZIP", "int64", "float32", "str", "bytes", "datetime64[generic]", "timedelta64[as]", "raw"],
    *["packed", "tensor", "png", "context", "feature_list", "default", "np", "sequence_length", [], [None], [0], [1]],
    *[[2**64], [2**62], [2**20, 2**20], [1] * 40, [1] * 300, [[1]], {}, {"a": 1}, {"shape": [2], "items": [1, 2]}],
    *[{"steps": [{"shape": [1], "items": [1]}]}, {"indices": [2**70], "values": {"shape": [1], "items": ["00"]}}],
    *[{"shape": [2**40, 0], "items": []}, {"shape": [0] * 70, "items": []}, {"shape": [], "items": ["zz"]}],
]
OPTIONS = ["default", "shape", "sparse", "align", "feature", "storage", "optional", "key", "chunk", "dense", "deferred"]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "rich"
    options = {"shards": 2, "metadata": {"a": [1, None, {"b": "c"}]}, "assets": {"words.txt": "x"}}
    sr.write({"train": [RECORD], "eval": []}, path, schema=Rich, **options)
    return path


def places(node: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every value of a tree."""
    if place:
        yield place
    if len(place) < 9:  # not into what a mutation nested deeply
        inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, value in inner:
            yield from places(value, (*place, key))


def at(node: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        node = node[key]
    return node


def nested(depth: int) -> Any:
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


def mutate(data: Any, generator: random.Random) -> None:
    """Change one value of a tree: another, none, one from elsewhere, one more, a deep one, or nearly the same."""
    every = list(places(data))
    fields = [place for place in every if place[:2] == ("schema", "fields")]
    place = generator.choice(fields if fields and generator.random() < 0.6 else every)
    parent, key = at(data, place[:-1]), place[-1]
    kind = generator.randrange(8)
    if kind < 3:
        parent[key] = copy.deepcopy(generator.choice(VALUES))
    elif kind == 3:
        del parent[key]
    elif kind == 4:
        parent[key] = copy.deepcopy(at(data, generator.choice(every)))
    elif kind == 5 and isinstance(parent, list):
        parent.insert(generator.randrange(len(parent) + 1), copy.deepcopy(generator.choice([parent[key], *VALUES])))
    elif kind == 5:
        parent[generator.choice(OPTIONS)] = copy.deepcopy(generator.choice([parent[key], *VALUES]))
    elif kind == 6:
        parent[key] = nested(generator.choice([20, 150, 400, 900]))
    elif isinstance(parent[key], str):
        parent[key] += generator.choice(["\ud800", "\0", "\ufb01", "x"])
    elif isinstance(parent[key], int):
        parent[key] += generator.choice([-1, 1, 2**31, 2**63])


def use(manifest: sr.Manifest) -> None:
    """Do what does not need the shards, nor TensorFlow."""
    assert parse_manifest(manifest.to_json(), manifest.path).to_json() == manifest.to_json()
    repr(manifest)
    assert manifest.assets.keys() == manifest.asset_infos.keys()
    schema, mine = manifest.schema, sr.Schema.of(Rich)
    assert schema.record_class.__name__ == unicodedata.normalize("NFKC", schema.name)  # as Python does with names
    mine.changes_since(schema)
    schema.changes_since(mine)
    draft(schema)


@pytest.mark.parametrize("count", [1500, pytest.param(30_000, marks=pytest.mark.nightly)], ids=["few", "many"])
def test_whatever_a_manifest_says(dataset: Path, count: int) -> None:
    """A manifest changed in any place is read, and can be used, or is refused by a ManifestError."""
    generator = random.Random(count)
    text = (dataset / "manifest.json").read_text(encoding="utf-8")
    read = refused = 0
    for _ in range(count):
        data = json.loads(text)
        for _ in range(generator.choice([1, 1, 1, 2])):
            with contextlib.suppress(RecursionError):  # a copy of what a mutation nested deeply
                mutate(data, generator)
        with contextlib.suppress(sr.ManifestError):  # then it is refused below as well
            data["fingerprint"] = sr.Schema.from_dict(data.get("schema")).fingerprint
        hostile = json.dumps(data)
        try:
            manifest = parse_manifest(hostile, dataset)
            use(manifest)  # histograms are parsed when they are needed
        except sr.ManifestError:
            refused += 1
            continue
        assert not is_as_written(hostile)
        read += 1
    assert min(read, refused) > count / 20


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("schema", "fields", 9, "shape"), [2**64]),
        (("schema", "fields", 9, "shape"), [2**16, 2**16]),
        (("schema", "fields", 9, "shape"), [1] * 30),
        (("schema", "fields", 6, "sparse"), 2**31),  # read as dense
        (("schema", "fields", 7, "sparse"), 2**63),
        (("schema", "fields", 0, "name"), "\ufb01"),  # which Python takes for "fi"
        (("schema", "fields", 0, "name"), "self"),
        (("schema", "fields", 0, "feature"), "\ud800"),
        (("schema", "fields", 0, "shape"), nested(900)),
        (("schema", "fields", 12, "default"), {"shape": [2**40, 0], "items": []}),  # as many steps, all empty
        (("metadata",), "\udfff"),
        (("metadata",), nested(101)),
        (("metadata",), float("nan")),
        (("unknown",), "\udfff"),
    ],
)
def test_statements_that_no_release_makes(dataset: Path, place: tuple[Any, ...], value: Any) -> None:
    """Sizes that no record can have, names that Python reads otherwise, and text that is none, are refused."""
    data = json.loads((dataset / "manifest.json").read_text(encoding="utf-8"))
    at(data, place[:-1])[place[-1]] = value
    with pytest.raises(sr.ManifestError):
        parse_manifest(json.dumps(data), dataset)


@pytest.mark.parametrize("kind", ["directory", "pipe"])
@pytest.mark.parametrize("suffix", ["tfrecord", "lengths"])
@pytest.mark.parametrize("level", ["quick", "full"])
def test_what_is_no_file_is_reported(tmp_path: Path, kind: str, suffix: str, level: Any) -> None:
    """A directory or a pipe in a file's place is reported by `verify`, and refused where it is needed."""
    path = tmp_path / "rich"
    sr.write([RECORD], path)
    [file] = (path / "train").glob(f"*.{suffix}")
    file.unlink()
    if kind == "pipe":
        os.mkfifo(file)
    else:
        file.mkdir()
    report = sr.verify(path, level=level)
    assert file.name in "".join(map(str, report.problems))
    for read in (sr.read_records, sr.read):
        with pytest.raises(sr.SeqrecorderError) if suffix == "tfrecord" else contextlib.suppress(sr.SeqrecorderError):
            list(read(path))  # not all need the lengths
