"""Reading: streams of records from shards, the batches built from them, and plans of the batches.

Shards, manifests and selections are in `seqrecorder.dataset`.
"""

__all__ = ["batch", "batching", "derived_fields", "masks_and_weights", "plan", "read", "read_records"]
