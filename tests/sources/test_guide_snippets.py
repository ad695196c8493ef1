"""The guide's few lines for files of numpy and HDF5, on files of others."""

import re
from pathlib import Path

import h5py
import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "examples" / "guide" / "in_and_out.md"


@pytest.fixture(scope="module")
def snippets():
    """The functions that the page defines, run from its text."""
    names = {"np": np, "sr": None}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        if "def from_h5(" in block or "def from_npz(" in block:
            exec(block.partition("\n\n\nnp.savez")[0], names)  # noqa: S102 - our own page
    return names


@pytest.fixture
def secret(tmp_path):
    """A file that others must not lead to."""
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["x/values"] = np.arange(3.0)
    (tmp_path / "secret.bin").write_bytes(np.arange(3.0).tobytes())
    return tmp_path


def external_link(group):
    group["values"] = h5py.ExternalLink("secret.h5", "/x/values")


def soft_link(group):
    group["values"] = h5py.SoftLink("/elsewhere/values")
    group.file["elsewhere"] = h5py.ExternalLink("secret.h5", "/x")


def external_values(group):
    group.create_dataset("values", (3,), "f8", external=[("secret.bin", 0, h5py.h5f.UNLIMITED)])


def virtual_values(group):
    layout = h5py.VirtualLayout((3,), "f8")
    layout[:] = h5py.VirtualSource("secret.h5", "x/values", (3,))
    group.create_virtual_dataset("values", layout)


WAYS_OUT = (external_link, soft_link, external_values, virtual_values)


@pytest.mark.parametrize("way", WAYS_OUT)
def test_hdf5_that_leads_to_other_files_is_refused(way, secret, snippets, monkeypatch):
    """Whatever leads to another file is an error that names it; h5py itself would follow."""
    monkeypatch.chdir(secret)
    with h5py.File("theirs.h5", "w") as file:
        way(file.create_group("a"))
    with h5py.File("theirs.h5") as file:
        assert file["a/values"][()].tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match=r"theirs\.h5: .*/a/values .*; expected|theirs\.h5: /elsewhere is a link"):
        list(snippets["from_h5"]("theirs.h5"))


def test_a_group_that_is_a_link_is_refused(secret, snippets, monkeypatch):
    """A group of another file is no record of this one."""
    monkeypatch.chdir(secret)
    with h5py.File("theirs.h5", "w") as file:
        file["x"] = h5py.ExternalLink("secret.h5", "/x")
    with pytest.raises(ValueError, match="x is a link"):
        list(snippets["from_h5"]("theirs.h5"))


def test_pickled_arrays_are_refused(tmp_path, snippets):
    """Arrays of objects would be executed."""
    np.savez(tmp_path / "theirs.npz", x=np.array([{}], object))
    with pytest.raises(ValueError, match="allow_pickle"):
        list(snippets["from_npz"]([tmp_path / "theirs.npz"]))
