"""Record sources other than datasets: tables, rows, CSV, JSON lines, CoNLL, .ts and foreign TFRecord files.

Schemas are inferred here as well.
"""

__all__ = ["foreign", "infer", "rows", "tables", "text"]
