"""Compare the padding of batching strategies with `sr.plan`, then read padded, bucketed and ragged batches.

python examples/compare_batches.py [output_dir]
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import seqrecorder as sr


@sr.record
class Sentence:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int32")


random = np.random.default_rng(0)
lengths = np.clip(random.lognormal(3.4, 0.9, 3000).astype(int), 1, 400)
directory = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()) / "sentences"
sr.write((Sentence(f"s{i}", random.integers(1, 1000, n)) for i, n in enumerate(lengths)), directory, overwrite=True)

strategies = [
    sr.Pad(32),
    sr.Pad(32, length=100, too_long="cut_end"),
    sr.Bucket(32),  # eight buckets, the best there are for these lengths
    sr.Bucket(32, pad_to_bucket_boundary=True),  # few shapes
    sr.Bucket(32, boundaries="sorted"),
    sr.TokenBudget(2000, pad_to_multiple_of=8),
    sr.Ragged(32),
    sr.Pack(400, 8),
]
print(sr.plan(directory, "train", *strategies, shuffle=1000, seed=1))

# What an encoder of left-padded prompts takes, with a mask and a value of its own for padding.
prompts = sr.Pad(2, padding_side="left", padding_values={"ids": -1}, mask_name="mask")
batch = next(iter(sr.read(directory, batch=prompts, steps=slice(-4, None))))
print(batch["ids"].numpy(), batch["mask"].numpy().sum(1), sep="\n")

# Ragged batches, flat: the steps of all records after one another, and where each begins.
flat = next(iter(sr.read(directory, batch=sr.Ragged(3, flat=True), max_length=10)))
print(flat["ids"].shape, flat["row_splits"].numpy())

# The largest batch first: if that fits into memory, all do.
train = sr.read(
    directory,
    batch=sr.TokenBudget(2000, warm_up="largest"),
    shuffle=1000,
    seed=1,
    inputs="ids",
    targets="ids",
)
sizes = [int(np.prod(ids.shape)) for ids, _, _ in train]
print(f"steps of the first batch {sizes[0]}, of the largest {max(sizes)}")
