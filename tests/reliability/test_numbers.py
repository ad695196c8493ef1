"""Numbers in text: one rule for all sources. What is beyond its type is refused by line or row, and nothing wraps."""

import attrs
import numpy as np
import pytest

import seqrecorder as sr

HEAD = "@problemName p\n@timeStamps false\n@univariate true\n@classLabel false\n"


def declared(dtype):
    @sr.record
    class Row:
        key: int = sr.context("int64")
        x: float = sr.context(dtype)

    @sr.record
    class Steps:
        x: np.ndarray = sr.feature_list(dtype)

    return Row, Steps


def conll(path, dtype, text, **options):
    path.with_suffix(".conll").write_text(f"1\n{text}\n")
    return sr.from_conll(path.with_suffix(".conll"), declared(dtype)[1], columns=["x"], **options)


def jsonl(path, dtype, text, **options):
    path.with_suffix(".jsonl").write_text(f'{{"key": 1, "x": 1}}\n{{"key": 1, "x": {text}}}\n')
    return sr.from_jsonl(path.with_suffix(".jsonl"), declared(dtype)[0], **options)


def json_table(path, dtype, text, **options):
    path.with_suffix(".jsonl").write_text(f'{{"key": 1, "x": 1}}\n{{"key": 1, "x": {text}}}\n')
    return sr.from_table(path.with_suffix(".jsonl"), declared(dtype)[0], cast=True, **options)


def json_lists(path, dtype, text, **options):
    path.with_suffix(".jsonl").write_text(f'{{"x": [1]}}\n{{"x": [2, {text}]}}\n')
    return sr.from_table(path.with_suffix(".jsonl"), declared(dtype)[1], cast=True, **options)


def csv_table(path, dtype, text, **options):
    path.with_suffix(".csv").write_text(f"key,x\n1,1\n2,{text}\n")
    return sr.from_table(path.with_suffix(".csv"), declared(dtype)[0], cast=True, **options)


def csv_steps(path, dtype, text, **options):
    path.with_suffix(".tsv").write_text(f"key\tx\n1\t{text}\n")
    options |= {"by": "key", "extra": "ignore", "cast": True}
    return sr.from_rows(path.with_suffix(".tsv"), declared(dtype)[1], **options)


def series(path, dtype, text, **options):
    path.with_suffix(".ts").write_text(f"{HEAD}@data\n1,2\n1,{text}\n")
    return sr.from_ts(path.with_suffix(".ts"), declared(dtype)[1], **options)


SOURCES = [conll, jsonl, json_table, json_lists, csv_table, csv_steps, series]
JSON = [jsonl, json_table, json_lists]
BEYOND = [
    ("float16", "70000.5"),
    ("bfloat16", "1e39"),
    ("float32", "1e39"),
    ("float32", "-1e400"),
    ("float64", "1e400"),
]
BEYOND += [("int8", "128"), ("uint8", "-1"), ("int64", "9223372036854775808"), ("uint64", "18446744073709551616")]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("dtype", "text"), BEYOND)
def test_numbers_beyond_their_type_are_refused(tmp_path, source, dtype, text):
    """A number that its type does not hold is an error with the file and the line or row, never another number."""
    with pytest.raises((sr.SourceError, sr.RecordError), match=r"(?s)numbers.*(line|row) \d|record \d.*numbers"):
        list(source(tmp_path / "numbers", dtype, text))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("text", ["Infinity", "-Infinity", "inf"])
def test_infinities_that_are_written_stay(tmp_path, source, dtype, text):
    """An infinity is a number of floats; JSON knows its long name alone."""
    if source in JSON and text == "inf":
        return
    records = source(tmp_path / "numbers", dtype, text)
    assert np.ravel(list(records)[-1].x)[-1] == float(text)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("dtype", "text"), [("int64", "0x10"), ("int64", "1_000"), ("float64", "1_000.5")])
@pytest.mark.parametrize("digits", ["", "\u0661\u0662"])
def test_numbers_of_other_notations_are_refused(tmp_path, source, dtype, text, digits):
    """What only one of the parsers would take is a number to none."""
    with pytest.raises(sr.SourceError, match=r"numbers.*(line|row) \d"):
        list(source(tmp_path / "numbers", dtype, digits or text))


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_narrow_floats_of_text_are_rounded(tmp_path, name):
    """Text tells no width: a table of text gives float32 its nearest values without `cast`, the missing ones as NaN."""
    row, _ = declared("float32")
    csv = "key,x\n1, 0.1 \n2,NA\n"
    (tmp_path / name).write_text(csv if name == "a.csv" else '{"key": 1, "x": 0.1}\n{"key": 2, "x": null}\n')
    got = [record.x for record in sr.from_table(tmp_path / name, row)]
    np.testing.assert_array_equal(got, np.array([0.1, np.nan], "float32"))


@pytest.mark.parametrize("row", [0, 1, 70_000])
def test_the_row_of_a_bad_value_is_named(tmp_path, row):
    """Rows count from the first below the header, over all blocks of the file."""
    lines = [f"{number},{number}.5" for number in range(70_001)]
    lines[row] = "7,seven"
    (tmp_path / "a.csv").write_text("\n".join(["key,x", *lines, ""]))
    with pytest.raises(sr.SourceError, match=rf"a\.csv, row {row}, column 'x': expected float, got str 'seven'"):
        list(sr.from_table(tmp_path / "a.csv", declared("float32")[0]))


def test_keys_of_json_come_once(tmp_path):
    """A key that comes twice is refused with its line, at any depth; the next lines are read."""
    (tmp_path / "a.jsonl").write_text('{"key": 1, "x": 1, "x": 2}\n{"key": 1, "x": 3}\n')
    row, _ = declared("float64")
    with pytest.raises(sr.SourceError, match="line 1: the key 'x' occurs twice"):
        list(sr.from_jsonl(tmp_path / "a.jsonl", row))
    records = sr.from_jsonl(tmp_path / "a.jsonl", row, on_error="skip")
    assert [attrs.astuple(record) for record in records] == [(1, 3.0)]


@pytest.mark.parametrize("text", ["2500-01-01T00:00:00.000000000", "today", "now", "1500-01-01T00:00:00.000000000Z"])
def test_times_are_those_of_the_text(tmp_path, text):
    """Numpy wraps a year beyond its nanoseconds, and knows the day of the reading."""

    @sr.record
    class Event:
        at: np.datetime64 = sr.context("datetime64[s, UTC]" if text.endswith("Z") else "datetime64[s]")

    (tmp_path / "a.jsonl").write_text(f'{{"at": "{text}"}}\n')
    with pytest.raises(sr.SourceError, match=r"a\.jsonl, line 1: "):
        list(sr.from_jsonl(tmp_path / "a.jsonl", Event))


@pytest.mark.parametrize(("more", "taken"), [("true\n@seriesLength 2", True), ("true\n@seriesLength 5", False)])
def test_series_are_as_long_as_their_header_says(tmp_path, more, taken):
    """`@seriesLength` of a file of equal lengths is a promise; of other files it may be the longest."""
    _, steps = declared("float64")
    for equal, good in ((more, taken), (more.replace("true", "false"), True)):
        (tmp_path / "a.ts").write_text(f"{HEAD}@equalLength {equal}\n@data\n1,2\n")
        if good:
            assert len(list(sr.from_ts(tmp_path / "a.ts", steps))) == 1
        else:
            with pytest.raises(sr.SourceError, match="line 8: expected 5 values, as @seriesLength says, got 2"):
                list(sr.from_ts(tmp_path / "a.ts", steps))


def test_targets_of_a_regression_are_drafted_as_numbers(tmp_path):
    """`@targetlabel` is a number in a draft too."""
    (tmp_path / "a.ts").write_text("@targetlabel true\n@data\n1,2:-0.25\n3,4:1\n")
    assert sr.Schema.infer(str(tmp_path / "a.ts"))["label"].element.name == "float64"
    (tmp_path / "a.ts").write_text("@targetlabel true\n@data\n1,2:much\n")
    with pytest.raises(sr.SourceError, match=r"a\.ts, line 3: could not convert"):
        sr.Schema.infer(str(tmp_path / "a.ts"))


@pytest.mark.parametrize("source", [csv_table, csv_steps])
@pytest.mark.parametrize("dtype", ["int8", "int64", "uint64"])
def test_integers_that_are_written_as_floats_are_cast(tmp_path, source, dtype):
    """A column of integers with gaps, as pandas writes it, has texts such as 2.0, which `cast` takes, and 2.5 never."""
    largest = str(np.iinfo(dtype).max)
    for text in ("2.0", "2.", f"{largest}.00", largest):
        assert int(np.ravel(list(source(tmp_path / "numbers", dtype, text))[-1].x)[-1]) == int(text.partition(".")[0])
    for text in ("2.5", ".", "-.0", "2.0.0", "1e1"):
        with pytest.raises(sr.SourceError, match=r"numbers.*row \d"):
            list(source(tmp_path / "numbers", dtype, text))


def test_integers_that_are_written_as_floats_are_refused(tmp_path):
    """Without `cast`, a float is no integer, in a CSV as in a frame."""
    (tmp_path / "numbers.csv").write_text("key,x\n1,2.0\n")
    with pytest.raises(sr.SourceError, match=r"numbers.csv, row 0, column 'x': expected int64, got str '2.0'"):
        list(sr.from_table(tmp_path / "numbers.csv", declared("int64")[0]))
