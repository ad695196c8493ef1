"""`mix`: batches of several datasets, drawn at random."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.errors import OptionError
from seqrecorder.reading.order import check_seed, random_numbers
from seqrecorder.reading.tfdata_ops import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    import tensorflow as tf
    from numpy.typing import NDArray


def mix(
    datasets: Sequence[Any],
    *,
    weights: Sequence[float] | None = None,
    temperature: float | None = None,
    seed: int | None = None,
) -> tf.data.Dataset:
    """Return the elements of several datasets, each drawn at random from one of them.

    What `read` returns is mixed batch by batch, so that every batch is of one dataset; read without `batch` for single
    records. The weights hold as long as no dataset has ended: read with `epochs=None`. Where one has, the others go on.

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
        datasets: `tf.data.Dataset`s of like elements, such as `read` returns.
        weights: how often each is drawn, in any unit, such as the number of its records; equally often by default.
        temperature: evens weights out: each is taken to the power of `1 / temperature`. At 1 they stay as they are, and
            the higher it is, the more often small datasets come.
        seed: of the order; each iteration is another, reproducibly.

    Returns:
        A `tf.data.Dataset`, which can be saved and resumed as its parts can. Each of these is begun before the first
        element is drawn, and one element of it is held.

    Raises:
        OptionError: nothing to mix, other elements, or weights that are none.
    """
    import tensorflow as tf

    parts = list(datasets)
    if not parts:
        raise OptionError("mix: expected datasets, got none")
    for position, part in enumerate(parts):
        if not isinstance(part, tf.data.Dataset):
            raise OptionError(
                f"mix: datasets[{position}]: expected a tf.data.Dataset, got {type(part).__name__}; pass what "
                "read returns"
            )
        if not _alike(part.element_spec, parts[0].element_spec):
            raise OptionError(
                f"mix: datasets[{position}]: expected elements as those of datasets[0], {parts[0].element_spec}, "
                f"got {part.element_spec}; read both with the same fields and strategy"
            )
    shares = _shares(len(parts), weights, temperature)
    parts, shares = [part for part, share in zip(parts, shares, strict=True) if share], shares[shares > 0]
    marked = [_marked(position, part) for position, part in enumerate(parts)]
    # Each is drawn from once, for nothing: which epoch of a part comes is settled then, and saved from the start.
    begun = tf.data.Dataset.range(len(parts)).concatenate(_draws(shares, check_seed(seed)))
    drawn = tf.data.Dataset.choose_from_datasets(marked, begun).skip(len(parts))

    def note(ended: Any, draw: Any) -> Any:
        position, element = draw
        ended |= tf.equal(tf.range(len(parts)), position) & tf.logical_not(element.has_value())
        return ended, (ended, element)

    def goes_on(ended: Any, _: Any) -> Any:
        return tf.logical_not(tf.reduce_all(ended))

    going = drawn.scan(tf.zeros([len(parts)], tf.bool), note).take_while(goes_on)
    present = going.filter(lambda _, element: element.has_value())
    mixed = present.map(lambda _, element: element.get_value())
    counts = [tf.get_static_value(part.cardinality()) for part in parts]  # None inside of a graph
    if None in counts or tf.data.UNKNOWN_CARDINALITY in counts:
        return mixed
    if tf.data.INFINITE_CARDINALITY in counts:
        return counted(mixed, -1)
    return counted(mixed, int(sum(counts)))


def _draws(shares: NDArray[np.float64], seed: int | None) -> Any:
    """Return a `tf.data.Dataset` of the positions that are drawn, without end: int64, as often as their shares say.

    `sample_from_datasets` would draw others where a program has a seed of its own (`tf.random.set_seed`).
    """
    import tensorflow as tf

    sums = np.cumsum(shares)
    ends = tf.constant(sums / sums[-1])  # the last is 1 exactly, which no figure reaches
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed

    def draw(number: Any) -> Any:
        figure = tf.random.stateless_uniform([1], tf.stack([number, 0]), dtype=tf.float64, alg="philox")
        return tf.searchsorted(ends, figure, side="right", out_type=tf.int64)[0]

    return random_numbers(seed).map(draw)


def _marked(position: int, part: Any) -> Any:
    """Return nothing once, then a dataset's elements, of which the next is at hand, and nothing for ever after its end.

    `choose_from_datasets` skips a dataset that has ended; but restored from a checkpoint, it waits for the end of those
    that had ended before for ever (TensorFlow 2.21). So none of what it draws from ends.
    """
    import tensorflow as tf

    number = tf.constant(position)
    nothing = tf.experimental.Optional.empty(part.element_spec)
    elements = part.map(lambda *element: tf.experimental.Optional.from_value(_whole(element, part)))
    none = tf.data.Dataset.range(1).map(lambda _: tf.experimental.Optional.empty(part.element_spec))

    def delay(previous: Any, element: Any) -> Any:
        [tensor] = tf.nest.flatten(element, expand_composites=True)
        return tensor, (number, tf.nest.pack_sequence_as(element, [previous], expand_composites=True))

    # `scan` takes the tensor of an optional for its state, and not the optional.
    return elements.concatenate(none.repeat()).scan(tf.nest.flatten(nothing, expand_composites=True)[0], delay)


def _whole(arguments: tuple[Any, ...], part: Any) -> Any:
    """Return an element from the arguments into which `map` takes tuples apart."""
    return arguments if isinstance(part.element_spec, tuple) else arguments[0]


def _alike(left: Any, right: Any) -> bool:
    """Check whether elements have one structure and one dtype and rank at each place."""
    import tensorflow as tf

    try:
        tf.nest.assert_same_structure(left, right, expand_composites=True)
    except (TypeError, ValueError):
        return False
    pairs = zip(*(tf.nest.flatten(spec, expand_composites=True) for spec in (left, right)), strict=True)
    return all(a.dtype == b.dtype and a.shape.rank == b.shape.rank for a, b in pairs)


def _shares(count: int, weights: Sequence[float] | None, temperature: float | None) -> NDArray[np.float64]:
    """Return how often each of some datasets is drawn, in any unit."""
    if weights is None:
        if temperature is not None:
            raise OptionError("temperature: evens weights out; give weights too, such as the number of records of each")
        return np.ones(count)
    if len(weights) != count:
        raise OptionError(f"mix: expected {count} weights, one for each dataset, got {len(weights)}")
    if not all(weight >= 0 for weight in weights) or not 0 < sum(weights) < float("inf"):
        raise OptionError(f"mix: expected weights that are not negative and not all 0, got {list(weights)}")
    shares = np.asarray(weights, np.float64)
    if temperature is None:
        return shares
    is_number = isinstance(temperature, (int, float)) and not isinstance(temperature, bool)
    if not is_number or not 0 < temperature < float("inf"):
        raise OptionError(f"temperature: expected a number above 0, got {temperature!r}")
    evened: NDArray[np.float64] = np.where(shares > 0, (shares / shares.max()) ** (1 / temperature), 0)
    return evened
