"""Statistics, vocabularies, reports and pictures of a dataset's records."""

__all__ = ["stats", "survey"]
