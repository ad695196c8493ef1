"""`Ragged`, batches of consecutive records without padding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import attrs

from seqrecorder.codec.graph_ops import Padding, longest_of, of_all_rows, padded
from seqrecorder.codec.parse import Parser, length_name
from seqrecorder.reading.batching.pad import consecutive_batches
from seqrecorder.reading.batching.strategy import EMPTY, Batches, Carried, Strategy, not_empty, one_of, positive
from seqrecorder.reading.cardinality import batch_count
from seqrecorder.schema.field import DEFAULT_GROUP

if TYPE_CHECKING:
    from seqrecorder.codec.columns import Column
    from seqrecorder.reading.batching.strategy import Feed
    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema

ROW_SPLITS = "row_splits"


def splits_name(group: str) -> str:
    """Return the name of the row splits of an alignment group in a flat batch."""
    return ROW_SPLITS if group == DEFAULT_GROUP else f"{group}_{ROW_SPLITS}"


@attrs.frozen
class Ragged(Strategy):
    """Batches of consecutive records with feature lists as `tf.RaggedTensor`, without padding.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> from seqrecorder.reading.batching.ragged import Ragged
    >>> @sr.record
    ... class Sentence:
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> corpus = tempfile.mkdtemp()
    >>> _ = sr.write([Sentence([1, 2, 3]), Sentence([]), Sentence([4])], corpus)
    >>> for batch in sr.read(corpus, batch=Ragged(3)):
    ...     print(batch["ids"].to_list(), batch["sequence_length"].numpy().tolist())
    [[1, 2, 3], [], [4]] [3, 0, 1]
    >>> for batch in sr.read(corpus, batch=Ragged(3, flat=True)):
    ...     print(batch["ids"].numpy().tolist(), batch["row_splits"].numpy().tolist())
    [1, 2, 3, 4] [0, 3, 3, 4]

    A feature list is `(B, None, *shape)`; ragged steps add a second ragged dimension. If a record lacks an optional
    list, its row is empty. Context fields are dense, or ragged if their length is unknown. Sparse fields are
    `tf.SparseTensor`.

    Inside a `tf.function`, as in `model.fit`, reading is as fast as with `Pad`. A Python loop unpacks each
    RaggedTensor separately, and gets slower with each feature list. `flat=True` avoids that;
    `tf.RaggedTensor.from_row_splits(batch["ids"], batch["row_splits"])` builds the ragged tensor if needed.

    Attributes:
        batch_size: records per batch.
        drop_remainder: whether to drop the last batch of an epoch if it is smaller.
        empty: treatment of records without steps in a list that is read: `"keep"` (an empty row), `"drop"` (leave them
            out) or `"error"` (raise an error while iterating).
        flat: whether to return feature lists as the concatenated steps of all records, `(S, *shape)`. This applies to
            lists of known shape that every record has. They share one `row_splits`, int64 `(B + 1,)`, named
            `<group>_row_splits` for an alignment group with a name. Lists with `per_step` are `(S * per_step, *shape)`,
            and their splits count these steps.
        length_name: name of the tensor with the lengths, int64 `(B,)`.
        seed_name: name of the tensor with a random seed per record; see `Pad`.
    """

    batch_size: int = attrs.field(validator=positive)
    drop_remainder: bool = attrs.field(default=False, kw_only=True)
    empty: Literal["keep", "drop", "error"] = attrs.field(default="keep", validator=one_of(*EMPTY), kw_only=True)
    flat: bool = attrs.field(default=False, kw_only=True)
    mask_name: None = attrs.field(default=None, init=False)  # there is no padding to mask

    def carried(self, schema: Schema) -> Carried:
        """Describe the tensors that batches contain in addition to fields and lengths."""
        return Carried(dict.fromkeys(map(splits_name, schema.groups)) if self.flat else {}, padded=False)

    def read(self, feed: Feed) -> Batches:
        """Read ragged batches."""
        feed = self._prepare(feed)
        checked_groups = feed.parser.schema.groups if self.empty == "error" else ()

        def parse(serialized: Any) -> Any:
            values = parse_ragged(feed.parser, serialized, flat=self.flat)
            for group in checked_groups:
                values[length_name(group)] = not_empty(values[length_name(group)], feed, group)
            return feed.shape(values)

        batches = feed.map_batches(self._batches(feed), parse, self.batch_size)
        return Batches(batches, batch_count(feed.records, self.batch_size, drop_remainder=self.drop_remainder))

    def shapes(self, feed: Feed) -> Any:
        """Compute the shapes of batches (see `Strategy`)."""
        import tensorflow as tf

        def shape(_: Any, lengths: Any) -> Any:
            steps = tf.reduce_sum(lengths)
            return tf.stack([tf.size(lengths, tf.int64), steps, steps])[tf.newaxis]

        return self._batches(self._prepare(feed), feed.group()).map(shape)

    def _prepare(self, feed: Feed) -> Feed:
        return feed.leave_out_empty() if self.empty == "drop" else feed

    def _batches(self, feed: Feed, group: str | None = None) -> Any:
        return consecutive_batches(feed, self.batch_size, group, drop_remainder=self.drop_remainder)


def parse_ragged(parser: Parser, serialized: Any, *, flat: bool = False) -> dict[str, Any]:
    """Parse a batch to ragged tensors, with the names that `Parser.parse_batch` uses.

    Args:
        parser: parser of the fields.
        serialized: string, `(B,)`.
        flat: whether to concatenate the steps; see `Ragged`. If so, the row splits come after the lengths.
    """
    import tensorflow as tf

    columns, lengths = parser.parse_columns(serialized)
    rows = tf.shape(serialized, tf.int64)[0]
    out: dict[str, Any] = {}
    for field in parser.schema.fields:
        column = columns[field.name]
        if not field.is_list or field.sparse is not None:
            longest = longest_of(lengths[field.group]) if field.is_list else None
            out[field.name] = padded(field, column, rows, longest, Padding())
        elif flat and not field.may_lack and not field.is_ragged:
            out[field.name] = column.values
        else:
            out[field.name] = _ragged(field, column)
        if field.optional:
            out[f"{field.name}_present"] = column.present
    for group, length in lengths.items():
        out[length_name(group)] = length
    if flat:
        for group, length in lengths.items():
            out[splits_name(group)] = tf.concat([[0], tf.cumsum(length)], 0)
    return out


def _ragged(field: Field, column: Column) -> Any:
    import tensorflow as tf

    values = column.values
    if field.is_ragged:
        values = tf.RaggedTensor.from_row_lengths(values, column.counts, validate=False)
    return tf.RaggedTensor.from_row_lengths(values, of_all_rows(column, column.steps), validate=False)
