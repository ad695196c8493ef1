"""Files: TFRecord shards, names, digests, syncing, staging; knows no schema."""

__all__ = ["cache", "files", "locks", "places", "processes", "publish", "shard", "tfrecord", "threads"]
