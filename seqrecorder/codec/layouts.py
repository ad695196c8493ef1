"""Detection of the layout of messages, and feature specs of each layout for TensorFlow's parser.

The messages are parsed in `parse` and `decode`.
"""

from __future__ import annotations

import contextlib
import re
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from seqrecorder.codec.graph_ops import wire_filler, wire_type
from seqrecorder.errors import OptionError, SchemaMismatchError, did_you_mean
from seqrecorder.schema.field import feature_names, value_features
from seqrecorder.wire.read import (
    ONE,
    TWO,
    WireError,
    delimited,
    feature_of,
    feature_values,
    message_spans,
    read_message,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema
    from seqrecorder.wire.read import FeatureSpans, Message

Spec = tuple[dict[str, Any], dict[str, Any]]
"""Feature specs for the parse op: mappings of name to spec, for context features and for feature lists."""

Layout = Literal["steps", "packed", "example"]
"""Layout of sequences in a message: one Feature per step (`steps`), one Feature for all steps (`packed`), or one
Feature of a flat `tf.train.Example` (`example`)."""


def require_bounds(fields: Iterable[Field], layout: Layout, where: str = "") -> None:
    """Raise `OptionError` if the layout cannot store the bounds of the steps of a field."""
    names = [field.name for field in fields if field.is_list and (field.is_ragged or field.sparse is not None)]
    if layout != "steps" and names:
        raise OptionError(
            f"{where}layout {layout!r} cannot hold the bounds of ragged or sparse steps ({', '.join(names)}); "
            "if there is one feature per step, say layout='steps'"
        )


class Specs:
    """Feature specs of one schema and layout.

    Args:
        schema: schema of the records.
        layout: layout of sequences in the messages.
        cropped: alignment groups whose sequences are cropped.
        flattened: names of fields to parse flat, even if the parse op could finish them.
    """

    def __init__(
        self, schema: Schema, layout: Layout, cropped: Container[str] = (), flattened: Container[str] = ()
    ) -> None:
        self.schema, self.cropped, self.flattened = schema, cropped, flattened
        self.layout: Layout = layout

    def padded_by_op(self, field: Field) -> bool:
        """Check whether the parse op itself pads a feature list."""
        by_step = field.is_list and self.layout == "steps" and not field.packed and field.name not in self.flattened
        return by_step and _in_shape(field) and not field.has_filling and field.group not in self.cropped

    def whole_by_op(self, field: Field) -> bool:
        """Check whether the parse op alone decodes a context field.

        The op then also fills in the default.
        """
        return not field.is_list and _in_shape(field) and not field.optional and field.name not in self.flattened

    def public(self) -> Spec:
        """Build the context and sequence features for TensorFlow's own parse functions."""
        import tensorflow as tf

        context, lists = self._build(lambda field: not field.is_list and _in_shape(field))
        # Use lists, so that specs can be compared; unlike arrays, they lose the bits of a signalling NaN.
        for name, spec in context.items():
            if isinstance(spec, tf.io.FixedLenFeature) and hasattr(spec.default_value, "tolist"):
                context[name] = spec._replace(default_value=spec.default_value.tolist())
        return context, lists

    def flat(self) -> Spec:
        """Build the features to parse every field flat."""
        return self._build(lambda _: False, padded=False)

    def batch(self) -> Spec:
        """Build the features to parse a padded batch.

        For speed, the parse op itself pads and completes as many fields as it can.
        """
        return self._build(self.whole_by_op)

    def _build(self, whole: Any, *, padded: bool = True) -> Spec:
        import tensorflow as tf

        context: dict[str, Any] = {}
        lists: dict[str, Any] = {}
        for field in self.schema.fields:
            target = lists if field.is_list and self.layout != "example" else context
            kind = wire_type(field)
            if field.sparse is not None:
                target[f"{field.feature}/indices"] = tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)
                target[f"{field.feature}/values"] = tf.io.RaggedFeature(kind, row_splits_dtype=tf.int64)
            elif whole(field):
                default = wire_filler(field) if field.may_lack else None
                target[field.feature] = tf.io.FixedLenFeature(field.rest, kind, default)
            elif padded and self.padded_by_op(field):
                target[field.feature] = tf.io.FixedLenSequenceFeature(field.rest, kind, allow_missing=field.may_lack)
            else:
                target[field.feature] = tf.io.RaggedFeature(kind, row_splits_dtype=tf.int64)
            if field.presence and self.layout == "steps":
                context[field.presence] = tf.io.FixedLenFeature((), tf.int64, -1)
        return context, lists


def _in_shape(field: Field) -> bool:
    return field.sparse is None and not field.is_ragged and not field.in_items


def gather_numbered(data: bytes, fields: Sequence[Field], layout: Layout) -> bytes:
    """Gather the numbered features of a message into lists, and add the lists to the message.

    A numbered feature contains one step of a field. The list of the field contains the steps in the order of their
    numbers.

    Args:
        data: serialized message; it is returned unchanged if it has no numbered features.
        fields: fields with `is_numbered`.
        layout: layout of the added list.

    Raises:
        WireError: `data` is not a message.
    """
    context, _ = message_spans(data)
    added = [data]
    for field in fields:
        name = numbered_names(field)
        matches = [(name.fullmatch(key), span) for key, span in context.items()]
        spans = [span for _, span in sorted((int(match[1]), span) for match, span in matches if match)]
        if not spans:
            continue
        features = [data[start:stop] for start, stop in spans]
        if layout != "steps":
            kind = "bytes" if field.in_items else field.element.wire
            payloads = [feature_values(data, *span, kind)[0] for span in spans]
            features = [feature_of(list(chain(*payloads)) if kind == "bytes" else b"".join(payloads), kind)]
        value = features[0] if layout == "example" else b"".join(delimited(ONE, feature) for feature in features)
        entry = delimited(ONE, delimited(ONE, field.feature.encode()) + delimited(TWO, value))
        added.append(delimited(ONE if layout == "example" else TWO, entry))
    return b"".join(added)


def numbered_names(field: Field) -> re.Pattern[bytes]:
    """Compile the pattern of the feature names of a numbered field.

    The only group of the pattern is the number.
    """
    before, _, after = field.feature.encode().partition(b"*")
    return re.compile(re.escape(before) + b"([0-9]+)" + re.escape(after))


_NAMES_SHOWN = 12
PEEKED = 8
"""Number of records read to detect a layout."""


def lacks_features(spans: tuple[FeatureSpans, FeatureSpans], field: Field, layout: Layout) -> bool:
    """Check whether a message lacks a feature that contains the values of a field.

    A feature without values counts as present.
    """
    context, lists = spans
    features = lists if field.is_list and layout != "example" else context
    return any(name.encode() not in features for name in value_features(field))


def describe_message(data: bytes) -> str:
    """Describe the features of a serialized message, for error messages."""
    try:
        context, lists = message_spans(data)
    except WireError:
        return "the bytes are neither a SequenceExample nor an Example"
    if not context and not lists:
        return "the message is empty"
    if not lists:
        names = _list_names(context)
        return f"the message has the context features {names} and no feature lists (a flat tf.train.Example?)"
    return f"the message has the context features {_list_names(context)} and the feature lists {_list_names(lists)}"


def _list_names(features: FeatureSpans) -> str:
    names = sorted(name.decode(errors="backslashreplace") for name in features)
    return ", ".join(names[:_NAMES_SHOWN]) + (", ..." if len(names) > _NAMES_SHOWN else "") if names else "(none)"


def detect_layout(samples: Sequence[bytes], schema: Schema, where: str) -> Layout:
    """Detect the layout of serialized messages.

    Raises:
        SchemaMismatchError: the messages are of a different kind, or lack fields of the schema.
        OptionError: the layout cannot store the bounds of ragged or sparse steps.
    """
    for data in samples:
        try:
            read_message(data)
        except WireError as error:
            raise SchemaMismatchError(f"{where}: {describe_message(data)}: {error}") from None
    layout = likely_layout(samples, schema)
    check_layout(samples, schema, layout, where)
    return layout


def likely_layout(samples: Sequence[bytes], schema: Schema) -> Layout:
    """Guess the layout of serialized messages.

    If the messages do not show their layout, the result is `steps`.
    """
    lists, messages = [field for field in schema.fields if field.is_list], _readable(samples)
    if lists and messages and not any(message.lists for message in messages):
        return "example"
    sizes = [size for message in messages for size in _sizes(message, lists)]
    is_packed = any(features == 1 and values > 1 for features, values in sizes)
    return "packed" if is_packed and all(features < 2 for features, _ in sizes) else "steps"  # noqa: PLR2004


def _readable(samples: Iterable[bytes], numbered: Sequence[Field] = (), layout: Layout = "steps") -> list[Message]:
    messages = []
    for data in samples:
        with contextlib.suppress(WireError):
            messages.append(read_message(gather_numbered(data, numbered, layout) if numbered else data))
    return messages


def _sizes(message: Message, lists: Sequence[Field]) -> Iterator[tuple[int, float]]:
    """Yield two sizes of each list that can show whether messages are packed.

    The first is the number of features in the list. The second is the number of steps that the first feature contains.
    """
    for field in lists:
        steps = message.lists.get(field.feature)
        if not steps or steps[0].kind is None or field.is_ragged or field.packed or field.sparse is not None:
            continue
        items = steps[0].values
        if field.buffered and steps[0].kind == "bytes":
            yield len(steps), sum(map(len, items)) / (field.element.itemsize * field.count)
        else:
            yield len(steps), len(items) / (1 if field.in_items else field.count)


def check_layout(samples: Sequence[bytes], schema: Schema, layout: Layout, where: str) -> None:
    """Check that serialized messages of a layout contain the required fields of a schema.

    Raises:
        SchemaMismatchError: a required field is missing from all messages; the error lists the missing features.
        OptionError: the layout cannot store the bounds of ragged or sparse steps.
    """
    require_bounds(schema.fields, layout, f"{where}: ")
    numbered = [field for field in schema.fields if field.is_numbered]
    messages, problems = _readable(samples, numbered, layout), []
    for field in schema.fields:
        if field.may_lack:
            continue
        in_lists = field.is_list and layout != "example"
        names = {name for message in messages for name in (message.lists if in_lists else message.context)}
        for name in feature_names(field):
            if messages and name not in names:
                everywhere = {name for message in messages for name in [*message.context, *message.lists]}
                hint = did_you_mean(name, everywhere - {name})
                if name in everywhere:
                    hint = f" (it is there as a {'context feature' if in_lists else 'feature list'})"
                problems.append(f"{field.name}: no {field.kind} {name!r}{hint}")
    if problems:
        raise SchemaMismatchError(
            f"{where} cannot be read as {schema.name}: {describe_message(samples[0])}; name the features as in the "
            "data (`name=`), or declare defaults or optional=True for:",
            problems,
        )
