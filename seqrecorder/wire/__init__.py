"""Protobuf messages of many records at once, in numpy, both ways; knows no schema."""

__all__ = ["byte_rows", "read", "write"]
