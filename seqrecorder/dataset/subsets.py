"""Selections that are made of a selection: by a condition, by chance, in another order, and in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.dataset.conditions import Condition, condition
from seqrecorder.dataset.exports import Exports
from seqrecorder.dataset.partition import folds_of, split_by_shares
from seqrecorder.dataset.ranks import lowest_ranked
from seqrecorder.dataset.time_parts import folds_in_time, split_in_time
from seqrecorder.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from typing_extensions import Self

    from seqrecorder.dataset.partition import Folds, Parts
    from seqrecorder.dataset.time_parts import Straddling


class Subsets(Exports):
    """The methods that make selections of a selection, of some of its records or of all in another order."""

    def where(
        self, predicate: Callable[[Any], Any] | None = None, /, *, fields: Sequence[str] | None = None, **values: Any
    ) -> Self:
        """Return the records for which all conditions hold, in the same order.

        Args:
            predicate: called with each record; it is to return whether it is wanted.
            fields: names of the fields that the predicate looks at: only these are parsed, and its records have no
                others. None is all.
            values: by the name of a context field without a shape, the value that is wanted, or several in a list,
                tuple, set, range or array. None is a value of optional fields.

        Raises:
            OptionError: there is no condition, or a value that the field cannot have.
            SchemaError: there is no field of a name.
            RecordError: a record cannot be decoded.
        """
        return self._that(condition(self.schema, predicate, fields, values))

    def _that(self, wanted: Condition) -> Self:
        store = self._store.forward()
        decoder = store.decoder(wanted.fields)
        masks = [wanted.of(store.columns(decoder, positions)) for positions in self.windows()]
        return self.at(np.flatnonzero(np.concatenate(masks))) if masks else self

    def sample(self, size: float, *, seed: int) -> Self:
        """Return records drawn without replacement, in the same order.

        A record is drawn by its split and its position in that, so that of data to which others were appended mostly
        the same ones are drawn.

        Args:
            size: how many as an int, or their share as a float.
            seed: the same seed draws the same records.

        Raises:
            OptionError: there are not so many.
        """
        if isinstance(size, bool) or not isinstance(size, (int, float, np.integer, np.floating)):
            raise OptionError(f"sample: expected a number of records as an int, or a share as a float, got {size!r}")
        count = round(size * len(self)) if isinstance(size, (float, np.floating)) and 0 <= size <= 1 else size
        if not isinstance(count, (int, np.integer)) or not 0 <= count <= len(self):
            raise OptionError(
                f"sample: expected an int of at most {len(self)} records, or a share in [0, 1] as a float, got {size!r}"
            )
        if count == len(self):
            return self
        return self.at(lowest_ranked(self._store.splits, self._positions, seed, int(count)))

    def sorted_by(
        self, by: str | Callable[[Any], Any], *, fields: Sequence[str] | None = None, reverse: bool = False
    ) -> Self:
        """Return the records in ascending order of a value; equal ones stay in their order.

        Args:
            by: name of a context field without a shape, or what gives a record's value.
            fields: names of the fields that a callable looks at; None is all.
            reverse: whether the order descends.

        Raises:
            OptionError: values have no order, as None has none.
            SchemaError: there is no field of a name.
        """
        if isinstance(by, str):
            if fields is not None:
                raise OptionError(f"fields: are for a callable; {by!r} is itself the field")
            (values,) = self.values_of([by])
        elif callable(by):
            values = [by(record) for record in self.records(fields)]
        else:
            raise OptionError(f"sorted_by: expected the name of a field, or a callable, got {by!r}")
        try:
            order = sorted(range(len(self)), key=values.__getitem__, reverse=reverse)
        except (TypeError, ValueError) as error:  # of an array, whether it is less has no one answer
            raise OptionError(
                f"sorted_by: values without an order: {error}; leave them out with `where` first"
            ) from None
        return self.at(np.array(order, np.int64))

    def split(
        self,
        shares: Mapping[str, float] | None = None,
        *,
        by: str | Callable[[Any], Any] | None = None,
        stratify: str | Callable[[Any], Any] | None = None,
        at: Mapping[str, Any] | None = None,
        time: str | None = None,
        end: str | None = None,
        straddling: Straddling = "error",
        seed: int = 0,
    ) -> Parts[Self]:
        """Return parts of the records by name, each in the same order: by shares, or in time.

        >>> import tempfile, seqrecorder as sr
        >>> @sr.record
        ... class Verse:
        ...     book: int = sr.context("int64")
        >>> corpus = tempfile.mkdtemp()
        >>> _ = sr.write([Verse(number // 4) for number in range(40)], corpus)
        >>> parts = sr.open(corpus).all().split({"train": 0.8, "eval": 0.2}, by="book")
        >>> parts, parts.shares.missed
        (<Parts: train 32, eval 8>, 0.0)

        Args:
            shares: by name; they add up to 1. Without `by`, no share is missed by a record, nor by two in a stratum.
            by: name of a context field, or what gives a record's value: records of one value stay together. Without
                `stratify`, shares are missed by less than the largest group where there are enough small ones.
            stratify: likewise; records of each value are dealt in these shares, groups as near as that goes.
            at: the time from which on each part is, by name, in ascending order; `...` for the first.
            time: name of the field of a record's time; of a feature list the first step's.
            end: name of the field of the time at which a record ends; the last step of `time`, or that time itself.
            straddling: what becomes of records that begin in one part and end in another: `error`, or `drop`.
            seed: the same selection and seed give the same parts.

        Returns:
            A dictionary that `write` takes; its `shares` say how far each share was missed.

        Raises:
            OptionError: options make no sense, or there are fewer groups than parts.
            SchemaError: there is no field of a name.
        """
        if (shares is None) == (at is None):
            raise OptionError("split: expected shares, as {'train': 0.8, 'eval': 0.2}, or times as `at`")
        if at is not None:
            _require_none({"by": by, "stratify": stratify}, "at")
            return split_in_time(self, at, time, end, straddling)
        _require_none({"time": time, "end": end}, "shares")
        return split_by_shares(self, shares, by, stratify, seed)

    def folds(
        self,
        count: int,
        *,
        by: str | Callable[[Any], Any] | None = None,
        stratify: str | Callable[[Any], Any] | None = None,
        time: str | None = None,
        end: str | None = None,
        straddling: Straddling = "error",
        seed: int = 0,
    ) -> Folds[Self]:
        """Return pairs of selections for cross-validation: what is fitted on, and what is held out.

        Each record is held out once. With `time` the folds walk forward: of `count + 1` parts in time, each but the
        first is held out once, and what lies wholly before it is fitted on.

        Args:
            count: how many folds.
            by: as for `split`: groups are never on both sides.
            stratify: as for `split`.
            time: as for `split`.
            end: as for `split`.
            straddling: as for `split`; such records are held out, and not fitted on before.
            seed: as for `split`.

        Returns:
            A list of pairs; its `shares` say how far equal shares were missed.

        Raises:
            OptionError: options make no sense, or there are fewer records or groups than folds.
            SchemaError: there is no field of a name.
        """
        if time is not None:
            _require_none({"by": by, "stratify": stratify}, "time")
            return folds_in_time(self, count, time, end, straddling)
        _require_none({"end": end}, "no time")
        return folds_of(self, count, by, stratify, seed)


def _require_none(options: Mapping[str, Any], beside: str) -> None:
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise OptionError(f"{given[0]} does not go with {beside}; leave one of them out")
