"""Records in, a published dataset out: hooks, splits, order on disk, worker processes."""

__all__ = ["column_source", "commit", "encoder", "options", "selected", "write", "writer"]
