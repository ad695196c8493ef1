"""Files: TFRecord shards, names, digests, syncing, staging; knows no schema."""

__all__ = [
    "digests",
    "fault_points",
    "file_state",
    "files",
    "locks",
    "names",
    "object_cache",
    "parts_directory",
    "paths",
    "place",
    "processes",
    "random_access",
    "record_blocks",
    "scratch",
    "shard",
    "shard_files",
    "staging",
    "text_files",
    "tfrecord",
    "threads",
]
