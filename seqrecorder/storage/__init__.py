"""Files: TFRecord shards, names, digests, syncing, staging; knows no schema."""

__all__ = [
    "digests",
    "file_state",
    "files",
    "forks",
    "locks",
    "names",
    "object_cache",
    "parts_directory",
    "paths",
    "place",
    "random_access",
    "read_ahead",
    "record_blocks",
    "scratch",
    "shard",
    "shard_files",
    "sigterm",
    "staging",
    "text_files",
    "tfrecord",
]
