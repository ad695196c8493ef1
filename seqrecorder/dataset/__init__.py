"""What a dataset is: its manifest, splits, generations and shards; checked by verify, recovered by salvage."""
