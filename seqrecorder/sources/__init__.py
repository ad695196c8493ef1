"""What records are made from and turned into: CSV, and the TFRecord files of others."""

__all__ = ["foreign"]
