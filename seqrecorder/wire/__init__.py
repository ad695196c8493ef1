"""Protobuf messages of many records at once, in numpy, both ways; knows no schema."""
