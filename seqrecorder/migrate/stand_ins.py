"""Values that stand for what a script takes from elsewhere, guessed by name: parameters, flags, other modules."""

from __future__ import annotations

import inspect
import pathlib
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

_FILES = ("file", "path", "pattern", "record", "tfr", "glob")
_INPUTS = ("input", "data", "source", "corpus")
_OBJECTS = ("param", "config", "flags", "args", "options", "hp", "sess", "numbers")
_ARRAYS = ("image", "target", "label", "text", "arr")
_SHAPES = ((20, 4), (20,), (20, 28, 28))
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


class UnknownValueError(Exception):
    """No value is known for a name."""


class StandIn(mock.MagicMock):
    """An object of which nothing is known: any attribute and item is there, numbers where a name says so.

    >>> hparams = StandIn()
    >>> hparams.batch_size, isinstance(hparams.cell, StandIn), isinstance(hparams["cell"], StandIn)
    (3, True, True)
    """

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
    return next((value for words, value in _VALUES if any(word in lower for word in words)), None)


def is_file(name: str) -> bool:
    """Whether a name is that of a file, or of several."""
    lower = name.lower()
    return any(word in lower for word in _FILES) and "num" not in lower


def scaled(name: str, value: Any) -> Any:
    """Return a constant of a script, or one that a trial of few records can bear in its place."""
    large = isinstance(value, int) and not isinstance(value, bool) and value > 100  # noqa: PLR2004 - a trial has fewer
    about = ("capacity", "buffer", "min_after", "queue", "per_epoch", "batch_size", "num_examples", "threads")
    return known_value(name) or 3 if large and any(word in name.lower() for word in about) else value


def candidates(function: Callable[..., Any], names: list[str]) -> list[list[tuple[str, Any]]]:
    """Return values to try for each parameter of a function, by its name.

    Args:
        function: what is called.
        names: of the files to read.

    Raises:
        UnknownValueError: there are none for one of them.
    """
    return [_of_parameter(parameter, names) for parameter in inspect.signature(function).parameters.values()]


def _of_parameter(parameter: inspect.Parameter, names: list[str]) -> list[tuple[str, Any]]:
    name, lower = parameter.name, parameter.name.lower()
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        return []
    missing = parameter.default is parameter.empty
    if is_file(name):
        return [(name, names), (name, names[0])]
    if lower.endswith("dir") and missing:
        return [(name, str(pathlib.Path(names[0]).parent))]
    known = known_value(name)
    if known is not None and (missing or any(word in lower for word in _CHANCE)):
        found = [(name, known)]
        return [*found, (name, StandIn())] if missing else found
    if not missing:
        return [(name, parameter.default)]
    if lower == "mode":
        return [(name, mode) for mode in ("train", "eval")]
    if any(word in lower for word in _INPUTS):
        return [(name, names), (name, names[0]), (name, list(range(60)))]
    if any(word in lower for word in _OBJECTS):
        return [(name, StandIn())]
    if any(word in lower for word in _ARRAYS):
        return [(name, np.arange(np.prod(shape)).reshape(shape)) for shape in _SHAPES]
    raise UnknownValueError(f"no value is known for the argument {name!r}")
