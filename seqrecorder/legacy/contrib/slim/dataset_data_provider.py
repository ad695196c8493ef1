"""`slim.dataset_data_provider`: the decoded items of the next record."""

from __future__ import annotations

from typing import Any

from seqrecorder.legacy.contrib.old_signatures import by_name
from seqrecorder.legacy.contrib.slim.data_provider import DataProvider
from seqrecorder.legacy.contrib.slim.parallel_reader import parallel_read

_SIGNATURE = "num_readers reader_kwargs shuffle num_epochs common_queue_capacity common_queue_min record_key seed scope"


class DatasetDataProvider(DataProvider):
    """`slim.dataset_data_provider.DatasetDataProvider`: the decoded items of a dataset's next record.

    Args:
        dataset: a `Dataset`.
        *more: `num_readers` (1 by default), `reader_kwargs`, `shuffle` and `num_epochs` (see `parallel_read`),
            `common_queue_capacity` (its `capacity`), `common_queue_min` (its `min_after_dequeue`), `record_key` (the
            name under which the record's key is given), `seed` and `scope`.
        **named: the same, by name.

    Raises:
        ValueError: an item has the name of the key.
    """

    def __init__(self, dataset: Any, *more: Any, **named: Any) -> None:
        options = {"num_readers": 1, **by_name(_SIGNATURE, more, named)}
        record_key = options.pop("record_key", "record_key")
        for old, new in (("common_queue_capacity", "capacity"), ("common_queue_min", "min_after_dequeue")):
            if old in options:
                options[new] = options.pop(old)
        key, data = parallel_read(dataset.data_sources, dataset.reader, **options)
        items = dataset.decoder.list_items()
        tensors = dict(zip(items, dataset.decoder.decode(data, items), strict=True))
        if record_key in tensors:
            raise ValueError(
                f"The item name used for `record_key` cannot also be used for a dataset item: {record_key}"
            )
        super().__init__({**tensors, record_key: key}, dataset.num_samples)
