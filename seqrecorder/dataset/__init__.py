"""What a dataset is: its manifest, splits, generations and shards; checked by verify, recovered by salvage."""

__all__ = [
    "assets",
    "common_keys",
    "corpus",
    "csv_line",
    "generations",
    "key_index",
    "manifest",
    "owned_files",
    "partition",
    "record_store",
    "resolve",
    "salvage",
    "selection",
    "shard_set",
    "split_shares",
    "splits",
    "time_parts",
    "user_metadata",
    "verify",
    "written_order",
]
