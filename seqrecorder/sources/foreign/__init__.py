"""TFRecord files that other programs wrote: what they hold, and how to bring them over."""

__all__ = ["convert", "infer"]
