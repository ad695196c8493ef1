"""Record classes of the tests of writing, in a module of their own so that worker processes can import them."""

# ruff: noqa: RUF009 - declarations are fields of attrs, which takes them out of the class

import os
from typing import Any

import attrs
import numpy as np

import seqrecorder as sr


@sr.record
class Item:
    key: str = sr.context(str, key=True)
    group: str = sr.context(str, default="")
    ids: np.ndarray = sr.feature_list("int64", default=())


def items(count: int, start: int = 0) -> list[Item]:
    """Return records with keys k0, k1, ..., of 0 to 6 steps and in 7 groups."""
    return [Item(f"k{i}", f"g{i % 7}", np.arange(i % 7) * i) for i in range(start, start + count)]


@sr.record
class Tokens:
    """Some numbers of a name."""

    key: str = sr.context(str, key=True)
    ids: Any = sr.feature_list("int64")
    words: Any = sr.feature_list(str, default=(), align=None)


@sr.record
class Clip:
    """A record whose steps are loaded late, and which is cut into chunks."""

    key: str = sr.context(str, key=True)
    chunk: int = sr.context("int64", chunk=True, default=0)
    steps: Any = sr.feature_list("float32", deferred=True, default=None)
    size: int = attrs.field(default=0)

    @classmethod
    def from_csv_row(cls, row: dict[str, str], least: int = 0) -> "Clip":
        if int(row["size"]) < least:
            raise sr.SkipRecord
        return cls(row["key"], size=int(row["size"]))

    def load(self, scale: float = 1.0) -> None:
        if self.size < 0:
            raise sr.SkipRecord
        if self.key == "broken":
            raise RuntimeError("no such clip")
        if self.key == "killed":
            os._exit(1)
        self.steps = np.arange(self.size, dtype=np.float32) * np.float32(scale)

    def split(self, length: int = 1000) -> Any:
        for number, start in enumerate(range(0, max(1, self.size), length)):
            if self.size == 13 and number == 1:
                raise sr.SkipRecord
            yield attrs.evolve(self, chunk=number, steps=self.steps[start : start + length])

    def to_csv_row(self) -> dict[str, Any]:
        return {"key": self.key, "chunk": self.chunk}


@sr.record
class Large:
    """A record that takes much memory once it is loaded."""

    steps: Any = sr.feature_list("uint8", storage="packed", deferred=True, default=None)
    size: int = attrs.field(default=0)

    def load(self) -> "Large":
        return attrs.evolve(self, steps=np.full(self.size, 7, np.uint8))


@sr.record
class Unpicklable:
    """A record that no worker process can be given."""

    key: str = sr.context(str)
    extra: Any = attrs.field(default=None)


@attrs.define(on_setattr=attrs.setters.NO_OP, eq=False)
class Loose:
    """A record of every kind of value, whose attributes take what they are given later as it is."""

    key: str = sr.context(str, key=True)
    rank: int = sr.context("int64", default=0)
    blob: Any = sr.context(bytes, default=b"")
    matrix: Any = sr.context("float32", shape=(2, 2), default=((0, 0), (0, 0)))
    ids: Any = sr.feature_list("int64", default=())
    words: Any = sr.feature_list(str, default=(), align=None)
    blobs: Any = sr.feature_list(bytes, default=(), align=None)
    ragged: Any = sr.feature_list("int32", shape=(None,), default=(), align=None)
    bag: Any = sr.context("float64", sparse=32, default={})
    note: Any = attrs.field(default="")


@sr.record
class Cut:
    """A record that is loaded into, and cut out of, buffers that all share."""

    key: str = sr.context(str, key=True)
    chunk: int = sr.context("int64", chunk=True, default=0)
    ids: Any = sr.feature_list("int64", default=())
    size: int = attrs.field(default=0)

    def load(self) -> None:
        _BUFFER[: self.size] += self.ids[:1]
        self.ids = _BUFFER[: self.size]
        self.ids[:] = np.arange(self.size) + 100 * self.size

    def split(self) -> Any:
        piece = np.zeros(2, np.int64)
        for number in range(len(self.ids) // 2):
            piece[:] = self.ids[2 * number : 2 * number + 2]
            yield Cut(self.key, number, piece)
            self.ids[:] += 1000


_BUFFER = np.zeros(64, np.int64)
