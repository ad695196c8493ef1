"""States of a training in a directory: each complete or absent, the last few of them."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.errors import OptionError
from seqrecorder.storage.digests import sealed, sha256, unsealed
from seqrecorder.storage.fault_points import faults_around
from seqrecorder.storage.files import sync_directory, sync_tree, write_file, writing

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

_FORMAT = 1
_PREFIX = "state-"
_UNFINISHED = ".unfinished-"
_ABOUT = "state.json"
_VARIABLES = "variables.npz"


@attrs.frozen
class TrainingState:
    """What a training has come to.

    Attributes:
        epoch: that is running, from 0 on.
        batch: batches of it that are done.
        first_epoch: the one that the training started with.
        taken: batches taken from the iterator that is running; 0 where the epoch starts with a new one.
        batches: of an epoch; None where Keras does not know.
        finished: the epochs that were asked for, where the training has ended; else None.
        history: of Keras, by metric; and the epochs that it is of.
        variables: names, shapes and dtypes of the variables, in order.
    """

    epoch: int
    batch: int
    first_epoch: int
    taken: int
    batches: int | None
    finished: int | None
    history: dict[str, list[float]]
    history_epochs: list[int]
    variables: list[Any]


class SavedStates:
    """The states in a directory, of which the last are kept.

    A state is a directory of its own, written beside the others under a name that nobody reads, synced, and renamed.
    """

    def __init__(self, directory: str | os.PathLike[str], keep: int) -> None:
        self.directory, self.keep = Path(directory), keep

    def save(self, state: TrainingState, values: list[Any], more: Callable[[Path], None]) -> None:
        """Write a state, then remove those that are not kept.

        Args:
            state: what is written as JSON.
            values: arrays, one for each of its variables.
            more: writes further files into a directory.

        Raises:
            ShardWriteError: the disk is full or cannot be written; the states that were there still are.
        """
        found = self._found()
        number = int(found[-1].name.removeprefix(_PREFIX)) + 1 if found else 0
        place = self.directory / f"{_PREFIX}{number:06d}"
        unfinished = self.directory / f"{_UNFINISHED}{number:06d}"
        with writing("make", self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
            self._clean()
            unfinished.mkdir()
        buffer = io.BytesIO()
        np.savez(buffer, *(value.reshape(-1).view(np.uint8) for value in map(np.ascontiguousarray, values)))
        write_file(unfinished / _VARIABLES, buffer.getvalue())
        more(unfinished)
        files = {file.name: sha256(file) for file in sorted(unfinished.iterdir())}
        about = sealed({"format": _FORMAT, **attrs.asdict(state), "files": files})
        write_file(unfinished / _ABOUT, json.dumps(about).encode())
        sync_tree(unfinished)
        with writing("rename", place), faults_around("rename", place):
            unfinished.rename(place)
        sync_directory(self.directory)
        for old in [*found, place][: -self.keep]:
            with writing("remove", old), faults_around("remove", old):
                removed = old.rename(self.directory / f"{_UNFINISHED}{old.name}")
                shutil.rmtree(removed)

    def last(self) -> tuple[TrainingState, list[Any], Path] | None:
        """Return the last state, the arrays of its variables and its directory; None where there is no state.

        Raises:
            OptionError: it is damaged, or of a newer version.
        """
        found = self._found()
        if not found:
            return None
        place = found[-1]
        try:
            about = json.loads((place / _ABOUT).read_bytes())
            if about["format"] != _FORMAT:
                raise OptionError(f"Resume: {place} was saved by another version of seqrecorder; read it with that one")
            about = unsealed(about)
            for name, digest in about.pop("files").items():
                if sha256(place / name) != digest:
                    raise ValueError(f"{name} was changed, or cut")
            state = TrainingState(**{name: value for name, value in about.items() if name != "format"})
            with np.load(place / _VARIABLES, allow_pickle=False) as stored:
                raw = [stored[name] for name in stored.files]
            values = [
                flat.view(_dtype(dtype)).reshape(shape)
                for flat, (_, shape, dtype) in zip(raw, state.variables, strict=True)
            ]
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if isinstance(error, OptionError):
                raise
            raise OptionError(
                f"Resume: {place} cannot be read ({type(error).__name__}: {error}); remove it to go on from the state "
                "before it"
            ) from error
        return state, values, place

    def _found(self) -> list[Path]:
        places = self.directory.glob(f"{_PREFIX}*") if self.directory.is_dir() else []
        numbers = {place: place.name.removeprefix(_PREFIX) for place in places}
        return sorted((place for place, number in numbers.items() if number.isdecimal()), key=lambda p: int(numbers[p]))

    def _clean(self) -> None:
        """Remove what a process that was killed has left."""
        for left in self.directory.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(left)


def _dtype(name: str) -> Any:
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name, name))
