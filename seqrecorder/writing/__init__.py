"""Writing of datasets: hooks, splits, order on disk, worker processes, publication."""

__all__ = ["columns", "commit", "load_hooks", "part", "rewrite_merge_compact", "shuffle", "writer"]
