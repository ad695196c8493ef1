"""Records that are encoded in one process and written in another give the dataset of `write`."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import seqrecorder as sr
from seqrecorder.codec.encode import PIECE_RECORDS
from seqrecorder.writing.part import EncodedPiece, PieceEncoder, check_unsorted, write_pieces


@sr.record
class Word:
    key: str = sr.context(str, key=True)
    speaker: str | None = sr.context(str, optional=True)
    ids: np.ndarray = sr.feature_list("int64")


@sr.record
class Chunked:
    key: str = sr.context(str, key=True)
    number: int = sr.context("int64", chunk=True, default=0)

    def split(self, chunks: int = 3) -> Any:
        if self.key == "w3":
            raise sr.SkipRecord
        for number in range(chunks):
            yield Chunked(self.key, number)


WORDS = [Word(f"w{i}", f"s{i % 7}", np.arange(i % 5)) for i in range(100)]
SHARES = {"train": 0.7, "eval": 0.3}


def encoder(schema: type, **options: Any) -> PieceEncoder:
    made = sr.Schema.of(schema)
    return PieceEncoder(made, check_unsorted(made, options))


def keys(path: Path) -> dict[str, list[str]]:
    return {name: sorted(record.key for record in sr.read_records(path, name)) for name in sr.info(path).splits}


@pytest.mark.parametrize("options", [{}, {"splits": SHARES}, {"splits": SHARES, "split_by": "speaker"}])
def test_any_source_gives_the_same_pieces(tmp_path: Path, options: dict[str, Any]) -> None:
    """Records, dictionaries and tables become the same pieces, which make the dataset that `write` makes."""
    rows = [{"key": word.key, "speaker": word.speaker, "ids": word.ids.tolist()} for word in WORDS]
    encode = encoder(Word, **options)
    pieces = list(encode.encode(WORDS))
    assert list(copy.copy(encode).encode(rows)) == pieces  # as pickles are
    assert list(encode.encode([pa.Table.from_pylist(rows)])) == pieces
    assert list(encode.encode([])) == []
    given = check_unsorted(sr.Schema.of(Word), {**options, "shards": 2})
    for part, some in enumerate((pieces[60:], pieces[:60])):
        write_pieces(some, tmp_path / "c", Word, part, given)
    assert sr.commit(tmp_path / "c").records == 100
    sr.write(WORDS, tmp_path / "one", **options)
    assert keys(tmp_path / "c") == keys(tmp_path / "one")
    assert sr.verify(tmp_path / "c").ok


def test_hooks(tmp_path: Path) -> None:
    """The first chunk of a source answers for its key, wherever the others go; what is left out is counted."""
    encode = encoder(Chunked, params={"chunks": 2})
    sources = [Chunked(f"w{i}") for i in range(6)]
    for given in (sources, [pa.table({"key": [source.key for source in sources], "number": [0] * 6})]):
        pieces = list(encode.encode(given, "all"))
        assert [bool(piece.key) for piece in pieces] == [True, False] * 5
        assert {piece.split for piece in pieces} == {"all"}
    assert encode.skipped == 2
    options = check_unsorted(sr.Schema.of(Chunked), {})
    for part in range(2):
        write_pieces(pieces[part::2], tmp_path / "c", Chunked, part, options)
    assert sr.commit(tmp_path / "c").records == 10
    sr.write_part({"all": [Chunked("w1")]}, tmp_path / "c", 0, append=True)
    with pytest.raises(sr.DuplicateKeyError, match="'w1'.*part 0 and in .*c;"):
        sr.commit(tmp_path / "c", append=True)
    for part in range(2):
        write_pieces(pieces[:2], tmp_path / "d", Chunked, part, options)
    with pytest.raises(sr.DuplicateKeyError, match="'w0'"):
        sr.commit(tmp_path / "d")


def test_chunks_of_a_source_that_come_in_blocks() -> None:
    """A source whose chunks fill several blocks has one key."""
    chunks = PIECE_RECORDS + 10
    pieces = list(encoder(Chunked, params={"chunks": chunks}).encode([Chunked("a"), Chunked("b")]))
    assert [number for number, piece in enumerate(pieces) if piece.key] == [0, chunks]


def test_errors(tmp_path: Path) -> None:
    """Keys that come twice and bad records are named, without a position, which chance decides."""
    encode = encoder(Word)
    pieces = list(encode.encode([Word("a", None, []), Word("b", None, []), Word("b", None, [1])]))
    with pytest.raises(sr.DuplicateKeyError, match="^record .key 'b'.: has the same key") as caught:
        write_pieces(pieces, tmp_path / "c", Word, 0, check_unsorted(sr.Schema.of(Word), {}))
    assert caught.value.key == "b"
    assert not list(tmp_path.glob("c.parts/*"))
    with pytest.raises(sr.RecordError, match="^record .key 'x'.: ") as bad:
        list(encode.encode([Word("a", None, []), Word("x", None, ["y"])]))
    assert bad.value.position is None
    assert EncodedPiece(0, "a", b"", b"", b"").key == b""
