"""`Vocabulary`: ids for the tokens of a field, for use in numpy, in Keras layers and in `read`.

Splitting text into tokens is left to the user (`pieces`).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.analysis.numbers import Tally
from seqrecorder.analysis.stats import by_pieces, selections_of
from seqrecorder.codec.graph_ops import FieldMap, as_numbers, checked, records_called
from seqrecorder.dataset.selection import Selection
from seqrecorder.errors import DatasetNotFoundError, ManifestError, OptionError, check_count
from seqrecorder.schema.display import bars, html_table, join, number_of
from seqrecorder.storage.files import local_path, sealed, unsealed, write_file

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from seqrecorder.schema.field import Field


_TOGETHER = 1 << 16  # items of an iterable to count at once


def count_tokens(
    source: Any,
    field: str | None,
    pieces: Callable[[Any], Sequence[Any]] | None,
    prune: int | None,
    progress: bool | None = None,  # noqa: FBT001 - see `sr.write`
) -> tuple[list[tuple[Any, int]], int]:
    """Count the tokens of a source.

    The first result is a list of pairs `(token, count)`, the most frequent token first. Ties are broken by the order of
    the tokens. The second result is the total number of tokens.

    Args:
        source: dataset, selection, or mapping from names to selections; or, without `field`, tokens or sequences of
            tokens.
        field: name of the field whose elements are the tokens.
        pieces: function that splits an element into tokens; None if elements are tokens.
        prune: maximum number of distinct tokens to keep (see `Tally`); None for all.
        progress: whether to show a progress bar; None shows one on terminals if tqdm is installed.

    Raises:
        OptionError: the field has a type that cannot be tokens, the source is not iterable, or token types are mixed.
        SchemaError: there is no field of this name.
    """
    tokens = Tally(prune)
    if field is None:
        for values in _values_of(source):
            _count(tokens, values, pieces)
    else:
        splits = source if isinstance(source, Mapping) else selections_of(source)
        work = functools.partial(_counted, field=field, pieces=pieces, prune=prune)
        for _, part in by_pieces(work, splits, "counting tokens", progress=progress, alone=pieces is not None):
            tokens.error += part.error
            tokens.count(part.counts, part.total)
    try:
        return tokens.top(), tokens.total
    except TypeError:
        kinds = ", ".join(sorted({type(token).__name__ for token in tokens.counts}))
        raise OptionError(f"tokens: expected text, bytes or ints, all of one type, got {kinds}") from None


def _count(tokens: Tally, values: list[Any], pieces: Callable[[Any], Sequence[Any]] | None) -> None:
    some_tokens = values if pieces is None else [token for value in values for token in _split(value, pieces)]
    tokens.count(some_tokens, len(some_tokens))


def _split(value: Any, pieces: Callable[[Any], Sequence[Any]]) -> list[Any]:
    try:
        return list(pieces(value))
    except Exception as error:
        raise OptionError(f"pieces: {type(error).__name__}: {error}, for {value!r:.100}") from error


def _counted(selection: Selection, field: str, pieces: Any, prune: int | None) -> Tally:
    tokens = Tally(prune)
    element = selection.schema[field].element
    if not (element.is_text or element.numpy.kind in "iub"):
        raise OptionError(f"expected a field of text, bytes or whole numbers, got field {field!r} of {element.name}")
    for columns in selection.columns([field]):
        _count(tokens, columns[field].values.ravel().tolist(), pieces)
    return tokens


def _values_of(source: Any) -> Iterator[list[Any]]:
    if isinstance(source, (str, bytes)) or not isinstance(source, Iterable):
        raise OptionError(f"expected tokens, or sequences of tokens, got {source!r:.100}; a dataset takes a field, too")
    items = iter(source)
    while batch := list(islice(items, _TOGETHER)):
        yield list(chain.from_iterable(map(_flat, batch)))


def _flat(item: Any) -> list[Any]:
    if isinstance(item, np.ndarray):
        return list(item.ravel().tolist())
    if isinstance(item, (list, tuple)):
        return list(chain.from_iterable(map(_flat, item)))
    return [item.item() if isinstance(item, np.generic) else item]


_KEYS = 2**63 - 1  # largest number of hash buckets that int64 holds


def lookup(ids: Mapping[Any, int], first: int, buckets: int, where: str) -> Callable[[Any], Any]:
    """Build the graph function that maps a tensor of tokens to ids (int64).

    Args:
        ids: id of each token.
        first: first id of unknown tokens.
        buckets: number of ids that unknown tokens share; 0 makes unknown tokens an error.
        where: name of the field, for error messages.

    Raises:
        OptionError: two tokens have the same hash.
    """
    import tensorflow as tf

    with tf.device("CPU:0"):
        tokens = tf.constant(list(ids), None if isinstance(next(iter(ids)), (str, bytes)) else tf.int64)
        keys = np.asarray(_keys(tokens))
        order = np.argsort(keys)
        table, by_key = keys[order], tf.gather(tokens, order)
    numbers = np.fromiter(ids.values(), np.int64, len(ids))[order]
    if (table[1:] == table[:-1]).any():  # a probability of 1 in 18 million for a million texts
        raise OptionError(f"vocabulary: two tokens of {where!r} have the same hash; leave one of them out")

    def to_ids(values: Any) -> Any:
        flat = tf.reshape(values, [-1])
        if not flat.dtype.is_floating and flat.dtype != tf.string:
            flat = tf.cast(flat, tf.int64)
        rank = tf.minimum(tf.searchsorted(table, _keys(flat), out_type=tf.int64), len(table) - 1)
        known = tf.gather(by_key, rank) == flat
        indices = tf.gather(numbers, rank)
        if buckets:
            indices = tf.where(known, indices, first + _bucket(flat, buckets))
        else:
            message = (
                f"field {where!r}: unknown tokens, but oov_buckets=0; build of all splits, as in "
                f"seqrecorder.Vocabulary.build(seqrecorder.open(path).all(), {where!r}), or with oov_buckets=1:"
            )
            with records_called(""):  # `seqrecorder verify` would find nothing wrong with them
                indices = checked(indices, known, message, tf.boolean_mask(flat, tf.logical_not(known)))
        return tf.ensure_shape(tf.reshape(indices, tf.shape(values)), values.shape)

    return to_ids


def text_of(token: Any) -> Any:
    """Decode bytes to text; return other tokens unchanged."""
    return token.decode() if isinstance(token, bytes) else token


def bucket_of(tokens: Sequence[Any], buckets: int) -> NDArray[np.int64]:
    """Compute the bucket of each unknown token (int64), as Keras' lookup layers do."""
    if buckets == 1:
        return np.zeros(len(tokens), np.int64)
    if not isinstance(tokens[0], (str, bytes)):
        return np.asarray(tokens, np.int64) % buckets
    import tensorflow as tf

    with tf.device("CPU:0"):
        ids: NDArray[np.int64] = _bucket(tf.constant(list(tokens)), buckets).numpy()
    return ids


def _bucket(values: Any, buckets: int) -> Any:
    import tensorflow as tf

    if buckets == 1:
        return tf.zeros_like(values, tf.int64)
    if values.dtype != tf.string:
        return tf.math.floormod(values, tf.constant(buckets, values.dtype))
    return tf.strings.to_hash_bucket_fast(values, buckets)


def _keys(values: Any) -> Any:
    """Map tokens to integers that can be looked up in a sorted table.

    Texts are mapped to their hashes, and numbers to themselves.
    """
    import tensorflow as tf

    return tf.strings.to_hash_bucket_fast(values, _KEYS) if values.dtype == tf.string else values


@attrs.frozen(eq=False, repr=False)
class Coverage:
    """Share of tokens that are in a vocabulary.

    Attributes:
        tokens: number of tokens.
        known: number of tokens in the vocabulary.
        unknown: the most frequent unknown tokens, with their counts.
    """

    tokens: int
    known: int
    unknown: tuple[tuple[Any, int], ...]

    @property
    def share(self) -> float:
        """Share of known tokens; 1.0 if there are no tokens."""
        return self.known / self.tokens if self.tokens else 1.0

    def __repr__(self) -> str:
        rest = f"; unknown: {join([f'{token} ({count:,})' for token, count in self.unknown])}" if self.unknown else ""
        return f"<Coverage {self.share:.2%} of {number_of(self.tokens, 'token')}{rest}>"


UNKNOWN = "[UNK]"
"""Token for unknown texts, as in Keras."""
_VERSION = 1
_DRAWN = 8


def _as_tokens(tokens: Iterable[Any]) -> tuple[Any, ...]:
    if isinstance(tokens, (str, bytes)):
        raise OptionError(f"expected a sequence of tokens, got the text {tokens!r}")
    return tuple(token.item() if isinstance(token, np.generic) else token for token in tokens)


@attrs.frozen(eq=False, repr=False)
class Vocabulary:
    """Mapping from tokens to ids, and back.

    Tokens are text, bytes or whole numbers, such as words, characters, tags and labels.

    >>> import tempfile, seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     tokens: list = sr.feature_list(str)
    >>> corpus = tempfile.mkdtemp()
    >>> _ = sr.write([Sentence(["to", "be", "or", "not", "to", "be"]), Sentence(["be"])], corpus)
    >>> words = sr.Vocabulary.build(corpus, "tokens", min_count=2)
    >>> words
    <Vocabulary of 4 ids: 2 tokens (be, to), padding 0, unknown 1>
    >>> words.encode(["to", "be", "seen"]).tolist(), words.decode([3, 0])
    ([3, 2, 1], ['to', ''])
    >>> [batch] = sr.read(corpus, batch=sr.Pad(2), vocabulary={"tokens": words})
    >>> batch["tokens"].numpy().tolist()
    [[3, 2, 1, 1, 3, 2], [2, 0, 0, 0, 0, 0]]

    Ids are in the same order as in Keras' lookup layers: padding, buckets of unknown tokens, reserved tokens, other
    tokens. To map labels to ids, use `padding=None, oov_buckets=0`: the first token then has the id 0, and unknown
    tokens are an error.

    Attributes:
        tokens: tokens in the order of their ids.
        reserved: tokens with ids before all others, whether or not they occur, such as `("<s>", "</s>")`.
        padding: token with the id 0 that pads text, such as the empty text; None for no padding token.
        oov_buckets: number of ids that unknown tokens share by hash; 0 makes unknown tokens an error.
        unknown: token to which the ids of unknown tokens are decoded; by default `[UNK]`, or, for tokens that are whole
            numbers, a number that is not a token.
        pieces: function that splits a text into tokens, such as `list` for characters; None if values are tokens.
        counts: count of each token.
        total: number of tokens counted.
        ids: id of each known token.
    """

    tokens: tuple[Any, ...] = attrs.field(converter=_as_tokens)
    reserved: tuple[Any, ...] = attrs.field(default=(), converter=_as_tokens, kw_only=True)
    padding: Any = attrs.field(default="", kw_only=True)
    oov_buckets: int = attrs.field(default=1, kw_only=True)
    unknown: Any = attrs.field(default=UNKNOWN, kw_only=True)
    pieces: Callable[[Any], Sequence[Any]] | None = attrs.field(default=None, kw_only=True)
    counts: Mapping[Any, int] = attrs.field(factory=dict, kw_only=True)
    total: int = attrs.field(default=0, kw_only=True)
    ids: Mapping[Any, int] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        check_count("oov_buckets", self.oov_buckets, 0)
        known = [*self.reserved, *self.tokens]
        kinds = {type(token) for token in known}
        if not known:
            raise OptionError("tokens: none is left; check the source, min_count and max_size")
        if len(kinds) > 1 or not kinds <= {str, bytes, int, bool}:
            raise OptionError(f"tokens: expected text, bytes or ints, all of one type, got {known!r:.200}")
        if self.padding == "" and kinds != {str}:
            object.__setattr__(self, "padding", b"" if kinds == {bytes} else None)
        if self.unknown == UNKNOWN and kinds != {str}:
            least = min([0, *known]) if kinds <= {int, bool} else 0
            object.__setattr__(self, "unknown", UNKNOWN.encode() if kinds == {bytes} else least - 1)
        if self.padding is not None:
            known = [self.padding, *known]
        ids = {token: number for number, token in enumerate(known)}
        if len(ids) < len(known):
            twice = next(token for number, token in enumerate(known) if ids[token] != number)
            raise OptionError(f"tokens: expected each once, reserved ones and padding too, got {twice!r} twice")
        ids = {token: number if number < self._first else number + self.oov_buckets for token, number in ids.items()}
        object.__setattr__(self, "ids", ids)

    @classmethod
    def build(
        cls,
        source: Any,
        field: str | None = None,
        *,
        split: str | None = None,
        min_count: int = 1,
        max_size: int | None = None,
        reserved: Sequence[Any] = (),
        padding: Any = "",
        oov_buckets: int = 1,
        pieces: Callable[[Any], Sequence[Any]] | None = None,
        prune: int | None = None,
        progress: bool | None = None,
    ) -> Vocabulary:
        """Build the vocabulary of the tokens of a field, the most frequent first.

        Ties are broken by the order of the tokens, so that ids do not depend on the order of records. Memory grows with
        the number of distinct tokens, up to `prune`.

        Args:
            source: directory of a dataset, result of `seqrecorder.open`, or selection of its records; or, without
                `field`, tokens or sequences of tokens.
            field: name of a field of text, bytes or whole numbers.
            split: name of the split to count; None for `train` if a dataset has it, otherwise all records. All records
                of a selection are counted.
            min_count: smallest count of a token to include.
            max_size: maximum number of ids, including padding and unknown tokens; None for no limit.
            reserved: tokens with ids before all others, such as `("<s>", "</s>")`.
            padding: token with the id 0; None for no padding token. Unless it is the empty text, it must not occur in
                the data.
            oov_buckets: number of ids that unknown tokens share; 0 makes unknown tokens an error.
            pieces: function that splits a text into tokens; None if values are tokens.
            prune: maximum number of distinct tokens to keep while counting; None for all. Beyond that, rare tokens are
                dropped, and counts are too low by at most the number of all tokens divided by `prune`.
            progress: whether to show a progress bar while reading a field; None shows one on terminals if tqdm is
                installed.

        Raises:
            OptionError: options contradict each other, or no token is left.
            SchemaError: there is no field of this name.
        """
        for option, value in (("min_count", min_count), ("max_size", max_size), ("prune", prune)):
            if value is not None:
                check_count(option, value)
        if field is not None:
            splits = selections_of(source, split)
            only_train = split is None and "train" in splits and not isinstance(source, Selection)
            source = {"train": splits["train"]} if only_train else splits
        elif split is not None:
            raise OptionError("split: goes with a dataset and a field of it")
        counted, total = count_tokens(source, field, pieces, prune, progress)
        times = dict(counted).get(padding, 0)
        if times and padding not in ("", b""):
            raise OptionError(
                f"padding: expected a token that is not in the data, or None, got {padding!r}, which occurs {times:,} "
                "times, and would get the id 0; if it marks padding there, list the tokens: sr.Vocabulary(tokens, "
                f"padding={padding!r})"
            )
        options = {"reserved": reserved, "padding": padding, "oov_buckets": oov_buckets, "pieces": pieces}
        apart = {*_as_tokens(reserved), padding, UNKNOWN}
        kept = [(token, count) for token, count in counted if count >= min_count and token not in apart]
        if max_size is not None:
            fixed = len(cls([token for token, _ in kept[:1]], **options)) - len(kept[:1])
            if max_size <= fixed:
                raise OptionError(f"max_size: expected more than the {fixed} ids without a token, got {max_size}")
            kept = kept[: max_size - fixed]
        return cls([token for token, _ in kept], **options, counts=dict(kept), total=total)

    # Description ----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Count the ids."""
        return len(self.ids) + self.oov_buckets

    @property
    def _first(self) -> int:
        """First id that is reserved for unknown tokens."""
        return 0 if self.padding is None else 1

    def __contains__(self, token: object) -> bool:
        return token in self.ids

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return self.ids == other.ids and self.oov_buckets == other.oov_buckets and self.unknown == other.unknown

    def __hash__(self) -> int:
        return hash((self.tokens, self.oov_buckets))

    def __repr__(self) -> str:
        unknown = {0: "", 1: f", unknown {self._first}"}.get(self.oov_buckets, f", unknown {self._first} and following")
        padding = "" if self.padding is None else ", padding 0"
        tokens = number_of(len(self.tokens), "token")
        return f"<Vocabulary of {len(self):,} ids: {tokens} ({join([str(t) for t in self.tokens])}){padding}{unknown}>"

    def _repr_html_(self) -> str:
        rows = [(self.ids[token], token, f"{self.counts.get(token, 0):,}") for token in (*self.reserved, *self.tokens)]
        counts = sorted(self.counts.items(), key=lambda item: -item[1])[:_DRAWN]
        shares = {"share": [count / max(1, self.total) for _, count in counts]}
        drawn = bars("the share of the frequent tokens", [repr(token) for token, _ in counts], shares)
        return html_table(repr(self)[1:-1], ("id", "token", "count"), rows) + (drawn if counts else "")

    # In numpy -------------------------------------------------------------------------------------------------------

    def encode(self, values: Any) -> Any:
        """Map tokens to ids.

        Args:
            values: token, sequence or array of tokens, or nested sequence; or, with `pieces`, one or more texts. If the
                vocabulary holds text, bytes are decoded, because `batch["words"].numpy()` returns bytes.

        Returns:
            An int for a token, an int64 array of the same shape for an array or sequence, and a list for a nested
            sequence.

        Raises:
            OptionError: a token differs in type from those of the vocabulary, or is unknown and `oov_buckets` is 0.
        """
        if self.pieces is not None and isinstance(values, (str, bytes)):
            return self._encoded(_split(values, self.pieces))
        if not isinstance(values, (list, tuple, np.ndarray)):
            return int(self._encoded([values.item() if isinstance(values, np.generic) else values])[0])
        if isinstance(values, np.ndarray) and (self.pieces is None or values.dtype.kind in "iu"):
            return self._encoded(values.ravel().tolist()).reshape(values.shape)
        items = list(values)
        if self.pieces is None and not any(isinstance(item, (list, tuple, np.ndarray)) for item in items):
            return self._encoded([item.item() if isinstance(item, np.generic) else item for item in items])
        return [self.encode(item) for item in items]

    def _encoded(self, tokens: list[Any]) -> Any:
        ids = np.fromiter((self.ids.get(token, -1) for token in tokens), np.int64, len(tokens))
        lost = np.flatnonzero(ids < 0)
        if lost.size:
            kind = type(next(iter(self.ids)))
            if kind is str and any(isinstance(tokens[at], bytes) for at in lost.tolist()):  # as in a batch of text
                return self._encoded([t.decode(errors="replace") if isinstance(t, bytes) else t for t in tokens])
            wrong = [at for at in lost.tolist() if not isinstance(tokens[at], kind)]
            if wrong:
                place = f"expected {kind.__name__}, got {tokens[wrong[0]]!r} at position {wrong[0]}"
                raise OptionError(f"encode: {place}; {self!r} has tokens of this type")
            if not self.oov_buckets:
                unknown = join([repr(tokens[at]) for at in lost[:8].tolist()])
                raise OptionError(f"{unknown}: not in {self!r}; oov_buckets=1 gives unknown tokens an id")
            ids[lost] = self._first + bucket_of([tokens[at] for at in lost.tolist()], self.oov_buckets)
        return ids

    def decode(self, ids: Any) -> Any:
        """Map ids to tokens; ids of unknown tokens become `unknown`.

        Args:
            ids: int, or array or (nested) sequence of ints.

        Raises:
            OptionError: an id is out of range.
        """
        if isinstance(ids, (list, tuple)) and any(isinstance(item, (list, tuple, np.ndarray)) for item in ids):
            return [self.decode(item) for item in ids]
        numbers = np.asarray(ids)
        if numbers.size and (numbers.dtype.kind not in "iu" or numbers.min() < 0 or numbers.max() >= len(self)):
            raise OptionError(f"ids: expected ints from 0 to {len(self) - 1}, got {ids!r:.200}")
        names = np.full(len(self), self.unknown, object)
        for token, number in self.ids.items():
            names[number] = token
        return names[numbers.astype(np.int64)].tolist() if numbers.ndim else names[int(numbers)]

    def coverage(self, source: Any, field: str | None = None) -> dict[str, Coverage] | Coverage:
        """Compute the share of tokens that are in the vocabulary.

        The result maps each split to its `Coverage`. For plain tokens, it is a single `Coverage`.

        Args:
            source: dataset, selection or tokens, as in `build`.
            field: name of the field with the tokens; None for plain tokens.
        """
        if field is None:
            return self._covered(*count_tokens(source, None, self.pieces, None))
        splits = selections_of(source)
        return {name: self._covered(*count_tokens(part, field, self.pieces, None)) for name, part in splits.items()}

    def _covered(self, counted: Sequence[tuple[Any, int]], total: int) -> Coverage:
        is_text = isinstance(next(iter(self.ids)), str)  # bytes are decoded, as in `encode`
        pairs = [(t.decode(errors="replace") if is_text and isinstance(t, bytes) else t, n) for t, n in counted]
        unknown = [(token, count) for token, count in pairs if token not in self.ids]
        return Coverage(total, total - sum(count for _, count in unknown), tuple(unknown[:10]))

    # In TensorFlow --------------------------------------------------------------------------------------------------

    def lookup(self) -> Any:
        """Build the Keras layer that maps tokens to ids.

        The layer is saved together with the model that contains it.

        Raises:
            OptionError: the vocabulary has `pieces`, or bytes that are not UTF-8.
        """
        if self.pieces is not None:
            raise OptionError("lookup: a graph cannot split texts into pieces; store the pieces, and look them up")
        return self._layer(invert=False)

    def inverse(self) -> Any:
        """Build the Keras layer that maps ids to tokens.

        The layer is saved together with the model that contains it.
        """
        return self._layer(invert=True)

    def _layer(self, *, invert: bool) -> Any:
        import keras

        tokens = [*self.reserved, *self.tokens]
        options: dict[str, Any] = {"num_oov_indices": self.oov_buckets, "invert": invert}
        if isinstance(tokens[0], int):
            options |= {"vocabulary": list(map(int, tokens)), "mask_token": self.padding, "oov_token": self.unknown}
            return keras.layers.IntegerLookup(**options)
        try:
            texts = list(map(text_of, tokens))
        except UnicodeDecodeError as error:
            raise OptionError(f"lookup: Keras stores text, and a token is not UTF-8: {error}") from None
        options |= {"vocabulary": texts, "mask_token": text_of(self.padding), "oov_token": text_of(self.unknown)}
        return keras.layers.StringLookup(**options)

    def field_map(self, field: Field) -> FieldMap:
        """Build the graph function that maps a field to ids, for `read(..., vocabulary=...)`.

        Raises:
            OptionError: the type of the field differs from that of the tokens, or the vocabulary has `pieces`.
        """
        if self.pieces is not None:
            raise OptionError(f"vocabulary: a graph cannot split the texts of {field.name!r}; store the pieces")
        is_text = isinstance(next(iter(self.ids)), (str, bytes))
        if field.element.is_text != is_text or not (is_text or field.element.numpy.kind in "iub"):
            raise OptionError(f"vocabulary: expected one of {field.element.name} for {field.name!r}, got {self!r}")
        target = as_numbers(field, "int64")
        return FieldMap(field.name, target, lookup(self.ids, self._first, self.oov_buckets, field.name))

    # On disk --------------------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Serialize to JSON, for example for an asset of a dataset: `sr.write(..., assets={"words.json": ...})`.

        The text contains a digest; `from_json` rejects a text that has been changed.

        Raises:
            OptionError: tokens are bytes that are not valid UTF-8.
        """
        try:
            document = {
                "seqrecorder_vocabulary": _VERSION,
                "bytes": isinstance(next(iter(self.ids)), bytes),
                "padding": text_of(self.padding),
                "oov_buckets": self.oov_buckets,
                "unknown": text_of(self.unknown),
                "reserved": list(map(text_of, self.reserved)),
                "tokens": list(map(text_of, self.tokens)),
                "counts": [self.counts.get(token, 0) for token in self.tokens] if self.counts else None,
                "total": self.total,
            }
        except UnicodeDecodeError as error:
            raise OptionError(f"vocabulary: JSON stores text, and a token is not UTF-8: {error}") from None
        return json.dumps(sealed(document), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str, *, pieces: Callable[[Any], Sequence[Any]] | None = None) -> Vocabulary:
        """Rebuild a vocabulary from the JSON that `to_json` wrote, without importing or evaluating anything.

        Args:
            text: JSON text.
            pieces: function that splits a text into tokens, which JSON does not store.

        Raises:
            ManifestError: the text is not a vocabulary, or was changed.
        """
        try:
            data = json.loads(text)
            if data["seqrecorder_vocabulary"] != _VERSION:
                raise ManifestError(f"vocabulary: of version {data['seqrecorder_vocabulary']!r}, expected {_VERSION}")
            data = unsealed(data)

            def native(token: Any) -> Any:
                return token.encode() if data["bytes"] and isinstance(token, str) else token

            tokens = list(map(native, data["tokens"]))
            return cls(
                tokens,
                reserved=list(map(native, data["reserved"])),
                padding=native(data["padding"]),
                oov_buckets=data["oov_buckets"],
                unknown=native(data["unknown"]),
                pieces=pieces,
                counts=dict(zip(tokens, data["counts"] or (), strict=False)),
                total=data["total"],
            )
        except (ValueError, KeyError, TypeError, RecursionError, OptionError) as error:
            raise ManifestError(f"vocabulary: expected the JSON of Vocabulary.to_json, got {error!r:.500}") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the vocabulary to a file, as JSON."""
        write_file(local_path(path), self.to_json().encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, pieces: Callable[[Any], Sequence[Any]] | None = None) -> Vocabulary:
        """Read a vocabulary from a file that `save` wrote, or from an asset: `manifest.assets["words.json"]`.

        Args:
            path: path of the file.
            pieces: function that splits a text into tokens, which the file does not store.

        Raises:
            DatasetNotFoundError: the file does not exist.
            ManifestError: the file is not a vocabulary, or was changed.
        """
        try:
            text = local_path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise DatasetNotFoundError(f"vocabulary {path}: cannot be read: {error.strerror}", path=path) from error
        except UnicodeDecodeError as error:
            raise ManifestError(f"vocabulary {path}: expected UTF-8: {error}") from None
        try:
            return cls.from_json(text, pieces=pieces)
        except ManifestError as error:
            raise ManifestError(f"{path}: {error}; save it again, or a copy of the file", path=path) from None
