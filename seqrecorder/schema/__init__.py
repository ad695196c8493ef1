"""Record classes as data: declarations, fields, element types, exact values and evolution, without bytes or files."""

__all__ = ["declarations", "display", "dtypes", "evolution", "exact_values", "field"]
__all__ += ["half_floats", "schema", "source_code", "utf8"]
