"""What is whole of a damaged shard, where it stood, and a copy that can be read."""
