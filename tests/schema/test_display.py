"""Tables: those for notebooks are escaped and of bounded length, those for terminals in line."""

from seqrecorder.schema.display import html_table, text_table


def test_long_tables_end():
    """A table shows its first rows, and says how many more there are."""
    shown = html_table("many", ["<n>"], ([f"<{n}>"] for n in range(1000)))
    assert shown.count("<tr>") == 52
    assert "and 950 more" in shown
    assert "&lt;n&gt;" in shown
    assert "<n>" not in shown


def test_wide_characters_take_two_columns():
    """Columns stay in line behind characters that a terminal draws twice as wide; the named ones end together."""
    rows = [("word", "how many", "such as"), ("字字", "7", "x"), ("a", "1,000", "y")]
    assert text_table(rows, right=["how many"]).split("\n") == [
        "word  how many  such as",
        "字字         7  x",
        "a        1,000  y",
    ]
