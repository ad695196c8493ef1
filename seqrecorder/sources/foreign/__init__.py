"""TFRecord files written by other programs: inference of their schema, and conversion to a dataset."""

__all__ = ["convert", "infer"]
