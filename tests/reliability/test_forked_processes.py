"""Forked processes: they leave their parent's files alone, and are told that TensorFlow has no threads in them."""

import os
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked here")

# One process tries all, as to import TensorFlow takes seconds. What a case prints stands below its name.
SCRIPT = """
import os, sys, numpy as np, seqrecorder as sr

@sr.record
class Row:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int64")

def said(function):
    try:
        function()
    except sr.OptionError as error:
        return str(error)
    return "nothing"

def write(path, compression, end):
    with sr.Writer(path, Row, compression=compression, csv=True) as writer:
        for number in range(300):
            writer.write_batch({"key": [f"k{number}"], "ids": (np.arange(number), np.array([number]))})
        if not os.fork():
            print(said(lambda: writer.write(Row("child", [1]))), flush=True)
            if end != "return":
                exec(end)
            return
        os.wait()
        writer.write(Row("last", [1]))
    print(sr.verify(path).ok, sr.info(path).records)
    print(sum(1 for _ in open(f"{path}/train/examples.csv")))

def child(number):
    sys.stdout.flush()
    if os.fork():
        return os.wait()
    if number:
        print(said(lambda: sr.read("data")).split(",")[0])
    print(sr.verify("data").ok, sr.salvage("data", f"saved by {number}").records)
    sr.write([Row("a", [1])], f"by {number}", compression="GZIP")
    print(len(list(sr.read_records("data"))))
    sys.stdout.flush()
    os._exit(0)

print("# tensorflow")
sr.write([Row(f"k{i}", np.arange(200)) for i in range(200)], "data")
child(0)
assert len(list(sr.read("data"))) == 200
child(1)
print(len(list(sr.read_records("by 1"))))

parent = os.getpid()
for path, compression, end in (
    ("returned", None, "return"), ("exited", "GZIP", "sys.exit()"), ("killed", "GZIP", "os._exit(0)")
):
    print("#", path, flush=True)
    try:
        write(path, compression, end)
    except sr.OptionError as error:
        print(error, flush=True)  # the child's, where it leaves the block as if all were well
    if os.getpid() != parent:
        sys.exit()
print("#", *[name for name in os.listdir() if name.startswith(".")])
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory, warm_python):
    """What was printed in each case; under no name, what was left over."""
    directory = tmp_path_factory.mktemp("forks")
    path = directory / "script.py"
    path.write_text(SCRIPT)
    done = warm_python.run([sys.executable, path], cwd=directory, text=True, timeout=300, check=True)
    cases = [part.partition("\n") for part in done.stdout.split("#")[1:]]
    return {name.strip(): lines.splitlines() for name, _, lines in cases}


@pytest.mark.parametrize("end", ["returned", "exited", "killed"])
def test_a_child_publishes_nothing_and_writes_nothing(said, end):
    """However a child ends that was forked between two records, the parent's dataset is whole, and lines of the CSV."""
    lines = said[end]
    assert lines[0].startswith("this Writer belongs to process")
    assert lines[1:-2] == lines[:1] * (end == "returned")
    assert lines[-2:] == ["True 301", "302"]
    assert not said[""]


def test_a_child_of_a_process_that_used_tensorflow_is_told(said):
    """What needs TensorFlow's threads says that it would hang; all else goes on."""
    lines = said["tensorflow"]
    pid = lines[2].split("(pid ")[1].split(")")[0]
    told = f"read: this process (pid {pid}) was forked after its parent had used TensorFlow"
    assert lines == ["True 200", "200", told, "True 200", "200", "1"]
