"""What a serialized message is, when it may not be what the reader expects: looked at one at a time.

`SequenceExample.context` and `Example.features` share field number 1, so that the wrong parser reads the other message
without an error and finds it empty. That is told apart here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.codec.parsing_spec import require_bounds
from seqrecorder.errors import SchemaMismatchError, did_you_mean
from seqrecorder.schema.field import feature_names, value_features
from seqrecorder.wire.message_objects import message_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from seqrecorder.codec.parsing_spec import Layout
    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema

_SHOWN = 12
PEEKED = 8
"""How many records are looked at to detect a layout."""


def has_feature(message: Any, field: Field, layout: Layout) -> bool:
    """Whether a message holds the features of a field's values at all, be they empty."""
    return message is not None and all(name in _place(message, field, layout) for name in value_features(field))


def _place(message: Any, field: Field, layout: Layout) -> Any:
    """Return the features, or feature lists, among which a field is."""
    in_lists = field.is_list and layout != "example"
    return message.feature_lists.feature_list if in_lists else message.context.feature


def describe_message(data: bytes) -> str:
    """Return what a serialized message holds, in words for an error."""
    message = message_of(data)
    if message is None:
        return "the bytes are neither a SequenceExample nor an Example"
    context, lists = message.context.feature, message.feature_lists.feature_list
    if not context and not lists:
        return "the message is empty"
    if not lists:
        return f"the message has the context features {_names(context)} and no feature lists (a flat tf.train.Example?)"
    return f"the message has the context features {_names(context)} and the feature lists {_names(lists)}"


def _names(features: Any) -> str:
    names = sorted(features)
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "") if names else "(none)"


def detect_layout(samples: Sequence[bytes], schema: Schema, where: str) -> Layout:
    """Return how sequences lie in some serialized messages.

    Raises:
        SchemaMismatchError: the messages are of another kind, or lack fields of the schema.
        OptionError: the layout cannot be told.
    """
    found = [message_of(data) for data in samples]
    messages = [message for message in found if message is not None]
    if len(messages) < len(found):
        raise SchemaMismatchError(f"{where}: {describe_message(samples[found.index(None)])}")
    layout = likely_layout(messages, schema)
    check_layout(samples, schema, layout, where)
    return layout


def likely_layout(messages: Sequence[Any], schema: Schema) -> Layout:
    """Return the layout that some messages show, `steps` where they show none."""
    lists = [field for field in schema.fields if field.is_list]
    if lists and messages and not any(message.feature_lists.feature_list for message in messages):
        return "example"
    sizes = [size for message in messages for size in _sizes(message, lists)]
    is_packed = any(features == 1 and values > 1 for features, values in sizes)
    return "packed" if is_packed and all(features < 2 for features, _ in sizes) else "steps"  # noqa: PLR2004


def _sizes(message: Any, lists: Sequence[Field]) -> Iterator[tuple[int, float]]:
    """Yield the features, and the values in the first feature, of each feature list that can show packing."""
    for field in lists:
        held = message.feature_lists.feature_list.get(field.feature)
        if held is None or field.is_ragged or field.packed or field.sparse is not None:
            continue
        kind = held.feature[0].WhichOneof("kind") if held.feature else None
        if kind:
            items = getattr(held.feature[0], kind).value
            if field.buffered and kind == "bytes_list":
                yield len(held.feature), sum(map(len, items)) / (field.element.itemsize * field.count)
            else:
                yield len(held.feature), len(items) / (1 if field.in_items else field.count)


def check_layout(samples: Sequence[bytes], schema: Schema, layout: Layout, where: str) -> None:
    """Raise unless some serialized messages hold the required fields of a schema, in a layout.

    Raises:
        SchemaMismatchError: a required field is missing from all of them; the message says what there is.
        OptionError: ragged steps in a layout that cannot hold their bounds.
    """
    require_bounds(schema.fields, layout, f"{where}: ")
    messages = [message for message in map(message_of, samples) if message is not None]
    problems = []
    for field in schema.fields:
        if field.may_lack:
            continue
        in_lists = field.is_list and layout != "example"
        held = [_place(message, field, layout) for message in messages]
        for name in feature_names(field):
            if held and not any(name in features for features in held):
                everywhere = {key for m in messages for key in [*m.context.feature, *m.feature_lists.feature_list]}
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
