"""Sources of records: tables, rows, CSV, JSON lines, CoNLL, .ts, TFRecord files of others."""

__all__ = ["foreign", "infer", "rows", "tables", "text"]
