"""Protobuf messages of many records at once, in numpy, both ways; knows no schema."""

__all__ = [
    "byte_rows",
    "canonical_form",
    "feature_bytes",
    "many_messages",
    "message_objects",
    "one_message",
    "sequence_example",
    "spans",
    "varints",
]
