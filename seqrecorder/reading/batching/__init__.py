"""Batching strategies, one per module.

They transform streams of records; the files are read by `seqrecorder.reading.order`.
"""

__all__ = ["bucket", "pack", "pad", "token_budget", "unroll", "window"]
