"""`batch_sequences_with_states`: segments of long sequences, in the order of rows that TensorFlow 1 had."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.legacy.explanation import Stage
from seqrecorder.legacy.session import replaced
from seqrecorder.legacy.tf1_behaviour import quiet
from seqrecorder.reading.batching.unroll import plan_segments

if TYPE_CHECKING:
    from collections.abc import Mapping

_WINDOW = 256
"""Examples that are planned at a time."""

_FIRST = -(2**63)
"""Where TensorFlow 1 began to count examples."""


def batch_sequences_with_states(
    input_key: Any,
    input_sequences: Mapping[str, Any],
    input_context: Mapping[str, Any],
    input_length: Any,
    initial_states: Mapping[str, Any],
    num_unroll: int,
    batch_size: int,
    num_threads: int = 3,
    capacity: int = 1000,
    allow_small_batch: bool = True,
    pad: bool = True,
    make_keys_unique: bool = False,
    make_keys_unique_seed: int | None = None,
    name: str | None = None,
) -> NextQueuedSequenceBatch:
    """Return `tf.contrib.training.batch_sequences_with_states`: segments of `num_unroll` steps, with saved states.

    The segments of an example come in consecutive batches, though not in a fixed row: rows are ordered by the examples'
    order, and an example that ends is followed by the next at the end of the batch.

    Args:
        input_key: string scalar, the example's key.
        input_sequences: tensors `(T, ...)`.
        input_context: tensors that are repeated for each segment.
        input_length: int scalar, T, at least 1.
        initial_states: for each name, the state before an example's first segment.
        num_unroll: steps of a segment.
        batch_size: segments of a batch.
        num_threads: not needed any more.
        capacity: not needed any more.
        allow_small_batch: whether the last batches, for which there are not enough examples, come at all.
        pad: whether sequences may end inside a segment; they always may.
        make_keys_unique: whether a number that tells examples apart is put before the key.
        make_keys_unique_seed: not needed any more.
        name: of the operation.

    Returns:
        An object with the batch's tensors, as in TensorFlow 1.

    Raises:
        LiftError: what the tensors come from cannot be translated.
    """
    del num_threads, capacity, pad, make_keys_unique_seed
    import tensorflow as tf

    groups = [dict(sorted(group.items())) for group in (input_sequences, input_context, initial_states)]
    groups = [{key: tf.convert_to_tensor(value) for key, value in group.items()} for group in groups]
    fixed = [tf.convert_to_tensor(input_key), tf.cast(input_length, tf.int64)]
    targets = [*fixed, *(value for group in groups for value in group.values())]

    def transform(examples: Any) -> Any:
        return segment_batches(
            examples.map(lambda key, length, *rest: _Example.of(key, length, rest, groups).parts()),
            [len(group) for group in groups],
            num_unroll,
            batch_size,
            drain=allow_small_batch,
            unique=make_keys_unique,
        )

    stage = Stage(name or "batch_sequences_with_states", f"segments of {num_unroll} steps in {batch_size} rows", "scan")
    rows, parts = replaced(targets, transform, stage)
    sizes = [len(group) for group in groups]
    starts = [0, sizes[0], sizes[0] + sizes[1]]
    named = [
        dict(zip(group, parts[start : start + size], strict=True))
        for group, start, size in zip(groups, starts, sizes, strict=True)
    ]
    for key, tensor in named[0].items():
        tensor.set_shape([None, num_unroll, *groups[0][key].shape[1:]])
    return NextQueuedSequenceBatch(rows, *named)


@attrs.frozen(eq=False)
class _Example:
    """An example on its way: what all of them have, and the tensors in their groups."""

    key: Any
    length: Any
    rest: Any

    @classmethod
    def of(cls, key: Any, length: Any, rest: Any, groups: Any) -> _Example:
        import tensorflow as tf

        name = "batch_sequences_with_states"
        steps = [tf.shape(tensor, tf.int64)[0] for tensor in rest[: len(groups[0])]]
        agree = tf.reduce_all([length > 0, *(tf.equal(count, length) for count in steps)])
        said = [
            f"{name}: example",
            key,
            "has length",
            length,
            ", and sequences of",
            *steps,
            "steps; at least 1 is needed",
        ]
        check = tf.debugging.Assert(agree, said)
        with tf.control_dependencies([] if check is None else [check]):
            return cls(tf.identity(key), tf.identity(length), rest)

    def parts(self) -> tuple[Any, ...]:
        return self.key, self.length, *self.rest


def segment_batches(examples: Any, sizes: Any, num_unroll: int, batch_size: int, *, drain: bool, unique: bool) -> Any:
    """Return a `tf.data.Dataset` of batches of segments.

    Args:
        examples: of tuples `(key, length, *sequences, *context, *states)`.
        sizes: how many tensors there are of each of the three.
        num_unroll: steps of a segment.
        batch_size: rows.
        drain: whether the last batches, with fewer rows, come at all.
        unique: whether keys have the example's number before them.

    Returns:
        `((key, next_key, sequence, sequence_count, insertion_index, length, total_length), parts)`.
    """
    import tensorflow as tf

    specs = examples.element_spec[2:]

    def pack(number: Any, example: Any) -> Any:
        key, length, *rest = example
        shown = tf.strings.join([tf.strings.as_string(number), ":", key]) if unique else key
        whole = [tf.io.serialize_tensor(tensor) for tensor in [number, shown, *rest]]
        return tf.io.serialize_tensor(tf.stack(whole)), length

    windows = examples.enumerate().map(pack).batch(_WINDOW)
    plans = plan_segments(windows, batch_size, num_unroll, drain=drain)

    def batches(serialized: Any, lengths: Any, rows: Any, indices: Any) -> Any:
        def batch(i: Any) -> Any:
            place = slice(i * batch_size, (i + 1) * batch_size)
            row, index = rows[place], indices[place]
            some = row < tf.size(serialized, tf.int64)
            row, index = tf.boolean_mask(row, some), tf.boolean_mask(index, some)
            texts = tf.map_fn(
                lambda text: tf.ensure_shape(tf.io.parse_tensor(text, tf.string), [len(specs) + 2]),
                tf.gather(serialized, row),
            )
            numbers = tf.map_fn(
                lambda text: tf.ensure_shape(tf.io.parse_tensor(text, tf.int64), []),
                texts[:, 0],
                fn_output_signature=tf.int64,
            )
            order = tf.argsort(numbers)  # by the order of the examples
            return _assemble(
                *(tf.gather(part, order) for part in (texts, numbers, tf.gather(lengths, row), index)),
                specs=specs,
                sequences=sizes[0],
                num_unroll=num_unroll,
            )

        return tf.data.Dataset.range(tf.size(rows, tf.int64) // batch_size).map(batch)

    return plans.flat_map(batches)


def _assemble(
    texts: Any, numbers: Any, lengths: Any, index: Any, *, specs: Any, sequences: int, num_unroll: int
) -> Any:
    """Return one batch: what is known of each row, and the rows of all tensors."""
    import tensorflow as tf

    counts = (lengths + num_unroll - 1) // num_unroll
    keys = tf.map_fn(lambda text: tf.ensure_shape(tf.io.parse_tensor(text, tf.string), []), texts[:, 1])
    total = _padded(counts)
    here = tf.strings.join([_padded(index), "_of_", total, ":", keys])
    following = tf.strings.join([_padded(index + 1), "_of_", total, ":", keys])
    last = tf.equal(index + 1, counts)
    next_keys = tf.where(last, tf.strings.join(["STOP:", keys]), following)
    parts = []
    for position, spec in enumerate(specs):
        column = texts[:, position + 2]
        shape = [num_unroll, *spec.shape[1:]] if position < sequences else spec.shape

        def cut(row: Any, spec: Any = spec, shape: Any = shape, is_sequence: bool = position < sequences) -> Any:
            text, start = row
            value = tf.ensure_shape(tf.io.parse_tensor(text, spec.dtype), spec.shape)
            if is_sequence:
                value = value[start : start + num_unroll]
                missing = num_unroll - tf.shape(value)[0]
                filling = tf.zeros(tf.concat([[missing], tf.shape(value)[1:]], 0), spec.dtype)
                value = tf.ensure_shape(tf.concat([value, filling], 0), shape)
            return value

        starts = index * num_unroll
        parts.append(tf.map_fn(cut, (column, starts), fn_output_signature=tf.TensorSpec(shape, spec.dtype)))
    length = tf.cast(tf.clip_by_value(lengths - index * num_unroll, 0, num_unroll), tf.int32)
    small = [tf.cast(x, tf.int32) for x in (index, counts)]
    return (here, next_keys, *small, numbers + _FIRST, length, tf.cast(lengths, tf.int32)), tuple(parts)


def _padded(number: Any) -> Any:
    import tensorflow as tf

    return tf.strings.as_string(number, width=5, fill="0")


class NextQueuedSequenceBatch:
    """A batch of segments, and the states of recurrent models from segment to segment.

    Attributes:
        key: string `(B,)`, `%05d_of_%05d:key`: the segment's number, the number of segments, the example's key.
        next_key: of the segment that follows, or `STOP:key`.
        sequence: int32 `(B,)`, the segment's number; 0 for the first.
        sequence_count: int32 `(B,)`, how many segments the example has.
        insertion_index: int64 `(B,)`, the example's number, counted from -2**63.
        length: int32 `(B,)`, true steps of the segment.
        total_length: int32 `(B,)`, steps of the example.
        sequences: tensors `(B, num_unroll, ...)`, zero after the end of an example.
        context: tensors `(B, ...)`.
    """

    def __init__(self, rows: Any, sequences: Any, context: Any, states: Any) -> None:
        self.key, self.next_key, self.sequence, self.sequence_count, self.insertion_index, *lengths = rows
        self.length, self.total_length = lengths
        self.sequences, self.context = sequences, context
        self._initial = states
        self._saved = {name: _States(name) for name in states}

    @property
    def batch_size(self) -> Any:
        """How many segments there are: an int32 scalar."""
        import tensorflow as tf

        return tf.shape(self.key)[0]

    def state(self, state_name: str) -> Any:
        """Return the state before each segment: the initial one, or what was saved after the one before.

        Raises:
            KeyError: no initial state has that name.
        """
        import tensorflow as tf

        initial = self._initial[state_name]
        with quiet():
            found = tf.compat.v1.py_func(
                self._saved[state_name].load, [self.key, self.sequence, initial], initial.dtype
            )
        found.set_shape(initial.shape)
        return found

    def save_state(self, state_name: str, value: Any, name: str | None = None) -> Any:
        """Return an operation that saves the state after each segment; run it in each step.

        Raises:
            KeyError: no initial state has that name.
        """
        import tensorflow as tf

        save = self._saved[state_name].save
        tensors = [self.key, self.next_key, tf.convert_to_tensor(value)]
        with quiet():
            return tf.compat.v1.py_func(save, tensors, tf.bool, name=name).op


class _States:
    """The states of one name, by the key of the segment that needs them."""

    def __init__(self, name: str) -> None:
        self._name, self._lock = name, threading.Lock()
        self._saved: dict[bytes, Any] = {}

    def load(self, keys: Any, sequence: Any, initial: Any) -> Any:
        import numpy as np

        rows = []
        with self._lock:
            for key, number, first in zip(keys, sequence, initial, strict=True):
                if number and key not in self._saved:
                    raise RuntimeError(
                        f"state {self._name!r}: nothing was saved for {key!r}; run save_state in each step"
                    )
                rows.append(self._saved[key] if number else first)
        return np.stack(rows).astype(initial.dtype)

    def save(self, keys: Any, next_keys: Any, values: Any) -> Any:
        import numpy as np

        with self._lock:
            for key, following, value in zip(keys, next_keys, values, strict=True):
                self._saved.pop(key, None)  # its segment is done
                if not following.startswith(b"STOP:"):
                    self._saved[following] = value
        return np.True_
