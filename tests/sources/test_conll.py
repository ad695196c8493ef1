"""Sentences of CoNLL's formats: comments, documents, words of several words, and bad lines by their number."""

import attrs
import numpy as np
import pytest

import seqrecorder as sr


@sr.record
class Sentence:
    tokens: np.ndarray = sr.feature_list(str)
    tags: np.ndarray = sr.feature_list(str)
    document: int = sr.context("int32", default=-1)
    sent_id: str = sr.context(str, default="")


CONLL_2003 = """\
-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
# NN I-NP O
#tag NN I-NP O

-DOCSTART- -X- -X- O

Peter NNP B-NP B-PER"""

CONLL_U = (
    "# newdoc id = one\n# sent_id = s1\n# text = vámonos al mar\n"
    + "".join(
        "\t".join([number, word, "_", tag, *"______"]) + "\n"
        for number, word, tag in [
            ("1-2", "vámonos", "_"),
            ("1", "vamos", "VERB"),
            ("2", "nos", "PRON"),
            ("2.1", "nada", "X"),
            ("3", "a la orilla", "ADV"),
        ]
    )
    + "\n# newdoc\n# sent_id = s2\n"
    + "\t".join(["1", "#", "_", "SYM", *"______"])
    + "\n\n\n"
)


def sentences(tmp_path, text, **options):
    (tmp_path / "x.conll").write_text(text, encoding="utf-8")
    return list(sr.from_conll(tmp_path / "x.conll", Sentence, **options))


def test_sentences_end_with_empty_lines(tmp_path):
    """Documents are counted, the last sentence needs no empty line, and tokens may begin with a number sign."""
    got = sentences(tmp_path, CONLL_2003, columns=["tokens", None, None, "tags"], document="document")
    assert got == [
        Sentence(["EU", "#", "#tag"], ["B-ORG", "O", "O"], 0),
        Sentence(["Peter"], ["B-PER"], 1),
    ]


@sr.record
class Numbered:
    sent_id: str = sr.context(str, key=True)
    tokens: np.ndarray = sr.feature_list(str)


def test_keys_of_several_files_get_the_name_of_their_file(tmp_path):
    """Files that number their sentences alike are refused together, with what mends it; so the guide does."""
    files = [tmp_path / "a.conll", tmp_path / "b.conll"]
    for file in files:
        file.write_text("# sent_id = 1\nsleeps VBZ\n")
    together = sr.from_conll(files, Numbered, columns=["tokens"])
    with pytest.raises(sr.DuplicateKeyError, match=r"key '1'\): has the key of record 0; .* the file's name"):
        sr.write(together, tmp_path / "corpus")
    apart = [
        attrs.evolve(record, sent_id=f"{file.stem}-{record.sent_id}")
        for file in files
        for record in sr.from_conll(file, Numbered, columns=["tokens"])
    ]
    sr.write(apart, tmp_path / "corpus")
    assert [record.sent_id for record in sr.read_records(tmp_path / "corpus")] == ["a-1", "b-1"]


def test_conllu_has_comments_and_split_words(tmp_path):
    """Comments fill fields of their name; ranges and empty nodes are no tokens; between tabs values hold blanks."""
    got = sentences(tmp_path, CONLL_U, columns=[None, "tokens", None, "tags"], document="document")
    assert got == [
        Sentence(["vamos", "nos", "a la orilla"], ["VERB", "PRON", "ADV"], 0, "s1"),
        Sentence(["#"], ["SYM"], 1, "s2"),
    ]


def test_numbers_are_read_as_declared(tmp_path):
    """A column of numbers goes into a field of numbers, and another separator is taken as it is."""

    @sr.record
    class Heads:
        heads: np.ndarray = sr.feature_list("int16")
        sure: np.ndarray = sr.feature_list("float32")

    (tmp_path / "x").write_text("0|0.5\n2|1\n\n")
    assert list(sr.from_conll(tmp_path / "x", Heads, columns=["heads", "sure"], separator="|")) == [
        Heads([0, 2], [0.5, 1.0])
    ]
    (tmp_path / "x").write_text("0|0.5\n\n0|1\nx|1\n\n")
    with pytest.raises(sr.SourceError, match="line 3: line 4: field 'heads': expected int16, got 'x'"):
        list(sr.from_conll(tmp_path / "x", Heads, columns=["heads", "sure"], separator="|"))
    records = sr.from_conll(tmp_path / "x", Heads, columns=["heads", "sure"], separator="|", on_error="skip")
    assert (len(list(records)), records.skipped) == (1, 1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"columns": ["token", "tags"]}, "no field 'token' \\(did you mean 'tokens'"),
        ({"columns": "tokens"}, "expected a list of names"),
        ({"columns": [None]}, "expected a list of names"),
        ({"columns": ["sent_id"]}, "expected feature lists"),
        ({"columns": ["tokens"], "document": "doc"}, "no field 'doc'"),
    ],
)
def test_columns_are_feature_lists(tmp_path, options, said):
    """Names that are no feature list are refused before a file is read."""
    with pytest.raises(sr.OptionError, match=said):
        sentences(tmp_path, CONLL_2003, **options)


def test_lines_with_too_few_columns_are_named(tmp_path):
    """A line with fewer columns than are asked for is named, with its sentence."""
    with pytest.raises(sr.SourceError, match=r"x\.conll, line 1: expected 4 columns, got 2 in line 2: \['b', 'c'\]"):
        sentences(tmp_path, "a a a a\nb c\n", columns=["tokens", None, None, "tags"])


@pytest.mark.parametrize("blank", ["\u00a0", "\u3000", "\u2028", "\u0085", "\u2009", "\x1f", "\x0b", "\x0c"])
@pytest.mark.parametrize("separator", [" ", "\t"])
def test_other_blanks_belong_to_tokens(tmp_path, blank, separator):
    """Columns stand between spaces or tabs alone, whatever else Python takes for a blank or for the end of a line."""
    text = f"1{blank}000{separator}NUM\n{blank}{separator}SYM\nfois\tNOUN\n"
    assert sentences(tmp_path, text, columns=["tokens", "tags"]) == [
        Sentence([f"1{blank}000", blank, "fois"], ["NUM", "SYM", "NOUN"])
    ]


@pytest.mark.parametrize("token", ["#", "#F=ma", "#newdoc", "##", "#1"])
@pytest.mark.parametrize("separator", [" ", "\t"])
@pytest.mark.parametrize("place", [0, 1, 3])
def test_tokens_may_begin_with_a_number_sign(tmp_path, token, separator, place):
    """A line with the columns of a token is one, wherever it stands; comments are known beside it."""
    tokens = ["we", "hold", "on"]
    tokens.insert(place, token)
    lines = [f"{word}{separator}X" for word in tokens]
    text = "# a comment of several words\n# sent_id = s1\n# \n" + "\n".join(lines) + "\n#\n"
    assert sentences(tmp_path, text, columns=["tokens", "tags"]) == [Sentence(tokens, ["X"] * 4, sent_id="s1")]


def test_comments_between_tokens_with_tabs_have_none(tmp_path):
    """Two words behind a number sign are no token where columns stand between tabs."""
    text = "# comment\na\tX\n# comment\nb\tY\n"
    assert sentences(tmp_path, text, columns=["tokens", "tags"]) == [Sentence(["a", "b"], ["X", "Y"])]


def test_other_numbers_of_columns_in_a_sentence_are_named(tmp_path):
    """A line with more columns than the first of its sentence is no token silently; sentences may differ."""
    with pytest.raises(sr.SourceError, match=r"line 1: expected 2 columns, as in line 1, got 3 in line 2: \['1'"):
        sentences(tmp_path, "a X\n1 000 NUM\n", columns=["tokens", "tags"])
    got = sentences(tmp_path, "a X\n\nb Y A0\nc Z A1\n", columns=["tokens", "tags"])
    assert got == [Sentence(["a"], ["X"]), Sentence(["b", "c"], ["Y", "Z"])]


def test_comments_stay_with_their_own_sentence(tmp_path):
    """A sentence with comments but no tokens is a record, and leaves no label to the next."""

    @sr.record
    class Text:
        sid: str = sr.context(str)
        tokens: np.ndarray = sr.feature_list(str)
        label: str | None = sr.context(str, optional=True, default=None)

    file = tmp_path / "a.conll"
    file.write_text("# license = free\n\n# sid = a\n# label = pos\n\n# sid = b\nTo\nbe\n\n\n# sid = c\n")
    records = list(sr.from_conll(file, Text, columns=["tokens"]))
    assert [(record.sid, record.tokens.tolist(), record.label) for record in records] == [
        ("a", [], "pos"),
        ("b", ["To", "be"], None),
        ("c", [], None),
    ]
    assert [field.name for field in sr.Schema.infer(file).fields] == ["sid", "column_1"]
    file.write_text("# sid = a\n\n# label = pos\n\n")
    with pytest.raises(sr.SourceError, match="line 4: .*sid"):
        list(sr.from_conll(file, Text, columns=["tokens"]))
