"""Files of numpy's arrays and groups of HDF5: a record each, and files that are none by their name."""

import h5py
import numpy as np
import pytest

import seqrecorder as sr


@sr.record
class Clip:
    key: str = sr.context(str, key=True)
    frames: np.ndarray = sr.feature_list("float32", shape=(2,))
    label: int = sr.context("int16", default=-1)
    names: np.ndarray = sr.feature_list(str, align=None, default=[])


def clip(number):
    return Clip(f"c{number}", np.full((number, 2), number / 4), number, ["to", "bé"])


CLIPS = [clip(number) for number in range(4)]


def test_each_npz_is_a_record(tmp_path):
    """A directory, a glob and a list of files give a record of each file, in the order of their names."""
    for record in CLIPS:
        arrays = {"x": record.frames, "label": record.label, "names": np.array(record.names, str), "more": np.ones(3)}
        np.savez(tmp_path / f"{record.key}.npz", **arrays)
    (tmp_path / "notes.txt").touch()
    for given in (tmp_path, tmp_path / "*.npz", [tmp_path / f"c{number}.npz" for number in range(4)]):
        assert list(sr.from_npz(given, Clip, columns={"frames": "x"})) == CLIPS


def test_each_npy_is_a_field(tmp_path):
    """A file of one array is the one field of the class beside its key."""

    @sr.record
    class Wave:
        key: str = sr.context(str, key=True)
        samples: np.ndarray = sr.feature_list("int16")

    np.save(tmp_path / "a.npy", np.arange(3, dtype="int16"))
    assert list(sr.from_npz(tmp_path, Wave)) == [Wave("a", [0, 1, 2])]
    with pytest.raises(sr.SourceError, match=r"a\.npy.*one array; Clip has 3 fields"):
        list(sr.from_npz(tmp_path, Clip))


def test_each_group_of_hdf5_is_a_record(tmp_path):
    """Datasets and attributes of a group are fields, its name the key."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for record in CLIPS:
            group = file.create_group(record.key)
            group["frames"], group["names"] = record.frames, list(record.names)
            group.attrs["label"] = int(record.label)
            group.attrs["more"] = "left out"
        file["alone"] = np.ones(3)
    assert list(sr.from_h5(tmp_path / "x.h5", Clip)) == CLIPS
    with pytest.raises(sr.SourceError, match=r"x\.h5, group 'c0' \(key 'c0'\): this dictionary is no Clip: frames"):
        list(sr.from_h5(tmp_path / "x.h5", Clip, columns={"frames": "x"}))


def test_bad_files_are_named_or_left_out(tmp_path):
    """Files that are damaged, hold objects or do not fit are named with the reason, and nothing in them is executed."""
    np.savez(tmp_path / "a.npz", frames=np.zeros((1, 2), "float32"))
    np.savez(tmp_path / "b.npz", frames=np.array([{}], object))
    np.savez(tmp_path / "c.npz", frames=np.zeros((1, 3), "float32"), label=10**6)
    (tmp_path / "d.npz").write_bytes(b"PK\3\4 and no more")
    for name, said in (
        ("b", "cannot be loaded: Object arrays"),
        ("c", r"\(key 'c'\): .*frames: expected shape \(T, 2\).*; label: expected int16"),
        ("d", "cannot be loaded"),
    ):
        with pytest.raises(sr.SourceError, match=rf"{name}\.npz, record 0.*{said}"):
            list(sr.from_npz(tmp_path / f"{name}.npz", Clip))
    records = sr.from_npz(tmp_path, Clip, on_error="skip")
    assert ([record.key for record in records], records.skipped) == (["a"], 3)


def test_what_is_not_there_is_named(tmp_path):
    """Directories without such files, missing files and unknown fields are refused."""
    with pytest.raises(sr.DatasetNotFoundError, match="npz"):
        sr.from_npz(tmp_path, Clip)
    with pytest.raises(sr.DatasetNotFoundError):
        sr.from_h5(tmp_path / "x.h5", Clip)
    for function in (sr.from_npz, sr.from_h5):
        with pytest.raises(sr.OptionError, match="did you mean 'frames'"):
            function(__file__, Clip, columns={"frame": "x"})
