"""Files and directories, without any schema: TFRecord shards, names, digests, syncing, locks, staging and caching."""

__all__ = ["cache", "crc32c", "files", "locks", "object_store", "processes_and_signals", "publish"]
__all__ += ["shard_reader", "shard_writer", "tfrecord"]
