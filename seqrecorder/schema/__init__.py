"""A record class as data: declarations, fields, element types, exact values, evolution; no bytes, no files."""

__all__ = ["declarations", "display", "dtypes", "evolution", "exact_values", "field"]
__all__ += ["half_floats", "schema", "source_code", "utf8"]
