"""Records to bytes and back: what `Schema.encode`, `decode`, `parse` and their batch forms stand on."""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING, Any

from seqrecorder.codec.encode import RecordEncoder
from seqrecorder.codec.images import decode_elements
from seqrecorder.wire.read import WireError, message_spans

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from seqrecorder.codec.decode import RecordDecoder
    from seqrecorder.codec.parse import Parser
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
        from seqrecorder.codec.decode import RecordDecoder  # who declares or writes needs none of its modules

        return RecordDecoder(self.schema)

    @functools.cached_property
    def _parser(self) -> Parser:
        from seqrecorder.codec.parse import Parser  # all that it takes is for graphs

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
        return _without_autograph(self._decoded(self._parser.parse), serialized)

    def parse_batch(self, serialized: Any) -> dict[str, Any]:
        """Return the tensors of a padded batch."""
        return _without_autograph(self._decoded(self._parser.parse_batch), serialized)

    def _decoded(self, parse: Callable[[Any], dict[str, Any]]) -> Callable[[Any], dict[str, Any]]:
        return lambda serialized: decode_elements(parse(serialized), self._parser.images)


def _without_autograph(parse: Callable[[Any], dict[str, Any]], serialized: Any) -> dict[str, Any]:
    """Call a function that has no control flow on tensors; tracing it is faster so."""
    import tensorflow as tf

    tensors: dict[str, Any] = tf.autograph.experimental.do_not_convert(parse)(serialized)
    return tensors


def content_digest(schema: Schema, data: bytes) -> bytes:
    """Return 16 bytes that depend on the encoded fields of a record, but for its key and the number of its chunk.

    >>> import seqrecorder as sr
    >>> @sr.record
    ... class Word:
    ...     key: str = sr.context(str, key=True)
    ...     text: str = sr.context(str)
    >>> schema = sr.Schema.of(Word)
    >>> digests = [content_digest(schema, schema.encode(Word(key, "to"))) for key in "ab"]
    >>> digests[0] == digests[1]
    True

    Args:
        schema: of the record.
        data: the serialized record.
    """
    names = {field.feature.encode() for field in schema.fields if field.key or field.chunk}
    digest = hashlib.blake2b(digest_size=16)
    try:
        context, lists = message_spans(data)
    except WireError:  # of others' writing: then equal is what has the same bytes
        digest.update(data)
        return digest.digest()
    for features in (context, lists):
        for name in sorted(features.keys() - names):
            start, stop = features[name]
            digest.update(b"%d %s %d " % (len(name), name, stop - start))
            digest.update(data[start:stop])
        digest.update(b"/")
    return digest.digest()
