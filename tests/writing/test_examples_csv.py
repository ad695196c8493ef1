"""Lines of CSV files: read back by Python's `csv` as the same texts."""

import csv
import io

from hypothesis import given, settings
from hypothesis import strategies as st

from seqrecorder.writing.examples_csv import csv_line

TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0") | st.sampled_from('\n\r",'))


@settings(deadline=None, max_examples=200, derandomize=True, database=None)
@given(st.lists(st.lists(TEXT, min_size=2, max_size=3), max_size=4))
def test_any_texts_are_read_back(rows: list[list[str]]) -> None:
    """Whatever the texts hold, a reader of the lines gets them."""
    lines = "".join(csv_line(row) + "\n" for row in rows)
    assert list(csv.reader(io.StringIO(lines, newline=""))) == rows


def test_what_is_no_text() -> None:
    """Numbers are written as `str` writes them; None as nothing."""
    assert csv_line([1, None, 0.5, True, b"x"]) == "1,,0.5,True,b'x'"
