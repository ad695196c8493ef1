"""Record sources: tables, rows, CSV, JSON lines, CoNLL and .ts files, and schemas inferred from them.

TFRecord files are not read here.
"""

__all__ = ["foreign", "infer", "rows", "tables", "text"]
