"""Record sources other than datasets: tables, rows, CSV, JSON lines, CoNLL, .ts and foreign TFRecord files.

The inference of schemas from these sources is here as well.
"""

__all__ = ["foreign", "infer", "row_per_step", "tables", "text"]
