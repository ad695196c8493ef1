"""Statistics, vocabularies, reports and plots of the records of a dataset."""

__all__ = ["stats", "survey"]
