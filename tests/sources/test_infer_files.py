"""Schemas inferred from files that are no tables: what the functions for these then take."""

import gzip

import pytest

import seqrecorder as sr


def fields_of(schema):
    return [(field.name, field.kind, field.element.name, field.shape) for field in schema.fields]


@pytest.mark.parametrize(
    ("lines", "fields"),
    [
        (["1,2,?:up", "3:down"], [("label", "context", "str", ()), ("values", "feature_list", "float64", ())]),
        (["1,2:3,4:up", "3:5:down"], [("label", "context", "str", ()), ("values", "feature_list", "float64", (2,))]),
    ],
)
def test_series_are_records(tmp_path, lines, fields):
    """A list of all dimensions, and the label, which is no key; the file is read as the schema says."""
    file = tmp_path / "a.ts"
    file.write_text("\n".join(["@problemName a", "@classLabel true up down", "@data", *lines, ""]))
    schema = sr.Schema.infer(file)
    assert fields_of(schema) == fields
    assert schema.key_field is None
    assert [record.label for record in sr.from_ts(file, schema.record_class)] == ["up", "down"]


def test_dimensions_of_other_lengths_are_lists_of_their_own(tmp_path):
    """Where the dimensions of one series differ in length, each is a feature list, of its own alignment."""
    file = tmp_path / "a.ts.gz"
    file.write_bytes(gzip.compress(b"@problemName a\n@targetLabel true\n@data\n1,2,3:4,5:0.5\n3,2:1,2:1\n"))
    schema = sr.Schema.infer(str(file))
    assert [field.name for field in schema.fields] == ["label", "dimension_1", "dimension_2"]
    assert schema["dimension_2"].align is None
    lengths = [(len(r.dimension_1), len(r.dimension_2)) for r in sr.from_ts(file, schema.record_class, label="label")]
    assert lengths == [(3, 2), (2, 2)]


def test_sentences_are_records(tmp_path):
    """Columns have the names of CoNLL-U or those that are given, numbers else; comments are context."""
    universal, plain = tmp_path / "a.conllu", tmp_path / "b.txt"
    line = "{0}\tHi\thi\tINTJ\t_\t_\t0\troot\t_\t_\n"
    universal.write_text("# sent_id = a\n# text = Hi\n" + line.format(1) + "\n# sent_id = b\n" + line.format(1))
    schema = sr.Schema.infer(universal)
    assert fields_of(schema)[:4] == [
        ("sent_id", "context", "str", ()),
        ("text", "context", "str", ()),
        ("id", "feature_list", "int64", ()),
        ("form", "feature_list", "str", ()),
    ]
    assert (schema["text"].optional, schema["sent_id"].key, schema["head"].element.name) == (True, True, "int64")
    plain.write_text("-DOCSTART- X O\n\nPeter NNP B\nsleeps VBZ O\n\nx y O\n")
    columns = ["tokens", None, "tags"]
    schema = sr.Schema.infer(plain, columns=columns, name="Sentence")
    assert [field.name for field in schema.fields] == ["tokens", "tags"]
    found = [list(record.tokens) for record in sr.from_conll(plain, schema.record_class, columns=columns)]
    assert found == [["Peter", "sleeps"], ["x"]]
    numbered = plain.rename(tmp_path / "b.conll")
    assert [field.name for field in sr.Schema.infer(numbered).fields] == ["column_1", "column_2", "column_3"]


def test_what_fits_no_file_is_refused(tmp_path):
    """Names of columns that a file has not, or a table has already; files that are not there, or broken."""
    file = tmp_path / "a.txt"
    file.write_text("a b\n")
    with pytest.raises(sr.OptionError, match="at most 2 names"):
        sr.Schema.infer(file, columns=["a", "b", "c"])
    with pytest.raises(sr.OptionError, match="columns: only for CoNLL files"):
        sr.Schema.infer([{"x": 1}], columns=["x"])
    with pytest.raises(sr.DatasetNotFoundError):
        sr.Schema.infer(tmp_path / "none.ts")
    (tmp_path / "b.ts").write_text("1,2\n")
    with pytest.raises(sr.SourceError, match="expected a header"):
        sr.Schema.infer(tmp_path / "b.ts")
    (tmp_path / "c.ts").write_text("@problemName c\n@data\n1,x\n")
    with pytest.raises(sr.SourceError, match=r"c\.ts, line 3: expected numbers"):
        sr.Schema.infer(tmp_path / "c.ts")


@pytest.mark.parametrize("odd", ["--5", "9" * 20, "\u0663", "007"])
def test_columns_with_what_is_no_int64_are_text(tmp_path, odd):
    """A column of CoNLL is of ints where all of its tokens are such, in ASCII digits within 64 bits, as ints print."""
    (tmp_path / "x.conll").write_text(f"-1 {odd}\n2 5\n\n", encoding="utf-8")
    schema = sr.Schema.infer(tmp_path / "x.conll")
    assert [field.element.name for field in schema.fields] == ["int64", "str"]
    [record] = sr.from_conll(tmp_path / "x.conll", schema, columns=["column_1", "column_2"])
    assert record.column_2.tolist() == [odd, "5"]


def test_text_among_numbers_is_said(tmp_path):
    """A column that is text because of few cells has a comment that shows one of them."""
    (tmp_path / "a.csv").write_text("energy,name\n1.5,x1\nERR,7\n2.5,y\n-3,z\n", encoding="utf-8")
    draft = repr(sr.Schema.infer(tmp_path / "a.csv"))
    assert "# most cells are numbers, but not 'ERR'" in draft
    assert draft.count("most cells") == 1
