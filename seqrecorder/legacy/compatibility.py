"""`compat`: old scripts find the TensorFlow that they were written for."""

from __future__ import annotations

import builtins
import contextlib
import functools
import importlib
import operator
import sys
import types
from typing import TYPE_CHECKING, Any

from seqrecorder.errors import did_you_mean
from seqrecorder.legacy import contrib
from seqrecorder.legacy.tf1_behaviour import first_behaviour, quiet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


# The renamings are those of the release notes of TensorFlow 1.0.0.

RENAMED = {
    **{f"{kind}_summary": f"summary.{kind}" for kind in ("audio", "histogram", "image", "scalar")},
    "batch_matmul": "matmul",
    "complex_abs": "abs",
    "image.per_image_whitening": "image.per_image_standardization",
    "inv": "reciprocal",
    "listdiff": "setdiff1d",
    "merge_all_summaries": "summary.merge_all",
    "merge_summary": "summary.merge",
    "mul": "multiply",
    "neg": "negative",
    "pack": "stack",
    "select": "where",
    "sub": "subtract",
    "train.SummaryWriter": "summary.FileWriter",
    "unpack": "unstack",
}
"""Functions that have another name, and the same arguments in the same order."""

KEYWORDS = {
    "audio_summary": {"tag": "name"},
    "histogram_summary": {"tag": "name"},
    "image_summary": {"tag": "name", "max_images": "max_outputs"},
    "scalar_summary": {"tags": "name", "values": "tensor"},
}
"""Today's names of their arguments."""


def renamed(v1: Any, inside: str = "") -> types.SimpleNamespace:
    """Map the names of TensorFlow 0.x to today's functions, as attributes.

    Args:
        v1: `tf.compat.v1`.
        inside: the part of TensorFlow whose names these are, `train.` say; empty for TensorFlow itself.
    """
    mine = {old.removeprefix(inside): new for old, new in RENAMED.items() if old.startswith(inside)}
    found = {old: operator.attrgetter(new)(v1) for old, new in mine.items() if "." not in old}
    found |= {old: _with_old_keywords(found[old], KEYWORDS[old]) for old in found if old in KEYWORDS}
    return types.SimpleNamespace(**found)


def _with_old_keywords(function: Any, keywords: Mapping[str, str]) -> Any:
    def called(*given: Any, **named: Any) -> Any:
        return function(*given, **{keywords.get(name, name): value for name, value in named.items()})

    return called


def concat(values: Any, axis: Any, name: str = "concat") -> Any:
    """Return `tf.concat` of tensors, whose first argument was the axis before TensorFlow 1.0.

    Args:
        values: tensors; or the axis, an int.
        axis: along which; or the tensors.
        name: of the operation.
    """
    import tensorflow as tf

    values, axis = (axis, values) if isinstance(values, int) else (values, axis)
    return tf.concat(values, axis, name)


def split(value: Any, num_or_size_splits: Any, axis: Any = 0, *more: Any, **named: Any) -> Any:
    """Return `tf.split` of a tensor, whose first argument was the axis before TensorFlow 1.0.

    Args:
        value: a tensor; or the axis, an int.
        num_or_size_splits: how many parts, or their sizes.
        axis: along which; or the tensor.
        *more: `num` and `name`.
        **named: the same, by name.
    """
    import tensorflow as tf

    value, axis = (axis, value) if isinstance(value, int) else (value, axis)
    return tf.split(value, num_or_size_splits, axis, *more, **named)


def resize_images(images: Any, size: Any, *more: Any, **named: Any) -> Any:
    """Return `tf.image.resize_images`, which took a height and a width before TensorFlow 1.0.

    Args:
        images: a tensor `(h, w, c)` or `(b, h, w, c)`.
        size: height and width; or the height, an int.
        *more: the width, in that case; then `method` and `align_corners`.
        **named: the same, by name.
    """
    import tensorflow as tf

    if isinstance(size, int):
        size, more = [size, *more[:1]], more[1:]
    return tf.compat.v1.image.resize_images(images, size, *more, **named)


class Absent(type):
    """A class that stands for a name: it may be imported, subclassed and annotated with, and raises when it is called.

    Of a script with an input pipeline and a model, the pipeline can so be used without the model.

    >>> cell = Absent.named("tensorflow.contrib.rnn.GRUCell", "; models are Keras's now")
    >>> class Mine(cell):
    ...     pass
    >>> Mine(3)
    Traceback (most recent call last):
    AttributeError: tensorflow.contrib.rnn has no 'GRUCell'; models are Keras's now
    """

    _path: str
    _why: str

    @classmethod
    def named(cls, path: str, why: str) -> Absent:
        """Look up the object that stands for a name.

        Args:
            path: the name, with that of its module.
            why: what the error says behind that the name is not there.
        """
        return cls(path.rpartition(".")[2], (), {"_path": path, "_why": why})

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent.named(f"{cls._path}.{name}", cls._why)

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        """Raise, unless a function is decorated, which then raises."""
        if len(arguments) == 1 and not named and isinstance(arguments[0], types.FunctionType):
            return functools.wraps(arguments[0])(lambda *_, **__: cls._raise())
        return cls._raise()

    def _raise(cls) -> Any:
        module, _, name = cls._path.rpartition(".")
        raise AttributeError(f"{module} has no {name!r}{cls._why}")


_CONTRIB = "tensorflow.contrib"
_NEW_CODE = ("tensorflow", "keras", "tf_keras", "tensorboard", "seqrecorder")
"""Packages that mean today's TensorFlow when they import it."""


@contextlib.contextmanager
def compat() -> Iterator[types.ModuleType]:
    """Let code that is imported and run inside find TensorFlow 1 under `tensorflow`.

    `import tensorflow as tf` then gives the names of `tf.compat.v1`, those that TensorFlow 1.0 renamed, and a
    `tf.contrib` that has what `seqrecorder.legacy.contrib` has; `tf.contrib` is found on `tensorflow` and
    `tensorflow.compat.v1` as they are, too, and `import tensorflow.contrib.slim as slim` works. Other names of
    `tf.contrib` can be imported and subclassed, and raise when they are called: so a pipeline can be taken out of a
    module that has a model as well. Shapes and variables are those of TensorFlow 1;
    `tf.disable_v2_behavior()` and its like do nothing, as datasets need eager execution. TensorFlow's own
    modules, Keras and this package import what they always do. What was imported keeps working after the end.

    >>> import seqrecorder as sr
    >>> with sr.legacy.compat():
    ...     import tensorflow as tf
    ...     queue_runners, buckets = tf.train.start_queue_runners, tf.contrib.training.bucket_by_sequence_length

    Returns:
        The module that stands for TensorFlow 1.
    """
    import tensorflow as tf

    importlib.import_module("tensorflow.compat.v1")  # the first time, that puts another module in its place
    old = _old_tensorflow(tf)
    hosts = [host for host in (tf, tf.compat.v1) if not hasattr(host, "contrib")]
    importing = builtins.__import__
    with quiet(), first_behaviour(), contextlib.ExitStack() as stack:
        for host in hosts:
            setattr(host, "contrib", old.contrib)  # noqa: B010 - no module declares it
            stack.callback(delattr, host, "contrib")
        builtins.__import__ = _importer(importing, old)
        stack.callback(setattr, builtins, "__import__", importing)
        yield old


_THERE_IS = "of tf.contrib there is what seqrecorder.legacy.contrib has, which reads data; models need other layers"
_INSIDE = (
    *("python", "data", "io", "layers", "learn", "slim", "training"),
    *("bucket_ops", "graph_actions", "graph_io", "hparam", "learn_io", "sequence_queueing_state_saver"),
)
"""Names on the way to a function inside a package of `tf.contrib`, as in `learn.python.learn.learn_io.graph_io`."""

_REMOVED = "it is in no tensorflow.compat.v1: layers and cells are Keras's now, and other names are older than 1.0"


class _Old(types.ModuleType):
    """A module that has what others have, the first of them first."""

    def __init__(self, name: str, doc: str, places: tuple[Any, ...]) -> None:
        super().__init__(name, doc)
        self.__path__ = []
        self._places = places

    def __getattr__(self, name: str) -> Any:
        for place in self._places:
            with contextlib.suppress(AttributeError):
                return getattr(place, name)
        if (imported := sys.modules.get(f"{self.__name__}.{name}")) is not None:
            return imported
        if self.__name__.startswith(f"{_CONTRIB}.") and name in _INSIDE:
            return self
        known = sorted({key for place in self._places for key in dir(place) if not key.startswith("_")})
        meant = did_you_mean(name, known)
        if self.__name__.startswith(_CONTRIB) and not name.startswith("__"):
            return Absent.named(f"{self.__name__}.{name}", f"{meant}; {_THERE_IS}")
        if name == "estimator":  # gone, and named when modules are imported that hold a model beside the input
            return Absent.named(f"{self.__name__}.{name}", f"; {_REMOVED}")
        raise AttributeError(f"{self.__name__} has no {name!r}{meant}; {_REMOVED}")

    def __dir__(self) -> list[str]:
        return sorted({key for place in self._places for key in dir(place)} | set(self.__dict__))


def _old_tensorflow(tf: types.ModuleType) -> Any:
    """Return the module that stands for TensorFlow 1."""
    v1 = tf.compat.v1
    cells = _Old("tensorflow.nn.rnn_cell", "", (contrib.rnn, v1.nn.rnn_cell))  # of TensorFlow's, what needs no layers
    old = _Old("tensorflow", v1.__doc__ or "", (v1, tf, renamed(v1)))
    old.__dict__.update(
        contrib=_contrib(tf),
        __version__=tf.__version__,
        compat=_Old("tensorflow.compat", "", (types.SimpleNamespace(v1=old), tf.compat)),
        concat=concat,
        split=split,
        image=_Old(
            "tensorflow.image",
            "",
            (types.SimpleNamespace(resize_images=resize_images), v1.image, renamed(v1, "image.")),
        ),
        nn=_Old("tensorflow.nn", "", (types.SimpleNamespace(rnn_cell=cells), v1.nn)),
        train=_Old("tensorflow.train", "", (v1.train, renamed(v1, "train."))),
        reset_default_graph=_reset_default_graph,
        **{name: _does_nothing for name in dir(v1) if name.startswith(("disable_", "enable_"))},
    )
    return old


def _does_nothing(*_: Any, **__: Any) -> None:
    """Stand for a switch between TensorFlow's ways to run."""


def _reset_default_graph() -> None:
    """Reset the default graph, unless a `with` statement chose another: then that is new anyway."""
    import tensorflow as tf

    with contextlib.suppress(AssertionError):
        tf.compat.v1.reset_default_graph()


def _contrib(tf: types.ModuleType) -> Any:
    """Return `tf.contrib`, as far as there is one."""
    tables = importlib.import_module("tensorflow.python.ops.lookup_ops")  # what contrib had has no public name there
    places = {
        "data": (tf.data.experimental, tf.compat.v1.data),
        "lookup": (contrib.lookup, tables),
        **{name: (getattr(contrib, name),) for name in ("layers", "learn", "rnn", "slim", "training")},
    }
    packages = {name: _Old(f"{_CONTRIB}.{name}", "", parts) for name, parts in places.items()}
    return _Old(_CONTRIB, "", (types.SimpleNamespace(**packages),))


def _importer(importing: Callable[..., Any], old: Any) -> Callable[..., Any]:
    """Return an `__import__` that gives old code the old TensorFlow."""

    def find(name: str, *arguments: Any, **named: Any) -> Any:
        given = {**dict(zip(("globals", "locals", "fromlist", "level"), arguments, strict=False)), **named}
        importer = str((given.get("globals") or {}).get("__name__", "")).partition(".")[0]
        package, _, rest = name.partition(".")
        if given.get("level") or importer in _NEW_CODE or package != "tensorflow":
            return importing(name, *arguments, **named)
        if rest.partition(".")[0] == "contrib":
            found = functools.reduce(getattr, rest.split("."), old)
        else:
            found = importing(name, *arguments, **named)
        if not given.get("fromlist") or name == "tensorflow":
            return old
        return {"tensorflow.compat": old.compat, "tensorflow.compat.v1": old}.get(name, found)

    return find
