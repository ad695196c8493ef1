"""Files: TFRecord shards, names, digests, syncing, staging; knows no schema."""

__all__ = ["cache", "crc32c", "files", "locks", "object_store", "processes_and_signals", "publish"]
__all__ += ["shard_reader", "shard_writer", "tfrecord"]
