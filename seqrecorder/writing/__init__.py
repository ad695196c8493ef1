"""Records in, a published dataset out: hooks, splits, order on disk, worker processes."""

__all__ = [
    "column_source",
    "commit",
    "edits",
    "encoded_pieces",
    "encoder",
    "external_shuffle",
    "options",
    "write",
    "write_part",
]
