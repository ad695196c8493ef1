"""Datasets on disk: manifest, splits, generations and shards; also verification and salvage."""

__all__ = [
    "exports",
    "folds",
    "generations",
    "keys",
    "manifest",
    "push_pull",
    "record_store",
    "salvage",
    "selection",
    "shard_set",
    "split_rules",
    "verify",
]
