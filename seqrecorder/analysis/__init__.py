"""What a dataset's records are like: statistics, vocabularies and pictures."""

__all__ = ["kept_stats", "record_stats", "stats", "strategies"]
