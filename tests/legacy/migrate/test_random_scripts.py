"""Input functions made at random give what they gave, or are left to a person."""

import collections
import warnings

import numpy as np
import pytest
import random_scripts
import tensorflow as tf
from script_runs import MOST, run_eagerly, run_in_graph

from seqrecorder.legacy.migrate.rewrite.lift_script import lift_script
from seqrecorder.legacy.migrate.rewrite.script import rewrite
from seqrecorder.legacy.migrate.verify.equality import compare

_LEAST = 0.35  # share that is rewritten
_BOTH, _LIFTED = 4, 16  # one of so many scripts is rewritten for both targets, and is lifted too


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """Two files of each kind, of which the second is longer."""
    return write_files(tmp_path_factory.mktemp("numbers"))


def write_files(directory):
    """Write two files of each kind, and return their names by their endings."""
    paths = {}
    for ending in ("txt", "csv", "bin", "tfrecord"):
        paths[ending] = [str(directory / f"{name}.{ending}") for name in "ab"]
    for number in range(2):
        values = [float(10 * number + line) for line in range(5 + number)]
        (directory / f"{'ab'[number]}.txt").write_text("".join(f"{value:g}\n" for value in values))
        (directory / f"{'ab'[number]}.csv").write_text("".join(f"{value:g},{-value:g}\n" for value in values))
        (directory / f"{'ab'[number]}.bin").write_bytes(np.arange(20 + 4 * number, dtype="uint8").tobytes())
        with tf.io.TFRecordWriter(paths["tfrecord"][number]) as writer:
            for value in values:
                features = {
                    "x": tf.train.Feature(float_list=tf.train.FloatList(value=[value])),
                    "n": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(value)])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    return paths


def run_new(text, call, files, *, eagerly):
    """Run a function of a script that was converted; what it made and its structure."""
    if eagerly:
        return run_eagerly(text, call, files)
    new, _, became = run_in_graph(text, call, files, old=False)
    return new, became


def made(seed):
    """Return one script, and what became of it for some targets."""
    script = random_scripts.Writer(seed).script()
    targets = ("graph", "eager") if seed % _BOTH == 0 else (("graph", "eager")[seed % 2],)
    done = {target: rewrite(script.text, target) for target in targets}
    if seed % _LIFTED == 0:
        done |= {f"{target}, lifted": lift_script(script.text, target) for target in ("graph", "eager")}
    assert {each.status for each in done.values()} <= {"converted", "flagged", "kept"}, (seed, done)
    return script, done


def check(seed, paths):
    """Check one script, and return how many of its functions came to which end."""
    script, done = made(seed)
    counts = collections.Counter()
    for call, ending in script.calls:
        expected = None
        for target, each in done.items():
            if each.status != "converted":
                counts[f"{target}: {each.status}"] += 1
                continue
            if expected is None:
                try:
                    expected = run_in_graph(script.text, call, paths[ending], old=True)
                except Exception:  # noqa: BLE001 - what never worked may go on not to
                    expected = [], False, ""
            batches, shuffled, structure = expected
            if not batches:
                counts["never worked"] += 1
                break
            try:
                with warnings.catch_warnings():
                    warnings.filterwarnings("error", ".* took elements of .* away")
                    new, became = run_new(each.text, call, paths[ending], eagerly=target.startswith("eager"))
                # what is lifted gives tuples for lists that are no result by themselves
                assert became == structure or target != "graph", f"{structure} became {became}"
                compare(batches, new, ordered=not shuffled, records=10**9, most=MOST)
            except UserWarning as warning:
                if "took elements" not in str(warning):
                    raise
                counts["others took a part"] += 1  # of which lift gives all, and says so
                continue
            except Exception as error:
                raise AssertionError(f"seed {seed}, {target}:\n{script.text}\nbecame\n{each.text}") from error
            counts[f"{target}: converted"] += 1
    return counts


def test_random_scripts_give_what_they_gave(paths):
    """Whatever is done to the variables around a pipeline, converted functions give equal batches."""
    counts = sum((check(seed, paths) for seed in range(30)), collections.Counter())
    assert counts["graph: converted"] + counts["eager: converted"] > 30 * _LEAST, counts


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(10))
def test_many_random_scripts_give_what_they_gave(paths, block):
    """The same of ten thousand scripts."""
    seeds = range(1000 * block + 100, 1000 * block + 1100)
    counts = sum((check(seed, paths) for seed in seeds), collections.Counter())
    assert counts["graph: converted"] + counts["eager: converted"] > 1000 * _LEAST, counts
