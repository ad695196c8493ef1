"""`batch_sequences_with_states`: segments of long sequences, in the order of rows that TensorFlow 1 had."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from seqrecorder.legacy.contrib.components import by_name
from seqrecorder.legacy.lifted import Recipe, Stage
from seqrecorder.legacy.session import replaced
from seqrecorder.legacy.tf1_behaviour import quiet
from seqrecorder.reading.batch import batch
from seqrecorder.reading.batching.unroll import Unroll

if TYPE_CHECKING:
    from collections.abc import Mapping

_SIGNATURE = "num_threads capacity allow_small_batch pad make_keys_unique make_keys_unique_seed name"
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
    *more: Any,
    **named: Any,
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
        *more: `num_threads` and `capacity`, which are not needed any more; `allow_small_batch` (true by default):
            whether the last batches, for which there are not enough examples, come at all; `pad`: whether sequences may
            end inside a segment, they always may; `make_keys_unique`: whether a number that tells examples apart is put
            before the key; `make_keys_unique_seed`, not needed any more; `name` of the operation.
        **named: the same, by name.

    Returns:
        An object with the batch's tensors, as in TensorFlow 1.

    Raises:
        TypeError: there is no such argument.
        ValueError: the shape of a context or a state is not known.
        LiftError: what the tensors come from cannot be translated.
    """
    import tensorflow as tf

    options = by_name(_SIGNATURE, more, named)
    groups = {"sequences": input_sequences, "context": input_context, "states": initial_states}
    given = {(group, key): value for group, members in groups.items() for key, value in sorted(members.items())}
    tensors = [tf.convert_to_tensor(value) for value in given.values()]
    for (group, key), tensor in zip(given, tensors, strict=True):
        if group != "sequences" and not tensor.shape.is_fully_defined():
            raise ValueError(
                f"{group}: expected {key!r} to have a shape that is known, got {tensor.shape}; set_shape it"
            )
    # Fields have numbers for names, since those of scripts may be any.
    fields = {str(position): place for position, place in enumerate(given)}

    def element(number: Any, example: Any) -> dict[str, Any]:
        key, length, *values = example
        parts = dict(zip(fields, values, strict=True))
        sequences = [field for field, (group, _) in fields.items() if group == "sequences"]
        _check(key, length, [parts[field] for field in sequences])
        if options.get("make_keys_unique"):
            key = tf.strings.join([tf.strings.as_string(number), ":", key])
        # A slice of unknown length tells steps from a context that has as many values.
        parts |= {field: parts[field][:length] for field in sequences}
        return {"key": key, "number": number, "steps": tf.range(length), **parts}

    def rows(values: dict[str, Any]) -> Any:
        taken = tf.where(values["sequence_length"] > 0)[:, 0]
        taken = tf.gather(taken, tf.argsort(tf.gather(values["number"], taken)))
        values = {name: tf.gather(part, taken) for name, part in values.items()}
        return _described(values), tuple(values[field] for field in fields)

    def transform(examples: Any) -> Any:
        strategy = Unroll(batch_size, num_unroll, tail="drain" if options.get("allow_small_batch", True) else "drop")
        return batch(examples.enumerate().map(element), strategy, length="steps").map(rows)

    name = options.get("name") or "batch_sequences_with_states"
    stage = Stage(name, f"segments of {num_unroll} steps in {batch_size} rows", "scan")
    fixed = [tf.convert_to_tensor(input_key), tf.cast(input_length, tf.int64)]
    small = options.get("allow_small_batch", True)
    recipe = Recipe((*fixed, *tensors), (), (), (batch_size,), small, by_length=False, steps=num_unroll)
    described, parts = replaced([*fixed, *tensors], transform, stage, recipe)
    found: dict[str, dict[str, Any]] = {group: {} for group in groups}
    for (group, key), part in zip(given, parts, strict=True):
        found[group][key] = part
    return NextQueuedSequenceBatch(described, **found)


def _check(key: Any, length: Any, sequences: Any) -> None:
    """Let an example fail, inside a graph, that has no steps or sequences of other lengths than it says."""
    import tensorflow as tf

    counts = [tf.shape(sequence, tf.int64)[0] for sequence in sequences]
    said = ["batch_sequences_with_states: example", key, "has length", length, ", and sequences of", *counts]
    agree = tf.reduce_all([length > 0, *(tf.equal(count, length) for count in counts)])
    tf.debugging.Assert(agree, [*said, "steps; at least 1 is needed"])


def _described(rows: dict[str, Any]) -> tuple[Any, ...]:
    """Return the first attributes of `NextQueuedSequenceBatch`, in order."""
    import tensorflow as tf

    index, counts, key = rows["segment_index"], rows["segment_count"], rows["key"]
    total = _padded(counts)
    here, following = (tf.strings.join([_padded(number), "_of_", total, ":", key]) for number in (index, index + 1))
    last = tf.equal(index + 1, counts)
    small = [tf.cast(rows[name], tf.int32) for name in ("sequence_length", "total_length")]
    return (
        here,
        tf.where(last, tf.strings.join(["STOP:", key]), following),
        tf.cast(index, tf.int32),
        tf.cast(counts, tf.int32),
        rows["number"] + _FIRST,
        *small,
    )


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
