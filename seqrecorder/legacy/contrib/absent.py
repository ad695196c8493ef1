"""What stands for the names of `tf.contrib` that are not here, so that a module with a model in it can be imported."""

from __future__ import annotations

import functools
import types
from typing import Any


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
        """Return what stands for a name.

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
