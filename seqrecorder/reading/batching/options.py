"""The options that strategies share: how each is checked, what it does to long records, how batches are filled up."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import attrs

from seqrecorder.codec.graph_ops import Padding, check_values, checked
from seqrecorder.codec.parse import SEQUENCE_LENGTH
from seqrecorder.errors import OptionError
from seqrecorder.reading.elements import Carried

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from seqrecorder.reading.record_length import RecordLength
    from seqrecorder.reading.strategy import Feed
    from seqrecorder.schema.schema import Schema


Side = Literal["right", "left"]
EMPTY = ("keep", "drop", "error")
"""What `empty` says of a record without steps."""

NO_STEPS = "a record without steps (empty='keep' and 'drop' allow them), lengths"


def check_count(name: str, value: Any, least: int = 1) -> int:
    """Return an option that counts something, or raise `OptionError`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise OptionError(f"{name}: expected an int of {least} or more, got {value!r}")
    return value


# Validators of attributes: attrs calls them with the strategy, the attribute and the value.


def positive(_: Any, attribute: Any, value: Any) -> None:
    """Raise `OptionError` unless an option is an int of 1 or more, or None where that is its default."""
    if value is not None or attribute.default is not None:
        check_count(attribute.name, value)


def not_negative(_: Any, attribute: Any, value: Any) -> None:
    """Raise `OptionError` unless an option is an int of 0 or more."""
    check_count(attribute.name, value, 0)


def one_of(*words: str) -> Any:
    """Return a validator that raises `OptionError` unless an option is one of some words."""

    def check(_: Any, attribute: Any, value: Any) -> None:
        if value not in words:
            raise OptionError(f"{attribute.name}: expected one of {', '.join(words)}, got {value!r}")

    return check


def _check_sides(_: Any, attribute: Any, value: Side | Mapping[str, Side]) -> None:
    for side in value.values() if isinstance(value, Mapping) else [value]:
        one_of("right", "left")(None, attribute, side)


def _check_mapping(_: Any, attribute: Any, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise OptionError(f"{attribute.name}: expected a mapping of fields to values, got {value!r}")


@attrs.frozen(kw_only=True)
class PaddedBatches:
    """How the steps of batches are filled up; the attributes are described in `Pad`."""

    padding_values: Mapping[str, Any] = attrs.field(factory=dict, validator=_check_mapping)
    padding_side: Side | Mapping[str, Side] = attrs.field(default="right", validator=_check_sides)
    pad_to_multiple_of: int = attrs.field(default=1, validator=positive)
    empty: Literal["keep", "drop", "error"] = attrs.field(default="keep", validator=one_of(*EMPTY))
    length_name: str = SEQUENCE_LENGTH
    mask_name: str | None = None

    def carried(self, schema: Schema) -> Carried:
        """Return what batches carry beside the fields of a schema and their lengths."""
        return Carried(left=self._left(schema))

    def _left(self, schema: Schema) -> frozenset[str]:
        if not isinstance(self.padding_side, Mapping):
            return frozenset(schema.groups if self.padding_side == "left" else ())
        sides = by_group("padding_side", self.padding_side, schema)
        return frozenset(group for group, side in sides.items() if side == "left")

    def padding(
        self, feed: Feed, group: str | None, width: Callable[[str, Any], Any], fixed: Mapping[str, int]
    ) -> Padding:
        """Return how batches of a feed are padded.

        Args:
            feed: the records.
            group: the alignment group that decides whether a record is empty; None where there is no feature list.
            width: from a group and the lengths of a batch to the steps of its sequences, before they are rounded up.
            fixed: by group, what `width` gives for every batch, where that is known.

        Raises:
            OptionError: a value does not fit its field, or a field cannot be padded so.
        """
        schema, multiple = feed.parser.schema, self.pad_to_multiple_of
        message = f"{feed.origin.where}: {NO_STEPS}"
        exact = check_values(feed.origin.schema, self.padding_values)
        alike = [(name, each.source) for each in feed.parser.derivations for name in each.padded_alike]
        exact |= {name: exact[source] for name, source in alike if source in exact}
        left = self._left(schema)
        for field in schema.fields:
            if field.is_list and field.group in left and field.sparse is not None and not field.dense:
                raise OptionError(
                    f"padding_side: field {field.name!r} is sparse and has no padding; declare dense=True"
                )

        def steps(name: str, lengths: Any) -> Any:
            if self.empty == "error" and name == group:
                lengths = checked(lengths, lengths > 0, message, lengths)
            most = width(name, lengths)
            return most if multiple == 1 else (most + multiple - 1) // multiple * multiple

        static = {name: -(-most // multiple) * multiple for name, most in fixed.items()}
        return Padding(exact, steps, left, ragged=True, static=static)


def by_group(option: str, by_field: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """Return an option that is given by field, by alignment group.

    Raises:
        OptionError: a field is no feature list, or the fields of one group, whose lengths are one, disagree.
        SchemaError: there is no field of a name.
    """
    chosen: dict[str, Any] = {}
    for name, value in by_field.items():
        field = schema[name]
        if not field.is_list:
            raise OptionError(f"{option}: {name!r} is a context field and has no steps")
        if chosen.setdefault(field.group, value) != value:
            raise OptionError(
                f"{option}: {name!r} and another field of its alignment group have one length, and get "
                f"{value!r} and {chosen[field.group]!r}; give one, or free the field by align=None"
            )
    return chosen


# Records that are too long --------------------------------------------------------------------------------------------

_LOG = logging.getLogger("seqrecorder")

_WORDS = {
    "drop": "to leave them out",
    "cut_end": "to leave out their last steps",
    "cut_start": "to leave out their first steps",
    "split": "to cut them into several",
}


def fit_lengths(
    feed: Feed, group: RecordLength, most: int, too_long: str, *, option: str, words: Sequence[str], parse: bool
) -> Feed:
    """Return a feed whose records have at most so many steps; of those that are longer their number is logged.

    Args:
        feed: the records.
        group: the alignment group whose lengths count, or several.
        most: steps.
        too_long: `error`, `drop`, `cut_end` or `cut_start`.
        option: what says how many steps there may be, and its value: `length=100`.
        words: of the strategy's `too_long`.
        parse: whether every record is parsed where no file of lengths tells its length; else it is left unchecked.

    Raises:
        OptionError: records are longer, and that is an error.
    """
    lengths = feed.length_counts(group, parse=parse)
    longer = None if lengths is None else lengths.longer(most)
    over = 0 if longer is None else longer.records
    if too_long == "error":
        if longer is not None and over:
            name = option.partition("=")[0]
            others = [f"too_long={word!r} {_WORDS[word]}" for word in words if word in _WORDS]
            raise OptionError(
                f"{option}: {over} records are longer than {most} steps, the longest has {longer.longest}; "
                f"raise {name}, or pass {' or '.join(others)}"
            )
        return feed
    if over:
        done = "left out" if too_long == "drop" else "cut"
        _LOG.warning("%s: %d records are longer than %d steps and %s", feed.origin.where, over, most, done)
    if too_long == "drop":
        return feed.leave_out_longer(group, most)
    return feed.crop(group, slice(most) if too_long == "cut_end" else slice(-most, None))
