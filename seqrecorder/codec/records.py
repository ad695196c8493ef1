"""Records to bytes and back: what `Schema.encode`, `decode`, `parse` and their batch forms stand on."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from seqrecorder.codec.encoder import RecordEncoder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from seqrecorder.codec.decoder import RecordDecoder
    from seqrecorder.codec.parser import Parser
    from seqrecorder.schema.schema import Schema


class RecordCodec:
    """Both halves of the codec of one schema, each made when it is first asked.

    Args:
        schema: the fields.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    @functools.cached_property
    def _encoder(self) -> RecordEncoder:
        return RecordEncoder(self.schema)

    @functools.cached_property
    def _decoder(self) -> RecordDecoder:
        from seqrecorder.codec.decoder import RecordDecoder  # who declares or writes needs none of its modules

        return RecordDecoder(self.schema)

    @functools.cached_property
    def _parser(self) -> Parser:
        from seqrecorder.codec.parser import Parser  # all that it takes is for graphs

        return Parser(self.schema)

    def encode_batch(self, records: Sequence[Any]) -> list[bytes]:
        """Return one serialized SequenceExample per record."""
        return self._encoder.encode_batch(records)

    def decode_batch(self, data: Sequence[bytes]) -> list[Any]:
        """Return one record per serialized SequenceExample."""
        return self._decoder.decode_batch(data)

    def context_features(self) -> dict[str, Any]:
        """Return the wire spec of the context."""
        return self._parser.specs.public()[0]

    def sequence_features(self) -> dict[str, Any]:
        """Return the wire spec of the feature lists."""
        return self._parser.specs.public()[1]

    def parse(self, serialized: Any) -> dict[str, Any]:
        """Return the tensors of one record."""
        return _without_autograph(self._parser.parse, serialized)

    def parse_batch(self, serialized: Any) -> dict[str, Any]:
        """Return the tensors of a padded batch."""
        return _without_autograph(self._parser.parse_batch, serialized)


def _without_autograph(parse: Callable[[Any], dict[str, Any]], serialized: Any) -> dict[str, Any]:
    """Call a function that has no control flow on tensors; tracing it is faster so."""
    import tensorflow as tf

    tensors: dict[str, Any] = tf.autograph.experimental.do_not_convert(parse)(serialized)
    return tensors
