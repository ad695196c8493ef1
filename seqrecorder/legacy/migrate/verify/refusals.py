"""Why a function cannot be tried."""

from __future__ import annotations


class CannotTryError(Exception):
    """Why a function cannot be tried."""


class NoBatchError(CannotTryError):
    """A function runs, but gives nothing: its batches may be larger than there are records."""


class ForeignFileError(CannotTryError):
    """A function reads a file outside of the directory of the trial.

    Attributes:
        path: of the file.
    """

    def __init__(self, path: str) -> None:
        super().__init__(f"the old function cannot be called: it reads {path}")
        self.path = path
