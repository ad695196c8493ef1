"""What the C library does with freed memory."""

from __future__ import annotations

import functools

import numpy as np

_LARGEST = 31 << 20  # bytes: just under the largest block by which glibc adjusts itself


@functools.cache
def keep_freed_memory() -> None:
    """Let the C library keep what is freed for what is allocated next, instead of giving it back to the system.

    Encoding and parsing make and drop arrays of megabytes. glibc maps such blocks for each and unmaps them, and the
    system fills each page with zeros again: encoding 128 records of 1.2 MB took 200 ms so, and 45 ms with kept memory;
    20,000 of 900 bytes, 82 and 66 ms; 1,000 records of 33 kB were read in batches in 245 and 195 ms. glibc raises its
    threshold to the largest block that it has seen freed (`mallopt(3)`, M_MMAP_THRESHOLD), so one that is freed without
    having been touched is enough. At most twice as much stays with the process. Other C libraries do not mind.
    """
    np.empty(_LARGEST, np.uint8)
