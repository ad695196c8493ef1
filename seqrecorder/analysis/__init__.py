"""What a dataset's records are like: statistics, vocabularies and pictures."""

__all__ = ["stats", "survey"]
