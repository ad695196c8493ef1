"""Writing of datasets: hooks, splits, order on disk, worker processes, publication."""

__all__ = ["columns", "commit", "edits", "load_hooks", "part", "shuffle", "writer"]
