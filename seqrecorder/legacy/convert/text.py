"""Python source text: literals, unique names, and folding of long lines."""

from __future__ import annotations

import itertools
import re
import textwrap
from typing import TYPE_CHECKING, Any

from seqrecorder.legacy.convert.trace import identifier

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WIDTH = 99
_MANY, _NARROW = 12, 12
"""More than 12 items of at most 12 characters each share lines."""
_OPEN, _CLOSE = "([{", ")]}"
_PLAIN = ("int32", "float32", "string", "bool")
"""Dtypes that TensorFlow infers from Python values."""


class NotPrintableError(Exception):
    """Error for an operation that cannot be printed as Python."""


def literal(value: Any, dtype: Any = None) -> str:
    """Print the value of an array, as a `tf.constant` if TensorFlow would infer a different dtype.

    >>> import numpy as np
    >>> literal(np.array([[1, 2]], np.int32)), literal(np.int64(3)), literal(b"a")
    ('[[1, 2]]', 'tf.constant(3, tf.int64)', '"a"')
    """
    import numpy as np
    import tensorflow as tf

    array = np.asarray(value, object if isinstance(value, bytes) else None)
    kind = tf.as_dtype(dtype or (tf.string if array.dtype == object else array.dtype)).base_dtype
    text = plain(array)
    if array.size == 0 and array.shape != (0,):
        return f"tf.zeros({list(array.shape)}, tf.{kind.name})"
    return text if kind.name in _PLAIN and array.size else f"tf.constant({text}, tf.{kind.name})"


def plain(value: Any) -> str:
    """Print the value of an array as Python lists and scalars."""
    import numpy as np

    if getattr(value, "ndim", 0):
        return "[" + ", ".join(plain(row) for row in value) + "]"
    item = value.item() if isinstance(value, (np.ndarray, np.generic)) and not isinstance(value, bytes) else value
    if isinstance(item, bytes):
        try:
            item = item.decode()
        except UnicodeDecodeError:
            return repr(bytes(item))
    if isinstance(item, str):
        text = repr(item)
        return text if '"' in text else f'"{text[1:-1]}"'
    if isinstance(item, float):
        if not np.isfinite(item):
            return f'float("{item}")'
        shortest: Any = np.asarray(value)[()]
        small = item == 0 or 1e-4 <= abs(item) < 1e9  # noqa: PLR2004 - where Python writes no exponent
        return np.format_float_positional(shortest, trim="0") if small else str(shortest)
    return repr(item)


def unique(names: Sequence[str]) -> list[str]:
    """Make names unique by adding numbers to repeated ones.

    An empty name becomes `x`.
    """
    new: list[str] = []
    for base in names:
        new.append(next(name for name in numbered(base or "x") if name not in new and identifier(name)))
    return new


def numbered(base: str) -> Iterator[str]:
    """Yield a name, then the same name followed by 2, 3 and so on."""
    return itertools.chain([base], (f"{base}_{number}" for number in itertools.count(2)))


def fold(line: str, indent: int = 0) -> list[str]:
    r"""Fold a statement into lines of at most `WIDTH` characters, if possible.

    Lines are broken between the items of the widest bracket.

    >>> fold("x = f(" + ", ".join(["argument"] * 12) + ")")[:2]
    ['x = f(', '    argument,']
    >>> print(*fold(f"x = y * ({'a' * 50} + {'b' * 50})"), sep="\n")
    x = y * (
        aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa + bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
    )
    """
    space = " " * indent
    if len(space + line) <= WIDTH or (bracket := _bracket(line)) is None:
        return [space + line]
    start, end = bracket
    inside = [*items(line[start + 1 : end])]
    if len(inside) > _MANY and max(map(len, inside)) <= _NARROW:
        filled = textwrap.wrap(", ".join(inside) + ",", WIDTH - indent - 4)
        return [space + line[: start + 1], *(f"{space}    {row}" for row in filled), space + line[end:]]
    # Parentheses around an operand are neither a call nor a tuple.
    groups = line[start] == "(" and not re.search(r"[\w\])]$", line[:start])
    comma = "" if len(inside) == 1 and (groups or " for " in inside[0] or inside[0].startswith("*")) else ","
    inner = [folded for item in inside for folded in fold(item + comma, indent + 4)]
    return [space + line[: start + 1], *inner, space + line[end:]]


def _bracket(line: str) -> tuple[int, int] | None:
    """Find the start and the end of the widest outermost bracket, or return None if there are no brackets."""
    pairs, stack = [], []
    for position, character in _code(line):
        if character in _OPEN:
            stack.append(position)
        elif character in _CLOSE:
            start = stack.pop()
            if not stack and position > start + 1:
                pairs.append((start, position))
    return max(pairs, key=lambda pair: pair[1] - pair[0], default=None)


def items(text: str) -> Iterator[str]:
    """Split an argument list at the commas outside of brackets and lambda parameters."""
    depth, start = 0, 0
    for position, character in _code(text):
        depth += (character in _OPEN) - (character in _CLOSE)
        arguments = text[start:position].strip().startswith("lambda ") and ":" not in text[start:position]
        if character == "," and not depth and not arguments:
            yield text[start:position].strip()
            start = position + 1
    if rest := text[start:].strip():
        yield rest


def _code(line: str) -> Iterator[tuple[int, str]]:
    """Yield the position and the character of all code outside of string literals."""
    for match in re.finditer(r""" "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | (.) """, line, re.VERBOSE | re.DOTALL):
        if match[1]:
            yield match.start(), match[1]
