"""Bytes that `tf.io.decode_raw` makes numbers of: what their shapes come to over many messages.

A file does not say which dtype such bytes have. The shape often stands in a feature beside them, or in one feature for
each dimension, as the tutorials for image records had it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from seqrecorder.errors import OptionError, SchemaMismatchError
from seqrecorder.schema.dtypes import ElementType, element_type

Shape = tuple[int | None, ...]


@attrs.frozen
class Found:
    """What the bytes of a feature come to.

    Attributes:
        element: type of the numbers.
        shape: of the array; the first dimension is None where it varies.
        comment: what is left open.
    """

    element: ElementType
    shape: Shape
    comment: str = ""


@attrs.frozen
class _Raw:
    element: ElementType
    shape: Shape | None = None  # as said
    dimensions: tuple[str, ...] = ()  # names of the features that hold the shape, or each of its dimensions


class RawFeatures:
    """The raw features of some messages.

    Args:
        raw: by name, each with what is said of it.
    """

    def __init__(self, raw: Mapping[str, _Raw]) -> None:
        self._raw = dict(raw)
        self._shapes: dict[str, set[tuple[int, ...]]] = {name: set() for name in raw}

    @classmethod
    def of(cls, raw: Mapping[str, Any] | None, shapes: Mapping[str, Any] | None) -> RawFeatures:
        """Return the features that a dtype each, and perhaps a shape, is said of; see `infer`.

        Raises:
            OptionError: a shape for what has no dtype, or one that is none.
            SchemaError: a dtype that there is not.
        """
        elements = {name: element_type(dtype) for name, dtype in (raw or {}).items()}
        said = {}
        for name, element in elements.items():
            if element.is_text:
                raise OptionError(f"raw: {name!r} as {element.name} needs no decoding; leave it out")
            said[name] = _Raw(element, *_parsed(name, (shapes or {}).get(name)))
        for name in shapes or {}:
            if name not in elements:
                raise OptionError(f"shapes: {name!r} has no dtype: name it under `raw` too")
        return cls(said)

    def add(self, message: Any, where: str) -> None:
        """Note the shapes in one message.

        Raises:
            SchemaMismatchError: the bytes are not as said; the place is named.
        """
        for name, raw in self._raw.items():
            for data in _buffers(message, name, where):
                self._shapes[name].add(self._shape(message, name, raw, data, where))

    def _shape(self, message: Any, name: str, raw: _Raw, data: bytes, where: str) -> tuple[int, ...]:
        count, rest = divmod(len(data), raw.element.itemsize)
        if rest:
            raise SchemaMismatchError(
                f"{where}: {name!r} has {len(data)} bytes, which is no whole number of {raw.element.name}"
            )
        said: Sequence[int | None] = (None,)
        if raw.shape is not None:
            said = raw.shape
        elif len(raw.dimensions) == 1:
            said = self._numbers(message, raw.dimensions[0], where)
        elif raw.dimensions:
            said = [number for each in raw.dimensions for number in self._numbers(message, each, where)]
        shape = [-1 if size is None else int(size) for size in said]
        if shape[:1] == [-1]:
            step = math.prod(shape[1:])
            shape[0] = count // step if step else 0
        if math.prod(shape) != count:
            raise SchemaMismatchError(
                f"{where}: {name!r} has {count} numbers of {raw.element.name}, which are not of shape {tuple(said)}"
            )
        return tuple(shape)

    def _numbers(self, message: Any, name: str, where: str) -> list[int]:
        """Return the ints of a feature that holds a shape."""
        if name not in message.context.feature:
            raise SchemaMismatchError(f"{where}: there is no feature {name!r} to hold a shape")
        feature = message.context.feature[name]
        if feature.int64_list.value:
            return list(feature.int64_list.value)
        data = b"".join(feature.bytes_list.value)
        raw = self._raw.get(name)
        if raw is None or raw.element.numpy.kind not in "iu" or len(data) % raw.element.itemsize:
            raise SchemaMismatchError(
                f"{where}: {name!r} holds no ints to be a shape; if decode_raw makes ints of it, give their dtype (raw)"
            )
        numbers: list[int] = np.frombuffer(data, raw.element.numpy).tolist()
        return numbers

    def found(self) -> dict[str, Found]:
        """Return what the bytes of each feature come to, as far as they were seen."""
        return {name: _found(raw, self._shapes[name]) for name, raw in self._raw.items() if self._shapes[name]}


def _parsed(name: str, shape: Any) -> tuple[Shape | None, tuple[str, ...]]:
    if shape is None:
        return None, ()
    if isinstance(shape, str):
        return None, (shape,)
    sizes = tuple(shape) if isinstance(shape, Sequence) else ()
    if sizes and all(isinstance(size, str) for size in sizes):
        return None, sizes
    fitting = all(isinstance(size, int) and size > 0 for size in sizes[1:]) and isinstance(shape, Sequence)
    if not fitting or (sizes and not (sizes[0] is None or (isinstance(sizes[0], int) and sizes[0] > 0))):
        raise OptionError(
            f"shapes: {name!r}: expected sizes, of which the first may be None, or names of features, got {shape!r}"
        )
    return sizes, ()


def _buffers(message: Any, name: str, where: str) -> list[bytes]:
    """Return the buffers of a feature: that of the context, or one of each step."""
    if name in message.feature_lists.feature_list:
        features, of = message.feature_lists.feature_list[name].feature, "a step of "
    elif name in message.context.feature:
        features, of = [message.context.feature[name]], ""
    else:
        return []
    buffers = []
    for feature in features:
        kind = feature.WhichOneof("kind")
        if kind is None and not of:
            continue
        values = feature.bytes_list.value
        if kind != "bytes_list" or len(values) != 1:
            have = f"{len(values)} bytes values" if kind == "bytes_list" else kind or "nothing"
            raise SchemaMismatchError(f"{where}: {of}{name!r} is not one bytes value to decode; it holds {have}")
        buffers.append(values[0])
    return buffers


def _found(raw: _Raw, shapes: set[tuple[int, ...]]) -> Found:
    if raw.shape is not None:
        return Found(raw.element, raw.shape)
    if len(shapes) == 1:
        [shape] = shapes
        if raw.dimensions:
            return Found(raw.element, shape if all(shape) else (None, *shape[1:]) if all(shape[1:]) else (None,))
        return Found(raw.element, () if shape == (1,) else (shape[0] or None,))
    inner = {shape[1:] for shape in shapes}
    if len(inner) == 1 and all(shapes) and all(next(iter(inner))):
        return Found(raw.element, (None, *next(iter(inner))))
    held = f"; {', '.join(raw.dimensions)} says which" if raw.dimensions else ""
    return Found(raw.element, (None,), f"flat: its shape is not the same in all records{held}")
