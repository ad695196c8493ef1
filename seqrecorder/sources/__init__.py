"""Record sources other than datasets: tables, rows, CSV, JSON lines, CoNLL, .ts and foreign TFRecord files.

The package also contains the inference of schemas from these sources.
"""

__all__ = ["foreign", "infer", "row_per_step", "tables", "text"]
