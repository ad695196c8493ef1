"""Series of `.ts` files: unequal lengths, dimensions, missing values, classes."""

import numpy as np
import pytest

import seqrecorder as sr

HEADER = """\
# a comment
@problemName Steps
@timeStamps false
@missing true
@univariate false
@classLabel true up down
@data
"""


@sr.record
class Flat:
    key: str = sr.context(str, key=True)
    label: int = sr.context("int8")
    values: np.ndarray = sr.feature_list("float32")


@sr.record
class Deep:
    label: str = sr.context(str)
    values: np.ndarray = sr.feature_list("float64", shape=(2,))


@sr.record
class Apart:
    label: str = sr.context(str)
    left: np.ndarray = sr.feature_list("float64", align=None)
    right: np.ndarray = sr.feature_list("int32", align=None)


def series(tmp_path, kind, data, header=HEADER, **options):
    (tmp_path / "x.ts").write_text(f"{header}{data}")
    return list(sr.from_ts(tmp_path / "x.ts", kind, **options))


def test_one_dimension_of_unequal_lengths(tmp_path):
    """Missing values are NaN, classes are numbered as the header lists them, and keys count the series."""
    assert series(tmp_path, Flat, "1.5,?,3:down\n\n0.1:up\n:up\n") == [
        Flat("x-0", 1, np.array([1.5, np.nan, 3], "float32")),
        Flat("x-1", 0, np.array([0.1], "float32")),
        Flat("x-2", 0, []),
    ]


def test_keys_are_text_that_names_the_file(tmp_path):
    """Numbers alone would be the same in the two files of an archive: they are refused; bytes are text."""

    def keyed(dtype):
        @sr.record
        class Keyed:
            key: object = sr.context(dtype, key=True)
            values: np.ndarray = sr.feature_list("float32")

        return Keyed

    with pytest.raises(sr.OptionError, match="key 'key': expected text, .* got int64"):
        series(tmp_path, keyed("int64"), "1\n", "@data\n")
    assert [one.key for one in series(tmp_path, keyed(bytes), "1\n2\n", "@data\n")] == [b"x-0", b"x-1"]


def test_dimensions_are_a_shape_or_fields(tmp_path):
    """Dimensions of equal lengths are steps with a shape, others are fields of their own."""
    assert series(tmp_path, Deep, "1,2,3:4,5,6:up\n") == [Deep("up", [[1, 4], [2, 5], [3, 6]])]
    assert series(tmp_path, Apart, "1,2,3:4,5:up\n") == [Apart("up", [1, 2, 3], [4, 5])]


def test_targets_of_a_regression_are_numbers(tmp_path):
    """`@targetLabel` gives a number at the end of each line."""

    @sr.record
    class Target:
        y: float = sr.context("float32")
        x: np.ndarray = sr.feature_list("float32")

    assert series(tmp_path, Target, "1,2:0.25\n", "@targetLabel true\n@data\n") == [Target(0.25, [1, 2])]


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        (Flat, "1,2:left\n", "line 8: field 'label': expected one of the classes up, down, got 'left'"),
        (Flat, "1,2:3,4:up\n", "line 8: expected 1 dimensions, as Flat has, got 2"),
        (Flat, "1,x:up\n", "line 8: expected numbers between commas"),
        (Deep, "1,2:3:up\n", r"line 8: dimensions of \[2, 1\] values"),
        (Apart, "1:1.5:up\n", "line 8: .*expected whole numbers"),
    ],
)
def test_lines_that_do_not_fit_are_named(tmp_path, kind, data, said):
    """A series of other classes, dimensions or values is named with its line, or left out."""
    with pytest.raises(sr.SourceError, match=rf"x\.ts, {said}"):
        series(tmp_path, kind, data)
    assert series(tmp_path, kind, data, on_error="skip") == []


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("@problemName x\n", "expected a line @data"),
        ("1,2:a\n", "expected a header until @data"),
        ("@timeStamps true\n@data\n", "series with times of their own are not supported: .* for from_rows"),
        ("@relation x\n@attribute name string\n@data\n", ".tsf format are not supported: .* for from_rows"),
        ("@classLabel false\n@data\n1,2\n", "the header has no @classLabel"),
    ],
)
def test_headers_are_checked(tmp_path, header, said):
    """A file without a header, or with times of its own, is refused."""
    with pytest.raises(sr.SourceError, match=said):
        series(tmp_path, Flat, "", header)


def test_classes_without_a_place_for_series_are_refused(tmp_path):
    """Which field takes the series and which the class must be clear."""

    @sr.record
    class Bare:
        a: str = sr.context(str)
        b: str = sr.context(str)

    @sr.record
    class Two:
        a: str = sr.context(str)
        b: str = sr.context(str)
        x: np.ndarray = sr.feature_list("float32")

    @sr.record
    class Mixed:
        x: np.ndarray = sr.feature_list("float32", shape=(2,))
        y: np.ndarray = sr.feature_list("float32")

    for kind, options, said in [
        (Bare, {}, "expected a feature list"),
        (Two, {}, "label= one of"),
        (Two, {"label": "c"}, "no context field 'c'"),
        (Mixed, {}, "a dimension each"),
    ]:
        with pytest.raises(sr.OptionError, match=said):
            series(tmp_path, kind, "1:up\n", **options)


def test_drafts_of_other_series_say_what_to_do(tmp_path):
    """`Schema.infer` of a `.tsf` file, and of series with times, gives the same advice."""
    for name, header in (("a.tsf", "@attribute name string\n"), ("a.ts", "@timeStamps true\n")):
        (tmp_path / name).write_text(f"{header}@data\nT1:1,2\n")
        with pytest.raises(sr.SourceError, match=r"a\.tsf?: .* for from_rows"):
            sr.Schema.infer(str(tmp_path / name))
