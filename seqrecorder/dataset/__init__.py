"""Datasets: manifest, splits, generations and shards; checked by verify, recovered by salvage."""

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
    "splits",
    "verify",
]
