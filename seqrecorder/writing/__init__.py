"""Writing of datasets: hooks, splits, the order on disk, worker processes, and publication."""

__all__ = ["columns", "commit", "load_hooks", "part", "rewrite_merge_compact", "shuffle", "writer"]
