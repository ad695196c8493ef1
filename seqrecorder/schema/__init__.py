"""A record class as data: declarations, fields, element types, exact values, evolution; no bytes, no files."""

__all__ = [
    "casting",
    "conversion",
    "declarations",
    "display",
    "dtypes",
    "equality",
    "field",
    "mismatch",
    "schema",
    "source_code",
    "sparse_vector",
    "svg",
    "times",
]
