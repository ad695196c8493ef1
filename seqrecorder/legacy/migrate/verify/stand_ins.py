"""Values that stand for what a script takes from elsewhere, guessed by name: parameters, flags, other modules."""

from __future__ import annotations

import inspect
import pathlib
import re
from typing import TYPE_CHECKING, Any, ClassVar
from unittest import mock

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_FILES = ("file", "path", "pattern", "record", "tfr", "glob")
_INPUTS = ("input", "data", "source", "corpus")
_ARRAYS = ("image", "target", "label", "text", "arr")
_SHAPES = ((20, 4), (20,), (20, 28, 28))
_SIDES = ("dims", "shape")
_NO_NUMBERS = ("device", "scope", "name", "norm")
_ENDINGS = (".jpg", ".jpeg", ".png", ".tfrecords", ".tfrecord", ".csv", ".txt", ".bin", ".wav")
_VALUES: tuple[tuple[tuple[str, ...], Any], ...] = (
    (("batch",), 3),
    (("epoch",), 2),
    (("thread", "reader", "worker", "preprocess"), 1),
    (("shuffle", "train", "distort", "augment", "random"), False),
    (("min_after", "min_queue", "capacity", "buffer", "shard"), 20),
    (("size", "length", "dim", "classes", "width", "height", "depth", "channels", "num", "steps", "n_", "max"), 3),
)
_CHANCE = ("epoch", "batch", "shuffle", "thread")
"""Words of what changes how much is read, for which a script's own default may be too large."""


class StandIn(mock.MagicMock):
    """An object of which nothing is known: any attribute and item is there, numbers where a name says so.

    As a path it is that of a file with records.

    >>> hparams = StandIn()
    >>> hparams.batch_size, isinstance(hparams.cell, StandIn), isinstance(hparams["cell"], StandIn)
    (3, True, True)
    """

    files: ClassVar[list[str]] = []

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        type(self).__fspath__ = lambda _: StandIn.files[0] if StandIn.files else "StandIn"

    def __getattr__(self, name: str) -> Any:
        """Return what the name says, another stand-in where it says nothing."""
        if not name.startswith(("_", "assert", "mock", "method", "return", "side", "call")):
            known = known_value(name)
            if known is not None:
                return known
        return super().__getattr__(name)


def known_value(name: str) -> Any:
    """Return a value that is not a file for a name, None where the name says nothing."""
    lower = name.lower()
    if any(word in lower for word in _NO_NUMBERS):
        return None
    return next((value for words, value in _VALUES if any(word in lower for word in words)), None)


def ending(text: str) -> str:
    """Return how the files of a script end, as far as it says that.

    >>> ending("files = glob('*.png')"), ending("files = glob('*')")
    ('.png', '')
    """
    found = re.search(rf"({'|'.join(map(re.escape, _ENDINGS))})[\"']", text)
    return found[1] if found else ""


def loaded(names: Sequence[str]) -> Any:
    """Return what a function may have loaded, by the names that the parts of it are given."""
    parts = [_loaded(name.lower()) for name in names]
    return parts[0] if len(parts) == 1 else tuple(parts)


def _loaded(name: str) -> Any:
    if "len" in name:
        return list(range(1, 21))
    return [f"item {number}" for number in range(20)] if is_file(name) else np.arange(60, dtype="int32").reshape(20, 3)


def is_file(name: str) -> bool:
    """Whether a name is that of a file, or of several."""
    lower = name.lower()
    return any(word in lower for word in _FILES) and "num" not in lower


def scaled(name: str, value: Any) -> Any:
    """Return a constant of a script, or one that a trial of few records can bear in its place."""
    large = isinstance(value, int) and not isinstance(value, bool) and value > 100  # noqa: PLR2004 - a trial has fewer
    about = ("capacity", "buffer", "min_after", "queue", "per_epoch", "batch_size", "num_examples", "threads")
    return known_value(name) or 3 if large and any(word in name.lower() for word in about) else value


def candidates(
    function: Callable[..., Any], names: list[str], known: Mapping[str, list[str]]
) -> list[list[tuple[str, Any]]]:
    """Return values to try for each parameter of a function, by its name.

    Args:
        function: what is called.
        names: of the files to read.
        known: texts that the script compares names with.
    """
    return [
        [(name, text) for text in known[name]]
        if name in known and parameter.default is parameter.empty
        else _of_parameter(parameter, names)
        for name, parameter in inspect.signature(function).parameters.items()
    ]


def _of_parameter(parameter: inspect.Parameter, names: list[str]) -> list[tuple[str, Any]]:
    name, lower = parameter.name, parameter.name.lower()
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        return []
    missing = parameter.default is parameter.empty
    own = [] if missing or parameter.default is None else [(name, parameter.default)]
    if is_file(name):
        return [*(own if "pattern" in lower else []), (name, names), (name, names[0])]
    if lower.endswith("dir") and missing:
        return [(name, str(pathlib.Path(names[0]).parent))]
    known = known_value(name)
    if known is not None and (missing or any(word in lower for word in _CHANCE)):
        sides = [(name, (24, 24, 3))] if any(word in lower for word in _SIDES) else []
        found = [(name, known), *sides]
        return [*found, (name, StandIn())] if missing else found
    if not missing:
        return [(name, parameter.default)]
    if lower == "mode":
        return [(name, mode) for mode in ("train", "eval")]
    if any(word in lower for word in _INPUTS):
        return [(name, names), (name, names[0]), (name, list(range(60)))]
    if any(word in lower for word in _ARRAYS):
        return [(name, np.arange(np.prod(shape)).reshape(shape)) for shape in _SHAPES]
    return [(name, StandIn())]
