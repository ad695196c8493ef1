"""Convert records to columns to bytes and back in numpy, and bytes to tensors in graphs; no file access."""

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
