"""Datasets on disk: manifest, splits, generations and shards; also verification and salvage."""

__all__ = [
    "append_and_overwrite",
    "exports",
    "folds",
    "keys",
    "manifest",
    "push_pull_clean",
    "record_store",
    "salvage",
    "selection",
    "shard_set",
    "split_shares",
    "splits_in_time",
    "verify",
]
