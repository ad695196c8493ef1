"""Records in, a published dataset out: hooks, splits, order on disk, worker processes."""

__all__ = ["encoder", "options", "record_source", "write", "writer"]
