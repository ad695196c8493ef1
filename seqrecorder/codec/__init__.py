"""Convert records to columns and bytes, and back, in numpy; convert bytes to tensors in graphs; no file access."""

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
