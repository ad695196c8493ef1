"""Implementation of `Schema.encode`, `decode`, `parse` and their batch forms, with lazy imports of codec modules."""

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
    """Encoder, decoder and parser of one schema, each created on first use.

    Args:
        schema: schema of the records.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    @functools.cached_property
    def _encoder(self) -> RecordEncoder:
        return RecordEncoder(self.schema)

    @functools.cached_property
    def _decoder(self) -> RecordDecoder:
        from seqrecorder.codec.decode import RecordDecoder  # declaring and writing need none of the decoder's modules

        return RecordDecoder(self.schema)

    @functools.cached_property
    def _parser(self) -> Parser:
        from seqrecorder.codec.parse import Parser  # only graphs need the parser's modules

        return Parser(self.schema)

    def encode_batch(self, records: Sequence[Any]) -> list[bytes]:
        """Encode each record to a serialized SequenceExample."""
        return self._encoder.encode_batch(records)

    def decode_batch(self, data: Sequence[bytes]) -> list[Any]:
        """Decode one record per serialized SequenceExample."""
        return self._decoder.decode_batch(data)

    def features(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Build the parsing specs of the context and of the feature lists."""
        return self._parser.specs.public()

    def parse(self, serialized: Any) -> dict[str, Any]:
        """Parse one record into tensors."""
        return _without_autograph(self._with_images(self._parser.parse), serialized)

    def parse_batch(self, serialized: Any) -> dict[str, Any]:
        """Parse records to the tensors of a padded batch."""
        return _without_autograph(self._with_images(self._parser.parse_batch), serialized)

    def _with_images(self, parse: Callable[[Any], dict[str, Any]]) -> Callable[[Any], dict[str, Any]]:
        return lambda serialized: decode_elements(parse(serialized), self._parser.images)


def _without_autograph(parse: Callable[[Any], dict[str, Any]], serialized: Any) -> dict[str, Any]:
    """Call a parse function without autograph.

    The function does not need autograph, and is traced faster without it.
    """
    import tensorflow as tf

    tensors: dict[str, Any] = tf.autograph.experimental.do_not_convert(parse)(serialized)
    return tensors


def content_digest(schema: Schema, data: bytes) -> bytes:
    """Hash the encoded fields of a record, except its key and chunk number, to 16 bytes.

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
        schema: schema of the record.
        data: serialized record.
    """
    names = {field.feature.encode() for field in schema.fields if field.key or field.chunk}
    digest = hashlib.blake2b(digest_size=16)
    try:
        context, lists = message_spans(data)
    except WireError:  # written by another program: hash all bytes
        digest.update(data)
        return digest.digest()
    for features in (context, lists):
        for name in sorted(features.keys() - names):
            start, stop = features[name]
            digest.update(b"%d %s %d " % (len(name), name, stop - start))
            digest.update(data[start:stop])
        digest.update(b"/")
    return digest.digest()
