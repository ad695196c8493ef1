"""Lines of JSON: records, and bad lines named with file, line, key and reason."""

import io
import logging

import attrs
import numpy as np
import pytest

import seqrecorder as sr


@sr.record
class Event:
    key: str = sr.context(str, key=True)
    at: np.datetime64 = sr.context("datetime64[s]")
    weight: float | None = sr.context("float32", optional=True)
    ids: np.ndarray = sr.feature_list("uint8")
    scores: list = sr.feature_list("float64", shape=(None,))


LINES = """\
{"key": "a", "at": "2024-01-01T00:00:01", "weight": 0.1, "ids": [1, 2], "scores": [[0.5, null], []]}

{"key": "b", "at": "2024-01-02", "weight": null, "ids": [], "scores": []}
"""
EXPECTED = [
    Event("a", np.datetime64("2024-01-01T00:00:01", "s"), np.float32(0.1), [1, 2], [[0.5, float("nan")], []]),
    Event("b", np.datetime64("2024-01-02", "s"), None, [], []),
]


def test_lines_become_records(tmp_path, monkeypatch):
    """Files, lists of files and the standard input give records; empty lines none; a null of a float is NaN."""
    (tmp_path / "x.jsonl").write_text(LINES, encoding="utf-8-sig")
    records = sr.from_jsonl(tmp_path / "x.jsonl", Event)
    assert list(records) == EXPECTED == list(records)
    assert repr(records) == f"<Event records of {tmp_path / 'x.jsonl'}>"
    assert list(sr.from_jsonl([tmp_path / "x.jsonl"] * 2, Event)) == EXPECTED * 2
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(LINES.encode())))
    assert list(sr.from_jsonl("-", Event)) == EXPECTED


def test_keys_are_mapped_and_left_out(tmp_path):
    """`columns` maps names of keys, and `extra` lets keys be that are no field."""
    (tmp_path / "x.jsonl").write_text(LINES.replace('"ids"', '"note": {}, "numbers"'))
    records = sr.from_jsonl(tmp_path / "x.jsonl", Event, columns={"ids": "numbers"}, extra="ignore")
    assert list(records) == EXPECTED


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "invalid JSON: "),
        ("[1]", "expected an object of field to value, got list"),
        ('{"key": "c"}', r"\(key 'c'\): this dictionary is no Event: at: expected a value"),
        ('{"key": "c", "at": "1970-01-01", "ids": [300], "scores": []}', r"\(key 'c'\).*ids\[0\]: expected uint8 in"),
        ('{"key": "c", "at": "1970-01-01", "ids": [null], "scores": []}', r"ids\[0\]: expected uint8, got None"),
        ('{"key": "c", "at": "1970-01-01T00:00:00Z", "ids": [], "scores": []}', "without a time zone"),
        ('{"key": "c", "at": "then", "ids": [], "scores": []}', "Error parsing datetime"),
        ('{"key": 3, "at": "1970-01-01", "ids": [], "scores": [], "idz": 1}', "idz: expected a field .*mean 'ids'"),
        ('{"key": 3, "at": "1970-01-01", "ids": 1.5, "scores": []}', "key: expected str.*; ids: expected"),
    ],
)
def test_bad_lines_are_named_or_left_out(tmp_path, line, said, caplog):
    """A line that is no record stops, with file, line, key and all reasons; or it is left out, logged and counted."""
    (tmp_path / "x.jsonl").write_text(f"{LINES}{line}\n")
    with pytest.raises(sr.SourceError, match=rf"x\.jsonl, line 4.*{said}"):
        sr.write(sr.from_jsonl(tmp_path / "x.jsonl", Event), tmp_path / "d")
    assert not (tmp_path / "d").exists()
    with caplog.at_level(logging.WARNING, "seqrecorder"):
        manifest = sr.write(sr.from_jsonl(tmp_path / "x.jsonl", Event, on_error="skip"), tmp_path / "d")
    assert (manifest.records, manifest.skipped) == (2, 1)
    assert "line 4" in caplog.text


def test_files_that_cannot_be_read_are_named(tmp_path):
    """What is missing, not UTF-8, or not packed as its name says is refused with the name of the file."""
    with pytest.raises(sr.DatasetNotFoundError, match="no file"):
        sr.from_jsonl(tmp_path / "x.jsonl", Event)
    (tmp_path / "x.jsonl").write_bytes(b"{}\n\xff")
    (tmp_path / "x.jsonl.gz").write_bytes(b"no gzip")
    for name in ("x.jsonl", "x.jsonl.gz"):
        with pytest.raises(sr.SourceError, match=name.replace(".", r"\.")):
            list(sr.from_jsonl(tmp_path / name, Event, on_error="raise" if name == "x.jsonl" else "skip"))
    for options in ({"extra": "drop"}, {"on_error": "ignore"}, {"columns": {"kay": "key"}}):
        with pytest.raises(sr.OptionError, match="expected 'error'|expected 'raise'|did you mean 'key'"):
            sr.from_jsonl(tmp_path / "x.jsonl", Event, **options)


@sr.record
class Pair:
    key: str = sr.context(str, key=True)
    left: np.ndarray = sr.feature_list("int64")
    right: np.ndarray = sr.feature_list("int64", default=())


def test_lines_are_skipped_one_by_one_among_many(tmp_path):
    """Of lines that are looked at together only the bad ones are left out, also where lists disagree."""
    lines = [f'{{"key": "{n}", "left": [{n}], "right": [{n}]}}' for n in range(5000)]
    lines[2], lines[5], lines[6] = '{"key": "2", "left": [1], "right": []}', "[", '{"key": "6", "left": []}'
    (tmp_path / "x.jsonl").write_text("\n\n".join(lines))
    records = sr.from_jsonl(tmp_path / "x.jsonl", Pair, on_error="skip")
    expected = [Pair(str(n), [n], [n]) if n != 6 else Pair("6", []) for n in range(5000) if n not in (2, 5)]
    assert list(records) == expected
    assert records.skipped == 2
    assert sr.write(records, tmp_path / "d").skipped == 2
    assert list(sr.read_records(tmp_path / "d", schema=Pair)) == expected
    with pytest.raises(sr.SourceError, match=r"line 5 \(key '2'\).*right: expected 1 steps, as 'left' has"):
        list(sr.from_jsonl(tmp_path / "x.jsonl", Pair))


def test_a_class_that_does_more_makes_its_records_itself(tmp_path):
    """A validator, and an attribute that is not stored, have their say."""

    @sr.record
    class Checked:
        key: str = sr.context(str)
        note: str = attrs.field(default="own")

        def __attrs_post_init__(self):
            if self.key == "b":
                raise ValueError("no b")

    (tmp_path / "x.jsonl").write_text('{"key": "a"}\n{"key": "b"}\n')
    with pytest.raises(sr.SourceError, match="line 2: no b"):
        list(sr.from_jsonl(tmp_path / "x.jsonl", Checked))
    assert [r.note for r in sr.from_jsonl(tmp_path / "x.jsonl", Checked, on_error="skip")] == ["own"]


def test_a_key_for_a_field_that_another_key_fills(tmp_path):
    """A key that is named as a field whose values come from another key is no field, and refused as such."""

    @sr.record
    class Point:
        x: int = sr.context("int64")

    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1, "x": 2}\n')
    with pytest.raises(sr.SourceError, match="line 1: key 'x': columns= takes the field of this name from another key"):
        list(sr.from_jsonl(path, Point, columns={"x": "a"}))
    assert [point.x for point in sr.from_jsonl(path, Point, columns={"x": "a"}, extra="ignore")] == [1]
