"""Values to try for the parameters of a function, by their names and by what a script uses them as."""

from __future__ import annotations

import inspect
import types
from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.legacy.migrate.verify.items import IMAGE
from seqrecorder.legacy.migrate.verify.stand_ins import (
    PICTURES,
    QueueOfFiles,
    StandIn,
    is_file,
    known_value,
    place_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_FUNCTIONS = ("fn", "func", "function")
_PLACES = ("dir", "folder", "root")
_INPUTS = ("input", "data", "source", "corpus")
_ARRAYS = ("image", "target", "label", "text", "arr")
_SHAPES = ((20, 4), (20,), (20, 28, 28))
_SIDES = ("dims", "shape", "size")
_NUMBERS = ("batch", "width", "height")  # for the first, a queue aborts the process where it gets a shape
_CHANCE = ("epoch", "batch", "shuffle", "thread")
"""Words of what changes how much is read, for which a script's own default may be too large."""


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
        if name in known and (parameter.default is parameter.empty or isinstance(known[name][0], int))
        else [*_used(parameter, names, uses.get(name, "")), *_of_parameter(parameter, names)]
        for name, parameter in inspect.signature(function).parameters.items()
    ]


def constructing(kind: type, method: str) -> Callable[..., Any]:
    """Return a function that makes an object first, by the constructor, and calls a method of it then."""
    member = inspect.getattr_static(kind, method)
    is_property = isinstance(member, property)
    bound = (lambda: None) if is_property else types.MethodType(member, kind)
    own, method_own = (inspect.signature(called).parameters for called in (kind, bound))

    def call(**values: Any) -> Any:
        made = kind(**{name: value for name, value in values.items() if name in own})
        part = getattr(made, method)
        return part if is_property else part(**{name: value for name, value in values.items() if name in method_own})

    both = {name: one for name, one in {**own, **method_own}.items() if one.kind not in _VARIABLE}
    named = [one.replace(kind=one.KEYWORD_ONLY) for one in both.values()]
    call.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    return call


def _used(parameter: inspect.Parameter, names: list[str], use: str) -> list[tuple[str, Any]]:
    """Return the values that a parameter has by what it is used as; none if it has a default."""
    other = "-1" * any(word in parameter.name.lower() for word in ("label", "target", "mask", "annot"))
    pictures = [f"picture-{number % PICTURES}{other}.jpg" for number in range(20)]
    known: dict[str, Any] = {"object": StandIn(), "text": names[0], "two": IMAGE[:2], "three": IMAGE}
    known |= {"pictures": pictures, "queue": QueueOfFiles(names), "files": names}
    if parameter.default is not parameter.empty and not (parameter.default is None and use == "object"):
        return []
    if use not in known:
        return []
    place = use == "text" and any(word in parameter.name.lower() for word in _PLACES)
    return [(parameter.name, place_of(names) if place else known[use])]


def _same(given: Any, *_: Any, **__: Any) -> Any:
    return given


def _of_parameter(parameter: inspect.Parameter, names: list[str]) -> list[tuple[str, Any]]:
    name, lower = parameter.name, parameter.name.lower()
    if parameter.kind in _VARIABLE:
        return []
    missing = parameter.default is parameter.empty
    own = [] if missing or parameter.default is None else [(name, parameter.default)]
    place = (name, place_of(names))
    if is_file(name):
        return [*(own if "pattern" in lower else []), (name, names), (name, names[0]), *([place] if missing else [])]
    if any(word in lower for word in _PLACES):
        return [place] if missing else [*own, *([(name, None), place] if parameter.default is None else [])]
    known = None if lower.endswith(_FUNCTIONS) else known_value(name)
    is_shape = any(word in lower for word in _SIDES) and not any(word in lower for word in _NUMBERS)
    sides = [(name, IMAGE), (name, IMAGE[:2])] if is_shape else []
    if known is not None and (missing or any(word in lower for word in _CHANCE)):
        found = [(name, known), *sides]
        return [*found, (name, StandIn())] if missing else [*found, *own]
    if missing and lower.endswith("shape"):
        return [(name, shape) for shape in (IMAGE, [*IMAGE], [*IMAGE[:2], 1], [*IMAGE[:2]])]
    if missing:
        return _unsaid(name, names)
    others = sides[::-1] or ([(name, known)] if known is not None else [])
    return [(name, parameter.default), *(others if parameter.default is None else [])]


def _unsaid(name: str, names: list[str]) -> list[tuple[str, Any]]:
    """Return values to try for a parameter that has no default, and whose name says little."""
    lower = name.lower()
    if lower.endswith(_FUNCTIONS):
        return [(name, _same)]
    if any(word in lower for word in _INPUTS):
        arrays = [np.arange(60).reshape(20, 3), np.arange(20)]
        return [(name, names), (name, names[0]), (name, list(range(60))), (name, arrays), (name, StandIn())]
    if any(word in lower for word in _ARRAYS):
        shapes = _SHAPES[1:] + _SHAPES[:1] if "label" in lower else _SHAPES
        return [*((name, np.arange(np.prod(shape)).reshape(shape)) for shape in shapes), (name, 2)]
    return [(name, StandIn()), (name, 2), (name, names[0])]
