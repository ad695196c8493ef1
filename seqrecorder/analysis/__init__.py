"""What a dataset's records are like: statistics, vocabularies and pictures."""

__all__ = ["field_stats", "stats", "strategies"]
