"""Datasets: manifest, splits, generations and shards; checked by verify, recovered by salvage."""

__all__ = [
    "exports",
    "folds",
    "generations",
    "keys",
    "manifest",
    "record_store",
    "remote",
    "salvage",
    "selection",
    "shard_set",
    "splits",
    "verify",
]
