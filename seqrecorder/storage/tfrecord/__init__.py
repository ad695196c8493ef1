"""The TFRecord format: frames, their checksums, and walks over them."""
