"""`batch_sequences_with_states`: segments of long sequences, in the row order of TensorFlow 1."""

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
"""First number of an example in TensorFlow 1."""


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
    """Batch segments of `num_unroll` steps, as `tf.contrib.training.batch_sequences_with_states` did.

    The segments of an example are in consecutive batches, but not always in the same row. Rows are in the order of the
    examples. When an example ends, the rows below it move up, and the next example is added as the last row.

    Args:
        input_key: string scalar, the key of the example.
        input_sequences: tensors `(T, ...)`.
        input_context: tensors to repeat for each segment.
        input_length: int scalar, T, at least 1.
        initial_states: mapping from names to the states before the first segment of an example.
        num_unroll: the number of steps in a segment.
        batch_size: the number of segments in a batch.
        *more: `num_threads` (3 by default): more than one made the order of the examples random; `capacity`, which is
            ignored; `allow_small_batch` (true by default): whether to keep the last batches, which have fewer rows;
            `pad`, which is ignored, because sequences may always end inside a segment; `make_keys_unique`: whether to
            prefix keys with the number of the example; `make_keys_unique_seed`, which is ignored; `name` of the
            operation.
        **named: the same arguments, by keyword.

    Returns:
        The tensors of the batch, as a `NextQueuedSequenceBatch`.

    Raises:
        TypeError: an argument is unknown, or passed twice.
        ValueError: the shape of a context tensor or a state is not fully known.
        LiftError: the pipeline behind the tensors cannot be translated.
    """
    import tensorflow as tf

    options = by_name(_SIGNATURE, more, named)
    groups = {"sequences": input_sequences, "context": input_context, "states": initial_states}
    inputs = {(group, key): value for group, members in groups.items() for key, value in sorted(members.items())}
    tensors = [tf.convert_to_tensor(value) for value in inputs.values()]
    for (group, key), tensor in zip(inputs, tensors, strict=True):
        if group != "sequences" and not tensor.shape.is_fully_defined():
            raise ValueError(f"{group}: expected {key!r} to have a known shape, got {tensor.shape}; set_shape it")
    # Fields are numbered, because names from a script may clash with `key`, `number` and `steps`.
    fields = {str(number): pair for number, pair in enumerate(inputs)}

    def element(number: Any, example: Any) -> dict[str, Any]:
        key, length, *values = example
        columns = dict(zip(fields, values, strict=True))
        sequences = [field for field, (group, _) in fields.items() if group == "sequences"]
        _check(key, length, [columns[field] for field in sequences])
        if options.get("make_keys_unique"):
            key = tf.strings.join([tf.strings.as_string(number), ":", key])
        # The slice makes the length unknown, which distinguishes steps from a context of the same length.
        columns |= {field: columns[field][:length] for field in sequences}
        return {"key": key, "number": number, "steps": tf.range(length), **columns}

    def rows(values: dict[str, Any]) -> Any:
        taken = tf.where(values["sequence_length"] > 0)[:, 0]
        taken = tf.gather(taken, tf.argsort(tf.gather(values["number"], taken)))
        values = {name: tf.gather(part, taken) for name, part in values.items()}
        return _describe(values), tuple(values[field] for field in fields)

    def transform(examples: Any) -> Any:
        strategy = Unroll(batch_size, num_unroll, tail="drain" if small else "drop")
        return batch(examples.enumerate().map(element), strategy, length="steps").map(rows)

    name = options.get("name") or "batch_sequences_with_states"
    threads = options.get("num_threads", 3)
    random_order = f"{threads} threads decided which example came first" if threads > 1 else None
    stage = Stage(name, f"segments of {num_unroll} steps in {batch_size} rows", "scan", random_order)
    fixed = [tf.convert_to_tensor(input_key), tf.cast(input_length, tf.int64)]
    small = options.get("allow_small_batch", True)
    recipe = Recipe((*fixed, *tensors), (), (), (batch_size,), small, by_length=False, steps=num_unroll)
    described, columns = replaced([*fixed, *tensors], transform, stage, recipe)
    batched: dict[str, dict[str, Any]] = {group: {} for group in groups}
    for (group, key), column in zip(inputs, columns, strict=True):
        batched[group][key] = column
    return NextQueuedSequenceBatch(described, **batched)


def _check(key: Any, length: Any, sequences: Any) -> None:
    """Assert that an example has at least one step, and that its sequences have the declared length."""
    import tensorflow as tf

    counts = [tf.shape(sequence, tf.int64)[0] for sequence in sequences]
    message = ["batch_sequences_with_states: example", key, "has length", length, ", and sequences of", *counts]
    agree = tf.reduce_all([length > 0, *(tf.equal(count, length) for count in counts)])
    tf.debugging.Assert(agree, [*message, "steps; at least 1 is needed"])


def _describe(rows: dict[str, Any]) -> tuple[Any, ...]:
    """Compute the attributes of `NextQueuedSequenceBatch` that describe its segments.

    These are the attributes from `key` to `total_length`, in the order of that class.
    """
    import tensorflow as tf

    names = ("segment_index", "segment_count", "sequence_length", "total_length")
    index, count, *lengths = (tf.cast(rows[name], tf.int32) for name in names)
    first, following, total = (tf.strings.as_string(n, width=5, fill="0") for n in (index, index + 1, count))
    here, after = (tf.strings.join([number, "_of_", total, ":", rows["key"]]) for number in (first, following))
    after = tf.where(tf.equal(index + 1, count), tf.strings.join(["STOP:", rows["key"]]), after)
    return here, after, index, count, rows["number"] + _FIRST, *lengths


class NextQueuedSequenceBatch:
    """Batch of segments, with states that recurrent models save between segments.

    Attributes:
        key: string `(B,)`, of the form `%05d_of_%05d:key`, with the segment's number, the number of segments and the
            example's key.
        next_key: string `(B,)`, the key of the next segment, or `STOP:key` after the last one.
        sequence: int32 `(B,)`, the number of the segment; 0 for the first.
        sequence_count: int32 `(B,)`, the number of segments of the example.
        insertion_index: int64 `(B,)`, the number of the example, counted from -2**63.
        length: int32 `(B,)`, the number of steps of the segment, without padding.
        total_length: int32 `(B,)`, the number of steps of the example.
        sequences: mapping from names to tensors `(B, num_unroll, ...)`, which are zero after the end of an example.
        context: mapping from names to tensors `(B, ...)`.
    """

    def __init__(self, rows: Any, sequences: Any, context: Any, states: Any) -> None:
        self.key, self.next_key, self.sequence, self.sequence_count, self.insertion_index, *lengths = rows
        self.length, self.total_length = lengths
        self.sequences, self.context = sequences, context
        self._initial = states
        self._saved = {name: _States(name) for name in states}

    @property
    def batch_size(self) -> Any:
        """Number of segments in the batch, an int32 scalar."""
        import tensorflow as tf

        return tf.shape(self.key)[0]

    def state(self, state_name: str) -> Any:
        """Return the state before each segment.

        For the first segment of an example, this is the initial state. For other segments, it is the state that was
        saved after the previous one.

        Raises:
            KeyError: no initial state has that name.
        """
        import tensorflow as tf

        initial, saved = self._initial[state_name], self._saved[state_name]
        with quiet():
            state = tf.compat.v1.py_func(saved.load, [self.key, self.sequence, initial], initial.dtype)
        state.set_shape(initial.shape)
        return state

    def save_state(self, state_name: str, value: Any, name: str | None = None) -> Any:
        """Return an operation that saves the state at the end of each segment.

        Run the operation in each step.

        Raises:
            KeyError: no initial state has that name.
        """
        import tensorflow as tf

        save = self._saved[state_name].save
        tensors = [self.key, self.next_key, tf.convert_to_tensor(value)]
        with quiet():
            return tf.compat.v1.py_func(save, tensors, tf.bool, name=name).op


class _States:
    """Saved values of one state.

    The value at the end of a segment is saved under the key of the next segment, which starts with it.
    """

    def __init__(self, name: str) -> None:
        self._name, self._lock = name, threading.Lock()
        self._saved: dict[bytes, Any] = {}

    def load(self, keys: Any, sequence: Any, initial: Any) -> Any:
        import numpy as np

        rows = []
        with self._lock:
            for key, number, first in zip(keys, sequence, initial, strict=True):
                if number and key not in self._saved:
                    raise RuntimeError(f"state {self._name!r}: nothing was saved for {key!r}; run save_state each step")
                rows.append(self._saved[key] if number else first)
        return np.stack(rows).astype(initial.dtype)

    def save(self, keys: Any, next_keys: Any, values: Any) -> Any:
        import numpy as np

        with self._lock:
            for key, following, value in zip(keys, next_keys, values, strict=True):
                self._saved.pop(key, None)  # only the segment that ends now used it
                if not following.startswith(b"STOP:"):
                    self._saved[following] = value
        return np.True_
