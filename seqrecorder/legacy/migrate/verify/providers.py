"""Data sets of TF-Slim that other modules of a project would have made: any item, made of a record that is a text."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any
from unittest import mock

from seqrecorder.legacy.contrib.slim.dataset import Dataset
from seqrecorder.legacy.contrib.slim.dataset_data_provider import DatasetDataProvider
from seqrecorder.legacy.migrate.verify.stand_ins import IMAGE, StandIn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_RECORD = "record"
_BOXES = 2


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
        import tensorflow as tf

        number = tf.strings.to_hash_bucket_fast(self[_RECORD], 97)
        if "image" in name:
            return tf.fill(IMAGE, tf.cast(number, tf.uint8))
        if "box" in name:
            return tf.fill([_BOXES, 4], tf.cast(number, tf.float32))
        several = {"object": [_BOXES], "shape": [len(IMAGE)]}
        words = any(word in name for word in ("text", "name", "format", "caption"))
        return self[_RECORD] if words else tf.fill(several.get(name.partition("/")[0], []), number)


@contextlib.contextmanager
def provided() -> Iterator[None]:
    """Let providers give the items of data sets of which nothing is known."""
    import tensorflow as tf

    made = DatasetDataProvider.__init__

    @functools.wraps(made)
    def make(provider: Any, dataset: Any, *more: Any, **named: Any) -> None:
        known = not isinstance(dataset, StandIn)
        reader = tf.compat.v1.TFRecordReader
        own = dataset if known else Dataset([*StandIn.files], reader, _Whole(), None, {})
        made(provider, own, *more, **named)
        if not known:
            provider._items_to_tensors = _Items(*provider.get([_RECORD]))  # noqa: SLF001 - of ours

    with mock.patch.object(DatasetDataProvider, "__init__", make):
        yield
