"""Splits by time: the rule that sets the time at which each split begins, and the cutting of records at these times.

Folds of selections by time are in `folds_and_subsets`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import attrs
import numpy as np

from seqrecorder.errors import OptionError, RecordError
from seqrecorder.schema.exact_values import Mismatch, exact_scalar, time_of_text
from seqrecorder.storage.files import check_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema


def time_field(schema: Schema, name: Any, option: str) -> Field:
    """Look up the field with the time of a record.

    Raises:
        OptionError: the field has neither times nor numbers, or has a shape.
        SchemaError: the field does not exist.
    """
    if not isinstance(name, str):
        raise OptionError(f"{option}: expected the name of the field that says when a record is, got {name!r}")
    field = schema[name]
    if field.shape or field.sparse is not None or field.element.is_text or field.element.numpy.kind in "bc":
        raise OptionError(f"{option}: expected a field of times or numbers without a shape, got {field!r}")
    return field


def time_of(field: Field, moment: Any, option: str = "start of a part") -> Any:
    """Convert a time (an object or a string) to a value of a field.

    Raises:
        OptionError: the time is NaT or NaN, or the field cannot represent it exactly.
    """
    try:
        is_text = field.element.is_time and isinstance(moment, str)
        value = time_of_text(moment, field.element, zone_required=False) if is_text else moment
        exact = exact_scalar(value, field.element)
        if exact != exact:  # noqa: PLR0124 - NaT and NaN
            raise ValueError("no time")
    except (Mismatch, TypeError, ValueError, OverflowError) as error:
        raise OptionError(f"{option}: expected a time as {field.element.name}, got {moment!r} ({error})") from None
    return exact


STRADDLING = ("error", "drop", "cut")


DROPPED = -1


@attrs.frozen
class TimeRule:
    """Rule for splitting by time.

    Attributes:
        starts: mapping from split to its start time, in ascending order; the first split has None.
        time: name of the field with the time of a record; for a feature list, the time of its first step.
        end: name of the field with the end time of a record; None for the last step of `time`, or for `time`
            itself if it is a context field.
        straddling: treatment of records that start in one split and end in another: `error`, `drop`, or `cut`.
    """

    starts: Mapping[str, Any]
    time: str
    end: str | None = None
    straddling: Literal["error", "drop", "cut"] = "error"

    def __attrs_post_init__(self) -> None:
        for option, name in (("time", self.time), ("end", self.end)):
            if not isinstance(name, str) and (name is not None or option == "time"):
                raise OptionError(f"{option}: expected the name of a field, got {name!r}")
        if self.straddling not in STRADDLING:
            raise OptionError(f"straddling: expected 'error', 'drop' or 'cut', got {self.straddling!r}")
        unknown = [name for name, start in self.starts.items() if start is None]
        if unknown != list(self.starts)[:1] or not unknown:
            raise OptionError(f"expected the time from which on each split but the first is, got {self.starts!r:.100}")

    @classmethod
    def of(cls, splits: Any, time: Any, end: Any, straddling: Any, of: str = "splits: with time=,") -> TimeRule:
        """Build a rule from the arguments of `write` or `split`.

        The text in `of` is the beginning of error messages.

        Raises:
            OptionError: an argument is invalid.
        """
        first, *others = splits.values() if isinstance(splits, Mapping) and splits else (None,)
        if first is not ... or ... in others:
            raise OptionError(
                f"{of} expected the time from which on each split is, and ... for the first, as in "
                f"{{'train': ..., 'eval': '2026-01-01'}}, got {splits!r}"
            )
        check_names(list(splits), "split")
        return cls({name: None if start is ... else start for name, start in splits.items()}, time, end, straddling)

    def to_dict(self, schema: Schema) -> dict[str, Any]:
        """Convert the rule to JSON data."""
        field = time_field(schema, self.time, "time")
        starts = {name: None if start is None else _plain(time_of(field, start)) for name, start in self.starts.items()}
        return {**attrs.asdict(self), "starts": starts}


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, np.datetime64) else value.item() if value.dtype.kind in "iuf" else int(value)


def steps_before(
    times: NDArray[Any], steps: NDArray[np.int64], bounds: Any, name: str, positions: Any = None
) -> NDArray[np.int64]:
    """Count the steps of each record before each time in `bounds`; return int64 `(n, len(bounds))`.

    Args:
        times: times of the concatenated steps of all records.
        steps: number of steps of each record, int64 `(n,)`.
        bounds: sequence of times; None counts all steps.
        name: name of the field, for error messages.
        positions: positions of the records, for error messages; None numbers them from 0.

    Raises:
        RecordError: the times of a record do not ascend, or one is NaT or NaN.
    """
    record = np.repeat(np.arange(steps.size), steps)
    wrong = times != times  # noqa: PLR0124 - NaT and NaN
    wrong[1:] |= (times[1:] < times[:-1]) & (record[1:] == record[:-1])
    if wrong.any():
        at = int(wrong.argmax())
        step = at - int(steps[: record[at]].sum())
        where = int(record[at] if positions is None else positions[record[at]])
        raise RecordError(f"field {name!r}: expected times that ascend, got {times[at]} at step {step}", position=where)
    counts = [steps if bound is None else np.bincount(record[times < bound], minlength=steps.size) for bound in bounds]
    return np.stack(counts, 1).astype(np.int64) if counts else np.empty((steps.size, 0), np.int64)


@attrs.frozen
class Piece:
    """Steps of each record that a time rule assigns to one split.

    Attributes:
        rule: rule that cuts the records.
        split: name of the split.
    """

    rule: TimeRule
    split: str

    def of(self, messages: Sequence[bytes], schema: Schema) -> list[bytes]:
        """Cut serialized records to this piece."""
        return schema.encode_batch(SplitsInTime(self.rule, schema).pieces(schema.decode_batch(messages), self.split))


class SplitsInTime:
    """Assignment of records to splits by a time rule.

    Args:
        rule: the rule.
        schema: schema of the records.

    Attributes:
        needs: names of the fields that the rule reads.

    Raises:
        OptionError: the rule does not fit the fields.
        SchemaError: a field does not exist.
    """

    def __init__(self, rule: TimeRule, schema: Schema) -> None:
        self.rule = rule
        self.names = list(rule.starts)
        self._time = time_field(schema, rule.time, "time")
        self._end = self._time if rule.end is None else time_field(schema, rule.end, "end")
        self.needs = list(dict.fromkeys([self._time.name, self._end.name]))
        self._chunk = next((field.name for field in schema.fields if field.chunk), None)
        if rule.straddling == "cut" and (rule.end is not None or not self._time.is_list):
            expected = "'error' or 'drop', since 'cut' needs a time for each step, and no end"
            raise OptionError(f"straddling: expected {expected}; got {rule.time!r}")
        # Cut the lists in the group of the times, and those with a fixed number of steps per time.
        rates = {group: rate for group, (followed, rate) in schema.rates.items() if followed == self._time.group}
        rates[self._time.group] = 1
        lists = [field for field in schema.fields if field.is_list]
        self._rates = {field.name: rates[field.group] for field in lists if field.group in rates}
        bounds = [time_of(self._time, start) for start in list(rule.starts.values())[1:]]
        self.bounds = np.array(bounds, self._time.element.numpy)
        if (self.bounds[1:] <= self.bounds[:-1]).any():
            raise OptionError(f"splits: expected times that ascend, got {[str(bound) for bound in bounds]}")

    def cut(self, records: Sequence[Any], positions: NDArray[np.int64]) -> tuple[list[int], list[Any]]:
        """Cut records that straddle splits into pieces.

        Other records are returned as they are.

        Returns:
            The index of the record of each piece, and the pieces.

        Raises:
            RecordError: a record has no times, or they do not ascend.
        """
        origins, out = list[int](), list[Any]()
        times = [_exact(record, self._time, position) for record, position in zip(records, positions, strict=True)]
        for number, (record, edges) in enumerate(zip(records, self._edges(times, positions), strict=True)):
            pieces = list(itertools.pairwise(sorted(set(edges))))
            origins += [number] * len(pieces)
            out += [record] if len(pieces) == 1 else [self._piece(record, *piece) for piece in enumerate(pieces)]
        return origins, out

    def pieces(self, records: Sequence[Any], split: str) -> list[Any]:
        """Cut each record to its steps in a split.

        If a record has no steps in the split, its piece is empty.
        """
        number = self.names.index(split)
        every = self._edges([self._time.exact(getattr(record, self._time.name)) for record in records], None)
        return [
            self._piece(record, len(set(edges[: number + 1])) - 1, (edges[number], edges[number + 1]))
            for record, edges in zip(records, every, strict=True)
        ]

    def edges(self, times: NDArray[Any], steps: NDArray[np.int64], positions: Any) -> NDArray[np.int64]:
        """Find the first step of each split in each record.

        See `steps_before` for the arguments and errors.

        Returns:
            The first steps, followed by the length of the record, int64 `(n, splits + 1)`.
        """
        before = steps_before(times, steps, self.bounds, self._time.name, positions)
        return np.column_stack([np.zeros_like(steps), before, steps])

    def _edges(self, times: Sequence[NDArray[Any]], positions: NDArray[np.int64] | None) -> list[list[int]]:
        steps = np.array(list(map(len, times)), np.int64)
        every = np.concatenate([np.empty(0, self._time.element.numpy), *times])
        edges: list[list[int]] = self.edges(every, steps, positions).tolist()
        return edges

    def _piece(self, record: Any, number: int, steps: tuple[int, int]) -> Any:
        values = {name: getattr(record, name) for name in self._rates}
        parts = {name: slice(steps[0] * rate, steps[1] * rate) for name, rate in self._rates.items()}
        changes = {name: value[parts[name]] for name, value in values.items() if value is not None}
        return attrs.evolve(record, **changes, **({self._chunk: number} if self._chunk else {}))

    def assign(self, records: Sequence[Any], positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Find the split of each record.

        Returns:
            The index of the split of each record, or `DROPPED` for a record that straddles splits.

        Raises:
            RecordError: a record has no time, ends before it starts, or straddles splits under `straddling="error"`.
        """
        rows = list(zip(records, positions.tolist(), strict=True))
        starts = np.array([_when(record, self._time, 0, at) for record, at in rows], self._time.element.numpy)
        ends = np.array([_when(record, self._end, -1, at) for record, at in rows], self._end.element.numpy)
        first, last = (np.searchsorted(self.bounds, times, "right") for times in (starts, ends))
        straddles = first != last
        backwards = np.flatnonzero(~(ends >= starts))  # also finds NaT and NaN, for which comparisons are false
        if backwards.size:
            bad = int(backwards[0])
            raise RecordError(f"expected an end from {starts[bad]} on, got {ends[bad]}", position=int(positions[bad]))
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
