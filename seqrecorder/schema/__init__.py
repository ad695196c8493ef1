"""A record class as data: declarations, fields, element types, exact values, evolution; no bytes, no files."""

__all__ = ["conversion", "declarations", "display", "dtypes", "evolution", "field", "schema", "source_code"]
