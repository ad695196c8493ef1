"""`batch`, which applies a batching strategy to any `tf.data.Dataset` of dictionaries, for example after `map`.

Datasets on disk are batched by `seqrecorder.read`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import attrs
import numpy as np

from seqrecorder.codec.elements import encode_elements, lengths_of, serialize_fields
from seqrecorder.codec.parse import Parser
from seqrecorder.dataset.checked_shards import Origin
from seqrecorder.errors import OptionError, check_count, did_you_mean
from seqrecorder.reading.batching.bucket import BatchesByLength
from seqrecorder.reading.batching.step_slices import ELEMENTS
from seqrecorder.reading.batching.strategy import WINDOW, Feed, Strategy
from seqrecorder.reading.elements import Elements
from seqrecorder.reading.order_and_seeds import StreamOptions, check_seed, in_epochs, names_of_lists, permuted
from seqrecorder.reading.tfdata_ops import Traced
from seqrecorder.schema.dtypes import element_type
from seqrecorder.schema.field import DEFAULT_GROUP, Field
from seqrecorder.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Callable

    import tensorflow as tf
    from numpy.typing import NDArray

    from seqrecorder.codec.graph_ops import MapsField
    from seqrecorder.reading.batching.bucket import Bucket
    from seqrecorder.reading.batching.crop import Crop
    from seqrecorder.reading.batching.groups import Groups
    from seqrecorder.reading.batching.pack import Pack
    from seqrecorder.reading.batching.pad import Pad
    from seqrecorder.reading.batching.ragged import Ragged
    from seqrecorder.reading.batching.token_budget import TokenBudget
    from seqrecorder.reading.batching.unroll import Unroll
    from seqrecorder.reading.batching.window import Window
    from seqrecorder.reading.order_and_seeds import RecordLength

_AHEAD = 2
"""Number of batches to prefetch."""


def batch(
    dataset: Any,
    strategy: Pad | Bucket | TokenBudget | Ragged | Crop | Window | Unroll | Pack | Groups,
    *,
    length: str | Sequence[str] | None = None,
    shuffle: int = 0,
    seed: int | None = None,
    inputs: Any = None,
    targets: Any = None,
    weights: Any = None,
    class_weight: Any = None,
    missing: Literal["mask"] | Mapping[str, Literal["mask"]] | None = None,
    vocabulary: Mapping[str, MapsField] | None = None,
) -> tf.data.Dataset:
    """Batch the elements of any `tf.data.Dataset` with a strategy.

    >>> import tensorflow as tf, seqrecorder as sr
    >>> texts = tf.data.Dataset.from_tensor_slices(["a bc", "d", "e f g"])
    >>> words = texts.map(lambda text: {"words": tf.strings.split(text), "text": text})
    >>> for batch in sr.batch(words, sr.Bucket(2, boundaries=[2]), length="words"):
    ...     print(batch["words"].numpy().tolist(), batch["sequence_length"].numpy().tolist())
    [[b'a', b'bc', b''], [b'e', b'f', b'g']] [2, 3]
    [[b'd']] [1]

    The batches are the same as those of `read` for a dataset with the same records in the same order. Elements must be
    dictionaries of dense tensors. A tensor is a sequence if its first dimension is unknown, if `length` names it, or if
    its first dimension equals that of a sequence named in `length`. All other tensors are context values.

    Elements are serialized in the process. This takes more processor time than `bucket_by_sequence_length`, and many
    times as much as `read`, so use `read` for data that need no `map` or `filter` first. About 2,000 elements are kept
    in memory. Strategies that need all lengths in advance iterate over the dataset once more: `Bucket` with computed
    boundaries or `warm_up`, `TokenBudget`, and `Pack` with `too_long="error"`.

    Args:
        dataset: `tf.data.Dataset` of dictionaries of tensors.
        strategy: batching strategy, such as `Bucket(64)`.
        length: name of the sequence that determines the length of an element; all sequences must be equally long. Or
            names of several sequences with different lengths: the length is then the longest or the sum, as the
            strategy's `length_of` says, and all sequences that are not named must be as long as the first one named.
        shuffle: size of the shuffle window, in elements; 0 keeps the order. Pass 1 if the elements are already
            shuffled: then only the batches of a strategy that sorts by length are put in random order.
        seed: seed of the shuffled order, and of the random draws of `Crop` and `Window`.
        inputs: inputs of `model.fit`; see `read`.
        targets: targets of `model.fit`; see `read`.
        weights: names of fields with sample weights; see `read`.
        class_weight: mapping from class to weight; see `read`.
        missing: treatment of NaN; see `read`.
        vocabulary: mapping from field to its `Vocabulary`; see `read`.

    Returns:
        A `tf.data.Dataset` of unknown cardinality. It can be saved and resumed if `dataset` can.

    Raises:
        OptionError: elements are not dictionaries of dense tensors, or options contradict each other.
        tf.errors.InvalidArgumentError: while iterating, the sequences of an element differ in length, or are too long.
    """
    import tensorflow as tf

    if not isinstance(dataset, tf.data.Dataset):
        raise OptionError(f"batch: expected a tf.data.Dataset, got {type(dataset).__name__}; `read` takes a path")
    if not isinstance(strategy, Strategy):
        raise OptionError(f"batch: expected Pad(...), Bucket(...) or another strategy, got {strategy!r}")
    if getattr(strategy, "time", None) is not None:
        raise OptionError(f"batch: Window(time=...) reads the times of a dataset first; use `read`, got {strategy!r}")
    if strategy.seed_name is not None:
        raise OptionError(f"batch: elements have no positions to derive seeds from; use `read`, got {strategy!r}")
    check_count("shuffle", shuffle, 0)
    spec = dataset.element_spec
    if isinstance(spec, Mapping) and any(getattr(part, "ragged_rank", None) == 0 for part in spec.values()):
        dataset = dataset.map(lambda element: element)  # converts rows of a ragged tensor to dense tensors
    names = () if length is None else names_of_lists("length", length)
    schema = schema_of(dataset.element_spec, names)
    if len(names) > 1 and isinstance(strategy, BatchesByLength) and strategy.length_field is None:
        strategy = attrs.evolve(strategy, length_field=names)
    elements = Elements.of(
        schema,
        strategy,
        class_weight=class_weight,
        inputs=inputs,
        targets=targets,
        weights=weights,
        missing=missing,
        vocabulary=vocabulary,
        normalize=None,
    )
    origin = _ElementOrigin("the dataset", schema, "example", None, (), dataset=dataset)
    parser = Parser(elements.stored, "example", {}, origin.record, elements.derivations)
    feed = _ElementFeed(origin, parser, elements.shape, StreamOptions(WINDOW, shuffle, check_seed(seed)))
    return tf.autograph.experimental.do_not_convert(strategy.read)(feed).dataset


def schema_of(spec: Any, lengths: Sequence[str]) -> Schema:
    """Derive a schema from the `element_spec` of a dataset.

    Args:
        spec: `element_spec` of the dataset.
        lengths: names of the sequences that determine the length.

    Raises:
        OptionError: elements are not dictionaries of dense tensors, or one of `lengths` is not the name of a sequence.
        SchemaError: a tensor has a dtype or a name that a field cannot have.
    """
    import tensorflow as tf

    if not isinstance(spec, Mapping):
        raise OptionError(
            f"batch: expected elements that are dictionaries, got {spec}; `map` them to such, {{'name': tensor, ...}}"
        )
    shapes = {}
    for name, part in spec.items():
        if not isinstance(part, tf.TensorSpec):
            text = f"got {part}; `map` it to one whose first dimension is unknown, or to several"
            raise OptionError(f"batch: element {name!r}: expected a dense tensor, {text}")
        if part.shape.rank is None or None in part.shape.as_list()[1:]:
            raise OptionError(
                f"batch: element {name!r}: expected a tensor of which at most the first dimension is unknown, got the "
                f"shape {part.shape}; set it by `tf.ensure_shape`"
            )
        shapes[name] = part.shape.as_list()
    for name in lengths:
        if not shapes.get(name):
            sequences = [other for other, shape in shapes.items() if shape]
            text = f"{name!r} is no sequence of the elements{did_you_mean(name, sequences)}"
            raise OptionError(f"length: {text}; these are {', '.join(sequences) or 'none'}")
    known = {shapes[name][0] for name in lengths}
    groups = {name: name for name in lengths} if len(lengths) > 1 else {}
    rest = lengths[0] if len(lengths) > 1 else DEFAULT_GROUP
    fields = []
    for name, part in spec.items():
        is_list = bool(shapes[name]) and (shapes[name][0] is None or name in lengths or shapes[name][0] in known)
        text = part.dtype == tf.string
        element = element_type(str if text else part.dtype)
        kind: Any = "feature_list" if is_list else "context"
        shape = tuple(shapes[name][1:] if is_list else shapes[name])
        storage: Any = "auto" if text else "raw"
        fields.append(Field(name, name, kind, element, shape, storage, align=groups.get(name, rest)))
    # `sequence_length` is the length of the first group, so the first name in `length` must come first.
    fields.sort(key=lambda field: field.name != rest)
    return Schema(ELEMENTS, tuple(fields))


@attrs.frozen(slots=False)
class _ElementOrigin(Origin):
    """Origin whose records are the elements of a `tf.data.Dataset`.

    Other origins read their records from shards.
    """

    dataset: Any = attrs.field(kw_only=True, eq=False)
    _cache: dict[str, Any] = attrs.field(factory=dict, init=False, eq=False)

    @functools.cached_property
    def records(self) -> int:
        return -1

    @property
    def record(self) -> str:
        return "an element of the dataset"

    def encoded(self, window: int) -> Any:
        """Encode the elements in windows of `window` records.

        The result is a `tf.data.Dataset` of `(serialized: string [w], lengths: int64 [w, groups])`.
        """

        def encode(serialized: Any, sizes: Any) -> tuple[Any, Any]:
            return encode_elements(self.schema, serialized, sizes), lengths_of(self.schema, sizes)

        spec = dict(self.dataset.element_spec)
        each = Traced.of(lambda element: serialize_fields(self.schema, element), spec).mapped(self.dataset)
        windows = each.batch(window)
        return Traced.of(encode, windows.element_spec).mapped(windows).prefetch(1)

    def lengths(self, group: str) -> NDArray[np.int64]:
        """Return the lengths of all elements.

        The first call iterates over the dataset.
        """
        import tensorflow as tf

        if "lengths" not in self._cache:
            if not tf.executing_eagerly():
                raise OptionError(
                    "batch: this strategy looks at all lengths first, which needs eager execution: make the batches "
                    "outside of tf.Graph(), or choose Bucket with boundaries=[...]"
                )
            if int(self.dataset.cardinality()) == tf.data.INFINITE_CARDINALITY:
                raise OptionError(
                    "batch: the dataset has no end, and this strategy looks at all lengths first: repeat the batches "
                    "instead, by batch(...).repeat(), or choose Bucket with boundaries=[...]"
                )
            nothing = np.empty((0, len(self.schema.groups)), np.int64)
            parts = (part.numpy() for _, part in self.encoded(WINDOW))
            self._cache["lengths"] = np.concatenate([nothing, *parts])
        table: NDArray[np.int64] = self._cache["lengths"]
        return table[:, self.schema.groups.index(group)]


@attrs.frozen
class _ElementFeed(Feed):
    """Feed of the elements of a `tf.data.Dataset`."""

    def map_batches(self, batches: Any, make: Callable[..., Any], batch_size: int, *, width: int = 0) -> Any:  # noqa: ARG002
        """Map a function over batches in one prefetching thread (see `Feed.map_batches`).

        One thread is enough: nothing slow is decoded, and handing work to other threads would take as long as doing it.
        """
        traced = Traced.of(make, batches.element_spec)
        return (traced.mapped(batches) if traced.is_dense else batches.map(make)).prefetch(_AHEAD)

    def stream(
        self,
        transform: Callable[[Any, Any], Any],
        *,
        window: int = WINDOW,
        multiple: int = 1,
        group: RecordLength | None = None,
        permute: bool = True,
        draw: bool = False,
    ) -> Any:
        """Apply a transformation to the windows of each epoch (see `Feed.stream`)."""
        import tensorflow as tf

        size = -(-window // multiple) * multiple
        options = attrs.evolve(self.options, group=group)

        def epoch(number: Any) -> Any:
            windows = self._windows(options, options.shuffle if options.shuffle > 1 else size)
            if permute and options.shuffle > 1:
                windows = permuted(windows, number)
            return transform(windows, number)

        drawn = bool(options.shuffle) or draw
        elements = in_epochs(epoch, drawn=drawn, seed=options.seed, epochs=options.epochs)
        if not drawn:
            return elements
        # The only external state is the number of epochs begun, and the iterator saves that itself.
        settings = tf.data.Options()
        settings.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
        return elements.with_options(settings)

    def _windows(self, options: StreamOptions, size: int) -> Any:
        import tensorflow as tf

        def wanted(serialized: Any, table: Any) -> Any:
            lengths = {group: table[:, at] for at, group in enumerate(self.origin.schema.groups)}
            keep = options.kept(lengths, tf)
            if keep is not True:
                serialized = tf.boolean_mask(serialized, keep)
                lengths = {group: tf.boolean_mask(part, keep) for group, part in lengths.items()}
            return (serialized,) if options.group is None else (serialized, options.cropped(options.group, lengths, tf))

        assert isinstance(self.origin, _ElementOrigin)  # noqa: S101 - for type checkers
        return self.origin.encoded(size).map(wanted)
