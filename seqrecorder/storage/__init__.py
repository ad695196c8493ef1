"""Files: TFRecord shards, names, digests, syncing, staging; knows no schema."""

__all__ = ["cache", "files", "locks", "names", "places", "publish", "shard", "tfrecord", "threads"]
