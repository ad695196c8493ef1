"""Where records come from: `from_csv`, a record for each row, and blocks of any iterable."""

import bz2
import gzip
import io
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import seqrecorder as sr
from seqrecorder.writing.intake import RecordStream


@sr.record
class Word:
    text: str = sr.context(str)
    count: int = sr.context(int)

    @classmethod
    def from_csv_row(cls, row: dict[str, str], least: int = 0) -> "Word":
        if int(row["count"]) < least:
            raise sr.SkipRecord
        assert row[0] == row["text"]
        return cls(row["text"], int(row["count"]))


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_text(text, encoding=encoding, newline="")
    return path


@pytest.mark.parametrize("ending", ["csv.gz", "csv.bz2", "csv.xz", "csv.zst"])
def test_packed_files_and_the_standard_input_are_read(tmp_path: Path, ending: str, monkeypatch: Any) -> None:
    """A file is packed as its ending says, and refused with its name where it is not; `-` is the standard input."""
    text = b'text,count\r\n"a\nb",3\r\nc,1\r\n'
    packed = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": pa.Codec("zstd").compress}
    (tmp_path / f"x.{ending}").write_bytes(bytes(packed[ending[4:]](text)))
    assert list(sr.from_csv(tmp_path / f"x.{ending}", Word)) == [Word("a\nb", 3), Word("c", 1)]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert [word.text for word in sr.from_csv("-", Word)] == ["a\nb", "c"]
    (tmp_path / f"x.{ending}").write_bytes(text)
    with pytest.raises(sr.SourceError, match=r"x\.csv"):
        list(sr.from_csv(tmp_path / f"x.{ending}", Word))


def test_a_record_for_each_row(tmp_path: Path) -> None:
    """Rows become records, with quotes, line ends inside them and a byte order mark; it can be iterated over again."""
    file = write(tmp_path / "words.csv", 'text,count\r\n"a, ""b""\nc",3\r\nd,1\r\n', "utf-8-sig")
    records = sr.from_csv(file, Word)
    assert list(records) == list(records) == [Word('a, "b"\nc', 3), Word("d", 1)]


def test_skipped_rows_are_counted(tmp_path: Path) -> None:
    """A row that the hook leaves out is counted, and the manifest says so."""
    file = write(tmp_path / "words.csv", "text,count\na,1\nb,5\nc,0\n")
    records = sr.from_csv(file, Word, least=2)
    assert [word.text for word in records] == ["b"]
    assert records.skipped == 2
    assert sr.write(records, tmp_path / "words").skipped == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("text,count\na,1\nb\n", "line 3"),
        ("text,count\na,1,2\n", "line 2"),
        ("text,count\na,x\n", "line 2.*from_csv_row failed: ValueError"),
        (
            'text,count\na,1\n"b,1\nc,1\n',
            "row that begins in line 3: .*unexpected end of data; check its quotes",
        ),
    ],
)
def test_bad_rows_name_their_line(tmp_path: Path, text: str, message: str) -> None:
    """A row of another length, and one that the hook fails on, are errors that name the line."""
    with pytest.raises(sr.SourceError, match=message):
        list(sr.from_csv(write(tmp_path / "words.csv", text), Word))


def test_bad_rows_publish_nothing(tmp_path: Path) -> None:
    """A dataset whose source fails is not there afterwards."""
    file = write(tmp_path / "words.csv", "text,count\na,1\nb,x\n")
    with pytest.raises(sr.SourceError, match="line 3"):
        sr.write(sr.from_csv(file, Word), tmp_path / "words")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["words.csv"]


def test_hooks_and_parameters_are_checked(tmp_path: Path) -> None:
    """A class without the hook, and a parameter that it does not take, are refused before anything is read."""

    @sr.record
    class Bare:
        x: int = sr.context(int)

    with pytest.raises(sr.SchemaError, match="from_csv_row"):
        sr.from_csv(tmp_path / "none.csv", Bare)
    with pytest.raises(sr.OptionError, match="did you mean 'least'"):
        sr.from_csv(tmp_path / "none.csv", Word, lest=1)


def test_records_are_taken_in_blocks() -> None:
    """Blocks have at most the records asked for, of one split each; the first still comes after a look at it."""
    stream = RecordStream({"train": iter("abcde"), "eval": [], "test": ("f",)})
    assert stream.peek() == "a"
    taken = [stream.take(most) for most in (3, 2, 2, 9, 9, 9)]
    assert taken == [
        ("train", ["a"]),
        ("train", ["b", "c"]),
        ("train", ["d", "e"]),
        ("test", ["f"]),
        (None, []),
        (None, []),
    ]
    assert RecordStream([]).peek() is None


@pytest.mark.parametrize("most", [1, 2, 3, 7])
def test_what_came_before_a_failure_is_given(most: int) -> None:
    """Records before the one at which a source fails come first; then the error names it, each time it is asked."""

    def source() -> Iterator[int]:
        yield from range(5)
        raise KeyError("x")

    stream, taken = RecordStream(source()), list[int]()
    while len(taken) < 5:
        taken += stream.take(most)[1]
    assert taken == list(range(5))
    for _ in range(2):
        with pytest.raises(sr.SourceError, match=r"failed at record 5: KeyError: 'x'"):
            stream.take(most)


@pytest.mark.parametrize(
    "make", [pa.table, pd.DataFrame, pl.DataFrame, lambda columns: {"train": pd.DataFrame(columns)}]
)
def test_tables_need_a_class(make):
    """A table is refused before it is iterated over, where nobody says what its rows are."""
    with pytest.raises(sr.OptionError, match="schema=Class"):
        RecordStream(make({"key": ["a"]}))


@pytest.mark.parametrize("schema", [Word, None])
@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ([("a", 1)], r"\(\*row\)"),
        ({"text": ["a"], "count": [1]}, "Writer.write_batch"),
        (np.zeros(3), "Writer.write_batch"),
        ([pa.table({"text": ["a"]})], "Writer.write_batch"),
    ],
)
def test_what_is_no_record_is_told_what_it_becomes(tmp_path: Path, schema, given, advice):
    """Rows and columns that are given for records are refused with what to do, with a class and without one."""
    with pytest.raises(sr.SeqrecorderError, match=f"(?s)expected a record.*{advice}"):
        sr.write(given, tmp_path / "d", schema=schema)
    assert not (tmp_path / "d").exists()


def test_other_marks_between_columns_are_told_to_hooks(tmp_path):
    """A line with a decimal comma and semicolons has a column too many: no row names, but another separator."""
    file = write(tmp_path / "words.csv", "text;count\na;1,5\n")
    with pytest.raises(sr.SourceError, match=r"got more \(columns between ';'\? .*sep=';', decimal=','") as error:
        list(sr.from_csv(file, Word))
    assert "row names" not in str(error.value)


@pytest.mark.parametrize("encoding", ["utf-8", "UTF8", "utf-8-sig"])
def test_a_byte_order_mark_is_dropped(tmp_path, encoding):
    """Excel's mark is no part of the first name, whatever UTF-8 is called."""
    file = write(tmp_path / "words.csv", "text,count\na,1\n", "utf-8-sig")
    assert [word.text for word in sr.from_csv(file, Word, encoding=encoding)] == ["a"]


@pytest.mark.parametrize(("line", "text"), [(1, "text,Zähler\na,1\n"), (2, "text,count\nÜ,1\n")])
def test_the_error_of_a_foreign_encoding_names_the_option(tmp_path, line, text):
    """Bytes of cp1252 in the header or in a row are an error that says what to pass."""
    file = write(tmp_path / "words.csv", text, "cp1252")
    error = rf"words.csv, line {line}: expected utf-8, got the bytes .*: pass encoding=, such as encoding=\"cp1252\""
    with pytest.raises(sr.SourceError, match=error):
        list(sr.from_csv(file, Word))


def test_utf_16_without_a_mark_is_told(tmp_path):
    """The codec's error comes with the file's name."""
    file = write(tmp_path / "words.csv", "text,count\na,1\n", "utf-8")
    with pytest.raises(sr.SourceError, match=r"words.csv, .*not utf-16 CSV: .*[Ss]tream"):
        list(sr.from_csv(file, Word, encoding="utf-16"))
