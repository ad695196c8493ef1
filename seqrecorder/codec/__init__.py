"""Conversion between records, columns, bytes and tensors.

Records and columns are encoded to bytes and decoded from them in numpy. TensorFlow graphs parse bytes to tensors.
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
