"""Records to columns to bytes and back, in numpy, and bytes to tensors, in graphs; knows no files."""
