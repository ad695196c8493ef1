"""Records in, a published dataset out: hooks, splits, order on disk, worker processes."""

__all__ = ["columns", "commit", "edits", "encoder", "intake", "options", "part", "shuffle", "writer"]
