"""`tf.contrib`'s functions against batches that TensorFlow 1.15.5 gave (`golden/record.py`)."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from queue_runs import plain, queue_run

from seqrecorder import legacy

GOLDEN = Path(__file__).parent / "golden"
RECORDED = json.loads((GOLDEN / "contrib-1.15.5.json").read_text())["pipelines"]
SEGMENTS = [name for name in RECORDED if name.startswith("segments")]  # a second each


def at_night(names):
    """Return the names of all recorded pipelines; these are left to the long run."""
    return [pytest.param(name, marks=pytest.mark.nightly) if name in names else name for name in RECORDED]


@pytest.fixture(scope="module")
def old():
    """The module of pipelines, imported as an old script."""
    spec = importlib.util.spec_from_file_location("pipelines", GOLDEN / "pipelines.py")
    module = importlib.util.module_from_spec(spec)
    with legacy.compat():
        spec.loader.exec_module(module)
        yield module


@pytest.fixture(scope="module")
def directory(old, tmp_path_factory):
    """Where the files are that the pipelines read."""
    path = tmp_path_factory.mktemp("golden")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        old.write_files()
    return path


def leaves(element):
    """An element as sorted by its keys: dtypes, shapes and values, as they are in JSON."""
    outputs = []
    for array in tf.nest.flatten(plain(element)):
        text = array.dtype == object
        values = [x.decode("latin-1") if isinstance(x, bytes) else x for x in array.ravel().tolist()]
        outputs.append({"dtype": "string" if text else array.dtype.name, "shape": list(array.shape), "values": values})
    return outputs


def in_rows(elements):
    """The rows of dense batches, or elements that are no batches, in an order of their own."""
    whole = any(not leaf["shape"] for element in elements for leaf in element)
    rows = [
        [leaf["values"] if whole else np.reshape(leaf["values"], leaf["shape"])[row].tolist() for leaf in element]
        for element in elements
        for row in range(1 if whole else element[0]["shape"][0])
    ]
    return sorted(map(json.dumps, rows))


def comparable(elements, unfixed):
    if unfixed == "rows":
        return in_rows(elements), sorted(json.dumps([leaf["shape"][:1] for leaf in e]) for e in elements)
    return sorted(map(json.dumps, elements)) if unfixed == "batches" else elements


# `test_contrib.py` compares the segments of the same sequences.
@pytest.mark.parametrize("name", at_night(["segments_of_sequences", "segments_without_small_batches"]))
def test_contrib_gives_what_it_gave(old, directory, monkeypatch, name):
    """Lifted and in a session, batches are those of TensorFlow 1.15.5: dtypes, shapes, values, and order if fixed."""
    monkeypatch.chdir(directory)
    function, unfixed = old.PIPELINES[name]
    expected = comparable(RECORDED[name]["elements"], unfixed)
    if not name.startswith("segments"):  # states are for sessions only
        lifted = legacy.trace(function)
        assert comparable([leaves(element) for element in lifted.dataset], unfixed) == expected
        assert lifted.exact <= (not unfixed)
    assert comparable([leaves(element) for element in queue_run(function)], unfixed) == expected


@pytest.mark.parametrize("name", at_night(SEGMENTS[1:]))
def test_contrib_nests_as_it_did(old, directory, monkeypatch, name):
    """What is returned is nested as it was: lists, dicts and sparse tensors in the same places."""
    monkeypatch.chdir(directory)

    def structure(value):
        if isinstance(value, dict):
            return {key: structure(value[key]) for key in sorted(value)}
        if isinstance(value, (list, tuple)) and not isinstance(value, tf.SparseTensor):
            return [structure(item) for item in value]
        return "SparseTensor" if isinstance(value, tf.SparseTensor) else "Tensor"

    with tf.Graph().as_default():
        assert structure(old.PIPELINES[name][0]()) == RECORDED[name]["structure"]


def test_all_pipelines_are_recorded(old):
    """A pipeline that was added is recorded as well."""
    assert sorted(old.PIPELINES) == sorted(RECORDED)
