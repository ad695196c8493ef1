"""Tables for notebooks: escaped, and of bounded length."""

from seqrecorder.schema.display import html_table


def test_long_tables_end():
    """A table shows its first rows, and says how many more there are."""
    shown = html_table("many", ["<n>"], ([f"<{n}>"] for n in range(1000)))
    assert shown.count("<tr>") == 52
    assert "and 950 more" in shown
    assert "&lt;n&gt;" in shown
    assert "<n>" not in shown
