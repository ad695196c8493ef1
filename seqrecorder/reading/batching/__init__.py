"""Batching: one verb per file, from `tf.data.Dataset` to `tf.data.Dataset`; knows no files."""

__all__ = ["bucket", "pack", "pad", "token_budget", "unroll", "window"]
