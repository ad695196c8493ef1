"""Mutated and hostile files of every kind: records, or an error of ours with the file and the line or row."""

import gzip
import random
import time

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, ipc, parquet

import seqrecorder as sr


@sr.record
class Row:
    key: str = sr.context(str)
    n: int = sr.context("int32")
    x: float = sr.context("float32")
    at: np.datetime64 = sr.context("datetime64[s]")


@sr.record
class Lists:
    key: str = sr.context(str)
    ids: np.ndarray = sr.feature_list("int16")
    words: np.ndarray = sr.feature_list(str)
    nested: list = sr.feature_list("float32", shape=(None,), align=None)


@sr.record
class Series:
    label: str = sr.context(str)
    values: np.ndarray = sr.feature_list("float32")


@sr.record
class Words:
    key: str = sr.context(str)
    words: np.ndarray = sr.feature_list(str)
    ids: np.ndarray = sr.feature_list("int16")


SIZE = 12
ROWS = pa.table(
    {
        "key": [f"wörd {number}" for number in range(SIZE)],
        "n": pa.array(range(SIZE), pa.int32()),
        "x": pa.array([number / 4 for number in range(SIZE)], pa.float32()),
        "at": pa.array(range(SIZE), pa.timestamp("s")),
    }
)
LISTS = pa.table(
    {
        "key": [f"k{number}" for number in range(SIZE)],
        "ids": pa.array([list(range(number)) for number in range(SIZE)], pa.list_(pa.int16())),
        "words": pa.array([["wörd"] * number for number in range(SIZE)], pa.list_(pa.string())),
        "nested": pa.array([[[0.5] * number] for number in range(SIZE)], pa.list_(pa.list_(pa.float32()))),
    }
)


def stream(path):
    with ipc.new_stream(path, LISTS.schema) as writer:
        writer.write_table(LISTS, max_chunksize=5)


def text(content):
    return lambda path: path.write_text(content, encoding="utf-8")


CSV = "".join(f"wörd {i},{i},{i / 4},1970-01-01T00:00:{i:02}\n" for i in range(SIZE))
JSON = "".join(
    f'{{"key": "k{i}", "ids": [{i}], "words": ["\\u00e9"], "nested": [[{i / 4}, null]]}}\n' for i in range(SIZE)
)
CONLL = "".join(f"# key = k{i}\nwörd {i}\nword 2\n\n" for i in range(SIZE))
TS = "@classLabel true a b\n@data\n" + "".join(f"{i},?,{i / 4}:{'ab'[i % 2]}\n" for i in range(SIZE))
SKIP = {"on_error": "skip"}
KINDS = {
    "a.csv": (text("key,n,x,at\n" + CSV), lambda path, **options: sr.from_table(path, Row, **options)),
    "rows.csv": (
        text("key,n,x,at\n" + CSV),
        lambda path, **options: sr.from_rows(
            path, Series, by="n", columns={"label": "key", "values": "x"}, **(options | {"extra": "ignore"})
        ),
    ),
    "a.jsonl": (text(JSON), lambda path, **options: sr.from_jsonl(path, Lists, **options)),
    "table.jsonl": (text(JSON), lambda path, **options: sr.from_table(path, Lists, cast=True, **options)),
    "a.conll": (
        text(CONLL),
        lambda path, **options: sr.from_conll(path, Words, columns=["words", "ids"], **options),
    ),
    "a.ts": (text(TS), lambda path, **options: sr.from_ts(path, Series, **options)),
    "a.arrow": (
        lambda path: feather.write_feather(LISTS, path, compression="uncompressed", chunksize=5),
        lambda path, **options: sr.from_table(path, Lists, **options),
    ),
    "stream.arrow": (stream, lambda path, **options: sr.from_table(path, Lists, **options)),
    "lz4.arrow": (
        lambda path: feather.write_feather(ROWS, path, compression="lz4"),
        lambda path, **options: sr.from_table(path, Row, **options),
    ),
    "a.parquet": (
        lambda path: parquet.write_table(LISTS, path, row_group_size=5, write_page_checksum=True),
        lambda path, **options: sr.from_table(path, Lists, **options),
    ),
    "plain.parquet": (
        lambda path: parquet.write_table(ROWS, path, compression="none", use_dictionary=False),
        lambda path, **options: sr.from_table(path, Row, **options),
    ),
}


HOSTILE = [
    b"\0",
    b"\xff\xfe",
    b"\xe9",
    b"\n",
    b"\r",
    b'"',
    b",",
    b"1e999",
    b"[" * 99,
    b"\xed\xa0\x80",
    b"9" * 30,
    b"\x80" * 8,
]


def mutated(data: bytes, draw: random.Random) -> bytes:
    """Return a file with some bytes changed, removed, doubled or put in."""
    changed = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        place = draw.randrange(len(changed) + 1)
        size = draw.choice([1, 1, 4, 40])
        kind = draw.randrange(5)
        if kind == 0:
            changed[place : place + 1] = bytes([draw.randrange(256)])
        elif kind == 1:
            del changed[place : place + size]
        elif kind == 2:
            changed[place:place] = draw.choice(HOSTILE)
        elif kind == 3:
            changed[place:place] = changed[place : place + size]
        else:
            changed[place : place + 4] = draw.choice([b"\xff\xff\xff\x7f", b"\0\0\0\0", b"\xff\xff\xff\xff"])
    return bytes(changed)


@pytest.mark.parametrize("files", [40, pytest.param(2000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("name", KINDS)
def test_damaged_files_end_in_records_or_errors_of_ours(tmp_path, name, files):
    """Each file gives records, or a SourceError, or the RecordError of a row, that names the file and the place."""
    write, read = KINDS[name]
    path = tmp_path / name
    write(path)
    data = path.read_bytes()
    assert len(list(read(path))) == SIZE, "the file is good before it is damaged"
    draw = random.Random(name)
    said = []
    for _ in range(files):
        path.write_bytes(mutated(data, draw))
        for options in ({}, SKIP):
            try:
                list(read(path, **options))
            except (sr.SourceError, sr.RecordError, sr.OptionError) as error:
                said.append(str(error))
    assert said
    assert not [text for text in said if name not in text and "column" not in text]


def test_bytes_that_are_no_utf8_name_their_line(tmp_path):
    """The line of such a byte is named, not that of the block that was decoded, and it alone is left out."""
    for read, first, line in (
        (KINDS["a.jsonl"], 0, b'{"key": "caf\xe9", "ids": [], "words": [], "nested": []}'),
        (KINDS["a.conll"], 0, b"caf\xe9 1"),
        (KINDS["a.ts"], 2, b"1,2:caf\xe9"),
    ):
        path = tmp_path / "bytes"
        read[0](path)
        lines = path.read_bytes().split(b"\n")
        head, body = lines[:first], lines[first:-1] * 100  # far over a block of the decoder
        path.write_bytes(b"\n".join([*head, *body, line, b""]))
        number = len(head) + len(body) + 1
        with pytest.raises(sr.SourceError, match=rf"bytes, line {number}: expected UTF-8, got the bytes b'.xe9'"):
            list(read[1](path))
        records = read[1](path, **SKIP)
        assert len(list(records)) > 900
        assert records.skipped == 1


def test_rows_of_csv_that_are_no_utf8_are_named(tmp_path):
    """`from_csv` names the line, a table the row and the column."""

    @sr.record
    class Word:
        key: str = sr.context(str)

        @classmethod
        def from_csv_row(cls, row):
            return cls(row["key"])

    (tmp_path / "a.csv").write_bytes(b"key\n" + b"a\n" * 9000 + b"caf\xe9\n" + b"a\n" * 9000)
    with pytest.raises(sr.SourceError, match=r"a\.csv, line 9002: expected utf-8, got the bytes b'\\xe9'"):
        list(sr.from_csv(tmp_path / "a.csv", Word))
    assert len(list(sr.from_csv(tmp_path / "a.csv", Word, encoding="latin-1"))) == 18_001
    with pytest.raises(sr.SourceError, match=r"a\.csv, row 9000, column 'key': expected UTF-8 .*, got str 'caf"):
        list(sr.from_table(tmp_path / "a.csv", Word))


@pytest.mark.parametrize("depth", [33, 70, 900, 5000])
@pytest.mark.parametrize("field", ["ids", "words", "nested"])
def test_deep_json_is_an_error_of_its_line(tmp_path, depth, field):
    """Lists inside one another, deeper than numpy's dimensions or Python's stack, are left out like other bad lines."""
    path = tmp_path / "a.jsonl"
    path.write_text(
        JSON + JSON.split("\n")[0].replace(f'"{field}": [', f'"{field}": [' + "[" * depth + "]" * depth) + "\n"
    )
    with pytest.raises(sr.SourceError, match=rf"a\.jsonl, line {SIZE + 1}"):
        list(sr.from_jsonl(path, Lists))
    assert len(list(sr.from_jsonl(path, Lists, on_error="skip"))) == SIZE


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize(
    "before", ["\n", JSON.split("\n")[0] + "\n", "{}\n" * (1 << 19)], ids=["first", "second", "block"]
)
def test_null_in_place_of_an_object_is_an_error(tmp_path, before, ending):
    """A line that is null is refused with its number: at the start of a block of 1 MiB it would kill pyarrow."""
    path = tmp_path / f"a.jsonl{ending}"
    text = f"{before} null\n{JSON}".encode()
    path.write_bytes(gzip.compress(text) if ending else text)
    for read in (lambda: list(sr.from_table(path, Lists)), lambda: sr.Schema.infer(path)):
        with pytest.raises(
            sr.SourceError, match=rf"a\.jsonl.*line {before.count(chr(10)) + 1}: expected a JSON object, got"
        ):
            read()


def test_names_with_nul_are_refused(tmp_path):
    """Arrow looks columns up by C strings: a name with NUL is an error, wherever the table is from."""
    table = pa.table({"key": ["a"], "odd\0name": [1]})
    parquet.write_table(table, tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("key,odd\0name\na,1\n")
    for given in (table, tmp_path / "a.parquet", tmp_path / "a.csv"):
        for read in (sr.Schema.infer, lambda given: sr.from_table(given, Row, extra="ignore")):
            with pytest.raises(sr.SourceError, match="NUL in its name"):
                read(given)


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_lines_longer_than_a_block_say_what_to_do(tmp_path, ending):
    """A line of more than a megabyte is an error in the words of a user, with the row before it."""
    rows = {"csv": ("key\n", "{}\n"), "jsonl": ("", '{{"key": "{}"}}\n')}[ending]
    path = tmp_path / f"a.{ending}"

    @sr.record
    class Text:
        key: str = sr.context(str)

    for before in (0, 5):
        path.write_text(rows[0] + rows[1].format("a") * before + rows[1].format("b" * 3_000_000))
        with pytest.raises(
            sr.SourceError, match=rf"a\.{ending}.*a line is longer than 1 MiB: write the table as Parquet"
        ):
            list(sr.from_table(path, Text))


@pytest.mark.nightly
def test_time_is_linear_in_the_width(tmp_path):
    """A CSV with ten times the columns takes about ten times as long, not a hundred times."""

    def seconds(columns):
        path = tmp_path / f"{columns}.csv"
        path.write_text(
            "key,n,x,at," + ",".join(f"c{i}" for i in range(columns)) + "\na,1,1,1970-01-01" + ",0" * columns
        )
        start = time.process_time()
        assert len(list(sr.from_table(path, Row, extra="ignore"))) == 1
        return time.process_time() - start

    assert min(seconds(20_000) for _ in range(3)) < 30 * min(seconds(2_000) for _ in range(3))
