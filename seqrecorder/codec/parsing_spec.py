"""Wire specs: what TensorFlow's parse ops are asked for, field by field.

The ops know float32, int64 and string. Fields that they can give as they are wanted, but for the dtype (one feature
per step or context value, of known shape, in a list that holds the type exactly), are asked for in their shape, which
is the fastest way; all others are asked for as `tf.io.RaggedFeature` and finished afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from seqrecorder.codec.graph_ops import wire_filler, wire_type
from seqrecorder.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema

Spec = tuple[dict[str, Any], dict[str, Any]]
"""What the op is asked for: context features and feature lists, by name."""

Layout = Literal["steps", "packed", "example"]
"""How sequences lie in a message: one Feature per step, the whole sequence in one Feature of its list, or in one
Feature of a flat `tf.train.Example`."""


def require_bounds(fields: Iterable[Field], layout: Layout, where: str = "") -> None:
    """Raise `OptionError` for steps whose bounds a layout cannot hold."""
    names = [field.name for field in fields if field.is_list and (field.is_ragged or field.sparse is not None)]
    if layout != "steps" and names:
        raise OptionError(
            f"{where}layout {layout!r} cannot hold the bounds of ragged or sparse steps ({', '.join(names)}); "
            "if there is one feature per step, say layout='steps'"
        )


class Specs:
    """The specs of one schema and layout.

    Args:
        schema: the fields.
        layout: how sequences lie in the messages.
        cropped: the alignment groups of whose sequences not all steps are wanted.
        flattened: the fields that are wanted flat, whatever the op could do.
    """

    def __init__(
        self, schema: Schema, layout: Layout, cropped: Container[str] = (), flattened: Container[str] = ()
    ) -> None:
        self.schema, self.cropped, self.flattened = schema, cropped, flattened
        self.layout: Layout = layout

    def padded_by_op(self, field: Field) -> bool:
        """Whether the op pads a feature list by itself."""
        by_step = field.is_list and self.layout == "steps" and not field.packed and field.name not in self.flattened
        return by_step and _in_shape(field) and not field.has_filling and field.group not in self.cropped

    def whole_by_op(self, field: Field) -> bool:
        """Whether the op gives a context field by itself, with its default in the records that lack it."""
        return not field.is_list and _in_shape(field) and not field.optional and field.name not in self.flattened

    def in_one_feature(self, field: Field) -> bool:
        """Whether a sequence is one Feature, or one to a FeatureList."""
        return self.layout != "steps" or field.packed

    def public(self) -> Spec:
        """Return context and sequence features for TensorFlow's own parse functions."""
        import tensorflow as tf

        context, lists = self._build(lambda field: not field.is_list and _in_shape(field))
        # Lists, so that specs can be compared; a signalling NaN survives in arrays only.
        for name, spec in context.items():
            if isinstance(spec, tf.io.FixedLenFeature) and hasattr(spec.default_value, "tolist"):
                context[name] = spec._replace(default_value=spec.default_value.tolist())
        return context, lists

    def flat(self) -> Spec:
        """Return the features that give every field flat."""
        return self._build(lambda _: False, padded=False)

    def batch(self) -> Spec:
        """Return the features of the fastest way to a padded batch."""
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
                target[field.feature] = strict_spec(field)
            elif padded and self.padded_by_op(field):
                target[field.feature] = tf.io.FixedLenSequenceFeature(field.rest, kind, allow_missing=field.may_lack)
            else:
                target[field.feature] = tf.io.RaggedFeature(kind, row_splits_dtype=tf.int64)
            if field.presence and self.layout == "steps":
                context[field.presence] = tf.io.FixedLenFeature((), tf.int64, -1)
        return context, lists


def strict_spec(field: Field) -> Any:
    """Return the spec of a context field of known shape by which the op refuses any other number of values."""
    import tensorflow as tf

    if field.in_items:
        return tf.io.FixedLenFeature((), tf.string, b"" if field.may_lack else None)
    return tf.io.FixedLenFeature(field.rest, wire_type(field), wire_filler(field) if field.may_lack else None)


def _in_shape(field: Field) -> bool:
    return field.sparse is None and not field.is_ragged and not field.in_items
