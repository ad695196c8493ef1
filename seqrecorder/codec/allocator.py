"""What the C library does with freed memory."""

from __future__ import annotations

import functools

import numpy as np

_LARGEST = 31 << 20  # bytes: just under the largest block by which glibc adjusts itself


@functools.cache
def keep_freed_memory() -> None:
    """Let the C library keep what is freed for what is allocated next, instead of giving it back to the system.

    Encoding and parsing make and drop arrays of megabytes. glibc maps such blocks for each and unmaps them, and the
    system fills each page with zeros again, which can take longer than the encoding itself. glibc raises its threshold
    to the largest block that it has seen freed (`mallopt(3)`, M_MMAP_THRESHOLD), so one that is freed without having
    been touched is enough. At most twice as much stays with the process. Other C libraries do not mind.
    """
    np.empty(_LARGEST, np.uint8)
