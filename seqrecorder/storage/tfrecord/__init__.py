"""The TFRecord format: frames, their checksums, and walks over them."""

__all__ = ["check", "encode", "format", "scan", "tfdata"]
