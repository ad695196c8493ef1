"""Values that stand for what a script takes from elsewhere, guessed by name: parameters, flags, other modules."""

from __future__ import annotations

import builtins
import contextlib
import functools
import glob
import inspect
import os
import pathlib
import re
from typing import TYPE_CHECKING, Any, ClassVar
from unittest import mock

import attrs
import numpy as np

from seqrecorder.legacy.contrib.absent import Absent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_FILES = ("file", "path", "pattern", "record", "tfr", "glob")
_FUNCTIONS = ("fn", "func", "function")
_PLACES = ("dir", "folder", "root")
_INPUTS = ("input", "data", "source", "corpus")
_ARRAYS = ("image", "target", "label", "text", "arr")
_SHAPES = ((20, 4), (20,), (20, 28, 28))
_SIDES = ("dims", "shape", "size")
IMAGE = (24, 24, 3)
_NO_NUMBERS = ("device", "scope", "name", "norm")
_ENDINGS = (".jpg", ".jpeg", ".png", ".tfrecords", ".tfrecord", ".csv", ".txt", ".bin", ".wav")
_PICTURES = (".jpg", ".jpeg", ".png")
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


class _Number(int):
    """A number; called, as of a function whose name was taken for that of a number, it gives a stand-in."""

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Return what a stand-in does."""
        return StandIn()(*given, **named)


class FileName(str):
    """The name of a file with records; called, as of a function that is said to give files, all of them."""

    __slots__ = ()

    def __call__(self, *_: Any, **__: Any) -> list[str]:
        """Return the names of all files."""
        return [*StandIn.files]


class StandIn(mock.MagicMock):
    """An object of which nothing is known: any attribute and item is there, numbers where a name says so.

    As a path it is that of a file with records.

    >>> hparams = StandIn()
    >>> hparams.batch_size, isinstance(hparams.cell, StandIn), isinstance(hparams["cell"], StandIn)
    (3, True, True)
    """

    files: ClassVar[list[str]] = []
    texts: ClassVar[set[str]] = set()  # names of flags that are texts
    opened: ClassVar[bool] = False  # whether Python read one of the files
    given: ClassVar[dict[str, Any]] = {}  # what attributes are: flags' defaults, and what a script compares them with

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        type(self).__fspath__ = lambda _: StandIn.files[0] if StandIn.files else "StandIn"

    def __getattr__(self, name: str) -> Any:
        """Return what the name says, another stand-in where it says nothing."""
        if name == "_as_graph_element":  # by which TensorFlow tells its own objects
            raise AttributeError(name)
        if not name.startswith(("_", "assert", "mock", "method", "return", "side", "call")):
            if name in StandIn.given:
                return StandIn.given[name]
            known = known_value(name)
            if StandIn.files and is_file(name) and (known is None or name in StandIn.texts):
                return FileName(StandIn.files[0])
            if StandIn.files and "dir" in name.lower().split("_"):
                return FileName(_place(StandIn.files))
            if name.lower().endswith("shape"):
                return IMAGE
            if known is not None:
                return known if known is False else _Number(known)
        return super().__getattr__(name)

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Return the tensors that are given, as if they were changed, what is read from a queue, or a stand-in."""
        import tensorflow as tf

        v1 = tf.compat.v1
        queues = [item for item in given if isinstance(item, v1.QueueBase)]
        if queues:
            record = v1.TFRecordReader().read(queues[0])
            return [*record] if self._mock_name == "read" else [tf.reshape(record[1], [1])]
        tensors = [item for item in given if isinstance(item, tf.Tensor)]
        return (tensors[0] if len(tensors) == 1 else tensors) if tensors else super().__call__(*given, **named)


def found(original: Any, pattern: Any, **_: Any) -> list[str]:
    """Return the files of a pattern; where there are none, one that it would find."""
    names = [name for name in original(pattern) if not _is_picture(str(name))]
    made = pathlib.Path(str(pattern).replace("*", "0").replace("?", "0"))
    if StandIn.files and not names and made.suffix in _PICTURES and made.parent.is_dir():
        picture = pathlib.Path(_place(StandIn.files), "picture-0.jpg")
        made.write_bytes(picture.read_bytes())  # some look at one while they build their graph
    return names or [str(made)]


def _listed(original: Any, place: Any = ".") -> list[str]:
    there = original(place) if os.path.isdir(place) else []  # noqa: PTH112 - text
    return sorted(name for name in there if not _is_picture(name)) or [pathlib.Path(n).name for n in StandIn.files]


def _walked(original: Any, place: Any, **_: Any) -> list[tuple[str, list[str], list[str]]]:
    found = [(where, inner, [n for n in names if not _is_picture(n)]) for where, inner, names in original(place)]
    return found or [(str(place), [], [pathlib.Path(name).name for name in StandIn.files])]


def _is_picture(name: str) -> bool:
    """Whether a file is one that only lists name."""
    return pathlib.Path(name).name.startswith("picture-")


@contextlib.contextmanager
def forgiving() -> Iterator[None]:
    """Let devices be any, files be those of the trial, and what TensorFlow lost of models stand-ins."""
    import tensorflow as tf

    opening = builtins.open

    def opened(file: Any, *arguments: Any, **named: Any) -> Any:
        file = os.fspath(file) if isinstance(file, StandIn) else file
        StandIn.opened |= str(file) in StandIn.files
        lists = StandIn.files and str(file).startswith(_place(StandIn.files)) and not os.path.exists(file)  # noqa: PTH110
        return opening(StandIn.files[0] if lists and not arguments else file, *arguments, **named)

    with (
        mock.patch.object(tf.compat.v1, "device", return_value=contextlib.nullcontext()),
        mock.patch.object(builtins, "open", opened),
        mock.patch.object(glob, "glob", functools.partial(found, glob.glob)),
        mock.patch.object(os, "listdir", functools.partial(_listed, os.listdir)),
        mock.patch.object(os, "walk", functools.partial(_walked, os.walk)),
        mock.patch.object(Absent, "_raise", lambda absent: StandIn(name=absent.__name__)),
    ):
        yield


@attrs.frozen
class QueueOfFiles:
    """A queue of the names of files, made where a function is called: a queue is of its graph.

    Attributes:
        names: of the files.
    """

    names: list[str]

    def made(self) -> Any:
        """Return the queue."""
        import tensorflow as tf

        return tf.compat.v1.train.string_input_producer(self.names, num_epochs=2, shuffle=False)


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
    """Return a constant of a script, or a flag's default, or one that a trial of few records can bear in its place.

    >>> scaled("batch_size", 64), scaled("image_size", 64), scaled("min_queue_examples", 5000)
    (3, 64, 20)
    """
    counts = any(word in name.lower() for word in ("batch", "epoch", "thread"))
    large = isinstance(value, int) and not isinstance(value, bool) and value > (8 if counts else 100)
    about = ("capacity", "buffer", "min_after", "queue", "per_epoch", "batch_size", "num_examples", "threads", "epochs")
    return known_value(name) or 3 if large and any(word in name.lower() for word in about) else value


def candidates(
    function: Callable[..., Any], names: list[str], known: Mapping[str, list[str]], uses: Mapping[str, str]
) -> list[list[tuple[str, Any]]]:
    """Return values to try for each parameter of a function, by its name.

    Args:
        function: what is called.
        names: of the files to read.
        known: texts that the script compares names with.
        uses: what the script uses names as (see `conditions.uses`).
    """
    return [
        [(name, text) for text in known[name]]
        if name in known and parameter.default is parameter.empty
        else [*_used(parameter, names, uses.get(name, "")), *_of_parameter(parameter, names)]
        for name, parameter in inspect.signature(function).parameters.items()
    ]


def _used(parameter: inspect.Parameter, names: list[str], use: str) -> list[tuple[str, Any]]:
    """Return the values that a parameter has by what it is used as; none if it has a default."""
    known = {"object": StandIn(), "text": names[0], "two": IMAGE[:2], "three": IMAGE}
    if parameter.default is not parameter.empty or use not in known:
        return []
    place = use == "text" and any(word in parameter.name.lower() for word in _PLACES)
    return [(parameter.name, _place(names) if place else known[use])]


def _place(names: Sequence[str]) -> str:
    return f"{pathlib.Path(names[0]).parent}/"  # some put names right behind it


def _same(given: Any, *_: Any, **__: Any) -> Any:
    return given


def _of_parameter(parameter: inspect.Parameter, names: list[str]) -> list[tuple[str, Any]]:
    name, lower = parameter.name, parameter.name.lower()
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        return []
    missing = parameter.default is parameter.empty
    own = [] if missing or parameter.default is None else [(name, parameter.default)]
    place = (name, _place(names))
    if lower.endswith("queue") and not lower.startswith(("min", "max", "num")):
        return [(name, QueueOfFiles(names))]
    if is_file(name):
        return [*(own if "pattern" in lower else []), (name, names), (name, names[0]), *([place] if missing else [])]
    if any(word in lower for word in _PLACES) and missing:
        return [place]
    known = None if lower.endswith(_FUNCTIONS) else known_value(name)
    if known is not None and (missing or any(word in lower for word in _CHANCE)):
        is_shape = any(word in lower for word in _SIDES) and "batch" not in lower  # a queue aborts the process there
        sides = [(name, IMAGE), (name, IMAGE[:2])] if is_shape else []
        found = [(name, known), *sides]
        return [*found, (name, StandIn())] if missing else found
    return _unsaid(name, names) if missing else [(name, parameter.default)]


def _unsaid(name: str, names: list[str]) -> list[tuple[str, Any]]:
    """Return values to try for a parameter that has no default, and whose name says little."""
    lower = name.lower()
    if lower.endswith(_FUNCTIONS):
        return [(name, _same)]
    if lower == "mode":
        return [(name, mode) for mode in ("train", "eval")]
    if any(word in lower for word in _INPUTS):
        arrays = [np.arange(60).reshape(20, 3), np.arange(20)]
        return [(name, names), (name, names[0]), (name, list(range(60))), (name, arrays), (name, StandIn())]
    if any(word in lower for word in _ARRAYS):
        return [*((name, np.arange(np.prod(shape)).reshape(shape)) for shape in _SHAPES), (name, 2)]
    return [(name, StandIn()), (name, 2)]
