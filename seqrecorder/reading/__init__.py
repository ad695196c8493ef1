"""Shards to windows of records to batches: read, read_records, plan and mix."""

__all__ = ["batch", "batching", "elements", "plan", "read", "read_records", "targets"]
