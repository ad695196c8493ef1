"""Conversion of records to columns and bytes and back, in numpy, and of bytes to tensors, in graphs.

Nothing in this package accesses files.
"""

__all__ = [
    "arrow",
    "columns",
    "decode",
    "elements",
    "encode",
    "graph_ops",
    "images",
    "json",
    "layouts",
    "parse",
    "records",
]
