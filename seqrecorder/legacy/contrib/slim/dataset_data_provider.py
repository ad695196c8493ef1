"""`slim.dataset_data_provider`: the decoded items of the next record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.legacy.contrib.slim.data_provider import DataProvider
from seqrecorder.legacy.contrib.slim.parallel_reader import parallel_read

if TYPE_CHECKING:
    from collections.abc import Mapping


class DatasetDataProvider(DataProvider):
    """`slim.dataset_data_provider.DatasetDataProvider`: the decoded items of a dataset's next record.

    Args:
        dataset: a `Dataset`.
        num_readers: see `parallel_read`, as for the other arguments.
        reader_kwargs: see `parallel_read`.
        shuffle: see `parallel_read`.
        num_epochs: see `parallel_read`.
        common_queue_capacity: its `capacity`.
        common_queue_min: its `min_after_dequeue`.
        record_key: name under which the record's key is given.
        seed: see `parallel_read`.
        scope: see `parallel_read`.
    """

    def __init__(
        self,
        dataset: Any,
        num_readers: int = 1,
        reader_kwargs: Mapping[str, Any] | None = None,
        shuffle: bool = True,
        num_epochs: int | None = None,
        common_queue_capacity: int = 256,
        common_queue_min: int = 128,
        record_key: str = "record_key",
        seed: int | None = None,
        scope: str | None = None,
    ) -> None:
        key, data = parallel_read(
            dataset.data_sources,
            reader_class=dataset.reader,
            num_epochs=num_epochs,
            num_readers=num_readers,
            reader_kwargs=reader_kwargs,
            shuffle=shuffle,
            capacity=common_queue_capacity,
            min_after_dequeue=common_queue_min,
            seed=seed,
            scope=scope,
        )
        items = dataset.decoder.list_items()
        tensors = dict(zip(items, dataset.decoder.decode(data, items), strict=True))
        if record_key in tensors:
            raise ValueError(
                f"The item name used for `record_key` cannot also be used for a dataset item: {record_key}"
            )
        super().__init__({**tensors, record_key: key}, dataset.num_samples)
