"""Batching strategies, one per module.

They transform streams of records; the files are read by `seqrecorder.reading.order_and_seeds`.
"""

__all__ = ["bucket", "pack", "pad", "token_budget", "unroll", "window"]
