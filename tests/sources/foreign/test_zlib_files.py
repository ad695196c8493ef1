"""TFRecord files in ZLIB, unpacked beside."""

import zlib

import pytest
from foreign_messages import example, feature, written

import seqrecorder as sr
from seqrecorder.sources.foreign.zlib_files import unpacked


def test_files_in_zlib_stand_unpacked_and_others_as_they_are(tmp_path):
    """Each keeps its place and name; what was unpacked is gone afterwards."""
    messages = [example(a=feature(n)) for n in range(3)]
    plain, packed = written(tmp_path / "a", messages), written(tmp_path / "b", messages, "ZLIB")
    with unpacked([packed, plain]) as files:
        assert [file.name for file in files] == ["b", "a"]
        assert files[1] == plain
        assert files[0].read_bytes() == plain.read_bytes() == zlib.decompress(packed.read_bytes())
    assert not files[0].exists()
    assert plain.exists()


def test_damage_is_named(tmp_path):
    """A file that is cut, or whose packed bytes are not what they were, is refused by its name."""
    packed = written(tmp_path / "old", [example(a=feature(*range(3000)))], "ZLIB")
    data = packed.read_bytes()
    packed.write_bytes(data[:-3])
    with pytest.raises(sr.ShardReadError, match="old: it is cut"), unpacked(packed):
        pass
    packed.write_bytes(data[:200] + b"\xff" * 40 + data[240:])
    with pytest.raises(sr.ShardReadError, match="old: what is packed with ZLIB is damaged"), unpacked(packed):
        pass
