"""Two directories change places in one step of the file system."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from typing import TYPE_CHECKING, Any

from seqrecorder.storage.fault_points import faults_around
from seqrecorder.storage.files import UNSUPPORTED

if TYPE_CHECKING:
    from pathlib import Path

# And where a directory cannot be moved or replaced, though files can be in it: a mount point, a directory of a lower
# layer of an overlay (every image of a container has such), one in a parent that is not ours.
NOT_REPLACEABLE = frozenset([errno.EXDEV, errno.EBUSY, errno.EPERM, errno.EACCES, *UNSUPPORTED])


def exchange(one: Path, other: Path) -> bool:
    """Exchange two directories in one step, so that no moment is without either.

    Args:
        one: a directory.
        other: another one on the same file system.

    Returns:
        Whether the system and the file system can do it (renameat2 of Linux, renamex_np of macOS), with these two.

    Raises:
        OSError: they can, but it failed.
    """
    with faults_around("exchange", other):
        code = exchange_now(one, other)
        if code in NOT_REPLACEABLE:
            return False
        if code:
            raise OSError(code, os.strerror(code), str(one), None, str(other))
    return True


def exchange_now(one: Path, other: Path) -> int:
    """Exchange two paths and return an errno, 0 for success."""
    if sys.platform == "win32":
        return errno.ENOSYS
    library = ctypes.CDLL(None, use_errno=True)
    # In both calls, 2 is the flag to exchange: RENAME_SWAP, and RENAME_EXCHANGE relative to AT_FDCWD.
    name, here = ("renamex_np", ()) if sys.platform == "darwin" else ("renameat2", (ctypes.c_int(-100),))
    function: Any = getattr(library, name, None)
    if function is None:
        return errno.ENOSYS
    arguments = (*here, os.fsencode(one), *here, os.fsencode(other), ctypes.c_uint(2))
    return ctypes.get_errno() if function(*arguments) else 0
