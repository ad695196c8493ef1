"""Data written by every release stay readable, to the bit, and are written the same as long as the format is."""

import sys
from pathlib import Path

import pytest

import seqrecorder as sr

GOLDEN = Path(__file__).parent / "golden"
sys.path.append(str(GOLDEN))

from make import RECORDS, Golden, write  # noqa: E402 - a script, not a package

VERSIONS = sorted(path.name for path in GOLDEN.iterdir() if path.name.startswith("v"))


@pytest.mark.parametrize("version", VERSIONS)
def test_old_data_are_read(version):
    """Every golden data set is sound, and gives exactly the records of the script that made it."""
    for name in ("plain", "gzip"):
        assert sr.verify(GOLDEN / version / name, schema=Golden).problems == ()
    plain, packed = GOLDEN / version / "plain", GOLDEN / version / "gzip"
    read = [record for split in ("train", "eval") for record in sr.read_records(plain, split, schema=Golden)]
    assert sorted(read, key=lambda record: record.rate) == RECORDS
    assert sorted(sr.read_records(packed, schema=Golden), key=lambda record: record.rate) == RECORDS[:7]
    manifest = sr.info(plain)
    assert manifest.metadata == {"of": ["a", 1, None]}
    assert manifest.assets["words.txt"].read_text() == "a\nb\n"
    [batch] = sr.read(plain, "eval", schema=Golden, batch=sr.Pad(12))
    assert batch["exact"].shape[0] == manifest.splits["eval"].records


def test_the_same_bytes_are_written(tmp_path):
    """The newest golden data set is what is written now, byte for byte (of GZIP: but for zlib's choices)."""
    write(tmp_path)
    newest = GOLDEN / VERSIONS[-1] / "plain"
    files = sorted(path.relative_to(newest) for path in newest.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(tmp_path / "plain") for path in (tmp_path / "plain").rglob("*.*"))
    for file in files:
        assert (newest / file).read_bytes() == (tmp_path / "plain" / file).read_bytes(), file
