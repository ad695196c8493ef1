"""When a record is, and splits in time, given while records are written: which one each record belongs to."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import attrs
import numpy as np

from seqrecorder.errors import OptionError, RecordError
from seqrecorder.schema.conversion import Mismatch, exact_scalar
from seqrecorder.storage.names import check_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema


def time_field(schema: Schema, name: Any, option: str) -> Field:
    """Return the field of a record's time.

    Raises:
        OptionError: it is none of times or numbers.
        SchemaError: there is no field of the name.
    """
    if not isinstance(name, str):
        raise OptionError(f"{option}: expected the name of the field that says when a record is, got {name!r}")
    field = schema[name]
    if field.shape or field.sparse is not None or field.element.is_text or field.element.numpy.kind in "bc":
        raise OptionError(f"{option}: expected a field of times or numbers without a shape, got {field!r}")
    return field


def time_of(field: Field, given: Any) -> Any:
    """Return a time as a value of a field.

    Raises:
        OptionError: it cannot be one.
    """
    try:
        value = np.datetime64(given) if field.element.is_time and isinstance(given, str) else given
        kind = field.element.numpy
        return (
            np.asarray(value).astype(kind)[()]
            if isinstance(value, np.datetime64)
            else exact_scalar(value, field.element)
        )
    except (Mismatch, TypeError, ValueError, OverflowError) as error:
        raise OptionError(f"at: expected a time as {field.element.name}, got {given!r} ({error})") from None


STRADDLING = ("error", "drop", "cut")
DROPPED = -1


def _validate_starts(rule: TimeRule, attribute: Any, value: Any) -> None:
    del rule, attribute
    if (
        not isinstance(value, Mapping)
        or not value
        or [name for name in value if value[name] is None] != list(value)[:1]
    ):
        raise ValueError(f"expected the time from which on each split is, and none for the first, got {value!r:.100}")


@attrs.frozen
class TimeRule:
    """Which times are of which split.

    Attributes:
        starts: by split, in ascending order, the time from which on records are in it; None for the first.
        time: name of the field of a record's time; of a feature list the first step's.
        end: name of the field of the time at which a record ends; None for the last step of `time`, or that time.
        straddling: what becomes of records that begin in one split and end in another: `error`, `drop`, or `cut`.
    """

    starts: Mapping[str, Any] = attrs.field(validator=_validate_starts)
    time: str = attrs.field(validator=attrs.validators.instance_of(str))
    end: str | None = attrs.field(default=None, validator=attrs.validators.optional(attrs.validators.instance_of(str)))
    straddling: Literal["error", "drop", "cut"] = attrs.field(
        default="error", validator=attrs.validators.in_(STRADDLING)
    )

    @classmethod
    def of(cls, splits: Any, time: Any, end: Any, straddling: Any) -> TimeRule:
        """Return the rule of what `write` is given.

        Raises:
            OptionError: that makes no sense.
        """
        first, *others = splits.values() if isinstance(splits, Mapping) and splits else (None,)
        if first is not ... or ... in others:
            raise OptionError(
                "splits: with time=, expected the time from which on each split is, and ... for the first, as in "
                f"{{'train': ..., 'eval': '2026-01-01'}}, got {splits!r}"
            )
        if straddling not in STRADDLING:
            raise OptionError(f"straddling: expected 'error', 'drop' or 'cut', got {straddling!r}")
        for option, name in (("time", time), ("end", end)):
            if not isinstance(name, str) and (name is not None or option == "time"):
                raise OptionError(f"{option}: expected the name of a field, got {name!r}")
        check_names(list(splits), "split")
        return cls({name: None if start is ... else start for name, start in splits.items()}, time, end, straddling)

    def to_dict(self, schema: Schema) -> dict[str, Any]:
        """Return what JSON holds."""
        field = time_field(schema, self.time, "time")
        starts = {name: None if start is None else _plain(time_of(field, start)) for name, start in self.starts.items()}
        return {**attrs.asdict(self), "starts": starts}


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, np.datetime64) else value.item() if value.dtype.kind in "iuf" else int(value)


class SplitsInTime:
    """Gives records of a schema their splits by a rule.

    Args:
        rule: which times are of which split.
        schema: of the records.

    Raises:
        OptionError: the rule does not fit the fields.
        SchemaError: there is no field of a name.
    """

    def __init__(self, rule: TimeRule, schema: Schema) -> None:
        self.rule = rule
        self.names = list(rule.starts)
        self._time = time_field(schema, rule.time, "time")
        self._end = self._time if rule.end is None else time_field(schema, rule.end, "end")
        self._chunk = next((field.name for field in schema.fields if field.chunk), None)
        if rule.straddling == "cut" and (rule.end is not None or not self._time.is_list):
            raise OptionError(f"straddling='cut' needs a time for each step, and no end; got {rule.time!r}")
        # What is cut beside the times: the lists that have as many steps.
        self._lists = [field.name for field in schema.fields if field.is_list and field.group == self._time.group]
        bounds = [time_of(self._time, start) for start in list(rule.starts.values())[1:]]
        self._bounds = np.array(bounds, self._time.element.numpy)
        if (self._bounds[1:] <= self._bounds[:-1]).any():
            raise OptionError(f"splits: expected times that ascend, got {[str(bound) for bound in bounds]}")

    @property
    def needs(self) -> list[str]:
        """Names of the fields that are looked at."""
        return list(dict.fromkeys([self._time.name, self._end.name]))

    def cut(self, records: Sequence[Any], positions: NDArray[np.int64]) -> tuple[list[int], list[Any]]:
        """Return the records, of those that straddle the pieces, and for each the index of its source.

        Raises:
            RecordError: the times of a record do not ascend, or it has none.
        """
        origins, out = list[int](), list[Any]()
        for number, (record, position) in enumerate(zip(records, positions.tolist(), strict=True)):
            times = _exact(record, self._time, position)
            if (times[1:] < times[:-1]).any():
                raise RecordError(f"field {self._time.name!r}: expected times that ascend", position=position)
            edges = np.unique([0, *np.searchsorted(times, self._bounds, "left").tolist(), len(times)]).tolist()
            pieces = list(itertools.pairwise(edges)) if len(edges) > 2 else [(0, len(times))]  # noqa: PLR2004 - ends
            origins += [number] * len(pieces)
            out += [record] if len(pieces) == 1 else [self._piece(record, *piece) for piece in enumerate(pieces)]
        return origins, out

    def _piece(self, record: Any, number: int, steps: tuple[int, int]) -> Any:
        values = {name: getattr(record, name) for name in self._lists}
        changes = {name: value[slice(*steps)] for name, value in values.items() if value is not None}
        return attrs.evolve(record, **changes, **({self._chunk: number} if self._chunk else {}))

    def assign(self, records: Sequence[Any], positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of the split of each record; `DROPPED` for those that are left out.

        Raises:
            RecordError: a record has no time, ends before it begins, or straddles a time and that is an error.
        """
        rows = list(zip(records, positions.tolist(), strict=True))
        starts = np.array([_when(record, self._time, 0, at) for record, at in rows], self._time.element.numpy)
        ends = np.array([_when(record, self._end, -1, at) for record, at in rows], self._end.element.numpy)
        first, last = (np.searchsorted(self._bounds, times, "right") for times in (starts, ends))
        straddles = first != last
        backwards = np.flatnonzero(ends < starts)
        if backwards.size:
            bad = int(backwards[0])
            raise RecordError(f"ends at {ends[bad]}, before it begins: {starts[bad]}", position=int(positions[bad]))
        if straddles.any() and self.rule.straddling == "error":
            bad = int(straddles.argmax())
            raise RecordError(
                f"begins at {starts[bad]}, in split {self.names[first[bad]]!r}, and ends at {ends[bad]}, in split "
                f"{self.names[last[bad]]!r}; leave such records out by straddling='drop', or cut them by 'cut'",
                position=int(positions[bad]),
            )
        return np.where(straddles, DROPPED, first)


def _when(record: Any, field: Field, step: int, position: int) -> Any:
    exact = _exact(record, field, position)
    return exact[step] if field.is_list else exact[()] if isinstance(exact, np.ndarray) else exact


def _exact(record: Any, field: Field, position: int) -> Any:
    value = getattr(record, field.name, None)
    try:
        exact = field.exact(value)
        if exact is None or (field.is_list and not len(exact)):
            raise ValueError
    except (Mismatch, TypeError, ValueError, OverflowError):
        raise RecordError(f"field {field.name!r}: expected a time, got {value!r:.100}", position=position) from None
    return exact
