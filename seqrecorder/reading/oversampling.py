"""Oversampling: how often each record comes in an epoch, by a field of it."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.codec.graph_ops import checked
from seqrecorder.codec.parse import Parser
from seqrecorder.errors import OptionError
from seqrecorder.reading.epochs import figures_of

if TYPE_CHECKING:
    from seqrecorder.dataset.shard_set import Origin
    from seqrecorder.schema.field import Field

_MOST = 1 << 16
"""Copies of a record, at most: all of a window are in memory."""


@attrs.frozen(eq=False)
class Oversampling:
    """How often records come in an epoch: as often as their weight says, of whose fraction a random number decides.

    Attributes:
        field: name of the context field that decides.
        parser: of that field.
        weights: by value of the field, the weight of a record that has it; None where the value is the weight.
    """

    field: str
    parser: Parser
    weights: Mapping[Any, float] | None

    def copies(self, serialized: Any, positions: Any, number: Any) -> Any:
        """Return how often each of some records comes, int64 `(w,)`.

        Args:
            serialized: string, `(w,)`.
            positions: int64, `(w,)`: in written order, so that neither order nor windows nor readers matter.
            number: int64 scalar: stands for the order of the epoch.
        """
        import tensorflow as tf

        values = self.parser.parse_columns(serialized)[0][self.field].values
        if self.weights is None:
            weights = tf.cast(values, tf.float64)
            message = f"oversample: expected weights from 0 to {_MOST:,} in field {self.field!r}, got"
            weights = checked(weights, (weights >= 0) & (weights <= _MOST), message, weights)
        else:
            known = tf.constant(list(self.weights), values.dtype)
            is_known = tf.equal(values[:, tf.newaxis], known)
            named = tf.gather(tf.constant(list(self.weights.values()), tf.float64), tf.argmax(is_known, 1))
            weights = tf.where(tf.reduce_any(is_known, 1), named, 1.0)
        whole = tf.floor(weights)
        return tf.cast(whole, tf.int64) + tf.cast(figures_of(positions, number) < weights - whole, tf.int64)


def oversampling(origin: Origin, oversample: Any) -> Oversampling:
    """Return what `oversample` of `read` says.

    Raises:
        SchemaError: there is no field of the name.
        OptionError: the field gives no weight of a record, or weights are none.
    """
    if isinstance(oversample, Mapping) and len(oversample) == 1:
        [(name, weights)] = oversample.items()
    else:
        name, weights = oversample, None
    if not isinstance(name, str) or (isinstance(oversample, Mapping) and not isinstance(weights, Mapping)):
        raise OptionError(
            "oversample: expected the name of a field that holds weights, or one field with weights by its values, "
            f"such as {{'label': {{3: 5.0}}}}; got {oversample!r}"
        )
    field = origin.schema[name]
    problem = "is a feature list" if field.is_list else None
    if field.sparse is not None or field.is_ragged or field.shape:
        problem = "has more than one value"
    elif field.optional:
        problem = "may be None"
    elif weights is None and not _is_number(field):
        problem = f"holds {field.element.name}, which is no weight; give weights by value: {{{name!r}: {{VALUE: 2.0}}}}"
    if problem:
        raise OptionError(f"oversample: expected one value of each record, and field {name!r} {problem}")
    if weights is not None:
        weights = _by_value(field, weights)
    return Oversampling(name, Parser(origin.schema.select([name]), origin.layout, where=origin.record), weights)


def _is_number(field: Field) -> bool:
    return not (field.element.is_text or field.element.is_time or field.element.name.startswith("complex"))


def _by_value(field: Field, weights: Mapping[Any, Any]) -> dict[Any, float]:
    """Return weights by value of a field.

    Raises:
        OptionError: these are no values of the field, or no weights.
    """
    for value, weight in weights.items():
        is_number = isinstance(weight, numbers.Real) and not isinstance(weight, bool)
        if not is_number or not 0 <= float(weight) <= _MOST or not math.isfinite(weight):
            raise OptionError(f"oversample: expected a weight from 0 to {_MOST:,} for {value!r}, got {weight!r}")
        is_value = isinstance(value, str | bytes) if field.element.is_text else isinstance(value, numbers.Integral)
        if not is_value or field.element.is_time or field.element.name.startswith(("float", "bfloat", "complex")):
            raise OptionError(
                f"oversample: expected values of field {field.name!r}, ints, bools or texts, got {value!r} for a field "
                f"of {field.element.name}"
            )
    if not weights:
        raise OptionError("oversample: expected a weight for a value or more, got none")
    return {value: float(weight) for value, weight in weights.items()}
