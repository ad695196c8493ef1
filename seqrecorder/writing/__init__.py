"""Records in, a published dataset out: hooks, splits, order on disk, worker processes."""
