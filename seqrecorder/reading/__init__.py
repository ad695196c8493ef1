"""Shards to windows of records to batches: read, read_records, plan and mix."""

__all__ = ["batch", "batching", "derived_fields", "plan", "read", "read_records", "sample_weights", "strategy"]
