"""Files: TFRecord shards, names, digests, syncing, staging; knows no schema."""
