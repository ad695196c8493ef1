"""Records to columns to bytes and back, in numpy, and bytes to tensors, in graphs; knows no files."""

__all__ = [
    "arrow",
    "columns",
    "construct",
    "cropping",
    "decoder",
    "derivation",
    "encoder",
    "forked_tensorflow",
    "graph_ops",
    "malloc",
    "memory_size",
    "message_layout",
    "padding",
    "parser",
    "parsing_spec",
    "record_index",
    "slicing",
    "tables",
    "to_arrow",
    "to_json",
]
