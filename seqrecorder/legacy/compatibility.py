"""The context manager `compat`, inside which `import tensorflow` returns TensorFlow 1."""

from __future__ import annotations

import builtins
import contextlib
import functools
import importlib
import operator
import sys
import types
from typing import TYPE_CHECKING, Any
from unittest import mock

from seqrecorder.errors import did_you_mean
from seqrecorder.legacy import contrib
from seqrecorder.legacy.tf1_behaviour import first_behaviour, quiet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


# From the release notes of TensorFlow 1.0.0.

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
"""Functions that TensorFlow 1.0 renamed without a change of their arguments."""


def renamed(v1: Any, inside: str = "") -> types.SimpleNamespace:
    """Build a namespace that maps the names of TensorFlow 0.x to current functions.

    Args:
        v1: `tf.compat.v1`.
        inside: the prefix of the names, such as `train.`; empty for names of the top-level module.
    """
    mine = {old.removeprefix(inside): new for old, new in RENAMED.items() if old.startswith(inside)}
    return types.SimpleNamespace(**{old: operator.attrgetter(new)(v1) for old, new in mine.items() if "." not in old})


def concat(values: Any, axis: Any, name: str = "concat") -> Any:
    """Concatenate tensors, with the arguments in either order.

    Before TensorFlow 1.0, the axis was the first argument.

    Args:
        values: the tensors; or, in the old order, the axis.
        axis: the axis; or, in the old order, the tensors.
        name: the name of the operation.
    """
    import tensorflow as tf

    values, axis = (axis, values) if isinstance(values, int) else (values, axis)
    return tf.concat(values, axis, name)


def split(value: Any, num_or_size_splits: Any, axis: Any = 0, *more: Any, **named: Any) -> Any:
    """Split a tensor, with the arguments in either order.

    Before TensorFlow 1.0, the axis was the first argument.

    Args:
        value: the tensor; or, in the old order, the axis.
        num_or_size_splits: the number of splits, or their sizes.
        axis: the axis; or, in the old order, the tensor.
        *more: `num` and `name`.
        **named: the same arguments, by keyword.
    """
    import tensorflow as tf

    value, axis = (axis, value) if isinstance(value, int) else (value, axis)
    return tf.split(value, num_or_size_splits, axis, *more, **named)


def resize_images(images: Any, size: Any, *more: Any, **named: Any) -> Any:
    """Resize images to a size that is given by one argument or by two.

    Before TensorFlow 1.0, height and width were separate arguments.

    Args:
        images: a tensor `(h, w, c)` or `(b, h, w, c)`.
        size: a pair of height and width; or, in the old form, the height.
        *more: the width, if `size` is the height, followed by `method` and `align_corners`.
        **named: the same arguments, by keyword.
    """
    import tensorflow as tf

    if isinstance(size, int):
        size, more = [size, *more[:1]], more[1:]
    return tf.compat.v1.image.resize_images(images, size, *more, **named)


class Absent(type):
    """Placeholder for a removed name, which can be imported, subclassed and used in annotations, but not called.

    This allows a script to be imported for its input pipeline, even if it also defines a model.

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
        """Create the placeholder for a removed name.

        Args:
            path: the full name, including the module.
            why: the end of the error message.
        """
        return cls(path.rpartition(".")[2], (), {"_path": path, "_why": why})

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent.named(f"{cls._path}.{name}", cls._why)

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        """Raise `AttributeError`.

        If the name is called with a function as its only argument, it may be used as a decorator. The result then is a
        function that raises the error when it is called.
        """
        if len(arguments) == 1 and not named and isinstance(arguments[0], types.FunctionType):
            return functools.wraps(arguments[0])(lambda *_, **__: cls._raise())
        return cls._raise()

    def _raise(cls) -> Any:
        module, _, name = cls._path.rpartition(".")
        raise AttributeError(f"{module} has no {name!r}{cls._why}")


_CONTRIB = "tensorflow.contrib"
_NEW_CODE = ("tensorflow", "keras", "tf_keras", "tensorboard", "seqrecorder")
"""Packages that import the installed TensorFlow."""


@contextlib.contextmanager
def compat() -> Iterator[types.ModuleType]:
    """Make `import tensorflow` return TensorFlow 1 in code that is imported or run inside the block.

    `import tensorflow as tf` then has the names of `tf.compat.v1`, the names that TensorFlow 1.0 renamed, and
    `tf.contrib` with the contents of `seqrecorder.legacy.contrib`. The installed `tensorflow` and
    `tensorflow.compat.v1` also get `tf.contrib`, and `import tensorflow.contrib.slim as slim` works. Other names of
    `tf.contrib` can be imported and subclassed, but raise an error when they are called. The input pipeline of a module
    can therefore be used even if the module also defines a model. Shapes and variables behave as in TensorFlow 1.
    `tf.disable_v2_behavior()` and similar calls do nothing, because datasets need eager execution. TensorFlow's own
    modules, Keras and this package are not affected. Imported modules keep working after the block.

    >>> import seqrecorder as sr
    >>> with sr.legacy.compat():
    ...     import tensorflow as tf
    ...     queue_runners, buckets = tf.train.start_queue_runners, tf.contrib.training.bucket_by_sequence_length

    Returns:
        The module imported as `tensorflow`.
    """
    import tensorflow as tf

    importlib.import_module("tensorflow.compat.v1")  # the first import replaces the module
    old = _old_tensorflow(tf)
    with (
        quiet(),
        first_behaviour(),
        mock.patch.object(tf, "contrib", old.contrib, create=True),
        mock.patch.object(tf.compat.v1, "contrib", old.contrib, create=True),
        mock.patch.object(builtins, "__import__", _importer(builtins.__import__, old)),
    ):
        yield old


_THERE_IS = "seqrecorder.legacy.contrib has only the functions that read data; models need Keras"
_INSIDE = (
    *("python", "data", "io", "layers", "learn", "slim", "training"),
    *("bucket_ops", "graph_actions", "graph_io", "hparam", "learn_io", "sequence_queueing_state_saver"),
)
"""Names of modules inside packages of `tf.contrib`, as in `learn.python.learn.learn_io.graph_io`."""

_REMOVED = "tensorflow.compat.v1 does not have it: layers and cells moved to Keras, other names are older than 1.0"


class _Old(types.ModuleType):
    """Module that looks up its names in a list of other modules."""

    def __init__(self, name: str, *modules: Any) -> None:
        super().__init__(name)
        self.__path__ = []
        self._modules = modules

    def __getattr__(self, name: str) -> Any:
        for module in self._modules:
            with contextlib.suppress(AttributeError):
                return getattr(module, name)
        if (imported := sys.modules.get(f"{self.__name__}.{name}")) is not None:
            return imported
        if self.__name__.startswith(f"{_CONTRIB}.") and name in _INSIDE:
            return self
        known = sorted({key for module in self._modules for key in dir(module) if not key.startswith("_")})
        meant = did_you_mean(name, known)
        if self.__name__.startswith(_CONTRIB) and not name.startswith("__"):
            return Absent.named(f"{self.__name__}.{name}", f"{meant}; {_THERE_IS}")
        if name == "estimator":  # no longer in TensorFlow, but scripts with a model import it
            return Absent.named(f"{self.__name__}.{name}", f"; {_REMOVED}")
        raise AttributeError(f"{self.__name__} has no {name!r}{meant}; {_REMOVED}")

    def __dir__(self) -> list[str]:
        return sorted({key for module in self._modules for key in dir(module)} | set(self.__dict__))


def _old_tensorflow(tf: types.ModuleType) -> Any:
    """Build the module with the names of TensorFlow 1."""
    v1 = tf.compat.v1
    cells = _Old("tensorflow.nn.rnn_cell", contrib.rnn, v1.nn.rnn_cell)  # only names that do not need layers
    images = types.SimpleNamespace(resize_images=resize_images)
    old = _Old("tensorflow", v1, tf, renamed(v1))
    old.__dict__.update(
        contrib=_contrib(tf),
        __version__=tf.__version__,
        compat=_Old("tensorflow.compat", types.SimpleNamespace(v1=old), tf.compat),
        concat=concat,
        split=split,
        image=_Old("tensorflow.image", images, v1.image, renamed(v1, "image.")),
        nn=_Old("tensorflow.nn", types.SimpleNamespace(rnn_cell=cells), v1.nn),
        train=_Old("tensorflow.train", v1.train, renamed(v1, "train.")),
        reset_default_graph=_reset_default_graph,
        **{name: _does_nothing for name in dir(v1) if name.startswith(("disable_", "enable_"))},
    )
    return old


def _does_nothing(*_: Any, **__: Any) -> None:
    """Ignore the call of a function that switches the behaviour of TensorFlow."""


def _reset_default_graph() -> None:
    """Reset the default graph.

    Nothing happens inside `with graph.as_default():`. TensorFlow forbids the reset there, and the graph is new anyway.
    """
    import tensorflow as tf

    with contextlib.suppress(AssertionError):
        tf.compat.v1.reset_default_graph()


def _contrib(tf: types.ModuleType) -> Any:
    """Build the module `tf.contrib`."""
    tables = importlib.import_module("tensorflow.python.ops.lookup_ops")  # these names are no longer public
    sources = {
        "data": (tf.data.experimental, tf.compat.v1.data),
        "lookup": (contrib.lookup, tables),
        **{name: (getattr(contrib, name),) for name in ("layers", "learn", "rnn", "slim", "training")},
    }
    packages = {name: _Old(f"{_CONTRIB}.{name}", *modules) for name, modules in sources.items()}
    return _Old(_CONTRIB, types.SimpleNamespace(**packages))


def _importer(importing: Callable[..., Any], old: Any) -> Callable[..., Any]:
    """Build an `__import__` that returns `old`, the old TensorFlow, to old code.

    Packages in `_NEW_CODE`, such as Keras, get the installed TensorFlow.
    """

    def find(name: str, *arguments: Any, **named: Any) -> Any:
        options = {**dict(zip(("globals", "locals", "fromlist", "level"), arguments, strict=False)), **named}
        importer = str((options.get("globals") or {}).get("__name__", "")).partition(".")[0]
        package, _, rest = name.partition(".")
        if options.get("level") or importer in _NEW_CODE or package != "tensorflow":
            return importing(name, *arguments, **named)
        inside = rest.partition(".")[0] == "contrib"
        module = functools.reduce(getattr, rest.split("."), old) if inside else importing(name, *arguments, **named)
        if not options.get("fromlist") or name == "tensorflow":
            return old
        return {"tensorflow.compat": old.compat, "tensorflow.compat.v1": old}.get(name, module)

    return find
