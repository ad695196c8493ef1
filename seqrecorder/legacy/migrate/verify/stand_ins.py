"""Values that stand for what a script takes from elsewhere, guessed by name: parameters, flags, other modules."""

from __future__ import annotations

import builtins
import contextlib
import functools
import glob
import itertools
import os
import pathlib
import re
import sys
import types
from typing import TYPE_CHECKING, Any, ClassVar
from unittest import mock

import attrs
import numpy as np

from seqrecorder.legacy.contrib.absent import Absent
from seqrecorder.legacy.migrate.verify.items import IMAGE, item, unpacked_to

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_FILES = ("file", "path", "pattern", "record", "tfr", "glob", "data_source")
_NO_NUMBERS = ("device", "scope", "name", "norm")
_ENDINGS = (".jpg", ".jpeg", ".png", ".tfrecords", ".tfrecord", ".csv", ".txt", ".bin", ".wav")
_PYTHON_2 = {"xrange": range, "unicode": str, "basestring": str, "long": int, "reduce": functools.reduce}
_PICTURES = (".jpg", ".jpeg", ".png")
PICTURES = 6
"""How many pictures there are."""
_VALUES: tuple[tuple[tuple[str, ...], Any], ...] = (
    (("batch",), 3),
    (("epoch",), 2),
    (("thread", "reader", "worker", "preprocess"), 1),
    (("shuffle", "train", "distort", "augment", "random"), False),
    (("min_after", "min_queue"), 10),
    (("capacity", "buffer", "shard"), 20),
    (("size", "dim", "width", "height"), 8),
    (("bytes",), 60),
    (("fraction", "prob", "_rate", "_ratio"), 0.5),
    (("length", "_len", "classes", "depth", "channels", "num", "steps", "n_", "max"), 3),
)


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
        # Of its own class, as mocks have it: else theirs would come first.
        type(self).__fspath__ = lambda _: StandIn.files[0] if StandIn.files else "StandIn"
        type(self).__getitem__ = lambda own, key: getattr(own, str(key))
        type(self).__iter__ = _parts
        type(self).__contains__ = lambda *_: True
        type(self).__array_ufunc__ = type(self).__array_function__ = lambda *_, **__: StandIn()

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        """Take the place of a base class."""
        return (_Base,) if next(base for base in bases if isinstance(base, StandIn)) is self else ()

    def __getattr__(self, name: str) -> Any:
        """Return what the name says, another stand-in where it says nothing."""
        if name in ("_as_graph_element", "is_tensor_like"):  # by which TensorFlow tells its own objects
            raise AttributeError(name)
        if not name.startswith(("_", "assert", "mock", "method", "return", "side", "call")):
            if name in StandIn.given:
                return StandIn.given[name]
            known = known_value(name)
            if StandIn.files and is_file(name) and (known is None or name in StandIn.texts):
                return FileName(StandIn.files[0])
            if StandIn.files and "dir" in name.lower().split("_"):
                return FileName(place_of(StandIn.files))
            if name.lower().endswith("shape") and name != "reshape":
                return IMAGE
            if known is not None:
                return known if isinstance(known, (bool, float)) else _Number(known)
        return super().__getattr__(name)

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Return the tensors that are given, as if they were changed, what is read, or a stand-in.

        As many as the names are that they are given to.
        """
        import tensorflow as tf

        v1 = tf.compat.v1
        names = unpacked_to(sys._getframe(1))  # noqa: SLF001 - who calls
        queues = [one for one in given if isinstance(one, v1.QueueBase)]
        files = [name for name in given if isinstance(name, str) and (name in StandIn.files or ending(f"{name}'"))]
        if queues or (files and names):
            queue = queues[0] if queues else v1.train.string_input_producer(files, shuffle=False)
            record = v1.TFRecordReader().read(queue)
            if self._mock_name == "read":
                return [*record]
            return [item(record[1], name) for name in names] or [tf.reshape(record[1], [1])]
        tensors = [one for one in tf.nest.flatten([given, named]) if isinstance(one, tf.Tensor)]
        if not tensors:
            return super().__call__(*given, **named)
        if names and tensors[0].dtype == tf.string:
            said = [part for part in given if isinstance(part, list) and len(part) == len(names)]
            return [item(tensors[0], str(name)) for name in (said[0] if said else names)]
        several = [*itertools.islice(itertools.cycle(tensors), len(names) or len(tensors))]
        return several if names or tensors[1:] else tensors[0]


def _parts(own: StandIn) -> Iterator[Any]:
    return iter([getattr(own, name) for name in unpacked_to(sys._getframe(1))])  # noqa: SLF001 - who takes them


class _Base:
    """A class of another module, of which nothing is known."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Take what comes."""

    def __getattr__(self, name: str) -> Any:
        return getattr(StandIn(), name)


def found(original: Any, pattern: Any, **_: Any) -> list[str]:
    """Return the files of a pattern; where there are none, one that it would find."""
    names = [name for name in original(pattern) if not _is_picture(str(name))]
    made = pathlib.Path(str(pattern).replace("*", "0").replace("?", "0"))
    if StandIn.files and not names and made.suffix in _PICTURES and made.parent.is_dir():
        picture = pathlib.Path(place_of(StandIn.files), "picture-0.jpg")
        made.write_bytes(picture.read_bytes())  # some look at one while they build their graph
    if not names and made.parent.is_file():  # what was taken for a file is a directory
        return sorted(map(str, made.parents[1].glob(made.name.replace("0", "picture-[0-9]")))) if StandIn.files else []
    return names or [str(made)]


def _listed(original: Any, place: Any = ".") -> list[str]:
    there = original(place) if os.path.exists(place) else []  # noqa: PTH110 - text
    return sorted(name for name in there if not _is_picture(name)) or [pathlib.Path(n).name for n in StandIn.files]


def _walked(original: Any, place: Any, *given: Any, **named: Any) -> list[Any]:
    """Return what is below a place; files of a trial, where nothing is."""
    return [*original(place, *given, **named)] or [(place, [], [pathlib.Path(name).name for name in StandIn.files])]


def _there(original: Any, place: Any) -> bool:
    """Whether a file is there; to scripts, what they look for is."""
    return sys._getframe(1).f_globals.get("__name__") == "migrated" or bool(original(place))  # noqa: SLF001 - who asks


def _called(absent: Absent, *given: Any, **named: Any) -> Any:
    """Return a function that what TensorFlow lost would decorate, or a tensor, as if it were changed, or a stand-in."""
    decorates = len(given) == 1 and not named and isinstance(given[0], types.FunctionType)
    return given[0] if decorates else StandIn(name=absent.__name__)(*given[:1])


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
        lists = StandIn.files and str(file).startswith(place_of(StandIn.files)) and not os.path.exists(file)  # noqa: PTH110
        return opening(StandIn.files[0] if lists and not arguments else file, *arguments, **named)

    with (
        mock.patch.object(tf.compat.v1, "device", return_value=contextlib.nullcontext()),
        mock.patch.object(tf.compat.v1.train, "replica_device_setter"),
        mock.patch.object(tf.compat.v1.flags, "FLAGS", StandIn()),
        mock.patch.dict(builtins.__dict__, {"open": opened, **_PYTHON_2}),
        mock.patch.object(glob, "glob", functools.partial(found, glob.glob)),
        mock.patch.object(os, "listdir", functools.partial(_listed, os.listdir)),
        mock.patch.object(os, "walk", functools.partial(_walked, os.walk)),
        mock.patch.object(os.path, "isfile", functools.partial(_there, os.path.isfile)),
        mock.patch.object(Absent, "__call__", _called),
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
    if lower.endswith(("_w", "_h")):
        return 3
    return next((value for words, value in _VALUES if any(word in lower for word in words)), None)


def ending(text: str) -> str:
    """Return how the files of a script end, as far as it says that.

    >>> ending("files = glob('*.png')"), ending("if name[-3:] == 'csv': pass"), ending("files = glob('*')")
    ('.png', '.csv', '')
    """
    bare = "|".join(ending[1:] for ending in _ENDINGS if ending not in _PICTURES)
    found = re.search(rf"({'|'.join(map(re.escape, _ENDINGS))}|(?:==\s*|endswith\(\s*)[\"']({bare}))[\"']", text)
    return "" if found is None else f".{found[2]}" if found[2] else found[1]


def loaded(names: Sequence[str], uses: Mapping[str, str], *, known: bool) -> Any:
    """Return what may have been loaded, by the names and the uses of its parts; stand-ins, where those say nothing."""
    as_files = {"files": [*StandIn.files], "object": StandIn()}
    parts = [as_files.get(uses.get(name, "")) or (_loaded(name.lower()) if known else _unknown(name)) for name in names]
    return parts[0] if len(parts) == 1 else tuple(parts)


def _unknown(name: str) -> Any:
    number = known_value(name)
    return number if type(number) is int else StandIn()


def _loaded(name: str) -> Any:
    if is_file(name):
        return [f"picture-{number % PICTURES}.jpg" for number in range(20)]
    return list(range(1, 21)) if "len" in name else np.arange(60, dtype="int32").reshape(20, 3)


def is_file(name: str) -> bool:
    """Whether a name is that of a file, or of several."""
    lower = name.lower()
    return any(word in lower for word in _FILES) and not any(word in lower for word in ("num", "bytes"))


def scaled(name: str, value: Any) -> Any:
    """Return a constant of a script, or a flag's default, or one that a trial of few records can bear in its place.

    >>> scaled("batch_size", 64), scaled("image_size", 64), scaled("min_queue_examples", 5000)
    (3, 64, 10)
    """
    counts = any(word in name.lower() for word in ("batch", "epoch", "thread"))
    large = isinstance(value, int) and not isinstance(value, bool) and value > (8 if counts else 20)
    about = ("capacity", "buffer", "min_after", "queue", "per_epoch", "batch_size", "num_examples", "threads", "epochs")
    return known_value(name) or 3 if large and any(word in name.lower() for word in about) else value


def place_of(names: Sequence[str]) -> str:
    """Return the directory that files are in."""
    return f"{pathlib.Path(names[0]).parent}/"  # some put names right behind it
