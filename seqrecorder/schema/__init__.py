"""Record classes as data: declarations, fields, element types, exact values, and evolution.

Bytes are left to the packages `codec` and `wire`, and files to `storage`.
"""

__all__ = ["declarations", "display", "dtypes", "evolution", "exact_values", "field"]
__all__ += ["half_floats", "schema", "source_code", "utf8"]
