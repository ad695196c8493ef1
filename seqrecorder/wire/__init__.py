"""Read and write protobuf messages of many records at once, in numpy, without a schema."""

__all__ = ["byte_rows", "read", "write"]
