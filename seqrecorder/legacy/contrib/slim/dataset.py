"""`slim.dataset`: where the records of a data set are, and how they are read."""

from __future__ import annotations

from typing import Any


class Dataset:
    """`slim.dataset.Dataset`: what a provider needs to know; other arguments become attributes.

    Args:
        data_sources: patterns of files.
        reader: makes a reader.
        decoder: has `list_items()` and `decode(serialized, items)`.
        num_samples: how many there are, or None.
        items_to_descriptions: what the items are.
    """

    def __init__(
        self, data_sources: Any, reader: Any, decoder: Any, num_samples: Any, items_to_descriptions: Any, **kwargs: Any
    ) -> None:
        self.data_sources, self.reader, self.decoder = data_sources, reader, decoder
        self.num_samples, self.items_to_descriptions = num_samples, items_to_descriptions
        self.__dict__.update(kwargs)
