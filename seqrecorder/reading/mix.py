"""`mix`, which draws elements at random from several datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.errors import OptionError
from seqrecorder.reading.cardinality import counted
from seqrecorder.reading.order_and_seeds import check_seed, random_numbers
from seqrecorder.reading.oversampling import is_weight
from seqrecorder.schema.display import join

if TYPE_CHECKING:
    from collections.abc import Sequence

    import tensorflow as tf
    from numpy.typing import NDArray


_LEAST_SHARE = 1e-9  # when the other datasets have ended, it takes 1 / share draws to get an element


def mix(
    datasets: Sequence[Any],
    *,
    weights: Sequence[float] | None = None,
    temperature: float | None = None,
    seed: int | None = None,
) -> tf.data.Dataset:
    """Draw elements at random from several datasets.

    Datasets from `read` are mixed batch by batch: each batch comes from one dataset. To mix single records, read
    without `batch`. When a dataset ends, the others continue without it; to keep the proportions, read with
    `epochs=None`.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> corpora = [tempfile.mkdtemp() for _ in range(2)]
    >>> for number, corpus in enumerate(corpora):
    ...     _ = sr.write([Sentence([number])] * 10, corpus)
    >>> parts = [sr.read(corpus, batch=sr.Pad(2), epochs=None) for corpus in corpora]
    >>> mixed = sr.mix(parts, weights=[0.9, 0.1], seed=1)
    >>> [int(batch["ids"][0, 0]) for batch in mixed.take(100)].count(0)
    86

    Args:
        datasets: `tf.data.Dataset`s with elements of the same structure, for example from `read`.
        weights: relative frequency of each dataset, such as its number of records; by default, all are equal. A dataset
            of weight 0 is left out.
        temperature: weights are raised to the power of `1 / temperature`. A temperature of 1 keeps the weights; with
            higher values, small datasets are drawn more often.
        seed: seed of the draws. The draws differ in each iteration, but are reproducible.

    Returns:
        A `tf.data.Dataset`, which can be saved and resumed if `datasets` can. All datasets are started before the first
        draw, and one element of each is read ahead.

    Raises:
        OptionError: there is no dataset, elements differ in structure, or weights are not valid.
    """
    import tensorflow as tf

    parts = list(datasets)
    if not parts:
        raise OptionError("mix: expected datasets, got none")
    for position, part in enumerate(parts):
        if not isinstance(part, tf.data.Dataset):
            raise OptionError(f"mix: datasets[{position}]: expected a tf.data.Dataset, got {type(part).__name__}")
        if not _alike(part.element_spec, parts[0].element_spec):
            raise OptionError(
                f"mix: datasets[{position}]: expected elements as those of datasets[0], got "
                f"{_describe(part.element_spec, parts[0].element_spec)}; read both with the same fields and strategy"
            )
    shares = _shares(len(parts), weights, temperature)
    parts, shares = [part for part, share in zip(parts, shares, strict=True) if share], shares[shares > 0]
    marked = [_marked(position, part) for position, part in enumerate(parts)]
    # The first draw from each part is skipped. It fixes the part's epoch, so that every checkpoint contains the epoch.
    begun = tf.data.Dataset.range(len(parts)).concatenate(_draws(shares, check_seed(seed)))
    drawn = tf.data.Dataset.choose_from_datasets(marked, begun).skip(len(parts))

    def note(ended: Any, draw: Any) -> Any:
        position, element = draw
        ended |= tf.equal(tf.range(len(parts)), position) & tf.logical_not(element.has_value())
        return ended, (ended, element)

    def goes_on(ended: Any, _: Any) -> Any:
        return tf.logical_not(tf.reduce_all(ended))

    going = drawn.scan(tf.zeros([len(parts)], tf.bool), note).take_while(goes_on)
    mixed = going.filter(lambda _, taken: taken.has_value()).map(lambda _, element: element.get_value())
    counts = [tf.get_static_value(part.cardinality()) for part in parts]  # None inside a graph
    if None in counts or tf.data.UNKNOWN_CARDINALITY in counts:
        return mixed
    return counted(mixed, -1 if tf.data.INFINITE_CARDINALITY in counts else int(sum(counts)))


def _draws(shares: NDArray[np.float64], seed: int | None) -> Any:
    """Draw dataset indices at random, in proportion to the shares.

    The result is an endless `tf.data.Dataset` of int64.

    `sample_from_datasets` would depend on the global seed of the program (`tf.random.set_seed`).
    """
    import tensorflow as tf

    sums = np.cumsum(shares)
    ends = tf.constant(sums / sums[-1])  # the last is exactly 1, and draws are below 1
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed

    def draw(number: Any) -> Any:
        figure = tf.random.stateless_uniform([1], tf.stack([number, 0]), dtype=tf.float64, alg="philox")
        return tf.searchsorted(ends, figure, side="right", out_type=tf.int64)[0]

    return random_numbers(seed).map(draw)


def _marked(position: int, part: Any) -> Any:
    """Convert a dataset to an endless dataset of optionals.

    The first optional is empty. It is followed by one for each element, and then by empty ones without end. Because of
    the first one, each dataset reads one element ahead. Each optional comes with `position`.

    The result must be endless because of `choose_from_datasets`. After it is restored from a checkpoint, it waits
    forever for a dataset that had ended before (TensorFlow 2.21).
    """
    import tensorflow as tf

    nothing = tf.experimental.Optional.empty(part.element_spec)
    whole = isinstance(part.element_spec, tuple)  # `map` unpacks tuples into several arguments
    elements = part.map(lambda *element: tf.experimental.Optional.from_value(element if whole else element[0]))
    none = tf.data.Dataset.range(1).map(lambda _: tf.experimental.Optional.empty(part.element_spec))

    def delay(previous: Any, element: Any) -> Any:
        [tensor] = tf.nest.flatten(element, expand_composites=True)
        return tensor, (tf.constant(position), tf.nest.pack_sequence_as(element, [previous], expand_composites=True))

    # The state of `scan` cannot be an optional, only its variant tensor.
    return elements.concatenate(none.repeat()).scan(tf.nest.flatten(nothing, expand_composites=True)[0], delay)


def _alike(left: Any, right: Any) -> bool:
    """Check whether two element specs have the same structure, dtypes and ranks."""
    import tensorflow as tf

    try:
        tf.nest.assert_same_structure(left, right, expand_composites=True)
    except (TypeError, ValueError):
        return False
    pairs = zip(*(tf.nest.flatten(spec, expand_composites=True) for spec in (left, right)), strict=True)
    return all(a.dtype == b.dtype and a.shape.rank == b.shape.rank for a, b in pairs)


def _describe(other: Any, first: Any) -> str:
    """Describe how an element spec differs from the first one.

    If both are dictionaries, the entries that differ are named.
    """
    if not (isinstance(first, dict) and isinstance(other, dict)):
        return f"{other} instead of {first}"
    names = [f"no {name!r}" for name in first.keys() - other.keys()]
    names += [f"also {name!r}" for name in other.keys() - first.keys()]
    unlike = [name for name in first if name in other and not _alike(first[name], other[name])]
    return join(sorted(names) + [f"{name!r} as {other[name]}, not {first[name]}" for name in unlike], 8)


def _shares(count: int, weights: Sequence[float] | None, temperature: float | None) -> NDArray[np.float64]:
    """Compute from the options how often each dataset is drawn, compared with the others.

    The result is float64 `(count,)`; the largest value is 1.
    """
    if weights is None:
        if temperature is not None:
            raise OptionError("temperature: needs weights, such as the number of records of each")
        return np.ones(count)
    figures = list(np.array(weights, object).flat)
    if len(figures) != count or not all(map(is_weight, figures)) or not any(figures):
        raise OptionError(f"mix: expected {count} weights, one per dataset, of 0 or more, not all 0, got {weights!r}")
    shares, temperature = np.array(figures, np.float64), 1 if temperature is None else temperature
    if not is_weight(temperature) or not temperature:
        raise OptionError(f"temperature: expected a number above 0, got {temperature!r}")
    evened: NDArray[np.float64] = np.where(shares > 0, (shares / shares.max()) ** (1 / temperature), 0)
    if evened[shares > 0].min() < _LEAST_SHARE:
        raise OptionError(f"mix: expected shares of at least {_LEAST_SHARE} of the largest, got {evened.tolist()}")
    return evened
