"""What `Pad`, `Bucket` and `TokenBudget` have in common: how the steps of their batches are filled up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import attrs

from seqrecorder.codec.graph_ops import checked
from seqrecorder.codec.padding import Padding, check_values
from seqrecorder.codec.parser import SEQUENCE_LENGTH
from seqrecorder.errors import OptionError
from seqrecorder.reading.batching.option_checks import EMPTY, NO_STEPS, check_choice, check_count
from seqrecorder.reading.elements import Carried

if TYPE_CHECKING:
    from collections.abc import Callable

    from seqrecorder.reading.strategy import Feed
    from seqrecorder.schema.schema import Schema

Side = Literal["right", "left"]
SIDES = ("right", "left")


def _multiple(value: Any) -> int:
    return check_count("pad_to_multiple_of", value)


@attrs.frozen(kw_only=True)
class PaddedBatches:
    """How the steps of batches are filled up; the attributes are described in `Pad`."""

    padding_values: Mapping[str, Any] = attrs.field(factory=dict)
    padding_side: Side | Mapping[str, Side] = "right"
    pad_to_multiple_of: int = attrs.field(default=1, converter=_multiple)
    empty: Literal["keep", "drop", "error"] = "keep"
    length_name: str = SEQUENCE_LENGTH
    mask_name: str | None = None

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.padding_values, Mapping):
            raise OptionError(f"padding_values: expected a mapping of fields to values, got {self.padding_values!r}")
        by_field = self.padding_side if isinstance(self.padding_side, Mapping) else {"": self.padding_side}
        for side in by_field.values():
            check_choice("padding_side", side, SIDES)
        check_choice("empty", self.empty, EMPTY)

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
