"""The option `oversample`, which repeats records in an epoch."""

from __future__ import annotations

import contextlib
import math
import numbers
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.codec.graph_ops import checked
from seqrecorder.codec.parse import Parser
from seqrecorder.errors import OptionError
from seqrecorder.schema.exact_values import Mismatch, exact_array

if TYPE_CHECKING:
    from seqrecorder.dataset.checked_shards import Origin
    from seqrecorder.schema.field import Field


_MOST = 1 << 16
"""Limit on the copies of a record; all copies of a window are in memory."""


@attrs.frozen(eq=False)
class Oversampling:
    """Rule for the number of copies of each record in an epoch: its weight, rounded up or down at random.

    Attributes:
        field: name of the context field with the weight.
        parser: parser of that field.
        weights: mapping from value to weight; None if the value itself is the weight.
    """

    field: str
    parser: Parser
    weights: Mapping[Any, float] | None

    def copies(self, serialized: Any, fractions: Any) -> Any:
        """Compute the number of copies of each record, int64 `(w,)`.

        Args:
            serialized: string, `(w,)`.
            fractions: `(w,)`, random number in `[0, 1)` for each record.
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
        return tf.cast(whole, tf.int64) + tf.cast(fractions < weights - whole, tf.int64)


def oversampling(origin: Origin, oversample: Any) -> Oversampling:
    """Build the rule from the option `oversample` of `read`.

    Raises:
        SchemaError: there is no field of that name.
        OptionError: the field does not have one weight per record, or a weight is invalid.
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
    problem = None
    if weights is None and not _is_number(field):
        problem = f"holds {field.element.name}, which is no weight; give weights by value: {{{name!r}: {{VALUE: 2.0}}}}"
    require_one_value("oversample", field, problem)
    if weights is not None:
        weights = _by_value(field, weights)
    return Oversampling(name, Parser(origin.schema.select([name]), origin.layout, where=origin.record), weights)


def require_one_value(option: str, field: Field, problem: str | None = None) -> None:
    """Raise `OptionError` if a field does not have exactly one value per record.

    The error is also raised if `problem` describes another defect of the field.
    """
    problem = "may be None" if field.optional else problem
    problem = "has more than one value" if field.sparse is not None or field.is_ragged or field.shape else problem
    problem = "is a feature list" if field.is_list else problem
    if problem:
        raise OptionError(f"{option}: expected one value of each record, and field {field.name!r} {problem}")


def _is_number(field: Field) -> bool:
    return not (field.element.is_text or field.element.is_time or field.element.name.startswith("complex"))


def is_weight(weight: Any) -> bool:
    """Check whether a value is a finite number of 0 or more, and not a bool."""
    is_number = isinstance(weight, numbers.Real) and not isinstance(weight, bool)
    return is_number and 0 <= float(weight) < math.inf


def _by_value(field: Field, weights: Mapping[Any, Any]) -> dict[Any, float]:
    """Convert a mapping from values of a field to weights.

    Raises:
        OptionError: a value does not fit the field, or a weight is invalid.
    """
    element, known = field.element, {}
    for value, weight in weights.items():
        if not is_weight(weight) or weight > _MOST:
            raise OptionError(f"oversample: expected a weight from 0 to {_MOST:,} for {value!r}, got {weight!r}")
        key = value if element.is_text and isinstance(value, str | bytes) else None
        if element.numpy.kind in "biu" and isinstance(value, numbers.Integral):
            is_bit = element.name == "bool" and value in (0, 1)
            with contextlib.suppress(Mismatch):
                key = exact_array(bool(value) if is_bit else int(value), element).item()
        if key is None:
            raise OptionError(
                f"oversample: expected values of field {field.name!r}, ints, bools or texts, got {value!r} for a field "
                f"of {element.name}"
            )
        known[key] = float(weight)
    if not weights:
        raise OptionError("oversample: expected a weight for a value or more, got none")
    return known
