"""A record class as data: declarations, fields, element types, exact values, evolution; no bytes, no files."""
