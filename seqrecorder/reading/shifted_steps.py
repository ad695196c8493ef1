"""Steps beside the ones after them: what a model predicts from each step, and what it is shown while it is taught.

`next_step` and `previous_step` stand for names of fields in `inputs`, `targets` and `weights`. What they give is
derived from whole records (see `seqrecorder.codec.graph_ops`), so it knows the next step wherever a record is cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import numpy as np

from seqrecorder.codec.graph_ops import Derivation
from seqrecorder.errors import OptionError
from seqrecorder.schema.conversion import Mismatch, exact_array
from seqrecorder.schema.dtypes import element_type
from seqrecorder.schema.field import Field

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seqrecorder.codec.columns import Column


@attrs.frozen
class Shifted:
    """Fields whose steps are those before or after: what `next_step` and `previous_step` return."""

    shifts: tuple[Shift, ...]
    is_one: bool


def next_step(field: str | Sequence[str]) -> Shifted:
    """Return what stands for the next step of a field, in `inputs`, `targets` and `weights` of `read`.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Text:
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> corpus = tempfile.mkdtemp()
    >>> _ = sr.write([Text([1, 2, 3, 4]), Text([5, 6])], corpus)
    >>> train = sr.read(corpus, batch=sr.Unroll(2, 3), inputs="ids", targets=sr.next_step("ids"))
    >>> for x, y, weights in train:
    ...     print(x.numpy().tolist(), y.numpy().tolist(), weights.numpy().tolist())
    [[1, 2, 3], [5, 6, 0]] [[2, 3, 4], [6, 0, 0]] [[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]]
    [[4, 0, 0], [0, 0, 0]] [[0, 0, 0], [0, 0, 0]] [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]

    It is the next step of the record, also where a segment of `Unroll`, a window, a `Crop` or a part that `Pack` split
    off ends before it, or where `steps` or `too_long` cut it off. Where `steps` leaves one in so many, it is as far
    away as those are from each other. The last step of a record has none: zeros (empty text) stand there, with sample
    weights of 0 where it is a target.

    Args:
        field: name of a feature list without ragged steps; or several names, for a tuple.
    """
    return _shifted("next_step", field, 1, None)


def previous_step(field: str | Sequence[str], *, start: Any = None) -> Shifted:
    """Return what stands for the step before each one of a field, in `inputs`, `targets` and `weights` of `read`.

    For teacher forcing: a decoder is shown what it should have given for the step before.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Pair:
    ...     source: np.ndarray = sr.feature_list("int64", align="source")
    ...     target: np.ndarray = sr.feature_list("int64", align="target")
    >>> corpus = tempfile.mkdtemp()
    >>> _ = sr.write([Pair([7, 8], [4, 5, 6])], corpus)
    >>> inputs = {"source": "source", "before": sr.previous_step("target", start=1)}
    >>> [(x, y, weights)] = sr.read(corpus, batch=sr.Pad(1), inputs=inputs, targets="target")
    >>> x["before"].numpy().tolist(), y.numpy().tolist()
    ([[1, 4, 5]], [[4, 5, 6]])

    Before the first step of a segment, a window or a crop comes the step before it in the record.

    Args:
        field: as for `next_step`.
        start: what stands before the first step of a record: a value of the field, or one for all values of a step.
            None is zero (empty text).
    """
    return _shifted("previous_step", field, -1, start)


def _shifted(function: str, field: Any, by: int, start: Any) -> Shifted:
    names = (field,) if isinstance(field, str) else tuple(field) if isinstance(field, Sequence) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise OptionError(f"{function}: expected the name of a feature list, or a sequence of names, got {field!r}")
    return Shifted(tuple(Shift(name, by, start) for name in names), isinstance(field, str))


@attrs.frozen
class Shift(Derivation):
    """The step after (`by` 1) or before (-1) each one of a feature list; and which steps have one after them."""

    looks_around: ClassVar[bool] = True

    by: int
    start: Any = attrs.field(default=None, eq=attrs.cmp_using(eq=np.array_equal), hash=False)

    @property
    def name(self) -> str:
        """Name of the field that is made."""
        if self.by > 0:
            return f"next_step({self.source})"
        return f"previous_step({self.source}{'' if self.start is None else f', start={self.start!r}'})"

    @property
    def real(self) -> str | None:
        """Name of the bool field that says which steps have one after them; None where each has one before it."""
        return f"has_next_step({self.source})" if self.by > 0 else None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the fields that are made."""
        return (self.name,) if self.real is None else (self.name, self.real)

    @property
    def padded_alike(self) -> tuple[str, ...]:
        """Names of the fields that are made whose padding is that of the source."""
        return (self.name,)

    def fields(self, field: Field) -> tuple[Field, ...]:
        """Return a field and what is made of it (see `Derivation`)."""
        function = self.name.partition("(")[0]
        problem = "is a context field and has no steps" if not field.is_list else None
        if field.sparse is not None or field.is_ragged:
            problem = f"is {'ragged' if field.is_ragged else 'sparse'} and its steps cannot be shifted"
        if problem:
            raise OptionError(f"{function}: field {field.name!r} {problem}")
        self._start(field)
        made = Field(self.name, self.name, field.kind, field.element, field.shape, align=field.group)
        if self.real is None:
            return field, made
        return field, made, Field(self.real, self.real, field.kind, element_type("bool"), (), align=field.group)

    def columns(self, field: Field, column: Column) -> tuple[Column, ...]:
        """Return a column and what is made of it (see `Derivation`)."""
        import tensorflow as tf

        count = tf.shape(column.values, tf.int64)[0]
        ends = tf.cumsum(column.steps)
        edges = (ends - 1) if self.by > 0 else (ends - column.steps)
        edges = tf.boolean_mask(edges, column.steps > 0)[:, tf.newaxis]
        inside = tf.equal(tf.scatter_nd(edges, tf.ones_like(edges[:, 0]), count[tf.newaxis]), 0)
        start = tf.constant(self._start(field), field.element.graph, [1, *field.rest])
        # The start stands before all values, so that each is one further.
        at = tf.where(inside, tf.range(count) + 1 + self.by, 0)
        made = attrs.evolve(column, values=tf.gather(tf.concat([start, column.values], 0), at))
        return (column, made) if self.real is None else (column, made, attrs.evolve(column, values=inside))

    def _start(self, field: Field) -> NDArray[Any]:
        """Return what stands where a record has no such step, `(*shape)`, as a graph holds it."""
        start = field.element.zero() if self.start is None else self.start
        try:
            value = np.broadcast_to(exact_array(start, field.element), field.rest)
        except (Mismatch, ValueError) as problem:
            raise OptionError(
                f"previous_step: start: expected a value of field {field.name!r}, {field.element.name} of shape "
                f"{field.rest}: {problem}"
            ) from None
        return field.element.to_graph(value)


def name_shifts(option: str, part: Any) -> tuple[Any, list[Shift]]:
    """Return inputs, targets or weights with names where `next_step` and `previous_step` were, and what they stand for.

    Raises:
        OptionError: several fields are given where there is room for one.
    """
    if isinstance(part, Shifted) and not part.is_one:
        return tuple(shift.name for shift in part.shifts), list(part.shifts)
    shifts: list[Shift] = []

    def name(value: Any) -> Any:
        if option == "weights" and isinstance(value, Sequence) and not isinstance(value, str):
            return tuple(map(name, value))  # of one target
        if not isinstance(value, Shifted):
            return value
        if not value.is_one:
            raise OptionError(f"{option}: expected one field in each place, got {[s.name for s in value.shifts]}")
        shifts.extend(value.shifts)
        return value.shifts[0].name

    if isinstance(part, Mapping):
        return {key: name(value) for key, value in part.items()}, shifts
    if isinstance(part, Sequence) and not isinstance(part, str):
        return tuple(map(name, part)), shifts
    return name(part), shifts
