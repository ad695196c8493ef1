"""Datasets on disk: their manifests, splits, generations and shards, and their verification and salvage."""

__all__ = [
    "append_and_overwrite",
    "checked_shards",
    "exports",
    "folds_and_subsets",
    "keys",
    "manifest",
    "push_pull_clean",
    "record_store",
    "salvage",
    "selection",
    "split_shares",
    "splits_in_time",
    "verify",
]
