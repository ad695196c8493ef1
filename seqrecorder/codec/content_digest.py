"""What a record holds beside its name, as a digest: two records of equal digests hold the same."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from seqrecorder.wire.read import Unusual, message_spans

if TYPE_CHECKING:
    from seqrecorder.schema.schema import Schema


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
    except Unusual:  # of others' writing: then equal is what has the same bytes
        digest.update(data)
        return digest.digest()
    for features in (context, lists):
        for name in sorted(features.keys() - names):
            start, stop = features[name]
            digest.update(b"%d %s %d " % (len(name), name, stop - start))
            digest.update(data[start:stop])
        digest.update(b"/")
    return digest.digest()
