"""Data sets of TF-Slim that other modules of a project would have made: any item, made of a record that is a text."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any
from unittest import mock

from seqrecorder.legacy.contrib import slim
from seqrecorder.legacy.contrib.slim.dataset import Dataset
from seqrecorder.legacy.contrib.slim.dataset_data_provider import DatasetDataProvider
from seqrecorder.legacy.migrate.verify.items import item
from seqrecorder.legacy.migrate.verify.stand_ins import StandIn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_RECORD = "record"


class _Whole:
    """A decoder that gives the record as it is."""

    def list_items(self) -> list[str]:
        return [_RECORD]

    def decode(self, record: Any, _: Sequence[str]) -> list[Any]:
        return [record]


class _Items(dict[str, Any]):
    """Any item of a record, by its name: each is another one for each record."""

    def __init__(self, record: Any) -> None:
        super().__init__({_RECORD: record})

    def __contains__(self, _: object) -> bool:
        return True

    def __missing__(self, name: str) -> Any:
        return item(self[_RECORD], name)


@contextlib.contextmanager
def provided() -> Iterator[None]:
    """Let providers give the items of data sets of which nothing is known."""
    import tensorflow as tf

    made, read = DatasetDataProvider.__init__, slim.read_items

    def described() -> Any:
        return Dataset([*StandIn.files], tf.compat.v1.TFRecordReader, _Whole(), None, {})

    @functools.wraps(made)
    def make(provider: Any, dataset: Any, *more: Any, **named: Any) -> None:
        known = not isinstance(dataset, StandIn)
        own = dataset if known else described()
        made(provider, own, *more, **named)
        if not known:
            provider._items_to_tensors = _Items(*provider.get([_RECORD]))  # noqa: SLF001 - of ours

    @functools.wraps(read)
    def read_items(dataset: Any, items: Any, **options: Any) -> Any:
        if not isinstance(dataset, StandIn):
            return read(dataset, items, **options)
        wanted = [items] if isinstance(items, str) else items
        taken = read(described(), _RECORD, **options).map(lambda record: tuple(map(_Items(record).__getitem__, wanted)))
        return taken.map(lambda one: one) if isinstance(items, str) else taken

    with mock.patch.object(DatasetDataProvider, "__init__", make), mock.patch.object(slim, "read_items", read_items):
        yield
