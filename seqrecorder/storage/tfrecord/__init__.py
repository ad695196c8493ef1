"""The TFRecord format: frames, their checksums, and walks over them."""

__all__ = ["check", "format", "scan", "tfdata"]
